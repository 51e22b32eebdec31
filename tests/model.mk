# Tests of plugins/model.
model_tests = %D%/t_gpt2 %D%/t_gpt2_options %D%/t_llama %D%/t_llama_options
check_PROGRAMS += $(model_tests)
TESTS += $(model_tests) %D%/llama.sh
EXTRA_DIST += %D%/llama.sh %D%/golden/make_gpt2.py %D%/golden/gpt2.bin %D%/golden/make_llama.py %D%/golden/llama.bin

model_rig = %D%/model_rig.c %D%/model_rig.h
model_test_ldadd = %D%/libtesthost.la $(CMOCKA_LIBS) -lm

%C%_t_gpt2_SOURCES = %D%/t_gpt2.c $(model_rig)
%C%_t_gpt2_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_gpt2_LDADD = $(model_test_ldadd)

%C%_t_gpt2_options_SOURCES = %D%/t_gpt2_options.c $(model_rig)
%C%_t_gpt2_options_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_gpt2_options_LDADD = $(model_test_ldadd)

%C%_t_llama_SOURCES = %D%/t_llama.c $(model_rig)
%C%_t_llama_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_llama_LDADD = $(model_test_ldadd)

%C%_t_llama_options_SOURCES = %D%/t_llama_options.c $(model_rig)
%C%_t_llama_options_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_llama_options_LDADD = $(model_test_ldadd)
