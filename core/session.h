/* SPDX-License-Identifier: Apache-2.0
 *
 * session.h - a model in memory: the arena of the plan, its pointers, and the step. [main] opens
 * and closes, [step] everything else; nothing but graphs.c allocates after the first step (I3).
 * Every function is collective over the ranks unless it says otherwise.
 */
#ifndef ZR_CORE_SESSION_H
#define ZR_CORE_SESSION_H

#include "core/exec/boundary.h"
#include "core/setup.h"

struct zr_subgroup;
struct zr_beside;
struct zr_ranges;
struct zr_graphs;
struct zr_chunk;

/* Addresses of a program's operands, and what its collectives exchange. */
struct zr_bound {
	char **at;               /* [n_operand] */
	struct zr_comm_seg *seg; /* [n_operand] from the first operand of each collective on */
	uint64_t *ticket;        /* [n] of each instruction that goes on, 0: nothing */
	uint64_t *mark;          /* [n] of each one with ZR_F_MARK: the last one */
};

/* Scalars of the run of an optimizer with advance(): those before update number `update`, for
 * which it was called last, and those that it made then. */
struct zr_run_kept {
	int64_t update;
	double before[ZR_OPT_RUN], now[ZR_OPT_RUN];
};

/* What the device remembers of what was enqueued, by numbers that grow; 0: nothing. */
struct zr_marks {
	uint64_t made;
	uint64_t program;    /* when the program began that runs */
	uint64_t collective; /* when one on device memory was waited for last */
};

struct zr_session {
	struct zr_setup *setup;
	const struct zr_setup_facts *facts; /* of the setup, as are the next ones */
	struct zr_setup_roles *roles;
	const struct zr_setup_programs *programs;
	const struct zr_plan *plan;
	char *arena[2];               /* ZR_STORE_DEVICE, ZR_STORE_HOST */
	int lent;                     /* comm knows of the first one */
	char *region[ZR_R_COUNT];     /* NULL: an object without an address */
	uint64_t object[ZR_R_COUNT];  /* of regions that an [offload.X] store holds */
	uint8_t made[ZR_R_COUNT];     /* whether there is one */
	uint8_t pinned[ZR_R_COUNT];   /* whether the device pinned it */
	uint8_t pageable[ZR_R_COUNT]; /* whether it could not: copies hold up the host */
	const void **param;           /* scratch: a layer's parameters, their gradients, */
	float **dparam;
	uint8_t *accumulate; /* and which of these have something already */
	/* scratch: a layer's persistent numbers, for each of its tensors; NULL: no tensor of the
	 * model has any */
	const float **persistent;
	float **renewed; /* [n_tensors] where the model writes those of all tensors */
	/* [n_units] all shares as comm maps them, NULL: a gather copies */
	char **view;
	/* a step failed when units had been updated, on all ranks alike: masters are of two
	 * steps */
	int torn;
	struct zr_chunk *chunk; /* scratch of values on their way in and out */
	/* scratch of an update: a unit's segments, and those of one parameter group */
	struct zr_seg *seg, *group_seg;
	struct zr_buf *state_buf; /* [n_states] likewise */
	/* [n_optimizers]; scratch: rates of the groups of one, sums behind them; their options */
	struct zr_run_kept *run;
	double *run_lr;
	const void **run_opts;

	/* the program that runs */
	const struct zr_lowered *running; /* NULL: none */
	int32_t at, waiting;              /* instruction that runs now; 1: that is waited for */
	struct zr_bound bound[ZR_LOWERED];
	struct zr_marks marks;
	struct zr_beside *beside; /* the thread for what the host computes; NULL: none */
	struct zr_ranges *ranges; /* what runs by name; NULL: the device wants no names */
	struct zr_graphs *graphs; /* what the device enqueues at once; NULL: nothing */
	int alone;                /* 1: and never of two instructions at once */
	int in_turn;              /* 1: it gets nothing, so that each instruction's time is seen */
	const void **each;        /* [world] scratch: where each rank has its contribution */
	int late;                 /* 1: writes of programs that are over may go on */
	struct zr_source *from;   /* of the batch to come; NULL: of who samples */
	int64_t sequences;        /* of it: those behind have no target; 0: they go round */
	int32_t split;            /* ZR_SPLIT_* of it */
	int64_t slot;             /* its number in the global batch */
	const int32_t *given;     /* tokens of who samples */
	struct zr_home_call home; /* and of its part, where experts are placed */
	struct zr_layer_call call;
	/* Called when instruction n is about to begin, or to be waited for; when it has begun, or
	 * was waited for; and by the thread beside before and after it computes it. None may
	 * allocate; NULL: nobody watches. */
	void (*will)(void *arg, const struct zr_lowered *p, int32_t n, int waited);
	void (*ran)(void *arg, const struct zr_lowered *p, int32_t n, int waited);
	void (*runs_beside)(void *arg, const struct zr_lowered *p, int32_t n, int over);
	void *ran_arg; /* of all three */

	/* the run so far */
	int64_t step;    /* attempted */
	int64_t applied; /* updates done or owed: what the scheduler and the optimizer count */
	int owed;        /* 1: the update of the last step runs within the next forward */
	struct zr_scale scale;
	double targets;    /* of the step that runs: the sum of their weights */
	uint64_t in_place; /* bytes of other ranks' gradients read where they lie, so far */
	/* in ZR_R_HOST, see struct zr_plan */
	struct zr_decided *decided;
	struct zr_scalars *scalars;
	int stop;                      /* a signal that this rank caught, 0: none */
	struct zr_step_result *result; /* of the step that runs */
	int other_data;                /* a checkpoint of other data may be gone on from */
	/* [n_tensors] of those that are frozen and not saved; owned; NULL: all are saved */
	uint64_t *frozen_hash;
	/* what the update calls before it changes a sub-group; NULL: nothing */
	void (*before_update)(void *arg, const struct zr_subgroup *p);
	void *before_update_arg;
};

struct zr_step_result {
	float loss;       /* mean over the tokens of the step */
	double aux_loss;  /* mean over the micro-batches of the step, 0: the model has none */
	double grad_norm; /* global L2 norm of the mean gradient, before clipping */
	double lr;        /* of [optimizer] itself */
	/* with [train] qk_clip: the largest score of any head, 0: none was above it; how many query
	 * heads the update scales down */
	double max_score;
	int64_t clipped_heads;
	double scale;      /* loss scale the step was computed with */
	double next_scale; /* of the next step */
	int32_t action;    /* ZR_STEP_* */
	int32_t bad_rank;  /* of overflow */
	/* name of the first tensor with non-finite gradients, or "loss"; NULL: none */
	const char *overflow;
	const char *unit; /* of that tensor; NULL for "loss" */
	int64_t tokens;
	/* bytes of other ranks' data that this rank took in, copied or read in place */
	uint64_t received;
	int stop; /* a signal that some rank caught, 0: none */
};

/* Without memory: ranks can share what is on the host, and no more. */
struct zr_session zr_session_bare(struct zr_setup *setup);

int zr_session_open(struct zr_setup *setup, struct zr_session **out, struct zr_error *err);
void zr_session_close(struct zr_session *s); /* not collective */

/* Masters and what follows from them, from values that fn writes to x: elements [first, first +
 * n) of tensor i, for all that this rank holds, sub-group by sub-group in canonical order. */
typedef int zr_values_fn(void *arg, int32_t i, int64_t first, int64_t n, float *x,
			 struct zr_error *err);
/* Initial values of tensor i, which depend on (seed, i, element) only. session: a struct
 * zr_session. */
int zr_init_values(void *session, int32_t i, int64_t first, int64_t n, float *x,
		   struct zr_error *err);
int zr_session_fill(struct zr_session *s, zr_values_fn *fn, void *arg, struct zr_error *err);
/* The same, but x has the values so far. Not for tensors that are stored as codes. */
int zr_session_change(struct zr_session *s, zr_values_fn *fn, void *arg, struct zr_error *err);
/* with the optimizers' states and the persistent numbers: the training begins */
int zr_session_begin(struct zr_session *s, zr_values_fn *fn, void *arg, struct zr_error *err);

/* With zr_has_eval_weights(): parameters and the weights for evaluation change places, with all
 * that follows from them; a second time all is as it was. Else nothing. */
int zr_session_exchange(struct zr_session *s, struct zr_error *err);

/* Scalars of the run of optimizer k after the updates so far, NULL: it has none; as a checkpoint
 * had them. Not collective. */
const double *zr_run_of(const struct zr_session *s, int32_t k);
void zr_run_set(struct zr_session *s, int32_t k, const double *values);

/* stop: a signal this rank caught, which all then learn of in the result. */
int zr_session_step(struct zr_session *s, int stop, struct zr_step_result *r, struct zr_error *err);

/* Evaluates micro-batch `slot`: where the host reads what its rows are, as in struct
 * zr_layer_call. sequences: of the whole evaluation, those behind have no target; 0: they go
 * round. Changes nothing else. */
struct zr_rows {
	int64_t n;
	const int32_t *targets;
	const float *loss, *right, *weights; /* weights NULL: 1 */
};
int zr_session_eval(struct zr_session *s, struct zr_source *from, int64_t sequences, int64_t slot,
		    struct zr_rows *rows, struct zr_error *err);

/* Logits [vocabulary] behind the n tokens, which follow the first `past` ones of those that the
 * cache has; past + n <= sequence length. One rank only. */
int zr_session_logits(struct zr_session *s, const int32_t *tokens, int64_t past, int64_t n,
		      float *logits, struct zr_error *err);

/* Calls fn for all fp32 masters in canonical order, tensor by tensor, sub-group by sub-group:
 * elements [first, first + n) at x, valid during the call. fn may be NULL on a rank that only
 * takes part. */
typedef int zr_masters_fn(void *arg, const struct zr_place *t, int64_t first, int64_t n,
			  const float *x);
int zr_session_masters(struct zr_session *s, zr_masters_fn *fn, void *arg, struct zr_error *err);

/* Time, places and collectives. */
double zr_now(void); /* monotonic seconds */
char *zr_at(const struct zr_session *s, struct zr_spot spot);
void *zr_host_table(const struct zr_session *s, uint64_t at); /* bytes from there in ZR_R_HOST */
/* rc 0: it did not */
int zr_op_failed(struct zr_session *s, const struct zr_ops *ops, int rc, const char *op,
		 struct zr_error *err);
/* likewise `it`, or the device under it */
int zr_user_failed(struct zr_session *s, struct zr_instance *it, int rc, const char *doing,
		   struct zr_error *err);
/* of host memory, between instructions; done on return */
int zr_comm_run(struct zr_session *s, const struct zr_comm_op *o, struct zr_error *err);
/* An update that is owed is done, and late writes end: weights and states are those of the last
 * step. Collective. */
int zr_settle(struct zr_session *s, struct zr_error *err);
/* late writes end */
int zr_writes_settle(struct zr_session *s, struct zr_error *err);

#endif
