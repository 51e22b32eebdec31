/* SPDX-License-Identifier: Apache-2.0
 *
 * values.h - what a session holds, wherever it is kept, in host memory: one place at a time,
 * outside of programs. [step]
 */
#ifndef ZR_CORE_VALUES_H
#define ZR_CORE_VALUES_H

#include "core/memory/subgroup.h"

struct zr_chunk *zr_chunk_new(void); /* scratch of a session; freed by free(), NULL: no memory */

/* From a spot to any memory of the host or, write, back; done on return. */
int zr_pass(struct zr_session *s, struct zr_spot spot, void *memory, uint64_t bytes, int write,
	    struct zr_error *err);

/* One kind of a sub-group's data, if it has any. */
int zr_datum_pass(struct zr_session *s, const struct zr_subgroup *p, int d, void *memory, int write,
		  struct zr_error *err);

/* All masters of a sub-group from x, rounded to the nearest. work: room for as many bytes as at
 * x. */
int zr_master_in(struct zr_session *s, const struct zr_subgroup *p, float *x, uint16_t *work,
		 struct zr_error *err);

#endif
