/* SPDX-License-Identifier: Apache-2.0
 *
 * cuda.c - the plugin device/cuda: its options and its instance. One NVIDIA GPU per rank.
 */
#include "cuda.h"

#include "trial.h"

#include "cuda_missing.h"
#include "plugins/descriptor.h"
#include "near.h"

#include <ctype.h>
#include <dlfcn.h>
#include <limits.h>
#include <string.h>

#define MEMORY_MOST 0x1p44 /* of the option */

struct opts {
	int64_t index;
	uint64_t memory; /* 0: all that is free */
	uint8_t tf32, numa, graphs;
	int32_t attention;
};

enum { GENERIC, HOPPER };
static const char *const attentions[] = { "generic", "hopper", NULL };

static const struct zr_opt cuda_opts[] = {
	ZR_OPT(struct opts, index, ZR_T_I64, ZR_O_AUTO, "auto", 0, 1023, "",
	       "Which GPU of this machine, as CUDA counts them; auto takes the one with the number "
	       "of the rank on this machine."),
	ZR_OPT(struct opts, memory, ZR_T_BYTES, ZR_O_AUTO, "auto", 0, MEMORY_MOST, "",
	       "Device memory per rank that the plan may fill; 48M of it are scratch of this "
	       "plugin; auto is 0: what is free when the run starts, but for 512M for code that "
	       "CUDA loads when it is first used and for buffers of NCCL. Ranks that share a GPU "
	       "each need a number."),
	ZR_OPT(struct opts, tf32, ZR_T_BOOL, ZR_O_NUMERIC, "no", 0, 0, "",
	       "Rounds operands of fp32 matrix products to TF32, 10 bits of mantissa, for tensor "
	       "cores; bf16 and fp16 always take them."),
	ZR_OPT(struct opts, numa, ZR_T_BOOL, 0, "yes", 0, 0, "",
	       "On a machine of several NUMA nodes the threads of a rank run on processors of the "
	       "node that its GPU is plugged into, as far as the process may use them, and host "
	       "memory for it is of that node while there is some. no: as the system places them."),
	ZR_OPT(struct opts, graphs, ZR_T_BOOL, 0, "no", 0, 0, "",
	       "What layers in a row enqueue becomes a CUDA graph, which is launched in its place "
	       "where a later step asks for the same operations with the same arguments. Where the "
	       "arguments differ in each step, as with dropout, stochastic rounding and trees of "
	       "many micro-batches, the graph gets the new ones first. The same bits. In no graph "
	       "are updates by a function of one element. A graph ends where a copy, a disk or "
	       "another rank is waited for; and with [run] wall_clock_breakdown, or in steps that "
	       "are traced, behind each layer. The end of a run says what was in graphs. Plugins "
	       "get no stream for kernels of their own then. Not tried on a GPU yet."),
	ZR_OPT_ENUM(
		struct opts, attention, ZR_O_NUMERIC, "generic", attentions,
		"Which kernels compute attention. hopper: on compute capability 9.0 (H100, H200) "
		"those for its products of warpgroups, for bf16 and fp16, heads of width 64, 80, "
		"96, 128 and 256, but not dropout beside a soft cap; generic ones compute the "
		"rest. Other bits, and scratch memory in the backward of 4 bytes for each element "
		"of the queries, which `zeroth plan --card` leaves out. Before a run each rank "
		"compares them with kernels of fp32 arithmetic on its GPU, in a process of its "
		"own that has 2 minutes, and is refused where they differ, crash or hang. Not "
		"tried on a GPU yet."),
};

static int resolve(const struct zr_host *h, const struct zr_facts *facts, void *opts)
{
	struct opts *o = opts;
	(void)facts;
	if (o->index == ZR_AUTO_I64)
		o->index = h->local_rank;
	if (o->memory == ZR_AUTO_COUNT)
		o->memory = 0;
	return ZR_OK;
}

/* ---- instance -------------------------------------------------------------------- */

static void destroy(struct zr_inst *d)
{
	const struct zr_host *h = d->h;
	const cudaStream_t streams[] = { d->waiting.in, d->waiting.out, d->ready.in, d->ready.out,
					 d->stream };
	if (d->stream)
		cuda_gave_back(d, cudaDeviceSynchronize(), "waiting for the GPU");
	cuda_elementwise_end(d);
	cuda_time_end(d);
	for (int i = 0; i < CUDA_COPIES && d->copied[i]; i++)
		cuda_gave_back(d, cudaEventDestroy(d->copied[i]), "destroying an event");
	for (int i = 0; i < ZR_MARKS && d->marked[i]; i++)
		cuda_gave_back(d, cudaEventDestroy(d->marked[i]), "destroying an event");
	if (d->reached)
		cuda_gave_back(d, cudaEventDestroy(d->reached), "destroying an event");
	cublasStatus_t ended = CUBLAS_STATUS_SUCCESS;
	if (d->lt)
		ended = cublasLtDestroy(d->lt);
	if (ended)
		zr_log(h, ZR_LOG_WARN, "rank %d, GPU %d, ending cuBLASLt: %s (%s)", h->rank,
		       d->device, cublasLtGetStatusString(ended), cublasLtGetStatusName(ended));
	if (d->scratch)
		cuda_gave_back(d, cudaFree(d->scratch), "freeing scratch");
	for (size_t i = 0; i < sizeof streams / sizeof *streams; i++)
		if (streams[i])
			cuda_gave_back(d, cudaStreamDestroy(streams[i]), "destroying a stream");
	h->release(h, d->choice);
	h->release(h, d);
}

/* Where sysfs has the GPU, and its node. */
static int find_node(struct zr_inst *d)
{
	char id[32];
	int rc = cuda_result(d, cudaDeviceGetPCIBusId(id, sizeof id, d->device),
			     "asking for its PCI bus id");
	if (rc)
		return rc;

	for (char *at = id; *at; at++)
		*at = (char)tolower((unsigned char)*at);
	snprintf(d->sysfs, sizeof d->sysfs, "/sys/bus/pci/devices/%s", id);
	d->node = near_node(d->sysfs);
	return ZR_OK;
}

/* Beside this plugin lies the program that tries kernels. It ends before this process has a
 * context: a GPU in exclusive mode takes one process at a time. */
static int try_hopper(struct zr_inst *d)
{
	char program[PATH_MAX], text[CUDA_TRIAL_TEXT];
	Dl_info here;
	if (!dladdr(attentions, &here) || !here.dli_fname)
		return zr_fail(d->h, ZR_EIO,
			       "attention = hopper: where this plugin is, is not known");

	const char *slash = strrchr(here.dli_fname, '/');
	const int length = slash ? (int)(slash - here.dli_fname) : 1;
	snprintf(program, sizeof program, "%.*s/cuda-trial", length, slash ? here.dli_fname : ".");

	const struct cuda_trial t = { .program = program,
				      .plugin = here.dli_fname,
				      .name = d->name,
				      .gpu = d->device,
				      .capability = d->capability,
				      .seconds = CUDA_TRIAL_SECONDS };
	int rc = cuda_trial(d->h, &t, text);
	if (rc)
		return rc;

	zr_log(d->h, ZR_LOG_INFO, "rank %d, GPU %d, attention = hopper: %s", d->h->rank, d->device,
	       text);
	d->hopper = 1;
	return ZR_OK;
}

static int choose_gpu(struct zr_inst *d, const struct opts *o)
{
	const struct zr_host *h = d->h;
	const int64_t index = o->index;
	struct cudaDeviceProp p;
	char text[512];
	int count, rc;
	if (cuda_missing(&count, text, sizeof text))
		return zr_fail(h, ZR_ENOTSUP, "plugin = cuda: %s; plugin = cpu needs none", text);
	if (index >= count)
		return zr_fail(
			h, ZR_EINVAL,
			"index = %lld: this machine has %d GPU%s, counted from 0; start no more "
			"ranks on it, or give index",
			(long long)index, count, count == 1 ? "" : "s");

	d->device = (int)index;
	rc = cuda_result(d, cudaGetDeviceProperties(&p, d->device), "asking for its properties");
	if (rc)
		return rc;

	snprintf(d->name, sizeof d->name, "%.*s", (int)sizeof d->name - 1, p.name);
	d->capability = p.major * 10 + p.minor;
	if (d->capability < CUDA_LEAST)
		return zr_fail(h, ZR_ENOTSUP,
			       "GPU %d, %s, has compute capability %d.%d; needed is %d.%d",
			       d->device, d->name, p.major, p.minor, CUDA_LEAST / 10,
			       CUDA_LEAST % 10);
	if (o->attention == HOPPER) {
		rc = try_hopper(d);
		if (rc)
			return rc;
	}
	return cuda_result(d, cudaSetDevice(d->device), "choosing the GPU");
}

/* Streams that wait for none but whom they are told to. */
static int make_streams(struct zr_inst *d)
{
	cudaStream_t *s[] = { &d->stream, &d->waiting.in, &d->waiting.out, &d->ready.in,
			      &d->ready.out };
	int rc = 0;
	for (size_t i = 0; !rc && i < sizeof s / sizeof *s; i++)
		rc = cuda_result(d, cudaStreamCreateWithFlags(s[i], cudaStreamNonBlocking),
				 "making a stream");
	if (!rc)
		rc = cuda_result(d, cudaEventCreateWithFlags(&d->reached, cudaEventDisableTiming),
				 "making an event");
	for (int i = 0; !rc && i < ZR_MARKS; i++)
		rc = cuda_result(d, cudaEventCreateWithFlags(&d->marked[i], cudaEventDisableTiming),
				 "making an event");
	for (int i = 0; !rc && i < CUDA_COPIES; i++)
		rc = cuda_result(d, cudaEventCreateWithFlags(&d->copied[i], cudaEventDisableTiming),
				 "making an event");
	return rc;
}

static int take_resources(struct zr_inst *d, uint64_t limit)
{
	size_t free_now = 0, all = 0;
	int rc = make_streams(d);
	if (!rc)
		rc = cuda_blas_result(d, cublasLtCreate(&d->lt), "starting");
	if (!rc)
		rc = cuda_result(d, cudaMalloc(&d->scratch, CUDA_WORKSPACE + CUDA_PARTS),
				 "allocating scratch");
	if (!rc)
		rc = cuda_result(d, cudaMemGetInfo(&free_now, &all), "asking for free memory");
	if (!rc && limit && limit <= CUDA_WORKSPACE + CUDA_PARTS)
		return zr_fail(
			d->h, ZR_EFIT,
			"memory = %llu bytes: scratch of this device alone takes %llu; raise "
			"memory",
			(unsigned long long)limit, CUDA_WORKSPACE + CUDA_PARTS);

	if (limit)
		d->memory = limit - (CUDA_WORKSPACE + CUDA_PARTS);
	else if (free_now > CUDA_CODE)
		d->memory = free_now - CUDA_CODE;
	if (!rc && d->memory > free_now)
		zr_log(d->h, ZR_LOG_WARN, "memory = %llu bytes, of which GPU %d has %llu free",
		       (unsigned long long)limit, d->device,
		       (unsigned long long)free_now + CUDA_WORKSPACE + CUDA_PARTS);
	return rc;
}

/* A GPU computes gradients whole. */
#define cuda_embedding_bwd_rows NULL
#define cuda_head_loss_rows     NULL

static void fill_ops(struct zr_inst *d)
{
	d->ops = (struct zr_ops){
		.size = sizeof d->ops,
		.dev = d,
#define OPERATION(name, arg, last, pointers, work) .name = cuda_##name,
#define QUERY(name, arg)                           .name = cuda_##name,
#include <ops.def>
		.native = &d->native,
		.elementwise = cuda_elementwise,
	};
}

static int create(const struct zr_host *h, const void *opts, struct zr_inst **out)
{
	const struct opts *o = opts;
	struct zr_inst *d = h->alloc(h, sizeof *d, "workspace");
	int rc;
	if (!d)
		return zr_fail(h, ZR_ENOMEM, "no memory for the instance");

	d->h = h;
	d->tf32 = o->tf32;
	d->graphs = o->graphs;
	d->copy_begins = d->copy_ends = ZR_TIME_NONE;
	d->choice = h->alloc(h, CUDA_SHAPES * sizeof *d->choice, "workspace");
	if (d->choice)
		rc = choose_gpu(d, o);
	else
		rc = zr_fail(h, ZR_ENOMEM, "no memory for %d shapes", CUDA_SHAPES);
	d->node = -1;
	if (!rc && o->numa)
		rc = find_node(d);
	if (!rc)
		rc = take_resources(d, o->memory);
	if (rc) {
		destroy(d);
		return rc;
	}
	snprintf(d->variant, sizeof d->variant, "sm_%d+cublaslt-%zu%s%s", d->capability,
		 cublasLtGetVersion(), d->tf32 ? "+tf32" : "", d->hopper ? "+hopper" : "");
	d->native = (struct zr_native){ .size = sizeof d->native,
					.api = ZR_NATIVE_CUDA,
					.device = d->device,
					.stream = d->stream };
	fill_ops(d);
	*out = d;
	return ZR_OK;
}

static int asked_in_probe(const struct zr_host *h, int gpu, cudaError_t e)
{
	if (e == cudaSuccess)
		return ZR_OK;
	return zr_fail(h, ZR_ENOTSUP, "GPU %d, asking for its compute capability: %s (%s)", gpu,
		       cudaGetErrorString(e), cudaGetErrorName(e));
}

/* One GPU that is good enough is enough here: which one a rank takes is known when it starts. */
static int probe(const struct zr_host *h)
{
	char text[512];
	int count, major, minor, best = 0, rc = ZR_OK;
	if (cuda_missing(&count, text, sizeof text))
		return zr_fail(h, ZR_ENOTSUP, "%s", text);

	for (int i = 0; !rc && i < count; i++) {
		rc = asked_in_probe(
			h, i, cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, i));
		if (!rc)
			rc = asked_in_probe(h, i,
					    cudaDeviceGetAttribute(
						    &minor, cudaDevAttrComputeCapabilityMinor, i));
		if (!rc && major * 10 + minor > best)
			best = major * 10 + minor;
	}

	if (!rc && best < CUDA_LEAST)
		rc = zr_fail(
			h, ZR_ENOTSUP,
			"the GPUs of this machine have compute capability %d.%d at most; needed is "
			"%d.%d",
			best / 10, best % 10, CUDA_LEAST / 10, CUDA_LEAST % 10);
	return rc;
}

/* ---- interface ------------------------------------------------------------------- */

static int info(struct zr_inst *d, struct zr_device_info *i)
{
	uint32_t size = i->size;
	*i = (struct zr_device_info){ .size = size,
				      .memory = d->memory,
				      .scratch = CUDA_WORKSPACE + CUDA_PARTS,
				      .graphs = (uint32_t)d->graphs };
	memcpy(i->name, d->name, sizeof i->name);
	memcpy(i->variant, d->variant, sizeof i->variant);
	return ZR_OK;
}

static const struct zr_ops *ops(struct zr_inst *d)
{
	return &d->ops;
}

static void *native_stream(struct zr_inst *d, struct zr_stream *s)
{
	return cuda_stream(d, s);
}

static int32_t processors(struct zr_inst *d, int32_t *processor, int32_t room)
{
	if (d->node < 0)
		return 0;
	return near_processors(d->sysfs, processor, room);
}

static const struct zr_device_v1 device = { sizeof device,
					    0,
					    info,
					    ops,
					    cuda_mem_alloc,
					    cuda_mem_free,
					    cuda_copy,
					    cuda_sync,
					    cuda_copy_start,
					    cuda_copy_wait,
					    native_stream,
					    cuda_mem_pin,
					    cuda_mem_unpin,
					    processors,
					    cuda_mark,
					    cuda_copy_after,
					    cuda_copy_rows,
					    cuda_time_open,
					    cuda_time_mark,
					    cuda_time_copies,
					    cuda_time_between,
					    cuda_range_push,
					    cuda_range_pop,
					    cuda_graph_begin,
					    cuda_graph_end,
					    cuda_graph_launch,
					    cuda_graph_free };

PLUGIN(device, "cuda", &device, .version = "0.1.0",
       .summary = "NVIDIA GPUs from compute capability 8.0 on; matrix products by cuBLASLt, "
		  "everything else by kernels of our own.",
       PLUGIN_OPTIONS(struct opts, cuda_opts), .resolve = resolve, .create = create,
       .destroy = destroy, .probe = probe);
