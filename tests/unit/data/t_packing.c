/* SPDX-License-Identifier: Apache-2.0
 *
 * t_packing.c - packing against a slow best fit decreasing, and what holds for every packing: in
 * each epoch every target once, nothing beyond a sequence, the same from (seed, epoch).
 */
#include "plugins/data/packing.h"

#include <stdlib.h>
#include <string.h>

#include "tests/unit/data/data_fixture.h"

#define MOST 700 /* documents */

struct documents {
	int n, tokens[MOST], start[MOST + 1];
	uint8_t learned[MOST * 64];
};

static uint64_t state = 1;
static int draw(int n)
{
	state = state * 6364136223846793005u + 1442695040888963407u;
	return (int)((state >> 33) % (uint64_t)n);
}

static int64_t tokens_of(const void *arg, int64_t d)
{
	return ((const struct documents *)arg)->tokens[d];
}

static int64_t targets_of(const void *arg, int64_t d, int64_t from, int64_t n)
{
	const struct documents *all = arg;
	int64_t sum = 0;
	for (int64_t i = from; i < from + n; i++)
		sum += all->learned[all->start[d] + i];
	return sum;
}

/* Documents of 1 to `longest` tokens, of which some take no part; a token in `every` is learned. */
static void make_documents(struct documents *d, int n, int longest, int every)
{
	d->n = n;
	d->start[0] = 0;
	for (int i = 0; i < n; i++) {
		d->tokens[i] = draw(9) ? 1 + draw(longest) : 0;
		d->start[i + 1] = d->start[i] + d->tokens[i];
	}
	for (int i = 0; i < d->start[n]; i++)
		d->learned[i] = !draw(every);
}

static void pack(struct packing *p, const struct documents *d, int kind, int64_t length)
{
	const struct packing_source src = { d->n, tokens_of, targets_of, d };
	assert_int_equal(packing_make(host, p, kind, length, &src), ZR_OK);
}

static int falling(const void *a, const void *b)
{
	return *(const int *)b - *(const int *)a;
}

/* The rows that each sequence has room for, in ascending order; returns the sequences. */
static int slow_best_fit(const struct documents *d, int length, int *room)
{
	static int rows[MOST * 64];
	int n = 0, sequences = 0;
	for (int i = 0; i < d->n; i++)
		for (int from = 0; from < d->tokens[i] - 1; from += length) {
			int rest = d->tokens[i] - 1 - from, r = rest < length ? rest : length;
			if (targets_of(d, i, from + 1, r))
				rows[n++] = r;
		}
	qsort(rows, (size_t)n, sizeof *rows, falling);
	for (int i = 0; i < n; i++) {
		int best = -1;
		for (int s = 0; s < sequences; s++)
			if (room[s] >= rows[i] && (best < 0 || room[s] < room[best]))
				best = s;
		if (best < 0)
			room[best = sequences++] = length;
		room[best] -= rows[i];
	}
	qsort(room, (size_t)sequences, sizeof *room, falling);
	return sequences;
}

static void best_fit_decreasing_is_that_of_the_slow_one(void **state_)
{
	static struct documents d;
	static int room[MOST * 64], is[MOST * 64];
	(void)state_;
	for (int i = 0; i < 300; i++) {
		struct packing p = { 0 };
		int length = 1 + draw(40);
		make_documents(&d, 1 + draw(i < 200 ? 40 : MOST), 2 + draw(60), 1 + draw(20));
		int n = slow_best_fit(&d, length, room);
		pack(&p, &d, PACKING_BFD, length);
		assert_int_equal(p.n, n);
		for (int s = 0; s < n; s++) {
			struct packing_visit v = packing_visit(&p, 1, s, 0);
			const struct piece *q;
			int longest = length; /* comes first */
			is[s] = length;
			for (int k = 0; (q = packing_piece(&p, &v, k)); k++) {
				assert_true(q->rows <= longest);
				longest = q->rows;
				is[s] -= q->rows;
			}
		}
		qsort(is, (size_t)n, sizeof *is, falling);
		assert_memory_equal(is, room, (size_t)n * sizeof *is);
		packing_free(&p);
	}
}

/* Notes the targets of sequence g; returns the rows it takes. */
static int64_t see(const struct packing *p, const struct documents *d, uint64_t seed, int64_t g,
		   uint8_t *seen)
{
	struct packing_visit v = packing_visit(p, seed, g, 1);
	const struct piece *q;
	int64_t rows = 0, targets = 0;
	for (int64_t i = 0; (q = packing_piece(p, &v, i)); i++) {
		assert_true(q->rows > 0 && (int)q->from + q->rows < d->tokens[q->document]);
		for (int t = 1; t <= q->rows; t++)
			seen[d->start[q->document] + (int)q->from + t]++;
		assert_int_equal(q->targets, targets_of(d, q->document, q->from + 1, q->rows));
		rows += q->rows;
		targets += q->targets;
	}
	assert_true(rows <= p->length);
	assert_true(targets > 0);
	return rows;
}

static void every_target_is_seen_once_in_each_epoch(void **state_)
{
	static struct documents d;
	static uint8_t seen[sizeof d.learned];
	(void)state_;
	for (int i = 0; i < 300; i++) {
		struct packing p = { 0 };
		int64_t rows = 0, targets = 0, epoch = draw(1000);
		make_documents(&d, 1 + draw(MOST), 2 + draw(60), 1 + draw(20));
		pack(&p, &d, i % 3, 1 + draw(40));
		memset(seen, 0, sizeof seen);
		for (int64_t s = 0; s < p.n; s++)
			rows += see(&p, &d, 77, epoch * p.n + s, seen);
		assert_int_equal(rows, p.rows);
		for (int k = 0; k < d.n; k++)
			for (int t = 0; t < d.tokens[k]; t++) {
				int at = d.start[k] + t, learned = t && d.learned[at];
				assert_true(seen[at] == 1 || (!learned && !seen[at]));
				targets += learned;
			}
		assert_int_equal(targets, p.targets);
		packing_free(&p);
	}
}

/* Which documents share a sequence, as one number. */
static uint64_t signature(const struct packing *p, uint64_t seed, int64_t g)
{
	struct packing_visit v = packing_visit(p, seed, g, 1);
	const struct piece *q;
	uint64_t sum = 0;
	for (int64_t i = 0; (q = packing_piece(p, &v, i)); i++)
		sum = sum * 1000003 + q->document + 1;
	return sum;
}

static void seeds_and_epochs_differ_and_nothing_else_does(void **state_)
{
	static struct documents d;
	struct packing p = { 0 }, again = { 0 };
	int same_epoch = 0, same_seed = 0;
	(void)state_;
	make_documents(&d, MOST, 30, 2);
	pack(&p, &d, PACKING_BFD, 64);
	pack(&again, &d, PACKING_BFD, 64);
	for (int64_t s = p.n; s-- > 0;) {
		assert_int_equal(signature(&p, 5, s), signature(&again, 5, s));
		for (int64_t k = 0; k < p.n; k++) {
			same_epoch += signature(&p, 5, s) == signature(&p, 5, p.n + k);
			same_seed += signature(&p, 5, s) == signature(&p, 6, k);
		}
	}
	assert_true(p.n > 100 && same_epoch < 5 && same_seed < 5);
	packing_free(&p);
	packing_free(&again);
}

static void what_is_packed_is_counted(void **state_)
{
	struct documents d = { .n = 5,
			       .tokens = { 9, 1, 4, 0, 3 },
			       .start = { 0, 9, 10, 14, 14, 17 } };
	struct packing p = { 0 };
	(void)state_;
	memset(d.learned, 1, 17);
	memset(d.learned + 1, 0, 4); /* the first piece of the first document */
	memset(d.learned + 10, 0, 4);
	pack(&p, &d, PACKING_BFD, 4);
	assert_int_equal(p.documents, 4);
	assert_int_equal(p.longest, 9);
	assert_int_equal(p.cut, 1);
	assert_int_equal(p.unlearned, 3);
	assert_int_equal(p.rows, 4 + 2);
	assert_int_equal(p.targets, 4 + 2);
	assert_int_equal(p.n, 2);
	pack(&p, &d, PACKING_WRAPPED, 4); /* the first piece fills a sequence, which is left out */
	assert_int_equal(p.n, 2);
	assert_int_equal(p.rows, 6);
	memset(d.learned, 0, 17);
	pack(&p, &d, PACKING_WRAPPED, 4);
	assert_int_equal(p.n, 0);
	packing_free(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(best_fit_decreasing_is_that_of_the_slow_one),
		cmocka_unit_test(every_target_is_seen_once_in_each_epoch),
		cmocka_unit_test(seeds_and_epochs_differ_and_nothing_else_does),
		cmocka_unit_test(what_is_packed_is_counted),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, data_setup, data_teardown);
}
