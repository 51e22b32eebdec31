/* SPDX-License-Identifier: Apache-2.0
 *
 * prefix.h - where plugins and data are installed: in the prefix in which this program, or the
 * library libzeroth, lies itself, so that an installed tree can be moved, else in the one that was
 * configured. [any]
 */
#ifndef ZR_CORE_PREFIX_H
#define ZR_CORE_PREFIX_H

#include <sys/types.h>

const char *zr_installed_plugins(void);
const char *zr_installed_data(void);

/* Whether a file of this owner may be code or name some: root, oneself, or the owner of this
 * program or of the library libzeroth, who decides already what runs. *program: that owner. */
int zr_owner_is_trusted(uid_t owner, uid_t *program);

#endif
