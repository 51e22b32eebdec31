/* SPDX-License-Identifier: Apache-2.0
 *
 * head.h - the last layer of a decoder:
 *
 *   loss = cross entropy(cap(gain norm(x) W^T))        W [V, C], cap(z) = c tanh(z / c) if given
 */
#ifndef ZR_DECODER_HEAD_H
#define ZR_DECODER_HEAD_H

#include "decoder.h"

void head_bytes(const struct pass *, struct zr_layer_bytes *out); /* work and rows_of */
int head_forward(const struct pass *);
int head_backward(const struct pass *);
/* Scores of one row, [V] on the device; with the work of a forward. */
int head_logits(const struct pass *, int64_t row, float *logits);

#endif
