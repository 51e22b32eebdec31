# SPDX-License-Identifier: Apache-2.0
#
# core/pretrained: the config.json of a directory of Hugging Face, a layer of the configuration.
core_libcore_la_SOURCES += core/pretrained/pretrained.h core/pretrained/find.c core/pretrained/grow.c \
	core/pretrained/model_json.c core/pretrained/tables.c core/pretrained/untie.c
