/* SPDX-License-Identifier: Apache-2.0
 *
 * origin.h - the parameters of a checkpoint, all of them: frozen tensors that it leaves out come
 * from the directory that training started from, as training had them. [main]
 */
#ifndef ZR_TRAIN_WEIGHTS_ORIGIN_H
#define ZR_TRAIN_WEIGHTS_ORIGIN_H

#include "files/pretrained/tensors.h"
#include "train/weights/base.h"
#include "train/weights/saved.h"

struct zr_origin {
	struct zr_saved saved;
	struct zr_tensor_files *began;    /* the tensors that are left out; NULL: not opened yet */
	const struct zr_layout *declared; /* knows which tensors an adapter added; NULL: none is */
	struct zr_base base;              /* the same as training had them */
};

/* Once `saved` is open. declared: its model, where that has stored tensors; else NULL. */
int zr_origin_open_base(struct zr_origin *s, const struct zr_setup *declared, struct zr_error *err);
zr_values_fn zr_origin_read; /* arg: a struct zr_origin */
/* saved, too. */
void zr_origin_close(struct zr_origin *s);

#endif
