/* SPDX-License-Identifier: Apache-2.0
 *
 * targets.c - which linear maps get an adapter, and of which rank. Names are compared as PEFT does:
 * a word names a module whose whole name it is, or whose name ends with it behind a dot; * and ?
 * stand for letters. A module's name is that of its weight without ".weight", with what PyTorch has
 * before it and the model's files may leave out ("transformer." of GPT-2).
 */
#include "lora.h"

#include <fnmatch.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define WHOLE (2 * LORA_NAME)

/* The module's name in PyTorch. */
static const char *whole_name(const struct zr_inst *inst, const char *module, char whole[WHOLE])
{
	const int has = !strncmp(module, inst->prefix, strlen(inst->prefix));
	snprintf(whole, WHOLE, "%s%s", has ? "" : inst->prefix, module);
	return whole;
}

/* Whether the module is called `word`. */
static int is_called(const struct zr_inst *inst, const char *module, const char *word)
{
	char behind[LORA_NAME + 2], whole[WHOLE];
	snprintf(behind, sizeof behind, "*.%s", word);
	whole_name(inst, module, whole);
	return !fnmatch(word, whole, 0) || !fnmatch(behind, whole, 0);
}

static int module_of(const char *tensor, char module[LORA_NAME])
{
	const char *dot = strrchr(tensor, '.');
	if (!dot || (size_t)(dot - tensor) >= LORA_NAME)
		return 0;
	memcpy(module, tensor, (size_t)(dot - tensor));
	module[dot - tensor] = 0;
	return 1;
}

/* The next word of *text, in word. */
static int next_word(const char **text, char word[LORA_NAME])
{
	const char *p = *text + strspn(*text, " ,\t");
	size_t n = strcspn(p, " ,\t");
	snprintf(word, LORA_NAME, "%.*s", (int)n, p);
	*text = p + n;
	return n > 0;
}

static int is_listed(const struct zr_inst *inst, const char *list, const char *module)
{
	char word[LORA_NAME];
	while (next_word(&list, word))
		if (is_called(inst, module, word))
			return 1;
	return 0;
}

/* The number of MODULE:NUMBER, and the word without it. */
static int cut_number(struct zr_inst *inst, const char *key, char *word, double *number)
{
	char *colon = strrchr(word, ':'), *end;
	const double v = *number = colon ? strtod(colon + 1, &end) : 0;
	if (!colon || colon == word || end == colon + 1 || *end || !(v > 0) || v > 1e6)
		return zr_fail(inst->h, ZR_EINVAL,
			       "%s: '%s': expected MODULE:NUMBER with a number above 0", key, word);
	*colon = 0;
	return ZR_OK;
}

/* The number of the first word of a list that names the module; none does: *value stays. */
static int pattern_value(struct zr_inst *inst, const char *key, const char *list,
			 const char *module, double *value)
{
	char word[LORA_NAME];
	double number;
	while (next_word(&list, word)) {
		int rc = cut_number(inst, key, word, &number);
		if (rc)
			return rc;
		if (is_called(inst, module, word)) {
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
	const int rows_are_out = t->map == ZR_MAP_OUT_IN;
	double r = (double)o->r, alpha = o->alpha;
	int rc = pattern_value(inst, "rank_pattern", o->rank_pattern, module, &r);
	rc = rc ? rc : pattern_value(inst, "alpha_pattern", o->alpha_pattern, module, &alpha);
	if (rc)
		return rc;
	struct lora_map m = { .weight = t, .unit = unit, .r = (int64_t)r, .alpha = alpha,
			      .in = t->dims[rows_are_out], .out = t->dims[!rows_are_out],
			      .number = (uint32_t)inst->maps,
			      .tensor = inst->map[inst->maps].tensor };
	if (m.r < 1 || m.r > m.in || m.r > m.out)
		return zr_fail(inst->h, ZR_EINVAL, "r = %lld: %s is a map from %lld to %lld "
			       "elements: give a rank of at least 1 that is not larger",
			       (long long)m.r, module, (long long)m.in, (long long)m.out);
	m.scale = (float)(alpha / (o->rslora ? sqrt((double)m.r) : (double)m.r));
	inst->map[inst->maps++] = m;
	return ZR_OK;
}

static const struct zr_unit *unit_at(const struct zr_model_decl *d, uint32_t i)
{
	return (const void *)((const char *)d->units + (size_t)i * d->unit_stride);
}

static const struct zr_tensor *tensor_at(const struct zr_model_decl *d, const struct zr_unit *u,
					 uint32_t i)
{
	return (const void *)((const char *)u->tensors + (size_t)i * d->tensor_stride);
}

/* Whether the expression fits the module's name, in the model's files or in PyTorch. */
static int fits(const struct zr_inst *inst, const char *module, int *meant)
{
	char whole[WHOLE];
	int rc = lora_regex_fits(inst->h, inst->regex, module, meant);
	if (rc || *meant)
		return rc;
	return lora_regex_fits(inst->h, inst->regex, whole_name(inst, module, whole), meant);
}

static int look_at(struct zr_inst *inst, const struct zr_tensor *t, int32_t unit, uint8_t *kept)
{
	const struct lora_opts *o = &inst->o;
	const int is_map = t->map != ZR_MAP_NONE;
	char module[LORA_NAME];
	int rc = ZR_OK, meant = is_map;
	if (strlen(t->name) + 16 > LORA_NAME)
		return zr_fail(inst->h, ZR_ENOTSUP,
			       "a tensor has a name of over %d letters: %.60s...", LORA_NAME - 16,
			       t->name);
	if (!module_of(t->name, module))
		return ZR_OK;
	*kept = (uint8_t)is_listed(inst, o->modules_to_save, module);
	if (inst->regex)
		rc = fits(inst, module, &meant);
	else if (strcmp(o->targets, "all-linear"))
		meant = is_listed(inst, o->targets, module);
	const char *dot = strrchr(t->name, '.');
	if (rc || strcmp(dot, ".weight") || !meant)
		return rc;
	if (!is_map)
		return zr_fail(inst->h, ZR_EINVAL, "targets: %s is no linear map that can be "
			       "adapted; what is to be trained as it is goes to modules_to_save",
			       module);
	if (*kept)
		return zr_fail(inst->h, ZR_EINVAL, "modules_to_save: %s has an adapter: name it in "
			       "one of the two", module);
	return add_map(inst, t, unit, module);
}

/* Every word must name something: one that does not is a mistake. */
static int check_words(struct zr_inst *inst, const char *key, const char *list, int maps)
{
	const struct zr_model_decl *d = &inst->decl;
	char word[LORA_NAME], module[LORA_NAME];
	while (next_word(&list, word)) {
		int found = maps && !strcmp(word, "all-linear");
		for (uint32_t u = 0; u < d->n_units && !found; u++)
			for (uint32_t i = 0; i < unit_at(d, u)->n_tensors && !found; i++)
				found = module_of(tensor_at(d, unit_at(d, u), i)->name, module) &&
					is_called(inst, module, word);
		if (!found)
			return zr_fail(inst->h, ZR_EINVAL, "%s: the model has no module called %s",
				       key, word);
	}
	return ZR_OK;
}

/* Likewise every MODULE of a pattern something that has an adapter. Files may say more: PEFT does
 * not mind. */
static int check_pattern(struct zr_inst *inst, const char *key, const char *list)
{
	char word[LORA_NAME], module[LORA_NAME];
	double number;
	while (!*inst->o.path && next_word(&list, word)) {
		int found = 0, rc = cut_number(inst, key, word, &number);
		if (rc)
			return rc;
		for (int32_t i = 0; i < inst->maps && !found; i++)
			found = module_of(inst->map[i].weight->name, module) &&
				is_called(inst, module, word);
		if (!found)
			return zr_fail(inst->h, ZR_EINVAL,
				       "%s: no module that gets an adapter is called %s", key,
				       word);
	}
	return ZR_OK;
}

int lora_find(struct zr_inst *inst, uint8_t *kept)
{
	const struct zr_model_decl *d = &inst->decl;
	int32_t tensor = 0;
	const size_t n = strlen(LORA_REGEX);
	int rc = !strncmp(inst->o.targets, LORA_REGEX, n) ?
			 lora_regex_new(inst->h, inst->o.targets + n, &inst->regex) :
			 check_words(inst, "targets", inst->o.targets, 1);
	rc = rc ? rc : check_words(inst, "modules_to_save", inst->o.modules_to_save, 0);
	if (!rc && d->tensor_stride < sizeof(struct zr_tensor))
		rc = zr_fail(inst->h, ZR_ENOTSUP, "the model does not say which of its tensors are "
			     "linear maps: it is built for an older zeroth");
	for (uint32_t u = 0; u < d->n_units && !rc; u++) {
		const struct zr_unit *unit = unit_at(d, u);
		for (uint32_t i = 0; i < unit->n_tensors && !rc; i++, tensor++) {
			inst->map[inst->maps].tensor = tensor; /* if it gets an adapter */
			rc = look_at(inst, tensor_at(d, unit, i), (int32_t)u, kept++);
		}
	}
	if (!rc && !inst->maps)
		rc = zr_fail(inst->h, ZR_EINVAL,
			     inst->regex ? "targets: no linear map of the model has a name that is "
					   "fit as a whole" :
					   "targets: no linear map of the model is named");
	rc = rc ? rc : check_pattern(inst, "rank_pattern", inst->o.rank_pattern);
	return rc ? rc : check_pattern(inst, "alpha_pattern", inst->o.alpha_pattern);
}
