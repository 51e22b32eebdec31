/* SPDX-License-Identifier: Apache-2.0
 *
 * run.c - see run.h.
 */
#include "cmd/report/run.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/base/file.h"
#include "core/base/json.h"

#define FILE_MOST     (256u << 20)
#define SAMPLES_SHOWN (64 << 10)

static void problem(struct zr_run_files *r, const char *name, const char *why)
{
	size_t used = strlen(r->problem);
	snprintf(r->problem + used, sizeof r->problem - used, "%s%s: %s", used ? "; " : "", name,
		 why);
}

/* The text of a file in the directory, owned; NULL: there is none, or it has a problem. */
static char *read_text(struct zr_run_files *r, const char *name, size_t *bytes)
{
	char path[PATH_MAX], *text = NULL;

	if (snprintf(path, sizeof path, "%s/%s", r->dir, name) >= (int)sizeof path)
		return NULL;

	int no = zr_file_text(AT_FDCWD, path, 0, FILE_MOST, &text, bytes);
	if (no && no != ENOENT)
		problem(r, name, strerror(no));
	return no ? NULL : text;
}

static json_t *read_json(struct zr_run_files *r, const char *name)
{
	json_error_t why;
	size_t n;
	char *text = read_text(r, name, &n);

	json_t *j = text ? zr_json_load(text, n, 0, &why) : NULL;
	if (text && !json_is_object(j)) {
		problem(r, name, j ? "is no object" : why.text);
		json_decref(j);
		j = NULL;
	}

	free(text);
	return j;
}

static char *trimmed(char *p, char *end)
{
	while (p < end && (*p == ' ' || *p == '\t'))
		p++;
	while (end > p && (end[-1] == ' ' || end[-1] == '\t' || end[-1] == '\r'))
		end--;
	*end = 0;
	return p;
}

static int add_value(struct zr_run_files *r, const char *section, const char *key, const char *text)
{
	struct zr_run_value *v = realloc(r->value, (size_t)(r->n_values + 1) * sizeof *v);
	if (!v)
		return -1;

	r->value = v;
	v += r->n_values;
	*v = (struct zr_run_value){ strdup(section), strdup(key), strdup(text) };
	r->n_values++;
	return v->section && v->key && v->text ? 0 : -1;
}

/* config.ini as a run writes it: no value goes on in another line, and ` ;` begins a remark. */
static int read_config(struct zr_run_files *r)
{
	size_t n;
	char *text = read_text(r, "config.ini", &n), *section = "", *save = NULL;
	int rc = 0;

	for (char *line = text ? strtok_r(text, "\n", &save) : NULL; line && !rc;
	     line = strtok_r(NULL, "\n", &save)) {
		char *end = line + strlen(line), *remark = strstr(line, " ;"), *equal;
		line = trimmed(line, remark ? remark : end);
		if (*line == '[' && (end = strchr(line, ']'))) {
			*end = 0;
			section = line + 1;
		} else if (*line != ';' && *line != '#' && (equal = strchr(line, '='))) {
			char *value = trimmed(equal + 1, equal + 1 + strlen(equal + 1));
			rc = add_value(r, section, trimmed(line, equal), value);
		}
	}

	free(text);
	return rc;
}

/* The last of trace/step-*.json. */
static void read_trace(struct zr_run_files *r)
{
	char path[PATH_MAX];

	snprintf(path, sizeof path, "%s/trace", r->dir);
	DIR *d = opendir(path);
	if (!d)
		return;

	for (struct dirent *e; (e = readdir(d));) {
		size_t n = strlen(e->d_name);
		if (strncmp(e->d_name, "step-", 5) || n < 11 || n >= sizeof r->trace_name ||
		    strcmp(e->d_name + n - 5, ".json"))
			continue;
		r->traces++;
		if (strcmp(e->d_name, r->trace_name) > 0)
			strcpy(r->trace_name, e->d_name);
	}

	closedir(d);
	if (!r->traces)
		return;

	snprintf(path, sizeof path, "trace/%s", r->trace_name);
	r->trace = read_json(r, path);
}

static void read_samples(struct zr_run_files *r)
{
	size_t n;

	r->samples = read_text(r, "samples.txt", &n);
	if (!r->samples || n <= SAMPLES_SHOWN)
		return;

	r->samples_cut = 1;
	char *from = r->samples + n - SAMPLES_SHOWN, *line = strchr(from, '\n');
	from = line ? line + 1 : from;
	memmove(r->samples, from, strlen(from) + 1);
}

static void name_run(struct zr_run_files *r)
{
	size_t end = strlen(r->dir), from;
	while (end > 1 && r->dir[end - 1] == '/')
		end--;
	for (from = end; from > 0 && r->dir[from - 1] != '/'; from--)
		;
	snprintf(r->name, sizeof r->name, "%.*s", (int)(end - from), r->dir + from);
}

void zr_run_reread(struct zr_run_files *r)
{
	json_decref(r->summary);
	r->problem[0] = 0;
	r->summary = read_json(r, "summary.json");
}

int zr_run_files_open(struct zr_run_files *r, const char *dir, struct zr_error *err)
{
	struct stat st;
	int rc;

	memset(r, 0, sizeof *r);
	r->dir = dir;
	if (stat(dir, &st))
		return zr_err(err, ZR_EINVAL, "%s: %s", dir, strerror(errno));
	if (!S_ISDIR(st.st_mode))
		return zr_err(err, ZR_EINVAL, "%s: is not a directory: give that of a run", dir);

	name_run(r);
	r->has_metrics = zr_rows_open(&r->metrics, dir);
	if (read_config(r)) {
		zr_run_files_close(r);
		return zr_no_memory(err);
	}

	if (!r->has_metrics && !r->n_values && *r->problem) {
		rc = zr_err(err, ZR_EIO, "%s: cannot be read: %s", dir, r->problem);
		zr_run_files_close(r);
		return rc;
	}

	if (!r->has_metrics && !r->n_values) {
		zr_run_files_close(r);
		return zr_err(err, ZR_EINVAL,
			      "%s: is not the directory of a run: it has no config.ini, "
			      "metrics.jsonl "
			      "or metrics.csv",
			      dir);
	}

	r->summary = read_json(r, "summary.json");
	r->plan = read_json(r, "plan.json");
	read_trace(r);
	read_samples(r);
	return 0;
}

void zr_run_files_close(struct zr_run_files *r)
{
	for (int i = 0; i < r->n_values; i++) {
		free(r->value[i].section);
		free(r->value[i].key);
		free(r->value[i].text);
	}

	free(r->value);
	json_decref(r->summary);
	json_decref(r->plan);
	json_decref(r->trace);
	free(r->samples);
	zr_rows_close(&r->metrics);
	memset(r, 0, sizeof *r);
}

const char *zr_run_find_value(const struct zr_run_files *r, const char *section, const char *key)
{
	for (int i = 0; i < r->n_values; i++)
		if (!strcmp(r->value[i].section, section) && !strcmp(r->value[i].key, key))
			return r->value[i].text;
	return NULL;
}

double zr_run_summary(const struct zr_run_files *r, const char *key)
{
	const json_t *v = json_object_get(r->summary, key);
	return json_is_number(v) ? json_number_value(v) : NAN;
}

static double changed(const char *path)
{
	struct stat st;
	if (stat(path, &st))
		return NAN;
	return (double)st.st_mtim.tv_sec + 1e-9 * (double)st.st_mtim.tv_nsec;
}

double zr_run_last_step(const struct zr_run_files *r)
{
	return r->has_metrics ? changed(r->metrics.path) : NAN;
}

int zr_run_ended(const struct zr_run_files *r)
{
	const struct zr_rows *rows = &r->metrics.rows;
	char path[PATH_MAX];

	if (!r->summary ||
	    snprintf(path, sizeof path, "%s/summary.json", r->dir) >= (int)sizeof path)
		return 0;
	/* a second for the clocks of file systems */
	return !(changed(path) < zr_run_last_step(r) - 1) &&
	       !(rows->n && rows->value[0][rows->n - 1] > zr_run_summary(r, "steps"));
}

void zr_run_state(const struct zr_run_files *r, char *text, size_t size)
{
	const char *stopped = json_string_value(json_object_get(r->summary, "stopped"));
	const char *early = json_string_value(json_object_get(r->summary, "ended_early"));

	if (!r->summary)
		snprintf(text, size, "no summary.json: it is still going, or was killed");
	else if (!zr_run_ended(r))
		snprintf(text, size,
			 "gone on since it ended once: it is still going, or was killed");
	else if (stopped)
		snprintf(text, size, "stopped: %s", stopped);
	else if (early)
		snprintf(text, size, "ended early: %s", early);
	else if (json_is_true(json_object_get(r->summary, "interrupted")))
		snprintf(text, size, "interrupted by a signal");
	else
		snprintf(text, size, "finished");
}
