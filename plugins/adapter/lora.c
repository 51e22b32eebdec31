/* SPDX-License-Identifier: Apache-2.0
 *
 * lora.c - adapter/lora: options, and the declaration of a model with its adapters: the model's
 * units, whose tensors are frozen, and behind them one unit of adapters for each that has adapted
 * tensors. A layer needs those of its units, too.
 */
#include "lora.h"
#include "plugins/descriptor.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_R     8
#define DEFAULT_ALPHA 8
#define TEXT(x)       #x
#define VALUE(x)      TEXT(x)

static const struct zr_opt options[] = {
	ZR_OPT(struct lora_opts, path, ZR_T_PATH, 0, "", 0, 0, "",
	       "Directory with adapters of PEFT to go on from, adapter_config.json and "
	       "adapter_model.safetensors: it says all of the below but dropout."),
	ZR_OPT(struct lora_opts, r, ZR_T_I64, ZR_O_NUMERIC, VALUE(DEFAULT_R), 1, 1 << 16, "",
	       "Rank of the adapters."),
	ZR_OPT(struct lora_opts, alpha, ZR_T_F64, ZR_O_NUMERIC | ZR_O_MIN_OPEN,
	       VALUE(DEFAULT_ALPHA), 0, 1e6, "",
	       "What an adapter adds is multiplied by alpha / r."),
	ZR_OPT(struct lora_opts, rslora, ZR_T_BOOL, ZR_O_NUMERIC, "no", 0, 0, "",
	       "It is multiplied by alpha / sqrt(r) instead."),
	ZR_OPT(struct lora_opts, dropout, ZR_T_F64, ZR_O_NUMERIC | ZR_O_MAX_OPEN, "0", 0, 1, "",
	       "Probability to drop an element of what goes into an adapter, in training."),
	ZR_OPT(struct lora_opts, targets, ZR_T_STR, ZR_O_NUMERIC, LORA_ALL, 0, 0, "",
	       "Modules that get an adapter, linear maps, the head and the embedding of tokens: "
	       "names, or their ends behind a dot, in which * and ? stand for letters; all-linear: "
	       "every linear map but the head and routers; re: and a regular expression of Python "
	       "that fits their whole names. Those of modules_to_save get none."),
	ZR_OPT(struct lora_opts, exclude_modules, ZR_T_STR, ZR_O_NUMERIC, "", 0, 0, "",
	       "Modules that get none, in the same form."),
	ZR_OPT(struct lora_opts, layers_to_transform, ZR_T_STR, ZR_O_NUMERIC, "", 0, 0, "",
	       "Numbers of the layers in which a list of targets counts; empty: in all."),
	ZR_OPT(struct lora_opts, layers_pattern, ZR_T_STR, ZR_O_NUMERIC, "", 0, 0, "",
	       "Names before the numbers of layers, as h or layers; empty: any name."),
	ZR_OPT(struct lora_opts, rank_pattern, ZR_T_STR, ZR_O_NUMERIC, "", 0, 0, "",
	       "Ranks of some of them, as in c_attn:16 mlp.c_proj:4; the first that fits counts. "
	       "A module may be re: and a regular expression of Python, for the end of its name "
	       "behind a dot."),
	ZR_OPT(struct lora_opts, alpha_pattern, ZR_T_STR, ZR_O_NUMERIC, "", 0, 0, "",
	       "The same for alpha."),
	ZR_OPT(struct lora_opts, ensure_weight_tying, ZR_T_BOOL, ZR_O_NUMERIC, "no", 0, 0, "",
	       "Where the head is the embedding, and modules_to_save has embed_tokens or lm_head: "
	       "train it for both. PEFT knows no other names, but trains what is tied to them."),
	ZR_OPT(struct lora_opts, modules_to_save, ZR_T_STR, ZR_O_NUMERIC, "", 0, 0, "",
	       "Modules that are trained as they are, beside the adapters: those whose names, or "
	       "whose parents' names, end so, behind a dot or not, as PEFT has it."),
};

static const void *at(const void *base, uint32_t stride, uint32_t i)
{
	return (const char *)base + (size_t)i * stride;
}

static const struct zr_unit *unit_of(const struct zr_inst *inst, uint32_t i)
{
	return at(inst->decl.units, inst->decl.unit_stride, i);
}

static const struct zr_layer *layer_of(const struct zr_inst *inst, uint32_t i)
{
	return at(inst->decl.layers, inst->decl.layer_stride, i);
}

static uint32_t count_tensors(const struct zr_inst *inst)
{
	uint32_t n = 0;
	for (uint32_t u = 0; u < inst->decl.n_units; u++)
		n += unit_of(inst, u)->n_tensors;
	return n;
}

/* Adapted tensors of a unit of the model; the first of them in *first. */
static int32_t maps_of(const struct zr_inst *inst, int32_t unit, int32_t *first)
{
	int32_t n = 0;

	for (*first = 0; *first < inst->maps && inst->map[*first].unit != unit;)
		++*first;
	while (*first + n < inst->maps && inst->map[*first + n].unit == unit)
		n++;

	return n;
}

static int layers_of(const struct zr_inst *inst, int32_t unit)
{
	int uses = 0;
	for (uint32_t i = 0; i < inst->decl.n_layers; i++)
		for (uint32_t k = 0; k < layer_of(inst, i)->n_units; k++)
			uses += layer_of(inst, i)->units[k] == unit;

	return uses;
}

/* ---- the declaration ------------------------------------------------------------------------ */

/* Copies of the model's units and tensors; kept: those that are trained as they are. */
static struct zr_tensor *copy_units(struct zr_inst *inst, const uint8_t *kept)
{
	struct zr_tensor *t = inst->tensors;

	for (uint32_t u = 0; u < inst->decl.n_units; u++) {
		const struct zr_unit *unit = unit_of(inst, u);
		inst->units[u] = (struct zr_unit){ unit->name, t, unit->n_tensors, 0 };
		for (uint32_t i = 0; i < unit->n_tensors; i++, t++) {
			*t = *(const struct zr_tensor *)at(unit->tensors, inst->decl.tensor_stride,
							   i);
			if (!*kept++)
				t->flags |= ZR_TENSOR_FROZEN;
		}
	}

	return t;
}

/* Names of A and B, as PEFT has them. */
static void name_map(const struct lora_map *m, char (*names)[LORA_NAME])
{
	const char *weight = strrchr(m->weight->name, '.');
	const int module = (int)(weight - m->weight->name);
	const char *form = m->embeds ? "%.*s.lora_embedding_%c" : "%.*s.lora_%c.weight";

	snprintf(names[0], sizeof *names, form, module, m->weight->name, 'A');
	snprintf(names[1], sizeof *names, form, module, m->weight->name, 'B');
}

/* A is U(-1, 1) / sqrt(in), B is 0: the model begins as it was. Of an embedding A is 0 and B is
 * N(0, 1). */
static void declare_map(const struct lora_map *m, struct zr_tensor t[2], char (*names)[LORA_NAME])
{
	name_map(m, names);
	t[0] = (struct zr_tensor){ .name = names[0],
				   .dims = { m->r, m->in, 1, 1 },
				   .ndim = 2,
				   .init = ZR_INIT_UNIFORM,
				   .std = 1 / sqrt((double)m->in),
				   .flags = ZR_TENSOR_ADDED,
				   .part = m->weight->part };
	t[1] = (struct zr_tensor){ .name = names[1],
				   .dims = { m->out, m->r, 1, 1 },
				   .ndim = 2,
				   .init = ZR_INIT_CONST,
				   .flags = ZR_TENSOR_ADDED,
				   .part = m->weight->part };
	if (!m->embeds)
		return;

	t[0].init = ZR_INIT_CONST;
	t[0].std = 0;
	t[1].init = ZR_INIT_NORMAL;
	t[1].std = 1;
}

/* Units of adapters, in the order of the model's. Returns how many units there are in all;
 * unit[u]: the one beside unit u, -1: none. */
static uint32_t add_units(struct zr_inst *inst, struct zr_tensor *t, int32_t *unit)
{
	uint32_t n = inst->decl.n_units;
	char(*names)[LORA_NAME] = inst->names;

	for (uint32_t u = 0; u < inst->decl.n_units; u++) {
		int32_t first, maps = maps_of(inst, (int32_t)u, &first);
		unit[u] = maps ? (int32_t)n : -1;
		if (!maps)
			continue;

		snprintf(*names, sizeof *names, "%s.lora", unit_of(inst, u)->name);
		inst->units[n++] = (struct zr_unit){ *names++, t, 2 * (uint32_t)maps, 0 };
		for (int32_t i = first; i < first + maps; i++, t += 2, names += 2) {
			inst->map[i].a = (int32_t)(t - inst->tensors);
			declare_map(&inst->map[i], t, names);
		}
	}

	return n;
}

/* The number of an adapted tensor in its unit. */
static int64_t place_in(const struct zr_inst *inst, const struct lora_map *m)
{
	const char *first = (const char *)unit_of(inst, (uint32_t)m->unit)->tensors;
	return ((const char *)m->weight - first) / inst->decl.tensor_stride;
}

static int is_expert(const struct zr_unit *u)
{
	return u->n_tensors && u->tensors->experts_per_token;
}

/* The products of a layer's experts are one operation: all have the same adapters, and dropout by
 * one number. */
static int join_experts(struct zr_inst *inst, const struct zr_layer *of)
{
	const struct zr_unit *first = NULL;
	int32_t maps = 0, from = 0, at;

	for (uint32_t k = 0; k < of->n_units; k++) {
		const struct zr_unit *u = unit_of(inst, (uint32_t)of->units[k]);
		const int32_t n = maps_of(inst, of->units[k], &at);
		if (!is_expert(u))
			continue;
		if (!first) {
			from = at;
			maps = n;
		}

		if (!first)
			first = u;
		int alike = n == maps;
		for (int32_t j = 0; j < n && alike; j++) {
			const struct lora_map *a = &inst->map[from + j];
			struct lora_map *b = &inst->map[at + j];
			alike = place_in(inst, a) == place_in(inst, b) && a->r == b->r &&
				a->scale == b->scale;
			b->number = a->number;
		}

		if (!alike)
			return zr_fail(inst->h, ZR_ENOTSUP,
				       "targets: %s is not adapted as %s is: "
				       "experts of a layer all have adapters of one rank and "
				       "alpha, or none has",
				       u->name, first->name);
	}

	return ZR_OK;
}

/* What a layer needs, and where its call has it. */
static int declare_layer(struct zr_inst *inst, uint32_t i, const int32_t *beside, int32_t **units)
{
	const struct zr_layer *of = layer_of(inst, i);
	struct lora_layer *l = &inst->layer[i];
	int32_t *mine = *units, a = 0, first, first_beside = 0;
	const int looks_up = (of->flags & ZR_LAYER_INPUT) != 0;
	uint32_t n = of->n_units;

	for (uint32_t k = 0; k < of->n_units; k++)
		a += (int32_t)unit_of(inst, (uint32_t)of->units[k])->n_tensors;
	l->tensors = a;
	for (uint32_t k = 0, tensor = 0; k < of->n_units; k++) {
		const struct zr_unit *u = unit_of(inst, (uint32_t)of->units[k]);
		int32_t maps = maps_of(inst, of->units[k], &first);
		mine[k] = of->units[k];
		if (maps && inst->map[first].tied && !looks_up)
			maps = 0; /* the head that is this embedding stays as it is */
		if (maps && is_expert(u) && !l->experts++)
			first_beside = (int32_t)n;
		if (maps)
			mine[n++] = beside[of->units[k]];
		for (uint32_t t = 0; t < u->n_tensors; t++, tensor++)
			for (int32_t m = first; m < first + maps; m++)
				if (inst->map[m].weight ==
				    at(u->tensors, inst->decl.tensor_stride, t)) {
					const int expert = inst->map[m].weight->experts_per_token;
					l->use[l->n++] =
						(struct lora_use){ &inst->map[m], (int32_t)tensor,
								   a, expert ? -1 : l->kept++ };
					l->heads += inst->map[m].heads;
					a += 2;
				}
	}

	const size_t known = inst->decl.layer_stride < sizeof *of ? inst->decl.layer_stride :
								    sizeof *of;
	memcpy(&inst->layers[i], of, known);
	inst->layers[i].units = mine;
	inst->layers[i].n_units = n;
	inst->layers[i].first_beside = first_beside;
	*units = mine + n;
	if (l->experts && inst->decl.expert_ranks && inst->o.dropout > 0)
		return zr_fail(
			inst->h, ZR_ENOTSUP,
			"dropout: that of experts counts their places in one call; with [zero] "
			"expert_ranks, or [train] experts_on = host, set it to 0, or adapt no "
			"experts");
	if (a >= LORA_TENSORS)
		return zr_fail(inst->h, ZR_ENOTSUP, "layer %s has more than %d tensors", of->name,
			       LORA_TENSORS - 1);

	return ZR_OK;
}

/* A weight that two layers use would have two gradients: operations do not say which is which. And
 * what is trained as it is would be another in PEFT: a copy of it, which one of the two uses. */
static int check_tied(const struct zr_inst *inst)
{
	const uint8_t *kept = inst->kept;

	for (int32_t i = 0; i < inst->maps; i++) {
		struct lora_map *m = &inst->map[i];
		const int layers = layers_of(inst, m->unit);
		m->tied = m->embeds && layers > 1;
		if (!m->embeds && layers != 1)
			return zr_fail(inst->h, ZR_ENOTSUP, "targets: %s is used by %d layers",
				       m->weight->name, layers);
	}

	for (uint32_t u = 0; u < inst->decl.n_units; u++)
		for (uint32_t i = 0; i < unit_of(inst, u)->n_tensors; i++)
			if (*kept++ && layers_of(inst, (int32_t)u) != 1 && !inst->tied_saved)
				return zr_fail(
					inst->h, ZR_ENOTSUP,
					"modules_to_save: unit %s is "
					"tied, %d layers use it: PEFT would train a copy "
					"for one of them; give ensure_weight_tying = yes "
					"and the head, which trains both, or leave it frozen",
					unit_of(inst, u)->name, layers_of(inst, (int32_t)u));

	return ZR_OK;
}

static void *alloc(struct zr_inst *inst, size_t n, size_t each)
{
	return inst->h->alloc(inst->h, (n + 1) * each, "adapter");
}

static int alloc_tables(struct zr_inst *inst, uint32_t tensors)
{
	const struct zr_model_decl *d = &inst->decl;
	size_t maps = (size_t)inst->maps, listed = 0;

	for (uint32_t i = 0; i < d->n_layers; i++)
		listed += 2 * (size_t)layer_of(inst, i)->n_units;
	inst->units = alloc(inst, 2 * (size_t)d->n_units, sizeof *inst->units);
	inst->tensors = alloc(inst, tensors + 2 * maps, sizeof *inst->tensors);
	inst->layers = alloc(inst, d->n_layers, sizeof *inst->layers);
	inst->layer_units = alloc(inst, listed, sizeof *inst->layer_units);
	inst->names = alloc(inst, d->n_units + 2 * maps, sizeof *inst->names);
	inst->layer = alloc(inst, d->n_layers, sizeof *inst->layer);
	inst->use = alloc(inst, maps, sizeof *inst->use);
	inst->beside = alloc(inst, d->n_units, sizeof *inst->beside);
	if (!inst->units || !inst->tensors || !inst->layers || !inst->layer_units || !inst->names ||
	    !inst->layer || !inst->use || !inst->beside)
		return zr_fail(inst->h, ZR_ENOMEM, "no memory for the adapters' declaration");

	return ZR_OK;
}

static int declare_all(struct zr_inst *inst, struct zr_model_decl *out)
{
	int32_t *units = inst->layer_units;
	struct lora_use *use = inst->use;
	int rc = check_tied(inst);
	struct zr_tensor *t = copy_units(inst, inst->kept);
	const uint32_t n = add_units(inst, t, inst->beside);

	for (uint32_t i = 0; i < inst->decl.n_layers && !rc; i++) {
		inst->layer[i].use = use;
		rc = join_experts(inst, layer_of(inst, i));
		if (!rc)
			rc = declare_layer(inst, i, inst->beside, &units);
		use += inst->layer[i].n;
	}

	out->n_units = n;
	out->units = inst->units;
	out->layers = inst->layers;
	out->unit_stride = sizeof *inst->units;
	out->layer_stride = sizeof *inst->layers;
	out->tensor_stride = sizeof *inst->tensors;
	return rc;
}

static int lora_declare(struct zr_inst *inst, struct zr_model_decl *out)
{
	int rc = inst->model->declare(inst->base, out);
	if (rc)
		return rc;

	inst->decl = *out;
	lora_find_tied(inst);
	const uint32_t tensors = count_tensors(inst);
	inst->map = alloc(inst, tensors, sizeof *inst->map);
	inst->kept = alloc(inst, tensors, 1);
	if (!inst->map || !inst->kept)
		return zr_fail(inst->h, ZR_ENOMEM, "no memory for %u tensors", tensors);

	rc = lora_find(inst, inst->kept);
	if (!rc)
		rc = alloc_tables(inst, tensors);
	if (rc)
		return rc;

	return declare_all(inst, out);
}

/* ---- the role ------------------------------------------------------------------------------- */

static int lora_bytes(struct zr_inst *inst, int32_t layer, int64_t batch, int64_t length,
		      int32_t dtype, const struct zr_ops *ops, struct zr_layer_bytes *out)
{
	const struct zr_layer_call c = { .batch = batch, .length = length, .dtype = dtype };
	int rc;

	/* what maps with adapters keep is read by their backward */
	if (inst->layer[layer].n && ZR_HAS(out, struct zr_layer_bytes, wants_lean))
		out->wants_lean = 0;
	if (inst->layer[layer].n && ZR_HAS(out, struct zr_layer_bytes, touching))
		out->touching = 0;
	if (!ZR_HAS(ops, struct zr_ops, matmul_low_rank) || !ops->matmul_low_rank)
		rc = zr_fail(inst->h, ZR_ENOTSUP, "the device has no operation matmul_low_rank");
	else if (!ZR_HAS(ops, struct zr_ops, cast_heads) || !ops->cast_heads)
		rc = zr_fail(inst->h, ZR_ENOTSUP, "the device has no operation cast_heads");
	else
		rc = inst->model->bytes(inst->base, layer, batch, length, dtype, ops, out);
	if (!rc && inst->layer[layer].n)
		lora_add_bytes(inst, &inst->layer[layer], &c, out);

	return rc;
}

static int lora_forward(struct zr_inst *inst, const struct zr_layer_call *c)
{
	return lora_call(inst, c, 0);
}

static int lora_backward(struct zr_inst *inst, const struct zr_layer_call *c)
{
	return lora_call(inst, c, 1);
}

/* The model's units come first: its tensors have the same numbers as without the adapter. */
static int lora_renew(struct zr_inst *inst, const struct zr_renewal *all)
{
	struct zr_renewal r = *all;
	r.n_tensors = (int32_t)count_tensors(inst);

	if (ZR_HAS(inst->model, struct zr_model_v1, renew) && inst->model->renew)
		return inst->model->renew(inst->base, &r);
	return zr_fail(
		inst->h, ZR_ENOTSUP,
		"the model declares persistent numbers of tensors and has no function renew");
}

static void lora_destroy(struct zr_inst *inst)
{
	const struct zr_host *h = inst->h;
	void *const own[] = { inst->map,    inst->kept,        inst->units, inst->tensors,
			      inst->layers, inst->layer_units, inst->names, inst->layer,
			      inst->use,    inst->beside };

	free(inst->text);
	h->release(h, inst->saved_list);
	lora_regex_free(inst->regex);
	lora_regex_free(inst->excluded);
	for (size_t i = 0; i < LORA_LISTS; i++)
		h->release(h, inst->of_file[i]);
	for (size_t i = 0; i < sizeof own / sizeof *own; i++)
		h->release(h, own[i]);
	h->release(h, inst);
}

/* What is not the default was given: the file must not say otherwise. */
static int check_given(const struct zr_host *h, const struct lora_opts *given,
		       const struct lora_opts *file)
{
	if (given->r != DEFAULT_R && given->r != file->r)
		return zr_fail(h, ZR_EINVAL,
			       "r = %lld: adapter_config.json in path says %lld; "
			       "take the option out",
			       (long long)given->r, (long long)file->r);
	if (given->alpha != DEFAULT_ALPHA && given->alpha != file->alpha)
		return zr_fail(h, ZR_EINVAL,
			       "alpha = %g: adapter_config.json in path says %g; "
			       "take the option out",
			       given->alpha, file->alpha);
	if (given->rslora && !file->rslora)
		return zr_fail(h, ZR_EINVAL,
			       "rslora = yes: adapter_config.json in path says no; "
			       "take the option out");

	if (given->ensure_weight_tying && !file->ensure_weight_tying)
		return zr_fail(h, ZR_EINVAL,
			       "ensure_weight_tying = yes: adapter_config.json in path says no; "
			       "take the option out");

	return ZR_OK;
}

static int lora_create(const struct zr_host *h, const void *opts, struct zr_inst **out)
{
	struct zr_inst *inst = h->alloc(h, sizeof *inst, "adapter");
	if (!inst)
		return zr_fail(h, ZR_ENOMEM, "no memory");

	inst->h = h;
	inst->o = *(const struct lora_opts *)opts;
	inst->model = h->get(h, "zr.model/1", &inst->base);
	const struct zr_pretrained_v1 *files_of = h->get(h, "zr.pretrained/1", &inst->base);
	inst->prefix = "";
	inst->ignored = "";
	if (files_of && ZR_HAS(files_of, struct zr_pretrained_v1, prefix))
		inst->prefix = files_of->prefix;
	if (files_of && ZR_HAS(files_of, struct zr_pretrained_v1, ignored) && files_of->ignored)
		inst->ignored = files_of->ignored;
	int rc = ZR_OK;
	if (!inst->model)
		rc = zr_fail(h, ZR_ESTATE, "there is no model to adapt");
	if (!rc && *inst->o.path)
		rc = lora_read_config(h, &inst->o, inst->of_file);
	if (!rc)
		rc = check_given(h, opts, &inst->o);
	if (rc)
		lora_destroy(inst);
	else
		*out = inst;

	return rc;
}

static const char *lora_path(struct zr_inst *inst)
{
	return inst->o.path;
}

static const struct zr_adapter_v1 files = {
	.size = sizeof files,
	.path = lora_path,
	.config = lora_config,
	.options = lora_options,
	.merge_with = lora_merge_with,
	.merge = lora_merge,
};

static const struct zr_model_v1 vtbl = {
	.size = sizeof vtbl,
	.declare = lora_declare,
	.bytes = lora_bytes,
	.forward = lora_forward,
	.backward = lora_backward,
	.logits = lora_logits,
	.renew = lora_renew,
};
static const struct zr_iface ifaces[] = {
	PLUGIN_IFACE(model, &vtbl),
	PLUGIN_IFACE(adapter, &files),
	{ NULL, NULL },
};

PLUGIN_DESC(adapter, "lora", ifaces, .version = "1",
	    .summary = "Low-rank adapters beside the frozen linear maps of the model.",
	    PLUGIN_OPTIONS(struct lora_opts, options), .create = lora_create,
	    .destroy = lora_destroy);
ZR_PLUGIN(&desc);
