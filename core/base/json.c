/* SPDX-License-Identifier: Apache-2.0
 *
 * json.c - see json.h.
 */
#include "core/base/json.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/file.h"

#define SPARE 65536

static void keep(json_t **to, int failed)
{
	if (failed) {
		json_decref(*to);
		*to = NULL;
	}
}

void zr_json_put(json_t **to, const char *key, json_t *value)
{
	keep(to, json_object_set_new(*to, key, value));
}

void zr_json_add(json_t **to, json_t *value)
{
	keep(to, json_array_append_new(*to, value));
}

json_t *zr_json_string(const char *text, const char *otherwise)
{
	errno = 0;
	json_t *j = json_string(text);
	if (j || errno == ENOMEM)
		return j;
	return json_string(otherwise);
}

/* jansson does not look whether a token could grow: the first allocation that fails is served from
 * a reserve, then the text ends. (LeakSanitizer crashes on TLS that a plugin makes late.) */
struct reading {
	const char *at, *end;
	char *reserve;
	size_t left, size;
	int failed;
};

static _Thread_local __attribute__((tls_model("initial-exec"))) struct reading *now;

/* Those that were there: malloc and free, or of another copy of this file, in a plugin. */
static json_malloc_t take_before;
static json_free_t give_before;

static void *take(size_t n)
{
	void *p = take_before(n);
	if (p || !now)
		return p;
	now->failed = 1;
	n = (n + 15) / 16 * 16;
	if (n > now->left)
		return NULL;
	now->left -= n;
	return now->reserve + now->left;
}

static void give(void *p)
{
	if (!now || !now->reserve || (char *)p < now->reserve ||
	    (char *)p >= now->reserve + now->size)
		give_before(p);
}

static size_t next(void *to, size_t room, void *arg)
{
	struct reading *r = arg;
	size_t n = (size_t)(r->end - r->at);
	if (r->failed)
		return 0;
	if (n > room)
		n = room;

	memcpy(to, r->at, n);
	r->at += n;
	return n;
}

static pthread_once_t once = PTHREAD_ONCE_INIT;

static void watch(void)
{
	json_get_alloc_funcs(&take_before, &give_before);
	json_set_alloc_funcs(take, give);
}

json_t *zr_json_load(const char *text, size_t bytes, size_t flags, json_error_t *why)
{
	const size_t size = SPARE + (bytes / 4 + 1) * 16;
	struct reading r = {
		.at = text, .end = text + bytes, .left = size, .size = size, .reserve = malloc(size)
	};

	pthread_once(&once, watch);
	r.failed = !r.reserve;
	now = &r;
	flags |= JSON_REJECT_DUPLICATES | JSON_DECODE_ANY;
	json_t *j = NULL;
	if (!r.failed)
		j = json_load_callback(next, &r, flags, why);
	keep(&j, r.failed);
	if (r.failed)
		snprintf(why->text, sizeof why->text, "out of memory");
	now = NULL;
	free(r.reserve);
	errno = 0;
	if (r.failed)
		errno = ENOMEM;
	return j;
}

int zr_json_object(const char *text, size_t n, const char *path, json_t **to, struct zr_error *err)
{
	json_error_t at;
	json_t *j = zr_json_load(text, n, 0, &at);
	/* transformers writes 1e30 as an integer for what has no limit */
	if (!j && !errno && json_error_code(&at) == json_error_numeric_overflow)
		j = zr_json_load(text, n, JSON_DECODE_INT_AS_REAL, &at);
	if (json_is_object(j)) {
		*to = j;
		return 0;
	}

	if (j) {
		json_decref(j);
		return zr_err(err, ZR_EINVAL, "%s: not a JSON object", path);
	}
	if (errno)
		return zr_err(err, ZR_ENOMEM, "%s: out of memory", path);
	return zr_err(err, ZR_EINVAL, "%s:%d:%d: not JSON: %s", path, at.line, at.column, at.text);
}

/* The object that an owned text is; frees the text. */
static int take_object(char *text, size_t bytes, const char *path, json_t **to,
		       struct zr_error *err)
{
	int rc = zr_json_object(text, bytes, path, to, err);
	free(text);
	return rc;
}

int zr_json_file(const char *path, size_t most, json_t **to, struct zr_error *err)
{
	char *text;
	size_t bytes;
	int no = zr_file_text(AT_FDCWD, path, 1, most, &text, &bytes);
	if (no)
		return zr_file_failed(err, path, "", no);

	return take_object(text, bytes, path, to, err);
}

int zr_json_file_if_there(const char *path, size_t most, json_t **to, struct zr_error *err)
{
	char *text;
	size_t bytes;

	*to = NULL;
	int no = zr_file_text(AT_FDCWD, path, 1, most, &text, &bytes);
	if (no == ENOENT || no == ENOTDIR)
		return 0;
	if (no)
		return zr_file_failed(err, path, "cannot read", no);

	return take_object(text, bytes, path, to, err);
}

char *zr_json_dump(const json_t *j, size_t flags)
{
	struct reading r = { 0 };
	pthread_once(&once, watch);
	now = &r;
	char *text = json_dumps(j, flags);
	now = NULL;
	if (!r.failed)
		return text;

	free(text);
	errno = ENOMEM;
	return NULL;
}
