/* SPDX-License-Identifier: Apache-2.0
 *
 * t_run.c - whole runs in one process: I2 (the plan is the allocation), I3 (no allocation after the
 * first step), I6 (weights are whole), and what an interruption leaves behind.
 *
 * malloc and its family, and mmap, are this program's own: they count and pass on. Core, plugins
 * and libraries all call them.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <jansson.h>

#include "train/run/run.h"
#include "core/session.h"
#include "train/weights.h"
#include "tests/lib/ranks_fixture.h"
#include "tests/lib/sanitize.h"

#include <cmocka.h> /* last: it defines fail() */

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif

static atomic_int counting;
static atomic_int *shown;          /* of rank 0, shared by ranks: the last step it printed */
static int count_from, count_till; /* count while *shown is in between, both included */

#ifndef SANITIZED
static atomic_long allocations;
static void *_Atomic allocator; /* where the last counted one was called from */

#define EXPORT __attribute__((visibility("default")))
void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t n);
void *__libc_memalign(size_t align, size_t n);

static void count(void *from)
{
	if (atomic_load(&counting) || (count_till && *shown >= count_from && *shown <= count_till))
		atomic_fetch_add(&allocations, 1), allocator = from;
}

EXPORT void *malloc(size_t n)
{
	count(__builtin_return_address(0));
	return __libc_malloc(n);
}

EXPORT void *calloc(size_t n, size_t size)
{
	count(__builtin_return_address(0));
	return __libc_calloc(n, size);
}

EXPORT void *realloc(void *p, size_t n)
{
	count(__builtin_return_address(0));
	return __libc_realloc(p, n);
}

EXPORT void *aligned_alloc(size_t align, size_t n)
{
	count(__builtin_return_address(0));
	return __libc_memalign(align, n);
}

EXPORT int posix_memalign(void **out, size_t align, size_t n)
{
	count(__builtin_return_address(0));
	*out = __libc_memalign(align, n);
	return *out ? 0 : ENOMEM;
}

EXPORT void *mmap(void *at, size_t n, int prot, int flags, int fd, off_t off)
{
	count(__builtin_return_address(0));
	return (void *)syscall(SYS_mmap, at, n, prot, flags, fd, off);
}
#endif

/* ---- a run into a scratch directory ---- */

static char scratch[] = "/tmp/zeroth-run-XXXXXX";
static char data_path[PATH_MAX], run_path[PATH_MAX];
static int runs;

/* What run.c prints arrives here, line by line. */
struct watch {
	/* start counting allocations once step 1 was shown, stop at the last step */
	int count_after_first;
	int interrupt_at; /* raise SIGINT when this step is shown */
	int total;
};

static ssize_t watch_write(void *cookie, const char *buf, size_t n)
{
	struct watch *w = cookie;
	int step, total;
	char head[64] = "";
	memcpy(head, buf, n < sizeof head - 1 ? n : sizeof head - 1);
	if (sscanf(head, "step %d/%d", &step, &total) != 2)
		return (ssize_t)n;
	w->total = total;
	if (shown)
		atomic_store(shown, step);
	if (w->count_after_first)
		atomic_store(&counting, step < total);
	if (step == w->interrupt_at)
		raise(SIGINT);
	return (ssize_t)n;
}

static int train(struct watch *w, const char *const *extra, struct zr_run_report *rep,
		 struct zr_error *err)
{
	static char data_opt[PATH_MAX + 16], run_opt[PATH_MAX + 16];
	const char *o[40] = { "model.plugin=gpt2",
			      "model.layers=2",
			      "model.heads=2",
			      "model.width=32",
			      "model.context=32",
			      "data.plugin=text",
			      data_opt,
			      run_opt,
			      "train.micro_batch_size=2",
			      "train.steps=6",
			      "train.eval_every=2",
			      "train.eval_batches=2",
			      "run.log_every=1",
			      "device.threads=2" };
	int n = 14;
	struct zr_config *cfg;
	snprintf(run_path, sizeof run_path, "%s/run%d", scratch, runs++);
	snprintf(data_opt, sizeof data_opt, "data.path=%s", data_path);
	snprintf(run_opt, sizeof run_opt, "run.dir=%s", run_path);
	while (extra && *extra)
		o[n++] = *extra++;
	if (zr_config_load(NULL, o, n, &cfg, err))
		return err->code;
	FILE *out = fopencookie(w, "w", (cookie_io_functions_t){ .write = watch_write });
	setvbuf(out, NULL, _IOLBF, 4096);
	int rc = zr_run_train(cfg, NULL, out, rep, err);
	atomic_store(&counting, 0);
	fclose(out);
	zr_config_free(cfg);
	return rc;
}

static const char *in_run(const char *name)
{
	static char path[PATH_MAX + 32];
	snprintf(path, sizeof path, "%s/%s", run_path, name);
	return path;
}

static int make_data(void **unused)
{
	(void)unused;
	if (!mkdtemp(scratch))
		return -1;
	snprintf(data_path, sizeof data_path, "%s/text", scratch);
	FILE *f = fopen(data_path, "w");
	for (int i = 0; f && i < 20000; i++)
		fprintf(f, "%d is followed by %d. ", i, i + 1);
	return f && !fclose(f) ? 0 : -1;
}

static int remove_data(void **unused)
{
	(void)unused;
	char cmd[PATH_MAX];
	snprintf(cmd, sizeof cmd, "rm -rf '%s'", scratch);
	return system(cmd) ? -1 : 0;
}

/* ---- the tests ---- */

static void no_allocation(const char *const *extra)
{
#ifdef SANITIZED
	(void)extra;
	skip();
#else
	struct watch w = { .count_after_first = 1 };
	struct zr_run_report rep;
	struct zr_error err = { 0 };
	atomic_store(&allocations, 0);
	if (train(&w, extra, &rep, &err))
		fail_msg("%s", err.text);
	assert_int_equal(w.total, 6); /* the steps were seen */
	assert_int_equal(rep.steps, 6);
	assert_int_equal(atomic_load(&allocations), 0);
#endif
}

static void I3_no_allocation_after_the_first_step(void **unused)
{
	(void)unused;
	no_allocation(NULL);
}

static void I3_no_allocation_in_bf16_with_accumulation(void **unused)
{
	(void)unused;
	static const char *const extra[] = { "precision.plugin=bf16",
					     "train.gradient_accumulation_steps=3",
					     "model.dropout=0.1", "monitor.table.plugin=csv",
					     NULL };
	no_allocation(extra);
}

/* Nor where steps are skipped, which is logged. */
static void I3_no_allocation_in_fp16_that_overflows(void **unused)
{
	(void)unused;
	static const char *const extra[] = { "precision.plugin=fp16",
					     "precision.initial_scale_power=60",
					     "monitor.table.plugin=csv", NULL };
	no_allocation(extra);
}

static void I3_no_allocation_while_steps_are_traced(void **unused)
{
	(void)unused;
	static const char *const extra[] = { "run.trace=2-6", "run.wall_clock_breakdown=yes",
					     NULL };
	no_allocation(extra);
}

/* ---- two ranks ---- */

struct two {
	atomic_int shown;
	int rc[2];
	long allocated[2];
	char text[2][1024];
};

static struct two *two;

/* Rank 1 prints nothing: each counts by what rank 0 has shown. When that is step k, rank 1 has left
 * the boundary of step k behind and not that of k + 2: counting ends before the last two steps. */
static int train_rank(int rank, void *arg)
{
	struct watch w = { 0 };
	struct zr_run_report rep;
	struct zr_error err = { 0 };
	shown = &two->shown;
	count_from = 1 + rank;
	count_till = 5;
	two->rc[rank] = train(&w, arg, &rep, &err);
	count_till = 0;
	snprintf(two->text[rank], sizeof *two->text, "%s", err.text);
#ifndef SANITIZED
	two->allocated[rank] = atomic_load(&allocations);
	Dl_info who = { 0 };
	if (allocator && dladdr(allocator, &who))
		snprintf(two->text[rank], sizeof *two->text, "%s + %#lx, in %s", who.dli_fname,
			 (unsigned long)((char *)allocator - (char *)who.dli_fbase),
			 who.dli_sname ? who.dli_sname : "?");
#endif
	return 0;
}

static void train_two(const char *const *extra)
{
	memset(two, 0, sizeof *two);
#ifndef SANITIZED
	atomic_store(&allocations, 0);
#endif
	assert_int_equal(ranks_fork(2, train_rank, (void *)extra), 0);
	/* as the children called it */
	snprintf(run_path, sizeof run_path, "%s/run%d", scratch, runs++);
	for (int r = 0; r < 2; r++)
		if (two->rc[r])
			fail_msg("rank %d: %s", r, two->text[r]);
	assert_int_equal(two->shown, 8);
}

static void I3_no_allocation_with_two_ranks(void **unused)
{
	(void)unused;
#ifdef SANITIZED
	skip();
#else
	static const char *const stages[] = { "zero.plugin=stage0", "zero.plugin=stage1",
					      "zero.plugin=stage3", "zero.plugin=hpz",
					      "zero.plugin=mics" };
	for (int i = 0; i < 10; i++) {
		const char *const extra[] = { stages[i % 5],
					      "train.gradient_accumulation_steps=2",
					      "train.steps=8",
					      "zero.reduce_bucket_size=1",
					      i % 2 ? "run.trace=2-8" : "run.trace=",
					      i < 5 ? NULL : "boot.ranks_per_node=1",
					      NULL };
		train_two(extra);
		for (int r = 0; r < 2; r++)
			if (two->allocated[r])
				fail_msg("%s: rank %d allocated %ld times: %s", extra[0], r,
					 two->allocated[r], two->text[r]);
	}
#endif
}

static void ledger_equals_plan(int lines_at_least)
{
	json_t *j = json_load_file(in_run("summary.json"), 0, NULL), *tier, *line;
	const char *tier_name, *what;
	int lines = 0;
	assert_non_null(j);
	json_object_foreach(json_object_get(j, "memory"), tier_name, tier)
		json_object_foreach(tier, what, line)
	{
		json_int_t planned = json_integer_value(json_object_get(line, "planned"));
		if (planned != json_integer_value(json_object_get(line, "peak")))
			fail_msg("%s: planned %lld, peak %lld", what, (long long)planned,
				 (long long)json_integer_value(json_object_get(line, "peak")));
		lines += planned > 0;
	}
	assert_true(lines >= lines_at_least);
	json_decref(j);
}

/* What the programs say that rank 0 receives in a step is what it took in: no share of the first
 * rank is padding. */
static void received_equals_plan(void)
{
	json_t *j = json_load_file(in_run("summary.json"), 0, NULL),
	       *r = json_object_get(j, "received_bytes_per_step");
	json_int_t planned = json_integer_value(json_object_get(r, "planned")),
		   measured = json_integer_value(json_object_get(r, "measured"));
	assert_true(planned > 0);
	if (measured != planned)
		fail_msg("planned %lld bytes received, measured %lld", (long long)planned,
			 (long long)measured);
	json_decref(j);
}

static void I2_the_plan_is_the_allocation_with_two_ranks(void **unused)
{
	(void)unused;
	static const char *const stages[] = { "zero.plugin=stage0", "zero.plugin=stage1",
					      "zero.plugin=stage2", "zero.plugin=stage3",
					      "zero.plugin=hpz",    "zero.plugin=mics" };
	static const char *const precisions[] = { "precision.plugin=fp32", "precision.plugin=bf16",
						  "precision.plugin=fp16" };
	for (int i = 0; i < 24; i += sanitized() ? 5 : 1) {
		const char *const extra[] = { stages[i % 6],
					      "train.steps=8",
					      "train.gradient_accumulation_steps=2",
					      precisions[i / 6 % 3],
					      i % 3 ? "train.reduction=slots" :
						      "train.reduction=local",
					      i % 4 ? "train.communication_data_type=auto" :
						      "train.communication_data_type=bf16",
					      i < 12 ? NULL : "boot.ranks_per_node=1",
					      NULL };
		train_two(extra);
		ledger_equals_plan(8);
		received_equals_plan();
	}
}

/* Also where ranks send codes, and where they read each other's. */
static void I2_codes_are_as_many_bytes_as_planned(void **unused)
{
	static const char *const stages[] = { "zero.plugin=stage0", "zero.plugin=stage2",
					      "zero.plugin=stage3", "zero.plugin=hpz",
					      "zero.plugin=mics" };
	(void)unused;
	for (int i = 0; i < 10; i += sanitized() ? 3 : 1) {
		const char *const extra[] = { stages[i % 5],
					      "train.steps=8",
					      "train.gradient_accumulation_steps=2",
					      "precision.plugin=bf16",
					      "train.communication_data_type=mxint8",
					      "train.gather_data_type=mxint8",
					      i < 5 ? NULL : "boot.ranks_per_node=1",
					      NULL };
		train_two(extra);
		ledger_equals_plan(8);
		received_equals_plan();
	}
}

/* The counter itself must see allocations of plugins and libraries. */
static void the_counter_counts(void **unused)
{
	(void)unused;
#ifdef SANITIZED
	skip();
#else
	atomic_store(&allocations, 0);
	atomic_store(&counting, 1);
	json_t *j = json_pack("[i]", 1);
	void *p = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	atomic_store(&counting, 0);
	assert_true(atomic_load(&allocations) >= 2);
	munmap(p, 4096);
	json_decref(j);
#endif
}

static void I2_the_plan_is_the_allocation(void **unused)
{
	(void)unused;
	struct watch w = { 0 };
	struct zr_run_report rep;
	struct zr_error err = { 0 };
	static const char *const extra[] = { "model.width=256", "model.layers=6",
					     "model.context=256", "train.steps=2", NULL };
	if (train(&w, extra, &rep, &err))
		fail_msg("%s", err.text);
	json_t *j = json_load_file(in_run("summary.json"), 0, NULL), *tier, *line;
	const char *tier_name, *what;
	uint64_t planned = 0;
	int lines = 0;
	assert_non_null(j);
	json_object_foreach(json_object_get(j, "memory"), tier_name, tier)
		json_object_foreach(tier, what, line)
	{
		json_int_t p = json_integer_value(json_object_get(line, "planned"));
		assert_true(p > 0);
		assert_int_equal(p, json_integer_value(json_object_get(line, "peak")));
		planned += (uint64_t)p;
		lines++;
	}
	assert_true(lines >= 7);
#ifndef SANITIZED
	uint64_t slack = planned / 50 > (64u << 20) ? planned / 50 : 64u << 20;
	uint64_t peak = (uint64_t)json_integer_value(json_object_get(j, "process_peak_bytes"));
	assert_true(peak <= planned + slack);
#endif
	json_decref(j);
}

static void an_interrupted_run_keeps_its_weights(void **unused)
{
	(void)unused;
	struct watch w = { .interrupt_at = 3 };
	struct zr_run_report rep;
	struct zr_error err = { 0 };
	struct stat st;
	if (train(&w, NULL, &rep, &err))
		fail_msg("%s", err.text);
	assert_int_equal(rep.interrupted, SIGINT);
	assert_int_equal(rep.steps, 3);
	assert_int_equal(stat(in_run("model.safetensors"), &st), 0);
	assert_true(st.st_size > rep.parameters * 4);
	assert_int_equal(stat(in_run("summary.json"), &st), 0);
}

/* Loads the weights of the last run into a sampling session; returns what loading says. */
static int load_weights(uint64_t *digest, struct zr_error *err)
{
	struct zr_config *cfg;
	struct zr_setup *setup = NULL;
	struct zr_session *s = NULL;
	int rc = zr_config_load(in_run("config.ini"), NULL, 0, &cfg, err);
	if (rc)
		return rc;
	rc = zr_setup_open(cfg, ZR_MODE_SAMPLE, 0, 1, &setup, err);
	if (!rc)
		rc = zr_session_open(setup, &s, err);
	if (!rc)
		rc = zr_weights_load(s, in_run("model.safetensors"), err);
	if (!rc)
		rc = zr_weights_digest(s, digest, err);
	zr_session_close(s);
	zr_setup_close(setup);
	zr_config_free(cfg);
	return rc;
}

static void I6_weights_come_back_bit_for_bit_or_are_refused(void **unused)
{
	(void)unused;
	struct watch w = { 0 };
	struct zr_run_report rep;
	struct zr_error err = { 0 };
	struct stat st;
	uint64_t digest = 0;
	if (train(&w, NULL, &rep, &err) || load_weights(&digest, &err))
		fail_msg("%s", err.text);
	assert_true(digest == rep.params_digest);
	assert_int_not_equal(stat(in_run("model.safetensors.tmp"), &st), 0);
	assert_int_equal(stat(in_run("model.safetensors"), &st), 0);
	assert_int_equal(truncate(in_run("model.safetensors"), st.st_size - 4), 0);
	assert_int_equal(load_weights(&digest, &err), ZR_EINVAL);
	assert_non_null(strstr(err.text, "cut short"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_counter_counts),
		/* before there are threads to fork */
		cmocka_unit_test(I3_no_allocation_with_two_ranks),
		cmocka_unit_test(I2_the_plan_is_the_allocation_with_two_ranks),
		cmocka_unit_test(I2_codes_are_as_many_bytes_as_planned),
		/* first: the peak is that of the process */
		cmocka_unit_test(I2_the_plan_is_the_allocation),
		cmocka_unit_test(I3_no_allocation_after_the_first_step),
		cmocka_unit_test(I3_no_allocation_in_bf16_with_accumulation),
		cmocka_unit_test(I3_no_allocation_in_fp16_that_overflows),
		cmocka_unit_test(I3_no_allocation_while_steps_are_traced),
		cmocka_unit_test(an_interrupted_run_keeps_its_weights),
		cmocka_unit_test(I6_weights_come_back_bit_for_bit_or_are_refused),
	};

	/* who runs the tests in the background may ignore it, and a training leaves it so */
	signal(SIGINT, SIG_DFL);
	two = ranks_shared(sizeof *two);
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, make_data, remove_data);
}
