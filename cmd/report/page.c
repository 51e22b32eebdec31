/* SPDX-License-Identifier: Apache-2.0
 *
 * page.c - see report.h: the sections of the page, in the frame of frame.h.
 */
#include <stdlib.h>

#include "cmd/report/frame.h"
#include "cmd/report/html.h"
#include "cmd/report/report.h"

static void begin(struct zr_report *r)
{
	static const struct zr_page_link sections[] = {
		{ "training", "training" }, { "time", "time" },
		{ "memory", "memory" },     { "timeline", "timeline" },
		{ "numbers", "numbers" },   { "config", "configuration" },
		{ "machine", "machine" },   { "answers", "answers" },
		{ "samples", "samples" },   { NULL, NULL },
	};
	FILE *f = r->page;

	zr_page_begin(f);
	for (int i = 0; i < r->n; i++) {
		fputs(i ? ", " : "", f);
		zr_html_text(f, r->run[i].name);
	}

	fputs(" - Zeroth", f);
	zr_page_body(f, zr_page_css, r->n > 1 ? "Training runs" : "Training run", sections);
	if (r->n > 1) {
		fputs("<fieldset class=\"runs\"><legend>runs shown</legend>", f);
		for (int i = 0; i < r->n; i++) {
			fprintf(f,
				"<label><input type=\"checkbox\" value=\"%d\" checked><i "
				"class=\"b%d\"></i>",
				i, i % 8);
			zr_html_text(f, r->run[i].name);
			fputs("</label>", f);
		}

		fputs("</fieldset>\n", f);
	}
}

static int write_sections(struct zr_report *r)
{
	begin(r);
	zr_report_overview(r);
	if (zr_report_curves(r) || zr_report_breakdown(r))
		return -1;

	zr_report_memory(r);
	zr_report_timeline(r);
	zr_report_numbers(r);
	zr_report_config(r);
	zr_report_machine(r);
	zr_report_talks(r);
	zr_report_samples(r);
	return 0;
}

int zr_report_page(struct zr_report *r, char **text, struct zr_error *err)
{
	char *page = NULL, *data = NULL;
	size_t page_bytes, data_bytes;

	r->charts = 0;
	r->page = open_memstream(&page, &page_bytes);
	r->data = open_memstream(&data, &data_bytes);
	int rc = !r->page || !r->data || write_sections(r);
	rc |= r->data && fclose(r->data);
	if (!rc) {
		zr_page_footer(r->page, "Written by zeroth report. Drag over a curve to zoom; "
					"double click or \"show all\" goes back.");
		fputs("<script type=\"application/json\" id=\"data\">{", r->page);
		fwrite(data, 1, data_bytes, r->page);
		fputs("}</script>\n<script>\n", r->page);
		zr_page_lines(r->page, zr_page_js);
		fputs("</script>\n", r->page);
		zr_page_end(r->page);
	}

	rc |= r->page && fclose(r->page);
	free(data);
	if (!rc) {
		*text = page;
		return 0;
	}

	free(page);
	return zr_no_memory(err);
}
