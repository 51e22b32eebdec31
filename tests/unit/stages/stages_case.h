/* SPDX-License-Identifier: Apache-2.0
 *
 * stages_case.h - one stage plugin with options on a model in the fixture, for tests.
 */
#ifndef ZR_STAGES_CASE_H
#define ZR_STAGES_CASE_H

#include "stages_fixture.h"
#include "tests/lib/testhost.h"

#define N_STAGES    6
#define FIRST_SPLIT 3 /* the stages from here on split parameters */
extern const char *const stages[N_STAGES];

/* Units wte, wpe, three blocks, ln_f. Uses: 0 embed, 1-3 blocks forward; 4 head, 5-7 blocks, 8
 * embed backward. */
extern const struct fixture_model gpt2;

extern struct zr_host *host;

struct run {
	struct fixture fixture;
	const struct zr_desc *desc;
	void *opts;
	struct zr_inst *inst;
};
extern struct run run;

#define SETS(...) ((const char *const[]){ __VA_ARGS__, NULL })

int64_t largest(const struct fixture_model *m);
const struct zr_desc *stage(const char *id);
/* resolve with the facts of a model. */
void resolve(const struct zr_desc *desc, void *opts, const struct fixture_model *m);

/* Opens `run`: a stage on a model; sets: name, text, ..., NULL. */
void open_run(const char *id, const struct fixture_model *m, const char *const *sets);
void close_run(void);
/* What a stage says during one program on gpt2, after whole steps without a fault. Valid until the
 * next run. */
const char *answers(const char *id, int32_t program, const char *const *sets);

int make_host(void **state);
int free_host(void **state);

#endif
