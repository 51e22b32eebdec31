/* SPDX-License-Identifier: Apache-2.0
 *
 * t_cuda_hopper.c - what kernels for compute capability 9.0 are written in (kernels/cuda/hopper.h),
 * run by the host (hopper_emulated.h): products of all kinds of operands against plain loops, exact
 * for small numbers; boxes of tensors within, at and past each border; a ring of stages; stores
 * that products read; turns of blocks. Each order in which what is asynchronous may end. Then
 * mistakes that are planted in these kernels, each of which must be noticed.
 */
#include "hopper_kernels.h"

#include <setjmp.h>
#include <spawn.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

enum { ORDERS = 8, NOT_A_NUMBER = 0x7fff };

/* ---- numbers --------------------------------------------------------------------- */

static const struct number {
	float x;
	uint16_t bf16, f16;
} numbers[] = {
	{ 0, 0, 0 },
	{ 1, 0x3f80, 0x3c00 },
	{ 2, 0x4000, 0x4000 },
	{ 3, 0x4040, 0x4200 },
	{ 0.5F, 0x3f00, 0x3800 },
	{ -1, 0xbf80, 0xbc00 },
	{ -1.5F, 0xbfc0, 0xbe00 },
	{ -4, 0xc080, 0xc400 },
	{ 0.25F, 0x3e80, 0x3400 },
};

static uint32_t drawn = 1;

static unsigned draw(unsigned below)
{
	drawn = drawn * 1664525u + 1013904223u;
	return (drawn >> 8) % below;
}

/* Of `rows` rows, `pitch` apart; what lies between and behind them is no number. */
struct matrix {
	float *x;
	uint16_t *bits;
	int64_t pitch;
};

static struct matrix matrix_new(int rows, int cols, int is_bf16)
{
	struct matrix m = { NULL, NULL, (cols + 15) / 8 * 8 };
	const size_t n = (size_t)(rows * m.pitch);
	m.x = calloc(n, sizeof *m.x);
	m.bits = aligned_alloc(16, n * sizeof *m.bits);
	assert_true(m.x && m.bits);
	for (size_t i = 0; i < n; i++)
		m.bits[i] = NOT_A_NUMBER;
	for (int r = 0; r < rows; r++)
		for (int c = 0; c < cols; c++) {
			const struct number *it = &numbers[draw(sizeof numbers / sizeof *numbers)];
			m.x[r * m.pitch + c] = it->x;
			m.bits[r * m.pitch + c] = is_bf16 ? it->bf16 : it->f16;
		}
	return m;
}

static void matrix_free(struct matrix *m)
{
	free(m->x);
	free(m->bits);
}

/* ---- products -------------------------------------------------------------------- */

struct job {
	struct product_case c;
	struct matrix a, b;
	int rows; /* of the result */
	int (*run)(const struct product_case *);
};

static struct job job_new(struct product_case c, int rows, int (*run)(const struct product_case *))
{
	struct job j = { .c = c, .rows = rows, .run = run };
	const int a_mn = c.a_how == A_SHARED_MN;
	j.a = matrix_new(a_mn ? c.k : c.m, a_mn ? c.m : c.k, c.is_bf16);
	j.b = matrix_new(c.b_mn ? c.k : c.n, c.b_mn ? c.n : c.k, c.is_bf16);
	j.c.a = j.a.bits;
	j.c.b = j.b.bits;
	j.c.a_pitch = j.a.pitch;
	j.c.b_pitch = j.b.pitch;
	j.c.d = calloc((size_t)(rows * c.width), sizeof *j.c.d);
	assert_non_null(j.c.d);
	return j;
}

static void job_free(struct job *j)
{
	matrix_free(&j->a);
	matrix_free(&j->b);
	free(j->c.d);
}

static float expected(const struct job *j, int row, int col)
{
	const struct product_case *c = &j->c;
	float sum = 0;
	if (row >= c->m || col >= c->n)
		return 0;
	for (int k = 0; k < c->k; k++) {
		const float a = c->a_how == A_SHARED_MN ? j->a.x[k * j->a.pitch + row] :
							  j->a.x[row * j->a.pitch + k];
		const float b = c->b_mn ? j->b.x[k * j->b.pitch + col] :
					  j->b.x[col * j->b.pitch + k];
		sum += a * b;
	}
	return sum;
}

/* Whether the result is exact; where it is not, in words. */
static int is_right(const struct job *j, char *where, size_t n)
{
	for (int r = 0; r < j->rows; r++)
		for (int c = 0; c < j->c.width; c++) {
			const float is = j->c.d[r * j->c.width + c], should = expected(j, r, c);
			if (is == should)
				continue;
			snprintf(where, n, "row %d, column %d is %g, should be %g", r, c,
				 (double)is, (double)should);
			return 0;
		}
	return 1;
}

static void run_exact(struct job *j)
{
	char where[128];
	assert_int_equal(j->run(&j->c), 0);
	if (!is_right(j, where, sizeof where))
		fail_msg("m %d, n %d, k %d, width %d, A %d, B %d, swizzle %d, type %d: %s", j->c.m,
			 j->c.n, j->c.k, j->c.width, j->c.a_how, j->c.b_mn, j->c.swizzle,
			 j->c.is_bf16, where);
}

static void test_products(void **state)
{
	static const int widths[] = { 64, 80, 96, 128, 256 };
	(void)state;
	for (unsigned i = 0; i < 5 * 3 * 2 * 4 * 2; i++) {
		const int width = widths[i % 5];
		const struct product_case c = {
			.m = 1 + (int)draw(64),
			.n = width - (int)draw(12),
			.k = 1 + (int)draw(96),
			.width = width,
			.a_how = (int)(i / 5 % 3),
			.b_mn = (int)(i / 15 % 2),
			.swizzle = (int)(i / 30 % 4),
			.is_bf16 = (int)(i / 120),
		};
		struct job j = job_new(c, 64, hopper_product);
		hopper_order((int)(i % ORDERS));
		run_exact(&j);
		job_free(&j);
	}
}

/* Nothing is cut off: every row, column and k counts. */
static void test_whole_products(void **state)
{
	(void)state;
	for (int swizzle = 0; swizzle < 4; swizzle++)
		for (int how = 0; how < 6; how++) {
			const struct product_case c = { .m = 64,
							.n = 128,
							.k = 128,
							.width = 128,
							.a_how = how % 3,
							.b_mn = how / 3,
							.swizzle = swizzle,
							.is_bf16 = 1 };
			struct job j = job_new(c, 64, hopper_product);
			run_exact(&j);
			job_free(&j);
		}
}

static struct job ring_job(void)
{
	const struct product_case c = { .m = 121, .n = 63, .k = 333, .width = 64, .is_bf16 = 1 };
	return job_new(c, 128, hopper_ring);
}

static struct job stored_job(void)
{
	const struct product_case c = { .m = 59, .n = 61, .k = 63, .width = 64, .is_bf16 = 1 };
	return job_new(c, 64, hopper_stored);
}

/* More of K than a box has. */
static struct job product_job(int a_how, int b_mn)
{
	const struct product_case c = { .m = 64,
					.n = 64,
					.k = 112,
					.width = 64,
					.a_how = a_how,
					.b_mn = b_mn,
					.swizzle = 1,
					.is_bf16 = 1 };
	return job_new(c, 64, hopper_product);
}

static void in_each_order(struct job j)
{
	for (int order = 0; order < ORDERS; order++) {
		hopper_order(order);
		run_exact(&j);
	}
	job_free(&j);
}

static void test_orders(void **state)
{
	(void)state;
	in_each_order(ring_job());
	in_each_order(stored_job());
	in_each_order(product_job(A_SHARED, 0));
	in_each_order(product_job(A_HELD, 1));
}

/* ---- boxes ----------------------------------------------------------------------- */

/* Where byte `at` of a box lies, said in another way than the emulator's: rows of the pattern are
 * 128 bytes, 8 pieces; the pieces of a swizzle of s pieces change places among s. */
static int place_in_box(int at, int swizzle)
{
	static const int pieces[] = { 1, 8, 4, 2 };
	const int row = at / 128, piece = at % 128 / 16, s = pieces[swizzle];
	const int moved = piece / s * s + ((piece % s) ^ (row % s));
	return row * 128 + moved * 16 + at % 16;
}

static uint16_t element_of(const struct box_case *c, const int *at)
{
	const unsigned char *x = (const unsigned char *)c->x;
	for (int i = 0; i < c->rank; i++) {
		if (at[i] < 0 || at[i] >= c->size[i])
			return 0;
		x += at[i] * c->stride[i];
	}
	uint16_t bits;
	memcpy(&bits, x, sizeof bits);
	return bits;
}

static void check_box(const struct box_case *c)
{
	int n = 1;
	for (int i = 0; i < c->rank; i++)
		n *= c->box[i];
	memset(c->to, 0x11, (size_t)n * sizeof *c->to);
	assert_int_equal(hopper_box(c), 0);
	for (int i = 0; i < n; i++) {
		int at[4], left = i;
		for (int d = 0; d < c->rank; d++) {
			at[d] = c->first[d] + left % c->box[d];
			left /= c->box[d];
		}
		const uint16_t is = c->to[place_in_box(i * 2, c->swizzle) / 2];
		if (is != element_of(c, at))
			fail_msg("rank %d, swizzle %d, (%d, %d, %d, %d): element %d is %d, not %d",
				 c->rank, c->swizzle, c->first[0], c->first[1], c->first[2],
				 c->first[3], i, is, element_of(c, at));
	}
}

/* Boxes before, at, within, across and past each border, in every dimension. */
static void test_boxes(void **state)
{
	static const int inner[] = { 24, 64, 32, 16 };
	static const int64_t size[4] = { 70, 9, 5, 3 }, stride[4] = { 2, 160, 160 * 10, 160 * 60 };
	uint16_t x[160 * 60 * 3 / 2], to[64 * 4 * 3 * 2];
	uint16_t *aligned = (uint16_t *)(void *)(((uintptr_t)x + 15) / 16 * 16);
	(void)state;
	for (size_t i = 0; i < sizeof x / sizeof *x; i++)
		x[i] = (uint16_t)(i + 1);
	for (int rank = 2; rank <= 4; rank++)
		for (int swizzle = 0; swizzle < 4; swizzle++)
			for (int shift = 0; shift < 40; shift++) {
				struct box_case c = {
					.x = aligned, .rank = rank, .swizzle = swizzle, .to = to
				};
				const int box[4] = { inner[swizzle], 4, 3, 2 };
				memcpy(c.size, size, sizeof size);
				c.size[rank - 1] = size[rank - 1] - 1;
				memcpy(c.stride, stride, sizeof stride);
				memcpy(c.box, box, sizeof box);
				for (int i = 0; i < rank; i++)
					c.first[i] = (int)draw((unsigned)(size[i] + 2 * box[i])) -
						     box[i];
				check_box(&c);
			}
}

static void test_maps(void **state)
{
	static uint16_t x[4096] __attribute__((aligned(16)));
	const struct box_case good = { .x = x,
				       .rank = 2,
				       .swizzle = 1,
				       .size = { 64, 8 },
				       .stride = { 2, 128 },
				       .box = { 64, 8 },
				       .to = calloc(512, sizeof *x) };
	struct box_case c = good;
	(void)state;
	assert_non_null(good.to);
	assert_int_equal(hopper_box(&c), 0);
	c.x = x + 4; /* no multiple of 16 bytes */
	assert_int_equal(hopper_box(&c), -1);
	c = good;
	c.stride[1] = 136;
	assert_int_equal(hopper_box(&c), -1);
	c = good;
	c.box[0] = 72; /* longer than the swizzle's rows */
	assert_int_equal(hopper_box(&c), -1);
	c = good;
	c.box[1] = 257;
	assert_int_equal(hopper_box(&c), -1);
	c = good;
	c.swizzle = 0;
	c.box[0] = 12; /* 24 bytes */
	assert_int_equal(hopper_box(&c), -1);
	free(good.to);
}

/* ---- blocks and barriers --------------------------------------------------------- */

static int turns_are_right(int blocks, int fault)
{
	unsigned drawn_turns = 0, turn = 0, value = 7, should = 7;
	const struct turns_case c = { blocks, &drawn_turns, &turn, &value, fault };
	hopper_turns(&c);
	for (unsigned i = 0; i < (unsigned)blocks; i++)
		should = should * 3 + i;
	return value == should && turn == (unsigned)blocks;
}

static void test_turns(void **state)
{
	(void)state;
	for (int order = 0; order < ORDERS; order++) {
		hopper_order(order);
		assert_true(turns_are_right(1, NO_FAULT));
		assert_true(turns_are_right(23, NO_FAULT));
	}
}

static int sends_are_right(int fault)
{
	enum { BLOCKS = 11, N = 100 };
	static float to[N] __attribute__((aligned(16)));
	unsigned drawn_turns = 0, turn = 0;
	const struct sends_case c = { BLOCKS, N, &drawn_turns, &turn, to, fault };
	memset(to, 0xff, sizeof to);
	hopper_sends(&c);
	for (int i = 0; i < N; i++) {
		float should = hopper_sent(0, i);
		for (unsigned k = 1; k < BLOCKS; k++)
			should += hopper_sent(k, i);
		if (to[i] != should) {
			fprintf(stderr, "sum %d is %g, should be %g\n", i, (double)to[i],
				(double)should);
			return 0;
		}
	}
	return turn == BLOCKS;
}

static void test_sends(void **state)
{
	(void)state;
	for (int order = 0; order < ORDERS; order++) {
		hopper_order(order);
		assert_true(sends_are_right(NO_FAULT));
	}
}

static int named_is_right(int fault)
{
	int to[128];
	hopper_named(to, fault);
	for (int i = 0; i < 64; i++)
		if (to[i] != 0 || to[64 + i] != i * 7)
			return 0;
	return 1;
}

static void test_named_barriers(void **state)
{
	(void)state;
	for (int order = 0; order < 2; order++) {
		hopper_order(order);
		assert_true(named_is_right(NO_FAULT));
	}
}

/* ---- planted mistakes ------------------------------------------------------------ */

static int run_job(struct job j, int fault)
{
	char where[128] = "";
	j.c.fault = fault;
	const int rc = j.run(&j.c) == 0 && is_right(&j, where, sizeof where);
	fprintf(stderr, "%s\n", where);
	job_free(&j);
	return rc;
}

static int one_product(int fault)
{
	return run_job(product_job(A_SHARED, 0), fault);
}

static int one_product_of_held(int fault)
{
	return run_job(product_job(A_HELD, 0), fault);
}

static int one_product_of_columns(int fault)
{
	struct job j = product_job(A_SHARED, 1);
	j.c.width = 128;
	j.c.n = 64;
	free(j.c.d);
	j.c.d = calloc(64 * 128, sizeof *j.c.d);
	return run_job(j, fault);
}

static int one_ring(int fault)
{
	return run_job(ring_job(), fault);
}

static int one_of_stores(int fault)
{
	return run_job(stored_job(), fault);
}

static int one_box(int fault)
{
	static uint16_t x[64 * 8] __attribute__((aligned(16))), to[64 * 8];
	const struct box_case c = { .x = x,
				    .rank = 2,
				    .size = { 64, 8 },
				    .stride = { 2, 128 },
				    .box = { 64, 8 },
				    .to = to,
				    .fault = fault };
	memset(x, 0x22, sizeof x);
	return hopper_box(&c) == 0 && memcmp(x, to, sizeof x) == 0;
}

static int some_turns(int fault)
{
	return turns_are_right(23, fault);
}

/* SAYS: of what a run's end says; "is" for a result that is wrong. */
static const struct mistake {
	int fault;
	int (*is_right)(int fault);
	const char *says;
} mistakes[] = {
	{ NO_WAIT_FOR_COPY, one_product, "reads what a copy has not brought" },
	{ NO_WAIT_FOR_COPY, one_box, "ended while a copy was under way" },
	{ NO_WAIT_FOR_PRODUCT, one_product, "is -nan" },
	{ NO_FENCE_OF_REGISTERS, one_product, "without a fence of its registers" },
	{ NO_FENCE_OF_MBARRIER, one_product, "no fence shows to the asynchronous proxy" },
	{ NO_COMMIT, one_product, "accumulators whose product has not ended" },
	{ NO_EXPECTED_BYTES, one_product, "reads what a copy has not brought" },
	{ FEWER_BYTES, one_product, "not brought yet" },
	{ MORE_BYTES, one_product, "forever: for an mbarrier" },
	{ WRONG_PARITY, one_product, "reads what a copy has not brought" },
	{ OTHER_SWIZZLE, one_product, "within a swizzle's pattern" },
	{ WRONG_STRIDE, one_product, "leaves dynamic shared memory" },
	{ WRONG_LEADING, one_product_of_columns, "leaves dynamic shared memory" },
	{ CHANGES_A, one_product_of_held, "an A was changed before" },
	{ CHANGES_A_AFTER_FENCE, one_product_of_held, "A were changed after the fence" },
	{ CHANGES_SUMS, one_product, "accumulators were written before" },
	{ CHANGES_SUMS_AFTER_FENCE, one_product_of_held, "accumulators were changed after" },
	{ PINS_EARLY, one_product_of_held, "accumulators whose product has not ended" },
	{ WARP_LEFT_OUT, one_product, "did not issue the same products" },
	{ NO_WAIT_FOR_RELEASE, one_ring, "at which all have arrived" },
	{ EARLY_RELEASE, one_ring, "not brought yet" },
	{ NO_RELEASE, one_ring, "forever: for an mbarrier" },
	{ PARITY_STAYS, one_ring, "at which all have arrived" },
	{ REGISTERS_KEPT, one_ring, ", registers" },
	{ TOO_MANY_REGISTERS, one_ring, ", registers" },
	{ WARP_KEEPS_REGISTERS, one_ring, ", registers" },
	{ NO_FENCE_OF_STORES, one_of_stores, "a store that no fence orders before it" },
	{ PLAIN_STORES, one_of_stores, "is " },
	{ NO_BARRIER, one_of_stores, "was changed before" },
	{ FENCE_BEHIND_BARRIER, one_of_stores, "a store that no fence orders before it" },
	{ COPY_OVER_STORES, one_of_stores, "copies over a store" },
	{ TURN_BY_BLOCK, some_turns, "forever: for its turn" },
	{ TURN_NOT_PASSED, some_turns, "forever: for its turn" },
	{ NO_FENCE_OF_SENT, sends_are_right, "sends a store that no fence orders" },
	{ NO_FENCE_BEHIND_TURN, sends_are_right, "no fence orders that behind its turn" },
	{ NO_COMMIT_OF_SENT, sends_are_right, "before its floats have arrived" },
	{ TURN_BEFORE_SENT, sends_are_right, "before its floats have arrived" },
	{ CHANGED_BEFORE_SENT, sends_are_right, "changed before they had been sent" },
	{ NO_WAIT_FOR_SENT, sends_are_right, "before its floats have arrived" },
	{ TOO_FEW_ARRIVE, named_is_right, "forever: for a named barrier" },
};

/* In a process of its own, as a mistake ends it: NAME MISTAKE FAULT ORDER. */
static int run_alone(char **argument)
{
	const struct rlimit none = { 0, 0 };
	const struct mistake *m = &mistakes[atoi(argument[1])];
	setrlimit(RLIMIT_CORE, &none);
	hopper_order(atoi(argument[3]));
	return m->is_right(atoi(argument[2])) ? 0 : 1;
}

/* Whether the result of m is right with that fault; what its process says. The program starts anew
 * there: to copy this one takes long under the thread sanitizer. */
static int passes(const struct mistake *m, int fault, int order, char *said, size_t n)
{
	char number[3][12];
	char *argument[] = { "t_cuda_hopper", number[0], number[1], number[2], NULL };
	posix_spawn_file_actions_t actions;
	int ends[2], status;
	size_t got = 0;
	ssize_t part;
	pid_t child;
	snprintf(number[0], sizeof number[0], "%d", (int)(m - mistakes));
	snprintf(number[1], sizeof number[1], "%d", fault);
	snprintf(number[2], sizeof number[2], "%d", order);
	assert_int_equal(pipe(ends), 0);
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO);
	posix_spawn_file_actions_addclose(&actions, ends[0]);
	assert_int_equal(posix_spawn(&child, "/proc/self/exe", &actions, NULL, argument, environ),
			 0);
	posix_spawn_file_actions_destroy(&actions);
	close(ends[1]);

	while (got < n - 1 && (part = read(ends[0], said + got, n - 1 - got)) > 0)
		got += (size_t)part;
	said[got] = 0;
	close(ends[0]);
	assert_int_equal(waitpid(child, &status, 0), child);
	return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static void test_planted_mistakes(void **state)
{
	int unnoticed = 0;
	(void)state;
	for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++) {
		const struct mistake *m = &mistakes[i];
		char said[4096];
		int noticed = 0;
		const int is_first = !i || m->is_right != m[-1].is_right;
		if (is_first && !passes(m, NO_FAULT, 0, said, sizeof said))
			fail_msg("mistake %d: fails without it: %s", m->fault, said);
		for (int order = 0; order < ORDERS && !noticed; order++)
			noticed = !passes(m, m->fault, order, said, sizeof said) &&
				  (strstr(said, m->says) ||
				   strstr(said, "ThreadSanitizer: data race"));
		if (!noticed)
			print_error("mistake %d is not noticed: %s\n", m->fault, said);
		unnoticed += !noticed;
	}
	assert_int_equal(unnoticed, 0);
}

int main(int count, char **argument)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_planted_mistakes),
		cmocka_unit_test(test_products),
		cmocka_unit_test(test_whole_products),
		cmocka_unit_test(test_orders),
		cmocka_unit_test(test_boxes),
		cmocka_unit_test(test_maps),
		cmocka_unit_test(test_turns),
		cmocka_unit_test(test_sends),
		cmocka_unit_test(test_named_barriers),
	};
	if (count == 4)
		return run_alone(argument);
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
