/* SPDX-License-Identifier: Apache-2.0
 *
 * bench.c - see optimizer.h.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <zeroth/device.h>
#include <zeroth/elementwise.h>

#include "cmd/check/optimizer.h"

#define BLOCKS 7

const struct zr_bench_tensor zr_bench_tensors[ZR_BENCH_TENSORS] = {
	{ "a.weight", 2, { 40, 60 }, 2400, 0, 2 },
	{ "a.bias", 1, { 2048, 0 }, 2048, 2, 1 },
	{ "b.gain", 1, { 1, 0 }, 1, 3, 1 },
	{ "b.weight", 2, { 96, 64 }, 6144, 4, 3 },
};

int zr_bench_padding(int64_t element)
{
	for (int i = 0; i < ZR_BENCH_TENSORS; i++) {
		int64_t at = element - zr_bench_tensors[i].first * ZR_BLOCK;
		if (at >= 0 && at < zr_bench_tensors[i].elements)
			return 0;
	}

	return 1;
}

static int is_by_shape(const struct zr_bench *b, uint32_t i)
{
	return !b->state[i].dtype && !b->state[i].bytes_per_block;
}

uint64_t zr_bench_block_of(const struct zr_bench *b, uint32_t i, int tensor)
{
	const struct zr_state *s = &b->state[i];

	if (is_by_shape(b, i))
		return b->by_shape[i][tensor];
	if (!s->dtype)
		return s->bytes_per_block;
	return zr_bytes_of(s->dtype, ZR_BLOCK);
}

uint64_t zr_bench_block(const struct zr_bench *b, uint32_t i)
{
	uint64_t most = 0;

	for (int t = 0; t < ZR_BENCH_TENSORS; t++)
		if (zr_bench_block_of(b, i, t) > most)
			most = zr_bench_block_of(b, i, t);
	return most;
}

static void *grab(struct zr_check *c, uint64_t bytes)
{
	void *p = calloc(1, bytes);
	if (!p)
		zr_check_lacks(c, "memory");
	return p;
}

static uint16_t bits16(int32_t dtype, float x)
{
	uint32_t u;
	memcpy(&u, &x, 4);
	if (dtype == ZR_BF16)
		return (uint16_t)(u >> 16);
	return x == 0 ? 0 : 0x3c00; /* first values of states: 0, or 1 */
}

static void fill_state(struct zr_bench *b, uint32_t i)
{
	const struct zr_state *s = &b->state[i];
	float init = (float)s->init;

	for (int64_t k = 0; k < b->blocks * ZR_BLOCK && s->dtype; k++) {
		uint16_t half = bits16(s->dtype, init);
		if (s->dtype == ZR_F32)
			memcpy(b->data[i] + 4 * k, &init, 4);
		else
			memcpy(b->data[i] + 2 * k, &half, 2);
	}
}

static void read_flags(struct zr_bench *b)
{
	const int some = ZR_HAS(b->v, struct zr_optimizer_v1, state_flags) && b->v->state_flags;

	for (uint32_t i = 0; some && b->c->minor >= 5 && i < b->n_states; i++) {
		zr_enter(b->c, ZR_MAIN, "state_flags");
		b->flags[i] = b->v->state_flags(b->it.inst, i);
		zr_left(b->c, 0);
	}
}

/* Bytes per block of a state by shape of a tensor. */
static uint32_t ask_block_bytes(struct zr_bench *b, uint32_t i, int tensor)
{
	const struct zr_bench_tensor *t = &zr_bench_tensors[tensor];

	zr_enter(b->c, ZR_MAIN, "block_bytes");
	const uint32_t bytes = b->v->block_bytes(b->it.inst, i, t->dims, t->ndim);
	zr_left(b->c, 0);
	if (bytes > ZR_STATE_BLOCK_MOST || bytes % 64)
		zr_check_fail(b->c,
			      "state %s needs %u bytes per block of %s, multiples of 64 up to %u "
			      "can be",
			      b->state[i].name, bytes, t->name, ZR_STATE_BLOCK_MOST);
	return bytes;
}

static void read_by_shape(struct zr_bench *b)
{
	if (b->c->minor < 5 || !zr_bench_may_be_by_shape(b->v))
		return;

	for (uint32_t i = 0; i < b->n_states; i++)
		for (int t = 0; t < ZR_BENCH_TENSORS && is_by_shape(b, i); t++)
			b->by_shape[i][t] = ask_block_bytes(b, i, t);
}

int zr_bench_may_be_by_shape(const struct zr_optimizer_v1 *v)
{
	return v->caps & ZR_OPT_WHOLE && ZR_HAS(v, struct zr_optimizer_v1, block_bytes) &&
	       v->block_bytes;
}

/* Only stable for the life of an instance, so it is read again for each. */
static void read_states(struct zr_bench *b)
{
	struct zr_check *c = b->c;
	uint32_t n = 0;

	zr_enter(c, ZR_MAIN, "states");
	const struct zr_state *s = b->v->states(b->it.inst, &n);
	zr_left(c, 0);
	if (n > ZR_BENCH_STATES)
		zr_check_skip(c, "it has more states than this test can hold");
	if (n && (!s || b->v->state_stride < sizeof *s))
		zr_check_fail(c, "%u states at %p with a stride of %u bytes, expected at least %zu",
			      n, (const void *)s, b->v->state_stride, sizeof *s);
	b->n_states = n;
	for (uint32_t i = 0; i < n; i++)
		memcpy(&b->state[i], (const char *)s + (size_t)i * b->v->state_stride, sizeof *s);
	read_by_shape(b);
	read_flags(b);
}

/* A parameter at which it shows how copies in 16 bits are rounded; u: random bits. */
static float tie(uint32_t u, int64_t k)
{
	static const float few[] = { 65519.996f, 65520,      65504,    1e5f,
				     0x1p-25f,   0x1.8p-25f, 0x1p-26f, 1e-40f };
	const float sign = u & 1 ? -1 : 1;
	const uint32_t exponent = (113 + u % 28) << 23; /* one of fp16, too */
	uint32_t bits = exponent;
	float x;

	switch (k % 4) {
	case 0: /* halfway in bf16 */
		bits |= (u & 0x7f0000) | 0x8000;
		break;
	case 1: /* halfway in fp16 */
		bits |= (u & 0x7fe000) | 0x1000;
		break;
	case 2: /* halfway between subnormal numbers of fp16 */
		return sign * ((float)(u % 1023) + 0.5f) * 0x1p-24f;
	default:
		return sign * few[u / 2 % 8];
	}
	memcpy(&x, &bits, 4);
	return sign * x;
}

static float special(int64_t k)
{
	static const uint32_t bits[] = { 0x7fffffff, 0xffffffff, 0x7fc00001, 0x7f800001,
					 0xff80ffff, 0x7f800000, 0xff800000, 0x7f7fffff,
					 0xff7fffff, 0x7f7f8000, 0x3f808000 };
	float x;

	memcpy(&x, &bits[(uint64_t)k % (sizeof bits / sizeof *bits)], 4);
	return x;
}

static void fill_master(struct zr_bench *b, int params)
{
	uint32_t u;

	zr_fill_random(b->master, b->blocks * ZR_BLOCK, 1 + b->c->seed, 0.5f);
	for (int64_t k = 0; k < b->blocks * ZR_BLOCK; k++) {
		memcpy(&u, &b->master[k], 4);
		if (params == ZR_PARAM_ZERO)
			b->master[k] = 0;
		else if (params == ZR_PARAM_TIES)
			b->master[k] = tie(u * 2654435761u >> 3, k);
		else if (params == ZR_PARAM_SPECIAL)
			b->master[k] = special(k);
	}
}

static void prepare(struct zr_bench *b, const struct zr_bench_way *way)
{
	const int64_t n = b->blocks * ZR_BLOCK;
	const uint32_t padding = ZR_BENCH_PADDING;

	b->master = grab(b->c, (uint64_t)n * 4);
	b->grad = grab(b->c, (uint64_t)n * 4);
	b->lowp = grab(b->c, (uint64_t)n * 4);
	for (uint32_t i = 0; i < b->n_states; i++) {
		b->data[i] = grab(b->c, (uint64_t)b->blocks * zr_bench_block(b, i));
		fill_state(b, i);
	}

	fill_master(b, way->params);
	for (uint32_t i = 0; i < b->n_states; i++)
		for (int64_t k = 0; k < n && b->flags[i] & ZR_STATE_FROM_PARAM; k++)
			if (!zr_bench_padding(k) && b->state[i].dtype == ZR_F32)
				memcpy(b->data[i] + 4 * k, &b->master[k], 4);
	memset(b->lowp, 0x5c, (size_t)n * 4);
	for (int64_t k = 0; k < n; k++)
		if (zr_bench_padding(k))
			memcpy(&b->master[k], &padding, 4);
}

/* The gradients of one step. */
static void fill_grad(struct zr_bench *b, const struct zr_bench_way *way, int step)
{
	const uint32_t padding = ZR_BENCH_PADDING;
	static const float odd[] = { INFINITY, -INFINITY, NAN, 1e-40f, 3e38f, -0.0f };

	zr_fill_random(b->grad, b->blocks * ZR_BLOCK, (uint64_t)(10 + step) + b->c->seed,
		       way->scale ? way->scale : 1);
	for (int64_t k = 0; k < b->blocks * ZR_BLOCK; k++) {
		if (way->grads == ZR_GRAD_ODD && k % 512 == 7)
			b->grad[k] = odd[k / 512 % 6];
		else if (way->grads == ZR_GRAD_ZERO || (way->grads == ZR_GRAD_SOME && k % 3))
			b->grad[k] = 0;
		else if (way->grads == ZR_GRAD_TINY)
			b->grad[k] *= k % 2 ? 1e-30f : 1e-40f;
		if (zr_bench_padding(k))
			memcpy(&b->grad[k], &padding, 4);
	}
}

/* ---- the text of an update ------------------------------------------------------- */

static _Thread_local const struct zr_ops *device;
static _Thread_local const char *functions, *text; /* what it was given last */

static int note(const struct zr_opt_step *s, const struct zr_elementwise *e)
{
	functions = e->functions;
	text = e->text;
	return device->elementwise(s, e);
}

/* The host's function for updates of one element, which notes the text; NULL: none. */
static int (*watch_text(const struct zr_ops *ops))(const struct zr_opt_step *,
						   const struct zr_elementwise *)
{
	device = ops;
	return ops && ops->elementwise ? note : NULL;
}

/* ---- one call -------------------------------------------------------------------- */

struct piece {
	int64_t first, n; /* blocks */
	struct zr_seg seg[BLOCKS];
	char *segments; /* as they are lent, seg_stride apart */
	uint64_t n_seg;
	struct zr_buf state[ZR_BENCH_STATES];
	double *partials, *run, *run_before;
	struct zr_opt_step *step;
	struct zr_scalars *scalars;
	void *work;
	uint64_t work_bytes;
};

/* Its segments; `apart`: each in one block. */
static void cut(struct piece *p, int apart)
{
	p->n_seg = 0;
	for (int i = 0; i < ZR_BENCH_TENSORS; i++) {
		const struct zr_bench_tensor *t = &zr_bench_tensors[i];
		int64_t from = p->first > t->first ? p->first : t->first;
		int64_t end = t->first + t->blocks;
		end = end < p->first + p->n ? end : p->first + p->n;
		for (int64_t at = from, to; at < end; at = to) {
			int64_t off = (at - t->first) * ZR_BLOCK, n;
			to = apart ? at + 1 : end;
			n = (to - at) * ZR_BLOCK;
			n = n < t->elements - off ? n : t->elements - off;
			p->seg[p->n_seg++] = (struct zr_seg){
				(at - p->first) * ZR_BLOCK, n, off, i, t->ndim, t->dims, t->name
			};
		}
	}
}

/* States of a piece: those by shape, of the one tensor that it is, lie together. NULL: none. */
static void *lend_state(struct zr_bench *b, uint32_t i, const struct piece *p)
{
	static const char *const names[] = { "state 0", "state 1", "state 2", "state 3" };
	const uint64_t own = (uint64_t)p->n * zr_bench_block_of(b, i, p->seg[0].param);
	const char *from = b->data[i] + (uint64_t)p->first * zr_bench_block(b, i);
	if (!own)
		return NULL;

	char *to = zr_area_new(b->c, names[i % 4], own, 64);
	memcpy(to, from, own);
	return to;
}

static void return_state(struct zr_bench *b, uint32_t i, const struct piece *p)
{
	const uint64_t own = (uint64_t)p->n * zr_bench_block_of(b, i, p->seg[0].param);
	void *lent = p->state[i].data;
	if (!lent)
		return;

	memcpy(b->data[i] + (uint64_t)p->first * zr_bench_block(b, i), lent, own);
	zr_area_free(b->c, lent);
}

static void *lend(struct zr_bench *b, const char *name, const char *from, uint64_t block,
		  const struct piece *p)
{
	char *to = zr_area_new(b->c, name, (uint64_t)p->n * block, 64);
	memcpy(to, from + (uint64_t)p->first * block, (size_t)p->n * block);
	return to;
}

static void give_back(struct zr_bench *b, void *lent, char *to, uint64_t block,
		      const struct piece *p)
{
	memcpy(to + (uint64_t)p->first * block, lent, (size_t)p->n * block);
	zr_area_free(b->c, lent);
}

static struct zr_buf buffer(void *data, int64_t blocks, int32_t dtype,
			    const struct zr_bench_way *way)
{
	return (struct zr_buf){ data, data ? (uint64_t)(blocks * ZR_BLOCK) : 0, dtype,
				way->mem ? way->mem : ZR_MEM_HOST };
}

static uint64_t lowp_block(const struct zr_bench_way *way)
{
	return zr_bytes_of(way->lowp, ZR_BLOCK);
}

/* ---- a device whose memory the processor cannot reach ------------------------------ */

/* Whatever it is asked to do is done later, on the device. */
static int enqueued(void)
{
	return ZR_OK;
}

static int enqueued_text(const struct zr_opt_step *s, const struct zr_elementwise *e)
{
	(void)s, (void)e;
	return ZR_OK;
}

static const struct zr_ops *device_ops(void)
{
	static const struct zr_native native = { .size = sizeof native, .api = ZR_NATIVE_CUDA };
	static struct zr_ops ops;

	int (*const fn)(void) = enqueued;
	for (size_t at = offsetof(struct zr_ops, matmul); at < offsetof(struct zr_ops, native);
	     at += sizeof fn)
		memcpy((char *)&ops + at, &fn, sizeof fn);
	ops.size = sizeof ops;
	ops.native = &native;
	ops.elementwise = enqueued_text;
	return &ops;
}

/* The step's buffers become memory of such a device. */
static void hide_buffers(struct zr_check *c, const struct piece *p)
{
	const struct zr_opt_step *s = p->step;
	const void *all[] = { s->master.data, s->grad.data, s->lowp.data,
			      p->partials,    p->work,      p->scalars };

	for (uint32_t i = 0; i < s->n_state; i++)
		if (p->state[i].data)
			zr_area_hide(c, p->state[i].data);
	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		if (all[i])
			zr_area_hide(c, all[i]);
}

static void show_buffers(struct zr_check *c, const struct piece *p)
{
	const struct zr_opt_step *s = p->step;
	const void *all[] = { s->master.data, s->lowp.data, p->partials };

	for (uint32_t i = 0; i < s->n_state; i++)
		if (p->state[i].data)
			zr_area_protect(c, p->state[i].data, 0);
	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		if (all[i])
			zr_area_protect(c, all[i], 0);
}

/* ---- a call of the plugin ---------------------------------------------------------- */

/* Of the parameter group that the first tensor of a piece is in. */
static const void *options_of(const struct zr_bench *b, const struct piece *p)
{
	return b->others && p->seg[0].param % 2 ? b->others : b->it.opts;
}

/* What a plugin of a minor version of the ABI knows of the struct. */
static size_t step_size(int minor)
{
	if (minor < 1)
		return offsetof(struct zr_opt_step, work);
	if (minor < 4)
		return offsetof(struct zr_opt_step, native);
	if (minor < 5)
		return offsetof(struct zr_opt_step, run);
	return sizeof(struct zr_opt_step);
}

static void begin(struct zr_bench *b, struct piece *p, const struct zr_bench_way *way, int number)
{
	struct zr_check *c = b->c;
	const double lr = way->lr ? way->lr : 1e-2, mult = way->scale ? 0.5 / way->scale : 0.5;
	const struct zr_scalars scalars = { number, (float)mult, (float)lr };
	const struct zr_ops *ops = way->mem == ZR_MEM_DEVICE ? device_ops() : zr_check_ops(c);
	const struct zr_entry *e = c->plugin->entry;
	const int knows = zr_draft_fits(e, ZR_OF_DEVICE); /* as core judges it */
	const uint32_t more = c->grown && e->abi_minor >= 4 ? 16 : 0;
	struct zr_opt_step s = {
		.size = sizeof s,
		.n_state = b->n_states,
		.step = number,
		.lr = lr,
		.grad_mult = mult,
		.opts = options_of(b, p),
		.state = p->state,
		.n_seg = p->n_seg,
		.seg_stride = (uint32_t)sizeof(struct zr_seg) + more,
		.seed = 42,
		.ops = knows ? ops : NULL,
		.native = ops ? ops->native : NULL,
		.elementwise = watch_text(ops),
		.matrices = ops ? ops->matrices : NULL,
	};

	for (uint32_t i = 0; i < b->n_states; i++)
		p->state[i] = buffer(lend_state(b, i, p), p->n, b->state[i].dtype, way);
	s.master = buffer(lend(b, "the master", (char *)b->master, 4 * ZR_BLOCK, p), p->n, ZR_F32,
			  way);
	s.grad = buffer(lend(b, "the gradient", (char *)b->grad, 4 * ZR_BLOCK, p), p->n, ZR_F32,
			way);
	zr_area_protect(c, s.grad.data, 1);
	if (way->lowp)
		s.lowp = buffer(lend(b, "the copy in 16 bits", b->lowp, lowp_block(way), p), p->n,
				way->lowp, way);
	p->scalars = zr_area_new(c, "struct zr_scalars", sizeof *p->scalars, 8);
	*p->scalars = scalars;
	s.scalars = knows && ops ? p->scalars : NULL;
	p->segments = zr_area_new(c, "the segments", p->n_seg * s.seg_stride, 8);
	for (uint64_t i = 0; i < p->n_seg; i++)
		memcpy(p->segments + i * s.seg_stride, &p->seg[i], sizeof *p->seg);
	zr_area_protect(c, p->segments, 1);
	s.seg = (const struct zr_seg *)(const void *)p->segments;
	p->partials = NULL;
	if (b->v->n_partial) {
		p->partials = zr_area_new(c, "the partial sums",
					  p->n_seg * b->v->n_partial * sizeof(double), 8);
		for (uint64_t i = 0; i < p->n_seg; i++)
			for (uint32_t k = 0; k < b->v->n_partial; k++)
				p->partials[i * b->v->n_partial + k] = b->total[p->seg[i].param][k];
	}

	p->run = zr_bench_lend_scalars(b, b->run);
	p->run_before = zr_bench_lend_scalars(b, b->run_before);
	s.run = p->run;
	s.run_before = p->run_before;
	s.partials = p->partials;
	s.work = p->work;
	s.work_bytes = p->work_bytes;
	p->step = zr_lend(c, "struct zr_opt_step", &s, sizeof s, step_size(c->minor));
	if (way->mem == ZR_MEM_DEVICE)
		hide_buffers(c, p);
}

static void finish(struct zr_bench *b, struct piece *p, const struct zr_bench_way *way)
{
	struct zr_check *c = b->c;

	if (way->mem == ZR_MEM_DEVICE)
		show_buffers(c, p);
	for (uint32_t i = 0; i < b->n_states; i++)
		return_state(b, i, p);
	give_back(b, p->step->master.data, (char *)b->master, 4 * ZR_BLOCK, p);
	if (way->lowp)
		give_back(b, p->step->lowp.data, b->lowp, lowp_block(way), p);
	zr_area_free(c, p->step->grad.data);
	zr_area_free(c, p->scalars);
	zr_area_free(c, p->segments);
	if (p->partials)
		zr_area_free(c, p->partials);
	if (p->run) {
		zr_area_free(c, p->run);
		zr_area_free(c, p->run_before);
	}
	zr_area_free(c, p->step);
}

static void sum_piece(struct zr_bench *b, struct piece *p, const struct zr_bench_way *way,
		      int number)
{
	struct zr_check *c = b->c;

	cut(p, 1);
	memset(b->total, 0, sizeof b->total);
	begin(b, p, way, number);
	double *out = p->partials;
	zr_bench_judge(b, way,
		       ZR_CALL(c, ZR_STEP, "partial", b->v->partial(b->it.inst, p->step, out)));
	if (way->mem == ZR_MEM_DEVICE)
		show_buffers(c, p);
	for (uint64_t i = 0; i < p->n_seg; i++)
		for (uint32_t k = 0; k < b->v->n_partial; k++)
			zr_exact_add(&b->sums[p->seg[i].param][k], out[i * b->v->n_partial + k]);
	if (memcmp(p->step->master.data, (char *)b->master + p->first * 4 * ZR_BLOCK,
		   (size_t)p->n * 4 * ZR_BLOCK))
		zr_check_fail(c, "partial() changed the master; it may only sum");
	finish(b, p, way);
}

static void step_piece(struct zr_bench *b, struct piece *p, const struct zr_bench_way *way,
		       int number)
{
	struct zr_check *c = b->c;

	cut(p, 0);
	begin(b, p, way, number);
	b->it.code = 0;
	zr_bench_judge(b, way, ZR_CALL(c, ZR_STEP, "step", b->v->step(b->it.inst, p->step)));
	finish(b, p, way);
}

static void step_tensor(struct zr_bench *b, int i, const struct zr_bench_way *way, int number)
{
	struct zr_check *c = b->c;
	const struct zr_bench_tensor *t = &zr_bench_tensors[i];
	struct piece p = { .first = t->first, .n = t->blocks };
	uint64_t bytes = 0;

	if (c->minor >= 1 && ZR_HAS(b->v, struct zr_optimizer_v1, whole_work) && b->v->whole_work)
		bytes = (zr_enter(c, ZR_MAIN, "whole_work"),
			 b->v->whole_work(b->it.inst, t->dims, t->ndim));
	zr_left(c, 0);
	if (bytes == ZR_WORK_REFUSED)
		return;

	cut(&p, 0);
	p.work_bytes = bytes;
	if (bytes)
		p.work = zr_area_new(c, "the work memory", bytes, 64);
	begin(b, &p, way, number);
	zr_bench_judge(b, way,
		       ZR_CALL(c, ZR_STEP, "step_whole", b->v->step_whole(b->it.inst, p.step)));
	finish(b, &p, way);
	if (p.work)
		zr_area_free(c, p.work);
}

static void update(struct zr_bench *b, const struct zr_bench_way *way, int number)
{
	int64_t piece = way->piece ? way->piece : b->blocks;
	int64_t n = (b->blocks + piece - 1) / piece;
	struct piece p = { 0 };

	fill_grad(b, way, number);
	if (zr_bench_scalars(b) && !b->v->n_partial)
		zr_bench_advance(b, way, number);
	if (b->v->caps & ZR_OPT_WHOLE) {
		for (int i = 0; i < ZR_BENCH_TENSORS; i++)
			step_tensor(b, way->backwards ? ZR_BENCH_TENSORS - 1 - i : i, way, number);
		return;
	}

	memset(b->sums, 0, sizeof b->sums);
	for (int pass = b->v->n_partial ? 0 : 1; pass < 2; pass++) {
		for (int64_t i = 0; i < n; i++) {
			int64_t k = way->backwards ? n - 1 - i : i;
			p.first = k * piece;
			p.n = b->blocks - p.first < piece ? b->blocks - p.first : piece;
			if (pass)
				step_piece(b, &p, way, number);
			else
				sum_piece(b, &p, way, number);
		}

		for (int i = 0; !pass && i < ZR_BENCH_TENSORS; i++)
			for (uint32_t k = 0; k < b->v->n_partial; k++)
				b->total[i][k] = zr_exact_value(&b->sums[i][k]);
		if (!pass && zr_bench_scalars(b))
			zr_bench_advance(b, way, number);
	}
}

/* ---- options of another parameter group ------------------------------------------ */

/* The i-th text that an option could have; NULL: there are no more. */
static const char *candidate(const struct zr_opt *o, int i, char *room, size_t size)
{
	static const char *const numbers[] = { "0.125", "0.5", "0.75", "0.01", "1", "2", "3", "7" };
	static const char *const switches[] = { "yes", "no", NULL };

	if (o->type == ZR_T_BOOL)
		return switches[i < 2 ? i : 2];
	if (o->type == ZR_T_ENUM)
		return o->choices[i];
	if (i == (int)(sizeof numbers / sizeof *numbers))
		return NULL;

	*room = 0;
	for (uint32_t k = 0; k < (o->type == ZR_T_F64S ? o->width / 8 : 1); k++) {
		const size_t n = strlen(room);
		snprintf(room + n, size - n, "%s%s", n ? ", " : "", numbers[i]);
	}

	return room;
}

static int has_other_value(struct zr_try *t, const struct zr_opt *o)
{
	char *value = (char *)t->opts + o->offset, old[8 * ZR_LIST_MAX], room[256];
	const char *text;

	memcpy(old, value, o->width);
	for (int i = 0; (text = candidate(o, i, room, sizeof room)); i++) {
		if (zr_try_set(t, o->name, text) && memcmp(value, old, o->width) &&
		    !zr_may_fail(t, zr_try_resolve(t)))
			return 1;

		zr_area_protect(t->c, t->opts, 0);
		memcpy(value, old, o->width);
	}

	zr_area_protect(t->c, t->opts, 1);
	return 0;
}

int zr_bench_other_options(struct zr_try *t)
{
	const struct zr_table table = zr_table_of(t->c->plugin->desc);
	const struct zr_opt *o;
	int n = 0;

	for (uint32_t i = 0; (o = zr_table_next(&table, ZR_O_GROUP, &i));)
		if (!(o->flags & ZR_O_SCHED) && o->type != ZR_T_STR && o->type != ZR_T_PATH &&
		    o->type != ZR_T_GLOBS)
			n += has_other_value(t, o);
	return n;
}

static void open_bench(struct zr_bench *b, const struct zr_bench_way *way)
{
	struct zr_check *c = b->c;
	struct zr_try other = { .c = c };

	zr_try_host(c, &b->it);
	zr_try_options(c, &b->it);
	zr_try_options_suit(&b->it, zr_try_resolve(&b->it));
	if (way->groups == ZR_GROUPS_OTHER)
		zr_bench_other_options(&b->it);
	if (way->groups == ZR_GROUPS_MIXED) {
		zr_try_host(c, &other);
		zr_try_options(c, &other);
		zr_try_options_suit(&other, zr_try_resolve(&other));
		zr_bench_other_options(&other);
		zr_area_free(c, other.h);
		b->others = other.opts;
	}

	zr_try_options_suit(&b->it, zr_try_create(&b->it));
}

/* ---- a run ----------------------------------------------------------------------- */

struct zr_bench *zr_bench_run(struct zr_check *c, const struct zr_bench_way *way)
{
	struct zr_bench *b = grab(c, sizeof *b);
	uint32_t minor = c->minor;
	uint64_t grown = c->grown;

	b->c = c;
	b->v = c->vtbl;
	b->blocks = BLOCKS;
	for (int i = 0; i < ZR_BENCH_TENSORS; i++)
		b->elements += zr_bench_tensors[i].elements;
	b->it = (struct zr_try){ .c = c, .rank = way->rank, .world = way->world };
	if (!b->v || !(b->v->mem_ok & (way->mem ? way->mem : ZR_MEM_HOST)))
		zr_check_skip(c, "it takes no host memory");
	if (b->v->n_partial > 64)
		zr_check_skip(c, "it has more partial sums than this test can hold");
	c->minor = way->minor == 0 ? minor : way->minor - 1;
	c->grown = way->grown;
	open_bench(b, way);
	read_states(b);
	prepare(b, way);
	for (int step = 1; step <= (way->steps ? way->steps : 3); step++) {
		if (step == way->restart) {
			zr_try_close(&b->it);
			zr_must(&b->it, zr_try_create(&b->it));
			read_states(b);
		}

		update(b, way, step);
	}

	b->functions = functions;
	b->text = text;
	zr_try_close(&b->it);
	if (b->others)
		zr_area_free(c, b->others);
	zr_area_free(c, b->it.opts);
	zr_area_free(c, b->it.h);
	c->minor = minor;
	c->grown = grown;
	zr_blame(c, b->v->caps & ZR_OPT_WHOLE ? "step_whole" : "step");
	return b;
}

void zr_bench_free(struct zr_bench *b)
{
	free(b->master);
	free(b->grad);
	free(b->lowp);
	for (uint32_t i = 0; i < b->n_states; i++)
		free(b->data[i]);
	free(b);
}

/* ---- comparison ------------------------------------------------------------------ */

/* The first element in [from, end), of `bytes` each, that differs, but for padding; -1: none. */
static int64_t differs(const char *a, const char *b, int64_t from, int64_t end, uint64_t bytes)
{
	for (int64_t i = from; i < end; i++)
		if (!zr_bench_padding(i) &&
		    memcmp(a + (uint64_t)i * bytes, b + (uint64_t)i * bytes, bytes))
			return i;
	return -1;
}

static int64_t master_differs(const struct zr_bench *a, const struct zr_bench *b, int64_t from,
			      int64_t end)
{
	return differs((const char *)a->master, (const char *)b->master, from, end, 4);
}

static int64_t state_differs(const struct zr_bench *a, const struct zr_bench *b, uint32_t i,
			     int64_t from, int64_t end)
{
	uint64_t block = zr_bench_block(a, i);

	if (a->state[i].dtype)
		return differs(a->data[i], b->data[i], from, end, block / ZR_BLOCK);

	for (int64_t k = from / ZR_BLOCK; k < end / ZR_BLOCK; k++)
		if ((is_by_shape(a, i) || !zr_bench_padding((k + 1) * ZR_BLOCK - 1)) &&
		    memcmp(a->data[i] + (uint64_t)k * block, b->data[i] + (uint64_t)k * block,
			   block))
			return k * ZR_BLOCK;
	return -1;
}

static void same_between(const struct zr_bench *a, const struct zr_bench *b, int64_t from,
			 int64_t end, const char *what)
{
	int64_t at = master_differs(a, b, from, end);
	if (at >= 0)
		zr_check_fail(a->c,
			      "with %s element %" PRId64 " of the master becomes %a, which "
			      "is %a else; the same bits are promised",
			      what, at, b->master[at], a->master[at]);
	for (uint32_t i = 0; i < a->n_states; i++)
		if ((at = state_differs(a, b, i, from, end)) >= 0)
			zr_check_fail(a->c,
				      "with %s state %s differs from element %" PRId64
				      " on; the same bits are promised",
				      what, a->state[i].name, at);
}

void zr_bench_same(const struct zr_bench *a, const struct zr_bench *b, const char *what)
{
	same_between(a, b, 0, a->blocks * ZR_BLOCK, what);
}

void zr_bench_same_tensor(const struct zr_bench *a, const struct zr_bench *b, int tensor,
			  const char *what)
{
	const struct zr_bench_tensor *t = &zr_bench_tensors[tensor];
	same_between(a, b, t->first * ZR_BLOCK, (t->first + t->blocks) * ZR_BLOCK, what);
}
