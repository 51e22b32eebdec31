/* SPDX-License-Identifier: Apache-2.0
 *
 * role.h - the roles that plugins have, and the functions of their interfaces by name. [any]
 */
#ifndef ZR_CORE_ROLE_H
#define ZR_CORE_ROLE_H

#include <stddef.h>
#include <stdint.h>

enum zr_role_need { ZR_ROLE_OPTIONAL, ZR_ROLE_REQUIRED };

/* What a row of roles.def says. */
struct zr_role {
	const char *name;
	const char *iface; /* "zr.NAME/1" */
	int draft;
	enum zr_role_need need;
	int is_named;           /* [name.ANYTHING] may be there */
	int has_no_plain;       /* [name] may not */
	const char *section[5]; /* further sections of it, in full; ends with NULL */
	uint32_t first;         /* byte of the first function in the struct */
	const char *call[28];   /* names, with their marks; ends with NULL */
};
extern const struct zr_role zr_roles[]; /* the last one has no name */

/* The role whose name is the first `n` characters of a text; NULL: none. */
const struct zr_role *zr_role_find(const char *text, size_t n);

/* The role of an interface; its name is NULL: no role has it. */
const struct zr_role *zr_role_of_iface(const char *iface);

typedef void zr_plugin_fn(void);

/* The name of function i without its mark. */
const char *zr_role_call(const struct zr_role *role, int i);
/* Function i of an interface's struct; NULL: absent. */
zr_plugin_fn *zr_role_call_in(const struct zr_role *role, const void *table, int i);
/* Bytes of the struct up to the last function that must be there. */
uint32_t zr_role_least(const struct zr_role *role);
/* A function that must be there and is not; NULL: all are. */
const char *zr_role_lacks(const struct zr_role *role, const void *table);

#endif
