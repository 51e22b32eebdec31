/* SPDX-License-Identifier: Apache-2.0
 *
 * time.c - when the GPU passes points of its streams: events that keep the time.
 */
#include "cuda.h"

int cuda_time_open(struct zr_inst *d, uint32_t n)
{
	int rc = cuda_result(d, cudaSetDevice(d->device), "choosing the GPU");
	if (rc)
		return rc;

	d->timed = d->h->alloc(d->h, (uint64_t)n * sizeof *d->timed, "workspace");
	if (!d->timed)
		return zr_fail(d->h, ZR_ENOMEM, "no memory for %u marks", n);

	while (!rc && d->n_timed < n) {
		rc = cuda_result(d, cudaEventCreate(&d->timed[d->n_timed]), "making an event");
		d->n_timed += !rc;
	}
	return rc;
}

void cuda_time_end(struct zr_inst *d)
{
	for (uint32_t i = 0; i < d->n_timed; i++)
		cuda_gave_back(d, cudaEventDestroy(d->timed[i]), "destroying an event");
	d->h->release(d->h, d->timed);
}

static int check_mark(const struct zr_inst *d, uint32_t mark)
{
	if (mark < d->n_timed)
		return ZR_OK;
	return zr_fail(d->h, ZR_EINVAL, "mark %u: there are %u", mark, d->n_timed);
}

static int pass(struct zr_inst *d, cudaStream_t s, uint32_t mark)
{
	return cuda_result(d, cudaEventRecord(d->timed[mark], s), "marking a time");
}

int cuda_time_mark(struct zr_inst *d, struct zr_stream *s, uint32_t mark)
{
	int rc = check_mark(d, mark);
	if (!rc)
		rc = cuda_result(d, cudaSetDevice(d->device), "choosing the GPU");
	if (rc)
		return rc;
	return pass(d, cuda_stream(d, s), mark);
}

int cuda_time_copies(struct zr_inst *d, uint32_t begin, uint32_t end)
{
	int rc = 0;
	if (begin != ZR_TIME_NONE)
		rc = check_mark(d, begin);
	if (!rc && end != ZR_TIME_NONE)
		rc = check_mark(d, end);
	if (rc)
		return rc;

	d->copy_begins = begin;
	d->copy_ends = end;
	return ZR_OK;
}

int cuda_time_copy_begins(struct zr_inst *d, cudaStream_t s)
{
	const uint32_t mark = d->copy_begins;
	if (mark == ZR_TIME_NONE)
		return ZR_OK;

	d->copy_begins = ZR_TIME_NONE; /* the first of them has it */
	return pass(d, s, mark);
}

int cuda_time_copy_ends(struct zr_inst *d, cudaStream_t s)
{
	return d->copy_ends == ZR_TIME_NONE ? ZR_OK : pass(d, s, d->copy_ends);
}

/* A difference is less than 2^24 of CUDA's units for steps of some seconds, so that nothing of it
 * is lost in a float. */
int cuda_time_between(struct zr_inst *d, uint32_t from, uint32_t to, int64_t *ns)
{
	float ms = 0;
	int rc = check_mark(d, from);
	if (!rc)
		rc = check_mark(d, to);
	if (rc)
		return rc;

	cudaError_t e = cudaEventElapsedTime(&ms, d->timed[from], d->timed[to]);
	if (e == cudaErrorNotReady) {
		cudaGetLastError(); /* so that no kernel's launch seems to have failed with it */
		return ZR_EAGAIN;
	}

	*ns = (int64_t)((double)ms * 1e6);
	return cuda_result(d, e, "reading a time");
}
