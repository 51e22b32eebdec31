/* SPDX-License-Identifier: Apache-2.0
 *
 * check.h - what the tests of `zeroth plugin check` share. Each test runs in a process of its own,
 * which ends where it fails: no function below returns after a failure. The verdict lies in memory
 * that the process which waits for it reads.
 */
#ifndef ZR_CMD_CHECK_H
#define ZR_CMD_CHECK_H

#include "core/plugin/loader.h"
#include "core/config/options.h"
#include "core/base/pool.h"

/* Untested: the machine lacks what the test needs, which says nothing about the plugin. */
enum { ZR_CHECK_RUNS, ZR_CHECK_PASSED, ZR_CHECK_FAILED, ZR_CHECK_SKIPPED, ZR_CHECK_UNTESTED };

struct zr_verdict {
	volatile int state;
	char plugin[128]; /* "optimizer/adamw", once it is loaded */
	char role[32];
	char function[64]; /* of the plugin that runs, or ran last; "": none yet */
	char text[1600];
};

#define ZR_CHECK_AREAS 64

/* What of the process a plugin must leave as it is. */
struct zr_process_state {
	char cwd[512], locale[256];
	uint64_t environment, handlers, timers, blocked, processors, limits;
	int files, threads;
};

/* Memory that is lent to the plugin, between pages that nobody may touch. */
struct zr_area {
	const char *name;
	char *base, *map;
	uint64_t bytes, mapped;
	int access; /* PROT_*: what the plugin may do */
};

/* Thread tags, as plugin.h has them. */
enum { ZR_PURE, ZR_MAIN, ZR_STEP };

struct zr_try;
struct zr_other;
enum { ZR_OTHER_DEVICE, ZR_OTHER_SCALAR, ZR_OTHER_MODEL, ZR_OTHERS };

struct zr_check {
	struct zr_verdict *verdict;
	struct zr_verdict *told;  /* of a copy: where its verdict is told when it ends the test */
	const char *when;         /* what a failure begins with; NULL: nothing */
	const char *path;         /* of the file, absolute */
	const char *const *given; /* [n_given] "key=value" over the defaults */
	int n_given;
	const char *scratch;            /* a directory of the test's own */
	double timeout;                 /* seconds that a test may take */
	const struct zr_plugin *plugin; /* NULL before it is loaded */
	const void *vtbl;               /* of the interface of its role */
	struct zr_pool *pool;           /* three threads */
	int deals; /* 1: items of parallel() are dealt out, from last to first */
	struct zr_area area[ZR_CHECK_AREAS];
	int n_areas;
	int tag; /* of the function that runs */
	int64_t calls;
	struct zr_process_state before; /* the call that runs */
	void (*entering)(void); /* called before each call of the plugin; NULL: nothing is */
	uint64_t seed;          /* other values are computed with another one */
	struct zr_other *other[ZR_OTHERS]; /* others.c: those that are open */
	int output[2];                     /* where standard output and error go */
	uint64_t grown; /* bytes that structs of the host have behind those of today */
	uint32_t minor; /* of the host; less than today's: its structs end earlier */
	/* what host->get gives: zr_check_offer */
	const void *(*offer)(struct zr_try *t, const char *iface, struct zr_inst **inst);
};

struct zr_test {
	const char *name, *role; /* role NULL: of every plugin */
	void (*run)(struct zr_check *c);
	const char *says; /* one sentence */
	int unloaded;     /* 1: it looks at the file alone */
};
extern const struct zr_test zr_tests[]; /* ends with name NULL */

/* ---- verdict.c ---- */
void zr_check_fail(struct zr_check *c, const char *fmt, ...)
	__attribute__((format(printf, 2, 3), noreturn));
void zr_check_skip(struct zr_check *c, const char *why) __attribute__((noreturn));
/* Ends it untested: there is no `what`, as errno says. */
void zr_check_lacks(struct zr_check *c, const char *what) __attribute__((noreturn));
/* Whether the kernel has ended a process with this status for memory. Counted from the first call
 * on, which is that of the command. */
int zr_check_starved(int status);
/* The machine has refused memory that it could hold: what fails from here on is not blamed on the
 * plugin. */
void zr_check_missed_memory(void);
/* Ends it untested where no more file can be opened. */
void zr_check_has_file(struct zr_check *c);
/* Threads for the test, or it ends untested. */
void zr_check_pool(struct zr_check *c, int threads, struct zr_pool **pool);
/* Standard output and standard error become files that zr_check_quiet() looks at. */
void zr_check_catch_output(struct zr_check *c);
void zr_check_pass(struct zr_check *c) __attribute__((noreturn));
void zr_check_end(struct zr_check *c, int state) __attribute__((noreturn)); /* its text is there */

/* *copy becomes the same test with so many threads of its own, and nothing lent or open yet. Calls
 * by it do not look at the process, so that a thread of its own may make them. */
void zr_check_copy(struct zr_check *c, int threads, struct zr_check *copy);

/* The function that a failure names from now on. */
void zr_blame(struct zr_check *c, const char *function);
/* Nothing was printed, and the floating-point mode is as it was. */
void zr_check_quiet(struct zr_check *c);
/* Before and after each call of the plugin: what it changed is a failure. */
void zr_enter(struct zr_check *c, int tag, const char *function);
int zr_left(struct zr_check *c, int rc);
#define ZR_CALL(c, tag, function, call)      zr_left(c, (zr_enter(c, tag, function), (call)))
#define ZR_CALL_VOID(c, tag, function, call) (zr_enter(c, tag, function), (call), zr_left(c, 0))

/* ---- crashes.c ---- */
/* Crashes from now on say what the plugin did. */
void zr_check_catch(struct zr_check *c);

/* ---- process.c ---- */
void zr_process_look(struct zr_process_state *s);
/* How much must be alike: open files too, unless it is a call that may open some; threads too,
 * unless they may move data. */
enum { ZR_ANY_CALL, ZR_STEP_CALL, ZR_NO_THREAD };
/* What differs, for people; NULL: nothing. */
const char *zr_process_differs(const struct zr_process_state *a, const struct zr_process_state *b,
			       int strictness);

/* ---- areas.c ---- */
/* Zeroed bytes that end where the next page may not be touched, aligned to `align`. */
void *zr_area_new(struct zr_check *c, const char *name, uint64_t bytes, uint64_t align);
void zr_area_free(struct zr_check *c, const void *base);
void zr_area_protect(struct zr_check *c, const void *base, int read_only);
void zr_area_hide(struct zr_check *c, const void *base); /* as memory of a device */
/* The area that an address belongs to, or is next to; NULL: none. */
const struct zr_area *zr_area_near(const struct zr_check *c, const void *at);
/* A struct of the host of `size` bytes: as the plugin sees it from a host of c->minor, where it
 * ends after `minor_size` bytes, or from a later one, c->grown bytes longer. The first member is
 * its size. To be given back by zr_area_free. */
void *zr_lend(struct zr_check *c, const char *name, const void *from, uint32_t size,
	      uint32_t minor_size);

/* ---- calls of the C library ---- */
/* imports.c: from now on the plugin's calls of malloc and the like are counted, and those of exit
 * and the like are failures. */
void zr_imports_watch(struct zr_check *c);
int64_t zr_imports_made(void);          /* allocations so far */
int64_t zr_imports_held(void);          /* blocks that the plugin holds */
void *zr_imports_alloc(uint64_t bytes); /* for the host: zeroed, counted and refused, too */
void zr_imports_free(void *p);          /* what zr_imports_alloc() gave, or NULL */
void zr_imports_refuse(int64_t nth);    /* the nth from now fails; 0: none does */
/* From now on the plugin finds another time, process, host and processor, and `value` in the
 * variables of the environment that are not set; NULL: the true ones again. */
void zr_imports_elsewhere(const char *value);
const char *zr_imports_asked(void); /* what it asked for there, "" if nothing */

/* ---- instance.c: an instance, with a host of its own ---- */
struct zr_try {
	struct zr_check *c;
	struct zr_host *h;
	void *opts;
	struct zr_inst *inst;
	int code; /* of the last fail(), 0: none */
	char text[1024];
	int64_t held; /* blocks of alloc() */
	int32_t rank, world;
	int32_t per_node; /* 0: all ranks are on one node */
	int no_run;       /* there is no run directory, and the host offers nothing */
};
void zr_try_host(struct zr_check *c, struct zr_try *t);
/* Options: defaults, those given, and for those that must be given a value in range. */
void zr_try_options(struct zr_check *c, struct zr_try *t);
/* What -o gives an option, or NULL; and a value for one that has none. */
const char *zr_try_given(const struct zr_check *c, const char *key);
const char *zr_try_value(struct zr_check *c, const struct zr_opt *o);
/* Sets one, and says whether its table takes it. */
int zr_try_set(struct zr_try *t, const char *key, const char *text);
int zr_try_resolve(struct zr_try *t); /* resolve() and check() */
int zr_try_create(struct zr_try *t);  /* the code */
/* All of it; a failure of the plugin is one of the test. */
void zr_try_open(struct zr_check *c, struct zr_try *t);
void zr_try_close(struct zr_try *t);
/* Of resolve() and create(): skips the test if they say which option they lack, or what else. */
void zr_try_options_suit(struct zr_try *t, int rc);
/* The call must have succeeded. */
void zr_must(struct zr_try *t, int rc);
/* A call that fails says why. Returns whether it failed. */
int zr_may_fail(struct zr_try *t, int rc);

/* others.c: what of this installation stands beside the plugin. The device's operations; NULL:
 * there is no device. And a model, for adapters. */
struct zr_ops;
const struct zr_ops *zr_check_ops(struct zr_check *c);
/* If it failed with this code, and the plugin that was lent it passes that on: what it said. */
void zr_check_device_text(struct zr_check *c, struct zr_try *t, int rc);
const struct zr_ops *zr_check_scalar_ops(struct zr_check *c);
/* A small model, as if it were tested; 0: there is none. */
int zr_check_model(struct zr_check *c, const char *id, struct zr_check *side);
const void *zr_check_offer(struct zr_try *t, const char *iface, struct zr_inst **inst);

/* routing.c: operations of a mixture that can repeat its choices: before each pass, whether it
 * does, else they are kept. */
const struct zr_ops *zr_routing_ops(struct zr_check *c, const struct zr_ops *real);
void zr_routing_pass(int repeats);

/* The table of functions of an interface, by id; NULL: not offered. */
const void *zr_check_table(const struct zr_check *c, const char *id);

/* ranks.c: runs fn in `world` processes, ranks that meet through a boot; with `shared`, memory that
 * all of them see. What one of them says is said of the test, with the number of the rank. */
void zr_check_ranks(struct zr_check *c, int32_t world, void *shared,
		    void (*fn)(struct zr_check *c, int32_t rank, int32_t world, void *shared));
/* Runs fn in a process that fn kills: only what it says before counts. */
void zr_check_killed(struct zr_check *c, void *shared,
		     void (*fn)(struct zr_check *c, int32_t rank, int32_t world, void *shared));
void *zr_check_shared(struct zr_check *c, uint64_t bytes); /* zeroed; never freed */
const void *zr_check_boot(void); /* its functions; NULL outside of such ranks */

void zr_fill_random(float *x, int64_t n, uint64_t seed, float scale);

/* results.c: what a plugin computes, in the order of its calls. */
struct zr_results {
	int n, room;
	struct zr_result *of;
};
struct zr_result {
	const char *function; /* of the plugin */
	char what[96];
	uint64_t hash;
};
/* Adds `bytes` of data, which the text calls by a name: "the master of a.bias". */
void zr_result_add(struct zr_check *c, struct zr_results *r, const char *function, const void *data,
		   uint64_t bytes, const char *fmt, ...) __attribute__((format(printf, 6, 7)));
/* What a plugin of each role computes of c->seed. */
typedef void zr_compute_fn(struct zr_check *c, struct zr_results *r);
zr_compute_fn zr_compute_optimizer, zr_compute_scheduler, zr_compute_precision,
	zr_compute_activation, zr_compute_data, zr_compute_model, zr_compute_device,
	zr_compute_zero, zr_compute_offload;

/* at_once.c: what compute() gives while, after writes of a call into static memory of the plugin,
 * `other` computes, too, in another thread. */
void zr_at_once(struct zr_check *c, struct zr_check *other, zr_compute_fn *compute,
		struct zr_results *r);

/* file.c: of the file */
void zr_test_symbols(struct zr_check *c);
void zr_test_sections(struct zr_check *c);
void zr_test_runpath(struct zr_check *c);
void zr_test_imports(struct zr_check *c);
/* general.c */
void zr_test_load(struct zr_check *c);
void zr_test_descriptor(struct zr_check *c);
void zr_test_options(struct zr_check *c);
void zr_test_boundaries(struct zr_check *c);
void zr_test_alone(struct zr_check *c);
void zr_test_lifecycle(struct zr_check *c);
void zr_test_no_memory(struct zr_check *c);
void zr_test_hosts(struct zr_check *c);
/* optimizer.c */
void zr_test_states(struct zr_check *c);
void zr_test_step(struct zr_check *c);
void zr_test_padding(struct zr_check *c);
void zr_test_rounding(struct zr_check *c);
void zr_test_cut(struct zr_check *c);
void zr_test_repeat(struct zr_check *c);
void zr_test_restore(struct zr_check *c);
void zr_test_ranks(struct zr_check *c);
void zr_test_multiplier(struct zr_check *c);
void zr_test_nonfinite(struct zr_check *c);
void zr_test_param_groups(struct zr_check *c);
void zr_test_zeros(struct zr_check *c);
void zr_test_mem_ok(struct zr_check *c);
void zr_test_shorter(struct zr_check *c);
void zr_test_longer(struct zr_check *c);
/* text.c */
void zr_test_text(struct zr_check *c);
/* roles.c */
void zr_test_schedule(struct zr_check *c);
void zr_test_schedule_sizes(struct zr_check *c);
void zr_test_precision(struct zr_check *c);
void zr_test_activation(struct zr_check *c);
void zr_test_monitor(struct zr_check *c);
void zr_test_monitor_resume(struct zr_check *c);
/* data.c */
void zr_test_data(struct zr_check *c);
void zr_test_data_again(struct zr_check *c);
void zr_test_data_weights(struct zr_check *c);
void zr_test_data_differ(struct zr_check *c);
void zr_test_data_held_out(struct zr_check *c);
void zr_test_data_once(struct zr_check *c);
/* offload.c */
void zr_test_offload(struct zr_check *c);
void zr_test_offload_limits(struct zr_check *c);
void zr_test_offload_no_space(struct zr_check *c);
void zr_test_offload_no_memory(struct zr_check *c);
void zr_test_offload_killed(struct zr_check *c);
/* comm.c */
void zr_test_collectives(struct zr_check *c);
void zr_test_exchange(struct zr_check *c);
void zr_test_listed_groups(struct zr_check *c);
void zr_test_outstanding(struct zr_check *c);
void zr_test_meeting(struct zr_check *c);
void zr_test_memory(struct zr_check *c);
void zr_test_lent(struct zr_check *c);
void zr_test_differ(struct zr_check *c);
void zr_test_abort(struct zr_check *c);
/* model.c */
void zr_test_declaration(struct zr_check *c);
void zr_test_gradients(struct zr_check *c);
void zr_test_device(struct zr_check *c);
/* same.c: what results must not depend on */
void zr_test_workers(struct zr_check *c);
void zr_test_elsewhere(struct zr_check *c);
void zr_test_at_once(struct zr_check *c);
/* training.c: as a part of a small training */
void zr_test_groups(struct zr_check *c);
void zr_test_programs(struct zr_check *c);
void zr_test_training(struct zr_check *c);

#endif
