/* SPDX-License-Identifier: Apache-2.0
 *
 * route.h - the ways of what moves between tiers, ranks and the device: legs that are begun one after the other, beside the
 * computing. Disk and memory that only copies reach have nothing in common, nor have such memory and ranks that meet on the
 * host: between them lies a slot of host memory, in ZR_R_SLOT, for as long as the operation is under way.
 */
#ifndef ZR_CORE_ROUTE_H
#define ZR_CORE_ROUTE_H

#include <stdint.h>

struct zr_setup;

enum zr_leg {
	ZR_L_READ,  /* from the other tier: into the slot, or where there is none to the device */
	ZR_L_WRITE, /* to it, likewise */
	ZR_L_COPY,  /* between slot and device */
	ZR_L_RANKS  /* all-gather: in the slot if that is for all shares, else on the device */
};

struct zr_route {
	int32_t n, leg[3];
	int32_t slot;  /* 1: passes through one */
	int32_t whole; /* 1: ranks meet there: it holds all shares, else this rank's */
};

/* Whether collectives on device memory go through host memory. */
int zr_by_wire(const struct zr_setup *s);

/* Of a unit's gather; units of one list have the same. No leg: it is there. */
struct zr_route zr_route_gather(const struct zr_setup *s, int32_t unit);

/* Of a unit that is split over all ranks. */
struct zr_route zr_route_of_split(const struct zr_setup *s);

/* Of activations on their way to the other tier, or back. */
struct zr_route zr_route_move(const struct zr_setup *s, int32_t back);

/* Bytes of this rank's share of a unit's compute copy, once there is a plan. */
uint64_t zr_unit_share_bytes(const struct zr_setup *s, int32_t unit);

/* Bytes of a unit's part of the slot; 0: none. */
uint64_t zr_route_slot(const struct zr_setup *s, const struct zr_route *r, int32_t unit);

#endif
