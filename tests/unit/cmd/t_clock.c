/* SPDX-License-Identifier: Apache-2.0
 *
 * t_clock.c - times of a device that says when it passed its marks: what it computed, who was the
 * reason when it computed nothing, and how its clock is set by the host's. The device here passes
 * marks when the test says so.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "train/run/clock.h"

#define ROOM 4096 /* of the device */
#define MS   1000000

static struct {
	int64_t at[ROOM]; /* ns */
	int passed[ROOM];
	uint32_t n, last, begin, end;
	int syncs, broken;
} gpu;

static int time_open(struct zr_inst *d, uint32_t n)
{
	(void)d;
	gpu.n = n;
	return n <= ROOM ? ZR_OK : ZR_ENOMEM;
}

static int time_mark(struct zr_inst *d, struct zr_stream *s, uint32_t mark)
{
	(void)d;
	assert_null(s);
	assert_true(mark < gpu.n);
	gpu.passed[mark] = 0;
	gpu.last = mark;
	return gpu.broken ? ZR_EIO : ZR_OK;
}

static int time_copies(struct zr_inst *d, uint32_t begin, uint32_t end)
{
	(void)d;
	gpu.begin = begin;
	gpu.end = end;
	return ZR_OK;
}

static int time_between(struct zr_inst *d, uint32_t from, uint32_t to, int64_t *ns)
{
	(void)d;
	assert_true(from < gpu.n && to < gpu.n);
	if (!gpu.passed[from] || !gpu.passed[to])
		return ZR_EAGAIN;
	*ns = gpu.at[to] - gpu.at[from];
	return ZR_OK;
}

static int sync_stream(struct zr_inst *d, struct zr_stream *s)
{
	(void)d;
	(void)s;
	gpu.syncs++;
	for (int i = 0; i < ROOM; i++)
		gpu.passed[i] = 1;
	return ZR_OK;
}

static const struct zr_device_v1 table = { .size = sizeof table,
					   .sync = sync_stream,
					   .time_open = time_open,
					   .time_mark = time_mark,
					   .time_copies = time_copies,
					   .time_between = time_between };

static struct zr_instance device = { .vtbl = &table };

static struct zr_clock *opened(int64_t marks)
{
	const struct zr_clock_room room = { .marks = marks, .did = marks, .copies = 4 };
	struct zr_clock *c;
	struct zr_error err = { 0 };

	memset(&gpu, 0, sizeof gpu);
	assert_true(zr_clock_has(&device));
	assert_int_equal(zr_clock_open(&device, &room, &c, &err), 0);
	assert_int_equal(gpu.n, marks + 4);
	return c;
}

/* Asked for at `asked` ms of the host's clock, passed at `at` ms of the device's; -1: not yet. */
static uint64_t mark(struct zr_clock *c, enum zr_clock_between between, int part, double asked,
		     double at)
{
	const struct zr_clock_mark m = { between, (uint8_t)part, part == ZR_PART_OPTIMIZER };

	uint64_t number = zr_clock_mark(c, m, asked / 1e3);
	gpu.at[gpu.last] = llround(fmax(at, 0) * MS);
	gpu.passed[gpu.last] = at >= 0;
	return number;
}

static void did(struct zr_clock *c, enum zr_operand_part part, double until)
{
	zr_clock_did(c, part, until / 1e3);
}

static double update; /* ms, of the last reading */

static struct zr_parts read_all(struct zr_clock *c)
{
	struct zr_parts p = { 0 };

	update = 0;
	zr_clock_read(c, &p, &update);
	for (int i = 0; i < ZR_PARTS; i++)
		p.of[i] *= 1e3;
	p.idle *= 1e3;
	update *= 1e3;
	return p;
}

#define near(a, b) assert_true(fabs((a) - (b)) < 1e-6)

static void add_up_to(const struct zr_parts *p, double all)
{
	double sum = 0;

	for (int i = 0; i < ZR_PARTS; i++)
		sum += p->of[i];
	near(sum, all);
}

/* The host's clock says 100 s where the device's says 0. */
static void the_reason_is_what_the_host_did_or_the_device(void **unused)
{
	struct zr_clock *c = opened(100);
	struct zr_parts p;
	(void)unused;

	did(c, ZR_PART_OTHER, 100000);
	mark(c, ZR_CLOCK_NO_STEP, ZR_PART_OTHER, 100000, 0);
	did(c, ZR_PART_DATA, 100001);
	mark(c, ZR_CLOCK_NOTHING, ZR_PART_FORWARD, 100001, 1);
	did(c, ZR_PART_LAUNCH, 100001.2);
	mark(c, ZR_CLOCK_COMPUTED, ZR_PART_FORWARD, 100001.2, 5);
	/* asked for long before: the device takes 0.1 ms to go on */
	mark(c, ZR_CLOCK_NOTHING, ZR_PART_BACKWARD, 100001.2, 5.1);
	did(c, ZR_PART_LAUNCH, 100002);
	mark(c, ZR_CLOCK_COMPUTED, ZR_PART_BACKWARD, 100002, 9);
	did(c, ZR_PART_BOUNDARY, 100012);
	did(c, ZR_PART_LAUNCH, 100012.5);
	mark(c, ZR_CLOCK_NOTHING, ZR_PART_OPTIMIZER, 100012.5, 12.5);
	uint64_t last = mark(c, ZR_CLOCK_COMPUTED, ZR_PART_OPTIMIZER, 100012.6, 14);

	p = read_all(c);
	near(p.of[ZR_PART_DATA], 1);
	near(p.of[ZR_PART_FORWARD], 4);
	near(p.of[ZR_PART_BACKWARD], 3.9);
	near(p.of[ZR_PART_BOUNDARY], 3);
	near(p.of[ZR_PART_LAUNCH], 0.1 + 0.5);
	near(p.of[ZR_PART_OPTIMIZER], 1.5);
	near(p.idle, 1 + 0.1 + 3.5);
	near(update, 3.5 + 1.5);
	add_up_to(&p, 14);
	near(zr_clock_passed(c, last), 100.014);
	zr_clock_close(c);
}

static void waiting_for_ranks_is_no_kernel(void **unused)
{
	struct zr_clock *c = opened(100);
	(void)unused;

	mark(c, ZR_CLOCK_NO_STEP, ZR_PART_OTHER, 100, 0);
	mark(c, ZR_CLOCK_NOTHING, ZR_PART_REDUCE, 100, 0);
	mark(c, ZR_CLOCK_RANKS, ZR_PART_REDUCE, 100, 7);

	struct zr_parts p = read_all(c);
	near(p.of[ZR_PART_REDUCE], 7);
	near(p.idle, 7);
	zr_clock_close(c);
}

static void what_is_not_passed_is_read_later(void **unused)
{
	struct zr_clock *c = opened(100);
	struct zr_parts p;
	(void)unused;

	mark(c, ZR_CLOCK_NO_STEP, ZR_PART_OTHER, 100, 0);
	mark(c, ZR_CLOCK_NOTHING, ZR_PART_FORWARD, 100, 0);
	uint64_t first = mark(c, ZR_CLOCK_COMPUTED, ZR_PART_FORWARD, 100, 3);
	uint64_t second = mark(c, ZR_CLOCK_COMPUTED, ZR_PART_BACKWARD, 100, -1);
	uint32_t slot = gpu.last;
	p = read_all(c);
	near(p.of[ZR_PART_FORWARD], 3);
	near(p.of[ZR_PART_BACKWARD], 0);
	near(zr_clock_passed(c, first), 0.103);
	assert_true(isnan(zr_clock_passed(c, second)));

	gpu.at[slot] = 10 * MS;
	gpu.passed[slot] = 1;
	p = read_all(c);
	near(p.of[ZR_PART_FORWARD], 0);
	near(p.of[ZR_PART_BACKWARD], 7);
	near(zr_clock_passed(c, second), 0.110);
	assert_int_equal(gpu.syncs, 0);
	zr_clock_close(c);
}

/* Marks that the device was too busy to pass at once do not set its clock, if one of them was. */
static void the_soonest_mark_sets_the_clock(void **unused)
{
	struct zr_clock *c = opened(100);
	(void)unused;

	mark(c, ZR_CLOCK_NO_STEP, ZR_PART_OTHER, 50, 105);
	uint64_t busy = mark(c, ZR_CLOCK_COMPUTED, ZR_PART_FORWARD, 51, 120);
	mark(c, ZR_CLOCK_NOTHING, ZR_PART_OPTIMIZER, 80, 130); /* at once */
	read_all(c);
	near(zr_clock_passed(c, busy), 0.070);
	/* the next reading has none of these, and remembers */
	uint64_t next = mark(c, ZR_CLOCK_COMPUTED, ZR_PART_OPTIMIZER, 80, 170);
	read_all(c);
	near(zr_clock_passed(c, next), 0.120);
	zr_clock_close(c);
}

static void a_long_pause_sets_the_clock_anew(void **unused)
{
	struct zr_clock *c = opened(100);
	(void)unused;

	mark(c, ZR_CLOCK_NO_STEP, ZR_PART_OTHER, 100, 0);
	uint64_t before = mark(c, ZR_CLOCK_COMPUTED, ZR_PART_FORWARD, 100, 4);
	/* an hour on the host, and a little less on the device */
	uint64_t after = mark(c, ZR_CLOCK_NO_STEP, ZR_PART_OTHER, 3600100, 3599990);
	uint64_t last = mark(c, ZR_CLOCK_COMPUTED, ZR_PART_FORWARD, 3600100, 3599993);
	struct zr_parts p = read_all(c);
	near(p.of[ZR_PART_FORWARD], 7);
	near(p.idle, 0);
	near(zr_clock_passed(c, before), 0.104);
	near(zr_clock_passed(c, after), 3600.1);
	near(zr_clock_passed(c, last), 3600.103);
	zr_clock_close(c);
}

static void without_room_the_device_is_waited_for_once(void **unused)
{
	struct zr_clock *c = opened(10);
	(void)unused;

	mark(c, ZR_CLOCK_NO_STEP, ZR_PART_OTHER, 0, -1);
	for (int i = 1; i <= 15; i++) {
		mark(c, ZR_CLOCK_COMPUTED, ZR_PART_FORWARD, i, -1);
		gpu.at[gpu.last] = i * MS;
	}
	assert_int_equal(gpu.syncs, 1);
	sync_stream(NULL, NULL);
	struct zr_parts p = read_all(c);
	near(p.of[ZR_PART_FORWARD], 15);
	zr_clock_close(c);
}

static void copies_have_times_of_their_own(void **unused)
{
	struct zr_clock *c = opened(10);
	(void)unused;

	assert_true(isnan(zr_clock_copied(c, 2)));
	mark(c, ZR_CLOCK_NO_STEP, ZR_PART_OTHER, 100, 0);
	mark(c, ZR_CLOCK_COMPUTED, ZR_PART_FORWARD, 100, 8);
	zr_clock_copies(c, 2);
	assert_int_equal(gpu.begin, 12);
	assert_int_equal(gpu.end, 13);
	gpu.at[12] = 2 * MS;
	gpu.at[13] = 11 * MS;
	gpu.passed[12] = 1;
	read_all(c);
	near(zr_clock_copied(c, 2), 0.102);
	assert_true(isnan(zr_clock_copied(c, 3)));
	gpu.passed[13] = 1;
	near(zr_clock_copied(c, 3), 0.111);
	zr_clock_copies(c, -1);
	assert_int_equal(gpu.begin, ZR_TIME_NONE);
	assert_int_equal(gpu.end, ZR_TIME_NONE);
	zr_clock_close(c);
}

static void a_device_that_fails_has_no_more_marks(void **unused)
{
	struct zr_clock *c = opened(10);
	(void)unused;

	assert_int_equal(mark(c, ZR_CLOCK_NO_STEP, ZR_PART_OTHER, 100, 0), 1);
	gpu.broken = 1;
	assert_int_equal(mark(c, ZR_CLOCK_COMPUTED, ZR_PART_FORWARD, 100, 0), 0);
	gpu.broken = 0;
	assert_int_equal(mark(c, ZR_CLOCK_COMPUTED, ZR_PART_FORWARD, 100, 0), 0);
	struct zr_parts p = read_all(c);
	add_up_to(&p, 0);
	zr_clock_close(c);
}

static void a_device_without_all_of_it_has_no_clock(void **unused)
{
	struct zr_device_v1 v = table;
	const struct zr_instance it = { .vtbl = &v };
	(void)unused;

	assert_true(zr_clock_has(&it));
	v.time_open = NULL;
	assert_false(zr_clock_has(&it));
	v = table;
	v.size = offsetof(struct zr_device_v1, time_between);
	assert_false(zr_clock_has(&it));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_reason_is_what_the_host_did_or_the_device),
		cmocka_unit_test(waiting_for_ranks_is_no_kernel),
		cmocka_unit_test(what_is_not_passed_is_read_later),
		cmocka_unit_test(the_soonest_mark_sets_the_clock),
		cmocka_unit_test(a_long_pause_sets_the_clock_anew),
		cmocka_unit_test(without_room_the_device_is_waited_for_once),
		cmocka_unit_test(copies_have_times_of_their_own),
		cmocka_unit_test(a_device_that_fails_has_no_more_marks),
		cmocka_unit_test(a_device_without_all_of_it_has_no_clock),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
