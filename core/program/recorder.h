/* SPDX-License-Identifier: Apache-2.0
 *
 * recorder.h - what record.c, which walks, and verbs.c, which writes down what a stage answers,
 * share.
 */
#ifndef ZR_CORE_RECORDER_H
#define ZR_CORE_RECORDER_H

#include "core/setup.h"

enum { NOT_YET, COMPLETE, REDUCED }; /* a unit's gradient in a micro program */
enum { OLD, UPDATED, PUBLISHED };    /* a unit's values in the last_micro and the update program */

struct recorder {
	struct zr_setup *setup;
	const struct zr_setup_facts *f; /* of the setup */
	struct zr_program *p;
	const struct zr_schedule *uses;
	struct zr_stage stage;
	struct zr_error *err;
	struct zr_point at; /* where the stage is asked now */
	int32_t *all;       /* [n_units] their numbers. One allocation for these lists, */
	int32_t *some;      /* [n_units] scratch of verbs */
	int32_t *left;      /* [n_units] what the update program is to update */
	int32_t *together;  /* [n_units] scratch: experts of a layer */
	/* [n_units] number of the gather that is not waited for yet, -1: none */
	int32_t *gather;
	uint8_t *gathered; /* [n_units] its gathered copy is there, or on its way; one for */
	uint8_t *state;    /* [n_units] of its gradient; */
	uint8_t *values;   /* [n_units] */
	/* [2 n_layers] of experts that ranks divide, and of what is beside them: how many are
	 * gathered, and reduced; whether the gather of all was written down. One allocation with
	 * `all`. */
	int32_t *experts_gathered, *experts_reduced, *experts_there;
	int64_t live;     /* elements of the copies that are gathered */
	int32_t reducing; /* outstanding reduce, -1: none */
	int32_t move;     /* next one of the activations */
	int32_t first;    /* operations before it are not under way */
};

/* Fills r->stage: facts, verbs and queries. */
void zr_rec_offer(struct recorder *r);

/* written.c. The stage; "before the forward of h.0 in program micro" into buf, which it returns. */
const char *zr_rec_stage(const struct recorder *r);
const char *zr_rec_point(const struct recorder *r, char *buf, size_t n);
/* with the point and the unit */
int zr_rec_refuse(struct recorder *r, const char *what, int32_t unit);
/* refuses what is not right, unless *rc says that something is wrong already */
void zr_rec_must(struct recorder *r, int *rc, int right, const char *what, int32_t unit);
int zr_rec_emit(struct recorder *r, struct zr_pop op, const int32_t *units, int32_t n);

/* Waits: for an operation; for what gathers a unit, and for the outstanding reduce, if there is
 * one. */
int zr_rec_wait(struct recorder *r, int32_t target);
int zr_rec_wait_gather(struct recorder *r, int32_t unit);
int zr_rec_wait_reduce(struct recorder *r);

/* homes.c: experts that ranks divide move together, all of a layer. Notes that a stage gathers,
 * drops or reduces one, and writes down what all of its layer are then ready for. */
int zr_rec_gather_expert(struct recorder *r, int32_t unit);
void zr_rec_drop_expert(struct recorder *r, int32_t unit);
int zr_rec_reduce_expert(struct recorder *r, int32_t unit);
int zr_rec_is_reduced(const struct recorder *r, int32_t unit); /* as far as others let it */

/* Bytes that this rank receives by the gather of a unit; by its reduce. */
uint64_t zr_gathered_bytes(const struct zr_setup_facts *f, int32_t unit);
uint64_t zr_reduced_bytes(const struct recorder *r, int32_t unit);

/* Bytes that this rank receives when a unit is published. */
uint64_t zr_published_bytes(const struct zr_setup_facts *f, int32_t unit);

/* The next operation under way from operation i on, r->p->n: none. */
int32_t zr_rec_under_way(struct recorder *r, int32_t i);

/* All operations of a kind that are under way take their next hop. Activations that have none left
 * are waited for; parameters when a layer needs them. */
int zr_rec_advance(struct recorder *r, int32_t kind);

#endif
