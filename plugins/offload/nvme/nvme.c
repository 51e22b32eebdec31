/* SPDX-License-Identifier: Apache-2.0
 *
 * nvme.c - the plugin offload/nvme: its options, its instance, its interface. See nvme.h for how it
 * works.
 */
#include "nvme.h"
#include "plugins/descriptor.h"

static const struct zr_opt nvme_opts[] = {
	ZR_OPT(struct nv_opts, path, ZR_T_PATH, ZR_O_REQUIRED, NULL, 0, 0, "",
	       "Directory on the disk that holds the data; each rank makes one of its own in it "
	       "and removes it at the end. That of a run that died, or was ended before its first "
	       "step, is removed by the next one that has this path."),
	ZR_OPT(struct nv_opts, block_size, ZR_T_BYTES, 0, "1M", 4096, 1 << 30, "bytes",
	       "Bytes that one operation of the disk moves at most, a multiple of 4096; larger "
	       "requests are cut."),
	ZR_OPT(struct nv_opts, queue_depth, ZR_T_I64, 0, "32", 1, 4096, "",
	       "Operations of the disk in flight at most."),
	ZR_OPT(struct nv_opts, buffer_count, ZR_T_I64, ZR_O_AUTO, "auto", 0, 64, "",
	       "Sub-group buffers of the update pipeline, at least 1 + pipeline_read + "
	       "pipeline_write; auto is 0: these, and with updates in the backward or within the "
	       "next forward those of three layers more, as long as they take no more than 1 GiB "
	       "and a quarter of what is updated, or, within the next forward, a third of it and "
	       "half of what is in memory for the whole run. There the disk works beside the "
	       "layers for as long as the buffers last."),
	ZR_OPT(struct nv_opts, pipeline_read, ZR_T_BOOL, 0, "yes", 0, 0, "",
	       "Read the next sub-group of an update while one is computed."),
	ZR_OPT(struct nv_opts, pipeline_write, ZR_T_BOOL, 0, "yes", 0, 0, "",
	       "Write the last sub-group of an update while one is computed."),
	ZR_OPT(struct nv_opts, checksums, ZR_T_BOOL, 0, "yes", 0, 0, "",
	       "Keep the XXH3 of every 4096 bytes written, in 1/512 of their size of memory, and "
	       "compare it when they are read. Data that the disk damaged end the run; without "
	       "checksums, training continues with them. With all on disk, steps of 1024 tokens "
	       "took 1.3 % longer and 8 % more processor time (medians of "
	       "bench/nvme_checksums.sh)."),
};

static int64_t least_buffers(const struct nv_opts *o)
{
	return 1 + o->pipeline_read + o->pipeline_write;
}

static int resolve(const struct zr_host *h, const struct zr_facts *facts, void *opts)
{
	struct nv_opts *o = opts;

	(void)h;
	(void)facts;
	if (o->buffer_count == ZR_AUTO_I64)
		o->buffer_count = 0;

	return ZR_OK;
}

static int check(const struct zr_host *h, const void *opts)
{
	const struct nv_opts *o = opts;
	if (o->block_size % NV_UNIT)
		return zr_fail(h, ZR_EINVAL, "block_size = %llu is not a multiple of %u",
			       (unsigned long long)o->block_size, NV_UNIT);
	if (o->buffer_count && o->buffer_count < least_buffers(o))
		return zr_fail(
			h, ZR_EINVAL,
			"buffer_count = %lld: pipeline_read = %s and pipeline_write = %s need "
			"%lld; raise it or stop one",
			(long long)o->buffer_count, o->pipeline_read ? "yes" : "no",
			o->pipeline_write ? "yes" : "no", (long long)least_buffers(o));

	return ZR_OK;
}

/* ---- instance -------------------------------------------------------------------- */

static void destroy(struct zr_inst *d)
{
	nv_stop(d);
	while (d->objects)
		nv_discard(d, (uint64_t)(uintptr_t)d->objects);
	nv_dir_close(d);
	d->h->release(d->h, d);
}

static int create(const struct zr_host *h, const void *opts, struct zr_inst **out)
{
	struct zr_inst *d = h->alloc(h, sizeof *d, "workspace");
	int rc;

	if (!d)
		return zr_fail(h, ZR_ENOMEM, "no memory for the instance");

	d->h = h;
	d->o = opts;
	d->parent = d->dir = d->lock = -1;
	nv_init(d);
	rc = nv_dir_open(d);
	if (!rc)
		rc = nv_probe(d);
	if (!rc)
		rc = nv_start(d);
	if (rc)
		destroy(d);
	else
		*out = d;

	return rc;
}

/* ---- interface ------------------------------------------------------------------- */

static int info(struct zr_inst *d, struct zr_tier_info *i)
{
	*i = (struct zr_tier_info){
		.size = i->size,
		.mem_ok = ZR_MEM_HOST | ZR_MEM_PINNED,
		.max_inflight = NV_INFLIGHT,
		.in_order = 1,
		.align = d->unit,
		.capacity = nv_free_bytes(d),
		.buffers = (uint32_t)d->o->buffer_count,
		.pipeline_read = d->o->pipeline_read,
		.pipeline_write = d->o->pipeline_write,
		.kept = d->o->checksums ? (uint32_t)(sizeof(uint64_t) * NV_UNIT / d->unit) : 0
	};
	return ZR_OK;
}

static int post(struct zr_inst *d, uint64_t object, uint64_t off, void *mem, uint64_t bytes,
		int write, uint64_t *ticket)
{
	struct nv_object *o = nv_object(object);
	if (off > o->bytes || bytes > o->bytes - off)
		return zr_fail(d->h, ZR_EINVAL, "%s: %llu bytes at %llu of an object of %llu",
			       o->name, (unsigned long long)bytes, (unsigned long long)off,
			       (unsigned long long)o->bytes);

	*ticket = 0;
	if (!bytes)
		return ZR_OK;

	return nv_post(
		d,
		&(struct nv_request){
			.object = o, .off = off, .bytes = bytes, .mem = mem, .write = write },
		ticket);
}

static int read_object(struct zr_inst *d, uint64_t object, uint64_t off, void *dst, uint64_t bytes,
		       uint64_t *ticket)
{
	return post(d, object, off, dst, bytes, 0, ticket);
}

static int write_object(struct zr_inst *d, uint64_t object, uint64_t off, const void *src,
			uint64_t bytes, uint64_t *ticket)
{
	return post(d, object, off, (void *)(uintptr_t)src, bytes, 1, ticket);
}

static const struct zr_offload_v1 vtbl = { .size = sizeof vtbl,
					   .info = info,
					   .make = nv_make,
					   .discard = nv_discard,
					   .read = read_object,
					   .write = write_object,
					   .test = nv_test,
					   .wait = nv_wait,
					   .drain = nv_drain };

PLUGIN(offload, "nvme", &vtbl, .version = "0.1.0",
       .summary = "Files on a disk, past the page cache, many operations at once.",
       PLUGIN_OPTIONS(struct nv_opts, nvme_opts), .resolve = resolve, .check = check,
       .create = create, .destroy = destroy);
