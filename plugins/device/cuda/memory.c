/* SPDX-License-Identifier: Apache-2.0
 *
 * memory.c - memory and copies. Every allocation has exactly the bytes that were asked for: host
 * memory is mapped and then pinned, where cudaMallocHost would round up to powers of two.
 */
#include "cuda.h"

#include "near.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

static int pin(struct zr_inst *d, void *p, uint64_t bytes)
{
	int rc = cuda_result(
		d, cudaHostRegister(p, bytes, cudaHostRegisterPortable | cudaHostRegisterMapped),
		"pinning host memory");
	if (rc != ZR_ENOMEM)
		return rc;
	return zr_fail(d->h, rc,
		       "rank %d, GPU %d: the system does not pin %llu bytes of host memory; free "
		       "some of it, or start fewer ranks here",
		       d->h->rank, d->device, (unsigned long long)bytes);
}

static int map_host(struct zr_inst *d, uint64_t bytes, uint32_t kind, void **out)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int rc;
	if (p == MAP_FAILED)
		return zr_fail(d->h, ZR_ENOMEM, "no memory for %llu bytes: %s",
			       (unsigned long long)bytes, strerror(errno));

	madvise(p, bytes, MADV_HUGEPAGE); /* an update sweeps over gigabytes */
	if (near_prefer(p, bytes, d->node) && !d->strayed++)
		zr_log(d->h, ZR_LOG_WARN,
		       "rank %d, GPU %d: host memory cannot be asked of NUMA node %d: %s",
		       d->h->rank, d->device, d->node, strerror(errno));
	if (kind == ZR_MEM_PINNED) {
		rc = pin(d, p, bytes);
		if (rc) {
			munmap(p, bytes);
			return rc;
		}
	}

	*out = p;
	return ZR_OK;
}

static int take_device(struct zr_inst *d, uint64_t bytes, void **out)
{
	void *p = NULL;
	int rc;
	if (bytes > d->memory - d->used)
		return zr_fail(
			d->h, ZR_EFIT,
			"%llu bytes of device memory do not fit: of %llu bytes beside scratch %llu "
			"are in use; keep less on the device",
			(unsigned long long)bytes, (unsigned long long)d->memory,
			(unsigned long long)d->used);

	rc = cuda_result(d, cudaMalloc(&p, bytes), "allocating device memory");
	if (!rc)
		rc = cuda_result(d, cudaMemsetAsync(p, 0, bytes, d->stream),
				 "clearing device memory");
	if (!rc)
		rc = cuda_sync(d, NULL);
	if (rc) {
		if (p)
			cuda_gave_back(d, cudaFree(p), "freeing device memory");
		return rc;
	}
	d->used += bytes;
	*out = p;
	return ZR_OK;
}

int cuda_mem_alloc(struct zr_inst *d, uint64_t bytes, uint32_t kind, void **out)
{
	int rc = cuda_result(d, cudaSetDevice(d->device), "choosing the GPU");
	if (rc)
		return rc;
	if (kind == ZR_MEM_DEVICE)
		return take_device(d, bytes, out);
	return map_host(d, bytes, kind, out);
}

/* Ends all that may still use memory that goes. */
static void let_go(struct zr_inst *d)
{
	cuda_gave_back(d, cudaSetDevice(d->device), "choosing the GPU");
	cuda_gave_back(d, cudaDeviceSynchronize(),
		       "waiting for all that may still use memory that is freed");
}

void cuda_mem_free(struct zr_inst *d, void *p, uint64_t bytes, uint32_t kind)
{
	if (!p)
		return;

	let_go(d);
	if (kind == ZR_MEM_DEVICE) {
		cuda_gave_back(d, cudaFree(p), "freeing device memory");
		d->used -= bytes;
		return;
	}
	if (kind == ZR_MEM_PINNED)
		cuda_gave_back(d, cudaHostUnregister(p), "unpinning host memory");
	munmap(p, bytes);
}

int cuda_mem_pin(struct zr_inst *d, void *p, uint64_t bytes)
{
	int rc = cuda_result(d, cudaSetDevice(d->device), "choosing the GPU");
	if (rc)
		return rc;
	return pin(d, p, bytes);
}

void cuda_mem_unpin(struct zr_inst *d, void *p)
{
	let_go(d);
	cuda_gave_back(d, cudaHostUnregister(p), "unpinning host memory");
}

int cuda_copy(struct zr_inst *d, struct zr_stream *s, void *dst, const void *src, uint64_t bytes)
{
	int rc = cuda_result(d, cudaSetDevice(d->device), "choosing the GPU");
	if (rc)
		return rc;
	return cuda_result(d,
			   cudaMemcpyAsync(dst, src, bytes, cudaMemcpyDefault, cuda_stream(d, s)),
			   "copying");
}

int cuda_sync(struct zr_inst *d, struct zr_stream *s)
{
	int rc = cuda_result(d, cudaSetDevice(d->device), "choosing the GPU");
	if (rc)
		return rc;
	return cuda_result(d, cudaStreamSynchronize(cuda_stream(d, s)), "waiting for the stream");
}

/* ---- copies beside the operations ------------------------------------------------ */

static int marked(struct zr_inst *d, cudaEvent_t mark)
{
	int rc = cuda_result(d, cudaSetDevice(d->device), "choosing the GPU");
	if (rc)
		return rc;
	return cuda_result(d, cudaEventRecord(mark, d->stream), "marking the start of a copy");
}

/* The stream of a copy, by where its end lies, which then waits for the operations to pass a mark.
 * Copies that need not wait do not queue behind others that do. */
static int stream_to(struct zr_inst *d, const void *dst, cudaEvent_t mark, cudaStream_t *s)
{
	struct cudaPointerAttributes a;
	int rc = cuda_result(d, cudaPointerGetAttributes(&a, dst), "asking where memory lies");
	if (rc)
		return rc;

	int in = a.type == cudaMemoryTypeDevice;
	if (cudaEventQuery(mark) == cudaSuccess) {
		*s = in ? d->ready.in : d->ready.out;
		return ZR_OK;
	}

	*s = in ? d->waiting.in : d->waiting.out;
	return cuda_result(d, cudaStreamWaitEvent(*s, mark, 0), "starting a copy");
}

/* CUDA takes rows that are up to 2 GiB apart. */
static cudaError_t enqueue(const struct zr_device_rows *r, cudaStream_t s)
{
	cudaError_t e = cudaSuccess;
	if (r->rows > 1 && r->dst_apart <= INT32_MAX && r->src_apart <= INT32_MAX)
		return cudaMemcpy2DAsync(r->dst, r->dst_apart, r->src, r->src_apart, r->bytes,
					 r->rows, cudaMemcpyDefault, s);

	for (uint64_t k = 0; e == cudaSuccess && k < r->rows; k++)
		e = cudaMemcpyAsync((char *)r->dst + k * r->dst_apart,
				    (const char *)r->src + k * r->src_apart, r->bytes,
				    cudaMemcpyDefault, s);
	return e;
}

static int start_copy(struct zr_inst *d, const struct zr_device_rows *r, cudaEvent_t mark,
		      uint64_t *ticket)
{
	cudaStream_t s;
	uint64_t k = 0;
	int rc;
	*ticket = 0;
	while (k < CUDA_COPIES && d->copying[k])
		k++;
	rc = cuda_result(d, cudaSetDevice(d->device), "choosing the GPU");
	if (!rc && (k == CUDA_COPIES || !r->bytes)) {
		rc = cuda_result(d, enqueue(r, d->stream), "copying");
		if (rc)
			return rc;
		return cuda_sync(d, NULL);
	}

	if (!rc)
		rc = stream_to(d, r->dst, mark, &s);
	if (!rc)
		rc = cuda_time_copy_begins(d, s);
	if (!rc)
		rc = cuda_result(d, enqueue(r, s), "copying");
	if (!rc)
		rc = cuda_time_copy_ends(d, s);
	if (!rc)
		rc = cuda_result(d, cudaEventRecord(d->copied[k], s), "marking the end of a copy");
	if (rc)
		return rc;

	d->copying[k] = 1;
	*ticket = k + 1;
	return ZR_OK;
}

int cuda_copy_start(struct zr_inst *d, void *dst, const void *src, uint64_t bytes, uint64_t *ticket)
{
	const struct zr_device_rows r = { .dst = dst, .src = src, .bytes = bytes, .rows = 1 };
	int rc = marked(d, d->reached);
	*ticket = 0;
	if (rc)
		return rc;
	return start_copy(d, &r, d->reached, ticket);
}

static int check_slot(const struct zr_inst *d, uint32_t slot)
{
	if (slot < ZR_MARKS)
		return ZR_OK;
	return zr_fail(d->h, ZR_EINVAL, "marks have %d slots, and %u is none of them", ZR_MARKS,
		       slot);
}

int cuda_mark(struct zr_inst *d, uint32_t slot)
{
	int rc = check_slot(d, slot);
	if (rc)
		return rc;
	return marked(d, d->marked[slot]);
}

int cuda_copy_rows(struct zr_inst *d, const struct zr_device_rows *r, uint64_t *ticket)
{
	int rc = check_slot(d, r->slot);
	*ticket = 0;
	if (rc)
		return rc;
	return start_copy(d, r, d->marked[r->slot], ticket);
}

int cuda_copy_after(struct zr_inst *d, void *dst, const void *src, uint64_t bytes, uint32_t slot,
		    uint64_t *ticket)
{
	const struct zr_device_rows r = {
		.slot = slot, .dst = dst, .src = src, .bytes = bytes, .rows = 1
	};
	return cuda_copy_rows(d, &r, ticket);
}

int cuda_copy_wait(struct zr_inst *d, uint64_t ticket)
{
	if (!ticket)
		return ZR_OK;
	if (ticket > CUDA_COPIES || !d->copying[ticket - 1])
		return zr_fail(d->h, ZR_EINVAL, "no copy has ticket %llu",
			       (unsigned long long)ticket);
	d->copying[ticket - 1] = 0;
	return cuda_result(d, cudaEventSynchronize(d->copied[ticket - 1]), "waiting for a copy");
}
