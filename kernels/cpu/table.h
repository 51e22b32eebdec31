/* SPDX-License-Identifier: Apache-2.0
 *
 * table.h - prototypes of every variant of every kernel, and the table of one variant. SUFFIX is
 * scalar, avx2, avx512, or f64: the scalar source with ZR_REAL=double, which the tests call
 * directly. Variants of bf16 have products and attention of their own, all else is that of
 * avx512.
 */
#ifndef ZEROTH_KERNELS_CPU_TABLE_H
#define ZEROTH_KERNELS_CPU_TABLE_H

#include <kernels.h>

#define ZR_CPU_PRODUCT_PROTOTYPES(SUFFIX, REAL)                                                    \
	void zr_gemm_finish_##SUFFIX(const struct zr_op_matmul *, const REAL *, int64_t, int64_t,  \
				     int64_t, const void *, void *, void *);                       \
	void zr_gemm_low_rank_##SUFFIX(const struct zr_op_matmul_low_rank *, int64_t, int64_t,     \
				       int64_t, int64_t, REAL *, int64_t, void *);                 \
	void zr_gemm_tile_##SUFFIX(const struct zr_op_matmul *,                                    \
				   const struct zr_op_matmul_low_rank *, int64_t, int64_t,         \
				   int64_t, int64_t, void *);

#define ZR_CPU_ATTENTION_PROTOTYPES(SUFFIX, REAL)                                                  \
	void zr_attention_##SUFFIX(const struct zr_op_attention *, int64_t, int64_t, void *);      \
	void zr_attention_bwd_##SUFFIX(const struct zr_op_attention_bwd *, int64_t, int64_t,       \
				       int64_t, void *, REAL *, REAL *);                           \
	void zr_attention_bwd_sum_##SUFFIX(const struct zr_op_attention_bwd *, int64_t, int64_t,   \
					   int64_t, REAL *);                                       \
	int64_t zr_attention_sums_##SUFFIX(const struct zr_op_attention *);                        \
	uint64_t zr_attention_scratch_##SUFFIX(const struct zr_op_attention *, int);

#define ZR_CPU_PROTOTYPES(SUFFIX, REAL)                                                            \
	void zr_embedding_##SUFFIX(const struct zr_op_embedding *, int64_t, int64_t);              \
	void zr_embedding_bwd_##SUFFIX(const struct zr_op_embedding_bwd *, int64_t, int64_t);      \
	void zr_layernorm_##SUFFIX(const struct zr_op_layernorm *, int64_t, int64_t);              \
	void zr_layernorm_bwd_##SUFFIX(const struct zr_op_layernorm_bwd *, int64_t, int64_t,       \
				       REAL *);                                                    \
	void zr_layernorm_bwd_sum_##SUFFIX(const struct zr_op_layernorm_bwd *, const REAL *,       \
					   int64_t, int64_t, int64_t);                             \
	void zr_rmsnorm_##SUFFIX(const struct zr_op_rmsnorm *, int64_t, int64_t);                  \
	void zr_rmsnorm_bwd_##SUFFIX(const struct zr_op_rmsnorm_bwd *, int64_t, int64_t, REAL *);  \
	void zr_rmsnorm_bwd_sum_##SUFFIX(const struct zr_op_rmsnorm_bwd *, const REAL *, int64_t,  \
					 int64_t, int64_t);                                        \
	void zr_rotary_##SUFFIX(const struct zr_op_rotary *, int64_t, int64_t);                    \
	ZR_CPU_ATTENTION_PROTOTYPES(SUFFIX, REAL)                                                  \
	void zr_gelu_bwd_##SUFFIX(const struct zr_op_gelu_bwd *, int64_t, int64_t);                \
	void zr_swiglu_##SUFFIX(const struct zr_op_swiglu *, int64_t, int64_t);                    \
	void zr_swiglu_bwd_##SUFFIX(const struct zr_op_swiglu_bwd *, int64_t, int64_t);            \
	void zr_residual_##SUFFIX(const struct zr_op_residual *, int64_t, int64_t);                \
	void zr_cast_##SUFFIX(const struct zr_op_cast *, int64_t, int64_t);                        \
	void zr_encode_##SUFFIX(const struct zr_op_cast *, int64_t, int64_t);                      \
	void zr_decode_##SUFFIX(const struct zr_op_cast *, int64_t, int64_t);                      \
	void zr_init_##SUFFIX(const struct zr_op_init *, int64_t, int64_t);                        \
	void zr_adamw_##SUFFIX(const struct zr_op_adamw *, int64_t, int64_t);                      \
	void zr_sgd_##SUFFIX(const struct zr_op_sgd *, int64_t, int64_t);                          \
	void zr_lion_##SUFFIX(const struct zr_op_lion *, int64_t, int64_t);                        \
	void zr_adagrad_##SUFFIX(const struct zr_op_adagrad *, int64_t, int64_t);                  \
	void zr_lamb_##SUFFIX(const struct zr_op_lamb *, int64_t, int64_t);                        \
	void zr_lamb_norms_##SUFFIX(const struct zr_op_lamb *, int64_t, int64_t);                  \
	void zr_muon_momentum_##SUFFIX(const struct zr_op_muon *, int64_t, int64_t);               \
	void zr_muon_normalize_##SUFFIX(const struct zr_op_muon *, REAL, int64_t, int64_t);        \
	void zr_muon_factor_##SUFFIX(const struct zr_op_muon_factor *, int64_t, int64_t);          \
	void zr_muon_update_##SUFFIX(const struct zr_op_muon *, int64_t, int64_t);                 \
	void zr_master_join_##SUFFIX(const struct zr_op_master *, int64_t, int64_t);               \
	void zr_master_split_##SUFFIX(const struct zr_op_master *, int64_t, int64_t);              \
	void zr_round_stochastic_##SUFFIX(const struct zr_op_round_stochastic *, int64_t,          \
					  int64_t);                                                \
	void zr_fold_##SUFFIX(const struct zr_op_fold *, int64_t, int64_t);                        \
	void zr_state8_get_##SUFFIX(const void *, int, float *, int64_t, int64_t);                 \
	void zr_state8_put_##SUFFIX(void *, int, const float *, int64_t, int64_t);                 \
	void zr_random_words_##SUFFIX(const struct zr_rng *, uint32_t *, int64_t, int64_t);        \
	void zr_bias_bwd_##SUFFIX(const struct zr_op_bias_bwd *, int64_t, int64_t);                \
	void zr_route_##SUFFIX(const struct zr_op_route *, int64_t, int64_t);                      \
	void zr_route_bwd_##SUFFIX(const struct zr_op_route_bwd *, int64_t, int64_t);              \
	void zr_expert_combine_##SUFFIX(const struct zr_op_expert_combine *, int64_t, int64_t);    \
	void zr_expert_weigh_##SUFFIX(const struct zr_op_expert_weigh *, int64_t, int64_t);        \
	void zr_logit_cap_##SUFFIX(const struct zr_op_logit_cap *, int64_t, int64_t);              \
	void zr_logit_cap_bwd_##SUFFIX(const struct zr_op_logit_cap *, REAL *);                    \
	REAL zr_softmax_loss_##SUFFIX(REAL *, int64_t, int32_t, int, REAL, REAL *);                \
	REAL zr_softmax_end_##SUFFIX(REAL *, REAL, REAL);                                          \
	void zr_softmax_sums_##SUFFIX(REAL *, int64_t, int, REAL *);                               \
	void zr_softmax_part_##SUFFIX(REAL *, int64_t, int64_t, REAL, const REAL *);               \
	int zr_softmax_right_##SUFFIX(const REAL *, int64_t, int32_t);                             \
	ZR_CPU_PRODUCT_PROTOTYPES(SUFFIX, REAL)

ZR_CPU_PROTOTYPES(scalar, float)
ZR_CPU_PROTOTYPES(avx2, float)
ZR_CPU_PROTOTYPES(avx512, float)
ZR_CPU_PROTOTYPES(f64, double)
ZR_CPU_PRODUCT_PROTOTYPES(avx512bf16, float)
ZR_CPU_ATTENTION_PROTOTYPES(avx512bf16, float)
ZR_CPU_PRODUCT_PROTOTYPES(amx, float)
ZR_CPU_ATTENTION_PROTOTYPES(amx, float)
/* tile registers in C: for tests */
ZR_CPU_PRODUCT_PROTOTYPES(amx_emulated, float)
ZR_CPU_ATTENTION_PROTOTYPES(amx_emulated, float)

/* Tokens of one document from token t of batch entry b on. */
static inline int64_t zr_document(const struct zr_op_attention *o, int64_t b, int64_t t)
{
	const int32_t *start = o->starts ? o->starts + b * o->length : NULL;
	int64_t end = start ? t + 1 : o->length;

	while (end < o->length && start[end] == start[t])
		end++;
	return end - t;
}

/* Position of row r = b*T+t. */
static inline int64_t zr_position(const int32_t *position, int64_t r, int64_t length)
{
	return position ? position[r] : r % length;
}

/* Initialiser of struct zr_cpu_kernels, with products and attention of PRODUCT and all else of
 * SUFFIX. Routing, random words of updates and the end of a softmax are little work: the scalar
 * kernels do them in every variant. */
#define ZR_CPU_TABLE(SUFFIX, PRODUCT)                                                              \
	{                                                                                          \
		.name = #PRODUCT, .embedding = zr_embedding_##SUFFIX,                              \
		.embedding_bwd = zr_embedding_bwd_##SUFFIX, .layernorm = zr_layernorm_##SUFFIX,    \
		.layernorm_bwd = zr_layernorm_bwd_##SUFFIX,                                        \
		.layernorm_bwd_sum = zr_layernorm_bwd_sum_##SUFFIX,                                \
		.rmsnorm = zr_rmsnorm_##SUFFIX, .rmsnorm_bwd = zr_rmsnorm_bwd_##SUFFIX,            \
		.rmsnorm_bwd_sum = zr_rmsnorm_bwd_sum_##SUFFIX, .rotary = zr_rotary_##SUFFIX,      \
		.attention = zr_attention_##PRODUCT, .attention_bwd = zr_attention_bwd_##PRODUCT,  \
		.attention_bwd_sum = zr_attention_bwd_sum_##PRODUCT,                               \
		.attention_sums = zr_attention_sums_##PRODUCT,                                     \
		.attention_scratch = zr_attention_scratch_##PRODUCT,                               \
		.gelu_bwd = zr_gelu_bwd_##SUFFIX, .swiglu = zr_swiglu_##SUFFIX,                    \
		.swiglu_bwd = zr_swiglu_bwd_##SUFFIX, .residual = zr_residual_##SUFFIX,            \
		.cast = zr_cast_##SUFFIX, .encode = zr_encode_##SUFFIX,                            \
		.decode = zr_decode_##SUFFIX, .init = zr_init_##SUFFIX,                            \
		.adamw = zr_adamw_##SUFFIX, .sgd = zr_sgd_##SUFFIX, .lion = zr_lion_##SUFFIX,      \
		.adagrad = zr_adagrad_##SUFFIX, .lamb = zr_lamb_##SUFFIX,                          \
		.lamb_norms = zr_lamb_norms_##SUFFIX, .muon_momentum = zr_muon_momentum_##SUFFIX,  \
		.muon_normalize = zr_muon_normalize_##SUFFIX,                                      \
		.muon_factor = zr_muon_factor_##SUFFIX, .muon_update = zr_muon_update_##SUFFIX,    \
		.master_join = zr_master_join_##SUFFIX, .master_split = zr_master_split_##SUFFIX,  \
		.round_stochastic = zr_round_stochastic_##SUFFIX, .fold = zr_fold_##SUFFIX,        \
		.state8_get = zr_state8_get_##SUFFIX, .state8_put = zr_state8_put_##SUFFIX,        \
		.random_words = zr_random_words_scalar, .bias_bwd = zr_bias_bwd_##SUFFIX,          \
		.logit_cap = zr_logit_cap_##SUFFIX, .logit_cap_bwd = zr_logit_cap_bwd_##SUFFIX,    \
		.route = zr_route_scalar, .route_bwd = zr_route_bwd_scalar,                        \
		.expert_combine = zr_expert_combine_##SUFFIX,                                      \
		.expert_weigh = zr_expert_weigh_##SUFFIX,                                          \
		.softmax_loss = zr_softmax_loss_##SUFFIX,                                          \
		.softmax_sums = zr_softmax_sums_##SUFFIX, .softmax_end = zr_softmax_end_scalar,    \
		.softmax_part = zr_softmax_part_##SUFFIX,                                          \
		.softmax_right = zr_softmax_right_##SUFFIX,                                        \
		.gemm_finish = zr_gemm_finish_##PRODUCT,                                           \
		.gemm_low_rank = zr_gemm_low_rank_##PRODUCT, .gemm_tile = zr_gemm_tile_##PRODUCT,  \
	}

#endif
