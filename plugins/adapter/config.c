/* SPDX-License-Identifier: Apache-2.0
 *
 * config.c - adapter_config.json, as PEFT writes and reads it.
 */
#include "lora.h"

#include <errno.h>
#include <jansson.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define TEXT 4000 /* of a list of names, in words: fits a line of an INI */

/* *no: the errno of a failure, 0 where the text is at fault. */
static json_t *load_once(const char *name, json_error_t *why, int *no)
{
	errno = 0;
	json_t *root = json_load_file(name, JSON_REJECT_DUPLICATES, why);
	*no = root ? 0 : errno;
	return root;
}

/* Where memory ends, jansson takes what it has of a token for all of it: what it reads twice alike
 * is whole. */
static json_t *load(const struct zr_host *h, const char *dir, char *name, size_t room, int *rc)
{
	json_error_t why;
	int no;
	snprintf(name, room, "%s/adapter_config.json", dir);
	json_t *root = load_once(name, &why, &no), *again = no ? NULL : load_once(name, &why, &no);
	if (no == ENOMEM || (!no && !json_equal(root, again) && (root || again)))
		*rc = zr_fail(h, ZR_ENOMEM, "%s: no memory for it", name);
	else if (no)
		*rc = zr_fail(h, no == ENOENT ? ZR_EINVAL : ZR_EIO, "%s: %s", name, strerror(no));
	else if (!root)
		*rc = zr_fail(h, ZR_EINVAL, "%s:%d: %s", name, why.line, why.text);
	else if (!json_is_object(root))
		*rc = zr_fail(h, ZR_EINVAL, "%s: expected an object", name);
	else
		*rc = ZR_OK;
	json_decref(again);
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
	if (how)
		return zr_fail(h, ZR_ENOTSUP,
			       "%s: init_lora_weights = %.40s: such adapters change "
			       "their base; PEFT's save_pretrained makes those of it that do not, "
			       "with path_initial_model_for_weight_conversion",
			       name, how);

	return ZR_OK;
}

/* Keys of PEFT 0.21's LoraConfig, and of its parents, that change nothing of what is learned. */
static const char *const without_effect[] = {
	/* of where the file is from, and how the base was stored */
	"auto_mapping", "base_model_name_or_path", "revision", "peft_version", "inference_mode",
	"fan_in_fan_out", "megatron_core", "runtime_config",
	/* of training: [adapter] dropout says it */
	"lora_dropout",
	/* of beginnings: the weights are in the file */
	"eva_config", "corda_config", "lora_ga_config", "loftq_config",
	/* of what another key asks for */
	"qalora_group_size"
};
static const char *const read_here[] = { "peft_type",
					 "task_type",
					 "bias",
					 "init_lora_weights",
					 "r",
					 "lora_alpha",
					 "use_rslora",
					 "ensure_weight_tying",
					 "target_modules",
					 "exclude_modules",
					 "layers_to_transform",
					 "layers_pattern",
					 "rank_pattern",
					 "alpha_pattern",
					 "modules_to_save" };

#define COUNT(array) (sizeof(array) / sizeof *(array))

static int is_among(const char *word, const char *const *list, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!strcmp(word, list[i]))
			return 1;

	return 0;
}

/* Whether a value asks for nothing. */
static int is_off(const json_t *value)
{
	if (json_is_array(value))
		return !json_array_size(value);
	if (json_is_object(value))
		return !json_object_size(value);

	return json_is_null(value) || json_is_false(value);
}

/* Everything that another key asks for, of today's PEFT or a later one, is not done here. */
static int refuse_others(const struct zr_host *h, const char *name, json_t *root)
{
	const char *key;
	json_t *value;

	json_object_foreach(root, key, value)
	{
		if (is_among(key, read_here, COUNT(read_here)) ||
		    is_among(key, without_effect, COUNT(without_effect)) || is_off(value))
			continue;
		return zr_fail(h, ZR_ENOTSUP, "%s: %.60s is not supported", name, key);
	}

	return ZR_OK;
}

/* What changes what is learned and is not done here. */
static int refuse(const struct zr_host *h, const char *name, json_t *root)
{
	const char *type = json_string_value(json_object_get(root, "peft_type"));
	const char *task = json_string_value(json_object_get(root, "task_type"));
	const char *bias = json_string_value(json_object_get(root, "bias"));

	if (!type || strcmp(type, "LORA"))
		return zr_fail(h, ZR_EINVAL, "%s: peft_type = %.40s; adapter/lora reads LORA", name,
			       type ? type : "none");
	if (task && strcmp(task, "CAUSAL_LM"))
		return zr_fail(h, ZR_ENOTSUP,
			       "%s: task_type = %.40s: only models of language, "
			       "CAUSAL_LM, are trained here",
			       name, task);
	if (bias && strcmp(bias, "none"))
		return zr_fail(h, ZR_ENOTSUP, "%s: bias = %.40s; none is read", name, bias);

	int rc = refuse_others(h, name, root);
	if (rc)
		return rc;

	return refuse_init(h, name, root);
}

/* Adds a word to a list, with a blank before it. Returns -1 where there is no room. */
static int add_word(char text[TEXT], const char *before, const char *word, const char *behind)
{
	const size_t at = strlen(text);
	const int n =
		snprintf(text + at, TEXT - at, "%s%s%s%s", at ? " " : "", before, word, behind);

	if (n < 0 || (size_t)n >= TEXT - at || strlen(word) + 16 > LORA_NAME)
		return -1;

	return 0;
}

/* Whether a text is a name as modules have it: a word, without what * and ? mean in an INI. */
static int is_name(const char *word)
{
	return word && *word && !word[strcspn(word, " ,\t:\\^$()[]{}|+*?")];
}

/* A text in place of a list: a regular expression, or all-linear. */
static int read_expression(const char *expression, char text[TEXT])
{
	const int all = !strcasecmp(expression, LORA_ALL);
	const int n =
		snprintf(text, TEXT, "%s%s", all ? "" : LORA_REGEX, all ? LORA_ALL : expression);

	if (n >= TEXT || expression[strcspn(expression, "\n\r")])
		return -1;

	return 0;
}

/* A list of names. */
static int read_list(const json_t *list, char text[TEXT])
{
	for (size_t i = 0; i < json_array_size(list); i++) {
		const char *word = json_string_value(json_array_get(list, i));
		if (!is_name(word) || add_word(text, "", word, ""))
			return -1;
	}

	if (list && !json_is_null(list) && !json_is_array(list))
		return -1;

	return 0;
}

static int read_names(const struct zr_host *h, const char *name, const json_t *value,
		      const char *key, char text[TEXT])
{
	if (!read_list(value, text))
		return ZR_OK;

	return zr_fail(h, ZR_ENOTSUP, "%s: %s: expected a list of names, of %d letters at most",
		       name, key, TEXT - 1);
}

/* A list of names, or a text that is a regular expression. */
static int read_modules(const struct zr_host *h, const char *name, const json_t *value,
			const char *key, char text[TEXT])
{
	const char *expression = json_string_value(value);
	int bad = expression ? read_expression(expression, text) : read_list(value, text);

	if (!bad)
		return ZR_OK;

	return zr_fail(h, ZR_ENOTSUP,
		       "%s: %s: expected a list of names, of %d letters at most, "
		       "or a regular expression",
		       name, key, TEXT - 1);
}

/* A name, or a list of names. */
static int read_layer_names(const struct zr_host *h, const char *name, const json_t *value,
			    const char *key, char text[TEXT])
{
	const char *one = json_string_value(value);

	if (one && is_name(one) && !add_word(text, "", one, ""))
		return ZR_OK;

	return read_names(h, name, value, key, text);
}

/* A number of a layer, or a list of numbers. */
static int read_layers(const struct zr_host *h, const char *name, const json_t *value,
		       const char *key, char text[TEXT])
{
	const int one = json_is_integer(value);
	size_t n = 1;

	if (!one)
		n = json_array_size(value);
	int bad = value && !one && !json_is_null(value) && !json_is_array(value);

	for (size_t i = 0; i < n && !bad; i++) {
		const json_t *layer = value;
		if (!one)
			layer = json_array_get(value, i);
		char number[40];

		snprintf(number, sizeof number, "%lld", (long long)json_integer_value(layer));
		bad = !json_is_integer(layer) || json_integer_value(layer) < 0 ||
		      add_word(text, "", number, "");
	}

	if (bad)
		return zr_fail(h, ZR_EINVAL, "%s: %s: expected numbers of layers, from 0", name,
			       key);

	return ZR_OK;
}

/* {"MODULE": NUMBER}, as MODULE:NUMBER. What is more than a name is a regular expression. */
static int read_pattern(const struct zr_host *h, const char *name, const json_t *value,
			const char *key, char text[TEXT])
{
	json_t *v;
	const char *module;

	json_object_foreach((json_t *)value, module, v)
	{
		const int expression = !is_name(module);
		char number[40];

		snprintf(number, sizeof number, ":%.17g", json_number_value(v));
		if (!*module || !json_is_number(v) || module[strcspn(module, " ,\t\n\r")] ||
		    add_word(text, expression ? LORA_REGEX : "", module, number))
			return zr_fail(h, ZR_ENOTSUP,
				       "%s: %s: %.80s: expected a name, or a "
				       "regular expression without blanks and commas, and a number",
				       name, key, module);
	}

	return ZR_OK;
}

/* Without them PEFT takes names from its own table of classes, which is not here. */
static int check_targets(const struct zr_host *h, const char *name, const json_t *root)
{
	const json_t *names = json_object_get(root, "target_modules");

	if (names && !is_off(names))
		return ZR_OK;

	return zr_fail(h, ZR_EINVAL,
		       "%s: target_modules: expected names of linear maps; PEFT "
		       "takes those of its table for the class where there are none, as q_proj "
		       "and v_proj of Llama: write them into the file",
		       name);
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
	o->ensure_weight_tying = json_is_true(json_object_get(root, "ensure_weight_tying"));
	return ZR_OK;
}

/* Options that are lists, in the order of inst->of_file: their keys, and who reads them. */
static const struct {
	const char *key, *option;
	size_t at; /* in struct lora_opts */
	int (*read)(const struct zr_host *h, const char *name, const json_t *value, const char *key,
		    char text[TEXT]);
} lists[LORA_LISTS] = {
	{ "target_modules", "targets", offsetof(struct lora_opts, targets), read_modules },
	{ "exclude_modules", "exclude_modules", offsetof(struct lora_opts, exclude_modules),
	  read_modules },
	{ "layers_to_transform", "layers_to_transform",
	  offsetof(struct lora_opts, layers_to_transform), read_layers },
	{ "layers_pattern", "layers_pattern", offsetof(struct lora_opts, layers_pattern),
	  read_layer_names },
	{ "rank_pattern", "rank_pattern", offsetof(struct lora_opts, rank_pattern), read_pattern },
	{ "alpha_pattern", "alpha_pattern", offsetof(struct lora_opts, alpha_pattern),
	  read_pattern },
	{ "modules_to_save", "modules_to_save", offsetof(struct lora_opts, modules_to_save),
	  read_names },
};

static const char **list_of(const struct lora_opts *o, int i)
{
	return (const char **)((char *)o + lists[i].at);
}

int lora_read_config(const struct zr_host *h, struct lora_opts *o, char *text[LORA_LISTS])
{
	char name[4200];
	int rc;

	json_t *root = load(h, o->path, name, sizeof name, &rc);
	if (!rc)
		rc = refuse(h, name, root);
	if (!rc)
		rc = read_numbers(h, name, root, o);
	if (!rc)
		rc = check_targets(h, name, root);

	for (int i = 0; i < LORA_LISTS && !rc; i++) {
		text[i] = h->alloc(h, TEXT, "adapter");
		if (!text[i]) {
			rc = zr_fail(h, ZR_ENOMEM, "no memory");
			break;
		}

		*text[i] = 0;
		rc = lists[i].read(h, name, json_object_get(root, lists[i].key), lists[i].key,
				   text[i]);
		*list_of(o, i) = text[i];
	}

	json_decref(root);
	return rc;
}

const char *const *lora_options(struct zr_inst *inst)
{
	const struct lora_opts *o = &inst->o;
	const char **option = inst->option;

	if (!*o->path)
		return inst->option; /* nothing */

	snprintf(inst->number[0], sizeof *inst->number, "%lld", (long long)o->r);

	snprintf(inst->number[1], sizeof *inst->number, "%.17g", o->alpha);
	const char *const numbers[] = { "r",
					inst->number[0],
					"alpha",
					inst->number[1],
					"rslora",
					o->rslora ? "yes" : "no",
					"ensure_weight_tying",
					o->ensure_weight_tying ? "yes" : "no" };
	memcpy(option, numbers, sizeof numbers);
	option += COUNT(numbers);

	for (int i = 0; i < LORA_LISTS; i++) {
		*option++ = lists[i].option;
		*option++ = *list_of(o, i);
	}

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

/* What is made, or NULL where not all of it could be: half a list must not be written. */
static json_t *all_or_none(json_t *made, int failed)
{
	if (!failed)
		return made;

	json_decref(made);
	return NULL;
}

static json_t *targets(const struct zr_inst *inst)
{
	json_t *list = json_array(), *seen = json_object();
	int failed = !list || !seen;

	for (int32_t i = 0; i < inst->maps && !failed; i++) {
		const struct lora_map *m = &inst->map[i];
		char word[LORA_NAME];
		int n;
		const char *part = last_part(m, &n);

		if (left_out(inst, part, n)) {
			part = m->weight->name;
			n = module_length(m);
		}

		snprintf(word, sizeof word, "%.*s", n, part);
		if (!json_object_get(seen, word))
			failed = json_object_set_new(seen, word, json_true()) ||
				 json_array_append_new(list, json_string(word));
	}

	json_decref(seen);
	return all_or_none(list, failed);
}

static json_t *number(double x)
{
	const json_int_t whole = (json_int_t)x;

	if ((double)whole == x)
		return json_integer(whole);

	return json_real(x);
}

/* Modules whose rank, or alpha, is another than that of the adapter. */
static json_t *pattern(const struct zr_inst *inst, int alpha)
{
	json_t *o = json_object();
	int failed = !o;

	for (int32_t i = 0; i < inst->maps && !failed; i++) {
		const struct lora_map *m = &inst->map[i];
		char name[LORA_NAME];

		snprintf(name, sizeof name, "%.*s", module_length(m), m->weight->name);
		if (alpha ? m->alpha != inst->o.alpha : m->r != inst->o.r)
			failed = json_object_set_new(o, name,
						     alpha ? number(m->alpha) : json_integer(m->r));
	}

	return all_or_none(o, failed);
}

/* with_tied: also the name by which PEFT knows a head again that is the embedding. */
static json_t *words(const char *text, int with_tied)
{
	json_t *list = *text ? json_array() : json_null();
	int failed = !list;

	if (with_tied && !failed)
		failed = json_array_append_new(list, json_string(LORA_TIED_NAME));

	while (!failed && *(text += strspn(text, " ,\t"))) {
		const size_t n = strcspn(text, " ,\t");
		failed = json_array_append_new(list, json_stringn(text, n));
		text += n;
	}

	return all_or_none(list, failed);
}

/* Whether a map has its inputs as rows, as those of GPT-2. */
static int has_inputs_first(const struct zr_inst *inst)
{
	for (int32_t i = 0; i < inst->maps; i++)
		if (inst->map[i].weight->map == ZR_MAP_IN_OUT)
			return 1;

	return 0;
}

const char *lora_config(struct zr_inst *inst, const char *base)
{
	json_t *o = json_pack("{s:s s:s s:s s:I s:o s:f s:b s:b s:b s:s s:b s:b s:o s:o s:o s:o}",
			      "peft_type", "LORA", "task_type", "CAUSAL_LM",
			      "base_model_name_or_path", base, "r", (json_int_t)inst->o.r,
			      "lora_alpha", number(inst->o.alpha), "lora_dropout", inst->o.dropout,
			      "use_rslora", (int)inst->o.rslora, "ensure_weight_tying",
			      (int)inst->o.ensure_weight_tying, "fan_in_fan_out",
			      has_inputs_first(inst), "bias", "none", "inference_mode", 1,
			      "init_lora_weights", 1, "target_modules", targets(inst),
			      "rank_pattern", pattern(inst, 0), "alpha_pattern", pattern(inst, 1),
			      "modules_to_save", words(inst->o.modules_to_save, inst->tied_saved));

	free(inst->text);
	if (o)
		inst->text = json_dumps(o, JSON_INDENT(2) | JSON_SORT_KEYS);
	else
		inst->text = NULL;

	/* jansson looks at no failure while it writes a key */
	json_t *back = NULL;
	if (inst->text)
		back = json_loads(inst->text, 0, NULL);
	if (!back || !json_equal(back, o)) {
		free(inst->text);
		inst->text = NULL;
	}

	json_decref(back);
	json_decref(o);
	return inst->text;
}
