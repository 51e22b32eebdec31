/* SPDX-License-Identifier: Apache-2.0
 *
 * base.h - frozen tensors as training has them: what files hold of them, in the codes of [model]
 * store or in the type of [precision]. A tensor is read from its first element to its last one, in
 * windows of whole blocks, which codes are made of. [main]
 */
#ifndef ZR_TRAIN_WEIGHTS_BASE_H
#define ZR_TRAIN_WEIGHTS_BASE_H

#include "core/session.h"

struct zr_base {
	const struct zr_layout *layout;
	int32_t dtype; /* that training computes in */
	/* knows which tensors are stored, and in what; NULL: none is */
	const struct zr_setup *kept;
	zr_values_fn *fn; /* what files hold */
	void *arg;
	/* its own */
	int32_t tensor;
	int64_t at, n; /* elements that `values` has; n 0: nothing */
	float *values;
	void *codes;
	struct XXH3_state_s *hash;
};

/* The first five members are set; all they point to is borrowed. */
int zr_base_open(struct zr_base *b, struct zr_error *err);
void zr_base_close(struct zr_base *b); /* a zeroed one is fine */
zr_values_fn zr_base_read;             /* arg: a struct zr_base */
/* XXH3-64 of what was kept of the tensor, in fp32, once its last element was read: as checkpoints
 * have it. */
uint64_t zr_base_hash(const struct zr_base *b);
/* ZR_EINVAL: that is not the hash that the checkpoint has of a tensor that it leaves out. */
int zr_base_changed(const char *checkpoint, const char *tensor, const char *base,
		    struct zr_error *err);

#endif
