# Tests of plugins/model.
gpt2_tests = %D%/t_gpt2 %D%/t_gpt2_options
check_PROGRAMS += $(gpt2_tests)
TESTS += $(gpt2_tests)
EXTRA_DIST += %D%/golden/make_gpt2.py %D%/golden/gpt2.bin

model_rig = %D%/model_rig.c %D%/model_rig.h
model_test_ldadd = %D%/libtesthost.la $(CMOCKA_LIBS) -lm

%C%_t_gpt2_SOURCES = %D%/t_gpt2.c $(model_rig)
%C%_t_gpt2_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_gpt2_LDADD = $(model_test_ldadd)

%C%_t_gpt2_options_SOURCES = %D%/t_gpt2_options.c $(model_rig)
%C%_t_gpt2_options_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_gpt2_options_LDADD = $(model_test_ldadd)
