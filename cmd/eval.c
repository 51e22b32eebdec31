/* SPDX-License-Identifier: Apache-2.0
 *
 * eval.c - zeroth eval CONF|RUN|DIR: how well a model predicts what is held out, once.
 */
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cmd/cmd.h"
#include "cmd/sample/token_text.h"
#include "core/base/json.h"
#include "core/base/log.h"
#include "core/base/text.h"
#include "train/beat.h"
#include "train/evaluate.h"
#include "train/fit.h"
#include "train/run/crash.h"
#include "train/run/outlet.h"
#include "train/run/progress.h"
#include "train/run/stacks.h"
#include "train/run/supervise.h"
#include "train/rundir.h"
#include "train/weights.h"
#include "train/weights/base_check.h"
#include "train/weights/declare.h"

struct eval_args {
	const char *operand;
	const char *overrides[ZR_CMD_OVERRIDES];
	int n_overrides, json, ranks, sequences; /* 0: not given */
};

static const struct zr_cmd_option options[] = {
	ZR_CMD_OPTION_RANKS(struct eval_args, "evaluates with so many processes on this machine",
			    ZR_SUPERVISE_MAX),
	{ 0, "sequences", "N", "the first N of what [data] holds out; default: all",
	  .kind = ZR_CMD_INT, .at = offsetof(struct eval_args, sequences), .least = 1,
	  .counts = "a number of sequences" },
	ZR_CMD_OPTION_JSON(struct eval_args, "the results as JSON"),
	ZR_CMD_OPTION_SET(struct eval_args, "sets an option over the configuration"),
	{ 0 },
};

const struct zr_cmd_usage zr_eval_usage = {
	.command = "eval",
	.form = { { NULL, "CONF|RUN|DIR", NULL } },
	.about = "Loss, perplexity, bits per byte and accuracy on what [data] holds out, each "
		 "sequence\n"
		 "once, and on each [eval.NAME]: of the model that CONF begins with, of the "
		 "weights of\n"
		 "run directory RUN, or of a model's directory of Hugging Face, which is "
		 "evaluated on "
		 "all of\n"
		 "what -o gives, as in -o data.plugin=tokens -o data.path=test.bin.\n",
	.option = options,
	.more = "The digest is that of the exact sums: ranks, stages, tiers and the size of a\n"
		"micro-batch do not change it.\n",
};

struct eval {
	const struct eval_args *a;
	int first; /* rank of this machine that prints */
	struct zr_config *cfg;
	struct zr_setup *setup;
	struct zr_session *session;
	char weights[PATH_MAX]; /* "": those that the model begins with */
	int adapted;            /* the model is that of [model] path with the run's adapters */
	int is_model;           /* all of its [data] is evaluated, as [eval.data] */
	uint16_t *bytes;        /* of the text of each token; NULL: not known */
	double drawn;           /* when the line of progress was drawn */
	json_t *json;
};

/* ---- which model, which data ---- */

static int load_config(struct eval *e, struct zr_error *err)
{
	const char *from = e->a->operand, *o[2 * ZR_CMD_OVERRIDES + 4];
	char path[PATH_MAX], model[PATH_MAX + 16], *copy[ZR_CMD_OVERRIDES];
	int copies = 0;
	struct zr_dir_kind kind = { 0 };
	struct stat st;
	const int no = stat(from, &st) ? errno : 0, is_dir = !no && S_ISDIR(st.st_mode);
	int n = 0, rc = 0;

	if (no && no != ENOENT)
		rc = zr_err(err, ZR_EIO, "%s: %s", from, strerror(no));
	else if (is_dir)
		rc = zr_dir_with_model(from, &kind, err);
	const int run = kind.run, hf = kind.model, whole = kind.weights, adapters = kind.adapters;
	if (rc)
		return rc;

	e->is_model = hf;
	e->adapted = run && adapters && !whole;
	if (hf) {
		snprintf(model, sizeof model, "model.path=%s", from);
		o[n++] = model;
		o[n++] = "train.micro_batch_size=1";
	} else if (whole) {
		o[n++] = "model.path=";
	}
	if (adapters) {
		snprintf(model, sizeof model, "adapter.path=%s", from);
		o[n++] = model;
	}

	for (int i = 0; i < e->a->n_overrides && !rc; i++) {
		o[n++] = e->a->overrides[i];
		if (!hf || strncmp(o[n - 1], "data.", 5))
			continue;

		copy[copies] = zr_text("eval.%s", o[n - 1]);
		if (!copy[copies])
			rc = zr_no_memory(err);
		else
			o[n++] = copy[copies++];
	}

	if (whole)
		zr_dir_has(from, "model.safetensors", e->weights);
	if (run)
		zr_dir_has(from, "config.ini", path);
	if (!rc && run)
		rc = zr_run_config(path, o, n, &e->cfg, err);
	else if (!rc)
		rc = zr_config_load(hf ? NULL : from, o, n, &e->cfg, err);
	while (copies)
		free(copy[--copies]);
	return rc;
}

/* Accumulation does not matter here: as many micro-batches at a time as there are ranks. And the
 * nodes of a run are not those of who evaluates it. */
static int one_at_a_time(struct eval *e, struct zr_error *err)
{
	const struct zr_train_opts *t = zr_config_find(e->cfg, "train")->opts;
	const char *nodes = zr_config_source(e->cfg, "boot", "ranks_per_node");

	int rc = 0;
	if (nodes && (*e->weights || e->adapted) && strcmp(nodes, "-o"))
		rc = zr_config_set_auto(e->cfg, "boot", "ranks_per_node", "auto", err);
	if (rc || t->micro_batch_size == ZR_AUTO_COUNT)
		return rc;

	rc = zr_config_set_auto(e->cfg, "train", "train_batch_size", "auto", err);
	if (rc)
		return rc;
	return zr_config_set_auto(e->cfg, "train", "gradient_accumulation_steps", "auto", err);
}

static int open_model(struct eval *e, struct zr_error *err)
{
	int rc = one_at_a_time(e, err);
	if (!rc)
		rc = zr_setup_open(e->cfg, ZR_MODE_EVAL, 0, 0, &e->setup, err);
	if (!rc)
		rc = zr_plan_check(e->setup, 0, err);
	if (!rc)
		rc = zr_session_open(e->setup, &e->session, err);
	zr_crash_session(e->session);
	if (rc)
		return rc;

	if (*e->weights)
		rc = zr_weights_load(e->session, e->weights, err);
	else
		rc = zr_weights_begin(e->session, err);
	return rc || !e->adapted ? rc : zr_base_check(e->session, e->a->operand, err);
}

/* Bits per byte are left out where nothing knows the text of tokens. */
static int count_bytes(struct eval *e, struct zr_error *err)
{
	const struct zr_token_source from = { .dir = e->a->operand,
					      .data = zr_config_find(e->cfg, "data"),
					      .vocabulary = e->setup->facts.decl.vocabulary,
					      .add_tokens =
						      zr_config_find(e->cfg, "model")->add_tokens };
	return zr_token_lengths(&from, &e->bytes, err);
}

/* ---- what comes out ---- */

static void note_round(void *arg, int64_t done, int64_t all)
{
	struct eval *e = arg;
	char line[64];
	double now = zr_now();

	atomic_fetch_add(&zr_beat_shared()->count, 1);
	if (!e->first || !isatty(2) || (now - e->drawn < 0.1 && done < all))
		return;

	e->drawn = now;
	snprintf(line, sizeof line, "evaluating %lld/%lld", (long long)done, (long long)all);
	zr_log_live(stderr, done < all ? line : NULL);
}

static void put(json_t **to, const char *key, double v)
{
	if (isfinite(v)) /* JSON has no other */
		zr_json_put(to, key, json_real(v));
}

static json_t *as_json(const struct zr_eval_result *r, int64_t sequences)
{
	json_t *j = json_pack("{s:I, s:I}", "sequences", (json_int_t)sequences, "targets",
			      (json_int_t)r->targets);

	put(&j, "loss", r->loss);
	put(&j, "perplexity", exp(r->loss));
	put(&j, "bits_per_byte", zr_eval_per_byte(r));
	put(&j, "accuracy", r->accuracy);
	zr_json_put(&j, "digest", json_sprintf("%016llx", (unsigned long long)r->digest));
	return j;
}

static void print(const char *name, const struct zr_eval_result *r, int64_t sequences)
{
	printf("%s%s%s\n", *name ? "[eval." : "held out", name, *name ? "]" : "");
	printf("  sequences      %lld\n", (long long)sequences);
	printf("  targets        %lld\n", (long long)r->targets);
	printf("  loss           %.6f\n", r->loss);
	printf("  perplexity     %.4f\n", exp(r->loss));
	if (r->bytes > 0)
		printf("  bits per byte  %.6f\n", zr_eval_per_byte(r));
	printf("  accuracy       %.4f %%\n", 100 * r->accuracy);
	printf("  digest         %016llx\n", (unsigned long long)r->digest);
}

static int evaluate(struct eval *e, struct zr_source *from, int64_t want, struct zr_error *err)
{
	const struct zr_eval_how how = { note_round, e, e->bytes };
	struct zr_eval_set set;
	struct zr_eval_result r;

	int rc = zr_eval_once(e->setup, from, want, &set, err);
	if (!rc)
		rc = zr_evaluate(e->session, &set, &how, &r, err);
	if (rc || !e->first)
		return rc;
	if (e->a->json)
		zr_json_put(&e->json, *from->name ? from->name : "held out",
			    as_json(&r, set.sequences));
	else
		print(from->name, &r, set.sequences);
	return 0;
}

static int evaluate_all(struct eval *e, struct zr_error *err)
{
	int64_t given = (int64_t)e->a->sequences;
	int rc = 0, many = e->setup->roles.n_sources > 1;

	for (int32_t i = 0; !rc && i < e->setup->roles.n_sources; i++) {
		struct zr_source *d = &e->setup->roles.source[i];
		uint64_t own = d->it.section->sequences;
		int64_t want = own == ZR_AUTO_COUNT ? 0 : (int64_t)own;
		want = i && !(e->is_model && given) ? want : given;
		if (i || (!e->is_model && (d->info.val_tokens || !many)))
			rc = evaluate(e, d, want, err);
	}

	if (rc || !e->json)
		return rc;

	char *text = zr_json_dump(e->json, JSON_INDENT(2));
	rc = text && puts(text) >= 0 ? 0 : zr_err(err, ZR_EIO, "cannot write the results");
	free(text);
	return rc;
}

/* ---- ranks ---- */

static int evaluate_as_rank(int rank, void *arg, struct zr_error *err)
{
	struct eval e = { .a = arg, .first = rank == 0 };

	e.json = e.first && e.a->json ? json_object() : NULL;
	if (!e.first)
		zr_log_level(ZR_LOG_ERROR); /* the first says it */
	int rc = load_config(&e, err);
	if (!rc && e.first)
		zr_cmd_log(e.cfg);
	if (!rc)
		rc = open_model(&e, err);
	if (!rc)
		rc = count_bytes(&e, err);
	e.first = e.first && e.setup &&
		  e.setup->facts.process.rank == 0; /* of another launcher's */
	if (!rc)
		rc = evaluate_all(&e, err);
	if (rc && e.setup)
		zr_setup_abort(e.setup, err->text);
	zr_crash_session(NULL);
	zr_session_close(e.session);
	zr_setup_close(e.setup);
	zr_config_free(e.cfg);
	free(e.bytes);
	json_decref(e.json);
	zr_outlet_push();
	return rc ? zr_exit_code(rc) : 0;
}

static int run_rank(int rank, void *arg, struct zr_error *why)
{
	zr_stacks_watch();
	return evaluate_as_rank(rank, arg, why);
}

int zr_cmd_eval(int argc, char **argv)
{
	struct eval_args a = { 0 };
	struct zr_cmd_operands operands;
	struct zr_error err = { 0 };

	int rc = zr_cmd_parse(argc, argv, &zr_eval_usage, NULL, &a, &operands);
	if (rc >= 0)
		return rc;

	a.operand = operands.at[0];
	if (a.ranks)
		return zr_supervise(a.ranks, run_rank, &a);

	rc = evaluate_as_rank(0, &a, &err);
	return rc ? zr_cmd_failed(&err) : 0;
}
