/* SPDX-License-Identifier: Apache-2.0
 *
 * issue.c - see exec.h: one instruction begins, and ends.
 */
#include "core/exec/exec.h"

static zr_call_fn *const begin[ZR_I_KINDS] = {
	[ZR_I_HOST] = zr_begin_host,	     [ZR_I_LAYER] = zr_begin_layer,
	[ZR_I_COPY] = zr_begin_copy,	     [ZR_I_READ] = zr_begin_request,
	[ZR_I_WRITE] = zr_begin_request,	     [ZR_I_COLLECTIVE] = zr_begin_collective,
	[ZR_I_CAST] = zr_begin_cast,	     [ZR_I_ACCUMULATE] = zr_begin_accumulate,
	[ZR_I_SECURE] = zr_begin_secure,     [ZR_I_OPTIMIZE] = zr_begin_update,
	[ZR_I_PARTIAL] = zr_begin_update,    [ZR_I_LOAD] = zr_begin_master,
	[ZR_I_STORE] = zr_begin_master,	     [ZR_I_WHOLE] = zr_begin_whole,
};

static zr_call_fn *const end[ZR_I_KINDS] = {
	[ZR_I_COPY] = zr_end_copy,     [ZR_I_READ] = zr_end_request,
	[ZR_I_WRITE] = zr_end_request, [ZR_I_COLLECTIVE] = zr_end_collective,
};

static struct zr_call call_of(const struct zr_session *s, const struct zr_lowered *p, int32_t n,
			      struct zr_error *err)
{
	const struct zr_bound *b = &s->bound[p->id];
	int32_t first = p->instr[n].first;
	const struct zr_operand *o = p->n_operand ? p->operand + first : NULL;
	return (struct zr_call){ &p->instr[n], o, b->at + first, b->seg + first, &b->ticket[n],
				 err };
}

void zr_running_text(const struct zr_session *s, char *out, size_t size)
{
	const char *wait = s->waiting ? "wait for the " : "";
	int n = s->running ? snprintf(out, size, "%s", wait) : 0;
	if (s->running)
		zr_instr_text(s->setup, s->running, s->at, out + n, size - (size_t)n);
}

/* What ran: whoever failed does not know. What another rank fails with says where already. */
static int failed(const struct zr_session *s, int rc, struct zr_error *err)
{
	char doing[256];
	zr_running_text(s, doing, sizeof doing);
	if (rc != ZR_EPEER)
		zr_err_add(err, "; rank %d, step %lld, %s", s->setup->process.rank,
			   (long long)s->step + 1, doing);
	return rc;
}

/* Whether the store of a write begins a later read when the write is over, so that nobody waits
 * before the read is posted. */
static int in_order(const struct zr_session *s, const struct zr_call *w, const struct zr_call *c)
{
	if (w->i->kind != ZR_I_WRITE || c->i->kind != ZR_I_READ)
		return 0;
	int store = s->setup->plan.region[w->o[1].region].store;
	return store == s->setup->plan.region[c->o[0].region].store &&
	       s->setup->offload[store - ZR_STORE_OPTIMIZER].info.in_order;
}

/* What instruction n waits for ends: all but writes that its store has it wait for; or, since it is
 * over, these. */
static int end_before(struct zr_session *s, const struct zr_lowered *p, int32_t n, int over,
		      struct zr_error *err)
{
	struct zr_call c = call_of(s, p, n, err);
	int rc = 0;
	for (int32_t k = c.i->after; !rc && k < c.i->after + c.i->n_after; k++) {
		struct zr_call w = call_of(s, p, p->dep[k], err);
		rc = in_order(s, &w, &c) == over ? zr_end(s, p, p->dep[k], err) : 0;
	}
	return rc;
}

int zr_end(struct zr_session *s, const struct zr_lowered *p, int32_t n, struct zr_error *err)
{
	struct zr_call c = call_of(s, p, n, err);
	if (!*c.ticket)
		return 0;
	s->at = n;
	s->waiting = 1;
	int rc = end[c.i->kind](s, &c);
	*c.ticket = 0;
	if (!rc && s->ran)
		s->ran(s->ran_arg, p, n, 1);
	return rc ? failed(s, rc, err) : end_before(s, p, n, 1, err);
}

/* ---- writes that outlast their program ---- */

/* Whether c waits for a late write: it writes what that reads, or touches what it writes. */
static int meets(const struct zr_session *s, const struct zr_call *w, const struct zr_call *c)
{
	for (int32_t k = 0; k < c->i->n && !in_order(s, w, c); k++) {
		const struct zr_operand *o = &c->o[k], *to = &w->o[1];
		const char *here = w->at[0], *at = o->access & ZR_WRITES ? c->at[k] : NULL;
		int there = o->region == to->region && o->at < to->at + to->bytes &&
			    to->at < o->at + o->bytes;
		if (there || (at && at < here + to->bytes && here < at + o->bytes))
			return 1;
	}
	return 0;
}

int zr_settle(struct zr_session *s, const struct zr_call *c, struct zr_error *err)
{
	const struct zr_lowered *running = s->running;
	int32_t n = s->n_late, at = s->at;
	int rc = 0;
	s->n_late = 0;
	for (int32_t k = 0; k < n; k++) {
		const struct zr_lowered *p = s->running = &s->setup->lowered[s->late[k].program];
		struct zr_call w = call_of(s, p, s->late[k].instr, err);
		if (rc || (c && !meets(s, &w, c)))
			s->late[s->n_late++] = s->late[k];
		else
			rc = zr_end(s, p, s->late[k].instr, err);
	}
	s->running = running;
	s->at = at;
	return rc;
}

/* Only a buffer is written by nothing but instructions. */
int zr_leave(struct zr_session *s, const struct zr_lowered *p, int32_t n, struct zr_error *err)
{
	struct zr_call c = call_of(s, p, n, err);
	if (c.i->kind != ZR_I_WRITE || !*c.ticket || !c.o[0].buffer || s->n_late == ZR_LATE)
		return zr_end(s, p, n, err);
	s->late[s->n_late++] = (struct zr_late){ p->id, n };
	return 0;
}

int zr_begin(struct zr_session *s, const struct zr_lowered *p, int32_t n, struct zr_error *err)
{
	struct zr_call c = call_of(s, p, n, err);
	int rc = end_before(s, p, n, 0, err);
	rc = rc ? rc : zr_settle(s, &c, err);
	if (rc)
		return rc;
	s->at = n;
	s->waiting = 0;
	*c.ticket = 0;
	rc = begin[c.i->kind](s, &c);
	if (!rc && s->ran)
		s->ran(s->ran_arg, p, n, 0);
	return rc && rc != ZR_EAGAIN ? failed(s, rc, err) : rc;
}
