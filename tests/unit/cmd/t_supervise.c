/* SPDX-License-Identifier: Apache-2.0
 *
 * t_supervise.c - I5: what the supervisor of local ranks prints and returns, however its ranks end,
 * and that none is left. The supervisor runs in a process of its own; its output goes to memfds.
 */
#define _GNU_SOURCE
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <zeroth/boot.h>

#include "train/launcher.h"
#include "train/run/supervise.h"

#include <cmocka.h> /* last: it defines fail() */

struct shared {
	_Atomic int ready, pid[8], signal[8];
};

static struct shared *shared;

static void (*arranged)(void); /* in the supervisor, before it starts */
static char out[16384], err[16384];
static double took;

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void doze(int ms)
{
	nanosleep(&(struct timespec){ ms / 1000, ms % 1000 * 1000000L }, NULL);
}

static void slurp(int fd, char *text, size_t room)
{
	ssize_t n = pread(fd, text, room - 1, 0);
	text[n > 0 ? n : 0] = 0;
	close(fd);
}

/* Supervises n ranks; sends `sig` to the supervisor once all have said they are ready. Returns
 * wait's status. */
static int supervised(int n, int (*rank_main)(int, void *, struct zr_error *), int sig)
{
	int o = memfd_create("out", MFD_CLOEXEC), e = memfd_create("err", MFD_CLOEXEC), status;
	double start = now();
	memset(shared, 0, sizeof *shared);
	fflush(NULL);
	pid_t pid = fork();
	if (pid == 0) {
		alarm(30);
		dup2(o, STDOUT_FILENO);
		dup2(e, STDERR_FILENO);
		if (arranged)
			arranged();
		_exit(zr_supervise(n, rank_main, NULL));
	}
	while (sig && atomic_load(&shared->ready) < n)
		doze(5);
	if (sig)
		kill(pid, sig);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	took = now() - start;
	slurp(o, out, sizeof out);
	slurp(e, err, sizeof err);
	return status;
}

static int code_of(int n, int (*rank_main)(int, void *, struct zr_error *), int sig)
{
	int status = supervised(n, rank_main, sig);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

/* In a rank. */
static void here(int rank)
{
	atomic_store(&shared->pid[rank], getpid());
	atomic_fetch_add(&shared->ready, 1);
}

static void await_all(int n)
{
	while (atomic_load(&shared->ready) < n)
		doze(2);
}

static void assert_last_line(const char *want)
{
	size_t n = strlen(err);
	assert_true(n && err[n - 1] == '\n');
	err[n - 1] = 0;
	const char *last = strrchr(err, '\n');
	assert_string_equal(last ? last + 1 : err, want);
}

/* Z: a zombie, or nobody. */
static char state_of(pid_t pid)
{
	char path[64], state = 'Z';
	snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
	FILE *f = fopen(path, "r");
	if (f && fscanf(f, "%*d %*s %c", &state) != 1)
		state = 'Z';
	if (f)
		fclose(f);
	return state;
}

/* Reaped by the supervisor, or, where that has died, by whoever inherits orphans. */
static void assert_nobody_left(int n)
{
	for (int r = 0; r < n; r++)
		for (int i = 0;
		     atomic_load(&shared->pid[r]) && !kill(atomic_load(&shared->pid[r]), 0); i++) {
			if (state_of(atomic_load(&shared->pid[r])) == 'Z')
				break;
			assert_true(i < 400);
			doze(5);
		}
}

/* ---- tests ---- */

static int talk(int rank, void *arg, struct zr_error *why)
{
	(void)why;
	char fd[16];
	(void)arg;
	here(rank);
	await_all(3);
	printf("out of %d\n", rank);
	snprintf(fd, sizeof fd, "%s", getenv("ZEROTH_LOCAL_FD"));
	fprintf(stderr, "%s of %s%s\nlast", getenv("ZEROTH_LOCAL_RANK"),
		getenv("ZEROTH_LOCAL_WORLD"),
		lseek(atoi(fd), 0, SEEK_END) == ZR_LOCAL_BYTES ? "" : " no memory");
	return 0;
}

static void lines_are_tagged_and_only_rank_0_has_standard_output(void **state)
{
	(void)state;
	assert_int_equal(code_of(3, talk, 0), 0);
	assert_string_equal(out, "out of 0\n");
	for (int r = 0; r < 3; r++) {
		char want[64];
		snprintf(want, sizeof want, "rank %d: %d of 3\n", r, r);
		assert_non_null(strstr(err, want));
		snprintf(want, sizeof want, "rank %d: last\n", r);
		assert_non_null(strstr(err, want));
	}
}

static int shout(int rank, void *arg, struct zr_error *why)
{
	(void)why;
	(void)rank;
	(void)arg;
	for (int i = 0; i < 5000; i++)
		fputc('a' + i % 26, stderr);
	return 0;
}

/* Whether err has these letters of rank 0, and no other. */
static void assert_letters(int n)
{
	int letters = 0;
	for (char *line = strtok(err, "\n"); line; line = strtok(NULL, "\n")) {
		assert_memory_equal(line, "rank 0: ", 8);
		for (char *c = line + 8; *c; c++)
			assert_int_equal(*c, 'a' + letters++ % 26);
	}
	assert_int_equal(letters, n);
}

static void long_lines_are_cut_and_nothing_is_lost(void **state)
{
	(void)state;
	assert_int_equal(code_of(1, shout, 0), 0);
	assert_letters(5000);
}

/* The supervisor finds all at once: more than it reads at a time, and that the rank has ended. */
static int shout_unheard(int rank, void *arg, struct zr_error *why)
{
	pid_t me = getpid(), supervisor = getppid();
	if (fork() == 0) {
		close(STDERR_FILENO);
		while (state_of(me) != 'Z')
			doze(2);
		kill(supervisor, SIGCONT);
		_exit(0);
	}
	kill(supervisor, SIGSTOP);
	while (state_of(supervisor) != 'T')
		doze(2);
	return shout(rank, arg, why);
}

static void the_last_words_of_a_rank_are_not_lost(void **state)
{
	(void)state;
	assert_int_equal(code_of(1, shout_unheard, 0), 0);
	assert_letters(5000);
}

static int one_fails(int rank, void *arg, struct zr_error *why)
{
	(void)why;
	(void)arg;
	here(rank);
	await_all(4);
	if (rank == 2) {
		fprintf(stderr, "zeroth: the disk is full\n");
		return 5;
	}
	doze(60000);
	return 0;
}

static void a_failure_stops_the_others_and_is_named_last(void **state)
{
	(void)state;
	assert_int_equal(code_of(4, one_fails, 0), 5);
	assert_last_line("zeroth: rank 2 failed with code 5: zeroth: the disk is full");
	assert_true(took < 5);
	assert_nobody_left(4);
}

static int one_dies(int rank, void *arg, struct zr_error *why)
{
	(void)why;
	(void)arg;
	here(rank);
	await_all(3);
	if (rank == 1)
		raise(SIGKILL);
	doze(60000);
	return 0;
}

static void a_rank_that_died_by_a_signal_gives_code_4(void **state)
{
	(void)state;
	assert_int_equal(code_of(3, one_dies, 0), 4);
	assert_last_line("zeroth: rank 1 was killed by SIGKILL (Killed)");
	assert_true(took < 5);
	assert_nobody_left(3);
}

static int consequence_first(int rank, void *arg, struct zr_error *why)
{
	(void)why;
	(void)arg;
	signal(SIGTERM, SIG_IGN);
	here(rank);
	await_all(3);
	if (rank == 0)
		return 4;
	doze(rank == 1 ? 300 : 60000);
	return rank == 1 ? 2 : 0;
}

static void a_consequence_is_not_named_as_the_cause(void **state)
{
	(void)state;
	assert_int_equal(code_of(3, consequence_first, 0), 2);
	assert_last_line("zeroth: rank 1 failed with code 2");
	assert_true(took < 10); /* rank 2 had to be killed */
	assert_nobody_left(3);
}

/* Rank 2 fails a while after those who cannot go on without it, with the same exit code. */
static int cause_last(int rank, void *arg, struct zr_error *why)
{
	(void)arg;
	signal(SIGTERM, SIG_IGN);
	here(rank);
	await_all(4);
	if (rank != 2)
		return zr_exit_code(
			zr_err(why, ZR_EPEER, "[comm] rank 2 stopped: the disk is full"));
	doze(300);
	return zr_exit_code(zr_err(why, ZR_EIO, "the disk is full"));
}

static void who_failed_because_of_another_is_not_named(void **state)
{
	(void)state;
	assert_int_equal(code_of(4, cause_last, 0), 4);
	assert_string_equal(err, "zeroth: rank 2 failed with code 4: the disk is full\n");
}

static int all_alike(int rank, void *arg, struct zr_error *why)
{
	(void)arg;
	signal(SIGTERM, SIG_IGN);
	here(rank);
	await_all(4);
	doze((3 - rank) * 30); /* the last rank is the first to fail */
	return zr_exit_code(zr_err(why, ZR_EINVAL, "x.ini:3: heads = 3 does not divide width = 8"));
}

static void what_all_ranks_say_is_printed_once(void **state)
{
	(void)state;
	assert_int_equal(code_of(4, all_alike, 0), 2);
	assert_string_equal(err, "zeroth: rank 0 failed with code 2: x.ini:3: heads = 3 does not "
				 "divide width = 8\n");
}

static int some_differ(int rank, void *arg, struct zr_error *why)
{
	static const char *const text[] = { "ranks differ", "no file a", "no file b",
					    "no file a",    "no file b", "ranks differ" };
	(void)arg;
	signal(SIGTERM, SIG_IGN);
	here(rank);
	await_all(6);
	doze(rank == 3 ? 0 : 200);
	return zr_exit_code(zr_err(why, rank % 5 ? ZR_EIO : ZR_EPEER, "%s", text[rank]));
}

static void each_other_reason_is_printed_once(void **state)
{
	(void)state;
	assert_int_equal(code_of(6, some_differ, 0), 4);
	assert_string_equal(err, "rank 0: zeroth: ranks differ\nrank 2: zeroth: no file b\n"
				 "zeroth: rank 1 failed with code 4: no file a\n");
}

static int one_stops(int rank, void *arg, struct zr_error *why)
{
	(void)why;
	(void)arg;
	here(rank);
	await_all(2);
	if (rank == 1)
		raise(SIGSTOP);
	return 4;
}

static void a_stopped_rank_is_killed(void **state)
{
	(void)state;
	assert_int_equal(code_of(2, one_stops, 0), 4);
	assert_last_line("zeroth: rank 0 failed with code 4");
	assert_nobody_left(2);
}

static volatile sig_atomic_t got;

static void on_signal(int sig)
{
	got = sig;
}

static int until_signal(int rank, void *arg, struct zr_error *why)
{
	(void)why;
	(void)arg;
	signal(SIGTERM, on_signal);
	signal(SIGINT, on_signal);
	here(rank);
	while (!got)
		doze(2);
	doze(rank * 200); /* ranks end a step at different times */
	atomic_store(&shared->signal[rank], got);
	return 130;
}

static void signals_reach_every_rank(void **state)
{
	(void)state;
	static const int signals[] = { SIGTERM, SIGINT };
	for (int i = 0; i < 2; i++) {
		assert_int_equal(code_of(3, until_signal, signals[i]), 130);
		for (int r = 0; r < 3; r++)
			assert_int_equal(atomic_load(&shared->signal[r]), signals[i]);
		assert_string_equal(err, "");
	}
}

static void ignore_children(void)
{
	signal(SIGCHLD, SIG_IGN);
}

static atomic_int reaps;

static void *reap_all(void *unused)
{
	(void)unused;
	atomic_store(&reaps, 1);
	for (;;)
		if (waitpid(-1, NULL, 0) < 0)
			sched_yield();
	return NULL;
}

static void reap_beside(void)
{
	pthread_t thread;
	sigset_t all, old;
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, &old); /* signals are the supervisor's */
	pthread_create(&thread, NULL, reap_all, NULL);
	/* where a thread begins, a sanitizer holds the allocator's lock: a fork would keep it */
	while (!atomic_load(&reaps))
		sched_yield();
	sigprocmask(SIG_SETMASK, &old, NULL);
}

/* Who started the supervisor may ignore SIGCHLD, and then no child can be waited for. */
static void ends_that_nobody_is_told_of_are_ends(void **state)
{
	(void)state;
	static void (*const ways[])(void) = { ignore_children, reap_beside };
	for (int i = 0; i < 2; i++) {
		arranged = ways[i];
		assert_int_equal(code_of(3, talk, 0), 0);
		assert_int_equal(code_of(4, cause_last, 0), 4);
		assert_last_line("zeroth: rank 2 failed with code 4: the disk is full");
	}
	arranged = NULL;
}

static int forever(int rank, void *arg, struct zr_error *why)
{
	(void)why;
	(void)arg;
	here(rank);
	doze(60000);
	return 0;
}

static void ranks_die_with_their_supervisor(void **state)
{
	(void)state;
	assert_true(WIFSIGNALED(supervised(3, forever, SIGKILL)));
	assert_nobody_left(3);
}

static void another_launcher_is_noticed(void **state)
{
	(void)state;
	unsetenv("OMPI_COMM_WORLD_SIZE");
	unsetenv("SLURM_STEP_NUM_TASKS");
	setenv("SLURM_NTASKS", "4", 1); /* of a batch script */
	assert_null(zr_other_launcher());
	setenv("SLURM_STEP_NUM_TASKS", "1", 1);
	assert_null(zr_other_launcher());
	setenv("OMPI_COMM_WORLD_SIZE", "4", 1);
	assert_string_equal(zr_other_launcher(), "OMPI_COMM_WORLD_SIZE=4");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lines_are_tagged_and_only_rank_0_has_standard_output),
		cmocka_unit_test(long_lines_are_cut_and_nothing_is_lost),
		cmocka_unit_test(the_last_words_of_a_rank_are_not_lost),
		cmocka_unit_test(a_failure_stops_the_others_and_is_named_last),
		cmocka_unit_test(a_rank_that_died_by_a_signal_gives_code_4),
		cmocka_unit_test(a_consequence_is_not_named_as_the_cause),
		cmocka_unit_test(who_failed_because_of_another_is_not_named),
		cmocka_unit_test(what_all_ranks_say_is_printed_once),
		cmocka_unit_test(each_other_reason_is_printed_once),
		cmocka_unit_test(a_stopped_rank_is_killed),
		cmocka_unit_test(signals_reach_every_rank),
		cmocka_unit_test(ends_that_nobody_is_told_of_are_ends),
		cmocka_unit_test(ranks_die_with_their_supervisor),
		cmocka_unit_test(another_launcher_is_noticed),
	};

	/* who runs the tests in the background may ignore it, and a training leaves it so */
	signal(SIGINT, SIG_DFL);
	shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	if (shared == MAP_FAILED)
		return 99;
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
