/* SPDX-License-Identifier: Apache-2.0
 *
 * frozen.c - see optimizers.h: tensors that training leaves as they are.
 */
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "core/setup.h"

static int bad(const struct zr_setup *s, struct zr_error *err, const char *what, const char *which)
{
	char text[768];
	snprintf(text, sizeof text, what, which);
	return zr_config_blame(s->cfg, "train", ZR_EINVAL, text, err);
}

static int freeze(struct zr_setup *s, const char *pattern, struct zr_error *err)
{
	int32_t fits = 0;
	for (int32_t i = 0; i < s->layout.n_tensors; i++)
		if (!fnmatch(pattern, s->layout.tensor[i].decl->name, 0)) {
			s->frozen[i] = 1;
			fits++;
		}
	return fits ? 0 : bad(s, err, "freeze: no tensor has a name like %s", pattern);
}

static int find_units(struct zr_setup *s, struct zr_error *err)
{
	int left = 0;
	for (int32_t u = 0; u < s->layout.n_units; u++) {
		const struct zr_unit_place *unit = &s->layout.unit[u];
		s->frozen_unit[u] = 1;
		for (int32_t i = unit->first; i < unit->first + unit->count; i++)
			s->frozen_unit[u] &= s->frozen[i];
		left |= !s->frozen_unit[u];
	}
	return left ? 0 : bad(s, err, "freeze: %s are frozen, so that nothing is left to train", "all tensors");
}

int zr_frozen_find(struct zr_setup *s, struct zr_error *err)
{
	const char *list = s->mode == ZR_SETUP_SAMPLE ? "" : s->train->freeze;
	char pattern[ZR_PATTERN];
	int more, rc = 0;
	s->frozen = calloc((size_t)s->layout.n_tensors + 1, 1);
	s->frozen_unit = calloc((size_t)s->layout.n_units + 1, 1);
	if (!s->frozen || !s->frozen_unit)
		return zr_err(err, ZR_ENOMEM, "out of memory for the layout");
	while (!rc && (more = zr_next_pattern(&list, pattern)) > 0)
		rc = freeze(s, pattern, err);
	if (!rc && more < 0)
		rc = bad(s, err, "freeze: a pattern %s", "of more than 255 bytes");
	return rc || s->mode == ZR_SETUP_SAMPLE ? rc : find_units(s, err);
}
