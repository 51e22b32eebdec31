/* SPDX-License-Identifier: Apache-2.0
 *
 * tree.c - see tree.h.
 */
#define _GNU_SOURCE
#include "tests/faults/tree.h"

#include <dirent.h>
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

typedef void visit(const char *path, const char *name, const struct stat *st, void *arg);

static int not_dots(const struct dirent *e)
{
	return strcmp(e->d_name, ".") && strcmp(e->d_name, "..");
}

/* Calls fn for what is in a directory, by name. */
static void each(const char *dir, visit *fn, void *arg)
{
	struct dirent **e;
	int n = scandir(dir, &e, not_dots, alphasort);
	for (int i = 0; i < n; i++) {
		char path[PATH_MAX];
		struct stat st;
		if (snprintf(path, sizeof path, "%s/%s", dir, e[i]->d_name) < (int)sizeof path &&
		    !lstat(path, &st))
			fn(path, e[i]->d_name, &st, arg);
		free(e[i]);
	}
	if (n >= 0)
		free(e);
}

static void remove_one(const char *path, const char *name, const struct stat *st, void *arg)
{
	(void)name, (void)arg;
	if (!S_ISDIR(st->st_mode)) {
		unlink(path);
		return;
	}
	each(path, remove_one, NULL);
	rmdir(path);
}

void tree_remove(const char *path)
{
	struct stat st;
	if (!lstat(path, &st))
		remove_one(path, path, &st, NULL);
}

static void copy_file(const char *from, const char *to, off_t bytes)
{
	int in = open(from, O_RDONLY), out = open(to, O_WRONLY | O_CREAT | O_TRUNC, 0666);
	if (in < 0 || out < 0)
		err(99, "%s: cannot copy to %s", from, to);
	while (bytes > 0) {
		ssize_t n = sendfile(out, in, NULL, (size_t)bytes);
		if (n <= 0)
			err(99, "%s: cannot copy to %s", from, to);
		bytes -= n;
	}
	close(in);
	close(out);
}

static void copy_one(const char *path, const char *name, const struct stat *st, void *arg)
{
	char to[PATH_MAX];
	snprintf(to, sizeof to, "%s/%s", (const char *)arg, name);
	if (S_ISDIR(st->st_mode))
		tree_copy(path, to);
	else
		copy_file(path, to, st->st_size);
}

void tree_copy(const char *from, const char *to)
{
	char target[PATH_MAX];
	snprintf(target, sizeof target, "%s", to);
	if (mkdir(target, 0777))
		err(99, "%s", target);
	each(from, copy_one, target);
}

char *tree_text(const char *path)
{
	FILE *f = fopen(path, "r");
	char *text = NULL;
	size_t size = 0;
	if (!f || getdelim(&text, &size, 0, f) < 0) {
		free(text);
		text = strdup("");
	}
	if (f)
		fclose(f);
	return text;
}

uint64_t tree_hash(const char *text)
{
	uint64_t h = 14695981039346656037u;
	for (; *text; text++)
		h = (h ^ (unsigned char)*text) * 1099511628211u;
	return h;
}

/* FNV-1a over words of 8 bytes. */
static uint64_t hash_file(const char *path, int lines_only)
{
	uint64_t h = 14695981039346656037u, lines = 0, bytes = 0;
	static char buf[1 << 16];
	int fd = open(path, O_RDONLY);
	ssize_t n;
	while (fd >= 0 && (n = read(fd, buf, sizeof buf)) > 0) {
		memset(buf + n, 0, (size_t)(n + 7) / 8 * 8 - (size_t)n);
		for (ssize_t i = 0; i < n; i += 8) {
			uint64_t x;
			memcpy(&x, buf + i, 8);
			h = (h ^ x) * 1099511628211u;
			h ^= h >> 29;
		}
		for (ssize_t i = 0; lines_only && i < n; i++)
			lines += buf[i] == '\n';
		bytes += (uint64_t)n;
	}
	if (fd >= 0)
		close(fd);
	return lines_only ? lines : h ^ bytes;
}

struct list {
	FILE *out;
	size_t skip; /* bytes of the root's path */
};

static void list_one(const char *path, const char *name, const struct stat *st, void *arg)
{
	struct list *l = arg;
	int timed = !strcmp(name, "metrics.jsonl") || !strcmp(name, "summary.json") ||
		    !strcmp(name, "plan.json");
	fprintf(l->out, "%s %c %llx\n", path + l->skip,
		S_ISDIR(st->st_mode) ? 'd' :
		S_ISREG(st->st_mode) ? 'f' :
				       '?',
		S_ISREG(st->st_mode) ? (unsigned long long)hash_file(path, timed) : 0);
	if (S_ISDIR(st->st_mode))
		each(path, list_one, l);
}

char *tree_list(const char *path)
{
	char *text = NULL;
	size_t size;
	struct list l = { open_memstream(&text, &size), strlen(path) + 1 };
	each(path, list_one, &l);
	fclose(l.out);
	return text;
}

static int has_line(const char *text, const char *line, size_t n)
{
	for (const char *at = text; (at = memmem(at, strlen(at), line, n)); at++)
		if (at == text || at[-1] == '\n')
			return 1;
	return 0;
}

static int is_excepted(const char *line, const char *end, const char *const *except)
{
	for (; except && *except; except++) {
		const char *at = strstr(line, *except);
		if (at && at < end)
			return 1;
	}
	return 0;
}

static int missing(const char *a, const char *b, const char *const *except, char sign, char *out,
		   size_t size)
{
	for (const char *end; (end = strchr(a, '\n')); a = end + 1)
		if (!is_excepted(a, end, except) && !has_line(b, a, (size_t)(end - a) + 1)) {
			snprintf(out, size, "%c%.*s", sign, (int)strcspn(a, " "), a);
			return 1;
		}
	return 0;
}

void tree_difference(const char *a, const char *b, const char *const *except, char *out,
		     size_t size)
{
	*out = 0;
	if (!missing(b, a, except, '-', out, size))
		missing(a, b, except, '+', out, size);
}
