# SPDX-License-Identifier: Apache-2.0
#
# Roles whose plugins are small: a test each.
plugin_tests = %D%/t_boot %D%/t_fp16 %D%/t_monitor %D%/t_sched %D%/t_small \
	%D%/t_tensorboard
check_PROGRAMS += $(plugin_tests)
TESTS += $(plugin_tests)

%C%_t_boot_SOURCES = %D%/t_boot.c $(ranks_fixture)
%C%_t_boot_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_boot_LDADD = tests/lib/libtesthost.la $(CMOCKA_LIBS)

%C%_t_fp16_SOURCES = %D%/t_fp16.c
%C%_t_fp16_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_fp16_LDADD = tests/lib/libtesthost.la $(CMOCKA_LIBS)

%C%_t_monitor_SOURCES = %D%/t_monitor.c
%C%_t_monitor_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_monitor_LDADD = tests/lib/libtesthost.la $(CMOCKA_LIBS)

%C%_t_sched_SOURCES = %D%/t_sched.c
%C%_t_sched_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_sched_LDADD = tests/lib/libtesthost.la $(CMOCKA_LIBS) -lm

%C%_t_small_SOURCES = %D%/t_small.c
%C%_t_small_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_small_LDADD = tests/lib/libtesthost.la $(CMOCKA_LIBS)

%C%_t_tensorboard_SOURCES = %D%/t_tensorboard.c plugins/monitor/message.c plugins/monitor/tag.c
%C%_t_tensorboard_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_tensorboard_LDADD = tests/lib/libtesthost.la $(CMOCKA_LIBS)

check_PROGRAMS += %D%/t_wandb
TESTS += %D%/t_wandb
%C%_t_wandb_SOURCES = %D%/t_wandb.c
%C%_t_wandb_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_wandb_LDADD = tests/lib/libtesthost.la $(CMOCKA_LIBS)
