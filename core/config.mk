# SPDX-License-Identifier: Apache-2.0
#
# Failures, log, plugins, options and the INI file.
core_libcore_la_SOURCES += \
	core/config.c core/config.h core/config_impl.h core/config_layers.c core/config_sections.c core/config_show.c \
	core/error.c core/error.h \
	core/ini.c core/ini.h \
	core/loader.c core/loader.h core/plugin_file.c core/plugin_file.h core/plugin_find.c \
	core/log.c core/log.h \
	core/near.c \
	core/numbers.c core/options.c core/options.h core/options_core.c
