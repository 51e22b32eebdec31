# SPDX-License-Identifier: Apache-2.0
#
# plugins/model.
model_tests = %D%/t_gpt2 %D%/t_gpt2_options %D%/t_llama %D%/t_llama_options \
	%D%/t_families %D%/t_lora %D%/t_lora_rules %D%/t_mixture %D%/t_slices
check_PROGRAMS += $(model_tests)
TESTS += $(model_tests)

%C%_t_gpt2_SOURCES = %D%/t_gpt2.c $(model_fixture)
%C%_t_gpt2_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_gpt2_LDADD = tests/lib/libtesthost.la $(CMOCKA_LIBS) -lm

%C%_t_gpt2_options_SOURCES = %D%/t_gpt2_options.c $(model_fixture)
%C%_t_gpt2_options_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_gpt2_options_LDADD = tests/lib/libtesthost.la $(CMOCKA_LIBS) -lm

%C%_t_llama_SOURCES = %D%/t_llama.c $(model_fixture)
%C%_t_llama_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_llama_LDADD = tests/lib/libtesthost.la $(CMOCKA_LIBS) -lm

%C%_t_llama_options_SOURCES = %D%/t_llama_options.c $(model_fixture)
%C%_t_llama_options_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_llama_options_LDADD = tests/lib/libtesthost.la $(CMOCKA_LIBS) -lm

%C%_t_lora_SOURCES = %D%/t_lora.c $(model_fixture)
%C%_t_lora_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_lora_LDADD = tests/lib/libtesthost.la $(CMOCKA_LIBS) -lm

%C%_t_lora_rules_SOURCES = %D%/t_lora_rules.c
%C%_t_lora_rules_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS) $(JANSSON_CFLAGS)
%C%_t_lora_rules_LDADD = tests/lib/libtesthost.la $(CMOCKA_LIBS) $(JANSSON_LIBS) -lm

%C%_t_mixture_SOURCES = %D%/t_mixture.c $(model_fixture)
%C%_t_mixture_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_mixture_LDADD = tests/lib/libtesthost.la $(CMOCKA_LIBS) -lm

%C%_t_slices_SOURCES = %D%/t_slices.c $(model_fixture) $(slices_fixture) $(testdevice_h)
%C%_t_slices_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_slices_LDADD = tests/lib/libtesthost.la $(CMOCKA_LIBS) -lm

%C%_t_families_SOURCES = %D%/t_families.c $(model_fixture)
%C%_t_families_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_families_LDADD = tests/lib/libtesthost.la $(CMOCKA_LIBS) -lm
