/* SPDX-License-Identifier: Apache-2.0
 *
 * rates.h - the file of what this machine was measured to do (`zeroth bench`), for forecasts of the
 * time of a step. [main]
 *
 * It is an INI file. [machine] says where and when; each section [ranks R threads T] has what was
 * measured while R processes with T threads each did the same at once, per rank. A key is a name
 * and the size that was measured, as `matmul.fp32.nn.64x256x1024`; its value is work per second:
 *
 *   name                              size                    work that is counted
 *   matmul.TYPE.nn nt tn              M x N x K               2 M N K operations. nt: B is stored
 *                                                             [N, K]; tn: A is stored [K, M] and
 *                                                             the result is fp32 (a gradient)
 *   matmul.fp8.nn                     M x N x K               the same of operands in bf16, which
 *                                                             it rounds to 8 bits; of devices with
 *                                                             memory of their own
 *   attention.TYPE                    length x head size      2 T T D operations per head, forward
 *   attention_bwd.TYPE                length x head size      5 T T D operations per head
 *   head_loss.TYPE                    rows x width x          6 rows width vocabulary operations:
 *                                     vocabulary              loss and both gradients
 *   layernorm rmsnorm gelu_bwd        elements                elements of one operand
 *   residual swiglu rotary bias_bwd
 *   and what ends in _bwd, .TYPE
 *   embedding embedding_bwd .TYPE     elements                elements of the output
 *   gelu.TYPE                         elements                elements of a product's result, in
 *                                                             the time that GELU adds to it
 *   fold.TYPE                         elements                elements added to an fp32 sum
 *   cast.FROM_TO                      elements                elements
 *   adamw.fp32 adamw.8bit             elements                parameters updated, states in fp32 or
 *                                                             in 8 bits
 *   copy                              bytes                   bytes written, as many are read
 *   all_gather reduce_scatter         bytes                   bytes of the whole, all ranks' parts
 *   all_reduce all_to_all broadcast
 *   barrier fence                     1                       operations
 *   disk_read disk_write              bytes of a request      bytes, with 4 requests at once
 *   disk_mixed                        bytes of a request      bytes, every other request a write
 *   disk_read_one disk_write_one      bytes of a request      bytes, one request at a time: a
 *                                                             request takes size / rate seconds
 *   to_device from_device             bytes                   bytes, page-locked memory; only where
 *                                                             the device has memory of its own
 *   step                              1                       training steps of a small model; its
 *                                                             tokens, updated parameters and
 *                                                             operations are step.tokens, .update
 *                                                             and .products
 *   limit.WHAT                        as WHAT                 what the machine allows, measured by
 *                                                             other means: limit.fma.fp32 and
 *                                                             limit.fma.bf16 (operations, size 1),
 *                                                             limit.copy, limit.update,
 *                                                             limit.shared_copy,
 *                                                             limit.disk_read, limit.disk_write
 *
 * TYPE is fp32 or bf16, of what is stored; sums are fp32.
 */
#ifndef ZR_TRAIN_FORECAST_RATES_H
#define ZR_TRAIN_FORECAST_RATES_H

#include <limits.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/error.h"

#define ZR_RATE_DIMS 3
#define ZR_RATE_NAME 40

struct zr_rate_point {
	double at[ZR_RATE_DIMS]; /* the size; unused dimensions are 1 */
	double rate;             /* work per second, more than 0 */
};

/* All points of a name, measured by so many ranks of so many threads. */
struct zr_rate {
	char name[ZR_RATE_NAME];
	int ranks, threads;
	int dims; /* of its sizes */
	int n;
	struct zr_rate_point *point;
};

struct zr_rates {
	char cpu[128], device[64], variant[64], date[32], version[32];
	char disk[256]; /* the directory that disk_* were measured in */
	int processors;
	uint64_t memory; /* bytes */
	double network;  /* bytes per second of all network cards of a machine, one way, where plan
			    was told so; 0: it was not */
	int n;
	struct zr_rate *rate;
};

/* The processor as the system names it; as it was where it names none. */
void zr_cpu_name(char *out, size_t room);

/* ${XDG_STATE_HOME:-$HOME/.local/state}/zeroth/rates.ini */
int zr_rates_path(char path[PATH_MAX], struct zr_error *err);

/* *r is zeroed before and freed by the caller. ZR_EINVAL with file and line, also without a
 * file. */
int zr_rates_read(const char *path, struct zr_rates *r, struct zr_error *err);
void zr_rates_free(struct zr_rates *r); /* a zeroed one is fine */
/* Puts the file in place as a whole, with the directories that its path lacks. */
int zr_rates_write(const char *path, const struct zr_rates *r, struct zr_error *err);

/* Adds a point or replaces that of the same size. at: [dims]. */
int zr_rates_set(struct zr_rates *r, const char *name, int ranks, int threads, const double *at,
		 int dims, double rate, struct zr_error *err);

/* Rates of a name in `by`, at all sizes and of all ranks, take the place of those in r. */
int zr_rates_replace(struct zr_rates *r, const struct zr_rates *by, struct zr_error *err);

/* The rate of one rank at a size [dims], while `ranks` of `threads` do the same; 0: nothing is
 * known of the name. Between points of a grid it is interpolated, the logarithms of rate over those
 * of size. What is smaller than the smallest takes as long as that; what is larger than the largest
 * has its rate. Of what was not measured with so many ranks or threads the nearest counts, by the
 * share of the processors that a rank has. */
double zr_rate_at(const struct zr_rates *r, const char *name, int ranks, int threads,
		  const double *at, int dims);

#endif
