/* SPDX-License-Identifier: Apache-2.0
 *
 * elementwise.c - updates by a plugin's own function of one element: its loops, chunk by chunk, on
 * states that are widened before and narrowed after while they are in the cache.
 */
#include "cpu.h"

#include <elementwise.h>

#include <string.h>

#define ITEM     (8 * ZR_BLOCK) /* elements */
#define CHUNK    1024           /* elements; a block when sums are measured */
#define SEGMENTS 8              /* per item of measuring */

struct job {
	struct zr_inst *d;
	const struct zr_opt_step *s;
	const struct zr_elementwise *e;
	const struct zr_seg *seg;
	const float *k;
	zr_elementwise_update *update;
	zr_elementwise_measure *measure;
};

/* A worker's copies of what a loop needs; some states lie there in fp32. */
struct chunk {
	float state[ZR_ELEMENTWISE_STATES][ZR_BLOCK];
	uint32_t random[ZR_BLOCK];
};

/* ---- states ---------------------------------------------------------------------- */

static char *state_at(const struct zr_buf *b, int64_t off)
{
	if (!b->dtype)
		return (char *)b->data + off / ZR_BLOCK * ZR_STATE8_BYTES;
	return (char *)b->data + zr_bytes_of(b->dtype, off);
}

/* Between storage and fp32; 8 bits start on a group. */
static void convert(const struct job *j, uint32_t i, int64_t off, int64_t n, float *x, int store)
{
	const struct zr_buf *b = &j->s->state[i];
	const struct zr_array wide = zr_array_at(ZR_F32, x);
	const struct zr_array kept = zr_array_at(b->dtype, state_at(b, off));
	const struct zr_op_cast cast = {
		.size = sizeof cast, .n = n, .src = store ? wide : kept, .dst = store ? kept : wide
	};
	const int root = j->e->roots >> i & 1;
	if (b->dtype)
		j->d->k->cast(&cast, 0, n);
	else if (store)
		j->d->k->state8_put(b->data, root, x, off, off + n);
	else
		j->d->k->state8_get(b->data, root, x, off, off + n);
}

/* x[i] becomes where state i of elements [off, off + n) is in fp32. */
static void load(const struct job *j, struct chunk *c, int64_t off, int64_t n, float **x)
{
	for (uint32_t i = 0; i < j->e->n_state; i++) {
		int here = j->s->state[i].dtype == ZR_F32;
		x[i] = here ? (float *)j->s->state[i].data + off : c->state[i];
		if (!here)
			convert(j, i, off, n, x[i], 0);
	}
}

static void store(const struct job *j, int64_t off, int64_t n, float **x)
{
	for (uint32_t i = 0; i < j->e->n_state; i++)
		if (j->s->state[i].dtype != ZR_F32)
			convert(j, i, off, n, x[i], 1);
}

/* ---- update ---------------------------------------------------------------------- */

/* Words of elements [first, first + n) of the parameter. */
static void draw(const struct job *j, int64_t first, int64_t n, uint32_t *w)
{
	const struct zr_rng rng = { .seed = j->s->seed,
				    .step = (uint64_t)j->s->step,
				    .slot = (uint32_t)j->seg->param,
				    .site = ZR_ELEMENTWISE_SITE };
	j->d->k->random_words(&rng, w, first, first + n);
}

static void update_chunk(const struct job *j, struct chunk *c, int64_t at, int64_t n)
{
	const struct zr_opt_step *s = j->s;
	const int64_t off = j->seg->off + at;
	float *x[ZR_ELEMENTWISE_STATES], *p = (float *)s->master.data + off;
	const int random = (j->e->flags & ZR_ELEMENTWISE_RANDOM) != 0;
	load(j, c, off, n, x);
	if (random)
		draw(j, j->seg->param_off + at, n, c->random);
	j->update(j->k, n, (float)s->grad_mult, (const float *)s->grad.data + off, p, x,
		  random ? c->random : NULL);
	store(j, off, n, x);
	if (s->lowp.data) {
		const struct zr_op_cast cast = {
			.size = sizeof cast,
			.n = n,
			.src = zr_array_at(ZR_F32, p),
			.dst = zr_array_at(s->lowp.dtype, cpu_at(s->lowp.data, s->lowp.dtype, off)),
		};
		j->d->k->cast(&cast, 0, n);
	}
}

static void update_item(void *arg, int64_t item, int32_t worker)
{
	const struct job *j = arg;
	int64_t at = item * ITEM, end = cpu_min(at + ITEM, j->seg->n);
	for (; at < end; at += CHUNK)
		update_chunk(j, cpu_scratch(j->d, worker), at, cpu_min(CHUNK, end - at));
}

static int update(struct job *j)
{
	const struct zr_opt_step *s = j->s;
	float k[ZR_ELEMENTWISE_CONSTANTS];
	for (uint64_t i = 0; i < s->n_seg; i++) {
		j->seg = ZR_SEG(s, i);
		if (j->e->use) {
			memcpy(k, j->e->k, j->e->n_const * sizeof *k);
			j->e->use(k, s->partials + i * j->e->n_sum);
			j->k = k;
		}
		cpu_parallel(j->d, cpu_ceil_div(j->seg->n, ITEM), update_item, j);
	}
	return ZR_OK;
}

/* ---- sums ------------------------------------------------------------------------ */

static void measure_item(void *arg, int64_t item, int32_t worker)
{
	const struct job *j = arg;
	const struct zr_opt_step *s = j->s;
	int64_t i = item * SEGMENTS, end = cpu_min(i + SEGMENTS, (int64_t)s->n_seg);
	for (; i < end; i++) {
		const struct zr_seg *seg = ZR_SEG(s, i);
		float *x[ZR_ELEMENTWISE_STATES];
		load(j, cpu_scratch(j->d, worker), seg->off, seg->n, x);
		j->measure(j->k, seg->n, (float)s->grad_mult,
			   (const float *)s->grad.data + seg->off,
			   (const float *)s->master.data + seg->off, x,
			   j->e->sums + i * j->e->n_sum);
	}
}

/* ---- the operation --------------------------------------------------------------- */

/* The widest instructions that both have. */
static void choose_loops(struct job *j)
{
	int isa = j->d->isa < ZR_ISA_AVX512 ? j->d->isa : ZR_ISA_AVX512;
	while (isa > ZR_ISA_ANY && !j->e->update[isa])
		isa--;
	j->update = j->e->update[isa];
	j->measure = j->e->measure[isa];
}

int cpu_elementwise(const struct zr_opt_step *s, const struct zr_elementwise *e)
{
	struct zr_inst *d =
		(struct zr_inst *)((char *)(uintptr_t)s->native - offsetof(struct zr_inst, native));
	struct zr_elementwise own = { 0 };
	struct job j = { .d = d, .s = s, .e = &own, .k = e->k };
	int rc = zr_check_elementwise(d->h, s, e);
	if (rc)
		return rc;

	memcpy(&own, e, e->size < sizeof own ? e->size : sizeof own);
	choose_loops(&j);
	if (!own.sums)
		return update(&j);

	cpu_parallel(d, cpu_ceil_div((int64_t)s->n_seg, SEGMENTS), measure_item, &j);
	return ZR_OK;
}
