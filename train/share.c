/* SPDX-License-Identifier: Apache-2.0
 *
 * share.c - see share.h.
 */
#include "train/share.h"

#include <string.h>

int zr_gather_bytes(struct zr_session *s, const void *mine, void *all, size_t bytes,
		    struct zr_error *err)
{
	struct zr_comm_seg seg = { .send = mine,
				   .recv = all,
				   .count = (int64_t)(bytes / sizeof(int64_t)) };
	struct zr_comm_op o = { .size = sizeof o,
				.kind = ZR_COMM_ALL_GATHER,
				.group = ZR_GROUP_WORLD,
				.dtype = ZR_I64,
				.n_seg = 1,
				.seg = &seg,
				.tag = { .step = s->step + 1, .op = -1, .unit = -1 } };

	memcpy(all, mine, bytes);
	return s->setup->facts.process.world == 1 ? 0 : zr_comm_run(s, &o, err);
}
