/* SPDX-License-Identifier: Apache-2.0
 *
 * setup_codes.c - in which types ranks send each other gradients and parameters, and what cannot be
 * had together with codes.
 */
#include "core/setup.h"

static int refuse_gradients(struct zr_setup *s, const char *why, struct zr_error *err)
{
	return zr_config_blame(s->cfg, "train", ZR_ENOTSUP, err,
			       "communication_data_type = mxint8: %s, or take bf16", why);
}

/* Sums of trees and gradients in parts go other ways, which have no codes. */
static int check_gradients(struct zr_setup *s, struct zr_error *err)
{
	const struct zr_train_opts *t = s->facts.train;
	const uint64_t part = t->gradient_part_size;
	if (t->sum_group > 1)
		return refuse_gradients(s, "sums of a sum_group have no codes: set it to 1", err);
	if (t->slices > 1)
		return refuse_gradients(s, "gradients of slices have no codes: set slices = 1",
					err);
	if (part > 0 && part != ZR_AUTO_COUNT)
		return refuse_gradients(s,
					"gradients in parts have no codes: set gradient_part_size "
					"= 0",
					err);
	return 0;
}

/* The compute copy has fewer bits than its master then, so that this must be there as a whole. */
static int check_parameters(struct zr_setup *s, struct zr_error *err)
{
	struct zr_precision_info *t = &s->facts.types;
	if (t->dtype != ZR_BF16)
		return zr_config_blame(s->cfg, "train", ZR_ENOTSUP, err,
				       "gather_data_type = mxint8: it rounds parameters in bf16, "
				       "and [precision] %s has none: take plugin = bf16, or auto",
				       s->roles.precision.section->plugin->desc->id);
	if (t->master == ZR_MASTER_AUTO)
		t->master = ZR_MASTER_FP32;
	if (t->master != ZR_MASTER_FP32)
		return zr_config_blame(s->cfg, "train", ZR_ENOTSUP, err,
				       "gather_data_type = mxint8: masters must not be made of the "
				       "rounded copy: set [precision] master = fp32, or take auto");
	s->facts.gather_codes = 1;
	return 0;
}

int zr_codes_choose(struct zr_setup *s, struct zr_error *err)
{
	struct zr_setup_facts *f = &s->facts;
	const int32_t type = f->train->communication_data_type;
	if (type)
		f->types.comm_dtype = type;
	if (type == ZR_SENT_MXINT8)
		f->types.comm_dtype = ZR_MXINT8;
	if (f->mode != ZR_MODE_TRAIN)
		return 0;

	int rc = 0;
	if (type == ZR_SENT_MXINT8)
		rc = check_gradients(s, err);
	if (!rc && f->train->gather_data_type)
		rc = check_parameters(s, err);
	return rc;
}
