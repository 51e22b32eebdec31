/* SPDX-License-Identifier: Apache-2.0
 *
 * t_boot.c - boot/local: one rank alone, and ranks as processes around a memfd, as under the
 * supervisor.
 */
#define _GNU_SOURCE
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <cmocka.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <zeroth/boot.h>

#include "tests/lib/ranks_fixture.h"
#include "tests/lib/testhost.h"

#define RANKS 4

struct seat {
	struct zr_host *h;
	const struct zr_boot_v1 *v;
	struct zr_inst *b;
	int rank;
};

static char *failure; /* shared */

#define CHECK(s, cond)                                                                             \
	do {                                                                                       \
		if (!(cond) && !*failure)                                                          \
			snprintf(failure, 1024, "rank %d: line %d: %s (%s)", (s)->rank, __LINE__,  \
				 #cond, test_error((s)->h));                                       \
	} while (0)

static void set_number(const char *name, int v)
{
	char text[16];
	snprintf(text, sizeof text, "%d", v);
	setenv(name, text, 1);
}

/* In a child. */
static void one_rank(int rank, int fd, const char *per_node, void (*fn)(struct seat *))
{
	const struct zr_desc *desc = test_plugin("boot/local");
	void *opts = test_options(desc);
	struct seat s = { .h = test_host(1), .v = test_iface(desc, "zr.boot/1"), .rank = rank };
	set_number("ZEROTH_LOCAL_RANK", rank);
	set_number("ZEROTH_LOCAL_WORLD", RANKS);
	set_number("ZEROTH_LOCAL_FD", fd);
	CHECK(&s, !test_set(desc, opts, "ranks_per_node", per_node));
	if (test_create(s.h, desc, opts, &s.b))
		s.b = NULL;
	fn(&s);
	if (s.b)
		desc->destroy(s.b);
	test_host_free(s.h);
	free(opts);
	_exit(0);
}

static void ranks(const char *per_node, void (*fn)(struct seat *))
{
	int fd = ranks_meeting(RANKS), status;
	memset(failure, 0, 1024);
	test_plugin("boot/local");
	fflush(NULL);
	for (int r = 0; r < RANKS; r++)
		if (fork() == 0) {
			alarm(30);
			one_rank(r, fd, per_node, fn);
		}
	for (int r = 0; r < RANKS; r++)
		assert_true(wait(&status) > 0 && status == 0);
	close(fd);
	if (*failure)
		fail_msg("%s", failure);
}

/* ---- tests ---- */

static void alone_it_is_rank_0_of_1(void **state)
{
	const struct zr_desc *desc = test_plugin("boot/local");
	const struct zr_boot_v1 *v = test_iface(desc, "zr.boot/1");
	struct zr_host *h = test_host(1);
	void *opts = test_options(desc);
	struct zr_inst *b;
	struct zr_boot_info info = { .size = sizeof info };
	int x = 1;
	(void)state;
	/* the same file serves any world */
	assert_int_equal(test_set(desc, opts, "ranks_per_node", "2"), 0);
	assert_int_equal(test_create(h, desc, opts, &b), 0);
	assert_int_equal(v->info(b, &info), 0);
	assert_true(info.rank == 0 && info.world == 1 && info.local_rank == 0 &&
		    info.local_world == 1 && info.nodes == 1);
	assert_int_equal(v->put(b, "k", &x, sizeof x), ZR_ENOTSUP);
	assert_int_equal(v->get(b, "k", &x, sizeof x, 1), ZR_ENOTSUP);
	assert_int_equal(v->fence(b, 1), 0);
	desc->destroy(b);
	setenv("ZEROTH_LOCAL_RANK", "0", 1);
	assert_int_equal(test_create(h, desc, opts, &b), ZR_EINVAL);
	assert_non_null(strstr(test_error(h), "belong together"));
	unsetenv("ZEROTH_LOCAL_RANK");
	test_host_free(h);
	free(opts);
}

/* What boot/local says of a descriptor, for rank 0 of 2. */
static void refuses(struct zr_host *h, int fd)
{
	const struct zr_desc *desc = test_plugin("boot/local");
	void *opts = test_options(desc);
	struct zr_inst *b;
	set_number("ZEROTH_LOCAL_RANK", 0);
	set_number("ZEROTH_LOCAL_WORLD", 2);
	set_number("ZEROTH_LOCAL_FD", fd);
	assert_int_equal(test_create(h, desc, opts, &b), ZR_EINVAL);
	assert_non_null(strstr(test_error(h), "is not what zeroth train -n made for 2 ranks"));
	unsetenv("ZEROTH_LOCAL_RANK");
	unsetenv("ZEROTH_LOCAL_WORLD");
	unsetenv("ZEROTH_LOCAL_FD");
	free(opts);
}

static void it_writes_to_no_file_but_the_supervisors(void **state)
{
	const int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
	struct zr_host *h = test_host(1);
	struct stat st;
	char name[] = "/tmp/zeroth-boot.XXXXXX", data[5] = "";
	int file = mkstemp(name), open_seals = memfd_create("other", MFD_ALLOW_SEALING),
	    sealed = memfd_create("other", MFD_ALLOW_SEALING), other = ranks_meeting(3);
	(void)state;
	unlink(name);
	assert_int_equal(write(file, "mine", 4), 4);
	refuses(h, file);
	assert_true(pread(file, data, 5, 0) == 4 && !strcmp(data, "mine"));
	assert_int_equal(ftruncate(open_seals, ZR_LOCAL_BYTES), 0);
	refuses(h, open_seals);
	assert_int_equal(ftruncate(sealed, ZR_LOCAL_BYTES), 0);
	assert_int_equal(fcntl(sealed, F_ADD_SEALS, seals), 0);
	refuses(h, sealed); /* without the words of a supervisor */
	refuses(h, other);  /* of 3 ranks */
	refuses(h, 1000);   /* of none */
	assert_true(!fstat(open_seals, &st) && st.st_blocks == 0);
	close(file);
	close(open_seals);
	close(sealed);
	close(other);
	test_host_free(h);
}

static void know_themselves(struct seat *s)
{
	struct zr_boot_info i = { .size = sizeof i };
	CHECK(s, s->b && s->v->info(s->b, &i) == 0);
	CHECK(s, i.rank == s->rank && i.world == RANKS && i.local_rank == s->rank &&
			 i.local_world == RANKS);
	CHECK(s, i.node == 0 && i.nodes == 1);
}

static void know_nodes(struct seat *s)
{
	struct zr_boot_info i = { .size = sizeof i };
	CHECK(s, s->b && s->v->info(s->b, &i) == 0);
	CHECK(s, i.rank == s->rank && i.world == RANKS && i.local_rank == s->rank % 2 &&
			 i.local_world == 2);
	CHECK(s, i.node == s->rank / 2 && i.nodes == 2);
}

static void refuse_nodes(struct seat *s)
{
	CHECK(s, !s->b && !strcmp(test_error(s->h),
				  "ranks_per_node = 3: 4 ranks do not fill nodes of that size"));
}

static void ranks_know_their_place(void **state)
{
	(void)state;
	ranks("auto", know_themselves);
	ranks("2", know_nodes);
	ranks("3", refuse_nodes);
}

static void exchange(struct seat *s)
{
	char key[32], big[4096];
	int got;
	memset(big, 'x', sizeof big);
	for (int round = 0; s->b && round < 3; round++) {
		int mine = s->rank * 10 + round;
		snprintf(key, sizeof key, "rank%d.%d", s->rank, round);
		CHECK(s, s->v->put(s->b, key, &mine, sizeof mine) == 0);
		if (round == 1)
			CHECK(s, s->v->fence(s->b, 20) == 0);
		for (int r = 0; r < RANKS; r++) {
			snprintf(key, sizeof key, "rank%d.%d", r, round);
			/* after a fence all is there */
			CHECK(s, s->v->get(s->b, key, &got, sizeof got, round == 1 ? 0 : 20) == 0);
			CHECK(s, got == r * 10 + round);
		}
	}
	CHECK(s, s->v->put(s->b, key, &got, sizeof got) == ZR_ESTATE);
	CHECK(s, s->v->get(s->b, key, big, 3, 1) == ZR_EINVAL);
	CHECK(s, s->v->put(s->b, "big", big, sizeof big + 1) == ZR_EINVAL);
	CHECK(s, s->rank != 3 || s->v->put(s->b, "big", big, sizeof big) == 0);
	CHECK(s, s->v->get(s->b, "big", big, sizeof big, 20) == 0);
}

static void values_and_fences_reach_every_rank(void **state)
{
	(void)state;
	ranks("auto", exchange);
}

static void miss_a_key(struct seat *s)
{
	int x;
	CHECK(s, s->b && s->v->fence(s->b, 20) == 0);
	CHECK(s, s->v->get(s->b, "nothing", &x, sizeof x, 0.1) == ZR_EPEER);
	CHECK(s, !strcmp(test_error(s->h), "timeout: waited 0 s for the key nothing"));
	if (s->rank != 1 && s->rank != 3) {
		CHECK(s, s->v->fence(s->b, 0.3) == ZR_EPEER);
		CHECK(s, strstr(test_error(s->h), "for rank 1, 3 to join") != NULL);
	}
}

static void a_timeout_names_what_is_missing(void **state)
{
	(void)state;
	ranks("auto", miss_a_key);
}

static void give_up(struct seat *s)
{
	int x;
	char why[64] = "";
	CHECK(s, s->b && s->v->fence(s->b, 20) == 0);
	CHECK(s, s->rank != 2 || s->v->stopped(s->b, why, sizeof why) == 0);
	if (s->rank == 2) {
		nanosleep(&(struct timespec){ 0, 50000000 }, NULL);
		s->v->abort(s->b, "no disk");
	}
	CHECK(s, s->v->get(s->b, "nothing", &x, sizeof x, 25) == ZR_EPEER);
	CHECK(s, !strcmp(test_error(s->h), "rank 2 stopped: no disk"));
	CHECK(s, s->v->fence(s->b, 25) == ZR_EPEER);
	CHECK(s, s->v->stopped(s->b, why, sizeof why) == 1);
	CHECK(s, !strcmp(why, "rank 2 stopped: no disk"));
	CHECK(s, s->v->stopped(s->b, why, 7) == 1 && !strcmp(why, "rank 2"));
}

static void an_abort_wakes_everybody(void **state)
{
	(void)state;
	ranks("auto", give_up);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(alone_it_is_rank_0_of_1),
		cmocka_unit_test(it_writes_to_no_file_but_the_supervisors),
		cmocka_unit_test(ranks_know_their_place),
		cmocka_unit_test(values_and_fences_reach_every_rank),
		cmocka_unit_test(a_timeout_names_what_is_missing),
		cmocka_unit_test(an_abort_wakes_everybody),
	};
	failure = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (failure == MAP_FAILED)
		return 99;
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
