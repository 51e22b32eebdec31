# The small plugins: data, schedulers, monitors, optimizers; and one built outside the tree.
plugin_tests = %D%/t_data_text %D%/t_data_tokens %D%/t_sched %D%/t_monitor %D%/t_optim %D%/t_optim_bits %D%/t_fp16 %D%/t_small
check_PROGRAMS += $(plugin_tests)
TESTS += $(plugin_tests) %D%/outoftree.sh
EXTRA_DIST += %D%/outoftree.sh %D%/examples/signsgd.c \
	%D%/golden/make_warmup.py %D%/golden/warmup.txt %D%/golden/make_schedules.py \
	%D%/golden/schedules.txt %D%/golden/make_optim.py %D%/golden/optim.txt

%C%_t_data_text_SOURCES = %D%/t_data_text.c %D%/data_rig.c %D%/data_rig.h
%C%_t_data_text_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS) $(ZLIB_CFLAGS)
%C%_t_data_text_LDADD = tests/libtesthost.la $(CMOCKA_LIBS) $(ZLIB_LIBS)

%C%_t_data_tokens_SOURCES = %D%/t_data_tokens.c %D%/data_rig.c %D%/data_rig.h
%C%_t_data_tokens_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_data_tokens_LDADD = tests/libtesthost.la $(CMOCKA_LIBS)

%C%_t_sched_SOURCES = %D%/t_sched.c
%C%_t_sched_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_sched_LDADD = tests/libtesthost.la $(CMOCKA_LIBS) -lm

%C%_t_monitor_SOURCES = %D%/t_monitor.c
%C%_t_monitor_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_monitor_LDADD = tests/libtesthost.la $(CMOCKA_LIBS)

%C%_t_optim_SOURCES = %D%/t_optim.c %D%/optim_rig.c %D%/optim_rig.h
%C%_t_optim_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_optim_LDADD = tests/libtesthost.la core/libcore.la $(CMOCKA_LIBS) -lm

%C%_t_optim_bits_SOURCES = %D%/t_optim_bits.c %D%/half.h %D%/optim_rig.c %D%/optim_rig.h
%C%_t_optim_bits_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_optim_bits_LDADD = tests/libtesthost.la core/libcore.la $(CMOCKA_LIBS)

%C%_t_fp16_SOURCES = %D%/t_fp16.c
%C%_t_fp16_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_fp16_LDADD = tests/libtesthost.la $(CMOCKA_LIBS)

%C%_t_small_SOURCES = %D%/t_small.c
%C%_t_small_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_small_LDADD = tests/libtesthost.la $(CMOCKA_LIBS)
