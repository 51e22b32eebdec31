/* SPDX-License-Identifier: Apache-2.0
 *
 * update.h - the optimizer on what this rank holds: a sub-group, or a whole matrix; the sums
 * over parameters that some need first. [step]
 */
#ifndef ZR_CORE_UPDATE_H
#define ZR_CORE_UPDATE_H

#include "core/memory/subgroup.h"

struct zr_setup;

/* What an instruction of a sub-group works on, where its operations reach it. */
struct zr_opt_data {
	const struct zr_subgroup *subgroup;
	struct zr_masters kept;
	char *grad;
	float *chunk; /* ZR_CHUNK blocks, where masters are kept in another format */
	const struct zr_scalars *scalars; /* [n_param_groups] where operations read them */
	double *sums;                     /* over parameters, of one call; NULL: none */
	char *const *state;               /* of the sub-group's optimizer */
	struct zr_error *err;             /* says why it failed */
};

/* Blocks [from, from + n) of a sub-group, with their master in fp32, NULL: as it is kept, and,
 * or NULL, where its rounding goes. */
struct zr_opt_blocks {
	const struct zr_opt_data *data;
	int64_t from, n;
	char *master, *lowp;
};

/* groups.c: calls fn once for each group that has some of the first `segments` of s->seg, which lie
 * in these blocks. */
typedef int zr_opt_fn(struct zr_session *s, const struct zr_opt_data *d, struct zr_opt_step *step);
int zr_opt_each_group(struct zr_session *s, const struct zr_opt_blocks *b, uint64_t segments,
		      zr_opt_fn *fn);
/* Of a group, without data. */
struct zr_opt_step zr_opt_step_of(const struct zr_session *s, int32_t group,
				  const struct zr_ops *ops, const struct zr_scalars *scalars);
struct zr_buf zr_opt_buffer(const struct zr_session *s, char *base, int64_t blocks, int32_t dtype);

int zr_step_subgroup(struct zr_session *s, const struct zr_opt_data *d);

/* partial.c: adds a sub-group's part of sums over whole parameters; those of a step's segments. */
int zr_partial_subgroup(struct zr_session *s, const struct zr_opt_data *d);
int zr_partial_totals(struct zr_session *s, const struct zr_opt_data *d, struct zr_opt_step *step);

/* run.c: scalars of the run. Tables for them, zeros at first; those of optimizer k for a step(). */
int zr_run_open(struct zr_session *s, struct zr_error *err);
void zr_run_point(const struct zr_session *s, int32_t k, struct zr_opt_step *step);
/* Those for the update to come: of optimizers without sums, once rates are known; of the others,
 * from sums[n_tensors][width] of all ranks. */
int zr_run_by_rates(struct zr_session *s, struct zr_error *err);
int zr_run_by_sums(struct zr_session *s, const struct zr_exact *sums, struct zr_error *err);

/* whole.c: a matrix's data lies together: its master, then each state, then the gradient. How
 * many kinds of data there are, and go back to who holds them; bytes of a block of one kind;
 * where a kind begins in `blocks` blocks, or, of one more, where all end. */
uint32_t zr_whole_kinds(const struct zr_setup *s, int32_t tensor, int back);
uint64_t zr_whole_kind_bytes(const struct zr_setup *s, int32_t tensor, uint32_t kind);
uint64_t zr_whole_kind_at(const struct zr_setup *s, int32_t tensor, int64_t blocks, uint32_t kind);
int zr_step_whole(struct zr_session *s, int32_t tensor, struct zr_opt_step *step, char *matrix,
		  char *work, struct zr_error *err);

#endif
