/* SPDX-License-Identifier: Apache-2.0
 *
 * names.h - names of tensors that most of Hugging Face's classes share, for tables of struct
 * tensor_name and for struct family.
 */
#ifndef ZR_DECODER_NAMES_H
#define ZR_DECODER_NAMES_H

#include "decoder.h"

/* Each tensor is an entry of a table. */
/* clang-format off */

#define TENSORS_QKVO \
	TENSOR(Q_W, "self_attn.q_proj.weight"), \
	TENSOR(K_W, "self_attn.k_proj.weight"), \
	TENSOR(V_W, "self_attn.v_proj.weight"), \
	TENSOR(O_W, "self_attn.o_proj.weight")
#define TENSORS_QK_NORM \
	TENSOR(Q_NORM_W, "self_attn.q_norm.weight"), \
	TENSOR(K_NORM_W, "self_attn.k_norm.weight")
#define TENSORS_QKVO_BIASES \
	TENSOR_IF(QKV_BIAS, Q_B, "self_attn.q_proj.bias"), \
	TENSOR_IF(QKV_BIAS, K_B, "self_attn.k_proj.bias"), \
	TENSOR_IF(QKV_BIAS, V_B, "self_attn.v_proj.bias"), \
	TENSOR_IF(O_BIAS,   O_B, "self_attn.o_proj.bias")
#define TENSORS_GATED \
	TENSOR(GATE_W, "mlp.gate_proj.weight"), \
	TENSOR(UP_W,   "mlp.up_proj.weight"), \
	TENSOR(DOWN_W, "mlp.down_proj.weight")
#define TENSORS_GATED_BIASES \
	TENSOR_IF(MLP_BIAS, GATE_B, "mlp.gate_proj.bias"), \
	TENSOR_IF(MLP_BIAS, UP_B,   "mlp.up_proj.bias"), \
	TENSOR_IF(MLP_BIAS, DOWN_B, "mlp.down_proj.bias")

/* Of the tensors that files may have and the model does not use. */
#define HEAD_IS_EMBEDDING "lm_head.weight=model.embed_tokens.weight"

/* Members of struct family. */
#define NAMES_AROUND_BLOCKS \
	.tokens = "model.embed_tokens.weight", \
	.blocks = "model.layers", \
	.norm   = "model.norm.weight", \
	.head   = "lm_head.weight", \
	.map    = ZR_MAP_OUT_IN

/* clang-format on */

#endif
