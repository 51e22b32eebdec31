# SPDX-License-Identifier: Apache-2.0
#
# Tests of cmd/tokenizer, and of what uses it.
check_PROGRAMS += %D%/t_tokenizer
TESTS += %D%/t_tokenizer %D%/tokenize.sh
tokenizer_golden = $(foreach f,gpt2 llama3 qwen2 gpt4 joined,%D%/golden/tokenizers/$f.json %D%/golden/tokenizers/$f.ids) %D%/golden/tokenizers/text
EXTRA_DIST += %D%/tokenize.sh %D%/golden/make_tokenizers.py $(tokenizer_golden)

%C%_t_tokenizer_SOURCES = %D%/t_tokenizer.c
%C%_t_tokenizer_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS) $(PCRE2_CFLAGS) $(UTF8PROC_CFLAGS)
%C%_t_tokenizer_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_tokenizer_LDADD = cmd/tokenizer/libtokenizer.la core/libcore.la $(JANSSON_LIBS) $(CMOCKA_LIBS)
