/* SPDX-License-Identifier: Apache-2.0
 *
 * talk.c - what moves the host memory of a group: a communicator of few GPU processors, a stream,
 * and memory on either side through which the bytes go.
 */
#define _GNU_SOURCE
#include "nccl.h"

#include <stdlib.h>

#define HALF (1u << 20) /* bytes that a rank sends or receives at a time, but room for messages */

uint64_t nn_talk_bytes(int32_t ranks)
{
	const uint64_t messages = (uint64_t)ranks * NN_MESSAGE;
	return 2 * (messages > HALF ? messages : HALF);
}

static int take_memory(struct zr_inst *c, struct nn_talk *t, int32_t ranks)
{
	t->half = nn_talk_bytes(ranks) / 2;
	t->source = calloc((size_t)ranks, sizeof *t->source);
	if (!t->source)
		return zr_fail(c->h, ZR_ENOMEM, "no memory for a group of %d ranks", ranks);

	int rc = nn_cuda(c, cudaMalloc((void **)&t->device, 2 * t->half),
			 "device memory for messages");
	if (rc)
		return rc;
	return nn_cuda(c, cudaHostAlloc((void **)&t->pinned, 2 * t->half, cudaHostAllocDefault),
		       "pinned memory for messages");
}

/* Before other streams: what it moves is little, and the host waits for it. */
static int make_stream(struct zr_inst *c, struct nn_talk *t)
{
	int least, first;
	int rc = nn_cuda(c, cudaDeviceGetStreamPriorityRange(&least, &first),
			 "cudaDeviceGetStreamPriorityRange");
	if (!rc)
		rc = nn_cuda(c,
			     cudaStreamCreateWithPriority(&t->stream, cudaStreamNonBlocking, first),
			     "cudaStreamCreate");
	if (rc)
		return rc;
	return nn_cuda(c, cudaEventCreateWithFlags(&t->here, cudaEventDisableTiming),
		       "cudaEventCreate");
}

int nn_talk_open(struct zr_inst *c, struct nn_group *g)
{
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
	struct nn_talk *t = g->talk = calloc(1, sizeof *t);
	if (!t)
		return zr_fail(c->h, ZR_ENOMEM, "no memory");

	int rc = take_memory(c, t, g->size);
	if (!rc)
		rc = make_stream(c, t);
	if (rc)
		return rc;

	config.blocking = 0;
	config.minCTAs = config.maxCTAs = 1;
	ncclResult_t e = ncclCommSplit(g->comm, 0, g->rank, &t->making, &config);
	rc = nn_finish(c, g->comm, e, "ncclCommSplit");
	if (!rc)
		t->comm = t->making;
	return rc;
}

/* The communicator has ended. */
void nn_talk_close(struct zr_inst *c, struct nn_talk *t)
{
	if (t->here)
		nn_gave_back(c, cudaEventDestroy(t->here), "cudaEventDestroy");
	if (t->stream)
		nn_gave_back(c, cudaStreamDestroy(t->stream), "cudaStreamDestroy");
	if (t->pinned)
		nn_gave_back(c, cudaFreeHost(t->pinned), "cudaFreeHost");
	if (t->device)
		nn_gave_back(c, cudaFree(t->device), "cudaFree");
	free(t->source);
	free(t);
}

int nn_talk_begin(struct zr_inst *c, const struct nn_talk *t, uint64_t sent)
{
	if (!sent)
		return ZR_OK;
	return nn_cuda(
		c, cudaMemcpyAsync(t->device, t->pinned, sent, cudaMemcpyHostToDevice, t->stream),
		"cudaMemcpyAsync");
}

int nn_talk_end(struct zr_inst *c, const struct nn_talk *t, uint64_t received)
{
	int rc = ZR_OK;
	if (received)
		rc = nn_cuda(c,
			     cudaMemcpyAsync(t->pinned + t->half, t->device + t->half, received,
					     cudaMemcpyDeviceToHost, t->stream),
			     "cudaMemcpyAsync");
	if (rc)
		return rc;
	return nn_cuda(c, cudaEventRecord(t->here, t->stream), "cudaEventRecord");
}

/* 1: here; 0: not yet. */
int nn_talk_is_here(struct zr_inst *c, const struct nn_talk *t)
{
	cudaError_t e = cudaEventQuery(t->here);
	if (c->broken)
		return nn_stopped(c);
	if (e == cudaErrorNotReady)
		return 0;
	if (e == cudaSuccess)
		return 1;
	return nn_cuda(c, e, "cudaEventQuery");
}
