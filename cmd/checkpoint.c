/* SPDX-License-Identifier: Apache-2.0
 *
 * checkpoint.c - zeroth checkpoint ls|verify|export|prune.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/cmd.h"
#include "files/checkpoint/dir.h"
#include "train/fit.h"
#include "train/lock.h"
#include "train/resume.h"
#include "train/rundir.h"
#include "train/weights/export.h"

static const char usage[] =
	"usage: zeroth checkpoint ls DIR\n"
	"       zeroth checkpoint verify DIR\n"
	"       zeroth checkpoint export [--dtype fp32|bf16|fp16] [--shard-bytes N] [--best]\n"
	"                                [--merge] DIR OUT\n"
	"       zeroth checkpoint export --merge --adapter ADAPTER [-o section.key=value]...\n"
	"                                MODEL OUT\n"
	"       zeroth checkpoint prune --keep N DIR\n"
	"\n"
	"DIR is a checkpoint, a directory of checkpoints, or a run directory.\n"
	"\n"
	"  ls      step, size, ranks, plugins, and whether each checkpoint is whole, by its "
	"manifest\n"
	"          and the sizes of its files\n"
	"  verify  reads every byte of each checkpoint and compares all checksums\n"
	"  export  writes the parameters of the checkpoint, or of the latest whole one, or of the "
	"end of a\n"
	"          run, whichever is later, as directory OUT\n"
	"          with model.safetensors and config.json, as Hugging Face's tools load them; of "
	"a\n"
	"          run with adapters: these, with adapter_model.safetensors and "
	"adapter_config.json\n"
	"  prune   removes all whole checkpoints but the newest N and the best one, and what was\n"
	"          left unfinished\n"
	"\n"
	"      --dtype TYPE     of the exported numbers: fp32 (default), bf16, fp16\n"
	"      --shard-bytes N  most bytes of tensors in a file, unless one is larger (default "
	"5e9);\n"
	"                       what needs several files has model.safetensors.index.json\n"
	"      --best           exports the one with the lowest loss, which [checkpoint] "
	"keep_best kept\n"
	"      --merge          exports the model in which the adapters are merged\n"
	"      --adapter DIR    merges adapters of PEFT into MODEL, a model's directory of Hugging "
	"Face\n"
	"  -o, --option section.key=value\n"
	"                       how ADAPTER was trained, as in -o model.store=nf4: onto that it is "
	"merged\n"
	"      --keep N         checkpoints that stay, 1 or more\n"
	"  -h, --help           shows this\n";

struct args {
	const char *action, *dir, *out;
	struct zr_export_from from;
	const char *option[ZR_EXPORT_OPTIONS];
	int64_t keep;
	int best;
	struct zr_export_how how;
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
	int64_t step = rc ? -1 : zr_ckpt_named(f.path, a->best ? "best" : "latest");
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

/* A run has a model at its end, which may be later than its last checkpoint, or all that it has. */
static int export(const struct args *a, struct zr_error *err)
{
	char path[PATH_MAX];
	struct zr_error why = { 0 };
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
	return rc ? zr_err(err, rc, "%s", why.text) :
		    zr_export_checkpoint(path, a->out, &a->how, err);
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

/* ---- the command line ---- */

static int parse_dtype(const char *text, int32_t *out)
{
	static const struct {
		const char *name;
		int32_t dtype;
	} types[] = { { "fp32", ZR_F32 }, { "bf16", ZR_BF16 }, { "fp16", ZR_F16 } };
	for (size_t i = 0; i < sizeof types / sizeof *types; i++)
		if (!strcmp(types[i].name, text)) {
			*out = types[i].dtype;
			return 0;
		}
	fprintf(stderr, "zeroth checkpoint: --dtype %s: expected fp32, bf16 or fp16\n", text);
	return -1;
}

static int parse_count(const char *option, const char *text, int64_t *out)
{
	char *end;
	long long n = strtoll(text, &end, 10);
	if (!*text || *end || n < 1) {
		fprintf(stderr, "zeroth checkpoint: %s %s: expected a number, 1 or more\n", option,
			text);
		return -1;
	}
	*out = n;
	return 0;
}

static int wrong(const char *what)
{
	fprintf(stderr, "zeroth checkpoint: %s\n", what);
	return zr_cmd_synopsis(usage);
}

/* -1 to continue, else the exit code. */
static int parse(int argc, char **argv, struct args *a)
{
	static const struct option longs[] = { { "dtype", 1, NULL, 'd' },
					       { "keep", 1, NULL, 'k' },
					       { "shard-bytes", 1, NULL, 's' },
					       { "best", 0, NULL, 'b' },
					       { "merge", 0, NULL, 'm' },
					       { "adapter", 1, NULL, 'a' },
					       { "option", 1, NULL, 'o' },
					       { "help", 0, NULL, 'h' },
					       { NULL, 0, NULL, 0 } };
	int64_t shard = (int64_t)ZR_EXPORT_SHARD;
	int c;
	*a = (struct args){ .how.dtype = ZR_F32 };
	optind = 1;
	while ((c = getopt_long(argc, argv, "ho:", longs, NULL)) != -1) {
		if (c == 'h') {
			fputs(usage, stdout);
			return 0;
		}
		a->best |= c == 'b';
		a->how.merge |= c == 'm';
		a->from.adapter = c == 'a' ? optarg : a->from.adapter;
		if (c == 'o' && a->from.options == ZR_EXPORT_OPTIONS)
			return wrong("too many -o");
		if (c == 'o')
			a->option[a->from.options++] = optarg;
		else if (!strchr("bma", c) && !(c == 'd' && !parse_dtype(optarg, &a->how.dtype)) &&
			 !(c == 'k' && !parse_count("--keep", optarg, &a->keep)) &&
			 !(c == 's' && !parse_count("--shard-bytes", optarg, &shard))) {
			return c == '?' ? zr_cmd_synopsis(usage) : 2;
		}
	}

	a->how.shard_bytes = (uint64_t)shard;
	a->action = argv[optind];
	a->dir = a->action ? argv[optind + 1] : NULL;
	a->out = a->dir ? argv[optind + 2] : NULL;
	a->from.model = a->dir;
	a->from.option = a->option;
	return a->dir ? -1 :
			wrong(a->action ? "DIR is missing" :
					  "ls, verify, export or prune is missing");
}

int zr_cmd_checkpoint(int argc, char **argv)
{
	struct args a;
	struct zr_error err = { 0 };
	int rc = parse(argc, argv, &a);
	if (rc >= 0)
		return rc;

	int exports = !strcmp(a.action, "export"), prunes = !strcmp(a.action, "prune");
	if (exports != (a.out != NULL))
		return wrong(exports ? "OUT is missing" : "one DIR only");
	if (prunes != (a.keep > 0))
		return wrong(prunes ? "prune needs --keep N" : "--keep is for prune");
	if ((a.best || a.how.merge || a.from.adapter) && !exports)
		return wrong("--best, --merge and --adapter are for export");
	if (a.from.options && !a.from.adapter)
		return wrong("-o is for --adapter: a run has its configuration");
	if (a.from.adapter && (a.best || !a.how.merge))
		return wrong("--adapter needs --merge, and no --best: what it names is no run");
	if (!exports && !prunes && strcmp(a.action, "ls") && strcmp(a.action, "verify"))
		return wrong("expected ls, verify, export or prune");
	if (exports)
		rc = export(&a, &err);
	else if (prunes)
		rc = prune(&a, &err);
	else
		rc = strcmp(a.action, "ls") ? verify(&a, &err) : list(&a, &err);
	return rc ? zr_cmd_failed(&err) : 0;
}
