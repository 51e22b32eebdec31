/* SPDX-License-Identifier: Apache-2.0
 *
 * t_oom.c - which file says how many processes were killed for memory: control groups of both
 * versions, in containers and outside, played by files in a directory.
 */
#define _GNU_SOURCE
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <cmocka.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "train/run/oom.h"

static char root[] = "/tmp/zeroth-oom-XXXXXX";

static int make_root(void **state)
{
	(void)state;
	return mkdtemp(root) ? 0 : -1;
}

static int remove_root(void **state)
{
	char cmd[PATH_MAX];
	(void)state;
	snprintf(cmd, sizeof cmd, "rm -rf '%s'", root);
	return system(cmd) ? -1 : 0;
}

static int start(void **state)
{
	remove_root(state);
	return mkdir(root, 0700);
}

static void put(const char *file, const char *text)
{
	char path[PATH_MAX];
	snprintf(path, sizeof path, "%s/%s", root, file);
	for (char *c = path + strlen(root) + 1; (c = strchr(c, '/')); *c++ = '/') {
		*c = 0;
		mkdir(path, 0700);
	}
	FILE *f = fopen(path, "w");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

#define V2      "low 0\nhigh 4\nmax 30\noom 9\noom_kill 2\noom_group_kill 6\n"
#define V1      "oom_kill_disable 0\nunder_oom 1\noom_kill 7\n"
#define MACHINE "pgfault 12\noom_kill 50\n"

static void version_2_counts_events(void **state)
{
	(void)state;
	put("proc/vmstat", MACHINE);
	put("proc/self/cgroup", "0::/user.slice/run-1.scope\n");
	put("sys/fs/cgroup/memory.events", "oom_kill 40\n"); /* of all groups */
	put("sys/fs/cgroup/user.slice/run-1.scope/memory.events", V2);
	assert_int_equal(zr_oom_kills(root), 2);
}

static void version_1_counts_in_the_group_of_its_controller(void **state)
{
	(void)state;
	put("proc/vmstat", MACHINE);
	put("proc/self/cgroup",
	    "8:cpu,cpuacct:/elsewhere\n4:memory:/jobs/3\n1:name=systemd:/init.scope\n");
	put("sys/fs/cgroup/memory/elsewhere/memory.oom_control", "oom_kill 40\n");
	put("sys/fs/cgroup/memory/jobs/3/memory.oom_control", V1);
	assert_int_equal(zr_oom_kills(root), 7);
}

static void with_both_versions_the_one_that_has_memory_counts(void **state)
{
	(void)state;
	put("proc/vmstat", MACHINE);
	put("proc/self/cgroup", "0::/jobs/3\n4:hugetlb,memory:/jobs/3\n");
	put("sys/fs/cgroup/unified/jobs/3/cgroup.events", "populated 1\n");
	put("sys/fs/cgroup/memory/jobs/3/memory.oom_control", V1);
	assert_int_equal(zr_oom_kills(root), 7);
}

static void a_container_sees_its_group_as_the_root(void **state)
{
	(void)state;
	put("proc/vmstat", MACHINE);
	put("proc/self/cgroup", "4:memory:/docker/0123abcd\n");
	put("sys/fs/cgroup/memory/memory.oom_control", V1);
	assert_int_equal(zr_oom_kills(root), 7);
	put("proc/self/cgroup", "0::/../../0123abcd\n");
	put("sys/fs/cgroup/memory.events", V2);
	assert_int_equal(zr_oom_kills(root), 2);
}

static void without_a_group_that_counts_the_machine_does(void **state)
{
	(void)state;
	put("proc/vmstat", MACHINE);
	assert_int_equal(zr_oom_kills(root), 50);
	put("proc/self/cgroup", "0::/\nnot a line of this file\n");
	assert_int_equal(zr_oom_kills(root), 50);
	put("sys/fs/cgroup/memory.events", "low 0\noom 3\n"); /* of an old kernel */
	assert_int_equal(zr_oom_kills(root), 50);
}

static void where_nothing_counts_there_were_none(void **state)
{
	(void)state;
	assert_int_equal(zr_oom_kills(root), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(version_2_counts_events, start),
		cmocka_unit_test_setup(version_1_counts_in_the_group_of_its_controller, start),
		cmocka_unit_test_setup(with_both_versions_the_one_that_has_memory_counts, start),
		cmocka_unit_test_setup(a_container_sees_its_group_as_the_root, start),
		cmocka_unit_test_setup(without_a_group_that_counts_the_machine_does, start),
		cmocka_unit_test_setup(where_nothing_counts_there_were_none, start),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, make_root, remove_root);
}
