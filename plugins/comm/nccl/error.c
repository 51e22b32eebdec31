/* SPDX-License-Identifier: Apache-2.0
 *
 * error.c - reports failures of CUDA and NCCL with their own texts, and ends all operations after
 * one.
 */
#define _GNU_SOURCE
#include "nccl.h"

#include <stdarg.h>
#include <stdio.h>
#include <time.h>

double nn_now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void nn_op_text(const struct nn_pend *p, char *out, size_t room)
{
	char op[160];
	comm_op_text(&p->own, p->group, op, sizeof op);
	snprintf(out, room, "%s of %llu bytes", op, (unsigned long long)p->bytes);
}

int nn_stopped(struct zr_inst *c)
{
	return zr_fail(c->h, c->code, "%s", c->why);
}

/* making: what comm is to be. */
static void abort_comm(struct zr_inst *c, ncclComm_t comm, ncclComm_t making)
{
	if (!comm)
		comm = making;
	if (!comm)
		return;

	ncclResult_t e = ncclCommAbort(comm);
	if (e != ncclSuccess && e != ncclInProgress)
		zr_log(c->h, ZR_LOG_WARN, "rank %d, GPU %d, ncclCommAbort: %s", c->rank, c->gpu,
		       ncclGetErrorString(e));
}

/* What is on the streams ends, its results are lost. */
void nn_abort_comms(struct zr_inst *c)
{
	for (int k = 0; k < NN_GROUPS; k++) {
		struct nn_group *g = &c->group[k];
		const int shared = k != ZR_GROUP_WORLD && g->comm == c->group[ZR_GROUP_WORLD].comm;
		if (shared)
			continue;

		if (g->talk)
			abort_comm(c, g->talk->comm, g->talk->making);
		abort_comm(c, g->comm, g->making);
	}
}

int nn_stop(struct zr_inst *c, int code, const char *fmt, ...)
{
	va_list ap;
	if (c->broken)
		return nn_stopped(c);

	va_start(ap, fmt);
	vsnprintf(c->why, sizeof c->why, fmt, ap);
	va_end(ap);
	c->broken = 1;
	c->code = code;
	nn_abort_comms(c);
	return nn_stopped(c);
}

/* " in OPERATION", of the one that is being posted. */
static const char *in_op(const struct zr_inst *c, char *out, size_t room)
{
	char text[200];
	*out = 0;
	if (!c->posting)
		return out;
	nn_op_text(c->posting, text, sizeof text);
	snprintf(out, room, " in %s", text);
	return out;
}

int nn_cuda(struct zr_inst *c, cudaError_t e, const char *call)
{
	const char *hint = "; found there, it may come from any operation of this GPU: run with "
			   "CUDA_LAUNCH_BLOCKING=1 to find which";
	char op[224];
	int code = ZR_EIO;
	if (e == cudaSuccess)
		return ZR_OK;

	if (e == cudaErrorMemoryAllocation)
		code = ZR_ENOMEM;
	if (e == cudaErrorMemoryAllocation || c->watched == 0)
		hint = "";
	return nn_stop(c, code, "rank %d, GPU %d, %s%s: %s (%s)%s", c->rank, c->gpu, call,
		       in_op(c, op, sizeof op), cudaGetErrorString(e), cudaGetErrorName(e), hint);
}

/* Nothing is left to fail: a warning. */
void nn_gave_back(struct zr_inst *c, cudaError_t e, const char *call)
{
	if (e != cudaSuccess && e != cudaErrorCudartUnloading && !c->broken)
		zr_log(c->h, ZR_LOG_WARN, "rank %d, GPU %d, %s: %s (%s)", c->rank, c->gpu, call,
		       cudaGetErrorString(e), cudaGetErrorName(e));
}

int nn_nccl(struct zr_inst *c, ncclComm_t comm, ncclResult_t e, const char *call)
{
	char op[224];
	if (e == ncclSuccess || e == ncclInProgress)
		return ZR_OK;
	return nn_stop(c, e == ncclRemoteError ? ZR_EPEER : ZR_EIO, "rank %d, GPU %d, %s%s: %s; %s",
		       c->rank, c->gpu, call, in_op(c, op, sizeof op), ncclGetErrorString(e),
		       ncclGetLastError(comm));
}
