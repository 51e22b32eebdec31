/* SPDX-License-Identifier: Apache-2.0
 *
 * tests.c - see parts.h: x is name, as jinja2/tests.py has them.
 */
#include <string.h>

#include "files/chat/jinja/parts.h"

#define TEST(name)                                                                                 \
	static int name(struct zj_run *r, const struct zj_value *of, const struct zj_value *arg,   \
			struct zj_value *out)

/* One that looks at the value alone. */
#define SIMPLE_TEST(name, condition)                                                               \
	TEST(name)                                                                                 \
	{                                                                                          \
		(void)r, (void)arg;                                                                \
		*out = zj_bool(condition);                                                         \
		return 0;                                                                          \
	}

#define COMPARING_TEST(name, op)                                                                   \
	TEST(name)                                                                                 \
	{                                                                                          \
		int is = 0, rc = zj_compare(r, op, of, &arg[0], &is);                              \
		*out = zj_bool(is);                                                                \
		return rc;                                                                         \
	}

static int is_list(const struct zj_value *v, enum zj_flavour most)
{
	return v->kind == ZJ_LIST && v->list->flavour <= most;
}

SIMPLE_TEST(is_defined, of->kind != ZJ_UNDEFINED)
SIMPLE_TEST(is_undefined, of->kind == ZJ_UNDEFINED)
SIMPLE_TEST(is_none, of->kind == ZJ_NONE)
SIMPLE_TEST(is_boolean, of->kind == ZJ_BOOL)
SIMPLE_TEST(is_true, of->kind == ZJ_BOOL && of->i)
SIMPLE_TEST(is_false, of->kind == ZJ_BOOL && !of->i)
SIMPLE_TEST(is_integer, of->kind == ZJ_INT)
SIMPLE_TEST(is_float, of->kind == ZJ_FLOAT)
SIMPLE_TEST(is_number, of->kind == ZJ_BOOL || of->kind == ZJ_INT || of->kind == ZJ_FLOAT)
SIMPLE_TEST(is_string, of->kind == ZJ_TEXT)
SIMPLE_TEST(is_mapping, of->kind == ZJ_DICT)
SIMPLE_TEST(is_sequence, of->kind == ZJ_UNDEFINED || of->kind == ZJ_TEXT || of->kind == ZJ_DICT ||
				 is_list(of, ZJ_A_RANGE))
SIMPLE_TEST(is_iterable, of->kind == ZJ_UNDEFINED || of->kind == ZJ_TEXT || of->kind == ZJ_DICT ||
				 of->kind == ZJ_LOOP || of->kind == ZJ_LIST)
SIMPLE_TEST(is_callable, of->kind == ZJ_MACRO || of->kind == ZJ_FUNCTION || of->kind == ZJ_METHOD)
COMPARING_TEST(is_eq, ZJ_EQ)
COMPARING_TEST(is_ne, ZJ_NE)
COMPARING_TEST(is_lt, ZJ_LT)
COMPARING_TEST(is_le, ZJ_LE)
COMPARING_TEST(is_gt, ZJ_GT)
COMPARING_TEST(is_ge, ZJ_GE)
COMPARING_TEST(is_in, ZJ_IN)

static int remainder_is(struct zj_run *r, const struct zj_value *of, const struct zj_value *by,
			int64_t wanted, struct zj_value *out)
{
	struct zj_value rest;
	const struct zj_value is = zj_int(wanted);
	int same = 0, rc = zj_binary(r, ZJ_MOD, of, by, &rest);
	if (!rc)
		rc = zj_equal(r, &rest, &is, &same);

	*out = zj_bool(same);
	return rc;
}

TEST(is_odd)
{
	const struct zj_value two = zj_int(2);
	(void)arg;
	return remainder_is(r, of, &two, 1, out);
}

TEST(is_even)
{
	const struct zj_value two = zj_int(2);
	(void)arg;
	return remainder_is(r, of, &two, 0, out);
}

TEST(is_divisible)
{
	return remainder_is(r, of, &arg[0], 0, out);
}

#define WITH(test) .fn = test, .least = 1, .parameter = { "other" }
static const struct zj_function tests[] = {
	{ .name = "boolean", .fn = is_boolean },
	{ .name = "callable", .fn = is_callable },
	{ .name = "defined", .fn = is_defined },
	{ .name = "divisibleby", WITH(is_divisible) },
	{ .name = "eq", WITH(is_eq) },
	{ .name = "equalto", WITH(is_eq) },
	{ .name = "even", .fn = is_even },
	{ .name = "false", .fn = is_false },
	{ .name = "float", .fn = is_float },
	{ .name = "ge", WITH(is_ge) },
	{ .name = "greaterthan", WITH(is_gt) },
	{ .name = "gt", WITH(is_gt) },
	{ .name = "in", WITH(is_in) },
	{ .name = "integer", .fn = is_integer },
	{ .name = "iterable", .fn = is_iterable },
	{ .name = "le", WITH(is_le) },
	{ .name = "lessthan", WITH(is_lt) },
	{ .name = "lt", WITH(is_lt) },
	{ .name = "mapping", .fn = is_mapping },
	{ .name = "ne", WITH(is_ne) },
	{ .name = "none", .fn = is_none },
	{ .name = "number", .fn = is_number },
	{ .name = "odd", .fn = is_odd },
	{ .name = "sequence", .fn = is_sequence },
	{ .name = "string", .fn = is_string },
	{ .name = "true", .fn = is_true },
	{ .name = "undefined", .fn = is_undefined },
	{ .name = NULL },
};

const struct zj_function *zj_find_test(const char *p, size_t n)
{
	return zj_find_in(tests, p, n);
}
