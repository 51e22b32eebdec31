/* SPDX-License-Identifier: Apache-2.0
 *
 * config.c - what Hugging Face's config.json says of a model: the keys by which the family reads
 * one, the other way round.
 */
#include "decoder.h"

#include <stdlib.h>
#include <string.h>

static void put(struct decoder_meta *m, const char *key, const char *value)
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

/* What more a rule of rotary scaling has. */
static size_t rule_text(const struct decoder_opts *o, char *out, size_t n)
{
	char first[32], second[32], gain[32];
	long long original = (long long)o->rope_original_context;
	int llama3 = o->rope_scaling == ROPE_LLAMA3;
	real_text(first, sizeof first, llama3 ? o->rope_low_freq : o->rope_beta_fast);
	real_text(second, sizeof second, llama3 ? o->rope_high_freq : o->rope_beta_slow);
	real_text(gain, sizeof gain, o->rope_attention);
	if (llama3)
		return (size_t)snprintf(out, n,
					", \"original_max_position_embeddings\": %lld, "
					"\"low_freq_factor\": %s, \"high_freq_factor\": %s",
					original, first, second);
	if (o->rope_scaling == ROPE_YARN)
		return (size_t)snprintf(out, n,
					", \"original_max_position_embeddings\": %lld, "
					"\"beta_fast\": %s, \"beta_slow\": %s, "
					"\"attention_factor\": %s",
					original, first, second, gain);
	return 0;
}

/* "rope_scaling" as the text of a JSON object */
static void scaling_text(const struct decoder_opts *o, char *out, size_t n)
{
	char factor[32];
	size_t at;
	if (o->rope_scaling == ROPE_LONG) {
		snprintf(out, n,
			 "{\"type\": \"longrope\", \"short_factor\": %s, \"long_factor\": %s}",
			 o->rope_short, o->rope_long);
		return;
	}
	real_text(factor, sizeof factor, o->rope_factor);
	at = (size_t)snprintf(out, n, "{\"rope_type\": \"%s\", \"factor\": %s",
			      decoder_scalings[o->rope_scaling], factor);
	at += rule_text(o, out + at, n - at);
	snprintf(out + at, n - at, "}");
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
	else
		reversed(k->values, e->choices[*(const int32_t *)at], out, n);
}

/* Whether a key for these types, separated by blanks, is one of this type; NULL: of all. */
static int concerns(const char *types, const char *type)
{
	const char *at = types ? strstr(types, type) : type;
	size_t n = strlen(type);
	return at && (at == type || at == types || at[-1] == ' ') && (!at[n] || at[n] == ' ');
}

void decoder_config(const struct zr_inst *g, struct decoder_meta *m)
{
	const struct zr_pretrained_v1 *v = g->f->pretrained;
	const struct family_key *k = (const struct family_key *)v->keys, *end = k + v->n_keys;
	const char *type = g->f->type, *architecture = g->f->architecture;
	if (g->f->name)
		g->f->name(g->o, &type, &architecture);
	put(m, "architectures", architecture);
	put(m, "model_type", type);
	put(m, "pad_token_id", "null"); /* those of the classes may be no token of this model */
	for (; k < end; k++) {
		char *text = m->text[m->n / 2];
		if (!k->write || !concerns(k->key.types, type))
			continue;
		if (k->key.option)
			value_text(g, &k->key, text, sizeof m->text[0]);
		else
			snprintf(text, sizeof m->text[0], "%.*s",
				 (int)strcspn(k->key.values, " "), k->key.values);
		put(m, k->key.name, text);
	}
	if (g->o->rope_scaling != ROPE_DEFAULT) {
		scaling_text(g->o, m->scaling, sizeof m->scaling);
		put(m, "rope_scaling", m->scaling);
	}
}
