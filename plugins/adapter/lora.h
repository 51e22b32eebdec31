/* SPDX-License-Identifier: Apache-2.0
 *
 * lora.h - adapter/lora: low-rank adaptation (Hu et al. 2021), y = W x + s B A x, in front of any
 * model whose declaration says which of its tensors are linear maps. W is frozen; A [r, in] and
 * B [out, r] are tensors of their own, in a unit beside each unit of the model.
 */
#ifndef ZR_ADAPTER_LORA_H
#define ZR_ADAPTER_LORA_H

#include <zeroth/adapter.h>
#include <zeroth/model.h>

#include <stdio.h>
#include <string.h>

#include "names.h"

#define LORA_TENSORS 2560  /* of a layer, most */
#define LORA_REGEX   "re:" /* what begins a regular expression in an option */
#define LORA_ALL     "all-linear"
#define LORA_LISTS   7 /* options that are lists of words */

struct lora_opts {
	int64_t r;
	double alpha, dropout;
	uint8_t rslora, ensure_weight_tying;
	const char *path, *targets, *exclude_modules, *layers_to_transform, *layers_pattern,
		*rank_pattern, *alpha_pattern, *modules_to_save;
};

#define LORA_TIED_NAME "lm_head" /* of a head that is the embedding: PEFT knows no others */

/* An adapted tensor. */
struct lora_map {
	const struct zr_tensor *weight; /* of the model */
	int32_t unit;                   /* of the model */
	int64_t in, out, r;
	double alpha;
	float scale;       /* s */
	uint32_t number;   /* of its dropout: among all, but experts have that of their first */
	int32_t tensor, a; /* numbers of W and A in the declaration; B is a + 1 */
	int embeds;        /* W is an embedding: a row of it for each of `in` tokens */
	int heads;         /* W is the output projection */
	int tied;          /* it is an embedding and also the head, which has no adapter */
};

/* The same as a layer sees it: numbers among the tensors of its call. */
struct lora_use {
	const struct lora_map *map;
	int32_t weight, a; /* B is a + 1 */
	int32_t kept;      /* number among those of which products are kept; -1: an expert's */
};

struct lora_layer {
	struct lora_use *use;
	int32_t n, tensors; /* tensors of the model */
	int32_t kept;       /* maps that are no expert's */
	int32_t experts;    /* units that are experts; 0: none has adapters */
	int heads;          /* it has an adapted output projection */
};

struct zr_inst {
	const struct zr_host *h;
	struct lora_opts o;        /* as adapter_config.json has them, if there is one */
	char *of_file[LORA_LISTS]; /* lists from there */
	char number[2][40];        /* and numbers, as text */
	const char *option[2 * (4 + LORA_LISTS) + 1]; /* of lora_options */
	char *text;                                   /* of lora_config */
	const struct zr_model_v1 *model;
	struct zr_inst *base;
	struct zr_model_decl decl; /* of the model */
	const char *prefix;        /* of names in the model's files, "": none */
	const char *ignored;       /* as struct zr_pretrained_v1 has it */
	/* modules of a head that is the embedding, and of that; "": the model has no such head */
	char head[LORA_NAME], embedding[LORA_NAME];
	char *saved_list; /* modules_to_save as ensure_weight_tying makes it; NULL: as given */
	int tied_saved;   /* the embedding is trained as it is, and the head with it */
	struct lora_map *map;
	int32_t maps;
	uint8_t *kept;               /* [tensors of decl] trained as they are */
	struct lora_regex *regex;    /* of `targets`; NULL: it is a list */
	struct lora_regex *excluded; /* of `exclude_modules`, likewise */
	struct lora_layer *layer;    /* [n_layers] */
	struct lora_use *use;        /* of all layers */
	int32_t *beside;             /* [units of decl] the unit of its adapters, -1: none */
	/* what declare() answers */
	struct zr_unit *units;
	struct zr_tensor *tensors; /* behind the last one: no name */
	struct zr_layer *layers;
	int32_t *layer_units;
	char (*names)[LORA_NAME];
};

static inline const struct zr_unit *lora_unit(const struct zr_model_decl *d, uint32_t i)
{
	return (const void *)((const char *)d->units + (size_t)i * d->unit_stride);
}

static inline const struct zr_tensor *lora_tensor(const struct zr_model_decl *d,
						  const struct zr_unit *u, uint32_t i)
{
	return (const void *)((const char *)u->tensors + (size_t)i * d->tensor_stride);
}

static inline int lora_is_regex(const char *text)
{
	return !strncmp(text, LORA_REGEX, strlen(LORA_REGEX));
}

/* The module of a tensor, with its name in PyTorch. Returns 0 for a tensor without a module. */
static inline int lora_module_of(const struct zr_inst *inst, const char *tensor,
				 char module[LORA_NAME])
{
	const char *dot = strrchr(tensor, '.');
	if (!dot)
		return 0;

	const int has_prefix = !strncmp(tensor, inst->prefix, strlen(inst->prefix));
	snprintf(module, LORA_NAME, "%s%.*s", has_prefix ? "" : inst->prefix, (int)(dot - tensor),
		 tensor);

	return 1;
}

/* tying.c. lora_find_tied: the names of a head that is the embedding. lora_tie: what
 * ensure_weight_tying makes of the options. [main] */
void lora_find_tied(struct zr_inst *inst);
int lora_tie(struct zr_inst *inst);

/* targets.c: which tensors of `decl` are adapted, as `map`; marks those that are trained as they
 * are. kept: [tensors of decl], set to 1 for those. [main] */
int lora_find(struct zr_inst *inst, uint8_t *kept);

/* regex.c: a regular expression that is to fit whole names. NULL may be freed. [main] */
struct lora_regex;
int lora_regex_new(const struct zr_host *h, const char *text, struct lora_regex **out);
int lora_regex_fits(const struct zr_host *h, const struct lora_regex *re, const char *name,
		    int *fits);
void lora_regex_free(struct lora_regex *re);

/* python.c: the first part of an expression that Python and PCRE2 do not read alike; NULL: there is
 * none. */
const char *lora_python_differs(const char *text);

/* config.c: what adapter_config.json in o->path says, in o; its lists are in text, freed by
 * h->release. And the text of such a file, owned by the instance. [main] */
int lora_read_config(const struct zr_host *h, struct lora_opts *o, char *text[LORA_LISTS]);
const char *lora_config(struct zr_inst *inst, const char *base);
const char *const *lora_options(struct zr_inst *inst); /* what the file said; none: no file */

/* merge.c: W with what its adapter adds. [main] */
int32_t lora_merge_with(struct zr_inst *inst, int32_t tensor, int32_t with[ZR_MERGE_WITH]);
int lora_merge(struct zr_inst *inst, const struct zr_merge *g);

/* maps.c: the products of one layer, and the bytes that they keep and work with: added to *out. */
void lora_add_bytes(const struct zr_inst *inst, const struct lora_layer *l,
		    const struct zr_layer_call *c, struct zr_layer_bytes *out);
int lora_call(struct zr_inst *inst, const struct zr_layer_call *c, int backward);
int lora_logits(struct zr_inst *inst, const struct zr_layer_call *c, int64_t row, float *logits);

#endif
