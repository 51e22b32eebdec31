/* SPDX-License-Identifier: Apache-2.0
 *
 * persistent.c - model/gpt2 with persistent numbers: two of the embedding, which two layers use,
 * and three of the norm before the head. The loss layer adds the latter to the gradient of that
 * norm's first elements, so that they change what is trained. For tests/system/persistent.sh,
 * which sets $PERSISTENT to make one thing different:
 *   none              no tensor has any
 *   too many          the norm has more than a model may have
 *   fewer than none   the norm has -1
 *   a few too many    every tensor has some, and their sum is too high
 *   no renew          the function is missing
 *   stay              renew writes nothing
 *   drift             after step 2 rank 1 writes another number than the other ranks
 *   fail              renew fails after step 3
 */
#include <string.h>
#include <zeroth/device.h>
#include <zeroth/model.h>

#include "wrapped.h"

WRAP_MADE(model, "model/gpt2.so", "persistent")

enum { MOST = 256, OF_EMBEDDING = 2, OF_NORM = 3 };

/* The same on all ranks, which may be threads. */
static int32_t embedding, norm;   /* tensors of the declaration */
static int32_t head, place_in_it; /* the loss layer; where among its tensors the norm is */

static int wrong(const char *what)
{
	const char *is = getenv("PERSISTENT");
	return is && !strcmp(is, what);
}

static const void *element(const void *table, uint32_t stride, uint32_t i)
{
	return (const char *)table + (size_t)i * stride;
}

static void declare_numbers(struct zr_tensor *t, int32_t i)
{
	if (!strcmp(t->name, "wte.weight")) {
		t->persistent = OF_EMBEDDING;
		embedding = i;
	}
	if (!strcmp(t->name, "ln_f.weight")) {
		t->persistent = OF_NORM;
		if (wrong("too many"))
			t->persistent = ZR_PERSISTENT_MOST + 1;
		if (wrong("fewer than none"))
			t->persistent = -1;
		norm = i;
	}
	if (wrong("a few too many"))
		t->persistent = ZR_PERSISTENT_MOST / 4;
}

static void find_in_head(const struct zr_model_decl *d)
{
	const struct zr_layer *l = element(d->layers, d->layer_stride, d->n_layers - 1);
	head = (int32_t)d->n_layers - 1;
	place_in_it = 0;
	for (uint32_t k = 0; k < l->n_units; k++) {
		const struct zr_unit *u = element(d->units, d->unit_stride, (uint32_t)l->units[k]);
		for (uint32_t i = 0; i < u->n_tensors; i++, place_in_it++) {
			const struct zr_tensor *t = element(u->tensors, d->tensor_stride, i);
			if (!strcmp(t->name, "ln_f.weight"))
				return;
		}
	}
	abort();
}

static int declare(struct zr_inst *inst, struct zr_model_decl *d)
{
	static struct zr_unit units[MOST];
	static struct zr_tensor tensors[MOST];
	int32_t n = 0;
	int rc = real_vtbl->declare(inst, d);
	if (rc || wrong("none"))
		return rc;

	find_in_head(d);
	for (uint32_t u = 0; u < d->n_units; u++) {
		const struct zr_unit *from = element(d->units, d->unit_stride, u);
		units[u] = *from;
		units[u].tensors = tensors + n;
		for (uint32_t i = 0; i < from->n_tensors; i++, n++) {
			const struct zr_tensor *t = element(from->tensors, d->tensor_stride, i);
			struct zr_tensor mine = *t;
			declare_numbers(&mine, n);
			tensors[n] = mine;
		}
	}
	d->units = units;
	d->unit_stride = sizeof *units;
	d->tensor_stride = sizeof *tensors;
	return 0;
}

static int backward(struct zr_inst *inst, const struct zr_layer_call *c)
{
	int rc = real_vtbl->backward(inst, c);
	if (rc || c->layer != head || c->n_rows || !c->persistent || !c->dparam[place_in_it])
		return rc;

	const struct zr_op_fold op = { .size = sizeof op,
				       .comm_dtype = ZR_F32,
				       .n = OF_NORM,
				       .flags = ZR_OP_ACCUMULATE,
				       .g = c->persistent[place_in_it],
				       .acc = c->dparam[place_in_it] };
	return c->ops->fold(c->ops, c->stream, &op);
}

static int renew(struct zr_inst *inst, const struct zr_renewal *r)
{
	float *highest = r->persistent[embedding], *mean = r->persistent[norm];
	(void)inst;

	if (wrong("stay"))
		return 0;
	if (wrong("fail") && r->step == 3)
		return zr_fail(host, ZR_ENUMERIC, "the numbers have no end");
	for (int32_t i = 0; i < r->n_tensors; i++)
		if (r->persistent[i] && i != embedding && i != norm)
			abort();

	if ((float)r->loss > highest[0])
		highest[0] = (float)r->loss;
	highest[1] = (float)r->step;

	for (int k = 0; k < OF_NORM; k++) {
		mean[k] = .75f * mean[k] + .001f * (float)(k + 1) * highest[0];
		if (r->step == 0)
			mean[k] = .01f;
	}
	if (wrong("drift") && host->rank == 1 && r->step == 2)
		mean[0] += 1;
	return 0;
}

__attribute__((constructor)) static void begin_wrapping(void)
{
	wrap();
	vtbl.declare = declare;
	vtbl.backward = backward;
	vtbl.renew = wrong("no renew") ? NULL : renew;
}

ZR_PLUGIN(&desc);
