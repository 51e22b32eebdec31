/* SPDX-License-Identifier: Apache-2.0
 *
 * answers.c - see answers.h.
 */
#include "cmd/report/answers.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cmd/sample/model.h"
#include "core/base/file.h"
#include "core/base/log.h"
#include "core/session.h"
#include "files/checkpoint/dir.h"
#include "train/resume.h"
#include "train/rundir.h"

#define UNASKED_BYTES (1 << 30) /* of a checkpoint that answers unasked, at most */

static const char is_large[] = "its checkpoints are large";
static const char has_path[] = "the run names a plugin by its path, which would be loaded";

/* ---- which checkpoints ---- */

struct sources {
	char dir[PATH_MAX]; /* of checkpoints */
	int64_t step[ZR_ANSWERS_STEPS];
	int n;
	int ended; /* the last one is what the run left at its end */
};

/* Of n steps the first, the last, and others at equal distances. */
static void choose(struct sources *s, const int64_t *step, int64_t n)
{
	const int64_t room = ZR_ANSWERS_STEPS - s->ended;
	const int64_t take = n < room ? n : room;

	for (int64_t i = 0; i < take; i++) {
		int64_t at = i;
		if (take > 1)
			at = i * (n - 1) / (take - 1);
		s->step[s->n++] = step[at];
	}
}

static void find_sources(const char *run, struct sources *s)
{
	struct zr_error unused = { 0 };
	const struct zr_dir_kind kind = zr_dir_look(run);
	const long long end = zr_run_steps(run);
	int64_t *step = NULL, n = 0;

	*s = (struct sources){ 0 };
	if (!zr_checkpoints_at(run, s->dir, &unused))
		step = zr_ckpt_steps(s->dir, 0, &n);
	s->ended = (kind.weights || kind.adapters) && end >= 0;
	while (n > 0 && s->ended && step[n - 1] >= end)
		n--;
	if (n > 0)
		choose(s, step, n);
	if (s->ended)
		s->step[s->n++] = end;
	free(step);
}

/* The i-th source as `zeroth sample` has it. */
static int path_of(const struct sources *s, const char *run, int i, char path[PATH_MAX],
		   struct zr_error *err)
{
	if (!s->ended || i + 1 < s->n)
		return zr_ckpt_path(s->dir, s->step[i], 0, path, err);

	snprintf(path, PATH_MAX, "%s", run);
	return 0;
}

/* ---- whether to answer unasked ---- */

/* A value of `plugin` with a slash is a path of code. */
static int names_code(const char *config)
{
	for (const char *line = config; line && *line;) {
		const char *p = line + strspn(line, " \t"), *end = p + strcspn(p, "\n");
		const char *remark = memmem(p, (size_t)(end - p), " ;", 2);
		const size_t n = (size_t)((remark ? remark : end) - p);

		if (!strncmp(p, "plugin", 6) && memchr(p, '/', n))
			return 1;
		line = *end ? end + 1 : NULL;
	}

	return 0;
}

static int run_names_code(const char *run)
{
	char path[PATH_MAX], *text = NULL;
	size_t bytes;

	snprintf(path, sizeof path, "%s/config.ini", run);
	const int found = !zr_file_text(AT_FDCWD, path, 0, 1 << 20, &text, &bytes) &&
			  names_code(text);
	free(text);
	return found;
}

/* What is against a source; NULL: nothing. */
static const char *why_not_source(const char *path)
{
	struct zr_error unused = { 0 };
	const char *why = NULL;
	struct zr_manifest m;
	char file[PATH_MAX];
	struct stat st;

	if (zr_dir_has(path, "model.safetensors", file) && !stat(file, &st))
		return st.st_size > UNASKED_BYTES ? is_large : NULL;
	if (zr_manifest_read(path, &m, &unused))
		return NULL;

	if (zr_ckpt_bytes(&m) > UNASKED_BYTES)
		why = is_large;
	else if (m.config && names_code(m.config))
		why = has_path;
	zr_manifest_free(&m);
	return why;
}

/* NULL: they may be made. */
static const char *why_unasked_not(const char *run, const struct sources *s)
{
	struct zr_error unused = { 0 };
	const char *why = NULL;
	char path[PATH_MAX];

	if (!s->ended)
		return "the run has not ended";
	if (run_names_code(run))
		return has_path;
	for (int i = 0; !why && i < s->n; i++)
		if (!path_of(s, run, i, path, &unused))
			why = why_not_source(path);
	return why;
}

/* ---- answers ---- */

static int hear(void *arg, const char *p, size_t n)
{
	return zr_char_write(arg, p, n);
}

static int answer(struct zr_sample_model *m, const struct zr_asked *q, char **text,
		  struct zr_error *err)
{
	size_t bytes = 0;
	struct zr_char_writer w = { .f = open_memstream(text, &bytes), .utf8 = 1 };
	struct zr_drawn d = { .sink = hear, .arg = &w };
	const int n_eos = m->g.n_eos;

	if (!w.f)
		return zr_no_memory(err);

	if (q->end >= 0 && n_eos < ZR_EOS_MOST)
		m->g.eos[m->g.n_eos++] = q->end;
	m->g.most = q->most;
	zr_generator_begin(&m->g, q->tokens, q->n);
	int rc = zr_generate(&m->g, &d, err);
	m->g.n_eos = n_eos;
	int bad = zr_char_end(&w);
	bad |= fclose(w.f);
	if (!rc && bad)
		rc = zr_no_memory(err);
	return rc;
}

static void show_progress(int done, int all)
{
	char line[64];

	if (!isatty(2))
		return;

	snprintf(line, sizeof line, "answering %d/%d", done, all);
	zr_log_live(stderr, done < all ? line : NULL);
}

static int answer_all(const struct zr_asked_list *asked, const char *path,
		      struct zr_answers_step *to, struct zr_error *err)
{
	static const char *const override[] = { "log.level=error" };
	const struct zr_sample_source from = {
		.path = path, .override = override, .n_overrides = 1, .quiet = 1
	};
	struct zr_sample_model m = { .g = { .draw = { .temperature = 0, .top_p = 1 } } };

	int rc = zr_sample_model_open(&m, &from, err);
	for (int i = 0; !rc && i < asked->n; i++)
		rc = answer(&m, &asked->at[i], &to->text[i], err);
	zr_sample_model_close(&m);
	return rc;
}

static void answer_at(struct zr_answers *a, const struct sources *s, const char *run, int i)
{
	struct zr_answers_step *to = &a->at[a->n++];
	struct zr_error err = { 0 };
	char path[PATH_MAX];

	to->step = s->step[i];
	to->text = calloc((size_t)a->asked.n, sizeof *to->text);
	int rc = to->text ? path_of(s, run, i, path, &err) : zr_no_memory(&err);
	if (!rc)
		rc = answer_all(&a->asked, path, to, &err);
	if (rc)
		to->why = strdup(err.text);
}

static void make(const char *run, const struct zr_answers_how *how, double until,
		 struct zr_answers *out)
{
	struct sources s;
	struct zr_error err = { 0 };

	find_sources(run, &s);
	const char *not = how->unasked ? why_unasked_not(run, &s) : NULL;
	if (not )
		snprintf(out->why, sizeof out->why, "%s: --samples N has its answers", not );
	else if (!s.n)
		snprintf(out->why, sizeof out->why,
			 "it has neither a checkpoint nor weights: [checkpoint] every saves some");
	else if (zr_asked_of_run(run, how->conversations, &out->asked, &err))
		snprintf(out->why, sizeof out->why, "%s", err.text);
	else if (!out->asked.n)
		snprintf(out->why, sizeof out->why, "its data has no answer that is learned");
	if (*out->why)
		return;

	for (int i = 0; i < s.n; i++) {
		if (i && zr_now() > until) {
			out->left = s.n - i;
			break;
		}

		show_progress(i, s.n);
		answer_at(out, &s, run, i);
	}

	show_progress(s.n, s.n);
}

void zr_answers_make(const char *const *run, int n, const struct zr_answers_how *how,
		     struct zr_answers *out)
{
	const double until = zr_now() + how->seconds;

	zr_log_level(ZR_LOG_ERROR); /* what fails stands in the page */
	for (int i = 0; i < n; i++) {
		out[i] = (struct zr_answers){ 0 };
		make(run[i], how, until, &out[i]);
	}

	zr_log_level(ZR_LOG_INFO);
}

void zr_answers_free(struct zr_answers *a)
{
	for (int i = 0; i < a->n; i++) {
		for (int k = 0; a->at[i].text && k < a->asked.n; k++)
			free(a->at[i].text[k]);
		free(a->at[i].text);
		free(a->at[i].why);
	}

	zr_asked_free(&a->asked);
	*a = (struct zr_answers){ 0 };
}
