/* SPDX-License-Identifier: Apache-2.0
 *
 * axolotl_data.c - see axolotl.h: Axolotl's data sets as [data]. What a data set is called on a
 * hub, and which part of it counts, is up to who saves it as JSON lines; how its rows are written
 * and learned is mapped, or refused.
 */
#include "cmd/import/axolotl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Axolotl's templates that render as one here does, and the token that ends a turn; eos: the
 * tokenizer's last one. */
static const struct {
	const char *name, *template, *end;
} templates[] = {
	{ "chatml", "chatml", "<|im_end|>" },
	{ "gemma", "gemma", "<end_of_turn>" },
	{ "gemma3", "gemma3", "<end_of_turn>" },
	{ "gemma3n", "gemma3", "<end_of_turn>" },
	{ "llama3", "llama3", "<|eot_id|>" },
	{ "llama4", "llama4", "<|eot|>" },
	{ "cohere", "cohere", "<|END_OF_TURN_TOKEN|>" },
	{ "deepseek_v2", "deepseek-v2", "eos" },
	{ "falcon_h1", "falcon-h1", "<|im_end|>" },
	{ "phi_3", "phi3-short", "<|end|>" },
	{ "mistral_v1", "mistral-v1", "eos" },
	{ "mistral_v2v3", "mistral-v3", "eos" },
	{ "mistral_v3_tekken", "mistral-v3-tekken", "eos" },
	{ "qwen2_vl", "qwen2", "<|im_end|>" },
	{ "qwen_25", "qwen2.5", "<|im_end|>" },
	{ "alpaca", "alpaca-plain", "eos" },
};
#define TEMPLATES (sizeof templates / sizeof *templates)

static struct zr_setting *find(struct zr_import *im, const char *path)
{
	return zr_import_find(im, im->source[0].kind, path);
}

/* A key of the same data set as that of `s`, "datasets[1].type". */
static struct zr_setting *beside(struct zr_import *im, const struct zr_setting *s, const char *key)
{
	char path[512];
	const char *end = strchr(s->path, ']');
	snprintf(path, sizeof path, "%.*s.%s", end ? (int)(end + 1 - s->path) : 0, s->path, key);
	return find(im, path);
}

/* ---- what kind of rows there are ---- */

static int is_json(const char *path)
{
	const char *dot = strrchr(path, '.');
	return dot && !strncmp(dot, ".json", 5);
}

/* Whether [data] reads conversations: not where --data names tokens or text. */
static int is_chat(const struct zr_import *im)
{
	return !im->data || is_json(im->data);
}

enum rows { ROWS_CHAT, ROWS_ALPACA, ROWS_ALPACA_CHAT, ROWS_TEXT, ROWS_OTHER };

static enum rows rows_of(const char *type)
{
	if (!*type || !strcmp(type, "chat_template") || !strcmp(type, "chat_template.default"))
		return ROWS_CHAT;
	if (!strcmp(type, "alpaca"))
		return ROWS_ALPACA;
	if (!strcmp(type, "alpaca:chat"))
		return ROWS_ALPACA_CHAT;
	return strcmp(type, "completion") ? ROWS_OTHER : ROWS_TEXT;
}

/* Of the first data set: the others must agree with it. */
static enum rows first_rows(struct zr_import *im)
{
	return rows_of(zr_import_word(find(im, "datasets[0].type")));
}

#define NO_CHAT "--data has tokens: how they were made is over"

static const struct zr_setting *first_template(struct zr_import *im)
{
	const struct zr_setting *own = find(im, "datasets[0].chat_template");
	if (own)
		return own;
	return find(im, "chat_template");
}

/* ---- rows of the table ---- */

IMPORT_MAP(ax_path)
{
	const char *path = zr_import_word(s);

	if (im->data)
		return zr_import_no_effect(s, "--data says it");
	if (!is_json(path))
		return zr_import_no_effect(
			s, "nothing is downloaded: save it as JSON lines, and import with "
			   "--data FILE");
	return zr_import_put(im, s, k->to, path, NULL);
}

IMPORT_MAP(ax_part)
{
	const char *path = zr_import_word(beside(im, s, "path"));
	const int whole = zr_import_is(s->value, "train") || zr_import_is(s->value, "json");
	if (im->data || !is_json(path) || whole)
		return zr_import_no_effect(s, "save what it takes of the data set as JSON lines");
	return zr_import_impossible(
		s, "the whole file is read: save what it takes of it as one of its own");
}

/* Conversations, Alpaca's rows or texts. */
IMPORT_MAP(ax_type)
{
	const enum rows rows = rows_of(zr_import_word(s));
	const struct zr_setting *inputs = find(im, "train_on_inputs");

	if (!is_chat(im))
		return zr_import_no_effect(s, NO_CHAT);
	if (rows == ROWS_OTHER)
		return zr_import_impossible(
			s, "rows of this form are not read: chat_template, alpaca and "
			   "completion are");
	if (rows != first_rows(im))
		return zr_import_impossible(
			s, "its rows are of another form than those of the first data set: "
			   "[data] plugin = mix reads both, each as a [data.NAME]");

	int rc = zr_import_put(im, s, k->to, "chat", NULL);
	if (!rc && rows == ROWS_ALPACA)
		rc = zr_import_put(im, s, "data.template", "alpaca-input", NULL);
	if (!rc && rows == ROWS_ALPACA_CHAT)
		rc = zr_import_put(im, s, "data.template", "user-input", NULL);
	if (!rc && rows == ROWS_CHAT && !find(im, "eot_tokens"))
		rc = zr_import_differs(
			s, "the end of each turn is learned; Axolotl learns it where it is the "
			   "tokenizer's eos_token");
	if (!rc && rows == ROWS_CHAT && inputs && json_is_true(inputs->value))
		rc = zr_import_impossible(
			s, "with train_on_inputs Axolotl learns what all roles say, but not "
			   "what the template writes between; [data] train_on has no such "
			   "choice");
	return rc;
}

IMPORT_MAP(ax_template)
{
	const char *name = zr_import_word(s);

	if (!is_chat(im))
		return zr_import_no_effect(s, NO_CHAT);
	if (first_rows(im) != ROWS_CHAT)
		return zr_import_no_effect(s, "of rows of chat_template");
	if (!strchr(s->path, '[') && find(im, "datasets[0].chat_template"))
		return zr_import_no_effect(s, "each data set says its own");

	if (!strcmp(name, "tokenizer_default"))
		return zr_import_put(im, s, k->to, "auto", NULL);

	for (size_t i = 0; i < TEMPLATES; i++)
		if (!strcmp(templates[i].name, name))
			return zr_import_put(im, s, k->to, templates[i].template, NULL);
	if (!strcmp(name, "jinja"))
		return zr_import_no_effect(s, "chat_template_jinja says it");

	return zr_import_impossible(s, "no template here renders like it: [data] template = "
				       "NAME.jinja reads Axolotl's own");
}

/* The names of fields and roles are one option: finish_fields() makes it of these. */
IMPORT_MAP(ax_field)
{
	if (!is_chat(im))
		return zr_import_no_effect(s, NO_CHAT);
	if (!json_is_string(s->value) || strpbrk(zr_import_word(s), " ,\t="))
		return zr_import_impossible(s, "expected the name of a field, without blanks");
	return zr_import_fate(s, ZR_FATE_MAPPED, "with [data] fields");
}

/* Names that the rows have for a role. */
IMPORT_MAP(ax_role)
{
	static const char *const usual[][4] = { { "user", "user", "human", NULL },
						{ "assistant", "assistant", "gpt", NULL },
						{ "system", "system", NULL, NULL } };
	const char *role = strrchr(s->path, '.') + 1;
	size_t i;
	json_t *name;

	if (!is_chat(im))
		return zr_import_no_effect(s, NO_CHAT);

	for (size_t r = 0; r < 3; r++) {
		int known = !strcmp(usual[r][0], role);
		json_array_foreach(s->value, i, name)
			known = known && (zr_import_is(name, usual[r][1]) ||
					  (usual[r][2] && zr_import_is(name, usual[r][2])));
		if (known)
			return zr_import_no_effect(s, "these names are known");
	}

	return zr_import_impossible(s,
				    "[data] fields renames a role, as in user=NAME: give it there");
}

/* What is learned is what the assistant says, and the end of its turns. */
IMPORT_MAP(ax_roles_to_train)
{
	const json_t *first = json_array_get(s->value, 0);

	if (!is_chat(im))
		return zr_import_no_effect(s, NO_CHAT);
	if (json_array_size(s->value) == 1 &&
	    (zr_import_is(first, "assistant") || zr_import_is(first, "gpt")))
		return zr_import_no_effect(s, "what the assistant says is learned");
	return zr_import_impossible(s, "of roles, what the assistant says is learned and no other");
}

IMPORT_MAP(ax_train_on_end)
{
	if (!is_chat(im))
		return zr_import_no_effect(s, NO_CHAT);
	if (zr_import_is(s->value, "turn"))
		return zr_import_no_effect(s, "the end of each learned turn is learned");
	return zr_import_impossible(s,
				    "the end of each learned turn is learned, and of no other one");
}

/* Tokens that end a turn: the template's own is learned. */
IMPORT_MAP(ax_eot_tokens)
{
	const struct zr_setting *template = first_template(im);
	const char *end = NULL;
	json_t *token;
	size_t i;

	if (!is_chat(im) || first_rows(im) != ROWS_CHAT)
		return zr_import_no_effect(s, "of rows of chat_template");

	for (i = 0; template && i < TEMPLATES; i++)
		if (!strcmp(templates[i].name, zr_import_word(template)))
			end = templates[i].end;
	if (!end)
		return zr_import_fate(s, ZR_FATE_PARTLY,
				      "what ends a turn of the tokenizer's "
				      "template is learned, whatever it is");
	if (!strcmp(end, "eos"))
		end = zr_import_word(find(im, "special_tokens.eos_token"));
	json_array_foreach(s->value, i, token) if (zr_import_is(token, end)) return zr_import_fate(
		s, ZR_FATE_MAPPED,
		"the template's turns end with "
		"it, which is learned");
	return zr_import_impossible(
		s, "what ends a turn of the template is learned, and this is another token");
}

/* {bos} and {eos} of a template. */
IMPORT_MAP(ax_special)
{
	if (!is_chat(im))
		return zr_import_no_effect(s, NO_CHAT);
	return zr_import_put(im, s, k->to, zr_import_word(s), NULL);
}

IMPORT_MAP(ax_system)
{
	if (!is_chat(im))
		return zr_import_no_effect(s, NO_CHAT);

	return zr_import_no_effect(
		s, "Axolotl puts it in the place of a text that its templates have no more");
}

IMPORT_MAP(ax_inputs)
{
	if (!is_chat(im))
		return zr_import_no_effect(s, NO_CHAT);
	return zr_import_put(im, s, k->to, json_is_true(s->value) ? "all" : "assistant", NULL);
}

IMPORT_MAP(ax_packing)
{
	if (!is_chat(im))
		return zr_import_no_effect(s, NO_CHAT);
	return zr_import_put(im, s, k->to, json_is_true(s->value) ? "bfd" : "none", NULL);
}

/* A share of the rows. */
IMPORT_MAP(ax_held_out)
{
	char *text = NULL;
	const double share = zr_import_number(s, 0);

	if (!is_chat(im))
		return zr_import_no_effect(s, "of conversations: [data] plugin = chat");
	if (share >= 1)
		return zr_import_impossible(s, "give a share of the data, below 1");

	int rc = zr_import_text(s->value, &text);
	if (!rc)
		rc = zr_import_put(im, s, k->to, text, NULL);
	free(text);
	return rc;
}

IMPORT_MAP(ax_excess)
{
	if (!is_chat(im))
		return zr_import_no_effect(s, NO_CHAT);
	if (zr_import_is(s->value, "drop"))
		return zr_import_fate(s, ZR_FATE_MAPPED, "with [data] on_long");
	return zr_import_impossible(
		s, "a conversation that is too long is left out, or loses its oldest turns: "
		   "none is cut off or ends the run");
}

IMPORT_MAP(ax_validation)
{
	if (!is_chat(im))
		return zr_import_no_effect(s, NO_CHAT);
	if (is_json(zr_import_word(s)))
		return zr_import_put(im, s, k->to, zr_import_word(s), NULL);
	return zr_import_impossible(
		s, "nothing is downloaded: save it as JSON lines, and give [data] val_path");
}

/* A key of data to validate on must be that of the training's. */
IMPORT_MAP(ax_same)
{
	char path[512];
	const char *end = strchr(s->path, ']');

	snprintf(path, sizeof path, "datasets[0]%s", end ? end + 1 : "");
	const struct zr_setting *of = find(im, path);
	if (of && json_equal((json_t *)of->value, (json_t *)s->value))
		return zr_import_no_effect(s, "as that of the first data set");
	return zr_import_impossible(s, "[data] val_path is read as path is: give both the same");
}

/* ---- what follows ---- */

static const struct {
	const char *key, *field, *usual;
} fields[] = {
	{ "field_messages", "messages", "messages" },
	{ "message_property_mappings.role", "role", "role" },
	{ "message_field_role", "role", "role" },
	{ "message_property_mappings.content", "content", "content" },
	{ "message_field_content", "content", "content" },
	{ "field_system", "system", "system" },
	{ "field", "text", "text" },
};

/* [data] fields of all data sets, which have the same names. */
static int finish_fields(struct zr_import *im)
{
	char text[512] = "";
	struct zr_setting *first = NULL;
	size_t at = 0;

	for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
		const char *name = NULL;
		for (int d = 0; d < 64; d++) {
			char path[128];
			snprintf(path, sizeof path, "datasets[%d].%s", d, fields[i].key);
			struct zr_setting *s = find(im, path);
			if (!s || s->fate == ZR_FATE_REFUSED)
				continue;
			if (name && strcmp(name, zr_import_word(s)))
				return zr_import_impossible(
					s, "another name than that of a data set before: "
					   "[data] plugin = mix reads both, each as a "
					   "[data.NAME]");

			name = zr_import_word(s);
			if (!first)
				first = s;
		}

		if (name && strcmp(name, fields[i].usual) && at < sizeof text)
			at += (size_t)snprintf(text + at, sizeof text - at, "%s%s=%s",
					       at ? " " : "", fields[i].field, name);
	}

	if (at)
		return zr_import_put(im, first, "data.fields", text, NULL);
	return 0;
}

static int finish_length(struct zr_import *im)
{
	const char *length = zr_import_given(im, "train.sequence_length");
	int rc = 0;

	if (!length || first_rows(im) == ROWS_TEXT)
		return 0;

	rc = zr_import_put(im, NULL, "data.max_length", length, "sequence_len");
	if (rc)
		return rc;
	return zr_import_put(im, NULL, "data.on_long", "drop", AX_DEFAULT);
}

int ax_finish_data(struct zr_import *im)
{
	const struct zr_setting *model = find(im, "base_model");
	const struct zr_setting *template = first_template(im);
	const char *plugin = zr_import_given(im, "data.plugin");
	int rc = 0;

	if (!plugin || strcmp(plugin, "chat"))
		return 0;

	const char *tokenizer = im->model ? im->model : zr_import_word(model);
	if (*tokenizer)
		rc = zr_import_put(im, NULL, "data.tokenizer", tokenizer,
				   im->model ? "--model" : "base_model");
	if (!rc)
		rc = finish_fields(im);
	if (!rc)
		rc = finish_length(im);
	if (!rc && !zr_import_given(im, "data.packing"))
		rc = zr_import_put(im, NULL, "data.packing", "none", AX_DEFAULT);
	if (!rc && !zr_import_given(im, "data.train_on") && !template)
		rc = zr_import_put(im, NULL, "data.train_on", "assistant", AX_DEFAULT);
	return rc;
}
