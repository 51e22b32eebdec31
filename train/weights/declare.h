/* SPDX-License-Identifier: Apache-2.0
 *
 * declare.h - a model and its adapter as they declare themselves, without ranks, data or memory for
 * tensors: a setup of which config, process, model, adapter, precision, decl, types, frozen and
 * layout are there, with [model] store also host_ops, and nothing else. For what works on files.
 * [main]
 */
#ifndef ZR_TRAIN_WEIGHTS_DECLARE_H
#define ZR_TRAIN_WEIGHTS_DECLARE_H

#include "core/setup.h"

/* cfg must outlive it. zr_setup_close() closes it. */
int zr_declare(struct zr_config *cfg, struct zr_setup **out, struct zr_error *err);

/* Adds its optimizers, parameter groups and scheduler, with which nothing is computed. States of
 * optimizers are as [optimizer] says. */
int zr_declare_optimizers(struct zr_setup *s, struct zr_error *err);

/* The configuration that the checkpoint at `path` has in it, as text, with `overrides`. */
int zr_declare_config(const char *text, const char *path, const char *const *overrides, int n,
		      struct zr_config **out, struct zr_error *err);

/* The configuration of a run, which it wrote as `ini`. */
int zr_run_config(const char *ini, const char *const *overrides, int n, struct zr_config **out,
		  struct zr_error *err);

/* What [model] store says, "nf4"; NULL: nothing. */
const char *zr_declared_store(const struct zr_setup *s);

/* How many of the first tensors are the model's; those behind an adapter added. */
int32_t zr_declared_own(const struct zr_layout *l);

#endif
