/* SPDX-License-Identifier: Apache-2.0
 *
 * zeroth/adapter.h - DRAFT. Role "adapter": trains little beside a model that is frozen. An adapter
 * has interface "zr.model/1" (zeroth/model.h) and stands in front of the model, which it gets by
 * host->get("zr.model/1"): its declaration is the model's with tensors of its own behind the
 * model's, which have ZR_TENSOR_ADDED, while what it does not train has ZR_TENSOR_FROZEN; its calls
 * lead to the model's. Interface "zr.adapter/1", optional beside it: how the adapters are written
 * and read as files of Hugging Face's PEFT.
 */
#ifndef ZEROTH_ADAPTER_H
#define ZEROTH_ADAPTER_H

#include <zeroth/model.h>

#ifdef __cplusplus
extern "C" {
#endif

/* GROWABLE. */
struct zr_adapter_v1 {
	uint32_t size, rsv;
	/* (optional) [main] The directory with adapter_model.safetensors from which a training
	 * starts; NULL or "": none. Owned by the options. */
	const char *(*path)(struct zr_inst *);
	/* (optional) [main] The text of adapter_config.json, for a base model that `base` names;
	 * owned by the instance. NULL: there is no memory. */
	const char *(*config)(struct zr_inst *, const char *base);
};

#ifdef __cplusplus
}
#endif
#endif
