/* SPDX-License-Identifier: Apache-2.0
 *
 * load_bpe.c - the model BPE of tokenizer.json and its merges.
 */
#include <stdio.h>
#include <string.h>

#include "files/tokenizer/parts.h"

/* Many a byte-level vocabulary has no token for some bytes, at least for those that UTF-8 never
 * has. */
static int find_lacking(struct zr_tokenizer_loading *l, const json_t *model)
{
	struct zr_bpe *b = &l->t->bpe;

	for (int i = 0; i < 256; i++)
		b->lacks |= l->t->byte[i] < 0;
	if (!b->lacks)
		return 0;
	if (l->t->byte_fallback)
		return zr_load_fail(l, ZR_ENOTSUP, "model.byte_fallback",
				    "is not supported where a byte-level vocabulary has no token "
				    "for some bytes");

	return zr_load_unknown(l, json_object_get(model, "unk_token"), NULL);
}

/* "a b" or ["a", "b"]: both, one behind the other; the first has *left bytes. */
static const char *two_of(const char *p, struct zr_buf *both, size_t *left)
{
	both->n = 0;
	if (*p == '[') {
		p = zr_list_string(p + 1, both);
		*left = both->n;
		return zr_list_mark(zr_list_string(zr_list_mark(p, ','), both), ']');
	}

	p = zr_list_string(p, both);
	char *space = NULL;
	if (p)
		space = memchr(both->p, ' ', both->n);
	if (!space)
		return NULL;

	*left = (size_t)(space - both->p);
	both->n--;
	memmove(space, space + 1, both->n - *left);
	if (memchr(space, ' ', both->n - *left))
		return NULL;

	return p;
}

static const char *merge_place(size_t i, char place[64])
{
	snprintf(place, 64, "model.merges[%zu]", i);
	return place;
}

/* A part of merge i; NULL: no token, which is said. */
static const struct zr_name *part_of(const struct zr_tokenizer_loading *l, size_t i, const char *p,
				     size_t n)
{
	const struct zr_name *name = zr_names_find(&l->names, p, n);
	if (!name)
		zr_load_fail(l, ZR_EINVAL, merge_place(i, (char[64]){ 0 }),
			     "%.*s is not in the vocabulary", n < 60 ? (int)n : 60, p);

	return name;
}

/* What a merge makes: mostly the token behind that of the merge before, else it is looked for. */
static const struct zr_name *made_of(const struct zr_tokenizer_loading *l, size_t i,
				     const struct zr_buf *both, const struct zr_name *before)
{
	const struct zr_name *end = l->names.name + l->names.n, *next = before ? before + 1 : end;

	if (next < end && next->n == both->n && !memcmp(next->p, both->p, both->n))
		return next;

	return part_of(l, i, both->p, both->n);
}

/* *made: what the merge before made; in most files they make one token after the other. */
static int load_merge(struct zr_tokenizer_loading *l, size_t i, struct zr_list *list,
		      struct zr_buf *both, const struct zr_name **made)
{
	const struct zr_name *a, *b, *ab;
	size_t left = 0;
	const char *p = two_of(list->p, both, &left);
	if (!p)
		return zr_load_unread(l, merge_place(i, (char[64]){ 0 }),
				      "\"a b\" or [\"a\", \"b\"]", list->p);

	list->p = p;
	if (!(a = part_of(l, i, both->p, left)) ||
	    !(b = part_of(l, i, both->p + left, both->n - left)) ||
	    !(ab = made_of(l, i, both, *made)))
		return ZR_EINVAL;

	*made = ab;
	l->joins_words |= l->t->bpe.characters && zr_spaced_joins(ab->p);
	zr_merges_put(&l->t->bpe.merges, (uint32_t)a->id, (uint32_t)b->id, (uint32_t)ab->id);
	return 0;
}

/* Makes room for the merges of a list, and for the longest text of one. */
static int make_room(struct zr_tokenizer_loading *l, const struct zr_list *list,
		     struct zr_buf *both)
{
	size_t ids = (size_t)l->t->size, most = zr_merges_most(ids);

	if (list->entries > most)
		return zr_load_fail(l, ZR_ENOTSUP, "model.merges", "has %zu merges, more than %zu",
				    list->entries, most);
	if (zr_merges_room(&l->t->bpe.merges, list->entries, ids) ||
	    zr_buf_reserve(both, list->bytes))
		return zr_no_memory(l->err);

	return 0;
}

static int load_merges(struct zr_tokenizer_loading *l)
{
	struct zr_list list = l->lists.merges;
	struct zr_buf both = { 0 };
	const struct zr_name *made = NULL;
	size_t i = 0;
	int more;

	if (!list.text || *list.text != '[')
		return zr_load_unread(l, "model.merges", "an array", list.text);

	int rc = make_room(l, &list, &both);
	while (!rc && (more = zr_list_next(&list))) {
		if (more < 0)
			rc = zr_load_unread(l, "model.merges", "an array", list.text);
		else
			rc = load_merge(l, i++, &list, &both, &made);
	}

	zr_buf_free(&both);
	if (rc)
		return rc;

	int no = zr_merges_ready(&l->t->bpe.merges);
	if (no == ZR_EINVAL)
		return zr_load_fail(l, no, "model.merges", "has more than 256 of one pair or hash");
	if (no)
		return zr_no_memory(l->err);

	return 0;
}

/* What would change the ids and is not here. */
static int check_bpe(const struct zr_tokenizer_loading *l, const json_t *model)
{
	static const char *const unset[] = { "dropout", "continuing_subword_prefix",
					     "end_of_word_suffix" };

	for (size_t i = 0; i < sizeof unset / sizeof *unset; i++) {
		const json_t *v = json_object_get(model, unset[i]);
		char place[64];
		snprintf(place, sizeof place, "model.%s", unset[i]);
		int none = !v || json_is_null(v) || (json_is_string(v) && !json_string_length(v)) ||
			   (json_is_real(v) && json_real_value(v) == 0);
		if (!none)
			return zr_load_fail(l, ZR_ENOTSUP, place, "is not supported");
	}

	return 0;
}

int zr_load_bpe(struct zr_tokenizer_loading *l, const json_t *model, const json_t *added)
{
	struct zr_bpe *b = &l->t->bpe;
	int rc = check_bpe(l, model);
	if (!rc)
		rc = zr_load_flag(l, model, "model", "ignore_merges", 0, &b->ignore_merges);
	if (!rc)
		rc = zr_load_flag(l, model, "model", "fuse_unk", 0, &b->fuse_unknown);
	if (!rc)
		rc = zr_load_vocab(l, added);
	if (!rc && b->characters)
		rc = zr_load_unknown(l, json_object_get(model, "unk_token"), NULL);
	else if (!rc)
		rc = find_lacking(l, model);
	if (!rc)
		rc = load_merges(l);
	int no = 0;
	if (!rc && (b->ignore_merges || b->characters))
		no = zr_bpe_index(l->t);
	if (!rc && !no && b->characters && !b->ignore_merges)
		no = zr_joins_open(l->t, &b->joins);
	if (no)
		return zr_no_memory(l->err);

	return rc;
}
