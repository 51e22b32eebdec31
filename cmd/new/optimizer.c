/* @ID@ - an optimizer for zeroth. See zeroth-plugin(7) and zeroth/elementwise.h.
 *
 * As it is written here: momentum, and weight decay that is not a part of the gradient. Zeroth
 * does pieces, threads, ranks, offload, clipping, the types of states and their files; update() is
 * all that is yours, and runs on every device. */
#include <zeroth/elementwise.h>

/* What a user may set in [optimizer]. Types of members follow from those of the table. */
struct opts {
	double lr, momentum, weight_decay;
	int32_t states;
};

/* Name, type, flags, default, least and greatest value, unit, and a sentence for people. */
static const struct zr_opt options[] = {
	ZR_OPT_LR(struct opts, "1e-2"),
	ZR_OPT(struct opts, momentum, ZR_T_F64, ZR_O_NUMERIC | ZR_O_GROUP | ZR_O_MAX_OPEN, "0.9", 0,
	       1, "", "Share of the last direction that is kept."),
	ZR_OPT(struct opts, weight_decay, ZR_T_F64, ZR_O_NUMERIC | ZR_O_GROUP, "0", 0, ZR_HI, "",
	       "Share of a parameter that goes at each step, times lr."),
	ZR_OPT_STATES(struct opts),
};

/* g: gradient, unscaled and clipped; p: parameter; k: constants; s: states of this element. Returns
 * the new parameter. No macros in here, and no functions but those of the header. */
ZR_ELEMENTWISE(enum { DIRECTION, STATES }; enum { LR, MOMENTUM, DECAY, CONSTANTS };
	       static float update(const float *k, float g, float p, float *s) {
		       s[DIRECTION] = k[MOMENTUM] * s[DIRECTION] + g;
		       return p - k[DECAY] * p - k[LR] * s[DIRECTION];
	       })

/* Names in checkpoints, and first values. A new meaning needs a new name. */
static const struct zr_elementwise_state states[] = { { "direction", 0, 0, 0 }, ZR_NO_STATE };

/* Once per call, in double: what update() gets as k. The lr is that of the step, not the option:
 * the scheduler changes it. */
static void constants(const struct opts *o, const struct zr_opt_step *s, float *k)
{
	k[LR] = (float)s->lr;
	k[MOMENTUM] = (float)o->momentum;
	k[DECAY] = (float)(s->lr * o->weight_decay);
}

ZR_ELEMENTWISE_OPTIMIZER(struct opts, .id = "@ID@", .version = "1", .license = "Apache-2.0",
			 .summary = "Momentum with decoupled weight decay.");
