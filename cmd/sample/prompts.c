/* SPDX-License-Identifier: Apache-2.0
 *
 * prompts.c - see prompts.h.
 */
#include "cmd/sample/prompts.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/file.h"
#include "core/base/json.h"

static int add_prompt(struct zr_prompts *p, const char *text, size_t bytes, struct zr_error *err)
{
	if (p->n == p->cap) {
		size_t cap = p->cap ? 2 * p->cap : 64;
		struct zr_prompt *more = realloc(p->at, cap * sizeof *more);
		if (!more)
			return zr_err(err, ZR_ENOMEM, "out of memory for the prompts");

		p->at = more;
		p->cap = cap;
	}

	struct zr_prompt *one = &p->at[p->n];
	one->bytes = bytes;
	one->text = malloc(bytes + 1);
	if (!one->text)
		return zr_err(err, ZR_ENOMEM, "out of memory for the prompts");

	memcpy(one->text, text, bytes);
	one->text[bytes] = 0;
	p->n++;
	return 0;
}

static int add_json(struct zr_prompts *p, const char *path, long at, const char *line, size_t n,
		    struct zr_error *err)
{
	json_error_t why;
	json_t *j = zr_json_load(line, n, 0, &why), *text = json_object_get(j, "prompt");
	int rc;
	if (!j)
		rc = zr_err(err, errno == ENOMEM ? ZR_ENOMEM : ZR_EINVAL, "%s:%ld: not JSON: %s",
			    path, at, why.text);
	else if (!json_is_string(text))
		rc = zr_err(err, ZR_EINVAL,
			    "%s:%ld: has no text \"prompt\": each line is an object with one, "
			    "since the first is an object",
			    path, at);
	else
		rc = add_prompt(p, json_string_value(text), json_string_length(text), err);

	json_decref(j);
	return rc;
}

int zr_prompts_read(const char *path, struct zr_prompts *p, struct zr_error *err)
{
	FILE *f = strcmp(path, "-") ? fopen(path, "re") : stdin;
	char *line = NULL;
	size_t room = 0;
	ssize_t n;
	int rc = 0, json = -1;

	*p = (struct zr_prompts){ 0 };
	if (!f)
		return zr_file_failed(err, path, "cannot open", errno);

	errno = 0;
	for (long at = 1; !rc && (n = getline(&line, &room, f)) >= 0; at++) {
		while (n && (line[n - 1] == '\n' || line[n - 1] == '\r'))
			n--;
		if (!n)
			continue;

		json = json < 0 ? line[0] == '{' : json;
		if (json)
			rc = add_json(p, path, at, line, (size_t)n, err);
		else
			rc = add_prompt(p, line, (size_t)n, err);
		errno = 0;
	}

	if (!rc && ferror(f))
		rc = zr_file_failed(err, path, "cannot read", errno);
	if (!rc && !p->n)
		rc = zr_err(err, ZR_EINVAL, "%s: has no prompts", path);
	free(line);
	if (f != stdin)
		fclose(f);
	return rc;
}

void zr_prompts_free(struct zr_prompts *p)
{
	for (size_t i = 0; i < p->n; i++)
		free(p->at[i].text);
	free(p->at);
}
