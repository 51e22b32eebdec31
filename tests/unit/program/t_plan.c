/* SPDX-License-Identifier: Apache-2.0
 *
 * t_plan.c - what a rank holds and receives, against formulas that know the model and ZeRO but not
 * core: bytes of each region and of each program, to the byte (I2).
 *
 * B(u) blocks of unit u, N ranks, L ranks per node. A unit split over R ranks takes R equal shares
 * of ceil(B/R) blocks: that padding, at most R - 1 blocks a unit, is the first difference to ZeRO's
 * own formulas. The others: sums of gradients are fp32 and not 2 bytes; beside bf16 the master is
 * the 2 bytes that it lacks, and not 4; in fp32 it is also the compute copy; stages 1 and 2 hold
 * and move the same, because gradients are folded at their home, slot by slot; each micro-batch
 * costs a reduction; stage 0 gathers fp32 sums after the last of them; and the tied wte is gathered
 * once more than other units, ln_f once less, because forward and backward of the head are one.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "tests/lib/cards.h"
#include "tests/lib/plan_fixture.h"
#include "tests/lib/sanitize.h"

#include <cmocka.h> /* last: it defines fail() */

/* ---- the model of matrix.ini, from GPT-2's shapes ---- */

enum { WTE, WPE, H0, H1, LN_F, UNITS };
enum { V = 256, T = 40, C = 48 };

static int64_t blocks_of(int64_t elements)
{
	return (elements + 2047) / 2048;
}

static int64_t unit_blocks(int unit)
{
	/* norms, biases */
	int64_t vectors = 6 * blocks_of(C) + blocks_of(3 * C) + blocks_of(4 * C);
	switch (unit) {
	case WTE:
		return blocks_of(V * C);
	case WPE:
		return blocks_of(T * C);
	case LN_F:
		return 2 * blocks_of(C);
	default:
		return vectors + blocks_of(C * 3 * C) + blocks_of(C * C) + 2 * blocks_of(C * 4 * C);
	}
}

static uint64_t share(int unit, int64_t ranks, int size) /* bytes of one rank's part */
{
	return (uint64_t)((unit_blocks(unit) + ranks - 1) / ranks * 2048 * size);
}

static uint64_t full(int unit, int64_t ranks, int size)
{
	return share(unit, ranks, size) * (uint64_t)ranks;
}

static uint64_t sum(uint64_t (*of)(int, int64_t, int), int64_t ranks, int size)
{
	uint64_t all = 0;
	for (int u = 0; u < UNITS; u++)
		all += of(u, ranks, size);
	return all;
}

/* what a rank receives when the unit is gathered */
static uint64_t others(int unit, int64_t ranks, int size)
{
	return share(unit, ranks, size) * (uint64_t)(ranks - 1);
}

static uint64_t most(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* ---- a case ---- */

enum { STAGE0, STAGE1, STAGE2, STAGE3, HPZ, MICS, STAGES };
static const char *const stage_name[STAGES] = { "stage0", "stage1", "stage2",
						"stage3", "hpz",    "mics" };
enum { TINY, HUGE_ }; /* every unit alone and nothing ahead; everything in one list and kept */

struct a_case {
	int stage, world, node, size /* of a parameter */, sizes, accumulation;
	int narrow, local; /* 16 bits on the wire; micro-batches summed on each rank */
	/* the device has a memory of its own: gathers copy into it, where they could be views */
	int copies;
	int codes; /* gradients and parameters are sent as MXINT8 */
};

static struct zr_setup *open_case(const struct a_case *c)
{
	char text[4][48];
	const char *o[20] = { text[0], text[1], text[2], text[3] };
	int n = 4;
	snprintf(text[0], sizeof *text, "zero.plugin=%s", stage_name[c->stage]);
	snprintf(text[1], sizeof *text, "precision.plugin=%s", c->size == 4 ? "fp32" : "bf16");
	snprintf(text[2], sizeof *text, "train.gradient_accumulation_steps=%d", c->accumulation);
	snprintf(text[3], sizeof *text, "boot.ranks_per_node=%d", c->node);
	o[n++] = c->sizes == TINY ? "zero.reduce_bucket_size=1" : "zero.reduce_bucket_size=1e9";
	o[n++] = c->sizes == TINY ? "zero.allgather_bucket_size=1" :
				    "zero.allgather_bucket_size=1e9";
	o[n++] = c->narrow ? "train.communication_data_type=bf16" :
			     "train.communication_data_type=auto";
	if (c->codes) {
		o[n - 1] = "train.communication_data_type=mxint8";
		o[n++] = "train.gather_data_type=mxint8";
	}
	o[n++] = c->local ? "train.reduction=local" : "train.reduction=slots";
	if (c->copies) {
		o[n++] = cards_option();
		o[n++] = "device.memory=1G";
		o[n++] = "device.separate=no";
	}
	if (c->stage >= STAGE3) {
		o[n++] = "zero.persistence_threshold=0";
		o[n++] = c->sizes == TINY ? "zero.prefetch_bucket_size=0" :
					    "zero.prefetch_bucket_size=1e9";
		o[n++] = c->sizes == TINY ? "zero.max_live_parameters=0" :
					    "zero.max_live_parameters=1e9";
		o[n++] = c->sizes == TINY ? "zero.max_reuse_distance=0" :
					    "zero.max_reuse_distance=1e9";
	}
	return plan_open(c->world, o);
}

/* Ranks over which parameters are split. */
static int64_t split(const struct a_case *c)
{
	return c->stage == STAGE3 ? c->world : c->stage >= HPZ ? c->node : 1;
}

/* Ranks over which state is. */
static int64_t state_split(const struct a_case *c)
{
	return c->stage == STAGE0 ? 1 : c->stage == MICS ? c->node : c->world;
}

/* Whether sums come together apart from where they are kept. */
static int sums_apart(const struct a_case *c)
{
	return state_split(c) > 1 && state_split(c) < c->world;
}

/* Blocks whose state rank 0 has: of whole shares of the world as many as there are nodes. */
static uint64_t state_blocks(const struct a_case *c)
{
	int64_t all = 0;
	for (int u = 0; u < UNITS; u++) {
		int64_t held =
			(unit_blocks(u) + c->world - 1) / c->world * (c->world / state_split(c));
		all += held < unit_blocks(u) ? held : unit_blocks(u);
	}
	return (uint64_t)all;
}

/* Ranks of one node see each other's shares in place. */
static int views(const struct a_case *c)
{
	return c->node == c->world && !c->copies;
}

static int sums_locally(const struct a_case *c)
{
	return c->local && c->world > 1 && c->accumulation > 1;
}

/* ---- bytes held ---- */

static void expect_parameters(const struct a_case *c, uint64_t *want)
{
	int64_t N = c->world, L = split(c);
	uint64_t whole = sum(full, N, 4), mine = sum(share, N, 4);
	uint64_t held = mine * (uint64_t)(N / state_split(c));
	want[ZR_R_GRAD] = held;
	/* AdamW: two moments of the blocks there are */
	want[ZR_R_STATE] = 2 * state_blocks(c) * 2048 * 4;
	want[ZR_R_MASTER] = c->size == 4 ? held : held / 2; /* beside bf16 the rest of it */
	switch (c->stage) {
	case STAGE0: /* in fp32 the master is the compute copy */
		want[ZR_R_PARAM] = c->size == 4 ? 0 : whole / 2;
		break;
	case STAGE1:
	case STAGE2: /* in fp32 the master is this rank's part of the compute copy */
		want[ZR_R_PARAM] = c->size == 4 ? whole : whole / 2;
		want[ZR_R_MASTER] = c->size == 4 ? 0 : mine / 2;
		break;
	case STAGE3:
	case MICS:
		want[ZR_R_PARAM] = c->size == 4 ? 0 : held / 2;
		break;
	default: /* the node's share, and in 16 bits the home blocks on their way to it */
		want[ZR_R_PARAM] =
			sum(share, N, c->size) * (uint64_t)(N / L) + (c->size == 4 ? 0 : mine / 2);
	}
}

static void expect_buffers(const struct a_case *c, uint64_t *want)
{
	int64_t N = c->world, L = split(c);
	uint64_t one_use =
		most(full(H0, N, c->size),
		     full(WTE, N, c->size) + most(full(WPE, N, c->size), full(LN_F, N, c->size)));
	/* of the whole unit, over all ranks */
	uint64_t one_publish = N > 1 && c->stage == HPZ ? full(H0, N, c->size) : 0;
	uint64_t publish = N > 1 && c->stage == HPZ ? sum(full, N, c->size) : 0;
	/* written where they are summed */
	int direct = N == 1 && c->accumulation == 1 && !c->narrow;
	/* tiny: wte from the head's backward to the end, a block's, and where it is sent as it is
	 * the block's before */
	uint64_t blocks = N > 1 && (c->node == N || !c->narrow) && !sums_locally(c) ? 2 : 1;
	want[ZR_R_GRAD_BUFFER] = direct           ? 0 :
				 c->sizes == TINY ? full(WTE, N, 4) + blocks * full(H0, N, 4) :
						    sum(full, N, 4);
	want[ZR_R_GATHER] = L == 1 || views(c) ? 0 :
			    c->sizes == TINY   ? one_use :
						 sum(full, N, c->size);
	want[ZR_R_GATHER] = most(want[ZR_R_GATHER], c->sizes == TINY ? one_publish : publish);
	/* what others sent; in 16 bits also what is sent, which is gone when a share of a unit is
	 * widened again */
	want[ZR_R_COMM] = c->sizes == TINY ? full(H0, N, 4) : sum(full, N, 4);
	/* a rank sends once per update: what comes is added */
	if (c->node < N && !c->narrow && (c->local || c->accumulation == 1))
		want[ZR_R_COMM] = c->sizes == TINY ? share(H0, N, 4) : sum(share, N, 4);
	if (c->node == N)
		want[ZR_R_COMM] = 0; /* read where it lies */
	want[ZR_R_LOCAL] = sums_locally(c) ? sum(full, N, 4) : 0;
	if (sums_apart(c)) /* all sums, after what came for them */
		want[ZR_R_COMM] =
			most(want[ZR_R_COMM], c->sizes == TINY ? full(H0, N, 4) : sum(full, N, 4));
}

static void check_held(const struct a_case *c, const struct zr_setup *s)
{
	static const int regions[] = { ZR_R_PARAM,       ZR_R_MASTER, ZR_R_GRAD, ZR_R_STATE,
				       ZR_R_GRAD_BUFFER, ZR_R_GATHER, ZR_R_COMM, ZR_R_LOCAL };
	uint64_t want[ZR_R_COUNT] = { 0 };
	expect_parameters(c, want);
	expect_buffers(c, want);
	for (size_t i = 0; i < sizeof regions / sizeof *regions; i++) {
		const struct zr_region *r = &s->plan.region[regions[i]];
		if (r->bytes != want[regions[i]])
			fail_msg("%s, %d ranks, nodes of %d, %d bytes, %s: %s %llu bytes, not %llu",
				 stage_name[c->stage], c->world, c->node, c->size,
				 c->sizes == TINY ? "tiny" : "huge", r->what,
				 (unsigned long long)r->bytes,
				 (unsigned long long)want[regions[i]]);
	}
}

/* ---- bytes received ---- */

/* Shares of the other ranks among which parameters are split. */
static uint64_t others_of(const struct a_case *c, int unit)
{
	int64_t L = split(c);
	return share(unit, c->world, c->size) * (uint64_t)((L - 1) * (c->world / L));
}

/* How often a unit is gathered: per use, or once. */
static uint64_t gathered(const struct a_case *c, int training)
{
	static const int train_uses[UNITS] = {
		[WTE] = 3, [WPE] = 2, [H0] = 2, [H1] = 2, [LN_F] = 1
	};
	static const int eval_uses[UNITS] = {
		[WTE] = 2, [WPE] = 1, [H0] = 1, [H1] = 1, [LN_F] = 1
	};
	uint64_t all = 0;
	for (int u = 0; u < UNITS && !views(c); u++)
		all += others_of(c, u) * (uint64_t)(c->sizes != TINY ? 1 :
						    training         ? train_uses[u] :
								       eval_uses[u]);
	return all;
}

static uint64_t published(const struct a_case *c)
{
	return c->stage == STAGE0 || c->stage == STAGE3 || c->stage == MICS ?
		       0 :
		       sum(others, c->world, c->size);
}

static void check_received(const struct a_case *c, const struct zr_setup *s)
{
	/* read in place: as it is written */
	uint64_t reduce = sum(others, c->world, c->narrow && c->node < c->world ? 2 : 4);
	uint64_t last = reduce + (state_split(c) < c->world ? sum(others, c->world, 4) : 0);
	assert_int_equal(program_bytes(&s->programs.recorded[ZR_PROG_MICRO]),
			 (sums_locally(c) ? 0 : reduce) + gathered(c, 1));
	assert_int_equal(program_bytes(&s->programs.recorded[ZR_PROG_LAST_MICRO]),
			 last + gathered(c, 1));
	assert_int_equal(program_bytes(&s->programs.recorded[ZR_PROG_UPDATE]), published(c));
	assert_int_equal(program_bytes(&s->programs.recorded[ZR_PROG_EVAL]), gathered(c, 0));
}

/* ---- the tests ---- */

static void all_cases(void (*check)(const struct a_case *, const struct zr_setup *))
{
	static const int worlds[] = { 1, 2, 4, 6 };
	for (int stage = 0; stage < STAGES; stage++)
		for (int i = 0; i < 4 * 2 * 2 * 2 * 2 * 3; i += sanitized() ? 5 : 1) {
			int world = worlds[i & 3], node = i & 4 ? world : 2 - (world == 1);
			if (i & 4 && node <= 2)
				node = 1; /* instead of the same again */
			struct a_case c = { stage,
					    world,
					    node,
					    i & 8 ? 4 : 2,
					    i & 16 ? TINY : HUGE_,
					    i & 32 ? 1 : 3,
					    i / 64 == 1,
					    i / 64 == 2,
					    i / 64 == 0 && i & 8,
					    0 };
			struct zr_setup *s = open_case(&c);
			check(&c, s);
			plan_close(s);
		}
}

static void I2_bytes_held_follow_the_formulas(void **unused)
{
	(void)unused;
	all_cases(check_held);
}

static void bytes_received_follow_the_formulas(void **unused)
{
	(void)unused;
	all_cases(check_received);
}

/* Bytes of so many elements, whole blocks, as codes. */
static uint64_t as_codes(uint64_t elements)
{
	return elements / 2048 * 2112;
}

/* Ranks that read each other's memory have codes of gradients alone: they copy values. */
static void check_coded(const struct a_case *c, const struct zr_setup *s)
{
	const int reads = c->node == c->world;
	struct a_case elements = *c;
	elements.size = 1;
	uint64_t reduce = as_codes(sum(others, c->world, 1));
	uint64_t apart = state_split(c) < c->world ? sum(others, c->world, 4) : 0;
	uint64_t gather = reads ? gathered(c, 1) : as_codes(gathered(&elements, 1));
	uint64_t publish = reads ? published(c) : as_codes(published(&elements));

	assert_int_equal(program_bytes(&s->programs.recorded[ZR_PROG_MICRO]), reduce + gather);
	assert_int_equal(program_bytes(&s->programs.recorded[ZR_PROG_LAST_MICRO]),
			 reduce + apart + gather);
	assert_int_equal(program_bytes(&s->programs.recorded[ZR_PROG_UPDATE]), publish);
}

static void codes_are_33_bytes_for_each_32_elements(void **unused)
{
	static const int worlds[] = { 1, 2, 4, 6 };
	(void)unused;
	for (int stage = 0; stage < STAGES; stage++)
		for (int i = 0; i < 4 * 2 * 2; i += sanitized() ? 3 : 1) {
			const int world = worlds[i & 3];
			const int node = i & 4 ? world : 1 + (world > 2);
			struct a_case c = { stage, world, node, 2, i & 8 ? TINY : HUGE_,
					    3,     0,     0,    0, 1 };
			struct zr_setup *s = open_case(&c);
			check_coded(&c, s);
			plan_close(s);
		}
}

/* What does not depend on stage, ranks or lists. */
static void the_rest_is_the_same_for_all_stages(void **unused)
{
	(void)unused;
	struct a_case one = { STAGE0, 1, 1, 4, TINY, 3, 0, 0, 0, 0 },
		      c = { STAGE3, 4, 4, 4, HUGE_, 3, 0, 0, 0, 0 };
	struct zr_setup *a = open_case(&one), *b = open_case(&c);
	assert_int_equal(a->plan.region[ZR_R_ACT].bytes, b->plan.region[ZR_R_ACT].bytes);
	assert_int_equal(a->plan.region[ZR_R_WORK].bytes, b->plan.region[ZR_R_WORK].bytes);
	plan_close(a);
	plan_close(b);
}

/* Units of up to persistence_threshold elements are held as in stage 2: wpe and ln_f here. */
static void small_units_stay_whole(void **unused)
{
	(void)unused;
	static const char *const o[] = { "zero.plugin=stage3", "precision.plugin=bf16",
					 "train.gradient_accumulation_steps=2",
					 "zero.persistence_threshold=4096", NULL };
	struct zr_setup *s = plan_open(4, o);
	uint64_t want = share(WTE, 4, 2) + full(WPE, 4, 2) + 2 * share(H0, 4, 2) + full(LN_F, 4, 2);
	assert_int_equal(s->plan.region[ZR_R_PARAM].bytes, want);
	assert_int_equal(s->plan.region[ZR_R_MASTER].bytes, sum(share, 4, 2));
	assert_int_equal(program_bytes(&s->programs.recorded[ZR_PROG_UPDATE]),
			 others(WPE, 4, 2) + others(LN_F, 4, 2));
	plan_close(s);
}

/* What bf16 lacks of fp32, unless an optimizer does not take that, or copies are elsewhere. */
static void masters_are_split_where_that_is_free(void **unused)
{
#define APART "device.memory=1G", "zero.plugin=stage3"
	static const struct {
		int bytes;
		const char *options[8];
	} cases[] = { { 2, { "optimizer.plugin=adamw" } },
		      { 2, { "optimizer.plugin=lion" } },
		      { 4, { "optimizer.plugin=sgd" } },
		      { 4, { "optimizer.few.plugin=sgd", "optimizer.few.match=ln_f.*" } },
		      { 2, { "optimizer.few.plugin=lion", "optimizer.few.match=ln_f.*" } },
		      { 2, { APART } },
		      { 4, { APART, "offload.optimizer.plugin=cpu" } },
		      { 2, { APART, "offload.optimizer.plugin=cpu", "offload.param.plugin=cpu" } },
		      { 2,
			{ APART, "offload.optimizer.plugin=nvme", "offload.optimizer.path=." } } };
	(void)unused;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		const char *o[10] = { "precision.plugin=bf16" };
		for (int k = 0; cases[i].options[k]; k++)
			o[k + 1] = cases[i].options[k];
		struct zr_setup *s = plan_open(1, o);
		assert_int_equal(s->plan.region[ZR_R_MASTER].bytes, sum(full, 1, cases[i].bytes));
		plan_close(s);
	}
}

/* tests/system/matrix.sh relies on these. */
static void the_model_has_every_case_of_padding(void **unused)
{
	(void)unused;
	struct zr_setup *s = plan_open(6, NULL);
	int64_t per = (s->facts.layout.unit[H0].blocks + 5) / 6;
	int cut = 0;
	assert_int_equal(s->facts.layout.n_units, UNITS);
	for (int u = 0; u < UNITS; u++)
		assert_int_equal(s->facts.layout.unit[u].blocks, unit_blocks(u));
	assert_true(s->facts.layout.unit[WPE].blocks < 6);
	/* a rank with an empty share */
	assert_int_equal(zr_share_of(s->facts.layout.unit[WPE].blocks, 6, 1).n, 0);
	for (int32_t i = s->facts.layout.unit[H0].first, k = 0; k < s->facts.layout.unit[H0].count;
	     k++, i++) {
		int64_t from = s->facts.layout.tensor[i].offset / ZR_BLOCK,
			last = from + s->facts.layout.tensor[i].blocks - 1;
		cut += from / per != last / per;
	}
	assert_true(cut > 0); /* a unit cut inside a tensor */
	/* tied: used between the embeddings */
	assert_int_not_equal(zr_schedule_next(&s->programs.train_uses, WTE, 0),
			     s->programs.train_uses.n - 1);
	plan_close(s);

	static const char *const tiny[] = { "model.layers=1", "model.width=8", "model.heads=1",
					    NULL };
	s = plan_open(5, tiny);
	for (int u = 0; u < s->facts.layout.n_units; u++) /* a rank that holds nothing at all */
		assert_int_equal(zr_share_of(s->facts.layout.unit[u].blocks, 5, 4).n, 0);
	plan_close(s);
}

/* ---- beside ZeRO's own formulas ---- */

/* Bytes per parameter of mixed precision, in ZeRO's paper and here. */
static void print_held(int stage, int N)
{
	const double zero[] = { 16, 4 + 12.0 / N, 2 + 14.0 / N, 16.0 / N, 2.0 / 2 + 14.0 / N };
	/* sums are fp32, 2 bytes more, and masters what bf16 lacks of fp32, 2 bytes less */
	const double ours[] = { 16, 2 + 14.0 / N, 2 + 14.0 / N, 16.0 / N, 2.0 / 2 + 16.0 / N };
	static const char *const why[] = { "the same", "-2+2/N: folded at home", "the same",
					   "the same", "+2/N: home copy beside the node's" };
	struct a_case c = { stage, N, stage == HPZ ? 2 : N, 2, TINY, 1, 0, 0, 0, 0 };
	struct zr_setup *s = open_case(&c);
	const struct zr_region *r = s->plan.region;
	double held = (double)(r[ZR_R_PARAM].bytes + r[ZR_R_MASTER].bytes + r[ZR_R_GRAD].bytes +
			       r[ZR_R_STATE].bytes);
	double elements = (double)s->facts.layout.blocks * ZR_BLOCK;
	print_message("# %-7s N=%d  ZeRO %6.2f  here %6.2f (%s)  planned %6.2f: +%.2f of padding\n",
		      stage_name[stage], N, zero[stage], ours[stage], why[stage], held / elements,
		      held / elements - ours[stage]);
	assert_true(held / elements >= ours[stage] && held / elements < ours[stage] * 1.25);
	plan_close(s);
}

/* Per step without accumulation, in units of M = bytes of all parameters in fp32, times N / (N -
 * 1). */
static void print_received(int stage, int N)
{
	const double zero[] = { 2, 2, 2, 3, 2 };
	static const char *const why[] = { "reduce, gather sums", "reduce, publish",
					   "reduce, publish",
					   "reduce, gather twice; wte thrice (tied), ln_f once",
					   "reduce, publish; gathers inside the node apart" };
	struct a_case c = { stage, N, stage == HPZ ? 2 : N, 4, TINY, 1, 0, 0, 1, 0 };
	struct zr_setup *s = open_case(&c);
	double scale = (double)N / (N - 1) / ((double)s->facts.layout.blocks * ZR_BLOCK * 4), step;
	step = (double)(program_bytes(&s->programs.recorded[ZR_PROG_LAST_MICRO]) +
			program_bytes(&s->programs.recorded[ZR_PROG_UPDATE]));
	if (stage == HPZ)
		step -= (double)gathered(&c, 1);
	double tied = stage == STAGE3 ? (double)(others(WTE, N, 4) - others(LN_F, N, 4)) * scale :
					0;
	print_message("# %-7s N=%d  ZeRO %gM  here %.2fM: %s; %+.2fM tied, +%.2fM padding\n",
		      stage_name[stage], N, zero[stage], step * scale, why[stage], tied,
		      step * scale - tied - zero[stage]);
	assert_true(step * scale - tied >= zero[stage] && step * scale - tied < 1.25 * zero[stage]);
	plan_close(s);
}

static void formulas_of_ZeRO_differ_by_what_is_explained(void **unused)
{
	(void)unused;
	print_message("# bytes per (padded) parameter, bf16 with AdamW; hpz in nodes of 2\n");
	for (int stage = 0; stage <= HPZ; stage++)
		for (int N = 2; N <= 4; N += 2)
			print_held(stage, N);
	print_message("# bytes received per step of one micro-batch, fp32, in M = 4 bytes x "
		      "parameters, x N/(N-1)\n");
	for (int stage = 0; stage <= HPZ; stage++)
		for (int N = 2; N <= 4; N += 2)
			print_received(stage, N);
}

/* What an update stages and what layers compute are not there at the same time. */
static void arenas_have_one_place_for_what_is_needed_in_turn(void **unused)
{
	static const char *const options[] = { "offload.optimizer.plugin=nvme",
					       "offload.optimizer.path=.", NULL };
	struct zr_setup *s = plan_open(1, options);
	const struct zr_region *r = s->plan.region, *staging = &r[ZR_R_STAGING];
	uint64_t added = 0, shared = 0, persistent = 0;
	(void)unused;
	for (int i = 0; i < ZR_R_COUNT; i++) {
		added += r[i].store == ZR_STORE_DEVICE ? r[i].added : 0;
		shared += r[i].tier == ZR_TIER_HOST ? r[i].bytes - r[i].added : 0;
	}
	assert_int_equal(added, s->plan.arena[ZR_STORE_DEVICE]);
	assert_true(staging->bytes > 0 && staging->added < staging->bytes);
	assert_int_equal(shared, staging->bytes - staging->added);
	for (int i = 0; i < ZR_R_COUNT; i++) /* what outlives a program is apart */
		if (r[i].store == ZR_STORE_DEVICE &&
		    (i == ZR_R_PARAM || i == ZR_R_GRAD || i == ZR_R_HOST)) {
			persistent += r[i].bytes;
			assert_int_equal(r[i].added, r[i].bytes);
			assert_true(r[i].offset + r[i].bytes <= staging->offset);
		}
	assert_true(persistent > 0);
	plan_close(s);
}

/* Matrices are back where they are kept before new values are published. */
static void a_whole_matrix_and_what_is_published_are_there_in_turn(void **unused)
{
	static const char *const options[] = { "optimizer.plugin=muon",
					       "zero.plugin=hpz",
					       "optimizer.plain.plugin=adamw",
					       "optimizer.plain.match=*.bias *ln_* *w?e*",
					       "boot.ranks_per_node=2",
					       "zero.allgather_bucket_size=1e9",
					       NULL };
	struct zr_setup *s = plan_open(4, options);
	const struct zr_lowered *p = &s->programs.lowered[ZR_S_UPDATE];
	uint64_t whole = 0, published = 0, end = 0;
	(void)unused;
	for (const struct zr_buffer *b = p->buffer; b < p->buffer + p->n_buffer; b++) {
		whole += b->region == ZR_R_WHOLE || b->region == ZR_R_CHUNK ? b->bytes : 0;
		published += b->region == ZR_R_GATHER ? b->bytes : 0;
		end = b->offset + b->bytes > end ? b->offset + b->bytes : end;
	}
	assert_true(whole > 0 && published > 0);
	assert_int_equal(end, most(whole, published));
	plan_close(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_model_has_every_case_of_padding),
		cmocka_unit_test(I2_bytes_held_follow_the_formulas),
		cmocka_unit_test(bytes_received_follow_the_formulas),
		cmocka_unit_test(codes_are_33_bytes_for_each_32_elements),
		cmocka_unit_test(the_rest_is_the_same_for_all_stages),
		cmocka_unit_test(small_units_stay_whole),
		cmocka_unit_test(masters_are_split_where_that_is_free),
		cmocka_unit_test(formulas_of_ZeRO_differ_by_what_is_explained),
		cmocka_unit_test(arenas_have_one_place_for_what_is_needed_in_turn),
		cmocka_unit_test(a_whole_matrix_and_what_is_published_are_there_in_turn),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, plan_data, plan_data_remove);
}
