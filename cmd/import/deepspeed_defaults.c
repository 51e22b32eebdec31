/* SPDX-License-Identifier: Apache-2.0
 *
 * deepspeed_defaults.c - what DeepSpeed does where its file says nothing, if zeroth would do
 * otherwise, or if versions of DeepSpeed differ in it. Source: DeepSpeed 0.19.6.
 */
#include "cmd/import/deepspeed.h"

#include <string.h>

#define DEFAULT "DeepSpeed's default"

static struct zr_setting *find(struct zr_import *im, const char *path)
{
	return zr_import_find(im, im->deepspeed, path);
}

/* Adds a line for a setting that is missing. One that is auto is not: the arguments say it. */
static int put_missing(struct zr_import *im, const char *path, const char *to, const char *value,
		       const char *note)
{
	return find(im, path) ? 0 : zr_import_put(im, NULL, to, value, note);
}

/* Of the three sizes of a batch, two are enough; with all of them the number of ranks would be
 * fixed. */
static int finish_batch(struct zr_import *im)
{
	const long long all = zr_import_given_count(im, "train.train_batch_size");
	const long long micro = zr_import_given_count(im, "train.micro_batch_size");
	const long long steps = zr_import_given_count(im, "train.gradient_accumulation_steps");
	struct zr_setting *s = find(im, "train_batch_size");
	if (s && all && micro && steps) {
		zr_import_drop(im, "train.train_batch_size");
		return all % (micro * steps) ?
			       zr_import_fate(
				       s, ZR_FATE_REFUSED,
				       "no multiple of the other two; drop one of the three") :
			       zr_import_fate(s, ZR_FATE_PARTLY, "it is that with `-n %lld`",
					      all / micro / steps);
	}
	if (all || micro || im->source[0].kind != im->deepspeed)
		return 0;
	return zr_import_change(im, "train.micro_batch_size", "1", "no size was given: choose one");
}

int ds_finish(struct zr_import *im)
{
	const char *optimizer = zr_import_given(im, "optimizer.plugin");
	int rc = finish_batch(im);
	if (!rc && optimizer && !strcmp(optimizer, "lion") &&
	    !zr_import_given(im, "optimizer.lr") && im->source[0].kind == im->deepspeed)
		rc = zr_import_put(im, NULL, "optimizer.lr", "1e-3", DEFAULT);
	return rc ? rc :
		    put_missing(im, "gradient_clipping", "train.gradient_clipping", "1",
				DEFAULT " since 0.19.3; 0 (off) before");
}
