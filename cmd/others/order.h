/* SPDX-License-Identifier: Apache-2.0
 *
 * order.h - the order of a model's parameters in transformers, which optimizers of PyTorch number
 * them by. [any]
 */
#ifndef ZR_CMD_OTHERS_ORDER_H
#define ZR_CMD_OTHERS_ORDER_H

#include "core/model/layout.h"

/* order[i]: the tensor that is parameter i there, of the model's own. Returns how many, or -1: a
 * model that has other parameters there (experts, which are one parameter in transformers 5). */
int32_t zr_their_order(const struct zr_layout *layout, int32_t *order, struct zr_error *err);

/* Whether transformers' Trainer leaves it out of the weight decay: biases and norms. */
int zr_is_not_decayed(const struct zr_tensor *t);

#endif
