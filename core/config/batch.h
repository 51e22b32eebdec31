/* SPDX-License-Identifier: Apache-2.0
 *
 * batch.h - values of [train] that follow from others: the batch triple, and steps from epochs.
 * [main] thread.
 */
#ifndef ZR_CORE_BATCH_H
#define ZR_CORE_BATCH_H

#include "core/config/config.h"

/* The batch triple, resolved: train = micro * accumulation * data_ranks. */
struct zr_batch_shape {
	int64_t train, micro, accumulation;
	int64_t slots;  /* micro-batches per step over all ranks = accumulation * data_ranks */
	int64_t length; /* tokens per sequence */
};

/* Resolves the triple, all of *out but length, and writes derived values back to the config.
 * data_ranks: that have micro-batches of their own. */
int zr_batch_resolve(struct zr_config *cfg, const struct zr_train_opts *t, int data_ranks,
		     struct zr_batch_shape *out, struct zr_error *err);
/* The steps of [train] epochs, if that is given. sequences: of an epoch; 0: not known. */
int zr_epochs_resolve(struct zr_config *cfg, const struct zr_train_opts *t, int64_t sequences,
		      int64_t per_step, struct zr_error *err);

/* [train] eval_every and [checkpoint] every from the shares of all steps that are given, once steps
 * are known. ZR_EINVAL where both say something. */
int zr_shares_resolve(struct zr_config *cfg, struct zr_error *err);
/* Writes a value of [train] that was given as `auto` back to the config. */
int zr_train_derive(struct zr_config *cfg, const char *key, uint64_t given, int64_t value,
		    struct zr_error *err);

#endif
