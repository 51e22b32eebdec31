/* SPDX-License-Identifier: Apache-2.0
 *
 * t_device.c - device/cpu as a plugin, or the device that ZR_TEST_DEVICE names: its options and
 * their refusals, memory, copies, and that every operation has the same bits for any number of
 * workers (I1) and allocates nothing (I3). All that touches device memory runs over each kind of
 * it; t_separate.c tests what sets the kinds apart.
 */
#include "tests/lib/isa.h"
#include "tests/lib/testdevice.h"

#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <cmocka.h>

/* ---- options ---- */

static void isa_is_what_was_asked_or_a_refusal_that_names_a_feature(void **state)
{
	int i;
	(void)state;
	for (i = 0; i < DEV_VARIANTS; i++) {
		struct dev d;
		struct zr_device_info info = { .size = sizeof info };
		int rc = dev_open(&d, 1, dev_isas[i]);
		if (rc) {
			assert_int_equal(rc, ZR_EINVAL);
			assert_non_null(strstr(test_error(d.h), "lacks "));
			assert_non_null(strstr(test_error(d.h), dev_isas[i]));
		} else {
			assert_int_equal(d.v->info(d.inst, &info), ZR_OK);
			assert_int_equal(strncmp(info.variant, dev_isas[i], strlen(dev_isas[i])),
					 0);
			assert_true(isa_runs(dev_isas[i]));
		}
		dev_close(&d);
	}
}

static void auto_takes_the_widest_and_shares_processors(void **state)
{
	struct opts {
		int64_t threads;
	} * first;
	struct dev d;
	struct zr_device_info info = { .size = sizeof info };
	(void)state;
	assert_int_equal(dev_open(&d, 1, "auto"), ZR_OK);
	assert_int_equal(d.v->info(d.inst, &info), ZR_OK);
	if (!strncmp(info.variant, "scalar", 6))
		assert_false(isa_runs("avx2"));
	first = d.opts;
	for (int32_t share = 0; share < 4; share++) {
		first->threads = ZR_AUTO_I64;
		assert_int_equal(
			d.desc->resolve(d.h,
					&(struct zr_facts){ .size = sizeof(struct zr_facts),
							    .workers = share },
					d.opts),
			ZR_OK);
		assert_int_equal(first->threads, share ? share : 1);
	}
	dev_close(&d);
}

/* ---- memory ---- */

struct kind {
	const char *memory;
	int apart; /* from what is not an operation or a copy */
};
static struct kind unified = { "auto", 0 }, limited = { "128M", 0 }, separate = { "128M", 1 };

static int open_kind(struct dev *d, int workers, const char *isa, void **state)
{
	const struct kind *k = *state;
	return dev_open_memory(d, workers, isa, k->memory, k->apart);
}

static void must(const struct dev *d, int rc)
{
	if (rc)
		fail_msg("%s", test_error(d->h));
}

static void *take(const struct dev *d, uint64_t bytes)
{
	void *p = NULL;
	must(d, d->v->mem_alloc(d->inst, bytes, ZR_MEM_DEVICE, &p));
	return p;
}

static void move(const struct dev *d, void *dst, const void *src, uint64_t bytes)
{
	must(d, d->v->copy(d->inst, NULL, dst, src, bytes));
	must(d, d->v->sync(d->inst, NULL));
}

static void create_reports_its_scratch_and_returns_all_when_refused(void **state)
{
	struct dev d;
	struct zr_device_info info = { .size = sizeof info };
	struct zr_inst *inst = NULL;
	int64_t calls, nth;
	uint64_t held;
	assert_int_equal(open_kind(&d, 2, "auto", state), ZR_OK);
	calls = test_allocs(d.h);
	held = test_bytes(d.h);
	assert_int_equal(d.v->info(d.inst, &info), ZR_OK);
	/* others hold it in memory of their own */
	assert_true(info.scratch > 0 && (info.scratch <= held || !dev_is_cpu()));
	assert_int_equal(info.unified, *state == &unified);
	assert_int_equal(info.host_access, info.unified);
	assert_int_equal(info.host_ops, info.unified);
	if (info.unified)
		assert_true(info.memory > 1u << 20);
	else
		assert_int_equal(info.memory, (128u << 20) - (dev_is_cpu() ? 0 : info.scratch));
	for (nth = 1; nth <= calls; nth++) {
		test_clear(d.h);
		test_refuse(d.h, nth);
		assert_int_equal(d.desc->create(d.h, d.opts, &inst), ZR_ENOMEM);
		assert_int_equal(test_errors(d.h), 1);
		assert_int_equal(test_bytes(d.h), held);
	}
	dev_close(&d);
}

static void memory_is_aligned_zeroed_and_copied(void **state)
{
	const uint64_t bytes = (3u << 20) + 77;
	struct dev d;
	void *a, *b, *c, *none = NULL;
	uint64_t i, seed = 9;
	assert_int_equal(open_kind(&d, 3, "auto", state), ZR_OK);
	a = take(&d, bytes);
	c = take(&d, bytes);
	assert_int_equal(d.v->mem_alloc(d.inst, bytes, ZR_MEM_HOST, &b), ZR_OK);
	assert_int_equal((uintptr_t)a % 64, 0);
	memset(b, 55, bytes);
	move(&d, b, a, bytes);
	for (i = 0; i < bytes; i++)
		assert_int_equal(((char *)b)[i], 0);
	for (i = 0; i < bytes; i++)
		((char *)b)[i] = (char)(rnd(&seed) * 127);
	move(&d, a, b, bytes);
	move(&d, c, a, bytes - 1);
	memset(b, 55, bytes);
	move(&d, b, c, bytes);
	for (i = 0, seed = 9; i < bytes - 1; i++)
		assert_int_equal(((char *)b)[i], (char)(rnd(&seed) * 127));
	assert_int_equal(((char *)b)[bytes - 1], 0);
	d.v->mem_free(d.inst, a, bytes, ZR_MEM_DEVICE);
	d.v->mem_free(d.inst, c, bytes, ZR_MEM_DEVICE);
	d.v->mem_free(d.inst, b, bytes, ZR_MEM_HOST);
	assert_int_equal(d.v->mem_alloc(d.inst, (uint64_t)1 << 62, ZR_MEM_HOST, &none), ZR_ENOMEM);
	assert_non_null(strstr(test_error(d.h), "no memory for 4611686018427387904 bytes"));
	dev_close(&d);
}

/* Beside what is computed, after all of it or, where the device has marks, after one of them. */
static int start_copy(const struct dev *d, int mark, void *dst, const void *src, uint64_t bytes,
		      uint64_t *ticket)
{
	const uint32_t slot = ZR_MARKS - 1;
	if (!mark || !ZR_HAS(d->v, struct zr_device_v1, copy_after) || !d->v->copy_after)
		return d->v->copy_start(d->inst, dst, src, bytes, ticket);
	must(d, d->v->mark(d->inst, slot));
	return d->v->copy_after(d->inst, dst, src, bytes, slot, ticket);
}

static void there_and_back(const struct dev *d, char *host, uint64_t bytes)
{
	void *there = take(d, bytes);
	uint64_t ticket;
	for (int mark = 0; mark < 2; mark++) {
		const int value = 33 + 2 * mark;

		memset(host, value, bytes);
		must(d, start_copy(d, mark, there, host, bytes, &ticket));
		must(d, d->v->copy_wait(d->inst, ticket));

		memset(host, 55, bytes);
		must(d, start_copy(d, mark, host, there, bytes, &ticket));
		must(d, d->v->copy_wait(d->inst, ticket));
		assert_true(host[0] == value && !memcmp(host, host + 1, bytes - 1));
	}
	d->v->mem_free(d->inst, there, bytes, ZR_MEM_DEVICE);
}

/* Rows of 100 bytes, 256 apart there and 100 or 300 apart here; bytes between them stay. */
static void rows_there_and_back(const struct dev *d, char *host, uint64_t bytes)
{
	const uint64_t rows = 64, width = 100, there_apart = 256;
	char *there = take(d, rows * there_apart);
	uint64_t ticket;
	if (!ZR_HAS(d->v, struct zr_device_v1, copy_rows) || !d->v->copy_rows)
		bytes = 0;

	for (uint64_t apart = width; apart * rows <= bytes; apart += 200) {
		struct zr_device_rows r = { .size = sizeof r,
					    .dst = there,
					    .src = host,
					    .bytes = width,
					    .rows = rows,
					    .dst_apart = there_apart,
					    .src_apart = apart };
		for (uint64_t k = 0; k < rows * apart; k++)
			host[k] = (char)(k / apart + 1);
		must(d, d->v->mark(d->inst, r.slot));
		must(d, d->v->copy_rows(d->inst, &r, &ticket));
		must(d, d->v->copy_wait(d->inst, ticket));

		memset(host, 99, rows * apart);
		r.dst = host;
		r.src = there;
		r.dst_apart = apart;
		r.src_apart = there_apart;
		must(d, d->v->copy_rows(d->inst, &r, &ticket));
		must(d, d->v->copy_wait(d->inst, ticket));
		for (uint64_t k = 0; k < rows * apart; k++)
			assert_int_equal(host[k], k % apart < width ? (char)(k / apart + 1) : 99);
		if (apart > width)
			break;
	}
	d->v->mem_free(d->inst, there, rows * there_apart, ZR_MEM_DEVICE);
}

/* A refusal is one of the call alone: operations go on. */
static void memory_of_others_is_pinned_once_and_given_back(void **state)
{
	const uint64_t page = 1 << 16, bytes = 5 * page + 77;
	char *host = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct dev d;
	assert_int_equal(open_kind(&d, 3, "auto", state), ZR_OK);
	for (int round = 0; round < 2; round++) {
		struct zr_op_init op = {
			.size = sizeof op, .n = 16, .mean = 3, .dst = take(&d, page)
		};
		must(&d, d.v->mem_pin(d.inst, host, bytes));
		there_and_back(&d, host + page, bytes - page);
		rows_there_and_back(&d, host + page, bytes - page);
		assert_true(d.v->mem_pin(d.inst, host, bytes) < 0 &&
			    d.v->mem_pin(d.inst, host + page, page) < 0);
		must(&d, d.ops->init(d.ops, NULL, &op));
		move(&d, host, op.dst, 16 * sizeof(float));
		assert_true(((float *)(void *)host)[15] == 3);
		d.v->mem_free(d.inst, op.dst, page, ZR_MEM_DEVICE);
		d.v->mem_unpin(d.inst, host);
	}
	assert_string_equal(test_log(d.h), "");
	munmap(host, bytes);
	dev_close(&d);
}

static int64_t between(const struct dev *d, uint32_t from, uint32_t to)
{
	int64_t ns = INT64_MIN;
	must(d, d->v->time_between(d->inst, from, to, &ns));
	assert_true(ns != INT64_MIN);
	return ns;
}

static void a_clock_says_when_marks_are_passed(void **state)
{
	struct zr_op_init op = { .size = sizeof op, .n = 1 << 20, .mean = 3 };
	const uint64_t bytes = (uint64_t)op.n * sizeof(float);
	struct dev d;
	uint64_t ticket;
	void *host;
	int64_t ns;
	assert_int_equal(open_kind(&d, 3, "auto", state), ZR_OK);
	assert_true(ZR_HAS(d.v, struct zr_device_v1, time_between) && d.v->time_between);
	must(&d, d.v->mem_alloc(d.inst, bytes, ZR_MEM_PINNED, &host));
	op.dst = take(&d, bytes);
	must(&d, d.v->time_open(d.inst, 6));
	for (int round = 0; round < 2; round++) {
		must(&d, d.v->time_mark(d.inst, NULL, 0));
		must(&d, d.ops->init(d.ops, NULL, &op));
		must(&d, d.v->time_mark(d.inst, NULL, 1));
		must(&d, d.v->time_copies(d.inst, 2, 3));
		for (int copy = 0; copy < 2; copy++) {
			must(&d, d.v->copy_start(d.inst, host, op.dst, bytes, &ticket));
			must(&d, d.v->copy_wait(d.inst, ticket));
		}
		must(&d, d.v->time_copies(d.inst, ZR_TIME_NONE, ZR_TIME_NONE));
		must(&d, d.v->time_mark(d.inst, NULL, 4));
		must(&d, d.v->sync(d.inst, NULL));
		ns = between(&d, 0, 1);
		assert_true(ns > 0);
		assert_int_equal(between(&d, 1, 0), -ns);
		assert_true(between(&d, 1, 2) >= 0);
		assert_true(between(&d, 2, 3) > 0);
		assert_true(between(&d, 1, 4) >= 0);
	}

	assert_int_equal(d.v->time_mark(d.inst, NULL, 6), ZR_EINVAL);
	assert_int_equal(d.v->time_copies(d.inst, 0, 6), ZR_EINVAL);
	assert_int_equal(d.v->time_between(d.inst, 6, 0, &ns), ZR_EINVAL);
	d.v->mem_free(d.inst, op.dst, bytes, ZR_MEM_DEVICE);
	d.v->mem_free(d.inst, host, bytes, ZR_MEM_PINNED);
	dev_close(&d);
}

/* The first of numbers in device memory. */
static float first_of(const struct dev *d, const float *at)
{
	float x;
	move(d, &x, at, sizeof x);
	return x;
}

static void a_graph_repeats_operations_as_they_were(void **state)
{
	struct zr_op_init op = { .size = sizeof op, .n = 16, .mean = 3 };
	struct zr_graph *graph = NULL;
	struct dev d;
	assert_int_equal(open_kind(&d, 3, "auto", state), ZR_OK);
	assert_true(ZR_HAS(d.v, struct zr_device_v1, graph_free) && d.v->graph_begin);
	float *a = take(&d, 64), *b = take(&d, 64);
	op.dst = a;
	must(&d, d.v->graph_begin(d.inst));
	must(&d, d.ops->init(d.ops, NULL, &op));
	op.dst = b;
	op.mean = 4;
	must(&d, d.ops->init(d.ops, NULL, &op));
	must(&d, d.v->graph_end(d.inst, &graph));
	assert_true(first_of(&d, a) == 0 && first_of(&d, b) == 0);
	for (int round = 0; round < 2; round++) {
		op.mean = 5;
		must(&d, d.ops->init(d.ops, NULL, &op));
		must(&d, d.v->graph_launch(d.inst, graph));
		assert_true(first_of(&d, a) == 3 && first_of(&d, b) == 4);
	}

	op.mean = 6;
	must(&d, d.v->graph_begin(d.inst));
	must(&d, d.ops->init(d.ops, NULL, &op));
	op.mean = 7;
	op.dst = a;
	must(&d, d.ops->init(d.ops, NULL, &op));
	must(&d, d.v->graph_end(d.inst, &graph));
	must(&d, d.v->graph_launch(d.inst, graph));
	assert_true(first_of(&d, a) == 7 && first_of(&d, b) == 6);
	assert_true(d.v->graph_end(d.inst, &graph) < 0);
	assert_null(graph);
	must(&d, d.v->graph_begin(d.inst));
	must(&d, d.v->graph_end(d.inst, &graph));
	d.v->graph_free(d.inst, graph);
	op.mean = 5;
	must(&d, d.ops->init(d.ops, NULL, &op));
	assert_true(first_of(&d, a) == 5);
	d.v->mem_free(d.inst, a, 64, ZR_MEM_DEVICE);
	d.v->mem_free(d.inst, b, 64, ZR_MEM_DEVICE);
	dev_close(&d);
}

/* ---- every operation ---- */

#include "device_ops.h"

/* All operations once on operands in device memory; what they left there. */
static void results(const struct dev *d, int32_t dtype, const float *operands, float *out)
{
	float *x = take(d, BYTES);
	double sum = 0;
	int64_t i;
	move(d, x, operands, BYTES);
	every_op(d, x, dtype);
	move(d, out, x, BYTES);
	assert_memory_equal(slot(out, 56), slot(out, 31), N * sizeof(float));
	for (i = 0; i < N; i++)
		sum += (double)slot(out, 68)[i] * slot(out, 68)[i];
	assert_true(fabs(sum - 1) < 1e-5);
	d->v->mem_free(d->inst, x, BYTES, ZR_MEM_DEVICE);
}

static void same_operands(const float *want, const float *got, const char *isa, int workers)
{
	for (size_t i = 0; i < SLOTS; i++)
		if (memcmp(want + i * SLOT, got + i * SLOT, SLOT * sizeof(float)))
			fail_msg("%s: operand %d differs with %d workers", isa, (int)i, workers);
}

static void I1_every_operation_has_the_same_bits_for_any_number_of_workers(void **state)
{
	static const int32_t dtypes[] = { ZR_F32, ZR_BF16, ZR_F16 };
	float *operands = malloc(BYTES), *first = malloc(BYTES), *now = malloc(BYTES);
	void *in_host = &unified; /* the first runs there: bits do not depend on the kind either */
	assert_true(operands && first && now);
	for (int t = 0; t < 3; t++) {
		fill(operands, dtypes[t]);
		for (int i = 0; i < DEV_VARIANTS * 3; i++) {
			const char *isa = dev_isas[i / 3];
			const int workers = 1 + i % 3;
			void **kind = workers == 1 && dev_is_cpu() ? &in_host : state;
			struct dev d;
			if (!open_kind(&d, workers, isa, kind)) {
				results(&d, dtypes[t], operands, workers == 1 ? first : now);
				same_operands(first, workers == 1 ? first : now, isa, workers);
			}
			dev_close(&d);
		}
	}
	free(operands);
	free(first);
	free(now);
}

/* Bytes this process has mapped. */
static long mapped(void)
{
	long pages = 0;
	FILE *f = fopen("/proc/self/statm", "r");
	assert_non_null(f);
	assert_int_equal(fscanf(f, "%ld", &pages), 1);
	fclose(f);
	return pages;
}

static void nothing(void *arg, int64_t item, int32_t worker)
{
	(void)arg, (void)item, (void)worker;
}

static void all_types(const struct dev *d, float *x, const float *host)
{
	static const int32_t dtypes[] = { ZR_BF16, ZR_F16, ZR_F32 };
	for (int t = 0; t < 3; t++) {
		move(d, x, host, BYTES);
		every_op(d, x, dtypes[t]);
	}
	must(d, d->v->sync(d->inst, NULL));
}

/* Of device/cpu stronger than I3 asks: not even in the first step. What the library of another
 * takes is its own. */
static void I3_operations_allocate_nothing(void **state)
{
	float *host = malloc(BYTES);
	struct dev d;
	assert_non_null(host);
	fill(host, ZR_F32);
	assert_int_equal(open_kind(&d, 3, "auto", state), ZR_OK);
	float *x = take(&d, BYTES);
	/* the threads have started, and freed what started them */
	d.h->parallel(d.h, 1, nothing, NULL);
	mapped(); /* what it keeps of its first reading counts as taken */
	long pages = mapped();
	int64_t calls = test_allocs(d.h);
	size_t heap = mallinfo2().uordblks;
	all_types(&d, x, host);
	assert_int_equal(test_allocs(d.h), calls);
	assert_true(mallinfo2().uordblks == heap || !dev_is_cpu());
	assert_true(mapped() == pages || !dev_is_cpu());
	d.v->mem_free(d.inst, x, BYTES, ZR_MEM_DEVICE);
	dev_close(&d);
	free(host);
}

/* What a device may lack: gradients in parts; matrices, where the host reaches no memory of it. */
static int may_lack(const struct zr_ops *ops, const char *at, const struct kind *k)
{
	const void *const of_cpu[] = { &ops->embedding_bwd_rows, &ops->head_loss_rows };
	for (size_t i = 0; i < sizeof of_cpu / sizeof *of_cpu; i++)
		if (at == of_cpu[i])
			return !dev_is_cpu();
	return (const void *)at == &ops->matrices && (k->apart || !dev_is_cpu());
}

static void every_operation_is_there_and_unknown_types_are_refused(void **state)
{
	struct dev d;
	const char *at;
	struct zr_op_cast c = {
		.size = sizeof c, .dst.dtype = ZR_F64, .src.dtype = ZR_F32, .n = 1
	};
	struct zr_op_gelu_bwd g = { .size = sizeof g, .dtype = ZR_F64, .n = 1 };
	struct zr_op_adamw m = { .size = sizeof m, .moment_dtype = ZR_F16, .n = 1 };
	struct zr_op_attention a = { .size = sizeof a,
				     .dtype = ZR_F32,
				     .batch = 1,
				     .length = 4,
				     .heads = 3,
				     .kv_heads = 2,
				     .head_dim = 8 };
	struct zr_op_rotary r = {
		.size = sizeof r, .dtype = ZR_F32, .batch = 1, .length = 4, .heads = 3
	};
	int i;
	assert_int_equal(open_kind(&d, 1, "auto", state), ZR_OK);
	assert_int_equal(d.ops->size, sizeof *d.ops);
	for (at = (const char *)&d.ops->matmul; at < (const char *)(d.ops + 1);
	     at += sizeof(void *))
		assert_true(*(void *const *)(const void *)at || may_lack(d.ops, at, *state));
	assert_int_equal(d.ops->cast(d.ops, NULL, &c), ZR_ENOTSUP);
	c.dst.dtype = ZR_NF4;
	assert_int_equal(d.ops->cast(d.ops, NULL, &c), ZR_EINVAL);
	assert_non_null(strstr(test_error(d.h), "1 elements are no whole blocks"));
	c = (struct zr_op_cast){ .size = sizeof c, .dst.dtype = ZR_INT8, .src.dtype = ZR_BF16 };
	assert_int_equal(d.ops->cast(d.ops, NULL, &c), ZR_ENOTSUP);
	assert_int_equal(d.ops->gelu_bwd(d.ops, NULL, &g), ZR_ENOTSUP);
	assert_non_null(strstr(test_error(d.h), "gelu_bwd"));
	assert_int_equal(d.ops->adamw(d.ops, NULL, &m), ZR_ENOTSUP);
	assert_non_null(strstr(test_error(d.h), "moments"));
	assert_int_equal(d.ops->attention(d.ops, NULL, &a), ZR_EINVAL);
	assert_non_null(strstr(test_error(d.h), "3 heads"));
	for (i = 0; i < 3; i++) {
		r.head_dim = (int[]){ 0, 258, 37 }[i];
		assert_int_equal(d.ops->rotary(d.ops, NULL, &r), ZR_ENOTSUP);
	}
	assert_non_null(strstr(test_error(d.h), "heads of width 37"));
	dev_close(&d);
}

#define OVER(kind, f)                                                                              \
	{                                                                                          \
#f " (" #kind ")", f, NULL, NULL, &kind                                            \
	}
#define OVER_EACH_KIND(f) OVER(unified, f), OVER(limited, f), OVER(separate, f)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(isa_is_what_was_asked_or_a_refusal_that_names_a_feature),
		cmocka_unit_test(auto_takes_the_widest_and_shares_processors),
		OVER_EACH_KIND(create_reports_its_scratch_and_returns_all_when_refused),
		OVER_EACH_KIND(memory_is_aligned_zeroed_and_copied),
		OVER(separate, memory_of_others_is_pinned_once_and_given_back),
		OVER(separate, a_clock_says_when_marks_are_passed),
		OVER(separate, a_graph_repeats_operations_as_they_were),
		OVER_EACH_KIND(I1_every_operation_has_the_same_bits_for_any_number_of_workers),
		OVER_EACH_KIND(I3_operations_allocate_nothing),
		OVER_EACH_KIND(every_operation_is_there_and_unknown_types_are_refused),
	};
	const struct CMUnitTest of_any[] = {
		OVER(separate, create_reports_its_scratch_and_returns_all_when_refused),
		OVER(separate, memory_is_aligned_zeroed_and_copied),
		OVER(separate, memory_of_others_is_pinned_once_and_given_back),
		OVER(separate, a_clock_says_when_marks_are_passed),
		OVER(separate, a_graph_repeats_operations_as_they_were),
		OVER(separate, I1_every_operation_has_the_same_bits_for_any_number_of_workers),
		OVER(separate, I3_operations_allocate_nothing),
		OVER(separate, every_operation_is_there_and_unknown_types_are_refused),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return dev_is_cpu() ? cmocka_run_group_tests(tests, NULL, NULL) :
			      cmocka_run_group_tests(of_any, NULL, NULL);
}
