/* SPDX-License-Identifier: Apache-2.0
 *
 * t_comm_view.c - comm/local's views: the same place of every rank as one piece of read-only
 * memory.
 */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <cmocka.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "comm_fixture.h"

static void run(const struct fixture *fixture, void (*fn)(struct rank *))
{
	if (fixture_run(fixture, fn, -1))
		fail_msg("%s", fixture_failure());
}

static uint64_t page_bytes(void)
{
	return (uint64_t)sysconf(_SC_PAGESIZE);
}

/* Lines of this process's maps that hold the word. */
static int maps(const char *word)
{
	FILE *f = fopen("/proc/self/maps", "r");
	char line[512];
	int n = 0;
	while (f && fgets(line, sizeof line, f))
		n += strstr(line, word) != NULL;
	fclose(f);
	return n;
}

static void meet_in(struct rank *r, int group, void *mine, int64_t count)
{
	struct zr_comm_seg seg = { mine, NULL, count };
	struct zr_comm_op op = fixture_op(ZR_COMM_FENCE, group, ZR_F32, &seg, 1);
	CHECK(r, fixture_do(r, &op) == 0);
}

/* The view of a group over `words` from mine[first]: what every rank of it has written in this
 * round. */
static void check_view(struct rank *r, const float *view, int group, int64_t first, int64_t words,
		       int round)
{
	int ranks = group == ZR_GROUP_NODE ? r->per_node : r->world;
	int from = group == ZR_GROUP_NODE ? r->rank / r->per_node * r->per_node : 0;
	for (int k = 0; view && k < ranks; k++)
		for (int64_t i = 0; i < words; i++)
			if (view[k * words + i] !=
			    (float)((from + k) * 100 + round * 1000) + (float)(first + i)) {
				CHECK(r, !"the view shows what the rank wrote");
				return;
			}
}

static void views(struct rank *r)
{
	int64_t words = (int64_t)(page_bytes() / sizeof(float)), n = 600 * words;
	void *m = NULL, *all = NULL, *part = NULL, *self = NULL, *world = NULL;
	CHECK(r, r->v->mem_alloc(r->c, (uint64_t)n * sizeof(float), &m) == 0);
	float *mine = m;
	if (!mine)
		return;
	CHECK(r, r->v->mem_view(r->c, mine, (uint64_t)n * sizeof(float), ZR_GROUP_NODE, &all) == 0);
	CHECK(r,
	      r->v->mem_view(r->c, mine + 3 * words, 2 * page_bytes(), ZR_GROUP_NODE, &part) == 0);
	CHECK(r, r->v->mem_view(r->c, mine + words, page_bytes(), ZR_GROUP_SELF, &self) == 0 &&
			 self == mine + words);
	int rc = r->v->mem_view(r->c, mine, page_bytes(), ZR_GROUP_WORLD, &world);
	CHECK(r, rc == (r->per_node < r->world ? ZR_ENOTSUP : 0));
	CHECK(r, r->per_node > 1 || (all == mine && part == mine + 3 * words));
	for (int round = 0; round < 3; round++) {
		for (int64_t i = 0; i < n; i++)
			mine[i] = (float)(r->rank * 100 + round * 1000) + (float)i;
		meet_in(r, ZR_GROUP_NODE, mine, n);
		check_view(r, all, ZR_GROUP_NODE, 0, n, round);
		check_view(r, part, ZR_GROUP_NODE, 3 * words, 2 * words, round);
		check_view(r, world, ZR_GROUP_WORLD, 0, words, round);
		meet_in(r, ZR_GROUP_NODE, mine, n);
	}
	CHECK(r, r->v->mem_view(r->c, mine, page_bytes() - 4, ZR_GROUP_NODE, &part) == ZR_EINVAL);
	CHECK(r, strstr(test_error(r->h), "takes whole pages"));
	CHECK(r, r->v->mem_view(r->c, mine + 1, page_bytes(), ZR_GROUP_NODE, &part) == ZR_EINVAL);
	CHECK(r, r->v->mem_view(r->c, mine, 0, ZR_GROUP_NODE, &part) == ZR_EINVAL);
	CHECK(r, r->v->mem_view(r->c, mine, (uint64_t)1 << 40, ZR_GROUP_NODE, &part) == ZR_EINVAL);
	CHECK(r, r->v->mem_view(r->c, &r, page_bytes(), ZR_GROUP_NODE, &part) == ZR_EINVAL);
	CHECK(r, r->v->mem_view(r->c, mine, page_bytes(), 7, &part) == ZR_EINVAL);
	r->v->mem_free(r->c, m);
}

static void views_show_all_ranks_in_one_piece(void **state)
{
	struct fixture fixture = { .plugin = "comm/local" };
	(void)state;
	for (fixture.as = THREADS; fixture.as <= PROCESSES; fixture.as++) {
		for (fixture.per_node = fixture.world = 1; fixture.world <= 4;
		     fixture.per_node = ++fixture.world)
			run(&fixture, views);
		fixture.world = 4;
		for (fixture.per_node = 1; fixture.per_node <= 2; fixture.per_node++)
			run(&fixture, views);
	}
}

static void write_to_view(struct rank *r)
{
	void *m = NULL, *view = NULL;
	int status = 0;
	CHECK(r, r->v->mem_alloc(r->c, page_bytes(), &m) == 0);
	CHECK(r, r->v->mem_view(r->c, m, page_bytes(), ZR_GROUP_WORLD, &view) == 0);
	pid_t pid = view ? fork() : -1;
	if (!pid) {
		signal(SIGSEGV, SIG_DFL); /* also a sanitizer's */
		*(volatile char *)view = 1;
		_exit(0);
	}
	CHECK(r, pid > 0 && waitpid(pid, &status, 0) == pid && WIFSIGNALED(status) &&
			 WTERMSIG(status) == SIGSEGV);
}

static void views_are_read_only(void **state)
{
	struct fixture fixture = { .plugin = "comm/local", .world = 2, .as = PROCESSES };
	(void)state;
	run(&fixture, write_to_view);
}

static void views_leave_nothing_behind(void **state)
{
	struct fixture fixture = { .plugin = "comm/local", .world = 3, .as = THREADS };
	(void)state;
	run(&fixture, views);
	assert_int_equal(maps("memfd:zeroth"), 0);
}

/* Mappings of the ranks' memory and of reserved addresses. */
static int maps_of_views(void)
{
	return maps("memfd:zeroth") + maps(" ---p ");
}

/* Views until the system refuses one; those that were made stay good, and all go with the
 * memory. */
static void use_up_maps(struct rank *r)
{
	void *m = NULL, *first = NULL, *view;
	int before = maps_of_views(), n = 0, rc = 0;
	CHECK(r, r->v->mem_alloc(r->c, page_bytes(), &m) == 0);
	*(float *)m = (float)(r->rank + 1);
	meet_in(r, ZR_GROUP_WORLD, m, 1);
	while (r->rank == 1 && !rc && n < 1000000) {
		rc = r->v->mem_view(r->c, m, page_bytes(), ZR_GROUP_WORLD, &view);
		first = n++ ? first : view;
	}
	CHECK(r, r->rank != 1 || (rc == ZR_ENOMEM && n > 1));
	CHECK(r, r->rank != 1 || strstr(test_error(r->h), "of vm.max_map_count = "));
	CHECK(r, !first || (((float *)first)[0] == 1 &&
			    *(float *)((char *)first + page_bytes()) == 2));
	meet_in(r, ZR_GROUP_WORLD, m, 1); /* whoever frees its memory empties its part of views */
	r->v->mem_free(r->c, m);
	CHECK(r, maps_of_views() == before);
}

static void a_view_too_many_is_refused_with_the_remedy(void **state)
{
	struct fixture fixture = { .plugin = "comm/local", .world = 2, .as = PROCESSES };
	long most = 0;
	FILE *f = fopen("/proc/sys/vm/max_map_count", "r");
	(void)state;
	if (f && fscanf(f, "%ld", &most) != 1)
		most = 0;
	if (f)
		fclose(f);
	if (most < 1 || most > 300000)
		skip(); /* too many to use up */
	run(&fixture, use_up_maps);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(views_show_all_ranks_in_one_piece),
		cmocka_unit_test(views_are_read_only),
		cmocka_unit_test(views_leave_nothing_behind),
		cmocka_unit_test(a_view_too_many_is_refused_with_the_remedy),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
