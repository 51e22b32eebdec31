/* SPDX-License-Identifier: Apache-2.0
 *
 * timeline.c - one step of trace/step-*.json: what each queue of each rank did, a lane each. Spans
 * too narrow to be seen are drawn as one with their neighbours.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/report/html.h"
#include "cmd/report/report.h"

#define LANES 48
#define SPANS 3000 /* drawn of a run */

struct span {
	double from, to; /* us */
	int lane, part;
	const char *name; /* borrowed of the trace */
	const char *unit;
	int joined; /* how many spans it stands for */
};

struct lane {
	json_int_t rank, queue;
	const char *queue_name;
	double busy;
};

struct view {
	struct lane lane[LANES];
	int n_lanes, left_out;
	struct span *span;
	size_t n;
	double first, last;
};

static int part_of(const char *category)
{
	for (int p = 0; category && p < ZR_PARTS; p++)
		if (!strcmp(category, zr_part_name[p]))
			return p;
	return ZR_PART_OTHER;
}

static int lane_of(struct view *v, json_int_t rank, json_int_t queue)
{
	for (int i = 0; i < v->n_lanes; i++)
		if (v->lane[i].rank == rank && v->lane[i].queue == queue)
			return i;
	if (v->n_lanes == LANES) {
		v->left_out = 1;
		return -1;
	}

	v->lane[v->n_lanes] = (struct lane){ rank, queue, NULL, 0 };
	return v->n_lanes++;
}

static int by_time(const void *a, const void *b)
{
	const struct span *x = a, *y = b;
	if (x->lane != y->lane)
		return x->lane < y->lane ? -1 : 1;
	return x->from < y->from ? -1 : x->from > y->from;
}

/* Names come in events of their own, before or behind the spans. */
static void note_name(struct view *v, const json_t *e, json_int_t rank, json_int_t queue)
{
	const char *what = json_string_value(json_object_get(e, "name"));

	const char *name = json_string_value(json_object_get(json_object_get(e, "args"), "name"));
	if (!what || !name || strcmp(what, "thread_name"))
		return;

	int lane = lane_of(v, rank, queue);
	if (lane >= 0)
		v->lane[lane].queue_name = name;
}

static int read_events(struct view *v, const json_t *events)
{
	size_t i;
	json_t *e;

	v->span = malloc((json_array_size(events) + 1) * sizeof *v->span);
	if (!v->span)
		return -1;

	v->first = INFINITY;
	v->last = -INFINITY;
	json_array_foreach(events, i, e)
	{
		const char *phase = json_string_value(json_object_get(e, "ph"));
		const json_int_t rank = json_integer_value(json_object_get(e, "pid"));
		const json_int_t queue = json_integer_value(json_object_get(e, "tid"));
		if (phase && !strcmp(phase, "M"))
			note_name(v, e, rank, queue);
		if (!phase || strcmp(phase, "X"))
			continue;

		struct span s = { .from = json_number_value(json_object_get(e, "ts")),
				  .lane = lane_of(v, rank, queue),
				  .part = part_of(json_string_value(json_object_get(e, "cat"))),
				  .name = json_string_value(json_object_get(e, "name")),
				  .unit = json_string_value(
					  json_object_get(json_object_get(e, "args"), "unit")),
				  .joined = 1 };
		s.to = s.from + json_number_value(json_object_get(e, "dur"));
		if (s.lane < 0 || !isfinite(s.from) || !(s.to >= s.from))
			continue;

		v->first = fmin(v->first, s.from);
		v->last = fmax(v->last, s.to);
		v->lane[s.lane].busy += s.to - s.from;
		v->span[v->n++] = s;
	}

	qsort(v->span, v->n, sizeof *v->span, by_time);
	return 0;
}

/* Joins spans of one lane and part that are less than `gap` apart. */
static void join(struct view *v, double gap)
{
	size_t out = 0;

	for (size_t i = 0; i < v->n; i++) {
		struct span *last = out ? &v->span[out - 1] : NULL;
		if (last && last->lane == v->span[i].lane && last->part == v->span[i].part &&
		    v->span[i].from - last->to < gap) {
			last->to = fmax(last->to, v->span[i].to);
			last->joined += v->span[i].joined;
		} else {
			v->span[out++] = v->span[i];
		}
	}

	v->n = out;
}

/* What a queue does beside other things of its own is in lanes named "store 2", "store 3". */
static int goes_on(const struct view *v, int lane)
{
	const struct lane *l = &v->lane[lane], *before = lane ? l - 1 : l;
	const char *number = l->queue_name ? strchr(l->queue_name, ' ') : NULL;
	return number && before->rank == l->rank && before->queue_name &&
	       !strncmp(before->queue_name, l->queue_name, (size_t)(number - l->queue_name));
}

static void write_lane(const struct view *v, int lane, FILE *f)
{
	const double wide = v->last > v->first ? v->last - v->first : 1;
	char text[ZR_NUMBER_ROOM];
	const struct lane *l = &v->lane[lane];

	fprintf(f, "<div class=\"lane%s\"><span>rank %lld ", goes_on(v, lane) ? " more" : "",
		(long long)l->rank);
	if (l->queue_name)
		zr_html_text(f, l->queue_name);
	else
		fprintf(f, "queue %lld", (long long)l->queue);
	fputs("</span><svg viewBox=\"0 0 1000 10\" preserveAspectRatio=\"none\">", f);
	for (size_t i = 0; i < v->n; i++) {
		const struct span *s = &v->span[i];
		if (s->lane != lane)
			continue;

		fprintf(f, "<rect class=\"p%d\" x=\"%.2f\" width=\"%.2f\" height=\"10\"><title>",
			s->part, 1000 * (s->from - v->first) / wide,
			fmax(1000 * (s->to - s->from) / wide, 0.05));
		if (s->joined > 1)
			fprintf(f, "%d of %s", s->joined, zr_part_name[s->part]);
		else
			zr_html_text(f, s->name ? s->name : zr_part_name[s->part]);
		if (s->joined == 1 && s->unit) {
			putc(' ', f);
			zr_html_text(f, s->unit);
		}

		fprintf(f, ", %s</title></rect>",
			zr_number_seconds((s->to - s->from) * 1e-6, text));
	}

	fputs("</svg></div>", f);
}

static void write_legend(const struct view *v, FILE *f)
{
	int seen[ZR_PARTS] = { 0 };

	for (size_t i = 0; i < v->n; i++)
		seen[v->span[i].part] = 1;
	fputs("<ul class=\"legend\">", f);
	for (int p = 0; p < ZR_PARTS; p++)
		if (seen[p]) {
			fprintf(f, "<li><i class=\"p%d\"></i>%s</li>", p, zr_part_name[p]);
		}
	fputs("</ul>", f);
}

static void write_view(const struct zr_run_files *run, struct view *v, FILE *f)
{
	char text[ZR_NUMBER_ROOM];
	int wide = 0;
	const double span = v->last - v->first;

	for (double gap = span / 4000; v->n > SPANS && gap <= span; gap *= 2)
		join(v, gap);
	fputs("<figure class=\"card timeline\"><figcaption>", f);
	zr_html_text(f, run->name);
	fputs(" <small>", f);
	zr_html_text(f, run->trace_name);
	fprintf(f, ", %s%s</small></figcaption>", zr_number_seconds(span * 1e-6, text),
		run->traces > 1 ? "; the last of the traced steps" : "");
	write_legend(v, f);
	fputs("<label class=\"zoom\">wider <input type=\"range\" min=\"1\" max=\"40\" value=\"1\" "
	      "step=\"0.5\"></label><div class=\"lanes\"><div class=\"inner\">",
	      f);
	for (int i = 0; i < v->n_lanes; i++)
		if (v->lane[i].busy > 0) {
			write_lane(v, i, f);
			wide++;
		}
	fputs("</div></div>", f);
	fputs("<details><summary>numbers</summary><div "
	      "class=\"wide\"><table><thead><tr><th>queue</th>"
	      "<th>busy</th><th>share of the step</th></tr></thead><tbody>",
	      f);
	for (int i = 0; i < v->n_lanes; i++) {
		const struct lane *l = &v->lane[i];
		fprintf(f, "<tr><th scope=\"row\">rank %lld ", (long long)l->rank);
		zr_html_text(f, l->queue_name ? l->queue_name : "queue");
		fprintf(f, "</th><td>%s</td><td>%.1f%%</td></tr>",
			zr_number_seconds(l->busy * 1e-6, text),
			span > 0 ? 100 * l->busy / span : 0);
	}

	fputs("</tbody></table></div></details>", f);
	if (v->left_out)
		fprintf(f, "<p class=\"note\">More than %d lanes: the others are in the file.</p>",
			wide);
	fputs("<p class=\"note\">The same file opens in Perfetto, with every instruction.</p>"
	      "</figure>\n",
	      f);
}

void zr_report_timeline(struct zr_report *r)
{
	zr_report_heading(r, "timeline", "One step by queue");
	for (int i = 0; i < r->n; i++) {
		const struct zr_run_files *run = &r->run[i];
		const json_t *events = json_object_get(run->trace, "traceEvents");
		struct view *v = calloc(1, sizeof *v);
		if (!v || !json_is_array(events) || read_events(v, events) || !v->n)
			zr_report_missing(r, run,
					  run->traces ? "the trace has no spans" :
							"no step was traced: [run] trace = 10 "
							"traces the tenth");
		else
			write_view(run, v, r->page);
		if (v)
			free(v->span);
		free(v);
	}
}
