/* SPDX-License-Identifier: Apache-2.0
 *
 * data.c - all_reduce: sums of what the all-to-all brought, in rank order (invariant I1). Layout of
 * staging, per segment:
 *   [R][part] what this rank sends, later the sums; [R][part] what the ranks sent to this one
 */
#include "mpi.h"

#include <string.h>

#define STREAM (2u << 20) /* results of at least so many bytes go around the caches */

static void sum(struct zr_inst *c, const struct zm_pend *p, const char *from, void *to,
		uint64_t stride, uint64_t bytes)
{
	int32_t ranks = c->group[p->group].size;
	char *const out = to;
	for (int32_t r = 0; r < ranks; r++)
		c->source[r] = from + (uint64_t)r * stride;
	if (bytes)
		zl_sum(p->own.dtype, &out, 1, c->source, ranks, bytes, bytes >= STREAM);
}

void zm_finish(struct zr_inst *c, struct zm_pend *p)
{
	const struct zm_group *g = &c->group[p->group];
	uint64_t esz = comm_dtype_bytes(p->own.dtype), ranks = (uint64_t)g->size;
	char *staging = p->staging;
	for (int32_t i = 0; i < p->own.n_seg; i++) {
		const struct zr_comm_seg *s = &p->seg[i];
		uint64_t bytes = (uint64_t)s->count * esz, part = zm_part(s->count, g->size) * esz;
		if (p->own.kind == ZR_COMM_REDUCE_SCATTER && zm_sum_in_place(g, s, p->own.dtype)) {
			memcpy(s->recv, staging, bytes);
			staging += bytes;
		} else if (p->own.kind == ZR_COMM_ALL_REDUCE) {
			sum(c, p, staging + part * ranks, staging + part * (uint64_t)g->rank, part,
			    part);
			staging += 2 * part * ranks;
		}
	}
}

void zm_finish_sum(struct zr_inst *c, struct zm_pend *p)
{
	const struct zm_group *g = &c->group[p->group];
	uint64_t esz = comm_dtype_bytes(p->own.dtype);
	const char *staging = p->staging;
	for (int32_t i = 0; i < p->own.n_seg; i++) {
		memcpy(p->seg[i].recv, staging, (uint64_t)p->seg[i].count * esz);
		staging += 2 * zm_part(p->seg[i].count, g->size) * esz * (uint64_t)g->size;
	}
}
