/* SPDX-License-Identifier: Apache-2.0
 *
 * compare.c - see trial.h: what each stage takes of each memory, with state on the device, in host
 * memory and on disk, and how long a step takes then.
 */
#include <stdio.h>

#include "cmd/fit.h"
#include "cmd/forecast/print.h"
#include "cmd/forecast/trial.h"

static void print_row(const struct zr_trial *t, int s, const struct zr_tiers *o)
{
	char a[32], b[32], c[32], d[32], e[32], f[32], g[32];
	printf("%-6d %-24s", s, o->name);
	if (t->refused) {
		printf(" %s\n", t->why);
		return;
	}
	printf(" %10s %10s %10s %10s", zr_bytes_text(t->device, a), zr_bytes_text(t->host, b),
	       zr_bytes_text(t->disk, c), zr_bytes_text(t->machine, d));
	if (t->forecast)
		printf(" %10s %10s %9s %10.4g %s", zr_bytes_text(t->f.received, e),
		       zr_bytes_text(t->f.read + t->f.written, f),
		       zr_seconds_text(t->f.seconds, g),
		       t->f.seconds > 0 ? t->tokens / t->f.seconds : 0,
		       zr_queue_name[t->f.binding]);
	putchar('\n');
}

int zr_plan_compare(const struct zr_cmd_args *a, struct zr_rate_source *rates, struct zr_error *err)
{
	int rc = 0, separate = 1;
	printf("\n%-6s %-24s %10s %10s %10s %10s", "stage", "offload", "device", "host", "disk",
	       "all ranks");
	printf(rates->known ? " %10s %10s %9s %10s bound by\n" : "\n", "received", "disk a step",
	       "step", "tokens/s");
	for (int s = 0; s < 4; s++) {
		for (int o = 0; !rc && o < zr_n_trial_tiers; o++) {
			struct zr_trial t = { .set = { zr_trial_stage[s] },
					      .ranks = a->ranks ? a->ranks : 1 };
			if (!zr_tiers_suit(&zr_trial_tiers[o], s, separate))
				continue;
			zr_trial_set_all(&t, zr_trial_tiers[o].set);
			rc = zr_trial_run(a, rates, &t, err);
			separate = rc || t.refused ? separate : t.separate;
			if (!rc)
				print_row(&t, s, &zr_trial_tiers[o]);
		}
	}
	if (!rc)
		printf("device, host, disk: bytes of a rank; all ranks: of the machine's memory, "
		       "by %d rank%s\n",
		       a->ranks ? a->ranks : 1, a->ranks > 1 ? "s" : "");
	return rc;
}
