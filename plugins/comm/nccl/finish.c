/* SPDX-License-Identifier: Apache-2.0
 *
 * finish.c - waiting: for calls of NCCL to have begun their work, and in general.
 */
#define _GNU_SOURCE
#include "nccl.h"

#include <time.h>

#define SPIN 50e-6 /* seconds of a wait without sleeping */
#define PART 0.03  /* of what was waited */
#define NAP  1e-3  /* the longest sleep */

void nn_doze(struct zr_inst *c, double waited)
{
	double nap = waited * PART;
	if (waited < SPIN)
		return;
	if (nap > NAP)
		nap = NAP;

	const struct timespec t = { 0, (long)(nap * 1e9) };
	pthread_mutex_unlock(&c->lock);
	nanosleep(&t, NULL);
	pthread_mutex_lock(&c->lock);
}

/* The communicator says whether a call is under way, not what the call returned: ncclCommSplit
 * returns success at once. */
int nn_finish(struct zr_inst *c, ncclComm_t comm, ncclResult_t e, const char *call)
{
	double since = nn_now(), waited = 0;
	if (e == ncclSuccess)
		e = ncclInProgress;
	for (; e == ncclInProgress && !c->broken; nn_doze(c, waited)) {
		ncclResult_t asked = ncclCommGetAsyncError(comm, &e);
		if (asked != ncclSuccess)
			e = asked;
		if (e != ncclInProgress)
			break;

		waited = nn_now() - since;
		if (waited > c->o->timeout)
			return nn_stop(c, ZR_EPEER,
				       "rank %d, GPU %d, %s: other ranks did not come in %g s",
				       c->rank, c->gpu, call, c->o->timeout);

		int rc = nn_hear(c, waited);
		if (rc)
			return rc;
	}

	if (c->broken)
		return nn_stopped(c);
	return nn_nccl(c, comm, e, call);
}

int nn_is_noted(ncclResult_t e)
{
	return e == ncclSuccess || e == ncclInProgress;
}

/* e: what the calls of the group came to. */
int nn_end_group(struct zr_inst *c, ncclComm_t comm, ncclResult_t e)
{
	ncclResult_t end = ncclGroupEnd();
	if (nn_is_noted(e))
		e = end;
	return nn_finish(c, comm, e, "ncclGroupEnd");
}
