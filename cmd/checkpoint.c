/* SPDX-License-Identifier: Apache-2.0
 *
 * checkpoint.c - zeroth checkpoint ls|verify|export|import|prune.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/checkpoint_import.h"
#include "cmd/cmd.h"
#include "cmd/others/handover.h"
#include "files/checkpoint/dir.h"
#include "files/gguf/gguf.h"
#include "train/fit.h"
#include "train/lock.h"
#include "train/resume.h"
#include "train/rundir.h"
#include "train/weights/export.h"

struct args {
	const char *dir, *out, *dtype, *gguf, *to;
	struct zr_export_from from;
	const char *option[ZR_EXPORT_OPTIONS];
	int64_t keep;
	int best, weights;
	struct zr_export_how how;
};

#define AT(member) offsetof(struct args, member)

static const struct zr_cmd_option options[] = {
	{ 0, "dtype", "fp32|bf16|fp16", "of the exported numbers; default: fp32",
	  .kind = ZR_CMD_CHOICE, .at = AT(dtype), .verbs = "export" },
	{ 0, "shard-bytes", "N",
	  "most bytes of tensors in a file, unless one is larger (default 5e9); what needs several "
	  "files has model.safetensors.index.json",
	  .kind = ZR_CMD_BYTES, .at = AT(how.shard_bytes), .verbs = "export" },
	{ 0, "best", NULL,
	  "exports the one with the lowest loss, which [checkpoint] keep_best kept",
	  .kind = ZR_CMD_FLAG, .at = AT(best), .verbs = "export" },
	{ 0, "merge", NULL, "exports the model in which the adapters are merged",
	  .kind = ZR_CMD_FLAG, .at = AT(how.merge), .verbs = "export" },
	{ 0, "adapter", "DIR",
	  "with --merge: merges adapters of PEFT into MODEL, a model's directory of Hugging Face",
	  .kind = ZR_CMD_TEXT, .at = AT(from.adapter), .verbs = "export" },
	{ 'o', "option", "section.key=value",
	  "with --adapter: an option that it was trained with, such as model.store=nf4; it is "
	  "merged into the weights as they are stored so; of import: sets an option over CONF",
	  .kind = ZR_CMD_LIST, .at = AT(option), .most = ZR_EXPORT_OPTIONS,
	  .count = AT(from.options), .verbs = "export import", .place = ZR_CMD_WITHIN },
	{ 0, "gguf", "f16|bf16|q8_0",
	  "writes OUT as one file that llama.cpp reads, with its matrices in that type and the "
	  "tokenizer in it: of Llama, Mistral, Qwen2, Qwen3, Gemma 2, Gemma 3 and Phi-3",
	  .kind = ZR_CMD_CHOICE, .at = AT(gguf), .verbs = "export" },
	{ 0, "tokenizer", "DIR",
	  "with --gguf: the directory with the files of the tokenizer; default: the one that the "
	  "model began with",
	  .kind = ZR_CMD_TEXT, .at = AT(how.tokenizer), .verbs = "export" },
	{ 0, "to", "universal|dcp|dcp-safetensors",
	  "writes a checkpoint with the states of the optimizer, from which others go on: "
	  "DeepSpeed from its universal format, torch.distributed.checkpoint from .metadata and "
	  "*.distcp, or from the tensors in safetensors",
	  .kind = ZR_CMD_CHOICE, .at = AT(to), .verbs = "export" },
	{ 0, "weights", NULL,
	  "imports the weights alone: a training begins with them, without moments, at step 0",
	  .kind = ZR_CMD_FLAG, .at = AT(weights), .verbs = "import" },
	{ 0, "keep", "N", "checkpoints that stay, 1 or more", .kind = ZR_CMD_WHOLE, .at = AT(keep),
	  .least = 1, .counts = "a number of checkpoints", .verbs = "prune",
	  .place = ZR_CMD_REQUIRED },
	{ 0 },
};

const struct zr_cmd_usage zr_checkpoint_usage = {
	.command = "checkpoint",
	.form = { { "ls", "DIR", NULL },
		  { "verify", "DIR", NULL },
		  { "export", "DIR|MODEL OUT", NULL },
		  { "import", "FROM CONF", NULL },
		  { "prune", "DIR", NULL } },
	.about = "DIR is a checkpoint, a directory of checkpoints, or a run directory.\n"
		 "\n"
		 "  ls      step, size, ranks, plugins, and whether each checkpoint is whole, by "
		 "its "
		 "manifest\n"
		 "          and the sizes of its files\n"
		 "  verify  reads every byte of each checkpoint and compares all checksums\n"
		 "  export  writes the parameters of the checkpoint, or of the latest whole one, "
		 "or of "
		 "the end of a\n"
		 "          run, whichever is later, as directory OUT\n"
		 "          with model.safetensors and config.json, as Hugging Face's tools load "
		 "them; "
		 "of a\n"
		 "          run with adapters: these, with adapter_model.safetensors and "
		 "adapter_config.json\n"
		 "          with --gguf: as file OUT, for llama.cpp\n"
		 "          with --to: with moments, step and learning rates, for DeepSpeed or "
		 "torch\n"
		 "  import  makes a checkpoint of FROM, which another program wrote, for the "
		 "training that\n"
		 "          CONF says; `zeroth train CONF --resume auto` then goes on from there. "
		 "FROM is a\n"
		 "          checkpoint of Hugging Face's Trainer, of DeepSpeed (ZeRO 1 to 3, "
		 "universal), or of\n"
		 "          torch.distributed.checkpoint\n"
		 "  prune   removes all whole checkpoints but the newest N and the best one, and "
		 "what "
		 "was\n"
		 "          left unfinished\n",
	.option = options,
};

/* The checkpoints at a path, which is a directory of them or a single one. */
struct found {
	char path[PATH_MAX];
	int64_t *step, n;
	int alone;
};

static int find(const char *path, struct found *f, struct zr_error *err)
{
	char file[PATH_MAX + 16];
	int rc = zr_checkpoints_at(path, f->path, err);

	f->step = NULL;
	f->n = 0;
	if (rc)
		return rc;

	snprintf(file, sizeof file, "%s/manifest.json", f->path);
	f->alone = !access(file, F_OK);
	if (!f->alone && errno != ENOENT)
		return zr_err(err, ZR_EIO, "%s: %s", file, strerror(errno));
	if (!f->alone)
		f->step = zr_ckpt_steps(f->path, 0, &f->n);
	else
		f->n = 1;
	if (f->n < 0)
		return zr_err(err, ZR_EIO, "%s: cannot read the directory: %s", path,
			      strerror((int)-f->n));
	if (f->n)
		return 0;
	return zr_err(err, ZR_EINVAL, "%s: no checkpoint there%s", path,
		      zr_dir_look(path).run ? "; [checkpoint] every saves some" : "");
}

static int path_of(const struct found *f, int64_t i, char path[PATH_MAX])
{
	if (!f->alone)
		return zr_ckpt_path(f->path, f->step[i], 0, path, NULL);

	snprintf(path, PATH_MAX, "%s", f->path);
	return 0;
}

/* ---- ls ---- */

static const char *plugin(const struct zr_manifest *m, const char *role)
{
	const char *text = json_string_value(json_object_get(m->plugins, role));
	if (text)
		return text;
	return "?";
}

static void list_one(const struct zr_manifest *m, int latest, int best)
{
	char line[2048], size[32];

	snprintf(line, sizeof line,
		 "step %-8lld %10s  %d rank%s  model %s  optimizer %s  precision %s",
		 (long long)m->step, zr_bytes_text(zr_ckpt_bytes(m), size), m->world,
		 m->world == 1 ? " " : "s", plugin(m, "model"), plugin(m, "optimizer"),
		 plugin(m, "precision"));
	zr_one_line(line);
	printf("%s  whole%s%s", line, latest ? ", latest" : "", best ? ", best" : "");
	printf(best ? ": loss %.4f\n" : "\n", m->best.loss);
}

static int list(const struct args *a, struct zr_error *err)
{
	struct found f;
	char path[PATH_MAX];
	int rc = find(a->dir, &f, err);
	int64_t latest = rc || f.alone ? -1 : zr_ckpt_named(f.path, "latest");
	int no = errno;
	int64_t best = rc || f.alone ? -1 : zr_ckpt_named(f.path, "best");

	for (int64_t i = 0; !rc && i < f.n; i++) {
		struct zr_manifest m;
		struct zr_error why = { 0 };
		if (path_of(&f, i, path))
			continue;
		if (zr_ckpt_check(path, 0, NULL, NULL, &m, &why)) {
			printf("%s  not whole: %s\n", path, why.text);
			continue;
		}

		list_one(&m, m.step == latest, m.step == best);
		zr_manifest_free(&m);
	}

	free(f.step);
	if (latest != ZR_LATEST_DAMAGED)
		return rc;
	return zr_err(err, no ? ZR_EIO : ZR_EINVAL, "%s/latest: %s", f.path,
		      no ? strerror(no) : "names no checkpoint");
}

/* ---- verify ---- */

static void show_progress(void *arg, uint64_t done, uint64_t all)
{
	int *percent = arg, now = (int)(all ? 100.0 * (double)done / (double)all : 100);
	if (now == *percent || !isatty(STDERR_FILENO))
		return;

	*percent = now;
	fprintf(stderr, "\r%3d %%\r", now);
}

static int verify(const struct args *a, struct zr_error *err)
{
	struct found f;
	char path[PATH_MAX], size[32];
	struct zr_error last = { 0 };
	int64_t bad = 0;

	int rc = find(a->dir, &f, err);
	for (int64_t i = 0; !rc && i < f.n; i++) {
		struct zr_manifest m;
		struct zr_error why = { 0 };
		int percent = -1;
		if (path_of(&f, i, path))
			continue;
		if (zr_ckpt_check(path, 1, show_progress, &percent, &m, &why)) {
			printf("%s  %s: %s\n", path,
			       why.code == ZR_EINVAL ? "damaged" : "cannot be read", why.text);
			bad++;
			last = why;
			continue;
		}

		printf("%s  whole, %s\n", path, zr_bytes_text(zr_ckpt_bytes(&m), size));
		zr_manifest_free(&m);
	}

	free(f.step);
	if (rc || !bad)
		return rc;
	return zr_err(err, last.code, "%lld of %lld checkpoints %s, the last because: %s",
		      (long long)bad, (long long)f.n,
		      last.code == ZR_EINVAL ? "are damaged" : "cannot be read", last.text);
}

/* ---- export ---- */

/* In a directory, the checkpoint that `best` or `latest` names, or else the newest one. It is an
 * error if that one is not complete. */
static int choose(const struct args *a, char path[PATH_MAX], struct zr_error *err)
{
	struct found f;
	int rc = find(a->dir, &f, err);
	const char *name = a->best ? "best" : "latest";
	int64_t step = rc ? -1 : zr_ckpt_named(f.path, name);
	int64_t i = f.n - 1;

	while (!rc && !f.alone && step >= 0 && i > 0 && f.step[i] > step)
		i--;
	if (!rc && a->best && (f.alone || step < 0 || f.step[i] != step))
		rc = zr_err(err, ZR_EINVAL,
			    "%s: no checkpoint is called the best: train with "
			    "[checkpoint] keep_best = yes",
			    a->dir);
	if (!rc && path_of(&f, i, path))
		rc = zr_err(err, ZR_EINVAL, "%s: a path too long", a->dir);
	free(f.step);
	return rc;
}

/* The step of a checkpoint by its manifest; -1: it is damaged. */
static int step_of(const char *path, long long *step, struct zr_error *err)
{
	struct zr_manifest m;
	struct zr_error why = { 0 };
	int rc = zr_ckpt_check(path, 0, NULL, NULL, &m, &why);

	*step = -1;
	if (rc)
		return rc == ZR_EINVAL ? 0 : zr_err(err, rc, "%s", why.text);

	*step = (long long)m.step;
	zr_manifest_free(&m);
	return 0;
}

/* For other programs: states are in checkpoints alone. */
static int hand_over(const struct args *a, struct zr_error *err)
{
	char path[PATH_MAX];
	const struct zr_handover_how how = {
		.to = a->to, .checkpoint = path, .dir = a->out, .shard_bytes = a->how.shard_bytes
	};

	int rc = choose(a, path, err);
	if (rc)
		return rc;
	return zr_handover_write(&how, err);
}

/* A run has a model at its end, which may be later than its last checkpoint, or all that it has. */
static int export(const struct args *a, struct zr_error *err)
{
	char path[PATH_MAX];
	struct zr_error why = { 0 };

	if (a->to)
		return hand_over(a, err);
	if (a->from.adapter)
		return zr_export_files(&a->from, a->out, &a->how, err);

	const struct zr_dir_kind kind = zr_dir_look(a->dir);
	const int ended = !a->best && (kind.weights || kind.adapters);
	long long step = -1;
	int rc = choose(a, path, &why);
	if (!rc && ended)
		rc = step_of(path, &step, &why);
	if (rc && rc != ZR_EINVAL) /* what cannot be looked at may be what is wanted */
		return zr_err(err, rc, "%s", why.text);
	if (ended && (rc || (step >= 0 && step < zr_run_steps(a->dir)))) {
		int end = zr_export_files(&a->from, a->out, &a->how, err);
		if (!rc && !end)
			printf("            the last checkpoint has step %lld: %s\n", step, path);
		return end;
	}

	if (rc)
		return zr_err(err, rc, "%s", why.text);
	return zr_export_checkpoint(path, a->out, &a->how, err);
}

/* ---- prune ---- */

static int prune(const struct args *a, struct zr_error *err)
{
	struct found f;
	struct zr_locks locks = { 0 };
	int64_t removed = 0, left;

	int rc = find(a->dir, &f, err);
	if (!rc && f.alone)
		rc = zr_err(err, ZR_EINVAL,
			    "%s is a checkpoint; prune takes the directory that it is in", a->dir);
	if (!rc)
		rc = zr_locks_add_checkpoints(&locks, f.path, err);
	if (!rc)
		rc = zr_ckpt_prune(f.path, INT64_MAX, a->keep, &removed, err);
	left = rc ? 0 : zr_ckpt_clear(f.path);
	if (!rc)
		printf("removed     %lld checkpoint%s and %lld unfinished in %s\n",
		       (long long)removed, removed == 1 ? "" : "s", (long long)left, f.path);
	zr_locks_release(&locks);
	free(f.step);
	return rc;
}

/* ---- import ---- */

static int import(const struct args *a, struct zr_error *err)
{
	const struct zr_checkpoint_import from = { .from = a->dir,
						   .conf = a->out,
						   .option = a->option,
						   .options = a->from.options,
						   .weights = a->weights };
	return zr_checkpoint_import(&from, err);
}

/* ---- the command line ---- */

/* NULL: the default */
static int32_t dtype_of(const char *name)
{
	if (!name)
		return ZR_F32;
	if (!strcmp(name, "bf16"))
		return ZR_BF16;
	if (!strcmp(name, "fp16"))
		return ZR_F16;
	return ZR_F32;
}

static int32_t gguf_of(const char *name)
{
	if (!name)
		return 0;
	if (!strcmp(name, "bf16"))
		return ZR_GGUF_BF16;
	if (!strcmp(name, "f16"))
		return ZR_GGUF_F16;
	return ZR_GGUF_Q8_0;
}

/* -1 to continue, else the exit code. */
static int check(const struct args *a, const char *verb)
{
	if (!strcmp(verb, "import"))
		return -1;
	if (a->to && (a->dtype || a->gguf || a->how.tokenizer || a->how.merge || a->from.adapter))
		return zr_cmd_wrong(&zr_checkpoint_usage,
				    "--to writes what a training goes on from, in fp32: without "
				    "--dtype, --gguf, --tokenizer, --merge and --adapter");
	if (a->to && strcmp(a->to, "dcp-safetensors") && a->how.shard_bytes != ZR_EXPORT_SHARD)
		return zr_cmd_wrong(&zr_checkpoint_usage,
				    "--shard-bytes is for weights and --to dcp-safetensors");
	if (a->gguf && a->dtype)
		return zr_cmd_wrong(&zr_checkpoint_usage,
				    "--gguf says the type itself: without --dtype");
	if (a->gguf && a->how.shard_bytes != ZR_EXPORT_SHARD)
		return zr_cmd_wrong(&zr_checkpoint_usage,
				    "--gguf writes one file: without --shard-bytes");
	if (a->how.tokenizer && !a->gguf)
		return zr_cmd_wrong(&zr_checkpoint_usage, "--tokenizer is for --gguf");
	if (a->from.options && !a->from.adapter)
		return zr_cmd_wrong(&zr_checkpoint_usage,
				    "-o is for --adapter: a run has its configuration");
	if (a->from.adapter && (a->best || !a->how.merge))
		return zr_cmd_wrong(
			&zr_checkpoint_usage,
			"--adapter needs --merge, and no --best: what it names is no run");
	return -1;
}

int zr_cmd_checkpoint(int argc, char **argv)
{
	static const struct {
		const char *verb;
		int (*run)(const struct args *a, struct zr_error *err);
	} verbs[] = { { "ls", list },
		      { "verify", verify },
		      { "export", export },
		      { "import", import },
		      { "prune", prune } };
	struct args a = { .how.shard_bytes = ZR_EXPORT_SHARD };
	struct zr_cmd_operands operands;
	struct zr_error err = { 0 };
	int rc;
	const struct zr_cmd_form *form = zr_cmd_verb(argc, argv, &zr_checkpoint_usage, &rc);
	if (!form)
		return rc;

	rc = zr_cmd_parse(argc - 1, argv + 1, &zr_checkpoint_usage, form, &a, &operands);
	if (rc < 0)
		rc = check(&a, form->verb);
	if (rc >= 0)
		return rc;

	a.dir = operands.at[0];
	a.out = operands.at[1];
	a.how.dtype = dtype_of(a.dtype);
	a.how.gguf = gguf_of(a.gguf);
	a.from.model = a.dir;
	a.from.option = a.option;

	size_t i = 0;
	while (strcmp(verbs[i].verb, form->verb))
		i++;
	return verbs[i].run(&a, &err) ? zr_cmd_failed(&err) : 0;
}
