/* SPDX-License-Identifier: Apache-2.0
 *
 * lend.c - memory of the GPU that NCCL is told of beforehand: what core lends, and the scratch for
 * sums. NCCL then moves bytes from where they lie to where they go, where links allow it, without
 * copies to buffers of its own and back.
 */
#define _GNU_SOURCE
#include "nccl.h"

#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 19, 0)
static void warn(struct zr_inst *c, const char *call, uint64_t bytes, ncclComm_t comm,
		 ncclResult_t e)
{
	zr_log(c->h, ZR_LOG_WARN,
	       "rank %d, GPU %d, %s of %llu bytes: %s; %s: NCCL copies what it moves of them",
	       c->rank, c->gpu, call, (unsigned long long)bytes, ncclGetErrorString(e),
	       ncclGetLastError(comm));
}

/* That NCCL does not take it is no failure. */
static int add(struct zr_inst *c, struct nn_range *r, int group)
{
	ncclComm_t comm = c->group[group].comm;
	ncclResult_t e = ncclCommRegister(comm, r->base, r->bytes, &r->handle[group]);
	if (e == ncclInProgress)
		return nn_finish(c, comm, e, "ncclCommRegister");
	if (e == ncclSuccess)
		return ZR_OK;

	r->handle[group] = NULL;
	warn(c, "ncclCommRegister", r->bytes, comm, e);
	return ZR_OK;
}

/* Communicators that were aborted have forgotten it. */
static void drop(struct zr_inst *c, struct nn_range *r, int group)
{
	ncclComm_t comm = c->group[group].comm;
	if (!r->handle[group] || c->broken)
		return;

	ncclResult_t e = ncclCommDeregister(comm, r->handle[group]);
	if (e != ncclSuccess && e != ncclInProgress)
		warn(c, "ncclCommDeregister", r->bytes, comm, e);
}
#else
static int add(struct zr_inst *c, struct nn_range *r, int group)
{
	(void)c;
	(void)r;
	(void)group;
	return ZR_OK;
}

static void drop(struct zr_inst *c, struct nn_range *r, int group)
{
	(void)c;
	(void)r;
	(void)group;
}
#endif

/* Groups may share the world's communicator. */
static int has_own_comm(const struct zr_inst *c, int group)
{
	ncclComm_t comm = c->group[group].comm;
	return comm && (group == ZR_GROUP_WORLD || comm != c->group[ZR_GROUP_WORLD].comm);
}

int nn_range_add(struct zr_inst *c, int which, void *base, uint64_t bytes)
{
	int rc = ZR_OK;
	c->range[which] = (struct nn_range){ .base = base, .bytes = bytes };

	for (int k = 0; !rc && k < NN_GROUPS; k++)
		if (has_own_comm(c, k))
			rc = add(c, &c->range[which], k);
	return rc;
}

int nn_ranges_join(struct zr_inst *c, int group)
{
	int rc = ZR_OK;

	for (int i = 0; !rc && i < NN_RANGES; i++)
		if (c->range[i].base)
			rc = add(c, &c->range[i], group);
	return rc;
}

void nn_range_drop(struct zr_inst *c, int which)
{
	for (int k = 0; k < NN_GROUPS; k++)
		drop(c, &c->range[which], k);
	c->range[which] = (struct nn_range){ .base = NULL };
}

/* ---- the role -------------------------------------------------------------------- */

int nn_lend(struct zr_inst *c, void *base, uint64_t bytes)
{
	int rc = ZR_OK;
	if (c->world == 1)
		return rc;

	pthread_mutex_lock(&c->lock);
	rc = nn_enter(c);
	if (!rc && c->range[NN_LENT].base)
		rc = zr_fail(c->h, ZR_ESTATE, "memory is lent already");
	if (!rc)
		rc = nn_range_add(c, NN_LENT, base, bytes);
	pthread_mutex_unlock(&c->lock);
	return rc;
}

/* An operation that was waited for may still be on the stream. */
void nn_take_back(struct zr_inst *c, void *base)
{
	if (c->world == 1 || c->range[NN_LENT].base != base)
		return;

	cudaError_t e =
		cudaStreamSynchronize(c->stream); /* without the lock: the watch may end it */
	pthread_mutex_lock(&c->lock);
	nn_gave_back(c, e, "cudaStreamSynchronize");
	nn_range_drop(c, NN_LENT);
	pthread_mutex_unlock(&c->lock);
}
