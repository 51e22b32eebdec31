/* SPDX-License-Identifier: Apache-2.0
 *
 * zeroth/plugin.h - what every Zeroth plugin shares: the entry symbol and its handshake, the
 * descriptor, the option table, the services of the host, error codes and log levels.
 *
 * Needs libc headers only. A plugin links nothing of Zeroth: services arrive as function pointers.
 *
 * Struct rules. GROWABLE structs start with `uint32_t size`, set by whoever fills the struct, and
 * only ever gain members at their end; read newer members through ZR_HAS. FROZEN structs never
 * change. All text is UTF-8. Constants are never renumbered.
 *
 * Thread tags, one per function:
 *   [main]  the control thread of a rank; may block and allocate
 *   [step]  the training thread of a rank; must not block on I/O nor allocate
 *   [any]   thread-safe, callable from any thread
 *   [pure]  no side effect, no thread, no memory kept; may be called without an instance
 * [main] and [step] are guards, not threads: one instance is never entered twice at once.
 *
 * Life of a plugin: entry read as data -> resolve -> check -> create -> calls of its role ->
 * destroy. destroy is not called after a create that failed. A plugin never exits, aborts, prints,
 * forks, installs signal handlers, blocks signals, sets timers, or changes locale, working
 * directory, environment, limits, the processors of a thread or the floating-point mode. It is
 * loaded once and never unloaded.
 *
 * Ranks may be threads of one process, each with instances of its own that are called at the same
 * time: static memory is shared by all of them, so no call keeps there what it computes with. What
 * optimizers, schedulers, precisions, policies of activations, stages, data, models, adapters and
 * devices return follows from options and arguments alone, not from zr_host.workers, the time, the
 * environment, the process or the processor.
 */
#ifndef ZEROTH_PLUGIN_H
#define ZEROTH_PLUGIN_H

#include <float.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#define ZR_EXTERN extern "C"
#else
#define ZR_EXTERN extern
#endif

#define ZR_ABI_MAJOR 1
#define ZR_ABI_MINOR 5

/* Headers of draft roles change: each role's have a revision. A plugin that includes some carries
 * their numbers. Its draft interfaces work in a host with the same numbers only, for what it
 * includes; so do its stable ones, unless it defines ZR_DRAFT_OPTIONAL before it includes any
 * header: in a host with other numbers they work too, and what draft headers declare, such as `ops`
 * of zr_opt_step, is NULL there. */
#define ZR_DRAFT_BOOT       10
#define ZR_DRAFT_COMM       10
#define ZR_DRAFT_DEVICE     10 /* device, parameters, experts and array */
#define ZR_DRAFT_MODEL      10
#define ZR_DRAFT_OFFLOAD    10
#define ZR_DRAFT_ACTIVATION 10
#define ZR_DRAFT_LOOK       10
/* Rises with any of them: what plugins of minors before 5 carry for all. */
#define ZR_DRAFT_REVISION 10

#define ZR_MAGIC 0x5a525031u

/* True if whoever filled *p knew member f. */
#define ZR_HAS(p, T, f) ((p) && (p)->size >= offsetof(T, f) + sizeof((p)->f))

/* Return codes. 0 is success, failures are negative; a code unknown to the reader means
 * ZR_EINTERNAL. The text of a failure goes through zr_fail(), once, where it was decided. */
#define ZR_OK        0
#define ZR_EAGAIN    (-1)  /* back-pressure: try again after completing something; not a failure */
#define ZR_EINVAL    (-2)  /* bad configuration or input */
#define ZR_ENOTSUP   (-3)  /* not supported by this plugin */
#define ZR_ENOMEM    (-4)  /* memory refused by the system */
#define ZR_EIO       (-5)  /* file or device error */
#define ZR_EPEER     (-6)  /* another rank failed */
#define ZR_ESTATE    (-7)  /* called in the wrong order */
#define ZR_EINTERNAL (-8)  /* a defect */
#define ZR_EFIT      (-9)  /* does not fit the memory at hand */
#define ZR_ENUMERIC  (-10) /* non-finite numbers stopped the run */

/* Log levels. */
#define ZR_LOG_ERROR 0
#define ZR_LOG_WARN  1
#define ZR_LOG_INFO  2
#define ZR_LOG_DEBUG 3

/* The target of a row of a batch that is no token of the data: it fills a sequence up, and the
 * losses of a mixture's routers do not count it. */
#define ZR_PADDING (-2)

/* Element types. */
#define ZR_F32  1
#define ZR_BF16 2
#define ZR_F16  3
#define ZR_F64  4
#define ZR_I32  5
#define ZR_I64  6
#define ZR_U8   7
/* Types of whole blocks of ZR_BLOCK elements, whose bytes are all codes of a block, then an fp32
 * scale for each 64 elements. Of 64 elements x, the largest magnitude a:
 *   ZR_NF4   4 bits, the first of two elements in the high ones: the nearest of 16 values,
 *            quantiles of a normal distribution (Dettmers et al., arXiv 2305.14314), to x *
 *            (1 / a); scale a; element = value * a. The codes of bitsandbytes.
 *   ZR_INT8  bytes, x / s to the nearest, ties to even; scale s = a / 127; element = code * s
 * What came out of them in fp32 goes in again with the same bytes. */
#define ZR_NF4  8 /* 1152 bytes */
#define ZR_INT8 9 /* 2176 bytes */
/* A type for what ranks send each other: all codes of a block, then a scale of a byte for each 32
 * elements, MXINT8 of the OCP Microscaling Formats specification (version 1.0). Of 32 elements the
 * largest magnitude is 2^e and more, below 2^(e + 1): scale e + 127; codes x / 2^(e - 6) to the
 * nearest, ties to even, at most 127 in magnitude; element = code * 2^(e - 6). Magnitudes below
 * 2^-120 are 0; of elements one of which is Inf or NaN all become NaN, scale 255. What came out,
 * in fp32 or bf16, goes in again with the same bytes. The last block of an array may have fewer
 * elements: it is as long, and what lacks counts as 0. */
#define ZR_MXINT8 10 /* 2112 bytes */

/* Kinds of memory, as bits. */
#define ZR_MEM_HOST   1u
#define ZR_MEM_PINNED 2u
#define ZR_MEM_DEVICE 4u

/* Elements of a block: every tensor starts on a block, and shards, norms and objects on disk
 * consist of whole blocks. */
#define ZR_BLOCK 2048

/* Bytes of n elements of a type: whole blocks where it is a type of blocks. 0: there is no such
 * type. */
static inline uint64_t zr_bytes_of(int32_t dtype, int64_t n)
{
	switch (dtype) {
	case ZR_U8:
		return (uint64_t)n;
	case ZR_BF16:
	case ZR_F16:
		return (uint64_t)n * 2;
	case ZR_F32:
	case ZR_I32:
		return (uint64_t)n * 4;
	case ZR_F64:
	case ZR_I64:
		return (uint64_t)n * 8;
	case ZR_NF4:
		return (uint64_t)(n / ZR_BLOCK) * 1152;
	case ZR_INT8:
		return (uint64_t)(n / ZR_BLOCK) * 2176;
	case ZR_MXINT8:
		return (uint64_t)((n + ZR_BLOCK - 1) / ZR_BLOCK) * 2112;
	default:
		return 0;
	}
}

struct zr_inst; /* an instance of a plugin: the plugin's own, opaque to everyone else */

/* ---- services of the host --------------------------------------------------------
 * GROWABLE. Each instance has one of its own, valid until its destroy returned. */
struct zr_host {
	uint32_t size;
	uint32_t abi_minor;
	void *impl;          /* the host's own */
	int32_t rank, world; /* this process among all training processes */
	int32_t local_rank, local_world;
	int32_t workers; /* threads that parallel() uses, the caller included */
	int32_t rsv;
	/* directory for files of this run: monitors have it; NULL for roles that begin before it is
	 * there, and where there is no run */
	const char *run_dir;

	/* [any] One line of log, without newline; copied. */
	void (*log)(const struct zr_host *h, int32_t level, const char *msg);

	/* Records why the current call fails (copied; the last text counts) and returns `code`. For
	 * the thread that the host called; a function of parallel() keeps its code for that one. */
	int (*fail)(const struct zr_host *h, int32_t code, const char *msg);

	/* [main] `bytes` of zeroed memory, 64-byte aligned, counted on the account `what` ("data",
	 * "workspace", ...: borrowed, static). NULL if refused. Owned by the caller until
	 * release(). */
	void *(*alloc)(const struct zr_host *h, uint64_t bytes, const char *what);
	void (*release)(const struct zr_host *h, void *p); /* [main] p may be NULL */

	/* [step] Calls fn(arg, item, worker) once for every item in [0, n) on the host's threads,
	 * worker in [0, workers), and returns when all are done. Which worker gets which item
	 * varies: results must not depend on it. fn never calls parallel(), nor anything of another
	 * plugin, which may. Threads have the stacks that the system gives (ulimit -s), which are
	 * shared by all roles: large arrays belong into memory of alloc(). The only thread pool
	 * that a plugin may use. */
	void (*parallel)(const struct zr_host *h, int64_t n,
			 void (*fn)(void *arg, int64_t item, int32_t worker), void *arg);

	/* [main] The functions of another role's interface and, in *inst, their instance; NULL if
	 * the host does not offer it, or not yet. Each role gets what it needs, and no more:
	 *   comm     "zr.boot/1", "zr.device/1"
	 *   data     "zr.data/1:NAME" for each section [data.NAME], which gets none itself
	 *   adapter  "zr.model/1", "zr.pretrained/1"
	 * All outlive the caller's instance. Any other role gets NULL, and a warning names it and
	 * what it asked for. A failure of theirs may be passed on without a text. */
	const void *(*get)(const struct zr_host *h, const char *iface, struct zr_inst **inst);
};

/* ---- options ---------------------------------------------------------------------
 * One table drives INI parsing, validation, `zeroth plugin info`, the man page and what a
 * checkpoint records. The host writes each parsed value into the plugin's options struct. */
#define ZR_T_BOOL  1  /* uint8_t; yes|no|true|false|on|off|1|0 */
#define ZR_T_I64   2  /* int64_t */
#define ZR_T_F64   3  /* double; NaN and infinities are refused */
#define ZR_T_STR   4  /* const char *, owned by the host */
#define ZR_T_ENUM  5  /* int32_t: index into `choices` */
#define ZR_T_BYTES 6  /* uint64_t; suffixes K M G T are powers of 1024 */
#define ZR_T_PATH  7  /* const char *, owned by the host; relative to the working directory */
#define ZR_T_COUNT 8  /* uint64_t; 5e8 is allowed */
#define ZR_T_F64S  9  /* double[width / 8]: exactly that many, separated by commas or blanks */
#define ZR_T_GLOBS 10 /* const char *: patterns separated by blanks, kept as text */

#define ZR_O_REQUIRED   1u  /* no default: the user must give it */
#define ZR_O_MIN_OPEN   2u  /* min itself is excluded */
#define ZR_O_MAX_OPEN   4u  /* max itself is excluded */
#define ZR_O_AUTO       8u  /* accepts `auto`: stored as ZR_AUTO_*, then filled by resolve() */
#define ZR_O_SCHED      16u /* a scheduler may drive it */
#define ZR_O_GROUP      32u /* may differ between parameter groups */
#define ZR_O_NUMERIC    64u /* changes results: equal on all ranks */
#define ZR_O_DEPRECATED 128u
/* resolve() may leave it `auto`: then each call decides, by the parameter group it is for, for
 * example. */
#define ZR_O_STAYS_AUTO 256u

#define ZR_AUTO_I64   INT64_MIN
#define ZR_AUTO_COUNT UINT64_MAX /* also BYTES */
#define ZR_AUTO_ENUM  (-1)
/* `auto` of an F64 is NaN, which no user can give; of an F64S, NaN in its first element. */

/* GROWABLE through zr_desc.opt_stride. All pointers are static. */
struct zr_opt {
	const char *name;
	const char *def;            /* INI text, parsed like a user's; NULL with ZR_O_REQUIRED */
	const char *doc;            /* one sentence */
	const char *unit;           /* "s", "tokens", ...; "" if none */
	const char *const *choices; /* ZR_T_ENUM: NULL-terminated */
	double min, max;            /* allowed range of numbers (of each element of a list) */
	int32_t type;
	uint32_t flags;
	/* where the host stores the value: bytes in the options struct */
	uint32_t offset, width;
};
#define ZR_LO (-DBL_MAX) /* no lower limit */
#define ZR_HI DBL_MAX    /* no upper limit */

/* ZR_OPT(struct my_opts, lr, ZR_T_F64, ZR_O_SCHED, "1e-3", 0, ZR_HI, "", "Learning rate.")
 * In C11 a type that is not that of the member does not compile. */
#define ZR_OPT(S, f, T, flags, def, min, max, unit, doc)                                           \
	{                                                                                          \
#f, def, doc, unit, NULL, min, max, T, flags, (uint32_t)offsetof(S, f),            \
			ZR_OPT_WIDTH_(S, f, T)                                                     \
	}
#define ZR_OPT_ENUM(S, f, flags, def, choices, doc)                                                \
	{                                                                                          \
#f, def, doc, "", choices, 0, 0, ZR_T_ENUM, flags, (uint32_t)offsetof(S, f),       \
			ZR_OPT_WIDTH_(S, f, ZR_T_ENUM)                                             \
	}
#if defined(__cplusplus) || __STDC_VERSION__ < 201112L
#define ZR_OPT_WIDTH_(S, f, T) (uint32_t)sizeof(((S *)0)->f)
#else
#define ZR_OPT_SUITS_(member, T)                                                                   \
	_Generic((member), uint8_t: (T) == ZR_T_BOOL, int32_t: (T) == ZR_T_ENUM,                \
		 int64_t: (T) == ZR_T_I64,                                                     \
		 uint64_t: (T) == ZR_T_COUNT || (T) == ZR_T_BYTES, double: (T) == ZR_T_F64,     \
		 double *: (T) == ZR_T_F64S,                                                   \
		 const char *: (T) == ZR_T_STR || (T) == ZR_T_PATH || (T) == ZR_T_GLOBS,       \
		 default: 1) /* by its width alone */
#define ZR_OPT_WIDTH_(S, f, T)                                                                     \
	(uint32_t)(sizeof(((S *)0)->f) +                                                           \
		   0 * sizeof(struct {                                                             \
			   _Static_assert(ZR_OPT_SUITS_(((S *)0)->f, T),                           \
					  "option " #f ": its type is not that of the member");    \
			   char unused;                                                            \
		   }))
#endif

/* What resolve() knows when it turns `auto` into a value. GROWABLE. A fact that is not known yet is
 * 0; an unknown lr is NaN, because 0 is a valid learning rate. */
struct zr_facts {
	uint32_t size;
	int32_t world;
	/* threads of this rank or, before they exist, its share of the machine's processors */
	int32_t workers;
	int32_t rsv;
	int64_t vocabulary;      /* number of different tokens that the data can hold */
	int64_t sequence_length; /* tokens per training sequence */
	int64_t steps;           /* optimizer steps of the run */
	/* base learning rate of all parameter groups; NaN also if they differ */
	double lr;
	uint64_t memory;      /* bytes of host memory this rank may use */
	int64_t parameters;   /* elements of all units, padding included */
	int64_t largest_unit; /* elements of the largest one */
	int64_t typical_unit; /* elements of the median unit: in a transformer, one block */
	/* How many layers before its use a split unit should be gathered: one for each transfer
	 * that the gather consists of, for example from disk, to the device, and between the
	 * ranks. */
	int32_t gather_legs;
	int32_t evaluates; /* data: 1: nothing is learned from it, all of it is held out */
	/* data: special tokens that the model's tokenizer gets beside those of its file, separated
	 * by blanks, and their ids: data that reads a tokenizer adds them, too, and refuses one
	 * where they have others. NULL: none; ids NULL: not known. Valid as long as the options. */
	const char *added_tokens;
	const int32_t *added_ids;
};

/* ---- descriptor and entry: constant data, read before any function is called ----- */

/* An interface of a role: id "zr.optimizer/1" and its table of functions. FROZEN. */
struct zr_iface {
	const char *id;
	const void *vtbl;
};

/* GROWABLE. */
struct zr_desc {
	uint32_t size;
	uint32_t flags;                /* 0; a host refuses what it does not know */
	const char *role;              /* "optimizer": INI section and directory */
	const char *id;                /* "adamw": [a-z0-9_-]+, equal to the file's name */
	const char *version;           /* of the plugin */
	const char *license;           /* SPDX */
	const char *summary;           /* one line */
	const struct zr_iface *ifaces; /* ends with {NULL, NULL} */
	const struct zr_opt *opts;     /* n_opts entries, opt_stride bytes apart */
	uint32_t n_opts, opt_stride;
	uint32_t opts_size; /* bytes of the options struct, at least 1 if n_opts > 0 */
	uint32_t rsv;

	/* (optional) [pure] Replaces ZR_AUTO_* values in opts, and applies presets. Fails with a
	 * text. */
	int (*resolve)(const struct zr_host *h, const struct zr_facts *facts, void *opts);
	/* (optional) [pure] Rules between options. Fails with a text. */
	int (*check)(const struct zr_host *h, const void *opts);
	/* [main] Makes an instance, which the caller owns until destroy. opts and h outlive it. */
	int (*create)(const struct zr_host *h, const void *opts, struct zr_inst **out);
	void (*destroy)(struct zr_inst *inst); /* [main] */

	/* since minor 2 */
	/* (optional) [main] Fails with a text if this machine lacks what create() needs with any
	 * options, such as a driver. Only `zeroth plugin list` calls it. */
	int (*probe)(const struct zr_host *h);
};

/* GROWABLE, but for magic before size. */
struct zr_entry {
	uint32_t magic, size;
	uint16_t abi_major;  /* must equal the host's */
	uint16_t abi_minor;  /* the minor that it was built with */
	uint16_t need_minor; /* the least minor of a host that can load it */
	uint16_t rsv;
	/* 0, or the ZR_DRAFT_REVISION of the draft headers it was built with */
	uint32_t draft;
	uint32_t flags;                     /* ZR_ENTRY_*; a host refuses what it does not know */
	const char *build;                  /* compiler and the like: printed, never compared */
	const struct zr_desc *const *descs; /* ends with NULL */
	/* since minor 5 */
	/* [n_drafts] the revision of the draft headers of each role, in the order of ZR_DRAFT_BOOT
	 * to ZR_DRAFT_LOOK, that it was built with; 0: it includes none of them */
	const uint32_t *drafts;
	uint32_t n_drafts, rsv2;
};
#define ZR_DRAFTS 7

#define ZR_ENTRY_DRAFT_OPTIONAL 1u /* it works in a host of another draft revision */

/* Headers of draft roles redefine these to ZR_DRAFT_REVISION and to their own. */
#define ZR_DRAFT_USED      0u
#define ZR_USES_BOOT       0u
#define ZR_USES_COMM       0u
#define ZR_USES_DEVICE     0u
#define ZR_USES_MODEL      0u
#define ZR_USES_OFFLOAD    0u
#define ZR_USES_ACTIVATION 0u
#define ZR_USES_LOOK       0u
#ifdef ZR_DRAFT_OPTIONAL
#define ZR_ENTRY_FLAGS ZR_ENTRY_DRAFT_OPTIONAL
#else
#define ZR_ENTRY_FLAGS 0u
#endif

/* Headers of roles that were not stable from the first minor on raise this to that which made them
 * so: older hosts call these roles otherwise. */
#define ZR_HEADERS_NEED 0

/* The one exported symbol, last in the file:  ZR_PLUGIN(&my_desc);  A plugin that cannot do without
 * a member, function or constant that came with minor m says so: ZR_PLUGIN_NEED(m, &my_desc);
 * Older hosts refuse it, and say which minor it needs. */
#define ZR_PLUGIN(...) ZR_PLUGIN_NEED(0, __VA_ARGS__)
#define ZR_PLUGIN_NEED(minor, ...)                                                                 \
	static const struct zr_desc *const zr_descs__[] = { __VA_ARGS__, NULL };                   \
	static const uint32_t zr_drafts__[] = {                                                    \
		ZR_USES_BOOT,    ZR_USES_COMM,       ZR_USES_DEVICE, ZR_USES_MODEL,                \
		ZR_USES_OFFLOAD, ZR_USES_ACTIVATION, ZR_USES_LOOK                                  \
	};                                                                                         \
	ZR_EXTERN __attribute__((visibility("default"))) const struct zr_entry zr_plugin_entry_v1; \
	const struct zr_entry zr_plugin_entry_v1 = { ZR_MAGIC,                                     \
						     sizeof(struct zr_entry),                      \
						     ZR_ABI_MAJOR,                                 \
						     ZR_ABI_MINOR,                                 \
						     (minor) > ZR_HEADERS_NEED ? (minor) :         \
										 ZR_HEADERS_NEED,  \
						     0,                                            \
						     ZR_DRAFT_USED,                                \
						     ZR_ENTRY_FLAGS,                               \
						     __VERSION__,                                  \
						     zr_descs__,                                   \
						     zr_drafts__,                                  \
						     ZR_DRAFTS,                                    \
						     0 }

/* ---- conveniences ---------------------------------------------------------------- */

/* [any] printf-like fail(): return zr_fail(h, ZR_EINVAL, "heads %d does not divide width %d", h,
 * w); */
static inline int zr_fail(const struct zr_host *h, int code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4), unused));
static inline int zr_fail(const struct zr_host *h, int code, const char *fmt, ...)
{
	char msg[1024];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(msg, sizeof msg, fmt, ap);
	va_end(ap);
	return (h->fail)(h, code, msg); /* the parentheses avoid test frameworks' macros fail() */
}

/* [any] printf-like log(). */
static inline void zr_log(const struct zr_host *h, int level, const char *fmt, ...)
	__attribute__((format(printf, 3, 4), unused));
static inline void zr_log(const struct zr_host *h, int level, const char *fmt, ...)
{
	char msg[1024];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(msg, sizeof msg, fmt, ap);
	va_end(ap);
	(h->log)(h, level, msg);
}

#ifdef __cplusplus
}
#endif
#endif
