/* SPDX-License-Identifier: Apache-2.0
 *
 * room.c - see room.h.
 */
#include "train/room.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/statvfs.h>

#include "core/config/options.h"
#include "train/adapter.h"
#include "train/fit.h"
#include "train/rundir.h"

#define HEADER    4096 /* bytes of a file beside its tensors */
#define DESCRIBED 256  /* bytes of a tensor in its file's header */

/* A file of a layout's tensors; all = 0: of those that are trained. */
static uint64_t file_bytes(const struct zr_layout *l, uint64_t element, int all)
{
	uint64_t sum = HEADER;
	for (int32_t i = 0; i < l->n_tensors; i++)
		if (all || !(l->tensor[i].flags & ZR_TENSOR_FROZEN))
			sum += (uint64_t)l->tensor[i].elements * element + DESCRIBED;
	return sum;
}

/* An option of stages on which the run acts, not the stage. */
int zr_room_exports(const struct zr_config *cfg)
{
	const struct zr_section *sec = zr_config_find(cfg, "zero");
	const struct zr_opt *o = zr_table_find(&sec->table, "gather_16bit_weights_on_model_save");
	return o && o->type == ZR_T_BOOL && *((const uint8_t *)sec->opts + o->offset);
}

uint64_t zr_room_needed(const struct zr_setup *s)
{
	uint64_t sum = zr_adapter_is_all(s) ? 0 : file_bytes(&s->facts.layout, sizeof(float), 1);

	if (zr_adapter_files(s))
		sum += file_bytes(&s->facts.layout, sizeof(float), 0);
	if (zr_room_exports(s->cfg))
		sum += file_bytes(&s->facts.layout, 2, 1);
	return sum;
}

/* The file system of the directory, or of what it will be made in. 0 or errno. */
static int look_at(const char *dir, struct statvfs *fs)
{
	char path[PATH_MAX], *slash;

	if (snprintf(path, sizeof path, "%s", dir) >= (int)sizeof path)
		return ENAMETOOLONG;

	for (;;) {
		if (!statvfs(path, fs))
			return 0;
		if (errno != ENOENT || !strcmp(path, "/") || !strcmp(path, "."))
			return errno;

		slash = strrchr(path, '/');
		if (!slash)
			strcpy(path, ".");
		else
			slash[slash == path] = 0;
	}
}

int zr_room_check(const struct zr_setup *s, struct zr_error *err)
{
	const char *dir = zr_rundir(s->cfg);
	const uint64_t need = zr_room_needed(s);
	char needed[32], there[32];
	struct statvfs fs;

	const int no = look_at(dir, &fs);
	if (no)
		return zr_err(err, ZR_EIO, "run directory %s: %s", dir, strerror(no));

	const uint64_t have = (uint64_t)fs.f_bavail * fs.f_frsize;
	if (need <= have || !fs.f_blocks) /* some file systems do not know their size */
		return 0;
	return zr_config_blame(s->cfg, "run", ZR_EFIT, err,
			       "dir = %s: the weights at the end of "
			       "the training need %s, its disk has %s left: make room, or choose a "
			       "dir on another disk",
			       dir, zr_bytes_text(need, needed), zr_bytes_text(have, there));
}
