/* SPDX-License-Identifier: Apache-2.0
 *
 * comm_fixture.c - see comm_fixture.h.
 */
#define _GNU_SOURCE
#include "comm_fixture.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <zeroth/boot.h>

#define LIMIT 60 /* seconds of one run */

/* Shared by all ranks of a run. */
struct table {
	_Atomic int n, ready[16], failures, met;
	char key[16][64], value[16][4096];
	char text[2048];
};

static struct table *table;

static void doze(void)
{
	nanosleep(&(struct timespec){ 0, 1000000 }, NULL);
}

static int boot_put(struct zr_inst *i, const char *key, const void *value, uint64_t bytes)
{
	int k = atomic_fetch_add(&table->n, 1);
	(void)i;
	if (k >= 16 || bytes > 4096)
		return ZR_EINVAL;
	snprintf(table->key[k], 64, "%s", key);
	memcpy(table->value[k], value, bytes);
	atomic_store(&table->ready[k], 1);
	return 0;
}

static int boot_get(struct zr_inst *i, const char *key, void *value, uint64_t bytes, double timeout)
{
	(void)i;
	for (double waited = 0; waited < timeout; waited += 0.001, doze())
		for (int k = 0; k < 16; k++)
			if (atomic_load(&table->ready[k]) && !strcmp(table->key[k], key)) {
				memcpy(value, table->value[k], bytes);
				return 0;
			}
	return ZR_EPEER;
}

static const struct zr_boot_v1 boot = { .size = sizeof boot, .put = boot_put, .get = boot_get };

static const void *host_get(const struct zr_host *h, const char *iface, struct zr_inst **inst)
{
	(void)h;
	*inst = NULL;
	return strcmp(iface, "zr.boot/1") ? NULL : &boot;
}

const char *fixture_failure(void)
{
	return table ? table->text : "";
}

void fixture_say(struct rank *r, const char *file, int line, const char *what, const char *why)
{
	if (atomic_fetch_add(&table->failures, 1) == 0)
		snprintf(table->text, sizeof table->text, "rank %d of %d %s: %s:%d: %s (%s)",
			 r->rank, r->world, r->fixture->as == THREADS ? "threads" : "processes",
			 file, line, what, why);
}

void fixture_meet(int n)
{
	for (atomic_fetch_add(&table->met, 1); atomic_load(&table->met) < n;)
		doze();
}

struct job {
	const struct fixture *fixture;
	void (*fn)(struct rank *);
	int rank;
};

static void *rank_main(void *arg)
{
	const struct job *j = arg;
	const struct fixture *g = j->fixture;
	int per_node = g->per_node ? g->per_node : g->world;
	const struct zr_desc *desc = test_plugin(g->plugin);
	void *opts = test_options(desc);
	struct rank r = { .h = test_host(g->workers ? g->workers : 1),
			  .v = test_iface(desc, "zr.comm/1"),
			  .rank = j->rank,
			  .world = g->world,
			  .per_node = per_node,
			  .fixture = g };
	r.h->rank = j->rank;
	r.h->world = g->world;
	r.h->local_rank = j->rank % per_node;
	r.h->local_world = per_node;
	r.h->get = host_get;
	for (int i = 0; i < 4 && g->option[i][0]; i++)
		CHECK(&r, !test_set(desc, opts, g->option[i][0], g->option[i][1]));
	int rc = test_create(r.h, desc, opts, &r.c);
	CHECK(&r, rc == 0);
	if (rc == 0)
		j->fn(&r);
	if (rc == 0 && r.c)
		desc->destroy(r.c);
	test_host_free(r.h);
	free(opts);
	return NULL;
}

static void run_threads(struct job *jobs, int n)
{
	pthread_t t[64];
	for (int i = 0; i < n; i++)
		if (pthread_create(&t[i], NULL, rank_main, &jobs[i]))
			abort();
	for (int i = 0; i < n; i++)
		pthread_join(t[i], NULL);
}

/* Waits in rank order: a rank that died stays a zombie while the lower ones run. */
static void run_processes(struct job *jobs, int n, int dead)
{
	pid_t pid[64];
	int status;
	fflush(NULL);
	for (int i = 0; i < n; i++) {
		pid[i] = fork();
		if (pid[i] < 0)
			abort();
		if (!pid[i]) {
			alarm(LIMIT);
			rank_main(&jobs[i]);
			_exit(0);
		}
	}
	for (int i = 0; i < n; i++) {
		while (waitpid(pid[i], &status, 0) < 0 && errno == EINTR)
			;
		if (i != dead && (!WIFEXITED(status) || WEXITSTATUS(status)) &&
		    atomic_fetch_add(&table->failures, 1) == 0)
			snprintf(table->text, sizeof table->text,
				 "rank %d of %d processes ended with status %#x", i, n, status);
	}
}

int fixture_run(const struct fixture *fixture, void (*fn)(struct rank *), int dead)
{
	struct job jobs[64];
	if (!table)
		table = mmap(NULL, sizeof *table, PROT_READ | PROT_WRITE,
			     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (table == MAP_FAILED)
		abort();
	memset(table, 0, sizeof *table);
	test_plugin(fixture->plugin);
	for (int i = 0; i < fixture->world; i++)
		jobs[i] = (struct job){ fixture, fn, i };
	if (fixture->as == THREADS) {
		alarm(LIMIT);
		run_threads(jobs, fixture->world);
		alarm(0);
	} else {
		run_processes(jobs, fixture->world, dead);
	}
	return table->failures;
}

struct zr_comm_op fixture_op(int kind, int group, int dtype, const struct zr_comm_seg *seg,
			     int n_seg)
{
	return (struct zr_comm_op){ .size = sizeof(struct zr_comm_op),
				    .kind = kind,
				    .group = group,
				    .dtype = dtype,
				    .n_seg = n_seg,
				    .seg = seg,
				    .tag = { 1, kind, -1 } };
}

int fixture_do(struct rank *r, const struct zr_comm_op *op)
{
	zr_ticket t = 0;
	int rc = r->v->post(r->c, op, &t);
	if (rc)
		return rc;
	return r->v->wait(r->c, t);
}

int fixture_barrier(struct rank *r, int64_t step, int32_t op)
{
	struct zr_comm_op o = fixture_op(ZR_COMM_BARRIER, ZR_GROUP_WORLD, 0, NULL, 0);
	o.tag = (struct zr_comm_tag){ step, op, -1 };
	return fixture_do(r, &o);
}

uint64_t fixture_esz(int dtype)
{
	return dtype == ZR_U8                      ? 1 :
	       dtype == ZR_BF16 || dtype == ZR_F16 ? 2 :
	       dtype == ZR_F32 || dtype == ZR_I32  ? 4 :
						     8;
}

static uint64_t mix(uint64_t x)
{
	x ^= x >> 31;
	x *= 0x7fb5d329728ea185u;
	x ^= x >> 27;
	x *= 0x81dadef4bc2dd44du;
	return x ^ x >> 33;
}

void fixture_fill(void *at, int dtype, int rank, int s, int64_t first, int64_t n)
{
	for (int64_t k = 0; k < n; k++) {
		int64_t i = first + k;
		uint64_t bits =
			mix((uint64_t)i * 1000003u + (uint64_t)rank * 97u + (uint64_t)s + 1);
		double scale = (double)((uint64_t)1 << (bits & 31)),
		       x = ((double)(bits >> 40) - 8388608.0) * scale;
		if (i % 7 == 0)
			x = -0.0;
		if (dtype == ZR_F32)
			((float *)at)[k] = (float)x;
		else if (dtype == ZR_F64)
			((double *)at)[k] = x / 3;
		else if (dtype == ZR_I64)
			((uint64_t *)at)[k] = bits;
		else
			memcpy((char *)at + (uint64_t)k * fixture_esz(dtype), &bits,
			       fixture_esz(dtype));
	}
}

/* ---- exchanges ------------------------------------------------------------------- */

int fixture_group(struct rank *r, int group, const int32_t *ranks, int32_t n)
{
	return r->v->group(r->c, group, ranks, n);
}

/* Elements that rank a sends to rank b: none, a few, many, or all of a round of zeros. */
static int64_t exchanged(int a, int b, int round)
{
	static const int64_t counts[] = { 0, 3, 70001, 1, 0, 513 };
	return round % 5 == 4 ? 0 : counts[(a * 7 + b * 3 + round) % 6];
}

const char *fixture_exchange(struct rank *r, int group, const int32_t *ranks, int32_t n, int round)
{
	enum { MOST = 16 };
	static const int types[] = { ZR_BF16, ZR_U8, ZR_F32, ZR_I64 };
	const int dtype = types[round % 4];
	const uint64_t esz = fixture_esz(dtype);
	int64_t sent[MOST], received[MOST], to = 0, from = 0;
	for (int32_t k = 0; k < n; k++) {
		to += sent[k] = exchanged(r->rank, ranks[k], round);
		from += received[k] = exchanged(ranks[k], r->rank, round);
	}

	char *send = malloc((uint64_t)to * esz + 1), *got = calloc(1, (uint64_t)from * esz + 1);
	char *want = malloc((uint64_t)from * esz + 1), *s = send, *w = want;
	for (int32_t k = 0; k < n; k++) {
		fixture_fill(s, dtype, r->rank, ranks[k] + round, 0, sent[k]);
		fixture_fill(w, dtype, ranks[k], r->rank + round, 0, received[k]);
		s += (uint64_t)sent[k] * esz;
		w += (uint64_t)received[k] * esz;
	}
	got[(uint64_t)from * esz] = 'x'; /* stays */

	const struct zr_comm_exchange x = { .size = sizeof x,
					    .group = group,
					    .dtype = dtype,
					    .send = send,
					    .recv = got,
					    .send_count = sent,
					    .recv_count = received,
					    .tag = { 2, round, group } };
	zr_ticket t = 0;
	const char *why = NULL;
	if (r->v->exchange(r->c, &x, &t) || r->v->wait(r->c, t))
		why = "an exchange failed";
	else if (memcmp(got, want, (uint64_t)from * esz))
		why = "an exchange brought other bytes than were sent";
	else if (got[(uint64_t)from * esz] != 'x')
		why = "an exchange wrote behind what it receives";
	free(send);
	free(got);
	free(want);
	return why;
}
