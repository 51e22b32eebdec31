/* SPDX-License-Identifier: Apache-2.0
 *
 * regex.c - see regex.h. Text whose end is not known is matched with PCRE2_PARTIAL_HARD: a match
 * that looked behind the end counts as none, so that what is found does not depend on where text
 * was cut.
 */
#include "files/tokenizer/regex.h"

#ifdef HAVE_PCRE2

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

#define STACK_START (32u << 10)
#define STACK_MOST  (64u << 20) /* bytes that a match may go deep */
#define STEPS_MOST  100000000u  /* of one match: what a pattern may go astray */

struct zr_regex {
	pcre2_code *code;
	int words; /* ZR_WORDS_* */
	int runs;  /* below ZR_RUNS: found by classes */
};

struct zr_match {
	pcre2_match_data *data;
	pcre2_match_context *context;
	pcre2_jit_stack *stack;
	unsigned char *class_of[ZR_RUNS]; /* NULL: not needed yet */
};

static int fail(struct zr_error *err, int code, const char *what)
{
	PCRE2_UCHAR text[128] = "";
	pcre2_get_error_message(code, text, sizeof text);
	return zr_err(err, code == PCRE2_ERROR_NOMEMORY ? ZR_ENOMEM : ZR_EINVAL, "%s: %s", what,
		      (const char *)text);
}

static int check(const struct zr_regex *re, struct zr_error *err)
{
	uint32_t empty = 0, behind = 0;

	pcre2_pattern_info(re->code, PCRE2_INFO_MATCHEMPTY, &empty);
	pcre2_pattern_info(re->code, PCRE2_INFO_MAXLOOKBEHIND, &behind);
	if (empty)
		return zr_err(err, ZR_ENOTSUP, "the pattern matches where there is nothing");
	if (behind)
		return zr_err(err, ZR_ENOTSUP, "the pattern looks behind");

	return 0;
}

static int compile(struct zr_regex *re, const char *pattern, struct zr_error *err)
{
	int code;

	PCRE2_SIZE at;
	pcre2_compile_context *lines = pcre2_compile_context_create(NULL);
	if (!lines)
		return zr_no_memory(err);

	pcre2_set_newline(lines, PCRE2_NEWLINE_LF);
	re->code = pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED,
				 PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &code, &at,
				 lines);
	pcre2_compile_context_free(lines);
	if (!re->code)
		return fail(err, code, "the pattern is wrong");

	/* Where there is no compiler to machine code, matching goes on without. */
	pcre2_jit_compile(re->code, PCRE2_JIT_COMPLETE | PCRE2_JIT_PARTIAL_HARD);
	return check(re, err);
}

int zr_regex_compile(const char *pattern, int literal, struct zr_regex **out, struct zr_error *err)
{
	char *text;
	int rc = zr_pattern_translate(pattern, literal, &text, err);
	if (rc)
		return rc;

	struct zr_regex *re = calloc(1, sizeof *re);
	if (re)
		rc = compile(re, text, err);
	else
		rc = zr_no_memory(err);
	if (re) {
		if (literal)
			re->words = ZR_WORDS_OTHER;
		else
			re->words = zr_words_known(pattern);
		if (literal)
			re->runs = ZR_RUNS;
		else
			re->runs = zr_runs_known(pattern);
	}

	free(text);
	if (rc)
		zr_regex_free(re);
	else
		*out = re;

	return rc;
}

void zr_regex_free(struct zr_regex *re)
{
	if (!re)
		return;
	pcre2_code_free(re->code);
	free(re);
}

int zr_regex_words(const struct zr_regex *re)
{
	return re->words;
}

int zr_regex_is_by_class(const struct zr_regex *re)
{
	return re->runs < ZR_RUNS;
}

int zr_match_open(struct zr_match **out, struct zr_error *err)
{
	struct zr_match *m = *out = calloc(1, sizeof *m);
	if (!m)
		return zr_no_memory(err);

	m->data = pcre2_match_data_create(1, NULL);
	m->context = pcre2_match_context_create(NULL);
	if (!m->data || !m->context)
		return zr_no_memory(err);

	pcre2_set_match_limit(m->context, STEPS_MOST);
	m->stack = pcre2_jit_stack_create(STACK_START, STACK_MOST, NULL);
	pcre2_jit_stack_assign(m->context, NULL, m->stack);
	return 0;
}

void zr_match_close(struct zr_match *m)
{
	if (!m)
		return;

	pcre2_jit_stack_free(m->stack);
	pcre2_match_context_free(m->context);
	pcre2_match_data_free(m->data);
	for (int i = 0; i < ZR_RUNS; i++)
		free(m->class_of[i]);
	free(m);
}

/* ---- runs ---- */

struct question {
	const struct zr_regex *re;
	struct zr_match *m;
	int *failed; /* PCRE2's code, where it gave no answer */
};

/* How much of p[0..n), n > 0, a match at its start has. */
static size_t matched(const struct question *q, const char *p, size_t n)
{
	int code = pcre2_match(q->re->code, (PCRE2_SPTR)p, n, 0,
			       PCRE2_NO_UTF_CHECK | PCRE2_ANCHORED, q->m->data, q->m->context);
	if (code >= 0)
		return pcre2_get_ovector_pointer(q->m->data)[1];

	if (code != PCRE2_ERROR_NOMATCH)
		*q->failed = code;
	return 0;
}

/* By what it matches with a letter, or with itself, behind it. */
static unsigned class_of(const void *arg, const char *p, size_t n)
{
	char two[8];

	memcpy(two, p, n);
	two[n] = 'a';
	size_t with_letter = matched(arg, two, n + 1);
	memcpy(two + n, p, n);
	if (!with_letter)
		return ZR_CLASS_NONE;
	if (with_letter > n)
		return ZR_CLASS_RUN;
	if (matched(arg, two, 2 * n) > n)
		return ZR_CLASS_OTHER_RUN;

	return ZR_CLASS_ALONE;
}

static int find_run(const struct zr_regex *re, struct zr_match *m, const char *p, size_t n,
		    size_t at, int partial, size_t *start, size_t *stop, struct zr_error *err)
{
	unsigned char **classes = &m->class_of[re->runs];
	int failed = 0, rc;
	const struct question q = { re, m, &failed };

	if (!*classes)
		*classes = calloc(ZR_CHARACTERS, 1);
	if (!*classes)
		return zr_no_memory(err);

	const struct zr_runs runs = { *classes, class_of, &q };
	rc = zr_runs_find(&runs, p, n, at, partial, start, stop);
	if (!failed)
		return rc;

	free(*classes); /* a class is wrong there */
	*classes = NULL;
	return fail(err, failed, "cannot split the text");
}

/* ---- any pattern ---- */

int zr_regex_find(const struct zr_regex *re, struct zr_match *m, const char *p, size_t n, size_t at,
		  int partial, size_t *start, size_t *stop, struct zr_error *err)
{
	uint32_t options = PCRE2_NO_UTF_CHECK | (partial ? PCRE2_PARTIAL_HARD : 0);

	if (re->runs < ZR_RUNS)
		return find_run(re, m, p, n, at, partial, start, stop, err);

	*start = at;
	if (re->words)
		*stop = zr_words_end(re->words, p, n, at, partial);
	else
		*stop = 0;
	if (*stop)
		return ZR_REGEX_FOUND;

	int code = pcre2_match(re->code, (PCRE2_SPTR)p, n, at, options, m->data, m->context);
	const PCRE2_SIZE *span = pcre2_get_ovector_pointer(m->data);
	if (code == PCRE2_ERROR_NOMATCH)
		return ZR_REGEX_NONE;
	if (code < 0 && code != PCRE2_ERROR_PARTIAL)
		return fail(err, code, "cannot split the text");

	*start = span[0];
	*stop = span[1];
	return code == PCRE2_ERROR_PARTIAL ? ZR_REGEX_MORE : ZR_REGEX_FOUND;
}

#else

int zr_regex_compile(const char *pattern, int literal, struct zr_regex **out, struct zr_error *err)
{
	(void)pattern, (void)literal, (void)out;
	return zr_err(err, ZR_ENOTSUP,
		      "needs PCRE2, which this build lacks: install libpcre2-dev, "
		      "configure and build again");
}

void zr_regex_free(struct zr_regex *re)
{
	(void)re;
}

int zr_regex_words(const struct zr_regex *re)
{
	(void)re;
	return ZR_WORDS_OTHER;
}

int zr_regex_is_by_class(const struct zr_regex *re)
{
	(void)re;
	return 0;
}

int zr_match_open(struct zr_match **out, struct zr_error *err)
{
	(void)err;
	*out = NULL;
	return 0;
}

void zr_match_close(struct zr_match *m)
{
	(void)m;
}

int zr_regex_find(const struct zr_regex *re, struct zr_match *m, const char *p, size_t n, size_t at,
		  int partial, size_t *start, size_t *stop, struct zr_error *err)
{
	(void)re, (void)m, (void)p, (void)n, (void)at;
	(void)partial, (void)start, (void)stop, (void)err;
	return ZR_REGEX_NONE;
}

#endif
