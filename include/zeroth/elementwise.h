/* SPDX-License-Identifier: Apache-2.0
 *
 * zeroth/elementwise.h - STABLE, since minor 4. An optimizer that updates each element by itself,
 * written once: a function of one element, which the author's compiler turns into loops for the
 * host and whose text a device that has a compiler of its own, such as CUDA's NVRTC, compiles for
 * its memory. The host of the plugin does the rest: sub-groups and padding, unscaling and clipping,
 * threads, the types of states, the rounded copy of the parameters.
 *
 * A plugin has, in this order and under these names (zeroth-plugin(7) has a complete one):
 *   struct S                its options, among them `double lr`
 *   options[]               their table; ZR_OPT_STATES(S) in it lets the user choose the states'
 *                           type, and needs the member `int32_t states`
 *   ZR_ELEMENTWISE(...)     the text
 *   states[]                names and first values, ends with ZR_NO_STATE
 *   constants()             void constants(const struct S *o, const struct zr_opt_step *s, float
 *                           *k): on the host, once per call; in double, rounded when stored
 *   ZR_ELEMENTWISE_OPTIMIZER(S, .id = "...", .version, .license, .summary, .check = ...)
 * and, with scalars of the run, ZR_ELEMENTWISE_RUN_OPTIMIZER in its place.
 *
 * In C++, from C++11 on, the last arguments come in the order .id, .version, .license, .summary,
 * .resolve, .check, .probe, of which the last three may be left out.
 *
 * The text is C that is C++ as well, without hexadecimal floats, which C++11 does not have:
 *   enum { ..., STATES };     a name for each state; STATES counts them, at most 8
 *   enum { ..., CONSTANTS };  a name for each constant; at most 32
 *   static float update(const float *k, float g, float p, float *s)
 * update() returns the new parameter. g is the gradient, already unscaled and clipped, p the
 * parameter, k[CONSTANTS] what constants() computed, s[STATES] the states of this element in fp32,
 * which it changes in place. It may call functions of the text and those at the end of this header,
 * and nothing else. No macros, no lines that begin with #, no memory but k and s. [step], by many
 * threads at once.
 *
 * Arithmetic is fp32: each operation rounds once, to the nearest, ties to even; products and sums
 * are not contracted; division and zr_sqrt are correctly rounded; subnormal numbers are kept. So
 * all hosts, instruction sets and devices compute the same bits. This header sees to that where it
 * can: from it on GCC compiles the file with -O3 -ffp-contract=off; clang compiles the text without
 * contraction, and is fast with -O2 and what pkg-config zeroth-plugin says; -ffast-math is refused.
 */
#ifndef ZEROTH_ELEMENTWISE_H
#define ZEROTH_ELEMENTWISE_H

#include <zeroth/optimizer.h>
#if ZR_HEADERS_NEED < 4
#undef ZR_HEADERS_NEED
#define ZR_HEADERS_NEED 4
#endif

#include <stdlib.h>
#include <string.h>

#ifdef __FAST_MATH__
#error "zeroth/elementwise.h: without -ffast-math: every device has to compute the same bits"
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define ZR_ELEMENTWISE_STATES    8
#define ZR_ELEMENTWISE_CONSTANTS 32
#define ZR_ELEMENTWISE_SUMS      4
/* Lanes of a sum: element i of a block of ZR_BLOCK is added to lane i mod 16, in order; then lanes
 * l and l + 8, l + 4, l + 2, l + 1. */
#define ZR_ELEMENTWISE_LANES 16

/* Loops over n elements. g * mult is the gradient; s[j] are the states in fp32; random has a word
 * per element, and is NULL without ZR_ELEMENTWISE_RANDOM. */
typedef void zr_elementwise_update(const float *k, int64_t n, float mult, const float *g, float *p,
				   float *const *s, const uint32_t *random);
/* sum[n_sum] becomes what n elements, at most a block, add to the sums. */
typedef void zr_elementwise_measure(const float *k, int64_t n, float mult, const float *g,
				    const float *p, float *const *s, double *sum);

/* Loops, by what they need of an x86-64 processor. NULL: none. */
#define ZR_ISA_ANY    0
#define ZR_ISA_AVX2   1 /* AVX2 and FMA */
#define ZR_ISA_AVX512 2 /* and AVX-512 F, BW, DQ and VL */
#define ZR_ISAS       4

#define ZR_ELEMENTWISE_RANDOM 1u /* update() has a fifth argument: a random word */

/* What a plugin gives zr_opt_step.elementwise. GROWABLE. All but k and sums is static. */
struct zr_elementwise {
	uint32_t size, flags;
	uint32_t n_state, n_const, n_sum;
	/* bit i: state i is never negative, and as 8 bits kept as its square root */
	uint32_t roots;
	const char *name;      /* of the plugin */
	const char *functions; /* the text of the functions at the end of this header ... */
	const char *text;      /* ... and that of the plugin, which follows it */
	zr_elementwise_update *update[ZR_ISAS];
	zr_elementwise_measure *measure[ZR_ISAS];
	/* constants that follow from the totals of a parameter; NULL without sums */
	void (*use)(float *k, const double *total);

	const float *k; /* n_const of them */
	/* [n_seg][n_sum], in the memory of the call: what each segment, at most a block, adds to
	 * the sums; nothing else is changed. NULL: the update. */
	double *sums;
};

/* A state. As 8 bits, ZR_STATE8_BYTES per block: a code per element, then an fp16 scale for each 32
 * of them (zeroth-plugin(7)); those begin with 0. FROZEN. */
struct zr_elementwise_state {
	const char *name; /* as that of struct zr_state */
	double init;
	uint32_t root; /* 1: never negative, and as 8 bits its square root is kept */
	/* since minor 5: ZR_STATE_IN_FP32 and ZR_STATE_* of <zeroth/optimizer.h>; with any of them
	 * it is kept in fp32, whatever the option `states` says */
	uint32_t rsv;
};
#define ZR_STATE_IN_FP32 0x10000u
#define ZR_STATE(name)                                                                             \
	{                                                                                          \
		name, 0, 0, 0                                                                      \
	}
#define ZR_STATE_ROOT(name)                                                                        \
	{                                                                                          \
		name, 0, 1, 0                                                                      \
	}
/* One that is kept in fp32; which also begins as the parameter; which also evaluates. */
#define ZR_STATE_F32(name)                                                                         \
	{                                                                                          \
		name, 0, 0, ZR_STATE_IN_FP32                                                       \
	}
#define ZR_STATE_PARAM(name)                                                                       \
	{                                                                                          \
		name, 0, 0, ZR_STATE_FROM_PARAM                                                    \
	}
#define ZR_STATE_EVAL(name)                                                                        \
	{                                                                                          \
		name, 0, 0, ZR_STATE_FROM_PARAM | ZR_STATE_FOR_EVAL                                \
	}
#define ZR_NO_STATE                                                                                \
	{                                                                                          \
		NULL, 0, 0, 0                                                                      \
	}
#define ZR_STATE8_BYTES (ZR_BLOCK + ZR_BLOCK / 32 * 2)

static const char *const zr_elementwise_types[]
	__attribute__((unused)) = { "fp32", "bf16", "8bit", NULL };

/* Rows of the option table: a learning rate, a number >= 0 and the type of the states. All but the
 * last may differ between parameter groups. */
#define ZR_O_PER_GROUP (ZR_O_NUMERIC | ZR_O_GROUP)
#define ZR_OPT_LR(S, def)                                                                          \
	ZR_OPT(S, lr, ZR_T_F64, ZR_O_PER_GROUP | ZR_O_SCHED, def, 0, ZR_HI, "", "Learning rate.")
#define ZR_OPT_REAL(S, f, def, doc) ZR_OPT(S, f, ZR_T_F64, ZR_O_PER_GROUP, def, 0, ZR_HI, "", doc)
#define ZR_OPT_STATES(S)                                                                           \
	ZR_OPT_ENUM(S, states, ZR_O_NUMERIC, "fp32", zr_elementwise_types,                         \
		    "Type in which the states are kept; 8bit: codes of 8 bits, and a scale per "   \
		    "32 elements.")

/* ---- the plugin around it -------------------------------------------------------- */

struct zr_elementwise_inst {
	const struct zr_host *h;
	struct zr_elementwise e;
	struct zr_state state[ZR_ELEMENTWISE_STATES];
	uint32_t flags[ZR_ELEMENTWISE_STATES];
};

/* The value of the option `states`; 0 without one. */
static inline int32_t zr_elementwise_type(const struct zr_desc *desc, const void *opts)
{
	for (uint32_t i = 0; i < desc->n_opts; i++) {
		const char *at = (const char *)desc->opts + (size_t)i * desc->opt_stride;
		const struct zr_opt *o = (const struct zr_opt *)(const void *)at;
		if (!strcmp(o->name, "states") && o->type == ZR_T_ENUM)
			return *(const int32_t *)(const void *)((const char *)opts + o->offset);
	}
	return 0;
}

static inline int zr_elementwise_create(const struct zr_host *h, const struct zr_desc *desc,
					const struct zr_elementwise *e,
					const struct zr_elementwise_state *states, const void *opts,
					struct zr_elementwise_inst **out)
{
	const int32_t chosen = zr_elementwise_type(desc, opts);
	struct zr_elementwise_inst *inst;
	uint32_t n = 0;
	for (; n < ZR_ELEMENTWISE_STATES && states[n].name; n++)
		if (states[n].rsv & ~ZR_STATE_IN_FP32 && h->abi_minor < 5)
			return zr_fail(h, ZR_ENOTSUP,
				       "state %s needs ABI 1.5, this zeroth has 1.%u: install a "
				       "newer one",
				       states[n].name, h->abi_minor);
	inst = (struct zr_elementwise_inst *)calloc(1, sizeof *inst);
	if (!inst)
		return zr_fail(h, ZR_ENOMEM, "no memory");
	inst->h = h;
	inst->e = *e;
	inst->e.name = desc->id;
	for (n = 0; n < ZR_ELEMENTWISE_STATES && states[n].name; n++) {
		struct zr_state *st = &inst->state[n];
		const int32_t type = states[n].rsv ? 0 : chosen;
		st->name = states[n].name;
		st->init = states[n].init;
		st->dtype = type == 0 ? ZR_F32 : type == 1 ? ZR_BF16 : 0;
		st->bytes_per_block = type == 2 ? ZR_STATE8_BYTES : 0;
		inst->flags[n] = states[n].rsv & ~ZR_STATE_IN_FP32;
		inst->e.roots |= (states[n].root ? 1u : 0) << n;
		if (type != 2 || states[n].init == 0)
			continue;
		free(inst);
		return zr_fail(h, ZR_EINVAL, "states = 8bit: state %s begins with %g, not with 0",
			       states[n].name, states[n].init);
	}
	if (n != e->n_state || states[n].name) {
		free(inst);
		return zr_fail(h, ZR_EINTERNAL, "states[] has %u%s states, the text %u", n,
			       states[n].name ? " or more" : "", e->n_state);
	}
	*out = inst;
	return ZR_OK;
}

/* A constant that constants() forgets is no number, and so is what is computed with it. */
static inline void zr_elementwise_unset(float *k, int n)
{
	for (int i = 0; i < n; i++)
		k[i] = __builtin_nanf("");
}

/* The update, or with sums what it needs of each segment before. */
static inline int zr_elementwise_call(const struct zr_elementwise_inst *inst,
				      const struct zr_opt_step *s, const float *k, double *sums)
{
	struct zr_elementwise e = inst->e;
	e.k = k;
	e.sums = sums;
	if (!ZR_HAS(s, struct zr_opt_step, elementwise) || !s->elementwise)
		return zr_fail(inst->h, ZR_ENOTSUP,
			       "this host and device have no elementwise updates");
	return s->elementwise(s, &e);
}

/* zeroth/states.h */
static inline int zr_elementwise_upgrade(const struct zr_elementwise_inst *inst, uint32_t from,
					 const struct zr_buf *old, uint32_t n_old,
					 const struct zr_buf *now);

/* The descriptor. C++ before 20 has designators as an extension, in the order of the struct alone:
 * those of the plugin fill one of their own. */
#ifdef __cplusplus
struct zr_elementwise_about {
	const char *id, *version, *license, *summary;
	int (*resolve)(const struct zr_host *h, const struct zr_facts *facts, void *opts);
	int (*check)(const struct zr_host *h, const void *opts);
	int (*probe)(const struct zr_host *h);
};
#define ZR_EW_DESC_(S, ...)                                                                        \
	ZR_EW_QUIET_                                                                               \
	static constexpr zr_elementwise_about zr_ew_about_ = { __VA_ARGS__ };                      \
	ZR_EW_LOUD_                                                                                \
	static const struct zr_desc zr_ew_desc_ = { sizeof(struct zr_desc),                        \
						    0,                                             \
						    "optimizer",                                   \
						    zr_ew_about_.id,                               \
						    zr_ew_about_.version,                          \
						    zr_ew_about_.license,                          \
						    zr_ew_about_.summary,                          \
						    zr_ew_ifaces_,                                 \
						    options,                                       \
						    sizeof options / sizeof *options,              \
						    sizeof *options,                               \
						    sizeof(S),                                     \
						    0,                                             \
						    zr_ew_about_.resolve,                          \
						    zr_ew_about_.check,                            \
						    zr_ew_create_,                                 \
						    zr_ew_destroy_,                                \
						    zr_ew_about_.probe };
#ifdef __clang__
#define ZR_EW_QUIET_                                                                               \
	_Pragma("clang diagnostic push") _Pragma("clang diagnostic ignored \"-Wpedantic\"")        \
		_Pragma("clang diagnostic ignored \"-Wunknown-warning-option\"")                   \
			_Pragma("clang diagnostic ignored \"-Wc++20-designator\"") _Pragma(        \
				"clang diagnostic ignored \"-Wmissing-field-initializers\"")
#define ZR_EW_LOUD_ _Pragma("clang diagnostic pop")
#else
#define ZR_EW_QUIET_                                                                               \
	_Pragma("GCC diagnostic push") _Pragma("GCC diagnostic ignored \"-Wpragmas\"")             \
		_Pragma("GCC diagnostic ignored \"-Wpedantic\"")                                   \
			_Pragma("GCC diagnostic ignored \"-Wc++20-extensions\"")                   \
				_Pragma("GCC diagnostic ignored \"-Wmissing-field-initializers\"")
#define ZR_EW_LOUD_ _Pragma("GCC diagnostic pop")
#endif
#else
#define ZR_EW_DESC_(S, ...)                                                                        \
	static const struct zr_desc zr_ew_desc_ = { .size = sizeof zr_ew_desc_,                    \
						    .role = "optimizer",                           \
						    .ifaces = zr_ew_ifaces_,                       \
						    .opts = options,                               \
						    .n_opts = sizeof options / sizeof *options,    \
						    .opt_stride = sizeof *options,                 \
						    .opts_size = sizeof(S),                        \
						    .create = zr_ew_create_,                       \
						    .destroy = zr_ew_destroy_,                     \
						    __VA_ARGS__ };
#endif

#define ZR_EW_PLUGIN_(S, need, n_run, run_names, advance, ...)                                     \
	struct zr_inst {                                                                           \
		struct zr_elementwise_inst e;                                                      \
	};                                                                                         \
	static int zr_ew_create_(const struct zr_host *h, const void *opts, struct zr_inst **out); \
	static void zr_ew_destroy_(struct zr_inst *inst)                                           \
	{                                                                                          \
		free(inst);                                                                        \
	}                                                                                          \
	static const struct zr_state *zr_ew_states_(struct zr_inst *inst, uint32_t *n)             \
	{                                                                                          \
		*n = STATES;                                                                       \
		return inst->e.state;                                                              \
	}                                                                                          \
	static uint32_t zr_ew_flags_(struct zr_inst *inst, uint32_t i)                             \
	{                                                                                          \
		return inst->e.flags[i];                                                           \
	}                                                                                          \
	static int zr_ew_step_(struct zr_inst *inst, const struct zr_opt_step *s)                  \
	{                                                                                          \
		float k[CONSTANTS + 1];                                                            \
		zr_elementwise_unset(k, CONSTANTS);                                                \
		constants((const S *)s->opts, s, k);                                               \
		return zr_elementwise_call(&inst->e, s, k, NULL);                                  \
	}                                                                                          \
	static int zr_ew_partial_(struct zr_inst *inst, const struct zr_opt_step *s, double *out)  \
	{                                                                                          \
		float k[CONSTANTS + 1];                                                            \
		zr_elementwise_unset(k, CONSTANTS);                                                \
		constants((const S *)s->opts, s, k);                                               \
		return zr_elementwise_call(&inst->e, s, k, out);                                   \
	}                                                                                          \
	static int zr_ew_upgrade_(struct zr_inst *inst, uint32_t from, const struct zr_buf *old,   \
				  uint32_t n_old, const struct zr_buf *now)                        \
	{                                                                                          \
		return zr_elementwise_upgrade(&inst->e, from, old, n_old, now);                    \
	}                                                                                          \
	static const struct zr_optimizer_v1 zr_ew_vtbl_ = { sizeof zr_ew_vtbl_,                    \
							    ZR_OPT_ELEMENTWISE,                    \
							    ZR_MEM_HOST | ZR_MEM_PINNED |          \
								    ZR_MEM_DEVICE,                 \
							    1,                                     \
							    zr_ew_sums_,                           \
							    sizeof(struct zr_state),               \
							    zr_ew_states_,                         \
							    zr_ew_step_,                           \
							    zr_ew_sums_ ? zr_ew_partial_ : NULL,   \
							    NULL,                                  \
							    zr_ew_upgrade_,                        \
							    NULL,                                  \
							    0,                                     \
							    0,                                     \
							    advance,                               \
							    zr_ew_flags_,                          \
							    run_names,                             \
							    n_run,                                 \
							    0,                                     \
							    NULL };                                \
	static const struct zr_iface zr_ew_ifaces_[] = { { "zr.optimizer/1", &zr_ew_vtbl_ },       \
							 { NULL, NULL } };                         \
	ZR_EW_DESC_(S, __VA_ARGS__)                                                                \
	static int zr_ew_create_(const struct zr_host *h, const void *opts, struct zr_inst **out)  \
	{                                                                                          \
		return zr_elementwise_create(h, &zr_ew_desc_, &zr_ew_, states, opts,               \
					     (struct zr_elementwise_inst **)(void *)out);          \
	}                                                                                          \
	ZR_PLUGIN_NEED(need, &zr_ew_desc_)

#define ZR_ELEMENTWISE_OPTIMIZER(S, ...) ZR_EW_PLUGIN_(S, 0, 0, NULL, NULL, __VA_ARGS__)

/* The same with scalars of the run (zr_optimizer_v1.advance), since minor 5. Before it stand
 *   enum { ..., RUN };                   a name for each scalar
 *   static const char *const run_names[] what checkpoints call them
 *   static void advance(const struct S *o, const struct zr_opt_update *u, double *run)
 * o are the options of the first parameter group. constants() has s->run, which advance() made for
 * this update, and s->run_before. u->sums are those of measure() over all parameters. */
#define ZR_ELEMENTWISE_RUN_OPTIMIZER(S, ...)                                                       \
	static int zr_ew_advance_(struct zr_inst *inst, const struct zr_opt_update *u,             \
				  double *run)                                                     \
	{                                                                                          \
		(void)inst;                                                                        \
		advance((const S *)u->opts[0], u, run);                                            \
		return ZR_OK;                                                                      \
	}                                                                                          \
	ZR_EW_PLUGIN_(S, 5, RUN, run_names, zr_ew_advance_, __VA_ARGS__)

/* ---- loops around the text ------------------------------------------------------- */

#ifdef __clang__
#pragma STDC FP_CONTRACT OFF
#define ZR_EW_LOOP_ _Pragma("clang loop vectorize(assume_safety)")
#elif defined(__GNUC__)
#pragma GCC optimize("O3,fp-contract=off,no-math-errno,no-trapping-math")
#define ZR_EW_LOOP_ _Pragma("GCC ivdep")
#else
#define ZR_EW_LOOP_
#endif
#define ZR_EW_STATE_(j, i) ((j) < STATES ? s##j[i] : 0)
#define ZR_EW_POINT_(j)    float *const s##j = (j) < STATES ? s[j] : NULL
#define ZR_EW_POINTERS_                                                                            \
	ZR_EW_POINT_(0);                                                                           \
	ZR_EW_POINT_(1);                                                                           \
	ZR_EW_POINT_(2);                                                                           \
	ZR_EW_POINT_(3);                                                                           \
	ZR_EW_POINT_(4);                                                                           \
	ZR_EW_POINT_(5);                                                                           \
	ZR_EW_POINT_(6);                                                                           \
	ZR_EW_POINT_(7)
#define ZR_EW_LOAD_(i)                                                                             \
	{                                                                                          \
		ZR_EW_STATE_(0, i), ZR_EW_STATE_(1, i), ZR_EW_STATE_(2, i), ZR_EW_STATE_(3, i),    \
			ZR_EW_STATE_(4, i), ZR_EW_STATE_(5, i), ZR_EW_STATE_(6, i),                \
			ZR_EW_STATE_(7, i)                                                         \
	}
#define ZR_EW_STORE_(j)                                                                            \
	if ((j) < STATES)                                                                          \
	s##j[i] = x[j]

#define ZR_EW_NEXT_(call)                                                                          \
	static inline float zr_ew_next_(const float *k, float g, float p, float *s,                \
					const uint32_t *random, int64_t i)                         \
	{                                                                                          \
		(void)random;                                                                      \
		(void)i;                                                                           \
		return call;                                                                       \
	}

#define ZR_EW_UPDATE_(name, target)                                                                \
	target static void name(const float *k, int64_t n, float mult, const float *g, float *p,   \
				float *const *s, const uint32_t *random)                           \
	{                                                                                          \
		float c[CONSTANTS + 1]; /* what is stored cannot change them */                    \
		ZR_EW_POINTERS_;                                                                   \
		for (int j = 0; j < CONSTANTS; j++)                                                \
			c[j] = k[j];                                                               \
		ZR_EW_LOOP_                                                                        \
		for (int64_t i = 0; i < n; i++) {                                                  \
			float x[ZR_ELEMENTWISE_STATES] = ZR_EW_LOAD_(i);                           \
			p[i] = zr_ew_next_(c, g[i] * mult, p[i], x, random, i);                    \
			ZR_EW_STORE_(0);                                                           \
			ZR_EW_STORE_(1);                                                           \
			ZR_EW_STORE_(2);                                                           \
			ZR_EW_STORE_(3);                                                           \
			ZR_EW_STORE_(4);                                                           \
			ZR_EW_STORE_(5);                                                           \
			ZR_EW_STORE_(6);                                                           \
			ZR_EW_STORE_(7);                                                           \
		}                                                                                  \
	}

#define ZR_EW_MEASURE_(name, target)                                                               \
	target static void name(const float *k, int64_t n, float mult, const float *g,             \
				const float *p, float *const *s, double *sum)                      \
	{                                                                                          \
		double lane[SUMS][ZR_ELEMENTWISE_LANES] = { { 0 } };                               \
		ZR_EW_POINTERS_;                                                                   \
		for (int64_t at = 0; at < n; at += ZR_ELEMENTWISE_LANES) {                         \
			const int64_t left = n - at;                                               \
			const int lanes = left < ZR_ELEMENTWISE_LANES ? (int)left :                \
									ZR_ELEMENTWISE_LANES;      \
			for (int l = 0; l < lanes; l++) {                                          \
				const int64_t i = at + l;                                          \
				float x[ZR_ELEMENTWISE_STATES] = ZR_EW_LOAD_(i);                   \
				double added[SUMS] = { 0 };                                        \
				measure(k, g[i] * mult, p[i], x, added);                           \
				for (int j = 0; j < SUMS; j++)                                     \
					lane[j][l] += added[j];                                    \
			}                                                                          \
		}                                                                                  \
		for (int j = 0; j < SUMS; j++) {                                                   \
			for (int half = ZR_ELEMENTWISE_LANES / 2; half > 0; half /= 2)             \
				for (int l = 0; l < half; l++)                                     \
					lane[j][l] += lane[j][l + half];                           \
			sum[j] = lane[j][0];                                                       \
		}                                                                                  \
	}

/* Instruction sets that this compiler makes loops for. */
#if defined(__x86_64__) && defined(__GNUC__)
#define ZR_EW_AVX2_ __attribute__((target("avx2,fma"), flatten))
#define ZR_EW_AVX512_                                                                              \
	__attribute__((target("avx2,fma,avx512f,avx512bw,avx512dq,avx512vl"), flatten))
#define ZR_EW_EACH_(LOOP, name)                                                                    \
	LOOP(name##_any, __attribute__((flatten)))                                                 \
	LOOP(name##_avx2, ZR_EW_AVX2_)                                                             \
	LOOP(name##_avx512, ZR_EW_AVX512_)
#define ZR_EW_LOOPS_(name)                                                                         \
	{                                                                                          \
		name##_any, name##_avx2, name##_avx512, NULL                                       \
	}
#else
#define ZR_EW_EACH_(LOOP, name) LOOP(name##_any, )
#define ZR_EW_LOOPS_(name)                                                                         \
	{                                                                                          \
		name##_any, NULL, NULL, NULL                                                       \
	}
#endif

#define ZR_EW_DEFINE_(bits, sums, measures, totals, words)                                         \
	enum { zr_ew_sums_ = sums };                                                               \
	static const struct zr_elementwise zr_ew_ = { sizeof(struct zr_elementwise),               \
						      bits,                                        \
						      STATES,                                      \
						      CONSTANTS,                                   \
						      sums,                                        \
						      0,                                           \
						      NULL,                                        \
						      zr_elementwise_functions,                    \
						      words,                                       \
						      ZR_EW_LOOPS_(zr_ew_update),                  \
						      measures,                                    \
						      totals,                                      \
						      NULL,                                        \
						      NULL };                                      \
	typedef char zr_ew_at_most_8_states_[STATES <= ZR_ELEMENTWISE_STATES ? 1 : -1];            \
	typedef char zr_ew_at_most_32_constants_[CONSTANTS <= ZR_ELEMENTWISE_CONSTANTS ? 1 : -1];  \
	typedef char zr_ew_at_most_4_sums_[(sums) <= ZR_ELEMENTWISE_SUMS ? 1 : -1];

#define ZR_EW_NONE_                                                                                \
	{                                                                                          \
		NULL, NULL, NULL, NULL                                                             \
	}

#define ZR_ELEMENTWISE(...)                                                                        \
	__VA_ARGS__                                                                                \
	ZR_EW_NEXT_(update(k, g, p, s))                                                            \
	ZR_EW_EACH_(ZR_EW_UPDATE_, zr_ew_update)                                                   \
	ZR_EW_DEFINE_(0, 0, ZR_EW_NONE_, NULL, #__VA_ARGS__)

/* The same for
 *   static float update(const float *k, float g, float p, float *s, uint32_t random)
 * random: 32 random bits, which depend on the seed of the run, the step, the parameter and the
 * element alone: word (e mod 4) of the stream of struct zr_rng (<zeroth/parameters.h>) with this
 * seed and step, the number of the parameter as its slot, and the site 0xfffffffd. */
#define ZR_ELEMENTWISE_WITH_RANDOM(...)                                                            \
	__VA_ARGS__                                                                                \
	ZR_EW_NEXT_(update(k, g, p, s, random[i]))                                                 \
	ZR_EW_EACH_(ZR_EW_UPDATE_, zr_ew_update)                                                   \
	ZR_EW_DEFINE_(ZR_ELEMENTWISE_RANDOM, 0, ZR_EW_NONE_, NULL, #__VA_ARGS__)

/* The same for an update by sums over its whole parameter, such as norms. The text has also
 *   enum { ..., SUMS };  a name for each sum; at most 4
 *   static void measure(const float *k, float g, float p, const float *s, double *sum)
 *   static void use(float *k, const double *total)
 * measure() sets sum[SUMS] to what this element adds, from the states before the update. Then use()
 * gets the totals over the parameter, exact but for one rounding, and sets constants that depend on
 * them; update() comes after it. */
#define ZR_ELEMENTWISE_WITH_SUMS(...)                                                              \
	__VA_ARGS__                                                                                \
	ZR_EW_NEXT_(update(k, g, p, s))                                                            \
	ZR_EW_EACH_(ZR_EW_UPDATE_, zr_ew_update)                                                   \
	ZR_EW_EACH_(ZR_EW_MEASURE_, zr_ew_measure)                                                 \
	ZR_EW_DEFINE_(0, SUMS, ZR_EW_LOOPS_(zr_ew_measure), use, #__VA_ARGS__)

/* The same for an update that needs the sums over all parameters alone, in advance(): measure()
 * without use(). Since minor 5, with ZR_ELEMENTWISE_RUN_OPTIMIZER. */
#define ZR_ELEMENTWISE_WITH_TOTALS(...)                                                            \
	__VA_ARGS__                                                                                \
	ZR_EW_NEXT_(update(k, g, p, s))                                                            \
	ZR_EW_EACH_(ZR_EW_UPDATE_, zr_ew_update)                                                   \
	ZR_EW_EACH_(ZR_EW_MEASURE_, zr_ew_measure)                                                 \
	static void use(float *k, const double *total)                                             \
	{                                                                                          \
		(void)k;                                                                           \
		(void)total;                                                                       \
	}                                                                                          \
	ZR_EW_DEFINE_(0, SUMS, ZR_EW_LOOPS_(zr_ew_measure), use,                                   \
		      #__VA_ARGS__ "\nstatic void use(float *k, const double *total) "             \
				   "{ (void)k; (void)total; }\n")

/* The same for both. */
#define ZR_ELEMENTWISE_WITH_SUMS_AND_RANDOM(...)                                                   \
	__VA_ARGS__                                                                                \
	ZR_EW_NEXT_(update(k, g, p, s, random[i]))                                                 \
	ZR_EW_EACH_(ZR_EW_UPDATE_, zr_ew_update)                                                   \
	ZR_EW_EACH_(ZR_EW_MEASURE_, zr_ew_measure)                                                 \
	ZR_EW_DEFINE_(ZR_ELEMENTWISE_RANDOM, SUMS, ZR_EW_LOOPS_(zr_ew_measure), use, #__VA_ARGS__)

/* ---- functions that a text may call ---------------------------------------------- */

#define ZR_FN static inline __attribute__((unused))

/* Correctly rounded. `const`, so that it needs no errno and a loop of it becomes vectors. */
#if defined(__cplusplus) || !defined(__GNUC__)
ZR_FN float zr_sqrt(float x)
{
	return __builtin_sqrtf(x);
}
ZR_FN double zr_sqrt64(double x)
{
	return __builtin_sqrt(x);
} /* for use() */
#else
extern float sqrtf(float) __attribute__((const));
extern double sqrt(double) __attribute__((const));
ZR_FN float zr_sqrt(float x)
{
	return sqrtf(x);
}
ZR_FN double zr_sqrt64(double x)
{
	return sqrt(x);
}
#endif

/* Numbers as bits. */
ZR_FN uint32_t zr_bits_of(float x)
{
	uint32_t u;
	__builtin_memcpy(&u, &x, sizeof u);
	return u;
}
ZR_FN float zr_float_of(uint32_t u)
{
	float x;
	__builtin_memcpy(&x, &u, sizeof x);
	return x;
}

#define ZR_EW_TEXT_(name, ...)                                                                     \
	__VA_ARGS__                                                                                \
	static const char name[] __attribute__((unused)) = #__VA_ARGS__;

ZR_EW_TEXT_(
	zr_elementwise_functions,
	/* |x| */
	ZR_FN float zr_abs(float x) { return zr_float_of(zr_bits_of(x) & 0x7fffffffu); }
	/* b where they do not compare */
	ZR_FN float zr_min(float a, float b) {
		return a < b ? a : b;
	} ZR_FN float zr_max(float a, float b) { return a > b ? a : b; }
	/* 1, -1, or x where it is 0 or no number */
	ZR_FN float zr_sign(float x) {
		float one = zr_float_of((zr_bits_of(x) & 0x80000000u) | 0x3f800000u);
		return zr_abs(x) > 0 ? one : x;
	}
	/* in [0, 1), a multiple of 2^-24 */
	ZR_FN float zr_uniform(uint32_t random) {
		return (float)(int32_t)(random >> 8) * 5.96046448e-08f;
	}
	/* exp(x), within 2 units of the last place; 0 where it would be subnormal */
	ZR_FN float zr_exp(float x) {
		float c = x > 89.0f ? 89.0f : x;
		float big = c * 1.44269502f + 12582912.0f;
		float n = big - 12582912.0f;
		int32_t e = (int32_t)(zr_bits_of(big) - 0x4b400000u);
		float r = (c - n * 0.693145752f) - n * 1.42860677e-06f;
		float q = 0.00138143206f * r + 0.00836885069f;
		q = q * r + 0.0416684002f;
		q = q * r + 0.166665196f;
		q = q * r + 0.49999994f;
		q = ((q * (r * r) + r) + 1.0f) * zr_float_of((uint32_t)((e >> 1) + 127) << 23);
		q = q * zr_float_of((uint32_t)(e - (e >> 1) + 127) << 23);
		return x < -87.33f ? 0.0f : q;
	})

/* On the host, for constants(): n numbers rounded; x to the power of n >= 0, the same bits
 * everywhere. */
ZR_FN void zr_round(const double *from, int n, float *k)
{
	for (int i = 0; i < n; i++)
		k[i] = (float)from[i];
}
ZR_FN double zr_power(double x, int64_t n)
{
	double y = 1;
	for (; n > 0; n >>= 1, x *= x)
		if (n & 1)
			y *= x;
	return y;
}

#ifdef __cplusplus
}
#endif

#include <zeroth/states.h>
#endif
