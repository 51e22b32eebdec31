/* SPDX-License-Identifier: Apache-2.0
 *
 * engine.h - an engine from inside: what the program said before it was opened, and its ranks.
 *
 * Each rank is a thread, which does one command at a time while the program's thread waits. A step
 * of a model of the program's own is one command to the rank, too, but the program sees it in
 * parts: where a part ends, within a call of core, the rank answers and waits for the next command.
 */
#ifndef ZR_EMBED_ENGINE_H
#define ZR_EMBED_ENGINE_H

#include <pthread.h>
#include <zeroth/zeroth.h>

#include "train/trainer.h"

#define ZEROTH_MAX_RANKS 64

enum command {
	CMD_NONE,
	CMD_OPEN,
	CMD_STEP,
	CMD_FORWARD,
	CMD_BACKWARD,
	CMD_INFER,
	CMD_EVALUATE,
	CMD_RESUME,
	CMD_SAVE,
	CMD_WEIGHTS,
	CMD_GET,
	CMD_PUT,
	CMD_CHANGE,
	CMD_SUM,
	CMD_DIGEST,
	CMD_END
};

/* What the thread of a rank offers to a thread of the program that computes its layers. */
struct offer {
	enum { OFFER_NONE, OFFER_THERE, OFFER_TAKEN, OFFER_GIVEN } at;
	int kind; /* ZEROTH_FORWARD, ... */
	int code; /* given back */
	struct zeroth_call call;
};

/* What the ranks of an engine meet by; see boot.c. */
struct meeting;

struct rank {
	struct zeroth *engine;
	int number; /* among the ranks of this process */
	pthread_t thread;
	/* under the engine's lock */
	enum command asked;  /* not yet taken */
	int busy;            /* has not answered yet */
	int harmless;        /* the failure ends nothing, and no rank waits for another */
	struct zr_error err; /* of the last answer */
	struct offer offer;
	int within;     /* a micro-batch that the program computes has begun, and is not done */
	int training;   /* it is one of the training */
	int64_t micros; /* of these, done since the last step */

	/* the thread's own */
	struct zr_trainer t;
	int begun;  /* it can be stepped: parameters have values, monitors are told */
	int ending; /* the engine is closed within a step */

	/* of a model of the program's own */
	int parts; /* 1: the step comes in forward, backward, step */
	int fresh; /* 1: forward was asked for, and its batch is not taken yet */
	int inferring;
	const void *given;  /* batch of the forward or inference that was asked for */
	const void *batch;  /* that layers compute on */
	int64_t step, slot; /* of it */
	double loss;        /* mean of it */
};

struct zeroth {
	char *path, *text; /* of the configuration; at most one */
	char *whole;       /* all of it, once somebody asked */
	int text_fd;       /* of the text, -1: none */
	char **option;     /* [n_options] */
	int n_options;
	const struct zr_entry **entry; /* [n_entries] */
	int n_entries;
	int n;                     /* ranks of this process */
	struct zeroth_model model; /* size 0: none */

	pthread_mutex_t lock;
	pthread_cond_t asked, answered;
	struct rank *rank;       /* [n] */
	int started;             /* threads */
	int loaded;              /* ranks that have read the configuration, or failed to */
	uint64_t memory;         /* that the machine had available before they were */
	struct meeting *meeting; /* NULL: one rank */
	_Atomic int running;     /* a command, or the end: no other call may come */
	pid_t pid;               /* of the process that made it */
	int open;
	int broken;                                 /* code of the failure that ended it */
	enum { BETWEEN, FORWARDED, BACKWARDED } at; /* of a step in parts */
	int64_t micro;                              /* micro-batches of it so far */
	char error[sizeof(((struct zr_error *)0)->text)];
	char cause[sizeof(((struct zr_error *)0)->text)]; /* text of the failure that ended it */

	/* arguments and results of the command that runs */
	const void *const *batches;
	const char *name;
	zeroth_get_fn *get;
	zeroth_put_fn *put;
	void *arg;
	double *const *sums; /* [n][n_sums] */
	int64_t n_sums;
	pthread_mutex_t put_lock;
	struct zr_eval_result eval;
	uint64_t digest;
	int64_t resumed;

	struct zr_metric metric[ZR_METRICS_PER_STEP];
	int n_metrics;

	pthread_mutex_t log_lock;
	int log_level;
	zeroth_log_fn *log;
	void *log_arg;
	struct zeroth *next; /* of all engines */
};

/* engine.c: the text of a failure; returns code. Where another thread has the engine, this thread
 * alone sees the text. */
int engine_fail(struct zeroth *e, int code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* The same, for this thread alone in any case: of calls that several threads make at once. */
int engine_fail_here(struct zeroth *e, int code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* Whether threads of the program compute its model. */
static inline int engine_is_outside(const struct zeroth *e)
{
	return e->model.size && e->model.flags & ZEROTH_MODEL_OUTSIDE;
}
/* 0, or why the call `what` cannot come now: another one is running, as where a callback makes it,
 * or this is a log function, or a child that the program forked. */
int engine_enter(struct zeroth *e, const char *what);
/* 0, or why what a caller gave for `what` is no struct of a known size; NULL is fine. */
int engine_sized(struct zeroth *e, const void *given, size_t least, const char *what);
#define ENGINE_SIZED(e, given, T, last, what)                                                      \
	engine_sized(e, given, offsetof(T, last) + sizeof(((T *)0)->last), what)
/* Whether it is not opened yet, else a failure. */
int engine_is_new(struct zeroth *e, const char *what);
/* 0, or the failure of a call whose argument, as "zeroth_set: option", is NULL where it must not
 * be. */
int engine_given(struct zeroth *e, int there, const char *what);

/* handover.c: the rank that this thread is; NULL: none. */
extern _Thread_local struct rank *rank_here;
/* On the rank's thread: says that the command is done, and waits for the next one. */
void rank_answer(struct rank *r, const struct zr_error *err);
enum command rank_next(struct rank *r);
/* The parts of a step: called where each may end. They fail where the engine is closed. */
int rank_take_batch(struct rank *r);
int rank_forward_done(struct rank *r, double loss);
/* Hands a layer to a thread of the program, and waits until that has done it; returns the code that
 * it gave. */
int rank_offer(struct rank *r, int kind, const struct zeroth_call *call);

/* rank.c: the thread's function; arg: a struct rank. */
void *rank_main(void *arg);

/* A text of a configuration is a file without a name, of this descriptor. */
#define ENGINE_TEXT_PATH "/proc/self/fd/%d"

/* open.c: takes all memory. */
int rank_open(struct rank *r, struct zr_error *err);
/* Opens all else that a first step needs, unless that is open: parameters have values, monitors are
 * told. */
int rank_begin(struct rank *r, struct zr_error *err);

/* files.c */
int rank_save(struct rank *r, struct zr_error *err);
int rank_save_weights(struct rank *r, struct zr_error *err);

/* values.c: calls the program for each tensor: CMD_GET hands its values out, CMD_PUT gets them, and
 * CMD_CHANGE does both. */
int rank_visit(struct rank *r, enum command how, struct zr_error *err);
int rank_sum(struct rank *r, struct zr_error *err);
int rank_digest(struct rank *r, struct zr_error *err);

/* unused.c: logs which options that were given the library does not act on */
void rank_say_unused(const struct rank *r);

/* boot.c */
struct meeting *meeting_new(int ranks); /* NULL: out of memory */
void meeting_free(struct meeting *m);

extern const struct zr_entry threads_entry;   /* boot/threads */
extern const struct zr_entry functions_entry; /* model/functions and data/functions */

#endif
