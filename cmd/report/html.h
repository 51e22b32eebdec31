/* SPDX-License-Identifier: Apache-2.0
 *
 * html.h - text and numbers in HTML, and numbers for people. All text of a run goes through
 * zr_html_text or zr_html_json. [main]
 */
#ifndef ZR_REPORT_HTML_H
#define ZR_REPORT_HTML_H

#include <stdint.h>
#include <stdio.h>

/* Escaped, for text and for values of attributes in double quotes. What is no UTF-8, or a control
 * character that HTML does not have, is U+FFFD. */
void zr_html_text(FILE *f, const char *text);
/* As a JSON string in a <script>, quotes included. */
void zr_html_json(FILE *f, const char *text);
/* A JSON number of six significant digits; null if it is not finite. */
void zr_html_number(FILE *f, double v);

#define ZR_NUMBER_ROOM 48
/* Four significant digits, thousands separated by commas: 12,345, 3.142, 1.2e-07. "-" for NaN. */
char *zr_number(double v, char text[ZR_NUMBER_ROOM]);
/* 1.50 GiB */
char *zr_number_bytes(double v, char text[ZR_NUMBER_ROOM]);
/* 250 us, 1.50 s, 2 h 05 min */
char *zr_number_seconds(double v, char text[ZR_NUMBER_ROOM]);

#endif
