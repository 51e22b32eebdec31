# SPDX-License-Identifier: Apache-2.0
#
# The INI file, option tables and plugin files: everything before an instance exists.
core_libcore_la_SOURCES += \
	core/config/calls.c core/config/config_values.c core/config/config.h core/config/config_impl.h core/config/config_layers.c \
	core/config/config_pretrained.c \
	core/config/config_sections.c core/config/config_show.c \
	core/config/ini.c core/config/ini.h \
	core/config/loader.c core/config/loader.h core/config/plugin_file.c core/config/plugin_file.h core/config/plugin_find.c \
	core/config/near.c \
	core/config/numbers.c core/config/options.c core/config/options.h core/config/options_core.c
