/* SPDX-License-Identifier: Apache-2.0
 *
 * hf.h - what the training arguments of Hugging Face's transformers and Axolotl have in common:
 * maps for the rows of both tables, which find other settings of the same program by their names.
 */
#ifndef ZR_CMD_IMPORT_HF_H
#define ZR_CMD_IMPORT_HF_H

#include "cmd/import/import.h"

/* Where the two differ: names of keys, and values that count where a key is missing. NULL: nothing
 * does. */
struct hf_names {
	const struct zr_import_kind *kind;
	const char *scheduler;
	const char *scheduler_default;
	const char *const (
		*defaults)[2]; /* "section.key" and value, to NULL: where no line gives it */
	const char *note;      /* of such a line */
	int is_axolotl;        /* the warm-up is Axolotl's: see schedules.c */
};

IMPORT_MAP(hf_optimizer);
IMPORT_MAP(hf_scheduler);
IMPORT_MAP(hf_schedule_option); /* as it is, unless DeepSpeed names the schedule */
IMPORT_MAP(hf_beside);          /* a part of another line */
IMPORT_MAP(hf_learning_rate);
IMPORT_MAP(hf_epsilon); /* of Adam only */
IMPORT_MAP(hf_weight_decay);
IMPORT_MAP(hf_clipping); /* unless DeepSpeed clips by its own default */
IMPORT_MAP(hf_epochs);   /* unless max_steps is given */
IMPORT_MAP(hf_max_steps);
IMPORT_MAP(hf_precision); /* bf16 and fp16 */
IMPORT_MAP(hf_tf32);
IMPORT_MAP(hf_recompute);
IMPORT_MAP(hf_count); /* a number of steps, no share of them */
IMPORT_MAP(hf_save_steps);
IMPORT_MAP(hf_save_strategy);
IMPORT_MAP(hf_eval_steps);
IMPORT_MAP(hf_eval_strategy);
IMPORT_MAP(hf_model);    /* a directory, unless --model names one */
IMPORT_MAP(hf_yes);      /* true: the value of `text` */
IMPORT_MAP(hf_learned);  /* the same, with TRL's mask */
IMPORT_MAP(hf_monitors); /* report_to */
IMPORT_MAP(hf_fsdp);

/* A share of all steps as the value of "section.key" `to`, whose option ends in _ratio; the steps
 * follow once they are known. note: where there is no setting. */
int hf_put_share(struct zr_import *im, struct zr_setting *s, const char *to, double share,
		 const char *note);
/* Once at the end of each epoch, which is a share of all steps if the run is whole epochs. s: NULL:
 * a default, of the program of the first source. */
int hf_put_each_epoch(struct zr_import *im, struct zr_setting *s, const char *to, const char *note);

/* schedules.c: the schedule where none is named, and the warm-up. */
int hf_finish_schedule(struct zr_import *im, const struct hf_names *n);

/* Rows of what schedules are given beside their names. */
#define HF_SCHEDULE_KWARGS                                                                         \
	MADE("lr_scheduler_kwargs.num_cycles", "scheduler.num_cycles", hf_schedule_option),        \
		MADE("lr_scheduler_kwargs.min_lr", "scheduler.min_lr", hf_schedule_option),        \
		MADE("lr_scheduler_kwargs.min_lr_rate", "scheduler.min_lr_rate",                   \
		     hf_schedule_option),                                                          \
		MADE("lr_scheduler_kwargs.min_lr_ratio", "scheduler.min_lr_rate",                  \
		     hf_schedule_option),                                                          \
		MADE("lr_scheduler_kwargs.warmup_lr_rate", "scheduler.warmup_lr_rate",             \
		     hf_schedule_option),                                                          \
		MADE("lr_scheduler_kwargs.lr_end", "scheduler.lr_end", hf_schedule_option),        \
		MADE("lr_scheduler_kwargs.power", "scheduler.power", hf_schedule_option),          \
		MADE("lr_scheduler_kwargs.timescale", "scheduler.timescale", hf_schedule_option),  \
		MADE("lr_scheduler_kwargs.num_decay_steps", "scheduler.num_decay_steps",           \
		     hf_schedule_option),                                                          \
		MADE("lr_scheduler_kwargs.num_stable_steps", "scheduler.num_stable_steps",         \
		     hf_schedule_option),                                                          \
		MADE("lr_scheduler_kwargs.warmup_type", "scheduler.warmup_type",                   \
		     hf_schedule_option),                                                          \
		MADE("lr_scheduler_kwargs.decay_type", "scheduler.decay_type",                     \
		     hf_schedule_option),                                                          \
		STOP("", "no schedule of transformers has it", "lr_scheduler_kwargs.*")

/* Betas, the warm-up, and defaults that are not those of zeroth. */
int hf_finish(struct zr_import *im, const struct hf_names *n);

#endif
