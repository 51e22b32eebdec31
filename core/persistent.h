/* SPDX-License-Identifier: Apache-2.0
 *
 * persistent.h - the persistent numbers of tensors (zr_tensor.persistent). They change only between
 * two programs, therefore no instruction names them as what a layer reads. [step]
 */
#ifndef ZR_CORE_PERSISTENT_H
#define ZR_CORE_PERSISTENT_H

#include "core/session.h"

/* The numbers of the whole model in host memory: [layout.persistent], tensor by tensor. */
float *zr_persistent_at(const struct zr_session *s);

/* Hands layers the numbers that lie at zr_persistent_at() now. */
int zr_persistent_publish(struct zr_session *s, struct zr_error *err);

/* Makes the tables of places that layers and the model get. [main] */
int zr_persistent_open(struct zr_session *s, struct zr_error *err);

/* Asks the model to write the numbers: before the first step, and after each step that changed the
 * weights. `loss` is that step's; before the first step it is 0. */
int zr_persistent_renew(struct zr_session *s, double loss, struct zr_error *err);

#endif
