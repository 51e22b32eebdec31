/* SPDX-License-Identifier: Apache-2.0
 *
 * statements.c - see parts.h: a template as a tree of statements.
 */
#include <string.h>

#include "files/chat/jinja/parts.h"

/* The words of which one ends a body; the block that has it is read up to that word. */
#define ENDS 4

static int word(const struct zj_parser *ps, const char *text)
{
	return zj_is_name(&ps->token, text);
}

/* What people see of the current token, and how many bytes of it. */
static const char *text(const struct zj_parser *ps)
{
	if (ps->token.p)
		return ps->token.p;

	return "the end";
}

static int shown(const struct zj_parser *ps)
{
	if (!ps->token.p)
		return (int)strlen("the end");

	return ps->token.n < 40 ? (int)ps->token.n : 40;
}

static int end_block(struct zj_parser *ps)
{
	if (ps->failed)
		return ZR_EINVAL;
	if (ps->token.kind == ZJ_T_BLOCK_END)
		return zj_next(ps);

	return zj_refuse(ps, ZR_EINVAL, "expected %%} behind this statement, found %.*s", shown(ps),
			 text(ps));
}

static struct zj_node *statement(struct zj_parser *ps);

/* Whether the current word ends a body. */
static int is_end(const struct zj_parser *ps, const char *const *ends)
{
	for (int i = 0; i < ENDS && ends[i]; i++)
		if (word(ps, ends[i]))
			return 1;

	return 0;
}

static struct zj_node *write_text(struct zj_parser *ps)
{
	struct zj_node *n = zj_node(ps, ZJ_WRITE_TEXT);
	struct zj_text *text = zj_take(&ps->t->memory, sizeof *text);

	if (!n || !text) {
		zj_refuse(ps, ZR_ENOMEM, "out of memory");
		return NULL;
	}

	*text = (struct zj_text){ .p = ps->token.p, .n = ps->token.n };
	n->text = text;
	zj_next(ps);
	return zj_whole(ps, n);
}

static struct zj_node *write_value(struct zj_parser *ps)
{
	struct zj_node *n = zj_node(ps, ZJ_WRITE);

	if (!n || zj_next(ps))
		return NULL;

	n->a = zj_tuple(ps, 1);
	if (ps->failed)
		return NULL;
	if (ps->token.kind != ZJ_T_VARIABLE_END) {
		zj_refuse(ps, ZR_EINVAL, "expected }} behind this expression, found %.*s",
			  shown(ps), text(ps));
		return NULL;
	}

	zj_next(ps);
	return zj_whole(ps, n);
}

/* What stands at one place; NULL with no failure: nothing, an empty text. */
static struct zj_node *piece(struct zj_parser *ps)
{
	if (ps->token.kind == ZJ_T_VARIABLE_BEGIN)
		return write_value(ps);
	if (ps->token.n)
		return write_text(ps);

	zj_next(ps);
	return NULL;
}

/* Statements up to a block with one of `ends`, whose word is then the current token; without ends,
 * to the end of the template. */
static struct zj_node *body(struct zj_parser *ps, const char *const *ends)
{
	struct zj_node *first = NULL, **to = &first;

	if (++ps->depth > ZR_JINJA_DEPTH)
		zj_refuse(ps, ZR_ENOTSUP, "more than %d statements in one another", ZR_JINJA_DEPTH);
	while (!ps->failed && ps->token.kind != ZJ_T_END) {
		struct zj_node *n;

		if (ps->token.kind != ZJ_T_BLOCK_BEGIN) {
			n = piece(ps);
		} else {
			zj_next(ps);
			if (ps->failed || (ends && is_end(ps, ends)))
				break;
			n = statement(ps);
		}

		if (!n)
			continue;
		*to = n;
		to = &n->next;
	}

	ps->depth--;
	if (!ps->failed && ends && !is_end(ps, ends))
		zj_refuse(ps, ZR_EINVAL, "the template ends where it needs %s", ends[0]);
	return zj_whole(ps, first);
}

/* A body that this one word ends, from the end of its block to the end of that. */
static struct zj_node *whole_body(struct zj_parser *ps, const char *end)
{
	const char *const ends[ENDS] = { end };
	struct zj_node *n = NULL;

	if (!end_block(ps))
		n = body(ps, ends);
	if (!ps->failed && !zj_next(ps))
		end_block(ps);

	return zj_whole(ps, n);
}

/* ---- statements ---- */

static struct zj_node *read_if(struct zj_parser *ps)
{
	static const char *const ends[ENDS] = { "endif", "elif", "else" };
	struct zj_node *top = NULL, **to = &top;

	do {
		*to = zj_node(ps, ZJ_IF);
		if (!*to || zj_next(ps))
			return NULL;

		(*to)->a = zj_tuple(ps, 0);
		if (end_block(ps))
			return NULL;

		(*to)->kids = body(ps, ends);
		to = &(*to)->b;
	} while (!ps->failed && word(ps, "elif"));

	if (!ps->failed && word(ps, "else")) {
		*to = zj_node(ps, ZJ_BODY);
		if (!*to || zj_next(ps))
			return NULL;
		(*to)->kids = whole_body(ps, "endif");
		return zj_whole(ps, top);
	}

	if (zj_next(ps) || end_block(ps))
		return NULL;

	return top;
}

static struct zj_node *name_target(struct zj_parser *ps)
{
	struct zj_node *n = zj_node(ps, ZJ_NAME);

	if (!n)
		return NULL;
	if (ps->token.kind != ZJ_T_NAME || word(ps, "loop") || word(ps, "true") ||
	    word(ps, "false") || word(ps, "none")) {
		zj_refuse(ps, ZR_EINVAL, "expected a name to assign to");
		return NULL;
	}

	n->name = zj_name(ps, ps->token.p, ps->token.n);
	zj_next(ps);
	return zj_whole(ps, n);
}

/* name, or name.field where `fields` allows it */
static struct zj_node *one_target(struct zj_parser *ps, int fields)
{
	struct zj_node *n = name_target(ps);

	if (!n || !fields || !zj_is_sign(&ps->token, "."))
		return n;
	if (zj_next(ps))
		return NULL;

	struct zj_text *field;
	if (ps->token.kind != ZJ_T_NAME || *ps->token.p == '_') {
		zj_refuse(ps, ZR_EINVAL, "expected a name that does not begin with _ behind .");
		return NULL;
	}

	if (zj_unescape(ps, &ps->token, &field) || zj_next(ps))
		return NULL;

	n->kind = ZJ_SET_FIELD;
	n->text = field;
	return n;
}

/* One target, or several by commas, which brackets may hold. */
static struct zj_node *target(struct zj_parser *ps, int fields)
{
	const int brackets = !ps->failed && zj_is_sign(&ps->token, "(");
	struct zj_node *first, *last;

	if (brackets && zj_next(ps))
		return NULL;

	first = last = one_target(ps, fields);
	if (!first)
		return NULL;

	if (zj_is_sign(&ps->token, ",")) {
		struct zj_node *n = zj_node(ps, ZJ_TUPLE_OF);
		while (n && last && !ps->failed && zj_is_sign(&ps->token, ",")) {
			zj_next(ps);
			last->next = one_target(ps, 0);
			last = last->next;
		}
		if (!n || ps->failed)
			return NULL;
		n->kids = first;
		first = n;
	}

	if (brackets && !zj_is_sign(&ps->token, ")"))
		zj_refuse(ps, ZR_EINVAL, "expected ) behind the names");
	else if (brackets)
		zj_next(ps);

	return zj_whole(ps, first);
}

static struct zj_node *read_for(struct zj_parser *ps)
{
	static const char *const ends[ENDS] = { "endfor", "else" };
	struct zj_node *n = zj_node(ps, ZJ_FOR);

	if (!n || zj_next(ps))
		return NULL;

	n->b = target(ps, 0);
	if (ps->failed)
		return NULL;
	if (!word(ps, "in")) {
		zj_refuse(ps, ZR_EINVAL, "expected in behind the names of for");
		return NULL;
	}

	if (zj_next(ps))
		return NULL;
	n->a = zj_tuple(ps, 0);
	if (!ps->failed && word(ps, "if") && !zj_next(ps))
		n->c = zj_expression(ps);
	if (!ps->failed && word(ps, "recursive"))
		zj_refuse(ps, ZR_ENOTSUP, "for ... recursive: not in the subset");
	if (end_block(ps))
		return NULL;

	ps->loops++;
	n->kids = body(ps, ends);
	ps->loops--;
	if (!ps->failed && word(ps, "else")) {
		n->d = zj_node(ps, ZJ_BODY);
		if (!n->d || zj_next(ps))
			return NULL;
		n->d->kids = whole_body(ps, "endfor");
		return zj_whole(ps, n);
	}

	if (zj_next(ps) || end_block(ps))
		return NULL;

	return n;
}

static struct zj_node *read_set(struct zj_parser *ps)
{
	struct zj_node *n = zj_node(ps, ZJ_SET);

	if (!n || zj_next(ps))
		return NULL;

	n->b = target(ps, 1);
	if (ps->failed)
		return NULL;

	if (zj_is_sign(&ps->token, "=")) {
		zj_next(ps);
		n->a = zj_tuple(ps, 1);
		return end_block(ps) ? NULL : n;
	}

	n->kind = ZJ_SET_BLOCK;
	n->a = zj_filters(ps, zj_node(ps, ZJ_HOLE));
	const int loops = ps->loops;
	n->kids = whole_body(ps, "endset");
	ps->loops = loops;
	return zj_whole(ps, n);
}

static struct zj_node *parameter(struct zj_parser *ps)
{
	struct zj_node *n = name_target(ps);

	if (!n)
		return NULL;

	n->kind = ZJ_PARAMETER;
	if (zj_is_sign(&ps->token, "=")) {
		zj_next(ps);
		n->a = zj_expression(ps);
	}

	return zj_whole(ps, n);
}

static int read_parameters(struct zj_parser *ps, struct zj_node *macro)
{
	struct zj_node **to = &macro->kids, *n;
	int count = 0;

	macro->b = zj_node(ps, ZJ_BODY);
	if (!macro->b || !zj_is_sign(&ps->token, "("))
		return zj_refuse(ps, ZR_EINVAL, "expected ( behind the name of a macro");

	to = &macro->b->kids;
	zj_next(ps);
	while (!ps->failed && !zj_is_sign(&ps->token, ")")) {
		if (count && !zj_is_sign(&ps->token, ","))
			return zj_refuse(ps, ZR_EINVAL, "expected , between parameters");
		if (count)
			zj_next(ps);
		if (++count > ZJ_ARGUMENTS)
			return zj_refuse(ps, ZR_ENOTSUP, "a macro of more than %d parameters",
					 ZJ_ARGUMENTS);

		n = parameter(ps);
		if (!n)
			return ZR_EINVAL;
		*to = n;
		to = &n->next;
	}

	return zj_next(ps);
}

/* A body that break and continue of loops around it cannot leave. */
static struct zj_node *own_body(struct zj_parser *ps, const char *end)
{
	const int loops = ps->loops;

	ps->loops = 0;
	struct zj_node *n = whole_body(ps, end);
	ps->loops = loops;
	return n;
}

static struct zj_node *read_macro(struct zj_parser *ps)
{
	struct zj_node *n = zj_node(ps, ZJ_MACRO_OF);

	if (!n || zj_next(ps))
		return NULL;

	const struct zj_node *name = name_target(ps);
	if (!name || read_parameters(ps, n))
		return NULL;

	n->name = name->name;
	n->kids = own_body(ps, "endmacro");
	return zj_whole(ps, n);
}

static struct zj_node *read_generation(struct zj_parser *ps)
{
	struct zj_node *n = zj_node(ps, ZJ_GENERATION);

	if (!n || zj_next(ps))
		return NULL;

	n->kids = own_body(ps, "endgeneration");
	ps->t->generates = 1;
	return zj_whole(ps, n);
}

static struct zj_node *read_filtered(struct zj_parser *ps)
{
	struct zj_node *n = zj_node(ps, ZJ_FILTERED);

	if (!n || zj_next(ps))
		return NULL;

	n->a = zj_block_filters(ps, zj_node(ps, ZJ_HOLE));
	n->kids = whole_body(ps, "endfilter");
	return zj_whole(ps, n);
}

static struct zj_node *leave(struct zj_parser *ps, enum zj_node_kind kind)
{
	struct zj_node *n = zj_node(ps, kind);

	if (!n)
		return NULL;
	if (!ps->loops) {
		zj_refuse(ps, ZR_EINVAL, "%s outside of a loop",
			  kind == ZJ_BREAK ? "break" : "continue");
		return NULL;
	}

	if (zj_next(ps) || end_block(ps))
		return NULL;

	return n;
}

static struct zj_node *statement(struct zj_parser *ps)
{
	if (word(ps, "if"))
		return read_if(ps);
	if (word(ps, "for"))
		return read_for(ps);
	if (word(ps, "set"))
		return read_set(ps);
	if (word(ps, "macro"))
		return read_macro(ps);
	if (word(ps, "filter"))
		return read_filtered(ps);
	if (word(ps, "generation"))
		return read_generation(ps);
	if (word(ps, "break"))
		return leave(ps, ZJ_BREAK);
	if (word(ps, "continue"))
		return leave(ps, ZJ_CONTINUE);

	if (ps->token.kind == ZJ_T_NAME)
		zj_refuse(ps, ZR_ENOTSUP,
			  "statement %.*s: not in the subset of Jinja that Zeroth has, or nothing "
			  "that it ends is open",
			  shown(ps), text(ps));
	else
		zj_refuse(ps, ZR_EINVAL, "expected a statement behind {%%");
	return NULL;
}

int zj_parse(struct zj_parser *ps)
{
	ps->line = 1;
	ps->line_starts = 1;
	zj_next(ps);
	ps->t->body = body(ps, NULL);
	if (ps->failed)
		return ps->err->code;

	return 0;
}
