/* SPDX-License-Identifier: Apache-2.0
 *
 * session.h - a model in memory: the arena of the plan, its pointers, and the step. [main] opens and closes,
 * [step] everything else; nothing allocates after the first step (invariant I3).
 */
#ifndef ZR_CORE_SESSION_H
#define ZR_CORE_SESSION_H

#include "core/exact.h"
#include "core/setup.h"

/* Pointers of one layer's tensors, and which of its gradients are second contributions. */
struct zr_layer_tensors {
	const void **param;
	float **dparam;
	uint8_t *accumulate;
};

struct zr_session {
	struct zr_setup *setup;
	char *arena;
	char *region[ZR_R_COUNT];
	struct zr_layer_tensors *layer; /* [n_layers] */
	const void **pointers;          /* backing of the above */
	uint8_t *flags;
	struct zr_groups *groups;       /* [n_units] as the stage declared */
	uint8_t *full;                  /* [n_units] the full copy is there */
	uint8_t *done;                  /* [n_units] reduced, updated: by program */
	struct zr_seg *seg;             /* scratch of an update: one unit's segments */
	struct zr_buf *state_buf;       /* [n_states] likewise */
	int32_t *all_units;

	/* the walk */
	const struct zr_schedule *uses;
	int32_t program;
	int64_t slot_index;             /* how many slots this rank has folded in this step */
	struct zr_layer_call call;
	struct zr_stage stage;
	struct zr_error *err;

	/* the run so far */
	int64_t step;    /* attempted */
	int64_t applied; /* updates done: what the scheduler and the optimizer count */
	struct zr_scale scale;
	double lr, grad_mult;
	struct zr_exact sum;
};

struct zr_step_result {
	float loss;           /* mean over the tokens of the step */
	double grad_norm;     /* global L2 norm of the mean gradient, before clipping */
	double lr;
	double scale;         /* loss scale the step was computed with */
	int32_t action;       /* ZR_STEP_* */
	const char *overflow; /* name of the first tensor with non-finite gradients, or "loss"; NULL: none */
	int64_t tokens;
};

int zr_session_open(struct zr_setup *setup, struct zr_session **out, struct zr_error *err);
void zr_session_close(struct zr_session *s);

int zr_session_init(struct zr_session *s, struct zr_error *err);    /* initial values from the seed */
int zr_session_publish(struct zr_session *s, struct zr_error *err); /* masters were written: make compute copies */

int zr_session_step(struct zr_session *s, struct zr_step_result *r, struct zr_error *err);

/* Mean loss over the held-out batches; changes nothing else. Needs val_tokens > 0. */
int zr_session_eval(struct zr_session *s, double *loss, struct zr_error *err);

/* Logits [vocabulary] that follow tokens[0..n), n <= sequence length. */
int zr_session_logits(struct zr_session *s, const int32_t *tokens, int64_t n, float *logits, struct zr_error *err);

/* fp32 master of tensor i in canonical order, layout.tensor[i].elements of them. */
float *zr_session_master(const struct zr_session *s, int32_t i);

/* walk.c: replays a program: points to the stage, its verbs on memory, layers in between. */
int zr_walk(struct zr_session *s, int32_t program, struct zr_error *err);
void zr_walk_init(struct zr_session *s);

#endif
