/* SPDX-License-Identifier: Apache-2.0
 *
 * page.c - see look.h: a page in the frame of cmd/report/frame.h. What is learned is underlined and
 * on a ground of its own; thoughts and definitions of tools fold.
 */
#include <string.h>

#include "cmd/look/look.h"
#include "cmd/report/frame.h"
#include "cmd/report/histogram.h"
#include "cmd/report/html.h"

struct paging {
	struct zr_look_out *o;
	const struct zr_seen *seen;
};

/* Any bytes: what is no character, and what has no look, is shown as its bytes. */
static void put_text(FILE *f, const char *p, size_t n)
{
	for (size_t at = 0, bytes; at < n; at += bytes) {
		char one[8] = { 0 };
		int shown;
		bytes = zr_look_character(p + at, n - at, &shown);
		if (shown) {
			memcpy(one, p + at, bytes);
			zr_html_text(f, one);
			continue;
		}

		fputs("<code>", f);
		for (size_t i = 0; i < bytes; i++)
			fprintf(f, "\\x%02x", (unsigned char)p[at + i]);
		fputs("</code>", f);
	}
}

/* ---- a conversation ---- */

static void close_message(struct zr_look_out *o)
{
	if (o->open)
		fputs("</div></section>\n", o->f);
	o->open = 0;
}

static void open_message(struct zr_look_out *o, const struct zr_segment *s)
{
	const char *whose = s->role;

	if (!whose)
		whose = s->kind == ZR_PART_TOOLS ? "tools" : "template";
	if (o->open && whose == o->last_role && s->message == o->last_message)
		return;

	close_message(o);
	fprintf(o->f, "<section class=\"msg %s\"><b>%s</b><div class=\"words\">", whose, whose);
	o->open = 1;
	o->last_role = whose;
	o->last_message = s->message;
}

/* Thoughts and tools, which fold. */
static int folds(const struct zr_segment *s)
{
	return s->kind == ZR_PART_THOUGHT || s->kind == ZR_PART_TOOLS;
}

static void put_segment(struct zr_look_out *o, const struct zr_segment *s)
{
	FILE *f = o->f;

	if (folds(s))
		fprintf(f, "<details%s><summary>%s, %lld tokens%s</summary><div>",
			s->kind == ZR_PART_THOUGHT ? " open" : "",
			s->kind == ZR_PART_THOUGHT ? "thought" : "definitions of tools",
			(long long)(s->to - s->from), s->learned ? ", learned" : "");
	fputs(s->learned ? "<ins>" : "", f);
	if (s->kind == ZR_PART_TEMPLATE)
		fputs("<i class=\"template\">", f);
	if (s->kind == ZR_PART_CALL)
		fputs("<em title=\"call of a tool\">", f);
	put_text(f, o->bytes.p, o->bytes.n);
	if (s->kind == ZR_PART_CALL)
		fputs("</em>", f);
	if (s->kind == ZR_PART_TEMPLATE)
		fputs("</i>", f);
	fputs(s->learned ? "</ins>" : "", f);
	if (folds(s))
		fputs("</div></details>", f);
}

static int page_segment(void *arg, const struct zr_segment *s)
{
	struct paging *p = arg;
	struct zr_look_out *o = p->o;

	if (zr_look_bytes(o->text, p->seen->ids + s->from, s->to - s->from, &o->bytes))
		return ZR_ENOMEM;

	open_message(o, s);
	put_segment(o, s);
	return 0;
}

static int page_note(void *arg, const char *text)
{
	struct paging *p = arg;

	close_message(p->o);
	fputs("<p class=\"cut\">", p->o->f);
	zr_html_text(p->o->f, text);
	fputs("</p>\n", p->o->f);
	return 0;
}

static void put_place(FILE *f, const struct zr_seen *s)
{
	zr_html_text(f, s->file);
	fprintf(f, ":%lld", (long long)s->line);
}

static void put_head(struct zr_look_out *o, const struct zr_seen *s)
{
	FILE *f = o->f;
	char n[ZR_NUMBER_ROOM], learned[ZR_NUMBER_ROOM];

	fputs("<article class=\"card talk\">\n<h3>", f);
	if (s->number)
		fprintf(f, "conversation %lld ", (long long)s->number);
	fputs("<small>", f);
	put_place(f, s);
	fputs(zr_look_again(o, s) ? ", again</small>" : "</small>", f);
	if (!s->why)
		fprintf(f, "<small>%s tokens, %s learned</small>", zr_number((double)s->n, n),
			zr_number((double)zr_look_targets(s), learned));
	fputs("</h3>\n", f);
	if (s->why) {
		fputs("<p class=\"cut\">left out: ", f);
		zr_html_text(f, s->why);
		fputs("</p>\n", f);
	}
}

int zr_look_page_messages(struct zr_look_out *o, const struct zr_seen *seen)
{
	struct paging p = { o, seen };
	const struct zr_segment_sink sink = { page_segment, page_note, &p };

	o->open = 0;
	int rc = zr_look_segments(seen, &sink);
	close_message(o);
	return rc;
}

int zr_look_page_add(struct zr_look_out *o, const struct zr_seen *seen)
{
	struct paging p = { o, seen };
	const struct zr_segment_sink sink = { page_segment, page_note, &p };

	put_head(o, seen);
	int rc = zr_look_notes(seen, &sink);
	if (!rc && !seen->why)
		rc = zr_look_page_messages(o, seen);
	fputs("</article>\n", o->f);
	return rc;
}

/* ---- the page ---- */

void zr_look_page_begin(struct zr_look_out *o, const char *name, const char *describe)
{
	static const struct zr_page_link links[] = { { "conversations", "conversations" },
						     { "lengths", "lengths" },
						     { NULL, NULL } };
	FILE *f = o->f;

	zr_page_begin(f);
	zr_html_text(f, name);
	fputs(" - Zeroth", f);
	zr_page_body(f, zr_look_css, "What is learned", links);
	fputs("<p class=\"state\">", f);
	zr_html_text(f, describe);
	fputs("</p>\n<h2 id=\"conversations\">Conversations</h2>\n<div class=\"card key\">", f);
	for (const char *const *role =
		     (const char *const[]){ "system", "user", "assistant", "tool", NULL };
	     *role; role++)
		fprintf(f, "<span class=\"msg %s\"><b>%s</b></span>", *role, *role);
	fputs("<span class=\"words\"><i class=\"template\">what the template writes</i></span>"
	      "<span class=\"words\"><ins>what is learned</ins></span>"
	      "<span class=\"words\"><em>call of a tool</em></span>"
	      "<span class=\"words\"><code>\\x00</code> bytes that have no look</span></div>\n",
	      f);
}

static void put_row(FILE *f, const char *name, const struct zr_spread *s)
{
	const double v[] = { (double)s->least, (double)s->middle, s->mean, (double)s->p95,
			     (double)s->most };
	char text[ZR_NUMBER_ROOM];

	fprintf(f, "<tr><th>%s</th>", name);
	for (size_t i = 0; i < sizeof v / sizeof *v; i++)
		fprintf(f, "<td>%s</td>", zr_number(v[i], text));
	fputs("</tr>\n", f);
}

static void put_counts(FILE *f, const struct zr_look_count *count, int counts)
{
	char text[ZR_NUMBER_ROOM];

	fputs("<div class=\"card wide\"><table><thead><tr><th>what became of them</th><th></th>"
	      "</tr></thead><tbody>\n",
	      f);
	for (int i = 0; i < counts; i++) {
		fputs("<tr><th>", f);
		zr_html_text(f, count[i].name);
		fprintf(f, "</th><td>%s</td></tr>\n", zr_number((double)count[i].value, text));
	}

	fputs("</tbody></table></div>\n", f);
}

void zr_look_page_lengths(struct zr_look_out *o, struct zr_lengths *l,
			  const struct zr_look_count *count, int counts)
{
	struct zr_spread tokens, targets;
	struct zr_histogram h;
	FILE *f = o->f;

	if (!l->n)
		return;

	zr_lengths_spread(l->tokens, l->n, &tokens);
	zr_lengths_spread(l->targets, l->n, &targets);
	fputs("<h2 id=\"lengths\">Lengths</h2>\n<div class=\"card wide\"><table><thead><tr>"
	      "<th>of a conversation</th><th>min</th><th>median</th><th>mean</th><th>p95</th>"
	      "<th>max</th></tr></thead><tbody>\n",
	      f);
	put_row(f, "tokens", &tokens);
	put_row(f, "learned", &targets);
	fprintf(f,
		"</tbody></table><p class=\"note\">%.1f %% of the tokens are learned.</p></div>\n",
		100 * targets.sum / tokens.sum);
	fputs("<div class=\"grid2\"><div class=\"card\">", f);
	zr_histogram_make(&h, l->tokens, l->n, 24);
	zr_histogram_draw(f, &h, "Conversations by their tokens", "tokens");
	fputs("</div><div class=\"card\">", f);
	zr_histogram_make(&h, l->targets, l->n, 24);
	zr_histogram_draw(f, &h, "Conversations by what is learned of them", "learned tokens");
	fputs("</div></div>\n<p></p>\n", f);
	put_counts(f, count, counts);
}

void zr_look_page_end(struct zr_look_out *o)
{
	zr_page_footer(o->f, "Written by zeroth data show.");
	zr_page_end(o->f);
}
