/* SPDX-License-Identifier: Apache-2.0
 *
 * optimizer.c - tests of optimizers.
 */
#include "cmd/check/optimizer.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static struct zr_bench *run(struct zr_check *c, struct zr_bench_way way)
{
	return zr_bench_run(c, &way);
}
#define RUN(...) run(c, (struct zr_bench_way){ __VA_ARGS__ })

#define KNOWN_CAPS (ZR_OPT_ELEMENTWISE | ZR_OPT_WHOLE)
#define KNOWN_MEM (ZR_MEM_HOST | ZR_MEM_PINNED | ZR_MEM_DEVICE)

static void look_at_state(struct zr_check *c, const struct zr_bench *b, uint32_t i)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				      "0123456789._-";
	const struct zr_state *s = &b->state[i];
	if (!s->name || !*s->name || strlen(s->name) > 128 ||
	    strspn(s->name, letters) != strlen(s->name) || !strcmp(s->name, "master"))
		zr_check_fail(c, "state %u is called \"%s\"; a name has 1 to 128 letters, digits, "
			      "_ - or ., and is not \"master\"", i, s->name ? s->name : "");
	if (s->dtype ? (s->dtype != ZR_F32 && s->dtype != ZR_BF16 && s->dtype != ZR_F16) ||
			       s->bytes_per_block :
		       !s->bytes_per_block || s->bytes_per_block > 1u << 20)
		zr_check_fail(c, "state %s has type %d and %u bytes per block; expected ZR_F32, "
			      "ZR_BF16 or ZR_F16, or no type and bytes per block", s->name,
			      s->dtype, s->bytes_per_block);
	if (!isfinite(s->init))
		zr_check_fail(c, "state %s begins with a value that is not finite", s->name);
	if (s->init != 0 && s->dtype != ZR_F32)
		zr_check_fail(c, "state %s begins with %g; only those of ZR_F32 may begin with "
			      "another number than 0", s->name, s->init);
	for (uint32_t k = 0; k < i; k++)
		if (!strcmp(b->state[k].name, s->name))
			zr_check_fail(c, "two states are called %s", s->name);
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
}

void zr_test_step(struct zr_check *c)
{
	struct zr_bench *b = RUN(0), *still = RUN(.lr = 1e-30);
	for (int64_t i = 0; i < b->blocks * ZR_BLOCK; i++)
		if (!zr_bench_padding(i) && !isfinite(b->master[i]))
			zr_check_fail(c, "after 3 steps with small gradients element %" PRId64
				      " is %g", i, b->master[i]);
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
			zr_check_fail(c, "it wrote into the padding of %s, at element %" PRId64
				      "; update seg[i].n elements from seg[i].off on",
				      half != 0x5c5c ? "the copy in 16 bits" : "the master", i);
		for (uint32_t k = 0; k < b->n_states; k++) {
			float x;
			if (b->state[k].dtype != ZR_F32)
				continue;
			memcpy(&x, b->data[k] + 4 * i, 4);
			if (!(x == (float)b->state[k].init))
				zr_check_fail(c, "it wrote into the padding of state %s, at "
					      "element %" PRId64, b->state[k].name, i);
		}
	}
}

static uint16_t to_bf16(float x)
{
	uint32_t u;
	memcpy(&u, &x, 4);
	return (uint16_t)((u + 0x8000u) >> 16);
}

/* To the nearest, ties to even, for values that are not large. */
static uint16_t to_fp16(float x)
{
	double a = fabs((double)x);
	uint16_t sign = signbit(x) ? 0x8000 : 0;
	int e;
	if (a < 0x1p-14)
		return sign | (uint16_t)nearbyint(a * 0x1p24);
	frexp(a, &e);
	double m = nearbyint(ldexp(a, 11 - e)); /* 1024 .. 2048 */
	return sign | (uint16_t)(((e + 14) << 10) + (int)m - 1024);
}

void zr_test_rounding(struct zr_check *c)
{
	static const int32_t types[] = { ZR_BF16, ZR_F16 };
	struct zr_bench *plain = RUN(0);
	if (((const struct zr_optimizer_v1 *)c->vtbl)->caps & ZR_OPT_WHOLE)
		zr_check_skip(c, "the host rounds for optimizers of whole matrices");
	for (int t = 0; t < 2; t++) {
		struct zr_bench *b = RUN(.lowp = types[t]);
		if (b->no_fp16)
			continue;
		zr_bench_same(plain, b, "a copy in 16 bits");
		for (int64_t i = 0; i < b->blocks * ZR_BLOCK; i++) {
			uint16_t got, want = t ? to_fp16(b->master[i]) : to_bf16(b->master[i]);
			memcpy(&got, b->lowp + 2 * i, 2);
			if (!zr_bench_padding(i) && got != want)
				zr_check_fail(c, "element %" PRId64 " of the copy in %s is 0x%04x, "
					      "and the master %a is 0x%04x: round %s", i,
					      t ? "fp16" : "bf16", got, b->master[i], want,
					      t ? "to the nearest, ties to even" :
						  "half away from zero");
		}
	}
}

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
		zr_check_fail(c, "it allocates memory, %" PRId64 " times in 4 calls; do it in "
			      "create", zr_imports_made() - made - two);
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
	struct zr_bench *b = RUN(0), *odd = RUN(.odd = 1, .lenient = 1);
	if (!(v->caps & ZR_OPT_ELEMENTWISE) || v->n_partial)
		return;
	for (int64_t i = 0; i < b->blocks * ZR_BLOCK; i++)
		if (!zr_bench_padding(i) && i % 512 != 7 &&
		    memcmp(&b->master[i], &odd->master[i], 4)) {
			int blocks = 0; /* of codes: they share a scale */
			for (uint32_t k = 0; k < b->n_states; k++)
				blocks |= !b->state[k].dtype;
			if (!blocks)
				zr_check_fail(c, "an infinite gradient of another element changes "
					      "element %" PRId64, i);
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
