# SPDX-License-Identifier: Apache-2.0
#
# Tests of configurations, plugins' files and the commands that show them.
config_programs = %D%/t_config %D%/t_loader %D%/t_values
config_scripts = %D%/errors.sh %D%/notfiles.sh %D%/loader.sh %D%/commands.sh
check_PROGRAMS += $(config_programs)
TESTS += $(config_programs) $(config_scripts)
EXTRA_DIST += $(config_scripts) %D%/badplugin.c %D%/slowread.c

%C%_t_config_SOURCES = %D%/t_config.c
%C%_t_config_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_config_LDADD = core/libcore.la $(CMOCKA_LIBS)

%C%_t_loader_SOURCES = %D%/t_loader.c
%C%_t_loader_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_loader_LDADD = core/libcore.la $(CMOCKA_LIBS)

%C%_t_values_SOURCES = %D%/t_values.c
%C%_t_values_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_values_LDADD = core/libcore.la $(CMOCKA_LIBS)
