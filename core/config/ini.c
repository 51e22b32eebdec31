/* SPDX-License-Identifier: Apache-2.0
 *
 * ini.c - on libinih, which splits sections, keys and values. What it would do silently is settled
 * before it sees a line: too long ones (it cuts), names of sections above its 50 bytes (it cuts),
 * sections without keys (it does not report them), indented keys (it takes them for continuations),
 * control characters. Line numbers are counted here, since its callback has none by default.
 */
#include "core/config/ini.h"

#include <ctype.h>
#include <errno.h>
#include <ini.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define LONGEST_NAME 48
#define LONGEST_LINE 4096
#define SEMICOLON    '\x1f' /* stands for one inside quotes on its way through libinih */

/* Debian's libinih has its limit on lines in a variable; elsewhere it is fixed at 200 bytes. */
extern int ini_max_line __attribute__((weak));

struct source {
	FILE *file;
	const char *name; /* in messages */
	int line;
	char *text; /* the line read last; owned */
	size_t room;
	zr_ini_fn *fn;
	void *arg;
	int rc;
	struct zr_error *err;
};

static int refuse(struct source *s, const char *why)
{
	return s->rc = zr_err(s->err, ZR_EINVAL, "%s:%d: %s", s->name, s->line, why);
}

/* Removes blanks at both ends, and a comment. In quotes, ; is hidden. NULL: the quotes are not
 * closed. */
static char *strip(char *p)
{
	int quoted = 0;
	char *value = strchr(p, '='), *c;
	p += strspn(p, " \t");
	if (value)
		value += 1 + strspn(value + 1, " \t");
	for (c = p; *c; c++) {
		if (quoted && *c == '\\' && c[1])
			c++;
		else if (*c == '"' && (quoted || c == value))
			quoted = !quoted;
		if (quoted && *c == ';')
			*c = SEMICOLON;
		if (!quoted && (*c == ';' || *c == '#') &&
		    (c == p || isblank((unsigned char)c[-1])))
			break;
	}
	while (c > p && isblank((unsigned char)c[-1]))
		c--;
	*c = 0;
	return quoted ? NULL : p;
}

/* "[name]" -> tells fn. */
static int header(struct source *s, const char *p)
{
	char name[LONGEST_NAME + 1];
	size_t len = strlen(p);
	if (p[len - 1] != ']')
		return refuse(s, "a section without its ]");
	if (len - 2 > LONGEST_NAME)
		return refuse(s, "the section's name is too long");
	snprintf(name, sizeof name, "%.*s", (int)len - 2, p + 1);
	return s->rc = s->fn(s->arg, name, NULL, NULL, s->line);
}

static int is_pair(const char *p)
{
	size_t key = strspn(p, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-");
	return key && p[key + strspn(p + key, " \t")] == '=';
}

/* The line in s->text, fit for libinih; NULL after a refusal. */
static char *prepare(struct source *s, size_t len)
{
	char *p = s->text;
	while (len && (p[len - 1] == '\n' || p[len - 1] == '\r'))
		p[--len] = 0;
	if (s->line == 1 && !strncmp(p, "\xef\xbb\xbf", 3))
		p += 3;
	for (char *c = s->text; c < s->text + len; c++)
		if ((unsigned char)*c < ' ' && *c != '\t') {
			refuse(s, "a control character; this is not a text file");
			return NULL;
		}

	p = strip(p);
	if (!p) {
		refuse(s, "a value whose quotes are not closed");
		return NULL;
	}
	if (*p == '[' && header(s, p))
		return NULL;
	if (*p && *p != '[' && !is_pair(p)) {
		refuse(s, "expected `key = value` or `[section]`");
		return NULL;
	}
	return p;
}

/* fgets for libinih. */
static char *next_line(char *out, int size, void *arg)
{
	struct source *s = arg;
	ssize_t len;
	char *p;
	if (s->rc)
		return NULL;

	errno = 0;
	len = getline(&s->text, &s->room, s->file);
	if (len < 0) {
		if (!feof(s->file)) /* ferror does not know of memory */
			s->rc = zr_err(s->err, ZR_EINVAL, "%s: %s", s->name, strerror(errno));
		return NULL;
	}

	s->line++;
	p = prepare(s, (size_t)len);
	if (!p || (strlen(p) + 3 > (size_t)size && refuse(s, "the line is too long")))
		return NULL;

	snprintf(out, (size_t)size, "%s\n", p);
	return out;
}

/* In place: quotes off, escapes and hidden semicolons back. Returns whether something follows the
 * closing quote. */
static int unquote(char *v)
{
	int quoted = *v == '"';
	char *to = v, *c = v + quoted;
	for (; *c && !(quoted && *c == '"'); c++) {
		if (quoted && *c == '\\' && (c[1] == '"' || c[1] == '\\'))
			c++;
		*to++ = *c == SEMICOLON ? ';' : *c;
	}
	*to = 0;
	return *c && c[1];
}

static int pair(void *arg, const char *section, const char *key, const char *value)
{
	struct source *s = arg;
	char v[LONGEST_LINE];
	if (s->rc || (!*section && refuse(s, "a key before the first [section]")))
		return 0;

	snprintf(v, sizeof v, "%s", value);
	if (unquote(v))
		refuse(s, "text after the closing quote");
	else
		s->rc = s->fn(s->arg, section, key, v, s->line);
	return !s->rc;
}

int zr_ini_read(const char *path, const char *name, zr_ini_fn *fn, void *arg, struct zr_error *err)
{
	struct source s = {
		.file = fopen(path, "re"), .name = name, .fn = fn, .arg = arg, .err = err
	};
	int fixed = 0, *limit = &fixed;
	struct stat st;
	if (&ini_max_line)
		limit = &ini_max_line;
	if (!s.file || fstat(fileno(s.file), &st))
		return zr_err(err, ZR_EINVAL, "%s: %s", name, strerror(errno));

	/* 1, 3: null */
	if (S_ISBLK(st.st_mode) ||
	    (S_ISCHR(st.st_mode) && st.st_rdev != makedev(1, 3) && !isatty(fileno(s.file))))
		s.rc = zr_err(err, ZR_EINVAL, "%s: a device, which is no text", name);

	const int old = *limit;
	*limit = LONGEST_LINE;
	int rc = ini_parse_stream(next_line, &s, pair, &s);
	*limit = old;
	if (!s.rc && rc)
		s.rc = zr_err(err, ZR_EINVAL, "%s:%d: not understood", name, rc > 0 ? rc : s.line);
	free(s.text);
	fclose(s.file);
	return s.rc;
}

void zr_ini_write_value(FILE *out, const char *value)
{
	size_t len = strlen(value);
	if (!strpbrk(value, ";#") && *value != '"' && !isblank((unsigned char)*value) &&
	    (!len || !isblank((unsigned char)value[len - 1]))) {
		fputs(value, out);
		return;
	}
	putc('"', out);
	for (const char *c = value; *c; c++) {
		if (*c == '"' || *c == '\\')
			putc('\\', out);
		putc(*c, out);
	}
	putc('"', out);
}
