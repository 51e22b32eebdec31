/* SPDX-License-Identifier: Apache-2.0
 *
 * route.h - how parameters and activations move between tiers, ranks and the device: in hops that
 * begin one after the other, beside the computing. Disk and memory that only copies reach have
 * nothing in common, nor have such memory and ranks that meet on the host: between them lies a
 * bounce buffer in host memory, ZR_R_BOUNCE, for as long as the operation is under way.
 */
#ifndef ZR_CORE_ROUTE_H
#define ZR_CORE_ROUTE_H

#include <stdint.h>

struct zr_setup;
struct zr_setup_facts;

enum zr_hop {
	/* from the other tier: into the bounce buffer, or where there is none to the device */
	ZR_HOP_READ,
	ZR_HOP_WRITE, /* to it, likewise */
	ZR_HOP_COPY,  /* between bounce buffer and device */
	/* all-gather: in the bounce buffer if that is for all shares, else on the device */
	ZR_HOP_RANKS
};

struct zr_route {
	int32_t n, hop[3];
	int32_t bounce; /* 1: passes through one */
	int32_t whole;  /* 1: ranks meet there: it holds all shares, else this rank's */
};

/* Whether collectives on device memory go through host memory. */
int zr_comm_on_host(const struct zr_setup_facts *f);

/* Of a unit's gather; units of one list have the same. No hop: it is there. */
struct zr_route zr_route_gather(const struct zr_setup_facts *f, int32_t unit);

/* Of a unit that is split over all ranks. */
struct zr_route zr_route_of_split(const struct zr_setup_facts *f);

/* Of activations on their way to the other tier, or back. */
struct zr_route zr_route_move(const struct zr_setup_facts *f, int32_t back);

/* Bytes of this rank's share of a unit's compute copy, once there is a plan. */
uint64_t zr_unit_share_bytes(const struct zr_setup *s, int32_t unit);

/* Bytes of a unit's part of the bounce buffer; 0: none. */
uint64_t zr_route_bounce_bytes(const struct zr_setup_facts *f, const struct zr_route *r,
			       int32_t unit);

#endif
