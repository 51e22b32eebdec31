/* SPDX-License-Identifier: Apache-2.0
 *
 * deepspeed.h - values of DeepSpeed's keys that a line of their own does not say: maps for the rows
 * of its table.
 */
#ifndef ZR_CMD_IMPORT_DEEPSPEED_H
#define ZR_CMD_IMPORT_DEEPSPEED_H

#include "cmd/import/import.h"

IMPORT_MAP(ds_legacy_stage);   /* "zero_optimization": true */
IMPORT_MAP(ds_stage);          /* 0 to 3, and what makes of 3 hpz or mics */
IMPORT_MAP(ds_stage3);         /* as it is, in stage 3 only */
IMPORT_MAP(ds_persistence);    /* of layers, not of tensors */
IMPORT_MAP(ds_sub_group);      /* 0 is auto */
IMPORT_MAP(ds_device);         /* none, cpu, nvme of [offload.X] */
IMPORT_MAP(ds_legacy_offload); /* true is cpu */
IMPORT_MAP(ds_pinned);         /* of a tier in host memory */
IMPORT_MAP(ds_disk);           /* of a tier on disk */
IMPORT_MAP(ds_aio);            /* of all tiers on disk */
IMPORT_MAP(ds_optimizer);
IMPORT_MAP(ds_parameter);   /* of the optimizer */
IMPORT_MAP(ds_adam_w_mode); /* with the optimizer */
IMPORT_MAP(ds_scheduler);
IMPORT_MAP(ds_precision); /* the switches of fp16 and bf16 */
IMPORT_MAP(ds_skip_nonfinite);
IMPORT_MAP(ds_bf16_master);
IMPORT_MAP(ds_bf16_states);
IMPORT_MAP(ds_autocast);
IMPORT_MAP(ds_own_comm_type);    /* where each rank has sequences of its own */
IMPORT_MAP(ds_shared_comm_type); /* where ranks share them */
IMPORT_MAP(ds_experts);
IMPORT_MAP(ds_log_level);
IMPORT_MAP(ds_clipping); /* max_grad_norm of the optimizer */
IMPORT_MAP(ds_cpu_checkpointing);
IMPORT_MAP(ds_csv);
IMPORT_MAP(ds_csv_path);
IMPORT_MAP(ds_tensorboard);
IMPORT_MAP(ds_path);            /* as it is, unless empty */
IMPORT_MAP(ds_steps_per_print); /* as it is, but null and 0 are never */

/* deepspeed_muon.c */
IMPORT_MAP(ds_lr);           /* of all, unless adam_lr or muon_lr says it */
IMPORT_MAP(ds_weight_decay); /* of all */
IMPORT_MAP(ds_momentum);
IMPORT_MAP(ds_of_muon); /* as it is, with Muon only */
IMPORT_MAP(ds_ns_method);
IMPORT_MAP(ds_per_head);
int ds_has_muon(struct zr_import *im);
/* The group of the matrices, from the setting that names Muon; the rest is as with AdamW. */
int ds_put_muon(struct zr_import *im, struct zr_setting *s);

/* deepspeed_defaults.c: what follows from several keys, and from those that are missing. */
int ds_finish(struct zr_import *im);

#endif
