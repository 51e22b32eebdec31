/* SPDX-License-Identifier: Apache-2.0
 *
 * asked.h - conversations of a run's data, as tokens: what a model is asked, and the answer that
 * the data has. Of texts without questions, how some begin and go on. [main]
 */
#ifndef ZR_REPORT_ASKED_H
#define ZR_REPORT_ASKED_H

#include <stddef.h>
#include <stdint.h>

#include "core/base/error.h"

/* Of texts in which all is learned, tokens that are asked with; tokens of an answer, and of what is
 * shown of how such a text goes on, at most. */
#define ZR_ASKED_BEGIN  48
#define ZR_ASKED_ANSWER 96

struct zr_asked {
	int32_t *tokens; /* [n] that come before the answer; owned */
	int64_t n;
	int64_t most; /* tokens of an answer */
	int32_t end;  /* the token that ends the answer of the data, if it is a special one; -1 */
	char *html;   /* the conversation, with the answer of the data marked; owned */
};

struct zr_asked_list {
	struct zr_asked *at; /* [n]; owned */
	int n;
	int held_out; /* they are of the part that is not learned from */
};

/* The first conversations, `most` at most, of what [data] of a run holds out, or learns from where
 * it holds nothing out. zr_asked_free also after a failure. */
int zr_asked_of_run(const char *run, int most, struct zr_asked_list *out, struct zr_error *err);
void zr_asked_free(struct zr_asked_list *l);

#endif
