/* SPDX-License-Identifier: Apache-2.0
 *
 * program.c - see program.h.
 */
#include "cmd/program.h"

#include <stdio.h>

#include "core/base/json.h"
#include "core/base/json_text.h"
#include "train/fit.h"

/* Bytes that arrive by an instruction: a copy, a transfer or a collective. */
static uint64_t moved(const struct zr_lowered *p, const struct zr_instr *i)
{
	const struct zr_operand *o = i->n ? &p->operand[i->first] : NULL;
	uint64_t bytes = 0;

	if (i->kind == ZR_I_COPY || i->kind == ZR_I_READ || i->kind == ZR_I_WRITE)
		return (uint64_t)(i->block * i->blocks);

	for (int64_t k = 0; i->kind == ZR_I_COLLECTIVE && k < i->blocks; k++)
		bytes += zr_arriving(i, o, k);
	return bytes;
}

static const char *whose(const struct zr_operand *o, char *buf, size_t size)
{
	if (o->whose == ZR_MINE)
		return "";
	if (o->whose < 0)
		return o->whose == ZR_VIEW ? " of all" : " of others";

	snprintf(buf, size, " of rank %d", o->whose);
	return buf;
}

static void print_operand(const struct zr_setup *s, const struct zr_operand *o)
{
	char buf[32];
	if (o->region >= 0 && o->bytes && o->access)
		printf("  %s%s %s+%llu%s", o->access & ZR_READS ? "<" : "",
		       o->access & ZR_WRITES ? ">" : "", s->plan.region[o->region].what,
		       (unsigned long long)o->at, whose(o, buf, sizeof buf));
}

/* One instruction, and the late writes that it waits for. */
struct line {
	const struct zr_lowered *p;
	int32_t n, wait, n_wait;
};

#define FIRST_LINE(program)                                                                        \
	{                                                                                          \
		.p = (program), .n = -1                                                            \
	}

/* Goes on to the next instruction, 0: there is none. Waits are in the order of instructions. */
static int next_line(struct line *l)
{
	const struct zr_lowered *p = l->p;

	l->n++;
	l->wait += l->n_wait;
	l->n_wait = 0;
	while (l->wait + l->n_wait < p->n_wait && p->wait[l->wait + l->n_wait].instr == l->n)
		l->n_wait++;
	return l->n < p->n;
}

static void print_numbers(const char *what, const int32_t *number, int32_t n)
{
	for (int32_t k = 0; k < n; k++)
		printf("%s%d", k ? " " : what, number[k]);
}

static void print_line(const struct zr_setup *s, const struct line *l)
{
	const struct zr_instr *i = &l->p->instr[l->n];
	const int32_t *dep = l->p->dep + i->after, n_over = i->n_after - i->n_behind;
	uint64_t bytes = moved(l->p, i);
	char text[256], size[32];

	printf("%6d  %-7s  %-10s  %s", l->n, zr_queue_name[i->queue], zr_instr_name[i->kind],
	       zr_instr_text(s, l->p, l->n, text, sizeof text));
	if (bytes)
		printf("  %s", zr_bytes_text(bytes, size));
	for (int32_t k = 0; k < i->n; k++)
		print_operand(s, &l->p->operand[i->first + k]);
	print_numbers("  after ", dep, n_over);
	print_numbers("  behind ", dep + n_over, i->n_behind);
	for (int32_t k = l->wait; k < l->wait + l->n_wait; k++) {
		int32_t late = l->p->wait[k].late;
		printf("  after late %d of %s", late / ZR_LOWERED,
		       zr_lowered_name[late % ZR_LOWERED]);
	}

	printf("%s", i->flags & ZR_F_MARK ? "  marked" : "");
	puts(i->flags & ZR_F_LATE ? "  late" : "");
}

/* How much of a program is for each queue. */
static void print_queues(const struct zr_lowered *p)
{
	int32_t n[ZR_QUEUES] = { 0 };
	uint64_t bytes[ZR_QUEUES] = { 0 };
	char size[32];

	for (int32_t k = 0; k < p->n; k++) {
		n[p->instr[k].queue]++;
		bytes[p->instr[k].queue] += moved(p, &p->instr[k]);
	}

	printf("program %s: %d instructions, %d dependencies", zr_lowered_name[p->id], p->n,
	       p->n_dep);
	for (int q = 0; q < ZR_QUEUES; q++)
		if (n[q])
			printf("; %s %d%s%s", zr_queue_name[q], n[q], bytes[q] ? ", " : "",
			       bytes[q] ? zr_bytes_text(bytes[q], size) : "");
	putchar('\n');
}

/* What a collective does, over which ranks. */
static void put_collective(json_t **to, const struct zr_instr *i)
{
	static const char *const group[] = {
		[ZR_GROUP_SELF] = "self",     [ZR_GROUP_NODE] = "node",
		[ZR_GROUP_WORLD] = "world",   [ZR_GROUP_SEQUENCE] = "sequence",
		[ZR_GROUP_EXPERT] = "expert", [ZR_GROUP_CROSS] = "cross",
	};

	zr_json_put(to, "operation", json_string(zr_collective_name[i->number]));
	zr_json_put(to, "group", json_string(group[i->group]));
}

static json_t *operand_json(const struct zr_setup *s, const struct zr_operand *o)
{
	char buf[32];
	const char *of = whose(o, buf, sizeof buf);

	return json_pack("{s:s, s:I, s:I, s:b, s:b, s:s}", "region", s->plan.region[o->region].what,
			 "at", (json_int_t)o->at, "bytes", (json_int_t)o->bytes, "reads",
			 (o->access & ZR_READS) != 0, "writes", (o->access & ZR_WRITES) != 0, "of",
			 *of ? of + 4 : "this rank");
}

static json_t *numbers_json(const int32_t *number, int32_t n)
{
	json_t *list = json_array();
	for (int32_t k = 0; k < n; k++)
		zr_json_add(&list, json_integer(number[k]));
	return list;
}

static json_t *line_json(const struct zr_setup *s, const struct line *l)
{
	const struct zr_lowered *p = l->p;
	const struct zr_instr *i = &p->instr[l->n];
	const int32_t *dep = p->dep + i->after, n_over = i->n_after - i->n_behind;
	json_t *operands = json_array(), *late = json_array(), *j = json_object();
	char text[256];

	for (int32_t k = 0; k < i->n; k++)
		if (p->operand[i->first + k].region >= 0 && p->operand[i->first + k].access)
			zr_json_add(&operands, operand_json(s, &p->operand[i->first + k]));
	for (int32_t k = l->wait; k < l->wait + l->n_wait; k++) {
		int32_t number = p->wait[k].late;
		zr_json_add(&late,
			    json_pack("{s:s, s:i}", "program", zr_lowered_name[number % ZR_LOWERED],
				      "instruction", number / ZR_LOWERED));
	}

	zr_json_put(&j, "queue", json_string(zr_queue_name[i->queue]));
	zr_json_put(&j, "kind", json_string(zr_instr_name[i->kind]));
	zr_json_put(&j, "part_of", json_string(zr_instr_text(s, p, l->n, text, sizeof text)));
	if (i->kind == ZR_I_COLLECTIVE)
		put_collective(&j, i);
	zr_json_put(&j, "bytes", json_integer((json_int_t)moved(p, i)));
	zr_json_put(&j, "operands", operands);
	zr_json_put(&j, "after", numbers_json(dep, n_over));
	zr_json_put(&j, "behind", numbers_json(dep + n_over, i->n_behind));
	zr_json_put(&j, "after_late", late);
	zr_json_put(&j, "late", json_boolean((i->flags & ZR_F_LATE) != 0));
	zr_json_put(&j, "marked", json_boolean((i->flags & ZR_F_MARK) != 0));
	return j;
}

static json_t *program_json(const struct zr_setup *s, const struct zr_lowered *p)
{
	json_t *list = json_array(), *j = json_object();

	for (struct line l = FIRST_LINE(p); next_line(&l);)
		zr_json_add(&list, line_json(s, &l));
	zr_json_put(&j, "name", json_string(zr_lowered_name[p->id]));
	zr_json_put(&j, "instructions", list);
	return j;
}

static int print_json(const struct zr_setup *s, struct zr_error *err)
{
	json_t *list = json_array(), *all = json_object();

	for (int32_t id = 0; id < ZR_LOWERED; id++)
		if (s->programs.lowered[id].n)
			zr_json_add(&list, program_json(s, &s->programs.lowered[id]));
	zr_json_put(&all, "programs", list);
	return zr_json_print(all, JSON_INDENT(1), "the programs", err);
}

int zr_programs_print(struct zr_setup *s, int json, struct zr_error *err)
{
	int rc = zr_prove_all(s, err);
	if (rc)
		return rc;
	if (json)
		return print_json(s, err);

	for (int32_t id = 0; id < ZR_LOWERED; id++) {
		const struct zr_lowered *p = &s->programs.lowered[id];
		if (p->n)
			print_queues(p);
		for (struct line l = FIRST_LINE(p); next_line(&l);)
			print_line(s, &l);
	}

	return 0;
}
