/* SPDX-License-Identifier: Apache-2.0
 *
 * t_save_alloc.c - I6 where memory ends: a training saves twice and keeps one checkpoint, and one
 * allocation fails, the n-th after the first save. Whatever has a name then is to the byte what it
 * is without that; where the second checkpoint is not there, the first still is, and the run says
 * that something is not saved. The same of an export. `make check` tries some n, ZR_SWEEP=full all,
 * ZR_SWEEP=N that one.
 *
 * malloc and its family are this program's own, as in t_run.c.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <jansson.h>

#include "train/run/run.h"
#include "train/weights/export.h"

#include <cmocka.h> /* last: it defines fail() */

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif

static atomic_int armed;
static atomic_long count; /* of allocations since then */
static long fail_at;      /* number of the one that fails; 0: none */

#ifndef SANITIZED
#define EXPORT __attribute__((visibility("default")))
void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t n);
void *__libc_memalign(size_t align, size_t n);

static int fails(void)
{
	if (!atomic_load(&armed) || atomic_fetch_add(&count, 1) + 1 != fail_at)
		return 0;
	errno = ENOMEM;
	return 1;
}

EXPORT void *malloc(size_t n)
{
	return fails() ? NULL : __libc_malloc(n);
}

EXPORT void *calloc(size_t n, size_t size)
{
	return fails() ? NULL : __libc_calloc(n, size);
}

EXPORT void *realloc(void *p, size_t n)
{
	return fails() ? NULL : __libc_realloc(p, n);
}

EXPORT void *aligned_alloc(size_t align, size_t n)
{
	return fails() ? NULL : __libc_memalign(align, n);
}

EXPORT int posix_memalign(void **out, size_t align, size_t n)
{
	*out = fails() ? NULL : __libc_memalign(align, n);
	return *out ? 0 : ENOMEM;
}
#endif

/* ---- one try, in a process and a directory of its own ---- */

static char scratch[1024];

/* What a try left behind beside its files. */
struct outcome {
	int rc;
	long allocations;
	struct zr_saver_stats saves;
	char text[1024];
};

static struct outcome *out;

static int reference; /* nothing fails, and the first checkpoint is copied before it goes */
static int beside;    /* training goes on while it saves */

static int soon(const char *path)
{
	for (int i = 0; i < 500 && access(path, F_OK); i++)
		usleep(10000);
	return !access(path, F_OK);
}

/* Counting begins when step 7 of 8 is shown and the save of step 4 is over: one that goes on beside
 * the steps has time for its files before step 6, and for their name before step 7. */
static ssize_t watch_write(void *cookie, const char *buf, size_t n)
{
	(void)cookie;
	if (beside && n > 7 && (!memcmp(buf, "step 5/", 7) || !memcmp(buf, "step 6/", 7)))
		usleep(reference ? 300000 : 20000);
	if (n > 7 && !memcmp(buf, "step 7/", 7)) {
		int saved = soon("run/checkpoints/latest");
		if (reference && (!saved || system("cp -r run/checkpoints/step-00000004 first")))
			abort();
		atomic_store(&armed, saved);
	}
	return (ssize_t)n;
}

static void train(const char *const *extra)
{
	/* from the root: a checkpoint has it so, whatever the directory */
	char data[PATH_MAX + 32];
	snprintf(data, sizeof data, "data.path=%s/text", scratch);
	const char *o[24] = { "model.plugin=gpt2",
			      "model.layers=1",
			      "model.heads=2",
			      "model.width=16",
			      "model.context=16",
			      "data.plugin=text",
			      data,
			      "run.dir=run",
			      "train.micro_batch_size=2",
			      "train.steps=8",
			      "run.log_every=1",
			      "device.threads=1",
			      "checkpoint.every=4",
			      "checkpoint.keep=1" };
	int n = 14;
	struct zr_config *cfg;
	struct zr_run_report rep = { 0 };
	struct zr_error err = { 0 };
	while (extra && *extra)
		o[n++] = *extra++;
	out->rc = zr_config_load(NULL, o, n, &cfg, &err);
	if (!out->rc) {
		FILE *f = fopencookie(NULL, "w", (cookie_io_functions_t){ .write = watch_write });
		setvbuf(f, NULL, _IOLBF, 4096);
		out->rc = zr_run_train(cfg, NULL, f, &rep, &err);
		atomic_store(&armed, 0);
	}
	out->saves = rep.checkpoints;
	snprintf(out->text, sizeof out->text, "%s", err.text);
}

static void export(const char *const *unused)
{
	struct zr_error err = { 0 };
	const struct zr_export_how how = { .dtype = ZR_F32, .shard_bytes = 4000 };
	(void)unused;
	atomic_store(&armed, 1);
	out->rc = zr_export_checkpoint("../want/first", "exported", &how, &err);
	atomic_store(&armed, 0);
	snprintf(out->text, sizeof out->text, "%s", err.text);
}

typedef void job(const char *const *extra);

/* Runs it in scratch/DIR. */
static void try(const char *dir, job *fn, const char *const *extra, long at)
{
	char path[PATH_MAX], command[PATH_MAX + 16];
	int status;
	snprintf(path, sizeof path, "%s/%s", scratch, dir);
	if (fn == train || strcmp(dir, "want")) { /* an export has the first checkpoint there */
		snprintf(command, sizeof command, "rm -rf '%s'", path);
		assert_int_equal(system(command), 0);
	}
	mkdir(path, 0700);
	memset(out, 0, sizeof *out);
	fflush(NULL);
	pid_t child = fork();
	assert_true(child >= 0);
	if (!child) {
		if (chdir(path) || !freopen("log", "w", stderr) || !freopen("said", "w", stdout))
			_exit(9);
		fail_at = at;
		reference = !strcmp(dir, "want");
		beside = extra != NULL;
		fn(extra);
		out->allocations = atomic_load(&count);
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	if (status)
		fail_msg("allocation %ld: status %#x", at, (unsigned)status);
}

/* ---- what is there ---- */

static char *text_of(const char *path, size_t *n)
{
	char full[PATH_MAX];
	snprintf(full, sizeof full, "%s/%s", scratch, path);
	FILE *f = fopen(full, "r");
	char *text = f ? malloc(1 << 22) : NULL;
	*n = f ? fread(text, 1, 1 << 22, f) : 0;
	if (f)
		fclose(f);
	return text;
}

static int is_there(const char *path)
{
	char full[PATH_MAX];
	struct stat st;
	snprintf(full, sizeof full, "%s/%s", scratch, path);
	return !lstat(full, &st);
}

/* Both are directories with the same files, or files. */
static int same(const char *a, const char *b)
{
	char command[2 * PATH_MAX + 64];
	snprintf(command, sizeof command, "cd '%s' && diff -rq '%s' '%s' > diff.out 2>&1", scratch,
		 a, b);
	return !system(command);
}

/* A summary has all keys of the other one. */
static int same_keys(const char *a, const char *b)
{
	size_t n, m;
	char *x = text_of(a, &n), *y = text_of(b, &m);
	json_t *got = x ? json_loadb(x, n, 0, NULL) : NULL,
	       *want = y ? json_loadb(y, m, 0, NULL) : NULL, *v;
	const char *key;
	int ok = got && want;
	json_object_foreach(want, key, v)
		ok &= json_object_get(got, key) &&
		      json_object_size(json_object_get(got, key)) == json_object_size(v);
	json_decref(got);
	json_decref(want);
	free(x);
	free(y);
	return ok;
}

static const char *wrong_after_training(void)
{
	int second = is_there("try/run/checkpoints/step-00000008"),
	    first = is_there("try/run/checkpoints/step-00000004");
	size_t n;
	if (second &&
	    !same("try/run/checkpoints/step-00000008", "want/run/checkpoints/step-00000008"))
		return "the second checkpoint is not what it must be";
	if (first && !same("try/run/checkpoints/step-00000004", "want/first"))
		return "the first checkpoint is not what it was";
	if (!second && !first)
		return "no checkpoint is left";
	char *latest = text_of("try/run/checkpoints/latest", &n);
	int last = latest && n == 14 ? latest[12] : 0;
	free(latest);
	if (last != '8' && last != '4')
		return "latest names nothing";
	if ((last == '8' && !second) || (last == '4' && !first))
		return "latest names what is not there";
	if (out->saves.saved == 2 && last != '8')
		return "it says that it saved what it did not";
	if (!out->rc && !out->saves.failed && last != '8')
		return "nothing says that a checkpoint is missing";
	if (is_there("try/run/model.safetensors") &&
	    !same("try/run/model.safetensors", "want/run/model.safetensors"))
		return "the weights are not what they must be";
	if (!out->rc && !is_there("try/run/model.safetensors"))
		return "nothing says that the weights are missing";
	if (!out->rc && !same_keys("try/run/summary.json", "want/run/summary.json"))
		return "nothing says that the summary is not whole";
	if (out->rc && !*out->text)
		return "it fails without a word";
	return NULL;
}

static const char *wrong_after_export(void)
{
	if (is_there("try/exported") && !same("try/exported", "want/exported"))
		return "the export is not what it must be";
	if ((out->rc == 0) != is_there("try/exported"))
		return "the result is not what it says";
	return out->rc && !*out->text ? "it fails without a word" : NULL;
}

static void sweep(job *fn, const char *const *extra, const char *(*wrong)(void), long tries)
{
#ifdef SANITIZED
	(void)fn, (void)extra, (void)wrong, (void)tries, (void)try;
	skip();
#else
	const char *how = getenv("ZR_SWEEP");
	long bad = 0, done = 0, only = how ? atol(how) : 0;
	try("want", fn, extra, 0);
	if (out->rc)
		fail_msg("%s", out->text);
	long all = out->allocations, step = how && !strcmp(how, "full") ? 1 : all / tries + 1;
	assert_true(all > 100);
	for (long n = 1 + (step > 1 ? (long)getpid() % step : 0); n <= all; n += step) {
		if (only) {
			n = only;
			step = all;
		}
		try("try", fn, extra, n);
		done++;
		const char *what = wrong();
		if (what && bad++ < 20)
			print_message("# allocation %ld of %ld: %s (%d %s)\n", n, all, what,
				      out->rc, out->text);
	}
	print_message("# %ld allocations failed of %ld, %ld with a wrong result\n", done, all, bad);
	assert_int_equal(bad, 0);
#endif
}

static void I6_a_save(void **unused)
{
	(void)unused;
	sweep(train, NULL, wrong_after_training, 25);
}

static void I6_a_save_while_training_goes_on(void **unused)
{
	(void)unused;
	static const char *const extra[] = { "checkpoint.async=yes", NULL };
	sweep(train, extra, wrong_after_training, 12);
}

static void I6_an_export(void **unused)
{
	(void)unused;
	sweep(export, NULL, wrong_after_export, 25);
}

static int begin(void **unused)
{
	char path[PATH_MAX];
	(void)unused;
	setenv("OPENBLAS_NUM_THREADS", "1", 1); /* its threads do not outlive a fork */
	/* in memory, where there is room: a sync of a disk takes longer than a training */
	snprintf(scratch, sizeof scratch, "%s/zeroth-alloc-XXXXXX",
		 getenv("TMPDIR")         ? getenv("TMPDIR") :
		 access("/dev/shm", W_OK) ? "/tmp" :
					    "/dev/shm");
	out = mmap(NULL, sizeof *out, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (out == MAP_FAILED || !mkdtemp(scratch))
		return -1;
	snprintf(path, sizeof path, "%s/text", scratch);
	FILE *f = fopen(path, "w");
	for (int i = 0; f && i < 4000; i++)
		fprintf(f, "%d is followed by %d. ", i, i + 1);
	return f && !fclose(f) ? 0 : -1;
}

static int end(void **unused)
{
	char command[PATH_MAX];
	(void)unused;
	snprintf(command, sizeof command, "rm -rf '%s'", scratch);
	return system(command) ? -1 : 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(I6_a_save),
		cmocka_unit_test(I6_an_export),
		cmocka_unit_test(I6_a_save_while_training_goes_on),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, begin, end);
}
