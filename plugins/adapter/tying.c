/* SPDX-License-Identifier: Apache-2.0
 *
 * tying.c - a head that is the embedding, as PEFT's ensure_weight_tying has it. PEFT adapts or
 * trains a tied module alone unless it is told otherwise; told so, it looks for the names
 * embed_tokens and lm_head, whatever the model calls these, puts the embedding in the place of the
 * head, and lets the head follow.
 */
#include "lora.h"

#include <stdio.h>
#include <stdlib.h>

static int is_declared(const struct zr_inst *inst, const char *name)
{
	const struct zr_model_decl *d = &inst->decl;

	for (uint32_t u = 0; u < d->n_units; u++) {
		const struct zr_unit *unit = lora_unit(d, u);
		for (uint32_t i = 0; i < unit->n_tensors; i++)
			if (!strcmp(lora_tensor(d, unit, i)->name, name))
				return 1;
	}

	return 0;
}

/* "HEAD=TENSOR" of a model that has no tensor HEAD, but the other one. */
void lora_find_tied(struct zr_inst *inst)
{
	const char *words = inst->ignored;
	char word[LORA_NAME];

	while (lora_next_word(&words, word)) {
		char *is = strchr(word, '=');
		if (!is)
			continue;

		*is = 0;
		if (is_declared(inst, word) || !is_declared(inst, is + 1))
			continue;

		const char *end = strrchr(word, '.');
		const size_t letters = end ? (size_t)(end - word) : strlen(word);
		snprintf(inst->head, LORA_NAME, "%.*s", (int)letters, word);
		lora_module_of(inst, is + 1, inst->embedding);
	}
}

/* Whether PEFT takes a word of a list for the embedding, or for the head. */
static int names_embedding(const char *word)
{
	const char *dot = strrchr(word, '.');
	const char *part = dot ? dot + 1 : word;

	return !strcmp(part, "embed_tokens") || !strcmp(part, "lm_head");
}

static int has_embedding(const char *list)
{
	char word[LORA_NAME];

	while (lora_next_word(&list, word))
		if (names_embedding(word))
			return 1;

	return 0;
}

/* The list with the embedding, and without the first word that means the head. */
static int replace_head(struct zr_inst *inst, const char *list, char **out)
{
	const size_t room = strlen(list) + strlen(inst->embedding) + 2;
	const int has = lora_is_spelled_out(list, inst->embedding);
	char word[LORA_NAME];
	int gone = 0;

	*out = inst->h->alloc(inst->h, room, "adapter");
	if (!*out)
		return zr_fail(inst->h, ZR_ENOMEM, "no memory");

	**out = 0;
	while (lora_next_word(&list, word)) {
		if (!gone && lora_is_withheld(word, inst->head)) {
			gone = 1;
			continue;
		}

		strcat(strcat(*out, word), " ");
	}

	if (!has)
		strcat(*out, inst->embedding);
	return ZR_OK;
}

static int targets_embedding(const struct zr_inst *inst, int *targets)
{
	int rc = ZR_OK;

	*targets = 0;
	if (!strcmp(inst->o.targets, LORA_ALL))
		return ZR_OK;
	if (!inst->regex) {
		*targets = has_embedding(inst->o.targets);
		return ZR_OK;
	}

	rc = lora_regex_fits(inst->h, inst->regex, "embed_tokens", targets);
	if (!rc && !*targets)
		rc = lora_regex_fits(inst->h, inst->regex, "lm_head", targets);
	return rc;
}

int lora_tie(struct zr_inst *inst)
{
	struct lora_opts *o = &inst->o;
	int targets;

	if (!o->ensure_weight_tying || !*inst->head)
		return ZR_OK;

	if (has_embedding(o->modules_to_save)) {
		int rc = replace_head(inst, o->modules_to_save, &inst->saved_list);
		if (rc)
			return rc;

		o->modules_to_save = inst->saved_list;
		inst->tied_saved = 1;
		return ZR_OK;
	}

	int rc = targets_embedding(inst, &targets);
	if (rc || !targets)
		return rc;

	return zr_fail(
		inst->h, ZR_ENOTSUP,
		"ensure_weight_tying: PEFT adapts %s and %s in the same memory, but trains "
		"that twice, with moments for each: take these out of targets, or train both "
		"by modules_to_save",
		inst->embedding, inst->head);
}
