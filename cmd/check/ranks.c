/* SPDX-License-Identifier: Apache-2.0
 *
 * ranks.c - ranks of a test: processes that meet through a boot, which is a table in memory that
 * they share. The first rank that fails ends the test.
 */
#include "cmd/check/check.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <zeroth/boot.h>

#include "core/base/child.h"

enum { RANKS = 8, VALUES = 64 };

struct table {
	_Atomic int n, ready[VALUES], fences;
	int killed; /* 1: the end by SIGKILL is what the test wants */
	char key[VALUES][64], value[VALUES][4096];
	struct zr_verdict verdict[RANKS];
	int32_t world;
};

static struct table *table;

void *zr_check_shared(struct zr_check *c, uint64_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		zr_check_lacks(c, "memory");
	return p;
}

/* ---- the boot -------------------------------------------------------------------- */

static void doze(void)
{
	nanosleep(&(struct timespec){ 0, 500000 }, NULL);
}

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int boot_put(struct zr_inst *inst, const char *key, const void *value, uint64_t bytes)
{
	(void)inst;
	if (strlen(key) > 63 || bytes > 4096)
		return ZR_EINVAL;

	const int i = atomic_fetch_add(&table->n, 1);
	if (i >= VALUES)
		return ZR_ENOMEM;

	strcpy(table->key[i], key);
	memcpy(table->value[i], value, bytes);
	atomic_store(&table->ready[i], 1);
	return ZR_OK;
}

static int boot_get(struct zr_inst *inst, const char *key, void *value, uint64_t bytes,
		    double timeout)
{
	const double end = now() + timeout;

	(void)inst;
	for (; now() < end && bytes <= 4096; doze())
		for (int i = 0; i < VALUES; i++)
			if (atomic_load(&table->ready[i]) && !strcmp(table->key[i], key)) {
				memcpy(value, table->value[i], bytes);
				return ZR_OK;
			}
	return ZR_EPEER;
}

static int boot_fence(struct zr_inst *inst, double timeout)
{
	const int until = atomic_fetch_add(&table->fences, 1) / table->world * table->world;
	const double end = now() + timeout;

	(void)inst;
	for (; now() < end; doze())
		if (atomic_load(&table->fences) >= until + table->world)
			return ZR_OK;
	return ZR_EPEER;
}

const void *zr_check_boot(void)
{
	static const struct zr_boot_v1 boot = {
		.size = sizeof boot, .put = boot_put, .get = boot_get, .fence = boot_fence
	};
	return table ? &boot : NULL;
}

/* ---- processes ------------------------------------------------------------------- */

/* The verdict of the rank that ended, or is to blame for the time, as that of the test. */
static void judge(struct zr_check *c, int32_t rank, int status, int late)
{
	const struct zr_verdict *v = &table->verdict[rank];

	snprintf(c->verdict->function, sizeof c->verdict->function, "%s", v->function);
	if (v->state == ZR_CHECK_PASSED ||
	    (table->killed && !late && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL))
		return;
	if (v->state == ZR_CHECK_SKIPPED || v->state == ZR_CHECK_UNTESTED) {
		snprintf(c->verdict->text, sizeof c->verdict->text, "%s", v->text);
		zr_check_end(c, v->state);
	}

	if (v->state == ZR_CHECK_FAILED)
		zr_check_fail(c, "rank %d of %d: %s", rank, table->world, v->text);
	if (zr_check_starved(status) && !late) {
		errno = ENOMEM;
		zr_check_lacks(c, "memory");
	}

	if (late)
		zr_check_fail(c, "rank %d of %d: it did not return within %g s", rank, table->world,
			      c->timeout * 0.8);
	zr_check_fail(c, "rank %d of %d: it ended the process (%s %d)", rank, table->world,
		      WIFSIGNALED(status) ? "signal" : "code",
		      WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
}

static void stop_all(pid_t *pid)
{
	int status;

	for (int32_t r = 0; r < table->world; r++)
		if (pid[r]) {
			kill(pid[r], SIGKILL);
			zr_child_wait(pid[r], &status);
		}
}

static void wait_for_all(struct zr_check *c, pid_t *pid)
{
	const double end = now() + c->timeout * 0.8;
	int32_t left = table->world;

	for (; left; doze()) {
		const int late = now() > end;
		for (int32_t r = 0; r < table->world; r++) {
			int status = 0;
			if (!pid[r] || (!zr_child_ended(pid[r], &status) && !late))
				continue;

			left--;
			if (!late)
				pid[r] = 0;
			if (late || table->verdict[r].state != ZR_CHECK_PASSED)
				stop_all(pid);
			judge(c, r, status, late);
		}
	}
}

static void begin(struct zr_check *c, int32_t rank)
{
	c->verdict = &table->verdict[rank];
	zr_check_catch_output(c); /* others' words are not its own */
	zr_check_pool(c, 3, &c->pool);
}

static void run_ranks(struct zr_check *c, int32_t world, int killed, void *shared,
		      void (*fn)(struct zr_check *c, int32_t rank, int32_t world, void *shared))
{
	pid_t pid[RANKS] = { 0 };

	zr_pool_free(c->pool); /* a thread that allocates now would keep its lock in the child */
	c->pool = NULL;
	if (!table)
		table = zr_check_shared(c, sizeof *table);
	memset(table, 0, sizeof *table);
	table->world = world;
	table->killed = killed;
	for (int32_t r = 0; r < world; r++) {
		pid[r] = fork();
		if (pid[r] < 0) {
			const int no = errno;
			pid[r] = 0;
			stop_all(pid);
			errno = no;
			zr_check_lacks(c, "processes");
		}

		if (!pid[r]) {
			begin(c, r);
			fn(c, r, world, shared);
			zr_check_quiet(c);
			zr_check_pass(c);
		}
	}

	wait_for_all(c, pid);
	zr_check_pool(c, 3, &c->pool);
}

void zr_check_ranks(struct zr_check *c, int32_t world, void *shared,
		    void (*fn)(struct zr_check *c, int32_t rank, int32_t world, void *shared))
{
	run_ranks(c, world, 0, shared, fn);
}

void zr_check_killed(struct zr_check *c, void *shared,
		     void (*fn)(struct zr_check *c, int32_t rank, int32_t world, void *shared))
{
	run_ranks(c, 1, 1, shared, fn);
}
