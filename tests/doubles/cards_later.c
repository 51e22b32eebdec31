/* SPDX-License-Identifier: Apache-2.0
 *
 * cards_later.c - operations that wait until something needs them, as a GPU's may when it is
 * behind: all of them where memory is looked at, and before a copy those that its mark says. A copy
 * that should come after others then has what was there before.
 */
#include "cards.h"

#include <stdlib.h>
#include <string.h>

int card_enqueue(struct zr_inst *d, int (*run)(const struct zr_ops *, const void *), const void *op,
		 size_t size)
{
	struct card_task *task = malloc(sizeof *task + size);
	if (!task)
		return zr_fail(d->h, ZR_ENOMEM, "no memory for an operation that waits");

	task->run = run;
	task->next = NULL;
	memcpy(task->op, op, size);
	*d->last = task;
	d->last = &task->next;
	d->enqueued++;
	return ZR_OK;
}

struct copy_later {
	char *to, *from; /* from: owned */
	uint64_t bytes;
};

static int run_copy(const struct zr_ops *ops, const void *op)
{
	const struct copy_later *c = op;
	(void)ops;
	memcpy(c->to, c->from, c->bytes);
	free(c->from);
	return ZR_OK;
}

int card_enqueue_copy(struct zr_inst *d, void *to, const void *from, uint64_t bytes)
{
	struct copy_later c = { to, malloc(bytes), bytes };
	int rc = card_run_all(d); /* what is read may be of the device, too */
	if (!rc && !c.from)
		rc = zr_fail(d->h, ZR_ENOMEM, "no memory for a copy that waits");
	if (!rc) {
		memcpy(c.from, from, bytes);
		rc = card_enqueue(d, run_copy, &c, sizeof c);
	}
	if (rc)
		free(c.from);
	return rc;
}

int card_run_until(struct zr_inst *d, uint64_t end)
{
	int rc = ZR_OK;

	while (!rc && d->over < end) {
		struct card_task *task = d->first;
		d->first = task->next;
		if (!d->first)
			d->last = &d->first;
		d->over++;

		rc = task->run(d->cpu_ops, task->op);
		if (!card_is_mark(task->run))
			card_time_passes(d);
		free(task);
	}

	return rc;
}

int card_run_all(struct zr_inst *d)
{
	return card_run_until(d, d->enqueued);
}

void card_forget(struct zr_inst *d)
{
	while (d->first) {
		struct card_task *task = d->first;
		d->first = task->next;
		free(task);
	}
}
