/* SPDX-License-Identifier: Apache-2.0
 *
 * settings.c - see settings.h.
 */
#include "train/settings.h"

#include <string.h>
#include <xxhash.h>

#include "core/config/options.h"

/* Leaves out texts, since paths may differ between machines. */
uint64_t zr_settings_hash(const struct zr_setup *setup)
{
	const struct zr_config *cfg = setup->cfg;
	uint64_t h = XXH3_64bits(setup->roles.group_of, (size_t)setup->facts.layout.n_tensors *
								sizeof *setup->roles.group_of);

	h = XXH3_64bits_withSeed(setup->facts.frozen, (size_t)setup->facts.layout.n_tensors, h);
	h = XXH3_64bits_withSeed(&setup->facts.stored, sizeof setup->facts.stored, h);
	for (int i = 0; i < zr_config_count(cfg); i++) {
		const struct zr_section *s = zr_config_at(cfg, i);
		const char *id = s->plugin ? s->plugin->desc->id : NULL, *values = s->opts;
		const struct zr_opt *o;
		if (s->match)
			h = XXH3_64bits_withSeed(s->match, strlen(s->match), h);
		if (id)
			h = XXH3_64bits_withSeed(id, strlen(id), h);
		for (uint32_t k = 0; (o = zr_table_next(&s->table, ZR_O_NUMERIC, &k));)
			if (!zr_value_text(o, values))
				h = XXH3_64bits_withSeed(values + o->offset, o->width, h);
	}

	return h;
}
