/* SPDX-License-Identifier: Apache-2.0
 *
 * order.c - see order.h. Modules of transformers have their parameters in the order in which their
 * parts were made: in a block of most decoders attention, map, norms, a map's bias behind its
 * weight. Zeroth has the tensors of some in the order in which they are computed. Other blocks,
 * those of GPT-2 and GPT-NeoX, have one order in both.
 */
#include "cmd/others/order.h"

#include <stdlib.h>
#include <string.h>

enum { PART_ATTENTION, PART_MAP, PART_REST };

struct key {
	int32_t tensor, unit, part, module;
};

static int begins(const char *text, const char *with)
{
	return !strncmp(text, with, strlen(with));
}

/* Bytes of a tensor's name before its last part: "self_attn.q_proj" of "self_attn.q_proj.bias". */
static size_t module_bytes(const char *name)
{
	const char *dot = strrchr(name, '.');
	return dot ? (size_t)(dot - name) : strlen(name);
}

/* The name within its block: "self_attn.q_proj.bias" of "model.layers.3.self_attn.q_proj.bias". */
static const char *within(const char *name)
{
	static const char blocks[] = "layers.";
	const char *at = strstr(name, blocks);
	const char *dot = at ? strchr(at + strlen(blocks), '.') : NULL;
	return dot ? dot + 1 : name;
}

static int32_t part_of(const char *name)
{
	if (begins(within(name), "self_attn."))
		return PART_ATTENTION;
	if (begins(within(name), "mlp."))
		return PART_MAP;
	return PART_REST;
}

/* The first tensor of the same module. */
static int32_t first_of_module(const struct zr_layout *l, int32_t i)
{
	const char *name = l->tensor[i].decl->name;
	const size_t n = module_bytes(name);
	int32_t first = l->unit[l->tensor[i].unit].first;

	while (module_bytes(l->tensor[first].decl->name) != n ||
	       strncmp(l->tensor[first].decl->name, name, n))
		first++;
	return first;
}

/* Whether a unit is a block of the kind whose order differs. */
static int is_reordered(const struct zr_layout *l, int32_t unit)
{
	const struct zr_unit_place *u = &l->unit[unit];

	for (int32_t i = u->first; i < u->first + u->count; i++)
		if (begins(within(l->tensor[i].decl->name), "self_attn."))
			return 1;
	return 0;
}

static int by_key(const void *a, const void *b)
{
	const struct key *x = a, *y = b;
	if (x->unit != y->unit)
		return x->unit - y->unit;
	if (x->part != y->part)
		return x->part - y->part;
	if (x->module != y->module)
		return x->module - y->module;

	return x->tensor - y->tensor;
}

/* Whether a model has the experts of a block one by one, which transformers 5 does not. */
static int refuse_experts(const struct zr_layout *l, struct zr_error *err)
{
	for (int32_t i = 0; i < l->n_tensors; i++)
		if (strstr(l->tensor[i].decl->name, ".experts."))
			return zr_err(err, ZR_EINVAL,
				      "tensor %s: transformers has all experts of a block in one "
				      "parameter, whose moments are not divided here; --weights "
				      "takes the weights alone",
				      l->tensor[i].decl->name);

	return 0;
}

static struct key key_of(const struct zr_layout *l, int32_t i)
{
	struct key k = { .tensor = i, .unit = l->tensor[i].unit };

	if (is_reordered(l, k.unit)) {
		k.part = part_of(l->tensor[i].decl->name);
		k.module = first_of_module(l, i);
	}

	return k;
}

int32_t zr_their_order(const struct zr_layout *l, int32_t *order, struct zr_error *err)
{
	struct key *key = calloc((size_t)l->n_tensors + 1, sizeof *key);
	int32_t n = 0;

	if (refuse_experts(l, err) || (!key && zr_no_memory(err))) {
		free(key);
		return -1;
	}

	for (int32_t i = 0; i < l->n_tensors; i++)
		if (!(l->tensor[i].flags & ZR_TENSOR_ADDED))
			key[n++] = key_of(l, i);
	qsort(key, (size_t)n, sizeof *key, by_key);
	for (int32_t i = 0; i < n; i++)
		order[i] = key[i].tensor;
	free(key);
	return n;
}

int zr_is_not_decayed(const struct zr_tensor *t)
{
	return t->ndim == 1;
}
