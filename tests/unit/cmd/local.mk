# SPDX-License-Identifier: Apache-2.0
#
# The loop that people see, and the supervisor of local ranks.
cmd_tests = %D%/t_clock %D%/t_doctor %D%/t_file_hash %D%/t_forecast %D%/t_import %D%/t_merge %D%/t_oom %D%/t_rates %D%/t_run %D%/t_run_eval \
	%D%/t_sample %D%/t_supervise
check_PROGRAMS += $(cmd_tests)
TESTS += $(cmd_tests)

%C%_t_clock_SOURCES = %D%/t_clock.c
%C%_t_clock_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_clock_LDADD = train/librun.la core/libcore.la $(CMOCKA_LIBS) -lm

%C%_t_doctor_SOURCES = %D%/t_doctor.c
%C%_t_doctor_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS)
%C%_t_doctor_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_doctor_LDADD = cmd/libcmd.la train/librun.la core/libcore.la $(JANSSON_LIBS) $(CMOCKA_LIBS)

%C%_t_file_hash_SOURCES = %D%/t_file_hash.c
%C%_t_file_hash_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_file_hash_LDADD = train/librun.la $(CMOCKA_LIBS)

%C%_t_forecast_SOURCES = %D%/t_forecast.c
%C%_t_forecast_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS)
%C%_t_forecast_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_forecast_LDADD = train/librun.la files/libfiles.la core/libcore.la $(JANSSON_LIBS) $(CMOCKA_LIBS) -lm

%C%_t_import_SOURCES = %D%/t_import.c
%C%_t_import_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS)
%C%_t_import_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_import_LDADD = cmd/import/libimport.la files/tokenizer/libtokenizer.la core/libcore.la $(JANSSON_LIBS) $(CMOCKA_LIBS)

%C%_t_merge_SOURCES = %D%/t_merge.c
%C%_t_merge_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS)
%C%_t_merge_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_merge_LDADD = train/librun.la files/libfiles.la core/libcore.la $(JANSSON_LIBS) $(CMOCKA_LIBS) -lm

%C%_t_oom_SOURCES = %D%/t_oom.c
%C%_t_oom_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_oom_LDADD = train/librun.la $(CMOCKA_LIBS)

%C%_t_rates_SOURCES = %D%/t_rates.c
%C%_t_rates_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_rates_LDADD = train/librun.la core/libcore.la $(CMOCKA_LIBS) -lm

check_PROGRAMS += %D%/t_report
TESTS += %D%/t_report
%C%_t_report_SOURCES = %D%/t_report.c
%C%_t_report_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_report_LDADD = cmd/report/libreport.la core/libcore.la $(CMOCKA_LIBS) -lm

%C%_t_run_SOURCES = %D%/t_run.c $(ranks_fixture)
%C%_t_run_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS)
%C%_t_run_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_run_LDADD = train/librun.la core/libcore.la $(JANSSON_LIBS) $(CMOCKA_LIBS)

%C%_t_sample_SOURCES = %D%/t_sample.c tests/lib/cards.h
%C%_t_sample_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS)
%C%_t_sample_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_sample_LDADD = cmd/libcmd.la train/librun.la files/tokenizer/libtokenizer.la core/libcore.la \
	$(JANSSON_LIBS) $(ZLIB_LIBS) $(CMOCKA_LIBS)

%C%_t_run_eval_SOURCES = %D%/t_run_eval.c
%C%_t_run_eval_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_run_eval_LDADD = train/librun.la $(CMOCKA_LIBS)

%C%_t_supervise_SOURCES = %D%/t_supervise.c
%C%_t_supervise_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_supervise_LDADD = train/librun.la $(CMOCKA_LIBS)
