/* SPDX-License-Identifier: Apache-2.0
 *
 * cards_graphs.c - graphs of the double of cards: operations with their argument structs as they
 * were, which a launch repeats, whatever the caller would ask for now. In the environment,
 *   ZR_CARD_COUNT=FILE  to FILE.rank at the end: "ALONE LAUNCHES WITHIN GRAPHS ANEW", operations
 *                       that were called one by one, launches of graphs, operations in these,
 *                       graphs, and how often one was made anew
 *   ZR_CARD_FAILS=WHAT  begin, operation or end: that fails while a graph is made
 */
#include "cards.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct kept {
	int (*run)(const struct zr_ops *, const void *);
	struct kept *next;
	size_t size;
	_Alignas(16) char op[];
};

struct zr_graph {
	struct kept *first, **last; /* owned: the list */
};

static int fails(const char *what)
{
	const char *set = getenv("ZR_CARD_FAILS");
	return set && !strcmp(set, what);
}

int card_graph_keep(struct zr_inst *d, int (*run)(const struct zr_ops *, const void *),
		    const void *op, size_t size)
{
	struct kept *kept = malloc(sizeof *kept + size);
	if (!kept)
		return zr_fail(d->h, ZR_ENOMEM, "no memory for an operation of a graph");
	if (fails("operation")) {
		free(kept);
		return zr_fail(d->h, ZR_EIO, "an operation is not permitted in a graph");
	}

	kept->run = run;
	kept->next = NULL;
	kept->size = size;
	memcpy(kept->op, op, size);
	*d->graph->last = kept;
	d->graph->last = &kept->next;
	return ZR_OK;
}

int card_graph_none(const struct zr_inst *d, const char *what)
{
	if (!d->graph)
		return ZR_OK;
	return zr_fail(d->h, ZR_ESTATE, "%s is called while a graph is made", what);
}

/* ---- interface ------------------------------------------------------------------- */

int card_graph_begin(struct zr_inst *d)
{
	int rc = card_graph_none(d, "graph_begin");
	if (rc)
		return rc;
	if (fails("begin"))
		return zr_fail(d->h, ZR_EIO, "no graph can begin");

	d->graph = calloc(1, sizeof *d->graph);
	if (!d->graph)
		return zr_fail(d->h, ZR_ENOMEM, "no memory for a graph");

	d->graph->last = &d->graph->first;
	return ZR_OK;
}

static int are_same(const struct zr_graph *a, const struct zr_graph *b)
{
	const struct kept *k = a->first, *l = b->first;

	for (; k && l && k->run == l->run; k = k->next)
		l = l->next;
	return !k && !l;
}

int card_graph_end(struct zr_inst *d, struct zr_graph **graph)
{
	struct zr_graph *made = d->graph, *before = *graph;
	int rc = ZR_OK;

	d->graph = *graph = NULL;
	if (!made)
		rc = zr_fail(d->h, ZR_ESTATE, "graph_end: none has begun");
	else if (fails("end"))
		rc = zr_fail(d->h, ZR_EIO, "no graph can end");
	else if (before && !are_same(before, made))
		rc = zr_fail(d->h, ZR_EINVAL, "graph_end: the graph before had other operations");
	if (before)
		card_graph_free(d, before);
	if (!rc) {
		*graph = made;
		d->graphs += !before;
		d->anew += before != NULL;
	} else if (made) {
		card_graph_free(d, made);
	}
	return rc;
}

int card_graph_launch(struct zr_inst *d, struct zr_graph *graph)
{
	int rc = card_graph_none(d, "graph_launch");

	d->launches++;
	for (const struct kept *k = graph->first; !rc && k; k = k->next) {
		d->within++;
		if (d->later) {
			rc = card_enqueue(d, k->run, k->op, k->size);
			continue;
		}
		card_time_passes(d);
		rc = k->run(d->cpu_ops, k->op);
	}
	return rc;
}

void card_graph_free(struct zr_inst *d, struct zr_graph *graph)
{
	(void)d;
	while (graph->first) {
		struct kept *kept = graph->first;
		graph->first = kept->next;
		free(kept);
	}
	free(graph);
}

void card_graph_count(const struct zr_inst *d)
{
	const char *file = getenv("ZR_CARD_COUNT");
	char path[4096];

	snprintf(path, sizeof path, "%s.%d", file ? file : "", d->h->rank);
	FILE *f = file ? fopen(path, "w") : NULL;
	if (!f)
		return;
	fprintf(f, "%ld %ld %ld %ld %ld\n", d->alone, d->launches, d->within, d->graphs, d->anew);
	fclose(f);
}
