/* SPDX-License-Identifier: Apache-2.0
 *
 * outside.c - a model that threads of the program compute: see zeroth_begin(). They take each layer
 * that the thread of a rank offers, and give it back.
 */
#include <string.h>
#include <zeroth/device.h>

#include "embed/engine.h"

/* What ends the engine is the first failure, or the first that is not about another rank. */
static void note_failure(struct zeroth *e, const struct rank *r)
{
	if (r->busy || !r->err.code)
		return;
	if (e->broken && (e->broken != ZR_EPEER || r->err.code == ZR_EPEER))
		return;

	e->broken = r->err.code;
	memcpy(e->cause, r->err.text, sizeof e->cause);
}

/* *r = the rank that a call is for, if it may come: the engine is open and well. Where it returns 0
 * the engine's lock is held, and leave() gives it back. */
static int enter(struct zeroth *e, int rank, const char *what, struct rank **r)
{
	int rc = engine_enter(e, what);
	if (rc)
		return rc;
	if (!e->open || !engine_is_outside(e))
		return engine_fail_here(e, ZR_ESTATE,
					"%s is for an open engine whose model has flags "
					"ZEROTH_MODEL_OUTSIDE",
					what);
	if (rank < 0 || rank >= e->n)
		return engine_fail_here(e, ZR_EINVAL, "%s: rank is %d; this process has %d, from 0",
					what, rank, e->n);

	pthread_mutex_lock(&e->lock);
	*r = &e->rank[rank];
	if (!e->broken)
		return 0;

	note_failure(e, *r);
	pthread_mutex_unlock(&e->lock);
	return engine_fail_here(e, e->broken, "%s", e->cause);
}

static int leave(struct zeroth *e, int rc)
{
	pthread_mutex_unlock(&e->lock);
	return rc;
}

/* Whether a micro-batch of the training can begin now. */
static int may_train(struct zeroth *e, const struct rank *r)
{
	const struct zr_setup_facts *f = &r->t.setup->facts;
	const int64_t all = (int64_t)f->train->steps;

	if (r->micros == f->batch.accumulation)
		return engine_fail_here(e, ZR_ESTATE,
					"zeroth_begin: the %lld micro-batches of the step are "
					"done: zeroth_step is missing",
					(long long)r->micros);
	if (r->t.session->step >= all)
		return engine_fail_here(e, ZR_ESTATE, "all %lld steps of [train] steps are done",
					(long long)all);
	return 0;
}

static int may_begin(struct zeroth *e, const struct rank *r, int training)
{
	if (r->within)
		return engine_fail_here(e, ZR_ESTATE,
					"zeroth_begin: rank %d is within a micro-batch: "
					"zeroth_take until it returns ZEROTH_DONE",
					r->number);
	if (training)
		return may_train(e, r);
	if (r->micros)
		return engine_fail_here(e, ZR_ESTATE,
					"zeroth_begin: a micro-batch without training comes "
					"between steps: zeroth_step is missing");
	return 0;
}

int zeroth_begin(struct zeroth *e, int rank, int training)
{
	struct rank *r;

	int rc = enter(e, rank, "zeroth_begin", &r);
	if (rc)
		return rc;

	rc = may_begin(e, r, training);
	if (rc)
		return leave(e, rc);

	r->given = NULL;
	r->training = training != 0;
	r->fresh = r->within = r->busy = 1;
	r->harmless = 0;
	r->asked = training ? CMD_FORWARD : CMD_INFER;
	pthread_cond_broadcast(&e->asked);
	return leave(e, 0);
}

/* The micro-batch is over. */
static int finish(struct zeroth *e, struct rank *r)
{
	if (!r->err.code) {
		r->micros += r->training;
		r->within = 0;
		return ZEROTH_DONE;
	}

	note_failure(e, r);
	return engine_fail_here(e, r->err.code, "%s", r->err.text);
}

/* Copies the layer to the caller's struct, which may be shorter or longer. */
static int hand_out(struct offer *o, struct zeroth_call *to)
{
	const size_t size = to->size < sizeof *to ? to->size : sizeof *to;

	memcpy((char *)to + sizeof to->size, (char *)&o->call + sizeof to->size,
	       size - sizeof to->size);
	o->at = OFFER_TAKEN;
	return o->kind;
}

int zeroth_take(struct zeroth *e, int rank, struct zeroth_call *call)
{
	struct rank *r;

	if (!call)
		return engine_given(e, 0, "zeroth_take: call");

	int rc = ENGINE_SIZED(e, call, struct zeroth_call, right, "zeroth_take: call");
	if (!rc)
		rc = enter(e, rank, "zeroth_take", &r);
	if (rc)
		return rc;
	if (!r->within)
		return leave(e, engine_fail_here(e, ZR_ESTATE,
						 "zeroth_take comes after zeroth_begin"));
	if (r->offer.at == OFFER_TAKEN)
		return leave(e, engine_fail_here(e, ZR_ESTATE,
						 "zeroth_take: zeroth_give of layer %d is missing",
						 r->offer.call.layer));

	while (r->busy && r->offer.at != OFFER_THERE)
		pthread_cond_wait(&e->answered, &e->lock);
	if (!r->busy)
		return leave(e, finish(e, r));
	return leave(e, hand_out(&r->offer, call));
}

int zeroth_give(struct zeroth *e, int rank, int code)
{
	struct rank *r;

	int rc = enter(e, rank, "zeroth_give", &r);
	if (rc)
		return rc;
	if (r->offer.at != OFFER_TAKEN)
		return leave(e,
			     engine_fail_here(e, ZR_ESTATE, "zeroth_give comes after zeroth_take"));

	r->offer.code = code;
	r->offer.at = OFFER_GIVEN;
	pthread_cond_broadcast(&e->asked);
	return leave(e, 0);
}

static void *stream_of(const struct rank *r)
{
	const struct zr_instance *device = &r->t.setup->roles.device;
	const struct zr_device_v1 *v = device->vtbl;

	if (!ZR_HAS(v, struct zr_device_v1, native_stream) || !v->native_stream)
		return NULL;
	return v->native_stream(device->inst, NULL);
}

int zeroth_stream(struct zeroth *e, int rank, void **stream)
{
	struct rank *r;

	if (!stream)
		return engine_given(e, 0, "zeroth_stream: stream");

	int rc = enter(e, rank, "zeroth_stream", &r);
	if (rc)
		return rc;

	*stream = stream_of(r);
	return leave(e, 0);
}
