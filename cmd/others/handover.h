/* SPDX-License-Identifier: Apache-2.0
 *
 * handover.h - a checkpoint of ours as other programs go on from it: tensors with the names that
 * transformers gives them, parameter groups with the options of torch's optimizers, and values in
 * fp32, whatever number of ranks wrote them and whatever type the states have. What has no meaning
 * there is refused by name. [main]
 */
#ifndef ZR_CMD_HANDOVER_H
#define ZR_CMD_HANDOVER_H

#include "files/torch/pickler.h"
#include "train/weights/origin.h"

#define ZR_HANDOVER_GROUPS 64

/* Optimizers that torch has, too. */
enum zr_given_kind { ZR_GIVEN_ADAMW, ZR_GIVEN_ADAM, ZR_GIVEN_SGD };

/* A parameter group. */
struct zr_given_group {
	int32_t number; /* of the setup's parameter group */
	enum zr_given_kind kind;
	double lr, next; /* its own, before the schedule; and that of the next update */
	double betas[2], eps, weight_decay;
	double momentum, dampening;
	int nesterov;
};

struct zr_handover {
	struct zr_origin origin;
	const struct zr_manifest *m; /* of origin */
	struct zr_config *cfg;
	struct zr_setup *setup; /* declared */
	int32_t n;              /* tensors */
	char **name;            /* [n] as transformers calls them */
	int32_t *group;         /* [n] of `given`; -1: it is frozen */
	struct zr_given_group given[ZR_HANDOVER_GROUPS];
	int32_t groups;
	char *head; /* another name of tensor number `embedding`; NULL: none */
	int32_t embedding;
	float *x;           /* ZR_HANDOVER_CHUNK values */
	uint64_t done, all; /* bytes that were read, and that will be: for who waits */
	int percent;
};

#define ZR_HANDOVER_CHUNK (1 << 18)

/* Opens the checkpoint at a path. It is closed after a failure, too. */
int zr_handover_open(const char *path, struct zr_handover *h, struct zr_error *err);
void zr_handover_close(struct zr_handover *h); /* a zeroed one is fine */

/* handover_groups.c: fills group and given. */
int zr_handover_find_groups(struct zr_handover *h, struct zr_error *err);

/* States of a tensor, and the name of one, as torch calls it. */
int32_t zr_handover_states(const struct zr_handover *h, int32_t tensor);
const char *zr_handover_state(const struct zr_handover *h, int32_t tensor, int32_t state);

/* Calls fn for all elements of a tensor's state or, with -1, of its weight, in order. */
typedef void zr_given_fn(void *arg, const float *x, int64_t n);
int zr_handover_give(struct zr_handover *h, int32_t tensor, int32_t state, zr_given_fn *fn,
		     void *arg, struct zr_error *err);

/* The loss scale of fp16; NULL: there is none. */
const struct zr_scale *zr_handover_scale(const struct zr_handover *h);

/* For formats that have no place for it. */
int zr_handover_check_scale(const struct zr_handover *h, struct zr_error *err);

/* What is written, where. */
struct zr_handover_how {
	const char *to; /* "universal", "dcp" or "dcp-safetensors" */
	const char *checkpoint, *dir;
	uint64_t shard_bytes;
};

/* Writes a checkpoint to a new directory, as one of the formats, and says so. */
int zr_handover_write(const struct zr_handover_how *how, struct zr_error *err);

/* ---- formats: write to the directory `dir`, which is there and empty ---- */

int zr_give_universal(struct zr_handover *h, const char *dir, const struct zr_handover_how *how,
		      struct zr_error *err);
int zr_give_dcp(struct zr_handover *h, const char *dir, const struct zr_handover_how *how,
		struct zr_error *err);
int zr_give_parts(struct zr_handover *h, const char *dir, const struct zr_handover_how *how,
		  struct zr_error *err);

#endif
