/* SPDX-License-Identifier: Apache-2.0
 *
 * chat.c - conversations: files of JSON lines, which become a file of tokens with documents once
 * (chat_cache.c) and are read as data/tokens reads that.
 */
#include "chat.h"

#include <stdlib.h>

#include "documents.h"
#include "mapped.h"
#include "windows.h"
#include "plugins/descriptor.h"

#define FORM(name_, text_) ZR_OPT(struct chat_opts, name_, ZR_T_STR, 0, "", 0, 0, "", text_)

static const struct zr_opt options[] = {
	ZR_OPT(struct chat_opts, path, ZR_T_PATH, ZR_O_REQUIRED, NULL, 0, 0, "",
	       "File of conversations, or a pattern of several: JSON lines, plain, gzip or zstd; "
	       "relative to the working directory."),
	ZR_OPT(struct chat_opts, val_path, ZR_T_PATH, 0, "", 0, 0, "",
	       "Files of conversations for validation; empty: there is none, but for split."),
	ZR_OPT(struct chat_opts, split, ZR_T_F64, ZR_O_NUMERIC | ZR_O_MAX_OPEN, "0", 0, 1, "",
	       "Share of path that is held out for validation: conversations chosen by a hash of "
	       "their number."),
	ZR_OPT(struct chat_opts, tokenizer, ZR_T_PATH, ZR_O_REQUIRED, NULL, 0, 0, "",
	       "tokenizer.json of the model, or the directory that has it; tokenizer_config.json "
	       "is looked for beside it."),
	ZR_OPT(struct chat_opts, template, ZR_T_STR, 0, "", 0, 0, "",
	       "How a conversation is written: a name, or a file NAME.jinja; empty or auto: by the "
	       "chat template that the tokenizer has. See zeroth-tokenize(1)."),
	ZR_OPT_ENUM(struct chat_opts, train_on, 0, "assistant", chat_train_on,
		    "What is learned: what the assistant says, the completion of the prompt, all, "
		    "the last answer, answers that call tools, or answers with thoughts."),
	ZR_OPT_ENUM(struct chat_opts, mask, 0, "turn", chat_masks,
		    "How much of an answer is learned: turn is its text and the end of its turn; "
		    "trl is what TRL's training templates learn with assistant_only_loss: the "
		    "white space behind that, too, and what the template puts behind all messages; "
		    "with qwen2.5 also the line end before the text."),
	ZR_OPT_ENUM(struct chat_opts, turns, 0, "auto", chat_turns,
		    "Answers that a chat template of Jinja writes in another way where others "
		    "follow, as without their thoughts: auto learns each in a text where it is "
		    "last, and all others in one; whole refuses them; each learns all answers in "
		    "texts of their own."),
	FORM(template_kwargs, "Variables of a chat template of Jinja: a JSON object, as "
			      "{\"enable_thinking\": false}."),
	FORM(date, "The day, YYYY-MM-DD, that a chat template of Jinja writes as today; empty: one "
		   "that does is refused."),
	ZR_OPT(struct chat_opts, system, ZR_T_STR, 0, "", 0, 0, "",
	       "System message of conversations that have none."),
	ZR_OPT(struct chat_opts, max_length, ZR_T_I64, 0, "0", 0, INT32_MAX, "",
	       "Most tokens of a conversation; on_long says what becomes of a longer one. 0: any "
	       "number, cut where a sequence is full."),
	ZR_OPT_ENUM(struct chat_opts, on_long, 0, "shorten", chat_on_long,
		    "A conversation that is too long loses its oldest turns, and is left out where "
		    "its last one is too long, or it is left out as it is."),
	ZR_OPT_ENUM(struct chat_opts, on_bad, 0, "stop", chat_on_bad,
		    "What a line does that cannot be read."),
	FORM(fields, "Names of fields and roles in the data, as in messages=dialog, role=speaker."),
	FORM(user_form, "A template of one's own: the form of a user's message, with {content}."),
	FORM(assistant_form, "The form of an assistant's message."),
	FORM(system_form, "The form of a system message."),
	FORM(first_form, "The form of the first user's message after a system message that has no "
			 "form of its own: with {system}."),
	FORM(begin, "Before all messages."),
	FORM(between, "Between two messages."),
	FORM(end, "Behind all messages."),
	FORM(bos, "The first token of a text, for {bos}; empty: that of tokenizer_config.json."),
	FORM(eos, "The last token of a text, for {eos}."),
	ZR_OPT_ENUM(struct chat_opts, order, ZR_O_NUMERIC, "random", windows_orders,
		    "Order of the sequences of an epoch: random is a permutation by (seed, "
		    "epoch)."),
	ZR_OPT_ENUM(struct chat_opts, packing, ZR_O_NUMERIC, "bfd", packings,
		    "How conversations share sequences: bfd puts the longest first where it "
		    "leaves least room, wrapped cuts them where a sequence is full, none takes a "
		    "sequence for each."),
	ZR_OPT(struct chat_opts, cache, ZR_T_PATH, 0, "", 0, 0, "",
	       "Directory where the tokens are kept for the next run; empty: zeroth in "
	       "$XDG_CACHE_HOME, or in ~/.cache. What is there is used if it is yours or root's "
	       "and has the bytes that were written."),
};

struct zr_inst {
	const struct zr_host *h;
	const struct chat_opts *o;
	/* ZR_SPLIT_*; as they were given; the first: with the tokens' hash */
	struct files files[2];
	int hashed;
	char *name[2];      /* of the tokens */
	char told[2][1024]; /* what messages call them */
	struct mapped m[2];
	struct documents documents[2];
	struct documents_part part[2];
};

static int open_split(struct zr_inst *inst, int split, const char *key, const char *pattern)
{
	int rc = files_find(inst->h, key, pattern, &inst->files[split]);
	if (!rc)
		rc = chat_cached(inst->h, inst->o, &inst->files[split], &inst->name[split],
				 &inst->m[split]);
	if (!rc && !documents_found(inst->m[split].base, inst->m[split].bytes))
		rc = zr_fail(inst->h, ZR_EINVAL, "%s: is damaged: remove it", inst->name[split]);
	if (rc)
		return rc;

	return documents_add(inst->h, &inst->documents[split], inst->name[split],
			     inst->m[split].base, inst->m[split].bytes);
}

static int chat_info(struct zr_inst *inst, struct zr_data_info *info)
{
	char unit[64];

	info->vocabulary = inst->documents[inst->o->evaluates].vocabulary;
	info->flags |= ZR_DATA_DOCUMENTS;
	info->train_tokens = inst->part[ZR_SPLIT_TRAIN].tokens;
	info->val_tokens = inst->part[ZR_SPLIT_VAL].tokens;
	snprintf(unit, sizeof unit, "tokens in %lld conversations",
		 (long long)(inst->part[0].documents + inst->part[1].documents));
	files_describe(&inst->files[inst->o->evaluates], unit, info->train_tokens, info->val_tokens,
		       info->describe, sizeof info->describe);
	if (ZR_HAS(info, struct zr_data_info, val_sequences)) {
		info->train_sequences = inst->part[ZR_SPLIT_TRAIN].packing.n;
		info->val_sequences = inst->part[ZR_SPLIT_VAL].packing.n;
	}

	return ZR_OK;
}

static int chat_prepare(struct zr_inst *inst, int64_t length, int64_t vocabulary)
{
	int rc = ZR_OK;

	for (int i = 0; i < 2 && !rc; i++)
		if (inst->part[i].of)
			rc = documents_pack(inst->h, &inst->part[i], inst->o->packing, length,
					    vocabulary);

	return rc;
}

static int chat_batch(struct zr_inst *inst, const struct zr_batch *b)
{
	return documents_batch(inst->h, &inst->part[b->split == ZR_SPLIT_VAL], b);
}

static int chat_targets(struct zr_inst *inst, const struct zr_batch *b, double *sum)
{
	*sum = documents_targets(&inst->part[b->split == ZR_SPLIT_VAL], b);
	return ZR_OK;
}

static int chat_count(struct zr_inst *inst, int32_t split, uint32_t i, struct zr_data_count *out)
{
	documents_tell(&inst->part[split], i, out);
	return ZR_OK;
}

/* What evaluates may be of the files of what is learned. */
static int chat_show(struct zr_inst *inst, const struct zr_look *look)
{
	const struct documents_part *part = &inst->part[look->split == ZR_SPLIT_VAL];
	if (!part->of)
		return ZR_OK;

	return chat_look(inst->h, inst->o, &inst->files[part->of == &inst->documents[1]], part,
			 look);
}

/* Tokens are what is learned: the hash is theirs, whatever the files are called. */
static void hash_tokens(struct zr_inst *inst)
{
	for (int i = 0; i < 2; i++) {
		if (!inst->m[i].base)
			continue;

		struct file *f = &inst->files[i].f[0];
		mapped_hash(&inst->m[i], 1, inst->m[i].bytes, f);
		snprintf(inst->told[i], sizeof inst->told[i], "%s, tokenized in %s", f->name,
			 inst->name[i]);
	}

	inst->hashed = 1;
}

static int chat_file(struct zr_inst *inst, uint32_t i, struct zr_data_file *out)
{
	const uint32_t split = i + !inst->files[ZR_SPLIT_TRAIN].n;

	out->name = NULL;
	if (split > ZR_SPLIT_VAL || !inst->files[split].n)
		return ZR_OK;
	if (!inst->hashed)
		hash_tokens(inst);
	const struct file *f = &inst->files[split].f[0];
	out->name = inst->told[split];
	out->bytes = f->bytes;
	out->hash = f->hash;
	out->sampled = f->sampled;
	mapped_hash_whole(&inst->m[split], out);
	return ZR_OK;
}

static void chat_destroy(struct zr_inst *inst)
{
	for (int i = 0; i < 2; i++) {
		mapped_close(&inst->m[i]);
		free(inst->name[i]);
		files_free(&inst->files[i]);
		packing_free(&inst->part[i].packing);
		documents_free(&inst->documents[i]);
	}

	free(inst);
}

static int chat_check(const struct zr_host *h, const void *opts)
{
	const struct chat_opts *o = opts;
	return files_check_split(h, o->split, o->val_path);
}

static int chat_resolve(const struct zr_host *h, const struct zr_facts *facts, void *opts)
{
	struct chat_opts *o = opts;

	(void)h;
	o->evaluates = ZR_HAS(facts, struct zr_facts, evaluates) && facts->evaluates;
	if (ZR_HAS(facts, struct zr_facts, added_ids)) {
		o->added_tokens = facts->added_tokens;
		o->added_ids = facts->added_ids;
	}

	return ZR_OK;
}

static int chat_create(const struct zr_host *h, const void *opts, struct zr_inst **out)
{
	const struct chat_opts *o = opts;
	struct zr_inst *inst = calloc(1, sizeof *inst);
	if (!inst)
		return zr_fail(h, ZR_ENOMEM, "no memory");

	inst->h = h;
	inst->o = o;
	int rc = open_split(inst, o->evaluates ? ZR_SPLIT_VAL : ZR_SPLIT_TRAIN, "path", o->path);
	if (!rc && !o->evaluates && o->val_path && *o->val_path)
		rc = open_split(inst, ZR_SPLIT_VAL, "val_path", o->val_path);
	if (!rc)
		rc = documents_divide(h, inst->documents, o->split, o->evaluates,
				      o->order == ORDER_RANDOM, inst->part);
	if (rc)
		chat_destroy(inst);
	else
		*out = inst;

	return rc;
}

static const struct zr_data_v1 vtbl = {
	.size = sizeof vtbl,
	.info = chat_info,
	.prepare = chat_prepare,
	.batch = chat_batch,
	.file = chat_file,
	.targets = chat_targets,
	.count = chat_count,
	.look = chat_show,
};

PLUGIN(data, "chat", &vtbl, .version = "1",
       .summary = "Conversations in JSON lines, of which the answers are learned.",
       PLUGIN_OPTIONS(struct chat_opts, options), .resolve = chat_resolve, .check = chat_check,
       .create = chat_create, .destroy = chat_destroy);
