/* SPDX-License-Identifier: Apache-2.0
 *
 * optim_fixture.h - an optimizer under test on device/cpu, its parameters on blocks as core lays
 * them out, and updates of them cut as core might cut them.
 */
#ifndef ZR_TESTS_OPTIM_FIXTURE_H
#define ZR_TESTS_OPTIM_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>

#include <zeroth/device.h>
#include <zeroth/optimizer.h>

#include "tests/lib/testhost.h"

#include <cmocka.h> /* after the headers with members that its macros name */

#define OPTIM_PARAMS  3
#define OPTIM_STATES  4
#define OPTIM_PADDING 0x7777 /* every two bytes that belong to no parameter */

struct optim_shape {
	int64_t dims[2];
	int32_t ndim;
};

/* Shapes of golden/make_optim.py, matrices and heads of make_muon.py, and larger ones that devices
 * cut. Odd all over, but for heads, of 12 rows each. */
extern const struct optim_shape optim_golden[OPTIM_PARAMS], optim_matrices[OPTIM_PARAMS];
extern const struct optim_shape optim_heads[OPTIM_PARAMS], optim_larger_matrices[OPTIM_PARAMS];
/* square; of a shorter side of at most 31 */
extern const struct optim_shape optim_sides[OPTIM_PARAMS], optim_one_side[OPTIM_PARAMS];
extern const struct optim_shape optim_large[OPTIM_PARAMS], optim_large_matrices[OPTIM_PARAMS];

struct optim {
	struct zr_host *h;
	const struct zr_desc *device, *desc;
	struct zr_inst *device_inst, *inst;
	void *device_opts, *opts;
	const struct zr_ops *ops;
	const struct zr_optimizer_v1 *v;
	const struct optim_shape *shape;
	int64_t block[OPTIM_PARAMS + 1]; /* first of each parameter; all */
	uint32_t n_state;
	struct zr_state state[OPTIM_STATES];
	float *master, *grad;
	uint16_t *lowp;     /* NULL: none is wanted */
	int32_t lowp_dtype; /* ZR_BF16 at first */
	void *state_data[OPTIM_STATES];
	void *work; /* of step_whole(), for the largest parameter */
	uint64_t work_bytes;
	uint64_t draw;
	double run[ZR_OPT_RUN], run_before[ZR_OPT_RUN]; /* scalars of the run */
	/* 1: gradients are those of a bowl around 0, a fourth of what is drawn beside; lr is 1 */
	int closed;
	struct zr_opt_step step; /* of the last call; ops, opts and n_state act on the next */
};

/* `options`: name, text, ..., NULL. `workers` threads. Parameters are drawn, states have their
 * first values. */
void optim_open(struct optim *o, const char *plugin, const char *const *options,
		const struct optim_shape *shape, int workers);
void optim_close(struct optim *o);

int64_t optim_elements(const struct optim_shape *s);
/* Element i of all parameters, one after the other, as an index into the buffers; -1 past the
 * last. */
int64_t optim_place(const struct optim *o, int64_t i);
/* Bytes of a block of a state. */
int64_t optim_state_bytes(const struct optim *o, uint32_t i);

/* Draws the gradients of update t (1-based), 8 times too large, and sets the step's scalars. */
void optim_draw(struct optim *o, int t);
/* The update in pieces of 1 to `most` blocks that `seed` chooses, the last piece first; 0: one
 * piece. With partial(), that first; with ZR_OPT_WHOLE whole parameters, whatever `most`. The code
 * of the first call that fails. */
int optim_apply(struct optim *o, int64_t most, uint64_t seed);
/* Both; must succeed. */
void optim_update(struct optim *o, int t, int64_t most);

/* Fails unless masters, states and copies are the same bits. */
void optim_same(const struct optim *a, const struct optim *b);

#endif
