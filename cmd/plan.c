/* SPDX-License-Identifier: Apache-2.0
 *
 * plan.c - zeroth plan CONF: bytes per tier and category before running, and whether they fit.
 */
#include <stdio.h>
#include <string.h>

#include "cmd/cmd.h"
#include "cmd/fit.h"
#include "cmd/json_text.h"
#include "cmd/program.h"
#include "core/files/json.h"
#include "core/setup.h"

#define RANKS_MAX 4096

static const char usage[] =
	"usage: zeroth plan [-n N] [--json] [--program] [-o section.key=value]... CONF\n"
	"\n"
	"Shows the memory that training CONF will take, by tier and category, without\n"
	"taking it. Exit code 0: it fits this machine; 3: it does not.\n"
	"\n"
	"  -o, --option section.key=value  sets an option over CONF\n"
	"  -n, --ranks N                   for N ranks on this machine: the bytes of rank 0\n"
	"      --memory BYTES              of a machine with this much memory (K M G T)\n"
	"      --json                      machine-readable\n"
	"      --program                   what runs in a step, one line per instruction:\n"
	"                                  its queue, what it reads (<) and writes (>),\n"
	"                                  what it waits for\n"
	"  -h, --help                      shows this\n";

#define KEPT "kept by stores" /* for their own use, as for checksums */

/* Counts also the host memory that plugins hold, by the account. Scratch in device memory is not
 * part of device_info.memory. */
static void print_tier(const struct zr_setup *s, int tier)
{
	uint64_t total = zr_plan_tier(&s->plan, tier);
	char a[32];
	for (int i = 0; i < ZR_R_COUNT; i++)
		if (s->plan.region[i].tier == tier && s->plan.region[i].bytes)
			printf("%-8s %-20s %12s\n", zr_tier_name(tier), s->plan.region[i].what,
			       zr_bytes_text(s->plan.region[i].bytes, a));
	if (tier == ZR_TIER_HOST && s->plan.kept)
		printf("%-8s %-20s %12s\n", zr_tier_name(tier), KEPT,
		       zr_bytes_text(s->plan.kept, a));
	for (int i = 0; i < s->account.n && tier == ZR_TIER_HOST; i++) {
		printf("%-8s %-20s %12s  held by plugins\n", zr_tier_name(tier),
		       s->account.line[i].what, zr_bytes_text(s->account.line[i].held, a));
		total += s->account.line[i].held;
	}
	if (zr_plan_shared(&s->plan, tier))
		printf("%-8s %-20s %12s  less: the same bytes at other times\n", zr_tier_name(tier),
		       "shared", zr_bytes_text(zr_plan_shared(&s->plan, tier), a));
	if (total)
		printf("%-8s %-20s %12s", zr_tier_name(tier), "total", zr_bytes_text(total, a));
	if (total && tier == ZR_TIER_DEVICE)
		printf(" of %s", zr_bytes_text(s->device_info.memory, a));
	if (total)
		putchar('\n');
}

static int uses_of(const struct zr_setup *s, int32_t phase)
{
	int n = 0;
	for (int32_t i = 0; i < s->train_uses.n; i++)
		n += s->train_uses.use[i].phase == phase;
	return n;
}

/* Layers whose forward runs again in backward. */
static int recomputed(const struct zr_setup *s)
{
	return uses_of(s, ZR_RECOMPUTE);
}

/* Layers whose backward runs: those from the lowest one with a trainable tensor on. */
static int backwards(const struct zr_setup *s)
{
	return uses_of(s, ZR_BACKWARD);
}

#define FROZEN (-1)

/* The number of tensors of a parameter group, or with FROZEN of those that are in no group, and in
 * *elements the number of their parameters. */
static int32_t tensors_of(const struct zr_setup *s, int32_t group, int64_t *elements)
{
	int32_t n = 0;
	*elements = 0;
	for (int32_t i = 0; i < s->layout.n_tensors; i++)
		if ((s->frozen[i] ? FROZEN : s->group_of[i]) == group) {
			*elements += s->layout.tensor[i].elements;
			n++;
		}
	return n;
}

static void print_frozen(const struct zr_setup *s)
{
	int64_t elements;
	int32_t n = tensors_of(s, FROZEN, &elements);
	if (n)
		printf("frozen: %d tensor%s, %lld parameters; backward runs through %d of %u "
		       "layers\n",
		       n, n == 1 ? "" : "s", (long long)elements, backwards(s), s->decl.n_layers);
	elements = 0;
	for (int32_t i = 0; i < s->layout.n_tensors; i++)
		elements += s->frozen[i] > 1 ? s->layout.tensor[i].elements : 0;
	if (elements)
		printf("stored in %s: %lld of them, %.3g bits each\n",
		       s->stored == ZR_NF4 ? "nf4" : s->stored == ZR_INT8 ? "int8" : "bf16",
		       (long long)elements, (double)zr_dtype_block(s->stored) * 8 / ZR_BLOCK);
}

static void print_groups(const struct zr_setup *s)
{
	for (int32_t g = 0; g < s->n_param_groups && s->n_param_groups > 1; g++) {
		const struct zr_section *sec = s->param_group[g].section;
		int64_t elements;
		int32_t n = tensors_of(s, g, &elements);
		printf("%s: %s, %d tensor%s, %lld parameters\n", sec->name, sec->plugin->desc->id,
		       n, n == 1 ? "" : "s", (long long)elements);
	}
}

static void print_table(const struct zr_setup *s, uint64_t have, int fits)
{
	char a[32], b[32];
	if (s->process.world > 1)
		printf("rank 0 of %d, stage %s; ", s->process.world,
		       s->zero.section->plugin->desc->id);
	printf("%.2f M parameters, micro-batch of %lld x %lld tokens, %s\n",
	       (double)s->layout.parameters / 1e6, (long long)s->batch.micro,
	       (long long)s->batch.length, s->types.dtype == ZR_F32 ? "fp32" : "16-bit");
	printf("activations: %s", s->activation.section->plugin->desc->id);
	if (recomputed(s))
		printf(", the forward of %d layers runs again in backward", recomputed(s));
	putchar('\n');
	print_groups(s);
	print_frozen(s);
	printf("\n%-8s %-20s %12s\n", "tier", "category", "bytes");
	for (int tier = ZR_TIER_DEVICE; tier <= ZR_TIER_DISK; tier++)
		print_tier(s, tier);
	printf("\n%s: %s of memory", fits ? "fits" : "does not fit",
	       zr_bytes_text(zr_plan_need(s), a));
	if (zr_machine_ranks(s) > 1)
		printf(" for %d ranks", zr_machine_ranks(s));
	printf(", %s available\n", zr_bytes_text(have, b));
}

static json_t *count(uint64_t n)
{
	return json_integer((json_int_t)n);
}

static json_t *tier_json(const struct zr_setup *s, int tier)
{
	json_t *region = json_object();
	for (const struct zr_region *r = s->plan.region; r < s->plan.region + ZR_R_COUNT; r++)
		if (r->tier == tier && r->bytes)
			zr_json_put(&region, r->what, count(r->bytes));
	if (tier == ZR_TIER_HOST && s->plan.kept)
		zr_json_put(&region, KEPT, count(s->plan.kept));
	return region;
}

static json_t *groups_json(const struct zr_setup *s)
{
	json_t *list = json_array();
	for (int32_t g = 0; g < s->n_param_groups; g++) {
		const struct zr_section *sec = s->param_group[g].section;
		int64_t elements;
		int32_t n = tensors_of(s, g, &elements);
		zr_json_add(&list, json_pack("{s:s, s:s, s:i, s:I}", "section", sec->name, "plugin",
					     sec->plugin->desc->id, "tensors", n, "parameters",
					     (json_int_t)elements));
	}
	return list;
}

static int print_json(const struct zr_setup *s, uint64_t have, int fits, struct zr_error *err)
{
	json_t *planned = json_object(), *total = json_object(), *held = json_object(),
	       *shared = json_object();
	for (int tier = ZR_TIER_DEVICE; tier <= ZR_TIER_DISK; tier++) {
		zr_json_put(&planned, zr_tier_name(tier), tier_json(s, tier));
		zr_json_put(&shared, zr_tier_name(tier), count(zr_plan_shared(&s->plan, tier)));
		zr_json_put(&total, zr_tier_name(tier), count(zr_plan_tier(&s->plan, tier)));
	}
	for (int i = 0; i < s->account.n; i++)
		zr_json_put(&held, s->account.line[i].what, count(s->account.line[i].held));
	int64_t frozen;
	tensors_of(s, FROZEN, &frozen);
	json_t *j = json_object();
	zr_json_put(&j, "parameters", count((uint64_t)s->layout.parameters));
	zr_json_put(&j, "frozen", count((uint64_t)frozen));
	zr_json_put(&j, "activation", json_string(s->activation.section->plugin->desc->id));
	zr_json_put(&j, "recomputed_layers", json_integer(recomputed(s)));
	zr_json_put(&j, "groups", groups_json(s));
	zr_json_put(&j, "planned", planned);
	zr_json_put(&j, "shared", shared);
	zr_json_put(&j, "total", total);
	zr_json_put(&j, "held_by_plugins", held);
	zr_json_put(&j, "needed", count(zr_plan_need(s)));
	zr_json_put(&j, "available", count(have));
	zr_json_put(&j, "fits", json_boolean(fits));
	return zr_json_print(j, JSON_INDENT(2), "the plan", err);
}

int zr_cmd_plan(int argc, char **argv)
{
	struct zr_cmd_args a;
	struct zr_config *cfg = NULL;
	struct zr_setup *s = NULL;
	struct zr_error err = { 0 };
	int rc = zr_cmd_parse(argc, argv, usage, "CONF", &a);
	if (rc >= 0)
		return rc;
	rc = zr_cmd_check_ranks(argv[0], a.ranks, RANKS_MAX);
	if (rc)
		return rc;
	rc = zr_config_load(a.operand, a.overrides, a.n_overrides, &cfg, &err);
	if (!rc)
		rc = zr_setup_open(cfg, ZR_SETUP_ALONE, a.ranks ? a.ranks : 1, &s, &err);
	if (!rc) {
		uint64_t have = a.memory ? a.memory : zr_memory_at_start();
		struct zr_error unprinted = { 0 };
		rc = zr_plan_check(s, have, &err);
		if (a.program)
			zr_programs_print(s, a.json, &unprinted);
		else if (a.json)
			print_json(s, have, !rc, &unprinted);
		else
			print_table(s, have, !rc);
		if (!rc && unprinted.code)
			rc = zr_err(&err, unprinted.code, "%s", unprinted.text);
	}
	zr_setup_close(s);
	zr_config_free(cfg);
	return rc ? zr_cmd_failed(&err) : 0;
}
