/* SPDX-License-Identifier: Apache-2.0
 *
 * frame.h - what the HTML pages of Zeroth begin and end with: a page needs nothing else, no network
 * and no other file, is light or dark as its reader's screen is, and fits a phone. frame.css has
 * the style of what all pages have. A page is made in this order: begin, the text of its title,
 * body, its sections, footer, whatever scripts it has, end. [main]
 */
#ifndef ZR_REPORT_FRAME_H
#define ZR_REPORT_FRAME_H

#include <stdio.h>

/* A section, by the id of its heading. */
struct zr_page_link {
	const char *id, *text;
};

/* Up to the text of <title>. */
void zr_page_begin(FILE *f);
/* Up to the first section. css: lines of style that this page alone has, NULL behind the last, or
 * NULL; link: its sections, an id of NULL behind the last. What is given is no text of a user. */
void zr_page_body(FILE *f, const char *const *css, const char *heading,
		  const struct zr_page_link *link);
/* Ends the sections. text: one line, no text of a user. */
void zr_page_footer(FILE *f, const char *text);
void zr_page_end(FILE *f);

/* Lines that NULL ends, as those of a style or a script. */
void zr_page_lines(FILE *f, const char *const *line);

/* The lines of frame.css, without their ends; NULL ends them. */
extern const char *const zr_frame_css[];

#endif
