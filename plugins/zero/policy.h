/* SPDX-License-Identifier: Apache-2.0
 *
 * policy.h - what the ZeRO stages share: options, lists of units (buckets), and two policies.
 * policy_at moves gradients and new parameters; split_at also gathers and drops parameters that are
 * split over ranks. A stage adds only its groups: ZERO_STAGE. Elements are counted everywhere,
 * never bytes.
 */
#ifndef ZR_ZERO_POLICY_H
#define ZR_ZERO_POLICY_H

#include <zeroth/zero.h>

#include "plugins/descriptor.h"

struct policy_opts {
	uint64_t reduce_bucket_size, allgather_bucket_size, sub_group_size;
	/* of stages that split parameters, else 0 */
	uint64_t prefetch_bucket_size, max_live_parameters, max_reuse_distance,
		persistence_threshold;
	uint8_t overlap_comm, update_in_backward;
	uint8_t gather_16bit_weights_on_model_save; /* the host's: it looks these up by name */
	uint64_t expert_ranks;
	const char *persistent; /* patterns of names; of stages that split parameters, else NULL */
};

/* The table of struct policy_opts; stages whose parameters stay whole offer only its first
 * entries. */
#define POLICY_WHOLE_OPTS 7
#define POLICY_SPLIT_OPTS 12
extern const struct zr_opt policy_options[POLICY_SPLIT_OPTS];

/* Units of a list at most, as of a mixture of many small experts: each is a segment of a
 * collective, of which comm/local takes 4096. */
#define LIST_UNITS 1024

/* Units that wait to go through one verb together: one list, one collective. */
struct bucket {
	int (*verb)(const struct zr_stage *, const int32_t *, int32_t);
	int32_t *unit; /* [n_units of the model], the instance's */
	int32_t n;
	int64_t elements, limit;
};

void bucket_open(struct bucket *b, int (*verb)(const struct zr_stage *, const int32_t *, int32_t),
		 uint64_t limit);
/* Closes first if the unit does not fit, and at once when full, so that the collective starts
 * early. */
int bucket_add(struct bucket *b, const struct zr_stage *s, int32_t unit);
int bucket_close(struct bucket *b, const struct zr_stage *s);

/* All but h, o and the memory is about the current program: BEGIN resets it. */
struct zr_inst {
	const struct zr_host *h;
	const struct policy_opts *o;
	void *memory;        /* of all arrays: host->alloc */
	int32_t n_units;     /* that they have room for */
	struct bucket grads; /* complete gradients, open until END */
	int32_t *order;      /* units in the order in which their gradients are complete */
	/* the first so many of them: of these lists were closed; before the last closed ones, so
	 * that their reduce was waited for; were updated */
	int32_t complete, reduced, arrived, updated;
	struct bucket list; /* closed before an answer ends */
	uint8_t *whole;     /* per unit: not split */
	uint8_t *full;      /* gathered and not dropped */
	uint8_t *ahead;     /* full for a later use than the current one */
	int64_t elements_ahead;
};

int policy_resolve(const struct zr_host *h, const struct zr_facts *facts, void *opts);
int policy_check(const struct zr_host *h, const void *opts);
int policy_create(const struct zr_host *h, const void *opts, struct zr_inst **out);
void policy_destroy(struct zr_inst *inst);

/* The groups of a stage; a unit that is small or persistent stays whole. */
int policy_groups(const struct zr_inst *inst, const struct zr_groups_of *unit, struct zr_groups of,
		  struct zr_groups *out);

/* Whether one of the patterns fits the name; patterns may be NULL. */
int persistent_names(const char *patterns, const char *name);
/* Fails with a text if one of the patterns fits no unit (I7). */
int persistent_check(const struct zr_host *h, const char *patterns, const struct zr_stage *s);

int policy_at(struct zr_inst *inst, const struct zr_point *p, const struct zr_stage *s);
int split_at(struct zr_inst *inst, const struct zr_point *p, const struct zr_stage *s);

/* All of a stage: id, summary, number of options, the policy that answers points, and the groups of
 * parameters, gradients and state. The last line of its file, as ZR_PLUGIN, which it ends with. */
#define ZERO_STAGE(name, text, options, answer, ...)                                               \
	static int stage_groups(struct zr_inst *inst, const struct zr_groups_of *of,               \
				struct zr_groups *out)                                             \
	{                                                                                          \
		return policy_groups(inst, of, (struct zr_groups){ __VA_ARGS__ }, out);            \
	}                                                                                          \
	static const struct zr_zero_v1 vtbl = { .size = sizeof vtbl,                               \
						.groups = stage_groups,                            \
						.at = answer };                                    \
	PLUGIN_NEED(4, /* names of units */                                                        \
		    zero, name, &vtbl, .version = "1", .summary = text, .opts = policy_options,    \
		    .n_opts = options, .opt_stride = sizeof *policy_options,                       \
		    .opts_size = sizeof(struct policy_opts), .resolve = policy_resolve,            \
		    .check = policy_check, .create = policy_create, .destroy = policy_destroy)

#endif
