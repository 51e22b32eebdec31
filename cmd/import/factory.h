/* SPDX-License-Identifier: Apache-2.0
 *
 * factory.h - rows for the arguments that LLaMA-Factory has beside those of transformers. Source:
 * its hparams (0.9).
 */
#ifndef ZR_CMD_IMPORT_FACTORY_H
#define ZR_CMD_IMPORT_FACTORY_H

#include "cmd/import/import.h"

#define LF_MAP(name)                                                                               \
	int lf_##name(struct zr_import *im, struct zr_setting *s, const struct zr_import_key *k)
LF_MAP(stage);
LF_MAP(finetuning);
LF_MAP(targets);
LF_MAP(bits);     /* of quantized weights */
LF_MAP(template); /* not of tokens */

/* Its defaults: adapters of LoRA, with twice the rank as alpha. 0 or ZR_ENOMEM. */
int lf_finish(struct zr_import *im);

#endif
