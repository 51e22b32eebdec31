/* SPDX-License-Identifier: Apache-2.0
 *
 * t_offload.c - what every store of the role offload promises, on offload/cpu and offload/nvme:
 * bytes come back as they were written, wherever they lie and however many requests are on their
 * way. The tests of nvme run a second time without io_uring, which the process forbids itself in
 * between.
 */
#define _GNU_SOURCE
#include "offload_fixture.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ARENA (1 << 20)

static const char *const variants[][5] = {
	{ "block_size", "4096", "queue_depth", "1", NULL },
	{ "block_size", "16K", "queue_depth", "5", NULL },
	{ "block_size", "1M", "checksums", "yes", NULL },
	{ "block_size", "8K", "checksums", "yes", NULL },
};
#define VARIANTS ((int)(sizeof variants / sizeof *variants))

static char *arena; /* page aligned; and one page more */

static int setup(void **state)
{
	arena = aligned_alloc(4096, ARENA + 4096);
	return arena ? offload_setup(state) : -1;
}

static int teardown(void **state)
{
	free(arena);
	return offload_teardown(state);
}

static void with_each(void (*fn)(struct store *))
{
	struct store s;
	store_open(&s, "offload/cpu", NULL);
	fn(&s);
	store_close(&s);
	for (int i = 0; i < VARIANTS; i++) {
		store_open(&s, "offload/nvme", variants[i]);
		fn(&s);
		store_close(&s);
	}
}

/* ---- bytes ---- */

#define OBJECTS 4
static const uint64_t sizes[OBJECTS] = { 1, 4095, 8192, 200001 };

struct model {
	uint64_t object, bytes;
	char *truth;
};

static void make_all(struct store *s, struct model *m)
{
	for (int i = 0; i < OBJECTS; i++) {
		m[i].object = store_make(s, "exp_avg", sizes[i]);
		m[i].bytes = sizes[i];
		m[i].truth = calloc(1, sizes[i]);
		assert_non_null(m[i].truth);
	}
}

struct part {
	struct model *m;
	uint64_t off, bytes, ticket;
	char *mem;
	int write;
};

/* Cuts objects into neighbours with odd ends, some of them whole pages, each with memory of its own
 * in the arena. */
static int cut_parts(struct model *m, struct part *p, int max)
{
	char *mem = arena;
	int n = 0;
	for (int i = 0; i < OBJECTS; i++)
		for (uint64_t off = 0; off < m[i].bytes && n < max; n++) {
			uint64_t left = m[i].bytes - off,
				 step = draw(3) ? 1 + draw(30000) :
						  4096 * (1 + draw(5)) - off % 4096;
			mem += draw(2) ? (4096 - (uintptr_t)mem % 4096 + off % 4096) % 4096 :
					 draw(64);
			p[n] = (struct part){
				.m = &m[i], .off = off, .mem = mem, .write = (int)draw(2)
			};
			p[n].bytes = step < left ? step : left;
			off += p[n].bytes;
			mem += p[n].bytes;
			assert_true(mem <= arena + ARENA);
		}
	return n;
}

static void post_parts(struct store *s, struct part *p, int n)
{
	for (int i = 0; i < n; i++) {
		if (p[i].write) {
			fill(p[i].mem, p[i].bytes, draw(1 << 30));
			memcpy(p[i].m->truth + p[i].off, p[i].mem, p[i].bytes);
		} else {
			memset(p[i].mem, 0x55, p[i].bytes);
		}
		p[i].ticket =
			store_post(s, p[i].write, p[i].m->object, p[i].off, p[i].mem, p[i].bytes);
	}
}

static void wait_parts(struct store *s, struct part *p, int n)
{
	for (; n > 0; n--) {
		int i = (int)draw((uint32_t)n);
		store_wait(s, p[i].ticket);
		assert_memory_equal(p[i].mem, p[i].m->truth + p[i].off, p[i].bytes);
		p[i] = p[n - 1];
	}
}

static void random_requests(struct store *s)
{
	struct model m[OBJECTS];
	struct part p[64];
	make_all(s, m);
	for (int round = 0; round < 40; round++) {
		int n = cut_parts(m, p, 64);
		post_parts(s, p, n);
		wait_parts(s, p, n);
	}
	for (int i = 0; i < OBJECTS; i++) {
		store_read(s, m[i].object, 0, arena, m[i].bytes);
		assert_memory_equal(arena, m[i].truth, m[i].bytes);
		free(m[i].truth);
	}
}

static void bytes_come_back(void **state)
{
	(void)state;
	with_each(random_requests);
}

/* The write of one object, a read of what it writes, and a read of the other one into the memory
 * that it is written from. */
static void same_bytes(struct store *s)
{
	const uint64_t n = 250000, half = ARENA / 2;
	uint64_t object[] = { store_make(s, "a", n), store_make(s, "b", n) }, ticket[3];
	char *truth[] = { calloc(1, n), calloc(1, n) };
	for (int round = 0; s->info.in_order && round < 40; round++) {
		int at = round % 2;
		char *mem = arena + draw(2) * (4096 + draw(64));
		char *copy = arena + half + draw(2) * draw(5000);
		fill(truth[at], n, (uint32_t)round);
		memcpy(mem, truth[at], n);
		ticket[0] = store_post(s, 1, object[at], 0, mem, n);
		ticket[1] = store_post(s, 0, object[at], 0, copy, n);
		ticket[2] = store_post(s, 0, object[!at], 0, mem, n);
		for (int i = 2; i >= 0; i--)
			store_wait(s, ticket[i]);
		assert_memory_equal(copy, truth[at], n);
		assert_memory_equal(mem, truth[!at], n);
	}
	free(truth[0]);
	free(truth[1]);
}

static void requests_of_the_same_bytes_take_turns(void **state)
{
	(void)state;
	with_each(same_bytes);
}

static void unwritten(struct store *s)
{
	uint64_t a = store_make(s, "a", 100000), b = store_make(s, "a", 5000);
	memset(arena, 1, 100000);
	store_write(s, a, 50001, arena, 10);
	memset(arena, 2, 100000);
	store_read(s, a, 0, arena, 100000);
	for (int i = 0; i < 100000; i++)
		assert_int_equal(arena[i], i >= 50001 && i < 50011);
	store_read(s, b, 4000, arena, 1000);
	for (int i = 0; i < 1000; i++)
		assert_int_equal(arena[i], 0);
}

static void unwritten_bytes_are_zeros(void **state)
{
	(void)state;
	with_each(unwritten);
}

static void copies_of_the_same_object(struct store *s)
{
	uint64_t a = store_make(s, "param", 12288);
	char *memory;
	fill(arena, 12288, 7);
	store_write(s, a, 0, arena, 12288);
	assert_int_equal(s->info.direct, s->v->map != NULL);
	if (!s->v->map)
		return;
	memory = s->v->map(s->inst, a);
	assert_int_equal((uintptr_t)memory % 4096, 0);
	assert_memory_equal(memory, arena, 12288);
	memory[5000] ^= 1;
	store_read(s, a, 5000, arena, 1);
	assert_int_equal(arena[0], memory[5000]);
	store_write(s, a, 5000, memory + 5000, 100); /* in place: nothing to do */
	assert_int_equal(arena[0], memory[5000]);
}

static void map_gives_the_memory_itself(void **state)
{
	(void)state;
	with_each(copies_of_the_same_object);
}

/* ---- tickets ---- */

static void in_flight(struct store *s)
{
	uint64_t a = store_make(s, "grad", 4096 * 256), ticket[256], more;
	uint32_t n = s->info.max_inflight;
	assert_true(n <= 256);
	if (s->info.direct)
		return; /* has always done everything */
	assert_true(n >= 32);
	for (uint32_t i = 0; i < n; i++) {
		memset(arena + i * 4096, (int)i, 4096);
		ticket[i] = store_post(s, 1, a, i * 4096, arena + i * 4096, 4096);
		assert_true(ticket[i] != 0);
	}
	test_clear(host);
	assert_int_equal(s->v->write(s->inst, a, 0, arena, 4096, &more), ZR_EAGAIN);
	assert_int_equal(test_errors(host), 0); /* not a failure */
	store_wait(s, ticket[n / 2]);
	ticket[n / 2] = store_post(s, 1, a, n * 4096, arena + n * 4096, 4096);
	for (uint32_t i = 0; i < n; i++)
		store_wait(s, ticket[i]);
	for (uint32_t i = 0; i < n; i++) {
		store_read(s, a, i * 4096, arena, 4096);
		assert_int_equal((unsigned char)arena[4095], i % 256);
	}
}

static void one_more_is_told_to_come_again(void **state)
{
	(void)state;
	with_each(in_flight);
}

static void misuse(struct store *s)
{
	uint64_t a = store_make(s, "master", 10000), ticket = 77;
	assert_int_equal(s->v->read(s->inst, a, 9999, arena, 2, &ticket), ZR_EINVAL);
	assert_non_null(strstr(test_error(host), "2 bytes at 9999 of an object of 10000"));
	assert_int_equal(s->v->write(s->inst, a, UINT64_MAX, arena, 2, &ticket), ZR_EINVAL);
	assert_int_equal(s->v->read(s->inst, a, 10000, arena, 0, &ticket), ZR_OK);
	assert_int_equal(ticket, 0);
	assert_int_equal(s->v->wait(s->inst, 0), ZR_OK);
	assert_int_equal(s->v->test(s->inst, 0), 1);
	assert_int_equal(s->v->wait(s->inst, 99), ZR_ESTATE);
	assert_int_equal(s->v->test(s->inst, 99), ZR_ESTATE);
	ticket = store_post(s, 0, a, 0, arena, 10000);
	while (s->v->test(s->inst, ticket) == 0)
		;
	assert_int_equal(s->v->test(s->inst, ticket), 1);
	if (ticket)
		assert_int_equal(s->v->discard(s->inst, a), ZR_ESTATE); /* not waited for */
	store_wait(s, ticket);
	if (ticket) {
		uint64_t next = store_post(s, 0, a, 0, arena, 10000);
		assert_int_equal(s->v->wait(s->inst, ticket), ZR_ESTATE); /* exactly once */
		store_wait(s, next);
	}
	assert_int_equal(s->v->make(s->inst, "x", 0, &a), ZR_EINVAL);
}

static void misuse_is_said(void **state)
{
	(void)state;
	with_each(misuse);
}

static void drained(struct store *s)
{
	uint64_t a = store_make(s, "master", ARENA), ticket = store_post(s, 1, a, 0, arena, ARENA);
	assert_int_equal(s->v->drain(s->inst), ZR_OK);
	if (ticket)
		assert_int_equal(s->v->wait(s->inst, ticket), ZR_ESTATE);
	assert_int_equal(s->v->discard(s->inst, a), ZR_OK);
	a = store_make(s, "master", ARENA);
	store_post(s, 0, a, 0, arena, ARENA); /* destroy drains by itself */
}

static void drain_ends_all_tickets(void **state)
{
	(void)state;
	with_each(drained);
}

static void counted(struct store *s)
{
	uint64_t a = store_make(s, "master", 300000);
	int64_t before = test_allocs(host);
	uint64_t t[8];
	for (int i = 0; i < 8; i++)
		t[i] = store_post(s, i % 2, a, (uint64_t)i * 30000, arena + i * 30000, 29999);
	for (int i = 0; i < 8; i++)
		store_wait(s, t[i]);
	assert_int_equal(test_allocs(host), before);
}

static void requests_allocate_nothing_I3(void **state)
{
	(void)state;
	with_each(counted);
}

/* ---- instances ---- */

static void instances_share_nothing(void **state)
{
	struct store s[3];
	uint64_t a[3];
	char first[300];
	(void)state;
	for (int i = 0; i < 3; i++) {
		store_open(&s[i], "offload/nvme", NULL);
		a[i] = store_make(&s[i], "master", 9000);
		memset(arena, i + 1, 9000);
		store_write(&s[i], a[i], 0, arena, 9000);
	}
	assert_int_equal(dirs_in(disk, first, sizeof first), 3);
	store_close(&s[1]);
	for (int i = 0; i < 3; i += 2) {
		store_read(&s[i], a[i], 0, arena, 9000);
		assert_int_equal(arena[8999], i + 1);
		store_close(&s[i]);
	}
	assert_int_equal(dirs_in(disk, first, sizeof first), 0); /* each removed what it made */
}

static void the_pipeline_is_told(void **state)
{
	const char *const one[] = { "pipeline_write", "no", NULL };
	const char *const many[] = { "buffer_count", "5", NULL };
	struct store s;
	(void)state;
	store_open(&s, "offload/nvme", NULL);
	assert_int_equal(s.info.buffers, 0);
	assert_int_equal(s.info.pipeline_read, 1);
	assert_int_equal(s.info.pipeline_write, 1);
	assert_true(s.info.capacity > 0 && s.info.capacity < UINT64_MAX);
	assert_int_equal(s.info.align % 4096, 0);
	store_close(&s);
	store_open(&s, "offload/nvme", one);
	assert_int_equal(s.info.buffers, 0);
	assert_int_equal(s.info.pipeline_write, 0);
	store_close(&s);
	store_open(&s, "offload/nvme", many);
	assert_int_equal(s.info.buffers, 5);
	store_close(&s);
	store_open(&s, "offload/cpu", NULL);
	assert_int_equal(s.info.buffers, 0);
	assert_int_equal(s.info.mem_ok & ZR_MEM_HOST, ZR_MEM_HOST);
	store_close(&s);
}

static void options_that_contradict_are_refused(void **state)
{
	const char *const few[] = { "buffer_count", "2", NULL };
	const char *const odd[] = { "block_size", "5000", NULL };
	const char *const dead[] = { "pin_max", "1G", NULL };
	struct store s;
	(void)state;
	assert_int_equal(store_try(&s, "offload/nvme", disk, few), ZR_EINVAL);
	assert_non_null(strstr(test_error(host), "need 3"));
	assert_int_equal(store_try(&s, "offload/nvme", disk, odd), ZR_EINVAL);
	assert_non_null(strstr(test_error(host), "not a multiple of 4096"));
	assert_int_equal(store_try(&s, "offload/cpu", disk, dead), ZR_EINVAL);
	assert_non_null(strstr(test_error(host), "pin_memory = yes"));
}

static void memory_beyond_pin_max_stays_pageable(void **state)
{
	const char *const o[] = { "pin_memory", "yes", "pin_max", "64K", NULL };
	struct store s;
	uint64_t a;
	(void)state;
	store_open(&s, "offload/cpu", o);
	a = store_make(&s, "master", 40000); /* pinned, unless ulimit -l says no */
	store_make(&s, "exp_avg", 40000);
	assert_non_null(strstr(logged, "exp_avg: 40000 bytes stay pageable"));
	s.v->discard(s.inst, a);
	store_make(&s, "exp_avg_sq", 40000); /* pinned; or it was said before that it is not */
	assert_ptr_equal(strchr(logged, '\n'), strrchr(logged, '\n'));
	store_close(&s);
}

static void discarded_memory_counts_no_more(void **state)
{
	const char *const o[] = { "pin_memory", "yes", "pin_max", "64K", NULL };
	struct store s;
	(void)state;
	store_open(&s, "offload/cpu", o);
	for (int i = 0; i < 3; i++)
		s.v->discard(s.inst, store_make(&s, "master", 40000));
	assert_null(strstr(logged, "pin_max would be exceeded")); /* ulimit -l may say no */
	store_close(&s);
}

static void refused_memory_leaves_nothing(void **state)
{
	const char *const o[] = { "checksums", "yes", NULL };
	char first[300];
	struct store s;
	uint64_t a;
	int64_t n = 0;
	(void)state;
	do
		test_refuse(host, ++n);
	while (store_try(&s, "offload/nvme", disk, o) == ZR_ENOMEM);
	test_refuse(host, 0);
	assert_true(n > 3);
	test_refuse(host, 1); /* the checksums */
	assert_int_equal(s.v->make(s.inst, "master", 4096, &a), ZR_ENOMEM);
	test_refuse(host, 0);
	store_make(&s, "master", 4096);
	store_close(&s);
	assert_int_equal(dirs_in(disk, first, sizeof first), 0);
}

/* ---- without io_uring ---- */

/* As a container would: the system call fails with EPERM from here on. */
static void io_uring_is_forbidden(void **state)
{
	struct sock_filter f[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog p = { sizeof f / sizeof *f, f };
	struct store s;
	(void)state;
	assert_int_equal(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &p))
		skip();
	store_open(&s, "offload/nvme", NULL);
	assert_non_null(strstr(logged, "no io_uring"));
	store_close(&s);
}

#define NAMED(test, suffix)                                                                        \
	{                                                                                          \
#test suffix, test, NULL, NULL, NULL                                               \
	}
#define TESTS_OF(suffix)                                                                           \
	NAMED(bytes_come_back, suffix), NAMED(requests_of_the_same_bytes_take_turns, suffix),      \
		NAMED(unwritten_bytes_are_zeros, suffix),                                          \
		NAMED(one_more_is_told_to_come_again, suffix), NAMED(misuse_is_said, suffix),      \
		NAMED(drain_ends_all_tickets, suffix)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TESTS_OF(""),
		cmocka_unit_test(map_gives_the_memory_itself),
		cmocka_unit_test(requests_allocate_nothing_I3),
		cmocka_unit_test(instances_share_nothing),
		cmocka_unit_test(the_pipeline_is_told),
		cmocka_unit_test(options_that_contradict_are_refused),
		cmocka_unit_test(memory_beyond_pin_max_stays_pageable),
		cmocka_unit_test(discarded_memory_counts_no_more),
		cmocka_unit_test(refused_memory_leaves_nothing),
		cmocka_unit_test(io_uring_is_forbidden),
		TESTS_OF(" (without io_uring)"),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, setup, teardown);
}
