/* SPDX-License-Identifier: Apache-2.0
 *
 * evaluate.h - one evaluation of a model: its sums over all ranks, and what they say. Sums are
 * exact, so that neither the number of ranks nor the size of a micro-batch changes a bit of them.
 * [step]
 */
#ifndef ZR_TRAIN_EVALUATE_H
#define ZR_TRAIN_EVALUATE_H

#include "core/session.h"

struct zr_eval_set {
	struct zr_source *from;
	int64_t batches; /* micro-batches over all ranks */
	/* Sequences, each once: the last micro-batch is filled up with rows without a target. 0:
	 * all sequences of the micro-batches count, and go round where there are fewer. */
	int64_t sequences;
};

/* The first `want` sequences of what is held out, each once; 0: all. Fails where there are none, or
 * where the plugin does not count them and `want` is 0. [main] */
int zr_eval_once(const struct zr_setup *s, struct zr_source *from, int64_t want,
		 struct zr_eval_set *out, struct zr_error *err);

struct zr_eval_result {
	double loss;     /* mean over the targets, by their weights; 0 without a weight */
	double accuracy; /* part of the weights whose target was the likeliest token */
	double nats;     /* sum of the losses */
	double bytes;    /* of the targets' text, by their weights */
	int64_t targets;
	uint64_t digest; /* of the sums */
};

struct zr_eval_how {
	/* after each round of micro-batches, `done` of `all` */
	void (*tick)(void *arg, int64_t done, int64_t all);
	void *arg;
	const uint16_t *bytes; /* [vocabulary] of the text of each token; NULL: not asked */
};

double zr_eval_per_byte(const struct zr_eval_result *r); /* bits; NAN: not known */

/* [collective] */
int zr_evaluate(struct zr_session *s, const struct zr_eval_set *set, const struct zr_eval_how *how,
		struct zr_eval_result *out, struct zr_error *err);

#endif
