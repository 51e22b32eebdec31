/* SPDX-License-Identifier: Apache-2.0
 *
 * inside.c - plugins compiled into a program: the optimizer of signsgd.c as it is, a ZeRO stage
 * that splits everything in each node and keeps a copy per node (hybrid sharding, HSDP), and a
 * monitor. Another engine of other settings trains in the same process, in turns with the first.
 *
 *   cc $(pkg-config --cflags zeroth) -Dzr_plugin_entry_v1=signsgd_entry -c signsgd.c
 *   cc $(pkg-config --cflags zeroth) inside.c signsgd.o $(pkg-config --libs zeroth)
 *   ./a.out CONF
 */
#include <stdio.h>
#include <string.h>
#include <zeroth/monitor.h>
#include <zeroth/zero.h>
#include <zeroth/zeroth.h>

extern const struct zr_entry signsgd_entry;

/* ---- the stage ---- */

static int hsdp_groups(struct zr_inst *inst, const struct zr_groups_of *of, struct zr_groups *out)
{
	(void)inst, (void)of;
	*out = (struct zr_groups){ ZR_GROUP_NODE, ZR_GROUP_NODE, ZR_GROUP_NODE };
	return ZR_OK;
}

static int hsdp_at(struct zr_inst *inst, const struct zr_point *p, const struct zr_stage *s)
{
	int rc;
	(void)inst;
	switch (p->at) {
	case ZR_AT_BEFORE:
		return s->gather(s, p->units, (int32_t)p->n_units);
	case ZR_AT_AFTER:
		return s->drop(s, p->units, (int32_t)p->n_units);
	case ZR_AT_GRAD:
		return s->reduce(s, p->units, (int32_t)p->n_units);
	case ZR_AT_UPDATE:
		rc = s->update(s, p->units, (int32_t)p->n_units, 0);
		if (rc)
			return rc;
		return s->publish(s, p->units, (int32_t)p->n_units);
	}
	return ZR_OK;
}

/* ---- the monitor, which knows the program's variables ---- */

static double lowest = 1e30;

static int lowest_metrics(struct zr_inst *inst, int64_t step, const struct zr_metric *m, uint32_t n)
{
	(void)inst, (void)step;
	for (uint32_t i = 0; i < n; i++)
		if (!strcmp(m[i].name, "loss") && m[i].value < lowest)
			lowest = m[i].value;
	return ZR_OK;
}

/* ---- both ---- */

static int create(const struct zr_host *h, const void *opts, struct zr_inst **out)
{
	(void)h, (void)opts;
	*out = (struct zr_inst *)&lowest; /* neither has anything of its own */
	return ZR_OK;
}

static void destroy(struct zr_inst *inst)
{
	(void)inst;
}

static const struct zr_zero_v1 zero = { .size = sizeof zero, .groups = hsdp_groups, .at = hsdp_at };
static const struct zr_monitor_v1 monitor = { .size = sizeof monitor, .metrics = lowest_metrics };
static const struct zr_iface hsdp_ifaces[] = { { "zr.zero/1", &zero }, { NULL, NULL } };
static const struct zr_iface lowest_ifaces[] = { { "zr.monitor/1", &monitor }, { NULL, NULL } };
static const struct zr_desc hsdp = {
	.size = sizeof hsdp,
	.role = "zero",
	.id = "hsdp",
	.version = "1",
	.license = "Apache-2.0",
	.summary = "All is split in each node.",
	.ifaces = hsdp_ifaces,
	.create = create,
	.destroy = destroy,
};
static const struct zr_desc lowest_desc = {
	.size = sizeof lowest_desc,
	.role = "monitor",
	.id = "lowest",
	.version = "1",
	.license = "Apache-2.0",
	.summary = "The lowest loss.",
	.ifaces = lowest_ifaces,
	.create = create,
	.destroy = destroy,
};
ZR_PLUGIN(&hsdp, &lowest_desc);

/* ---- two engines ---- */

static int failed(struct zeroth *e)
{
	fprintf(stderr, "inside: %s\n", zeroth_error(e));
	return 1;
}

static int print_digest(struct zeroth *e)
{
	uint64_t losses, parameters;
	int rc = zeroth_digest(e, &losses, &parameters);
	if (!rc)
		printf("digest: losses=%016llx params=%016llx\n", (unsigned long long)losses,
		       (unsigned long long)parameters);
	return rc;
}

int main(int argc, char **argv)
{
	struct zeroth_facts facts = { .size = sizeof facts };
	struct zeroth *a = zeroth_new(), *b = zeroth_new();
	int rc = argc != 2 || !a || !b;
	rc = rc || zeroth_set_file(a, argv[1]) || zeroth_set_ranks(a, 4) ||
	     zeroth_add_plugins(a, &signsgd_entry) || zeroth_add_plugins(a, &zr_plugin_entry_v1) ||
	     zeroth_set(a, "optimizer.plugin=signsgd") || zeroth_set(a, "zero.plugin=hsdp") ||
	     zeroth_set(a, "boot.ranks_per_node=2") || zeroth_set(a, "monitor.own.plugin=lowest") ||
	     zeroth_open(a);
	rc = rc || zeroth_set_file(b, argv[1]) || zeroth_open(b);
	do
		rc = rc || zeroth_step(a, NULL) || zeroth_step(b, NULL) || zeroth_facts(b, &facts);
	while (!rc && facts.step < facts.steps);
	rc = rc || print_digest(a) || print_digest(b);
	if (rc)
		rc = failed(*zeroth_error(a) ? a : b);
	zeroth_close(a);
	zeroth_close(b);
	if (!rc)
		printf("lowest loss %.9g\n", lowest);
	return rc;
}
