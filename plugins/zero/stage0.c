/* SPDX-License-Identifier: Apache-2.0
 *
 * stage0.c - nothing is split: every rank holds all parameters, gradients and optimizer state. Parameters
 * are gathered at the begin of a program and never dropped, so they stay resident over its end.
 */
#include <zeroth/zero.h>

#include <stdlib.h>

struct zr_inst {
	const struct zr_host *h;
};

static int stage0_groups(struct zr_inst *inst, int32_t unit, int64_t elements, struct zr_groups *out)
{
	(void)inst;
	(void)unit;
	(void)elements;
	*out = (struct zr_groups){ ZR_GROUP_SELF, ZR_GROUP_SELF, ZR_GROUP_SELF };
	return ZR_OK;
}

/* With everything at home no verb sends anything, so lists of one unit cost nothing. */
static int each_unit(const struct zr_stage *s, int (*verb)(const struct zr_stage *, const int32_t *, int32_t))
{
	int32_t u;
	int rc = ZR_OK;
	for (u = 0; u < s->n_units && !rc; u++)
		rc = verb(s, &u, 1);
	return rc;
}

static int update_whole(const struct zr_stage *s, const int32_t *units, int32_t n)
{
	return s->update(s, units, n, 0);
}

static int stage0_at(struct zr_inst *inst, const struct zr_point *p, const struct zr_stage *s)
{
	int rc;
	(void)inst;
	switch (p->at) {
	case ZR_AT_BEGIN:
		return p->program == ZR_PROG_UPDATE ? ZR_OK : each_unit(s, s->gather);
	case ZR_AT_GRAD:
		return s->reduce(s, p->units, (int32_t)p->n_units);
	case ZR_AT_UPDATE:
		rc = each_unit(s, update_whole);
		return rc ? rc : each_unit(s, s->publish);
	}
	return ZR_OK;
}

static int stage0_create(const struct zr_host *h, const void *opts, struct zr_inst **out)
{
	struct zr_inst *inst = malloc(sizeof *inst);
	(void)opts;
	if (!inst)
		return zr_fail(h, ZR_ENOMEM, "no memory");
	inst->h = h;
	*out = inst;
	return ZR_OK;
}

static void stage0_destroy(struct zr_inst *inst)
{
	free(inst);
}

static const struct zr_zero_v1 vtbl = { .size = sizeof vtbl, .groups = stage0_groups, .at = stage0_at };
static const struct zr_iface ifaces[] = { { "zr.zero/1", &vtbl }, { NULL, NULL } };

static const struct zr_desc desc = {
	.size = sizeof desc,
	.role = "zero",
	.id = "stage0",
	.version = "1",
	.license = "Apache-2.0",
	.summary = "Plain data parallelism: every rank holds everything.",
	.ifaces = ifaces,
	.create = stage0_create,
	.destroy = stage0_destroy,
};
ZR_PLUGIN(&desc);
