/* SPDX-License-Identifier: Apache-2.0
 *
 * tree.c - see import.h. What people add to JSON becomes blanks, so that lines and columns stay;
 * then jansson reads it. A key's line is found by its number: jansson keeps the order of the file.
 */
#include <stdlib.h>
#include <string.h>

#include "cmd/import/import.h"
#include "core/base/json.h"
#include "core/base/list.h"

struct scan {
	char *text;
	size_t n, at;
	int line, quoted; /* quoted: the line of the last string, until something else follows; 0:
			     none */
	struct zr_tree *to;
};

static void blank(struct scan *s, size_t from, size_t to)
{
	for (; from < to; from++)
		if (s->text[from] != '\n')
			s->text[from] = ' ';
}

/* Where a comment ends that begins here; `at`: none does. */
static size_t comment_end(const struct scan *s)
{
	const char *from = s->text + s->at, *end;
	size_t left = s->n - s->at;

	if (left > 1 && !memcmp(from, "/*", 2)) {
		end = memmem(from + 2, left - 2, "*/", 2);
		return end ? (size_t)(end + 2 - s->text) : s->n;
	}

	if (*from != '#' && (left < 2 || memcmp(from, "//", 2)))
		return s->at;

	end = memchr(from, '\n', left);
	return end ? (size_t)(end - s->text) : s->n;
}

static size_t string_end(const struct scan *s)
{
	size_t i = s->at + 1;
	while (i < s->n && s->text[i] != '"' && s->text[i] != '\n')
		i += s->text[i] == '\\' ? 2 : 1;
	return i < s->n ? i + 1 : s->n;
}

int zr_tree_add_line(struct zr_tree *t, int line)
{
	if (zr_list_room(&t->line, t->n + 1, &t->room, sizeof *t->line))
		return ZR_ENOMEM;

	t->line[t->n++] = line;
	return 0;
}

/* Blanks comments and commas before a closing bracket, and notes the line of each key. */
static int clean(struct scan *s)
{
	size_t comma = s->n; /* the last thing but blanks, if it is a comma */
	int rc = 0;

	while (!rc && s->at < s->n) {
		const char c = s->text[s->at];
		size_t next = comment_end(s);
		int line = s->line;
		if (next > s->at) {
			for (size_t i = s->at; i < next; i++)
				s->line += s->text[i] == '\n';
			blank(s, s->at, next);
			s->at = next;
			continue;
		}

		next = c == '"' ? string_end(s) : s->at + 1;
		s->line += c == '\n';
		if (!strchr(" \t\r\n", c)) {
			if ((c == '}' || c == ']') && comma < s->n)
				s->text[comma] = ' ';
			if (c == ':' && s->quoted)
				rc = zr_tree_add_line(s->to, s->quoted);
			comma = c == ',' ? s->at : s->n;
			s->quoted = c == '"' ? line : 0;
		}

		s->at = next;
	}

	return rc;
}

int zr_tree_json(const char *text, size_t bytes, const char *path, struct zr_tree *to,
		 struct zr_error *err)
{
	struct scan s = { .text = malloc(bytes + 1), .n = bytes, .line = 1, .to = to };
	int rc;

	if (!s.text)
		return zr_err(err, ZR_ENOMEM, "%s: out of memory", path);

	memcpy(s.text, text, bytes);
	s.text[bytes] = 0;
	if (clean(&s))
		rc = zr_err(err, ZR_ENOMEM, "%s: out of memory", path);
	else
		rc = zr_json_object(s.text, bytes, path, &to->root, err);
	free(s.text);
	return rc;
}

void zr_tree_free(struct zr_tree *t)
{
	if (!t)
		return;

	json_decref(t->root);
	free(t->file);
	free(t->line);
	free(t);
}
