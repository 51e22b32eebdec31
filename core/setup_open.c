/* SPDX-License-Identifier: Apache-2.0
 *
 * setup_open.c - see setup.h. One function per role, in the order in which they learn from each
 * other: ranks, then threads and device, then data (its vocabulary), then the model, then the
 * policies.
 */
#include "core/setup.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/numbers.h"
#include "core/config/options.h"
#include "core/model/declared.h"
#include "core/update/clip.h"

static int by_value(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
	return x < y ? -1 : x > y;
}

/* Of the units that the model declares. */
static int size_units(struct zr_setup_facts *f, struct zr_error *err)
{
	size_t n = (size_t)f->layout.n_units;
	int64_t *size = calloc(n + 1, sizeof *size);
	if (!size)
		return zr_err(err, ZR_ENOMEM, "out of memory for the sizes of %zu units", n);

	for (size_t u = 0; u < n; u++)
		size[u] = f->layout.unit[u].elements;
	qsort(size, n, sizeof *size, by_value);
	f->largest_unit = 0;
	if (n)
		f->largest_unit = size[n - 1];
	f->typical_unit = size[n / 2];
	free(size);
	return 0;
}

/* What boot would say if `world` ranks were here. Where it can play nodes, it has an option
 * ranks_per_node. */
static int play_ranks(struct zr_setup *s, int world, struct zr_error *err)
{
	struct zr_setup_facts *f = &s->facts;
	const struct zr_opt *opt = zr_table_find(&s->roles.boot.section->table, "ranks_per_node");
	int given = opt && opt->type == ZR_T_I64 &&
		    strcmp(zr_config_source(s->cfg, "boot", "ranks_per_node"), "auto");
	int64_t node = world;
	if (given)
		node = *(int64_t *)((char *)s->roles.boot.section->opts + opt->offset);

	f->ranks.world = f->ranks.machine_ranks = f->ranks.local_world = world;
	if (node > 0 && node < world)
		f->ranks.local_world = (int32_t)node;
	f->ranks.nodes = world / f->ranks.local_world;
	if (world % f->ranks.local_world == 0)
		return 0;
	return zr_err(err, ZR_EINVAL,
		      "[boot] ranks_per_node = %d: %d ranks do not fill nodes of that size",
		      f->ranks.local_world, world);
}

static void take_ranks(struct zr_setup_facts *f)
{
	f->process.rank = f->ranks.rank;
	f->process.world = f->ranks.world;
	f->process.local_rank = f->ranks.local_rank;
	f->process.local_world = f->ranks.local_world;
	f->mesh = zr_mesh_of(&f->ranks, f->slices.ranks, f->homes.ranks);
}

static int start_boot(struct zr_setup *s, int world, struct zr_error *err)
{
	struct zr_setup_facts *f = &s->facts;
	f->process.world = f->process.local_world = 1;
	f->mesh = zr_mesh_of(&(struct zr_boot_info){ .world = 1, .local_world = 1, .nodes = 1 }, 1,
			     1);
	f->ranks.size = sizeof f->ranks;
	int rc = zr_setup_start(s, &s->roles.boot, "boot", "zr.boot/1", err);
	if (!rc)
		rc = ZR_ASK(&s->roles.boot, boot, info, err, &f->ranks);
	if (rc || (f->flags & ZR_SETUP_ALONE && (rc = play_ranks(s, world, err))))
		return rc;

	if (f->mode != ZR_MODE_SAMPLE)
		rc = zr_slices_choose(s->cfg, f->train, f->ranks.world, f->ranks.rank, &f->slices,
				      err);
	if (!rc && f->mode != ZR_MODE_SAMPLE)
		rc = zr_homes_choose(s, f->ranks.world, f->ranks.rank, err);
	if (rc)
		return rc;
	take_ranks(f);
	f->process.boot = &s->roles.boot;
	return 0;
}

/* Whether the other ranks are there: a plan does without, and who samples is one rank. */
static int has_others(const struct zr_setup_facts *f)
{
	return f->mode != ZR_MODE_SAMPLE && !(f->flags & ZR_SETUP_ALONE);
}

/* A comm of device memory alone needs [comm.host]. */
static int check_lone_comm(const struct zr_setup *s, struct zr_error *err)
{
	if (s->facts.device_info.host_access)
		return zr_config_blame(s->cfg, "comm", ZR_EINVAL, err,
				       "plugin: it moves memory of GPUs, and this device has none");
	if (s->facts.two_comms)
		return 0;
	return zr_config_blame(s->cfg, "comm", ZR_EINVAL, err,
			       "plugin: it moves memory of GPUs alone: add a section [comm.host] "
			       "with another comm, for what is in host memory");
}

static int start_second_comm(struct zr_setup *s, struct zr_error *err)
{
	if (!has_others(&s->facts))
		return zr_setup_resolve(s, "comm.host", err);

	int rc = zr_setup_start(s, &s->roles.host_comm, "comm.host", "zr.comm/1", err);
	if (rc)
		return rc;

	const struct zr_comm_v1 *v = s->roles.host_comm.vtbl;
	if (v->mem & ~(uint32_t)ZR_MEM_HOST)
		return zr_config_blame(s->cfg, "comm.host", ZR_EINVAL, err,
				       "plugin: it does not move host memory");
	return 0;
}

static int start_host_comm(struct zr_setup *s, const struct zr_comm_v1 *v, struct zr_error *err)
{
	struct zr_setup_facts *f = &s->facts;
	f->device_comm = (v->mem & ZR_MEM_DEVICE) != 0;
	f->two_comms = f->device_comm && zr_config_find(s->cfg, "comm.host") != NULL;
	if (f->device_comm && !(v->mem & ZR_MEM_HOST)) {
		int rc = check_lone_comm(s, err);
		if (rc)
			return rc;
	}

	if (!f->two_comms)
		return 0;
	return start_second_comm(s, err);
}

/* A group of comm: as many ranks as there are in it, `apart` from one to the next. */
static int make_group(struct zr_setup *s, int32_t group, int32_t first, int32_t apart,
		      struct zr_error *err)
{
	struct zr_instance *comm = &s->roles.comm;
	const int32_t n = s->facts.mesh.group[group].n;
	if (!comm->inst)
		return 0;

	int32_t *ranks = calloc((size_t)n, sizeof *ranks);
	if (!ranks)
		return zr_no_memory(err);
	for (int32_t k = 0; k < n; k++)
		ranks[k] = first + k * apart;
	int rc = ZR_ASK(comm, comm, group, err, group, ranks, n);
	free(ranks);
	return rc;
}

static int makes_groups(const struct zr_comm_v1 *v)
{
	return ZR_HAS(v, struct zr_comm_v1, group) && v->group;
}

/* The ranks that share this rank's sequence. */
static int make_sequence(struct zr_setup *s, const struct zr_comm_v1 *v, struct zr_error *err)
{
	const struct zr_slices *z = &s->facts.slices;
	if (z->ranks == 1)
		return 0;
	if (!makes_groups(v))
		return zr_config_blame(s->cfg, "comm", ZR_ENOTSUP, err,
				       "plugin: it makes no groups of ranks, which [train] "
				       "sequence_ranks = %d needs; take another one",
				       z->ranks);
	return make_group(s, ZR_GROUP_SEQUENCE, s->facts.process.rank - z->rank, 1, err);
}

/* The ranks that divide experts; those that have the same ones. */
static int make_homes(struct zr_setup *s, const struct zr_comm_v1 *v, struct zr_error *err)
{
	const struct zr_homes *h = &s->facts.homes;
	if (h->ranks == 1)
		return 0;
	if (!makes_groups(v) || !s->facts.counts)
		return zr_config_blame(
			s->cfg, "comm", ZR_ENOTSUP, err,
			"plugin: it makes no groups of ranks, or does not exchange "
			"with a count for each, which [zero] expert_ranks = %d needs; "
			"take another one",
			h->ranks);
	int rc = make_group(s, ZR_GROUP_EXPERT, s->facts.process.rank - h->rank, 1, err);
	if (rc || h->ranks == s->facts.process.world)
		return rc;
	return make_group(s, ZR_GROUP_CROSS, h->rank, h->ranks, err);
}

/* The sum over all ranks. */
static int add_up(struct zr_setup *s, int64_t *value, struct zr_error *err)
{
	struct zr_instance *comm = &s->roles.comm;
	struct zr_comm_seg seg = { value, value, 1 };
	struct zr_comm_op op = { .size = sizeof op,
				 .kind = ZR_COMM_ALL_REDUCE,
				 .group = ZR_GROUP_WORLD,
				 .dtype = ZR_I64,
				 .n_seg = 1,
				 .seg = &seg,
				 .tag = { .step = 0, .op = -1, .unit = -1 } };
	zr_ticket ticket = 0;
	if (s->roles.host_comm.inst)
		comm = &s->roles.host_comm;

	int rc = ZR_ASK(comm, comm, post, err, &op, &ticket);
	if (rc || !ticket)
		return rc;
	return ZR_ASK(comm, comm, wait, err, ticket);
}

/* Whether all nodes have as many ranks: each rank knows of its own. */
static int all_even(struct zr_setup *s, int *even, struct zr_error *err)
{
	int64_t sum = *even = s->facts.mesh.even;
	if (!s->roles.comm.inst)
		return 0;

	int rc = add_up(s, &sum, err);
	*even = sum == s->facts.process.world;
	return rc;
}

/* Neighbours whose contributions are a part of a tree. */
static int choose_node_sum(struct zr_setup *s, const struct zr_comm_v1 *v, struct zr_error *err)
{
	struct zr_setup_facts *f = &s->facts;
	const int32_t ranks = f->mesh.group[ZR_GROUP_NODE].n;
	const int32_t two = ranks & -ranks, group = zr_sums_tree(f);
	const int32_t part = (int32_t)zr_fewer(two, group);
	int even;
	if (group == 1 || f->peers || !makes_groups(v) || f->ranks.nodes == 1)
		return 0;
	if (f->homes.ranks > 1) /* what a rank sends of an expert may be another one's */
		return 0;

	int rc = all_even(s, &even, err);
	if (rc || !even || part == 1)
		return rc;
	f->node_sum = part;
	return make_group(s, ZR_GROUP_CROSS, f->mesh.group[ZR_GROUP_NODE].rank, ranks, err);
}

/* Whether all comms exchange with a count for each pair of ranks. */
static int have_counts(const struct zr_setup *s, const struct zr_comm_v1 *v, struct zr_error *err)
{
	int has = ZR_HAS(v, struct zr_comm_v1, exchange) && v->exchange;
	if (!has || !s->facts.two_comms)
		return has;

	const struct zr_section *host = zr_config_find(s->cfg, "comm.host");
	v = zr_plugin_iface(host->plugin, "zr.comm/1", err);
	return v && ZR_HAS(v, struct zr_comm_v1, exchange) && v->exchange;
}

/* What comm takes of the device's memory is none of the plan's. */
static void leave_memory(struct zr_setup_facts *f, const struct zr_section *sec,
			 const struct zr_comm_v1 *v)
{
	uint64_t held = 0;
	if (!f->device_info.unified && ZR_HAS(v, struct zr_comm_v1, held_on_device) &&
	    v->held_on_device)
		held = v->held_on_device(sec->opts, f->process.world);
	if (held > f->device_info.memory)
		held = f->device_info.memory;
	f->device_info.memory -= held;
}

/* Peers read each other's memory where comm says so and all ranks share a node. */
static int start_comm(struct zr_setup *s, struct zr_error *err)
{
	struct zr_setup_facts *f = &s->facts;
	const struct zr_section *sec = zr_config_find(s->cfg, "comm");
	if (f->process.world == 1)
		return 0;
	if (!sec)
		return zr_err(err, ZR_EINVAL, "%d ranks need a [comm] section", f->process.world);

	int rc = zr_setup_resolve(s, "comm", err);
	if (!rc && has_others(f))
		rc = zr_instance_create(&s->roles.comm, &f->process, sec, "zr.comm/1", err);
	const struct zr_comm_v1 *v = NULL;
	if (!rc)
		v = zr_plugin_iface(sec->plugin, "zr.comm/1", err);
	if (v) {
		leave_memory(f, sec, v);
		rc = start_host_comm(s, v, err);
	}
	f->peers = v && v->mem_alloc && v->mem_peer && f->ranks.nodes == 1 &&
		   f->device_info.host_access;
	f->views = f->peers && f->device_info.unified && ZR_HAS(v, struct zr_comm_v1, mem_view) &&
		   v->mem_view;
	if (rc || !v)
		return rc;
	f->counts = have_counts(s, v, err);
	rc = make_sequence(s, v, err);
	if (!rc)
		rc = make_homes(s, v, err);
	if (rc)
		return rc;
	return choose_node_sum(s, v, err);
}

/* Those that core itself calls are there. */
static int take_ops(const struct zr_instance *it, const struct zr_ops **out, struct zr_error *err)
{
	const struct zr_ops *o = *out = ((const struct zr_device_v1 *)it->vtbl)->ops(it->inst);
	if (ZR_HAS(o, struct zr_ops, round_stochastic) && o->fold && o->cast && o->init &&
	    o->master_join && o->master_split && o->round_stochastic)
		return 0;
	return zr_err(err, ZR_EINVAL,
		      "plugin %s: its operations lack one of fold, cast, init, "
		      "master_join, master_split, round_stochastic; mend the plugin",
		      it->section->plugin->path);
}

/* First values and, with offload, gradients and optimizers need operations on host memory. */
static int start_host_device(struct zr_setup *s, struct zr_error *err)
{
	struct zr_device_info *info = &s->facts.host_info;
	int rc = zr_setup_start(s, &s->roles.host_device, "device.host", "zr.device/1", err);
	info->size = sizeof *info;
	if (rc || (rc = ZR_ASK(&s->roles.host_device, device, info, err, info)))
		return rc;
	if (!info->unified && !info->host_ops)
		return zr_config_blame(s->cfg, "device.host", ZR_EINVAL, err,
				       "plugin: it does not compute on host memory");
	return take_ops(&s->roles.host_device, &s->roles.host_ops, err);
}

/* The size of the pool is the device's option `threads`. */
static int start_device(struct zr_setup *s, struct zr_error *err)
{
	struct zr_setup_roles *r = &s->roles;
	struct zr_setup_facts *f = &s->facts;
	const struct zr_section *sec = zr_config_find(s->cfg, "device");
	int rc = zr_setup_resolve(s, "device", err);
	if (rc)
		return rc;

	const struct zr_opt *threads = zr_table_find(&sec->table, "threads");
	int64_t n = threads && threads->type == ZR_T_I64 ?
			    *(int64_t *)((char *)sec->opts + threads->offset) :
			    zr_setup_workers(f);
	rc = zr_setup_pool(f, n, err);
	if (rc)
		return rc;

	f->device_info.size = sizeof f->device_info;
	rc = zr_instance_create(&r->device, &f->process, sec, "zr.device/1", err);
	if (rc || (rc = ZR_ASK(&r->device, device, info, err, &f->device_info)))
		return rc;

	f->device_info.host_access |= f->device_info.unified;
	f->device_info.host_ops |= f->device_info.unified;
	f->process.device = &r->device;
	rc = zr_setup_go_near(s, err);
	if (!rc)
		rc = take_ops(&r->device, &r->ops, err);
	r->host_ops = r->ops;
	if (rc || f->device_info.host_ops)
		return rc;
	return start_host_device(s, err);
}

static int start_source(struct zr_setup *s, const struct zr_section *sec, int lent,
			struct zr_error *err)
{
	struct zr_source *d = &s->roles.source[s->roles.n_sources];
	struct zr_instance *it = &d->it;
	const char *dot = strchr(sec->name, '.');
	if (lent)
		it = &s->facts.process.source[s->facts.process.sources++];
	else
		s->roles.n_sources++;

	int rc = zr_setup_start(s, it, sec->name, "zr.data/1", err);
	if (rc || lent)
		return rc;

	d->name = "";
	if (dot)
		d->name = dot + 1;
	d->info.size = sizeof d->info;
	return ZR_ASK(&d->it, data, info, err, &d->info);
}

/* First those of [data.NAME], for the plugin of [data] to draw from; [data] is the first of the
 * others. */
static int start_data(struct zr_setup *s, struct zr_error *err)
{
	struct zr_setup_facts *f = &s->facts;
	int n = 0, rc = 0;
	if (f->mode != ZR_MODE_SAMPLE && !(f->flags & ZR_SETUP_NO_DATA))
		n = zr_config_count(s->cfg);

	s->roles.source = calloc((size_t)n + 1, sizeof *s->roles.source);
	f->process.source = calloc((size_t)n + 1, sizeof *f->process.source);
	if (!s->roles.source || !f->process.source)
		return zr_err(err, ZR_ENOMEM, "out of memory for the sets of data");

	for (int i = 0; !rc && i < 2 * n; i++) {
		const struct zr_section *sec = zr_config_at(s->cfg, i % n);
		if (sec->role && !strcmp(sec->role, "data") &&
		    (i < n) == !strncmp(sec->name, "data.", 5))
			rc = start_source(s, sec, i < n, err);
	}

	for (int i = 0; !rc && i < f->process.sources; i++)
		if (!f->process.source[i].taken)
			rc = zr_config_blame(s->cfg, f->process.source[i].section->name, ZR_EINVAL,
					     err,
					     "plugin: [data] %s does not draw from this "
					     "section; name it there, choose a plugin that mixes, "
					     "or take it out",
					     s->roles.source->it.section->plugin->desc->id);
	return rc;
}

/* What it declares, once that can be held. */
static int declare_model(struct zr_setup *s, struct zr_error *err)
{
	struct zr_instance *model = zr_model_of(&s->roles);
	struct zr_error why = { 0 };
	int rc = ZR_ASK(model, model, declare, err, &s->facts.decl);
	if (rc || !zr_declared_check(&s->facts.decl, &why))
		return rc;

	const char *path = model->section->plugin->path;
	if (why.code == ZR_ENOMEM)
		return zr_err(err, why.code, "%s", why.text);
	if (strchr(path, '/')) /* else it is inside the program */
		return zr_err(err, ZR_EINVAL, "plugin %s: declare: %s; mend the plugin", path,
			      why.text);
	return zr_config_blame(s->cfg, model->section->name, ZR_EINVAL, err, "%s", why.text);
}

static int start_precision(struct zr_setup *s, struct zr_error *err)
{
	struct zr_precision_info *t = &s->facts.types;
	t->size = sizeof *t;
	int rc = zr_setup_start(s, &s->roles.precision, "precision", "zr.precision/1", err);
	if (rc || (rc = ZR_ASK(&s->roles.precision, precision, info, err, t)))
		return rc;
	if (!zr_dtype_find(t->dtype, NULL)->trains || !zr_dtype_find(t->comm_dtype, NULL)->trains ||
	    (uint32_t)t->master > (t->dtype == ZR_BF16 ? ZR_MASTER_AUTO : ZR_MASTER_FP32))
		return zr_err(err, ZR_EINVAL,
			      "plugin %s: info: dtype is %d, comm_dtype %d, master "
			      "%d; expected ZR_F32, ZR_BF16 or ZR_F16 for both and one of ZR_"
			      "MASTER_*, FP32 where dtype is not ZR_BF16; mend it",
			      s->roles.precision.section->plugin->path, t->dtype, t->comm_dtype,
			      t->master);
	if ((uint32_t)t->products >
	    (t->dtype == ZR_BF16 ? ZR_PRODUCTS_FP8_E5M2_GRADIENTS : ZR_PRODUCTS_WHOLE))
		return zr_err(
			err, ZR_EINVAL,
			"plugin %s: info: products is %d; expected one of ZR_PRODUCTS_*, WHOLE "
			"where dtype is not ZR_BF16; mend it",
			s->roles.precision.section->plugin->path, t->products);
	return 0;
}

static int check_products(struct zr_setup *s, struct zr_error *err)
{
	const struct zr_setup_facts *f = &s->facts;
	if (!f->types.products || f->decl.has_products)
		return 0;
	return zr_config_blame(s->cfg, "precision", ZR_ENOTSUP, err,
			       "products: model %s does not compute its linear maps in 8 bits; "
			       "set products = bf16",
			       zr_model_of(&s->roles)->section->plugin->desc->id);
}

static int start_model(struct zr_setup *s, struct zr_error *err)
{
	struct zr_setup_facts *f = &s->facts;
	f->decl.size = sizeof f->decl;
	if (zr_sliced(&f->slices)) {
		f->decl.slices = f->slices.n;
		f->decl.sequence_ranks = f->slices.ranks;
		f->decl.by_heads = f->slices.by_heads;
	}
	if (zr_experts_apart(&f->homes))
		f->decl.expert_ranks = f->homes.ranks;
	f->decl.products = f->types.products;
	int rc = zr_setup_start(s, &s->roles.model, "model", "zr.model/1", err);
	f->process.model = &s->roles.model;
	if (!rc && zr_config_find(s->cfg, "adapter"))
		rc = zr_setup_start(s, &s->roles.adapter, "adapter", "zr.model/1", err);
	if (!rc)
		rc = declare_model(s, err);
	if (!rc)
		rc = check_products(s, err);
	if (!rc)
		rc = zr_setup_check_cuts(s, err);
	if (!rc)
		rc = zr_homes_check(s, err);
	if (rc)
		return rc;

	uint64_t given = f->train->sequence_length;
	f->batch.length = (int64_t)given;
	if (given == ZR_AUTO_COUNT)
		f->batch.length = f->decl.context;
	if (f->batch.length > f->decl.context)
		return zr_config_blame(s->cfg, "train", ZR_EINVAL, err,
				       "sequence_length = %lld "
				       "exceeds the model's context of %lld",
				       (long long)f->batch.length, (long long)f->decl.context);
	return zr_train_derive(s->cfg, "sequence_length", given, f->batch.length, err);
}

/* A run that does not train takes its weights from files, which have no persistent numbers. */
static int check_persistent(struct zr_setup *s, struct zr_error *err)
{
	const struct zr_instance *model = zr_model_of(&s->roles);
	const struct zr_model_v1 *v = model->vtbl;
	const char *path = model->section->plugin->path;

	if (!s->facts.layout.persistent)
		return 0;

	if (!ZR_HAS(v, struct zr_model_v1, renew) || !v->renew)
		return zr_err(err, ZR_EINVAL,
			      "plugin %s: it declares persistent numbers of tensors and has no "
			      "function renew; mend the plugin",
			      path);
	if (s->facts.mode == ZR_MODE_TRAIN)
		return 0;

	return zr_config_blame(s->cfg, model->section->name, ZR_ENOTSUP, err,
			       "plugin: the model keeps persistent numbers of tensors, which no "
			       "file of weights has: it is trained, and evaluated in its training "
			       "([train] eval_every), alone");
}

static int start_policies(struct zr_setup *s, struct zr_error *err)
{
	int rc = zr_codes_choose(s, err);
	if (rc)
		return rc;
	return zr_setup_start(s, &s->roles.activation, "activation", "zr.activation/1", err);
}

/* Why core cannot hold what the stage declares for a unit, or NULL. */
static const char *wrong_groups(const struct zr_setup_facts *f, const struct zr_groups *g)
{
	const uint32_t most = ZR_GROUP_WORLD;
	if ((uint32_t)g->param > most || (uint32_t)g->grad > most || (uint32_t)g->state > most)
		return "a group that does not exist; mend the plugin";
	if ((g->param == ZR_GROUP_NODE || g->state == ZR_GROUP_NODE) && !f->mesh.even)
		return "nodes have different numbers of ranks: start as many on each, or choose "
		       "another plugin";
	return NULL;
}

/* Over which groups the stage splits each unit. */
static int start_stage(struct zr_setup *s, struct zr_error *err)
{
	struct zr_setup_facts *f = &s->facts;
	f->groups = calloc((size_t)f->layout.n_units + 1, sizeof *f->groups);
	if (f->mode == ZR_MODE_SAMPLE && f->groups)
		return 0; /* one rank, no state: ZR_GROUP_SELF is 0 */
	int rc = zr_setup_start(s, &s->roles.zero, "zero", "zr.zero/1", err);
	if (!rc && !f->groups)
		rc = zr_err(err, ZR_ENOMEM, "out of memory for %d units", f->layout.n_units);
	for (int32_t u = 0; !rc && u < f->layout.n_units; u++) {
		struct zr_groups *g = &f->groups[u];
		struct zr_groups_of of = { sizeof of,
					   u,
					   f->layout.n_units,
					   f->process.world,
					   f->layout.unit[u].elements,
					   f->layout.unit[u].name };
		if ((rc = ZR_ASK(&s->roles.zero, zero, groups, err, &of, g)))
			return rc;

		const char *why = wrong_groups(f, g);
		if (why)
			rc = zr_err(err, ZR_EINVAL,
				    "[zero] %s: unit %s has parameters of group "
				    "%d, gradients of %d, state of %d: %s",
				    s->roles.zero.section->plugin->desc->id, f->layout.unit[u].name,
				    g->param, g->grad, g->state, why);
	}
	return rc;
}

static int check_source(struct zr_setup_facts *f, struct zr_source *d, struct zr_error *err)
{
	const struct zr_data_v1 *data = d->it.vtbl;
	if (d->info.vocabulary > f->decl.vocabulary)
		return zr_err(err, ZR_EINVAL,
			      "%s has %lld different tokens, but the model's "
			      "vocabulary is %lld; raise [model] vocabulary",
			      *d->name ? d->name : "the data", (long long)d->info.vocabulary,
			      (long long)f->decl.vocabulary);

	int lacks = zr_has_documents(d) &&
		    !(ZR_HAS(data, struct zr_data_v1, targets) && data->targets);
	if (lacks || d->info.flags & ~ZR_DATA_DOCUMENTS)
		return zr_err(err, ZR_EINVAL, "[%s] %s: it has %s", d->it.section->name,
			      d->it.section->plugin->desc->id,
			      lacks ? "documents, but no function `targets`" :
				      "flags that this zeroth does not know; install a newer one");

	int rc = ZR_ASK(&d->it, data, prepare, err, f->batch.length, f->decl.vocabulary);
	if (rc)
		return rc;
	return ZR_ASK(&d->it, data, info, err, &d->info);
}

static int check_data(struct zr_setup *s, struct zr_error *err)
{
	int rc = 0;
	for (int32_t i = 0; !rc && i < s->roles.n_sources; i++)
		rc = check_source(&s->facts, &s->roles.source[i], err);
	if (rc || s->facts.mode == ZR_MODE_EVAL || s->facts.flags & ZR_SETUP_NO_DATA)
		return rc;

	rc = zr_epochs_resolve(s->cfg, s->facts.train, s->roles.source->info.train_sequences,
			       s->facts.batch.train, err);
	if (rc)
		return rc;
	return zr_shares_resolve(s->cfg, err);
}

/* Micro-batches are not added up on devices of which one has no room for it. */
static int plan_memory(struct zr_setup *s, struct zr_error *err)
{
	int rc = zr_plan_make(s, err);
	if (rc || !s->plan.device_sums || s->facts.train->accumulate_on == ZR_ACCUMULATE_DEVICE)
		return rc;

	int64_t small = s->plan.arena[ZR_STORE_DEVICE] > s->facts.device_info.memory;
	if (s->roles.comm.inst)
		rc = add_up(s, &small, err);
	if (rc || !small)
		return rc;

	s->facts.small_device = 1;
	zr_plan_free(&s->plan);
	return zr_plan_make(s, err);
}

static int make_tables(struct zr_setup *s, struct zr_error *err)
{
	const int trains = s->facts.mode != ZR_MODE_SAMPLE;
	int rc = zr_setup_size_layers(s, err);
	if (!rc && trains) {
		rc = zr_activation_ask(s, err);
		if (!rc)
			rc = zr_setup_size_dropped(s, err);
		if (!rc)
			rc = zr_schedule_make(&s->facts.decl, 1, s->facts.frozen_unit,
					      s->programs.act, &s->programs.train_uses, err);
		if (!rc)
			rc = zr_activation_place(s, &s->programs.train_uses, 1,
						 &s->programs.train_act, err);
	}

	if (!rc)
		rc = zr_schedule_make(&s->facts.decl, 0, NULL, NULL, &s->programs.eval_uses, err);
	if (!rc)
		rc = zr_activation_place(s, &s->programs.eval_uses, 0, &s->programs.eval_act, err);
	for (int32_t id = 0; !rc && id < 4; id++)
		if (trains || id == ZR_PROG_EVAL)
			rc = zr_program_record(s, id, &s->programs.recorded[id], err);
	if (!rc && s->facts.mode == ZR_MODE_TRAIN)
		rc = zr_program_onward(s, err);
	if (rc)
		return rc;
	return plan_memory(s, err);
}

static int open_all(struct zr_setup *s, int world, struct zr_error *err)
{
	struct zr_setup_facts *f = &s->facts;
	int rc = start_boot(s, world, err);
	if (!rc)
		rc = start_device(s, err);
	if (!rc)
		rc = start_data(s, err);
	if (!rc)
		rc = start_comm(s, err);
	if (!rc)
		rc = start_precision(s, err);
	if (!rc)
		rc = start_model(s, err);
	if (!rc)
		rc = zr_layout_make(&f->decl, &f->layout, err);
	if (!rc)
		rc = check_persistent(s, err);
	if (!rc)
		rc = size_units(f, err);
	if (!rc)
		rc = zr_frozen_find(s, err);
	if (!rc)
		rc = zr_homes_find(s, err);
	if (!rc)
		rc = zr_clip_check(s, err);
	if (!rc)
		rc = start_policies(s, err);
	if (!rc && f->mode != ZR_MODE_SAMPLE)
		rc = zr_offloads_start(s, err);
	if (!rc)
		rc = start_stage(s, err);
	if (!rc && f->mode != ZR_MODE_SAMPLE) {
		rc = zr_offloads_check(s, err);
		if (!rc)
			rc = zr_batch_resolve(s->cfg, f->train, f->mesh.axis[ZR_AXIS_DATA].n,
					      &f->batch, err);
		if (!rc)
			rc = zr_slices_fit(s->cfg, f->batch.micro, f->batch.length, &f->slices,
					   err);
		if (!rc)
			rc = zr_homes_fit(s, err);
		if (!rc)
			rc = check_data(s, err);
		if (!rc)
			rc = zr_optimizers_start(s, err);
		if (!rc)
			rc = zr_setup_start(s, &s->roles.scheduler, "scheduler", "zr.scheduler/1",
					    err);
	} else if (!rc) {
		f->batch.train = f->batch.micro = f->batch.accumulation = f->batch.slots = 1;
	}
	if (rc)
		return rc;
	return make_tables(s, err);
}

void zr_setup_abort(struct zr_setup *s, const char *why)
{
	const struct zr_instance *comm[] = { &s->roles.comm, &s->roles.host_comm };
	const struct zr_boot_v1 *boot = s->roles.boot.vtbl;
	for (int i = 0; i < 2; i++)
		if (comm[i]->inst)
			((const struct zr_comm_v1 *)comm[i]->vtbl)->abort(comm[i]->inst, why);
	if (s->roles.boot.inst && s->facts.process.world > 1 && boot->abort)
		boot->abort(s->roles.boot.inst, why);
}

int zr_setup_open(struct zr_config *cfg, enum zr_mode mode, uint32_t flags, int world,
		  struct zr_setup **out, struct zr_error *err)
{
	struct zr_setup *s = calloc(1, sizeof *s);
	if (!s)
		return zr_no_memory(err);

	s->cfg = cfg;
	s->facts.mode = mode;
	s->facts.flags = flags;
	s->facts.train = zr_config_find(cfg, "train")->opts;
	s->facts.process = (struct zr_process){ .account = &s->account, .cfg = cfg };
	s->facts.memory = zr_memory_available();
	s->facts.node_sum = 1;
	s->facts.slices = (struct zr_slices){ .n = 1, .ranks = 1, .here = 1 };
	s->facts.homes.ranks = 1;
	int rc = open_all(s, world, err);
	if (!rc) {
		*out = s;
		return 0;
	}
	zr_setup_abort(s, err->text);
	zr_setup_close(s);
	return rc;
}

void zr_setup_close(struct zr_setup *s)
{
	if (!s)
		return;

	struct zr_setup_roles *r = &s->roles;
	struct zr_setup_facts *f = &s->facts;
	struct zr_instance *all[] = { &r->scheduler,   &r->zero,   &r->activation, &r->precision,
				      &r->adapter,     &r->model,  &r->comm,       &r->host_comm,
				      &r->host_device, &r->device, &r->boot };
	zr_optimizers_close(r);
	for (int32_t i = 0; i < r->n_sources; i++)
		zr_instance_destroy(&r->source[i].it);
	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		zr_instance_destroy(all[i]);
	for (int i = 0; i < f->process.sources; i++)
		zr_instance_destroy(&f->process.source[i]);
	for (int i = 0; i < ZR_OFFLOADS; i++)
		zr_instance_destroy(&r->offload[i]);
	zr_pool_free(f->process.pool);
	zr_plan_free(&s->plan);
	for (int i = 0; i < ZR_RECORDS; i++)
		zr_program_free(&s->programs.recorded[i]);
	for (int i = 0; i < ZR_LOWERED; i++)
		zr_lowered_free(&s->programs.lowered[i]);
	zr_schedule_free(&s->programs.train_uses);
	zr_schedule_free(&s->programs.eval_uses);
	zr_layout_free(&f->layout);
	zr_activation_free(&s->programs.train_act);
	zr_activation_free(&s->programs.eval_act);
	void *const own[] = {
		r->source, f->process.source, f->groups,      f->frozen,     f->frozen_unit,
		f->parts,  f->layer_bytes,    f->slice_bytes, f->homes.unit, s->programs.act,
		s
	};
	for (size_t i = 0; i < sizeof own / sizeof *own; i++)
		free(own[i]);
}
