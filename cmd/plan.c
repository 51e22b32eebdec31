/* SPDX-License-Identifier: Apache-2.0
 *
 * plan.c - zeroth plan CONF: bytes per tier and category before running, and whether they fit.
 */
#include <stdio.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <string.h>

#include "cmd/cmd.h"
#include "cmd/plan/trial.h"
#include "cmd/program.h"
#include "core/base/json.h"
#include "core/base/json_text.h"
#include "core/setup.h"
#include "train/fit.h"
#include "train/forecast/plan_json.h"
#include "train/forecast/print.h"
#include "train/room.h"
#include "train/run/trace.h"

#define RANKS_MAX 4096

#define AT(member) offsetof(struct zr_plan_args, member)

static const struct zr_cmd_option options[] = {
	ZR_CMD_OPTION_SET(struct zr_plan_args, "sets an option over CONF"),
	{ 'n', "ranks", "N", "for N ranks on this machine: the bytes of rank 0", .kind = ZR_CMD_INT,
	  .at = AT(ranks), .least = 1, .most = RANKS_MAX, .counts = "a number of ranks" },
	{ 0, "memory", "BYTES", "of a machine with this much memory (K M G T)",
	  .kind = ZR_CMD_BYTES, .at = AT(memory) },
	{ 0, "rates", "FILE",
	  "what `zeroth bench` measured; default: that of [run] rates, or this machine's",
	  .kind = ZR_CMD_TEXT, .at = AT(rates) },
	{ 0, "card", "NAME",
	  "plans for a card such as H100 by its data sheet: its memory, and rates that follow "
	  "from it, but for those of --rates FILE",
	  .kind = ZR_CMD_TEXT, .at = AT(card) },
	{ 0, "network", "CARDSxGBITS",
	  "network cards of a machine and Gbit/s of each, as 8x400; default with --card: one of "
	  "400 for each rank",
	  .kind = ZR_CMD_TEXT, .at = AT(network) },
	{ 0, "endurance", "PBW",
	  "says how long the disks of a machine last, to which so many petabytes (10^15 bytes) "
	  "may be written in all, as 1.2",
	  .kind = ZR_CMD_NUMBER, .at = AT(endurance), .least = 1e-3, .most = 1e6,
	  .counts = "petabytes" },
	{ 0, "compare", NULL, NULL, .kind = ZR_CMD_FLAG, .at = AT(compare) },
	{ 0, "no-compare", NULL,
	  "with the table of stages and tiers, or without; default: with it for up to 1000 layers "
	  "and experts",
	  .kind = ZR_CMD_FLAG, .at = AT(no_compare), .place = ZR_CMD_OR },
	{ 0, "fit", NULL,
	  "the fastest of stages, tiers, micro-batches, recomputation and 8-bit states that fits, "
	  "as INI",
	  .kind = ZR_CMD_FLAG, .at = AT(fit) },
	{ 0, "device", "BYTES", "with --fit: searches for cards with this much memory each",
	  .kind = ZR_CMD_BYTES, .at = AT(device), .place = ZR_CMD_WITHIN },
	{ 0, "host", "BYTES", NULL, .kind = ZR_CMD_BYTES, .at = AT(host), .place = ZR_CMD_WITHIN },
	{ 0, "disk", "BYTES", "with --fit: searches for a machine with this much for all ranks",
	  .kind = ZR_CMD_BYTES, .at = AT(disk), .place = ZR_CMD_WITHIN },
	{ 0, "scale", "N,N,...", "memory, traffic and time of so many ranks, in machines of 8",
	  .kind = ZR_CMD_TEXT, .at = AT(scale) },
	ZR_CMD_OPTION_JSON(struct zr_plan_args, "machine-readable"),
	{ 0, "program", NULL,
	  "what runs in a step, one line per instruction: its queue, what it reads (<) and writes "
	  "(>), what it waits for, and what its disk keeps it behind; marked: a device that "
	  "computes later begins copies after it while it computes what comes next",
	  .kind = ZR_CMD_FLAG, .at = AT(program) },
	{ 0 },
};

const struct zr_cmd_usage zr_plan_usage = {
	.command = "plan",
	.form = { { NULL, "CONF", NULL } },
	.about = "Shows the memory that training CONF will take, by tier and category, without\n"
		 "taking it, how long a step will take, and both for stages 0 to 3 and other "
		 "tiers.\n"
		 "Its data need not be there. Exit code 0: it fits this machine; 3: it does not.\n",
	.option = options,
};

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
		printf("%-8s %-20s %12s\n", zr_tier_name(tier), ZR_PLAN_KEPT,
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
		printf(" of %s", zr_bytes_text(s->facts.device_info.memory, a));
	if (total)
		putchar('\n');
}

static const char *name_of_store(int32_t dtype)
{
	if (dtype == ZR_NF4)
		return "nf4";
	return dtype == ZR_INT8 ? "int8" : "bf16";
}

static void print_frozen(const struct zr_setup *s)
{
	int64_t elements;

	int32_t n = zr_plan_tensors(s, ZR_PLAN_FROZEN, &elements);
	if (n)
		printf("frozen: %d tensor%s, %lld parameters; backward runs through %d of %u "
		       "layers\n",
		       n, n == 1 ? "" : "s", (long long)elements,
		       zr_plan_uses(&s->programs, ZR_BACKWARD), s->facts.decl.n_layers);
	elements = 0;
	for (int32_t i = 0; i < s->facts.layout.n_tensors; i++)
		elements += s->facts.frozen[i] > 1 ? s->facts.layout.tensor[i].elements : 0;
	if (elements)
		printf("stored in %s: %lld of them, %.3g bits each\n",
		       name_of_store(s->facts.stored), (long long)elements,
		       (double)zr_dtype_block(s->facts.stored) * 8 / ZR_BLOCK);
}

static void print_groups(const struct zr_setup *s)
{
	for (int32_t g = 0; g < s->roles.n_param_groups && s->roles.n_param_groups > 1; g++) {
		const struct zr_section *sec = s->roles.param_group[g].section;
		int64_t elements;
		int32_t n = zr_plan_tensors(s, g, &elements);
		printf("%s: %s, %d tensor%s, %lld parameters\n", sec->name, sec->plugin->desc->id,
		       n, n == 1 ? "" : "s", (long long)elements);
	}
}

static void print_table(const struct zr_setup *s, uint64_t have, int fits)
{
	char a[32], b[32];

	if (s->facts.process.world > 1)
		printf("rank 0 of %d, stage %s; ", s->facts.process.world,
		       s->roles.zero.section->plugin->desc->id);
	printf("%.2f M parameters, micro-batch of %lld x %lld tokens, %s\n",
	       (double)s->facts.layout.parameters / 1e6, (long long)s->facts.batch.micro,
	       (long long)s->facts.batch.length,
	       s->facts.types.dtype == ZR_F32 ? "fp32" : "16-bit");
	printf("activations: %s", s->roles.activation.section->plugin->desc->id);
	int recomputed = zr_plan_uses(&s->programs, ZR_RECOMPUTE);
	if (recomputed)
		printf(", the forward of %d layers runs again in backward", recomputed);
	putchar('\n');
	print_groups(s);
	print_frozen(s);
	printf("\n%-8s %-20s %12s\n", "tier", "category", "bytes");
	for (int tier = ZR_TIER_DEVICE; tier <= ZR_TIER_DISK; tier++)
		print_tier(s, tier);
	printf("\n%s: %s of memory", fits ? "fits" : "does not fit",
	       zr_bytes_text(zr_plan_need(s), a));
	if (zr_machine_ranks(&s->facts) > 1)
		printf(" for %d ranks", zr_machine_ranks(&s->facts));
	printf(", %s available\n", zr_bytes_text(have, b));
	printf("at its end the run directory gets %s of weights\n",
	       zr_bytes_text(zr_room_needed(s), a));
}

static int forecast(struct zr_setup *s, struct zr_rate_source *rates, struct zr_forecast *f,
		    struct zr_error *err)
{
	if (zr_rate_source_suits(rates, &s->facts))
		return zr_forecast_make(s, &rates->rates, f, err);
	return 0;
}

/* Whether experts could be computed by the device or by the host. */
static int has_choice_of_experts(const struct zr_setup *s)
{
	const struct zr_setup_facts *f = &s->facts;

	return zr_has_experts(&f->decl) && !f->device_info.host_ops &&
	       zr_offloaded(f, ZR_STORE_PARAM);
}

/* What a step takes with experts where they are not: on the host, or on the device. */
static int try_other_experts(const struct zr_plan_args *a, const struct zr_setup *s,
			     struct zr_rate_source *rates, struct zr_trial *t, struct zr_error *err)
{
	const int on_host = s->facts.homes.on_host;

	*t = (struct zr_trial){ .ranks = a->ranks ? a->ranks : 1, .keep_offload = 1 };
	zr_trial_set(t, on_host ? "train.experts_on=device" : "train.experts_on=host");
	return zr_trial_run(a, rates, t, err);
}

/* Bits are those of what computes experts: nothing is chosen for the user. */
static int advise_experts(const struct zr_plan_args *a, const struct zr_setup *s, double seconds,
			  struct zr_rate_source *rates, struct zr_error *err)
{
	struct zr_trial t;
	char text[32];

	if (!has_choice_of_experts(s))
		return 0;

	int rc = try_other_experts(a, s, rates, &t, err);
	if (rc || t.refused || !t.forecast)
		return rc;

	printf("with -o %s a step takes %s, %.4g tokens/s%s\n", t.set[0],
	       zr_seconds_text(t.f.seconds, text), t.tokens / t.f.seconds,
	       t.f.seconds < seconds ? ": faster, to other bits" : "");
	return 0;
}

static int put_other_experts(const struct zr_plan_args *a, const struct zr_setup *s,
			     struct zr_rate_source *rates, json_t **j, struct zr_error *err)
{
	struct zr_trial t;

	int rc = try_other_experts(a, s, rates, &t, err);
	if (!rc)
		zr_json_put(j, s->facts.homes.on_host ? "experts_on_device" : "experts_on_host",
			    zr_trial_json(&t));
	return rc;
}

/* What is known of the configuration itself. */
struct outlook {
	uint64_t have; /* bytes of the machine's memory */
	int fits;
	struct zr_forecast f; /* seconds 0: none */
};

static int compares(const struct zr_plan_args *a, const struct zr_setup *s)
{
	return a->compare || (!a->no_compare && s->facts.layout.n_units <= 1000);
}

static int print_as_json(const struct zr_plan_args *a, struct zr_setup *s, const struct outlook *k,
			 struct zr_rate_source *rates, struct zr_error *err)
{
	json_t *j = zr_plan_json(s, k->have, k->fits), *rows = NULL;

	if (zr_data_absent(s->cfg))
		zr_json_put(&j, "absent", json_string(zr_data_absent(s->cfg)));
	if (k->f.seconds > 0)
		zr_json_put(&j, "forecast",
			    zr_forecast_json(&s->facts, &k->f, rates->by, 1e15 * a->endurance));
	int rc = 0;
	if (has_choice_of_experts(s))
		rc = put_other_experts(a, s, rates, &j, err);
	if (!rc && compares(a, s))
		rc = zr_plan_compare(a, rates, &rows, err);
	if (compares(a, s))
		zr_json_put(&j, "comparison", rows); /* without memory for rows there is no plan */
	if (!rc)
		return zr_json_print(j, JSON_INDENT(2), "the plan", err);

	json_decref(j);
	return rc;
}

static int print_as_text(const struct zr_plan_args *a, struct zr_setup *s, const struct outlook *k,
			 struct zr_rate_source *rates, struct zr_error *err)
{
	json_t *none;
	int rc = 0;

	print_table(s, k->have, k->fits);
	if (k->f.seconds > 0) {
		zr_forecast_print(&s->facts, &k->f, rates->by, 1e15 * a->endurance);
		rc = advise_experts(a, s, k->f.seconds, rates, err);
	} else if (zr_rate_source_suits(rates, &s->facts)) {
		printf("\ntime of a step: a rank would hold too much: take more ranks\n");
	} else {
		printf("\ntime of a step: %s\n", rates->by);
	}

	if (rc)
		return rc;
	if (compares(a, s))
		return zr_plan_compare(a, rates, &none, err);
	if (!a->no_compare)
		printf("\nother stages and tiers: --compare, which takes a while for so many "
		       "layers\n");
	return 0;
}

static int print_plan(const struct zr_plan_args *a, struct zr_setup *s,
		      struct zr_rate_source *rates, struct zr_error *err)
{
	struct zr_error unprinted = { 0 };
	struct outlook k = { .have = a->memory ? a->memory : zr_memory_at_start() };
	int rc = zr_plan_check(s, k.have, err);

	k.fits = !rc;
	if (a->program)
		zr_programs_print(s, a->json, &unprinted);
	else if (forecast(s, rates, &k.f, &unprinted))
		; /* why is in `unprinted` */
	else if (a->json)
		print_as_json(a, s, &k, rates, &unprinted);
	else
		print_as_text(a, s, &k, rates, &unprinted);
	if (rc || !unprinted.code)
		return rc;
	return zr_err(err, unprinted.code, "%s", unprinted.text);
}

/* What stands for a card comes before what the user says. */
static void be_card(struct zr_plan_args *a, char *memory, size_t size)
{
	const char *first[] = { "device.plugin=cpu", memory, "comm.plugin=planned" };
	const int n = sizeof first / sizeof *first;

	if (a->n_overrides + n > ZR_CMD_OVERRIDES)
		return;

	snprintf(memory, size, "device.memory=%llu", (unsigned long long)zr_card_memory(a->card));
	memmove(a->overrides + n, a->overrides, (size_t)a->n_overrides * sizeof *a->overrides);
	memcpy(a->overrides, first, sizeof first);
	a->n_overrides += n;
	a->device = a->device ? a->device : zr_card_memory(a->card);
}

/* Tables plan dozens of times, each with lists that are as large as the last time. */
static void keep_freed_memory(void)
{
#ifdef __GLIBC__
	mallopt(M_MMAP_THRESHOLD, 32 << 20);
	mallopt(M_TRIM_THRESHOLD, 256 << 20);
#endif
}

int zr_cmd_plan(int argc, char **argv)
{
	struct zr_plan_args a = { 0 };
	struct zr_cmd_operands operands;
	struct zr_config *cfg = NULL;
	struct zr_setup *s = NULL;
	struct zr_rate_source rates = { 0 };
	struct zr_error err = { 0 };
	char memory[64];

	keep_freed_memory();
	int rc = zr_cmd_parse(argc, argv, &zr_plan_usage, NULL, &a, &operands);
	if (rc >= 0)
		return rc;

	a.operand = operands.at[0];
	if (a.card)
		be_card(&a, memory, sizeof memory);
	rc = zr_config_load(a.operand, a.overrides, a.n_overrides, &cfg, &err);
	if (!rc)
		rc = zr_trace_check(cfg, &err);
	if (!rc)
		rc = zr_rate_source_open(a.rates, a.card, cfg, &rates, &err);
	if (!rc && a.network)
		rc = zr_rate_source_network(&rates, a.network, &err);
	if (!rc && !a.json && !a.program && zr_data_absent(cfg))
		printf(ZR_DATA_ABSENT "\n", zr_data_absent(cfg));
	if (!rc && a.fit) {
		rc = zr_plan_search(&a, &rates, &err);
	} else if (!rc && a.scale) {
		double peak = a.card ? zr_card_peak(a.card, ZR_BF16) : 0;
		rc = zr_plan_scale(&a, &rates, peak, &err);
	} else if (!rc) {
		rc = zr_plan_open(cfg, a.ranks ? a.ranks : 1, &s, &err);
		if (!rc)
			rc = print_plan(&a, s, &rates, &err);
	}

	zr_rate_source_close(&rates);
	zr_setup_close(s);
	zr_config_free(cfg);
	return rc ? zr_cmd_failed(&err) : 0;
}
