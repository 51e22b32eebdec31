/* SPDX-License-Identifier: Apache-2.0
 *
 * plugin.c - comm/nccl over the double of CUDA and NCCL, whatever device there is: it offers the
 * plugin a stream to compute on and the one operation that the plugin asks a device for. With
 * ZR_DOUBLE_MEMORY=device a wait lasts until the GPU has done all it was given, for callers that
 * look at the memory themselves.
 */
#define zr_plugin_entry_v1 nccl_entry
#define zr_descs__         nccl_descs
#define zr_drafts__        nccl_drafts
#include "plugins/comm/nccl/nccl.c"
#undef zr_plugin_entry_v1
#undef zr_descs__
#undef zr_drafts__

#include <zeroth/parameters.h>

#include "double.h"

/* An instance, and the host and device that the plugin sees. */
struct double_inst {
	struct zr_inst *real;
	struct zr_host host;
	const struct zr_host *outer;
	struct zr_device_v1 device;
	struct zr_ops ops;
	cudaStream_t compute;
};

/* ---- the device ------------------------------------------------------------------ */

static void fold_now(void *arg)
{
	const struct zr_op_fold *op = *(struct zr_op_fold **)arg;
	const float *from = double_real(op->g);
	const int64_t apart = op->apart / (int64_t)sizeof *from;
	float *to = double_real(op->acc);
	for (int64_t k = 0; k < op->n; k++) {
		float sum = from[k];
		for (int32_t r = 1; r < op->number; r++)
			sum += from[r * apart + k];
		to[k] = sum;
	}
	free(*(struct zr_op_fold **)arg);
}

static int fold(const struct zr_ops *ops, struct zr_stream *s, const struct zr_op_fold *op)
{
	struct zr_op_fold *copy = malloc(sizeof *copy);
	(void)ops;
	if (!copy || op->comm_dtype != ZR_F32 || op->flags || op->group > 1)
		abort();

	*copy = *op;
	double_enqueue((cudaStream_t)s, fold_now, &copy, sizeof copy);
	return ZR_OK;
}

/* The instance of the device is this one. */
static const struct zr_ops *device_ops(struct zr_inst *d)
{
	return &((struct double_inst *)d)->ops;
}

static void *device_stream(struct zr_inst *d, struct zr_stream *s)
{
	(void)s;
	return ((struct double_inst *)d)->compute;
}

static const void *offer(const struct zr_host *h, const char *iface, struct zr_inst **inst)
{
	struct double_inst *d =
		(struct double_inst *)((char *)(uintptr_t)h - offsetof(struct double_inst, host));
	if (strcmp(iface, "zr.device/1")) {
		if (!ZR_HAS(d->outer, struct zr_host, get) || !d->outer->get)
			return NULL;
		return d->outer->get(d->outer, iface, inst);
	}

	*inst = (struct zr_inst *)d;
	return &d->device;
}

/* ---- the plugin ------------------------------------------------------------------ */

static void destroy_double(struct zr_inst *inst)
{
	struct double_inst *d = (struct double_inst *)inst;
	if (d->real)
		nccl_descs[0]->destroy(d->real);
	if (d->compute)
		cudaStreamDestroy(d->compute);
	free(d);
}

static int create_double(const struct zr_host *h, const void *options, struct zr_inst **out)
{
	struct double_inst *d = calloc(1, sizeof *d);
	if (!d)
		return zr_fail(h, ZR_ENOMEM, "no memory");

	d->outer = h;
	d->host = *h;
	d->host.get = offer;
	d->ops = (struct zr_ops){ .size = sizeof d->ops, .fold = fold };
	d->device = (struct zr_device_v1){ .size = sizeof d->device,
					   .ops = device_ops,
					   .native_stream = device_stream };
	double_real(NULL); /* looks for the double of cards, not in the thread of a stream */
	int rc = ZR_OK;
	if (h->world > 1 && cudaStreamCreateWithFlags(&d->compute, 0) != cudaSuccess)
		rc = zr_fail(h, ZR_ENOMEM, "no thread for a stream of the double");
	if (!rc)
		rc = nccl_descs[0]->create(&d->host, options, &d->real);
	if (rc)
		destroy_double((struct zr_inst *)d);
	else
		*out = (struct zr_inst *)d;
	return rc;
}

static struct zr_inst *inner(struct zr_inst *inst)
{
	return ((struct double_inst *)inst)->real;
}

static int post_double(struct zr_inst *inst, const struct zr_comm_op *op, zr_ticket *out)
{
	return vtbl.post(inner(inst), op, out);
}

static int test_double(struct zr_inst *inst, zr_ticket ticket)
{
	return vtbl.test(inner(inst), ticket);
}

static int wait_double(struct zr_inst *inst, zr_ticket ticket)
{
	struct double_inst *d = (struct double_inst *)inst;
	int rc = vtbl.wait(d->real, ticket);
	if (!rc && d->compute)
		cudaStreamSynchronize(d->compute);
	return rc;
}

static void abort_double(struct zr_inst *inst, const char *why)
{
	vtbl.abort(inner(inst), why);
}

static uint64_t bytes_sent_double(struct zr_inst *inst)
{
	return vtbl.bytes_sent(inner(inst));
}

static int exchange_double(struct zr_inst *inst, const struct zr_comm_exchange *x, zr_ticket *out)
{
	return vtbl.exchange(inner(inst), x, out);
}

static int group_double(struct zr_inst *inst, int32_t number, const int32_t *ranks, int32_t n)
{
	return vtbl.group(inner(inst), number, ranks, n);
}

static int lend_double(struct zr_inst *inst, void *base, uint64_t bytes)
{
	return vtbl.mem_lend(inner(inst), base, bytes);
}

static void take_back_double(struct zr_inst *inst, void *base)
{
	vtbl.mem_take_back(inner(inst), base);
}

static int probe_double(const struct zr_host *h)
{
	return nccl_descs[0]->probe(h);
}

static const struct zr_comm_v1 double_vtbl = { .size = sizeof double_vtbl,
					       .mem = ZR_MEM_HOST | ZR_MEM_DEVICE,
					       .post = post_double,
					       .test = test_double,
					       .wait = wait_double,
					       .abort = abort_double,
					       .bytes_sent = bytes_sent_double,
					       .sums = nccl_sums,
					       .exchange = exchange_double,
					       .group = group_double,
					       .held_on_device = nccl_held_on_device,
					       .mem_lend = lend_double,
					       .mem_take_back = take_back_double };
static const struct zr_iface double_ifaces[] = { { "zr.comm/1", &double_vtbl }, { NULL, NULL } };
static const struct zr_desc double_desc = { .size = sizeof double_desc,
					    .role = "comm",
					    .id = "nccl_double",
					    .version = "1",
					    .license = "Apache-2.0",
					    .summary = "comm/nccl without a GPU.",
					    .ifaces = double_ifaces,
					    PLUGIN_OPTIONS(struct nccl_opts, opts),
					    .create = create_double,
					    .destroy = destroy_double,
					    .probe = probe_double };
ZR_PLUGIN(&double_desc);
