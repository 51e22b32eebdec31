/* SPDX-License-Identifier: Apache-2.0
 *
 * samples_file.c - see samples_file.h.
 */
#include "cmd/sample/samples_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "train/rundir.h"

int zr_kept_begin(struct zr_kept_text *k, struct zr_error *err)
{
	*k = (struct zr_kept_text){ .out.utf8 = 1 };
	k->out.f = open_memstream(&k->text, &k->bytes);
	if (k->out.f)
		return 0;
	return zr_err(err, ZR_ENOMEM, "out of memory for the text");
}

static int append(const char *path, const char *text, size_t n, struct zr_error *err)
{
	/* what the run directory has is a file, and no link */
	int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC,
		      0666);
	struct stat now;

	if (fd >= 0 && !fstat(fd, &now) && !S_ISREG(now.st_mode)) {
		close(fd);
		return zr_err(err, ZR_EINVAL, "%s: is not a regular file: remove it", path);
	}

	if (fd < 0 && errno == ELOOP)
		return zr_err(err, ZR_EINVAL,
			      "%s: is a symbolic link, which a run does not "
			      "follow: remove it",
			      path);

	ssize_t got = fd < 0 ? -1 : write(fd, text, n);
	if (got >= 0 && (size_t)got < n) {
		/* the file is as before, where nobody else appends */
		if (!fstat(fd, &now) && ftruncate(fd, now.st_size - got))
			fprintf(stderr, "zeroth sample: %s ends in the middle of a text\n", path);
		errno = ENOSPC;
		got = -1;
	}

	int rc = 0;
	if (got < 0)
		rc = zr_err(err, ZR_EIO, "%s: cannot append: %s", path, strerror(errno));
	if (fd >= 0 && close(fd) && !rc)
		rc = zr_err(err, ZR_EIO, "%s: cannot append: %s", path, strerror(errno));
	return rc;
}

int zr_kept_end(struct zr_kept_text *k, const char *run, const struct zr_draw *draw, int rc,
		struct zr_error *err)
{
	char path[PATH_MAX], step[40] = "", *all = NULL;
	size_t bytes = 0;
	long long n = zr_run_steps(run);
	FILE *f = open_memstream(&all, &bytes);
	int bad = !f || zr_char_end(&k->out);

	bad |= fclose(k->out.f);
	if (n >= 0)
		snprintf(step, sizeof step, "step %lld, ", n);
	bad |= f && fprintf(f, "--- %stemperature %g, top-k %lld, top-p %g, seed %llu\n", step,
			    draw->temperature, (long long)draw->top_k, draw->top_p,
			    (unsigned long long)draw->seed) < 0;
	bad |= f && !bad && (fwrite(k->text, 1, k->bytes, f) != k->bytes || fputs("\n", f) < 0);
	bad |= f && fclose(f);
	snprintf(path, sizeof path, "%s/" ZR_SAMPLES_FILE, run);
	if (!rc && bad)
		rc = zr_err(err, ZR_ENOMEM, "out of memory for the text");
	else if (!rc)
		rc = append(path, all, bytes, err);
	free(all);
	free(k->text);
	*k = (struct zr_kept_text){ 0 };
	return rc;
}
