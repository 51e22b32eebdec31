/* SPDX-License-Identifier: Apache-2.0
 *
 * numbers.c - option values that are numbers. Counts up to 2^53 may be written like 5e8; larger
 * ones need all their digits.
 */
#include "core/config/options.h"

#include <errno.h>
#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define EXACT 9007199254740992.0 /* 2^53 */

static locale_t c_locale(void)
{
	static locale_t c;
	if (!c)
		c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
	return c;
}

int zr_parse_double(const char *text, double *out)
{
	char *end;
	if (!*text || strspn(text, "+-.0123456789eE") != strlen(text))
		return -1;
	*out = strtod_l(text, &end, c_locale());
	return *end || !isfinite(*out) ? -1 : 0;
}

int zr_format_double(double v, char *out, size_t size)
{
	locale_t old = uselocale(c_locale());
	char text[40] = "";
	int n = 0;
	for (int d = 15; d <= 17 && (!n || strtod_l(text, NULL, c_locale()) != v); d++)
		n = snprintf(text, sizeof text, "%.*g", d, v);
	snprintf(out, size, "%s", text);
	uselocale(old);
	return n;
}

void zr_range_text(const struct zr_opt *o, char *out, size_t size)
{
	char lo[40], hi[40];
	int low = o->min > ZR_LO, high = o->max < ZR_HI;
	zr_format_double(o->min, lo, sizeof lo);
	zr_format_double(o->max, hi, sizeof hi);
	if (o->type == ZR_T_BOOL || o->type == ZR_T_ENUM || o->type == ZR_T_STR ||
	    o->type == ZR_T_PATH || o->type == ZR_T_GLOBS || (!low && !high))
		*out = 0;
	else if (low && high)
		snprintf(out, size, "%c%s, %s%c", o->flags & ZR_O_MIN_OPEN ? '(' : '[', lo, hi,
			 o->flags & ZR_O_MAX_OPEN ? ')' : ']');
	else if (low)
		snprintf(out, size, "%s %s", o->flags & ZR_O_MIN_OPEN ? ">" : ">=", lo);
	else
		snprintf(out, size, "%s %s", o->flags & ZR_O_MAX_OPEN ? "<" : "<=", hi);
}

static int check_range(const struct zr_opt *o, double v, struct zr_error *err)
{
	char range[96], value[40];
	int low = v > o->min || (v == o->min && !(o->flags & ZR_O_MIN_OPEN));
	int high = v < o->max || (v == o->max && !(o->flags & ZR_O_MAX_OPEN));
	if (low && high && isfinite(v))
		return 0;

	zr_range_text(o, range, sizeof range);
	zr_format_double(v, value, sizeof value);
	return zr_err(err, ZR_EINVAL, "%s is out of range %s", value, range);
}

static int not_a(const char *what, const char *text, struct zr_error *err)
{
	return zr_err(err, ZR_EINVAL, "expected %s, found '%s'", what, text);
}

static int parse_f64(const struct zr_opt *o, const char *text, double *out, struct zr_error *err)
{
	double v;
	if (zr_parse_double(text, &v))
		return not_a("a number", text, err);
	if (check_range(o, v, err))
		return ZR_EINVAL;

	*out = v;
	return 0;
}

static int parse_i64(const struct zr_opt *o, const char *text, int64_t *out, struct zr_error *err)
{
	const char *digits = text + (*text == '-' || *text == '+');
	long long v;
	if (!*digits || strspn(digits, "0123456789") != strlen(digits))
		return not_a("a whole number", text, err);

	errno = 0;
	v = strtoll(text, NULL, 10);
	if (errno || v == ZR_AUTO_I64)
		return zr_err(err, ZR_EINVAL, "%s does not fit 64 bits", text);
	if (check_range(o, (double)v, err))
		return ZR_EINVAL;

	*out = v;
	return 0;
}

static int parse_digits(const struct zr_opt *o, const char *number, uint64_t unit, const char *text,
			uint64_t *out, struct zr_error *err)
{
	errno = 0;
	uint64_t n = strtoull(number, NULL, 10);
	if (errno || n >= ZR_AUTO_COUNT / unit)
		return zr_err(err, ZR_EINVAL, "%s is too large", text);

	n *= unit;
	if (check_range(o, (double)n, err))
		return ZR_EINVAL;

	*out = n;
	return 0;
}

/* A number of units, in digits or like 5e8. text: all that was given, for messages. */
static int parse_whole(const struct zr_opt *o, const char *number, uint64_t unit, const char *what,
		       const char *text, uint64_t *out, struct zr_error *err)
{
	double v;
	if (*number && strspn(number, "0123456789") == strlen(number))
		return parse_digits(o, number, unit, text, out, err);
	if (zr_parse_double(number, &v) || v * (double)unit != floor(v * (double)unit))
		return not_a(what, text, err);

	v *= (double)unit;
	if (check_range(o, v, err))
		return ZR_EINVAL;
	if (v < 0)
		return not_a(what, text, err);
	if (v > EXACT)
		return zr_err(err, ZR_EINVAL, "%s is too large", text);

	*out = (uint64_t)v;
	return 0;
}

static int parse_bytes(const struct zr_opt *o, const char *text, uint64_t *out,
		       struct zr_error *err)
{
	static const char suffixes[] = "KMGT";
	char number[64];
	size_t len = strlen(text);
	const char *suffix = NULL;
	uint64_t unit = 1;
	if (len >= sizeof number)
		return not_a("bytes like 512M or 2G", text, err);

	memcpy(number, text, len + 1);
	if (len)
		suffix = strchr(suffixes, text[len - 1]);
	if (suffix) {
		number[len - 1] = 0;
		unit = 1ull << 10 * (suffix - suffixes + 1);
	}
	return parse_whole(o, number, unit, "bytes like 512M or 2G", text, out, err);
}

static int format_bytes(uint64_t v, char *out, size_t size)
{
	int k = 0;
	while (v && v % 1024 == 0 && k < 4) {
		v /= 1024;
		k++;
	}
	return snprintf(out, size, "%llu%.1s", (unsigned long long)v, &"\0KMGT"[k]);
}

static int parse_list(const struct zr_opt *o, const char *text, double *out, struct zr_error *err)
{
	double v[ZR_LIST_MAX];
	uint32_t n = 0, want = o->width / 8;
	for (const char *p = text + strspn(text, " \t"); *p; n++) {
		char number[64];
		size_t len = strcspn(p, ", \t");
		snprintf(number, sizeof number, "%.*s", (int)len, p);
		if (n < want && parse_f64(o, number, &v[n], err))
			return ZR_EINVAL;

		p += len + strspn(p + len, " \t");
		if (*p == ',') {
			p += 1 + strspn(p + 1, " \t");
			if (!*p)
				return not_a("a number after the last comma", text, err);
		}
	}

	if (n != want)
		return zr_err(err, ZR_EINVAL, "expected %u numbers, found %u in '%s'", want, n,
			      text);

	memcpy(out, v, want * sizeof *v);
	return 0;
}

int zr_number_parse(const struct zr_opt *o, const char *text, void *at, struct zr_error *err)
{
	if (o->type == ZR_T_I64)
		return parse_i64(o, text, at, err);
	if (o->type == ZR_T_COUNT)
		return parse_whole(o, text, 1, "a whole number", text, at, err);
	if (o->type == ZR_T_BYTES)
		return parse_bytes(o, text, at, err);
	if (o->type == ZR_T_F64S)
		return parse_list(o, text, at, err);
	return parse_f64(o, text, at, err);
}

int zr_number_check(const struct zr_opt *o, const void *at, struct zr_error *err)
{
	int rc = 0;
	if (o->type == ZR_T_I64)
		return check_range(o, (double)*(const int64_t *)at, err);
	if (o->type == ZR_T_COUNT || o->type == ZR_T_BYTES)
		return check_range(o, (double)*(const uint64_t *)at, err);
	for (uint32_t i = 0; !rc && i < o->width / 8; i++)
		rc = check_range(o, ((const double *)at)[i], err);
	return rc;
}

int zr_number_format(const struct zr_opt *o, const void *at, char *out, size_t size)
{
	int len = 0;
	if (o->type == ZR_T_I64)
		return snprintf(out, size, "%" PRId64, *(const int64_t *)at);
	if (o->type == ZR_T_COUNT)
		return snprintf(out, size, "%" PRIu64, *(const uint64_t *)at);
	if (o->type == ZR_T_BYTES)
		return format_bytes(*(const uint64_t *)at, out, size);

	for (uint32_t i = 0; i < o->width / 8; i++) {
		char number[40];
		zr_format_double(((const double *)at)[i], number, sizeof number);
		len += snprintf(out + len, (size_t)len < size ? size - len : 0, "%s%s",
				i ? "," : "", number);
	}
	return len;
}
