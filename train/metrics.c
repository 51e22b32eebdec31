/* SPDX-License-Identifier: Apache-2.0
 *
 * metrics.c - see metrics.h.
 */
#include "train/metrics.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/base/log.h"
#include "core/base/pool.h"
#include "train/rundir.h"

#define RING     2048 /* steps that a monitor may be behind */
#define MONITORS 8
#define PATIENCE 5 /* seconds that a checkpoint, and the end, wait for a monitor */

struct record {
	int64_t step;
	uint32_t n;
	struct zr_metric metric[ZR_METRICS_PER_STEP];
};

/* A monitor, on a thread of its own. */
struct reader {
	struct zr_metrics *of;
	struct zr_instance monitor;
	pthread_t thread;
	int running;      /* there is a thread */
	int stopped;      /* it failed or was too slow, which was logged; it is not called again */
	int over;         /* its thread has ended */
	int flush;        /* asked of the thread */
	int waits;        /* it could not take a record in, and is asked again */
	int last_try;     /* that was after the last record */
	uint64_t tried;   /* records there were when it was asked */
	uint64_t lost;    /* records that the ring had no room for since it waits */
	uint64_t tail;    /* records that it has taken in */
	struct record at; /* that it takes in now */
};

struct zr_metrics {
	struct reader reader[MONITORS];
	int n;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct record ring[RING];
	uint64_t head; /* records written */
	int close;     /* asked of the threads */
};

/* The lock is held. */
static void stop(struct reader *r, int64_t step, const char *why)
{
	r->stopped = 1;
	zr_logf(ZR_LOG_WARN, r->monitor.section->name, "stopped at step %lld: %s", (long long)step,
		why);
}

/* Why metrics() or flush() failed. */
static const char *why(struct reader *r, const char *function, int rc)
{
	struct zr_error *e = &r->monitor.failed;
	zr_err(e, rc, "%s() failed with code %d and no text", function, rc);
	return e->text;
}

/* The lock is held. The record stays in the ring. */
static void wait_for_room(struct reader *r, const char *why)
{
	if (!r->waits)
		zr_logf(ZR_LOG_WARN, r->monitor.section->name,
			"waits at step %lld: %s; it is "
			"asked again at each step",
			(long long)r->at.step, why);
	r->waits = 1;
	memset(&r->monitor.failed, 0, sizeof r->monitor.failed);
}

/* The lock is held. What there was of the steps between is in the ring. */
static void go_on(struct reader *r)
{
	zr_logf(ZR_LOG_WARN, r->monitor.section->name, "goes on at step %lld: %llu steps are lost",
		(long long)r->at.step, (unsigned long long)r->lost);
	r->waits = 0;
	r->lost = 0;
}

static void deliver(struct reader *r)
{
	const struct zr_monitor_v1 *v = r->monitor.vtbl;
	const struct record *at = &r->at;
	const uint64_t tail = r->tail;
	int rc = v->metrics(r->monitor.inst, at->step, at->metric, at->n);

	pthread_mutex_lock(&r->of->lock);
	if (rc == ZR_EAGAIN) {
		if (!r->stopped)
			wait_for_room(r, why(r, "metrics", rc));
	} else {
		if (r->tail == tail)
			r->tail++;
		else
			r->lost--; /* it was taken in after all */
		if (rc && !r->stopped)
			stop(r, at->step, why(r, "metrics", rc));
		if (!rc && r->waits)
			go_on(r);
	}

	pthread_cond_broadcast(&r->of->changed);
	pthread_mutex_unlock(&r->of->lock);
}

static void flush(struct reader *r)
{
	const struct zr_monitor_v1 *v = r->monitor.vtbl;
	const int has = ZR_HAS(v, struct zr_monitor_v1, flush) && v->flush;
	const int rc = has ? v->flush(r->monitor.inst) : 0;
	if (rc)
		zr_logf(ZR_LOG_WARN, r->monitor.section->name, "%s", why(r, "flush", rc));
}

/* The lock is held. Whether there is a record to hand over: one that waits is tried again once for
 * each new record, and at the end. */
static int has_record(const struct reader *r)
{
	const struct zr_metrics *m = r->of;
	if (r->tail == m->head)
		return 0;
	return !r->waits || r->tried != m->head || (m->close && !r->last_try);
}

/* The lock is held. */
static void say_lost(const struct reader *r)
{
	const uint64_t n = r->of->head - r->tail + r->lost;

	if (r->waits && !r->stopped)
		zr_logf(ZR_LOG_WARN, r->monitor.section->name,
			"it never went on: %llu steps up to "
			"%lld are lost",
			(unsigned long long)n,
			(long long)r->of->ring[(r->of->head - 1) % RING].step);
}

static void *thread_main(void *arg)
{
	struct reader *r = arg;
	struct zr_metrics *m = r->of;

	pthread_mutex_lock(&m->lock);
	for (;;) {
		while (!has_record(r) && !r->flush && !m->close && !r->stopped)
			pthread_cond_wait(&m->changed, &m->lock);
		if (r->stopped || (!has_record(r) && m->close))
			break;
		if (has_record(r)) {
			r->tried = m->head;
			r->last_try = m->close;
			r->at = m->ring[r->tail % RING];
			pthread_mutex_unlock(&m->lock);
			deliver(r);
		} else {
			r->flush = 0;
			pthread_mutex_unlock(&m->lock);
			flush(r);
		}

		pthread_mutex_lock(&m->lock);
	}

	int flushes = !r->stopped;
	say_lost(r);
	pthread_mutex_unlock(&m->lock);
	if (flushes)
		flush(r);
	pthread_mutex_lock(&m->lock);
	r->over = 1;
	pthread_cond_broadcast(&m->changed);
	pthread_mutex_unlock(&m->lock);
	return NULL;
}

/* Says which run it is. */
static int begin_monitor(struct zr_instance *it, const struct zr_setup *setup, struct zr_error *err)
{
	const struct zr_monitor_v1 *v = it->vtbl;
	const char *dir = setup->facts.process.run_dir;
	struct zr_monitor_run run = { .size = sizeof run,
				      .name = "",
				      .steps = (int64_t)setup->facts.train->steps,
				      .parameters = zr_trained_elements(setup),
				      .world = setup->facts.process.world };

	if (!ZR_HAS(v, struct zr_monitor_v1, begin) || !v->begin)
		return 0;

	char *config = zr_rundir_config_text(setup->cfg);
	if (!config)
		return zr_no_memory(err);

	run.config = config;
	if (dir)
		run.name = strrchr(dir, '/') ? strrchr(dir, '/') + 1 : dir;
	int rc = zr_instance_failed(it, v->begin(it->inst, &run), "begin", err);
	free(config);
	return rc;
}

static int create_monitor(struct zr_instance *it, struct zr_setup *setup,
			  const struct zr_section *sec, int64_t resumed, struct zr_error *err)
{
	int rc = zr_instance_create(it, &setup->facts.process, sec, "zr.monitor/1", err);
	const struct zr_monitor_v1 *v = it->vtbl;
	if (rc)
		return rc;

	rc = begin_monitor(it, setup, err);
	if (!rc && resumed >= 0 && ZR_HAS(v, struct zr_monitor_v1, resume) && v->resume)
		rc = zr_instance_failed(it, v->resume(it->inst, resumed), "resume", err);
	if (rc)
		zr_instance_destroy(it);
	return rc;
}

/* Only the defaults ask for it, and there is no directory that its file could be in. */
static int is_left_out(const struct zr_setup *setup, const struct zr_section *sec)
{
	const char *place = zr_config_source(setup->cfg, sec->name, "plugin");
	return !setup->facts.process.run_dir && place && !strncmp(place, "defaults.ini:", 13);
}

static int create_monitors(struct zr_metrics *m, struct zr_setup *setup, int64_t resumed,
			   struct zr_error *err)
{
	struct zr_facts facts = { .size = sizeof facts,
				  .world = setup->facts.process.world,
				  .steps = (int64_t)setup->facts.train->steps,
				  .lr = setup->roles.param_group[0].lr };

	for (int i = 0; i < zr_config_count(setup->cfg); i++) {
		const struct zr_section *sec = zr_config_at(setup->cfg, i);
		if (!sec->role || strcmp(sec->role, "monitor") || is_left_out(setup, sec))
			continue;
		if (m->n == MONITORS)
			return zr_err(err, ZR_EINVAL, "[%s] is one monitor too many: %d at most",
				      sec->name, MONITORS);

		int rc = zr_config_resolve(setup->cfg, sec->name, &facts, err);
		if (!rc)
			rc = create_monitor(&m->reader[m->n].monitor, setup, sec, resumed, err);
		if (rc)
			return rc;

		m->reader[m->n++].of = m;
	}

	return 0;
}

static int start_threads(struct zr_metrics *m, struct zr_error *err)
{
	sigset_t old;
	int no = 0;

	zr_pool_mask(&old);
	for (int i = 0; i < m->n && !no; i++) {
		struct reader *r = &m->reader[i];
		no = pthread_create(&r->thread, NULL, thread_main, r);
		r->running = !no;
	}

	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (no)
		return zr_err(err, ZR_ENOMEM,
			      "cannot start the monitor thread: %s: too little "
			      "memory, or too many threads",
			      strerror(no));
	return 0;
}

int zr_metrics_open(struct zr_setup *setup, int64_t resumed, struct zr_metrics **out,
		    struct zr_error *err)
{
	struct zr_metrics *m = calloc(1, sizeof *m);
	pthread_condattr_t attr;

	if (!m)
		return zr_no_memory(err);

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_mutex_init(&m->lock, NULL);
	pthread_cond_init(&m->changed, &attr);
	pthread_condattr_destroy(&attr);
	int rc = create_monitors(m, setup, resumed, err);
	if (!rc)
		rc = start_threads(m, err);
	if (rc)
		zr_metrics_close(m);
	else
		*out = m;
	return rc;
}

void zr_metrics_push(struct zr_metrics *m, int64_t step, const struct zr_metric *metric, uint32_t n)
{
	pthread_mutex_lock(&m->lock);
	for (int i = 0; i < m->n; i++) {
		struct reader *reader = &m->reader[i];
		if (reader->stopped || m->head - reader->tail < RING)
			continue;
		if (reader->waits) {
			reader->tail++;
			reader->lost++;
		} else {
			stop(reader, step, "slower than the steps, 2048 of which wait for it");
		}
	}

	struct record *r = &m->ring[m->head % RING];
	r->step = step;
	r->n = n < ZR_METRICS_PER_STEP ? n : ZR_METRICS_PER_STEP;
	memcpy(r->metric, metric, r->n * sizeof *metric);
	m->head++;
	pthread_cond_broadcast(&m->changed);
	pthread_mutex_unlock(&m->lock);
}

static struct timespec in_seconds(int seconds)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	t.tv_sec += seconds;
	return t;
}

/* The lock is held. A monitor that is too late is stopped. */
static void wait_for(struct zr_metrics *m, const struct timespec *until)
{
	for (int i = 0; i < m->n; i++) {
		struct reader *r = &m->reader[i];
		int no = 0;
		while (r->running && !r->stopped && !r->over && r->tail != m->head &&
		       !(r->waits && r->tried == m->head) && !no)
			no = pthread_cond_timedwait(&m->changed, &m->lock, until);
		if (no)
			stop(r, m->ring[r->tail % RING].step,
			     "it takes more than 5 s for what it has been given");
	}
}

void zr_metrics_wait(struct zr_metrics *m)
{
	const struct timespec until = in_seconds(PATIENCE);

	pthread_mutex_lock(&m->lock);
	wait_for(m, &until);
	for (int i = 0; i < m->n; i++)
		m->reader[i].flush = 1;
	pthread_cond_broadcast(&m->changed);
	pthread_mutex_unlock(&m->lock);
}

void zr_metrics_close(struct zr_metrics *m)
{
	int left = 0;

	if (!m)
		return;

	struct timespec until = in_seconds(PATIENCE);
	pthread_mutex_lock(&m->lock);
	m->close = 1;
	pthread_cond_broadcast(&m->changed);
	wait_for(m, &until);
	for (int i = 0; i < m->n; i++) {
		struct reader *r = &m->reader[i];
		int no = 0;
		until = in_seconds(r->stopped ? 1 : PATIENCE); /* for what is flushed */
		while (r->running && !r->over && !no)
			no = pthread_cond_timedwait(&m->changed, &m->lock, &until);
		left += no != 0;
	}

	pthread_mutex_unlock(&m->lock);
	for (int i = 0; i < m->n; i++) {
		struct reader *r = &m->reader[i];
		if (r->running && !r->over) {
			pthread_detach(r->thread);
			continue;
		}

		if (r->running)
			pthread_join(r->thread, NULL);
		zr_instance_destroy(&r->monitor);
	}

	if (left)
		return; /* a monitor that does not return needs it until the process ends */
	pthread_cond_destroy(&m->changed);

	pthread_mutex_destroy(&m->lock);
	free(m);
}
