/* SPDX-License-Identifier: Apache-2.0
 *
 * config.c - adapter_config.json, as PEFT writes and reads it.
 */
#include "lora.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#define TEXT 4000 /* of a list of names, in words: fits a line of an INI */

static json_t *load(const struct zr_host *h, const char *dir, char *name, size_t room, int *rc)
{
	json_error_t why;
	snprintf(name, room, "%s/adapter_config.json", dir);
	json_t *root = json_load_file(name, JSON_REJECT_DUPLICATES, &why);
	*rc = json_is_object(root) ? ZR_OK :
	       root ? zr_fail(h, ZR_EINVAL, "%s: expected an object", name) :
	       why.line > 0 ? zr_fail(h, ZR_EINVAL, "%s:%d: %s", name, why.line, why.text) :
			      zr_fail(h, ZR_EINVAL, "%s: %s", name, why.text);
	return root;
}

/* Adapters that began as a part of the base, which changed with them: they are the difference to
 * that, not to the base. */
static int refuse_init(const struct zr_host *h, const char *name, const json_t *root)
{
	static const char *const fine[] = { "gaussian", "orthogonal", "eva" }; /* B A begins as 0 */
	const char *how = json_string_value(json_object_get(root, "init_lora_weights"));
	for (size_t i = 0; how && i < sizeof fine / sizeof *fine; i++)
		if (!strcmp(how, fine[i]))
			return ZR_OK;
	return !how ? ZR_OK :
		      zr_fail(h, ZR_ENOTSUP, "%s: init_lora_weights = %.40s: such adapters change "
			      "their base; PEFT's save_pretrained makes those of it that do not, "
			      "with path_initial_model_for_weight_conversion", name, how);
}

/* What changes what is learned and is not done here. */
static int refuse(const struct zr_host *h, const char *name, const json_t *root)
{
	static const char *const keys[] = {
		"use_dora", "lora_bias", "layer_replication", "layers_to_transform",
		"layers_pattern", "exclude_modules", "trainable_token_indices",
		"target_parameters", "alora_invocation_tokens", "arrow_config", "use_bdlora",
		"use_qalora", "kasa_config", "monteclora_config", "velora_config", NULL
	};
	const char *type = json_string_value(json_object_get(root, "peft_type"));
	const char *bias = json_string_value(json_object_get(root, "bias"));
	if (!type || strcmp(type, "LORA"))
		return zr_fail(h, ZR_EINVAL, "%s: peft_type = %.40s; adapter/lora reads LORA", name,
			       type ? type : "none");
	if (bias && strcmp(bias, "none"))
		return zr_fail(h, ZR_ENOTSUP, "%s: bias = %.40s; none is read", name, bias);
	for (int i = 0; keys[i]; i++) {
		const json_t *v = json_object_get(root, keys[i]);
		const int empty = (json_is_array(v) && !json_array_size(v)) ||
				  (json_is_object(v) && !json_object_size(v));
		if (v && !json_is_null(v) && !json_is_false(v) && !empty)
			return zr_fail(h, ZR_ENOTSUP, "%s: %s is not supported", name, keys[i]);
	}
	return refuse_init(h, name, root);
}

static int add_word(char text[TEXT], const char *word, const char *behind)
{
	const size_t at = strlen(text);
	/* a name, not a pattern of PEFT's regular expressions */
	if (!*word || strlen(word) >= LORA_NAME || word[strcspn(word, " ,\t:\\^$()[]{}|+*?")])
		return -1;
	const int n = snprintf(text + at, TEXT - at, "%s%s%s", at ? " " : "", word, behind);
	return n < 0 || (size_t)n >= TEXT - at ? -1 : 0;
}

/* A list of names; of the targets also a text: all-linear, or a regular expression. */
static int read_names(const struct zr_host *h, const char *name, const json_t *root,
		      const char *key, char text[TEXT])
{
	const json_t *list = json_object_get(root, key);
	int bad = list && !json_is_null(list) && !json_is_array(list);
	*text = 0;
	const char *one = strcmp(key, "target_modules") ? NULL : json_string_value(list);
	if (one) {
		const int all = !strcmp(one, "all-linear");
		const int n = snprintf(text, TEXT, "%s%s", all ? "" : LORA_REGEX, one);
		bad = n >= TEXT || one[strcspn(one, "\n\r")];
	}
	for (size_t i = 0; i < json_array_size(list) && !bad; i++) {
		const char *word = json_string_value(json_array_get(list, i));
		bad = !word || add_word(text, word, "");
	}
	return bad ? zr_fail(h, ZR_ENOTSUP, "%s: %s: expected a list of names, of %d letters at "
			     "most, or a regular expression of target_modules", name, key,
			     TEXT - 1) : ZR_OK;
}

/* {"MODULE": NUMBER}, as MODULE:NUMBER. */
static int read_pattern(const struct zr_host *h, const char *name, const json_t *root,
			const char *key, char text[TEXT])
{
	json_t *v;
	const char *module;
	*text = 0;
	json_object_foreach(json_object_get(root, key), module, v) {
		char number[40];
		snprintf(number, sizeof number, ":%.17g", json_number_value(v));
		if (!json_is_number(v) || add_word(text, module, number))
			return zr_fail(h, ZR_ENOTSUP, "%s: %s: %.80s: expected a name and a "
				       "number; regular expressions are not read", name, key,
				       module);
	}
	return ZR_OK;
}

static int read_numbers(const struct zr_host *h, const char *name, const json_t *root,
			struct lora_opts *o)
{
	const json_t *r = json_object_get(root, "r"), *alpha = json_object_get(root, "lora_alpha");
	if (!json_is_integer(r) || !json_is_number(alpha) || json_integer_value(r) < 1)
		return zr_fail(h, ZR_EINVAL, "%s: expected numbers r and lora_alpha", name);
	o->r = json_integer_value(r);
	o->alpha = json_number_value(alpha);
	o->rslora = json_is_true(json_object_get(root, "use_rslora"));
	return ZR_OK;
}

int lora_read_config(const struct zr_host *h, struct lora_opts *o, char *text[4])
{
	static const char *const keys[] = { "target_modules", "rank_pattern", "alpha_pattern",
					    "modules_to_save" };
	char name[4200];
	int rc;
	json_t *root = load(h, o->path, name, sizeof name, &rc);
	rc = rc ? rc : refuse(h, name, root);
	rc = rc ? rc : read_numbers(h, name, root, o);
	for (int i = 0; i < 4 && !rc; i++) {
		text[i] = h->alloc(h, TEXT, "adapter");
		rc = !text[i] ? zr_fail(h, ZR_ENOMEM, "no memory") :
		     i == 1 || i == 2 ? read_pattern(h, name, root, keys[i], text[i]) :
					read_names(h, name, root, keys[i], text[i]);
	}
	json_decref(root);
	o->targets = text[0];
	o->rank_pattern = text[1];
	o->alpha_pattern = text[2];
	o->modules_to_save = text[3];
	return rc;
}

const char *const *lora_options(struct zr_inst *inst)
{
	const struct lora_opts *o = &inst->o;
	const char *const all[] = { "r", inst->number[0], "alpha", inst->number[1], "rslora",
				    o->rslora ? "yes" : "no", "targets", o->targets,
				    "rank_pattern", o->rank_pattern, "alpha_pattern",
				    o->alpha_pattern, "modules_to_save", o->modules_to_save };
	if (!*o->path)
		return inst->option; /* nothing */
	snprintf(inst->number[0], sizeof *inst->number, "%lld", (long long)o->r);
	snprintf(inst->number[1], sizeof *inst->number, "%.17g", o->alpha);
	memcpy(inst->option, all, sizeof all);
	return inst->option;
}

/* ---- writing -------------------------------------------------------------------------------- */

static int module_length(const struct lora_map *m)
{
	return (int)(strrchr(m->weight->name, '.') - m->weight->name);
}

/* The end of a module's name, "c_attn", which names it where all that end so are adapted. */
static const char *last_part(const struct lora_map *m, int *n)
{
	const char *name = m->weight->name, *p = name + module_length(m);
	while (p > name && p[-1] != '.')
		p--;
	*n = (int)(name + module_length(m) - p);
	return p;
}

/* Tensors of the model that end so and are linear maps, but are not adapted. */
static int left_out(const struct zr_inst *inst, const char *part, int n)
{
	char end[LORA_NAME];
	int maps = 0, adapted = 0;
	snprintf(end, sizeof end, ".%.*s.weight", n, part);
	const size_t len = strlen(end);
	for (const struct zr_tensor *t = inst->tensors; t->name; t++) {
		const size_t all = strlen(t->name);
		maps += all >= len && !strcmp(t->name + all - len, end);
	}
	for (int32_t i = 0; i < inst->maps; i++) {
		const size_t all = strlen(inst->map[i].weight->name);
		adapted += all >= len && !strcmp(inst->map[i].weight->name + all - len, end);
	}
	return maps != adapted;
}

static json_t *targets(const struct zr_inst *inst)
{
	json_t *list = json_array(), *seen = json_object();
	for (int32_t i = 0; i < inst->maps && list && seen; i++) {
		const struct lora_map *m = &inst->map[i];
		int n;
		const char *part = last_part(m, &n);
		if (left_out(inst, part, n)) {
			part = m->weight->name;
			n = module_length(m);
		}
		char word[LORA_NAME];
		snprintf(word, sizeof word, "%.*s", n, part);
		if (json_object_get(seen, word))
			continue;
		json_object_set_new(seen, word, json_true());
		json_array_append_new(list, json_string(word));
	}
	json_decref(seen);
	return list;
}

static json_t *number(double x)
{
	const json_int_t whole = (json_int_t)x;
	return (double)whole == x ? json_integer(whole) : json_real(x);
}

/* Modules whose rank, or alpha, is another than that of the adapter. */
static json_t *pattern(const struct zr_inst *inst, int alpha)
{
	json_t *o = json_object();
	for (int32_t i = 0; i < inst->maps && o; i++) {
		const struct lora_map *m = &inst->map[i];
		char name[LORA_NAME];
		snprintf(name, sizeof name, "%.*s", module_length(m), m->weight->name);
		if (alpha ? m->alpha != inst->o.alpha : m->r != inst->o.r)
			json_object_set_new(o, name, alpha ? number(m->alpha) :
							     json_integer(m->r));
	}
	return o;
}

static json_t *words(const char *text)
{
	json_t *list = *text ? json_array() : json_null();
	while (*(text += strspn(text, " ,\t"))) {
		const size_t n = strcspn(text, " ,\t");
		json_array_append_new(list, json_stringn(text, n));
		text += n;
	}
	return list;
}

const char *lora_config(struct zr_inst *inst, const char *base)
{
	const int transposed = inst->map[0].weight->map == ZR_MAP_IN_OUT;
	json_t *o = json_pack(
		"{s:s s:s s:s s:I s:o s:f s:b s:b s:s s:b s:b s:o s:o s:o s:o}", "peft_type",
		"LORA", "task_type", "CAUSAL_LM", "base_model_name_or_path", base, "r",
		(json_int_t)inst->o.r, "lora_alpha", number(inst->o.alpha), "lora_dropout",
		inst->o.dropout, "use_rslora", (int)inst->o.rslora, "fan_in_fan_out", transposed,
		"bias", "none", "inference_mode", 1, "init_lora_weights", 1, "target_modules",
		targets(inst), "rank_pattern", pattern(inst, 0), "alpha_pattern", pattern(inst, 1),
		"modules_to_save", words(inst->o.modules_to_save));
	free(inst->text);
	inst->text = o ? json_dumps(o, JSON_INDENT(2) | JSON_SORT_KEYS) : NULL;
	json_decref(o);
	return inst->text;
}
