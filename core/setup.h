/* SPDX-License-Identifier: Apache-2.0
 *
 * setup.h - from a loaded config to everything that can be known before memory is taken: who the
 * ranks are, the instances of all roles, every `auto` resolved, the batch triple, layout, schedules
 * and sizes. `config check`, `plan`, `train` and `sample` all start here. [main] thread.
 */
#ifndef ZR_CORE_SETUP_H
#define ZR_CORE_SETUP_H

#include <zeroth/activation.h>
#include <zeroth/adapter.h>
#include <zeroth/boot.h>
#include <zeroth/comm.h>
#include <zeroth/data.h>
#include <zeroth/device.h>
#include <zeroth/model.h>
#include <zeroth/monitor.h>
#include <zeroth/offload.h>
#include <zeroth/optimizer.h>
#include <zeroth/precision.h>
#include <zeroth/scheduler.h>
#include <zeroth/zero.h>

#include "core/base/dtype.h"
#include "core/config/batch.h"
#include "core/lower/instr.h"
#include "core/memory/plan.h"
#include "core/model/activation.h"
#include "core/model/homes.h"
#include "core/model/layout.h"
#include "core/model/mesh.h"
#include "core/model/schedule.h"
#include "core/model/slices.h"
#include "core/plugin/host.h"
#include "core/program/program.h"
#include "core/update/optimizers.h"

/* What a setup is for. */
enum zr_mode {
	ZR_MODE_TRAIN,
	ZR_MODE_SAMPLE, /* no data files, no gradients nor optimizer state, a sequence at a time */
	ZR_MODE_EVAL    /* all parameters are frozen, and nothing but evaluation runs */
};

/* Flags. */
#define ZR_SETUP_ALONE   1u /* the first of `world` ranks without the others: plans */
#define ZR_SETUP_CACHED  2u /* when sampling: layers keep what they need of the tokens before */
#define ZR_SETUP_NO_DATA 4u /* with ALONE: no data is looked at */

/* [data], or a section [eval.NAME]. */
struct zr_source {
	const char *name; /* NAME; "": [data] */
	struct zr_instance it;
	struct zr_data_info info;
};

/* What is known of ranks, device, model, types and batch. */
struct zr_setup_facts {
	enum zr_mode mode;
	uint32_t flags; /* ZR_SETUP_* */
	const struct zr_train_opts *train;
	struct zr_process process;
	/* hash of the options that change results: compared over ranks */
	uint64_t settings;
	/* bytes that this process could still take when it opened the setup */
	uint64_t memory;

	struct zr_boot_info ranks;
	struct zr_mesh mesh;
	struct zr_slices slices;
	struct zr_homes homes;
	struct zr_device_info device_info;
	struct zr_device_info host_info; /* of [device.host]; size 0: the device does it */
	/* processors near the device on which this rank's threads stay, as "0-31,64-95"; "": any */
	char near[128];
	int two_comms; /* there is [comm.host]: host_comm moves host memory, comm the other */
	/* comm moves device memory; what is on the host goes through host_comm, if there is one */
	int device_comm;
	int counts; /* all comms exchange with a count for each pair of ranks */
	int peers;  /* ranks can read each other's memory in place */
	/* and map the shares of a unit one after the other: its gather moves nothing */
	int views;
	int small_device; /* it has no room to add up micro-batches, on some rank */
	/* gradients of so many neighbours are added by their node before they go to others; 1:
	 * each rank sends its own */
	int32_t node_sum;

	/* of sections [offload.X], by ZR_STORE_* - ZR_STORE_OPTIMIZER; size 0: there is none */
	struct zr_tier_info tier[ZR_OFFLOADS];

	struct zr_precision_info types; /* comm_dtype: perhaps ZR_MXINT8 */
	int gather_codes;               /* [train] gather_data_type = mxint8, in a training */
	struct zr_batch_shape batch;
	struct zr_model_decl decl;
	void *parts; /* the units and layers of decl */
	struct zr_layout layout;
	/* elements, of what the model declares; decl has parts of it */
	int64_t largest_unit, typical_unit;
	size_t most_tensors;                /* that any layer uses */
	struct zr_layer_bytes *layer_bytes; /* [n_layers] of all that a rank has of a micro-batch */
	struct zr_layer_bytes *slice_bytes; /* [n_layers] of a slice; NULL: nothing is cut */
	struct zr_groups *groups;           /* [n_units] as the stage declares */

	/* [n_tensors] 1: a compute copy and nothing else; 2: and that in type `stored` */
	uint8_t *frozen;
	uint8_t *frozen_unit; /* [n_units] of all its tensors */
	int units_whole;      /* freezing and stored types have cut no unit of the model in two */
	/* ZR_NF4, ...; 0: nothing is stored in another type than it is computed in */
	int32_t stored;
};

/* Instances of plugins, and what they lend. */
struct zr_setup_roles {
	struct zr_instance boot, comm, host_comm, device, model, precision, activation, zero,
		scheduler;
	struct zr_instance adapter; /* in front of the model; none: no inst */
	/* [device.host], for a device whose operations reach its own memory only */
	struct zr_instance host_device;
	const struct zr_ops *ops;
	const struct zr_ops *host_ops; /* on host memory: those of the device where it can */

	/* [n_sources] [data], and each [eval.NAME]; none when sampling */
	struct zr_source *source;
	int32_t n_sources;
	struct zr_instance offload[ZR_OFFLOADS]; /* by ZR_STORE_* - ZR_STORE_OPTIMIZER */

	struct zr_optimizer *optimizer; /* [n_optimizers] */
	int32_t n_optimizers, n_param_groups;
	struct zr_param_group *param_group; /* [n_param_groups], the first is [optimizer] itself */
	int32_t *group_of;                  /* [n_tensors] parameter group of each */
	uint32_t n_states;                  /* of all optimizers */
};

/* What a step does. */
struct zr_setup_programs {
	struct zr_schedule train_uses, eval_uses;
	/* [n_layers] the policy's answers; NULL when sampling */
	struct zr_act_choice *act;
	struct zr_activations train_act, eval_act;
	struct zr_program recorded[ZR_RECORDS]; /* by ZR_PROG_* */
	struct zr_lowered lowered[ZR_LOWERED];  /* what really runs: by ZR_S_* */
};

struct zr_setup {
	struct zr_config *cfg; /* borrowed */
	struct zr_setup_facts facts;
	struct zr_setup_roles roles;
	struct zr_setup_programs programs;
	struct zr_plan plan;       /* what memory it takes, */
	struct zr_account account; /* and what was taken of it */
};

/* cfg must outlive the setup and receives resolved values. Whether the plan fits is not judged
 * here. world: only for ZR_SETUP_ALONE. */
int zr_setup_open(struct zr_config *cfg, enum zr_mode mode, uint32_t flags, int world,
		  struct zr_setup **out, struct zr_error *err);
void zr_setup_close(struct zr_setup *s); /* NULL is fine */

/* This rank stops because of `why`: what the others wait for fails with that text. */
void zr_setup_abort(struct zr_setup *s, const char *why);

/* offload.c: the stores of all sections [offload.X] that have none yet; needs the device. Once
 * there is a stage: whether they could act. */
int zr_offloads_start(struct zr_setup *s, struct zr_error *err);
int zr_offloads_check(const struct zr_setup *s, struct zr_error *err);

/* setup_start.c: threads that this rank computes with; starts them; keeps them and this thread, and
 * those that it will make, on processors near the device, if the device says that this matters.
 * Resolves a section. Creates its instance. */
int32_t zr_setup_workers(const struct zr_setup_facts *f);
int zr_setup_pool(struct zr_setup_facts *f, int64_t threads, struct zr_error *err);
int zr_setup_go_near(struct zr_setup *s, struct zr_error *err);
int zr_setup_resolve(struct zr_setup *s, const char *section, struct zr_error *err);
int zr_setup_start(struct zr_setup *s, struct zr_instance *it, const char *section,
		   const char *iface, struct zr_error *err);

/* setup_codes.c: in which types ranks send each other gradients and parameters. */
int zr_codes_choose(struct zr_setup *s, struct zr_error *err);

/* setup_layers.c: the bytes of all layers. Whether each can be cut as [train] slices says. */
int zr_setup_size_layers(struct zr_setup *s, struct zr_error *err);
/* Of those that are computed again, as ZR_CALL_LEAN says it, once that is known. */
int zr_setup_size_dropped(struct zr_setup *s, struct zr_error *err);
int zr_setup_check_cuts(struct zr_setup *s, struct zr_error *err);

/* setup_homes.c: what [zero] expert_ranks says; refuses what cannot be. ranks: of the training. */
int zr_homes_choose(struct zr_setup *s, int32_t ranks, int32_t rank, struct zr_error *err);

/* Once the model is declared: whether it places experts. Once its units are known: which of them
 * are experts. */
int zr_homes_check(const struct zr_setup *s, struct zr_error *err);
int zr_homes_find(struct zr_setup *s, struct zr_error *err);
/* Once tiers, groups and the batch are known: the tokens of a micro-batch. */
int zr_homes_fit(struct zr_setup *s, struct zr_error *err);

/* Experts of a layer; 0: they are not divided. */
int32_t zr_layer_experts(const struct zr_setup_facts *f, int32_t layer);
/* The unit of a layer's expert number g, or beside it. */
int32_t zr_expert_unit(const struct zr_setup_facts *f, int32_t layer, int32_t beside, int32_t g);

/* Which rank of those that divide them has an expert. */
int32_t zr_home_of(const struct zr_setup_facts *f, int32_t unit);
int zr_is_elsewhere(const struct zr_setup_facts *f, int32_t unit);

/* ZR_CALL_TOUCHING or 0, of the calls of all layers. */
static inline uint32_t zr_call_touches(const struct zr_setup_facts *f)
{
	return f->units_whole ? ZR_CALL_TOUCHING : 0;
}

/* Type of a unit's compute copy where it is kept, and bytes of a block of it. */
static inline int32_t zr_unit_dtype(const struct zr_setup_facts *f, int32_t unit)
{
	return f->frozen_unit[unit] > 1 ? f->stored : f->types.dtype;
}

static inline uint64_t zr_dtype_block(int32_t id)
{
	return zr_bytes_of(id, ZR_BLOCK);
}

/* Gradients are encoded where they are made. */
static inline int zr_codes_gradients(const struct zr_setup_facts *f)
{
	return f->types.comm_dtype == ZR_MXINT8;
}

/* The compute copy of a unit has values alone that ZR_MXINT8 has. */
static inline int zr_rounds_parameters(const struct zr_setup_facts *f, int32_t unit)
{
	return f->gather_codes && !f->frozen_unit[unit];
}

/* Codes are what its gathers and publishes move; where ranks read each other's memory, values. */
static inline int zr_sends_codes(const struct zr_setup_facts *f, int32_t unit)
{
	return zr_rounds_parameters(f, unit) && !f->peers;
}

static inline uint64_t zr_unit_block(const struct zr_setup_facts *f, int32_t unit)
{
	return zr_dtype_block(zr_unit_dtype(f, unit));
}

/* What declares and computes the layers. */
static inline struct zr_instance *zr_model_of(struct zr_setup_roles *r)
{
	return r->adapter.inst ? &r->adapter : &r->model;
}

static inline int zr_has_documents(const struct zr_source *d)
{
	return (d->info.flags & ZR_DATA_DOCUMENTS) != 0;
}

static inline int32_t zr_optimizer_of(const struct zr_setup_roles *r, int32_t tensor)
{
	return r->param_group[r->group_of[tensor]].optimizer;
}

/* setup.c */
/* of the states of all optimizers */
const struct zr_state *zr_setup_state(const struct zr_setup_roles *r, uint32_t i);
int zr_sums_locally(const struct zr_setup_facts *f); /* reduction = local, where that differs */
/* Contributions of ranks that one tree of gradients takes: of sum_group slots, of each those of the
 * ranks that share it. */
int32_t zr_sums_tree(const struct zr_setup_facts *f);
/* Micro-batches of a rank that one tree of gradients takes; sums that wait for others meanwhile. */
int32_t zr_sums_turns(const struct zr_setup_facts *f);
int32_t zr_sums_waiting(const struct zr_setup_facts *f);
/* After the last contribution: sums stay where they are added; all meet where they are kept; or
 * they pass through a place where all meet, and each rank keeps its share. */
enum { ZR_SUMS_STAY, ZR_SUMS_MEET, ZR_SUMS_PASS };
int zr_sums_way(const struct zr_setup_facts *f, int32_t unit);
/* that share this machine's processors and memory */
int32_t zr_machine_ranks(const struct zr_setup_facts *f);
int64_t zr_group_ranks(const struct zr_setup_facts *f, int32_t group);
/* of its blocks */
struct zr_share zr_unit_share(const struct zr_setup_facts *f, int32_t unit, int32_t group,
			      int32_t rank);
/* its parameters are split, and its state is split otherwise */
int zr_unit_apart(const struct zr_setup_facts *f, int32_t unit);
/* ZR_MASTER_*: what is kept beside its compute copy */
int32_t zr_unit_master(const struct zr_setup_facts *f, int32_t unit);
int zr_offloaded(const struct zr_setup_facts *f, int store); /* whether the section is there */
int32_t zr_store_tier(const struct zr_setup_facts *f, int store);
int zr_on_disk(const struct zr_setup_facts *f,
	       int store); /* the section is there, and names a disk */
int zr_unit_view(const struct zr_setup_facts *f, int32_t unit); /* its gather is a view */
/* its compute copy is in [offload.param]'s store */
int zr_unit_offloaded(const struct zr_setup_facts *f, int32_t unit);
int64_t zr_unit_part(const struct zr_setup_facts *f,
		     int32_t unit); /* blocks of a part of its gradient */
/* whole, as equal shares of all ranks */
int64_t zr_unit_padded_elements(const struct zr_setup_facts *f, int32_t unit);

#endif
