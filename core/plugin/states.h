/* SPDX-License-Identifier: Apache-2.0
 *
 * states.h - the table of states that an optimizer declares. [main] thread.
 */
#ifndef ZR_CORE_STATES_H
#define ZR_CORE_STATES_H

#include <zeroth/optimizer.h>

#include "core/error.h"

struct zr_states {
	const struct zr_state *table;
	uint32_t n, stride; /* entries, bytes between them */
};

static inline const struct zr_state *zr_state_at(const struct zr_states *s, uint32_t i)
{
	return (const struct zr_state *)((const char *)s->table + (size_t)i * s->stride);
}

/* Whether they can be kept, and read back from a checkpoint. path: of the plugin, for messages. */
int zr_states_check(const struct zr_states *s, const char *path, struct zr_error *err);

#endif
