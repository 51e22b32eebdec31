/* SPDX-License-Identifier: Apache-2.0
 *
 * tensors.c - see tensors.h.
 */
#include "cmd/import/tensors.h"

#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

int zr_tensors_open(struct zr_tensors *t, const char *dir, struct zr_error *err)
{
	char path[4096];
	const char *const options[] = { path, "data.plugin=tokens", "data.path=none",
					"device.plugin=cpu" };
	const int n = (int)(sizeof options / sizeof *options);

	if ((size_t)snprintf(path, sizeof path, "model.path=%s", dir) >= sizeof path)
		return zr_err(err, ZR_EINVAL, "--model: the path is too long");

	int rc = zr_config_load(NULL, options, n, &t->cfg, err);
	if (!rc)
		rc = zr_setup_open(t->cfg, ZR_MODE_SAMPLE, 0, 1, &t->setup, err);
	if (rc)
		return rc;

	t->chosen = calloc((size_t)t->setup->facts.layout.n_tensors + 1, 2);
	if (!t->chosen)
		return zr_no_memory(err);

	t->written = t->chosen + t->setup->facts.layout.n_tensors;
	return 0;
}

void zr_tensors_close(struct zr_tensors *t)
{
	free(t->chosen);
	zr_setup_close(t->setup);
	zr_config_free(t->cfg);
}

const char *zr_tensors_name(const struct zr_tensors *t, int32_t tensor)
{
	return t->setup->facts.layout.tensor[tensor].decl->name;
}

/* ---- patterns ---- */

/* How many tensors a pattern fits; 0: one that is not chosen is among them. */
static int32_t reach(const struct zr_tensors *t, const char *pattern)
{
	int32_t n = 0;

	for (int32_t i = 0; i < t->setup->facts.layout.n_tensors; i++) {
		if (fnmatch(pattern, zr_tensors_name(t, i), 0))
			continue;
		if (!t->chosen[i])
			return 0;

		n++;
	}

	return n;
}

static void prefer(const struct zr_tensors *t, const char *pattern, char best[ZR_TENSORS_NAME],
		   int32_t *most)
{
	const int32_t n = reach(t, pattern);
	if (n <= *most)
		return;

	*most = n;
	snprintf(best, ZR_TENSORS_NAME, "%s", pattern);
}

/* The name with a * for each number that is a part of it. */
static void any_number(const char *name, char out[ZR_TENSORS_NAME])
{
	size_t n = 0;

	for (const char *c = name; *c && n + 1 < ZR_TENSORS_NAME;) {
		const size_t digits = strspn(c, "0123456789");
		const int is_part = digits && c != name && c[-1] == '.' && c[digits] == '.';
		out[n++] = *c;
		if (is_part)
			out[n - 1] = '*';
		c += is_part ? digits : 1;
	}

	out[n] = 0;
}

/* A * for the end of a name, behind each dot in it. */
static void prefer_starts(const struct zr_tensors *t, const char *name, char best[ZR_TENSORS_NAME],
			  int32_t *most)
{
	char pattern[ZR_TENSORS_NAME];

	for (const char *dot = strchr(name, '.'); dot; dot = strchr(dot + 1, '.')) {
		snprintf(pattern, sizeof pattern, "%.*s*", (int)(dot - name) + 1, name);
		prefer(t, pattern, best, most);
	}
}

/* A pattern that fits this tensor and many that are chosen, and none that is not. */
static void pattern_for(const struct zr_tensors *t, const char *name, char best[ZR_TENSORS_NAME])
{
	char numbers[ZR_TENSORS_NAME];
	int32_t most = 1;

	snprintf(best, ZR_TENSORS_NAME, "%s", name);
	any_number(name, numbers);
	prefer(t, numbers, best, &most);
	prefer_starts(t, name, best, &most);
	prefer_starts(t, numbers, best, &most);
}

void zr_tensors_write(struct zr_tensors *t, const char *before, FILE *out)
{
	const int32_t n = t->setup->facts.layout.n_tensors;

	for (int32_t i = 0; i < n; i++) {
		char pattern[ZR_TENSORS_NAME];
		if (!t->chosen[i] || t->written[i])
			continue;

		pattern_for(t, zr_tensors_name(t, i), pattern);
		fprintf(out, "%s%s", before, pattern);
		for (int32_t k = i; k < n; k++)
			t->written[k] |= !fnmatch(pattern, zr_tensors_name(t, k), 0);
	}
}
