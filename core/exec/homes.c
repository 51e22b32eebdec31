/* SPDX-License-Identifier: Apache-2.0
 *
 * homes.c - experts that ranks divide (core/lower/lower_homes.c): how many rows go where in a
 * round, and the part of a layer that has them.
 */
#include "core/exec/exec.h"

/* Offsets of all rounds of a rank, as its forward left them: [rounds][experts + 1]. */
struct offsets {
	const int32_t *all; /* [ranks][rounds][experts + 1] */
	int32_t rounds, experts;
};

/* Rows that a rank sends in a round to experts [first, first + n). */
static int64_t rows_for(const struct offsets *o, int32_t rank, int32_t round, int32_t first,
			int32_t n)
{
	const int64_t at = ((int64_t)rank * o->rounds + round) * (o->experts + 1);
	return o->all[at + first + n] - o->all[at + first];
}

/* A round's counts, the first rows that came of each group, and which groups had rows before. */
static void count_round(const struct zr_homes *h, const struct offsets *o, int32_t round,
			int64_t width, char *table, int32_t *begins)
{
	const struct zr_home_table t = zr_home_table_of(h, o->experts);
	const int32_t here = zr_experts_here(h, o->experts), first = h->rank * here;
	int64_t *rows = (int64_t *)(void *)(table + t.rows);
	int64_t *elements = (int64_t *)(void *)(table + t.elements);
	uint8_t *later = (uint8_t *)table + t.later;
	const uint8_t *before = round ? later - t.bytes : NULL; /* of the round before */

	for (int32_t r = 0; r < h->ranks; r++) {
		rows[r] = rows_for(o, h->rank, round, r * here, here);
		rows[h->ranks + r] = rows_for(o, r, round, first, here);
	}
	for (int32_t r = 0; r < 2 * h->ranks; r++)
		elements[r] = rows[r] * width;

	begins[0] = 0;
	for (int32_t g = 0; g < o->experts; g++) {
		const int32_t rank = g / here, expert = first + g % here;
		begins[g + 1] = begins[g] + (int32_t)rows_for(o, rank, round, expert, 1);
		later[g] = before && (before[g] || rows_for(o, rank, round - 1, expert, 1) > 0);
	}
}

int zr_count_rows(struct zr_session *s, const struct zr_call *c)
{
	const struct zr_homes *h = &s->facts->homes;
	const int32_t layer = (int32_t)c->i->blocks;
	const struct offsets o = { .all = (const int32_t *)(const void *)c->at[ZR_O_HOMES_ALL],
				   .rounds = zr_home_rounds(h),
				   .experts = zr_layer_experts(s->facts, layer) };
	const int64_t width = s->facts->layer_bytes[layer].expert_width;
	const uint64_t bytes = zr_home_table_of(h, o.experts).bytes;
	int32_t *begins = (int32_t *)(void *)c->at[ZR_O_HOMES_OFFSETS];

	for (int32_t i = 0; i < o.rounds; i++)
		count_round(h, &o, i, width, c->at[ZR_O_HOMES_TABLES] + (uint64_t)i * bytes,
			    begins + (int64_t)i * (o.experts + 1));
	return 0;
}

void zr_rows_to_exchange(const struct zr_session *s, const struct zr_call *c,
			 struct zr_comm_exchange *x)
{
	const struct zr_homes *h = &s->facts->homes;
	const char *table = c->at[zr_behind_pairs(ZR_O_COLLECTIVE_OPERANDS, c->i->blocks)];
	const struct zr_home_table t = zr_home_table_of(h, 0);
	const char *counts = table + (c->i->from ? t.rows : t.elements);
	const int64_t *out = (const int64_t *)(const void *)counts, *in = out + h->ranks;

	x->send_count = c->i->root ? in : out;
	x->recv_count = c->i->root ? out : in;
}

static int64_t rows_that_came(const struct zr_homes *h, const char *table)
{
	const struct zr_home_table t = zr_home_table_of(h, 0);
	const int64_t *rows = (const int64_t *)(const void *)(table + t.rows);
	int64_t sum = 0;

	for (int32_t r = 0; r < h->ranks; r++)
		sum += rows[h->ranks + r];
	return sum;
}

void zr_home_part(const struct zr_setup_facts *f, const struct zr_instr *i,
		  struct zr_home_call *part)
{
	const struct zr_homes *h = &f->homes;

	*part = (struct zr_home_call){
		.size = sizeof *part,
		.part = i->from,
		.round = i->dtype,
		.rank = h->rank,
		.ranks = h->ranks,
		.here = zr_experts_here(h, zr_layer_experts(f, i->number)),
		.first = (int64_t)i->dtype * ZR_HOME_ROUND,
		.tokens = zr_round_tokens(h, i->dtype),
	};
}

void zr_point_home(struct zr_session *s, const struct zr_call *c, int64_t units)
{
	const struct zr_homes *h = &s->facts->homes;
	char *const *memory = &c->at[zr_behind_pairs(ZR_O_LAYER_ROWS_SENT, units)];
	const char *table = memory[ZR_HOME_TABLE];
	struct zr_home_call *part = &s->home;

	zr_home_part(s->facts, c->i, part);
	part->offsets = (void *)memory[ZR_HOME_OFFSETS];
	if (table) {
		part->came = rows_that_came(h, table);
		part->later = (const uint8_t *)table + zr_home_table_of(h, 0).later;
	}
	part->sent_rows = (void *)memory[ZR_HOME_ROWS_SENT];
	part->sent_grads = (void *)memory[ZR_HOME_GRADS_SENT];
	part->sent_weights = (void *)memory[ZR_HOME_WEIGHTS_SENT];
	part->rows = (void *)memory[ZR_HOME_ROWS_CAME];
	part->grads = (void *)memory[ZR_HOME_GRADS_CAME];
	part->weights = (void *)memory[ZR_HOME_WEIGHTS_CAME];
	part->made = (void *)memory[ZR_HOME_ROWS_MADE];
	part->made_weights = (void *)memory[ZR_HOME_WEIGHTS_MADE];
	part->back = (void *)memory[ZR_HOME_ROWS_BACK];
	part->back_weights = (void *)memory[ZR_HOME_WEIGHTS_BACK];
	s->call.home = part;
}
