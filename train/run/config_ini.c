/* SPDX-License-Identifier: Apache-2.0
 *
 * config_ini.c - see config_ini.h.
 */
#include "train/run/config_ini.h"

#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

#include "core/base/pool.h"
#include "train/rundir.h"

struct zr_config_ini {
	pthread_t thread;
	int running; /* there is a thread; else it is written when its end is asked for */
	char *text, path[PATH_MAX];
	int rc;
	struct zr_error err;
};

static void *put(void *arg)
{
	struct zr_config_ini *f = arg;
	f->rc = zr_put_text(f->path, f->text, &f->err);
	return NULL;
}

int zr_config_ini_begin(const struct zr_config *cfg, struct zr_config_ini **out,
			struct zr_error *err)
{
	sigset_t old;

	struct zr_config_ini *f = calloc(1, sizeof *f);
	if (f)
		f->text = zr_rundir_config_text(cfg);
	if (!f || !f->text) {
		free(f);
		return zr_err(err, ZR_ENOMEM, "out of memory for config.ini");
	}

	zr_rundir_file(cfg, "config.ini", f->path, sizeof f->path);
	zr_pool_mask(&old);
	f->running = !pthread_create(&f->thread, NULL, put, f);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	*out = f;
	return 0;
}

int zr_config_ini_end(struct zr_config_ini **file, struct zr_error *err)
{
	struct zr_config_ini *f = *file;

	*file = NULL;
	if (!f)
		return 0;
	if (f->running)
		pthread_join(f->thread, NULL);
	else
		put(f);
	int rc = f->rc ? zr_err(err, f->rc, "%s", f->err.text) : 0;
	free(f->text);
	free(f);
	return rc;
}
