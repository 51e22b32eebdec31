/* SPDX-License-Identifier: Apache-2.0
 *
 * schedule.c - see schedule.h.
 */
#include "core/model/schedule.h"

#include <stdlib.h>
#include <string.h>

#include "core/model/declared.h"

const struct zr_layer *zr_layer_at(const struct zr_model_decl *m, int32_t i)
{
	return (const struct zr_layer *)((const char *)m->layers + (size_t)i * m->layer_stride);
}

int zr_has_experts(const struct zr_model_decl *m)
{
	for (int32_t i = 0; zr_says_experts(m) && i < (int32_t)m->n_layers; i++)
		if (zr_layer_at(m, i)->n_experts)
			return 1;
	return 0;
}

static void add_use(struct zr_schedule *s, const struct zr_model_decl *m, int32_t layer,
		    int32_t phase)
{
	const struct zr_layer *l = zr_layer_at(m, layer);
	s->use[s->n++] = (struct zr_use){ .size = sizeof(struct zr_use),
					  .layer = layer,
					  .phase = phase,
					  .n_units = l->n_units,
					  .units = l->units };
}

/* Counted one place too far, then summed: while the uses are listed, the place before is where the
 * next one goes. */
static int find_needs(struct zr_schedule *s, uint32_t n_units)
{
	size_t n = 0;
	for (int32_t i = 0; i < s->n; i++)
		n += s->use[i].n_units;
	s->needed = malloc((n + 1) * sizeof *s->needed);
	s->need_first = calloc(n_units + 2, sizeof *s->need_first);
	if (!s->needed || !s->need_first)
		return ZR_ENOMEM;

	for (int32_t i = 0; i < s->n; i++)
		for (uint32_t k = 0; k < s->use[i].n_units; k++)
			s->need_first[s->use[i].units[k] + 2]++;
	for (uint32_t u = 1; u < n_units; u++)
		s->need_first[u + 1] += s->need_first[u];
	for (int32_t i = 0; i < s->n; i++)
		for (uint32_t k = 0; k < s->use[i].n_units; k++)
			s->needed[s->need_first[s->use[i].units[k] + 1]++] = i;
	return 0;
}

int32_t zr_schedule_next(const struct zr_schedule *s, int32_t unit, int32_t after)
{
	int32_t low = s->need_first[unit], end = s->need_first[unit + 1], high = end;
	while (low < high) {
		int32_t middle = low + (high - low) / 2;
		if (s->needed[middle] > after)
			high = middle;
		else
			low = middle + 1;
	}
	return low < end ? s->needed[low] : -1;
}

/* After its last use, which is a backward, a unit's gradient is complete: units of one use in
 * ascending order. */
static void add_complete(struct zr_schedule *s, int32_t first, int32_t n, int32_t unit)
{
	for (; n > first && s->grad_unit[n - 1] > unit; n--)
		s->grad_unit[n] = s->grad_unit[n - 1];
	s->grad_unit[n] = unit;
}

static void find_gradients(struct zr_schedule *s, const uint8_t *frozen)
{
	int32_t n = 0;
	for (int32_t i = 0; i < s->n; i++) {
		s->grad_first[i] = n;
		for (uint32_t k = 0; s->use[i].phase == ZR_BACKWARD && k < s->use[i].n_units; k++) {
			int32_t u = s->use[i].units[k];
			if (frozen && frozen[u])
				continue;
			if (s->first_grad[u] < 0)
				s->first_grad[u] = i;
			if (zr_schedule_next(s, u, i) < 0)
				add_complete(s, s->grad_first[i], n++, u);
		}
	}

	s->grad_first[s->n] = n;
}

/* What is there of a layer once its forward is over, and again after a recompute. */
enum { OUT = 1, SAVED = 2 };

/* What the backward of `layer` needs and what is gone: one forward of a layer brings back both its
 * parts, for the backwards below as well. */
static void add_recompute(struct zr_schedule *s, const struct zr_model_decl *m, uint8_t *there,
			  int32_t layer)
{
	int32_t top = layer;
	if (there[layer] & SAVED)
		top--;
	if (top < layer && (top < 0 || there[top] & OUT))
		return;

	int32_t from = top;
	while (from > 0 && !(there[from - 1] & OUT))
		from--;
	for (int32_t i = from; i <= top; i++) {
		add_use(s, m, i, ZR_RECOMPUTE);
		there[i] = OUT | SAVED;
	}
}

/* The lowest layer that a gradient must reach: of those below nothing is trained. */
static int32_t lowest(const struct zr_model_decl *m, const uint8_t *frozen)
{
	for (int32_t i = 0; frozen && i < (int32_t)m->n_layers; i++)
		for (uint32_t k = 0; k < zr_layer_at(m, i)->n_units; k++)
			if (!frozen[zr_layer_at(m, i)->units[k]])
				return i;
	return 0;
}

static void add_uses(struct zr_schedule *s, const struct zr_model_decl *m, int training,
		     const uint8_t *frozen, const struct zr_act_choice *act, uint8_t *there)
{
	int32_t last = (int32_t)m->n_layers - 1, end = lowest(m, frozen);
	for (int32_t i = 0; i <= last - training; i++)
		add_use(s, m, i, ZR_FORWARD);
	for (int32_t i = 0; i <= last; i++) {
		there[i] = OUT | SAVED;
		if (act && i < last && act[i].out == ZR_ACT_RECOMPUTE)
			there[i] &= (uint8_t)~OUT;
		if (act && i < last && act[i].saved == ZR_ACT_RECOMPUTE)
			there[i] &= (uint8_t)~SAVED;
	}

	there[last - 1] |= OUT; /* its only reader comes next */
	for (int32_t i = last; training && i >= end; i--) {
		add_recompute(s, m, there, i);
		add_use(s, m, i, ZR_BACKWARD);
	}
}

int zr_schedule_make(const struct zr_model_decl *m, int training, const uint8_t *frozen,
		     const struct zr_act_choice *act, struct zr_schedule *out, struct zr_error *err)
{
	struct zr_schedule s = { 0 };
	int32_t layers = (int32_t)m->n_layers, last = layers - 1;
	if (layers < 2 || !(zr_layer_at(m, 0)->flags & ZR_LAYER_INPUT) ||
	    !(zr_layer_at(m, last)->flags & ZR_LAYER_LOSS))
		return zr_err(err, ZR_EINVAL,
			      "the model must declare an input layer first and a loss layer last");

	uint8_t *there = calloc((size_t)layers, 1);
	s.use = calloc(3 * (size_t)layers, sizeof *s.use);
	s.grad_first = calloc(3 * (size_t)layers + 1, sizeof *s.grad_first);
	s.grad_unit = calloc(m->n_units + 1, sizeof *s.grad_unit);
	s.first_grad = malloc((m->n_units + 1) * sizeof *s.first_grad);
	int made = there && s.use && s.grad_first && s.grad_unit && s.first_grad;
	for (uint32_t u = 0; made && u < m->n_units; u++)
		s.first_grad[u] = -1;
	if (made)
		add_uses(&s, m, training, frozen, act, there);
	free(there);
	if (!made || find_needs(&s, m->n_units)) {
		zr_schedule_free(&s);
		return zr_err(err, ZR_ENOMEM, "out of memory for the schedule of %d layers",
			      layers);
	}
	find_gradients(&s, frozen);
	*out = s;
	return 0;
}

void zr_schedule_free(struct zr_schedule *s)
{
	free(s->use);
	free(s->grad_first);
	free(s->grad_unit);
	free(s->first_grad);
	free(s->needed);
	free(s->need_first);
	memset(s, 0, sizeof *s);
}
