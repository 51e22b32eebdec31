/* SPDX-License-Identifier: Apache-2.0
 *
 * cpu.c - the plugin device/cpu: its options and its instance. Operations and copies are complete
 * when the call returns.
 */
#include "cpu.h"
#include "plugins/descriptor.h"

#include <string.h>
#include <unistd.h>

#define MEMORY_MOST 0x1p44 /* of the option: several times as many addresses exist */

struct opts {
	int64_t threads;
	int32_t isa;
	uint64_t memory; /* 0: no limit */
};

/* ZR_CPU_SCALAR ... */
static const char *const isa_choices[] = { "scalar", "avx2", "avx512", "avx512bf16", "amx", NULL };

static const struct zr_opt cpu_opts[] = {
	ZR_OPT(struct opts, threads, ZR_T_I64, ZR_O_AUTO, "auto", 1, 1024, "",
	       "Threads of this rank; auto shares the processors among the ranks of the machine."),
	ZR_OPT_ENUM(struct opts, isa, ZR_O_AUTO | ZR_O_NUMERIC, "auto", isa_choices,
		    "Vector instructions to use; auto takes the widest that processor and system "
		    "support, but not avx512bf16 on processors of Intel, where avx512 is faster."),
	ZR_OPT(struct opts, memory, ZR_T_BYTES, ZR_O_AUTO, "auto", 0, MEMORY_MOST, "",
	       "Plays a card with so much memory of its own per rank, as if only operations and "
	       "copies reached it: plans are those of such a card. auto is 0: device and host "
	       "memory are one, without a limit."),
};

/* ---- options --------------------------------------------------------------------- */

/* The widest that can be used; says so if that is not the widest that there is. */
static int32_t best_isa(const struct zr_host *h)
{
	int32_t isa = zr_cpu_best();
	const char *missing = isa < ZR_CPU_BEST ? zr_cpu_missing(isa + 1) : NULL;
	if (missing && !strcmp(missing, ZR_CPU_OTHER_SUMS))
		zr_log(h, ZR_LOG_WARN, "this processor's %s differ from %s: isa = %s is used",
		       isa_choices[isa + 1], ZR_CPU_OTHER_SUMS, isa_choices[isa]);
	return isa;
}

static int resolve(const struct zr_host *h, const struct zr_facts *facts, void *opts)
{
	struct opts *o = opts;
	if (o->threads == ZR_AUTO_I64)
		o->threads = facts->workers > 0 ? facts->workers : 1;
	if (o->isa == ZR_AUTO_ENUM)
		o->isa = best_isa(h);
	if (o->memory == ZR_AUTO_COUNT)
		o->memory = 0;
	return ZR_OK;
}

static int check(const struct zr_host *h, const void *opts)
{
	const struct opts *o = opts;
	const char *missing = zr_cpu_missing(o->isa);
	if (missing)
		return zr_fail(h, ZR_EINVAL,
			       "isa = %s: this machine lacks %s; take isa = %s or auto",
			       isa_choices[o->isa], missing, isa_choices[zr_cpu_best()]);
	return ZR_OK;
}

/* ---- instance -------------------------------------------------------------------- */

static void destroy(struct zr_inst *d)
{
	const struct zr_host *h = d->h;
	h->release(h, d->scratch);
	h->release(h, d);
}

static int take_scratch(struct zr_inst *d)
{
	d->scratch_bytes = (uint64_t)d->workers * CPU_SCRATCH + CPU_SPLIT;
	d->scratch = d->h->alloc(d->h, d->scratch_bytes, "workspace");
	if (d->scratch)
		return ZR_OK;
	return zr_fail(d->h, ZR_ENOMEM, "no memory for %llu bytes of scratch",
		       (unsigned long long)d->scratch_bytes);
}

static void fill_ops(struct zr_inst *d)
{
	d->ops = (struct zr_ops){
		.size = sizeof d->ops,
		.dev = d,
#define OPERATION(name, arg, last, pointers, work) .name = cpu_##name,
#define QUERY(name, arg)                           .name = cpu_##name,
#include <ops.def>
		.native = &d->native,
		.elementwise = cpu_elementwise,
		.matrices = &cpu_matrices,
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
	d->k = zr_cpu_variant(o->isa);
	d->isa = o->isa;
	d->native = (struct zr_native){ .size = sizeof d->native, .api = ZR_NATIVE_HOST };
	d->workers = h->workers;
	d->limit = o->memory;
	rc = take_scratch(d);
	if (rc) {
		destroy(d);
		return rc;
	}
	snprintf(d->variant, sizeof d->variant, "%s+own", d->k->name);
	fill_ops(d);
	*out = d;
	return ZR_OK;
}

/* ---- interface ------------------------------------------------------------------- */

/* What the played card has, or this rank's part of what the machine has. */
static uint64_t memory_of(const struct zr_inst *d)
{
	if (d->limit)
		return d->limit;

	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), pages = (uint64_t)sysconf(_SC_PHYS_PAGES);
	uint64_t bytes = page * pages;
	if (d->h->local_world > 1)
		bytes /= (uint64_t)d->h->local_world;
	return bytes;
}

static int info(struct zr_inst *d, struct zr_device_info *i)
{
	const uint32_t size = i->size, unified = !d->limit;
	*i = (struct zr_device_info){ .size = size,
				      .unified = unified,
				      .name = "cpu",
				      .memory = memory_of(d),
				      .scratch = d->scratch_bytes,
				      .host_access = unified,
				      .host_ops = unified };
	memcpy(i->variant, d->variant, sizeof i->variant);
	return ZR_OK;
}

static const struct zr_ops *ops(struct zr_inst *d)
{
	return &d->ops;
}

static int wait_stream(struct zr_inst *d, struct zr_stream *s)
{
	(void)d;
	(void)s;
	return ZR_OK;
}

/* A processor needs no pinned memory. */
static const struct zr_device_v1 device = { .size = sizeof device,
					    .info = info,
					    .ops = ops,
					    .mem_alloc = cpu_mem_alloc,
					    .mem_free = cpu_mem_free,
					    .copy = cpu_copy,
					    .sync = wait_stream,
					    .copy_start = cpu_copy_start,
					    .copy_wait = cpu_copy_wait };

PLUGIN(device, "cpu", &device, .version = "0.1.0",
       .summary = "The processor: AVX-512, AVX2 or scalar kernels.",
       PLUGIN_OPTIONS(struct opts, cpu_opts), .resolve = resolve, .check = check, .create = create,
       .destroy = destroy);
