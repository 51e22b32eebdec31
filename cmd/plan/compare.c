/* SPDX-License-Identifier: Apache-2.0
 *
 * compare.c - see trial.h: what each stage takes of each memory, with state on the device, in host
 * memory and on disk, and how long a step takes then.
 */
#include <stdio.h>

#include "cmd/plan/trial.h"
#include "core/base/json.h"
#include "train/fit.h"
#include "train/forecast/print.h"

static void print_row(const struct zr_trial *t, int s, const struct zr_tiers *o)
{
	char a[32], b[32], c[32], d[32], e[32], f[32], g[32], h[32];

	printf("%-6d %-24s", s, o->name);
	if (t->refused) {
		printf(" %s\n", t->why);
		return;
	}

	printf(" %10s %10s %10s %10s", zr_bytes_text(t->device, a), zr_bytes_text(t->host, b),
	       zr_bytes_text(t->disk, c), zr_bytes_text(t->machine, d));
	if (t->forecast)
		printf(" %10s %11s %9s %9s %10.4g %s", zr_bytes_text(t->f.received, e),
		       zr_bytes_text(t->f.read + t->f.written, f),
		       zr_bytes_text((uint64_t)zr_forecast_wear(&t->f), h),
		       zr_seconds_text(t->f.seconds, g),
		       t->f.seconds > 0 ? t->tokens / t->f.seconds : 0,
		       zr_forecast_queue_name(t->f.binding));
	putchar('\n');
}

static void print_heads(int forecast)
{
	printf("\n%-6s %-24s %10s %10s %10s %10s", "stage", "offload", "device", "host", "disk",
	       "all ranks");
	if (forecast)
		printf(" %10s %11s %9s %9s %10s bound by", "received", "disk a step", "a day",
		       "step", "tokens/s");
	putchar('\n');
}

static json_t *row_json(const struct zr_trial *t, int s, const struct zr_tiers *o)
{
	json_t *j = zr_trial_json(t);
	zr_json_put(&j, "stage", json_integer(s));
	zr_json_put(&j, "offload", json_string(o->name));
	return j;
}

int zr_plan_compare(const struct zr_plan_args *a, struct zr_rate_source *rates, json_t **out,
		    struct zr_error *err)
{
	int rc = 0, separate = 1, ranks = a->ranks ? a->ranks : 1;

	*out = a->json ? json_array() : NULL;
	if (!a->json)
		print_heads(rates->known);
	for (int i = 0; !rc && i < 4 * zr_n_trial_tiers; i++) {
		int s = i / zr_n_trial_tiers;
		const struct zr_tiers *o = &zr_trial_tiers[i % zr_n_trial_tiers];
		struct zr_trial t = { .set = { zr_trial_stage[s] }, .ranks = ranks };
		if (!zr_tiers_suit(o, s, separate))
			continue;

		zr_trial_set_all(&t, o->set);
		rc = zr_trial_run(a, rates, &t, err);
		separate = rc || t.refused ? separate : t.separate;
		if (!rc && a->json)
			zr_json_add(out, row_json(&t, s, o));
		else if (!rc)
			print_row(&t, s, o);
	}

	if (!rc && !a->json)
		printf("device, host, disk: bytes of a rank; all ranks: of the machine's memory, "
		       "by %d rank%s%s\n",
		       ranks, ranks > 1 ? "s" : "", rates->known ? "; a day: written to disk" : "");
	return rc;
}
