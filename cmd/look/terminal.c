/* SPDX-License-Identifier: Apache-2.0
 *
 * terminal.c - see look.h: a line for each segment, or for each line that it has: whose it is, what
 * it is, whether it is learned, its text. A segment that ends with a line end has \n there.
 */
#include <string.h>

#include "cmd/look/look.h"
#include "cmd/report/histogram.h"

#define WIDE 72 /* columns of a histogram */

static const char *colour_of(const struct zr_segment *s)
{
	static const struct {
		const char *role, *code;
	} of[] = {
		{ "system", "\033[35m" }, { "developer", "\033[35m" }, { "user", "\033[36m" },
		{ "tool", "\033[33m" },   { "assistant", "\033[32m" },
	};

	if (s->kind == ZR_PART_TEMPLATE)
		return "\033[2m";
	if (s->kind == ZR_PART_TOOLS)
		return "\033[34m";
	for (size_t i = 0; i < sizeof of / sizeof *of; i++)
		if (s->role && !strcmp(s->role, of[i].role))
			return of[i].code;

	return "";
}

static void put_colour(const struct zr_look_out *o, const char *code)
{
	if (o->colours)
		fputs(code, o->f);
}

/* What stands before each line of a segment. */
static void put_gutter(struct zr_look_out *o, const struct zr_segment *s, int first)
{
	const char *role = "", *kind = "";

	if (first && (s->role != o->last_role || s->message != o->last_message))
		role = s->role ? s->role : "-";
	if (first)
		kind = zr_look_kind(s);
	put_colour(o, "\033[2m");
	fprintf(o->f, "  %-9s %-8s ", role, kind);
	put_colour(o, "\033[0m");
	put_colour(o, s->learned ? "\033[1m" : "\033[2m");
	fputs(s->learned ? "+| " : " | ", o->f);
	put_colour(o, "\033[0m");
}

static void put_hidden(const struct zr_look_out *o, const char *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		fprintf(o->f, "\\x%02x", (unsigned char)p[i]);
}

/* Up to the next line end, or the end; returns how many bytes that are. */
static size_t put_line(struct zr_look_out *o, const struct zr_segment *s, const char *p, size_t n)
{
	size_t at = 0;

	put_colour(o, colour_of(s));
	put_colour(o, s->learned ? "\033[1m" : "");
	put_colour(o, s->kind == ZR_PART_THOUGHT ? "\033[3m" : "");
	while (at < n && p[at] != '\n') {
		int shown;
		const size_t bytes = zr_look_character(p + at, n - at, &shown);
		if (shown)
			fwrite(p + at, 1, bytes, o->f);
		else
			put_hidden(o, p + at, bytes);
		at += bytes;
	}

	if (at + 1 == n)
		fputs("\\n", o->f);
	put_colour(o, "\033[0m");
	putc('\n', o->f);
	return at < n ? at + 1 : n;
}

struct printing {
	struct zr_look_out *o;
	const struct zr_seen *seen;
};

static int print_segment(void *arg, const struct zr_segment *s)
{
	struct printing *p = arg;
	struct zr_look_out *o = p->o;
	int first = 1;

	if (zr_look_bytes(o->text, p->seen->ids + s->from, s->to - s->from, &o->bytes))
		return ZR_ENOMEM;
	for (size_t at = 0; at < o->bytes.n || first; first = 0) {
		put_gutter(o, s, first);
		at += put_line(o, s, o->bytes.p + at, o->bytes.n - at);
	}

	o->last_role = s->role;
	o->last_message = s->message;
	return 0;
}

static int print_note(void *arg, const char *text)
{
	struct printing *p = arg;

	put_colour(p->o, "\033[31m");
	fprintf(p->o->f, "  --------- %s", text);
	put_colour(p->o, "\033[0m");
	putc('\n', p->o->f);
	return 0;
}

void zr_look_legend(struct zr_look_out *o)
{
	fputs("each line: whose it is, what it is, +| where it is learned, its text\n", o->f);
}

static void print_head(struct zr_look_out *o, const struct zr_seen *s)
{
	put_colour(o, "\033[1m");
	fputs("=== ", o->f);
	if (s->number)
		fprintf(o->f, "conversation %lld, ", (long long)s->number);
	fprintf(o->f, "%s:%lld%s: ", s->file, (long long)s->line,
		zr_look_again(o, s) ? ", again" : "");
	if (s->why)
		fprintf(o->f, "left out: %s", s->why);
	else
		fprintf(o->f, "%lld tokens, %lld learned", (long long)s->n,
			(long long)zr_look_targets(s));
	put_colour(o, "\033[0m");
	putc('\n', o->f);
}

int zr_look_print(struct zr_look_out *o, const struct zr_seen *seen)
{
	struct printing p = { o, seen };
	const struct zr_segment_sink sink = { print_segment, print_note, &p };

	o->last_role = NULL;
	o->last_message = -2;
	print_head(o, seen);
	int rc = zr_look_notes(seen, &sink);
	if (!rc && !seen->why)
		rc = zr_look_segments(seen, &sink);
	return rc;
}

/* ---- statistics ---- */

static void print_spread(struct zr_look_out *o, const char *name, const struct zr_spread *s)
{
	fprintf(o->f, "  %-8s %9lld %9lld %11.1f %9lld %9lld\n", name, (long long)s->least,
		(long long)s->middle, s->mean, (long long)s->p95, (long long)s->most);
}

void zr_look_print_lengths(struct zr_look_out *o, struct zr_lengths *l)
{
	struct zr_spread tokens, targets;
	struct zr_histogram h;

	if (!l->n)
		return;

	zr_lengths_spread(l->tokens, l->n, &tokens);
	zr_lengths_spread(l->targets, l->n, &targets);
	fprintf(o->f, "%lld conversations\n  %-8s %9s %9s %11s %9s %9s\n", (long long)l->n, "",
		"min", "median", "mean", "p95", "max");
	print_spread(o, "tokens", &tokens);
	print_spread(o, "learned", &targets);
	fprintf(o->f, "  learned: %.1f %% of the tokens\n", 100 * targets.sum / tokens.sum);
	zr_histogram_make(&h, l->tokens, l->n, 12);
	fputs("conversations by their tokens\n", o->f);
	zr_histogram_print(o->f, &h, WIDE);
}
