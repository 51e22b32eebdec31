/* SPDX-License-Identifier: Apache-2.0
 *
 * give.c - see handover.h: a new directory in one of the formats. It is written under another name,
 * which it loses when all of it is durable.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "cmd/others/handover.h"
#include "core/base/file.h"
#include "core/base/text.h"
#include "train/rundir.h"

/* go_on, and then: what a program says before and behind the directory. weights: how often they are
 * written. */
static const struct format {
	const char *name, *what, *go_on, *then;
	int weights;
	int (*give)(struct zr_handover *h, const char *dir, const struct zr_handover_how *how,
		    struct zr_error *err);
} formats[] = {
	{ "universal", "DeepSpeed's universal format",
	  "\"checkpoint\": {\"load_universal\": true} and engine.load_checkpoint(", ")", 2,
	  zr_give_universal },
	{ "dcp", "torch.distributed.checkpoint",
	  "dcp.load({\"model\": ..., \"optim\": ...}, checkpoint_id=", ")", 1, zr_give_dcp },
	{ "dcp-safetensors", "torch.distributed.checkpoint, in safetensors",
	  "dcp.load({\"model\": ..., \"optim\": ...}, storage_reader=HuggingFaceStorageReader(",
	  "), planner=DefaultLoadPlanner(allow_partial_load=True))", 1, zr_give_parts },
};

static const struct format *format_of(const char *name)
{
	size_t i = 0;
	while (strcmp(formats[i].name, name))
		i++;
	return &formats[i];
}

/* ---- the directory under its other name ---- */

/* Removes a directory and all in it: directories of an export that was killed are no deeper than
 * this one makes them. */
static void clear_tree(int at, const char *name)
{
	struct dirent *e;
	const int fd = zr_dir_open(at, name, 0);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);

	while (d && (e = readdir(d)))
		if (strcmp(e->d_name, ".") && strcmp(e->d_name, "..") && unlinkat(fd, e->d_name, 0))
			clear_tree(fd, e->d_name);
	if (d)
		closedir(d);
	else if (fd >= 0)
		close(fd);
	unlinkat(at, name, AT_REMOVEDIR);
}

static uint64_t bytes_of(const struct zr_handover *h, int weights)
{
	uint64_t all = 0;

	for (int32_t i = 0; i < h->n; i++) {
		const uint64_t data = (uint64_t)(weights + zr_handover_states(h, i));
		all += data * (uint64_t)h->m->layout.tensor[i].elements * sizeof(float);
	}

	return all;
}

static int check_space(const struct zr_handover *h, const char *dir, const char *tmp,
		       struct zr_error *err)
{
	struct statvfs fs;

	if (statvfs(tmp, &fs) || h->all <= (uint64_t)fs.f_bavail * fs.f_frsize)
		return 0;
	return zr_err(err, ZR_EIO,
		      "%s: the checkpoint needs %.1f MiB, the disk has %.1f MiB left: make room or "
		      "choose another directory",
		      dir, (double)h->all / 0x1p20,
		      (double)fs.f_bavail * (double)fs.f_frsize / 0x1p20);
}

static int write_to(struct zr_handover *h, const struct format *f, const char *dir, const char *tmp,
		    const struct zr_handover_how *how, struct zr_error *err)
{
	clear_tree(AT_FDCWD, tmp);
	int rc = zr_new_dir_make(dir, tmp, 0, err);
	if (rc)
		return rc;

	h->all = bytes_of(h, f->weights);
	rc = check_space(h, dir, tmp, err);
	if (!rc)
		rc = f->give(h, tmp, how, err);
	if (!rc)
		rc = zr_new_dir_take(dir, tmp, 0, err);
	if (rc)
		clear_tree(AT_FDCWD, tmp);
	return rc;
}

/* ---- all of it ---- */

static void say(const struct zr_handover *h, const struct format *f, const char *dir)
{
	const struct zr_scale *scale = zr_handover_scale(h);

	printf("exported    step %lld of %s to %s, for %s\n", (long long)h->m->step,
	       h->origin.saved.path, dir, f->what);
	printf("go on with  %s\"%s\"%s\n", f->go_on, dir, f->then);
	printf("            its next update is number %lld", (long long)h->m->applied + 1);
	for (int32_t k = 0; k < h->groups; k++)
		if (!k || h->given[k].next != h->given[k - 1].next)
			printf("%s %.10g", k ? "," : ", with learning rate", h->given[k].next);
	if (scale)
		printf(", and loss scale %g", scale->scale);
	printf("\n");
}

static int write_all(struct zr_handover *h, const struct zr_handover_how *how, struct zr_error *err)
{
	const struct format *f = format_of(how->to);
	size_t n = strlen(how->dir);

	while (n > 1 && how->dir[n - 1] == '/')
		n--;
	char *dir = strndup(how->dir, n), *tmp = dir ? zr_text("%s.tmp", dir) : NULL;

	int rc = tmp ? 0 : zr_no_memory(err);
	if (!rc && n > PATH_MAX - NAME_MAX - 128)
		rc = zr_err(err, ZR_EINVAL, "%.100s...: a path too long", dir);
	if (!rc)
		rc = write_to(h, f, dir, tmp, how, err);
	if (!rc)
		say(h, f, dir);
	free(tmp);
	free(dir);
	return rc;
}

int zr_handover_write(const struct zr_handover_how *how, struct zr_error *err)
{
	struct zr_handover h = { 0 };

	int rc = zr_handover_open(how->checkpoint, &h, err);
	if (!rc)
		rc = write_all(&h, how, err);
	zr_handover_close(&h);
	return rc;
}
