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
	snprintf(out, room, "%s of %llu bytes over the %s (step %lld, op %d, unit %d)",
		 comm_kind_name(p->kind), (unsigned long long)p->bytes,
		 p->group == ZR_GROUP_NODE ? "node" : "world", (long long)p->tag.step, p->tag.op,
		 p->tag.unit);
}

int nn_stopped(struct zr_inst *c)
{
	return zr_fail(c->h, c->code, "%s", c->why);
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
	for (int g = 0; g < NN_GROUPS; g++) { /* what is on the stream ends, its results are lost */
		ncclComm_t comm = c->group[g].comm;
		if (!comm || (g != ZR_GROUP_WORLD && comm == c->group[ZR_GROUP_WORLD].comm))
			continue;

		ncclResult_t e = ncclCommAbort(comm);
		if (e != ncclSuccess && e != ncclInProgress)
			zr_log(c->h, ZR_LOG_WARN, "rank %d, GPU %d, ncclCommAbort: %s", c->rank,
			       c->gpu, ncclGetErrorString(e));
	}
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

void nn_nap(struct zr_inst *c, long nanoseconds)
{
	const struct timespec nap = { 0, nanoseconds };
	pthread_mutex_unlock(&c->lock);
	nanosleep(&nap, NULL);
	pthread_mutex_lock(&c->lock);
}

/* The communicator says whether a call is under way, not what the call returned: ncclCommSplit
 * returns success at once. */
int nn_finish(struct zr_inst *c, ncclComm_t comm, ncclResult_t e, const char *call)
{
	double since = nn_now();
	if (e == ncclSuccess)
		e = ncclInProgress;
	while (e == ncclInProgress && !c->broken) {
		ncclResult_t asked = ncclCommGetAsyncError(comm, &e);
		if (asked != ncclSuccess)
			e = asked;
		if (e == ncclInProgress && nn_now() - since > c->o->timeout)
			return nn_stop(c, ZR_EPEER,
				       "rank %d, GPU %d, %s: other ranks did not come in %g s",
				       c->rank, c->gpu, call, c->o->timeout);
		if (e == ncclInProgress)
			nn_nap(c, 100000);
	}
	if (c->broken)
		return nn_stopped(c);
	return nn_nccl(c, comm, e, call);
}
