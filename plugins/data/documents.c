/* SPDX-License-Identifier: Apache-2.0
 *
 * documents.c - see documents.h: what a file says of itself, and its documents as sequences.
 */
#include "documents.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "files/tokens/documents.h"
#include "windows.h"

#define FORMAT "zeroth.documents/1"
#define HEADER (100 << 20) /* the most bytes that safetensors allows */
#define GLANCE (1 << 20)   /* tokens looked at before a run */

/* ---- a file --------------------------------------------------------------------------------- */

static uint64_t header_bytes(const uint8_t *p, int64_t n)
{
	uint64_t header;
	memcpy(&header, p, n < 8 ? 0 : sizeof header);
	return n < 10 ? 0 : header;
}

int documents_found(const uint8_t *bytes, int64_t n)
{
	uint64_t header = header_bytes(bytes, n);
	return header > 1 && header <= HEADER && bytes[8] == '{';
}

struct tensor {
	const char *type;
	int64_t n;
	const uint8_t *at;
};

struct reading {
	const struct zr_host *h;
	const char *name;
	json_t *header;
	const uint8_t *data; /* behind the header */
	int64_t bytes;       /* of the data */
};

/* Bytes of an element; 0: a file with documents has no such numbers. */
static int width_of(const char *type)
{
	static const struct {
		const char *type;
		int width;
	} known[] = { { "U8", 1 }, { "U16", 2 }, { "U32", 4 }, { "I64", 8 } };

	for (size_t i = 0; type && i < sizeof known / sizeof *known; i++)
		if (!strcmp(type, known[i].type))
			return known[i].width;

	return 0;
}

/* Where tensor `key` of one dimension lies; at = NULL: there is none. */
static int find_tensor(const struct reading *r, const char *key, struct tensor *t)
{
	json_t *o = json_object_get(r->header, key), *shape = json_object_get(o, "shape"),
	       *at = json_object_get(o, "data_offsets");
	const char *type = json_string_value(json_object_get(o, "dtype"));
	const int width = width_of(type);
	int64_t from = json_integer_value(json_array_get(at, 0)),
		to = json_integer_value(json_array_get(at, 1));

	*t = (struct tensor){ type, json_integer_value(json_array_get(shape, 0)), NULL };
	if (!o)
		return ZR_OK;
	if (json_array_size(shape) != 1 || json_array_size(at) != 2 || !width || t->n < 0)
		return zr_fail(r->h, ZR_EINVAL,
			       "%s: tensor %s is no list of numbers U8, U16, U32 "
			       "or I64: the file is damaged, or of another program",
			       r->name, key);
	if (from < 0 || to < from || to > r->bytes || t->n > r->bytes || to - from != t->n * width)
		return zr_fail(r->h, ZR_EINVAL,
			       "%s: tensor %s of %lld elements lies at bytes %lld "
			       "to %lld of %lld: the file is truncated or damaged",
			       r->name, key, (long long)t->n, (long long)from, (long long)to,
			       (long long)r->bytes);

	t->at = r->data + from;
	return ZR_OK;
}

static int64_t offset(const struct documents_file *f, int64_t i)
{
	int64_t v;
	memcpy(&v, f->offsets + i * 8, sizeof v);
	return v;
}

static int check_offsets(const struct reading *r, const struct documents_file *f)
{
	int64_t at = offset(f, 0), i = 0, next;
	if (at)
		return zr_fail(r->h, ZR_EINVAL,
			       "%s: the first document begins at token %lld, not "
			       "at 0: the file is damaged",
			       r->name, (long long)at);

	for (; i < f->documents; i++, at = next)
		if ((next = offset(f, i + 1)) <= at || next > f->n)
			return zr_fail(r->h, ZR_EINVAL,
				       "%s: document %lld ends at token %lld; it "
				       "begins at %lld, and there are %lld: the file is damaged",
				       r->name, (long long)i, (long long)next, (long long)at,
				       (long long)f->n);
	if (at != f->n)
		return zr_fail(r->h, ZR_EINVAL,
			       "%s: the last document ends at token %lld, and "
			       "there are %lld: the file is damaged",
			       r->name, (long long)at, (long long)f->n);

	return ZR_OK;
}

/* Whether the tensors are of the types, and as long as each other, as they have to be. */
static int check_tensors(const struct reading *r, const struct tensor *tokens,
			 const struct tensor *learned, const struct tensor *offsets)
{
	if (!tokens->at || !offsets->at)
		return zr_fail(r->h, ZR_EINVAL, "%s: has no tensor %s: the file is damaged",
			       r->name, tokens->at ? "documents" : "tokens");
	if ((strcmp(tokens->type, "U16") && strcmp(tokens->type, "U32")) ||
	    (learned->at && strcmp(learned->type, "U8")) || strcmp(offsets->type, "I64"))
		return zr_fail(r->h, ZR_EINVAL,
			       "%s: tokens are %s, learned %s and documents %s, "
			       "which must be U16 or U32, U8 and I64: the file is damaged",
			       r->name, tokens->type, learned->at ? learned->type : "none",
			       offsets->type);
	if (!offsets->n || (learned->at && learned->n != tokens->n))
		return zr_fail(r->h, ZR_EINVAL,
			       "%s: %lld tokens, of which %lld are said to be "
			       "learned or not, and %lld offsets of documents: the file is damaged",
			       r->name, (long long)tokens->n, (long long)learned->n,
			       (long long)offsets->n);

	return ZR_OK;
}

static int find_tensors(const struct reading *r, struct documents_file *f)
{
	struct tensor tokens, learned, offsets;
	int rc = find_tensor(r, "tokens", &tokens);
	if (!rc)
		rc = find_tensor(r, "learned", &learned);
	if (!rc)
		rc = find_tensor(r, "documents", &offsets);
	if (!rc)
		rc = check_tensors(r, &tokens, &learned, &offsets);
	if (rc)
		return rc;

	f->tokens = tokens.at;
	f->width = width_of(tokens.type);
	f->n = tokens.n;
	f->learned = learned.at;
	f->offsets = offsets.at;
	f->documents = offsets.n - 1;
	return check_offsets(r, f);
}

static struct documents_count *count_of(struct documents *d, const char *name)
{
	const uint32_t room = sizeof d->count / sizeof *d->count;

	for (uint32_t i = 0; i < d->counts; i++)
		if (!strcmp(d->count[i].name, name))
			return &d->count[i];
	if (d->counts == room || strlen(name) >= sizeof d->count->name)
		return NULL;

	strcpy(d->count[d->counts].name, name);
	return &d->count[d->counts++];
}

/* The decimal number that a text is, from 0 on; -1: it is none. */
static int64_t number_of(const char *text)
{
	char *end = NULL;

	if (!text)
		return -1;

	errno = 0;
	int64_t n = strtoll(text, &end, 10);
	if (end == text || *end || errno)
		return -1;

	return n;
}

/* All decimal numbers of the metadata but the vocabulary are counts. */
static int take_metadata(const struct reading *r, struct documents *d)
{
	json_t *meta = json_object_get(r->header, "__metadata__"), *v;
	const char *format = json_string_value(json_object_get(meta, "format")), *key;
	if (!format || strcmp(format, FORMAT))
		return zr_fail(r->h, ZR_EINVAL,
			       "%s: is a file of safetensors without documents "
			       "(metadata format = %.40s, wanted " FORMAT "): write one by `zeroth "
			       "tokenize --documents`",
			       r->name, format ? format : "none");

	json_object_foreach(meta, key, v)
	{
		const int64_t n = number_of(json_string_value(v));
		if (n < 0)
			continue;
		if (!strcmp(key, "vocabulary")) {
			if (n > d->vocabulary)
				d->vocabulary = n;
			continue;
		}

		struct documents_count *c = count_of(d, key);
		if (c)
			c->value += n;
	}

	return ZR_OK;
}

int documents_add(const struct zr_host *h, struct documents *d, const char *name,
		  const uint8_t *bytes, int64_t n)
{
	uint64_t header = header_bytes(bytes, n);
	struct documents_file f = { .name = name, .first = d->documents };
	struct reading r = { .h = h, .name = name };
	struct zr_error err = { 0 };

	if (header > (uint64_t)n - 8)
		return zr_fail(h, ZR_EINVAL,
			       "%s: a header of %" PRIu64 " bytes in a file of %lld: "
			       "it is truncated",
			       name, header, (long long)n);

	int rc = zr_documents_header(name, (const char *)bytes + 8, header, &r.header, &err);
	if (rc)
		return zr_fail(h, rc, "%s", err.text);

	r.data = bytes + 8 + header;
	r.bytes = n - 8 - (int64_t)header;
	rc = take_metadata(&r, d);
	if (!rc)
		rc = find_tensors(&r, &f);
	json_decref(r.header);
	struct documents_file *more = rc ? NULL : realloc(d->f, (size_t)(d->n + 1) * sizeof *more);
	if (!rc && !more)
		rc = zr_fail(h, ZR_ENOMEM, "no memory");
	if (rc)
		return rc;

	d->f = more;
	d->f[d->n++] = f;
	d->documents += f.documents;
	d->tokens += f.n;
	return ZR_OK;
}

void documents_free(struct documents *d)
{
	free(d->f);
	memset(d, 0, sizeof *d);
}

/* ---- a document ----------------------------------------------------------------------------- */

/* The file that holds document *i of all, which becomes its place there. */
static const struct documents_file *file_at(const struct documents *d, int64_t *i)
{
	int low = 0, high = d->n - 1;
	while (low < high) {
		int mid = (low + high + 1) / 2;
		if (d->f[mid].first <= *i)
			low = mid;
		else
			high = mid - 1;
	}

	*i -= d->f[low].first;
	return &d->f[low];
}

static int is_chosen(const struct documents_part *part, int64_t i)
{
	double place = (double)(windows_key(part->held_out > 0, (uint64_t)i) >> 11) * 0x1p-53;
	return !(part->held_out > 0) || (place < part->held_out) == (part->split == ZR_SPLIT_VAL);
}

static int64_t tokens_of(const void *arg, int64_t i)
{
	const struct documents_part *part = arg;
	const struct documents_file *f;

	if (!is_chosen(part, i))
		return 0;

	f = file_at(part->of, &i);
	return offset(f, i + 1) - offset(f, i);
}

static int64_t targets_of(const void *arg, int64_t i, int64_t from, int64_t n)
{
	const struct documents_part *part = arg;
	const struct documents_file *f = file_at(part->of, &i);
	int64_t sum = 0;

	if (!f->learned)
		return n;

	const uint8_t *learned = f->learned + offset(f, i) + from;
	for (i = 0; i < n; i++)
		sum += learned[i] != 0;

	return sum;
}

/* ---- some of them, packed ------------------------------------------------------------------- */

static void choose(struct documents_part *part, const struct documents *d, double held_out,
		   int32_t split)
{
	*part = (struct documents_part){ .of = d, .held_out = held_out, .split = split };
	for (int64_t i = 0; i < d->documents; i++) {
		int64_t n = tokens_of(part, i);
		part->tokens += n;
		part->documents += n > 0;
	}
}

int documents_divide(const struct zr_host *h, const struct documents d[2], double held_out,
		     int evaluates, int shuffled, struct documents_part part[2])
{
	const int own = d[ZR_SPLIT_VAL].n > 0, val = own || held_out > 0;
	const struct documents *from = &d[own ? ZR_SPLIT_VAL : ZR_SPLIT_TRAIN];

	if (!evaluates)
		choose(&part[ZR_SPLIT_TRAIN], &d[ZR_SPLIT_TRAIN], held_out, ZR_SPLIT_TRAIN);
	part[ZR_SPLIT_TRAIN].shuffled = shuffled;
	if (val)
		choose(&part[ZR_SPLIT_VAL], from, held_out, ZR_SPLIT_VAL);
	if (evaluates || (part[ZR_SPLIT_TRAIN].documents && (part[ZR_SPLIT_VAL].documents || !val)))
		return ZR_OK;

	return zr_fail(h, ZR_EINVAL,
		       "%s: split = %g leaves %lld documents to train on and %lld "
		       "for validation: choose another",
		       from->f[0].name, held_out, (long long)part[0].documents,
		       (long long)part[1].documents);
}

static int64_t token_at(const struct documents_file *f, int64_t at)
{
	uint16_t narrow;
	uint32_t wide;

	if (f->width == 2) {
		memcpy(&narrow, f->tokens + at * 2, sizeof narrow);
		return narrow;
	}

	memcpy(&wide, f->tokens + at * 4, sizeof wide);
	return wide;
}

/* Whether the n tokens of f from `at` on are below the vocabulary. */
static int check_tokens(const struct zr_host *h, const struct documents_file *f, int64_t at,
			int64_t n, int64_t vocabulary)
{
	const int64_t end = at + n;

	for (; at < end; at++)
		if (token_at(f, at) >= vocabulary)
			return zr_fail(h, ZR_EINVAL,
				       "%s: token %lld at position %lld is not below "
				       "the vocabulary of %lld",
				       f->name, (long long)token_at(f, at), (long long)at,
				       (long long)vocabulary);

	return ZR_OK;
}

int documents_pack(const struct zr_host *h, struct documents_part *part, int packing,
		   int64_t length, int64_t vocabulary)
{
	const struct packing_source src = { part->of->documents, tokens_of, targets_of, part };
	int rc = ZR_OK;

	part->vocabulary = vocabulary;
	/* files of another tokenizer seldom pass, and reading all of them could take minutes */
	for (int i = 0; i < part->of->n && !rc; i++) {
		const struct documents_file *f = &part->of->f[i];
		rc = check_tokens(h, f, 0, f->n < GLANCE ? f->n : GLANCE, vocabulary);
	}

	if (!rc)
		rc = packing_make(h, &part->packing, packing, length, &src);
	if (!rc && !part->packing.n)
		rc = zr_fail(h, ZR_EINVAL, "%s: %s has no target among %lld document%s",
			     part->of->f[0].name, windows_split(part->split),
			     (long long)part->documents, part->documents == 1 ? "" : "s");

	return rc;
}

static int64_t first_sequence(const struct zr_batch *b, int64_t slot)
{
	return (b->split == ZR_SPLIT_VAL ? slot : b->step * b->slots + slot) * b->sequences;
}

static void write_row(const struct zr_batch *b, int64_t row, int64_t start, int32_t token,
		      int32_t target)
{
	const int64_t at = row % b->length;

	b->inputs[row] = token;
	b->targets[row] = target;
	b->starts[row] = (int32_t)start;
	b->positions[row] = (int32_t)(at - start);
	b->weights[row] = target < 0 ? 0 : 1;
}

/* The rows of a piece, from row `row` of the batch on. */
static int write_piece(const struct zr_host *h, const struct documents_part *part,
		       const struct piece *p, const struct zr_batch *b, int64_t row)
{
	int64_t i = p->document, start = row % b->length, at, end;
	const struct documents_file *f = file_at(part->of, &i);

	at = offset(f, i) + p->from;
	end = at + p->rows;
	int rc = check_tokens(h, f, at, end - at + 1, part->vocabulary);
	for (; !rc && at < end; at++)
		write_row(b, row++, start, (int32_t)token_at(f, at),
			  !f->learned || f->learned[at + 1] ? (int32_t)token_at(f, at + 1) :
							      ZR_NO_TARGET);

	return rc;
}

int documents_batch(const struct zr_host *h, const struct documents_part *part,
		    const struct zr_batch *b)
{
	const struct packing *pack = &part->packing;
	int64_t s, i, row = 0, first = first_sequence(b, b->slot);
	int rc = ZR_OK;

	if (!pack->n || pack->length != b->length)
		return zr_fail(h, ZR_ESTATE, "%s batches of length %lld were not prepared",
			       windows_split(b->split), (long long)b->length);

	for (s = 0; s < b->sequences && !rc; s++) {
		struct packing_visit v = packing_visit(pack, b->seed, first + s, part->shuffled);
		const struct piece *p;
		for (i = 0; !rc && (p = packing_piece(pack, &v, i)); i++, row += p->rows)
			rc = write_piece(h, part, p, b, row);
		for (; !rc && row < (s + 1) * b->length; row++) /* padding */
			write_row(b, row, row % b->length, 0, ZR_PADDING);
	}

	return rc;
}

double documents_targets(const struct documents_part *part, const struct zr_batch *b)
{
	const struct packing *pack = &part->packing;
	const int evaluates = b->split == ZR_SPLIT_VAL;
	int64_t g = first_sequence(b, evaluates ? b->slot : 0), i;
	int64_t end = first_sequence(b, evaluates ? b->slot + 1 : b->slots), sum = 0;

	for (; pack->n && g < end; g++) {
		struct packing_visit v = packing_visit(pack, b->seed, g, part->shuffled);
		const struct piece *p;
		for (i = 0; (p = packing_piece(pack, &v, i)); i++)
			sum += p->targets;
	}

	return (double)sum;
}

int documents_has(const struct documents_part *part, int64_t d)
{
	return d < part->of->documents && tokens_of(part, d) > 0;
}

int documents_are(const struct documents_part *part, int64_t d, const int32_t *ids,
		  const uint8_t *learned, int64_t n)
{
	const struct documents_file *f = file_at(part->of, &d);
	const int64_t at = offset(f, d);

	if (offset(f, d + 1) - at != n)
		return 0;
	for (int64_t i = 0; i < n; i++)
		if (token_at(f, at + i) != ids[i] ||
		    (i && f->learned && !f->learned[at + i] != !learned[i]))
			return 0;

	return 1;
}

int documents_lengths(const struct documents_part *part,
		      int (*fn)(void *arg, int64_t tokens, int64_t targets), void *arg)
{
	int rc = ZR_OK;

	for (int64_t d = 0; d < part->of->documents && !rc; d++) {
		const int64_t n = tokens_of(part, d);
		if (n)
			rc = fn(arg, n, targets_of(part, d, 1, n - 1));
	}

	return rc;
}

void documents_tell(const struct documents_part *part, uint32_t i, struct zr_data_count *out)
{
	const struct packing *p = &part->packing;
	const int64_t rows = p->n * p->length;

	out->name = NULL;
	if (!part->of)
		return;

	const struct zr_data_count own[] = {
		{ .name = "documents", .value = part->documents },
		{ .name = "tokens", .value = part->tokens },
		{ .name = "targets", .value = p->targets, .of = p->rows },
		{ .name = "sequences", .value = p->n },
		{ .name = "rows of padding", .value = rows - p->rows, .of = rows },
		{ .name = "tokens of the longest document", .value = p->longest },
		{ .name = "documents cut", .value = p->cut, .of = part->documents },
		{ .name = "left out: no target", .value = p->unlearned },
	};
	const uint32_t n = sizeof own / sizeof *own;
	if (i < n) {
		out->name = own[i].name;
		out->value = own[i].value;
		out->of = own[i].of;
	} else if (i - n < part->of->counts) {
		out->name = part->of->count[i - n].name;
		out->value = part->of->count[i - n].value;
	}
}
