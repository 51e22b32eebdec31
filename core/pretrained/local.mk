# SPDX-License-Identifier: Apache-2.0
#
# core/pretrained: model directories of Hugging Face.
core_libcore_la_SOURCES += \
	core/pretrained/pretrained.h core/pretrained/find.c core/pretrained/model_json.c core/pretrained/tensors.c
