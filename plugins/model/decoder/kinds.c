/* SPDX-License-Identifier: Apache-2.0
 *
 * kinds.c - which blocks see a window only, and which know positions: all but each n-th, or a list
 * says it of each.
 */
#include "decoder.h"

#include <string.h>

size_t next_element(const char **list, const char **element)
{
	size_t n;

	*list += strspn(*list, "[], \t\"");
	*element = *list;
	n = strcspn(*list, "[], \t\"");
	*list += n;
	return n;
}

/* The words of a list that sets a kind, one for each layer. */
struct kind_list {
	const char *option, *value; /* value: as the option has it */
	const char *yes, *no;       /* the words: it is of the kind, it is not */
	uint8_t kind;
	int64_t no_every; /* n: without a list each n-th layer is not of the kind; 0: all are */
};

static int is_word(const char *at, size_t n, const char *word)
{
	return n == strlen(word) && !memcmp(at, word, n);
}

static void by_period(const struct kind_list *l, int64_t layers, uint8_t *kind)
{
	int64_t i;
	for (i = 0; i < layers; i++)
		if (!l->no_every || (i + 1) % l->no_every)
			kind[i] |= l->kind;
}

static int by_list(const struct zr_host *h, const struct kind_list *l, int64_t layers,
		   uint8_t *kind)
{
	const char *list = l->value, *at;
	int64_t i;
	size_t n;

	for (i = 0; (n = next_element(&list, &at)) && i < layers; i++) {
		int yes = is_word(at, n, l->yes);
		if (!yes && !is_word(at, n, l->no))
			return zr_fail(h, ZR_EINVAL, "%s: layer %lld is %.*s: %s or %s", l->option,
				       (long long)i, (int)n, at, l->yes, l->no);

		if (yes)
			kind[i] |= l->kind;
	}

	if (i < layers || n)
		return zr_fail(h, ZR_EINVAL,
			       "%s has %s words than layers = %lld: give one for "
			       "each layer",
			       l->option, n ? "more" : "fewer", (long long)layers);

	return ZR_OK;
}

#define LISTS 2

static void kind_lists(const struct decoder_opts *o, struct kind_list lists[LISTS])
{
	lists[0] = (struct kind_list){ "layer_types",    o->layer_types, "sliding_attention",
				       "full_attention", BLOCK_LOCAL,    o->global_every };
	lists[1] = (struct kind_list){ "rope_layers", o->rope_layers, "1",
				       "0",           BLOCK_TURNED,   o->rope_skip_every };
}

void decoder_kind_list(const struct zr_inst *g, const char *option, char *out, size_t n)
{
	struct kind_list lists[LISTS], *l = lists;
	const char *quote;
	size_t at = 0;
	int64_t i;

	kind_lists(g->o, lists);
	while (strcmp(l->option, option))
		l++;
	quote = l->kind == BLOCK_LOCAL ? "\"" : ""; /* the others are numbers */
	for (i = 0; at < n && i < g->o->layers; i++)
		at += (size_t)snprintf(out + at, n - at, "%s%s%s%s%s", i ? "," : "[", quote,
				       g->kind[i] & l->kind ? l->yes : l->no, quote,
				       i + 1 < g->o->layers ? "" : "]");
}

int decoder_kinds(const struct zr_host *h, const struct decoder_opts *o, uint8_t *kind)
{
	struct kind_list lists[LISTS];
	size_t i;

	memset(kind, 0, (size_t)o->layers);
	kind_lists(o, lists);
	for (i = 0; i < LISTS; i++) {
		const struct kind_list *l = &lists[i];
		int rc = ZR_OK;
		if (l->value && *l->value)
			rc = by_list(h, l, o->layers, kind);
		else if (l->kind != BLOCK_LOCAL || o->window)
			by_period(l, o->layers, kind);
		if (rc)
			return rc;
	}

	for (i = 0; !o->window && i < (size_t)o->layers; i++)
		if (kind[i] & BLOCK_LOCAL)
			return zr_fail(h, ZR_EINVAL,
				       "layer_types: layer %zu is "
				       "sliding_attention, but there is no window",
				       i);

	return ZR_OK;
}
