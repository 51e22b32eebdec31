/* SPDX-License-Identifier: Apache-2.0
 *
 * frame.c - see frame.h.
 */
#include "cmd/report/frame.h"

void zr_page_lines(FILE *f, const char *const *line)
{
	for (; *line; line++)
		fprintf(f, "%s\n", *line);
}

void zr_page_begin(FILE *f)
{
	fputs("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
	      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
	      "<meta name=\"color-scheme\" content=\"light dark\">\n"
	      "<link rel=\"icon\" href=\"data:,\">\n<title>",
	      f);
}

void zr_page_body(FILE *f, const char *const *css, const char *heading,
		  const struct zr_page_link *link)
{
	fputs("</title>\n<style>\n", f);
	zr_page_lines(f, zr_frame_css);
	if (css)
		zr_page_lines(f, css);

	fprintf(f, "</style>\n</head>\n<body>\n<header><h1>%s</h1>\n", heading);
	fputs("<nav aria-label=\"Sections\">", f);
	for (; link->id; link++)
		fprintf(f, "<a href=\"#%s\">%s</a>", link->id, link->text);
	fputs("</nav></header>\n<main>\n", f);
}

void zr_page_footer(FILE *f, const char *text)
{
	fprintf(f, "</main>\n<footer>%s</footer>\n", text);
}

void zr_page_end(FILE *f)
{
	fputs("</body>\n</html>\n", f);
}
