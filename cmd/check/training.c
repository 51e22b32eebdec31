/* SPDX-License-Identifier: Apache-2.0
 *
 * training.c - the plugin as a part of small trainings: programs of a stage for many ranks, which
 * core proves without running them, and runs that must end with the same bits.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cmd/check/check.h"
#include "core/base/child.h"
#include "core/setup.h"

static int is_role(const struct zr_check *c, const char *role)
{
	return !strcmp(c->plugin->desc->role, role);
}

static int vocabulary_of_data(struct zr_check *c)
{
	const struct zr_data_v1 *v = c->vtbl;
	struct zr_data_info info = { .size = sizeof info };
	struct zr_try t = { .c = c };

	zr_try_open(c, &t);
	zr_must(&t, ZR_CALL(c, ZR_MAIN, "info", v->info(t.inst, &info)));
	zr_try_close(&t);
	zr_blame(c, ""); /* what comes is not of this instance */
	return info.vocabulary ? (int)info.vocabulary : 65536;
}

static int is_whole(const struct zr_check *c)
{
	return is_role(c, "optimizer") &&
	       ((const struct zr_optimizer_v1 *)c->vtbl)->caps & ZR_OPT_WHOLE;
}

/* The section of the plugin. What updates whole matrices gets some, and another plugin the rest. */
static void write_section(struct zr_check *c, FILE *f)
{
	const struct zr_table t = zr_table_of(c->plugin->desc);
	const struct zr_opt *o;

	const int whole = is_whole(c);
	if (whole)
		fputs("[optimizer]\nplugin = adamw\n", f);
	const char *name = "";
	if (is_role(c, "monitor") || whole)
		name = ".check";
	else if (is_role(c, "offload"))
		name = ".optimizer";
	fprintf(f, "[%s%s]\nplugin = %s\n", c->plugin->desc->role, name, c->path);
	if (whole)
		fputs("match = *.mlp.c_*.weight\n", f);
	for (uint32_t i = 0; (o = zr_table_next(&t, ZR_O_REQUIRED, &i));)
		if (!zr_try_given(c, o->name))
			fprintf(f, "%s = %s\n", o->name, zr_try_value(c, o));
	for (int i = 0; i < c->n_given; i++)
		fprintf(f, "%s\n", c->given[i]);
}

/* A configuration with the plugin in it, or without. */
static void write_ini(struct zr_check *c, const char *path, int with)
{
	static int vocabulary;

	if (!vocabulary)
		vocabulary = is_role(c, "data") ? vocabulary_of_data(c) : 256;
	FILE *f = fopen(path, "w");
	if (!f)
		zr_check_lacks(c, "file");
	if (with)
		write_section(c, f);
	if (!with || !is_role(c, "data"))
		fprintf(f, "[data]\nplugin = text\npath = %s/words\n", c->scratch);
	if (!with || !is_role(c, "model"))
		fprintf(f,
			"[model]\nplugin = gpt2\nlayers = %d\nheads = 2\nwidth = %d\n"
			"context = 16\nvocabulary = %d\n",
			is_role(c, "activation") ? 5 : 2,
			is_whole(c) ? 64 : 32 /* numbers per row fit matrices that are not tiny */,
			vocabulary);
	fputs("[train]\nsteps = 4\ntrain_batch_size = 12\nmicro_batch_size = 2\n"
	      "sequence_length = 16\neval_every = 0\n[checkpoint]\nevery = 2\nkeep = 0\n",
	      f);
	if (!is_role(c, "device"))
		fputs("[device]\nthreads = 1\n", f);
	if (is_role(c, "offload") || is_role(c, "activation")) /* there is something to leave */
		fputs("memory = 256M\n", f);
	if (fclose(f))
		zr_check_lacks(c, "file");
}

static void write_words(struct zr_check *c)
{
	char path[PATH_MAX];

	snprintf(path, sizeof path, "%s/words", c->scratch);
	FILE *f = fopen(path, "w");
	for (int i = 0; f && i < 400; i++)
		fprintf(f, "line %d of a text that is long enough\n", i * i);
	if (!f || fclose(f))
		zr_check_lacks(c, "file");
}

/* ---- programs of a stage --------------------------------------------------------- */

static const int64_t sizes[] = { ZR_BLOCK, 8 * ZR_BLOCK, 1 << 24, (int64_t)1 << 40 };

void zr_test_groups(struct zr_check *c)
{
	const struct zr_zero_v1 *v = c->vtbl;
	struct zr_try t = { .c = c };

	zr_try_open(c, &t);
	for (int32_t unit = 0; unit < 40; unit++) {
		struct zr_groups g = { -1, -1, -1 }, again = { -1, -1, -1 };
		const struct zr_groups_of of = { .size = sizeof of,
						 .unit = unit,
						 .n_units = 40,
						 .world = 4,
						 .elements = sizes[unit % 4],
						 .name = "h.0" };
		const struct zr_groups_of *lent =
			zr_lend(c, "struct zr_groups_of", &of, sizeof of, sizeof of);
		zr_must(&t, ZR_CALL(c, ZR_PURE, "groups", v->groups(t.inst, lent, &g)));
		zr_must(&t, ZR_CALL(c, ZR_PURE, "groups", v->groups(t.inst, lent, &again)));
		zr_area_free(c, lent);
		if (memcmp(&g, &again, sizeof g))
			zr_check_fail(c, "unit %d gets other groups the second time", unit);
		const int32_t all[] = { g.param, g.grad, g.state };
		for (int i = 0; i < 3; i++)
			if (all[i] < ZR_GROUP_SELF || all[i] > ZR_GROUP_WORLD)
				zr_check_fail(c,
					      "unit %d gets group %d, expected ZR_GROUP_*; fill "
					      "in all three",
					      unit, all[i]);
	}

	zr_try_close(&t);
}

/* Each rank of `world` alone: the recorder, the lowering and the proof refuse what is wrong. */
static void prove(struct zr_check *c, const char *ini, int world, int per_node)
{
	struct zr_config *cfg;
	struct zr_setup *s;
	struct zr_error err = { 0 };
	char node[40], in_nodes[40] = "";
	const char *const set[] = { node };

	snprintf(node, sizeof node, "boot.ranks_per_node=%d", per_node);
	if (per_node < world)
		snprintf(in_nodes, sizeof in_nodes, " in nodes of %d", per_node);
	int rc = zr_config_load(ini, set, per_node < world, &cfg, &err);
	if (!rc)
		rc = zr_setup_open(cfg, ZR_MODE_TRAIN, ZR_SETUP_ALONE, world, &s, &err);
	if (!rc)
		rc = zr_prove_all(s, &err);
	if (rc)
		zr_check_fail(c, "with %d ranks%s: %s", world, in_nodes, err.text);
	zr_setup_close(s);
	zr_config_free(cfg);
}

static void add_groups(struct zr_check *c, struct zr_results *r)
{
	const struct zr_zero_v1 *v = c->vtbl;
	struct zr_try t = { .c = c, .rank = (int32_t)c->seed, .world = 4, .per_node = 2 };

	zr_try_open(c, &t);
	for (int32_t unit = 0; unit < 8; unit++) {
		const struct zr_groups_of of = { .size = sizeof of,
						 .unit = unit,
						 .n_units = 8,
						 .world = 4,
						 .elements = sizes[(unit + (int)c->seed) % 4],
						 .name = "h.0" };
		struct zr_groups g = { -1, -1, -1 };
		zr_must(&t, ZR_CALL(c, ZR_PURE, "groups", v->groups(t.inst, &of, &g)));
		zr_result_add(c, r, "groups", &g, sizeof g, "the groups of unit %d", unit);
	}

	zr_try_close(&t);
}

static void add_programs(struct zr_check *c, struct zr_results *r, const char *ini, int world)
{
	struct zr_config *cfg;
	struct zr_setup *s;
	struct zr_error err = { 0 };
	char threads[40];
	const char *const set[] = { threads };

	snprintf(threads, sizeof threads, "device.threads=%d", zr_pool_size(c->pool));
	int rc = zr_config_load(ini, set, 1, &cfg, &err);
	if (!rc)
		rc = zr_setup_open(cfg, ZR_MODE_TRAIN, ZR_SETUP_ALONE, world, &s, &err);
	if (rc)
		zr_check_fail(c, "with %d ranks: %s", world, err.text);
	for (int i = 0; i < 4; i++)
		zr_result_add(c, r, "at", &s->programs.recorded[i].hash,
			      sizeof s->programs.recorded[i].hash, "the program %s of %d ranks",
			      zr_program_name[i], world);
	zr_setup_close(s);
	zr_config_free(cfg);
}

void zr_compute_zero(struct zr_check *c, struct zr_results *r)
{
	char ini[PATH_MAX];

	snprintf(ini, sizeof ini, "%s/%llu.ini", c->scratch, (unsigned long long)c->seed);
	if (!c->seed)
		write_words(c);
	write_ini(c, ini, 1);
	add_groups(c, r);
	zr_blame(c, "at");
	add_programs(c, r, ini, c->seed ? 2 : 6);
}

void zr_test_programs(struct zr_check *c)
{
	static const int worlds[] = { 1, 2, 3, 4, 6, 16 };
	char ini[PATH_MAX];

	write_words(c);
	snprintf(ini, sizeof ini, "%s/check.ini", c->scratch);
	write_ini(c, ini, 1);
	zr_blame(c, "at");
	for (size_t i = 0; i < sizeof worlds / sizeof *worlds; i++)
		for (int node = 1; node <= worlds[i]; node++)
			if (12 % (2 * worlds[i]) == 0 && worlds[i] % node == 0)
				prove(c, ini, worlds[i], node);
}

/* ---- runs ------------------------------------------------------------------------ */

#define DIGEST 128

/* The last line of a file. */
static void last_line(const char *path, char *line, size_t room)
{
	char next[1024];
	FILE *f = fopen(path, "re");

	*line = 0;
	while (f && fgets(next, sizeof next, f))
		if (*next != '\n')
			snprintf(line, room, "%.*s", (int)strcspn(next, "\n"), next);
	if (f)
		fclose(f);
}

/* zeroth train, apart, with argv[2] and [4] to be filled in here. Returns its exit code; `why` is
 * the last line of its standard error. */
static int run_training(struct zr_check *c, const char *name, const char *ini, const char **argv,
			char digest[DIGEST], char why[1024])
{
	char out[PATH_MAX], err[PATH_MAX], dir[PATH_MAX];
	int status = 0;

	argv[2] = ini;
	argv[4] = dir;
	snprintf(dir, sizeof dir, "run.dir=%s/%s", c->scratch, name);
	snprintf(out, sizeof out, "%s/%s.out", c->scratch, name);
	snprintf(err, sizeof err, "%s/%s.err", c->scratch, name);
	const int to[] = { open(out, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666),
			   open(err, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666) };
	if (to[0] < 0 || to[1] < 0)
		zr_check_lacks(c, "file");

	pid_t child = fork();
	if (!child) {
		dup2(to[0], 1);
		dup2(to[1], 2);
		execv("/proc/self/exe", (char **)argv);
		_exit(127);
	}

	if (child < 0)
		zr_check_lacks(c, "process");
	zr_child_wait(child, &status);
	close(to[0]);
	close(to[1]);

	if (zr_check_starved(status)) {
		errno = ENOMEM;
		zr_check_lacks(c, "memory");
	}

	last_line(err, why, 1024);
	last_line(out, digest, DIGEST);
	if (WIFEXITED(status))
		return WEXITSTATUS(status);
	return 128 + WTERMSIG(status);
}

/* Whether a line ends with what the system says where memory, files or disk run out. */
static int names_shortage(const char *line)
{
	static const int shortages[] = { ENOMEM, ENOSPC, EDQUOT, EMFILE, ENFILE };
	const size_t n = strlen(line);

	for (size_t i = 0; i < sizeof shortages / sizeof *shortages; i++) {
		const char *text = strerror(shortages[i]);
		const size_t length = strlen(text);
		if (n >= length && !strcmp(line + n - length, text))
			return 1;
	}
	return 0;
}

/* What fails for want of memory, files or disk mostly fails without the plugin as well; where it
 * does not, what the system said last decides. */
static void blame_machine(struct zr_check *c, const char **argv, int code, const char *said)
{
	char ini[PATH_MAX], why[1024], digest[DIGEST];

	if (code != 3 && code != 4)
		return;

	if (names_shortage(said)) {
		snprintf(c->verdict->text, sizeof c->verdict->text,
			 "this machine gives a training too little: %s", said);
		zr_check_end(c, ZR_CHECK_UNTESTED);
	}

	snprintf(ini, sizeof ini, "%s/control.ini", c->scratch);
	write_ini(c, ini, 0);
	if (run_training(c, "control", ini, argv, digest, why) != code)
		return;

	snprintf(c->verdict->text, sizeof c->verdict->text,
		 "this machine cannot train without the plugin either: %s", why);
	zr_check_end(c, ZR_CHECK_UNTESTED);
}

/* A training with the words that follow up to NULL. The test ends if it fails. */
static void train(struct zr_check *c, const char *name, char *digest, const char *ini, ...)
{
	const char *argv[32] = { "zeroth", "train", NULL, "-o" };
	char why[1024];
	int n = 5;
	va_list ap;

	va_start(ap, ini);
	while (n < 31 && (argv[n] = va_arg(ap, const char *)))
		n++;
	va_end(ap);
	argv[n] = NULL;

	const int code = run_training(c, name, ini, argv, digest, why);
	if (!code && !strncmp(digest, "digest:", 7))
		return;

	blame_machine(c, argv, code, why);
	zr_check_fail(c, "a training (%s) ends with code %d: %s", name, code, why);
}

static void same(struct zr_check *c, const char *what, const char *a, const char *b)
{
	if (strcmp(a, b))
		zr_check_fail(c, "a training %s ends with other bits: %s instead of %s", what, b,
			      a);
}

/* Roles that must not change a bit: beside the plugin there is a training without. */
static int is_neutral(const struct zr_check *c)
{
	return is_role(c, "zero") || is_role(c, "activation") || is_role(c, "monitor") ||
	       is_role(c, "offload") || is_role(c, "comm");
}

void zr_test_training(struct zr_check *c)
{
	char with[PATH_MAX], without[PATH_MAX], from[PATH_MAX], a[DIGEST], b[DIGEST];
	const char *stage = is_role(c, "zero") ? "train.steps=4" : "zero.plugin=stage3";
	struct zr_try t = { .c = c };

	if (is_role(c, "boot"))
		zr_check_skip(c, "how ranks find each other is a matter of how they are started");
	if (!is_role(c, "adapter")) {
		zr_try_open(c, &t); /* its options suit it */
		zr_try_close(&t);
	}

	zr_blame(c, "");
	write_words(c);
	snprintf(with, sizeof with, "%s/with.ini", c->scratch);
	snprintf(without, sizeof without, "%s/without.ini", c->scratch);
	snprintf(from, sizeof from, "%s/ranks/checkpoints/step-00000002", c->scratch);
	write_ini(c, with, 1);
	write_ini(c, without, 0);
	if (is_neutral(c))
		train(c, "without", a, without, "-o", "zero.plugin=stage0", NULL);
	else
		train(c, "alone", a, with, "-o", "zero.plugin=stage0", NULL);
	if (is_role(c, "zero")) { /* with groups of nodes, too */
		train(c, "nodes", b, with, "-n", "6", "-o", "boot.ranks_per_node=2", NULL);
		same(c, "with it, on six ranks in nodes of two,", a, b);
	}

	train(c, "ranks", b, with, "-n", "2", "-o", stage, NULL);
	same(c, is_neutral(c) ? "with it, on two ranks," : "on two ranks, in stage 3,", a, b);
	if (is_role(c, "comm")) { /* with the other kinds of collectives, and an odd world */
		train(c, "sums", a, without, "-n", "3", "-o", "train.reduction=local", NULL);
		train(c, "sums2", b, with, "-n", "3", "-o", "train.reduction=local", NULL);
		same(c, "with it, on three ranks that add their micro-batches first,", a, b);
		return;
	}

	train(c, "resumed", b, with, "--resume", from, NULL);
	same(c, "that resumes after step 2 on one rank", strstr(a, "params="),
	     strstr(b, "params="));
}
