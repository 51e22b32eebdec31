/* SPDX-License-Identifier: Apache-2.0
 *
 * json_list.c - see json_list.h.
 */
#include "files/chat/json_list.h"

static int is_white(char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

void zr_json_list_begin(struct zr_json_list *l, const char *text, size_t n)
{
	size_t at = 0;

	while (at < n && is_white(text[at]))
		at++;
	*l = (struct zr_json_list){ .is_list = at < n && text[at] == '[' };
}

static void in_string(struct zr_json_list *l, char c)
{
	if (l->escaped)
		l->escaped = 0;
	else if (c == '\\')
		l->escaped = 1;
	else if (c == '"')
		l->in_string = 0;
}

/* What stands between two values, of which one is missing, stays: its line is refused. */
static char between_values(struct zr_json_list *l, char c)
{
	const int complete = l->has_value || (c == ']' && !l->values);

	l->values |= l->has_value;
	l->has_value = 0;
	if (c == ']') {
		l->depth = 0;
		l->ended = 1;
	}

	return complete ? '\n' : c;
}

/* What becomes of a character outside of strings. */
static char cut(struct zr_json_list *l, char c)
{
	if (c == '\n' || c == '\r')
		return ' ';
	if (is_white(c))
		return c;
	if (!l->depth) { /* the outer bracket */
		l->depth = 1;
		return ' ';
	}

	if (l->depth == 1 && (c == ',' || c == ']'))
		return between_values(l, c);

	l->has_value = 1;
	l->in_string = c == '"';
	l->depth += (c == '{' || c == '[') - (c == '}' || c == ']');
	return c;
}

const char *zr_json_list_cut(struct zr_json_list *l, char *text, size_t n, int end)
{
	if (!l->is_list)
		return NULL;

	for (size_t i = 0; i < n; i++) {
		if (l->ended && !is_white(text[i]))
			return "something follows the list that it begins with";
		if (l->ended)
			continue;
		if (l->in_string)
			in_string(l, text[i]);
		else
			text[i] = cut(l, text[i]);
		if (l->depth < 0)
			return "more brackets are closed than opened";
	}

	if (end && !l->ended)
		return "the list that it begins with does not end";

	return NULL;
}
