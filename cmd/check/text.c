/* SPDX-License-Identifier: Apache-2.0
 *
 * text.c - whether the text of an update (zeroth/elementwise.h) stands alone. The author's compiler
 * sees it inside a file, with macros, headers and variables; a device compiles it without them.
 */
#include <ctype.h>
#include <string.h>

#include "cmd/check/optimizer.h"

#define NAMES 1024

struct name {
	const char *at;
	size_t n;
};

struct reader {
	struct name declared[NAMES], type[64];
	int n_declared, n_types;
	struct name stranger; /* the first name that nothing declares */
	int depth;            /* of brackets of any kind */
	/* what was read of the current declaration, if there is one */
	int follows_type;             /* the next name is declared */
	int listing, at_depth;        /* names after commas of this depth are declared, too */
	int tag, lists, defines_type; /* after struct, union or enum; enum; typedef */
	int enumerators;              /* depth of those of an enum; 0: none */
	int body, of_typedef;         /* depth of the members of a struct, union or enum */
	char before;                  /* the last character that was no space, name or number */
	int adjacent;                 /* nothing came after it */
};

static const char types[] =
	" void char short int long float double signed unsigned bool _Bool const volatile static "
	"inline register size_t int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t "
	"ZR_FN ";
static const char tags[] = " struct union enum ";
static const char others[] =
	" return if else for while do switch case default break continue sizeof true false ";
/* that the header defines outside of the text of its functions */
static const char given[] = " zr_sqrt zr_sqrt64 zr_bits_of zr_float_of ";

static int among(const char *words, struct name w)
{
	for (const char *at = words; (at = strstr(at, " ")); at++)
		if (!strncmp(at + 1, w.at, w.n) && at[1 + w.n] == ' ')
			return 1;
	return 0;
}

static int known(const struct name *names, int n, struct name w)
{
	for (int i = 0; i < n; i++)
		if (names[i].n == w.n && !memcmp(names[i].at, w.at, w.n))
			return 1;
	return 0;
}

static void declare(struct reader *r, struct name w)
{
	if (r->n_declared < NAMES)
		r->declared[r->n_declared++] = w;
	if (r->defines_type && r->n_types < 64)
		r->type[r->n_types++] = w;
	r->follows_type = 0;
	r->listing = 1;
}

static void read_type(struct reader *r)
{
	r->follows_type = 1;
	r->at_depth = r->depth;
}

static void read_name(struct reader *r, struct name w)
{
	const int comma = r->before == ',' && r->adjacent;

	if (among(tags, w)) {
		read_type(r);
		r->tag = 1;
		r->lists = *w.at == 'e';
	} else if (w.n == 7 && !memcmp(w.at, "typedef", 7)) {
		r->defines_type = 1;
	} else if (among(types, w) || known(r->type, r->n_types, w)) {
		read_type(r);
	} else if (among(others, w)) {
		r->follows_type = 0;
	} else if ((r->before == '.' || r->before == '>') && r->adjacent) {
		; /* a member */
	} else if (r->tag) {
		if (r->n_types < 64)
			r->type[r->n_types++] = w;
	} else if (r->follows_type ||
		   (r->enumerators == r->depth && r->depth && (comma || r->before == '{') &&
		    r->adjacent) ||
		   (comma && r->listing && r->depth == r->at_depth)) {
		declare(r, w);
	} else if (!known(r->declared, r->n_declared, w) && !among(given, w) && !r->stranger.at) {
		r->stranger = w;
	}
	r->tag = among(tags, w) ? r->tag : 0;
	r->adjacent = 0;
}

static void open_bracket(struct reader *r, char m)
{
	r->depth++;
	if (m == '{' && r->before != '=')
		r->listing = 0;
	if (m == '{' && r->lists)
		r->enumerators = r->depth;
	if (m == '{' && r->follows_type) {
		r->body = r->depth;
		r->of_typedef = r->defines_type;
		r->defines_type = 0;
	}

	r->follows_type = 0;
}

static void close_bracket(struct reader *r)
{
	const int body = r->body == r->depth;

	if (r->enumerators == r->depth)
		r->enumerators = 0;
	r->depth--;
	r->follows_type = 0;
	if (!body)
		return;

	r->body = 0;
	r->defines_type = r->of_typedef;
	read_type(r); /* what comes next has it */
}

static void read_mark(struct reader *r, char m)
{
	if (m == '*' && (r->follows_type || (r->before == ',' && r->adjacent)))
		return; /* of a pointer */
	if (strchr("([{", m))
		open_bracket(r, m);
	else if (strchr(")]}", m))
		close_bracket(r);
	else
		r->follows_type = 0;
	if (m == ';')
		r->listing = r->defines_type = 0;
	r->tag = r->lists = 0;
	r->before = m == '>' && r->before != '-' ? ' ' : m;
	r->adjacent = 1;
}

/* A number, with what may follow its first digit. */
static const char *after_number(const char *at)
{
	while (isalnum((unsigned char)*at) || *at == '.' ||
	       (strchr("+-", *at) && *at && strchr("eEpP", at[-1])))
		at++;
	return at;
}

static void read_text(struct reader *r, const char *at)
{
	while (*at) {
		const char *from = at;
		if (isspace((unsigned char)*at)) {
			at++;
		} else if (isdigit((unsigned char)*at) ||
			   (*at == '.' && isdigit((unsigned char)at[1]))) {
			at = after_number(at + 1);
			r->adjacent = 0;
		} else if (isalpha((unsigned char)*at) || *at == '_') {
			while (isalnum((unsigned char)*at) || *at == '_')
				at++;
			read_name(r, (struct name){ from, (size_t)(at - from) });
		} else {
			read_mark(r, *at);
			at++;
		}
	}
}

/* ---- the text ------------------------------------------------------------------- */

void zr_test_text(struct zr_check *c)
{
	static struct reader r;
	const struct zr_bench_way way = { .steps = 1 };

	const struct zr_bench *b = zr_bench_run(c, &way);
	if (!b->functions || !b->text)
		zr_check_skip(c, "it is not one of zeroth/elementwise.h");
	read_text(&r, b->functions);
	r.stranger.at = NULL;
	read_text(&r, b->text);
	if (r.stranger.at)
		zr_check_fail(c,
			      "its text has the name %.*s, which it does not declare: a device "
			      "compiles the text alone, without macros, headers and other parts of "
			      "the file; give it what it needs in k, or declare it in the text",
			      (int)r.stranger.n, r.stranger.at);
}
