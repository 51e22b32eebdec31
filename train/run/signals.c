/* SPDX-License-Identifier: Apache-2.0
 *
 * signals.c - see signals.h.
 *
 * When a rank has failed, the supervisor sends the others SIGTERM by kill(); signals that it got
 * itself it forwards by sigqueue(). A rank that is starting ends at once only on a forwarded one:
 * it may be about to report a failure of its own. Only the supervisor decides that a second signal
 * ends all at once; in a rank a forwarded signal never does, however late it comes.
 */
#include "train/run/signals.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "train/run/crash.h"
#include "train/run/outlet.h"

static const int ends[] = { SIGINT, SIGTERM, SIGHUP };
#define N_ENDS (sizeof ends / sizeof *ends)

static volatile sig_atomic_t caught, deferred, silent;
static _Atomic int64_t since; /* when it was caught, in nanoseconds */
static pid_t supervisor;      /* 0: none */

static int64_t now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static void note(int sig)
{
	if (caught)
		return;

	atomic_store(&since, now_ns());
	caught = sig;
}

/* Runs in a signal handler. */
static void end_now(int sig)
{
	static const char text[] = " before the first step: nothing is saved\n";

	zr_crash_unwatch();
	const char *name = "zeroth: SIGHUP";
	if (sig == SIGINT)
		name = "zeroth: SIGINT";
	else if (sig == SIGTERM)
		name = "zeroth: SIGTERM";
	if (!silent) {
		zr_outlet_say(name);
		zr_outlet_say(text);
	}

	_exit(130);
}

static void on_signal(int sig, siginfo_t *info, void *context)
{
	int saved = errno,
	    forwarded = supervisor && info->si_pid == supervisor && info->si_code <= 0;

	(void)context;
	if (!deferred && !(forwarded && info->si_code == SI_USER))
		end_now(sig);
	if (caught && sig != SIGHUP && !forwarded &&
	    (double)(now_ns() - atomic_load(&since)) * 1e-9 > ZR_SIGNAL_MOMENT) {
		signal(sig, SIG_DFL);
		raise(sig); /* it takes effect when the handler returns */
	}

	note(sig);
	errno = saved;
}

/* A handler, unlike SIG_IGN, is not inherited by programs that are started. */
static void do_nothing(int sig)
{
	(void)sig;
}

static int is_ignored(int sig)
{
	struct sigaction now;
	return !sigaction(sig, NULL, &now) && now.sa_handler == SIG_IGN;
}

void zr_signals_start(void)
{
	static const int needed[] = { SIGCHLD, SIGALRM, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT };
	sigset_t none;

	for (size_t i = 0; i < sizeof needed / sizeof *needed; i++)
		if (is_ignored(needed[i]))
			signal(needed[i], SIG_DFL);
	/* what makes a file larger than is allowed fails, and says so */
	sigaction(SIGXFSZ, &(struct sigaction){ .sa_handler = do_nothing }, NULL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

void zr_signals_handle(int sig, const struct sigaction *act)
{
	if (!is_ignored(sig))
		sigaction(sig, act, NULL);
}

void zr_signals_of_end(sigset_t *set)
{
	sigemptyset(set);
	for (size_t i = 0; i < N_ENDS; i++)
		if (!is_ignored(ends[i]))
			sigaddset(set, ends[i]);
}

void zr_signals_begin(void)
{
	struct sigaction sa = { .sa_sigaction = on_signal, .sa_flags = SA_RESTART | SA_SIGINFO };
	const char *rank = getenv("ZEROTH_LOCAL_RANK");
	sigset_t set;

	caught = deferred = 0;
	silent = rank && strcmp(rank, "0");
	supervisor = rank ? getppid() : 0;
	zr_signals_of_end(&set);
	sa.sa_mask = set;
	for (size_t i = 0; i < N_ENDS; i++)
		sigaction(ends[i], sigismember(&set, ends[i]) ? &sa : NULL, NULL);
	sigaction(SIGPIPE, &(struct sigaction){ .sa_handler = do_nothing, .sa_flags = SA_RESTART },
		  NULL);
	/* the error of the last write */
	sigaction(SIGXFSZ, &(struct sigaction){ .sa_handler = SIG_IGN }, NULL);
}

void zr_signals_defer(void)
{
	deferred = 1;
}

int zr_signals_caught(void)
{
	return caught;
}

/* A terminal that is gone does not end the training: who outlives it is meant to. */
static int nobody_reads(int fd)
{
	struct pollfd p = { .fd = fd };
	struct stat st;
	return !fstat(fd, &st) && (S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode)) &&
	       poll(&p, 1, 0) > 0 && p.revents & (POLLERR | POLLHUP);
}

void zr_signals_flush(FILE *out)
{
	/* that of outlet.h has no number of its own */
	const int fd = fileno(out) < 0 ? STDOUT_FILENO : fileno(out);
	if ((!fflush(out) && !ferror(out)) || !nobody_reads(fd))
		return;

	int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
	if (null >= 0 && dup2(null, fd) >= 0) {
		zr_outlet_close(fd);
		clearerr(out);
	}

	if (null >= 0)
		close(null);
	note(SIGPIPE);
}
