/* SPDX-License-Identifier: Apache-2.0
 *
 * talks.c - the section of conversations: as a run's data has them, beside what its model answers,
 * checkpoint by checkpoint.
 */
#include <string.h>

#include "cmd/report/html.h"
#include "cmd/report/report.h"

static int is_blank(const char *text)
{
	return !text[strspn(text, " \t\r\n")];
}

static void write_step(FILE *f, const struct zr_answers_step *at, int question)
{
	fprintf(f, "<tr><th scope=\"row\">step %lld</th><td>", (long long)at->step);
	if (at->why) {
		fputs("<p class=\"note\">no answer: ", f);
		zr_html_text(f, at->why);
		fputs("</p>", f);
	} else if (is_blank(at->text[question])) {
		fputs("<p class=\"note\">nothing but white space</p>", f);
	} else {
		fputs("<pre>", f);
		zr_html_text(f, at->text[question]);
		fputs("</pre>", f);
	}

	fputs("</td></tr>\n", f);
}

static void write_talk(FILE *f, const struct zr_answers *a, int question)
{
	const struct zr_asked *q = &a->asked.at[question];

	fputs("<div class=\"answered\"><div class=\"asked\">", f);
	fputs(q->html, f);
	fputs("</div><table class=\"text answers\"><tbody>\n", f);
	for (int i = 0; i < a->n; i++)
		write_step(f, &a->at[i], question);
	fputs("</tbody></table></div>\n", f);
}

static void write_run(FILE *f, const struct zr_run_files *run, const struct zr_answers *a)
{
	fputs("<details class=\"card\" open><summary>", f);
	zr_html_text(f, run->name);
	fprintf(f,
		"</summary><p class=\"note\">%s Underlined: what the data "
		"answers. Below: what the model says in place of the last answer, "
		"by its likeliest tokens, %d at most.</p>\n",
		a->asked.held_out ? "Held out: nothing of it was learned." :
				    "Of what was learned: nothing is held out.",
		ZR_ASKED_ANSWER);
	if (a->left)
		fprintf(f, "<p class=\"note\">Time was up before %d later checkpoint%s.</p>\n",
			a->left, a->left > 1 ? "s" : "");
	for (int i = 0; i < a->asked.n; i++)
		write_talk(f, a, i);
	fputs("</details>\n", f);
}

void zr_report_talks(struct zr_report *r)
{
	zr_report_heading(r, "answers", "Answers over time");
	if (!r->answers) {
		fputs("<p class=\"card missing\">None were asked for.</p>\n", r->page);
		return;
	}

	for (int i = 0; i < r->n; i++) {
		const struct zr_answers *a = &r->answers[i];
		if (*a->why)
			zr_report_missing(r, &r->run[i], a->why);
		else
			write_run(r->page, &r->run[i], a);
	}
}
