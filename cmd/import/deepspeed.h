/* SPDX-License-Identifier: Apache-2.0
 *
 * deepspeed.h - values of DeepSpeed's keys that a line of their own does not say: maps for the rows
 * of its table.
 */
#ifndef ZR_CMD_IMPORT_DEEPSPEED_H
#define ZR_CMD_IMPORT_DEEPSPEED_H

#include "cmd/import/import.h"

#define DS_MAP(name)                                                                               \
	int ds_##name(struct zr_import *im, struct zr_setting *s, const struct zr_import_key *k)
DS_MAP(legacy_stage);   /* "zero_optimization": true */
DS_MAP(stage);          /* 0 to 3, and what makes of 3 hpz or mics */
DS_MAP(stage3);         /* as it is, in stage 3 only */
DS_MAP(persistence);    /* of layers, not of tensors */
DS_MAP(sub_group);      /* 0 is auto */
DS_MAP(device);         /* none, cpu, nvme of [offload.X] */
DS_MAP(legacy_offload); /* true is cpu */
DS_MAP(pinned);         /* of a tier in host memory */
DS_MAP(disk);           /* of a tier on disk */
DS_MAP(aio);            /* of all tiers on disk */
DS_MAP(optimizer);
DS_MAP(parameter);   /* of the optimizer */
DS_MAP(adam_w_mode); /* with the optimizer */
DS_MAP(scheduler);
DS_MAP(precision); /* the switches of fp16 and bf16 */
DS_MAP(skip_nonfinite);
DS_MAP(bf16_master);
DS_MAP(bf16_states);
DS_MAP(autocast);
DS_MAP(comm_type);
DS_MAP(log_level);
DS_MAP(clipping); /* max_grad_norm of the optimizer */
DS_MAP(cpu_checkpointing);
DS_MAP(csv);
DS_MAP(csv_path);
DS_MAP(tensorboard);
DS_MAP(path);            /* as it is, unless empty */
DS_MAP(steps_per_print); /* as it is, but null and 0 are never */

/* deepspeed_defaults.c: what follows from several keys, and from those that are missing. */
int ds_finish(struct zr_import *im);

#endif
