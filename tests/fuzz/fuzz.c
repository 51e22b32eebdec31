/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz.c - see fuzz.h.
 */
#define _GNU_SOURCE
#include "fuzz.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

uint64_t fuzz_usable;

static char dir[PATH_MAX - 66];
static char names[16][64]; /* of files in it */
static int n_names;

void fuzz_failed(const char *file, int line, const char *what)
{
	dprintf(STDERR_FILENO, "%s:%d: not true: %s\n", file, line, what);
	abort();
}

static void remove_dir(void)
{
	char path[PATH_MAX];
	for (int i = 0; i < n_names; i++) {
		snprintf(path, sizeof path, "%s/%.63s", dir, names[i]);
		unlink(path);
	}
	rmdir(dir);
}

const char *fuzz_dir(void)
{
	const char *tmp = getenv("TMPDIR");
	if (*dir)
		return dir;
	snprintf(dir, sizeof dir, "%s/zeroth-fuzz-XXXXXX",
		 tmp && *tmp              ? tmp :
		 access("/dev/shm", W_OK) ? "/tmp" :
					    "/dev/shm");
	fuzz_check(mkdtemp(dir));
	atexit(remove_dir);
	return dir;
}

static void remember(const char *name)
{
	for (int i = 0; i < n_names; i++)
		if (!strcmp(names[i], name))
			return;
	fuzz_check(n_names < 16 && strlen(name) < sizeof *names);
	strcpy(names[n_names++], name);
}

const char *fuzz_file(const char *name, const void *data, size_t size)
{
	static char paths[4][PATH_MAX];
	static int next;
	char *path = paths[next = (next + 1) % 4];
	remember(name);
	snprintf(path, sizeof *paths, "%s/%.63s", fuzz_dir(), name);
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	fuzz_check(fd >= 0 && write(fd, data, size) == (ssize_t)size);
	close(fd);
	return path;
}

const char *fuzz_golden_path(const char *name)
{
	static char path[PATH_MAX];
	const char *src = getenv("ZR_SRCDIR");
	snprintf(path, sizeof path, "%s/tests/golden/%s", src ? src : ".", name);
	return path;
}

char *fuzz_golden(const char *name, size_t *size)
{
	FILE *f = fopen(fuzz_golden_path(name), "rb");
	char *text = NULL;
	fuzz_check(f && !fseek(f, 0, SEEK_END));
	*size = (size_t)ftell(f);
	rewind(f);
	text = calloc(1, *size + 1);
	fuzz_check(text && fread(text, 1, *size, f) == *size);
	fclose(f);
	return text;
}

void fuzz_quiet(void)
{
	stdout = stderr = fopen("/dev/null", "w");
	fuzz_check(stderr);
}

int fuzz_refused(const struct zr_error *err)
{
	fuzz_check(err->code && *err->text);
	if (getenv("FUZZ_TELL"))
		dprintf(STDERR_FILENO, "%s\n", err->text);
	for (const char *c = err->text; *c; c++)
		fuzz_check((unsigned char)*c >= ' ' && *c != 0x7f);
	return 0;
}
