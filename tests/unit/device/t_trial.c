/* SPDX-License-Identifier: Apache-2.0
 *
 * t_trial.c - the trial of kernels that device/cuda begins with, by the program cuda-trial and a
 * plugin of the test's, tests/doubles/trial.c: kernels that agree, differ, crash or hang.
 */
#include "plugins/device/cuda/trial.h"
#include "tests/lib/testhost.h"

#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { AGREES, DIFFERS, CRASHES, HANGS, HANGS_QUIETLY, COMPARES_NOTHING, SAYS_SIGNALS, EXITS };

#define LONG  60 /* seconds: none of these trials needs them */
#define SHORT 0.2

static char program[4096], plugin[4096];

static struct cuda_trial trial(int gpu, double seconds)
{
	return (struct cuda_trial){ .program = program,
				    .plugin = plugin,
				    .name = "NVIDIA H200",
				    .gpu = gpu,
				    .capability = 90,
				    .seconds = seconds };
}

/* The failure says `part`, and what to do instead. */
static void assert_refused(const struct cuda_trial *t, const char *part)
{
	struct zr_host *h = test_host(1);
	char text[CUDA_TRIAL_TEXT];

	assert_int_not_equal(cuda_trial(h, t, text), ZR_OK);
	assert_int_equal(test_errors(h), 1);
	if (!strstr(test_error(h), part))
		fail_msg("\"%s\" is not in: %s", part, test_error(h));
	assert_non_null(strstr(test_error(h), "attention = hopper: "));
	assert_non_null(strstr(test_error(h), "attention = generic"));
	test_host_free(h);
}

static void assert_passed(const struct cuda_trial *t, const char *text)
{
	struct zr_host *h = test_host(1);
	char said[CUDA_TRIAL_TEXT];

	if (cuda_trial(h, t, said))
		fail_msg("%s", test_error(h));
	assert_string_equal(said, text);
	test_host_free(h);
}

/* No process is left behind. */
static void assert_no_children(void)
{
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
}

static void kernels_that_agree_are_used(void **state)
{
	const struct cuda_trial t = trial(AGREES, LONG);
	(void)state;
	assert_passed(&t, "all agree");
	assert_no_children();
}

static void kernels_that_differ_are_refused(void **state)
{
	const struct cuda_trial t = trial(DIFFERS, LONG);
	(void)state;
	assert_refused(&t, "GPU 1, NVIDIA H200, its kernels failed their trial: dq differs");
	assert_no_children();
}

static void a_trial_that_crashes_is_refused(void **state)
{
	const struct cuda_trial t = trial(CRASHES, LONG), silent = trial(EXITS, LONG);
	(void)state;
	assert_refused(&t, "ended by signal 11, Segmentation fault");
	assert_refused(&silent, "it did not say why");
	assert_no_children();
}

static void a_trial_that_hangs_is_killed(void **state)
{
	const struct cuda_trial t = trial(HANGS, SHORT), quiet = trial(HANGS_QUIETLY, SHORT);
	(void)state;
	assert_refused(&t, "did not end in 0.2 s;");
	assert_refused(&quiet, "did not end in 0.2 s;");
	assert_no_children();
}

static void a_trial_of_nothing_is_refused(void **state)
{
	const struct cuda_trial t = trial(COMPARES_NOTHING, LONG);
	(void)state;
	assert_refused(&t, "compared nothing");
}

static void other_gpus_are_refused_without_a_trial(void **state)
{
	static const int others[] = { 80, 89, 100, 120 };
	(void)state;
	for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
		struct cuda_trial t = trial(AGREES, LONG);
		char has[32];

		t.capability = others[i];
		t.program = "/nowhere/cuda-trial";
		snprintf(has, sizeof has, "has %d.%d;", others[i] / 10, others[i] % 10);
		assert_refused(&t, "are for compute capability 9.0, and GPU 0, NVIDIA H200, has");
		assert_refused(&t, has);
	}
}

static void what_is_missing_is_named(void **state)
{
	struct cuda_trial t = trial(AGREES, LONG);
	(void)state;
	t.program = "/nowhere/cuda-trial";
	assert_refused(
		&t, "/nowhere/cuda-trial, which tries its kernels first, does not start: No such");

	t = trial(AGREES, LONG);
	t.plugin = "/nowhere/cuda.so";
	assert_refused(&t, "/nowhere/cuda.so cannot be loaded");

	t.plugin = "libdl.so.2";
	assert_refused(&t, "libdl.so.2 has no function zr_cuda_trial");
}

static void how_it_ended_must_be_known(void **state)
{
	const struct cuda_trial t = trial(AGREES, LONG);
	(void)state;
	signal(SIGCHLD, SIG_IGN);
	assert_refused(&t, "is not known");
	signal(SIGCHLD, SIG_DFL);
}

static void a_trial_has_signals_of_its_own(void **state)
{
	const struct cuda_trial t = trial(SAYS_SIGNALS, LONG);
	sigset_t term;
	(void)state;
	sigemptyset(&term);
	sigaddset(&term, SIGTERM);
	sigprocmask(SIG_BLOCK, &term, NULL);
	assert_passed(&t, "SIGTERM is free");
	sigprocmask(SIG_UNBLOCK, &term, NULL);
}

/* What hangs holds the only other end of the pipe that is read. */
static void a_trial_ends_with_who_began_it(void **state)
{
	const struct cuda_trial t = trial(HANGS, LONG);
	char number[16], seen;
	int fd[2];
	(void)state;
	assert_int_equal(pipe(fd), 0);
	snprintf(number, sizeof number, "%d", fd[1]);
	setenv("ZR_TRIAL_FD", number, 1);

	const pid_t beginner = fork();
	if (!beginner) {
		struct zr_host *h = test_host(1);
		char text[CUDA_TRIAL_TEXT];
		cuda_trial(h, &t, text);
		_exit(1);
	}

	close(fd[1]);
	assert_int_equal(read(fd[0], &seen, 1), 1);
	kill(beginner, SIGKILL);
	assert_int_equal(waitpid(beginner, NULL, 0), beginner);
	assert_int_equal(poll(&(struct pollfd){ .fd = fd[0], .events = POLLIN }, 1, 20000), 1);
	assert_int_equal(read(fd[0], &seen, 1), 0);
	close(fd[0]);
	unsetenv("ZR_TRIAL_FD");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(kernels_that_agree_are_used),
		cmocka_unit_test(kernels_that_differ_are_refused),
		cmocka_unit_test(a_trial_that_crashes_is_refused),
		cmocka_unit_test(a_trial_that_hangs_is_killed),
		cmocka_unit_test(a_trial_of_nothing_is_refused),
		cmocka_unit_test(other_gpus_are_refused_without_a_trial),
		cmocka_unit_test(what_is_missing_is_named),
		cmocka_unit_test(how_it_ended_must_be_known),
		cmocka_unit_test(a_trial_has_signals_of_its_own),
		cmocka_unit_test(a_trial_ends_with_who_began_it),
	};
	const char *build = getenv("ZR_BUILDDIR");

	if (!build)
		build = ".";
	snprintf(program, sizeof program, "%s/plugins/device/cuda-trial", build);
	snprintf(plugin, sizeof plugin, "%s/tests/doubles/.libs/trial.so", build);
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
