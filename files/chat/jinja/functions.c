/* SPDX-License-Identifier: Apache-2.0
 *
 * functions.c - see parts.h: functions that templates call: Jinja's, as transformers sets them up.
 */
#include <stdio.h>
#include <string.h>

#include "files/chat/jinja/parts.h"

#define RANGE_MOST 100000 /* as the sandbox of jinja2 has it */

#define FUNCTION(name)                                                                             \
	static int name(struct zj_run *r, const struct zj_value *of, const struct zj_value *arg,   \
			struct zj_value *out)

FUNCTION(raise_exception)
{
	struct zj_value text;
	int rc = zj_string(r, &arg[0], &text);

	(void)of, (void)out;
	if (rc)
		return rc;

	return zj_fail(r, "the template refuses it: %.*s",
		       text.text->n < 400 ? (int)text.text->n : 400, text.text->p);
}

static int whole(struct zj_run *r, const struct zj_value *v, int64_t otherwise, int64_t *to)
{
	*to = otherwise;
	if (v->kind == ZJ_MISSING)
		return 0;
	if (v->kind != ZJ_INT && v->kind != ZJ_BOOL)
		return zj_fail(r, "range: expected a whole number, found %s", zj_type(v));

	*to = v->i;
	return 0;
}

FUNCTION(range)
{
	const int only_end = arg[1].kind == ZJ_MISSING;
	int64_t from, to, step;
	int rc = whole(r, only_end ? &arg[1] : &arg[0], 0, &from);
	if (!rc)
		rc = whole(r, only_end ? &arg[0] : &arg[1], 0, &to);
	if (!rc)
		rc = whole(r, &arg[2], 1, &step);
	if (!rc && !step)
		rc = zj_fail(r, "range: its step is 0");
	if (!rc)
		rc = zj_list(r, ZJ_A_RANGE, 0, out);

	(void)of;
	while (!rc && (step > 0 ? from < to : from > to)) {
		if (out->list->n == RANGE_MOST)
			return zj_fail(r, "range: more than %d numbers", RANGE_MOST);
		rc = zj_append(r, out->list, zj_int(from));
		if (!rc)
			rc = zj_spend(r, 1);
		if (__builtin_add_overflow(from, step, &from))
			break;
	}

	return rc;
}

/* dict(...) and namespace(...): of a mapping, and named values */
static int make_dict(struct zj_run *r, const struct zj_arguments *given, int is_namespace,
		     struct zj_value *out)
{
	int rc = zj_dict(r, given->n_keywords, out);

	if (!rc && given->n && (given->n > 1 || given->v[0].kind != ZJ_DICT))
		return zj_fail(r, "dict and namespace of anything but one mapping and named "
				  "values: not in the subset");
	for (size_t i = 0; !rc && given->n && i < given->v[0].dict->n; i++)
		rc = zj_put(r, out->dict, given->v[0].dict->pair[i].key,
			    given->v[0].dict->pair[i].v);
	for (size_t i = 0; !rc && i < given->n_keywords; i++) {
		const struct zj_value key = { .kind = ZJ_TEXT, .text = given->keyword[i].name };
		rc = zj_put(r, out->dict, key, given->keyword[i].v);
	}

	for (size_t i = 0; !rc && is_namespace && i < out->dict->n; i++) {
		const struct zj_value *key = &out->dict->pair[i].key;
		if (key->kind == ZJ_TEXT && key->text->n && *key->text->p == '_')
			return zj_fail(r, "a field of a namespace that begins with _");
	}

	if (is_namespace)
		out->kind = ZJ_NAMESPACE;
	return rc;
}

static int dict(struct zj_run *r, const struct zj_value *of, const struct zj_arguments *given,
		struct zj_value *out)
{
	(void)of;
	return make_dict(r, given, 0, out);
}

static int namespace(struct zj_run *r, const struct zj_value *of, const struct zj_arguments *given,
		     struct zj_value *out)
{
	(void)of;
	return make_dict(r, given, 1, out);
}

/* ---- the day ---- */

struct day {
	int year, month, day, weekday, of_year; /* month, of_year from 0; weekday: 0 is Sunday */
};

/* Days since 1970-01-01 as a day of the calendar: Hinnant, chrono-Compatible Low-Level Date
 * Algorithms. */
static struct day day_of(int64_t days)
{
	static const int before[] = { 0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334 };
	const int64_t z = days + 719468, era = (z >= 0 ? z : z - 146096) / 146097;
	const int64_t doe = z - era * 146097;
	const int64_t yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
	const int64_t doy = doe - (365 * yoe + yoe / 4 - yoe / 100), mp = (5 * doy + 2) / 153;
	struct day d;

	d.day = (int)(doy - (153 * mp + 2) / 5 + 1);
	d.month = (int)(mp < 10 ? mp + 2 : mp - 10);
	d.year = (int)(yoe + era * 400 + (d.month <= 1));
	d.weekday = (int)(((days % 7) + 11) % 7);

	const int leaps = (d.year % 4 == 0 && d.year % 100 != 0) || d.year % 400 == 0;
	d.of_year = before[d.month] + d.day - 1 + (leaps && d.month > 1);
	return d;
}

static const char *const months[] = { "January",   "February", "March",    "April",
				      "May",       "June",     "July",     "August",
				      "September", "October",  "November", "December" };
static const char *const weekdays[] = { "Sunday",   "Monday", "Tuesday", "Wednesday",
					"Thursday", "Friday", "Saturday" };

/* What a letter behind % says; 0: it is not in the subset. A day has no time: it is midnight. */
static int write_part(char c, const struct day *d, char *out, size_t room)
{
	switch (c) {
	case 'Y':
		return snprintf(out, room, "%04d", d->year);
	case 'y':
		return snprintf(out, room, "%02d", d->year % 100);
	case 'm':
		return snprintf(out, room, "%02d", d->month + 1);
	case 'd':
		return snprintf(out, room, "%02d", d->day);
	case 'B':
		return snprintf(out, room, "%s", months[d->month]);
	case 'b':
		return snprintf(out, room, "%.3s", months[d->month]);
	case 'A':
		return snprintf(out, room, "%s", weekdays[d->weekday]);
	case 'a':
		return snprintf(out, room, "%.3s", weekdays[d->weekday]);
	case 'j':
		return snprintf(out, room, "%03d", d->of_year + 1);
	case 'H':
	case 'M':
	case 'S':
		return snprintf(out, room, "00");
	case '%':
		return snprintf(out, room, "%%");
	default:
		return 0;
	}
}

FUNCTION(strftime_now)
{
	const struct day d = day_of(r->date == INT64_MIN ? 0 : r->date);
	struct zr_buf *b = &r->w->text;
	const size_t from = b->n;
	int rc = 0;

	(void)of;
	if (arg[0].kind != ZJ_TEXT)
		return zj_fail(r, "strftime_now: expected a text, found %s", zj_type(&arg[0]));
	if (r->date == INT64_MIN)
		return zj_fail(r, "the template writes the day on which it is rendered: say which "
				  "with date = YYYY-MM-DD, or --date");

	const struct zj_text *form = arg[0].text;
	for (size_t i = 0; !rc && i < form->n; i++) {
		char part[16], *p = part;
		size_t n = 1;

		*part = form->p[i];
		if (*part == '%' && i + 1 < form->n)
			n = (size_t)write_part(form->p[++i], &d, part, sizeof part);
		if (!n)
			return zj_fail(r, "strftime_now: %%%c: not in the subset", form->p[i]);
		rc = zj_add(r, b, p, n);
	}

	if (rc)
		return rc;

	return zj_cut(r, b, from, out);
}

static const struct zj_function functions[] = {
	{ .name = "dict", .all = dict },
	{ .name = "namespace", .all = namespace },
	{ .name = "raise_exception",
	  .fn = raise_exception,
	  .least = 1,
	  .parameter = { "message" } },
	{ .name = "range", .fn = range, .least = 1, .parameter = { "start", "stop", "step" } },
	{ .name = "strftime_now", .fn = strftime_now, .least = 1, .parameter = { "format" } },
	{ .name = NULL },
};

const struct zj_function *zj_find_function(const char *p, size_t n)
{
	return zj_find_in(functions, p, n);
}
