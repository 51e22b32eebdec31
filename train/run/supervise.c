/* SPDX-License-Identifier: Apache-2.0
 *
 * supervise.c - see supervise.h.
 *
 * One thread, one poll: a signalfd, and a pipe per rank. The first rank to be reaped with a failure
 * is the cause, except that "another rank failed" is a cause only if nothing better explains the
 * end. A rank says why it failed in memory that it shares with the supervisor.
 */
#include "train/run/supervise.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zeroth/boot.h>

#include "core/base/child.h"
#include "core/session.h"
#include "train/run/crash.h"
#include "train/run/oom.h"
#include "train/run/outlet.h"
#include "train/run/signals.h"

#define LINE     2048
#define PATIENCE 3.0        /* seconds from SIGTERM to SIGKILL */
#define ERASE    "\r\033[K" /* rank 0's progress may stand on the terminal's last line */

struct child {
	pid_t pid;       /* 0: it has ended */
	int out;         /* its standard error, -1 once it is closed */
	int status;      /* of waitpid */
	int order;       /* 1 for the first rank that failed; 0: it did not fail by itself */
	int oom;         /* the kernel killed something for memory before it was reaped */
	size_t used;     /* bytes of `line` */
	char line[LINE]; /* being received */
	char last[LINE]; /* the last complete line */
};

struct crew {
	struct child *child;
	/* [n] why each rank ended, which it writes as it ends; code 0 if a signal killed it */
	struct zr_error *why;
	volatile char *ended; /* [n] whether it ended as intended; also shared */
	int n, running, failed;
	int area;        /* memfd */
	int signals;     /* signalfd */
	int terminal;    /* standard error is one */
	int interrupted; /* the first signal that the supervisor got, which ends all ranks */
	double since;    /* when that was */
	/* a rank has ended for this signal, perhaps before the others got it: they then report that
	 * a rank is missing */
	int early;
	double stop_at; /* when SIGTERM was sent, 0: not yet */
	int killed;     /* SIGKILL was sent as well */
	const struct zr_crew_how *how;
	uint64_t beat;         /* the last value of *watch.beat */
	double beat_at;        /* when that changed */
	int stalled;           /* that did not change for too long */
	long long ooms;        /* the count of oom.h at the start */
	struct pollfd *polled; /* [n + 1] */
	sigset_t old;
	void (*old_pipe)(int), (*old_child)(int);
};

/* ---- a rank ---------------------------------------------------------------------- */

static int set_number(const char *name, int v)
{
	char text[16];
	snprintf(text, sizeof text, "%d", v);
	return setenv(name, text, 1);
}

/* Tells boot which rank this process is. Not 0: out of memory. */
static int set_place(const struct crew *s, int rank)
{
	const struct zr_crew_how *how = s->how;
	if (!how->world)
		return set_number("ZEROTH_LOCAL_RANK", rank) ||
		       set_number("ZEROTH_LOCAL_WORLD", s->n) ||
		       set_number("ZEROTH_LOCAL_FD", s->area);

	return set_number("RANK", how->first + rank) || set_number("WORLD_SIZE", how->world) ||
	       set_number("LOCAL_RANK", rank) || set_number("LOCAL_WORLD_SIZE", s->n);
}

/* In the child. Not 0: out of memory. */
static int become_rank(struct crew *s, int rank, int err, pid_t parent)
{
	const int is_silent = s->how->first + rank > 0;
	int null = is_silent ? open("/dev/null", O_RDWR) : -1;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(4); /* the supervisor died before the line above */
	signal(SIGPIPE, s->old_pipe);
	signal(SIGCHLD, s->old_child);
	sigprocmask(SIG_SETMASK, &s->old, NULL);
	if (null >= 0) {
		dup2(null, STDIN_FILENO);
		dup2(null, STDOUT_FILENO);
		close(null);
	}

	dup2(err, STDERR_FILENO);
	close(err);
	zr_outlet_leave(STDERR_FILENO);
	if (is_silent)
		zr_outlet_leave(STDOUT_FILENO);
	close(s->signals);
	for (int i = 0; i < rank; i++)
		close(s->child[i].out);
	return set_place(s, rank);
}

/* A full disk or a closed pipe must not look like success, nor like a death. */
static int flushed(int code, struct zr_error *why)
{
	const char *lost = zr_outlet_flush();
	if (!lost || code)
		return code;
	return zr_exit_code(zr_err(why, ZR_EIO, "standard output: %s", lost));
}

static int start(struct crew *s, int rank, int (*rank_main)(int, void *, struct zr_error *),
		 void *arg)
{
	struct zr_error why = { 0 };
	pid_t parent = getpid();
	int ends[2];

	if (pipe2(ends, O_CLOEXEC))
		return -1;

	zr_outlet_push(); /* otherwise the child would print buffered text again */
	pid_t pid = fork();
	if (pid == 0) {
		close(ends[0]);
		int lost = become_rank(s, rank, ends[1], parent);
		zr_crash_watch(&s->why[rank]);
		if (lost)
			zr_err(&why, ZR_ENOMEM, "out of memory at the start of a rank");
		int code = lost ? 4 : flushed(rank_main(s->how->first + rank, arg, &why), &why);
		zr_crash_unwatch();
		s->why[rank] = why;
		s->ended[rank] = 1;
		exit(code);
	}

	close(ends[1]);
	s->child[rank].out = ends[0];
	s->child[rank].pid = pid > 0 ? pid : 0;
	s->running += pid > 0;
	return pid < 0 ? -1 : 0;
}

/* ---- lines ----------------------------------------------------------------------- */

static void print_line(const struct crew *s, int rank, const char *line)
{
	char text[LINE + 64];
	int n = snprintf(text, sizeof text, "%srank %d: %s\n", s->terminal ? ERASE : "",
			 s->how->first + rank, line);
	fwrite(text, 1, (size_t)n, stderr);
}

static void end_line(struct crew *s, int rank)
{
	struct child *c = &s->child[rank];

	if (!c->used)
		return;

	c->line[c->used] = 0;
	c->used = 0;
	memcpy(c->last, c->line, sizeof c->last);
	print_line(s, rank, c->line);
}

/* Reads what there is. A line that is too long becomes two. */
static void receive(struct crew *s, int rank)
{
	struct child *c = &s->child[rank];
	char in[4096];

	ssize_t n = read(c->out, in, sizeof in);
	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return;

	for (ssize_t i = 0; i < n; i++) {
		if (in[i] == '\n' || c->used == LINE - 1)
			end_line(s, rank);
		if (in[i] != '\n')
			c->line[c->used++] = in[i];
	}

	if (n <= 0) {
		end_line(s, rank);
		close(c->out);
		c->out = -1;
	}
}

/* Reads what the rank wrote before it ended. It does not wait for the end of the pipe, which a
 * child of the rank may hold open. */
static void drain(struct crew *s, int rank)
{
	struct child *c = &s->child[rank];
	struct pollfd p = { c->out, POLLIN, 0 };
	while (c->out >= 0 && poll(&p, 1, 0) > 0)
		receive(s, rank);
	end_line(s, rank);
}

/* ---- ends ------------------------------------------------------------------------ */

static void tell_all(struct crew *s, int sig)
{
	for (int i = 0; i < s->n; i++)
		if (s->child[i].pid)
			kill(s->child[i].pid, sig);
}

static void stop_others(struct crew *s)
{
	if (s->stop_at)
		return;

	s->stop_at = zr_now();
	tell_all(s, SIGTERM);
}

/* Forwards a signal to the ranks, which may have got it themselves, as all processes of a terminal
 * or a job do. */
static void pass_on(struct crew *s, int sig)
{
	s->interrupted = sig;
	s->since = zr_now();
	for (int i = 0; i < s->n; i++)
		if (s->child[i].pid)
			sigqueue(s->child[i].pid, sig, (union sigval){ 0 });
}

/* Whether a rank has ended because a signal asked it to, perhaps one that came before it could take
 * signals. */
static int was_asked(int status)
{
	const int sig = WIFEXITED(status) ? 0 : WTERMSIG(status);
	return sig ? sig == SIGINT || sig == SIGTERM || sig == SIGHUP : WEXITSTATUS(status) == 130;
}

static int is_failure(struct crew *s, int rank, int status)
{
	const int sig = WIFEXITED(status) ? 0 : WTERMSIG(status), asked = was_asked(status);

	if (s->why[rank].code)
		return 1;

	s->early |= asked && s->interrupted && !s->stop_at;
	if ((asked && (s->interrupted || s->stop_at)) || (sig && s->killed))
		return 0; /* the supervisor has killed it */
	return sig || WEXITSTATUS(status);
}

static void ended(struct crew *s, int rank, int status)
{
	struct child *c = &s->child[rank];

	c->pid = 0;
	c->status = status;
	c->oom = zr_oom_kills("") > s->ooms;
	s->running--;
	drain(s, rank);
	if (was_asked(status) && !s->interrupted && !s->stop_at)
		pass_on(s, SIGTERM); /* another process asked this rank to end: all ranks end */
	if (WIFEXITED(status) && !WEXITSTATUS(status) && !s->ended[rank])
		zr_err(&s->why[rank], ZR_EINTERNAL,
		       "its process ended with status 0 before the training did, by no call that "
		       "can be seen; "
		       "a plugin must have done that");
	if (is_failure(s, rank, status)) {
		c->order = ++s->failed;
		stop_others(s);
	}
}

/* The status of a rank that ended unseen, by what it wrote as it ended. */
static int reported(const struct crew *s, int rank)
{
	const int code = zr_exit_code(s->why[rank].code);
	if (s->ended[rank])
		return W_EXITCODE(code, 0);
	return ZR_CHILD_UNKNOWN;
}

static void reap(struct crew *s)
{
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
		for (int i = 0; i < s->n; i++)
			if (s->child[i].pid == pid)
				ended(s, i, status);
	if (pid == 0 || errno != ECHILD)
		return;

	/* another has reaped these, so that nothing may be sent to their numbers any more */
	s->killed = s->running;
	if (s->running && !s->stop_at)
		s->stop_at = zr_now();
	for (int i = 0; i < s->n; i++)
		if (s->child[i].pid)
			ended(s, i, reported(s, i));
}

static void kill_all(struct crew *s)
{
	s->killed = 1;
	tell_all(s, SIGKILL);
}

static void take_signals(struct crew *s)
{
	struct signalfd_siginfo in;

	while (read(s->signals, &in, sizeof in) == sizeof in) {
		if (in.ssi_signo == SIGCHLD)
			continue;
		if (!s->interrupted)
			pass_on(s, (int)in.ssi_signo);
		else if (in.ssi_signo != SIGHUP && zr_now() - s->since > ZR_SIGNAL_MOMENT)
			kill_all(s);
	}

	reap(s);
}

/* Makes ranks that make no progress show their stacks, for which they have PATIENCE. */
static void check_beat(struct crew *s)
{
	uint64_t beat = s->how->watchdog > 0 ? atomic_load(s->how->beat) : 0;
	if (beat != s->beat || s->beat_at <= 0) {
		s->beat = beat;
		s->beat_at = zr_now();
	}

	if (s->how->watchdog <= 0 || s->stop_at || zr_now() - s->beat_at < s->how->watchdog)
		return;

	s->stalled = 1;
	s->stop_at = zr_now();
	tell_all(s, ZR_SIGNAL_STACKS);
}

/* Returns 0 once all ranks have ended, or an errno if they cannot be watched. */
static int watch(struct crew *s)
{
	struct pollfd *p = s->polled;

	while (s->running) {
		p[s->n] = (struct pollfd){ s->signals, POLLIN, 0 };
		for (int i = 0; i < s->n; i++)
			p[i] = (struct pollfd){ s->child[i].out, POLLIN, 0 };
		int timed = (s->stop_at && !s->killed) || s->how->watchdog > 0;
		if (poll(p, (nfds_t)s->n + 1, timed ? 100 : -1) < 0 && errno != EINTR)
			return errno;

		for (int i = 0; i < s->n; i++)
			if (p[i].revents)
				receive(s, i);
		if (p[s->n].revents)
			take_signals(s);
		check_beat(s);
		if (s->stop_at && !s->killed && zr_now() - s->stop_at >= PATIENCE)
			kill_all(s);
	}

	return 0;
}

/* Ends ranks that cannot be watched any more. */
static void end_unwatched(struct crew *s)
{
	int status;
	kill_all(s);
	for (int i = 0; i < s->n; i++)
		if (s->child[i].pid)
			zr_child_wait(s->child[i].pid, &status);
}

/* Whether the end of a rank may be only the consequence of another rank's end. */
static int is_weak(const struct crew *s, int rank)
{
	const struct child *c = &s->child[rank];
	if (s->why[rank].code)
		return s->why[rank].code == ZR_EPEER;
	return WIFEXITED(c->status) && WEXITSTATUS(c->status) == 4;
}

static int says_same(const struct crew *s, int a, int b)
{
	return s->why[a].code && s->why[b].code && !strcmp(s->why[a].text, s->why[b].text);
}

/* The rank that failed first, the lowest of those that give its reason; or -1. */
static int culprit(const struct crew *s)
{
	int best = -1;

	for (int i = 0; i < s->n; i++) {
		int sooner = best < 0 || is_weak(s, i) < is_weak(s, best) ||
			     (is_weak(s, i) == is_weak(s, best) &&
			      s->child[i].order < s->child[best].order);
		if (s->child[i].order && sooner)
			best = i;
	}

	for (int i = 0; i < best; i++)
		if (says_same(s, i, best))
			return i;
	return best;
}

/* Prints what other ranks say, each text once, without those that only quote the rank that
 * failed. */
static void print_others(const struct crew *s, int first)
{
	char text[sizeof s->why->text + 16];

	for (int i = 0; i < s->n; i++) {
		int said = !s->why[i].code || says_same(s, i, first) ||
			   (is_weak(s, i) && s->why[first].code &&
			    strstr(s->why[i].text, s->why[first].text));
		for (int k = 0; !said && k < i; k++)
			said = says_same(s, k, i);
		snprintf(text, sizeof text, "zeroth: %s", s->why[i].text);
		if (!said)
			print_line(s, i, text);
	}
}

/* Whether a restart may help: not if a rank itself reported a failure. */
static int is_death(const struct crew *s, int rank)
{
	int code = s->why[rank].code;
	return !code || code == ZR_EPEER || code == ZR_EINTERNAL || code == ZR_ENOMEM;
}

static int explain(const struct crew *s, struct zr_crew_end *end)
{
	int rank = culprit(s);
	end->interrupted = s->interrupted;
	if (s->stalled && (rank < 0 || is_weak(s, rank))) {
		end->died = 1;
		snprintf(end->text, sizeof end->text,
			 "no rank got on for %g s: their stacks are above", s->how->watchdog);
		return 4;
	}

	if (rank < 0 || (s->early && is_weak(s, rank)))
		return s->interrupted ? 130 : 0;

	const struct child *c = &s->child[rank];
	const char *text = s->why[rank].code ? s->why[rank].text : c->last;
	char name[128];
	int code = 4;
	if (s->why[rank].code)
		code = zr_exit_code(s->why[rank].code);
	else if (WIFEXITED(c->status))
		code = WEXITSTATUS(c->status);
	print_others(s, rank);
	fputs(s->terminal ? ERASE : "", stderr);
	end->died = is_death(s, rank);
	end->weak = is_weak(s, rank);
	const int number = s->how->first + rank;
	if (s->why[rank].code || WIFEXITED(c->status))
		snprintf(end->text, sizeof end->text, "rank %d failed with code %d%s%.1024s",
			 number, code, *text ? ": " : "", text);
	else if (WTERMSIG(c->status) == SIGKILL && c->oom)
		snprintf(end->text, sizeof end->text,
			 "rank %d was killed by the kernel: out of memory", number);
	else
		snprintf(end->text, sizeof end->text, "rank %d was killed by %s%.1024s", number,
			 zr_signal_text(WTERMSIG(c->status), name, sizeof name), s->why[rank].text);
	return code;
}

/* ---- life ------------------------------------------------------------------------ */

/* The memfd in which the ranks meet, or -1: see include/zeroth/boot.h. */
static int make_area(int ranks)
{
	const struct zr_local_head head = { .magic = ZR_LOCAL_MAGIC, .world = ranks };
	struct rlimit limit;

	/* beyond it, ftruncate would raise SIGXFSZ */
	if (!getrlimit(RLIMIT_FSIZE, &limit) && limit.rlim_cur < ZR_LOCAL_BYTES) {
		errno = EFBIG;
		return -1;
	}

	int fd = memfd_create("zeroth-boot", MFD_ALLOW_SEALING);
	if (fd < 0)
		return -1;
	if (!ftruncate(fd, ZR_LOCAL_BYTES) && pwrite(fd, &head, sizeof head, 0) == sizeof head &&
	    !fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))
		return fd;

	int why = errno;
	close(fd);
	errno = why;
	return -1;
}

static int prepare(struct crew *s)
{
	sigset_t ours;

	zr_signals_of_end(&ours);
	sigaddset(&ours, SIGCHLD);
	sigprocmask(SIG_BLOCK, &ours, &s->old);
	/* nobody may read the lines of the ranks any more */
	s->old_pipe = signal(SIGPIPE, SIG_IGN);
	s->old_child = signal(SIGCHLD, SIG_DFL); /* the end of an ignored child cannot be seen */
	for (int i = 0; s->child && i < s->n; i++)
		s->child[i].out = -1;
	s->signals = signalfd(-1, &ours, SFD_CLOEXEC | SFD_NONBLOCK);
	s->terminal = isatty(STDERR_FILENO);
	s->ooms = zr_oom_kills("");
	void *m = mmap(NULL, (size_t)s->n * (sizeof *s->why + 1), PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	s->why = m == MAP_FAILED ? NULL : m;
	s->ended = (char *)(s->why + s->n);
	if (!s->child || !s->why || s->signals < 0)
		return -1;

	s->area = make_area(s->n); /* last: errno says why there is none */
	return s->area < 0 ? -1 : 0;
}

static void finish(struct crew *s)
{
	for (int i = 0; s->child && i < s->n; i++)
		if (s->child[i].out >= 0)
			close(s->child[i].out);
	if (s->signals >= 0)
		close(s->signals);
	if (s->area >= 0)
		close(s->area);
	signal(SIGPIPE, s->old_pipe);
	signal(SIGCHLD, s->old_child);
	sigprocmask(SIG_SETMASK, &s->old, NULL);
	if (s->why)
		munmap(s->why, (size_t)s->n * (sizeof *s->why + 1));
	free(s->polled);
	free(s->child);
}

#define FILES_OF_RANK 24 /* that a rank opens beside one for each other rank */

/* Files that the supervisor or a rank, which has one of each other rank, will have open. */
static uint64_t files_needed(int n)
{
	return (uint64_t)n + FILES_OF_RANK;
}

static void cannot_start(int n, int no, char *text, size_t room)
{
	struct rlimit lim;
	int used = snprintf(text, room, "cannot start %d rank%s: ", n, n == 1 ? "" : "s");

	text += used;
	room -= (size_t)used;
	if (no == EMFILE && !getrlimit(RLIMIT_NOFILE, &lim))
		snprintf(text, room,
			 "a process may open %llu files here, and %llu are needed: "
			 "raise ulimit -n",
			 (unsigned long long)lim.rlim_cur, (unsigned long long)files_needed(n));
	else if (no == EAGAIN && !getrlimit(RLIMIT_NPROC, &lim))
		snprintf(text, room,
			 "%s: a user may have %llu processes and threads here (ulimit "
			 "-u), a control group fewer (pids.max)",
			 strerror(no), (unsigned long long)lim.rlim_cur);
	else if (no == EFBIG)
		snprintf(text, room,
			 "they share files of more than ulimit -f allows: raise it "
			 "(ulimit -f unlimited)");
	else
		snprintf(text, room, "%s", strerror(no));
}

/* Not 0: errno says why no rank should be started. */
static int check_files(int n)
{
	struct rlimit lim;
	if (getrlimit(RLIMIT_NOFILE, &lim) || lim.rlim_cur >= files_needed(n))
		return 0;

	errno = EMFILE;
	return -1;
}

int zr_supervise_crew(const struct zr_crew_how *how, struct zr_crew_end *end)
{
	int n = how->n;
	struct crew s = { .child = calloc((size_t)n, sizeof *s.child),
			  .polled = calloc((size_t)n + 1, sizeof *s.polled),
			  .n = n,
			  .area = -1,
			  .signals = -1,
			  .how = how };
	int code = 4, rc = s.polled ? prepare(&s) : -1;

	if (!rc)
		rc = check_files(n);
	*end = (struct zr_crew_end){ .left = n, .code = -1 };
	for (int i = 0; rc == 0 && i < n; i++)
		rc = start(&s, i, how->rank_main, how->arg);
	if (rc) {
		cannot_start(n, errno, end->text, sizeof end->text);
		stop_others(&s);
	}

	int no = s.polled ? watch(&s) : 0;
	if (no) {
		end_unwatched(&s);
		snprintf(end->text, sizeof end->text, "cannot watch the ranks: %s%s", strerror(no),
			 no == EINVAL ? ": the limit of open files (ulimit -n) was lowered" : "");
	} else if (!rc) {
		code = explain(&s, end);
	}
	end->code = code; /* before signals may end this process again */
	finish(&s);
	return code;
}

int zr_supervise(int n, int (*rank_main)(int rank, void *arg, struct zr_error *why), void *arg)
{
	struct zr_crew_end end;
	int code = zr_supervise_crew(
		&(struct zr_crew_how){ .n = n, .rank_main = rank_main, .arg = arg }, &end);

	if (*end.text)
		fprintf(stderr, "zeroth: %s\n", end.text);
	return code;
}
