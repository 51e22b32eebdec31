/* SPDX-License-Identifier: Apache-2.0
 *
 * badplugin.c - a scheduler of which every part can be made wrong by a macro, for
 * tests/system/loader.sh and t_loader. Without one it is right: its rate is the option `rate` at
 * every step.
 */
#include <zeroth/scheduler.h>

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#ifndef MAGIC
#define MAGIC ZR_MAGIC
#endif
#ifndef MAJOR
#define MAJOR ZR_ABI_MAJOR
#endif
#ifndef NEED
#define NEED 0
#endif
#ifndef DRAFTS
#define DRAFTS NULL, 0, 0 /* as plugins of minors before 5 */
#endif
#ifndef DRAFT
#define DRAFT 0
#endif
#ifndef ENTRY_BITS
#define ENTRY_BITS 0
#endif
#ifndef DESC_BITS
#define DESC_BITS 0
#endif
#ifndef OPT_BITS
#define OPT_BITS 0
#endif
#ifndef ENTRY_SIZE
#define ENTRY_SIZE sizeof(struct zr_entry)
#endif
#ifndef DESC_SIZE
#define DESC_SIZE sizeof(struct zr_desc)
#endif
#ifndef ROLE
#define ROLE "scheduler"
#endif
#ifndef ID
#define ID "good"
#endif
#ifndef VERSION
#define VERSION "1.5"
#endif
#ifndef IFACE
#define IFACE "zr.scheduler/1"
#endif
#ifndef VTBL_SIZE
#define VTBL_SIZE sizeof(struct zr_scheduler_v1)
#endif
#ifndef DEFAULT
#define DEFAULT "0.5"
#endif
#ifndef TYPE
#define TYPE ZR_T_F64
#endif
#ifndef SHIFT
#define SHIFT 0
#endif
#ifndef STRIDE
#define STRIDE sizeof(struct zr_opt)
#endif

struct opts {
	double rate;
};

static const struct zr_opt options[] = {
	{ "rate", DEFAULT, "Learning rate at every step.", "", NULL, 0, 1, TYPE, OPT_BITS, SHIFT,
	  sizeof(double) },
};

struct zr_inst {
	double rate;
};

static int value(struct zr_inst *inst, const struct zr_sched_point *at, double *lr)
{
	(void)at;
	*lr = inst->rate;
	return ZR_OK;
}

static int create(const struct zr_host *h, const void *opts, struct zr_inst **out)
{
	struct zr_inst *inst = malloc(sizeof *inst);
#ifdef TAKES_SIGNALS
	raise(SIGSEGV);
#endif
	if (!inst)
		return zr_fail(h, ZR_ENOMEM, "no memory");
	inst->rate = ((const struct opts *)opts)->rate;
	*out = inst;
	return ZR_OK;
}

static void destroy(struct zr_inst *inst)
{
	free(inst);
}

#if defined(FP_MODE) || defined(CRASH) || defined(HANG) || defined(QUIT) || defined(CHATTER) ||    \
	defined(TAKES_SIGNALS)
__attribute__((constructor)) static void misbehave(void)
{
#ifdef FP_MODE
	__builtin_ia32_ldmxcsr(__builtin_ia32_stmxcsr() | 0x8040);
#endif
#ifdef CRASH
	raise(SIGSEGV);
#endif
#ifdef HANG
	for (;;)
		pause();
#endif
#ifdef QUIT
	_exit(0);
#endif
#ifdef CHATTER
	puts("chatter");
	fflush(stdout);
#endif
#ifdef TAKES_SIGNALS
	signal(SIGSEGV, _exit);
#endif
}
#endif

#ifdef PROBE
static int probe(const struct zr_host *h)
{
	return zr_fail(h, ZR_ENOTSUP, PROBE);
}
#endif

static const struct zr_scheduler_v1 vtbl = { .size = VTBL_SIZE, .value = value };
static const struct zr_iface ifaces[] = { { IFACE, &vtbl }, { NULL, NULL } };

static const struct zr_desc desc = {
	.size = DESC_SIZE,
	.flags = DESC_BITS,
	.role = ROLE,
	.id = ID,
	.version = VERSION,
	.license = "Apache-2.0",
	.summary = "For tests.",
	.ifaces = ifaces,
	.opts = options,
	.n_opts = 1,
	.opt_stride = STRIDE,
	.opts_size = sizeof(struct opts),
	.create = create,
	.destroy = destroy,
#ifdef PROBE
	.probe = probe,
#endif
};

#ifndef NO_ENTRY
static const struct zr_desc *const descs[] = {
#ifndef NO_DESC
	&desc,
#endif
	NULL,
};
ZR_EXTERN __attribute__((visibility("default"))) const struct zr_entry zr_plugin_entry_v1;
const struct zr_entry zr_plugin_entry_v1 = { MAGIC, ENTRY_SIZE, MAJOR,       ZR_ABI_MINOR, NEED,  0,
					     DRAFT, ENTRY_BITS, __VERSION__, descs,        DRAFTS };
#else
const struct zr_desc *const unused_desc = &desc;
#endif
