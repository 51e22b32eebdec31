/* SPDX-License-Identifier: Apache-2.0
 *
 * tokenize_chat.c - zeroth tokenize --chat: conversations to a file of tokens for data/tokens, with
 * what is learned of each.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/cmd.h"
#include "cmd/sample/forms.h"
#include "cmd/tokenize.h"
#include "core/base/log.h"
#include "core/base/pool.h"
#include "files/chat/chat.h"
#include "files/tokens/documents.h"
#include "train/fit.h"
#include "train/run/progress.h"
#include "train/rundir.h"

#define FIELDS 64 /* most --field */

struct job {
	struct zr_chat_options o;
	const char *output;
	const char *field[FIELDS];
	int n_fields;
	char fields[1024]; /* all of them */
	char **in;
	int n_in, force, is_chat;
	struct zr_chat *chat;
	struct zr_documents *documents;
	struct zr_error *err;
	double start, shown;
	uint64_t all, done; /* bytes of all inputs, of those that are done; all = 0: not known */
	int tty;
};

/* ---- the command line ---- */

#define THREADS_MOST 1024
#define AT(member)   offsetof(struct job, member)

static const struct zr_cmd_option options[] = {
	{ 0, "chat", NULL, "reads conversations", .kind = ZR_CMD_FLAG, .at = AT(is_chat),
	  .place = ZR_CMD_HIDDEN },
	{ 'T', "tokenizer", "FILE",
	  "tokenizer.json, or its directory; tokenizer_config.json is looked for beside it",
	  .kind = ZR_CMD_TEXT, .at = AT(o.tokenizer), .place = ZR_CMD_REQUIRED },
	{ 0, "add-tokens", "LIST",
	  "special tokens, separated by blanks, that the tokenizer gets: [model] add_tokens of the "
	  "training",
	  .kind = ZR_CMD_TEXT, .at = AT(o.add_tokens) },
	{ 'o', "output", "OUT", "file to write, which must not be there", .kind = ZR_CMD_TEXT,
	  .at = AT(output), .place = ZR_CMD_REQUIRED },
	{ 'f', "force", NULL, "replaces one that is there when the new one is whole",
	  .kind = ZR_CMD_FLAG, .at = AT(force) },
	{ 't', "template", "NAME",
	  "how conversations are written: auto (default: by the tokenizer's own chat template), a "
	  "file NAME.jinja, or a name such as chatml, llama3, mistral-v3, gemma, phi3, alpaca",
	  .kind = ZR_CMD_TEXT, .at = AT(o.template) },
	{ 0, "train-on", "WHAT",
	  "assistant (default): what the assistant says; completion: the answer to a prompt; last: "
	  "the last answer; calls: answers that call tools; thoughts: answers with thoughts; all: "
	  "everything",
	  .kind = ZR_CMD_TEXT, .at = AT(o.train_on) },
	{ 0, "mask", "turn|trl",
	  "how much of an answer is learned: its text and the end of its turn (default), or what "
	  "TRL's training templates learn: white space behind that, too",
	  .kind = ZR_CMD_TEXT, .at = AT(o.mask) },
	{ 0, "system", "TEXT", "system message of conversations that have none",
	  .kind = ZR_CMD_TEXT, .at = AT(o.system) },
	{ 0, "max-length", "N", "most tokens of a conversation", .kind = ZR_CMD_WHOLE,
	  .at = AT(o.max_length), .least = 1, .most = INT32_MAX, .counts = "a number of tokens" },
	{ 0, "on-long", "shorten|drop",
	  "what a longer one does: lose its oldest turns (default), or be left out",
	  .kind = ZR_CMD_TEXT, .at = AT(o.on_long) },
	{ 0, "on-bad", "stop|skip", "what a line does that cannot be read (default: stop)",
	  .kind = ZR_CMD_TEXT, .at = AT(o.on_bad) },
	{ 0, "field", "NAME=FIELD",
	  "the data has FIELD where NAME is usual: messages, role, content, user, assistant, ...",
	  .kind = ZR_CMD_LIST, .at = AT(field), .most = FIELDS, .count = AT(n_fields) },
	ZR_JINJA_OPTIONS(struct job, o),
	{ 0, "turns", "auto|whole|each",
	  "answers that the template writes in another way where others follow: auto (default) "
	  "learns each in a text where it is last, whole refuses them, each learns all answers in "
	  "texts of their own",
	  .kind = ZR_CMD_TEXT, .at = AT(o.turns) },
	ZR_FORM_OPTIONS(struct job, o),
	{ 0, "bos", "TOKEN", NULL, .kind = ZR_CMD_TEXT, .at = AT(o.bos) },
	{ 0, "eos", "TOKEN", "the first and the last token of a text, for {bos} and {eos}",
	  .kind = ZR_CMD_TEXT, .at = AT(o.eos) },
	{ 'j', "threads", "N", "(default: one for each processor)", .kind = ZR_CMD_INT,
	  .at = AT(o.threads), .least = 1, .most = THREADS_MOST, .counts = "a number of threads" },
	{ 0 },
};

static const struct zr_cmd_usage usage = {
	.command = "tokenize --chat",
	.form = { { NULL, "IN...", NULL } },
	.about = "Writes the tokens of the conversations IN, and which of them are learned, to "
		 "OUT, as "
		 "data/tokens reads it. A line\n"
		 "of IN (plain, gzip or zstd; -: standard input) is a JSON object with messages, "
		 "conversations, prompt and\n"
		 "completion, instruction and output, or text.\n",
	.option = options,
	.is_long = 1,
};

static void join_fields(struct job *j)
{
	size_t n = 0;
	for (int i = 0; i < j->n_fields && n < sizeof j->fields; i++)
		n += (size_t)snprintf(j->fields + n, sizeof j->fields - n, "%s ", j->field[i]);
	j->o.fields = j->fields;
}

/* -1 to continue, else the exit code. */
static int parse(int argc, char **argv, struct job *j)
{
	struct zr_cmd_operands in;
	const long processors = sysconf(_SC_NPROCESSORS_ONLN);

	j->o.threads = processors < 1 ? 1 : (int)processors;

	int rc = zr_cmd_parse(argc, argv, &usage, NULL, j, &in);
	if (rc >= 0)
		return rc;

	join_fields(j);
	j->in = in.at;
	j->n_in = in.n;
	return -1;
}

/* ---- work ---- */

static void show(struct job *j)
{
	const struct zr_documents_totals n = zr_documents_total(j->documents);
	double now = zr_now(), took = now - j->start;
	uint64_t text = zr_chat_counts_of(j->chat)->bytes;
	char bytes[32], eta[80], line[200];

	if (now - j->shown < (j->tty ? ZR_TOKENIZE_EVERY_TTY : ZR_TOKENIZE_EVERY_LOG))
		return;

	j->shown = now;
	zr_tokenize_eta(j->done + zr_chat_at(j->chat), j->all, took, eta);
	snprintf(line, sizeof line, "%s  %lld conversations  %lld tokens  %.1f MB/s%s",
		 zr_bytes_text(text, bytes), (long long)n.documents, (long long)n.tokens,
		 (double)text / took * 1e-6, eta);
	if (j->tty)
		zr_log_live(stderr, line);
	else
		fprintf(stderr, "%s\n", line);
}

static int take(void *arg, const int32_t *ids, const uint8_t *learned, size_t n)
{
	struct job *j = arg;

	int rc = zr_documents_put(j->documents, ids, learned, n, j->err);
	if (!rc)
		rc = zr_documents_end(j->documents, j->err);
	if (zr_tokenize_stopped() && !rc)
		rc = zr_err(j->err, ZR_EIO, "interrupted; %s is as it was", j->output);
	show(j);
	return rc;
}

static void note(void *arg, const char *text)
{
	(void)arg;
	zr_logf(ZR_LOG_WARN, "tokenize", "%s", text);
}

static void parallel(void *of, int64_t n, void (*fn)(void *arg, int64_t item, int32_t thread),
		     void *arg)
{
	zr_pool_run(of, n, fn, arg);
}

static int put_counts(struct job *j)
{
	const struct zr_chat_counts *n = zr_chat_counts_of(j->chat);
	int64_t dropped = n->records - n->used;

	int rc = zr_documents_count(j->documents, "records", n->records, j->err);
	if (!rc)
		rc = zr_documents_count(j->documents, "truncated", n->truncated, j->err);
	if (!rc)
		rc = zr_documents_count(j->documents, "dropped", dropped, j->err);
	for (int i = 0; !rc && i < ZR_CHAT_REASONS; i++) {
		char name[40];
		snprintf(name, sizeof name, "dropped.%s", zr_chat_reason(i));
		if (n->dropped[i])
			rc = zr_documents_count(j->documents, name, n->dropped[i], j->err);
	}

	if (!rc && !n->documents)
		rc = zr_err(j->err, ZR_EINVAL, "there is no conversation to learn from in %s",
			    zr_tokenize_name(j->in[0]));
	return rc;
}

static void report(const struct job *j)
{
	const struct zr_chat_counts *n = zr_chat_counts_of(j->chat);
	char bytes[32], texts[48] = "";
	double took = zr_now() - j->start + 1e-9;

	if (n->documents > n->used)
		snprintf(texts, sizeof texts, " in %lld texts", (long long)n->documents);
	printf("tokenized   %s, template %s: %lld of %lld records%s, %lld tokens, %lld targets "
	       "(%.0f %%), longest %lld, %.1f MB/s\n",
	       zr_bytes_text(n->bytes, bytes), zr_chat_template_of(j->chat), (long long)n->used,
	       (long long)n->records, texts, (long long)n->tokens, (long long)n->targets,
	       100.0 * (double)n->targets / (double)n->tokens, (long long)n->longest,
	       (double)n->bytes / took * 1e-6);
	zr_tokenize_vocabulary(zr_chat_vocabulary(j->chat));
	if (n->unread.n) {
		char names[ZR_UNREAD * (ZR_UNREAD_NAME + 32)];
		printf("not read    %s\n", zr_unread_text(&n->unread, names, sizeof names));
	}

	if (n->truncated)
		printf("truncated   %lld lost their oldest turns\n", (long long)n->truncated);
	for (int i = 0; i < ZR_CHAT_REASONS; i++)
		if (n->dropped[i])
			printf("dropped     %lld: %s\n", (long long)n->dropped[i],
			       zr_chat_reason(i));
}

static int work(struct job *j)
{
	int rc = zr_keep_file(j->output, j->force, j->err);
	if (!rc)
		rc = zr_chat_open(&j->o, &j->chat, j->err);
	if (!rc)
		rc = zr_documents_create(j->output, 0666, zr_chat_vocabulary(j->chat), 1,
					 &j->documents, j->err);
	if (rc)
		return rc;

	j->all = zr_tokenize_bytes(j->in, j->n_in);
	j->start = j->shown = zr_now();
	for (int i = 0; !rc && i < j->n_in; i++) {
		rc = zr_chat_file(j->chat, j->in[i], j->err);
		j->done += zr_chat_at(j->chat);
	}

	if (!rc)
		rc = put_counts(j);
	int end = zr_documents_close(j->documents, !rc, j->err);
	if (j->tty)
		zr_log_live(stderr, NULL);
	if (!rc && !end)
		report(j);
	if (rc)
		return rc;
	return end;
}

int zr_tokenize_chat(int argc, char **argv)
{
	struct zr_error err = { 0 };
	struct job j = { .err = &err, .tty = isatty(STDERR_FILENO) };

	int rc = parse(argc, argv, &j), stopped;
	if (rc >= 0)
		return rc;

	j.o.note = note;
	j.o.sink = take;
	j.o.arg = &j;
	zr_tokenize_catch();
	struct zr_pool *pool = NULL;
	if ((rc = zr_pool_new(j.o.threads, &pool)))
		rc = zr_err(&err, ZR_ENOMEM,
			    "cannot start %d threads: %s: too little memory, or "
			    "too many threads: give a smaller -j",
			    j.o.threads, strerror(-rc));
	j.o.parallel = parallel;
	j.o.of = pool;
	if (!rc)
		rc = work(&j);
	zr_chat_close(j.chat);
	zr_pool_free(pool);
	rc = rc ? zr_cmd_failed(&err) : 0;
	stopped = zr_tokenize_stopped();
	return rc && stopped ? 128 + stopped : rc;
}
