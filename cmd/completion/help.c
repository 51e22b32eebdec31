/* SPDX-License-Identifier: Apache-2.0
 *
 * help.c - the help of a command, taken apart. It begins with `usage: zeroth COMMAND ...` and more
 * such lines up to an empty one; further down a line that starts with an option says what that is.
 */
#include <ctype.h>
#include <string.h>

#include "completion.h"

static int is_name(char c)
{
	return isalnum((unsigned char)c) || c == '-' || c == '_';
}

static struct zr_help_option *option(struct zr_help *h, const char *name, size_t len)
{
	for (int i = 0; i < h->n_options; i++)
		if (strlen(h->option[i].name) == len && !strncmp(h->option[i].name, name, len))
			return &h->option[i];
	if (h->n_options == ZR_HELP_OPTIONS || len < 2 || len >= sizeof h->option->name)
		return NULL;
	struct zr_help_option *o = &h->option[h->n_options++];
	*o = (struct zr_help_option){ .name = "" };
	memcpy(o->name, name, len);
	return o;
}

static void set(char *to, size_t room, const char *from, size_t len)
{
	snprintf(to, room, "%.*s", (int)(len < room ? len : room - 1), from);
}

/* At `-n` or `--ranks`: its value, a blank behind it, up to the next blank, comma or bracket.
 * Returns what follows. */
static const char *read_option(struct zr_help *h, const char *p, struct zr_help_option **out)
{
	const char *name = p;
	while (is_name(*p))
		p++;
	*out = option(h, name, (size_t)(p - name));
	if ((*p == ' ' || *p == '=') && p[1] && !strchr(" -[]\n", p[1])) {
		const char *value = p + 1;
		p = value + strcspn(value, " ,]\n");
		if (*out && !*(*out)->value)
			set((*out)->value, sizeof(*out)->value, value, (size_t)(p - value));
	}
	return p;
}

/* "  -n, --ranks N  what it does": all options in it have that meaning, and its value. */
static void read_line(struct zr_help *h, const char *p)
{
	struct zr_help_option *all[8] = { NULL }, *last = NULL;
	int n = 0;
	while (*p == '-' && n < 8) {
		p = read_option(h, p, &last);
		if (last)
			all[n++] = last;
		while (*p == ',' || (*p == ' ' && p[1] == '-'))
			p++;
		if (*p == ' ' && p[-1] == ',')
			p++;
	}

	p += strspn(p, " ");
	for (int i = 0; i < n; i++) {
		set(all[i]->doc, sizeof all[i]->doc, p, strcspn(p, "\n"));
		if (last && !*all[i]->value)
			memcpy(all[i]->value, last->value, sizeof last->value);
	}
}

static void add_word(char words[ZR_HELP_WORDS][48], int *n, const char *w, size_t len)
{
	if (len && len < 48 && *n < ZR_HELP_WORDS)
		set(words[(*n)++], 48, w, len);
}

/* What stands behind "zeroth COMMAND" up to the end of a usage: options, verbs and operands. */
static void read_usage(struct zr_help *h, const char *p, const char *end, const char *verb)
{
	const size_t len = strlen(verb);
	p += strspn(p, " ");
	const size_t first = strcspn(p, " |\n");
	int lower = p < end;
	for (size_t i = 0; i < first; i++)
		lower &= islower((unsigned char)p[i]) != 0;
	if (lower) {
		for (size_t n; p < end && islower((unsigned char)*p); p += n + (p[n] == '|')) {
			n = strspn(p, "abcdefghijklmnopqrstuvwxyz");
			int known = 0;
			for (int i = 0; i < h->n_verbs; i++)
				known |= strlen(h->verb[i]) == n && !strncmp(h->verb[i], p, n);
			if (!known && h->n_verbs < ZR_HELP_WORDS)
				set(h->verb[h->n_verbs++], sizeof *h->verb, p, n);
			lower &= strncmp(p, verb, n) || n != len;
			if (p[n] != '|') {
				p += n;
				break;
			}
		}

		if (lower)
			return; /* that of another verb */
	}
	while (p < end) {
		struct zr_help_option *o;
		p += strspn(p, " [\n.]|");
		if (p >= end)
			break;
		if (*p == '-') {
			p = read_option(h, p, &o);
			continue;
		}
		const size_t n = strcspn(p, " |\n");
		size_t word = n;
		while (word && strchr("].", p[word - 1]))
			word--;
		if (strncmp(p, "options", word))
			add_word(h->operand, &h->n_operands, p, word);
		p += n;
	}
}

void zr_help_read(const char *text, const char *command, const char *verb, struct zr_help *out)
{
	char head[64];
	const char *end = strstr(text, "\n\n"), *p;
	*out = (struct zr_help){ 0 };
	snprintf(head, sizeof head, "zeroth %s", command);
	if (!end)
		end = text + strlen(text);
	for (p = strstr(text, head); p && p < end;) {
		const char *from = p + strlen(head), *next = strstr(from, head);
		read_usage(out, from, next && next < end ? next : end, verb);
		p = next;
	}
	for (p = end; p && *p; p = strchr(p, '\n')) {
		p += strspn(p, "\n");
		p += strspn(p, " ");
		if (*p == '-' && (p[1] == '-' || isalpha((unsigned char)p[1])))
			read_line(out, p);
	}
}
