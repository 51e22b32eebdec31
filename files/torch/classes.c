/* SPDX-License-Identifier: Apache-2.0
 *
 * classes.c - the names that a pickle may use: those of torch.save, of checkpoints of
 * torch.distributed, and the few of DeepSpeed's whose contents are numbers and texts.
 */
#include <string.h>

#include "files/torch/pickle.h"

static const struct {
	const char *name;
	enum zr_py_class what;
	int32_t dtype;
} classes[] = {
	{ "collections OrderedDict", ZR_PY_CLASS_DICT, 0 },
	{ "collections defaultdict", ZR_PY_CLASS_DICT, 0 },
	{ "builtins dict", ZR_PY_CLASS_DICT, 0 },
	{ "builtins set", ZR_PY_CLASS_LIST, 0 },
	{ "__builtin__ set", ZR_PY_CLASS_LIST, 0 },
	{ "torch Size", ZR_PY_CLASS_LIST, 0 },
	{ "torch._utils _rebuild_tensor_v2", ZR_PY_CLASS_TENSOR, 0 },
	{ "torch._utils _rebuild_parameter", ZR_PY_CLASS_PARAMETER, 0 },
	{ "torch._tensor _rebuild_from_type_v2", ZR_PY_CLASS_FROM_TYPE, 0 },
	{ "torch Tensor", ZR_PY_CLASS_TYPE, 0 },
	{ "torch.nn.parameter Parameter", ZR_PY_CLASS_TYPE, 0 },
	{ "torch FloatStorage", ZR_PY_CLASS_STORAGE, ZR_F32 },
	{ "torch HalfStorage", ZR_PY_CLASS_STORAGE, ZR_F16 },
	{ "torch BFloat16Storage", ZR_PY_CLASS_STORAGE, ZR_BF16 },
	{ "torch LongStorage", ZR_PY_CLASS_STORAGE, ZR_I64 },
	{ "torch IntStorage", ZR_PY_CLASS_STORAGE, ZR_I32 },
	{ "torch ByteStorage", ZR_PY_CLASS_STORAGE, ZR_U8 },
	{ "torch BoolStorage", ZR_PY_CLASS_STORAGE, 0 },
	{ "torch DoubleStorage", ZR_PY_CLASS_STORAGE, ZR_F64 },
	{ "torch ShortStorage", ZR_PY_CLASS_STORAGE, 0 },
	{ "torch CharStorage", ZR_PY_CLASS_STORAGE, 0 },
	{ "torch float32", ZR_PY_CLASS_TYPE, ZR_F32 },
	{ "torch float16", ZR_PY_CLASS_TYPE, ZR_F16 },
	{ "torch bfloat16", ZR_PY_CLASS_TYPE, ZR_BF16 },
	{ "torch int64", ZR_PY_CLASS_TYPE, ZR_I64 },
	{ "torch int32", ZR_PY_CLASS_TYPE, ZR_I32 },
	{ "torch uint8", ZR_PY_CLASS_TYPE, ZR_U8 },
	{ "torch float64", ZR_PY_CLASS_TYPE, ZR_F64 },
	{ "torch bool", ZR_PY_CLASS_TYPE, 0 },
	{ "torch device", ZR_PY_CLASS_DATA, 0 },
	{ "torch.serialization _get_layout", ZR_PY_CLASS_DATA, 0 },
	{ "torch.distributed.checkpoint.metadata Metadata", ZR_PY_CLASS_DATA, 0 },
	{ "torch.distributed.checkpoint.metadata TensorStorageMetadata", ZR_PY_CLASS_DATA, 0 },
	{ "torch.distributed.checkpoint.metadata BytesStorageMetadata", ZR_PY_CLASS_DATA, 0 },
	{ "torch.distributed.checkpoint.metadata ChunkStorageMetadata", ZR_PY_CLASS_DATA, 0 },
	{ "torch.distributed.checkpoint.metadata TensorProperties", ZR_PY_CLASS_DATA, 0 },
	{ "torch.distributed.checkpoint.metadata MetadataIndex", ZR_PY_CLASS_DATA, 0 },
	{ "torch.distributed.checkpoint.metadata StorageMeta", ZR_PY_CLASS_DATA, 0 },
	{ "torch.distributed.checkpoint.metadata _MEM_FORMAT_ENCODING", ZR_PY_CLASS_DATA, 0 },
	{ "torch.distributed.checkpoint.filesystem _StorageInfo", ZR_PY_CLASS_DATA, 0 },
	{ "torch.distributed.checkpoint.filesystem _StoragePrefix", ZR_PY_CLASS_DATA, 0 },
	{ "pathlib PosixPath", ZR_PY_CLASS_DATA, 0 },
	{ "pathlib._local PosixPath", ZR_PY_CLASS_DATA, 0 },
	{ "deepspeed.runtime.fp16.loss_scaler LossScaler", ZR_PY_CLASS_DATA, 0 },
	{ "deepspeed.runtime.fp16.loss_scaler DynamicLossScaler", ZR_PY_CLASS_DATA, 0 },
	{ "deepspeed.runtime.zero.config ZeroStageEnum", ZR_PY_CLASS_DATA, 0 },
	{ "deepspeed.utils.tensor_fragment fragment_address", ZR_PY_CLASS_DATA, 0 },
	{ "deepspeed.runtime.zero.offload_config OffloadDeviceEnum", ZR_PY_CLASS_DATA, 0 },
};

enum zr_py_class zr_py_class_of(const char *name, int32_t *dtype)
{
	for (size_t i = 0; i < sizeof classes / sizeof *classes; i++)
		if (!strcmp(classes[i].name, name)) {
			*dtype = classes[i].dtype;
			return classes[i].what;
		}

	return ZR_PY_CLASS_UNKNOWN;
}
