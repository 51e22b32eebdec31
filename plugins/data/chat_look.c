/* SPDX-License-Identifier: Apache-2.0
 *
 * chat_look.c - see chat.h: the files are read again as for the tokens that are kept, by one
 * thread, up to the last document that is asked for. Each document that is shown is compared with
 * those tokens, which training reads.
 */
#include "chat.h"

#include <stdlib.h>

#include "files/chat/chat.h"

struct looking {
	const struct zr_host *h;
	const struct documents_part *part;
	const struct zr_look *look;
	int64_t document; /* the next one, of all */
	int64_t number;   /* documents so far that take part */
	int64_t at;       /* documents and records so far */
	int done;
	int rc;                 /* of who looks */
	struct piece *piece;    /* [room] */
	struct zr_piece *shown; /* [room] */
	int64_t room;
	struct zr_error err;
};

static void all_at_once(void *of, int64_t n, void (*fn)(void *arg, int64_t item, int32_t thread),
			void *arg)
{
	(void)of;
	for (int64_t i = 0; i < n; i++)
		fn(arg, i, 0);
}

static int take_nothing(void *arg, const int32_t *ids, const uint8_t *learned, size_t n)
{
	(void)arg, (void)ids, (void)learned, (void)n;
	return 0;
}

static int show(struct looking *l, const struct zr_seen *seen)
{
	l->rc = l->look->seen(l->look->arg, seen);
	return l->rc;
}

static int make_room(struct looking *l, int64_t room)
{
	free(l->piece);
	free(l->shown);
	l->piece = calloc((size_t)room, sizeof *l->piece);
	l->shown = calloc((size_t)room, sizeof *l->shown);
	l->room = l->piece && l->shown ? room : 0;
	if (l->room)
		return 0;

	return zr_err(&l->err, ZR_ENOMEM, "out of memory for %lld pieces", (long long)room);
}

/* Where packing cut a document. */
static int find_pieces(struct looking *l, int64_t document, struct zr_seen *seen)
{
	const struct packing *packing = &l->part->packing;
	const int64_t n = packing_pieces(packing, document, l->piece, l->room);
	int rc = 0;

	if (n > l->room) {
		rc = make_room(l, 2 * n);
		packing_pieces(packing, document, l->piece, l->room);
	}

	if (rc)
		return rc;

	for (int64_t i = 0; i < n; i++)
		l->shown[i] = (struct zr_piece){ l->piece[i].from, l->piece[i].rows };
	seen->piece = l->shown;
	seen->pieces = n;
	return 0;
}

static int show_document(struct looking *l, const struct zr_chat_look *of, int64_t document,
			 struct zr_seen *seen)
{
	size_t parts = 0, unknown = 0;

	if (!documents_are(l->part, document, of->ids, of->learned, (int64_t)of->n))
		return zr_err(&l->err, ZR_ESTATE,
			      "%s:%lld: gives other tokens than those that are kept: the file "
			      "changed in the meantime",
			      of->path, (long long)of->line);

	int rc = zr_chat_parts(of, &seen->part, &parts, &unknown, &l->err);
	if (rc)
		return rc;

	seen->number = l->number;
	seen->ids = of->ids;
	seen->learned = of->learned;
	seen->n = (int64_t)of->n;
	seen->parts = (int64_t)parts;
	seen->unknown = (int64_t)unknown;
	seen->whole = (int64_t)of->whole;
	seen->lost = (int64_t)of->lost;
	rc = find_pieces(l, document, seen);
	if (rc)
		return rc;

	return show(l, seen);
}

static int take_look(void *arg, const struct zr_chat_look *of)
{
	struct looking *l = arg;
	const int64_t document = l->document;
	struct zr_seen seen = { .size = sizeof seen, .file = of->path, .line = of->line };

	seen.why = of->why;
	l->document += !of->why;
	if (!of->why && !documents_has(l->part, document))
		return 0; /* it is of the other part */

	l->number += !of->why;
	const int64_t at = l->at++;
	if (at < l->look->from)
		return 0;
	if (at >= l->look->from + l->look->n) {
		l->done = 1;
		return ZR_ESTATE;
	}

	return of->why ? show(l, &seen) : show_document(l, of, document, &seen);
}

static int look_at_files(struct looking *l, const struct chat_opts *o, const struct files *fs)
{
	struct zr_chat *chat = NULL;
	struct zr_chat_options options;

	chat_options(l->h, o, &options);
	options.threads = 1;
	options.parallel = all_at_once;
	options.sink = take_nothing;
	options.look = take_look;
	options.arg = l;
	int rc = zr_chat_open(&options, &chat, &l->err);
	for (int i = 0; i < fs->n && !rc; i++)
		rc = zr_chat_file(chat, fs->f[i].name, &l->err);
	zr_chat_close(chat);
	if (l->done)
		return ZR_OK;
	if (l->rc)
		return l->rc;
	if (rc)
		return zr_fail(l->h, rc, "%s", l->err.text);

	return ZR_OK;
}

int chat_look(const struct zr_host *h, const struct chat_opts *o, const struct files *fs,
	      const struct documents_part *part, const struct zr_look *look)
{
	int rc = documents_lengths(part, look->length, look->arg);
	if (rc || !look->n)
		return rc;

	struct looking *l = calloc(1, sizeof *l);
	if (!l)
		return zr_fail(h, ZR_ENOMEM, "no memory");

	l->h = h;
	l->part = part;
	l->look = look;
	rc = look_at_files(l, o, fs);
	free(l->piece);
	free(l->shown);
	free(l);
	return rc;
}
