/* SPDX-License-Identifier: Apache-2.0
 *
 * read.c - see import.h: a file as JSON or as YAML.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/import/import.h"
#include "core/base/file.h"

#define MOST (16 << 20) /* bytes of a configuration */

static int is_yaml(const char *path)
{
	const char *dot = strrchr(path, '.');
	return dot && (!strcmp(dot, ".yml") || !strcmp(dot, ".yaml"));
}

int zr_tree_read(const char *path, struct zr_tree **out, struct zr_error *err)
{
	struct zr_tree *t = calloc(1, sizeof *t);
	char *text = NULL;
	size_t bytes = 0;

	int no = t && (t->file = strdup(path)) ? 0 : ENOMEM, rc;
	if (!no)
		no = zr_file_text(AT_FDCWD, path, 1, MOST, &text, &bytes);
	if (no)
		rc = zr_file_failed(err, path, "read", no);
	else if (is_yaml(path))
		rc = zr_tree_yaml(text, bytes, path, t, err);
	else
		rc = zr_tree_json(text, bytes, path, t, err);
	free(text);
	if (rc) {
		zr_tree_free(t);
		return rc;
	}

	*out = t;
	return 0;
}
