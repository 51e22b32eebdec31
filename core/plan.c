/* SPDX-License-Identifier: Apache-2.0
 *
 * plan.c - sizes of the regions and offsets inside them; see plan.h.
 */
#include "core/plan.h"

#include <stdlib.h>
#include <string.h>

#include "core/lifetime.h"
#include "core/setup.h"

#define PAGE 4096u

static uint64_t up(uint64_t n, uint64_t to)
{
	return (n + to - 1) / to * to;
}

static uint64_t max(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* Activations that are kept: an output lives until the next layer's backward has read it, what a layer saved
 * until its own backward. In evaluation an output lives until the next layer has run. */
static int place_activations(struct zr_setup *s, int training, struct zr_layer_place *place, uint64_t *bytes,
			     struct zr_error *err)
{
	int32_t layers = (int32_t)s->decl.n_layers, last = layers - 1;
	struct zr_lifetime *l = calloc(2 * (size_t)layers, sizeof *l);
	if (!l)
		return zr_err(err, ZR_ENOMEM, "out of memory while planning %d layers", layers);
	for (int32_t i = 0; i < layers; i++) {
		const struct zr_layer_bytes *b = &s->layer_bytes[i];
		int32_t next_back = 2 * last - (i + 1), back = 2 * last - i;
		l[2 * i] = (struct zr_lifetime){ .bytes = b->out, .first = i, .last = training && i < last ? next_back : i + 1 };
		l[2 * i + 1] = (struct zr_lifetime){ .bytes = b->saved, .first = training && i == last ? back : i,
						     .last = training ? back : i };
	}
	uint64_t total;
	int rc = zr_lifetime_assign(l, 2 * layers, &total, err);
	for (int32_t i = 0; !rc && i < layers; i++)
		place[i] = (struct zr_layer_place){ .out = l[2 * i].offset, .saved = l[2 * i + 1].offset };
	if (!rc)
		*bytes = max(*bytes, total);
	free(l);
	return rc;
}

static void size_work(const struct zr_setup *s, struct zr_plan *p)
{
	int sampling = s->mode == ZR_SETUP_SAMPLE;
	uint64_t grad = 0;
	for (uint32_t i = 0; i < s->decl.n_layers; i++) {
		const struct zr_layer_bytes *b = &s->layer_bytes[i];
		int loss = zr_layer_at(&s->decl, (int32_t)i)->flags & ZR_LAYER_LOSS;
		p->work_bytes = max(p->work_bytes, b->work_fwd);
		if (!sampling || loss)
			p->work_bytes = max(p->work_bytes, b->work_bwd);
		grad = max(grad, b->grad);
	}
	p->work_bytes = up(p->work_bytes, 64);
	p->region[ZR_R_WORK].bytes = p->work_bytes + (sampling ? 0 : grad);
}

/* Transient gradients: from a unit's first contribution to the fold after its last. */
static int place_grad_buffers(const struct zr_setup *s, struct zr_plan *p, struct zr_error *err)
{
	int32_t n = s->layout.n_units;
	const struct zr_schedule *uses = &s->train_uses;
	struct zr_lifetime *l = calloc((size_t)n + 1, sizeof *l);
	if (!l)
		return zr_err(err, ZR_ENOMEM, "out of memory while planning %d units", n);
	for (int32_t i = 0; i < uses->n; i++)
		for (int32_t k = uses->grad_first[i]; k < uses->grad_first[i + 1]; k++) {
			int32_t u = uses->grad_unit[k];
			l[u] = (struct zr_lifetime){ .bytes = (uint64_t)s->layout.unit[u].elements * 4,
						     .first = uses->first_grad[u], .last = i };
		}
	int rc = zr_lifetime_assign(l, n, &p->region[ZR_R_GRAD_BUFFER].bytes, err);
	for (int32_t u = 0; !rc && u < n; u++)
		p->grad_buffer[u] = l[u].offset;
	free(l);
	return rc;
}

static void place_state(const struct zr_setup *s, struct zr_plan *p, uint64_t blocks)
{
	const struct zr_optimizer_v1 *opt = s->optimizer.vtbl;
	for (uint32_t i = 0; i < s->n_states; i++) {
		const struct zr_state *st =
			(const struct zr_state *)((const char *)s->states + (size_t)i * opt->state_stride);
		p->state_bytes[i] = st->bytes_per_block ? st->bytes_per_block : ZR_BLOCK * (st->dtype == ZR_F32 ? 4 : 2);
		p->state[i] = p->region[ZR_R_STATE].bytes;
		p->region[ZR_R_STATE].bytes += up(blocks * p->state_bytes[i], 64);
	}
}

static void place_batch(const struct zr_setup *s, struct zr_plan *p, uint64_t blocks)
{
	uint64_t rows = (uint64_t)(s->batch.micro * s->batch.length), at = 0;
	p->tokens = at;
	at += up(rows * 4, 64);
	p->targets = at;
	at += up(rows * 4, 64);
	p->loss_rows = at;
	at += up(rows * 4, 64);
	p->loss_sum = at;
	at += 64;
	p->sumsq = at;
	p->nonfinite = at;
	if (s->mode == ZR_SETUP_TRAIN) {
		at += up(blocks * 8, 64);
		p->nonfinite = at;
		at += up(blocks * 4, 64);
	}
	p->region[ZR_R_BATCH].bytes = at;
}

static int allocate_tables(const struct zr_setup *s, struct zr_plan *p, struct zr_error *err)
{
	p->grad_buffer = calloc((size_t)s->layout.n_units + 1, sizeof *p->grad_buffer);
	p->state = calloc(s->n_states + 1, sizeof *p->state);
	p->state_bytes = calloc(s->n_states + 1, sizeof *p->state_bytes);
	p->train = calloc(s->decl.n_layers, sizeof *p->train);
	p->eval = calloc(s->decl.n_layers, sizeof *p->eval);
	if (!p->grad_buffer || !p->state || !p->state_bytes || !p->train || !p->eval)
		return zr_err(err, ZR_ENOMEM, "out of memory for the plan");
	return 0;
}

int zr_plan_make(struct zr_setup *s, struct zr_plan *out, struct zr_error *err)
{
	static const char *const name[ZR_R_COUNT] = {
		[ZR_R_PARAM] = "parameters",	   [ZR_R_MASTER] = "master parameters", [ZR_R_GRAD] = "gradients",
		[ZR_R_GRAD_BUFFER] = "gradient buffers", [ZR_R_STATE] = "optimizer state",	[ZR_R_ACT] = "activations",
		[ZR_R_WORK] = "workspace",	   [ZR_R_BATCH] = "batch",
	};
	struct zr_plan p = { 0 };
	uint64_t blocks = (uint64_t)s->layout.blocks, elements = blocks * ZR_BLOCK;
	int train = s->mode == ZR_SETUP_TRAIN;
	int rc = allocate_tables(s, &p, err);
	p.direct = s->batch.slots == 1 && s->types.comm_dtype == ZR_F32;
	p.region[ZR_R_PARAM].bytes = s->types.dtype == ZR_F32 ? 0 : elements * 2;
	p.region[ZR_R_MASTER].bytes = elements * 4;
	if (!rc && train) {
		p.region[ZR_R_GRAD].bytes = elements * 4;
		if (!p.direct)
			rc = place_grad_buffers(s, &p, err);
		place_state(s, &p, blocks);
		if (!rc)
			rc = place_activations(s, 1, p.train, &p.region[ZR_R_ACT].bytes, err);
	}
	if (!rc)
		rc = place_activations(s, 0, p.eval, &p.region[ZR_R_ACT].bytes, err);
	if (rc) {
		zr_plan_free(&p);
		return rc;
	}
	size_work(s, &p);
	place_batch(s, &p, blocks);
	for (int i = 0; i < ZR_R_COUNT; i++) {
		p.region[i].what = name[i];
		p.region[i].bytes = up(p.region[i].bytes, PAGE);
		p.region[i].offset = p.total;
		p.total += p.region[i].bytes;
	}
	*out = p;
	return 0;
}

void zr_plan_free(struct zr_plan *p)
{
	free(p->grad_buffer);
	free(p->state);
	free(p->state_bytes);
	free(p->train);
	free(p->eval);
	memset(p, 0, sizeof *p);
}

const char *zr_bytes_text(uint64_t bytes, char buf[32])
{
	static const char *const unit[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
	double v = (double)bytes;
	int u = 0;
	while (v >= 1024 && u < 6) {
		v /= 1024;
		u++;
	}
	snprintf(buf, 32, u ? "%.1f %s" : "%.0f %s", v, unit[u]);
	return buf;
}
