/* SPDX-License-Identifier: Apache-2.0
 *
 * section.c - see report.h: what sections of the page have in common.
 */
#include "cmd/report/html.h"
#include "cmd/report/report.h"

void zr_report_heading(struct zr_report *r, const char *id, const char *title)
{
	fprintf(r->page, "<h2 id=\"%s\">%s</h2>\n", id, title);
}

void zr_report_missing(struct zr_report *r, const struct zr_run_files *run, const char *what)
{
	fputs("<p class=\"card missing\"><b>", r->page);
	zr_html_text(r->page, run->name);
	fprintf(r->page, "</b>: %s.</p>\n", what);
}
