/* SPDX-License-Identifier: Apache-2.0
 *
 * tier.h - bytes between tiers. A region is memory that can be addressed, or an object of a store
 * that only reads and writes. [step], but for open and close.
 */
#ifndef ZR_CORE_TIER_H
#define ZR_CORE_TIER_H

#include "core/session.h"

/* makes the objects of [offload.X] regions */
int zr_tier_open(struct zr_session *s, struct zr_error *err);
void zr_tier_close(struct zr_session *s);

/* Whether bytes of the region have an address, if perhaps one of device memory; zr_at then gives
 * it. */
static inline int zr_addressed(const struct zr_session *s, int32_t region)
{
	return s->setup->plan.region[region].tier != ZR_TIER_DISK;
}

/* Asks a store to bring bytes from its object to memory in an arena that the host may address, or,
 * write, back; zr_requested waits for it. */
int zr_request(struct zr_session *s, struct zr_spot spot, void *memory, uint64_t bytes, int write,
	       uint64_t *ticket, struct zr_error *err);
int zr_requested(struct zr_session *s, int32_t region, uint64_t ticket, struct zr_error *err);

/* between host and device, done on return */
int zr_copy(struct zr_session *s, void *to, const void *from, uint64_t bytes, struct zr_error *err);

#endif
