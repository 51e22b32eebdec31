/* SPDX-License-Identifier: Apache-2.0
 *
 * bench.c - zeroth bench: what this machine's processors, memory, disk and ranks can do by the
 * plugins of a configuration, beside what they allow.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "bench.h"
#include "cmd/cmd.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/json_text.h"
#include "core/base/log.h"
#include "core/config/options.h"
#include "train/run/supervise.h"

#ifndef PACKAGE_VERSION
#define PACKAGE_VERSION "unreleased"
#endif

static const struct zr_bench_subject *const subjects[] = {
	&zr_bench_gemm, &zr_bench_ops, &zr_bench_adam, &zr_bench_adam8,
	&zr_bench_comm, &zr_bench_io,  &zr_bench_step,
};
#define SUBJECTS (sizeof subjects / sizeof *subjects)

struct bench {
	struct zr_cmd_args a;
	const char *subject, *conf, *dir, *rates; /* NULL: all, none, the working directory, none */
	double seconds;
	char path[PATH_MAX]; /* of the rates; "": none are written */
	char text[PATH_MAX]; /* of the data that a model of bench's own learns from; "": none */
	struct zr_rates r;
	json_t *list;
	struct zr_bench_shared *shared;
	char *copied;
};

#define AT(member) offsetof(struct bench, member)

static const struct zr_cmd_option options[] = {
	{ 'n', "ranks", "RANKS",
	  "with one rank, and with so many; default: with one, with one of one thread, and with 2",
	  .kind = ZR_CMD_INT, .at = AT(a.ranks), .least = 1, .most = ZR_BENCH_RANKS,
	  .counts = "a number of ranks" },
	{ 0, "seconds", "S", "for each measurement, instead of 0.02 to 1.5", .kind = ZR_CMD_SECONDS,
	  .at = AT(seconds), .most = 3600 },
	{ 0, "dir", "DIR", "for files of io; default: the working directory", .kind = ZR_CMD_TEXT,
	  .at = AT(dir) },
	{ 0, "rates", "FILE", "where rates are put; a subject's replace those there",
	  .kind = ZR_CMD_TEXT, .at = AT(rates) },
	{ 0, "json", NULL, "machine-readable", .kind = ZR_CMD_FLAG, .at = AT(a.json) },
	{ 'o', "option", "section.key=value", "sets an option over CONF; the last of several wins",
	  .kind = ZR_CMD_LIST, .at = AT(a.overrides), .most = ZR_CMD_OVERRIDES,
	  .count = AT(a.n_overrides) },
	{ 0 },
};

const struct zr_cmd_usage zr_bench_usage = {
	.command = "bench",
	.form = { { NULL, "[gemm|ops|adam|comm|io|step] [CONF]", NULL } },
	.about = "Measures what training is made of, by the plugins that CONF names, and beside "
		 "it what\n"
		 "the machine allows. Without a subject it measures all and writes the rates, from "
		 "which\n"
		 "`zeroth plan` forecasts the time of a step.\n"
		 "\n"
		 "  gemm  matrix products, attention, loss, beside multiply-adds in registers\n"
		 "  ops   norms, activations, casts, copies, beside a copy past the caches\n"
		 "  adam  updates with states in fp32 and in 8 bits, beside the same memory "
		 "streamed\n"
		 "  comm  collectives between ranks, beside copies of shared memory\n"
		 "  io    requests to a disk, beside threads with O_DIRECT\n"
		 "  step  steps of a small model, or of that of CONF\n",
	.option = options,
};

static const char *subject_of(const char *name)
{
	for (size_t i = 0; name && i < SUBJECTS; i++)
		if (!strcmp(name, subjects[i]->name))
			return subjects[i]->name;
	return NULL;
}

/* ---- the machine ----------------------------------------------------------------- */

static void describe(struct bench *b)
{
	const time_t now = time(NULL);
	struct tm tm;
	struct zr_rates *r = &b->r;

	r->processors = zr_bench_processors();
	r->memory = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
	zr_cpu_name(r->cpu, sizeof r->cpu);
	if (gmtime_r(&now, &tm))
		strftime(r->date, sizeof r->date, "%Y-%m-%dT%H:%M:%SZ", &tm);
	snprintf(r->version, sizeof r->version, "%s", PACKAGE_VERSION);
	if (realpath(b->dir ? b->dir : ".", b->path))
		snprintf(r->disk, sizeof r->disk, "%.*s", (int)sizeof r->disk - 1, b->path);
	*b->path = 0;
}

/* ---- data for a model of bench's own ---------------------------------------------- */

/* Words of letters that repeat: what they are does not change the time of a step. */
static int write_text(struct bench *b, struct zr_error *err)
{
	const char *tmp = getenv("TMPDIR");
	char line[64];
	uint32_t seed = 1;

	snprintf(b->text, sizeof b->text, "%s/zeroth-bench.XXXXXX",
		 tmp && *tmp == '/' ? tmp : "/tmp");
	int fd = mkostemp(b->text, O_CLOEXEC);
	FILE *f = fd < 0 ? NULL : fdopen(fd, "w");
	if (!f) {
		int no = errno;
		zr_file_failed(err, b->text, "written", no);
		*b->text = 0;
		return err->code;
	}

	for (int i = 0; i < 2000; i++) {
		for (size_t k = 0; k < sizeof line; k++) {
			seed = seed * 1664525u + 1013904223u;
			line[k] = k + 1 == sizeof line ? '\n' : (char)('a' + (seed >> 24) % 26);
		}

		fwrite(line, 1, sizeof line, f);
	}

	if (fclose(f))
		return zr_file_failed(err, b->text, "written", errno);
	return 0;
}

/* Core asks for a model and data. This one is small, but no toy: widths of 256. */
static int own_model(struct bench *b, const char **out, char path[PATH_MAX + 16],
		     struct zr_error *err)
{
	static const char *const options[] = {
		"model.plugin=gpt2",        "model.layers=4",    "model.heads=4",
		"model.width=256",          "model.context=128", "data.plugin=text",
		"train.micro_batch_size=4", "train.steps=1000",  "optimizer.lr=1e-4",
	};
	int n = 0;

	if (b->conf)
		return 0;
	if (write_text(b, err))
		return -1;

	snprintf(path, PATH_MAX + 16, "data.path=%s", b->text);
	for (size_t i = 0; i < sizeof options / sizeof *options; i++)
		out[n++] = options[i];
	out[n++] = path;
	return n;
}

/* ---- measurements ---------------------------------------------------------------- */

/* To the digits that a measurement has. */
static json_t *rounded(double x)
{
	char text[32];
	snprintf(text, sizeof text, "%.4g", x);
	return json_real(strtod(text, NULL));
}

static json_t *rate_json(const struct zr_bench_rate *r, int ranks, int threads)
{
	json_t *size = json_array();

	for (int d = 0; d < r->dims; d++)
		zr_json_add(&size, json_integer((json_int_t)r->at[d]));
	json_t *j = json_pack("{s:s, s:i, s:i, s:o, s:o, s:s}", "name", r->name, "ranks", ranks,
			      "threads", threads, "size", size, "rate", rounded(r->rate), "unit",
			      r->unit);
	if (r->share > 0)
		zr_json_put(&j, "of_limit", rounded(r->share));
	return j;
}

static int keep(struct bench *b, const struct zr_bench_job *job, struct zr_error *err)
{
	int rc = 0;

	memcpy(b->r.device, b->shared->device, sizeof b->r.device);
	memcpy(b->r.variant, b->shared->variant, sizeof b->r.variant);
	for (int i = 0; i < b->shared->n && !rc; i++) {
		const struct zr_bench_rate *r = &b->shared->rate[i];
		rc = zr_rates_set(&b->r, r->name, job->ranks, job->threads, r->at, r->dims, r->rate,
				  err);
		zr_json_add(&b->list, rate_json(r, job->ranks, job->threads));
	}

	return rc;
}

/* Returns an exit code; *err has a text only if no rank has said why. */
static int measure(struct bench *b, struct zr_bench_job *job, struct zr_error *err)
{
	pthread_barrierattr_t attr;

	b->shared->n = 0;
	if (pthread_barrierattr_init(&attr) ||
	    pthread_barrierattr_setpshared(&attr, PTHREAD_PROCESS_SHARED) ||
	    pthread_barrier_init(&b->shared->barrier, &attr, (unsigned)job->ranks))
		return zr_exit_code(zr_err(err, ZR_ENOMEM, "the ranks cannot meet"));
	if (job->table && job->subject->summary)
		printf("%s: %s; %d rank%s of %d thread%s\n", job->subject->name,
		       job->subject->summary, job->ranks, job->ranks == 1 ? "" : "s", job->threads,
		       job->threads == 1 ? "" : "s");
	int code = zr_supervise(job->ranks, zr_bench_rank, job);
	if (!code) /* else a rank may have died in it, for which this would wait */
		pthread_barrier_destroy(&b->shared->barrier);
	if (!code && keep(b, job, err))
		code = zr_exit_code(err->code);
	return code;
}

struct ways {
	const char *overrides[ZR_CMD_OVERRIDES + 16];
	int n_overrides, n;
	struct {
		int ranks, threads;
	} at[3];
};

/* All processors by one rank, then one of them alone, then all of them by several ranks. */
static void choose_ways(const struct bench *b, struct ways *w)
{
	const int processors = zr_bench_processors();
	int most = b->a.ranks;
	if (!most)
		most = processors > 1 ? 2 : 1;

	w->at[w->n].ranks = 1;
	w->at[w->n++].threads = processors;
	if (processors > 1 && !b->a.ranks) {
		w->at[w->n].ranks = 1;
		w->at[w->n++].threads = 1;
	}

	if (most > 1) {
		w->at[w->n].ranks = most;
		w->at[w->n++].threads = processors > most ? processors / most : 1;
	}
}

static int measure_way(struct bench *b, struct ways *w, int way, struct zr_error *err)
{
	char disk[PATH_MAX + 32];
	int code = 0;

	for (size_t i = 0; i < SUBJECTS && !code; i++) {
		const struct zr_bench_subject *s = subjects[i];
		struct zr_bench_job job = { .subject = s,
					    .conf = b->conf,
					    .overrides = w->overrides,
					    .n_overrides = w->n_overrides,
					    .ranks = w->at[way].ranks,
					    .threads = w->at[way].threads,
					    .seconds = b->seconds,
					    .dir = b->dir ? b->dir : ".",
					    .progress = !b->a.json && isatty(STDOUT_FILENO),
					    .table = !b->a.json,
					    .shared = b->shared,
					    .copied = b->copied };
		const int by_thread = way > 0 && job.ranks == 1;
		if ((b->subject && strcmp(b->subject, s->name)) || job.ranks < s->least_ranks ||
		    (by_thread && !s->by_thread))
			continue;
		if (s == &zr_bench_io) {
			snprintf(disk, sizeof disk, "offload.optimizer.path=%s", job.dir);
			w->overrides[job.n_overrides++] = disk;
		}

		code = measure(b, &job, err);
	}

	return code;
}

static int measure_all(struct bench *b, struct zr_error *err)
{
	struct ways w = { .n = 0 };
	char data[PATH_MAX + 16];
	int code = 0, n = own_model(b, w.overrides, data, err);

	if (n < 0)
		return zr_exit_code(err->code);

	for (int i = 0; i < b->a.n_overrides; i++)
		w.overrides[n++] = b->a.overrides[i];
	w.n_overrides = n;
	choose_ways(b, &w);
	for (int way = 0; way < w.n && !code; way++)
		code = measure_way(b, &w, way, err);
	return code;
}

/* ---- the command ----------------------------------------------------------------- */

static int make_shared(struct bench *b, struct zr_error *err)
{
	const size_t bytes = ZR_BENCH_RANKS * ZR_BENCH_COPY;

	void *m = mmap(NULL, sizeof *b->shared + bytes, PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (m == MAP_FAILED)
		return zr_no_memory(err);

	b->shared = m;
	b->copied = (char *)m + sizeof *b->shared;
	b->copied += 4096 - (uintptr_t)b->copied % 4096;
	return 0;
}

static int report(struct bench *b, struct zr_error *err)
{
	int rc = 0;

	if (*b->path)
		rc = zr_rates_write(b->path, &b->r, err);
	if (b->a.json) {
		json_t *j = json_pack("{s:s, s:i, s:s, s:s, s:s, s:s, s:O}", "cpu", b->r.cpu,
				      "processors", b->r.processors, "device", b->r.device,
				      "variant", b->r.variant, "date", b->r.date, "version",
				      b->r.version, "rates", b->list);
		struct zr_error no_text = { 0 };
		int printed = zr_json_print(j, JSON_INDENT(1), "the rates", &no_text);
		if (rc || !printed)
			return rc;
		return zr_err(err, printed, "%s", no_text.text);
	}

	if (!rc && *b->path)
		printf("rates written to %s\n", b->path);
	return rc;
}

/* The rates that are there stay, but for those that are measured now: another machine's do not. */
static int begin(struct bench *b, struct zr_error *err)
{
	struct zr_rates now = { 0 };
	int rc = 0;

	if (b->rates)
		snprintf(b->path, sizeof b->path, "%s", b->rates);
	else if (!b->subject)
		rc = zr_rates_path(b->path, err);
	if (!rc && b->rates && b->subject && !access(b->path, F_OK))
		rc = zr_rates_read(b->path, &now, err);
	char path[PATH_MAX];
	snprintf(path, sizeof path, "%s", b->path);
	describe(b);
	snprintf(b->path, sizeof b->path, "%s", path);
	if (!rc && now.n && !strcmp(now.cpu, b->r.cpu) && now.processors == b->r.processors) {
		b->r.n = now.n;
		b->r.rate = now.rate;
		now.n = 0;
		now.rate = NULL;
	}

	zr_rates_free(&now);
	if (rc)
		return rc;
	return make_shared(b, err);
}

/* What is neither a subject nor a file. */
static int refuse_conf(const char *conf)
{
	const char *names[SUBJECTS];

	for (size_t i = 0; i < SUBJECTS; i++)
		names[i] = subjects[i]->name;

	const char *near = zr_nearest(conf, names, SUBJECTS);
	if (near)
		return zr_cmd_refuse(&zr_bench_usage,
				     "%s: neither a subject nor a file; did you mean %s?", conf,
				     near);
	return zr_cmd_refuse(&zr_bench_usage, "%s: neither a subject nor a file", conf);
}

/* -1 to continue, else the exit code. */
static int parse(int argc, char **argv, struct bench *b)
{
	struct zr_cmd_operands operands;
	char text[PATH_MAX];

	int rc = zr_cmd_parse(argc, argv, &zr_bench_usage, NULL, b, &operands);
	if (rc >= 0)
		return rc;

	b->subject = subject_of(operands.at[0]);
	b->conf = operands.at[b->subject != NULL];
	if (operands.n == 2 && !b->subject) {
		snprintf(text, sizeof text, "unexpected argument: %s", operands.at[1]);
		return zr_cmd_wrong(&zr_bench_usage, text);
	}

	if (b->conf && access(b->conf, F_OK))
		return refuse_conf(b->conf);
	if (b->conf && zr_cmd_check_conf(b->conf, 1))
		return 2;
	if (b->dir && access(b->dir, W_OK | X_OK))
		return zr_cmd_refuse(&zr_bench_usage, "--dir %s: %s", b->dir, strerror(errno));
	return -1;
}

int zr_cmd_bench(int argc, char **argv)
{
	struct bench b = { .list = json_array() };
	struct zr_error err = { 0 };

	int code = parse(argc, argv, &b);
	if (code < 0) {
		if (begin(&b, &err))
			code = zr_exit_code(err.code);
		else
			code = measure_all(&b, &err);
		if (!code && report(&b, &err))
			code = zr_exit_code(err.code);
		if (err.code)
			zr_cmd_failed(&err);
	}

	if (*b.text)
		unlink(b.text);
	zr_rates_free(&b.r);
	json_decref(b.list);
	return code;
}
