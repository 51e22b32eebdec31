/* SPDX-License-Identifier: Apache-2.0
 *
 * nccl.h - private to the plugin comm/nccl: collectives between GPUs, on a stream of its own.
 *
 * An operation waits, on the GPU, for what the compute stream had been given before it was posted;
 * wait() lets the compute stream wait for it: the host blocks in neither. Tags cannot be compared
 * by NCCL: the comm beside it ([comm.host]) meets at every boundary and does. A thread watches what
 * is outstanding and ends it when it fails or takes too long (I5).
 *
 * Sums of fp32 are exchanges of pieces and additions in rank order (invariant I1), through a
 * scratch that does not grow with them. NCCL itself adds integers and, where the option sums says
 * so, reduce_scatters.
 */
#ifndef ZR_COMM_NCCL_H
#define ZR_COMM_NCCL_H

#include <cuda_runtime_api.h>
#include <nccl.h>
#include <pthread.h>
#include <stdatomic.h>

#include <zeroth/boot.h>
#include <zeroth/comm.h>
#include <zeroth/device.h>
#include <zeroth/zero.h>

#include "plugins/comm/names.h"

#define NN_WINDOW  64 /* operations posted and not over, at most */
#define NN_GROUPS  3  /* by ZR_GROUP_* */
#define NN_SCRATCH (32u << 20)

enum { NN_SUMS_ORDERED, NN_SUMS_NCCL };

struct nccl_opts {
	double timeout;
	int32_t sums; /* NN_SUMS_* */
};

struct nn_group {
	int32_t first, size, rank;
	ncclComm_t comm; /* NULL: a group of one */
};

/* An operation. */
struct nn_pend {
	int used, waited; /* free again when it was waited for and is over */
	cudaEvent_t over;
	double since; /* when it was posted, seconds */
	int32_t kind, group;
	struct zr_comm_tag tag;
	uint64_t bytes;
};

struct zr_inst {
	const struct zr_host *h;
	const struct nccl_opts *o;
	int32_t rank, world;
	struct nn_group group[NN_GROUPS];
	const struct zr_boot_v1 *boot;
	struct zr_inst *boot_inst;
	const struct zr_device_v1 *dev;
	struct zr_inst *dev_inst;
	int gpu;
	cudaStream_t compute, stream; /* the device's; owned */
	cudaEvent_t ready;            /* of the compute stream, when an operation is posted */
	void *scratch;                /* owned, NN_SCRATCH bytes of device memory for sums */
	struct nn_pend pend[NN_WINDOW];
	const struct nn_pend *posting; /* NULL: none */
	_Atomic uint64_t moved;        /* bytes that came from other ranks */

	pthread_mutex_t lock; /* of all calls of NCCL, and of what follows */
	pthread_t watch;
	int watched, leaving;
	/* communicators are aborted, for the reason in why; what calls fail with then */
	int broken, code;
	char why[512];
};

/* error.c: the code of a failure with the library's own words, or ZR_OK. With the lock. */
int nn_cuda(struct zr_inst *c, cudaError_t e, const char *call);
void nn_gave_back(struct zr_inst *c, cudaError_t e, const char *call);
int nn_nccl(struct zr_inst *c, ncclComm_t comm, ncclResult_t e, const char *call);
/* waits until a call has begun its work */
int nn_finish(struct zr_inst *c, ncclComm_t comm, ncclResult_t e, const char *call);
/* without the lock: the watching thread must be able to end what is waited for */
void nn_nap(struct zr_inst *c, long nanoseconds);
/* ends all; returns code */
int nn_stop(struct zr_inst *c, int code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
int nn_stopped(struct zr_inst *c); /* fails with the reason */
void nn_op_text(const struct nn_pend *p, char *out, size_t room);
double nn_now(void);

/* post.c */
int nn_post(struct zr_inst *c, const struct zr_comm_op *op, zr_ticket *out);
int nn_wait(struct zr_inst *c, zr_ticket ticket);
int nn_test(struct zr_inst *c, zr_ticket ticket);

/* watch.c */
int nn_watch_start(struct zr_inst *c);
void nn_watch_end(struct zr_inst *c);

#endif
