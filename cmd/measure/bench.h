/* SPDX-License-Identifier: Apache-2.0
 *
 * bench.h - what the measurements of `zeroth bench` share. Each runs in ranks that were forked for
 * it, on the plugins of a setup as training has it, and records rates by the names of
 * train/forecast/rates.h.
 */
#ifndef ZR_CMD_BENCH_H
#define ZR_CMD_BENCH_H

#include <pthread.h>

#include "core/setup.h"
#include "train/forecast/rates.h"

#define ZR_BENCH_RATES 2048 /* of one measurement */
#define ZR_BENCH_RANKS 64
#define ZR_BENCH_COPY  (8ull << 20) /* bytes that each rank lends for limit.shared_copy */

struct zr_bench_rate {
	char name[ZR_RATE_NAME];
	int dims;
	double at[ZR_RATE_DIMS], rate; /* of one rank */
	const char *unit;              /* "FLOP/s", ... */
	double share;                  /* of the machine's own limit; 0: not compared */
	int shown;                     /* 1: in the table, 0: in the file and in JSON only */
};

/* Memory that all ranks and their parent see. */
struct zr_bench_shared {
	pthread_barrier_t barrier;
	double seconds[ZR_BENCH_RANKS];
	/* rank 0 writes what follows */
	char device[64], variant[64];
	int n;
	struct zr_bench_rate rate[ZR_BENCH_RATES];
};

struct zr_bench_job {
	const struct zr_bench_subject *subject;
	const char *conf; /* NULL: a small model of bench's own */
	const char *const *overrides;
	int n_overrides;
	int ranks, threads;
	double seconds;      /* of one measurement; 0: the subject's choice */
	const char *dir;     /* for files */
	int progress, table; /* whether rank 0 shows them */
	struct zr_bench_shared *shared;
	char *copied; /* ranks x ZR_BENCH_COPY shared bytes */
};

struct zr_bench {
	const struct zr_bench_job *job;
	struct zr_setup *s;
	const struct zr_device_v1 *dev;
	int rank;
	double seconds;
	char *room;     /* device memory, filled with small numbers */
	uint64_t bytes; /* of it */
	uint64_t used;
	struct zr_error *err;
};

struct zr_bench_subject {
	const char *name, *summary;
	int (*run)(struct zr_bench *);
	uint64_t room;  /* bytes of device memory that it wants */
	double seconds; /* of one measurement */
	int least_ranks;
	int by_thread;                /* 1: also one rank with one thread */
	const char *const *overrides; /* of its runs, NULL at the end */
	const char *needs;            /* an option of [optimizer] that these set; NULL: none */
};
extern const struct zr_bench_subject zr_bench_gemm, zr_bench_ops, zr_bench_adam, zr_bench_adam8,
	zr_bench_comm, zr_bench_io, zr_bench_step;

/* rank.c: the main function of a rank; arg: a struct zr_bench_job. */
int zr_bench_rank(int rank, void *arg, struct zr_error *why);

/* Seconds of one call of fn on average over the ranks, which call it at the same time: the second
 * least of five batches. What fn enqueued has ended. 0: it failed, and b->err says why. */
double zr_bench_time(struct zr_bench *b, int (*fn)(void *arg), void *arg);
/* All ranks are here. */
void zr_bench_meet(const struct zr_bench *b);
/* Rank 0 notes work / seconds, and shows it if `shown`. limit: the rate that the machine allows, in
 * the same unit; 0: none is known. */
void zr_bench_note(struct zr_bench *b, const char *name, const double *at, int dims, double work,
		   double seconds, const char *unit, double limit, int shown);
/* Takes device memory from the room, filled with small numbers in any type, 256-byte aligned. The
 * room must be large enough. zr_bench_empty gives all of it back. */
void *zr_bench_take(struct zr_bench *b, uint64_t bytes);
void zr_bench_empty(struct zr_bench *b);
int zr_bench_put(struct zr_bench *b, void *device, const void *host, uint64_t bytes);

/* limits.c: what this rank's processors can do by code that does nothing else. Operations per
 * second of multiply-adds in registers, 0: there is no such instruction; bytes written per second
 * by copies past the caches. */
double zr_bench_fma(struct zr_bench *b, int bf16);
double zr_bench_copy(struct zr_bench *b);

/* Processors that this process may use. */
int zr_bench_processors(void);

#endif
