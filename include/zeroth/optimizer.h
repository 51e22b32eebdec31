/* SPDX-License-Identifier: Apache-2.0
 *
 * zeroth/optimizer.h - STABLE. Role "optimizer", interface "zr.optimizer/1".
 *
 * An optimizer is arithmetic on pieces of memory. It declares the state it needs per element; the
 * host places, shards, offloads, saves and restores that state. So an optimizer works under every
 * ZeRO stage, offload tier and resume without knowing of any.
 *
 * Order: create -> states -> { step ... } -> destroy. Between two updates every element of every
 * trainable tensor is passed to step() exactly once, in pieces of any size and any order; with
 * partial(), to that first. With ZR_OPT_WHOLE every parameter is passed to step_whole() instead.
 */
#ifndef ZEROTH_OPTIMIZER_H
#define ZEROTH_OPTIMIZER_H

#include <zeroth/plugin.h>

#ifdef __cplusplus
extern "C" {
#endif

struct zr_ops;     /* zeroth/device.h, draft: operations of the device that owns the memory */
struct zr_stream;  /* zeroth/device.h */
struct zr_scalars; /* zeroth/device.h: the scalars below in the memory kind of the buffers */

/* Memory lent for the length of one call. FROZEN. */
struct zr_buf {
	void *data;     /* NULL: absent */
	uint64_t count; /* elements */
	int32_t dtype;  /* ZR_F32, ... */
	uint32_t mem;   /* ZR_MEM_* */
};

/* caps, bits */
#define ZR_OPT_ELEMENTWISE 1u /* any split of the data gives the same bits */
#define ZR_OPT_WHOLE 2u       /* wants whole matrices through step_whole */

/* One state tensor, declared per element of the parameters. GROWABLE by stride: read with care;
 * the host uses sizeof() of the minor it was built with only up to state_stride. */
struct zr_state {
	const char *name;         /* "exp_avg": part of the checkpoint format; static; [A-Za-z0-9_.-]{1,128}, no two alike, not "master" */
	int32_t dtype;            /* of each element: ZR_F32, ZR_BF16 or ZR_F16; 0 if bytes_per_block is given */
	uint32_t bytes_per_block; /* instead of dtype: bytes per ZR_BLOCK elements (8-bit moments) */
	double init;              /* first value of every element */
};

/* A stretch of one parameter inside a piece. Starts on a block of ZR_BLOCK elements. FROZEN. */
struct zr_seg {
	int64_t off;       /* first element in the piece's buffers */
	int64_t n;         /* elements; what follows up to the next block is padding, never touch it */
	int64_t param_off; /* first element within the parameter */
	int32_t param;     /* number of the parameter in canonical order */
	int32_t ndim;
	const int64_t *dims; /* shape of the whole parameter; owned by the host, lives as it */
	const char *name;    /* canonical name, "h.0.attn.c_attn.weight"; likewise */
};

/* One piece to update. GROWABLE. Every pointer is borrowed for the call. */
struct zr_opt_step {
	uint32_t size;
	uint32_t n_state;
	int64_t step;        /* 1-based count of applied updates, this one included */
	double lr;           /* learning rate of this piece's group, schedule applied */
	double grad_mult;    /* gradient of element i = grad[i] * (float)grad_mult (mean, unscale, clip) */
	const void *opts;    /* options of this piece's group */
	struct zr_buf master; /* in/out, ZR_F32 */
	struct zr_buf grad;   /* in, read-only, ZR_F32 */
	struct zr_buf lowp;   /* out: master rounded to its dtype as devices do (zeroth/device.h), or data == NULL */
	const struct zr_buf *state; /* n_state of them, in the order of states() */
	const struct zr_seg *seg;
	uint64_t n_seg;
	/* [n_seg][n_partial] summed over the whole parameter, where the operations of `ops` read; NULL without partial() */
	const double *partials;
	uint64_t seed;          /* same on every layout: mix with param and element index */
	const struct zr_ops *ops;         /* operations of the memory's device; draft */
	struct zr_stream *stream;         /* to enqueue them on */
	const struct zr_scalars *scalars; /* step, grad_mult and lr where the device can read them */
	/* since minor 1 */
	void *work; /* for step_whole(): whole_work() bytes of the master's kind, 64-byte aligned, values left over */
	uint64_t work_bytes;
};

/* GROWABLE. */
struct zr_optimizer_v1 {
	uint32_t size;
	uint32_t caps;          /* ZR_OPT_* */
	uint32_t mem_ok;        /* kinds of memory step() accepts: ZR_MEM_* bits */
	uint32_t state_version; /* of the meaning of the state; part of the checkpoint format */
	uint32_t n_partial;     /* doubles per parameter from partial(); 0 without */
	uint32_t state_stride;  /* sizeof(struct zr_state) */

	/* [main] The state tensors; static for the life of the instance. *n may be 0. */
	const struct zr_state *(*states)(struct zr_inst *, uint32_t *n);
	/* [step] Updates a piece. Returns ZR_OK or fails with a text. May use host->parallel. */
	int (*step)(struct zr_inst *, const struct zr_opt_step *);
	/* (optional) [step] Sums over whole parameters: of each segment, which lies in one block here, its own share into
	 * out[n_seg][n_partial], zero before, where the operations of `ops` write. The host adds them over blocks and ranks,
	 * in any order with one result, then calls step() with the totals. Changes neither state nor master. */
	int (*partial)(struct zr_inst *, const struct zr_opt_step *, double *out);
	/* (optional) [step] With ZR_OPT_WHOLE: one segment that is a whole parameter, without gaps. */
	int (*step_whole)(struct zr_inst *, const struct zr_opt_step *);
	/* (optional) [main] Converts state written by version `from`; absent: old state is refused. */
	int (*upgrade)(struct zr_inst *, uint32_t from, const struct zr_buf *old, uint32_t n_old, const struct zr_buf *now);

	/* since minor 1 */
	/* (optional) [main] Bytes of memory that step_whole() needs for a parameter of this shape (absent: 0), or
	 * ZR_WORK_REFUSED: it takes none of this shape. */
	uint64_t (*whole_work)(struct zr_inst *, const int64_t *dims, int32_t ndim);
};
#define ZR_WORK_REFUSED UINT64_MAX

#ifdef __cplusplus
}
#endif
#endif
