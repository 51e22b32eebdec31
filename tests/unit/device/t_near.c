/* SPDX-License-Identifier: Apache-2.0
 *
 * t_near.c - what sysfs says of where a device is plugged in, and memory that is asked of a node.
 */
#define _GNU_SOURCE
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <cmocka.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "plugins/near.h"

static char dir[] = "/tmp/zeroth-near.XXXXXX";

static void put(const char *file, const char *line)
{
	char path[64];
	snprintf(path, sizeof path, "%s/%s", dir, file);
	FILE *f = fopen(path, "w");
	assert_non_null(f);
	fputs(line, f);
	assert_int_equal(fclose(f), 0);
}

static int make_dir(void **state)
{
	(void)state;
	return mkdtemp(dir) ? 0 : -1;
}

static int remove_dir(void **state)
{
	char path[64];
	(void)state;
	snprintf(path, sizeof path, "%s/numa_node", dir);
	unlink(path);
	snprintf(path, sizeof path, "%s/local_cpulist", dir);
	unlink(path);
	return rmdir(dir);
}

static void what_is_not_said_is_not_known(void **state)
{
	int32_t processor[8];
	(void)state;
	assert_int_equal(near_node(dir), -1);
	assert_int_equal(near_processors(dir, processor, 8), 0);
	put("numa_node", "-1\n");
	assert_int_equal(near_node(dir), -1);
	put("numa_node", "a\n");
	assert_int_equal(near_node(dir), -1);
	put("local_cpulist", "\n");
	assert_int_equal(near_processors(dir, processor, 8), 0);
}

static void nodes_and_lists_are_read(void **state)
{
	int32_t processor[8];
	(void)state;
	put("numa_node", "1\n");
	assert_int_equal(near_node(dir), 1);
	put("local_cpulist", "5\n");
	assert_int_equal(near_processors(dir, processor, 8), 1);
	assert_int_equal(processor[0], 5);
	put("local_cpulist", "2-4,9,32-33\n");
	assert_int_equal(near_processors(dir, processor, 8), 6);
	const int32_t want[] = { 2, 3, 4, 9, 32, 33 };
	assert_memory_equal(processor, want, sizeof want);
	assert_int_equal(near_processors(dir, processor, 4), 4);
	assert_int_equal(processor[3], 9);
}

/* Node 0 is there on every machine whose kernel knows nodes. */
static void memory_is_asked_of_a_node(void **state)
{
	const uint64_t bytes = 1 << 20;
	unsigned long nodes[16] = { 0 };
	int mode = -1;
	(void)state;
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(p, MAP_FAILED);
	assert_int_equal(near_prefer(p, bytes, -1), 0);
	if (near_prefer(p, bytes, 0)) {
		assert_true(errno == ENOSYS || errno == EPERM);
		skip();
	}

	assert_int_equal(
		syscall(SYS_get_mempolicy, &mode, nodes, 1024ul, p, (unsigned long)MPOL_F_ADDR), 0);
	assert_int_equal(mode, MPOL_PREFERRED);
	assert_int_equal(nodes[0], 1);
	munmap(p, bytes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_not_said_is_not_known),
		cmocka_unit_test(nodes_and_lists_are_read),
		cmocka_unit_test(memory_is_asked_of_a_node),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
