/* SPDX-License-Identifier: Apache-2.0
 *
 * open.c - see others.h: which format a path has.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/file.h"

#include "cmd/others/others.h"

/* The formats, each with a file that it alone has. */
static const struct {
	const char *file, *format;
	int (*open)(struct zr_others *o, struct zr_setup *setup, struct zr_error *err);
} formats[] = {
	{ "zero", "DeepSpeed's universal format", zr_others_universal },
	{ ZR_OTHER_MODEL, "DeepSpeed", zr_others_zero },
	{ ZR_OTHER_MODEL_STAGE3, "DeepSpeed", zr_others_zero },
	{ ".metadata", "torch.distributed.checkpoint", zr_others_dcp },
	{ "trainer_state.json", "Hugging Face's Trainer", zr_others_trainer },
};

/* A directory of DeepSpeed's checkpoints says in `latest`, or of one in its universal format in
 * `latest_universal`, which directory in it is the newest. */
static int follow_latest(struct zr_others *o, struct zr_error *err)
{
	const char *latest = zr_other_has(o, "latest") ? "latest" : "latest_universal";
	char path[PATH_MAX], *tag = NULL;
	size_t n = 0;

	if (!zr_other_has(o, latest) || zr_other_has(o, "zero"))
		return 0;
	if (zr_file_text(AT_FDCWD, zr_other_path(o, latest, path), 1, NAME_MAX, &tag, &n))
		return zr_file_failed(err, path, "read", errno);

	tag[strcspn(tag, "\n")] = 0;
	int rc = 0;
	if (!*tag || *tag == '.' || strchr(tag, '/'))
		rc = zr_err(err, ZR_EINVAL, "%s: names no directory beside it", path);
	else
		strcpy(o->path, zr_other_path(o, tag, path));
	free(tag);
	return rc;
}

static int open_one(struct zr_others *o, struct zr_setup *setup, struct zr_error *err)
{
	int rc = follow_latest(o, err);
	if (rc)
		return rc;

	for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
		if (zr_other_has(o, formats[i].file)) {
			o->format = formats[i].format;
			rc = formats[i].open(o, setup, err);
			return rc ? rc : zr_others_whole(o, err);
		}

	if (zr_other_has_parts(o)) {
		o->format = "torch.distributed.checkpoint";
		rc = zr_others_parts(o, err);
		return rc ? rc : zr_others_whole(o, err);
	}

	return zr_err(err, ZR_EINVAL,
		      "%s: no checkpoint that is known: expected a directory with zero/ "
		      "(DeepSpeed's universal format), mp_rank_00_model_states.pt or "
		      "zero_pp_rank_0_mp_rank_00_model_states.pt (DeepSpeed), .metadata or "
		      "shard-*.safetensors (torch.distributed.checkpoint), or "
		      "trainer_state.json (Hugging Face's Trainer)",
		      o->path);
}

int zr_others_open(const char *path, int weights_only, struct zr_setup *setup,
		   struct zr_others *out, struct zr_error *err)
{
	*out = (struct zr_others){ .format = "", .weights_only = weights_only };
	if (strlen(path) >= sizeof out->path)
		return zr_err(err, ZR_EINVAL, "%.100s...: a path too long", path);

	strcpy(out->path, path);
	int rc = open_one(out, setup, err);
	if (rc)
		zr_others_close(out);
	return rc;
}
