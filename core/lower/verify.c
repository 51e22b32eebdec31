/* SPDX-License-Identifier: Apache-2.0
 *
 * verify.c - the proof that a program computes the same in whatever order its instructions run, as
 * long as each waits for its dependencies. How these were found does not matter here.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/numbers.h"
#include "core/lower/before.h"
#include "core/lower/spans.h"
#include "core/setup.h"

#define NAME 160

struct proof {
	const struct zr_setup *setup;
	const struct zr_lowered *p;
	struct zr_error *err;
	struct zr_spans spans;
	struct zr_before before;
	struct written *written; /* [n_buffer] of each so far */
};

/* Bytes [from, to) of a buffer; those before were another one's. */
struct written {
	uint64_t from, to;
};

/* "copy of unit h.0 (instruction 7)" */
static const char *name(const struct proof *v, int32_t i, char *buf)
{
	char text[NAME - 32];
	snprintf(buf, NAME, "%s (instruction %d)",
		 zr_instr_text(v->setup, v->p, i, text, sizeof text), i);
	return buf;
}

/* Refuses instruction i. */
__attribute__((format(printf, 3, 4))) static int wrong(struct proof *v, int32_t i, const char *fmt,
						       ...)
{
	char a[NAME], text[3 * NAME];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	return zr_err(v->err, ZR_ESTATE, "%s %s", name(v, i, a), text);
}

/* ---- each instruction by itself ---- */

static int check_operand(struct proof *v, int32_t i, const struct zr_operand *o)
{
	if (o->region >= ZR_R_COUNT)
		return wrong(v, i, "has an operand in region %d, which does not exist", o->region);
	if (o->region < 0)
		return 0;

	const struct zr_region *r = &v->setup->plan.region[o->region];
	if (o->at <= r->room && o->bytes <= r->room - o->at)
		return 0;
	return wrong(v, i,
		     "touches %" PRIu64 " bytes from byte %" PRIu64 " of %s, which has %" PRIu64,
		     o->bytes, o->at, r->what, r->room);
}

static int check_instr(struct proof *v, int32_t i)
{
	const struct zr_lowered *p = v->p;
	const struct zr_instr *in = &p->instr[i];
	int rc = 0;
	if (in->queue >= ZR_QUEUES || (in->kind == ZR_I_COLLECTIVE && in->queue != ZR_Q_COMM))
		return wrong(v, i, "is in queue %d, which does not run it", in->queue);
	if (in->first < 0 || in->n < 0 || in->n > p->n_operand - in->first || in->after < 0 ||
	    in->n_behind < 0 || in->n_behind > in->n_after || in->n_after > p->n_dep - in->after)
		return wrong(v, i, "has operands or dependencies that do not exist");

	for (int32_t k = 0; !rc && k < in->n; k++)
		rc = check_operand(v, i, &p->operand[in->first + k]);
	zr_before_enter(&v->before, i);
	for (int32_t k = 0; !rc && k < in->n_after; k++) {
		int32_t d = p->dep[in->after + k];
		if (d < 0 || d >= i)
			return wrong(v, i, "waits for %d, which does not come before it", d);
		if (k >= in->n_after - in->n_behind && !zr_kept_behind(v->setup, p, d, p, i))
			return wrong(v, i, "is posted before %d is over, and no store waits", d);

		if (zr_starts_after_mark(p, d, i) && !(p->instr[d].flags & ZR_F_MARK))
			return wrong(v, i, "starts after %d, which has no mark", d);

		zr_before_wait(&v->before, i, d);
	}

	zr_before_leave(&v->before, i);
	return rc;
}

/* ---- what it touches and posts ---- */

/* Whether what an operand reads has to be written by the program itself. Of sums that are buffers,
 * ranks exchange the padding, too. */
static int transient(const struct proof *v, const struct zr_operand *o)
{
	int away = o->region == ZR_R_ACT_OFFLOADED || o->region == ZR_R_PARTS;
	return !zr_operand_others(&v->setup->facts, o) &&
	       (away || (o->buffer && o->region != ZR_R_GRAD));
}

static int not_written(struct proof *v, int32_t j, uint64_t at, const struct zr_operand *o)
{
	return wrong(v, j, "reads byte %" PRIu64 " of %s, which nothing before it writes", at,
		     v->setup->plan.region[o->region].what);
}

/* What was there before a buffer is not its own. */
static int check_buffer(struct proof *v, int32_t j, const struct zr_operand *o)
{
	uint64_t from = o->at, to = o->at + o->bytes;
	if (!o->buffer)
		return 0;

	const struct zr_buffer *b = &v->p->buffer[o->buffer - 1];
	if (from < b->offset || to > b->offset + b->bytes)
		return wrong(v, j, "leaves its buffer of %s",
			     v->setup->plan.region[o->region].what);
	if (!transient(v, o) || !o->bytes)
		return 0;

	struct written *w = &v->written[o->buffer - 1];
	if (o->access & ZR_READS && (from < w->from || from >= w->to))
		return not_written(v, j, from, o);
	if (o->access & ZR_READS && to > w->to)
		return not_written(v, j, w->to, o);
	if (!(o->access & ZR_WRITES))
		return 0;

	if (!w->to || from < w->from)
		w->from = from;
	w->to = zr_max(w->to, to);
	return 0;
}

static int check_touched(struct proof *v, int32_t j, const struct zr_operand *o)
{
	struct zr_spans *t = &v->spans;
	char b[NAME];
	t->n_found = 0;
	int rc = check_buffer(v, j, o);
	if (!rc)
		rc = zr_spans_find(t, o);
	for (int32_t k = 0; !rc && k < t->n_found; k++) {
		int32_t i = t->found[k].instr;
		uint64_t at = t->found[k].at - zr_operand_base(&v->setup->plan, o);
		if (i < 0 && transient(v, o))
			return not_written(v, j, at, o);
		if (i >= 0 && !zr_is_before(&v->before, i, j))
			return wrong(v, i,
				     "and %s touch byte %" PRIu64 " of %s%s, one of them writes "
				     "it, and nothing orders them",
				     name(v, j, b), at, v->setup->plan.region[o->region].what,
				     zr_operand_others(&v->setup->facts, o) ? " of other ranks" :
									      "");
	}
	return rc;
}

static int check_requests(struct proof *v, int32_t j)
{
	int store = zr_before_request(&v->before, j);
	int32_t i = 0;
	char b[NAME];
	if (store < 0)
		return 0;

	uint32_t most = v->setup->facts.tier[store].max_inflight;
	if (!most || v->before.requests[store] <= most)
		return 0;

	while (zr_before_request(&v->before, i) != store)
		i++;
	return wrong(v, j,
		     "is one request more than the %" PRIu32 " that its store takes at a "
		     "time: nothing waits for %s",
		     most, name(v, i, b));
}

/* All waits for late writes that there have to be, in their order. */
static int check_late(struct proof *v)
{
	struct zr_lowered q = *v->p;
	q.wait = NULL;
	q.cap_wait = 0;
	int rc = zr_late_waits(v->setup, &q, v->err);
	for (int32_t k = 0; !rc && k < q.n_wait; k++) {
		int32_t late = q.wait[k].late;
		if (k >= v->p->n_wait || memcmp(&v->p->wait[k], &q.wait[k], sizeof *q.wait))
			rc = wrong(v, q.wait[k].instr,
				   "does not wait for late write %d of "
				   "program %d",
				   late / ZR_LOWERED, late % ZR_LOWERED);
	}

	free(q.wait);
	return rc;
}

static int check_comms(struct proof *v, int32_t j)
{
	char b[NAME];
	for (int32_t i = zr_before_switch(&v->before, j); i < j; i++)
		if (v->p->instr[i].kind == ZR_I_COLLECTIVE && !zr_is_before(&v->before, i, j))
			return wrong(v, j, "is posted while %s is under way on another comm",
				     name(v, i, b));
	return 0;
}

static int check(struct proof *v, int32_t i)
{
	const struct zr_instr *in = &v->p->instr[i];
	int rc = check_instr(v, i);
	for (int32_t k = 0; !rc && k < in->n; k++)
		rc = check_touched(v, i, &v->p->operand[in->first + k]);
	if (!rc)
		rc = check_requests(v, i);
	if (!rc)
		rc = check_comms(v, i);
	if (rc)
		return rc;
	return zr_spans_add(&v->spans, v->p, i);
}

int zr_verify(const struct zr_setup *s, const struct zr_lowered *p, struct zr_error *err)
{
	struct proof v = { .setup = s, .p = p, .err = err, .spans.setup = s };
	int rc = zr_before_new(&v.before, s, p);
	v.written = calloc((size_t)p->n_buffer + 1, sizeof *v.written);
	if (!rc && !v.written)
		rc = ZR_ENOMEM;
	for (int32_t i = 0; !rc && i < p->n; i++)
		rc = check(&v, i);
	if (!rc)
		rc = check_late(&v);
	zr_spans_free(&v.spans);
	zr_before_free(&v.before);
	free(v.written);
	if (rc == ZR_ENOMEM)
		zr_err(err, rc, "out of memory while verifying %d instructions", p->n);
	return rc;
}
