/* SPDX-License-Identifier: Apache-2.0
 *
 * t_cut.c - programs of real setups, over stages, ranks, tiers, kinds of device memory, activation
 * policies and comms: each is accepted by verify as order made it, and refused without any single
 * one of its dependencies. CUTS=full takes the whole product, CUTS=N each Nth, else each 797th.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A proof is copied as it is before an instruction: what comes before is proven once. */
#include "core/lower/verify.c"

#include "tests/lib/cards.h"
#include "tests/lib/plan_fixture.h"
#include "tests/lib/sanitize.h"

#include <cmocka.h> /* last: it defines fail() */

struct count {
	int64_t setups, refused_setups, of_kind[4], with_parts, instructions, dependencies, missed;
	int64_t waits, behind; /* for late writes; for writes that a store keeps reads behind */
	int64_t decided;       /* updates after what was decided */
};

static void *copied(const void *from, size_t n)
{
	void *to = malloc(n + 1);
	assert_non_null(to);
	if (n)
		memcpy(to, from, n);
	return to;
}

static struct proof copy_of(const struct proof *v)
{
	const size_t n = (size_t)v->p->n + 1;
	const struct zr_before *from = &v->before;
	const struct zr_spans *s = &v->spans;
	struct proof c = *v;
	c.spans.span = copied(s->span, (size_t)s->cap_span * sizeof *s->span);
	c.spans.reader = copied(s->reader, (size_t)s->cap_reader * sizeof *s->reader);
	c.spans.found = copied(s->found, (size_t)s->cap_found * sizeof *s->found);
	c.before.over = copied(from->over, n * sizeof *from->over);
	c.before.lane = copied(from->lane, 6 * n * sizeof *from->lane);
	for (int q = 0; q < ZR_Q_IN_ORDER; q++)
		c.before.next[q] = c.before.lane + (from->next[q] - from->lane);
	c.before.seen = c.before.lane + (from->seen - from->lane);
	c.before.waited = c.before.lane + (from->waited - from->lane);
	c.before.stack = c.before.lane + (from->stack - from->lane);
	c.written = copied(v->written, ((size_t)v->p->n_buffer + 1) * sizeof *v->written);
	return c;
}

static void free_proof(struct proof *v)
{
	zr_spans_free(&v->spans);
	zr_before_free(&v->before);
	free(v->written);
}

/* Whether what follows is accepted, from instruction j on, where all before it was: v stays. */
static int accepts_from(const struct proof *v, int32_t j)
{
	struct proof c = copy_of(v);
	int rc = 0;
	for (int32_t i = j; !rc && i < v->p->n; i++)
		rc = check(&c, i);
	if (!rc)
		rc = check_late(&c);
	free_proof(&c);
	return !rc;
}

/* One dependency of instruction j less. */
static int accepts_without(const struct proof *v, struct zr_lowered *p, int32_t j, int32_t k)
{
	struct zr_instr *i = &p->instr[j];
	int32_t *dep = &p->dep[i->after], cut = dep[k];
	int32_t behind = k >= i->n_after - i->n_behind;
	memmove(dep + k, dep + k + 1, (size_t)(i->n_after - k - 1) * sizeof *dep);
	i->n_after--;
	i->n_behind -= behind;
	int accepts = accepts_from(v, j);
	i->n_after++;
	i->n_behind += behind;
	memmove(dep + k + 1, dep + k, (size_t)(i->n_after - k - 1) * sizeof *dep);
	dep[k] = cut;
	return accepts;
}

/* One wait for a late write less. */
static void cut_waits(const struct zr_setup *s, struct zr_lowered *p, struct count *c)
{
	struct zr_error err = { 0 };
	for (int32_t k = 0; k < p->n_wait; k++) {
		struct zr_late_wait wait = p->wait[k], *at = p->wait + k;
		size_t behind = (size_t)(--p->n_wait - k) * sizeof wait;
		memmove(at, at + 1, behind);
		c->missed += !zr_verify(s, p, &err);
		memmove(at + 1, at, behind);
		*at = wait;
		p->n_wait++;
	}
	c->waits += p->n_wait;
}

/* Whether instruction j comes after i, because it or what it comes after waits for it or is behind
 * it in its queue. */
static int comes_after(const struct zr_lowered *p, int32_t j, int32_t i)
{
	uint8_t *after = calloc((size_t)p->n + 1, 1);
	assert_non_null(after);
	after[i] = 1;
	for (int32_t k = i + 1; k <= j; k++) {
		const struct zr_instr *in = &p->instr[k];
		for (int32_t n = 0; n < in->n_after; n++)
			after[k] |= after[p->dep[in->after + n]];
		for (int32_t n = i; n < k && in->queue < ZR_Q_IN_ORDER; n++)
			after[k] |= after[n] && p->instr[n].queue == in->queue;
	}
	int is = after[j];
	free(after);
	return is;
}

/* What updates goes by what was decided: it comes after what wrote its scalars in this program. */
static void check_decided(const struct zr_lowered *p, struct count *c)
{
	int32_t rates = -1;
	for (int32_t j = 0; j < p->n; j++) {
		if (p->instr[j].kind == ZR_I_HOST && p->instr[j].number == ZR_H_RATES)
			rates = j;
		if (p->instr[j].kind != ZR_I_OPTIMIZE && p->instr[j].kind != ZR_I_PARTIAL)
			continue;
		const struct zr_operand *scalars =
			&p->operand[p->instr[j].first + ZR_O_OPTIMIZE_SCALARS];
		assert_true(scalars->region >= 0 && scalars->bytes && scalars->access == ZR_READS);
		assert_true(rates < 0 || comes_after(p, j, rates));
		c->decided += rates >= 0;
	}
}

/* Only a read may begin before what it waits for is over, where its store sees to it. */
static void behind_more(const struct proof *v, struct zr_instr *i, int32_t j, struct count *c)
{
	c->behind += i->n_behind;
	if (i->n_behind == i->n_after)
		return;
	i->n_behind++;
	c->missed += accepts_from(v, j);
	i->n_behind--;
}

static void cut_dependencies(const struct proof *v, struct zr_lowered *p, int32_t j,
			     struct count *c)
{
	char a[256], b[256];
	const struct zr_setup *s = v->setup;
	for (int32_t k = 0; k < p->instr[j].n_after; k++) {
		c->dependencies++;
		if (!accepts_without(v, p, j, k))
			continue;
		if (!c->missed++)
			print_message(
				"# program %s: %s (%d) without %s (%d)\n", zr_lowered_name[p->id],
				zr_instr_text(s, p, j, a, sizeof a), j,
				zr_instr_text(s, p, p->dep[p->instr[j].after + k], b, sizeof b),
				p->dep[p->instr[j].after + k]);
	}
}

static void cut_program(const struct zr_setup *s, struct zr_lowered *p, struct count *c)
{
	struct zr_error err = { 0 };
	struct proof v = { .setup = s, .p = p, .err = &err, .spans.setup = s };
	assert_int_equal(zr_before_new(&v.before, s, p), 0);
	v.written = calloc((size_t)p->n_buffer + 1, sizeof *v.written);
	assert_non_null(v.written);
	for (int32_t j = 0; j < p->n; j++) {
		cut_dependencies(&v, p, j, c);
		behind_more(&v, &p->instr[j], j, c);
		assert_int_equal(check(&v, j), 0);
	}
	free_proof(&v);
	c->instructions += p->n;
}

/* Options that a stage or a device refuses are no setup. */
static int cut_setup(int world, const char *const *options, struct count *c)
{
	struct zr_error err;
	struct zr_setup *s = plan_try(ZR_SETUP_ALONE, world, options, &err);
	if (!s) {
		c->refused_setups++;
		return 0;
	}
	if (zr_prove_all(s, &err))
		fail_msg("%d ranks, %s %s %s %s: %s", world, options[0], options[1], options[2],
			 options[3], err.text);
	for (int id = 0; id < ZR_LOWERED; id++) {
		cut_program(s, &s->programs.lowered[id], c);
		cut_waits(s, &s->programs.lowered[id], c);
		check_decided(&s->programs.lowered[id], c);
	}
	c->setups++;
	c->with_parts += s->plan.region[ZR_R_PARTS].bytes > 0;
	plan_close(s);
	return 1;
}

static const char *const stages[] = { "zero.plugin=stage0", "zero.plugin=stage1",
				      "zero.plugin=stage2", "zero.plugin=stage3",
				      "zero.plugin=hpz",    "zero.plugin=mics" };
/* One, that of a card that the host reaches, and that of one that it does not reach. */
#define MEMORIES 3
static const char *const types[] = { "precision.plugin=fp32", "precision.plugin=bf16" };
static const char *const policies[][2] = { { "activation.plugin=keep", NULL },
					   { "activation.plugin=recompute", NULL },
					   { "activation.plugin=offload", "nvme" },
					   { "activation.plugin=offload", "cpu" } };
static const char *const comms[] = { "comm.plugin=local", "comm.plugin=mpi" };
static const char *const optimizers[][2] = { { "optimizer.plugin=adamw", "device.threads=1" },
					     { "optimizer.plugin=lamb", "device.threads=1" },
					     { "optimizer.m.plugin=muon",
					       "optimizer.m.match=h.*.mlp.*.weight" } };
static const char *const tiers[] = { NULL, "cpu", "nvme" };
static const char *const sums[] = { "train.reduction=slots", "train.reduction=local" };
/* Kinds of steps: plain, with updates in the backward, those of one micro-batch, and frozen. */
#define KINDS 4
static const char *const steps[KINDS][3] = {
	{ "train.train_batch_size=6", "device.threads=1", "device.threads=1" },
	{ "train.train_batch_size=6", "zero.update_in_backward=yes", "train.gradient_clipping=0" },
	{ "train.gradient_accumulation_steps=1", "zero.update_in_backward=yes",
	  "train.gradient_clipping=0" },
	{ "train.train_batch_size=6", "train.freeze=h.0.* wpe*", "device.threads=1" },
};

static int pick(int *n, int of)
{
	int i = *n % of;
	*n /= of;
	return i;
}

static char disk[] = "/tmp/zeroth-cut-XXXXXX";

struct options {
	const char *o[32];
	char text[8][64];
	int n, n_text;
};

static void add(struct options *o, const char *option)
{
	o->o[o->n++] = option;
}

/* What lies in another tier, if anything. */
static void tier(struct options *o, const char *what, const char *plugin)
{
	if (!plugin)
		return;
	snprintf(o->text[o->n_text], 64, "offload.%s.plugin=%s", what, plugin);
	add(o, o->text[o->n_text++]);
	if (strcmp(plugin, "nvme"))
		return;
	snprintf(o->text[o->n_text], 64, "offload.%s.path=%s", what, disk);
	add(o, o->text[o->n_text++]);
}

#define PRODUCT (6 * 3 * 2 * 4 * 2 * 3 * 3 * 3 * 3 * 2 * 3 * 2 * KINDS)

static void cut_one(int number, struct count *c)
{
	struct options o = { 0 };
	int k = number, world = 1 + pick(&k, 3), m = pick(&k, MEMORIES), a = pick(&k, 4),
	    z = pick(&k, 3), stage = pick(&k, 6);
	add(&o, stages[stage]);
	if (m > 0)
		add(&o, "device.memory=64M");
	if (m == 1) {
		add(&o, cards_option());
		add(&o, "device.separate=no");
	}
	add(&o, policies[a][0]);
	tier(&o, "activation", policies[a][1]);
	add(&o, types[pick(&k, 2)]);
	add(&o, comms[pick(&k, 2)]);
	add(&o, optimizers[z][0]);
	add(&o, optimizers[z][1]);
	add(&o, sums[pick(&k, 2)]);
	tier(&o, "optimizer", tiers[pick(&k, 3)]);
	tier(&o, "gradient", tiers[pick(&k, 3)]);
	tier(&o, "param", tiers[pick(&k, 3)]);
	if (pick(&k, 2)) {
		add(&o, "model.vocabulary=260");
		add(&o, "train.gradient_part_size=2048");
	}
	add(&o, "zero.sub_group_size=8192");
	add(&o, "model.layers=4");
	int kind = pick(&k, KINDS);
	for (int i = 0; i < 3; i++)
		add(&o, steps[kind][i]);
	if (stage >= 3)
		add(&o, "zero.persistence_threshold=0");
	if (stage == 4)
		add(&o, "boot.ranks_per_node=1");
	c->of_kind[kind] += cut_setup(world, o.o, c);
}

static void no_dependency_can_be_left_out(void **unused)
{
	const char *cuts = getenv("CUTS");
	const int nth = cuts ? strcmp(cuts, "full") ? atoi(cuts) : 1 : 0;
	const int step = nth > 0 ? nth : sanitized() ? 1999 : 797;
	struct count c = { 0 };
	(void)unused;
	for (int i = 0; i < PRODUCT; i += step)
		cut_one(i, &c);
	print_message("# %lld setups, %lld with gradients in parts (%lld options refused): %lld "
		      "instructions, %lld dependencies and %lld waits for late writes, all needed; "
		      "%lld updates after what was decided; %lld reads kept behind a write\n",
		      (long long)c.setups, (long long)c.with_parts, (long long)c.refused_setups,
		      (long long)c.instructions, (long long)c.dependencies, (long long)c.waits,
		      (long long)c.decided, (long long)c.behind);
	assert_int_equal(c.missed, 0);
	assert_true(c.setups > 10 && c.with_parts > 0 && c.dependencies > 1000 && c.waits > 10 &&
		    c.behind > 0 && c.decided > 0);
	for (int i = 0; i < KINDS; i++)
		assert_true(c.of_kind[i] > 0);
}

static int begin(void **unused)
{
	return mkdtemp(disk) ? plan_data(unused) : -1;
}

static int end(void **unused)
{
	return rmdir(disk) | plan_data_remove(unused);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_dependency_can_be_left_out),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, begin, end);
}
