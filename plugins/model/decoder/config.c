/* SPDX-License-Identifier: Apache-2.0
 *
 * config.c - what Hugging Face's config.json says of a model: the keys by which the family reads
 * one, the other way round.
 */
#include "decoder.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static void put_pair(struct decoder_meta *m, const char *key, const char *value)
{
	m->pairs[m->n++] = key;
	m->pairs[m->n++] = value;
}

/* A short text that reads back as x, a real number to whoever tells them from whole ones. */
static void real_text(char *out, size_t n, double x)
{
	snprintf(out, n, "%.15g", x);
	if (strtod(out, NULL) != x)
		snprintf(out, n, "%.17g", x);
	if (!strpbrk(out, ".e"))
		snprintf(out + strlen(out), n - strlen(out), ".0");
}

/* A text that grows in a room; what does not fit is cut off. */
struct text {
	char *at;
	size_t left;
};

__attribute__((format(printf, 2, 3))) static void add_text(struct text *t, const char *format, ...)
{
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(t->at, t->left, format, args);
	va_end(args);
	if (n < 0 || (size_t)n >= t->left) {
		if (t->left)
			n = (int)t->left - 1;
		else
			n = 0;
	}

	t->at += n;
	t->left -= (size_t)n;
}

static void add_real(struct text *t, const char *key, double x)
{
	char text[32];
	real_text(text, sizeof text, x);
	add_text(t, ", \"%s\": %s", key, text);
}

/* Numbers of an option, in whatever way they are separated there. */
static void add_list(struct text *t, const char *key, const char *numbers)
{
	const char *at, *between = "";
	size_t n;

	add_text(t, ", \"%s\": [", key);
	for (; (n = next_element(&numbers, &at)); between = ", ")
		add_text(t, "%s%.*s", between, (int)n, at);
	add_text(t, "]");
}

static void add_original(struct text *t, const struct decoder_opts *o)
{
	add_text(t, ", \"original_max_position_embeddings\": %lld",
		 (long long)o->rope_original_context);
}

static void add_llama3(struct text *t, const struct decoder_opts *o)
{
	add_real(t, "factor", o->rope_factor);
	add_original(t, o);
	add_real(t, "low_freq_factor", o->rope_low_freq);
	add_real(t, "high_freq_factor", o->rope_high_freq);
}

static void add_yarn(struct text *t, const struct decoder_opts *o)
{
	add_real(t, "factor", o->rope_factor);
	add_original(t, o);
	add_real(t, "beta_fast", o->rope_beta_fast);
	add_real(t, "beta_slow", o->rope_beta_slow);
	add_real(t, "attention_factor", o->rope_attention);
}

/* Where transformers 4 refuses all but the lists, a gain that follows from the contexts is left
 * out. */
static void add_longrope(struct text *t, const struct zr_inst *g)
{
	const struct decoder_opts *o = g->o;

	add_list(t, "short_factor", o->rope_short);
	add_list(t, "long_factor", o->rope_long);
	if (!g->f->bare_rule)
		add_original(t, o);
	if (!g->f->bare_rule || o->rope_attention != rope_attention_of(o, rope_growth(o)))
		add_real(t, "attention_factor", o->rope_attention);
}

/* "rope_scaling" as the text of a JSON object */
static void scaling_text(const struct zr_inst *g, char *out, size_t n)
{
	const struct decoder_opts *o = g->o;
	struct text t = { out, n };

	add_text(&t, "{\"%s\": \"%s\"", g->f->bare_rule ? "type" : "rope_type",
		 decoder_scalings[o->rope_scaling]);
	if (o->rope_scaling == ROPE_LLAMA3)
		add_llama3(&t, o);
	else if (o->rope_scaling == ROPE_YARN)
		add_yarn(&t, o);
	else if (o->rope_scaling == ROPE_LONG)
		add_longrope(&t, g);
	else
		add_real(&t, "factor", o->rope_factor);
	add_text(&t, "}");
}

/* The word of "there=here ..." whose part after = is `here`; else `here` itself. */
static void reversed(const char *values, const char *here, char *out, size_t n)
{
	while (values && *values) {
		size_t word = strcspn(values, " "), left = strcspn(values, " =");
		if (left < word && strlen(here) == word - left - 1 &&
		    !memcmp(values + left + 1, here, word - left - 1)) {
			snprintf(out, n, "%.*s", (int)left, values);
			return;
		}

		values += word + (values[word] == ' ');
	}

	snprintf(out, n, "%s", here);
}

static void value_text(const struct zr_inst *g, const struct zr_config_key *k, char *out, size_t n)
{
	const struct zr_opt *e = g->f->opts;
	while (strcmp(e->name, k->option))
		e++;
	const void *at = (const char *)g->o + e->offset;
	if (k->null && !*(const int64_t *)at) /* also the real number */
		snprintf(out, n, "null");
	else if (e->type == ZR_T_I64)
		snprintf(out, n, "%lld", (long long)*(const int64_t *)at);
	else if (e->type == ZR_T_F64)
		real_text(out, n, *(const double *)at);
	else if (e->type == ZR_T_STR)
		decoder_kind_list(g, k->option, out, n);
	else
		reversed(k->values, e->choices[*(const int32_t *)at], out, n);
}

/* Whether a key for these types, separated by blanks, is one of this type; NULL: of all. */
static int concerns(const char *types, const char *type)
{
	const char *at = type;
	if (types)
		at = strstr(types, type);
	size_t n = strlen(type);
	return at && (at == type || at == types || at[-1] == ' ') && (!at[n] || at[n] == ' ');
}

static int is_written(const struct decoder_meta *m, const char *key)
{
	int i;
	for (i = 0; i < m->n; i += 2)
		if (!strcmp(m->pairs[i], key))
			return 1;

	return 0;
}

/* LongRoPE's original context is read beside its rule by transformers 4, and by 5 in either place.
 */
static void put_rope(const struct zr_inst *g, struct decoder_meta *m)
{
	static const char *const original = "original_max_position_embeddings";

	if (g->o->rope_scaling == ROPE_DEFAULT)
		return;

	scaling_text(g, m->scaling, sizeof m->scaling);
	put_pair(m, "rope_scaling", m->scaling);
	if (g->o->rope_scaling != ROPE_LONG || is_written(m, original))
		return;

	snprintf(m->original, sizeof m->original, "%lld", (long long)g->o->rope_original_context);
	put_pair(m, original, m->original);
}

const char *decoder_biases_differ(const struct decoder_opts *o)
{
	if (o->qkv_bias == o->o_bias)
		return NULL;
	return "o_bias: the class has biases of q, k, v and of attention's output, or of none of "
	       "them: give o_bias and qkv_bias the same value";
}

static const char *misfit_of(const struct zr_inst *g)
{
	if (!g->f->positions && g->o->rope_scaling == ROPE_DYNAMIC && rope_dim(g->o) == 2)
		return "rope_scaling: with dynamic and two elements of a head that turn, "
		       "transformers divides by 0";
	if (g->f->misfit)
		return g->f->misfit(g->o);

	return NULL;
}

/* The value of a key that is written: that of its option, or the first one allowed. list: where a
 * word for each layer goes. */
static const char *written_text(const struct zr_inst *g, const struct family_key *k, char *list,
				char *text, size_t room)
{
	if (k->write == WRITE_LIST) {
		value_text(g, &k->key, list, (size_t)g->o->layers * KIND_WORD);
		return list;
	}

	if (k->key.option)
		value_text(g, &k->key, text, room);
	else
		snprintf(text, room, "%.*s", (int)strcspn(k->key.values, " "), k->key.values);
	return text;
}

int decoder_config(const struct zr_inst *g, struct decoder_meta *m)
{
	const struct zr_pretrained_v1 *v = g->f->pretrained;
	const struct family_key *k = (const struct family_key *)v->keys, *end = k + v->n_keys;
	const char *type = g->f->type, *architecture = g->f->architecture;
	const char *misfit = misfit_of(g);

	if (g->f->name)
		g->f->name(g->o, &type, &architecture);
	m->list = g->host->alloc(g->host, (uint64_t)g->o->layers * KIND_WORD, "model");
	if (!m->list)
		return ZR_ENOMEM;

	if (misfit)
		put_pair(m, ZR_META_MISFIT, misfit);
	put_pair(m, "architectures", architecture);
	put_pair(m, "model_type", type);
	put_pair(m, "pad_token_id", "null"); /* the class's own may be no token of this model */
	for (; k < end; k++) {
		char *room = m->text[m->n / 2];
		if (k->write && concerns(k->key.types, type))
			put_pair(m, k->key.name,
				 written_text(g, k, m->list, room, sizeof m->text[0]));
	}

	put_rope(g, m);
	return ZR_OK;
}
