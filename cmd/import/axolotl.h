/* SPDX-License-Identifier: Apache-2.0
 *
 * axolotl.h - maps for the rows of Axolotl's table that are about its data: axolotl_data.c;
 * and about what is frozen: axolotl_freeze.c.
 */
#ifndef ZR_CMD_IMPORT_AXOLOTL_H
#define ZR_CMD_IMPORT_AXOLOTL_H

#include "cmd/import/import.h"

#define AX_DEFAULT "Axolotl's default"

IMPORT_MAP(ax_path);
IMPORT_MAP(ax_part); /* which part of a data set counts */
IMPORT_MAP(ax_type); /* of rows */
IMPORT_MAP(ax_template);
IMPORT_MAP(ax_field);
IMPORT_MAP(ax_role);
IMPORT_MAP(ax_roles_to_train);
IMPORT_MAP(ax_train_on_end); /* of turns */
IMPORT_MAP(ax_eot_tokens);
IMPORT_MAP(ax_special); /* the first and the last token of a text */
IMPORT_MAP(ax_system);
IMPORT_MAP(ax_inputs);
IMPORT_MAP(ax_packing);
IMPORT_MAP(ax_held_out);
IMPORT_MAP(ax_excess); /* what is too long */
IMPORT_MAP(ax_validation);
IMPORT_MAP(ax_same); /* as that of `datasets` */
IMPORT_MAP(ax_unfrozen);

/* Lines of [data] that follow from several keys. */
int ax_finish_data(struct zr_import *im);

#endif
