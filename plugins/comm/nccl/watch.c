/* SPDX-License-Identifier: Apache-2.0
 *
 * watch.c - the thread that looks after outstanding operations: the training thread may be blocked
 * in CUDA, waiting for a kernel that waits for a rank which will never come. Boot may know that the
 * rank is gone; else time runs out. Aborting the communicators ends that kernel.
 */
#define _GNU_SOURCE
#include "nccl.h"

#include <signal.h>
#include <time.h>

#define HEAR_TURNS 5 /* of the watch between two questions to boot */

static void look_at(struct zr_inst *c, ncclComm_t comm)
{
	if (!comm || c->broken)
		return;

	ncclResult_t e = ncclSuccess, asked = ncclCommGetAsyncError(comm, &e);
	if (asked != ncclSuccess)
		e = asked;
	nn_nccl(c, comm, e, "NCCL, while operations were under way");
}

/* Who waits for what is in host memory looks at the time itself. */
static void look(struct zr_inst *c)
{
	char text[200];

	for (int g = 0; g < NN_GROUPS; g++) {
		look_at(c, c->group[g].comm);
		if (c->group[g].talk)
			look_at(c, c->group[g].talk->comm);
	}

	for (int i = 0; i < NN_WINDOW && !c->broken; i++) {
		const struct nn_pend *p = &c->pend[i];
		if (!p->used || p->on_host || nn_now() - p->since <= c->o->timeout)
			continue;
		nn_op_text(p, text, sizeof text);
		cudaError_t over = cudaEventQuery(p->over);
		if (over != cudaErrorNotReady) {
			nn_cuda(c, over, text);
			continue;
		}
		nn_stop(c, ZR_EPEER,
			"rank %d, GPU %d: %s is not over after %g s: another rank does not take "
			"part, or the GPU is stuck",
			c->rank, c->gpu, text, c->o->timeout);
	}
}

static void *watch(void *arg)
{
	const struct timespec nap = { 0, 100000000 };
	struct zr_inst *c = arg;
	int leaving = 0, turns = 0;
	pthread_mutex_lock(&c->lock);
	nn_cuda(c, cudaSetDevice(c->gpu), "cudaSetDevice");
	pthread_mutex_unlock(&c->lock);
	while (!leaving) {
		nanosleep(&nap, NULL);
		pthread_mutex_lock(&c->lock);
		leaving = c->leaving;
		if (!leaving && !c->broken)
			look(c);
		if (!leaving && turns++ % HEAR_TURNS == 0)
			nn_ask_boot(c);
		pthread_mutex_unlock(&c->lock);
	}

	return NULL;
}

/* Signals are for the threads of core. */
int nn_watch_start(struct zr_inst *c)
{
	static const int own[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT }; /* of a crash */
	sigset_t all, before;
	sigfillset(&all);
	for (size_t i = 0; i < sizeof own / sizeof *own; i++)
		sigdelset(&all, own[i]);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	c->watched = !pthread_create(&c->watch, NULL, watch, c);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (!c->watched)
		return zr_fail(c->h, ZR_ENOMEM, "no thread to watch NCCL");
	return ZR_OK;
}

void nn_watch_end(struct zr_inst *c)
{
	if (!c->watched)
		return;
	pthread_mutex_lock(&c->lock);
	c->leaving = 1;
	pthread_mutex_unlock(&c->lock);
	pthread_join(c->watch, NULL);
	c->watched = 0;
}
