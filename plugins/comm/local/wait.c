/* SPDX-License-Identifier: Apache-2.0
 *
 * wait.c - waiting for other ranks, and how it ends early: abort, death, timeout (invariant I5).
 *
 * A waiter looks for 20 us, then sleeps on the word of the rank it needs. It wakes at least
 * every 200 ms to see whether that rank still lives; that also bounds how late it can notice an
 * abort.
 */
#define _GNU_SOURCE
#include "local.h"

#include <linux/futex.h>
#include <linux/membarrier.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define LOOK   20e-6
#define GLANCE 32 /* looks between looks at the clock */
#define TICK   0.2

double zl_now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void zl_nap(_Atomic uint32_t *word, uint32_t seen, double seconds)
{
	struct timespec t = { (time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9) };
	syscall(SYS_futex, word, FUTEX_WAIT, seen, &t, NULL, 0);
}

void zl_wake(_Atomic uint32_t *word)
{
	syscall(SYS_futex, word, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

int zl_is_aborted(const struct zr_inst *c)
{
	return c->area && atomic_load(&c->area->aborted) != 0;
}

static void wake_everybody(struct zr_inst *c)
{
	for (int32_t r = 0; r < c->world; r++)
		for (int g = 0; g < LANES; g++)
			for (int w = 0; w < WORDS; w++)
				zl_wake(&c->area->seat[r].lane[g].word[w]);
}

void zl_abort(struct zr_inst *c, const char *why)
{
	uint32_t none = 0;
	if (!c->area || !atomic_compare_exchange_strong(&c->area->aborted, &none, 1))
		return;
	snprintf(c->area->why, sizeof c->area->why, "%s", why);
	atomic_store(&c->area->aborted, 2);
	wake_everybody(c);
}

int zl_stopped(struct zr_inst *c)
{
	/* Whoever writes the reason takes microseconds, or died while it wrote. */
	for (int i = 0; i < 1000 && atomic_load(&c->area->aborted) != 2; i++)
		nanosleep(&(struct timespec){ 0, 100000 }, NULL);
	if (atomic_load(&c->area->aborted) != 2)
		return zr_fail(c->h, ZR_EPEER, "another rank stopped and could not say why");
	return zr_fail(c->h, ZR_EPEER, "%s", c->area->why);
}

int zl_aborted(struct zr_inst *c)
{
	if (zl_is_aborted(c))
		return zl_stopped(c);
	return 0;
}

int zl_stop(struct zr_inst *c, const char *fmt, ...)
{
	char why[sizeof c->area->why];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(why, sizeof why, fmt, ap);
	va_end(ap);
	zl_abort(c, why);
	return zl_stopped(c);
}

/* A sleeper counts itself before it looks at the word a last time; who sets the word looks at the
 * count afterwards. A barrier between the two would wait for the line of a peer that looks, at
 * each word; a sleeper can as well have it run on all processors. */
int zl_order(void)
{
	return !syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0) &&
	       !syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0);
}

void zl_raise(struct zr_inst *c, int32_t group, enum word w, uint32_t value)
{
	struct lane *l = lane_of(c, group, c->group[group].rank);
	if (c->ordered)
		atomic_store_explicit(&l->word[w], value, memory_order_release);
	else
		atomic_store(&l->word[w], value);
	atomic_signal_fence(memory_order_seq_cst);
	if (atomic_load(&l->sleepers))
		zl_wake(&l->word[w]);
}

static int reached(_Atomic uint32_t *word, uint32_t target)
{
	return (int32_t)(atomic_load_explicit(word, memory_order_acquire) - target) >= 0;
}

/* Ends all ranks, with what the dead one did last. */
static int stop_of_dead(struct zr_inst *c, int32_t rank)
{
	struct seat *s = &c->area->seat[rank];
	const struct zr_comm_tag tag = { atomic_load(&s->doing.step), atomic_load(&s->doing.op),
					 atomic_load(&s->doing.unit) };
	const int32_t kind = atomic_load(&s->doing.kind), pid = atomic_load(&s->pid);
	const char *when = "after";
	char what[256];
	if (!kind)
		return zl_stop(c, "rank %d (pid %d) died", rank, pid);

	if (atomic_load(&s->doing.waiting))
		when = "in";
	zl_op_text(kind & 255, kind >> 8, &tag, what, sizeof what);
	return zl_stop(c, "rank %d (pid %d) died %s %s", rank, pid, when, what);
}

int zl_check_alive(struct zr_inst *c, int32_t awaited)
{
	if (awaited >= 0 && atomic_load(&c->area->seat[awaited].left))
		return zl_stop(c, "rank %d has left; %s waits for it", awaited, zl_doing(c));
	if (poll(c->watch, (nfds_t)c->world, 0) <= 0)
		return 0;

	for (int32_t r = 0; r < c->world; r++) {
		struct seat *s = &c->area->seat[r];
		const int has_left = atomic_load(&s->left) && r != awaited;
		if (c->watch[r].revents & POLLIN && !has_left)
			return stop_of_dead(c, r);
	}
	return 0;
}

static int late(struct zr_inst *c, const struct pend *p, enum word w, uint32_t target)
{
	char missing[800];
	zl_missing_text(c, p->group, w, target, missing, sizeof missing);
	return zl_stop(c, "timeout: %s of rank %d waited %.3g s for %s", zl_doing(c), c->rank,
		       zl_now() - c->since, missing);
}

static void relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#endif
}

/* The word in which a waiter looks without sleeping: an announcement has one in its own line. */
static _Atomic uint32_t *word_to_look_at(struct lane *l, enum word w, uint32_t target)
{
	if (w == POSTED)
		return &mark_of(l, target)->seq;
	return &l->word[w];
}

/* Looks for a short time without sleeping: whether the word has reached target. Where there are
 * more ranks than processors it looks once, since the awaited rank may need this processor. A rank
 * that sleeps is woken; one that called sched_yield() would wait until others have used up their
 * time slices. */
static int look(const struct zr_inst *c, _Atomic uint32_t *word, uint32_t target)
{
	double end = 0;
	if (c->crowded)
		return reached(word, target);

	for (int i = 0;; i++) {
		if (reached(word, target))
			return 1;
		relax();
		if (i % GLANCE == GLANCE - 1 && end <= 0)
			end = zl_now() + LOOK;
		else if (i % GLANCE == GLANCE - 1 && zl_now() >= end)
			return 0;
	}
}

/* Sleeps until the word of that rank of the group has reached target. */
static int await(struct zr_inst *c, const struct pend *p, enum word w, uint32_t target,
		 int32_t rank)
{
	struct lane *l = lane_of(c, p->group, rank);
	int rc = 0;
	if (look(c, word_to_look_at(l, w, target), target))
		return 1;

	double asked = zl_now();
	if (c->since <= 0)
		c->since = asked;
	atomic_fetch_add(&l->sleepers, 1);
	if (c->ordered)
		syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0);

	while (!rc && !reached(&l->word[w], target)) {
		double now = zl_now(), left = c->since + c->o->timeout - now;
		uint32_t seen = atomic_load(&l->word[w]);
		if (zl_is_aborted(c)) {
			rc = zl_stopped(c);
		} else if (left <= 0) {
			rc = late(c, p, w, target);
		} else if (now - asked >= TICK) {
			rc = zl_check_alive(c, rank_in_world(&c->group[p->group], rank));
			asked = now;
		}
		if (!rc && (int32_t)(seen - target) < 0)
			zl_nap(&l->word[w], seen, left < TICK ? left : TICK);
	}

	atomic_fetch_sub(&l->sleepers, 1);
	if (rc)
		return rc;
	return 1;
}

int zl_reach(struct zr_inst *c, const struct pend *p, enum word w, uint32_t target, int block)
{
	const struct group *g = &c->group[p->group];
	for (int32_t i = 1; i < g->size; i++) {
		int32_t rank = (g->rank + i) % g->size;
		struct lane *l = lane_of(c, p->group, rank);
		if (block) {
			int rc = await(c, p, w, target, rank);
			if (rc < 0)
				return rc;
		} else if (!reached(word_to_look_at(l, w, target), target)) {
			return zl_aborted(c);
		}
	}
	return 1;
}
