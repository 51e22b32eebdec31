/* SPDX-License-Identifier: Apache-2.0
 *
 * jinja.h - chat templates as models have them: the part of Jinja that they use, as transformers
 * sets it up (trim_blocks, lstrip_blocks, break and continue, its own tojson, generation blocks,
 * an immutable sandbox). What is not in this part is refused by name, with file and line, when the
 * template is opened. A template reads its variables and nothing else; steps, depth, memory and
 * output of a rendering are bounded.
 *
 *   statements  for (with a condition, else), if, set (also as a block), macro, generation, break,
 *               continue, raw
 *   the rest    expressions of Jinja; filters.c, tests.c, functions.c, methods.c have tables
 */
#ifndef ZR_CHAT_JINJA_H
#define ZR_CHAT_JINJA_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/error.h"
#include "files/tokenizer/buf.h"

#define ZR_JINJA_TEXT (4u << 20) /* most bytes of a template */

/* Bounds of a rendering; what exceeds one ends it with ZR_EINVAL. Steps are those of all values,
 * statements and, by 64, bytes that are looked at. */
#define ZR_JINJA_STEPS  (UINT64_C(1) << 26)
#define ZR_JINJA_DEPTH  200          /* of statements, expressions and calls in one another */
#define ZR_JINJA_MEMORY (256u << 20) /* bytes that values take */
#define ZR_JINJA_OUTPUT (256u << 20)

/* A template; once open, any number of threads may render with it. */
struct zr_jinja;

/* name: what errors call it, as a path; copied. ZR_ENOTSUP: it has something that is not in the
 * subset; ZR_EINVAL: it is no template. [main] */
int zr_jinja_open(const char *name, const char *text, size_t n, struct zr_jinja **out,
		  struct zr_error *err);
void zr_jinja_close(struct zr_jinja *t); /* NULL is fine */

/* Whether it has a generation block. */
int zr_jinja_generates(const struct zr_jinja *t);
/* Whether it has this word, as a name, an attribute or in a text. */
int zr_jinja_mentions(const struct zr_jinja *t, const char *word);

/* Bytes [from, to) of the output that a generation block wrote. */
struct zr_jinja_span {
	size_t from, to;
};

/* What a rendering leaves, and the memory that the next one takes again; zero at first. One
 * thread at a time. */
struct zr_jinja_work {
	struct zr_buf text;
	struct zr_buf spans; /* struct zr_jinja_span each, in order */
	int lost; /* a generation block wrote to a text that may stand anywhere: not in spans */
	struct zr_jinja_memory *memory;
	uint64_t most_steps; /* in place of ZR_JINJA_STEPS; 0: that */
};
void zr_jinja_work_free(struct zr_jinja_work *w);

/* The text for these variables, an object. date: days since 1970-01-01 for strftime_now, which
 * INT64_MIN refuses. ZR_EINVAL: what the template, Python's rules or a bound do not allow, with
 * file and line. */
int zr_jinja_render(const struct zr_jinja *t, const json_t *variables, int64_t date,
		    struct zr_jinja_work *w, struct zr_error *err);

#endif
