/* SPDX-License-Identifier: Apache-2.0
 *
 * open.c - how a rank opens its training: the configuration, memory, and with the first step the
 * directory of the run and the monitors.
 */
#include <stdlib.h>
#include <string.h>

#include "embed/engine.h"
#include "train/rundir.h"

/* Reading a configuration may fork a process that looks at plugins, which must not happen while
 * another thread loads some: all ranks have read theirs before any goes on. */
static void wait_for_configs(struct zeroth *e)
{
	pthread_mutex_lock(&e->lock);
	e->loaded++;
	pthread_cond_broadcast(&e->asked);
	while (e->loaded < e->n)
		pthread_cond_wait(&e->asked, &e->lock);
	pthread_mutex_unlock(&e->lock);
}

static int load_config(struct rank *r, struct zr_error *err)
{
	static pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER; /* libinih has a global limit */
	const struct zeroth *e = r->engine;
	const char **option = calloc((size_t)e->n_options + 3, sizeof *option);
	char path[64] = "";
	int n = 0;

	if (!option)
		return zr_no_memory(err);

	for (int i = 0; i < e->n_options; i++)
		option[n++] = e->option[i];
	if (e->n > 1)
		option[n++] = "boot.plugin=threads";
	if (e->model.size) {
		option[n++] = "model.plugin=functions";
		option[n++] = "data.plugin=functions";
	}

	if (e->text_fd >= 0)
		snprintf(path, sizeof path, ENGINE_TEXT_PATH, e->text_fd);
	pthread_mutex_lock(&one);
	int rc = zr_config_load(*path ? path : e->path, option, n, &r->t.cfg, err);
	pthread_mutex_unlock(&one);
	free(option);
	return rc;
}

/* Functions of the program compute on the host. Threads of the program may be of one that computes
 * on the device. */
static int check(const struct rank *r, struct zr_error *err)
{
	const struct zr_setup *s = r->t.setup;

	if (!r->engine->model.size || s->facts.device_info.host_access)
		return 0;
	if (engine_is_outside(r->engine) && s->facts.device_info.graphs)
		return zr_err(
			err, ZR_ENOTSUP,
			"[device] graphs: what threads of the program enqueue is in no graph, "
			"nor in order with those; take graphs out");
	if (engine_is_outside(r->engine))
		return 0;
	return zr_err(
		err, ZR_ENOTSUP,
		"[device] %s: a model of the program's own whose layers are functions needs a "
		"device whose memory the program reads, as cpu",
		s->roles.device.section->plugin->desc->id);
}

/* Whether the program names a directory for the run. */
static int has_dir(const struct rank *r)
{
	return strcmp(zr_rundir(r->t.cfg), "auto") != 0;
}

int rank_open(struct rank *r, struct zr_error *err)
{
	int rc = load_config(r, err);

	wait_for_configs(r->engine);
	if (!rc)
		rc = zr_trainer_setup(&r->t, r->engine->memory, err);
	if (rc)
		return rc;

	rank_say_unused(r);
	rc = check(r, err);
	if (!rc)
		rc = zr_trainer_open(&r->t, 0, err);
	if (!rc)
		rc = zr_trainer_ready(&r->t, err);
	return rc;
}

/* ---- the beginning --------------------------------------------------------------- */

/* The first rank of all makes the directory of the run, if there is one, and opens the monitors. */
static int open_run(struct rank *r, struct zr_error *err)
{
	int rc = 0;

	if (!r->t.rank0)
		return 0;

	if (has_dir(r)) {
		rc = zr_rundir_check(r->t.cfg, *r->t.from != 0, err);
		if (!rc)
			rc = zr_trainer_open_dirs(&r->t, err);
		if (!rc)
			rc = zr_rundir_write_config(r->t.cfg, err);
	}

	if (rc)
		return rc;
	return zr_trainer_open_metrics(&r->t, err);
}

int rank_begin(struct rank *r, struct zr_error *err)
{
	if (r->begun)
		return 0;

	int rc = zr_trainer_begin(&r->t, err);
	if (!rc)
		rc = open_run(r, err);
	r->begun = !rc;
	return rc;
}
