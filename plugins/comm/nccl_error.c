/* SPDX-License-Identifier: Apache-2.0
 *
 * nccl_error.c - failures of CUDA and NCCL, with their own words, and the end that they bring.
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
	static const char *const names[] = { "nothing", "all_gather", "reduce_scatter", "all_reduce", "broadcast", "all_to_all", "barrier",
					     "fence" };
	snprintf(out, room, "%s of %llu bytes over the %s (step %lld, op %d, unit %d)",
		 p->kind > 0 && p->kind <= ZR_COMM_FENCE ? names[p->kind] : names[0], (unsigned long long)p->bytes,
		 p->group == ZR_GROUP_NODE ? "node" : "world", (long long)p->tag.step, p->tag.op, p->tag.unit);
}

int nn_stopped(struct zr_inst *c)
{
	return zr_fail(c->h, ZR_EPEER, "%s", c->why);
}

int nn_stop(struct zr_inst *c, const char *fmt, ...)
{
	va_list ap;
	if (c->broken)
		return nn_stopped(c);
	va_start(ap, fmt);
	vsnprintf(c->why, sizeof c->why, fmt, ap);
	va_end(ap);
	c->broken = 1;
	for (int g = 0; g < NN_GROUPS; g++)
		if (c->group[g].comm)
			ncclCommAbort(c->group[g].comm); /* what is on the stream ends, its results are lost */
	return nn_stopped(c);
}

int nn_cuda(struct zr_inst *c, cudaError_t e, const char *call)
{
	if (e == cudaSuccess)
		return ZR_OK;
	return nn_stop(c, "rank %d, GPU %d: %s: %s (%s)", c->rank, c->gpu, call, cudaGetErrorString(e), cudaGetErrorName(e));
}

int nn_nccl(struct zr_inst *c, ncclComm_t comm, ncclResult_t e, const char *call)
{
	if (e == ncclSuccess || e == ncclInProgress)
		return ZR_OK;
	return nn_stop(c, "rank %d, GPU %d: %s: %s; %s", c->rank, c->gpu, call, ncclGetErrorString(e), ncclGetLastError(comm));
}

int nn_finish(struct zr_inst *c, ncclComm_t comm, ncclResult_t e, const char *call)
{
	const struct timespec nap = { 0, 100000 };
	double since = nn_now();
	while (e == ncclInProgress) {
		ncclResult_t asked = ncclCommGetAsyncError(comm, &e);
		if (asked != ncclSuccess)
			e = asked;
		if (e == ncclInProgress && nn_now() - since > c->o->timeout)
			return nn_stop(c, "rank %d, GPU %d: %s: other ranks did not come in %g s", c->rank, c->gpu, call, c->o->timeout);
		if (e == ncclInProgress)
			nanosleep(&nap, NULL);
	}
	return nn_nccl(c, comm, e, call);
}
