/* SPDX-License-Identifier: Apache-2.0
 *
 * answers.h - what the model of a run says, checkpoint by checkpoint: each answers the same
 * conversations of the run's data, by the likeliest tokens. [main]
 */
#ifndef ZR_REPORT_ANSWERS_H
#define ZR_REPORT_ANSWERS_H

#include "cmd/report/asked.h"

#define ZR_ANSWERS_STEPS 6 /* checkpoints that answer at most: the first, the last and between */

struct zr_answers_step {
	int64_t step;
	char **text; /* [asked.n]; owned; NULL: it was not answered */
	char *why;   /* why this checkpoint has no answers, owned; NULL: it has */
};

struct zr_answers {
	struct zr_asked_list asked;
	struct zr_answers_step at[ZR_ANSWERS_STEPS]; /* by ascending steps */
	int n;
	int left;       /* checkpoints for which there was no time */
	char why[1100]; /* there are no answers, and why; "": there are */
};

struct zr_answers_how {
	int conversations; /* at most */
	/* Nobody asked for them: they are left out where they take code that a path names, much
	 * memory or long, or where a run still goes on. */
	int unasked;
	double seconds; /* of all runs, after which no further checkpoint is opened */
};

/* Those of n runs. What fails is said in out[i].why, or of a checkpoint in its own. */
void zr_answers_make(const char *const *run, int n, const struct zr_answers_how *how,
		     struct zr_answers *out);
void zr_answers_free(struct zr_answers *a);

#endif
