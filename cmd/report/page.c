/* SPDX-License-Identifier: Apache-2.0
 *
 * page.c - see report.h: the frame of the page, around its sections.
 */
#include <stdlib.h>

#include "cmd/report/html.h"
#include "cmd/report/report.h"

static void put_lines(FILE *f, const char *const *line)
{
	for (; *line; line++)
		fprintf(f, "%s\n", *line);
}

static void begin(struct zr_report *r)
{
	FILE *f = r->page;

	fputs("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
	      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
	      "<meta name=\"color-scheme\" content=\"light dark\">\n"
	      "<link rel=\"icon\" href=\"data:,\">\n<title>",
	      f);
	for (int i = 0; i < r->n; i++) {
		fputs(i ? ", " : "", f);
		zr_html_text(f, r->run[i].name);
	}

	fputs(" - Zeroth</title>\n<style>\n", f);
	put_lines(f, zr_page_css);
	fputs("</style>\n</head>\n<body>\n<header><h1>", f);
	fputs(r->n > 1 ? "Training runs" : "Training run", f);
	fputs("</h1>\n<nav aria-label=\"Sections\"><a href=\"#training\">training</a>"
	      "<a href=\"#time\">time</a><a href=\"#memory\">memory</a>"
	      "<a href=\"#timeline\">timeline</a><a href=\"#numbers\">numbers</a>"
	      "<a href=\"#config\">configuration</a><a href=\"#machine\">machine</a>"
	      "<a href=\"#samples\">samples</a></nav></header>\n<main>\n",
	      f);
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
		fputs("</main>\n<footer>Written by zeroth report. Drag over a curve to zoom; "
		      "double "
		      "click or \"show all\" goes back.</footer>\n"
		      "<script type=\"application/json\" id=\"data\">{",
		      r->page);
		fwrite(data, 1, data_bytes, r->page);
		fputs("}</script>\n<script>\n", r->page);
		put_lines(r->page, zr_page_js);
		fputs("</script>\n</body>\n</html>\n", r->page);
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
