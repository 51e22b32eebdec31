/* SPDX-License-Identifier: Apache-2.0
 *
 * broken.c - an optimizer with momentum that is right but for one fault, for
 * tests/system/plugin_check.sh: that which $BROKEN names or, what is not a matter of calls, a macro
 * plants.
 */
#include <zeroth/optimizer.h>

#include <fenv.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifndef PERIOD_TYPE
#define PERIOD_TYPE int64_t
#endif
static const char *fault = "";
#define IF(name) if (!strcmp(fault, #name))
#if defined(DOC)
#define TEXT ""
#else
#define TEXT "Share of the last direction."
#endif
#if defined(OVERLAP)
#define PLACE_OF_MOMENTUM 0
#else
#define PLACE_OF_MOMENTUM offsetof(struct opts, momentum)
#endif
#if defined(AUTO_STAYS)
#define PERIOD       "auto"
#define PERIOD_FLAGS ZR_O_AUTO
#else
#define PERIOD       "3"
#define PERIOD_FLAGS 0
#endif

struct opts {
	double lr, momentum;
	PERIOD_TYPE period;
};

static const struct zr_opt options[] = {
	ZR_OPT(struct opts, lr, ZR_T_F64, ZR_O_SCHED | ZR_O_NUMERIC, "1e-2", 0, ZR_HI, "",
	       "Learning rate."),
	{ "momentum", "0.9", TEXT, "", NULL, 0, 1, ZR_T_F64, ZR_O_NUMERIC, PLACE_OF_MOMENTUM, 8 },
	ZR_OPT(struct opts, period, ZR_T_I64, PERIOD_FLAGS, PERIOD, 0, 10, "steps",
	       "Does nothing."),
#ifdef TOO_MANY_OPTIONS /* what happens to lie behind the table */
	{ (const char *)1, (const char *)2, (const char *)3, (const char *)4, NULL, 0, 1, ZR_T_BOOL,
	  0, 0, 1 },
#endif
};
#ifdef TOO_MANY_OPTIONS
#define N_OPTIONS 4
#else
#define N_OPTIONS 3
#endif

struct zr_inst {
	const struct zr_host *h;
	int64_t seen;
	char *name;
};

static struct zr_inst *shared;

static void item(void *arg, int64_t i, int32_t worker)
{
	struct zr_inst *inst = arg;
	(void)i, (void)worker;
	inst->h->parallel(inst->h, 0, item, inst);
}

static const struct zr_state *states(struct zr_inst *inst, uint32_t *n)
{
	static struct zr_state s[] = { { "momentum", ZR_F32, 0, 0 } };
	(void)inst;
	*n = 1;
	IF(NAMES) s->name = "mo/mentum";
	IF(INFINITE) s->init = (double)INFINITY;
	IF(HALF_FROM_1) s[0] = (struct zr_state){ "momentum", ZR_BF16, 0, 1 };
	return s;
}

static uint16_t bf16(float x, int truncates)
{
	uint32_t u;
	memcpy(&u, &x, 4);
	if (isnan(x))
		return (uint16_t)(u >> 16 | 0x40);
	return (uint16_t)((u + (truncates ? 0 : 0x8000u)) >> 16);
}

/* To the nearest, ties to even. */
static uint16_t fp16(float x)
{
	uint16_t sign = signbit(x) ? 0x8000 : 0;
	double a = fabs((double)x);
	int e;
	if (!(a < 65520))
		return sign | 0x7c00 | (a != a ? 0x200 : 0);
	if (a < 0x1p-14)
		return sign | (uint16_t)nearbyint(a * 0x1p24);
	frexp(a, &e);
	return sign | (uint16_t)(((e + 14) << 10) + (int)nearbyint(ldexp(a, 11 - e)) - 1024);
}

static void copy(const struct zr_buf *to, int64_t i, float x, int truncates)
{
	if (to->dtype == ZR_BF16)
		((uint16_t *)to->data)[i] = bf16(x, truncates);
	else if (to->dtype == ZR_F16)
		((uint16_t *)to->data)[i] = fp16(x);
	else
		((float *)to->data)[i] = x;
}

static void misbehave(struct zr_inst *inst, const struct zr_opt_step *s)
{
	const struct zr_host *h = inst->h;
	IF(ALLOCATES) h->release(h, h->alloc(h, 64, "workspace"));
	IF(MALLOCS) free(realloc(malloc(64), 128));
	IF(WRITES_GRAD)((float *)s->grad.data)[0] *= 2;
	IF(BEYOND)((float *)s->master.data)[s->master.count] = 0;
	IF(WRITES_OPTIONS)((struct opts *)(uintptr_t)s->opts)->lr = 0;
	IF(NEWER) inst->seen += s->work != NULL;
#ifdef ROUNDS
	fesetround(FE_UPWARD);
#endif
	IF(PRINTS) inst->seen += write(1, "hello\n", 6);
	IF(NESTS) h->parallel(h, 4, item, inst);
	IF(LOG_LEVEL) h->log(h, 9, "a line");
#ifdef ENDS
	_Exit(0);
#endif
}

static int step(struct zr_inst *inst, const struct zr_opt_step *s)
{
	const struct opts *o = s->opts;
	float lr = (float)s->lr, mult = (float)s->grad_mult, more = 0;
	const float *grad = s->grad.data;
	float *p = s->master.data, *m = s->state[0].data;
	int truncates = 0, hangs = 0, place = 0;
	misbehave(inst, s);
	IF(OWN_LR) lr = (float)o->lr;
	IF(NO_MULT) mult = 1;
	IF(REMEMBERS) more = 1e-3f * (float)inst->seen;
	IF(RANK) more = (float)inst->h->rank;
	IF(TRUNCATES) truncates = 1;
	IF(HANGS) hangs = 1;
	IF(PLACE) place = 1;
	for (uint64_t k = 0; k < s->n_seg; k++) {
		int64_t from = ZR_SEG(s, k)->off, n = ZR_SEG(s, k)->n;
		IF(PADS) n = (n + ZR_BLOCK - 1) / ZR_BLOCK * ZR_BLOCK;
		for (int64_t i = from; i < from + n; i++) {
			float g = grad[i] * mult + more + (place ? 1e-3f * (float)i : 0);
			while (hangs && !(g - g == 0))
				pause();
			m[i] = (float)o->momentum * m[i] + g;
			p[i] -= lr * m[i];
			if (s->lowp.data)
				copy(&s->lowp, i, p[i], truncates);
		}
	}
	inst->seen++;
	IF(POSITIVE) return 1;
	return ZR_OK;
}

#ifdef HANDLER
static void on_signal(int sig)
{
	(void)sig;
}
#endif

static int create(const struct zr_host *h, const void *opts, struct zr_inst **out)
{
	struct zr_inst *inst, *other = NULL;
	const char *broken = getenv("BROKEN");
	fault = broken ? broken : "";
#ifdef HANDLER
	signal(SIGUSR1, on_signal);
#endif
	IF(USES_GET) * (volatile char *)h->get(h, "zr.device/1", &other);
	inst = malloc(sizeof *inst);
	IF(NO_LOOK) inst->seen = 0;
	IF(SILENT) if (!inst) return ZR_ENOMEM;
	if (!inst)
		return zr_fail(h, ZR_ENOMEM, "no memory");
	*inst = (struct zr_inst){ .h = h, .name = malloc(16) };
	if (!inst->name) {
		IF(LOSES) return zr_fail(h, ZR_ENOMEM, "no memory"); /* and inst is lost */
		free(inst);
		return zr_fail(h, ZR_ENOMEM, "no memory");
	}
	shared = inst;
	*out = inst;
	return ZR_OK;
}

static void destroy(struct zr_inst *inst)
{
	IF(SHARED) inst = shared;
	IF(LEAKS) inst->name = NULL;
	free(inst->name);
	free(inst);
}

#if defined(CHANGES_DIRECTORY)
__attribute__((constructor)) static void constructor(void)
{
	if (chdir("/"))
		exit(1);
}
#elif defined(CHANGES_ROUNDING)
__attribute__((constructor)) static void constructor(void)
{
	fesetround(FE_UPWARD);
}
#elif defined(EXPORTS)
__attribute__((visibility("default"))) int helper;
#endif

static const struct zr_optimizer_v1 vtbl = {
	.size = sizeof vtbl,
	.caps = ZR_OPT_ELEMENTWISE,
	.mem_ok = ZR_MEM_HOST,
	.state_version = 1,
	.state_stride = sizeof(struct zr_state),
	.states = states,
	.step = step,
};
static const struct zr_iface ifaces[] = { { "zr.optimizer/1", &vtbl }, { NULL, NULL } };
static const struct zr_desc desc = {
	.size = sizeof desc,
	.role = "optimizer",
	.id = "broken",
	.version = "1",
	.license = "Apache-2.0",
	.summary = "For tests.",
	.ifaces = ifaces,
	.opts = options,
	.n_opts = N_OPTIONS,
	.opt_stride = sizeof *options,
	.opts_size = sizeof(struct opts),
	.create = create,
	.destroy = destroy,
};
#ifndef NO_ENTRY
ZR_PLUGIN(&desc);
#else
const struct zr_desc *const not_an_entry = &desc;
#endif
