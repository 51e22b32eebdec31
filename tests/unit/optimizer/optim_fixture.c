/* SPDX-License-Identifier: Apache-2.0
 *
 * optim_fixture.c - see optim_fixture.h.
 */
#include <stdlib.h>
#include <string.h>

#include "core/base/exact.h"
#include "optim_fixture.h"

const struct optim_shape optim_golden[OPTIM_PARAMS] = { { { 3 * ZR_BLOCK + 3 }, 1 },
							{ { 37, 29 }, 2 },
							{ { 5 }, 1 } };
const struct optim_shape optim_matrices[OPTIM_PARAMS] = { { { 37, 29 }, 2 },
							  { { 29, 71 }, 2 },
							  { { 5, 1 }, 2 } };
const struct optim_shape optim_heads[OPTIM_PARAMS] = { { { 48, 20 }, 2 },
						       { { 24, 71 }, 2 },
						       { { 36, 5 }, 2 } };
const struct optim_shape optim_larger_matrices[OPTIM_PARAMS] = { { { 40, 20 }, 2 },
								 { { 29, 71 }, 2 },
								 { { 64, 33 }, 2 } };
const struct optim_shape optim_large_matrices[OPTIM_PARAMS] = { { { 301, 127 }, 2 },
								{ { 131, 257 }, 2 },
								{ { 1, 7 }, 2 } };
const struct optim_shape optim_sides[OPTIM_PARAMS] = { { { 24, 24 }, 2 },
						       { { 40, 40 }, 2 },
						       { { 5 }, 1 } };
const struct optim_shape optim_one_side[OPTIM_PARAMS] = { { { 37, 29 }, 2 },
							  { { 29, 71 }, 2 },
							  { { 31, 33 }, 2 } };
const struct optim_shape optim_large[OPTIM_PARAMS] = { { { 70001 }, 1 },
						       { { 131, 257 }, 2 },
						       { { 7 }, 1 } };

#define SEGMENTS 64 /* of a piece, cut to blocks */
#define PARTIALS 2  /* sums per parameter at most */

static struct zr_seg segments[SEGMENTS];
static struct zr_scalars scalars;

/* Knuth's MMIX generator: 8 of its upper bits as a number in [-2, 2). */
static float draw(uint64_t *x)
{
	*x = *x * 6364136223846793005u + 1442695040888963407u;
	return (float)(*x >> 40 & 0xff) / 64 - 2;
}

int64_t optim_elements(const struct optim_shape *s)
{
	return s->dims[0] * (s->ndim > 1 ? s->dims[1] : 1);
}

int64_t optim_place(const struct optim *o, int64_t i)
{
	int p;
	for (p = 0; p < OPTIM_PARAMS; i -= optim_elements(&o->shape[p++]))
		if (i < optim_elements(&o->shape[p]))
			return o->block[p] * ZR_BLOCK + i;
	return -1;
}

int64_t optim_state_bytes(const struct optim *o, uint32_t i)
{
	const struct zr_state *st = &o->state[i];
	int64_t most = 0;
	if (st->dtype)
		return (st->dtype == ZR_BF16 ? 2 : 4) * ZR_BLOCK;
	if (st->bytes_per_block)
		return st->bytes_per_block;
	for (int p = 0; p < OPTIM_PARAMS; p++) {
		const struct optim_shape *s = &o->shape[p];
		int64_t bytes = o->v->block_bytes(o->inst, i, s->dims, s->ndim);
		most = bytes > most ? bytes : most;
	}
	return most;
}

static void *buffer(const struct optim *o, int64_t block_bytes)
{
	int64_t n = o->block[OPTIM_PARAMS] * block_bytes / 2, i;
	uint16_t *p = malloc((size_t)n * 2);
	assert_non_null(p);
	for (i = 0; i < n; i++)
		p[i] = OPTIM_PADDING;
	return p;
}

static void open_device(struct optim *o, int workers)
{
	const struct zr_device_v1 *v;
	o->h = test_host(workers);
	o->device = test_plugin("device/cpu");
	v = test_iface(o->device, "zr.device/1");
	o->device_opts = test_options(o->device);
	assert_int_equal(test_create(o->h, o->device, o->device_opts, &o->device_inst), ZR_OK);
	o->ops = v->ops(o->device_inst);
}

/* Of moments in 8 bits, as struct zr_op_adamw has them: codes, then scales. */
static void code_of_zero(void *state, int64_t at)
{
	char *block = (char *)state + at / ZR_BLOCK * ZR_MOMENT8_BYTES;
	block[at % ZR_BLOCK] = 0;
	((uint16_t *)(void *)(block + ZR_BLOCK))[at % ZR_BLOCK / ZR_MOMENT8_GROUP] = 0;
}

/* Whether only the plugin knows what the bytes of a block are: they begin as zeros. */
static int own_form(const struct zr_state *st)
{
	return !st->dtype && st->bytes_per_block != ZR_MOMENT8_BYTES;
}

static uint32_t flags_of(const struct optim *o, uint32_t s)
{
	if (!ZR_HAS(o->v, struct zr_optimizer_v1, state_flags) || !o->v->state_flags)
		return 0;
	return o->v->state_flags(o->inst, s);
}

static void first_values(struct optim *o)
{
	int64_t i, at;
	uint32_t s;
	for (i = 0; (at = optim_place(o, i)) >= 0; i++) {
		o->master[at] = draw(&o->draw);
		for (s = 0; s < o->n_state; s++)
			if (flags_of(o, s) & ZR_STATE_FROM_PARAM)
				((float *)o->state_data[s])[at] = o->master[at];
			else if (o->state[s].dtype == ZR_F32)
				((float *)o->state_data[s])[at] = (float)o->state[s].init;
			else if (o->state[s].dtype)
				((uint16_t *)o->state_data[s])[at] = 0;
			else if (!own_form(&o->state[s]))
				code_of_zero(o->state_data[s], at);
	}
}

void optim_open(struct optim *o, const char *plugin, const char *const *options,
		const struct optim_shape *shape, int workers)
{
	const struct zr_state *declared;
	uint32_t s;
	int p;
	memset(o, 0, sizeof *o);
	open_device(o, workers);
	o->shape = shape;
	o->lowp_dtype = ZR_BF16;
	for (p = 0; p < OPTIM_PARAMS; p++)
		o->block[p + 1] =
			o->block[p] + (optim_elements(&shape[p]) + ZR_BLOCK - 1) / ZR_BLOCK;
	o->desc = test_plugin(plugin);
	o->v = test_iface(o->desc, "zr.optimizer/1");
	o->opts = test_options(o->desc);
	for (; *options; options += 2)
		assert_int_equal(test_set(o->desc, o->opts, options[0], options[1]), 0);
	assert_int_equal(test_create(o->h, o->desc, o->opts, &o->inst), ZR_OK);
	declared = o->v->states(o->inst, &o->n_state);
	assert_true(o->n_state <= OPTIM_STATES && o->v->state_stride == sizeof *declared);
	o->master = buffer(o, 4 * ZR_BLOCK);
	o->grad = buffer(o, 4 * ZR_BLOCK);
	for (s = 0; s < o->n_state; s++) {
		o->state[s] = declared[s];
		assert_true(o->state[s].init == 0 || o->state[s].dtype == ZR_F32);
		o->state_data[s] = buffer(o, optim_state_bytes(o, s));
		if (own_form(&o->state[s]))
			memset(o->state_data[s], 0,
			       (size_t)(o->block[OPTIM_PARAMS] * optim_state_bytes(o, s)));
	}
	for (p = 0; p < OPTIM_PARAMS && ZR_HAS(o->v, struct zr_optimizer_v1, whole_work) &&
		    o->v->whole_work;
	     p++) {
		uint64_t bytes = o->v->whole_work(o->inst, shape[p].dims, shape[p].ndim);
		o->work_bytes = bytes != ZR_WORK_REFUSED && bytes > o->work_bytes ? bytes :
										    o->work_bytes;
	}
	o->work = aligned_alloc(64, (o->work_bytes + 64) / 64 * 64);
	o->draw = 1;
	first_values(o);
	o->step = (struct zr_opt_step){ .size = sizeof o->step,
					.seg_stride = sizeof(struct zr_seg),
					.n_state = o->n_state,
					.opts = o->opts,
					.ops = o->ops,
					.native = o->ops->native,
					.elementwise = o->ops->elementwise,
					.matrices = o->ops->matrices };
}

void optim_close(struct optim *o)
{
	uint32_t s;
	o->desc->destroy(o->inst);
	o->device->destroy(o->device_inst);
	free(o->opts);
	free(o->device_opts);
	free(o->master);
	free(o->grad);
	free(o->lowp);
	free(o->work);
	for (s = 0; s < o->n_state; s++)
		free(o->state_data[s]);
	test_host_free(o->h);
}

void optim_draw(struct optim *o, int t)
{
	int64_t i, at;
	for (i = 0; (at = optim_place(o, i)) >= 0; i++) {
		float drawn = draw(&o->draw);
		o->grad[at] = 8 * (o->closed ? o->master[at] + drawn / 4 : drawn);
	}
	scalars = (struct zr_scalars){ .step = t,
				       .grad_mult = 0.125f,
				       .lr = o->closed ? 1 : 1.0f / (float)(64 << t % 3) };
	o->step.step = t;
	o->step.grad_mult = scalars.grad_mult;
	o->step.lr = scalars.lr;
	o->step.scalars = &scalars;
}

static struct zr_buf buf(void *p, int64_t first, int64_t blocks, int64_t block_bytes, int32_t dtype)
{
	return (struct zr_buf){ p ? (char *)p + first * block_bytes : NULL,
				(uint64_t)(blocks * ZR_BLOCK), dtype, ZR_MEM_HOST };
}

/* Parameters clipped to blocks [first, first + blocks); segments of at most `most` elements. */
static uint64_t cut(const struct optim *o, int64_t first, int64_t blocks, int64_t most)
{
	static const char *const names[OPTIM_PARAMS] = { "a", "b", "c" };
	int64_t base = first * ZR_BLOCK, end = base + blocks * ZR_BLOCK;
	uint64_t n = 0;
	int p;
	for (p = 0; p < OPTIM_PARAMS; p++) {
		int64_t start = o->block[p] * ZR_BLOCK, stop = start + optim_elements(&o->shape[p]),
			at;
		stop = stop < end ? stop : end;
		for (at = start > base ? start : base; at < stop; at += most) {
			assert_true(n < SEGMENTS);
			segments[n++] = (struct zr_seg){ .off = at - base,
							 .n = stop - at < most ? stop - at : most,
							 .param_off = at - start,
							 .param = p,
							 .ndim = o->shape[p].ndim,
							 .dims = o->shape[p].dims,
							 .name = names[p] };
		}
	}
	return n;
}

/* Points the step at blocks [first, first + blocks); `state` has room for OPTIM_STATES. */
static void aim(struct optim *o, int64_t first, int64_t blocks, int64_t most, struct zr_buf *state)
{
	uint32_t s;
	for (s = 0; s < o->n_state; s++)
		state[s] = buf(o->state_data[s], first, blocks, optim_state_bytes(o, s),
			       o->state[s].dtype);
	o->step.master = buf(o->master, first, blocks, 4 * ZR_BLOCK, ZR_F32);
	o->step.grad = buf(o->grad, first, blocks, 4 * ZR_BLOCK, ZR_F32);
	o->step.lowp = buf(o->lowp, first, blocks, 2 * ZR_BLOCK, o->lowp_dtype);
	o->step.state = state;
	o->step.seg = segments;
	o->step.n_seg = cut(o, first, blocks, most);
}

/* What a piece is for: its sums, or its update by them. */
struct pass {
	int sums;
	struct zr_exact sum[OPTIM_PARAMS][PARTIALS];
	double total[OPTIM_PARAMS][PARTIALS];
};

static int sum_piece(struct optim *o, int64_t first, int64_t blocks, struct pass *pass)
{
	struct zr_buf state[OPTIM_STATES];
	double out[SEGMENTS][PARTIALS] = { { 0 } };
	uint64_t i;
	int rc, k;
	aim(o, first, blocks, ZR_BLOCK, state);
	rc = o->v->partial(o->inst, &o->step, &out[0][0]);
	for (i = 0; i < o->step.n_seg; i++)
		for (k = 0; k < PARTIALS; k++)
			zr_exact_add(&pass->sum[segments[i].param][k], out[i][k]);
	return rc;
}

static int apply_piece(struct optim *o, int64_t first, int64_t blocks, struct pass *pass)
{
	struct zr_buf state[OPTIM_STATES];
	double partials[SEGMENTS][PARTIALS];
	uint64_t i;
	if (pass->sums)
		return sum_piece(o, first, blocks, pass);
	aim(o, first, blocks, INT64_MAX / 2, state);
	for (i = 0; i < o->step.n_seg; i++)
		memcpy(partials[i], pass->total[segments[i].param], sizeof partials[i]);
	o->step.partials = o->v->partial ? &partials[0][0] : NULL;
	return o->v->step(o->inst, &o->step);
}

static int apply_pieces(struct optim *o, int64_t most, uint64_t seed, struct pass *pass)
{
	int64_t end = o->block[OPTIM_PARAMS];
	int rc = ZR_OK;
	while (end > 0 && !rc) {
		int64_t n = most ? 1 + (int64_t)((seed = seed * 6364136223846793005u +
							 1442695040888963407u) >>
						 33) %
						    most :
				   end;
		n = n < end ? n : end;
		end -= n;
		rc = apply_piece(o, end, n, pass);
	}
	return rc;
}

static int apply_whole(struct optim *o)
{
	struct zr_buf state[OPTIM_STATES];
	int p, rc = ZR_OK;
	o->step.work = o->work;
	o->step.work_bytes = o->work_bytes;
	for (p = 0; p < OPTIM_PARAMS && !rc; p++) {
		aim(o, o->block[p], o->block[p + 1] - o->block[p], INT64_MAX / 2, state);
		memset(o->work, 0x7f, o->work_bytes); /* values left over */
		rc = o->v->step_whole(o->inst, &o->step);
	}
	return rc;
}

/* Scalars of the run, from the sums of all parameters. */
static int advance(struct optim *o, const struct pass *pass)
{
	const void *opts = o->opts;
	struct zr_exact all[PARTIALS];
	double sums[PARTIALS];
	struct zr_opt_update u = { .size = sizeof u,
				   .n_group = 1,
				   .step = o->step.step,
				   .lr = &o->step.lr,
				   .opts = &opts,
				   .sums = pass ? sums : NULL };
	int p, k;
	memset(all, 0, sizeof all);
	for (k = 0; pass && k < PARTIALS; k++) {
		for (p = 0; p < OPTIM_PARAMS; p++)
			zr_exact_merge(&all[k], &pass->sum[p][k]);
		sums[k] = zr_exact_value(&all[k]);
	}
	for (p = 0; p < OPTIM_PARAMS; p++)
		u.elements += optim_elements(&o->shape[p]);
	memcpy(o->run_before, o->run, sizeof o->run);
	return o->v->advance(o->inst, &u, o->run);
}

int optim_apply(struct optim *o, int64_t most, uint64_t seed)
{
	struct pass pass = { .sums = o->v->partial != NULL };
	int rc = ZR_OK, p, k;
	if (o->v->caps & ZR_OPT_WHOLE)
		return apply_whole(o);
	o->step.run = o->run;
	o->step.run_before = pass.sums ? o->run : o->run_before;
	if (pass.sums) {
		assert_int_equal(o->v->n_partial, PARTIALS);
		rc = apply_pieces(o, most, seed + 1, &pass);
		for (p = 0; p < OPTIM_PARAMS; p++)
			for (k = 0; k < PARTIALS; k++)
				pass.total[p][k] = zr_exact_value(&pass.sum[p][k]);
		pass.sums = 0;
	}
	if (!rc && ZR_HAS(o->v, struct zr_optimizer_v1, n_run) && o->v->advance)
		rc = advance(o, o->v->partial ? &pass : NULL);
	o->step.run_before = o->run_before;
	if (rc)
		return rc;
	return apply_pieces(o, most, seed, &pass);
}

void optim_update(struct optim *o, int t, int64_t most)
{
	int rc;
	optim_draw(o, t);
	rc = optim_apply(o, most, (uint64_t)t);
	if (rc)
		fail_msg("update %d: %d %s", t, rc, test_error(o->h));
}

void optim_same(const struct optim *a, const struct optim *b)
{
	size_t n = (size_t)(a->block[OPTIM_PARAMS] * ZR_BLOCK);
	uint32_t s;
	assert_memory_equal(a->master, b->master, n * 4);
	for (s = 0; s < a->n_state; s++)
		assert_memory_equal(a->state_data[s], b->state_data[s],
				    n / ZR_BLOCK * (size_t)optim_state_bytes(a, s));
	if (a->lowp)
		assert_memory_equal(a->lowp, b->lowp, n * 2);
}
