/* SPDX-License-Identifier: Apache-2.0
 *
 * host.h - instances of plugins: each gets host services of its own, so that what it logs,
 * allocates and fails with carries its name.
 */
#ifndef ZR_CORE_HOST_H
#define ZR_CORE_HOST_H

#include "core/base/pool.h"
#include "core/config/config.h"
#include "core/memory/account.h"

struct zr_instance;

/* What the services of all instances of a process share. */
struct zr_process {
	int32_t rank, world, local_rank, local_world;
	struct zr_pool *pool; /* NULL before it exists: parallel() then runs on the caller */
	struct zr_account *account;
	const char *run_dir;         /* NULL: none */
	const struct zr_config *cfg; /* knows the places of options, for messages; NULL: none */
	struct zr_instance *boot, *device; /* offered to comm; NULL before they exist */
	struct zr_instance *model;         /* offered to the adapter */
	struct zr_instance *source;        /* [sources] those of [data.NAME], offered to data */
	int sources;
};

struct zr_instance {
	const struct zr_section *section;
	const void *vtbl;     /* of its role's interface */
	struct zr_inst *inst; /* NULL until created */
	struct zr_process *process;
	struct zr_host host;
	struct zr_error failed; /* text of the last fail() */
	int warned;             /* that it changes how the processor rounds */
	int taken;              /* another plugin asked for it */
	int refused;            /* times that it asked for what its role does not get */
};

/* Fills a host of a section for calls without an instance (resolve, check). `it` must stay where it
 * is. */
void zr_host_init(struct zr_instance *it, struct zr_process *process,
		  const struct zr_section *section);

/* The role whose plugins get the interface `iface` of another role; NULL: nobody does. */
const char *zr_host_role_of(const char *iface);

/* Creates the section's instance of interface `iface`. Text of a failure goes to err with the
 * section's name. */
int zr_instance_create(struct zr_instance *it, struct zr_process *process,
		       const struct zr_section *section, const char *iface, struct zr_error *err);
void zr_instance_destroy(struct zr_instance *it); /* may be called on a zeroed one */

/* After a call on `it`, puts back how the processor rounds, with a warning (invariants I1, I7).
 * Turns a failure into err: "[data] text", with its place in the INI when that is to blame. Returns
 * code; 0: it did not fail. */
int zr_instance_failed(struct zr_instance *it, int code, const char *doing, struct zr_error *err);
/* Calls function fn of the instance. */
#define ZR_ASK(it, role, fn, err, ...)                                                             \
	zr_instance_failed(                                                                        \
		it, ((const struct zr_##role##_v1 *)(it)->vtbl)->fn((it)->inst, __VA_ARGS__), #fn, \
		err)

#endif
