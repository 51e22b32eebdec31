/* SPDX-License-Identifier: Apache-2.0
 *
 * files.c - patterns to files. The order is strcmp's: it must not depend on the locale (invariant
 * I1).
 */
#include "files.h"

#include <errno.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct file *)a)->name, ((const struct file *)b)->name);
}

static int add_name(const struct zr_host *h, const char *key, const char *name, struct files *fs)
{
	struct stat st;
	if (stat(name, &st))
		return zr_fail(h, ZR_EINVAL, "%s = %s: %s", key, name, strerror(errno));
	if (!S_ISREG(st.st_mode))
		return zr_fail(h, ZR_EINVAL, "%s = %s: is not a regular file", key, name);

	fs->f[fs->n].name = strdup(name);
	if (!fs->f[fs->n].name)
		return zr_fail(h, ZR_ENOMEM, "no memory");

	fs->n++;
	return ZR_OK;
}

static int add_all(const struct zr_host *h, const char *key, char **names, size_t n,
		   struct files *fs)
{
	size_t i;
	int rc = ZR_OK;

	fs->f = calloc(n, sizeof *fs->f);
	if (!fs->f)
		return zr_fail(h, ZR_ENOMEM, "no memory");

	for (i = 0; i < n && !rc; i++)
		rc = add_name(h, key, names[i], fs);
	if (!rc)
		qsort(fs->f, (size_t)fs->n, sizeof *fs->f, by_name);

	return rc;
}

int files_find(const struct zr_host *h, const char *key, const char *pattern, struct files *out)
{
	char *literal = (char *)pattern;

	glob_t g;
	int rc;
	memset(out, 0, sizeof *out);
	if (!strpbrk(pattern, "*?[") || !access(pattern, F_OK)) {
		rc = add_all(h, key, &literal, 1, out);
	} else {
		rc = glob(pattern, GLOB_NOSORT, NULL, &g);
		if (rc) /* glob frees what it found */
			return zr_fail(h, ZR_EINVAL, "%s = %s: no file matches", key, pattern);

		rc = add_all(h, key, g.gl_pathv, g.gl_pathc, out);
		globfree(&g);
	}

	if (rc)
		files_free(out);

	return rc;
}

void files_free(struct files *fs)
{
	int i;
	for (i = 0; i < fs->n; i++)
		free(fs->f[i].name);
	free(fs->f);
	memset(fs, 0, sizeof *fs);
}

int files_check_split(const struct zr_host *h, double split, const char *val_path)
{
	if (split > 0 && val_path && *val_path)
		return zr_fail(h, ZR_EINVAL, "val_path and split: give one of them, not both");

	return ZR_OK;
}

const struct file *files_at(const struct files *fs, int64_t *at)
{
	const struct file *f = fs->f;
	for (; *at >= f->n; f++)
		*at -= f->n;
	return f;
}

void files_tell(const struct files fs[2], uint32_t i, struct zr_data_file *out)
{
	const uint32_t first = (uint32_t)fs[0].n, all = first + (uint32_t)fs[1].n;

	out->name = NULL;
	if (i >= all)
		return;

	const struct file *f = i < first ? &fs[0].f[i] : &fs[1].f[i - first];
	out->name = f->name;
	out->bytes = f->bytes;
	out->hash = f->hash;
	out->sampled = f->sampled;
}

static const char *scaled(int64_t n, double *v)
{
	static const char *const unit[] = { " ", " K ", " M ", " G ", " T " };
	int i = 0;
	for (*v = (double)n; *v >= 1000 && i < 4; i++)
		*v /= 1000;

	return unit[i];
}

void files_describe(const struct files *fs, const char *unit, int64_t train, int64_t val,
		    char *text, size_t room)
{
	const char *slash = strrchr(fs->f[0].name, '/'), *prefix;
	double v, share = 100.0 * (double)val / (double)(train + val > 0 ? train + val : 1);
	char what[100], rest[40];

	prefix = scaled(train + val, &v);
	if (fs->n == 1)
		snprintf(what, sizeof what, "%s", slash ? slash + 1 : fs->f[0].name);
	else
		snprintf(what, sizeof what, "%d files", fs->n);
	if (val && !train)
		snprintf(rest, sizeof rest, "all to evaluate on");
	else if (val)
		snprintf(rest, sizeof rest, "%.2g %% held out", share);
	else
		snprintf(rest, sizeof rest, "no validation");
	snprintf(text, room, "%s: %.*f%s%s, %s", what, prefix[1] ? 1 : 0, v, prefix, unit, rest);
}
