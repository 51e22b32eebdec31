/* SPDX-License-Identifier: Apache-2.0
 *
 * tokenize.c - zeroth tokenize --tokenizer FILE -o OUT IN...: text to a file of tokens for
 * data/tokens.
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/cmd.h"
#include "train/fit.h"
#include "files/chat/input.h"
#include "files/content.h"
#include "train/run/progress.h"
#include "train/rundir.h"
#include "cmd/tokenize.h"
#include "cmd/tokenize_rows.h"
#include "core/base/log.h"
#include "files/tokenizer/tokenizer.h"
#include "files/tokens/documents.h"
#include "files/tokens/token_file.h"

#define CHUNK (1 << 16) /* bytes encoded at a time: all copies stay in the cache */

struct job {
	const char *tokenizer, *add_tokens, *output, *eot;
	char **in;
	int n_in, add_special, raw, force, apart, chat; /* apart: --documents */
	const char *content, *field;                    /* field: "text=NAME", of rows */
	int64_t chunk; /* --chunk-bytes is for tests: tokens must not depend on it */
	struct zr_tokenizer *t;
	struct zr_encoder *encoder;
	struct zr_token_file *file; /* or */
	struct zr_documents *documents;
	struct zr_error *err;
	const char *bad; /* the first input with what is no UTF-8, NULL: none; where, and */
	uint64_t bad_at;
	int32_t eot_id; /* -1: none */
	double start, shown;
	int64_t rows, empty; /* of --content rows: all, and those without a text to learn */
	uint64_t text;       /* bytes of text so far */
	uint64_t all, done;  /* bytes of all inputs, of those that are done; all = 0: not known */
	int tty;
};

/* ---- the command line ---- */

#define AT(member) offsetof(struct job, member)

static const struct zr_cmd_option options[] = {
	{ 'T', "tokenizer", "FILE",
	  "tokenizer.json (BPE, Unigram or WordPiece), or the directory of a model that has one",
	  .kind = ZR_CMD_TEXT, .at = AT(tokenizer), .place = ZR_CMD_REQUIRED },
	{ 0, "add-tokens", "LIST",
	  "special tokens, separated by blanks, that the tokenizer gets: [model] add_tokens of the "
	  "training",
	  .kind = ZR_CMD_TEXT, .at = AT(add_tokens) },
	{ 'o', "output", "OUT", "file to write, which must not be there", .kind = ZR_CMD_TEXT,
	  .at = AT(output), .place = ZR_CMD_REQUIRED },
	{ 'f', "force", NULL, "replaces one that is there when the new one is whole",
	  .kind = ZR_CMD_FLAG, .at = AT(force) },
	{ 0, "eot", "TOKEN",
	  "puts the added token TOKEN before each document (default: <|endoftext|> if there is "
	  "one, "
	  "but not with --add-special); none: nothing",
	  .kind = ZR_CMD_TEXT, .at = AT(eot) },
	{ 0, "add-special", NULL,
	  "puts around each document what the tokenizer's post-processor does, e.g. "
	  "<|begin_of_text|>",
	  .kind = ZR_CMD_FLAG, .at = AT(add_special) },
	{ 0, "documents", NULL,
	  "keeps each IN a document of its own, in a file that only data/tokens reads; the end "
	  "token "
	  "comes behind it, so that it is learned",
	  .kind = ZR_CMD_FLAG, .at = AT(apart) },
	{ 0, "content", "text|rows|any",
	  "text (default) refuses JSON; rows takes each row of JSON lines, or of a JSON list, for "
	  "a "
	  "document, its field text; any takes the bytes of IN as they are",
	  .kind = ZR_CMD_CHOICE, .at = AT(content) },
	{ 0, "field", "text=NAME", "the field of --content rows", .kind = ZR_CMD_TEXT,
	  .at = AT(field) },
	{ 0, "raw", NULL,
	  "no header: for more than 2147483647 tokens, and [data] format = uint16 or uint32",
	  .kind = ZR_CMD_FLAG, .at = AT(raw) },
	{ 0, "chat", NULL, "reads conversations: zeroth tokenize --chat --help",
	  .kind = ZR_CMD_FLAG, .at = AT(chat) },
	{ 0, "chunk-bytes", "N", NULL, .kind = ZR_CMD_WHOLE, .at = AT(chunk), .least = 1,
	  .most = 1 << 30, .place = ZR_CMD_HIDDEN },
	{ 0 },
};

const struct zr_cmd_usage zr_tokenize_usage = {
	.command = "tokenize",
	.form = { { NULL, "IN...", NULL } },
	.about = "Writes the tokens of the texts IN (plain or gzip; -: standard input) to OUT, as "
		 "data/tokens and llm.c read them:\n"
		 "uint16, or uint32 where the vocabulary has more than 65536 tokens. Each IN is a "
		 "document, or has one in each row.\n",
	.option = options,
	.is_long = 1,
};

/* -1 to continue, else the exit code. */
static int parse(int argc, char **argv, struct job *j)
{
	struct zr_cmd_operands in;

	int rc = zr_cmd_parse(argc, argv, &zr_tokenize_usage, NULL, j, &in);
	if (rc >= 0)
		return rc;

	j->in = in.at;
	j->n_in = in.n;
	if (j->raw && j->apart)
		return zr_cmd_wrong(&zr_tokenize_usage, "--raw and --documents exclude each other");
	if (j->field && (strncmp(j->field, "text=", 5) || !j->field[5]))
		return zr_cmd_refuse(&zr_tokenize_usage, "--field %s: expected text=NAME",
				     j->field);
	if (j->field && strcmp(j->content, "rows"))
		return zr_cmd_wrong(&zr_tokenize_usage, "--field goes with --content rows");
	return -1;
}

/* ---- the file ---- */

static int64_t tokens_of(const struct job *j)
{
	if (j->documents)
		return zr_documents_total(j->documents).tokens;
	return j->file ? zr_token_file_tokens(j->file) : 0;
}

static int create(struct job *j, int width)
{
	if (j->apart)
		return zr_documents_create(j->output, 0666, zr_tokenizer_size(j->t), 0,
					   &j->documents, j->err);
	return zr_token_file_create(j->output, width, j->raw, &j->file, j->err);
}

static int finish(struct job *j, int keep)
{
	if (j->apart)
		return zr_documents_close(j->documents, keep, j->err);
	return zr_token_file_close(j->file, keep, j->err);
}

/* ---- progress ---- */

static void show(struct job *j, const struct zr_input *in)
{
	double now = zr_now(), took = now - j->start;
	char bytes[32], eta[80], line[200];

	if (now - j->shown < (j->tty ? ZR_TOKENIZE_EVERY_TTY : ZR_TOKENIZE_EVERY_LOG))
		return;

	j->shown = now;
	zr_tokenize_eta(j->done + zr_input_at(in), j->all, took, eta);
	snprintf(line, sizeof line, "%s  %lld tokens  %.1f MB/s%s", zr_bytes_text(j->text, bytes),
		 (long long)tokens_of(j), (double)j->text / took * 1e-6, eta);
	if (j->tty)
		zr_log_live(stderr, line);
	else
		fprintf(stderr, "%s\n", line);
}

/* ---- documents ---- */

static int take(void *arg, const int32_t *ids, size_t n)
{
	struct job *j = arg;
	if (j->documents)
		return zr_documents_put(j->documents, ids, NULL, n, j->err);
	return zr_token_file_put(j->file, ids, n, j->err);
}

static int put_template(struct job *j, int after)
{
	const int32_t *ids;
	int n;
	if (j->add_special)
		n = zr_tokenizer_template(j->t, after, &ids, j->err);
	else
		n = 0;
	return n > 0 ? take(j, ids, (size_t)n) : n;
}

static int stopped(struct job *j)
{
	if (zr_tokenize_stopped())
		return zr_err(j->err, ZR_EIO, "interrupted; %s is as it was", j->output);
	return 0;
}

/* What was read of the input that began behind `begin` bytes, with `bad` places in those before. */
static void look_at(struct job *j, const char *path, uint64_t begin, uint64_t bad, int has_zero)
{
	const uint64_t n = zr_encoder_replaced(j->encoder) - bad;
	const char *name = zr_tokenize_name(path);

	if (n && !j->bad) {
		j->bad = name;
		j->bad_at = zr_encoder_replaced_first(j->encoder) - begin;
	}

	if (has_zero || n > (j->text - begin) / 20)
		zr_logf(ZR_LOG_WARN, "tokenize", "%s looks binary, not like text: %s", name,
			has_zero ? "it has bytes that are zero" :
				   "more than a byte of 20 is no UTF-8");
}

/* Rows of JSON as text would teach their braces and names of fields. */
static int check_start(struct job *j, const char *path, const char *buf, size_t n)
{
	if (strcmp(j->content, "text") || !zr_content_is_json(buf, n))
		return 0;

	return zr_err(j->err, ZR_EINVAL,
		      "%s: is JSON, not text: --chat makes documents of conversations, --content "
		      "rows of the field text of each row (--field text=NAME reads another one); "
		      "--content any takes its bytes as they are",
		      zr_tokenize_name(path));
}

/* n bytes of an input, of which an error names the input; n = 0: it ends. */
static int encode(struct job *j, const char *path, const char *buf, size_t n)
{
	struct zr_error why = { 0 };
	int rc;
	if (n)
		rc = zr_encode(j->encoder, buf, n, &why);
	else
		rc = zr_encode_end(j->encoder, &why);

	if (rc && why.code)
		return zr_err(j->err, rc, "%s: %s", zr_tokenize_name(path), why.text);
	return rc;
}

/* What stands before the text of a document, and behind it. */
static int begin_document(struct job *j)
{
	int rc = 0;
	if (j->eot_id >= 0 && !j->apart)
		rc = take(j, &j->eot_id, 1);
	if (!rc)
		rc = put_template(j, 0);
	return rc;
}

static int end_document(struct job *j)
{
	int rc = put_template(j, 1);
	if (!rc && j->eot_id >= 0 && j->apart)
		rc = take(j, &j->eot_id, 1);
	if (!rc && j->apart)
		rc = zr_documents_end(j->documents, j->err);
	return rc;
}

static int document(struct job *j, const char *path)
{
	const uint64_t begin = j->text, bad = zr_encoder_replaced(j->encoder);
	int has_zero = 0;
	struct zr_input *in = NULL;
	char *buf = malloc((size_t)j->chunk);
	size_t got = 1;

	int rc;
	if (buf)
		rc = zr_input_open(path, &in, j->err);
	else
		rc = zr_no_memory(j->err);
	if (!rc)
		rc = begin_document(j);
	while (!rc && got) {
		rc = zr_input_read(in, buf, (size_t)j->chunk, &got, j->err);
		if (!rc && j->text == begin)
			rc = check_start(j, path, buf, got);
		j->text += got;
		has_zero = has_zero || (!rc && memchr(buf, 0, got));
		if (!rc)
			rc = encode(j, path, buf, got);
		if (!rc)
			rc = stopped(j);
		if (!rc)
			show(j, in);
	}

	if (!rc)
		rc = end_document(j);
	if (!rc) {
		j->done += zr_input_at(in);
		look_at(j, path, begin, bad, has_zero);
	}

	zr_input_close(in);
	free(buf);
	return rc;
}

static int take_row(void *arg, const struct zr_text_rows *r, const char *text, size_t n)
{
	struct job *j = arg;
	char where[PATH_MAX + 32];

	j->rows++;
	if (!n) {
		j->empty++;
		return 0;
	}

	snprintf(where, sizeof where, "%s:%lld", r->name, (long long)r->line);
	int rc = begin_document(j);
	for (size_t at = 0, part; !rc && at < n; at += part) {
		part = n - at < (size_t)j->chunk ? n - at : (size_t)j->chunk;
		rc = encode(j, where, text + at, part);
	}

	j->text += n;
	if (!rc)
		rc = encode(j, where, NULL, 0);
	if (!rc)
		rc = end_document(j);
	if (!rc)
		rc = stopped(j);
	show(j, r->in);
	return rc;
}

static int documents_of_rows(struct job *j, const char *path)
{
	struct zr_text_rows r = { .field = j->field ? j->field + 5 : "text",
				  .take = take_row,
				  .arg = j };
	uint64_t read;

	int rc = zr_text_rows_read(&r, path, &read, j->err);
	j->done += read;
	return rc;
}

/* The numbers of a file with documents. */
static int put_counts(struct job *j)
{
	int rc = 0;
	if (j->apart && j->rows)
		rc = zr_documents_count(j->documents, "records", j->rows, j->err);
	if (!rc && j->apart && j->empty)
		rc = zr_documents_count(j->documents, "dropped.empty", j->empty, j->err);
	if (!rc && !strcmp(j->content, "rows") && j->rows == j->empty)
		rc = zr_err(j->err, ZR_EINVAL, "there is no row with a text in %s",
			    zr_tokenize_name(j->in[0]));
	return rc;
}

/* ---- the whole ---- */

static int choose_eot(struct job *j)
{
	static const char usual[] = "<|endoftext|>";

	j->eot_id = -1;
	if (j->eot && !strcmp(j->eot, "none"))
		return 0;
	if (!j->eot && j->add_special)
		return 0;

	j->eot_id = zr_tokenizer_added(j->t, j->eot ? j->eot : usual);
	if (j->eot && j->eot_id < 0)
		return zr_err(j->err, ZR_EINVAL,
			      "--eot %s: is not an added token of %s; none: no token", j->eot,
			      j->tokenizer);

	if (j->eot_id < 0)
		j->eot = NULL;
	else if (!j->eot)
		j->eot = usual;
	return 0;
}

static void report(const struct job *j, int64_t tokens, int bits)
{
	char bytes[32];
	double took = zr_now() - j->start + 1e-9;
	const int64_t documents = j->rows ? j->rows - j->empty : j->n_in;
	const char *place = "", *eot = "";
	if (j->eot_id >= 0) {
		place = j->apart ? ", each before " : ", each after ";
		eot = j->eot;
	}

	printf("tokenized   %s in %lld document%s%s%s: %lld tokens, %suint%d, %.2f bytes each, "
	       "%.1f MB/s\n",
	       zr_bytes_text(j->text, bytes), (long long)documents, documents == 1 ? "" : "s",
	       place, eot, (long long)tokens, j->raw ? "raw " : "", bits,
	       tokens ? (double)j->text / (double)tokens : 0, (double)j->text / took * 1e-6);
	zr_tokenize_vocabulary(zr_tokenizer_size(j->t));
	if (j->empty)
		printf("left out    %lld of %lld rows: empty\n", (long long)j->empty,
		       (long long)j->rows);
}

/* Opens what writes tokens, of *width bytes each. */
static int prepare(struct job *j, int *width)
{
	int rc = zr_keep_file(j->output, j->force, j->err);
	if (!rc)
		rc = zr_tokenizer_open_with(j->tokenizer, j->add_tokens, &j->t, j->err);
	if (!rc)
		rc = choose_eot(j);
	if (!rc)
		rc = zr_encoder_open(j->t, take, j, &j->encoder, j->err);
	if (rc)
		return rc;

	*width = zr_tokenizer_size(j->t) > 65536 ? 4 : 2;
	return create(j, *width);
}

static int all_inputs(struct job *j)
{
	const int has_rows = !strcmp(j->content, "rows");
	int rc = 0;

	j->all = zr_tokenize_bytes(j->in, j->n_in);
	j->start = j->shown = zr_now();
	for (int i = 0; !rc && i < j->n_in; i++)
		rc = has_rows ? documents_of_rows(j, j->in[i]) : document(j, j->in[i]);
	if (j->tty)
		zr_log_live(stderr, NULL);
	if (rc)
		return rc;

	return put_counts(j);
}

static void warn_of_bytes(const struct job *j)
{
	if (!j->bad)
		return;

	zr_logf(ZR_LOG_WARN, "tokenize",
		"%llu places are not UTF-8 and were read as U+FFFD, the first behind %llu bytes of "
		"%s",
		(unsigned long long)zr_encoder_replaced(j->encoder), (unsigned long long)j->bad_at,
		j->bad);
}

static int work(struct job *j)
{
	int width;

	int rc = prepare(j, &width);
	if (rc)
		return rc;

	rc = all_inputs(j);
	const int64_t tokens = tokens_of(j);
	const int end = finish(j, !rc);
	if (!rc)
		rc = end;
	if (rc)
		return rc;

	report(j, tokens, 8 * width);
	warn_of_bytes(j);
	return 0;
}

int zr_cmd_tokenize(int argc, char **argv)
{
	struct zr_error err = { 0 };
	struct job j = {
		.chunk = CHUNK, .content = "text", .err = &err, .tty = isatty(STDERR_FILENO)
	};

	for (int i = 1; i < argc && strcmp(argv[i], "--"); i++)
		if (!strcmp(argv[i], "--chat"))
			return zr_tokenize_chat(argc, argv);
	int rc = parse(argc, argv, &j), stopped_by;
	if (rc >= 0)
		return rc;

	zr_tokenize_catch();
	rc = work(&j);
	zr_encoder_close(j.encoder);
	zr_tokenizer_close(j.t);
	rc = rc ? zr_cmd_failed(&err) : 0;
	stopped_by = zr_tokenize_stopped();
	return rc && stopped_by ? 128 + stopped_by : rc;
}
