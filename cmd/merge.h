/* SPDX-License-Identifier: Apache-2.0
 *
 * merge.h - a model with its adapters as a model of its own. A few rows of a tensor at a time are
 * in memory. [main]
 */
#ifndef ZR_CMD_MERGE_H
#define ZR_CMD_MERGE_H

#include "cmd/export.h"
#include "core/session.h"

/* Puts the tensors of `layout` to x; fn gives their values. s: of what declares an adapter, which
 * merges them with those behind the layout's; NULL: as they are. */
int zr_merge_put(struct zr_setup *s, const struct zr_layout *layout, zr_values_fn *fn, void *arg,
		 struct zr_export *x, struct zr_error *err);

#define ZR_MERGE_OPTIONS 32 /* most */

/* Files that are merged. */
struct zr_merge_from {
	const char *model;   /* a directory of Hugging Face, or of a run with its adapters */
	const char *adapter; /* a directory of PEFT; NULL: model is a run */
	/* "section.key=value" of how adapter was trained: [model] store, [precision] */
	const char *const *option;
	int options;
};

/* Writes the merged model to the new directory `dir`, and a line about it to standard output. */
int zr_merge_files(const struct zr_merge_from *from, const char *dir,
		   const struct zr_export_how *how, struct zr_error *err);

#endif
