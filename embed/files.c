/* SPDX-License-Identifier: Apache-2.0
 *
 * files.c - checkpoints and weights that a rank writes because its program asks for them.
 */
#include <stdlib.h>
#include <string.h>

#include "embed/engine.h"
#include "train/resume.h"
#include "train/rundir.h"
#include "train/weights.h"

/* ---- files ----------------------------------------------------------------------- */

/* What one rank could not do, all ranks return, so that none waits for another in what follows, and
 * the engine goes on. Only where they cannot tell each other, the failure ends it. */
static int agree(struct rank *r, const struct zr_error *mine, struct zr_error *err)
{
	const struct zr_ckpt_word *bad = NULL;
	struct zr_ckpt_word word = { 0 };

	struct zr_ckpt_word *words = calloc((size_t)r->t.setup->facts.process.world, sizeof *words);
	if (!words)
		return zr_no_memory(err);
	if (mine->code)
		zr_ckpt_say(&word, mine);
	int rc = zr_ckpt_share(r->t.session, &word, words, &bad, err);
	r->harmless = !rc && bad;
	if (r->harmless)
		rc = zr_err(err, (int)bad->code, "%s", bad->text);
	free(words);
	return rc;
}

static int open_saver(struct rank *r, struct zr_error *err)
{
	const struct zr_checkpoint_opts *o = zr_config_find(r->t.cfg, "checkpoint")->opts;
	const int is_own = strcmp(o->dir, "auto") != 0;
	struct zr_error why = { 0 };
	char dir[PATH_MAX] = "";

	r->harmless = !is_own && !strcmp(zr_rundir(r->t.cfg), "auto");
	if (r->harmless)
		return zr_err(err, ZR_EINVAL, "zeroth_save: give [checkpoint] dir or [run] dir");
	if (r->t.rank0 && !*r->t.from)
		zr_checkpoint_dir_check(r->t.cfg, &why);
	if (r->t.rank0 && !why.code)
		zr_trainer_open_checkpoints(&r->t, dir, &why);
	int rc = agree(r, &why, err);
	if (rc)
		return rc;
	return zr_trainer_open_saver(&r->t, dir, err);
}

int rank_save(struct rank *r, struct zr_error *err)
{
	int rc = rank_begin(r, err);

	rc = rc || r->t.saver ? rc : open_saver(r, err);
	if (rc)
		return rc;

	const int64_t failed = zr_saver_stats_of(r->t.saver)->failed;
	rc = zr_trainer_save(&r->t, err);
	if (!rc)
		rc = zr_saver_finish(r->t.saver, err);
	const struct zr_saver_stats *now = zr_saver_stats_of(r->t.saver);
	if (rc || now->failed == failed)
		return rc;

	r->harmless = 1;
	return zr_err(err, ZR_EIO, "%s", *now->why ? now->why : "the checkpoint cannot be written");
}

/* Whether the file alone failed, after its rank had taken part in all that ranks read from each
 * other: zr_st_finish() begins these texts with its name, or that of its temporary file. Memory may
 * have ended before. */
static int is_of_file(const struct zr_error *why, const char *file)
{
	const size_t n = strlen(file);
	if (why->code == ZR_ENOMEM || strncmp(why->text, file, n))
		return 0;
	return !strncmp(why->text + n, ": ", 2) || !strncmp(why->text + n, ".tmp: ", 6);
}

int rank_save_weights(struct rank *r, struct zr_error *err)
{
	const char *file = r->engine->name;
	struct zr_error why = { 0 };

	int rc = rank_begin(r, err);
	if (rc)
		return rc;

	rc = zr_session_exchange(r->t.session, err);
	if (rc)
		return rc;

	rc = zr_weights_save(r->t.session, file, &why);
	if (rc && !is_of_file(&why, file))
		return zr_err(err, rc, "%s", why.text);

	rc = zr_session_exchange(r->t.session, err);
	if (rc)
		return rc;
	return agree(r, &why, err);
}
