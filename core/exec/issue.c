/* SPDX-License-Identifier: Apache-2.0
 *
 * issue.c - see exec.h: one instruction begins, and ends.
 */
#include "core/exec/exec.h"
#include "core/exec/graphs.h"

static zr_call_fn *const begin[ZR_I_KINDS] = {
#define ZR_INSTR(kind, name, queue, begin, ...) begin,
#include "core/lower/instr.def"
};

static zr_call_fn *const end[ZR_I_KINDS] = {
#define ZR_INSTR_BESIDE(kind, name, queue, begin, end, ...) [ZR_I_##kind] = end,
#include "core/lower/instr.def"
};

static struct zr_call call_of(const struct zr_session *s, const struct zr_lowered *p, int32_t n,
			      struct zr_error *err)
{
	const struct zr_bound *b = &s->bound[p->id];
	int32_t first = p->instr[n].first;
	const struct zr_operand *o = NULL;
	if (p->n_operand)
		o = p->operand + first;
	return (struct zr_call){ p,  &p->instr[n], o, b->at + first, b->seg + first, &b->ticket[n],
				 err };
}

void zr_running_text(const struct zr_session *s, char *out, size_t size)
{
	const int32_t beside = zr_beside_at();
	if (!s->running)
		return;

	int n = snprintf(out, size, "%s", s->waiting && beside < 0 ? "wait for the " : "");
	zr_instr_text(s->setup, s->running, beside < 0 ? s->at : beside, out + n, size - (size_t)n);
}

/* What ran: whoever failed does not know. What another rank fails with says where already. */
static int failed(const struct zr_session *s, int rc, struct zr_error *err)
{
	char doing[256];
	zr_running_text(s, doing, sizeof doing);
	if (rc != ZR_EPEER)
		zr_err_add(err, "; rank %d, step %lld, %s", s->facts->process.rank,
			   (long long)zr_step_running(s), doing);
	return rc;
}

int zr_end_stretch(struct zr_session *s, struct zr_error *err)
{
	int rc = zr_graph_end(s, err);
	if (rc)
		return failed(s, rc, err);
	return 0;
}

/* Of what instruction n waits for, those in [from, to) end. */
static int end_some(struct zr_session *s, const struct zr_lowered *p, int32_t n, int32_t from,
		    int32_t to, struct zr_error *err)
{
	int rc = 0;
	for (int32_t k = from; !rc && k < to; k++)
		rc = zr_end(s, p, p->dep[p->instr[n].after + k], err);
	return rc;
}

int zr_end(struct zr_session *s, const struct zr_lowered *p, int32_t n, struct zr_error *err)
{
	struct zr_call c = call_of(s, p, n, err);
	if (!*c.ticket)
		return 0;

	int rc = zr_end_stretch(s, err);
	if (rc)
		return rc;

	s->at = n;
	s->waiting = 1;
	if (s->will)
		s->will(s->ran_arg, p, n, 1);
	if (c.i->queue == ZR_Q_HOST)
		rc = zr_beside_wait(s, *c.ticket, err);
	else
		rc = end[c.i->kind](s, &c);
	*c.ticket = 0;
	if (!rc && s->ran)
		s->ran(s->ran_arg, p, n, 1);
	if (rc)
		return failed(s, rc, err);
	return end_some(s, p, n, c.i->n_after - c.i->n_behind, c.i->n_after, err);
}

int zr_end_late(struct zr_session *s, int32_t late, struct zr_error *err)
{
	const struct zr_lowered *running = s->running;
	const int32_t id = late % ZR_LOWERED, n = late / ZR_LOWERED;
	if (!s->bound[id].ticket[n])
		return 0;

	int rc = zr_end_stretch(s, err);
	if (rc)
		return rc;

	s->running = &s->programs->lowered[id];
	rc = zr_end(s, s->running, n, err);
	s->running = running;
	return rc;
}

int zr_writes_settle(struct zr_session *s, struct zr_error *err)
{
	int rc = 0;
	for (int32_t id = 0; s->late && id < ZR_LOWERED; id++)
		for (int32_t n = 0; !rc && n < s->programs->lowered[id].n; n++)
			if (s->programs->lowered[id].instr[n].flags & ZR_F_LATE)
				rc = zr_end_late(s, n * ZR_LOWERED + id, err);
	s->late = 0;
	return rc;
}

/* What the host computes may be left to another thread; what else it does comes after all that is
 * left to that. */
static int run(struct zr_session *s, const struct zr_call *c)
{
	int rc = 0;
	if (zr_beside_takes(s, c->i)) {
		zr_beside_give(s, c, begin[c->i->kind], s->at);
		return 0;
	}

	if (c->i->queue == ZR_Q_HOST && (c->i->kind != ZR_I_SECURE || s->before_update))
		rc = zr_beside_settle(s, c->err);
	if (rc)
		return rc;
	return begin[c->i->kind](s, c);
}

int zr_begin(struct zr_session *s, const struct zr_lowered *p, int32_t n, struct zr_error *err)
{
	struct zr_call c = call_of(s, p, n, err);
	int rc = end_some(s, p, n, 0, c.i->n_after - c.i->n_behind, err);
	if (rc)
		return rc;

	rc = zr_graph_begin(s, p, n, err);
	if (rc)
		return failed(s, rc, err);

	s->at = n;
	s->waiting = 0;
	*c.ticket = 0;
	if (s->will)
		s->will(s->ran_arg, p, n, 0);
	const int named = zr_range_begins(s, p, n);
	rc = run(s, &c);
	if (!rc)
		rc = zr_graph_began(s, c.i, err);
	if (named)
		zr_range_ends(s);
	if (!rc && c.i->flags & ZR_F_MARK)
		rc = zr_mark(s, &s->bound[p->id].mark[n], err);
	if (!rc && s->ran)
		s->ran(s->ran_arg, p, n, 0);
	if (rc && rc != ZR_EAGAIN)
		return failed(s, rc, err);
	return rc;
}
