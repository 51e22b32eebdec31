/* SPDX-License-Identifier: Apache-2.0
 *
 * axolotl.h - maps for the rows of Axolotl's table that are about its data: axolotl_data.c;
 * and about what is frozen: axolotl_freeze.c.
 */
#ifndef ZR_CMD_IMPORT_AXOLOTL_H
#define ZR_CMD_IMPORT_AXOLOTL_H

#include "cmd/import/import.h"

#define AX_DEFAULT "Axolotl's default"

#define AX_ROW(name)                                                                               \
	int ax_##name(struct zr_import *im, struct zr_setting *s, const struct zr_import_key *k)
AX_ROW(path);
AX_ROW(part); /* which part of a data set counts */
AX_ROW(type); /* of rows */
AX_ROW(template);
AX_ROW(field);
AX_ROW(role);
AX_ROW(roles_to_train);
AX_ROW(train_on_end); /* of turns */
AX_ROW(eot_tokens);
AX_ROW(special); /* the first and the last token of a text */
AX_ROW(system);
AX_ROW(inputs);
AX_ROW(packing);
AX_ROW(held_out);
AX_ROW(excess); /* what is too long */
AX_ROW(validation);
AX_ROW(same); /* as that of `datasets` */
AX_ROW(unfrozen);

/* Lines of [data] that follow from several keys. */
int ax_finish_data(struct zr_import *im);

#endif
