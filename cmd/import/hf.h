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
	int warmup;	       /* updates */
};

#define HF_MAP(name)                                                                               \
	int hf_##name(struct zr_import *im, struct zr_setting *s, const struct zr_import_key *k)
HF_MAP(optimizer);
HF_MAP(scheduler);
HF_MAP(beside);	 /* a part of another line */
HF_MAP(learning_rate);
HF_MAP(epsilon); /* of Adam only */
HF_MAP(weight_decay);
HF_MAP(clipping); /* unless DeepSpeed clips by its own default */
HF_MAP(epochs);	  /* unless max_steps is given */
HF_MAP(max_steps);
HF_MAP(precision); /* bf16 and fp16 */
HF_MAP(tf32);
HF_MAP(recompute);
HF_MAP(count); /* a number of steps, no share of them */
HF_MAP(save_steps);
HF_MAP(save_strategy);
HF_MAP(eval_steps);
HF_MAP(eval_strategy);
HF_MAP(model);	  /* a directory, unless --model names one */
HF_MAP(yes);	  /* true: the value of `text` */
HF_MAP(monitors); /* report_to */
HF_MAP(fsdp);

/* Betas, the warm-up, and defaults that are not those of zeroth. */
int hf_finish(struct zr_import *im, const struct hf_names *n);

#endif
