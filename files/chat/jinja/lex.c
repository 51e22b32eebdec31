/* SPDX-License-Identifier: Apache-2.0
 *
 * lex.c - see parts.h: tokens, as jinja2/lexer.py 3.1 has them with trim_blocks and lstrip_blocks:
 * a line end behind a block or a comment goes, and so does white space between the start of a line
 * and one, but where a + or - says otherwise.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "files/chat/jinja/parts.h"
#include "files/tokenizer/utf8.h"

int zj_refuse(struct zj_parser *ps, int code, const char *fmt, ...)
{
	char text[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	ps->failed = 1;
	return zr_err(ps->err, code, "%s:%d: %s", ps->t->name, ps->token.line, text);
}

int zj_is_sign(const struct zj_token *t, const char *sign)
{
	return t->kind == ZJ_T_SIGN && t->n == strlen(sign) && !memcmp(t->p, sign, t->n);
}

int zj_is_name(const struct zj_token *t, const char *name)
{
	return t->kind == ZJ_T_NAME && t->n == strlen(name) && !memcmp(t->p, name, t->n);
}

/* ---- places of the source ---- */

static int has_at(const struct zj_parser *ps, size_t at, const char *what)
{
	const size_t n = strlen(what);
	return at <= ps->n && n <= ps->n - at && !memcmp(ps->source + at, what, n);
}

static void move_to(struct zj_parser *ps, size_t to)
{
	for (; ps->at < to; ps->at++)
		ps->line += ps->source[ps->at] == '\n';
}

/* Bytes of the white space at byte `at`; 0: none. */
static size_t space_at(const struct zj_parser *ps, size_t at)
{
	size_t n;

	if (at >= ps->n || !zj_is_space(zr_utf8_read(ps->source + at, &n)))
		return 0;

	return n;
}

static size_t behind_spaces(const struct zj_parser *ps, size_t at)
{
	size_t n;

	while ((n = space_at(ps, at)))
		at += n;

	return at;
}

/* Where white space begins that ends at `at`, not before `from`. */
static size_t before_spaces(const struct zj_parser *ps, size_t from, size_t at)
{
	while (at > from) {
		const size_t before = zr_utf8_previous(ps->source, at);
		if (!space_at(ps, before))
			break;
		at = before;
	}

	return at;
}

/* ---- between tags ---- */

/* Where the text [from, at) ends that a tag follows. sign: the character behind its start. */
static size_t end_of_text(const struct zj_parser *ps, size_t from, size_t at, char sign,
			  int is_variable)
{
	if (sign == '-')
		return before_spaces(ps, from, at);
	if (sign == '+' || is_variable)
		return at;

	size_t line = at;
	while (line > from && ps->source[line - 1] != '\n')
		line--;
	if (line == from && !ps->line_starts)
		return at;
	if (before_spaces(ps, line, at) > line)
		return at;

	return line;
}

/* Past the end of a block or comment, whose last two bytes begin at `at`. */
static void end_tag(struct zj_parser *ps, size_t at, char sign, int trims)
{
	size_t to = at + 2;

	if (sign == '-')
		to = behind_spaces(ps, to);
	else if (sign != '+' && trims && has_at(ps, to, "\n"))
		to++;
	move_to(ps, to);
	ps->line_starts = ps->source[to - 1] == '\n';
}

/* A character that is + or -, else 0. */
static char sign_at(const struct zj_parser *ps, size_t at)
{
	if (has_at(ps, at, "-") || has_at(ps, at, "+"))
		return ps->source[at];

	return 0;
}

/* Where the next of these two bytes is; ps->n: nowhere. */
static size_t find_pair(const struct zj_parser *ps, size_t from, const char *pair)
{
	for (size_t at = from; at + 1 < ps->n; at++)
		if (!memcmp(ps->source + at, pair, 2))
			return at;

	return ps->n;
}

static int skip_comment(struct zj_parser *ps)
{
	const size_t from = ps->at + 2 + (sign_at(ps, ps->at + 2) != 0);
	const size_t end = find_pair(ps, from, "#}");

	ps->token.line = ps->line;
	if (end == ps->n)
		return zj_refuse(ps, ZR_EINVAL, "a comment has no end #}");

	end_tag(ps, end, end > from ? sign_at(ps, end - 1) : 0, 1);
	return 0;
}

/* Whether a block at `at` is this word alone. *sign, *end: of its end. */
static int is_word_block(const struct zj_parser *ps, size_t at, const char *word, char *sign,
			 size_t *end)
{
	size_t to = behind_spaces(ps, at + 2 + (sign_at(ps, at + 2) != 0));

	if (!has_at(ps, to, word))
		return 0;

	to = behind_spaces(ps, to + strlen(word));
	*sign = sign_at(ps, to);
	*end = to + (*sign != 0);
	return has_at(ps, *end, "%}");
}

static int give_data(struct zj_parser *ps, size_t from, size_t to)
{
	ps->token = (struct zj_token){
		.kind = ZJ_T_DATA, .line = ps->line, .p = ps->source + from, .n = to - from
	};
	return 0;
}

/* What stands in a raw block, as text. */
static int read_raw(struct zj_parser *ps, char begin_sign, size_t begin_end)
{
	char sign = 0;
	size_t at, end = 0;

	ps->token.line = ps->line;
	end_tag(ps, begin_end, begin_sign, 0);
	const size_t from = ps->at;
	for (at = from; (at = find_pair(ps, at, "{%")) < ps->n; at += 2)
		if (is_word_block(ps, at, "endraw", &sign, &end))
			break;
	if (at == ps->n)
		return zj_refuse(ps, ZR_EINVAL, "raw has no endraw");

	const size_t to = end_of_text(ps, from, at, sign_at(ps, at + 2), 0);
	give_data(ps, from, to);
	end_tag(ps, end, sign, 1);
	return 0;
}

static int begin_tag(struct zj_parser *ps)
{
	ps->tag_waits = 0;
	ps->in_tag = 1;
	ps->in_variable = has_at(ps, ps->at, "{{");
	ps->token =
		(struct zj_token){ .kind = ps->in_variable ? ZJ_T_VARIABLE_BEGIN : ZJ_T_BLOCK_BEGIN,
				   .line = ps->line };
	move_to(ps, ps->at + 2 + (sign_at(ps, ps->at + 2) != 0));
	return 0;
}

/* Where the next tag begins; ps->n: nowhere. */
static size_t find_tag(const struct zj_parser *ps)
{
	for (size_t at = ps->at; at + 1 < ps->n; at++)
		if (ps->source[at] == '{' && strchr("{%#", ps->source[at + 1]) &&
		    ps->source[at + 1])
			return at;

	return ps->n;
}

static int next_outside(struct zj_parser *ps)
{
	const size_t from = ps->at, tag = find_tag(ps);
	size_t to = tag, end = 0;
	char sign = 0;

	if (tag < ps->n)
		to = end_of_text(ps, from, tag, sign_at(ps, tag + 2), ps->source[tag + 1] == '{');
	give_data(ps, from, to);
	move_to(ps, tag);
	ps->line_starts = 0;
	if (tag == ps->n) {
		if (to == from)
			ps->token.kind = ZJ_T_END;
		return 0;
	}

	const struct zj_token data = ps->token;
	if (has_at(ps, tag, "{#")) {
		int rc = skip_comment(ps);
		ps->token = data;
		return rc;
	}

	if (has_at(ps, tag, "{%") && is_word_block(ps, tag, "raw", &sign, &end) && sign != '+') {
		if (to == from)
			return read_raw(ps, sign, end);
		ps->line_starts = 0;
		return 0; /* the next call finds it again, behind an empty text */
	}

	ps->tag_waits = 1;
	return 0;
}

/* ---- in tags ---- */

static int end_of_tag(struct zj_parser *ps)
{
	const char *end = ps->in_variable ? "}}" : "%}";
	const char sign = sign_at(ps, ps->at);
	const size_t at = ps->at + (sign != 0);

	if (ps->open || !has_at(ps, at, end) || (sign == '+' && ps->in_variable))
		return 0;

	ps->token.kind = ps->in_variable ? ZJ_T_VARIABLE_END : ZJ_T_BLOCK_END;
	end_tag(ps, at, sign, !ps->in_variable);
	ps->in_tag = 0;
	return 1;
}

static int is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static int is_letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static size_t digits(const char *p)
{
	size_t n = 0;

	while (is_digit(p[n]))
		n++;

	return n;
}

/* Bytes of a fraction and an exponent; 0: the number is whole. */
static size_t fraction(const char *p)
{
	size_t n = 0;

	if (*p == '.' && is_digit(p[1]))
		n = 1 + digits(p + 1);
	if (p[n] == 'e' || p[n] == 'E') {
		const size_t sign = p[n + 1] == '+' || p[n + 1] == '-';
		if (is_digit(p[n + 1 + sign]))
			n += 1 + sign + digits(p + n + 1 + sign);
	}

	return n;
}

static int read_number(struct zj_parser *ps)
{
	const char *p = ps->token.p;
	size_t n = digits(p), more = 0;

	if (ps->at == 0 || ps->source[ps->at - 1] != '.')
		more = fraction(p + n);
	ps->token.n = n + more;
	ps->token.kind = more ? ZJ_T_FLOAT : ZJ_T_INT;
	errno = 0;
	if (more)
		ps->token.f = strtod(p, NULL);
	else
		ps->token.i = strtoll(p, NULL, 10);
	if (errno || is_letter(p[n + more]) || (!more && n > 1 && *p == '0'))
		return zj_refuse(ps, ZR_ENOTSUP, "number %.*s: expected digits, of at most 63 bits",
				 (int)(n + more + 1), p);

	return 0;
}

static int read_string(struct zj_parser *ps)
{
	const char *p = ps->token.p, *end = ps->source + ps->n, quote = *p;
	const char *at = p + 1;

	while (at < end && *at != quote)
		at += *at == '\\' && at + 1 < end ? 2 : 1;
	if (at >= end)
		return zj_refuse(ps, ZR_EINVAL, "a string has no end %c", quote);

	ps->token.kind = ZJ_T_STRING;
	ps->token.p = p + 1;
	ps->token.n = (size_t)(at - p) - 1;
	move_to(ps, ps->at + ps->token.n + 2);
	return 0;
}

static int read_sign(struct zj_parser *ps)
{
	static const char *const two[] = { "//", "**", "==", "!=", ">=", "<=" };
	const char c = *ps->token.p;

	ps->token.kind = ZJ_T_SIGN;
	ps->token.n = 1;
	for (size_t i = 0; i < sizeof two / sizeof *two; i++)
		if (has_at(ps, ps->at, two[i]))
			ps->token.n = 2;
	if (!strchr("+-/*%~[](){}><=.:|,;!", c) || !c || (c == '!' && ps->token.n == 1))
		return zj_refuse(ps, ZR_EINVAL,
				 "a byte 0x%02x between { and }, which Jinja does "
				 "not have there",
				 (unsigned char)c);

	ps->open += c == '(' || c == '[' || c == '{';
	ps->open -= c == ')' || c == ']' || c == '}';
	if (ps->open < 0)
		return zj_refuse(ps, ZR_EINVAL, "%c closes nothing", c);

	move_to(ps, ps->at + ps->token.n);
	return 0;
}

static int next_inside(struct zj_parser *ps)
{
	move_to(ps, behind_spaces(ps, ps->at));
	ps->token = (struct zj_token){ .line = ps->line, .p = ps->source + ps->at };
	if (ps->at == ps->n)
		return zj_refuse(ps, ZR_EINVAL, "a tag has no end");
	if (end_of_tag(ps))
		return 0;

	const char c = *ps->token.p;
	int rc = 0;
	if (c == '"' || c == '\'')
		return read_string(ps);
	if (!is_digit(c) && !is_letter(c))
		return read_sign(ps);

	if (is_digit(c)) {
		rc = read_number(ps);
	} else {
		ps->token.kind = ZJ_T_NAME;
		while (is_letter(ps->token.p[ps->token.n]) || is_digit(ps->token.p[ps->token.n]))
			ps->token.n++;
	}

	move_to(ps, ps->at + ps->token.n);
	return rc;
}

int zj_next(struct zj_parser *ps)
{
	if (ps->failed)
		return ZR_EINVAL;
	if (ps->tag_waits)
		return begin_tag(ps);
	if (ps->in_tag)
		return next_inside(ps);

	return next_outside(ps);
}

/* ---- escapes of strings ---- */

/* n digits of base 16 at p; -1: they are none. */
static int64_t hexadecimal(const char *p, const char *end, int n)
{
	int64_t value = 0;

	for (; n; n--, p++) {
		const char *digit = "0123456789abcdef", *is = NULL;
		if (p < end && *p)
			is = strchr(digit, *p >= 'A' && *p <= 'F' ? *p + 32 : *p);
		if (!is)
			return -1;
		value = 16 * value + (is - digit);
	}

	return value;
}

/* The character that is meant by one behind a backslash; 0: it is none of these. */
static char escaped(char c)
{
	static const char from[] = "ntrabfv\\'\"", to[] = "\n\t\r\a\b\f\v\\'\"";
	const char *at = c ? strchr(from, c) : NULL;

	return at ? to[at - from] : 0;
}

/* How many digits an escape has that names a character by its number; 0: none. */
static int digits_of(char c)
{
	switch (c) {
	case 'x':
		return 2;
	case 'u':
		return 4;
	case 'U':
		return 8;
	default:
		return 0;
	}
}

/* What is written for the escape at *p, which has a character behind its backslash. */
static int unescape_one(struct zj_parser *ps, const char **p, const char *end, char **to)
{
	const char c = (*p)[1];
	const int n = digits_of(c);

	if (escaped(c)) {
		*(*to)++ = escaped(c);
		*p += 2;
		return 0;
	}

	if (c == '\n') {
		*p += 2;
		return 0;
	}

	if (n) {
		const int64_t value = hexadecimal(*p + 2, end, n);
		if (value < 0 || value > 0x10ffff || (value >= 0xd800 && value < 0xe000))
			return zj_refuse(ps, ZR_EINVAL, "\\%c: expected %d digits of a character",
					 c, n);
		*to = zr_utf8_put(*to, (int32_t)value);
		*p += 2 + n;
		return 0;
	}

	if (is_digit(c) || c == 'N' || (c & 0x80))
		return zj_refuse(ps, ZR_ENOTSUP,
				 "a backslash before a digit, N or a character "
				 "that is not ASCII in a string");

	*(*to)++ = '\\';
	++*p;
	return 0;
}

int zj_unescape(struct zj_parser *ps, const struct zj_token *token, struct zj_text **out)
{
	const char *p = token->p, *end = p + token->n;
	struct zj_text *t = zj_take(&ps->t->memory, sizeof *t);
	char *to = zj_take(&ps->t->memory, token->n + 1);

	if (!t || !to)
		return zj_refuse(ps, ZR_ENOMEM, "out of memory");

	*t = (struct zj_text){ .p = to, .is_ascii = 1 };
	while (p < end) {
		if (*p != '\\' || p + 1 == end) {
			*to++ = *p++;
			continue;
		}

		int rc = unescape_one(ps, &p, end, &to);
		if (rc)
			return rc;
	}

	t->n = (size_t)(to - t->p);
	for (size_t i = 0; i < t->n; i++)
		if (t->p[i] & 0x80)
			t->is_ascii = 0;
	*out = t;
	return 0;
}
