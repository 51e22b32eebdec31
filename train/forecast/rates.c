/* SPDX-License-Identifier: Apache-2.0
 *
 * rates.c - see rates.h.
 */
#include "train/forecast/rates.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/base/file.h"
#include "core/config/ini.h"
#include "core/config/options.h"

#define COORDINATES 16 /* different sizes in one dimension of a grid */

int zr_rates_path(char path[PATH_MAX], struct zr_error *err)
{
	const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
	int n = -1;

	if (state && *state == '/')
		n = snprintf(path, PATH_MAX, "%s/zeroth/rates.ini", state);
	else if (home && *home == '/')
		n = snprintf(path, PATH_MAX, "%s/.local/state/zeroth/rates.ini", home);
	if (n > 0 && n < PATH_MAX)
		return 0;
	return zr_err(err, ZR_EINVAL,
		      "no place for rates.ini: neither XDG_STATE_HOME nor HOME is "
		      "the absolute path of a directory; give --rates FILE");
}

void zr_cpu_name(char *out, size_t room)
{
	char line[512];

	FILE *f = fopen("/proc/cpuinfo", "re");
	while (f && fgets(line, sizeof line, f)) {
		char *v = strchr(line, ':');
		if (strncmp(line, "model name", 10) || !v)
			continue;

		line[strcspn(line, "\n")] = 0;
		snprintf(out, room, "%s", v + 1 + strspn(v + 1, " \t"));
		break;
	}

	if (f)
		fclose(f);
}

/* ---- points ---------------------------------------------------------------------- */

static struct zr_rate *find(const struct zr_rates *r, const char *name, int ranks, int threads)
{
	for (int i = 0; i < r->n; i++)
		if (r->rate[i].ranks == ranks && r->rate[i].threads == threads &&
		    !strcmp(r->rate[i].name, name))
			return &r->rate[i];
	return NULL;
}

static struct zr_rate *add_rate(struct zr_rates *r, const char *name, int ranks, int threads,
				int dims)
{
	struct zr_rate *more = realloc(r->rate, (size_t)(r->n + 1) * sizeof *more);
	if (!more)
		return NULL;

	r->rate = more;
	more += r->n++;
	*more = (struct zr_rate){ .ranks = ranks, .threads = threads, .dims = dims };
	snprintf(more->name, sizeof more->name, "%s", name);
	return more;
}

static struct zr_rate_point *find_point(const struct zr_rate *s, const double *at)
{
	for (int i = 0; i < s->n; i++)
		if (!memcmp(s->point[i].at, at, sizeof s->point[i].at))
			return &s->point[i];
	return NULL;
}

int zr_rates_set(struct zr_rates *r, const char *name, int ranks, int threads, const double *at,
		 int dims, double rate, struct zr_error *err)
{
	struct zr_rate *s = find(r, name, ranks, threads);
	struct zr_rate_point p = { { 1, 1, 1 }, rate }, *have, *more;

	if (strlen(name) >= ZR_RATE_NAME || dims < 1 || dims > ZR_RATE_DIMS ||
	    !(rate > 0 && isfinite(rate)) || (s && s->dims != dims))
		return zr_err(err, ZR_EINVAL, "%s: no rate of %d dimensions is %g", name, dims,
			      rate);

	memcpy(p.at, at, (size_t)dims * sizeof *at);
	for (int d = 0; d < dims; d++)
		if (!(p.at[d] >= 1 && p.at[d] < 1e18))
			return zr_err(err, ZR_EINVAL, "%s: there is no size %g", name, p.at[d]);
	if (!s)
		s = add_rate(r, name, ranks, threads, dims);
	have = s ? find_point(s, p.at) : NULL;
	if (have) {
		*have = p;
		return 0;
	}

	if (s)
		more = realloc(s->point, (size_t)(s->n + 1) * sizeof *more);
	else
		more = NULL;
	if (!more)
		return zr_no_memory(err);

	s->point = more;
	s->point[s->n++] = p;
	return 0;
}

static void remove_rates(struct zr_rates *r, const char *name)
{
	int kept = 0;

	for (int i = 0; i < r->n; i++) {
		if (strcmp(r->rate[i].name, name))
			r->rate[kept++] = r->rate[i];
		else
			free(r->rate[i].point);
	}

	r->n = kept;
}

int zr_rates_replace(struct zr_rates *r, const struct zr_rates *by, struct zr_error *err)
{
	int rc = 0;

	for (int i = 0; i < by->n; i++)
		remove_rates(r, by->rate[i].name);
	for (int i = 0; i < by->n; i++) {
		const struct zr_rate *s = &by->rate[i];
		for (int k = 0; !rc && k < s->n; k++)
			rc = zr_rates_set(r, s->name, s->ranks, s->threads, s->point[k].at, s->dims,
					  s->point[k].rate, err);
	}

	return rc;
}

void zr_rates_free(struct zr_rates *r)
{
	for (int i = 0; i < r->n; i++)
		free(r->rate[i].point);
	free(r->rate);
	*r = (struct zr_rates){ 0 };
}

/* ---- between points -------------------------------------------------------------- */

/* The two measured sizes around x, and the share of the second one. */
struct span {
	double low, high, share;
};

static struct span around(const struct zr_rate *s, int d, double x)
{
	struct span o = { -INFINITY, INFINITY, 0 };

	for (int i = 0; i < s->n; i++) {
		const double v = s->point[i].at[d];
		o.low = v <= x && v > o.low ? v : o.low;
		o.high = v >= x && v < o.high ? v : o.high;
	}

	if (isinf(o.low))
		o.low = o.high;
	if (isinf(o.high))
		o.high = o.low;
	if (o.high > o.low)
		o.share = log(x / o.low) / log(o.high / o.low);
	return o;
}

static double distance(const struct zr_rate_point *p, const double *at)
{
	double sum = 0;
	for (int d = 0; d < ZR_RATE_DIMS; d++)
		sum += fabs(log(p->at[d] / at[d]));
	return sum;
}

static double nearest(const struct zr_rate *s, const double *at)
{
	double least = INFINITY, rate = 0;

	for (int i = 0; i < s->n; i++) {
		const double off = distance(&s->point[i], at);
		if (off < least) {
			least = off;
			rate = s->point[i].rate;
		}
	}

	return rate;
}

static double between(const struct zr_rate *s, const double *at)
{
	struct span span[ZR_RATE_DIMS];
	double sum = 0, less = 1;

	for (int d = 0; d < ZR_RATE_DIMS; d++) {
		span[d] = around(s, d, at[d]);
		less *= at[d] < span[d].low ? at[d] / span[d].low : 1;
	}

	for (int corner = 0; corner < 1 << ZR_RATE_DIMS; corner++) {
		double to[ZR_RATE_DIMS], weight = 1;
		for (int d = 0; d < ZR_RATE_DIMS; d++) {
			const int high = corner >> d & 1;
			to[d] = high ? span[d].high : span[d].low;
			weight *= high ? span[d].share : 1 - span[d].share;
		}

		if (weight <= 0)
			continue;

		const struct zr_rate_point *p = find_point(s, to);
		if (!p)
			return less * nearest(s, at);

		sum += weight * log(p->rate);
	}

	return less * exp(sum);
}

/* Processors that a rank has. */
static double processors(const struct zr_rates *r, int ranks, int threads)
{
	const double all = (double)ranks * threads, most = r->processors;
	return (most > 0 && all > most ? most : all) / ranks;
}

double zr_rate_at(const struct zr_rates *r, const char *name, int ranks, int threads,
		  const double *at, int dims)
{
	const struct zr_rate *best = NULL;
	double least = INFINITY, full[ZR_RATE_DIMS] = { 1, 1, 1 };

	for (int i = 0; i < r->n; i++) {
		const struct zr_rate *s = &r->rate[i];
		if (s->dims != dims || strcmp(s->name, name))
			continue;

		const double off = 4 * fabs(log((double)s->ranks / ranks)) +
				   fabs(log((double)s->threads / threads));
		if (off < least) {
			least = off;
			best = s;
		}
	}

	if (!best)
		return 0;

	memcpy(full, at, (size_t)dims * sizeof *at);
	return between(best, full) * processors(r, ranks, threads) /
	       processors(r, best->ranks, best->threads);
}

/* ---- the file -------------------------------------------------------------------- */

struct reader {
	struct zr_rates *r;
	const char *path;
	int ranks, threads, line;
	struct zr_error *err;
};

static int bad(const struct reader *rd, const char *why)
{
	return zr_err(rd->err, ZR_EINVAL, "%s:%d: %s; remove the file and run `zeroth bench`",
		      rd->path, rd->line, why);
}

static int read_machine(struct reader *rd, const char *key, const char *value)
{
	struct zr_rates *r = rd->r;

	const struct {
		const char *name;
		char *to;
		size_t room;
	} texts[] = { { "cpu", r->cpu, sizeof r->cpu },
		      { "device", r->device, sizeof r->device },
		      { "variant", r->variant, sizeof r->variant },
		      { "date", r->date, sizeof r->date },
		      { "version", r->version, sizeof r->version },
		      { "disk", r->disk, sizeof r->disk } };
	double number = 0;
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
		if (!strcmp(key, texts[i].name)) {
			snprintf(texts[i].to, texts[i].room, "%s", value);
			return 0;
		}
	if (zr_parse_double(value, &number) || !(number >= 0 && number < 1e18))
		return bad(rd, "expected a number");
	if (!strcmp(key, "processors"))
		r->processors = number < INT_MAX ? (int)number : INT_MAX;
	else if (!strcmp(key, "memory"))
		r->memory = (uint64_t)number;
	return 0;
}

/* "1024x64" after the last dot of a key -> sizes. Returns how many, 0: it is no size. */
static int read_size(const char *text, double at[ZR_RATE_DIMS])
{
	int n = 0;

	for (char *end; n < ZR_RATE_DIMS; text = end + 1) {
		if (*text < '0' || *text > '9')
			return 0;

		at[n++] = (double)strtoull(text, &end, 10);
		if (!*end)
			return n;
		if (*end != 'x')
			return 0;
	}

	return 0;
}

static int read_rate(struct reader *rd, const char *key, const char *value)
{
	const char *dot = strrchr(key, '.');
	char name[ZR_RATE_NAME];
	double at[ZR_RATE_DIMS], rate;

	int dims;
	if (dot && dot - key < ZR_RATE_NAME)
		dims = read_size(dot + 1, at);
	else
		dims = 0;
	if (!dims)
		return bad(rd, "expected NAME.SIZE = RATE");

	snprintf(name, sizeof name, "%.*s", (int)(dot - key), key);
	if (zr_parse_double(value, &rate) ||
	    zr_rates_set(rd->r, name, rd->ranks, rd->threads, at, dims, rate, NULL))
		return bad(rd, "no rate");
	return 0;
}

static int read_line(void *arg, const char *section, const char *key, const char *value, int line)
{
	struct reader *rd = arg;
	int ranks = 0, threads = 0, end = 0;

	rd->line = line;
	if (key)
		return rd->ranks ? read_rate(rd, key, value) : read_machine(rd, key, value);

	rd->ranks = rd->threads = 0;
	if (!strcmp(section, "machine"))
		return 0;
	if (sscanf(section, "ranks %d threads %d%n", &ranks, &threads, &end) != 2 || section[end] ||
	    ranks < 1 || threads < 1)
		return bad(rd, "expected [machine] or [ranks R threads T]");

	rd->ranks = ranks;
	rd->threads = threads;
	return 0;
}

int zr_rates_read(const char *path, struct zr_rates *r, struct zr_error *err)
{
	struct reader rd = { .r = r, .path = path, .err = err };
	int rc = zr_ini_read(path, path, read_line, &rd, err);
	if (rc)
		zr_rates_free(r);
	return rc;
}

static void print_machine(FILE *f, const struct zr_rates *r)
{
	const char *const texts[] = { "cpu",  r->cpu,  "device",  r->device,  "variant", r->variant,
				      "date", r->date, "version", r->version, "disk",    r->disk };

	fputs("; What this machine was measured to do: `zeroth bench` wrote it, `zeroth plan` "
	      "reads it.\n; NAME.SIZE = work per second of each rank; zeroth-bench(1) says what "
	      "is counted.\n\n[machine]\n",
	      f);
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i += 2) {
		if (!*texts[i + 1])
			continue;

		fprintf(f, "%s = ", texts[i]);
		zr_ini_write_value(f, texts[i + 1]);
		fputc('\n', f);
	}

	fprintf(f, "processors = %d\nmemory = %llu\n", r->processors,
		(unsigned long long)r->memory);
}

static void print_rate(FILE *f, const struct zr_rate *s)
{
	for (int i = 0; i < s->n; i++) {
		fprintf(f, "%s.", s->name);
		for (int d = 0; d < s->dims; d++)
			fprintf(f, "%s%.0f", d ? "x" : "", s->point[i].at[d]);
		fprintf(f, " = %.4g\n", s->point[i].rate);
	}
}

/* Section by section, in the order in which each first came up. */
static void print_all(FILE *f, const struct zr_rates *r)
{
	print_machine(f, r);
	for (int i = 0; i < r->n; i++) {
		const struct zr_rate *s = &r->rate[i];
		int first = 1;
		for (int k = 0; k < i; k++)
			first &= r->rate[k].ranks != s->ranks || r->rate[k].threads != s->threads;
		if (!first)
			continue;

		fprintf(f, "\n[ranks %d threads %d]\n", s->ranks, s->threads);
		for (int k = i; k < r->n; k++)
			if (r->rate[k].ranks == s->ranks && r->rate[k].threads == s->threads)
				print_rate(f, &r->rate[k]);
	}
}

static int make_parents(const char *path, struct zr_error *err)
{
	char dir[PATH_MAX];

	if (snprintf(dir, sizeof dir, "%s", path) >= (int)sizeof dir)
		return zr_file_failed(err, path, "written", ENAMETOOLONG);

	for (char *c = strchr(dir + 1, '/'); c; c = strchr(c + 1, '/')) {
		*c = 0;
		if (mkdir(dir, 0777) && errno != EEXIST)
			return zr_file_failed(err, dir, "made", errno);

		*c = '/';
	}

	return 0;
}

int zr_rates_write(const char *path, const struct zr_rates *r, struct zr_error *err)
{
	char *text = NULL, tmp[PATH_MAX + 8];
	size_t bytes = 0;
	FILE *f = open_memstream(&text, &bytes);
	int rc;
	if (f)
		rc = make_parents(path, err);
	else
		rc = zr_no_memory(err);

	if (f) {
		print_all(f, r);
		if (fclose(f) && !rc)
			rc = zr_no_memory(err);
	}

	snprintf(tmp, sizeof tmp, "%s.tmp", path);
	int no = rc ? 0 : zr_file_put(AT_FDCWD, tmp, text, bytes);
	if (!no && !rc && rename(tmp, path))
		no = errno;
	if (no)
		rc = zr_file_failed(err, path, "written", no);
	free(text);
	return rc;
}
