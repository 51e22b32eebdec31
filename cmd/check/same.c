/* SPDX-License-Identifier: Apache-2.0
 *
 * same.c - what results must not depend on: how many threads there are, the time, the environment
 * and the process, other instances of the plugin that compute meanwhile. What a plugin computes is
 * the matter of its role; here its bits are compared.
 */
#include "cmd/check/check.h"

#include <string.h>

enum { THREADS = 3 };

static const struct {
	const char *role;
	zr_compute_fn *compute;
} roles[] = {
	{ "optimizer", zr_compute_optimizer }, { "scheduler", zr_compute_scheduler },
	{ "precision", zr_compute_precision }, { "activation", zr_compute_activation },
	{ "data", zr_compute_data },           { "model", zr_compute_model },
	{ "adapter", zr_compute_model },       { "device", zr_compute_device },
	{ "zero", zr_compute_zero },           { "offload", zr_compute_offload },
};

static zr_compute_fn *compute_of(struct zr_check *c)
{
	for (size_t i = 0; i < sizeof roles / sizeof *roles; i++)
		if (!strcmp(roles[i].role, c->plugin->desc->role))
			return roles[i].compute;
	zr_check_skip(c, "the training does not compute with what this role returns");
}

/* The first one that is another; NULL: all are alike. */
static const struct zr_result *differs(const struct zr_results *a, const struct zr_results *b)
{
	for (int i = 0; i < a->n && i < b->n; i++)
		if (a->of[i].hash != b->of[i].hash || strcmp(a->of[i].what, b->of[i].what))
			return &b->of[i];
	return NULL;
}

/* What it computes with so many threads; deals: among which items are dealt out by a rule. */
static struct zr_results with_threads(struct zr_check *c, int threads, int deals)
{
	struct zr_check copy;
	struct zr_results r = { 0 };

	zr_check_copy(c, threads, &copy);
	copy.deals = deals;
	zr_check_catch(&copy);
	compute_of(c)(&copy, &r);
	zr_check_catch(c);
	return r;
}

void zr_test_workers(struct zr_check *c)
{
	static const int threads[] = { 1, 2, 7 };
	const struct zr_results some = with_threads(c, THREADS, 0);

	for (size_t i = 0; i < sizeof threads / sizeof *threads; i++) {
		const struct zr_results others = with_threads(c, threads[i], threads[i] > 1);
		const struct zr_result *of = differs(&some, &others);
		if (!of)
			continue;

		zr_blame(c, of->function);
		zr_check_fail(c,
			      "with h->workers = %d %s has other bits than with %d; results "
			      "must not depend on it, nor on which worker gets which item, and "
			      "when: cut work by its size alone",
			      threads[i], of->what, THREADS);
	}
}

void zr_test_elsewhere(struct zr_check *c)
{
	const struct zr_results here = with_threads(c, THREADS, 0);

	zr_imports_elsewhere(c->scratch);
	const struct zr_results there = with_threads(c, THREADS, 0);
	const struct zr_result *of = differs(&here, &there);
	if (!of)
		return;

	zr_blame(c, of->function);
	zr_check_fail(c,
		      "at another time, in another process and environment %s has other bits; "
		      "results must follow from options and arguments alone%s%s",
		      of->what, *zr_imports_asked() ? ", and it called " : "", zr_imports_asked());
}

void zr_test_at_once(struct zr_check *c)
{
	static const char when[] = "while another rank computes in another thread of the process";
	struct zr_check one, other;
	struct zr_results interrupted = { 0 };
	const struct zr_results alone = with_threads(c, 1, 0);

	zr_check_copy(c, 1, &one);
	zr_check_copy(c, 1, &other);
	other.seed = 1;
	one.when = other.when = when;
	zr_at_once(&one, &other, compute_of(c), &interrupted);
	const struct zr_result *of = differs(&alone, &interrupted);
	if (!of)
		return;

	zr_blame(c, of->function);
	c->when = when;
	zr_check_fail(c,
		      "%s has other bits; static memory is shared by all instances: keep what "
		      "a call writes in the instance, or on the stack",
		      of->what);
}
