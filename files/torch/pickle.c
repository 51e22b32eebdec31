/* SPDX-License-Identifier: Apache-2.0
 *
 * pickle.c - see pickle.h: the stack machine of Python's pickletools, as far as data needs it. A
 * value may be part of several others, even of itself, so nothing here walks through values.
 */
#include "files/torch/machine.h"

#include <stdlib.h>
#include <string.h>

/* ---- instructions: plain values ---- */

static int push_whole(struct zr_pickle_reader *r, enum zr_py_kind kind, int64_t whole)
{
	struct zr_py *x = NULL;
	int rc = zr_pickle_push_new(r, kind, &x);
	if (!rc)
		x->whole = whole;
	return rc;
}

/* A value that has no more than its kind. */
static int nothing(struct zr_pickle_reader *r, int kind)
{
	return push_whole(r, (enum zr_py_kind)kind, 0);
}

static int truth(struct zr_pickle_reader *r, int value)
{
	return push_whole(r, ZR_PY_BOOL, value);
}

static int whole(struct zr_pickle_reader *r, int bytes)
{
	uint64_t v;
	int rc = zr_pickle_number(r, (size_t)bytes, &v);
	if (rc)
		return rc;

	return push_whole(r, ZR_PY_INT, (int64_t)v);
}

static int four_bytes(struct zr_pickle_reader *r)
{
	uint64_t v;
	int rc = zr_pickle_number(r, 4, &v);
	if (rc)
		return rc;

	return push_whole(r, ZR_PY_INT, (int32_t)v);
}

/* A number of up to 8 bytes in two's complement. */
static int many_bytes(struct zr_pickle_reader *r)
{
	uint64_t n, v;
	int rc = zr_pickle_number(r, 1, &n);
	if (!rc && n > 8)
		rc = zr_pickle_refuse(r, "a whole number of more than 8 bytes");
	if (!rc)
		rc = zr_pickle_number(r, n, &v);
	if (rc)
		return rc;

	const unsigned unused = 64 - 8 * (unsigned)n;
	return push_whole(r, ZR_PY_INT, n ? (int64_t)(v << unused) >> unused : 0);
}

static int real(struct zr_pickle_reader *r)
{
	const unsigned char *p = NULL;
	struct zr_py *x = NULL;
	uint64_t bits = 0;

	int rc = zr_pickle_take(r, 8, &p);
	for (int i = 0; !rc && i < 8; i++)
		bits = bits << 8 | p[i];
	if (!rc)
		rc = zr_pickle_push_new(r, ZR_PY_FLOAT, &x);
	if (!rc)
		memcpy(&x->number, &bits, sizeof bits);
	return rc;
}

static int push_text(struct zr_pickle_reader *r, enum zr_py_kind kind, size_t length_bytes)
{
	const unsigned char *p = NULL;
	struct zr_py *x = NULL;
	uint64_t n;

	int rc = zr_pickle_number(r, length_bytes, &n);
	if (!rc)
		rc = zr_pickle_take(r, n, &p);
	if (rc)
		return rc;

	char *text = zr_pickle_allocate(r, n + 1);
	rc = text ? zr_pickle_push_new(r, kind, &x) : ZR_ENOMEM;
	if (rc)
		return rc;

	memcpy(text, p, n);
	if (kind == ZR_PY_TEXT && memchr(text, 0, n))
		return zr_pickle_refuse(r, "a text with a zero in it");
	x->text = text;
	x->bytes = n;
	return 0;
}

/* Of as many bytes as the number before them says, which has `length_bytes` bytes itself. */
static int text(struct zr_pickle_reader *r, int length_bytes)
{
	return push_text(r, ZR_PY_TEXT, (size_t)length_bytes);
}

static int bytes(struct zr_pickle_reader *r, int length_bytes)
{
	return push_text(r, ZR_PY_BYTES, (size_t)length_bytes);
}

/* ---- instructions: lists and dictionaries ---- */

/* A list of the last n values, at most 3. */
static int last_values(struct zr_pickle_reader *r, int n)
{
	struct zr_py *x[3], *list;
	int rc = 0;

	for (int i = n; !rc && i > 0; i--)
		rc = zr_pickle_pop(r, &x[i - 1]);
	if (!rc)
		rc = zr_pickle_push_new(r, ZR_PY_LIST, &list);
	if (rc)
		return rc;

	return zr_pickle_append(r, list, x, (size_t)n);
}

static int marked(struct zr_pickle_reader *r, int kind)
{
	struct zr_py **from, *x;
	size_t n;
	int rc = zr_pickle_pop_marked(r, &from, &n);
	if (!rc && kind == ZR_PY_DICT && n % 2)
		rc = zr_pickle_refuse(r, "a key without a value");
	if (rc)
		return rc;

	x = zr_pickle_allocate(r, sizeof *x);
	if (!x)
		return ZR_ENOMEM;

	x->kind = (enum zr_py_kind)kind;
	rc = zr_pickle_append(r, x, from, n);
	if (rc)
		return rc;
	return zr_pickle_push(r, x);
}

static int add_to(struct zr_pickle_reader *r, enum zr_py_kind kind, struct zr_py **from, size_t n)
{
	struct zr_py *to = NULL;
	int rc = zr_pickle_top(r, &to);
	if (rc)
		return rc;
	if (to->kind != kind)
		return zr_pickle_refuse(r, "members of what has none");
	if (kind == ZR_PY_DICT && n % 2)
		return zr_pickle_refuse(r, "a key without a value");

	return zr_pickle_append(r, to, from, n);
}

static int append_one(struct zr_pickle_reader *r)
{
	struct zr_py *x = NULL;
	int rc = zr_pickle_pop(r, &x);
	if (rc)
		return rc;

	return add_to(r, ZR_PY_LIST, &x, 1);
}

static int set_one(struct zr_pickle_reader *r)
{
	struct zr_py *pair[2];
	int rc = zr_pickle_pop(r, &pair[1]);
	if (!rc)
		rc = zr_pickle_pop(r, &pair[0]);
	if (rc)
		return rc;

	return add_to(r, ZR_PY_DICT, pair, 2);
}

static int add_marked(struct zr_pickle_reader *r, int kind)
{
	struct zr_py **from;
	size_t n;
	int rc = zr_pickle_pop_marked(r, &from, &n);
	if (rc)
		return rc;

	return add_to(r, (enum zr_py_kind)kind, from, n);
}

/* ---- instructions: memory of what was made ---- */

static int put_at(struct zr_pickle_reader *r, uint64_t i)
{
	struct zr_py *x = NULL;
	int rc = zr_pickle_top(r, &x);
	/* a number is taken once, and takes two bytes at least */
	if (!rc && i > (uint64_t)(r->end - r->bytes))
		rc = zr_pickle_refuse(r, "a place that is too far away");
	if (!rc)
		rc = zr_pickle_grow(r, &r->memo, i + 1);
	if (rc)
		return rc;

	r->memo.at[i] = x;
	if (i >= r->memo.n)
		r->memo.n = i + 1;
	return 0;
}

static int get(struct zr_pickle_reader *r, int bytes_of_number)
{
	uint64_t i = 0;
	int rc = zr_pickle_number(r, (size_t)bytes_of_number, &i);
	if (!rc && (i >= r->memo.n || !r->memo.at[i]))
		rc = zr_pickle_refuse(r, "a place where nothing is");
	if (rc)
		return rc;

	return zr_pickle_push(r, r->memo.at[i]);
}

static int put(struct zr_pickle_reader *r, int bytes_of_number)
{
	uint64_t i = 0;
	int rc = zr_pickle_number(r, (size_t)bytes_of_number, &i);
	if (rc)
		return rc;

	return put_at(r, i);
}

static int put_next(struct zr_pickle_reader *r)
{
	return put_at(r, r->memo.n);
}

static int drop_one(struct zr_pickle_reader *r)
{
	struct zr_py *x = NULL;
	return zr_pickle_pop(r, &x);
}

static int drop_marked(struct zr_pickle_reader *r)
{
	struct zr_py **from;
	size_t n;
	return zr_pickle_pop_marked(r, &from, &n);
}

/* ---- the machine ---- */

static int protocol(struct zr_pickle_reader *r)
{
	uint64_t version;
	int rc = zr_pickle_number(r, 1, &version);
	if (!rc && (version < 2 || version > 5))
		rc = zr_pickle_refuse(r, "a protocol that is not 2, 3, 4 or 5");
	return rc;
}

/* Says how many bytes follow, which the end of the file says, too. */
static int frame(struct zr_pickle_reader *r)
{
	uint64_t n;
	return zr_pickle_number(r, 8, &n);
}

static int stop(struct zr_pickle_reader *r)
{
	r->done = 1;
	return zr_pickle_pop(r, &r->p->root);
}

/* By its byte: what it does, and with which number. */
static const struct {
	int (*alone)(struct zr_pickle_reader *);
	int (*with)(struct zr_pickle_reader *, int);
	int number;
} instructions[256] = {
	[0x80] = { protocol },
	[0x95] = { frame },
	['.'] = { stop },
	['N'] = { NULL, nothing, ZR_PY_NONE },
	['('] = { NULL, nothing, ZR_PY_MARK },
	[']'] = { NULL, nothing, ZR_PY_LIST },
	[')'] = { NULL, nothing, ZR_PY_LIST },
	[0x8f] = { NULL, nothing, ZR_PY_LIST },
	['}'] = { NULL, nothing, ZR_PY_DICT },
	[0x88] = { NULL, truth, 1 },
	[0x89] = { NULL, truth, 0 },
	['K'] = { NULL, whole, 1 },
	['M'] = { NULL, whole, 2 },
	['J'] = { four_bytes },
	[0x8a] = { many_bytes },
	['G'] = { real },
	[0x8c] = { NULL, text, 1 },
	['X'] = { NULL, text, 4 },
	[0x8d] = { NULL, text, 8 },
	['C'] = { NULL, bytes, 1 },
	['U'] = { NULL, bytes, 1 },
	['B'] = { NULL, bytes, 4 },
	['T'] = { NULL, bytes, 4 },
	[0x8e] = { NULL, bytes, 8 },
	[0x96] = { NULL, bytes, 8 },
	[0x85] = { NULL, last_values, 1 },
	[0x86] = { NULL, last_values, 2 },
	[0x87] = { NULL, last_values, 3 },
	['l'] = { NULL, marked, ZR_PY_LIST },
	['t'] = { NULL, marked, ZR_PY_LIST },
	[0x91] = { NULL, marked, ZR_PY_LIST },
	['d'] = { NULL, marked, ZR_PY_DICT },
	['a'] = { append_one },
	['s'] = { set_one },
	['e'] = { NULL, add_marked, ZR_PY_LIST },
	[0x90] = { NULL, add_marked, ZR_PY_LIST },
	['u'] = { NULL, add_marked, ZR_PY_DICT },
	[0x94] = { put_next },
	['q'] = { NULL, put, 1 },
	['r'] = { NULL, put, 4 },
	['h'] = { NULL, get, 1 },
	['j'] = { NULL, get, 4 },
	['0'] = { drop_one },
	['1'] = { drop_marked },
	['c'] = { zr_pickle_named },
	[0x93] = { zr_pickle_named_on_stack },
	['Q'] = { zr_pickle_storage },
	['R'] = { zr_pickle_reduce },
	[0x81] = { zr_pickle_reduce },
	['b'] = { zr_pickle_build },
};

static int run_one(struct zr_pickle_reader *r, unsigned char code)
{
	char what[64];

	if (instructions[code].alone)
		return instructions[code].alone(r);
	if (instructions[code].with)
		return instructions[code].with(r, instructions[code].number);

	snprintf(what, sizeof what, "instruction 0x%02x is not known", code);
	return zr_pickle_refuse(r, what);
}

static int run(struct zr_pickle_reader *r)
{
	int rc = 0;

	while (!rc && !r->done) {
		if (r->next == r->end)
			return zr_pickle_refuse(r, "it ends without a STOP");
		rc = run_one(r, *r->next++);
	}

	return rc;
}

int zr_pickle_read(const void *from, size_t n, const char *path, struct zr_pickle **out,
		   const struct zr_py **root, struct zr_error *err)
{
	struct zr_pickle *p = calloc(1, sizeof *p);
	struct zr_pickle_reader r = { .p = p,
				      .bytes = from,
				      .next = from,
				      .end = (const unsigned char *)from + n,
				      .path = path,
				      .err = err };
	if (!p)
		return zr_no_memory(err);

	int rc = run(&r);
	free(r.stack.at);
	free(r.memo.at);
	if (rc) {
		zr_pickle_free(p);
		return rc;
	}

	*out = p;
	*root = p->root;
	return 0;
}
