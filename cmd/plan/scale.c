/* SPDX-License-Identifier: Apache-2.0
 *
 * scale.c - see trial.h: the program of one rank of many, recorded as it would be there; its
 * memory, traffic and time.
 */
#include <stdio.h>
#include <stdlib.h>

#include "train/fit.h"
#include "train/forecast/print.h"
#include "cmd/plan/trial.h"
#include "core/base/json.h"
#include "core/base/json_text.h"

#define MOST (1 << 20)
#define NODE 8 /* ranks of a machine, where CONF does not say */

static void print_row(const struct zr_trial *t, double peak)
{
	char a[32], b[32], c[32], d[32], e[32];

	printf("%7d", t->ranks);
	if (t->refused) {
		printf(" %s\n", t->why);
		return;
	}

	printf(" %10s %10s %10s %10s", zr_bytes_text(t->device, a), zr_bytes_text(t->host, b),
	       zr_bytes_text(t->disk, c), zr_bytes_text(t->f.received, d));
	if (!t->forecast) {
		printf(" %9s %9s %10s %9s\n", "-", "-", "-", "-");
		return;
	}

	printf(" %9s %9s %10.4g %9.4g", zr_seconds_text(t->f.queue[ZR_Q_COMM], d),
	       zr_seconds_text(t->f.seconds, e), t->tokens / t->f.seconds,
	       t->tokens / t->f.seconds / t->ranks);
	if (peak > 0)
		printf(" %4.0f %%", 100 * (t->f.flops - t->f.again) / t->f.seconds / peak);
	printf(" %s\n", zr_forecast_queue_name(t->f.binding));
}

/* The next number of the list; 0: it ends; -1: it is none. */
static int next(const char **list)
{
	char *end;
	long n = **list ? strtol(*list, &end, 10) : 0;

	if (!**list)
		return 0;
	if (end == *list || (*end && *end != ',') || n < 1 || n > MOST)
		return -1;

	*list = *end ? end + 1 : end;
	return (int)n;
}

int zr_plan_scale(const struct zr_plan_args *a, struct zr_rate_source *rates, double peak,
		  struct zr_error *err)
{
	const char *list = a->scale;
	json_t *all = json_array();
	int rc = 0, n;

	if (!a->json)
		printf("%7s %10s %10s %10s %10s %9s %9s %10s %9s%s bound by\n", "ranks", "device",
		       "host", "disk", "received", "comm", "step", "tokens/s", "of a rank",
		       peak > 0 ? "    mfu" : "");
	while (!rc && (n = next(&list)) > 0) {
		char node[64];
		struct zr_trial t = { .set = { NULL }, .ranks = n, .keep_offload = 1 };
		snprintf(node, sizeof node, "boot.ranks_per_node=%d", n < NODE ? n : NODE);
		t.set[0] = node;
		rc = zr_trial_run(a, rates, &t, err);
		if (!rc && a->json)
			zr_json_add(&all, zr_trial_json(&t));
		else if (!rc)
			print_row(&t, peak);
	}

	if (!rc && n < 0)
		rc = zr_err(err, ZR_EINVAL,
			    "--scale %s: expected numbers of ranks in [1, %d], as "
			    "1,8,64,1024",
			    a->scale, MOST);
	if (!rc && a->json)
		return zr_json_print(all, JSON_INDENT(2), "the plan", err);

	json_decref(all);
	if (!rc && !a->json)
		printf("bytes of a rank; machines of %d ranks; %s\n", NODE, rates->by);
	return rc;
}
