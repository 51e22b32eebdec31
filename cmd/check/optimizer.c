/* SPDX-License-Identifier: Apache-2.0
 *
 * optimizer.c - tests of optimizers.
 */
#include "cmd/check/optimizer.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static struct zr_bench *run_updates(struct zr_check *c, struct zr_bench_way way)
{
	return zr_bench_run(c, &way);
}
#define RUN(...) run_updates(c, (struct zr_bench_way){ __VA_ARGS__ })

#define KNOWN_CAPS (ZR_OPT_ELEMENTWISE | ZR_OPT_WHOLE)
#define KNOWN_MEM  (ZR_MEM_HOST | ZR_MEM_PINNED | ZR_MEM_DEVICE)

static int has_size(const struct zr_check *c, const struct zr_state *s)
{
	if (!s->dtype && !s->bytes_per_block)
		return zr_bench_may_be_by_shape(c->vtbl);
	if (!s->dtype)
		return s->bytes_per_block <= ZR_STATE_BLOCK_MOST;
	return !s->bytes_per_block &&
	       (s->dtype == ZR_F32 || s->dtype == ZR_BF16 || s->dtype == ZR_F16);
}

static void look_at_state(struct zr_check *c, const struct zr_bench *b, uint32_t i)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				      "0123456789._-";
	const struct zr_state *s = &b->state[i];

	if (!s->name || !*s->name || strlen(s->name) > 128 ||
	    strspn(s->name, letters) != strlen(s->name) || !strcmp(s->name, "master"))
		zr_check_fail(c,
			      "state %u is called \"%s\"; a name has 1 to 128 letters, digits, "
			      "_ - or ., and is not \"master\"",
			      i, s->name ? s->name : "");
	if (!has_size(c, s))
		zr_check_fail(c,
			      "state %s has type %d and %u bytes per block; expected ZR_F32, "
			      "ZR_BF16 or ZR_F16, or no type and bytes per block, or neither "
			      "with ZR_OPT_WHOLE and block_bytes()",
			      s->name, s->dtype, s->bytes_per_block);
	if (!isfinite(s->init))
		zr_check_fail(c, "state %s begins with a value that is not finite", s->name);
	if (s->init != 0 && s->dtype != ZR_F32)
		zr_check_fail(c,
			      "state %s begins with %g; only those of ZR_F32 may begin with "
			      "another number than 0",
			      s->name, s->init);
	for (uint32_t k = 0; k < i; k++)
		if (!strcmp(b->state[k].name, s->name))
			zr_check_fail(c, "two states are called %s", s->name);
}

static void look_at_flags(struct zr_check *c, const struct zr_bench *b)
{
	const struct zr_optimizer_v1 *v = c->vtbl;
	const uint32_t known = ZR_STATE_FROM_PARAM | ZR_STATE_FOR_EVAL;
	int evaluate = 0;

	if (!ZR_HAS(v, struct zr_optimizer_v1, state_flags) || !v->state_flags)
		return;

	for (uint32_t i = 0; i < b->n_states; i++) {
		const uint32_t flags = b->flags[i];
		if (flags & ~known)
			zr_check_fail(c, "state %s has unknown flags 0x%x", b->state[i].name,
				      flags & ~known);
		if (flags && b->state[i].dtype != ZR_F32)
			zr_check_fail(c, "state %s has flags 0x%x and is not of ZR_F32",
				      b->state[i].name, flags);
		if (flags & ZR_STATE_FROM_PARAM && b->state[i].init != 0)
			zr_check_fail(c, "state %s begins as the parameter, and with %g",
				      b->state[i].name, b->state[i].init);
		evaluate += (flags & ZR_STATE_FOR_EVAL) != 0;
	}

	if (evaluate > 1)
		zr_check_fail(c, "%d states have the weights for evaluation; one can", evaluate);
}

static void look_at_scalars(struct zr_check *c)
{
	const struct zr_optimizer_v1 *v = c->vtbl;

	if (!ZR_HAS(v, struct zr_optimizer_v1, n_run))
		return;
	if (!v->advance != !v->n_run || !v->run_names != !v->n_run || v->n_run > ZR_OPT_RUN)
		zr_check_fail(c, "n_run is %u, with %s advance() and %s names; 1 to %d need both",
			      v->n_run, v->advance ? "an" : "no", v->run_names ? "some" : "no",
			      ZR_OPT_RUN);
	for (uint32_t i = 0; i < v->n_run; i++) {
		if (!zr_is_state_name(v->run_names[i]))
			zr_check_fail(c,
				      "scalar %u of the run is called \"%s\"; a name has 1 to 128 "
				      "letters, digits, _ - or .",
				      i, v->run_names[i] ? v->run_names[i] : "");
		for (uint32_t k = 0; k < i; k++)
			if (!strcmp(v->run_names[k], v->run_names[i]))
				zr_check_fail(c, "two scalars of the run are called %s",
					      v->run_names[i]);
	}
}

void zr_test_states(struct zr_check *c)
{
	const struct zr_optimizer_v1 *v = c->vtbl;

	if (v->caps & ~KNOWN_CAPS)
		zr_check_fail(c, "caps has unknown bits 0x%x", v->caps & ~KNOWN_CAPS);
	if (!v->mem_ok || v->mem_ok & ~KNOWN_MEM)
		zr_check_fail(c, "mem_ok is 0x%x, expected one or more of ZR_MEM_*", v->mem_ok);
	if (!v->partial != !v->n_partial)
		zr_check_fail(c, "n_partial is %u, and there is %s partial()", v->n_partial,
			      v->partial ? "a" : "no");
	if (v->caps & ZR_OPT_WHOLE && !v->step_whole)
		zr_check_fail(c, "ZR_OPT_WHOLE is set, and there is no step_whole()");
	struct zr_bench *b = RUN(.steps = -1);
	zr_blame(c, "states");
	for (uint32_t i = 0; i < b->n_states; i++)
		look_at_state(c, b, i);
	look_at_flags(c, b);
	look_at_scalars(c);
}

void zr_test_step(struct zr_check *c)
{
	struct zr_bench *b = RUN(0), *still = RUN(.lr = 1e-30);
	for (int64_t i = 0; i < b->blocks * ZR_BLOCK; i++)
		if (!zr_bench_padding(i) && !isfinite(b->master[i]))
			zr_check_fail(c,
				      "after 3 steps with small gradients element %" PRId64
				      " is %g",
				      i, b->master[i]);
	if (!memcmp(b->master, still->master, (size_t)b->blocks * ZR_BLOCK * 4))
		zr_check_fail(c, "it ignores the lr of the step; use s->lr, not an option");
}

void zr_test_multiplier(struct zr_check *c)
{
	zr_bench_same(RUN(0), RUN(.scale = 8), "gradients 8 times as large and grad_mult an 8th");
}

void zr_test_padding(struct zr_check *c)
{
	const uint32_t padding = ZR_BENCH_PADDING;
	struct zr_bench *b = RUN(.lowp = ZR_BF16);
	uint16_t half;

	for (int64_t i = 0; i < b->blocks * ZR_BLOCK; i++) {
		if (!zr_bench_padding(i))
			continue;

		memcpy(&half, b->lowp + 2 * i, 2);
		if (memcmp(&b->master[i], &padding, 4) || half != 0x5c5c)
			zr_check_fail(c,
				      "it wrote into the padding of %s, at element %" PRId64
				      "; update seg[i].n elements from seg[i].off on",
				      half != 0x5c5c ? "the copy in 16 bits" : "the master", i);
		for (uint32_t k = 0; k < b->n_states; k++) {
			float x;
			if (b->state[k].dtype != ZR_F32)
				continue;

			memcpy(&x, b->data[k] + 4 * i, 4);
			if (!(x == (float)b->state[k].init))
				zr_check_fail(c,
					      "it wrote into the padding of state %s, at "
					      "element %" PRId64,
					      b->state[k].name, i);
		}
	}
}

static uint16_t to_bf16(float x)
{
	uint32_t u;
	memcpy(&u, &x, 4);
	return (uint16_t)((u + 0x8000u) >> 16);
}

/* To the nearest, ties to even; neither is for a NaN. */
static uint16_t to_fp16(float x)
{
	double a = fabs((double)x);
	uint16_t sign = signbit(x) ? 0x8000 : 0;
	int e;

	if (a >= 65520) /* halfway between the largest and what would be next */
		return sign | 0x7c00;
	if (a < 0x1p-14)
		return sign | (uint16_t)nearbyint(a * 0x1p24);

	frexp(a, &e);
	double m = nearbyint(ldexp(a, 11 - e)); /* 1024 .. 2048 */
	return sign | (uint16_t)(((e + 14) << 10) + (int)m - 1024);
}

static void look_at_bf16(struct zr_check *c, int64_t i, float master, const char *copy)
{
	uint16_t got;

	memcpy(&got, copy + 2 * i, 2);
	if (isnan(master) && (got & 0x7fc0) != 0x7fc0)
		zr_check_fail(c,
			      "element %" PRId64 " of the copy in bf16 is 0x%04x, and the "
			      "master is a NaN, which must stay one: make it quiet and cut it, "
			      "since bits + 0x8000 may become 0",
			      i, got);
	if (!isnan(master) && got != to_bf16(master))
		zr_check_fail(c,
			      "element %" PRId64 " of the copy in bf16 is 0x%04x, and the "
			      "master %a is 0x%04x: round half away from zero (bits + 0x8000, "
			      "cut)",
			      i, got, master, to_bf16(master));
}

static void look_at_fp16(struct zr_check *c, int64_t i, float master, const char *copy)
{
	uint16_t got;

	memcpy(&got, copy + 2 * i, 2);
	if (isnan(master) && (got & 0x7fff) <= 0x7c00)
		zr_check_fail(c,
			      "element %" PRId64 " of the copy in fp16 is 0x%04x, and the "
			      "master is a NaN, which must stay one",
			      i, got);
	if (!isnan(master) && got != to_fp16(master))
		zr_check_fail(c,
			      "element %" PRId64 " of the copy in fp16 is 0x%04x, and the "
			      "master %a is 0x%04x: round to the nearest, ties to even, keep "
			      "subnormal numbers; what is too large becomes infinite",
			      i, got, master, to_fp16(master));
}

static void look_at_fp32(struct zr_check *c, int64_t i, float master, const char *copy)
{
	if (memcmp(copy + 4 * i, &master, 4))
		zr_check_fail(c,
			      "element %" PRId64 " of the copy in fp32 is not the master; "
			      "lowp.dtype may be ZR_F32: copy it then",
			      i);
}

static const struct {
	int32_t dtype;
	void (*look)(struct zr_check *c, int64_t i, float master, const char *copy);
} copies[] = { { ZR_BF16, look_at_bf16 }, { ZR_F16, look_at_fp16 }, { ZR_F32, look_at_fp32 } };

static void look_at_copy(struct zr_check *c, const struct zr_bench *b, int type)
{
	for (int64_t i = 0; i < b->blocks * ZR_BLOCK && !b->no_fp16; i++)
		if (!zr_bench_padding(i))
			copies[type].look(c, i, b->master[i], b->lowp);
}

/* With so small an lr masters stay what they are: numbers at which it shows how they are rounded.
 * Beside numbers that are none, steps may fail. */
void zr_test_rounding(struct zr_check *c)
{
	if (((const struct zr_optimizer_v1 *)c->vtbl)->caps & ZR_OPT_WHOLE)
		zr_check_skip(c, "the host rounds for optimizers of whole matrices");
	struct zr_bench *plain = RUN(0);
	for (int t = 0; t < 3; t++) {
		const int32_t type = copies[t].dtype;
		struct zr_bench *b = RUN(.lowp = type);
		if (!b->no_fp16)
			zr_bench_same(plain, b, "a copy of the master");
		look_at_copy(c, b, t);
		look_at_copy(c, RUN(.lowp = type, .params = ZR_PARAM_TIES, .lr = 1e-30), t);
		look_at_copy(c, RUN(.lowp = type, .params = ZR_PARAM_SPECIAL, .lr = 1e-30), t);
	}
}

/* ---- parameter groups ------------------------------------------------------------ */

/* One instance updates the tensors of all its groups, each with the options of its own. */
void zr_test_param_groups(struct zr_check *c)
{
	const struct zr_optimizer_v1 *v = c->vtbl;
	struct zr_try t = { .c = c };

	if (v->n_partial && ZR_HAS(v, struct zr_optimizer_v1, n_run) && v->n_run)
		zr_check_skip(c, "what it sums over all parameters joins its groups");

	zr_try_host(c, &t);
	zr_try_options(c, &t);
	zr_try_options_suit(&t, zr_try_resolve(&t));
	if (!zr_bench_other_options(&t))
		zr_check_skip(c, "none of its options may differ between parameter groups");

	struct zr_bench *all[2] = { RUN(.piece = 1), RUN(.piece = 1, .groups = ZR_GROUPS_OTHER) };
	struct zr_bench *mixed = RUN(.piece = 1, .groups = ZR_GROUPS_MIXED);
	for (int i = 0; i < ZR_BENCH_TENSORS; i++)
		zr_bench_same_tensor(all[i % 2], mixed, i,
				     "two parameter groups (read options "
				     "with ZR_O_GROUP from s->opts in each call)");
}

/* ---- gradients of 0 -------------------------------------------------------------- */

static void look_at_finite(struct zr_check *c, const struct zr_bench *b, const char *when)
{
	for (int64_t i = 0; i < b->blocks * ZR_BLOCK; i++) {
		if (zr_bench_padding(i))
			continue;
		if (!isfinite(b->master[i]))
			zr_check_fail(c,
				      "%s element %" PRId64 " of the master becomes %g; take "
				      "care not to divide by 0",
				      when, i, b->master[i]);
		for (uint32_t k = 0; k < b->n_states; k++) {
			float x = 0;
			if (b->state[k].dtype == ZR_F32)
				memcpy(&x, b->data[k] + 4 * i, 4);
			if (!isfinite(x))
				zr_check_fail(c,
					      "%s element %" PRId64 " of state %s becomes %g; "
					      "take care not to divide by 0",
					      when, i, b->state[k].name, x);
		}
	}
}

void zr_test_zeros(struct zr_check *c)
{
	look_at_finite(c, RUN(.grads = ZR_GRAD_ZERO), "with gradients of 0");
	look_at_finite(c, RUN(.grads = ZR_GRAD_SOME), "where some gradients are 0");
	look_at_finite(c, RUN(.grads = ZR_GRAD_ZERO, .params = ZR_PARAM_ZERO),
		       "with gradients and parameters of 0");
	look_at_finite(c, RUN(.params = ZR_PARAM_ZERO), "with parameters of 0");
	look_at_finite(c, RUN(.grads = ZR_GRAD_TINY),
		       "with gradients whose squares are 0 in fp32 (1e-30)");
}

/* ---- memory ---------------------------------------------------------------------- */

/* It takes each kind of memory that it says it takes. */
void zr_test_mem_ok(struct zr_check *c)
{
	const uint32_t mem_ok = ((const struct zr_optimizer_v1 *)c->vtbl)->mem_ok;
	if (mem_ok & ZR_MEM_HOST && mem_ok & ZR_MEM_PINNED)
		zr_bench_same(RUN(0), RUN(.mem = ZR_MEM_PINNED), "buffers of ZR_MEM_PINNED");
	if (mem_ok & ZR_MEM_DEVICE)
		RUN(.mem = ZR_MEM_DEVICE, .lenient = 1);
}

/* ---- same bits ------------------------------------------------------------------- */

void zr_test_cut(struct zr_check *c)
{
	if (!(((const struct zr_optimizer_v1 *)c->vtbl)->caps & ZR_OPT_ELEMENTWISE))
		zr_check_skip(c, "ZR_OPT_ELEMENTWISE is not among its caps");
	struct zr_bench *b = RUN(0);
	zr_bench_same(b, RUN(.piece = 1), "pieces of one block");
	zr_bench_same(b, RUN(.piece = 2), "pieces of two blocks");
	zr_bench_same(b, RUN(.piece = 3, .backwards = 1), "pieces from last to first");
}

void zr_test_repeat(struct zr_check *c)
{
	struct zr_bench *b = RUN(.steps = 2), *longer;

	zr_bench_same(b, RUN(.steps = 2), "the same calls again");
	int64_t made = zr_imports_made();
	longer = RUN(.steps = 2);
	int64_t two = zr_imports_made() - made;
	made = zr_imports_made();
	longer = RUN(.steps = 6);
	if (zr_imports_made() - made > two)
		zr_check_fail(c,
			      "it allocates memory, %" PRId64 " times in 4 calls; do it in "
			      "create",
			      zr_imports_made() - made - two);
	(void)longer;
}

void zr_test_restore(struct zr_check *c)
{
	zr_bench_same(RUN(.steps = 5), RUN(.steps = 5, .restart = 4),
		      "a new instance, and the states of the old one,");
}

void zr_test_ranks(struct zr_check *c)
{
	zr_bench_same(RUN(0), RUN(.rank = 1, .world = 2), "rank 1 of 2");
}

void zr_test_nonfinite(struct zr_check *c)
{
	const struct zr_optimizer_v1 *v = c->vtbl;
	struct zr_bench *b = RUN(0), *odd = RUN(.grads = ZR_GRAD_ODD, .lenient = 1);

	if (!(v->caps & ZR_OPT_ELEMENTWISE) || v->n_partial)
		return;

	for (int64_t i = 0; i < b->blocks * ZR_BLOCK; i++)
		if (!zr_bench_padding(i) && i % 512 != 7 &&
		    memcmp(&b->master[i], &odd->master[i], 4)) {
			int blocks = 0; /* of codes: they share a scale */
			for (uint32_t k = 0; k < b->n_states; k++)
				blocks |= !b->state[k].dtype;
			if (!blocks)
				zr_check_fail(c,
					      "an infinite gradient of another element changes "
					      "element %" PRId64,
					      i);
		}
}

void zr_test_shorter(struct zr_check *c)
{
	zr_bench_same(RUN(0), RUN(.minor = c->plugin->entry->need_minor + 1u),
		      "a host of the oldest minor that it says it needs");
}

void zr_test_longer(struct zr_check *c)
{
	zr_bench_same(RUN(0), RUN(.grown = 64), "a host of a later minor");
}

/* ---- what it computes ------------------------------------------------------------ */

void zr_compute_optimizer(struct zr_check *c, struct zr_results *r)
{
	const struct zr_optimizer_v1 *v = c->vtbl;
	const char *function = v->caps & ZR_OPT_WHOLE ? "step_whole" : "step";
	struct zr_bench *b = RUN(.lowp = v->caps & ZR_OPT_WHOLE ? 0 : ZR_BF16,
				 .lr = c->seed ? 3e-3 : 0, .scale = c->seed ? 4 : 0);

	for (int i = 0; i < ZR_BENCH_TENSORS; i++) {
		const struct zr_bench_tensor *t = &zr_bench_tensors[i];
		const size_t at = (size_t)t->first * ZR_BLOCK, n = (size_t)t->elements;
		zr_result_add(c, r, function, b->master + at, 4 * n, "the master of %s", t->name);
		zr_result_add(c, r, function, b->lowp + 2 * at, 2 * n, "the copy in 16 bits of %s",
			      t->name);
		for (uint32_t k = 0; k < b->n_states; k++) {
			const uint64_t block = zr_bench_block_of(b, k, i);
			const char *data = b->data[k] + (uint64_t)t->first * zr_bench_block(b, k);
			const int64_t whole = b->state[k].bytes_per_block ? t->elements / ZR_BLOCK :
									    t->blocks;
			const uint64_t bytes = b->state[k].dtype ? n * (block / ZR_BLOCK) :
								   (uint64_t)whole * block;
			zr_result_add(c, r, function, data, bytes, "state %s of %s",
				      b->state[k].name, t->name);
		}
	}

	zr_bench_free(b);
}
