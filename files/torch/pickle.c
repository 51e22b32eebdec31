/* SPDX-License-Identifier: Apache-2.0
 *
 * pickle.c - see pickle.h: the stack machine of Python's pickletools, as far as data needs it. A
 * value may be part of several others, even of itself, so nothing here walks through values.
 */
#include "files/torch/pickle.h"

#include <stdlib.h>
#include <string.h>

/* Memory that goes all at once. */
struct piece {
	struct piece *before;
	max_align_t data[];
};

struct zr_pickle {
	struct piece *last;
	struct zr_py *root;
};

struct list {
	struct zr_py **at;
	size_t n, room;
};

struct reader {
	struct zr_pickle *p;
	const unsigned char *bytes, *end, *next;
	const char *path;
	struct list stack, memo;
	int done;
	struct zr_error *err;
};

static void *allocate(struct reader *r, size_t bytes)
{
	struct piece *piece = calloc(1, sizeof *piece + bytes);
	if (!piece) {
		zr_no_memory(r->err);
		return NULL;
	}

	piece->before = r->p->last;
	r->p->last = piece;
	return piece->data;
}

static int refuse(const struct reader *r, const char *what)
{
	return zr_err(r->err, ZR_EINVAL, "%s: its pickle, byte %lld: %s", r->path,
		      (long long)(r->next - r->bytes), what);
}

/* ---- bytes ---- */

static int take(struct reader *r, size_t n, const unsigned char **out)
{
	if ((size_t)(r->end - r->next) < n)
		return refuse(r, "it ends too early");

	*out = r->next;
	r->next += n;
	return 0;
}

/* A number of n bytes, the lowest first; at most 8. */
static int take_number(struct reader *r, size_t n, uint64_t *out)
{
	const unsigned char *p = NULL;
	int rc = take(r, n, &p);

	*out = 0;
	for (size_t i = 0; !rc && i < n; i++)
		*out |= (uint64_t)p[i] << 8 * i;
	return rc;
}

/* Bytes up to the end of a line, with a 0 behind them. */
static int take_line(struct reader *r, const char **out)
{
	const unsigned char *from = r->next, *end = memchr(from, '\n', (size_t)(r->end - from));
	if (!end)
		return refuse(r, "a line without end");

	const size_t n = (size_t)(end - from);
	char *text = allocate(r, n + 1);
	if (!text)
		return ZR_ENOMEM;

	memcpy(text, from, n);
	r->next = end + 1;
	*out = text;
	return 0;
}

/* ---- the stack ---- */

static int grow(struct reader *r, struct list *l, size_t n)
{
	if (n <= l->room)
		return 0;

	const size_t room = n < 32 ? 64 : 2 * n;
	struct zr_py **at = realloc(l->at, room * sizeof(struct zr_py *));
	if (!at)
		return zr_no_memory(r->err);

	memset(at + l->room, 0, (room - l->room) * sizeof(struct zr_py *));
	l->at = at;
	l->room = room;
	return 0;
}

static int push(struct reader *r, struct zr_py *x)
{
	int rc = grow(r, &r->stack, r->stack.n + 1);
	if (rc)
		return rc;

	r->stack.at[r->stack.n++] = x;
	return 0;
}

static int push_new(struct reader *r, enum zr_py_kind kind, struct zr_py **out)
{
	struct zr_py *x = allocate(r, sizeof *x);
	if (!x)
		return ZR_ENOMEM;

	x->kind = kind;
	*out = x;
	return push(r, x);
}

static int pop(struct reader *r, struct zr_py **out)
{
	if (!r->stack.n || r->stack.at[r->stack.n - 1]->kind == ZR_PY_MARK)
		return refuse(r, "nothing is left to take");

	*out = r->stack.at[--r->stack.n];
	return 0;
}

/* The value below those behind the last mark, or the last value: what is added to. */
static int top(struct reader *r, struct zr_py **out)
{
	if (!r->stack.n)
		return refuse(r, "nothing is there to add to");

	*out = r->stack.at[r->stack.n - 1];
	return 0;
}

/* The values behind the last mark, which goes with them; they stay where they are. */
static int pop_to_mark(struct reader *r, struct zr_py ***from, size_t *n)
{
	size_t i = r->stack.n;
	while (i && r->stack.at[i - 1]->kind != ZR_PY_MARK)
		i--;
	if (!i)
		return refuse(r, "no mark is there");

	*from = r->stack.at + i;
	*n = r->stack.n - i;
	r->stack.n = i - 1;
	return 0;
}

/* Adds values to a list or a dictionary. */
static int append(struct reader *r, struct zr_py *to, struct zr_py **from, size_t n)
{
	if (to->n + n > to->room) {
		const size_t room = 2 * (to->n + n);
		struct zr_py **at = allocate(r, room * sizeof(struct zr_py *));
		if (!at)
			return ZR_ENOMEM;
		if (to->n)
			memcpy(at, to->at, to->n * sizeof *at);
		to->at = at;
		to->room = room;
	}

	if (n)
		memcpy(to->at + to->n, from, n * sizeof *from);
	to->n += n;
	return 0;
}

/* ---- instructions: plain values ---- */

static int push_whole(struct reader *r, enum zr_py_kind kind, int64_t whole)
{
	struct zr_py *x = NULL;
	int rc = push_new(r, kind, &x);
	if (!rc)
		x->whole = whole;
	return rc;
}

static int push_unsigned(struct reader *r, size_t bytes)
{
	uint64_t v;
	int rc = take_number(r, bytes, &v);
	if (rc)
		return rc;

	return push_whole(r, ZR_PY_INT, (int64_t)v);
}

static int none(struct reader *r)
{
	return push_whole(r, ZR_PY_NONE, 0);
}

static int no(struct reader *r)
{
	return push_whole(r, ZR_PY_BOOL, 0);
}

static int yes(struct reader *r)
{
	return push_whole(r, ZR_PY_BOOL, 1);
}

static int byte(struct reader *r)
{
	return push_unsigned(r, 1);
}

static int two_bytes(struct reader *r)
{
	return push_unsigned(r, 2);
}

static int four_bytes(struct reader *r)
{
	uint64_t v;
	int rc = take_number(r, 4, &v);
	if (rc)
		return rc;

	return push_whole(r, ZR_PY_INT, (int32_t)v);
}

/* A number of up to 8 bytes in two's complement. */
static int many_bytes(struct reader *r)
{
	uint64_t n, v;
	int rc = take_number(r, 1, &n);
	if (!rc && n > 8)
		rc = refuse(r, "a whole number of more than 8 bytes");
	if (!rc)
		rc = take_number(r, n, &v);
	if (rc)
		return rc;

	const unsigned unused = 64 - 8 * (unsigned)n;
	return push_whole(r, ZR_PY_INT, n ? (int64_t)(v << unused) >> unused : 0);
}

static int real(struct reader *r)
{
	const unsigned char *p = NULL;
	struct zr_py *x = NULL;
	uint64_t bits = 0;

	int rc = take(r, 8, &p);
	for (int i = 0; !rc && i < 8; i++)
		bits = bits << 8 | p[i];
	if (!rc)
		rc = push_new(r, ZR_PY_FLOAT, &x);
	if (!rc)
		memcpy(&x->number, &bits, sizeof bits);
	return rc;
}

static int push_text(struct reader *r, enum zr_py_kind kind, size_t length_bytes)
{
	const unsigned char *p = NULL;
	struct zr_py *x = NULL;
	uint64_t n;

	int rc = take_number(r, length_bytes, &n);
	if (!rc)
		rc = take(r, n, &p);
	if (rc)
		return rc;

	char *text = allocate(r, n + 1);
	rc = text ? push_new(r, kind, &x) : ZR_ENOMEM;
	if (rc)
		return rc;

	memcpy(text, p, n);
	if (kind == ZR_PY_TEXT && memchr(text, 0, n))
		return refuse(r, "a text with a zero in it");
	x->text = text;
	x->bytes = n;
	return 0;
}

static int short_text(struct reader *r)
{
	return push_text(r, ZR_PY_TEXT, 1);
}

static int text(struct reader *r)
{
	return push_text(r, ZR_PY_TEXT, 4);
}

static int long_text(struct reader *r)
{
	return push_text(r, ZR_PY_TEXT, 8);
}

static int short_bytes(struct reader *r)
{
	return push_text(r, ZR_PY_BYTES, 1);
}

static int bytes(struct reader *r)
{
	return push_text(r, ZR_PY_BYTES, 4);
}

static int long_bytes(struct reader *r)
{
	return push_text(r, ZR_PY_BYTES, 8);
}

/* ---- instructions: lists and dictionaries ---- */

static int mark(struct reader *r)
{
	return push_whole(r, ZR_PY_MARK, 0);
}

static int empty_list(struct reader *r)
{
	return push_whole(r, ZR_PY_LIST, 0);
}

static int empty_dict(struct reader *r)
{
	return push_whole(r, ZR_PY_DICT, 0);
}

/* A list of the last n values. */
static int last_values(struct reader *r, size_t n)
{
	struct zr_py *x[3], *list;
	int rc = 0;

	for (size_t i = n; !rc && i > 0; i--)
		rc = pop(r, &x[i - 1]);
	if (!rc)
		rc = push_new(r, ZR_PY_LIST, &list);
	if (rc)
		return rc;

	return append(r, list, x, n);
}

static int one_value(struct reader *r)
{
	return last_values(r, 1);
}

static int two_values(struct reader *r)
{
	return last_values(r, 2);
}

static int three_values(struct reader *r)
{
	return last_values(r, 3);
}

static int marked(struct reader *r, enum zr_py_kind kind)
{
	struct zr_py **from, *x;
	size_t n;
	int rc = pop_to_mark(r, &from, &n);
	if (!rc && kind == ZR_PY_DICT && n % 2)
		rc = refuse(r, "a key without a value");
	if (rc)
		return rc;

	x = allocate(r, sizeof *x);
	if (!x)
		return ZR_ENOMEM;

	x->kind = kind;
	rc = append(r, x, from, n);
	if (rc)
		return rc;
	return push(r, x);
}

static int marked_list(struct reader *r)
{
	return marked(r, ZR_PY_LIST);
}

static int marked_dict(struct reader *r)
{
	return marked(r, ZR_PY_DICT);
}

static int add_to(struct reader *r, enum zr_py_kind kind, struct zr_py **from, size_t n)
{
	struct zr_py *to = NULL;
	int rc = top(r, &to);
	if (rc)
		return rc;
	if (to->kind != kind)
		return refuse(r, "members of what has none");
	if (kind == ZR_PY_DICT && n % 2)
		return refuse(r, "a key without a value");

	return append(r, to, from, n);
}

static int append_one(struct reader *r)
{
	struct zr_py *x = NULL;
	int rc = pop(r, &x);
	if (rc)
		return rc;

	return add_to(r, ZR_PY_LIST, &x, 1);
}

static int append_marked(struct reader *r)
{
	struct zr_py **from;
	size_t n;
	int rc = pop_to_mark(r, &from, &n);
	if (rc)
		return rc;

	return add_to(r, ZR_PY_LIST, from, n);
}

static int set_one(struct reader *r)
{
	struct zr_py *pair[2];
	int rc = pop(r, &pair[1]);
	if (!rc)
		rc = pop(r, &pair[0]);
	if (rc)
		return rc;

	return add_to(r, ZR_PY_DICT, pair, 2);
}

static int set_marked(struct reader *r)
{
	struct zr_py **from;
	size_t n;
	int rc = pop_to_mark(r, &from, &n);
	if (rc)
		return rc;

	return add_to(r, ZR_PY_DICT, from, n);
}

/* ---- instructions: memory of what was made ---- */

static int put(struct reader *r, uint64_t i)
{
	struct zr_py *x = NULL;
	int rc = top(r, &x);
	/* a number is taken once, and takes two bytes at least */
	if (!rc && i > (uint64_t)(r->end - r->bytes))
		rc = refuse(r, "a place that is too far away");
	if (!rc)
		rc = grow(r, &r->memo, i + 1);
	if (rc)
		return rc;

	r->memo.at[i] = x;
	if (i >= r->memo.n)
		r->memo.n = i + 1;
	return 0;
}

static int get(struct reader *r, size_t bytes_of_number)
{
	uint64_t i = 0;
	int rc = take_number(r, bytes_of_number, &i);
	if (!rc && (i >= r->memo.n || !r->memo.at[i]))
		rc = refuse(r, "a place where nothing is");
	if (rc)
		return rc;

	return push(r, r->memo.at[i]);
}

static int put_byte(struct reader *r)
{
	uint64_t i = 0;
	int rc = take_number(r, 1, &i);
	return rc ? rc : put(r, i);
}

static int put_long(struct reader *r)
{
	uint64_t i = 0;
	int rc = take_number(r, 4, &i);
	return rc ? rc : put(r, i);
}

static int put_next(struct reader *r)
{
	return put(r, r->memo.n);
}

static int get_byte(struct reader *r)
{
	return get(r, 1);
}

static int get_long(struct reader *r)
{
	return get(r, 4);
}

static int drop_one(struct reader *r)
{
	struct zr_py *x = NULL;
	return pop(r, &x);
}

static int drop_marked(struct reader *r)
{
	struct zr_py **from;
	size_t n;
	return pop_to_mark(r, &from, &n);
}

/* ---- instructions: names and what they make ---- */

static int push_name(struct reader *r, const char *module, const char *name)
{
	struct zr_py *x = NULL;
	int32_t dtype;
	const size_t n = strlen(module) + strlen(name) + 2;
	char *whole = allocate(r, n);
	if (!whole)
		return ZR_ENOMEM;

	snprintf(whole, n, "%s %s", module, name);
	if (zr_py_class_of(whole, &dtype) == ZR_PY_CLASS_UNKNOWN)
		return zr_err(r->err, ZR_EINVAL,
			      "%s: its pickle would run %s.%.200s, which is none of the known "
			      "classes of tensors and checkpoints: nothing of it is read",
			      r->path, module, name);

	int rc = push_new(r, ZR_PY_NAME, &x);
	if (rc)
		return rc;

	x->text = whole;
	x->dtype = dtype;
	return 0;
}

static int named(struct reader *r)
{
	const char *module, *name;
	int rc = take_line(r, &module);
	if (!rc)
		rc = take_line(r, &name);
	if (rc)
		return rc;

	return push_name(r, module, name);
}

static int named_on_stack(struct reader *r)
{
	struct zr_py *module, *name;
	int rc = pop(r, &name);
	if (!rc)
		rc = pop(r, &module);
	if (!rc && (!zr_py_text(module) || !zr_py_text(name)))
		rc = refuse(r, "a name that is no text");
	if (rc)
		return rc;

	return push_name(r, module->text, name->text);
}

/* ("storage", CLASS, KEY, PLACE, ELEMENTS), as torch.save writes it. */
static int storage(struct reader *r)
{
	struct zr_py *id, *x;
	int rc = pop(r, &id);
	if (rc)
		return rc;

	const struct zr_py *of = zr_py_member(id, 1);
	const char *what = zr_py_text(zr_py_member(id, 0)), *key = zr_py_text(zr_py_member(id, 2));
	int64_t elements;
	int32_t dtype;
	if (!what || strcmp(what, "storage") || !key || !of || of->kind != ZR_PY_NAME ||
	    zr_py_class_of(of->text, &dtype) != ZR_PY_CLASS_STORAGE ||
	    !zr_py_whole(zr_py_member(id, 4), &elements) || elements < 0)
		return refuse(r, "a storage that is not as torch.save writes it");

	rc = push_new(r, ZR_PY_STORAGE, &x);
	if (rc)
		return rc;

	x->dtype = dtype;
	x->text = key;
	x->elements = elements;
	return 0;
}

/* Whether the last element lies within the storage, too. */
static int fits(const struct zr_py *t)
{
	int64_t last = t->offset, some = 1, part;

	for (int32_t d = 0; d < t->ndim; d++) {
		if (t->dims[d] < 0 || t->stride[d] < 0 ||
		    __builtin_mul_overflow(some, t->dims[d], &some))
			return 0;
		if (t->dims[d] && (__builtin_mul_overflow(t->dims[d] - 1, t->stride[d], &part) ||
				   __builtin_add_overflow(last, part, &last)))
			return 0;
	}

	return !some || last < t->storage->elements;
}

/* (storage, offset, size, stride, ...) */
static int rebuild_tensor(struct reader *r, const struct zr_py *a)
{
	const struct zr_py *of = zr_py_member(a, 0), *size = zr_py_member(a, 2),
			   *stride = zr_py_member(a, 3);
	struct zr_py *t = NULL;
	int rc = push_new(r, ZR_PY_TENSOR, &t);
	if (rc)
		return rc;

	if (!of || of->kind != ZR_PY_STORAGE || zr_py_count(size) > ZR_PY_DIMS ||
	    zr_py_count(size) != zr_py_count(stride) ||
	    !zr_py_whole(zr_py_member(a, 1), &t->offset) || t->offset < 0)
		return refuse(r, "a tensor that is not as torch.save writes it");

	t->storage = of;
	t->dtype = of->dtype;
	t->elements = 1;
	t->ndim = (int32_t)zr_py_count(size);
	for (int32_t d = 0; d < t->ndim; d++)
		if (!zr_py_whole(zr_py_member(size, (size_t)d), &t->dims[d]) ||
		    !zr_py_whole(zr_py_member(stride, (size_t)d), &t->stride[d]))
			return refuse(r, "a tensor without sizes");
	if (!fits(t))
		return refuse(r, "a tensor that is larger than its storage");
	for (int32_t d = 0; d < t->ndim; d++)
		t->elements *= t->dims[d];
	return 0;
}

static int make_object(struct reader *r, struct zr_py *of, struct zr_py *arguments)
{
	struct zr_py *x = NULL;
	int rc = push_new(r, ZR_PY_OBJECT, &x);
	if (rc)
		return rc;

	x->of = of;
	x->arguments = arguments;
	return 0;
}

static int make_list(struct reader *r, const struct zr_py *a)
{
	const struct zr_py *first = zr_py_member(a, 0);
	struct zr_py *x = NULL;
	int rc = push_new(r, ZR_PY_LIST, &x);
	if (rc || !first)
		return rc;
	if (first->kind != ZR_PY_LIST)
		return refuse(r, "a list of what is none");

	return append(r, x, first->at, first->n);
}

static int make_parameter(struct reader *r, const struct zr_py *a)
{
	if (!a->n || a->at[0]->kind != ZR_PY_TENSOR)
		return refuse(r, "a parameter without a tensor");

	return push(r, a->at[0]);
}

/* (_rebuild_tensor_v2, class, arguments, attributes): a tensor that has attributes. */
static int rebuild_from_type(struct reader *r, const struct zr_py *a)
{
	const struct zr_py *f = zr_py_member(a, 0), *of = zr_py_member(a, 2);
	int32_t dtype;

	if (!f || f->kind != ZR_PY_NAME || !of || of->kind != ZR_PY_LIST ||
	    zr_py_class_of(f->text, &dtype) != ZR_PY_CLASS_TENSOR)
		return refuse(r, "a tensor that is not as torch.save writes it");

	return rebuild_tensor(r, of);
}

static int reduce(struct reader *r)
{
	struct zr_py *a, *f;
	int32_t dtype;
	int rc = pop(r, &a);
	if (!rc)
		rc = pop(r, &f);
	if (rc)
		return rc;
	if (f->kind != ZR_PY_NAME || a->kind != ZR_PY_LIST)
		return refuse(r, "a call of what is no class");

	switch (zr_py_class_of(f->text, &dtype)) {
	case ZR_PY_CLASS_DICT:
		return empty_dict(r);
	case ZR_PY_CLASS_LIST:
		return make_list(r, a);
	case ZR_PY_CLASS_TENSOR:
		return rebuild_tensor(r, a);
	case ZR_PY_CLASS_PARAMETER:
		return make_parameter(r, a);
	case ZR_PY_CLASS_FROM_TYPE:
		return rebuild_from_type(r, a);
	case ZR_PY_CLASS_DATA:
		return make_object(r, f, a);
	default:
		return zr_err(r->err, ZR_EINVAL, "%s: its pickle calls %s, which is only a type",
			      r->path, f->text);
	}
}

/* The attributes of an object. Those of a dictionary say nothing of its contents. */
static int build(struct reader *r)
{
	struct zr_py *state = NULL, *to = NULL;
	int rc = pop(r, &state);
	if (!rc)
		rc = top(r, &to);
	if (rc)
		return rc;
	if (to->kind != ZR_PY_OBJECT && to->kind != ZR_PY_DICT)
		return refuse(r, "attributes of what has none");

	if (to->kind == ZR_PY_OBJECT)
		to->state = state;
	return 0;
}

/* ---- the machine ---- */

static int protocol(struct reader *r)
{
	uint64_t version;
	int rc = take_number(r, 1, &version);
	if (!rc && (version < 2 || version > 5))
		rc = refuse(r, "a protocol that is not 2, 3, 4 or 5");
	return rc;
}

/* Says how many bytes follow, which the end of the file says, too. */
static int frame(struct reader *r)
{
	uint64_t n;
	return take_number(r, 8, &n);
}

static int stop(struct reader *r)
{
	r->done = 1;
	return pop(r, &r->p->root);
}

static int (*const instructions[256])(struct reader *) = {
	[0x80] = protocol,     [0x95] = frame,        [0x93] = named_on_stack,
	[0x81] = reduce,       [0x85] = one_value,    [0x86] = two_values,
	[0x87] = three_values, [0x88] = yes,          [0x89] = no,
	[0x8a] = many_bytes,   [0x8c] = short_text,   [0x8d] = long_text,
	[0x8e] = long_bytes,   [0x8f] = empty_list,   [0x90] = append_marked,
	[0x91] = marked_list,  [0x94] = put_next,     [0x96] = long_bytes,
	['('] = mark,          ['.'] = stop,          ['0'] = drop_one,
	['1'] = drop_marked,   ['N'] = none,          ['J'] = four_bytes,
	['K'] = byte,          ['M'] = two_bytes,     ['G'] = real,
	['X'] = text,          ['B'] = bytes,         ['C'] = short_bytes,
	['U'] = short_bytes,   ['T'] = bytes,         [']'] = empty_list,
	['a'] = append_one,    ['e'] = append_marked, ['l'] = marked_list,
	[')'] = empty_list,    ['t'] = marked_list,   ['}'] = empty_dict,
	['s'] = set_one,       ['u'] = set_marked,    ['d'] = marked_dict,
	['c'] = named,         ['R'] = reduce,        ['b'] = build,
	['Q'] = storage,       ['q'] = put_byte,      ['r'] = put_long,
	['h'] = get_byte,      ['j'] = get_long,
};

static int run(struct reader *r)
{
	char what[64];
	int rc = 0;

	while (!rc && !r->done) {
		if (r->next == r->end)
			return refuse(r, "it ends without a STOP");

		const unsigned char code = *r->next++;
		if (!instructions[code]) {
			snprintf(what, sizeof what, "instruction 0x%02x is not known", code);
			return refuse(r, what);
		}
		rc = instructions[code](r);
	}

	return rc;
}

int zr_pickle_read(const void *from, size_t n, const char *path, struct zr_pickle **out,
		   const struct zr_py **root, struct zr_error *err)
{
	struct zr_pickle *p = calloc(1, sizeof *p);
	struct reader r = { .p = p,
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

void zr_pickle_free(struct zr_pickle *p)
{
	if (!p)
		return;

	for (struct piece *at = p->last, *before; at; at = before) {
		before = at->before;
		free(at);
	}
	free(p);
}
