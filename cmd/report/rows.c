/* SPDX-License-Identifier: Apache-2.0
 *
 * rows.c - see rows.h: columns, and what lines say.
 */
#include "cmd/report/rows.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const double *zr_rows_find(const struct zr_rows *r, const char *name)
{
	for (int c = 0; c < r->columns; c++)
		if (!strcmp(r->name[c], name))
			return r->value[c];
	return NULL;
}

double zr_rows_last(const struct zr_rows *r, const char *name)
{
	const double *y = zr_rows_find(r, name);
	for (int64_t i = r->n; y && i-- > 0;)
		if (!isnan(y[i]))
			return y[i];
	return NAN;
}

double zr_rows_rate(const struct zr_rows *r, const char *name, int64_t most)
{
	const double *y = zr_rows_find(r, name);
	double sum = 0;
	int64_t n = 0;

	for (int64_t i = r->n; y && i-- > 0 && n < most;)
		if (isfinite(y[i]) && y[i] > 0) {
			sum += 1 / y[i];
			n++;
		}
	return n ? (double)n / sum : NAN;
}

void zr_rows_free(struct zr_rows *r)
{
	for (int c = 0; c < r->columns; c++)
		free(r->value[c]);
	memset(r, 0, sizeof *r);
}

/* The number of the column of a name, which is made where there is none; `guess` is looked at
 * first. -1: there are too many; -2: no memory. */
static int column(struct zr_rows *r, const char *name, size_t n, int guess)
{
	if (n >= ZR_ROWS_NAME)
		n = ZR_ROWS_NAME - 1;
	for (int i = 0; i < r->columns; i++) {
		int c = (guess + i) % r->columns;
		if (!strncmp(r->name[c], name, n) && !r->name[c][n])
			return c;
	}

	if (r->columns == ZR_ROWS_COLUMNS)
		return -1;

	double *v = malloc((size_t)(r->room ? r->room : 1) * sizeof *v);
	if (!v)
		return -2;

	for (int64_t i = 0; i < r->room; i++)
		v[i] = NAN;
	memcpy(r->name[r->columns], name, n);
	r->name[r->columns][n] = 0;
	r->value[r->columns] = v;
	return r->columns++;
}

/* Room for one more row, of which nothing is known. */
static int grow(struct zr_rows *r)
{
	if (r->n == r->room) {
		int64_t room = r->room * 2 + 256;
		for (int c = 0; c < r->columns; c++) {
			double *v = realloc(r->value[c], (size_t)room * sizeof *v);
			if (!v)
				return -1;

			r->value[c] = v;
		}

		r->room = room;
	}

	for (int c = 0; c < r->columns; c++)
		r->value[c][r->n] = NAN;
	return 0;
}

/* Keeps the new row behind the others. */
static void keep(struct zr_rows *r)
{
	const double *step = r->value[0];
	int64_t to = r->n;

	if (!(step[r->n] >= 0) || isinf(step[r->n])) { /* also NaN */
		r->bad++;
		return;
	}

	while (to > 0 && step[to - 1] >= step[r->n])
		to--;
	for (int c = 0; c < r->columns && to < r->n; c++)
		r->value[c][to] = r->value[c][r->n];
	r->n = to + 1;
}

static long double ten_to(int n)
{
	static const long double small[] = { 1,     1e1L,  1e2L,  1e3L,  1e4L,  1e5L,  1e6L,
					     1e7L,  1e8L,  1e9L,  1e10L, 1e11L, 1e12L, 1e13L,
					     1e14L, 1e15L, 1e16L, 1e17L, 1e18L, 1e19L };
	return n < 20 ? small[n] : powl(10, n);
}

/* The number that [*p, end) begins with; *p goes behind it, or stays where there is none. What is
 * no number, as null, is infinite. */
static double number(const char **p, const char *end)
{
	const char *s = *p;
	int negative = s < end && *s == '-', digits = 0, exponent = 0, point = 0, any = 0;
	uint64_t m = 0;

	if (negative)
		s++;
	for (; s < end; s++) {
		if (*s == '.' && !point) {
			point = 1;
			continue;
		}

		if (*s < '0' || *s > '9')
			break;

		any = 1;
		if (digits < 18) {
			m = m * 10 + (uint64_t)(*s - '0');
			digits += m > 0;
			exponent -= point;
		} else {
			exponent += !point;
		}
	}

	if (!any) {
		static const char *const word[] = { "null", "nan", "inf" };
		for (int i = 0; i < 3; i++) {
			const size_t n = strlen(word[i]);
			if ((size_t)(end - s) >= n && !memcmp(s, word[i], n)) {
				*p = s + n;
				return negative ? -INFINITY : INFINITY;
			}
		}

		return NAN;
	}

	if (s < end && (*s == 'e' || *s == 'E')) {
		const char *e = s + 1;
		int minus = e < end && *e == '-', v = 0;
		if (e < end && (*e == '-' || *e == '+'))
			e++;
		if (e < end && *e >= '0' && *e <= '9') {
			for (; e < end && *e >= '0' && *e <= '9'; e++)
				v = v < 10000 ? v * 10 + (*e - '0') : v;
			exponent += minus ? -v : v;
			s = e;
		}
	}

	*p = s;
	long double v = (long double)m;
	if (m && exponent)
		v = exponent > 0 ? v * ten_to(exponent) : v / ten_to(-exponent);
	return (double)(negative ? -v : v);
}

static const char *blanks(const char *p, const char *end)
{
	while (p < end && (*p == ' ' || *p == '\t' || *p == '\r'))
		p++;
	return p;
}

/* A flat object of numbers; anything else makes the line bad. */
int zr_rows_json(struct zr_rows *r, const char *line, size_t bytes)
{
	const char *p = line, *end = line + bytes;
	int at = 0;

	if (!r->columns && column(r, "step", 4, 0))
		return -1;
	if (grow(r))
		return -1;

	p = blanks(p, end);
	if (p == end)
		return 0;
	if (*p++ != '{')
		goto bad;

	for (;;) {
		p = blanks(p, end);
		if (p == end || *p++ != '"')
			goto bad;

		const char *name = p;
		while (p < end && *p != '"')
			p += *p == '\\' ? 2 : 1;
		if (p >= end)
			goto bad;

		int c = column(r, name, (size_t)(p - name), at);
		if (c == -2)
			return -1;

		p = blanks(p + 1, end);
		if (p == end || *p++ != ':')
			goto bad;

		p = blanks(p, end);
		const char *before = p;
		double v = number(&p, end);
		if (p == before)
			goto bad;
		if (c >= 0)
			r->value[c][r->n] = v;
		at = c + 1;
		p = blanks(p, end);
		if (p < end && *p == ',') {
			p++;
			continue;
		}

		if (p == end || *p != '}' || blanks(p + 1, end) != end)
			goto bad;

		keep(r);
		return 0;
	}
bad:
	r->bad++;
	return 0;
}

static int csv_header(struct zr_rows *r, const char *line, size_t bytes)
{
	for (const char *p = line, *end = line + bytes; p <= end;) {
		const char *comma = memchr(p, ',', (size_t)(end - p)), *to = comma ? comma : end;
		if (to > p && to[-1] == '\r')
			to--;
		if (column(r, p, (size_t)(to - p), 0) == -2)
			return -1;

		p = comma ? comma + 1 : end + 1;
	}

	return 0;
}

int zr_rows_csv(struct zr_rows *r, const char *line, size_t bytes)
{
	const char *p = line, *end = line + bytes;

	if (!r->columns)
		return csv_header(r, line, bytes);
	if (grow(r))
		return -1;

	for (int c = 0; c < r->columns; c++) {
		r->value[c][r->n] = number(&p, end);
		p = blanks(p, end);
		if (p < end && *p != ',') {
			r->bad++;
			return 0;
		}

		p += p < end;
	}

	keep(r);
	return 0;
}
