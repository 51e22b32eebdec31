/* SPDX-License-Identifier: Apache-2.0
 *
 * segments.c - see look.h.
 */
#include <stdlib.h>
#include <string.h>

#include "cmd/look/look.h"
#include "files/tokenizer/utf8.h"

/* ---- where it was cut ---- */

struct cuts {
	const struct zr_seen *seen;
	int64_t piece; /* the next one */
	int64_t row;   /* rows so far */
};

/* The token before which the next cut stands; n: there is none. Its text goes to `text`. */
static int64_t next_cut(struct cuts *c, char *text, size_t room)
{
	const struct zr_seen *s = c->seen;
	const int64_t rows = s->n - 1;

	if (c->piece == s->pieces) {
		const int64_t at = c->row ? c->row + 1 : 0, left = rows - c->row;
		c->row = rows;
		snprintf(text, room,
			 "left out from here: no sequence has the last %lld tokens, of "
			 "which none is learned",
			 (long long)left + !at);
		return left > 0 ? at : s->n;
	}

	const struct zr_piece *p = &s->piece[c->piece];
	if (p->from > c->row) {
		const int64_t at = c->row ? c->row + 1 : 0, left = p->from - c->row;
		c->row = p->from;
		snprintf(text, room,
			 "left out from here: no sequence has the next %lld tokens, of which none "
			 "is learned",
			 (long long)left);
		return at;
	}

	c->piece++;
	c->row = p->from + p->rows;
	if (!p->from)
		return next_cut(c, text, room);

	snprintf(text, room, "cut: the sequence is full, and another one goes on here");
	return p->from + 1;
}

int zr_look_notes(const struct zr_seen *seen, const struct zr_segment_sink *to)
{
	char text[160];
	int rc = 0;

	if (seen->lost) {
		snprintf(text, sizeof text,
			 "cut: its oldest %lld messages are left out: with them it has %lld "
			 "tokens, more than max_length",
			 (long long)seen->lost, (long long)seen->whole);
		rc = to->note(to->arg, text);
	}
	if (!rc && seen->unknown) {
		snprintf(text, sizeof text,
			 "%lld of its texts are shown as template: where they begin and end is "
			 "not known",
			 (long long)seen->unknown);
		rc = to->note(to->arg, text);
	}
	return rc;
}

/* ---- segments ---- */

static int is_learned(const struct zr_seen *s, int64_t token)
{
	return token > 0 && s->learned[token];
}

int64_t zr_look_targets(const struct zr_seen *seen)
{
	int64_t sum = 0;

	for (int64_t i = 0; i < seen->n; i++)
		sum += is_learned(seen, i);

	return sum;
}

/* The tokens from `at` on that are alike, before `end`. */
static int64_t end_of_segment(const struct zr_seen *s, int64_t at, int64_t end)
{
	const int learned = is_learned(s, at);

	while (at < end && is_learned(s, at) == learned)
		at++;
	return at;
}

static int put_part(const struct zr_seen *s, int64_t part, int64_t from, int64_t to,
		    const struct zr_segment_sink *sink)
{
	int rc = 0;

	for (int64_t at = from, end; !rc && at < to; at = end) {
		end = end_of_segment(s, at, to);
		const struct zr_segment segment = { .from = at,
						    .to = end,
						    .kind = s->part[part].kind,
						    .message = s->part[part].message,
						    .role = s->part[part].role,
						    .learned = is_learned(s, at) };
		rc = sink->segment(sink->arg, &segment);
	}

	return rc;
}

int zr_look_segments(const struct zr_seen *seen, const struct zr_segment_sink *to)
{
	char why[160];
	struct cuts cuts = { .seen = seen };
	int64_t cut = next_cut(&cuts, why, sizeof why);
	int rc = 0;

	for (int64_t i = 0; !rc && i < seen->parts; i++) {
		const int64_t end = i + 1 < seen->parts ? seen->part[i + 1].from : seen->n;
		int64_t at = seen->part[i].from;
		while (!rc && cut < end) {
			if (cut > at)
				rc = put_part(seen, i, at, cut, to);
			if (!rc)
				rc = to->note(to->arg, why);
			at = cut > at ? cut : at;
			cut = cuts.row < seen->n - 1 || cuts.piece < seen->pieces ?
				      next_cut(&cuts, why, sizeof why) :
				      seen->n;
		}
		if (!rc)
			rc = put_part(seen, i, at, end, to);
	}

	return rc;
}

const char *zr_look_kind(const struct zr_segment *s)
{
	static const char *const words[] = { "template", "text", "thought", "call", "tools" };

	if (s->kind == ZR_PART_TEXT && s->role && !strcmp(s->role, "tool"))
		return "output";
	if (s->kind < 0 || s->kind >= (int)(sizeof words / sizeof *words))
		return "?";

	return words[s->kind];
}

int zr_look_again(struct zr_look_out *o, const struct zr_seen *seen)
{
	const int again = o->last_file == seen->file && o->last_line == seen->line;

	o->last_file = seen->file;
	o->last_line = seen->line;
	return again;
}

/* ---- text ---- */

static int add_bytes(struct zr_look_text *to, const char *p, size_t n)
{
	if (to->room - to->n < n) {
		const size_t room = 2 * to->room + n + 256;
		char *more = realloc(to->p, room);
		if (!more)
			return ZR_ENOMEM;

		to->p = more;
		to->room = room;
	}

	memcpy(to->p + to->n, p, n);
	to->n += n;
	return 0;
}

int zr_look_bytes(struct zr_token_text *text, const int32_t *ids, int64_t n,
		  struct zr_look_text *out)
{
	char scratch[16];

	out->n = 0;
	for (int64_t i = 0; i < n; i++) {
		size_t bytes = 0;
		const char *p = zr_token_text_bytes(text, ids[i], &bytes, scratch);
		if (p && add_bytes(out, p, bytes))
			return ZR_ENOMEM;
	}

	return 0;
}

/* Controls, and characters that turn a line round or hide what stands beside them. */
static int is_hidden(int32_t c)
{
	if (c < 0x20)
		return c != '\n' && c != '\t';

	return (c >= 0x7f && c < 0xa0) || (c >= 0x200e && c <= 0x200f) ||
	       (c >= 0x202a && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069);
}

size_t zr_look_character(const char *p, size_t n, int *shown)
{
	const int bytes = zr_utf8_at(p, n);

	if (bytes > 0) {
		*shown = !is_hidden(zr_utf8_value(p));
		return (size_t)bytes;
	}

	*shown = 0;
	return bytes < 0 ? (size_t)-bytes : n;
}
