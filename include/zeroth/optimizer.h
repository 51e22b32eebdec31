/* SPDX-License-Identifier: Apache-2.0
 *
 * zeroth/optimizer.h - STABLE. Role "optimizer", interface "zr.optimizer/1".
 *
 * An optimizer computes on sub-groups: ranges of parameters with their gradients and state. It
 * declares the state that it needs per element; the host places, shards, offloads, saves and
 * restores that state. So an optimizer works with every ZeRO stage, offload tier and resume, and
 * knows nothing about them. Its option table has `lr`, of type ZR_T_F64, with ZR_O_SCHED: that is
 * what a scheduler drives; step() gets it as zr_opt_step.lr.
 *
 * Order of calls: create -> states -> { partial ... -> advance -> step ... } -> destroy. In each
 * update the host passes every element of every trainable tensor to step() exactly once, in
 * sub-groups of any size and in any order. An optimizer with partial() gets all of them there
 * first. One with advance() is then asked once for its scalars of the run, such as an estimate of
 * the step size that sums over all parameters give. With ZR_OPT_WHOLE the host passes every
 * parameter to step_whole() instead.
 */
#ifndef ZEROTH_OPTIMIZER_H
#define ZEROTH_OPTIMIZER_H

#include <zeroth/plugin.h>

#ifdef __cplusplus
extern "C" {
#endif

struct zr_ops;         /* zeroth/device.h, draft: operations of the device that owns the memory */
struct zr_stream;      /* zeroth/device.h, draft */
struct zr_scalars;     /* zeroth/parameters.h, draft: scalars in the memory kind of the buffers */
struct zr_elementwise; /* zeroth/elementwise.h */
struct zr_matrices;    /* zeroth/matrices.h */

/* Memory that is lent for one call. FROZEN. */
struct zr_buf {
	void *data;     /* NULL: absent */
	uint64_t count; /* elements */
	int32_t dtype;  /* ZR_F32, ... */
	uint32_t mem;   /* ZR_MEM_* */
};

/* caps, bits; a host refuses others. 0: step() is called as with ZR_OPT_ELEMENTWISE, but results
 * may depend on how ranks and sub-groups cut the parameters, and a run says so. */
#define ZR_OPT_ELEMENTWISE 1u /* any split of the data gives the same result, bit for bit */
#define ZR_OPT_WHOLE       2u /* needs whole parameters, in step_whole */

/* One state tensor, declared per element of the parameters. GROWABLE by stride: the host reads no
 * member beyond state_stride. */
struct zr_state {
	/* "exp_avg": part of the checkpoint format; static; matches [A-Za-z0-9_.-]{1,128}; unique
	 * and not "master" */
	const char *name;
	/* of each element: ZR_F32, ZR_BF16 or ZR_F16; 0 if bytes_per_block is given, or
	 * block_bytes() says it (since minor 5) */
	int32_t dtype;
	/* instead of dtype: the plugin's own form, of so many bytes (at most 1 MiB) for the
	 * ZR_BLOCK elements of a block, the padding of a tensor's last block included; with
	 * step_whole() a multiple of 64. In a
	 * sub-group the block that has element i starts at i / ZR_BLOCK * bytes_per_block of the
	 * state's data, whose zr_buf has dtype 0 and counts elements. It begins as zeros. */
	uint32_t bytes_per_block;
	double init; /* first value of every element; 0 where dtype is not ZR_F32 */
};

/* What state_flags() says of a state; both are for states of ZR_F32. */
#define ZR_STATE_FROM_PARAM 1u /* each element begins as that of the parameter; init is 0 */
/* It holds the weights that evaluations, samples and exports use instead of the parameters, with
 * [train] eval_weights: an average of them, for example. At most one state has it. While they are
 * used the host exchanges both and calls nothing of the plugin. */
#define ZR_STATE_FOR_EVAL 2u

/* The part of one parameter that is in a sub-group. It starts on a block of ZR_BLOCK elements.
 * GROWABLE by zr_opt_step.seg_stride. */
struct zr_seg {
	int64_t off;       /* first element in the buffers of the sub-group */
	int64_t n;         /* elements; padding follows up to the next block: never touch it */
	int64_t param_off; /* first element within the parameter */
	int32_t param;     /* number of the parameter in canonical order */
	int32_t ndim;
	/* shape of the whole parameter; owned by the host and valid as long as it */
	const int64_t *dims;
	const char *name; /* canonical name, "h.0.attn.c_attn.weight"; likewise */
};

/* What a kernel of the plugin's own needs to run where the buffers are. GROWABLE. */
#define ZR_NATIVE_HOST 0 /* host memory; no stream */
#define ZR_NATIVE_CUDA 1 /* stream is a cudaStream_t */
#define ZR_NATIVE_HIP  2 /* stream is a hipStream_t */
struct zr_native {
	uint32_t size;
	uint32_t api;   /* ZR_NATIVE_* */
	int32_t device; /* its number in that API; the host has made it the current one */
	int32_t rsv;
	/* work in it comes after that which filled the buffers; do not wait for it */
	void *stream;
};

/* One sub-group to update. GROWABLE. Every pointer is borrowed for the call. */
struct zr_opt_step {
	uint32_t size;
	uint32_t n_state;
	int64_t step; /* 1-based count of applied updates, this one included */
	double lr;    /* learning rate of its parameter group, schedule applied */
	/* gradient of element i = grad[i] * (float)grad_mult (mean, unscale, clip) */
	double grad_mult;
	const void *opts;     /* options of its parameter group */
	struct zr_buf master; /* in/out, ZR_F32 */
	struct zr_buf grad;   /* in, read-only, ZR_F32 */
	/* out: the master rounded to ZR_BF16 (half away from zero: bits + 0x8000, cut; a NaN is
	 * made quiet and cut) or ZR_F16 (to the nearest, ties to even; what is too large becomes
	 * infinite), or copied as ZR_F32; data == NULL: not wanted */
	struct zr_buf lowp;
	const struct zr_buf *state; /* n_state of them, in the order of states() */
	const struct zr_seg *seg;
	uint64_t n_seg;
	/* [n_seg][n_partial] totals over the whole parameter, in memory that the operations of
	 * `ops` read; NULL without partial() */
	const double *partials;
	/* the same however parameters are split: mix it with param and element index */
	uint64_t seed;
	/* Draft, all three; NULL for a plugin that was not built with the host's draft headers:
	 * operations of the memory's device, the stream to enqueue them on, and step, grad_mult and
	 * lr where the device can read them. */
	const struct zr_ops *ops;
	struct zr_stream *stream;
	const struct zr_scalars *scalars;
	/* since minor 1 */
	/* for step_whole(): whole_work() bytes in the master's kind of memory, 64-byte aligned and
	 * not initialised */
	void *work;
	uint64_t work_bytes;
	/* since minor 4 */
	const struct zr_native *native; /* NULL: the device does not tell */
	/* [step] Updates all segments by the function of one element that `e` has, or sums over
	 * them, wherever the buffers are: see zeroth/elementwise.h. Returns ZR_OK or a code with a
	 * text. NULL: the device cannot. */
	int (*elementwise)(const struct zr_opt_step *s, const struct zr_elementwise *e);
	/* bytes from one segment to the next one, at least sizeof(struct zr_seg) of the minor that
	 * the plugin was built with: ZR_SEG(s, i) */
	uint32_t seg_stride;
	/* With split_masters, and masters that are kept as a bf16 copy and what it lacks of them:
	 * master.data is NULL, lowp is in/out, ZR_BF16, and rem, in/out, has rem_bits of each
	 * element, 16 in a uint16_t or 8 in a uint8_t, in the same kind of memory. struct
	 * zr_op_master of zeroth/parameters.h says how they are joined and split. Else NULL, 0. */
	uint32_t rem_bits;
	void *rem;
	/* since minor 5 */
	/* [n_run] Scalars of the run in host memory, NULL without: as advance() left them for this
	 * update, and as they were before. In partial() both are those before. */
	const double *run, *run_before;
	/* products and bases, for step_whole(): see zeroth/matrices.h. NULL: the device has none */
	const struct zr_matrices *matrices;
};

/* What advance() knows of an update. GROWABLE. Every pointer is borrowed for the call. */
struct zr_opt_update {
	uint32_t size;
	uint32_t n_group; /* parameter groups of this optimizer */
	int64_t step;     /* as that of zr_opt_step */
	int64_t elements; /* of all parameters that it updates */
	/* [n_group] in the order of the configuration, the learning rate and the options of each */
	const double *lr;
	const void *const *opts;
	/* [n_partial] What partial() gave, added over all its parameters: rounded once, and so the
	 * same however these are split. NULL without partial(). */
	const double *sums;
};

/* Segment i of a sub-group, whatever the host's struct zr_seg is. */
#define ZR_SEG(s, i)                                                                               \
	((const struct zr_seg *)((const char *)(s)->seg +                                          \
				 (i) * (ZR_HAS(s, struct zr_opt_step, seg_stride) ?                \
						(s)->seg_stride :                                  \
						sizeof(struct zr_seg))))

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
	/* [step] Updates a sub-group. Returns ZR_OK or fails with a text. May use
	 * host->parallel. */
	int (*step)(struct zr_inst *, const struct zr_opt_step *);
	/* (optional) [step] Sums over whole parameters. Each segment lies in one block here;
	 * partial() writes what it contributes into out[n_seg][n_partial], which is zero before and
	 * in memory that the operations of `ops` write. The host adds the contributions of all
	 * blocks and ranks, with a result that does not depend on the order, and then calls step()
	 * with the totals. partial() changes neither state nor master. */
	int (*partial)(struct zr_inst *, const struct zr_opt_step *, double *out);
	/* (optional) [step] With ZR_OPT_WHOLE: updates one segment, which is a whole parameter
	 * without gaps. A device with a memory of its own has it there, wherever the state is kept,
	 * if mem_ok has ZR_MEM_DEVICE. */
	int (*step_whole)(struct zr_inst *, const struct zr_opt_step *);
	/* (optional) [main] Converts what a checkpoint has of the states, written by version `from`
	 * or in other types, into those of states(). Host memory, whole blocks; one state per call:
	 * data of the others is NULL. old[n_old] and now[n_old] are the same states; those without
	 * a type (0) are of bytes_per_block. Without it the host refuses a checkpoint whose states
	 * are not those of states(). */
	int (*upgrade)(struct zr_inst *, uint32_t from, const struct zr_buf *old, uint32_t n_old,
		       const struct zr_buf *now);

	/* since minor 1 */
	/* (optional; absent: 0) [main] Bytes of work memory that step_whole() needs for a parameter
	 * of this shape, whatever its ndim. ZR_WORK_REFUSED: it cannot update a parameter of this
	 * shape, and a run that gives it one is refused. */
	uint64_t (*whole_work)(struct zr_inst *, const int64_t *dims, int32_t ndim);

	/* since minor 4 */
	/* 1: step() takes masters as they are kept, see rem of zr_opt_step. 0: the host makes them
	 * fp32 before step() and takes them apart after it. partial() gets them in fp32 always. */
	uint32_t split_masters, rsv;

	/* since minor 5 */
	/* (optional) [step] Once per update, before any step() of it and after all partial(): makes
	 * of run[n_run], the scalars of the update before, those of this one. They begin as 0, are
	 * finite, the same on all ranks, and kept in checkpoints. The call is repeated where a step
	 * did not count: what it makes follows from its arguments alone. */
	int (*advance)(struct zr_inst *, const struct zr_opt_update *, double *run);
	/* (optional; absent: 0) [main] ZR_STATE_* of state i, the same for the life of the
	 * instance. A host refuses what it does not know. */
	uint32_t (*state_flags)(struct zr_inst *, uint32_t i);
	/* [n_run] names of these scalars, as names of states: part of the checkpoint format */
	const char *const *run_names;
	uint32_t n_run, rsv2; /* 1 to ZR_OPT_RUN with advance(), 0 without */
	/* (optional) [main] With ZR_OPT_WHOLE: bytes per block of state i, which has neither a
	 * type nor bytes_per_block, of a parameter of this shape: a multiple of 64, at most 1 MiB.
	 * 0: it has none, and its zr_buf no data. The bytes of all its blocks, as many as
	 * (elements + ZR_BLOCK - 1) / ZR_BLOCK, lie one after the other in step_whole(), 64-byte
	 * aligned: so a state may be as large as the sides of a matrix make it. They follow from
	 * the shape and from options without ZR_O_GROUP, and are part of the checkpoint format. */
	uint32_t (*block_bytes)(struct zr_inst *, uint32_t i, const int64_t *dims, int32_t ndim);
};
#define ZR_OPT_RUN      64
#define ZR_WORK_REFUSED UINT64_MAX

#ifdef __cplusplus
}
#endif
#endif
