/* SPDX-License-Identifier: Apache-2.0
 *
 * model_json.c - see pretrained.h: config.json, and what its keys mean to a plugin.
 */
#include <stdlib.h>
#include <string.h>
#include <zeroth/model.h>

#include "core/base/json.h"
#include "core/base/text.h"
#include "core/config/options.h"
#include "core/plugin/host.h"
#include "core/pretrained/pretrained.h"

#define VALUE 4096 /* bytes of a value's text, a list included */

/* Of every model's config. What would change the mathematics must have the one value that does
 * not. */
static const struct zr_config_key common[] = {
	{ .name = "is_encoder_decoder", .values = "false" },
	{ .name = "add_cross_attention", .values = "false" },
	{ .name = "cross_attention_hidden_size", .values = "null" },
	{ .name = "pruned_heads", .values = "{}" },
	{ .name = "use_mrope", .values = "false" }, /* positions of pictures */
};

/* Of its class in general, of generating text, of tasks and of other programs: training has no use
 * for them. auto_map names code beside the weights, which is not run: the class is model_type's. */
static const char noted[] = " model_type torch_dtype dtype transformers_version _name_or_path "
			    "architectures use_cache is_decoder bos_token_id eos_token_id"
			    " pad_token_id sep_token_id decoder_start_token_id tokenizer_class "
			    "prefix task_specific_params problem_type finetuning_task"
			    " id2label label2id num_labels return_dict output_hidden_states "
			    "output_attentions torchscript use_bfloat16 tf_legacy_loss"
			    " chunk_size_feed_forward tie_encoder_decoder _attn_implementation "
			    "_attn_implementation_autoset _commit_hash max_length min_length"
			    " do_sample early_stopping num_beams num_beam_groups diversity_penalty "
			    "temperature top_k top_p typical_p repetition_penalty"
			    " length_penalty no_repeat_ngram_size encoder_no_repeat_ngram_size "
			    "bad_words_ids num_return_sequences output_scores"
			    " return_dict_in_generate forced_bos_token_id forced_eos_token_id "
			    "remove_invalid_values exponential_decay_length_penalty"
			    " suppress_tokens begin_suppress_tokens initializer_range auto_map"
			    " name_or_path attn_implementation experts_implementation"
			    " _attn_implementation_internal _experts_implementation"
			    " _experts_implementation_internal _flash_attn_2_enabled"
			    " use_return_dict output_past gradient_checkpointing"
			    " neftune_noise_alpha"
			    " custom_pipelines transformers.js_config unsloth_fixed unsloth_version"
			    " model_name _num_labels xla_device ";

/* ---- the file ---- */

/* What makes a model of 16 bits of one that was quantised, in Python with transformers 5: either
 * the model can do it, or its files are read so with a configuration. Of the others, as gptq and
 * awq, there is nothing that does. */
static const struct {
	const char *method, *configuration;
} converted[] = {
	{ "bitsandbytes", NULL },
	{ "fp8", "FineGrainedFP8Config" },
	{ "mxfp4", "Mxfp4Config" },
	{ "compressed-tensors", "CompressedTensorsConfig" },
};

/* quant_method of a quantization_config; files of bitsandbytes once had none. NULL: neither. */
static const char *quantised_by(const json_t *config)
{
	const char *by = json_string_value(json_object_get(config, "quant_method"));
	const int bits = json_is_true(json_object_get(config, "load_in_4bit")) ||
			 json_is_true(json_object_get(config, "load_in_8bit"));

	if (!by && bits)
		return "bitsandbytes";

	return by;
}

/* The line of Python that converts the model in `dir`; "": there is none. */
static void put_conversion(const char *by, const char *dir, char *out, size_t room)
{
	const size_t known = sizeof converted / sizeof *converted;
	size_t i = 0;

	*out = 0;
	while (i < known && (!by || strcmp(by, converted[i].method)))
		i++;
	if (i == known)
		return;

	const char *with = converted[i].configuration;
	if (with)
		snprintf(out, room,
			 ", or convert it: python3 -c \"from transformers import "
			 "AutoModelForCausalLM as M, %s as C; M.from_pretrained('%s', "
			 "quantization_config=C(dequantize=True)).save_pretrained('%s-16')\"",
			 with, dir, dir);
	else
		snprintf(out, room,
			 ", or convert it: python3 -c \"from transformers import "
			 "AutoModelForCausalLM as M; "
			 "M.from_pretrained('%s').dequantize().save_pretrained('%s-16')\"",
			 dir, dir);
}

/* The values in its files are codes of whoever quantised it. */
static int refuse_quantised(const struct zr_model_json *f, const char *dir, struct zr_error *err)
{
	const json_t *config = json_object_get(f->root, "quantization_config");
	const char *by = quantised_by(config);
	char conversion[800];
	if (!config || json_is_null(config))
		return 0;

	put_conversion(by, dir, conversion, sizeof conversion);
	return zr_err(err, ZR_EINVAL,
		      "%s: quantization_config: %.80s has quantised its weights: "
		      "give the directory of the model that they were made from%s; [model] store = "
		      "nf4 or int8 keeps its frozen ones in as few bits",
		      f->path, by ? by : "another program", conversion);
}

int zr_model_json_open(const char *dir, struct zr_model_json *out, struct zr_error *err)
{
	struct zr_model_json f = { .path = zr_text("%s/config.json", dir) };
	if (!f.path)
		return zr_no_memory(err);

	int rc = zr_json_file(f.path, ZR_MODEL_JSON_MAX, &f.root, err);
	f.type = json_string_value(json_object_get(f.root, "model_type"));
	if (!rc && !f.type)
		rc = zr_err(err, ZR_EINVAL, "%s: no model_type, so it is no config.json of a model",
			    f.path);
	if (!rc)
		rc = refuse_quantised(&f, dir, err);
	if (rc)
		zr_model_json_close(&f);
	else
		*out = f;
	return rc;
}

void zr_model_json_close(struct zr_model_json *f)
{
	json_decref(f->root);
	free(f->added.id);
	free(f->head);
	free(f->path);
	*f = (struct zr_model_json){ 0 };
}

/* ---- values ---- */

/* Whether one of the blank separated words is this one. */
static int has_word(const char *words, const char *word)
{
	const char *at;
	size_t n;
	while ((at = zr_next_word(&words, &n)))
		if (n == strlen(word) && !memcmp(at, word, n))
			return 1;
	return 0;
}

/* A scalar as the options have it, anything else as its JSON. */
static void text_of(const json_t *v, char out[VALUE])
{
	if (json_is_string(v)) {
		snprintf(out, VALUE, "%s", json_string_value(v));
	} else if (json_is_integer(v)) {
		snprintf(out, VALUE, "%lld", (long long)json_integer_value(v));
	} else if (json_is_real(v)) {
		zr_format_double(json_real_value(v), out, VALUE);
	} else if (json_is_boolean(v)) {
		snprintf(out, VALUE, "%s", json_is_true(v) ? "true" : "false");
	} else {
		char *json = zr_json_dump(v, JSON_ENCODE_ANY | JSON_COMPACT | JSON_SORT_KEYS);
		snprintf(out, VALUE, "%s", json ? json : "(out of memory)");
		free(json);
	}
}

static int same(const char *a, size_t len, const char *b)
{
	char copy[VALUE];
	double x, y;
	if (len == strlen(b) && !memcmp(a, b, len))
		return 1;
	snprintf(copy, sizeof copy, "%.*s", (int)len, a);
	return !zr_parse_double(copy, &x) && !zr_parse_double(b, &y) && x == y;
}

/* What of `values` fits: *to gets what it stands for. */
static int accepted(const char *values, const char *value, char to[VALUE])
{
	const char *at;
	size_t n;
	while ((at = zr_next_word(&values, &n))) {
		size_t left = strcspn(at, " \t="); /* "value" or "value=what it stands for" */
		if (!same(at, left, value))
			continue;
		if (left < n)
			snprintf(to, VALUE, "%.*s", (int)(n - left - 1), at + left + 1);
		return 1;
	}
	return 0;
}

/* "a or b" of "a b=c" */
static void list_of(const char *values, char *out, size_t size)
{
	const char *word;
	char one[VALUE];
	size_t n;
	*out = 0;
	while ((word = zr_next_word(&values, &n))) {
		snprintf(one, sizeof one, "%.*s", (int)strcspn(word, " \t="), word);
		zr_text_add(out, size, " or ", one);
	}
}

/* Its value at "key" or "object.key"; NULL: there is none. */
static const json_t *lookup(const json_t *root, const char *name)
{
	char part[VALUE];
	const json_t *v = root;
	while (v && *name) {
		size_t n = strcspn(name, ".");
		snprintf(part, sizeof part, "%.*s", (int)n, name);
		v = json_object_get(v, part);
		name += n + (name[n] == '.');
	}
	return v;
}

/* ---- keys ---- */

struct pass {
	const struct zr_model_json *f;
	const struct zr_plugin *p;
	zr_option_fn *set;
	void *arg;
	struct zr_error *err;
};

static const struct zr_config_key *key_at(const struct zr_pretrained_v1 *v, uint32_t i)
{
	return (const struct zr_config_key *)((const char *)v->keys + (size_t)i * v->key_stride);
}

static int concerns(const struct zr_config_key *k, const char *type)
{
	return !k->types || has_word(k->types, type);
}

static int use_text(const struct pass *s, const struct zr_config_key *k, const char *value)
{
	char to[VALUE], list[VALUE];
	snprintf(to, sizeof to, "%s", value);
	if (k->values && !accepted(k->values, value, to)) {
		list_of(k->values, list, sizeof list);
		return zr_err(s->err, ZR_EINVAL,
			      "%s: %s = %.160s: [model] plugin = %s can do %s only", s->f->path,
			      k->name, value, s->p->desc->id, list);
	}

	if (k->option && (*to || !k->values))
		return s->set(s->arg, k, to, s->err);
	return 0;
}

/* A number that is written as a text would be no number to others. */
static int check_type(const struct pass *s, const struct zr_config_key *k, const json_t *v)
{
	const struct zr_table table = zr_table_of(s->p->desc);
	char text[VALUE] = "";
	if (!k->option || k->values || json_is_number(v))
		return 0;

	const struct zr_opt *o = zr_table_find(&table, k->option);
	if (!o || (o->type != ZR_T_I64 && o->type != ZR_T_F64))
		return 0;

	text_of(v, text);
	const char *quote = json_is_string(v) ? "\"" : "";
	return zr_err(s->err, ZR_EINVAL, "%s: %s = %s%.160s%s: expected a number", s->f->path,
		      k->name, quote, text, quote);
}

static int use_key(const struct pass *s, const struct zr_config_key *k)
{
	const json_t *v = lookup(s->f->root, k->name);
	char text[VALUE] = "";
	int rc = 0;
	if (k->flags & ZR_KEY_NAMED || !concerns(k, s->f->type))
		return 0;
	if (!v || json_is_null(v)) {
		const char *other = v ? k->null : k->def;
		if (other)
			return use_text(s, k, other);
		return 0;
	}

	rc = check_type(s, k, v);
	if (rc)
		return rc;
	if (!json_is_array(v) || !k->values) {
		text_of(v, text);
		return use_text(s, k, text);
	}
	for (size_t i = 0; !rc && i < json_array_size(v); i++) {
		text_of(json_array_get(v, i), text);
		rc = use_text(s, k, text);
	}
	return rc;
}

/* Where others want an object, nothing else can be looked into. */
static int check_objects(const struct zr_model_json *f, const struct zr_pretrained_v1 *v,
			 struct zr_error *err)
{
	for (uint32_t i = 0; i < v->n_keys; i++) {
		const struct zr_config_key *k = key_at(v, i);
		for (const char *dot = strchr(k->name, '.'); dot; dot = strchr(dot + 1, '.')) {
			char object[VALUE], text[VALUE] = "";
			snprintf(object, sizeof object, "%.*s", (int)(dot - k->name), k->name);
			const json_t *o = lookup(f->root, object);
			if (!o || json_is_null(o) || json_is_object(o))
				continue;
			text_of(o, text);
			return zr_err(err, ZR_EINVAL, "%s: %s = %.160s: expected an object",
				      f->path, object, text);
		}
	}
	return 0;
}

/* transformers 5 reads rope_scaling alone where both are there: what the other one adds would be
 * read here, and not there. */
static int check_rope(const struct zr_model_json *f, struct zr_error *err)
{
	const json_t *old = json_object_get(f->root, "rope_scaling");
	json_t *new = json_object_get(f->root, "rope_parameters"), *value;
	const char *key;
	if (!json_object_size(old))
		return 0;

	json_object_foreach(new, key, value)
	{
		const json_t *same_one = json_object_get(old, key);
		if (!same_one)
			same_one = json_object_get(f->root, key);
		if (!same_one || !json_equal(same_one, value))
			return zr_err(err, ZR_EINVAL,
				      "%s: rope_scaling and rope_parameters are "
				      "both there, and %.80s of the second is not in the first: "
				      "take one of them out",
				      f->path, key);
	}
	return 0;
}

int zr_pretrained_options(const struct zr_model_json *f, const struct zr_plugin *p,
			  zr_option_fn *set, void *arg, struct zr_error *err)
{
	struct pass s = { f, p, set, arg, err };
	const struct zr_pretrained_v1 *v;
	int rc = zr_pretrained_tables(f, p, &v, err);
	if (!rc)
		rc = check_objects(f, v, err);
	if (!rc)
		rc = check_rope(f, err);
	for (size_t i = 0; !rc && i < sizeof common / sizeof *common; i++)
		rc = use_key(&s, &common[i]);
	for (uint32_t i = 0; !rc && i < v->n_keys; i++)
		rc = use_key(&s, key_at(v, i));
	return rc;
}

int zr_pretrained_accepts(const struct zr_model_json *f, const struct zr_plugin *p,
			  const void *opts, struct zr_error *err)
{
	struct zr_process process = { .world = 1, .local_world = 1 };
	struct zr_instance it;
	const struct zr_pretrained_v1 *v;
	int rc = zr_pretrained_tables(f, p, &v, err);

	zr_host_init(&it, &process, NULL);
	for (uint32_t i = 0; !rc && v->accepts && i < v->n_keys; i++) {
		const struct zr_config_key *k = key_at(v, i);
		const json_t *value = lookup(f->root, k->name);
		char text[VALUE] = "";
		if (!(k->flags & ZR_KEY_ASK) || !concerns(k, f->type) || !value ||
		    json_is_null(value))
			continue;
		text_of(value, text);
		rc = v->accepts(&it.host, opts, k->name, text);
		if (rc)
			zr_err(err, rc, "%s: %s = %.160s: %s", f->path, k->name, text,
			       it.failed.code ? it.failed.text : "not supported");
	}
	return rc;
}

enum known { UNKNOWN, KNOWN, KNOWN_OBJECT };

/* What the class of this type reads at "key" or "object.key"; KNOWN_OBJECT: keys in it. */
static enum known known(const struct zr_model_json *f, const struct zr_pretrained_v1 *v,
			const char *name)
{
	const size_t len = strlen(name);
	for (size_t i = 0; i < sizeof common / sizeof *common; i++)
		if (!strcmp(common[i].name, name))
			return KNOWN;
	for (uint32_t i = 0; i < v->n_keys; i++) {
		const struct zr_config_key *k = key_at(v, i);
		if (!concerns(k, f->type) || strncmp(k->name, name, len))
			continue;
		if (!k->name[len] || k->name[len] == '.')
			return k->name[len] ? KNOWN_OBJECT : KNOWN;
	}
	return has_word(noted, name) ? KNOWN : UNKNOWN;
}

/* Those in an object that nobody knows, behind `within`, "" or "object.". */
static void list_unknown(const struct zr_model_json *f, const struct zr_pretrained_v1 *v,
			 const json_t *object, const char *within, char *out, size_t size)
{
	const char *key;
	json_t *value;
	json_object_foreach((json_t *)object, key, value)
	{
		char name[VALUE];
		if (json_is_null(value))
			continue;
		snprintf(name, sizeof name, "%s%.200s", within, key);
		const enum known is = known(f, v, name);
		if (is == UNKNOWN && !(f->ignored && has_word(f->ignored, name)))
			zr_text_add(out, size, ", ", name);
		if (is != KNOWN_OBJECT)
			continue;
		snprintf(name, sizeof name, "%s%.200s.", within, key);
		list_unknown(f, v, value, name, out, size);
	}
}

void zr_pretrained_unknown(const struct zr_model_json *f, const struct zr_pretrained_v1 *v,
			   char *out, size_t size)
{
	*out = 0;
	list_unknown(f, v, f->root, "", out, size);
}

int zr_pretrained_differences(const struct zr_model_json *f, const struct zr_pretrained_v1 *v,
			      char *out, size_t size)
{
	char unknown[VALUE], text[VALUE], to[VALUE], differs[VALUE];
	int n = 0;
	*out = 0;
	for (uint32_t i = 0; i < v->n_keys; i++) {
		const struct zr_config_key *k = key_at(v, i);
		const json_t *value = lookup(f->root, k->name);
		if (!k->values || k->types || !value || json_is_null(value) || json_is_array(value))
			continue;
		text_of(value, text);
		if (accepted(k->values, text, to))
			continue;
		n++;
		snprintf(differs, sizeof differs, "%s = %.80s", k->name, text);
		zr_text_add(out, size, ", ", differs);
	}

	zr_pretrained_unknown(f, v, unknown, sizeof unknown);
	for (const char *c = unknown; *c; c++)
		n += *c == ',';
	if (!*unknown)
		return n;

	zr_text_add(out, size, ", ", unknown);
	return n + 1;
}

/* "KEY = VALUE (here OPTION = VALUE)" where these differ; returns its length. */
static size_t name_key(const struct zr_model_json *f, const struct zr_config_key *k,
		       const struct zr_section *model, char *out, size_t size)
{
	const json_t *v = lookup(f->root, k->name);
	char text[VALUE], here[VALUE];
	if (!(k->flags & ZR_KEY_NAMED) || !k->option || !concerns(k, f->type))
		return 0;
	if (json_is_null(v) || (!v && !k->def))
		return 0;

	const struct zr_opt *o = zr_table_find(&model->table, k->option);
	if (!o)
		return 0;

	if (v)
		text_of(v, text);
	else
		snprintf(text, sizeof text, "%s", k->def);
	zr_value_format(o, model->opts, here, sizeof here);
	if (same(text, strlen(text), here))
		return 0;
	return (size_t)snprintf(out, size, "%s = %s (here %s = %s), ", k->name, text, o->name,
				here);
}

void zr_pretrained_named(const struct zr_model_json *f, const struct zr_pretrained_v1 *v,
			 const struct zr_section *model, char *out, size_t size)
{
	const json_t *pad = json_object_get(f->root, "pad_token_id");
	size_t at = 0;
	*out = 0;
	for (uint32_t i = 0; i < v->n_keys && at < size; i++)
		at += name_key(f, key_at(v, i), model, out + at, size - at);
	if (json_is_integer(pad) && json_integer_value(pad) >= 0 && at < size)
		at += (size_t)snprintf(out + at, size - at,
				       "pad_token_id = %lld (here a token "
				       "like any other: its embedding is trained), ",
				       (long long)json_integer_value(pad));
	if (at > 2 && at < size)
		out[at - 2] = 0;
}
