/* SPDX-License-Identifier: Apache-2.0
 *
 * added.c - added tokens in text; see parts.h. Of those that start at the first place the longest
 * one counts.
 */
#include <stdlib.h>
#include <string.h>

#include "files/tokenizer/parts.h"

#define FEW    4   /* bytes that are looked for one by one */
#define WINDOW 256 /* bytes that all of them are looked for in at a time */

static int by_first_then_longest(const void *a, const void *b)
{
	const struct zr_added_token *x = a, *y = b;
	int p = (unsigned char)x->content[0], q = (unsigned char)y->content[0];

	if (p != q)
		return p - q;
	if (x->len != y->len)
		return x->len > y->len ? -1 : 1;

	return strcmp(x->content, y->content);
}

/* Where the sorted tokens of each first byte begin, and which first bytes there are. */
static void list_firsts(struct zr_added *a)
{
	for (int32_t b = 0, i = 0; b < 257; b++) {
		while (i < a->n && (unsigned char)a->token[i].content[0] < b)
			i++;
		a->of[b] = i;
	}

	a->n_first = 0;
	for (int b = 0; b < 256; b++)
		if (a->of[b] < a->of[b + 1])
			a->first[a->n_first++] = (unsigned char)b;
}

void zr_added_sort(struct zr_added *a)
{
	if (a->n)
		qsort(a->token, (size_t)a->n, sizeof *a->token, by_first_then_longest);
	list_firsts(a);

	for (int32_t i = 0; i < a->n; i++) {
		const struct zr_added_token *t = &a->token[i];
		unsigned char first = (unsigned char)t->content[0],
			      second = (unsigned char)t->content[1]; /* 0: it ends there */
		if (t->len > a->longest)
			a->longest = t->len;
		a->lstrip |= t->lstrip;
		a->second[first] |= second ? 1u << (second % 32) : UINT32_MAX;
	}
}

static const struct zr_added_token *longest_at(const struct zr_added *a, const char *p, size_t n)
{
	unsigned char first = (unsigned char)p[0];
	for (int32_t i = a->of[first]; i < a->of[first + 1]; i++)
		if (a->token[i].len <= n && !memcmp(a->token[i].content, p, a->token[i].len))
			return &a->token[i];

	return NULL;
}

/* The first of p[i..end) that a token may start with; end: there is none. */
static size_t next_first(const struct zr_added *a, const char *p, size_t i, size_t end)
{
	if (a->n_first > FEW) {
		while (i < end && !a->second[(unsigned char)p[i]])
			i++;
		return i;
	}

	for (int k = 0; k < a->n_first; k++) {
		const char *at = memchr(p + i, a->first[k], end - i);
		if (at)
			end = (size_t)(at - p);
	}

	return end;
}

/* The first place from i on where a token may start: with its first bytes, or too near the end. */
static size_t next_start(const struct zr_added *a, const char *p, size_t n, size_t i)
{
	const unsigned char *u = (const unsigned char *)p;

	while (i + 1 < n) {
		size_t end;
		if (a->n_first == 1 || n - 1 - i < WINDOW)
			end = n - 1;
		else
			end = i + WINDOW;
		i = next_first(a, p, i, end);
		if (i < end && a->second[u[i]] & 1u << (u[i + 1] % 32))
			return i;

		i += i < end;
	}

	if (i < n && !a->second[u[i]])
		return n;

	return i;
}

/* Whether the character at p is one of a word. */
static int is_word(const struct zr_added *a, struct zr_match *m, const char *p, size_t n)
{
	size_t start, stop, len = (size_t)zr_utf8_at(p, n);
	return zr_regex_find(a->word, m, p, len, 0, 0, &start, &stop, NULL) == ZR_REGEX_FOUND;
}

int zr_added_in_word(const struct zr_added *a, struct zr_match *m, const char *p, size_t n)
{
	size_t last = zr_utf8_previous(p, n);
	return a->word && is_word(a, m, p + last, n - last);
}

/* A single word has none of another on either side. */
static int stands_alone(const struct zr_added *a, struct zr_match *m, const char *p, size_t n,
			size_t at, size_t end, int in_word)
{
	int before = in_word;
	if (at)
		before = zr_added_in_word(a, m, p, at);
	return !before && (end == n || !is_word(a, m, p + end, n - end));
}

/* Behind white space that starts at `at`. */
static size_t spaces_after(const struct zr_added *a, const char *p, size_t at, size_t n)
{
	while (at < n && zr_utf8_is_space(zr_utf8_value(p + at)) && !(a->marked && p[at] == ' '))
		at += (size_t)zr_utf8_at(p + at, n - at);
	return at;
}

/* Where white space that ends at `at` starts, not before `from`. */
static size_t spaces_before(const struct zr_added *a, const char *p, size_t from, size_t at)
{
	size_t to = zr_utf8_spaces_before(p, from, at);
	while (a->marked && to < at && memchr(p + to, ' ', at - to))
		to++;
	return to;
}

void zr_added_find(const struct zr_added *a, struct zr_match *m, const char *p, size_t n,
		   size_t from, int final, int in_word, struct zr_found *out)
{
	size_t i = from;

	out->token = NULL;
	while ((i = next_start(a, p, n, i)) < n) {
		if (!final && n - i < a->longest)
			break;

		const struct zr_added_token *t = longest_at(a, p + i, n - i);
		if (!t) {
			i++;
			continue;
		}

		if (t->single_word && i + t->len == n && !final)
			break; /* a word may go on */
		if (t->single_word && !stands_alone(a, m, p, n, i, i + t->len, in_word)) {
			i += t->len; /* what it has is looked at once */
			continue;
		}

		if (t->rstrip)
			out->stop = spaces_after(a, p, i + t->len, n);
		else
			out->stop = i + t->len;
		if (t->rstrip && out->stop == n && !final)
			break; /* there may be more white space */

		out->token = t;
		if (t->lstrip)
			out->start = spaces_before(a, p, from, i);
		else
			out->start = i;
		return;
	}

	if (a->lstrip && !final)
		out->start = spaces_before(a, p, from, i);
	else
		out->start = i;
}
