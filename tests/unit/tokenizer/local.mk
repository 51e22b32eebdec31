# SPDX-License-Identifier: Apache-2.0
#
# Tokenizers.
tokenizer_tests = %D%/t_decode %D%/t_joins %D%/t_lists %D%/t_marks %D%/t_merges \
	%D%/t_tokenizer %D%/t_trie %D%/t_words
check_PROGRAMS += $(tokenizer_tests)
TESTS += $(tokenizer_tests)

%C%_t_decode_SOURCES = %D%/t_decode.c
%C%_t_decode_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS)
%C%_t_decode_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_decode_LDADD = files/tokenizer/libtokenizer.la core/libcore.la $(JANSSON_LIBS) \
	$(CMOCKA_LIBS)

%C%_t_joins_SOURCES = %D%/t_joins.c
%C%_t_joins_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS)
%C%_t_joins_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_joins_LDADD = files/tokenizer/libtokenizer.la core/libcore.la $(JANSSON_LIBS) \
	$(CMOCKA_LIBS)

%C%_t_lists_SOURCES = %D%/t_lists.c
%C%_t_lists_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS)
%C%_t_lists_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_lists_LDADD = files/tokenizer/libtokenizer.la core/libcore.la $(JANSSON_LIBS) \
	$(CMOCKA_LIBS)

%C%_t_tokenizer_SOURCES = %D%/t_tokenizer.c
%C%_t_tokenizer_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS) $(PCRE2_CFLAGS) $(UTF8PROC_CFLAGS)
%C%_t_tokenizer_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_tokenizer_LDADD = files/tokenizer/libtokenizer.la core/libcore.la $(JANSSON_LIBS) \
	$(CMOCKA_LIBS)

%C%_t_marks_SOURCES = %D%/t_marks.c
%C%_t_marks_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS)
%C%_t_marks_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_marks_LDADD = files/tokenizer/libtokenizer.la core/libcore.la $(JANSSON_LIBS) \
	$(CMOCKA_LIBS)

%C%_t_merges_SOURCES = %D%/t_merges.c
%C%_t_merges_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS)
%C%_t_merges_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_merges_LDADD = files/tokenizer/libtokenizer.la core/libcore.la $(JANSSON_LIBS) \
	$(CMOCKA_LIBS)

%C%_t_trie_SOURCES = %D%/t_trie.c
%C%_t_trie_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS)
%C%_t_trie_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_trie_LDADD = files/tokenizer/libtokenizer.la core/libcore.la $(CMOCKA_LIBS)

%C%_t_words_SOURCES = %D%/t_words.c
%C%_t_words_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_words_LDADD = files/tokenizer/libtokenizer.la core/libcore.la $(CMOCKA_LIBS)
