/* SPDX-License-Identifier: Apache-2.0
 *
 * metrics.c - see metrics.h.
 */
#include "cmd/metrics.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "core/log.h"

#define RING 64
#define MONITORS 8

struct record {
	int64_t step;
	uint32_t n;
	struct zr_metric metric[ZR_METRICS_PER_STEP];
};

struct zr_metrics {
	struct zr_instance monitor[MONITORS];
	int stopped[MONITORS]; /* it failed once, which was logged; it is not called again */
	int n;
	pthread_t thread;
	int running;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct record ring[RING];
	uint64_t head, tail; /* written, read */
	int flush, close;    /* asked of the thread */
};

static void deliver(struct zr_metrics *m, const struct record *r)
{
	for (int i = 0; i < m->n; i++) {
		const struct zr_monitor_v1 *v = m->monitor[i].vtbl;
		if (m->stopped[i] || !v->metrics(m->monitor[i].inst, r->step, r->metric, r->n))
			continue;
		m->stopped[i] = 1;
		zr_logf(ZR_LOG_WARN, m->monitor[i].section->name, "stopped at step %lld: %s",
			(long long)r->step, m->monitor[i].failed.text);
	}
}

static void flush(struct zr_metrics *m)
{
	for (int i = 0; i < m->n; i++) {
		const struct zr_monitor_v1 *v = m->monitor[i].vtbl;
		if (!m->stopped[i] && ZR_HAS(v, struct zr_monitor_v1, flush) && v->flush &&
		    v->flush(m->monitor[i].inst))
			zr_logf(ZR_LOG_WARN, m->monitor[i].section->name, "%s",
				m->monitor[i].failed.text);
	}
}

static void *thread_main(void *arg)
{
	struct zr_metrics *m = arg;
	pthread_mutex_lock(&m->lock);
	for (;;) {
		while (m->tail == m->head && !m->flush && !m->close)
			pthread_cond_wait(&m->changed, &m->lock);
		if (m->tail == m->head && m->close)
			break;
		if (m->tail == m->head) {
			m->flush = 0;
			pthread_mutex_unlock(&m->lock);
			flush(m);
			pthread_mutex_lock(&m->lock);
			continue;
		}
		const struct record *r = &m->ring[m->tail % RING];
		pthread_mutex_unlock(&m->lock);
		deliver(m, r);
		pthread_mutex_lock(&m->lock);
		m->tail++;
		pthread_cond_broadcast(&m->changed);
	}
	pthread_mutex_unlock(&m->lock);
	flush(m);
	return NULL;
}

static int create_monitor(struct zr_instance *it, struct zr_setup *setup,
			  const struct zr_section *sec, int64_t resumed, struct zr_error *err)
{
	int rc = zr_instance_create(it, &setup->process, sec, "zr.monitor/1",
				    offsetof(struct zr_monitor_v1, flush), err);
	const struct zr_monitor_v1 *v = it->vtbl;
	if (rc || resumed < 0 || !ZR_HAS(v, struct zr_monitor_v1, resume) || !v->resume)
		return rc;
	rc = zr_instance_failed(it, v->resume(it->inst, resumed), "resume", err);
	if (rc)
		zr_instance_destroy(it);
	return rc;
}

static int create_monitors(struct zr_metrics *m, struct zr_setup *setup, int64_t resumed,
			   struct zr_error *err)
{
	struct zr_facts facts = { .size = sizeof facts,
				  .world = setup->process.world,
				  .steps = (int64_t)setup->train->steps,
				  .lr = setup->param_group[0].lr };
	for (int i = 0; i < zr_config_count(setup->cfg); i++) {
		const struct zr_section *sec = zr_config_at(setup->cfg, i);
		if (!sec->role || strcmp(sec->role, "monitor"))
			continue;
		if (m->n == MONITORS)
			return zr_err(err, ZR_EINVAL, "[%s] is one monitor too many: %d at most",
				      sec->name, MONITORS);
		int rc = zr_config_resolve(setup->cfg, sec->name, &facts, err);
		if (!rc)
			rc = create_monitor(&m->monitor[m->n], setup, sec, resumed, err);
		if (rc)
			return rc;
		m->n++;
	}
	return 0;
}

int zr_metrics_open(struct zr_setup *setup, int64_t resumed, struct zr_metrics **out,
		    struct zr_error *err)
{
	struct zr_metrics *m = calloc(1, sizeof *m);
	if (!m)
		return zr_err(err, ZR_ENOMEM, "out of memory");
	pthread_mutex_init(&m->lock, NULL);
	pthread_cond_init(&m->changed, NULL);
	int rc = create_monitors(m, setup, resumed, err);
	sigset_t all, old; /* signals are handled by the control thread */
	sigfillset(&all);
	sigdelset(&all, ZR_SIGNAL_STACKS);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	int no = rc ? 0 : pthread_create(&m->thread, NULL, thread_main, m);
	if (no)
		rc = zr_err(err, ZR_ENOMEM, "cannot start the monitor thread: %s: too little "
			    "memory, or too many threads", strerror(no));
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	m->running = !rc;
	if (rc)
		zr_metrics_close(m);
	else
		*out = m;
	return rc;
}

void zr_metrics_push(struct zr_metrics *m, int64_t step, const struct zr_metric *metric, uint32_t n)
{
	pthread_mutex_lock(&m->lock);
	while (m->head - m->tail == RING)
		pthread_cond_wait(&m->changed, &m->lock);
	struct record *r = &m->ring[m->head % RING];
	r->step = step;
	r->n = n < ZR_METRICS_PER_STEP ? n : ZR_METRICS_PER_STEP;
	memcpy(r->metric, metric, r->n * sizeof *metric);
	m->head++;
	pthread_cond_broadcast(&m->changed);
	pthread_mutex_unlock(&m->lock);
}

void zr_metrics_wait(struct zr_metrics *m)
{
	pthread_mutex_lock(&m->lock);
	while (m->tail != m->head)
		pthread_cond_wait(&m->changed, &m->lock);
	m->flush = 1;
	pthread_cond_broadcast(&m->changed);
	pthread_mutex_unlock(&m->lock);
}

void zr_metrics_close(struct zr_metrics *m)
{
	if (!m)
		return;
	if (m->running) {
		pthread_mutex_lock(&m->lock);
		m->close = 1;
		pthread_cond_broadcast(&m->changed);
		pthread_mutex_unlock(&m->lock);
		pthread_join(m->thread, NULL);
	}
	for (int i = 0; i < m->n; i++)
		zr_instance_destroy(&m->monitor[i]);
	pthread_cond_destroy(&m->changed);
	pthread_mutex_destroy(&m->lock);
	free(m);
}
