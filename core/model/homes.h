/* SPDX-License-Identifier: Apache-2.0
 *
 * homes.h - [zero] expert_ranks: neighbouring ranks divide the experts of each layer, and tokens go
 * to the rank that has their expert (struct zr_home_call). Rank r of E has experts [r * n / E, (r +
 * 1) * n / E) of n. Who owns which blocks of an expert's unit is as ever: all ranks.
 *
 * An expert's gradient is computed at its home, for the tokens of each rank by itself: there are as
 * many as without homes, and each has the same bits. Expert number g of a layer is rank g / here of
 * those that divide them, and of its experts the (g % here)-th; where a home keeps what it computes
 * for others, the memory of the layer's expert g is for the tokens of rank g / here.
 */
#ifndef ZR_CORE_HOMES_H
#define ZR_CORE_HOMES_H

#include <stdint.h>

/* A unit as an expert, or as the adapters beside one: they move alike. */
struct zr_home_unit {
	int32_t layer, number; /* layer -1: it is none */
	int32_t beside;
};

struct zr_homes {
	int32_t ranks, rank; /* that divide experts, 1: nobody; this one's number among them */
	int32_t on_host;     /* [train] experts_on = host: what experts compute is in its memory */
	int64_t tokens;      /* of a micro-batch, once that is known */
	struct zr_home_unit *unit; /* [n_units]; NULL: experts are no part by themselves */
};

/* Whether what experts compute is a part of a layer by itself. */
static inline int zr_experts_apart(const struct zr_homes *h)
{
	return h->ranks > 1 || h->on_host;
}

/* Experts of a rank. */
static inline int32_t zr_experts_here(const struct zr_homes *h, int32_t experts)
{
	return experts / h->ranks;
}

static inline int zr_is_expert(const struct zr_homes *h, int32_t unit)
{
	return h->unit && h->unit[unit].layer >= 0;
}

/* Whether it moves together with the other experts of its layer, to the ranks that have them. */
static inline int zr_is_divided(const struct zr_homes *h, int32_t unit)
{
	return h->ranks > 1 && zr_is_expert(h, unit);
}

/* Whether it is read, and its gradient made, in host memory. */
static inline int zr_computes_on_host(const struct zr_homes *h, int32_t unit)
{
	return h->on_host && zr_is_expert(h, unit);
}

/* Rounds of a micro-batch, tokens of one; rows that can come in it to a rank that has `here`
 * experts, `top` being those of a token. */
int32_t zr_home_rounds(const struct zr_homes *h);
int64_t zr_round_tokens(const struct zr_homes *h, int32_t round);
int64_t zr_home_rows(const struct zr_homes *h, int32_t round, int64_t top, int32_t here);

/* What a host table says of a round: how many rows this rank sends to each, gets from each; the
 * same in elements; of each gradient whether an earlier round had rows for it. Offsets are in
 * bytes. */
struct zr_home_table {
	uint64_t rows, elements, later; /* rows, elements: 2 * ranks of int64_t */
	uint64_t bytes;
};
struct zr_home_table zr_home_table_of(const struct zr_homes *h, int32_t experts);

#endif
