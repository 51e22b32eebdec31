/* SPDX-License-Identifier: Apache-2.0
 *
 * others.h - a checkpoint that another program wrote, as one list of tensors: where in which files
 * the values of each lie, of the weight and of each state of its optimizer, and the few numbers
 * that a training goes on with. Nothing in the files is trusted; messages name file and tensor.
 * Only what says where values lie is read before they are asked for. [main]
 */
#ifndef ZR_CMD_OTHERS_H
#define ZR_CMD_OTHERS_H

#include <limits.h>

#include "core/session.h"
#include "files/torch/torch.h"

/* The weight in fp32, as ZR_CKPT_MASTER: beside the names of states. */
#define ZR_OTHER_MASTER "master"
#define ZR_OTHER_DATA   4 /* the weight, and so many states at most but one */
#define ZR_OTHER_DIMS   8

/* Elements [first, first + n) of a tensor, which lie in a row in a file. */
struct zr_other_piece {
	int32_t file, dtype; /* ZR_F32, ZR_BF16 or ZR_F16 */
	uint64_t at;
	int64_t first, n;
};

struct zr_other_datum {
	const char *name; /* ZR_OTHER_MASTER or that of a state; static */
	struct zr_other_piece *piece;
	int64_t n, room;
};

struct zr_other_tensor {
	char *name;
	int32_t ndim;
	int64_t dims[ZR_OTHER_DIMS];
	int64_t elements;
	int32_t group; /* of `group` below */
	struct zr_other_datum datum[ZR_OTHER_DATA];
	int32_t n;
};

/* What the other program says of a parameter group: NAN, or -1: it does not say. */
struct zr_other_group {
	double lr, betas[2], eps, weight_decay, momentum;
	int decoupled; /* whether the decay is AdamW's */
};
#define ZR_OTHER_GROUPS 64

struct zr_others {
	const char *format; /* "Hugging Face's Trainer" */
	int weights_only;   /* set before it is opened: nothing but the weights is wanted */
	char path[PATH_MAX];
	char **file; /* paths; one of them is open at a time */
	int32_t n_files;
	int32_t opened; /* number of that one, and one more; 0: none is */
	int fd;         /* its own */
	struct zr_other_tensor *tensor;
	int64_t n;
	/* tensors without a weight of their own have it there; NULL: none */
	struct zr_tensor_files *weights;
	struct zr_other_group group[ZR_OTHER_GROUPS];
	int32_t groups;
	int64_t step, applied; /* as in struct zr_session */
	int scaled;            /* scale is known */
	struct zr_scale scale;
	/* the rule of the scale, as options of [precision] fp16; 0: not told */
	int64_t window, hysteresis;
	double floor;
};

/* Opens what is at a path: the formats that are known are named where it is none of them. setup:
 * what will be trained. On failure there is nothing to close. */
int zr_others_open(const char *path, int weights_only, struct zr_setup *setup,
		   struct zr_others *out, struct zr_error *err);
void zr_others_close(struct zr_others *o); /* a zeroed one is fine */

/* The tensor that a name of a layout means, also with the model's prefix before it. NULL: none. */
struct zr_other_tensor *zr_other_find(const struct zr_others *o, const struct zr_setup *setup,
				      const char *name);
/* NULL: it has none of that name. */
const struct zr_other_datum *zr_other_datum(const struct zr_other_tensor *t, const char *name);
/* Elements [first, first + n) in fp32. */
int zr_other_read(struct zr_others *o, const struct zr_other_tensor *t,
		  const struct zr_other_datum *d, int64_t first, int64_t n, float *x,
		  struct zr_error *err);

/* check.c: whether a training as the setup says can go on as the other would have. */
int zr_others_check(struct zr_others *o, struct zr_setup *setup, struct zr_error *err);
/* A number or a truth value of a section; NAN: it has no such option. i: of several. */
double zr_section_number(const struct zr_section *s, const char *name, int i);
/* The learning rate that a parameter group has in the update behind so many. */
int zr_other_next_rate(struct zr_setup *setup, int32_t group, int64_t applied, double *lr,
		       struct zr_error *err);
/* take.c: all of it into a session that was just opened. */
int zr_others_take(struct zr_others *o, struct zr_session *s, struct zr_error *err);

/* ---- for formats ---- */

/* The number of a file; below 0: it failed. */
int32_t zr_other_file(struct zr_others *o, const char *path, struct zr_error *err);
/* Adds a tensor, whose name is copied. NULL: it failed. Pointers to others are not valid then. */
struct zr_other_tensor *zr_other_add(struct zr_others *o, const char *name, int32_t ndim,
				     const int64_t *dims, struct zr_error *err);
/* Adds where elements of a tensor's datum are. name: static. */
int zr_other_put(struct zr_others *o, struct zr_other_tensor *t, const char *name,
		 struct zr_other_piece p, struct zr_error *err);
/* Whether all elements of all data are there once. */
int zr_others_whole(struct zr_others *o, struct zr_error *err);
/* The states that optimizers have, as torch calls them; ends with NULL. */
extern const char *const zr_other_states[];
/* The name of one of them; NULL: an unknown one. Static. */
const char *zr_other_state(const char *name);
/* The same, or ZR_OTHER_MASTER. */
const char *zr_other_datum_name(const char *name);
/* A torch.Size. 0: it is none that a tensor can have. */
int zr_other_sizes(const struct zr_py *size, int32_t *ndim, int64_t dims[ZR_OTHER_DIMS]);
int zr_others_missing(const struct zr_others *o, const char *what, struct zr_error *err);
/* Group k from a dictionary of param_groups. */
int zr_other_group(struct zr_others *o, const struct zr_torch *t, const struct zr_py *group,
		   struct zr_error *err);

/* A group of which nothing is known; and a value of param_groups that goes to it. */
struct zr_other_group zr_other_no_group(void);
int zr_other_take(struct zr_other_group *g, const struct zr_torch *t, const char *key,
		  const struct zr_py *x, struct zr_error *err);

/* PATH/name of what is imported; a path that is too long is cut, and so is not found. */
const char *zr_other_path(const struct zr_others *o, const char *name, char path[PATH_MAX]);
/* Whether it is there. */
int zr_other_has(const struct zr_others *o, const char *name);

/* The tensor of that name, as the format spells it. NULL: there is none. */
struct zr_other_tensor *zr_other_named(const struct zr_others *o, const char *name);
/* Adds elements [from, from + n) of a tensor of a file as elements [first, first + n) of a datum:
 * `what` is its name there. */
int zr_other_put_flat(struct zr_others *o, struct zr_other_tensor *t, const char *what,
		      const struct zr_torch *file, const struct zr_py *flat, int64_t from,
		      int64_t first, int64_t n, struct zr_error *err);
/* Where in its tensor a part lies. */
struct zr_other_box {
	int32_t ndim;
	int64_t offset[ZR_OTHER_DIMS], dims[ZR_OTHER_DIMS];
};
/* The same of a part whose elements begin at p.at. */
int zr_other_put_box(struct zr_others *o, struct zr_other_tensor *t, const char *name,
		     struct zr_other_piece p, const struct zr_other_box *b, struct zr_error *err);
/* Another size of a tensor, of which nothing is there yet. */
int zr_other_resize(const struct zr_others *o, struct zr_other_tensor *t, int32_t ndim,
		    const int64_t *dims, struct zr_error *err);
/* The loss scale that a loss scaler of DeepSpeed has; NULL: there is none. */
int zr_other_scale(struct zr_others *o, const struct zr_torch *file, const struct zr_py *scaler,
		   struct zr_error *err);
/* Files of DeepSpeed's model states, of rank 0: where it has all of each weight, and in stage 3. */
#define ZR_OTHER_MODEL        "mp_rank_00_model_states.pt"
#define ZR_OTHER_MODEL_STAGE3 "zero_pp_rank_0_" ZR_OTHER_MODEL
/* What all of ours have of parameter groups: a list beside what the format has of them. */
#define ZR_OTHER_GIVEN_GROUPS "zeroth_param_groups"
/* Which of both is there. */
const char *zr_other_model(const struct zr_others *o);
/* The steps that DeepSpeed's model states have: global_steps, skipped_steps. */
int zr_other_steps(struct zr_others *o, const struct zr_torch *model, struct zr_error *err);
/* The tensors that they have: param_shapes, a dictionary of names and sizes for each group. */
int zr_other_shapes(struct zr_others *o, const struct zr_torch *model, struct zr_error *err);
/* Whether a count of updates is the one that zr_other_steps read. */
int zr_other_check_step(const struct zr_others *o, const struct zr_torch *file,
			const struct zr_py *step, struct zr_error *err);

/* dcp.c: adds what a directory of torch.distributed.checkpoint has of these. *applied: the updates
 * that its optimizer has counted; -1: it has no states. */
enum { ZR_OTHER_WEIGHTS = 1, ZR_OTHER_STATES = 2 };
int zr_other_dcp(struct zr_others *o, const char *dir, int what, int64_t *applied,
		 struct zr_error *err);

/* parts.c: whether there are parts in safetensors; and reads them. */
int zr_other_has_parts(const struct zr_others *o);
int zr_others_parts(struct zr_others *o, struct zr_error *err);

/* trainer.c, ...: open a path that is of their format. */
int zr_others_trainer(struct zr_others *o, struct zr_setup *setup, struct zr_error *err);
int zr_others_dcp(struct zr_others *o, struct zr_setup *setup, struct zr_error *err);
int zr_others_universal(struct zr_others *o, struct zr_setup *setup, struct zr_error *err);
int zr_others_zero(struct zr_others *o, struct zr_setup *setup, struct zr_error *err);

#endif
