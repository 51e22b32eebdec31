/* SPDX-License-Identifier: Apache-2.0
 *
 * handover.c - where the thread of a rank answers that of the program, and waits for its next
 * command.
 */
#include "embed/engine.h"

_Thread_local struct rank *rank_here;

void rank_answer(struct rank *r, const struct zr_error *err)
{
	struct zeroth *e = r->engine;

	pthread_mutex_lock(&e->lock);
	r->err = *err;
	r->busy = 0;
	pthread_cond_broadcast(&e->answered);
	pthread_mutex_unlock(&e->lock);
}

enum command rank_next(struct rank *r)
{
	struct zeroth *e = r->engine;

	pthread_mutex_lock(&e->lock);
	while (!r->asked)
		pthread_cond_wait(&e->asked, &e->lock);
	enum command c = r->asked;
	r->asked = CMD_NONE;
	pthread_mutex_unlock(&e->lock);
	return c;
}

int rank_take_batch(struct rank *r)
{
	static const struct zr_error none = { 0 };

	if (!r->fresh) {
		rank_answer(r, &none); /* of backward */
		r->ending = rank_next(r) == CMD_END;
	}

	r->fresh = 0;
	r->batch = r->given;
	return r->ending ? ZR_ESTATE : 0;
}

int rank_forward_done(struct rank *r, double loss)
{
	static const struct zr_error none = { 0 };

	if (!r->parts)
		return 0;

	r->loss = loss;
	rank_answer(r, &none);
	r->ending = rank_next(r) == CMD_END;
	return r->ending ? ZR_ESTATE : 0;
}

int rank_offer(struct rank *r, int kind, const struct zeroth_call *call)
{
	struct zeroth *e = r->engine;
	int rc = ZR_ESTATE;

	pthread_mutex_lock(&e->lock);
	r->offer = (struct offer){ .kind = kind, .call = *call, .at = OFFER_THERE };
	pthread_cond_broadcast(&e->answered);
	while (r->offer.at != OFFER_GIVEN && r->asked != CMD_END)
		pthread_cond_wait(&e->asked, &e->lock);
	if (r->offer.at == OFFER_GIVEN)
		rc = r->offer.code;
	else
		r->ending = 1;
	r->offer.at = OFFER_NONE;
	pthread_mutex_unlock(&e->lock);
	return rc;
}
