/* SPDX-License-Identifier: Apache-2.0
 *
 * tier.h - bytes between tiers. A region is memory that can be addressed, or an object of a store that only reads and
 * writes. [step], but for open and close.
 */
#ifndef ZR_CORE_TIER_H
#define ZR_CORE_TIER_H

#include "core/session.h"

int zr_tier_open(struct zr_session *s, struct zr_error *err); /* makes the objects of [offload.X] regions */
void zr_tier_close(struct zr_session *s);

/* Whether bytes of the region have an address, if perhaps one of device memory; zr_at then gives it. */
static inline int zr_addressed(const struct zr_session *s, int32_t region)
{
	return s->setup->plan.region[region].tier != ZR_TIER_DISK;
}

/* Starts to bring `bytes` from an object of a store to memory in an arena that the host may address, or back; zr_moved ends
 * it. */
int zr_read(struct zr_session *s, struct zr_spot from, void *to, uint64_t bytes, uint64_t *ticket);
int zr_write(struct zr_session *s, struct zr_spot to, const void *from, uint64_t bytes, uint64_t *ticket);
int zr_moved(struct zr_session *s, int32_t region, uint64_t ticket);

/* Between a spot, wherever it is, and any memory of the host; done on return. */
int zr_get(struct zr_session *s, struct zr_spot from, void *to, uint64_t bytes);
int zr_put(struct zr_session *s, struct zr_spot to, const void *from, uint64_t bytes);

/* Starts a copy between regions; zr_copied ends it. idle: nothing that was enqueued on the device
 * uses either. */
int zr_copy_begin(struct zr_session *s, int32_t from_region, int32_t to_region, void *to,
		  const void *from, uint64_t bytes, int idle, uint64_t *ticket);
int zr_copied(struct zr_session *s, uint64_t ticket);

int zr_copy(struct zr_session *s, void *to, const void *from, uint64_t bytes); /* between host and device, done on return */

#endif
