/* SPDX-License-Identifier: Apache-2.0
 *
 * targets.c - which linear maps get an adapter, and of which rank; and what is trained as it is.
 * names.h has the rules, which are PEFT's. A module has the name of PyTorch there: with what the
 * model's files may leave out before it ("transformer." of GPT-2).
 */
#include "lora.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define WHOLE (2 * LORA_NAME)

/* ---- rules of one list or expression -------------------------------------------------------- */

/* Whether a list of names, or its regular expression, has the module. */
static int has_module(const struct zr_inst *inst, const char *list, const struct lora_regex *regex,
		      const char *module, int *has)
{
	if (regex)
		return lora_regex_fits(inst->h, regex, module, has);

	*has = lora_is_listed(list, module);
	return ZR_OK;
}

/* Whether a rule of names.h holds for one of modules_to_save. */
static int any_saved(const struct zr_inst *inst, const char *module,
		     int (*rule)(const char *name, const char *module))
{
	const char *list = inst->o.modules_to_save;
	char name[LORA_NAME];

	while (lora_next_word(&list, name))
		if (rule(name, module))
			return 1;

	return 0;
}

/* Whether the module is in one of layers_to_transform; without that option all are. A whole name in
 * the targets counts in any layer. */
static int is_in_layers(const struct zr_inst *inst, const char *module)
{
	const char *list = inst->o.layers_to_transform;
	char number[LORA_NAME];

	if (!*list || lora_is_spelled_out(inst->o.targets, module))
		return 1;

	const long layer = lora_layer_number(inst->o.layers_pattern, module);
	while (layer >= 0 && lora_next_word(&list, number))
		if (strtol(number, NULL, 10) == layer)
			return 1;

	return 0;
}

/* Whether the module is a target: named, neither excluded nor trained as it is. */
static int is_target(const struct zr_inst *inst, const char *module, int is_map, int *target)
{
	const struct lora_opts *o = &inst->o;
	int excluded;

	*target = 0;
	int rc = has_module(inst, o->exclude_modules, inst->excluded, module, &excluded);
	if (rc || excluded || any_saved(inst, module, lora_is_withheld))
		return rc;

	if (!strcmp(o->targets, LORA_ALL)) {
		*target = is_map;
		return ZR_OK;
	}

	rc = has_module(inst, o->targets, inst->regex, module, target);
	if (!rc && *target)
		*target = is_in_layers(inst, module);

	return rc;
}

/* A parent of the module that is a target: PEFT refuses what is no layer that it can adapt. */
static int refuse_parents(const struct zr_inst *inst, const char *module)
{
	char parent[LORA_NAME];
	size_t at = 0;

	while (lora_next_parent(module, &at, parent) && module[at]) {
		int target, rc = is_target(inst, parent, 0, &target);
		if (rc)
			return rc;
		if (target)
			return zr_fail(inst->h, ZR_EINVAL,
				       "targets: %s has parts: name those of "
				       "them that are linear maps",
				       parent);
	}

	return ZR_OK;
}

/* ---- ranks ---------------------------------------------------------------------------------- */

/* The number of MODULE:NUMBER, and the word without it. */
static int cut_number(struct zr_inst *inst, const char *key, char *word, double *number)
{
	char *colon = strrchr(word, ':'), *end = NULL;

	if (colon)
		*number = strtod(colon + 1, &end);
	else
		*number = 0;
	if (!colon || colon == word || end == colon + 1 || *end || !(*number > 0) || *number > 1e6)
		return zr_fail(inst->h, ZR_EINVAL,
			       "%s: '%s': expected MODULE:NUMBER with a number above 0", key, word);

	*colon = 0;
	return ZR_OK;
}

/* Whether a key of a pattern means the module. */
static int pattern_fits(struct zr_inst *inst, const char *key, const char *module, int *fits)
{
	struct lora_regex *regex;
	char whole[WHOLE];

	if (!lora_is_regex(key)) {
		*fits = lora_key_fits(key, module);
		return ZR_OK;
	}

	snprintf(whole, sizeof whole, "(.*\\.)?(%s)", key + strlen(LORA_REGEX));
	int rc = lora_regex_new(inst->h, whole, &regex);
	if (rc)
		return rc;

	rc = lora_regex_fits(inst->h, regex, module, fits);
	lora_regex_free(regex);
	return rc;
}

/* The number of the first key of a list that means the module; none does: *value stays. */
static int pattern_value(struct zr_inst *inst, const char *key, const char *list,
			 const char *module, double *value)
{
	char word[LORA_NAME];
	double number;

	while (lora_next_word(&list, word)) {
		int fits, rc = cut_number(inst, key, word, &number);
		if (!rc)
			rc = pattern_fits(inst, word, module, &fits);
		if (rc)
			return rc;
		if (fits) {
			*value = number;
			return ZR_OK;
		}
	}

	return ZR_OK;
}

static int add_map(struct zr_inst *inst, const struct zr_tensor *t, int32_t unit,
		   const char *module)
{
	const struct lora_opts *o = &inst->o;
	const int heads = (t->flags & ZR_TENSOR_HEAD) != 0;
	const int rows_are_out = t->map == ZR_MAP_OUT_IN || heads;
	double r = (double)o->r, alpha = o->alpha;

	int rc = pattern_value(inst, "rank_pattern", o->rank_pattern, module, &r);
	if (!rc)
		rc = pattern_value(inst, "alpha_pattern", o->alpha_pattern, module, &alpha);
	if (rc)
		return rc;

	struct lora_map m = { .weight = t,
			      .unit = unit,
			      .r = (int64_t)r,
			      .alpha = alpha,
			      .in = t->dims[rows_are_out],
			      .out = t->dims[!rows_are_out],
			      .number = (uint32_t)inst->maps,
			      .tensor = inst->map[inst->maps].tensor,
			      .embeds = (t->flags & ZR_TENSOR_EMBEDDING) != 0,
			      .heads = heads };
	if (m.r < 1 || m.r > m.in || m.r > m.out)
		return zr_fail(inst->h, ZR_EINVAL,
			       "r = %lld: %s is a map from %lld to %lld "
			       "elements: give a rank of at least 1 that is not larger",
			       (long long)m.r, module, (long long)m.in, (long long)m.out);

	m.scale = (float)(alpha / (o->rslora ? sqrt((double)m.r) : (double)m.r));
	inst->map[inst->maps++] = m;
	return ZR_OK;
}

/* ---- the tensors of the model --------------------------------------------------------------- */

static int look_at(struct zr_inst *inst, const struct zr_tensor *t, int32_t unit, uint8_t *kept)
{
	const int is_map = t->map != ZR_MAP_NONE;
	char module[LORA_NAME];
	int target;

	if (strlen(inst->prefix) + strlen(t->name) + 16 > LORA_NAME)
		return zr_fail(inst->h, ZR_ENOTSUP,
			       "a tensor has a name of over %d letters: %.60s...", LORA_NAME - 16,
			       t->name);
	if (!lora_module_of(inst, t->name, module))
		return ZR_OK;

	*kept = (uint8_t)any_saved(inst, module, lora_is_kept);
	int rc = refuse_parents(inst, module);
	if (!rc)
		rc = is_target(inst, module, is_map, &target);
	if (rc || !target || strcmp(strrchr(t->name, '.'), ".weight"))
		return rc;

	if (!is_map && !(t->flags & (ZR_TENSOR_EMBEDDING | ZR_TENSOR_HEAD)))
		return zr_fail(inst->h, ZR_EINVAL,
			       "targets: %s is no linear map, and no embedding of tokens, that "
			       "can be adapted; what is to be trained as it is goes to "
			       "modules_to_save",
			       module);
	if (*kept)
		return zr_fail(inst->h, ZR_EINVAL,
			       "modules_to_save: %s ends with one of these "
			       "names and has an adapter, too: give whole parts of names there, "
			       "or take it out of the targets",
			       module);

	return add_map(inst, t, unit, module);
}

/* Calls `see` for the module of each tensor until it returns something else than 0. */
static int each_module(struct zr_inst *inst, const char *name,
		       int (*see)(const char *name, const char *module))
{
	const struct zr_model_decl *d = &inst->decl;
	char module[LORA_NAME];

	for (uint32_t u = 0; u < d->n_units; u++) {
		const struct zr_unit *unit = lora_unit(d, u);
		for (uint32_t i = 0; i < unit->n_tensors; i++)
			if (lora_module_of(inst, lora_tensor(d, unit, i)->name, module) &&
			    see(name, module))
				return 1;
	}

	return 0;
}

/* A name of `targets` that no module has is ignored, as PEFT does, but not silently. */
static void warn_of_targets(struct zr_inst *inst)
{
	const char *list = inst->o.targets;
	char name[LORA_NAME];

	if (inst->regex || !strcmp(list, LORA_ALL))
		return;

	while (lora_next_word(&list, name))
		if (!each_module(inst, name, lora_is_called))
			zr_log(inst->h, ZR_LOG_WARN,
			       "targets: the model has no module called %s; "
			       "the other names count",
			       name);
}

/* A name of modules_to_save that no module has: what PEFT may find there is not here. */
static int check_saved(struct zr_inst *inst)
{
	const char *list = inst->o.modules_to_save;
	char name[LORA_NAME];

	while (lora_next_word(&list, name))
		if (!each_module(inst, name, lora_is_kept))
			return zr_fail(inst->h, ZR_EINVAL,
				       "modules_to_save: the model has no "
				       "module whose name ends with %s",
				       name);

	return ZR_OK;
}

/* Every key of a pattern must mean something that has an adapter. Files may say more: PEFT does
 * not mind. */
static int check_pattern(struct zr_inst *inst, const char *key, const char *list)
{
	char word[LORA_NAME], module[LORA_NAME];
	double number;

	while (!*inst->o.path && lora_next_word(&list, word)) {
		int found = 0, rc = cut_number(inst, key, word, &number);
		for (int32_t i = 0; i < inst->maps && !found && !rc; i++) {
			lora_module_of(inst, inst->map[i].weight->name, module);
			rc = pattern_fits(inst, word, module, &found);
		}

		if (rc)
			return rc;
		if (!found)
			return zr_fail(inst->h, ZR_EINVAL,
				       "%s: no module that gets an adapter is called %s", key,
				       word);
	}

	return ZR_OK;
}

/* A head that is the embedding and a target: PEFT adapts the head then, and not the embedding. */
static int refuse_head(const struct zr_inst *inst)
{
	int target = 0;

	int rc = *inst->head ? is_target(inst, inst->head, 0, &target) : ZR_OK;
	if (rc || !target)
		return rc;

	return zr_fail(inst->h, ZR_ENOTSUP,
		       "targets: %s is tied to the embedding, and cannot be adapted alone: take it "
		       "out, or exclude it",
		       inst->head);
}

/* Options that PEFT refuses together. */
static int check_layers(const struct zr_inst *inst)
{
	const struct lora_opts *o = &inst->o;

	if (!*o->layers_to_transform && *o->layers_pattern)
		return zr_fail(inst->h, ZR_EINVAL,
			       "layers_pattern: says nothing without "
			       "layers_to_transform: give both, or none");
	if (*o->layers_to_transform && (lora_is_regex(o->targets) || !strcmp(o->targets, LORA_ALL)))
		return zr_fail(inst->h, ZR_EINVAL,
			       "layers_to_transform: goes with a list of "
			       "names in targets, not with %s: say the layers there",
			       lora_is_regex(o->targets) ? "a regular expression" : LORA_ALL);

	return ZR_OK;
}

static int compile(struct zr_inst *inst, const char *text, struct lora_regex **regex)
{
	if (!lora_is_regex(text))
		return ZR_OK;

	return lora_regex_new(inst->h, text + strlen(LORA_REGEX), regex);
}

/* What the options say by themselves. */
static int prepare(struct zr_inst *inst)
{
	int rc = check_layers(inst);
	if (!rc)
		rc = compile(inst, inst->o.targets, &inst->regex);
	if (!rc)
		rc = compile(inst, inst->o.exclude_modules, &inst->excluded);
	if (rc)
		return rc;

	if (inst->decl.tensor_stride < sizeof(struct zr_tensor))
		return zr_fail(inst->h, ZR_ENOTSUP,
			       "the model does not say which of its tensors "
			       "are linear maps: it is built for an older zeroth");

	rc = lora_tie(inst);
	if (rc)
		return rc;

	warn_of_targets(inst);
	return check_saved(inst);
}

static int refuse_none(const struct zr_inst *inst)
{
	if (inst->regex)
		return zr_fail(inst->h, ZR_EINVAL,
			       "targets: no linear map of the model has a name "
			       "that is fit as a whole");

	return zr_fail(inst->h, ZR_EINVAL,
		       "targets: no linear map of the model is called %.200s, "
		       "or what is so called is excluded",
		       inst->o.targets);
}

int lora_find(struct zr_inst *inst, uint8_t *kept)
{
	const struct zr_model_decl *d = &inst->decl;
	int32_t tensor = 0;

	int rc = prepare(inst);
	for (uint32_t u = 0; u < d->n_units && !rc; u++) {
		const struct zr_unit *unit = lora_unit(d, u);
		for (uint32_t i = 0; i < unit->n_tensors && !rc; i++, tensor++) {
			inst->map[inst->maps].tensor = tensor; /* if it gets an adapter */
			rc = look_at(inst, lora_tensor(d, unit, i), (int32_t)u, kept++);
		}
	}

	if (!rc)
		rc = refuse_head(inst);
	if (rc)
		return rc;

	if (!inst->maps)
		return refuse_none(inst);

	rc = check_pattern(inst, "rank_pattern", inst->o.rank_pattern);
	if (rc)
		return rc;

	return check_pattern(inst, "alpha_pattern", inst->o.alpha_pattern);
}
