/* SPDX-License-Identifier: Apache-2.0
 *
 * parts.h - what files/chat/jinja/ is made of. Only its files include it.
 *
 *   lex.c -> expressions.c -> statements.c (the tree) -> jinja.c -> run.c -> evaluate.c -> call.c
 *
 * Functions that return int return 0 or a negative code, with the reason in an error.
 */
#ifndef ZR_CHAT_JINJA_PARTS_H
#define ZR_CHAT_JINJA_PARTS_H

#include <stdarg.h>

#include "files/chat/jinja/jinja.h"

/* ---- memory.c: what a rendering or a tree takes, given back at once ---- */

struct zr_jinja_memory {
	struct zj_chunk *chunk; /* the one in use, then those before it */
	size_t used;            /* bytes of all chunks */
	size_t most;
};
/* Zeroed, aligned for any type; NULL: no memory, or more than `most`. */
void *zj_take(struct zr_jinja_memory *m, size_t bytes);
/* All goes; one chunk stays for what comes. */
void zj_forget(struct zr_jinja_memory *m);
void zj_memory_free(struct zr_jinja_memory *m);

/* ---- values ---- */

enum zj_kind {
	ZJ_MISSING, /* an argument that was not given */
	ZJ_UNDEFINED,
	ZJ_NONE,
	ZJ_BOOL,
	ZJ_INT,
	ZJ_FLOAT,
	ZJ_TEXT,
	ZJ_LIST,
	ZJ_DICT,
	ZJ_NAMESPACE,
	ZJ_MACRO,
	ZJ_FUNCTION,
	ZJ_METHOD,
	ZJ_LOOP
};

struct zj_value {
	enum zj_kind kind;
	union {
		int64_t i; /* also ZJ_BOOL */
		double f;
		const struct zj_text *text;
		struct zj_list *list;
		struct zj_dict *dict; /* also ZJ_NAMESPACE */
		const struct zj_macro *macro;
		const struct zj_function *function;
		const struct zj_method *method;
		const struct zj_loop *loop;
		const char *what; /* of ZJ_UNDEFINED: its name */
	};
};

/* Well-formed UTF-8. */
struct zj_text {
	const char *p;
	size_t n;
	int is_ascii;
	int is_safe; /* Markup of Python: + escapes what is added to it */
};

/* What Python has as several types. */
enum zj_flavour {
	ZJ_A_LIST,
	ZJ_A_TUPLE,
	ZJ_A_RANGE,
	ZJ_A_VIEW,  /* of a dict: it has a length and no places */
	ZJ_A_STREAM /* a generator: it is gone through once */
};
struct zj_list {
	struct zj_value *v;
	size_t n, room;
	enum zj_flavour flavour;
};

struct zj_pair {
	struct zj_value key, v;
};
/* Keeps the order; keys are unique. */
struct zj_dict {
	struct zj_pair *pair;
	size_t n, room;
};

struct zj_run;
struct zj_scope;
struct zj_arguments;
struct zj_macro {
	const struct zj_node *node;
	struct zj_scope *scope; /* where it was defined */
	int (*call)(struct zj_run *r, const struct zj_macro *m, const struct zj_arguments *given,
		    struct zj_value *out);
};

struct zj_loop {
	const struct zj_list *list;
	size_t at;
	int depth;
};

/* ---- lex.c ---- */

enum zj_token_kind {
	ZJ_T_END,
	ZJ_T_DATA, /* text between tags */
	ZJ_T_BLOCK_BEGIN,
	ZJ_T_BLOCK_END,
	ZJ_T_VARIABLE_BEGIN,
	ZJ_T_VARIABLE_END,
	ZJ_T_NAME,
	ZJ_T_STRING,
	ZJ_T_INT,
	ZJ_T_FLOAT,
	ZJ_T_SIGN
};
struct zj_token {
	enum zj_token_kind kind;
	int line;
	const char *p; /* of the source; of a string: between its quotes */
	size_t n;
	int64_t i;
	double f;
};

struct zj_parser {
	struct zr_jinja *t;
	struct zr_error *err;
	const char *source; /* with \n alone as line ends */
	size_t n, at;
	int line;
	int in_tag, open;            /* open: brackets that are not closed */
	int in_variable;             /* the tag is {{ */
	int line_starts;             /* what was read last ended a line */
	struct zj_token token, data; /* data: a text that a tag follows */
	int tag_waits;               /* the tag behind `data` */
	int depth;
	int loops, bodies; /* that are open; bodies: of macros and generation blocks */
	int failed;
};
/* Reads the next token to ps->token. */
int zj_next(struct zj_parser *ps);
/* Records a failure at the line of the current token. */
int zj_refuse(struct zj_parser *ps, int code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* What the escapes of a string mean. */
int zj_unescape(struct zj_parser *ps, const struct zj_token *token, struct zj_text **out);
int zj_is_sign(const struct zj_token *t, const char *sign);
int zj_is_name(const struct zj_token *t, const char *name);

/* ---- the tree ---- */

enum zj_node_kind {
	/* expressions */
	ZJ_CONST,
	ZJ_NAME,      /* name */
	ZJ_ATTRIBUTE, /* a.text */
	ZJ_ITEM,      /* a[b] */
	ZJ_SLICE,     /* a[b:c:d] */
	ZJ_CALL,      /* a(kids) */
	ZJ_FILTER,    /* a|filter(kids) */
	ZJ_TEST,      /* a is test(kids); op: is not */
	ZJ_UNARY,     /* op a */
	ZJ_BINARY,    /* a op b */
	ZJ_JOINED,    /* kids ~ ... */
	ZJ_COMPARED,  /* a, then kids: op and operand each */
	ZJ_AND,
	ZJ_OR,
	ZJ_CONDITION, /* a if b else c */
	ZJ_LIST_OF,   /* kids */
	ZJ_TUPLE_OF,
	ZJ_DICT_OF, /* kids: key, value, key, ... */
	ZJ_SPREAD,  /* *a, of a call */
	ZJ_KEYWORD, /* text=a, of a call */
	/* statements */
	ZJ_WRITE_TEXT, /* value */
	ZJ_WRITE,      /* a */
	ZJ_IF,         /* a: kids; else b, an ZJ_IF or a ZJ_BODY */
	ZJ_BODY,       /* kids */
	ZJ_FOR,        /* b: target, a: list, c: condition, kids; d: else */
	ZJ_SET,        /* b: target, a: value */
	ZJ_SET_BLOCK,  /* b: target, kids; a: filters of a ZJ_HOLE */
	ZJ_SET_FIELD,  /* the target name.text */
	ZJ_HOLE,       /* the text of the block */
	ZJ_MACRO_OF,   /* name; b: ZJ_BODY of its parameters, kids */
	ZJ_PARAMETER,  /* name; a: default */
	ZJ_FILTERED,   /* kids; a: filters of a ZJ_HOLE */
	ZJ_GENERATION, /* kids */
	ZJ_BREAK,
	ZJ_CONTINUE
};

enum zj_op {
	ZJ_ADD,
	ZJ_SUB,
	ZJ_MUL,
	ZJ_DIV,
	ZJ_FLOOR_DIV,
	ZJ_MOD,
	ZJ_POW,
	ZJ_EQ,
	ZJ_NE,
	ZJ_LT,
	ZJ_LE,
	ZJ_GT,
	ZJ_GE,
	ZJ_IN,
	ZJ_NOT_IN,
	ZJ_NOT,
	ZJ_NEG,
	ZJ_POS
};

struct zj_node {
	enum zj_node_kind kind;
	enum zj_op op;
	int line;
	int name; /* number of a variable */
	struct zj_node *a, *b, *c, *d;
	struct zj_node *kids, *next; /* a list */
	struct zj_value value;
	const struct zj_text *text;
	const struct zj_function *function; /* a filter or test */
};

struct zr_jinja {
	struct zr_jinja_memory memory;
	char *name; /* of the file */
	char *source;
	struct zj_node *body;
	const char **names; /* of variables, by number */
	int n_names, room;
	int generates;
};

/* expressions.c. Each returns NULL where ps has failed. */
struct zj_node *zj_node(struct zj_parser *ps, enum zj_node_kind kind);
/* n, or NULL where ps has failed. */
struct zj_node *zj_whole(const struct zj_parser *ps, struct zj_node *n);
struct zj_node *zj_expression(struct zj_parser *ps);            /* with "if" and "else" */
struct zj_node *zj_plain_expression(struct zj_parser *ps);      /* without */
struct zj_node *zj_tuple(struct zj_parser *ps, int conditions); /* one or more, by commas */
struct zj_node *zj_filters(struct zj_parser *ps, struct zj_node *of);
struct zj_node *zj_block_filters(struct zj_parser *ps, struct zj_node *of); /* of {% filter */
/* Number of a variable, or -1. */
int zj_name(struct zj_parser *ps, const char *p, size_t n);

/* statements.c: the template as a tree. */
int zj_parse(struct zj_parser *ps);

/* ---- what runs ---- */

struct zj_variable {
	int name;
	struct zj_value v;
};
struct zj_scope {
	struct zj_scope *outer;
	struct zj_variable *v;
	int n, room;
	int is_kept; /* by a macro */
};

struct zj_run {
	const struct zr_jinja *t;
	struct zr_jinja_work *w;
	struct zr_jinja_memory *m;
	struct zr_error *err;
	struct zj_scope *scope, *root;
	struct zj_value *global; /* variables by number */
	uint64_t steps, most_steps;
	int depth, line;
	int captures; /* outputs that are a value, not what is written */
	int64_t date;
	struct zj_value hole;
};

/* ---- limits.c ---- */

/* A failure of the template at the current line. */
int zj_fail(struct zj_run *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Counts steps; fails where there are too many. */
int zj_spend(struct zj_run *r, uint64_t steps);
/* Memory of the rendering; fails where there is none. */
int zj_get(struct zj_run *r, size_t bytes, void *to);

/* ---- values.c ---- */

struct zj_value zj_none(void);
struct zj_value zj_bool(int is);
struct zj_value zj_int(int64_t i);
struct zj_value zj_float(double f);
struct zj_value zj_undefined(const char *what);
int zj_text(struct zj_run *r, const char *p, size_t n, struct zj_value *out); /* copies */
int zj_borrow(struct zj_run *r, const char *p, size_t n, struct zj_value *out);
int zj_word(struct zj_run *r, const char *text, struct zj_value *out);
int zj_list(struct zj_run *r, enum zj_flavour flavour, size_t room, struct zj_value *out);
int zj_append(struct zj_run *r, struct zj_list *to, struct zj_value v);
int zj_dict(struct zj_run *r, size_t room, struct zj_value *out);
/* A key that is not there yet. */
int zj_add_pair(struct zj_run *r, struct zj_dict *d, struct zj_value key, struct zj_value v);
/* *out is ZJ_MISSING where there is no such key. */
int zj_find_word(struct zj_run *r, const struct zj_dict *d, const char *p, size_t n,
		 struct zj_value *out);
int zj_from_json(struct zj_run *r, const json_t *j, struct zj_value *out);

int zj_is_true(const struct zj_value *v);
const char *zj_type(const struct zj_value *v);         /* as Python calls it */
int zj_is(const struct zj_value *v, const char *word); /* it is this text */
/* The number of characters, or of elements; fails for what has none. */
int zj_length(struct zj_run *r, const struct zj_value *v, int64_t *n);
size_t zj_characters(const struct zj_text *t);
/* Where `what` is in t, from byte `from` on; -1: nowhere. */
int64_t zj_search(const struct zj_text *t, size_t from, const struct zj_text *what);
/* What going through v gives; a stream is empty then. */
int zj_iterate(struct zj_run *r, const struct zj_value *v, struct zj_list **out);

/* compare.c */
int zj_put(struct zj_run *r, struct zj_dict *d, struct zj_value key, struct zj_value v);
/* *out is ZJ_MISSING where there is no such key. */
int zj_find(struct zj_run *r, const struct zj_dict *d, const struct zj_value *key,
	    struct zj_value *out);
int zj_equal(struct zj_run *r, const struct zj_value *a, const struct zj_value *b, int *is);
int zj_order(struct zj_run *r, enum zj_op op, const struct zj_value *a, const struct zj_value *b,
	     int *is);
int zj_contains(struct zj_run *r, const struct zj_value *in, const struct zj_value *v, int *is);
int zj_compare(struct zj_run *r, enum zj_op op, const struct zj_value *a, const struct zj_value *b,
	       int *is);

/* print.c: str(), repr() and json.dumps() of Python */
struct zj_json {
	int ascii, sorted;
	const char *indent; /* of a level; NULL: all on one line */
	size_t indent_n;
	const char *item, *key; /* separators */
	size_t item_n, key_n;
};
int zj_print(struct zj_run *r, const struct zj_value *v, struct zr_buf *out);
int zj_string(struct zj_run *r, const struct zj_value *v, struct zj_value *out); /* str() */
int zj_dump(struct zj_run *r, const struct zj_value *v, const struct zj_json *how,
	    struct zr_buf *out);
int zj_add(struct zj_run *r, struct zr_buf *b, const char *p, size_t n);
/* The text from `from` on, which the buffer loses. */
int zj_cut(struct zj_run *r, struct zr_buf *b, size_t from, struct zj_value *out);

/* ---- evaluate.c, arithmetic.c, attributes.c ---- */

int zj_evaluate(struct zj_run *r, const struct zj_node *n, struct zj_value *out);
int zj_unary(struct zj_run *r, enum zj_op op, const struct zj_value *a, struct zj_value *out);
int zj_binary(struct zj_run *r, enum zj_op op, const struct zj_value *a, const struct zj_value *b,
	      struct zj_value *out);
int zj_escape(struct zj_run *r, const struct zj_value *v, struct zj_value *out);
int zj_attribute(struct zj_run *r, const struct zj_value *of, const struct zj_text *name,
		 struct zj_value *out);
int zj_item(struct zj_run *r, const struct zj_value *of, const struct zj_value *key,
	    struct zj_value *out);
/* A bound that is not given is ZJ_NONE. */
int zj_slice(struct zj_run *r, const struct zj_value *of, const struct zj_value *from,
	     const struct zj_value *to, const struct zj_value *step, struct zj_value *out);
/* Characters [from, to) of a text. */
int zj_cut_text(struct zj_run *r, const struct zj_text *t, size_t from, size_t to,
		struct zj_value *out);

/* ---- run.c ---- */

enum { ZJ_DONE, ZJ_BROKE, ZJ_CONTINUED };
/* Runs statements: ZJ_*, or a negative code. */
int zj_execute(struct zj_run *r, const struct zj_node *kids);

/* ---- scope.c ---- */

/* A scope inside of `outer`. */
int zj_scope(struct zj_run *r, struct zj_scope *outer, struct zj_scope **out);
int zj_assign(struct zj_run *r, struct zj_scope *s, int name, struct zj_value v);
int zj_lookup(struct zj_run *r, int name, struct zj_value *out);

/* ---- call.c ---- */

#define ZJ_ARGUMENTS 16

struct zj_arguments {
	struct zj_value v[ZJ_ARGUMENTS];
	size_t n;
	struct {
		const struct zj_text *name;
		struct zj_value v;
	} keyword[ZJ_ARGUMENTS];
	size_t n_keywords;
};

/* A filter, test, function or method: `arg` has its parameters in order, ZJ_MISSING where none was
 * given. */
#define ZJ_PARAMETERS 4
struct zj_function {
	const char *name;
	int (*fn)(struct zj_run *r, const struct zj_value *of, const struct zj_value *arg,
		  struct zj_value *out);
	int least; /* parameters without a default */
	const char *parameter[ZJ_PARAMETERS];
	/* in the place of fn where arguments are handed on */
	int (*all)(struct zj_run *r, const struct zj_value *of, const struct zj_arguments *given,
		   struct zj_value *out);
};
struct zj_method {
	const struct zj_function *function;
	struct zj_value of;
};

const struct zj_function *zj_find_filter(const char *p, size_t n); /* NULL: not in the subset */
const struct zj_function *zj_find_test(const char *p, size_t n);
const struct zj_function *zj_find_function(const char *p, size_t n);
/* The method of a value; NULL: none. */
const struct zj_function *zj_find_method(const struct zj_value *of, const char *p, size_t n);
/* Whether any type has such a method. */
int zj_is_method(const char *p, size_t n);
const struct zj_function *zj_find_in(const struct zj_function *table, const char *p, size_t n);

int zj_apply(struct zj_run *r, const char *kind, const struct zj_function *f,
	     const struct zj_value *of, const struct zj_arguments *given, struct zj_value *out);
int zj_call(struct zj_run *r, const struct zj_value *callee, const struct zj_arguments *given,
	    struct zj_value *out);

/* ---- text.c: characters ---- */

int zj_is_space(uint32_t c); /* as Python's str.isspace */
/* Without the characters of `set` at its ends; set NULL: white space. sides: 1 left, 2 right. */
int zj_strip(struct zj_run *r, const struct zj_value *of, const struct zj_text *set, int sides,
	     struct zj_value *out);
/* The text with other letters; letters that are not ASCII are refused. */
enum zj_letters { ZJ_LOWER, ZJ_UPPER, ZJ_CAPITAL, ZJ_TITLE };
int zj_letters(struct zj_run *r, const struct zj_value *of, enum zj_letters how,
	       struct zj_value *out);
int zj_replace(struct zj_run *r, const struct zj_text *t, const struct zj_text *old,
	       const struct zj_text *with, int64_t most, struct zj_value *out);
/* Where the line ends that begins at byte `at`, as splitlines() has it, and the next one begins. */
size_t zj_line(const struct zj_text *t, size_t at, size_t *next);
int zj_join(struct zj_run *r, const struct zj_text *between, const struct zj_value *list, int any,
	    struct zj_value *out);

#endif
