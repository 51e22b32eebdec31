/* SPDX-License-Identifier: Apache-2.0
 *
 * former.h - names that were others when a run or a checkpoint was written: `moments` of an
 * optimizer is `states` now, adamw8 and lion8 are adamw and lion with states = 8bit; `separate` and
 * `late_copies` of a device are gone. [main]
 */
#ifndef ZR_TRAIN_WEIGHTS_FORMER_H
#define ZR_TRAIN_WEIGHTS_FORMER_H

#include <jansson.h>

/* For zr_renamed_settings: settings of a checkpoint get the names that `here` has. */
void zr_former_settings(json_t *saved, const json_t *here);

/* An INI as a run writes it, with the names of today; owned. NULL: it has none of the former ones,
 * or there is no memory. */
char *zr_former_text(const char *ini);

#endif
