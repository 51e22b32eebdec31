/* SPDX-License-Identifier: Apache-2.0
 *
 * memory.c - bytes by tier and category: what the plan has and what the run held.
 */
#include <math.h>
#include <string.h>

#include "cmd/report/html.h"
#include "cmd/report/report.h"

#define TIERS      3
#define CATEGORIES 32

static const char *const tier_name[TIERS] = { "device", "host", "disk" };

struct category {
	const char *name;
	double planned, peak;
};

struct tier {
	struct category c[CATEGORIES];
	int n;
	double planned, peak, shared; /* peak NaN: not measured; shared: at other times */
};

/* A category has one colour on all of the page; small ones share the last. */
static int colour(const char *name)
{
	static const char *const large[] = {
		"parameters",        "optimizer state",  "gradients", "activations", "workspace",
		"master parameters", "gradient buffers", "staging",   "batch",       "data",
	};
	const int n = sizeof large / sizeof *large;

	for (int i = 0; i < n; i++)
		if (!strcmp(large[i], name))
			return i;
	return ZR_PARTS - 1;
}

static struct category *category(struct tier *t, const char *name)
{
	for (int i = 0; i < t->n; i++)
		if (!strcmp(t->c[i].name, name))
			return &t->c[i];
	if (t->n == CATEGORIES)
		return &t->c[CATEGORIES - 1];

	t->c[t->n] = (struct category){ name, 0, 0 };
	return &t->c[t->n++];
}

static double bytes(const json_t *j)
{
	return json_is_number(j) ? json_number_value(j) : 0;
}

/* What the run held; NULL: it is not known, or of an earlier process, whose plan was another. */
static json_t *held_of(const struct zr_run_files *run)
{
	if (zr_run_ended(run))
		return json_object_get(run->summary, "memory");
	return NULL;
}

static void read_tier(const struct zr_run_files *run, int at, struct tier *t)
{
	json_t *planned = json_object_get(json_object_get(run->plan, "planned"), tier_name[at]);
	json_t *held = json_object_get(run->plan, "held_by_plugins");
	json_t *ledger = json_object_get(held_of(run), tier_name[at]), *v;
	const char *name;

	memset(t, 0, sizeof *t);
	t->shared = bytes(json_object_get(json_object_get(run->plan, "shared"), tier_name[at]));
	json_object_foreach(planned, name, v) category(t, name)->planned += bytes(v);
	if (at == 1)
		json_object_foreach(held, name, v) category(t, name)->planned += bytes(v);
	json_object_foreach(ledger, name, v)
	{
		struct category *c = category(t, name);
		if (!run->plan)
			c->planned += bytes(json_object_get(v, "planned"));
		c->peak += bytes(json_object_get(v, "peak"));
	}

	for (int i = 0; i < t->n; i++) {
		t->planned += t->c[i].planned;
		t->peak += t->c[i].peak;
	}

	if (!ledger)
		t->peak = NAN;
}

static void write_bar(const struct tier *t, int measured, double most, FILE *f)
{
	char text[ZR_NUMBER_ROOM];
	double at = 0, sum = measured ? t->peak : t->planned - t->shared;

	fprintf(f,
		"<div class=\"bar\"><span>%s</span><svg viewBox=\"0 0 1000 10\" "
		"preserveAspectRatio=\"none\" role=\"img\"><title>%s: %s</title>",
		measured ? "held" : "planned", measured ? "held at its peak" : "planned",
		zr_number_bytes(sum, text));
	for (int i = 0; i < t->n; i++) {
		double b = measured ? t->c[i].peak : t->c[i].planned;
		if (!(b > 0))
			continue;

		fprintf(f, "<rect class=\"p%d\" x=\"%.2f\" width=\"%.2f\" height=\"10\"><title>",
			colour(t->c[i].name), 1000 * at / most, 1000 * b / most);
		zr_html_text(f, t->c[i].name);
		fprintf(f, ": %s</title></rect>", zr_number_bytes(b, text));
		at += b;
	}

	fprintf(f, "</svg><b>%s</b></div>", zr_number_bytes(sum, text));
}

static void write_tier(const struct tier *t, const char *name, FILE *f)
{
	const double most = t->peak > t->planned ? t->peak : t->planned;
	char a[ZR_NUMBER_ROOM], b[ZR_NUMBER_ROOM];

	if (!(most > 0))
		return;

	fprintf(f, "<h4>%s</h4>", name);
	write_bar(t, 0, most, f);
	if (!isnan(t->peak))
		write_bar(t, 1, most, f);
	fputs("<ul class=\"legend\">", f);
	for (int i = 0; i < t->n; i++) {
		fprintf(f, "<li><i class=\"p%d\"></i>", colour(t->c[i].name));
		zr_html_text(f, t->c[i].name);
		fputs("</li>", f);
	}

	fputs("</ul>", f);
	if (t->shared > 0)
		fprintf(f,
			"<p class=\"note\">%s of what is planned are the same bytes at other "
			"times: the bar has them, its sum does not.</p>",
			zr_number_bytes(t->shared, a));
	fputs("<details><summary>numbers</summary><div class=\"wide\"><table><thead><tr>"
	      "<th>category</th><th>planned</th><th>held at its peak</th></tr></thead><tbody>",
	      f);
	for (int i = 0; i < t->n; i++) {
		fprintf(f, "<tr><th scope=\"row\"><i class=\"p%d\"></i>", colour(t->c[i].name));
		zr_html_text(f, t->c[i].name);
		fprintf(f, "</th><td>%s</td><td>%s</td></tr>", zr_number_bytes(t->c[i].planned, a),
			isnan(t->peak) ? "-" : zr_number_bytes(t->c[i].peak, b));
	}

	fputs("</tbody></table></div></details>", f);
}

void zr_report_memory(struct zr_report *r)
{
	struct tier t;
	char text[ZR_NUMBER_ROOM];

	zr_report_heading(r, "memory", "Memory against the plan");
	fputs("<div class=\"grid2\">", r->page);
	for (int i = 0; i < r->n; i++) {
		const struct zr_run_files *run = &r->run[i];
		json_t *held = held_of(run);
		double peak = held ? zr_run_summary(run, "process_peak_bytes") : NAN;
		if (!run->plan && !held) {
			zr_report_missing(r, run,
					  "neither plan.json nor summary.json, which have the "
					  "bytes by category");
			continue;
		}

		fputs("<section class=\"card\"><h3>", r->page);
		zr_html_text(r->page, run->name);
		fputs(" <small>rank 0</small></h3>", r->page);
		for (int k = 0; k < TIERS; k++) {
			read_tier(run, k, &t);
			write_tier(&t, tier_name[k], r->page);
		}

		if (!run->plan)
			fputs("<p class=\"note\">No plan.json: what is planned is from "
			      "summary.json."
			      "</p>",
			      r->page);
		if (!held)
			fputs("<p class=\"note\">What was held is not known before the run ends."
			      "</p>",
			      r->page);
		if (isfinite(peak))
			fprintf(r->page, "<p class=\"note\">The process had %s at its peak.</p>",
				zr_number_bytes(peak, text));
		fputs("</section>\n", r->page);
	}

	fputs("</div>\n", r->page);
}
