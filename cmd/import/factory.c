/* SPDX-License-Identifier: Apache-2.0
 *
 * factory.c - see factory.h.
 */
#include "cmd/import/factory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What LLaMA-Factory does that the template of that name here does not. */
#define LINE_END                                                                                   \
	"LLaMA-Factory learns the line end behind each answer, and tokenizes each by itself; "     \
	"[data] mask = trl is near it"
#define BLANKS                                                                                     \
	"LLaMA-Factory keeps the blanks around a message, and the template of that name here "     \
	"drops them"
#define SYSTEM_FIRST                                                                               \
	"LLaMA-Factory puts the system message before the first user's, and the template of that " \
	"name here before the last one"

/* Its templates, as src/llamafactory/data/template.py has them in August 2026: what renders and
 * learns the same here, or why that one does not which has the name here. */
static const struct {
	const char *name, *template, *but;
} templates[] = {
	{ "phi4", "phi4", NULL },
	{ "mistral_small", "mistral-v7-tekken", NULL },
	{ "chatml", NULL, LINE_END },
	{ "chatml_de", NULL, LINE_END },
	{ "falcon_h1", NULL, LINE_END },
	{ "gemma", NULL, LINE_END },
	{ "gemma2", NULL, LINE_END },
	{ "gemma3", NULL, LINE_END },
	{ "gemma3n", NULL, LINE_END },
	{ "granite3", NULL, LINE_END },
	{ "lfm2", NULL, LINE_END },
	{ "phi", NULL, LINE_END },
	{ "phi_small", NULL, LINE_END },
	{ "qwen", NULL, LINE_END },
	{ "qwen3", NULL, LINE_END },
	{ "qwen3_nothink", NULL, LINE_END },
	{ "smollm", NULL, LINE_END },
	{ "smollm2", NULL, LINE_END },
	{ "yi", NULL, LINE_END },
	{ "cohere", NULL, BLANKS },
	{ "llama2", NULL, BLANKS },
	{ "llama3", NULL, BLANKS },
	{ "llama4", NULL, BLANKS },
	{ "ministral", NULL, SYSTEM_FIRST },
	{ "ministral3", NULL, SYSTEM_FIRST },
	{ "mistral", NULL, SYSTEM_FIRST },
	{ "phi4_mini", NULL,
	  "LLaMA-Factory has no last token behind a conversation, and the "
	  "template of that name here has one" },
	{ "zephyr", NULL,
	  "LLaMA-Factory writes no line end behind the end of a turn, and the "
	  "template of that name here does" },
};

IMPORT_MAP(lf_stage)
{
	if (zr_import_is(s->value, "sft") || zr_import_is(s->value, "pt"))
		return zr_import_no_effect(s, "[data] says what is learned");
	return zr_import_impossible(
		s, "only the likelihood of targets is trained: no preferences, no rewards");
}

IMPORT_MAP(lf_finetuning)
{
	if (zr_import_is(s->value, "full"))
		return zr_import_no_effect(s, "all parameters are trained without an adapter");
	if (zr_import_is(s->value, "lora"))
		return zr_import_put(im, s, k->to, "lora", NULL);
	return zr_import_impossible(s, "all parameters are trained, or adapters of LoRA are");
}

/* "q_proj,v_proj" */
IMPORT_MAP(lf_targets)
{
	char *text = NULL;

	if (zr_import_is(s->value, "all"))
		return zr_import_put(im, s, k->to, "all-linear", NULL);

	int rc = zr_import_text(s->value, &text);
	for (char *c = text; !rc && *c; c++)
		if (*c == ',')
			*c = ' ';
	if (!rc)
		rc = zr_import_put(im, s, k->to, text, NULL);
	free(text);
	return rc;
}

IMPORT_MAP(lf_bits)
{
	const double bits = zr_import_number(s, 0);
	if (bits == 4 || bits == 8)
		return zr_import_put(im, s, k->to, bits == 4 ? "nf4" : "int8", NULL);
	return zr_import_impossible(s, "weights are kept in 4 or 8 bits");
}

static int put_template(struct zr_import *im, struct zr_setting *s, const char *to,
			const char *template)
{
	int rc = zr_import_put(im, s, to, template, NULL);
	if (rc || s->fate != ZR_FATE_MAPPED)
		return rc;
	return zr_import_fate(s, ZR_FATE_PARTLY,
			      "a system message without text is written, which "
			      "LLaMA-Factory leaves out");
}

IMPORT_MAP(lf_template)
{
	const char *why = "no template here renders like it";

	const char *dot = im->data ? strrchr(im->data, '.') : NULL;
	if (im->data && (!dot || strncmp(dot, ".json", 5)))
		return zr_import_no_effect(s, "--data has tokens: how they were made is over");

	for (size_t i = 0; i < sizeof templates / sizeof *templates; i++) {
		if (!zr_import_is(s->value, templates[i].name))
			continue;
		if (templates[i].template)
			return put_template(im, s, k->to, templates[i].template);

		why = templates[i].but;
	}

	return zr_import_fate(s, ZR_FATE_REFUSED,
			      "%s: save its tokens as a file, and import with --data", why);
}

int lf_finish(struct zr_import *im)
{
	static const char note[] = "LLaMA-Factory's default";
	const struct zr_import_kind *kind = im->source[0].kind;
	const long long rank = zr_import_given_count(im, "adapter.r");
	char text[32];
	int rc = 0;

	if (!zr_import_find(im, kind, "stage"))
		return 0;

	if (!zr_import_find(im, kind, "finetuning_type"))
		rc = zr_import_put(im, NULL, "adapter.plugin", "lora", note);
	if (rc || !zr_import_given(im, "adapter.plugin") || zr_import_given(im, "adapter.alpha"))
		return rc;

	snprintf(text, sizeof text, "%lld", 2 * (rank > 0 ? rank : 8));
	return zr_import_put(im, NULL, "adapter.alpha", text, note);
}
