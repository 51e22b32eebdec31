/* SPDX-License-Identifier: Apache-2.0
 *
 * adam_family.h - what adamw, adam and cpu_adam share: options, state, and how a sub-group is
 * updated by the operation adamw (struct zr_op_adamw has the formula). State: two moments per
 * element, in fp32, bf16 or 8 bits.
 */
#ifndef ZR_OPTIMIZER_ADAM_FAMILY_H
#define ZR_OPTIMIZER_ADAM_FAMILY_H

#include <zeroth/device.h>
#include <zeroth/optimizer.h>

struct adam_opts {
	double lr;
	double betas[2];
	double eps;
	double weight_decay;
	uint8_t bias_correction;
	int32_t states; /* index into adam_types */
};

extern const char *const adam_types[];

#define ADAM_CHANGES ZR_O_NUMERIC | ZR_O_GROUP

/* Rows of an option table whose struct begins with a struct adam_opts. */
#define ADAM_OPTIONS(decay)                                                                        \
	ZR_OPT(struct adam_opts, lr, ZR_T_F64, ADAM_CHANGES | ZR_O_SCHED, "1e-3", 0, ZR_HI, "",    \
	       "Learning rate."),                                                                  \
		ZR_OPT(struct adam_opts, betas, ZR_T_F64S, ADAM_CHANGES | ZR_O_MAX_OPEN,           \
		       "0.9, 0.999", 0, 1, "",                                                     \
		       "Decay per step of the averages of the gradient and of its square."),       \
		ZR_OPT(struct adam_opts, eps, ZR_T_F64, ADAM_CHANGES, "1e-8", 0, ZR_HI, "",        \
		       "Added to the root of the averaged square before dividing by it."),         \
		ZR_OPT(struct adam_opts, weight_decay, ZR_T_F64, ADAM_CHANGES, "0", 0, ZR_HI, "",  \
		       decay),                                                                     \
		ZR_OPT(struct adam_opts, bias_correction, ZR_T_BOOL, ADAM_CHANGES, "yes", 0, 0,    \
		       "",                                                                         \
		       "Divide the averages by what their start at zero left "                     \
		       "out."), /* not per group: it decides the type of the state */              \
		ZR_OPT_ENUM(                                                                       \
			struct adam_opts, states, ZR_O_NUMERIC, "fp32", adam_types,                \
			"Type in which both averages are kept, with 4 bytes each in fp32. "        \
			"bf16 takes "                                                              \
			"4 bytes less per parameter and rounds to nearest, so that with "          \
			"betas above "                                                             \
			"0.998 an average of squares rises but never falls. 8bit takes 5.9 bytes " \
			"less: codes of 8 bits and a scale per 32 elements, with which, for "      \
			"betas "                                                                   \
			"above 0.999, the same holds.")

struct zr_inst {
	const struct zr_host *h;
	int32_t moment_dtype;
};

int adam_create(const struct zr_host *h, const void *opts, struct zr_inst **out);
void adam_destroy(struct zr_inst *inst);

#define ADAM_STATE_VERSION 1
const struct zr_state *adam_states(struct zr_inst *inst, uint32_t *n);
/* From each type of the moments to each. */
int adam_upgrade(struct zr_inst *inst, uint32_t from, const struct zr_buf *old, uint32_t n_old,
		 const struct zr_buf *now);

/* The operation on elements [off, off + n) of a sub-group. l2: Adam's form of the weight decay. */
struct zr_op_adamw adam_op(const struct zr_inst *inst, const struct zr_opt_step *s, int64_t off,
			   int64_t n, int l2);
/* step() on the device that holds the memory. */
int adam_step(struct zr_inst *inst, const struct zr_opt_step *s, int l2);

#endif
