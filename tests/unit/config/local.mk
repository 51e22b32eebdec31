# SPDX-License-Identifier: Apache-2.0
#
# Configurations, and the files of plugins.
config_tests = %D%/t_config %D%/t_loader %D%/t_values
check_PROGRAMS += $(config_tests)
TESTS += $(config_tests)

%C%_t_config_SOURCES = %D%/t_config.c
%C%_t_config_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_config_LDADD = core/libcore.la $(CMOCKA_LIBS)

%C%_t_loader_SOURCES = %D%/t_loader.c
%C%_t_loader_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_loader_LDADD = core/libcore.la $(CMOCKA_LIBS)

%C%_t_values_SOURCES = %D%/t_values.c
%C%_t_values_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_values_LDADD = core/libcore.la $(CMOCKA_LIBS)
