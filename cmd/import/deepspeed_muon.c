/* SPDX-License-Identifier: Apache-2.0
 *
 * deepspeed_muon.c - DeepSpeed's optimizer Muon: matrices but those of the vocabulary in a group of
 * their own, [optimizer.matrices], and AdamW for the rest. Source: DeepSpeed 0.19.8.
 */
#include "cmd/import/deepspeed.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "cmd/import/tensors.h"

#define GROUP  "optimizer.matrices."
#define PARAMS "optimizer.params."

static struct zr_setting *find(struct zr_import *im, const char *path)
{
	return zr_import_find(im, im->deepspeed, path);
}

int ds_has_muon(struct zr_import *im)
{
	return !strcasecmp(zr_import_word(find(im, "optimizer.type")), "muon");
}

/* ---- which matrices ---- */

static int has_word(const char *name, const char *word)
{
	const size_t n = strlen(word);
	while (*name && strncasecmp(name, word, n))
		name++;
	return !!*name;
}

/* Marks what DeepSpeed gives to Muon. Returns NULL, or a name of what it has in another form. */
static const char *choose(struct zr_tensors *t)
{
	for (int32_t i = 0; i < t->setup->facts.layout.n_tensors; i++) {
		const char *name = zr_tensors_name(t, i);
		if (strstr(name, ".experts."))
			return name;
		t->chosen[i] = t->setup->facts.layout.tensor[i].decl->ndim >= 2 &&
			       !has_word(name, "embed") && !has_word(name, "lm_head");
	}
	return NULL;
}

static int put_match(struct zr_import *im, struct zr_setting *s, struct zr_tensors *t)
{
	char *text = NULL;
	size_t bytes = 0;
	FILE *out = open_memstream(&text, &bytes);
	int rc = ZR_ENOMEM;

	if (!out)
		return rc;

	zr_tensors_write(t, " ", out);
	if (!fclose(out))
		rc = zr_import_put(im, s, GROUP "match", text + (*text == ' '), NULL);
	free(text);
	return rc;
}

static int put_matrices(struct zr_import *im, struct zr_setting *s)
{
	struct zr_error err = { 0 };
	struct zr_tensors t = { 0 };
	const char *other = NULL;

	int rc = zr_tensors_open(&t, im->model, &err);
	if (!rc)
		other = choose(&t);
	if (other)
		rc = zr_import_fate(s, ZR_FATE_REFUSED,
				    "transformers 5 has one parameter for %s and the others like "
				    "it; use AdamW, and add [optimizer.NAME]",
				    other);
	else if (!rc)
		rc = put_match(im, s, &t);
	else if (rc != ZR_ENOMEM)
		rc = zr_import_fate(s, ZR_FATE_REFUSED, "%s", err.text);
	zr_tensors_close(&t);
	return rc;
}

/* ---- keys ---- */

int ds_put_muon(struct zr_import *im, struct zr_setting *s)
{
	if (im->source[0].kind != im->deepspeed)
		return zr_import_impossible(s, "beside training arguments use AdamW, and add "
					       "[optimizer.NAME] with plugin = muon and match = "
					       "patterns of the hidden matrices");
	if (zr_import_number(find(im, "gradient_clipping"), 1))
		return zr_import_impossible(
			s, "DeepSpeed clips the steps of Muon, by default to 1, and here "
			   "gradients are clipped, before it: give \"gradient_clipping\": 0");
	if (!im->model)
		return zr_import_impossible(s, "import with --model DIR: it is for some of its "
					       "matrices");

	int rc = zr_import_put(im, s, GROUP "plugin", "muon", NULL);
	if (!rc)
		rc = put_matrices(im, s);
	if (rc || s->fate == ZR_FATE_REFUSED)
		return rc;
	return zr_import_differs(s, "Muon iterates in fp32; DeepSpeed in 16 bits where it can");
}

/* Of the rest and of the matrices, unless a key of `but` has it. */
static int put_both(struct zr_import *im, struct zr_setting *s, const char *key,
		    const char *const but[2])
{
	char to[64];
	int rc = 0;

	snprintf(to, sizeof to, "optimizer.%s", key);
	if (!but || !find(im, but[0]))
		rc = zr_import_as_it_is(im, s, to);
	snprintf(to, sizeof to, GROUP "%s", key);
	if (!rc && (!but || !find(im, but[1])))
		rc = zr_import_as_it_is(im, s, to);
	return rc;
}

IMPORT_MAP(ds_lr)
{
	static const char *const own[] = { PARAMS "adam_lr", PARAMS "muon_lr" };
	if (!ds_has_muon(im))
		return zr_import_as_it_is(im, s, k->to);
	if (find(im, own[0]) && find(im, own[1]))
		return zr_import_no_effect(s, "adam_lr and muon_lr say it");
	return put_both(im, s, "lr", own);
}

IMPORT_MAP(ds_weight_decay)
{
	if (!ds_has_muon(im))
		return zr_import_as_it_is(im, s, k->to);
	return put_both(im, s, "weight_decay", NULL);
}

IMPORT_MAP(ds_momentum)
{
	return zr_import_as_it_is(im, s, ds_has_muon(im) ? GROUP "momentum" : k->to);
}

IMPORT_MAP(ds_of_muon)
{
	if (!ds_has_muon(im))
		return zr_import_no_effect(s, "of Muon");
	return zr_import_as_it_is(im, s, k->to);
}

IMPORT_MAP(ds_ns_method)
{
	if (!ds_has_muon(im))
		return zr_import_no_effect(s, "of Muon");
	if (zr_import_is(s->value, "gram"))
		return zr_import_put(im, s, k->to, "gram", NULL);
	if (zr_import_is(s->value, "standard"))
		return zr_import_put(im, s, k->to, "direct", NULL);
	return zr_import_impossible(s, "expected gram or standard");
}

IMPORT_MAP(ds_per_head)
{
	if (!zr_import_is_on(im, im->deepspeed, s->path))
		return zr_import_no_effect(s, "off");
	if (!ds_has_muon(im))
		return zr_import_no_effect(s, "of Muon");
	return zr_import_impossible(s, "set it to false, and give [optimizer.NAME] match and "
				       "head_rows of query, key and value matrices");
}
