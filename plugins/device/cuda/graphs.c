/* SPDX-License-Identifier: Apache-2.0
 *
 * graphs.c - CUDA graphs of operations. What is captured is enqueued as ever: kernels, copies and
 * clears within the device, products of cuBLASLt, whose workspace is the instance's and stays where
 * it is. Nothing of it allocates, waits or asks for an event. Core captures what has run before, so
 * that no kernel is loaded and no algorithm chosen meanwhile.
 */
#include "cuda.h"

int cuda_graph_begin(struct zr_inst *d)
{
	int rc = cuda_result(d, cudaSetDevice(d->device), "choosing the GPU");
	if (rc)
		return rc;
	/* of this thread alone: others may allocate */
	return cuda_result(d, cudaStreamBeginCapture(d->stream, cudaStreamCaptureModeThreadLocal),
			   "beginning a graph");
}

/* *ready: NULL, or an executable graph that gets the values of the captured one, where the driver
 * can do that. */
static int make_ready(struct zr_inst *d, cudaGraph_t captured, cudaGraphExec_t *ready)
{
	cudaGraphExecUpdateResultInfo unused;

	if (*ready) {
		cudaError_t e = cudaGraphExecUpdate(*ready, captured, &unused);
		if (e != cudaErrorGraphExecUpdateFailure)
			return cuda_result(d, e, "changing a graph");

		cudaGetLastError(); /* so that no kernel's launch seems to have failed with it */
		cuda_gave_back(d, cudaGraphExecDestroy(*ready), "destroying a graph");
		*ready = NULL;
	}
	return cuda_result(d, cudaGraphInstantiate(ready, captured, 0), "making a graph ready");
}

int cuda_graph_end(struct zr_inst *d, struct zr_graph **graph)
{
	cudaGraph_t captured = NULL;
	cudaGraphExec_t ready = (cudaGraphExec_t)*graph;

	int rc = cuda_result(d, cudaStreamEndCapture(d->stream, &captured), "ending a graph");
	if (!rc)
		rc = make_ready(d, captured, &ready);
	if (captured)
		cuda_gave_back(d, cudaGraphDestroy(captured), "destroying a captured graph");
	if (rc) {
		cudaGetLastError();
		if (ready)
			cuda_gave_back(d, cudaGraphExecDestroy(ready), "destroying a graph");
		ready = NULL;
	}

	*graph = (struct zr_graph *)ready;
	return rc;
}

int cuda_graph_launch(struct zr_inst *d, struct zr_graph *graph)
{
	int rc = cuda_result(d, cudaSetDevice(d->device), "choosing the GPU");
	if (rc)
		return rc;

	d->last = "a graph";
	return cuda_result(d, cudaGraphLaunch((cudaGraphExec_t)graph, d->stream),
			   "launching a graph");
}

void cuda_graph_free(struct zr_inst *d, struct zr_graph *graph)
{
	cuda_gave_back(d, cudaGraphExecDestroy((cudaGraphExec_t)graph), "destroying a graph");
}
