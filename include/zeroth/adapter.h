/* SPDX-License-Identifier: Apache-2.0
 *
 * zeroth/adapter.h - STABLE. Role "adapter": trains little beside a model that is frozen. An
 * adapter has interface "zr.model/1" (zeroth/model.h) and stands in front of the model, which it
 * gets by host->get("zr.model/1"), as "zr.pretrained/1" if that has it: its declaration is the
 * model's with tensors of its own behind the model's, which have ZR_TENSOR_ADDED, while what it
 * does not train has ZR_TENSOR_FROZEN; its calls lead to the model's. Interface "zr.adapter/1",
 * optional beside it: how the adapters are written and read as files of Hugging Face's PEFT. This
 * header is stable; "zr.model/1" is a draft, so an adapter still loads only into hosts of its draft
 * revision.
 */
#ifndef ZEROTH_ADAPTER_H
#define ZEROTH_ADAPTER_H

#include <zeroth/plugin.h>
#if ZR_HEADERS_NEED < 4
#undef ZR_HEADERS_NEED
#define ZR_HEADERS_NEED 4
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Rows of a tensor of the model, which are to become what model and adapter are together.
 * GROWABLE. */
#define ZR_MERGE_WITH 8
struct zr_merge {
	uint32_t size;
	int32_t tensor;   /* its number in the canonical order */
	int64_t first, n; /* rows [first, first + n): elements of its first dimension */
	float *rows;      /* fp32, host memory: on entry the model's, on return the merged ones */
	/* [as merge_with() answers] those tensors, whole, as `rows` is; borrowed for the call */
	const float *const *with;
};

/* GROWABLE. */
struct zr_adapter_v1 {
	uint32_t size, rsv;
	/* (optional) [main] The directory with adapter_model.safetensors from which a training
	 * starts; NULL or "": none. Owned by the options. */
	const char *(*path)(struct zr_inst *);
	/* (optional) [main] The text of adapter_config.json, for a base model that `base` names;
	 * owned by the instance. NULL: there is no memory. */
	const char *(*config)(struct zr_inst *, const char *base);
	/* (optional) [main] The options that path() decided, whatever the INI says: key, value,
	 * ..., NULL; owned by the instance. */
	const char *const *(*options)(struct zr_inst *);
	/* (optional, both) [main] The model with what the adapter learned. merge_with() answers
	 * which of the added tensors merge() needs for `tensor`, by their numbers in the canonical
	 * order; it returns how many, 0: `tensor` stays as it is. What merge() makes of a row does
	 * not depend on how many rows are in a call. */
	int32_t (*merge_with)(struct zr_inst *, int32_t tensor, int32_t with[ZR_MERGE_WITH]);
	int (*merge)(struct zr_inst *, const struct zr_merge *);
};

#ifdef __cplusplus
}
#endif
#endif
