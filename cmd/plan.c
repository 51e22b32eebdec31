/* SPDX-License-Identifier: Apache-2.0
 *
 * plan.c - zeroth plan CONF: bytes per tier and category before running, and whether they fit.
 */
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "cmd/cmd.h"
#include "core/setup.h"

static const char usage[] =
	"usage: zeroth plan [--json] [-o section.key=value]... CONF\n"
	"\n"
	"Shows the memory that training CONF will take, by tier and category, without\n"
	"taking it. Exit code 0: it fits this machine; 3: it does not.\n"
	"\n"
	"  -o, --option section.key=value  sets an option over CONF\n"
	"      --json                      machine-readable\n"
	"  -h, --help                      shows this\n";

static const char *tier_of(const struct zr_setup *s)
{
	return s->device_info.unified ? "host" : "device";
}

/* What plugins hold already (data, scratch of the device) counts too: it is in the ledger, held. */
static void print_table(const struct zr_setup *s, uint64_t have, int fits)
{
	char a[32], b[32];
	uint64_t held = 0;
	printf("%.2f M parameters, micro-batch of %lld x %lld tokens, %s\n\n", (double)s->layout.parameters / 1e6,
	       (long long)s->batch.micro, (long long)s->batch.length, s->types.dtype == ZR_F32 ? "fp32" : "16-bit");
	printf("%-8s %-20s %12s\n", "tier", "category", "bytes");
	for (int i = 0; i < ZR_R_COUNT; i++)
		if (s->plan.region[i].bytes)
			printf("%-8s %-20s %12s\n", tier_of(s), s->plan.region[i].what,
			       zr_bytes_text(s->plan.region[i].bytes, a));
	for (int i = 0; i < s->account.n; i++) {
		printf("%-8s %-20s %12s  held by plugins\n", "host", s->account.line[i].what,
		       zr_bytes_text(s->account.line[i].held, a));
		held += s->account.line[i].held;
	}
	printf("%-8s %-20s %12s\n\n", tier_of(s), "total", zr_bytes_text(s->plan.total + held, a));
	printf("%s: %s to allocate, %s available\n", fits ? "fits" : "does not fit", zr_bytes_text(s->plan.total, a),
	       zr_bytes_text(have, b));
}

static int print_json(const struct zr_setup *s, uint64_t have, int fits)
{
	json_t *region = json_object(), *held = json_object();
	for (int i = 0; i < ZR_R_COUNT; i++)
		json_object_set_new(region, s->plan.region[i].what, json_integer((json_int_t)s->plan.region[i].bytes));
	for (int i = 0; i < s->account.n; i++)
		json_object_set_new(held, s->account.line[i].what, json_integer((json_int_t)s->account.line[i].held));
	json_t *j = json_pack("{s:I, s:s, s:o, s:o, s:I, s:I, s:b}", "parameters", (json_int_t)s->layout.parameters, "tier",
			      tier_of(s), "planned", region, "held_by_plugins", held, "total", (json_int_t)s->plan.total,
			      "available", (json_int_t)have, "fits", fits);
	int rc = json_dumpf(j, stdout, JSON_INDENT(2));
	putchar('\n');
	json_decref(j);
	return rc;
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
	rc = zr_config_load(a.operand, a.overrides, a.n_overrides, &cfg, &err);
	if (!rc)
		rc = zr_setup_open(cfg, ZR_SETUP_TRAIN, &s, &err);
	if (!rc) {
		rc = zr_plan_check(s, &err);
		if (a.json)
			print_json(s, zr_memory_available(), !rc);
		else
			print_table(s, zr_memory_available(), !rc);
	}
	zr_setup_close(s);
	zr_config_free(cfg);
	return rc ? zr_cmd_failed(&err) : 0;
}
