# SPDX-License-Identifier: Apache-2.0
#
# core/config: the INI file, option tables, values that follow from others.
core_libcore_la_SOURCES += \
	core/config/batch.c core/config/batch.h \
	core/config/config_load.c core/config/config_values.c core/config/config.h core/config/config_impl.h core/config/config_layers.c \
	core/config/config_names.c core/config/config_pretrained.c \
	core/config/config_sections.c core/config/config_show.c \
	core/config/ini.c core/config/ini.h \
	core/config/near.c \
	core/config/numbers.c core/config/options.c core/config/options.h core/config/options_core.c
