# SPDX-License-Identifier: Apache-2.0
#
# Tokenizers.
tokenizer_tests = %D%/t_tokenizer
check_PROGRAMS += $(tokenizer_tests)
TESTS += $(tokenizer_tests)

%C%_t_tokenizer_SOURCES = %D%/t_tokenizer.c
%C%_t_tokenizer_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS) $(PCRE2_CFLAGS) $(UTF8PROC_CFLAGS)
%C%_t_tokenizer_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_tokenizer_LDADD = files/tokenizer/libtokenizer.la core/libcore.la $(JANSSON_LIBS) \
	$(CMOCKA_LIBS)
