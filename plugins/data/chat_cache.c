/* SPDX-License-Identifier: Apache-2.0
 *
 * chat_cache.c - see chat.h. The name is a hash of all that decides the tokens: the version of this
 * format, the options, and the bytes of the files, of the tokenizer and of what lies beside it.
 * Whether a file of this name is believed: chat_kept.h.
 */
#define _GNU_SOURCE
#include "chat.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "chat_kept.h"
#include "files/chat/chat.h"
#include "files/tokenizer/tokenizer.h"
#include "files/tokens/documents.h"

#define CACHE_FORMAT "zeroth.chat/4" /* another one where the same input gives other tokens */

const char *const chat_train_on[] = { "assistant", "completion", "all", "last",
				      "calls",     "thoughts",   NULL };
const char *const chat_masks[] = { "turn", "trl", NULL };
const char *const chat_turns[] = { "auto", "whole", "each", NULL };
const char *const chat_on_bad[] = { "stop", "skip", NULL };
const char *const chat_on_long[] = { "shorten", "drop", NULL };

struct cache {
	const struct zr_host *h;
	const struct chat_opts *o;
	const struct files *fs;
	struct zr_documents *documents;
	struct zr_error err;
};

static int no_memory(const struct zr_host *h)
{
	return zr_fail(h, ZR_ENOMEM, "no memory");
}

static const char *given(const char *text)
{
	return text && *text ? text : NULL;
}

/* ---- the name ---- */

static void hash_text(XXH3_state_t *x, const char *text)
{
	XXH3_64bits_update(x, text ? text : "", text ? strlen(text) + 1 : 1);
}

/* Of a file's bytes and their number; optional: it need not be there. */
static int hash_file(const struct zr_host *h, XXH3_state_t *x, const char *name, int optional)
{
	char piece[1 << 16];
	uint64_t all = 0;
	ssize_t n = 1;
	int fd = open(name, O_RDONLY | O_CLOEXEC), no = fd < 0 ? errno : 0;

	while (!no && n) {
		n = read(fd, piece, sizeof piece);
		no = n < 0 ? errno : 0;
		XXH3_64bits_update(x, piece, n < 0 ? 0 : (size_t)n);
		if (n >= 0)
			all += (uint64_t)n;
	}

	if (fd >= 0)
		close(fd);
	XXH3_64bits_update(x, &all, sizeof all);
	if (no && !(optional && no == ENOENT))
		return zr_fail(h, ZR_EINVAL, "%s: %s", name, strerror(no));

	return ZR_OK;
}

/* A file beside the tokenizer.json. */
static int hash_beside(const struct cache *c, XXH3_state_t *x, const char *tokenizer,
		       const char *name)
{
	const char *slash = strrchr(tokenizer, '/');
	int dir = 0;

	if (slash)
		dir = (int)(slash - tokenizer) + 1;
	char *path = kept_text("%.*s%s", dir, tokenizer, name);
	if (!path)
		return no_memory(c->h);

	int rc = hash_file(c->h, x, path, 1);
	free(path);
	return rc;
}

/* Whether a template is named by its file. */
static int is_file(const char *template)
{
	const size_t n = template ? strlen(template) : 0;
	return n > 6 && !strcmp(template + n - 6, ".jinja");
}

/* Hashes the tokenizer, and what lies beside it. */
static int hash_tokenizer(const struct cache *c, XXH3_state_t *x)
{
	struct zr_error why = { 0 };
	char file[ZR_TOKENIZER_PATH];
	if (zr_tokenizer_find(c->o->tokenizer, file, &why))
		return zr_fail(c->h, why.code, "%s", why.text);

	int rc = hash_file(c->h, x, file, 0);
	if (!rc)
		rc = hash_beside(c, x, file, "tokenizer_config.json");
	if (!rc)
		rc = hash_beside(c, x, file, "chat_template.jinja");
	if (!rc && is_file(c->o->template))
		rc = hash_file(c->h, x, c->o->template, 0);

	return rc;
}

/* Of tokens that the tokenizer gets, and their ids. */
static void hash_added(XXH3_state_t *x, const struct chat_opts *o)
{
	if (!o->added_tokens)
		return;

	hash_text(x, o->added_tokens);
	if (o->added_ids)
		XXH3_64bits_update(x, o->added_ids,
				   (size_t)zr_tokenizer_words(o->added_tokens) *
					   sizeof *o->added_ids);
}

static int hash_all(const struct cache *c, XXH3_state_t *x)
{
	const struct chat_opts *o = c->o;
	const char *const texts[] = { CACHE_FORMAT,
				      o->template,
				      o->system,
				      o->fields,
				      o->user_form,
				      o->assistant_form,
				      o->system_form,
				      o->first_form,
				      o->begin,
				      o->between,
				      o->end,
				      o->bos,
				      o->eos,
				      chat_train_on[o->train_on],
				      chat_on_bad[o->on_bad],
				      chat_on_long[o->on_long],
				      chat_masks[o->mask],
				      chat_turns[o->turns],
				      o->date,
				      o->template_kwargs };

	XXH3_64bits_reset(x);
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
		hash_text(x, texts[i]);
	XXH3_64bits_update(x, &o->max_length, sizeof o->max_length);
	hash_added(x, o);

	int rc = hash_tokenizer(c, x);
	for (int i = 0; i < c->fs->n && !rc; i++)
		rc = hash_file(c->h, x, c->fs->f[i].name, 0);

	return rc;
}

static int find_key(const struct cache *c, uint64_t *key)
{
	XXH3_state_t *x = XXH3_createState();
	int rc;

	if (x)
		rc = hash_all(c, x);
	else
		rc = no_memory(c->h);
	if (!rc)
		*key = XXH3_64bits_digest(x);
	XXH3_freeState(x);
	return rc;
}

/* ---- the file ---- */

static int take_conversation(void *arg, const int32_t *ids, const uint8_t *learned, size_t n)
{
	struct cache *c = arg;
	int rc = zr_documents_put(c->documents, ids, learned, n, &c->err);
	if (rc)
		return rc;

	return zr_documents_end(c->documents, &c->err);
}

static void note(void *arg, const char *text)
{
	struct cache *c = arg;
	zr_log(c->h, ZR_LOG_WARN, "%s", text);
}

static void parallel(void *of, int64_t n, void (*fn)(void *arg, int64_t item, int32_t thread),
		     void *arg)
{
	const struct zr_host *h = of;
	h->parallel(h, n, fn, arg);
}

static int put_counts(struct cache *c, const struct zr_chat_counts *n)
{
	struct zr_documents *d = c->documents;
	int rc = zr_documents_count(d, "records", n->records, &c->err);
	if (!rc)
		rc = zr_documents_count(d, "truncated", n->truncated, &c->err);
	if (!rc)
		rc = zr_documents_count(d, "dropped", n->records - n->used, &c->err);
	for (int i = 0; !rc && i < ZR_CHAT_REASONS; i++) {
		char name[40];
		snprintf(name, sizeof name, "dropped.%s", zr_chat_reason(i));
		if (n->dropped[i])
			rc = zr_documents_count(d, name, n->dropped[i], &c->err);
	}

	if (!rc && !n->documents)
		rc = zr_fail(c->h, ZR_EINVAL, "there is no conversation to learn from in %s",
			     c->fs->f[0].name);

	return rc;
}

static void tell_unread(const struct cache *c, const struct zr_chat_counts *n)
{
	char names[ZR_UNREAD * (ZR_UNREAD_NAME + 32)];

	if (n->unread.n)
		zr_log(c->h, ZR_LOG_WARN, "%s: fields that are not read: %s", c->fs->f[0].name,
		       zr_unread_text(&n->unread, names, sizeof names));
}

/* Tokens that the model's tokenizer gets have the same ids in this one. */
static int same_ids(const struct cache *c, const struct zr_tokenizer *t)
{
	struct zr_error e = { 0 };

	if (!c->o->added_ids || !c->o->added_tokens ||
	    !zr_tokenizer_same_ids(t, c->o->added_tokens, c->o->added_ids, &e))
		return ZR_OK;
	return zr_fail(c->h, e.code, "tokenizer = %s: %s", c->o->tokenizer, e.text);
}

void chat_options(const struct zr_host *h, const struct chat_opts *o, struct zr_chat_options *to)
{
	*to = (struct zr_chat_options){
		.tokenizer = o->tokenizer,
		.add_tokens = o->added_tokens,
		.template = given(o->template),
		.begin = given(o->begin),
		.system_form = given(o->system_form),
		.user_form = given(o->user_form),
		.first_form = given(o->first_form),
		.assistant_form = given(o->assistant_form),
		.between = given(o->between),
		.end = given(o->end),
		.bos = given(o->bos),
		.eos = given(o->eos),
		.date = given(o->date),
		.template_kwargs = given(o->template_kwargs),
		.turns = chat_turns[o->turns],
		.train_on = chat_train_on[o->train_on],
		.mask = chat_masks[o->mask],
		.system = given(o->system),
		.on_bad = chat_on_bad[o->on_bad],
		.on_long = chat_on_long[o->on_long],
		.fields = given(o->fields),
		.max_length = o->max_length,
		.threads = h->workers > 0 ? h->workers : 1,
		.parallel = parallel,
		.of = (void *)h,
	};
}

static int write_file(struct cache *c, const char *name)
{
	const struct chat_opts *o = c->o;
	struct zr_chat *chat = NULL;
	struct zr_chat_options options;

	chat_options(c->h, o, &options);
	options.note = note;
	options.sink = take_conversation;
	options.arg = c;
	int rc = zr_chat_open(&options, &chat, &c->err);

	if (!rc)
		rc = same_ids(c, zr_chat_tokenizer(chat));
	if (!rc)
		rc = zr_documents_create(name, 0600, zr_chat_vocabulary(chat), 1, &c->documents,
					 &c->err);
	if (!rc)
		zr_log(c->h, ZR_LOG_INFO, "tokenizing %s, with template %s, to %s",
		       c->fs->f[0].name, zr_chat_template_of(chat), name);
	for (int i = 0; i < c->fs->n && !rc; i++)
		rc = zr_chat_file(chat, c->fs->f[i].name, &c->err);
	if (!rc)
		rc = put_counts(c, zr_chat_counts_of(chat));
	if (!rc)
		tell_unread(c, zr_chat_counts_of(chat));
	int end = zr_documents_close(c->documents, !rc, &c->err);
	zr_chat_close(chat);
	if (!rc)
		rc = end;
	if (rc && *c->err.text)
		return zr_fail(c->h, rc, "%s", c->err.text);

	return rc;
}

/* The tokens that are there, or new ones. */
static int take_or_write(struct cache *c, const struct kept *k, struct mapped *m)
{
	char why[KEPT_WHY];
	int rc = kept_wait(k, 0);
	if (!rc)
		rc = kept_take(k, m, why);
	if (rc || m->base)
		return rc;

	rc = kept_wait(k, 1);
	if (!rc)
		rc = kept_take(k, m, why); /* another process may have written it */
	if (rc || m->base)
		return rc;
	if (*why)
		zr_log(c->h, ZR_LOG_WARN, "%s: %s: it is not used, and written again", k->path,
		       why);
	rc = write_file(c, k->path);
	if (rc)
		return rc;

	return kept_note(k, m);
}

int chat_cached(const struct zr_host *h, const struct chat_opts *o, const struct files *fs,
		char **name, struct mapped *m)
{
	struct cache c = { .h = h, .o = o, .fs = fs };
	struct kept k = { .at = -1, .lock = -1 };
	uint64_t key = 0;
	int rc = find_key(&c, &key);

	if (!rc)
		rc = kept_open(h, o->cache, key, &k);
	if (!rc)
		rc = take_or_write(&c, &k, m);
	if (!rc) {
		*name = k.path;
		k.path = NULL;
	}

	kept_close(&k);
	return rc;
}
