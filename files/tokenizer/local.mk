# SPDX-License-Identifier: Apache-2.0
#
# files/tokenizer: text to the ids of a tokenizer.json, and back.
noinst_LTLIBRARIES += %D%/libtokenizer.la
%C%_libtokenizer_la_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS) $(XXHASH_CFLAGS) $(PCRE2_CFLAGS) \
	$(UTF8PROC_CFLAGS)
%C%_libtokenizer_la_LIBADD = $(JANSSON_LIBS) $(XXHASH_LIBS) $(PCRE2_LIBS) $(UTF8PROC_LIBS)
%C%_libtokenizer_la_SOURCES = %D%/add.c %D%/added.c %D%/added.h %D%/alphabet.c %D%/bpe.c %D%/bpe.h %D%/buf.c \
	%D%/buf.h %D%/characters.c %D%/charsmap.c %D%/chunks.c %D%/decode.c %D%/encoder.c %D%/encoder.h \
	%D%/encoder_added.c %D%/encoder_lacking.c %D%/encoder_normalize.c %D%/encoder_split.c %D%/find.c \
	%D%/forms.c %D%/joins.c %D%/lists.c %D%/lists.h %D%/load.c %D%/load.h %D%/load_added.c \
	%D%/load_bpe.c %D%/load_decoder.c %D%/load_models.c %D%/load_normalizer.c %D%/load_spaces.c \
	%D%/load_steps.c %D%/load_values.c %D%/load_vocabulary.c %D%/marks.c %D%/marks.h %D%/memo.c \
	%D%/memo.h %D%/merges.c %D%/merges.h %D%/merging.c %D%/model.c %D%/model.h %D%/names.c \
	%D%/normalizer.c %D%/normalizer.h %D%/parts.h %D%/pattern.c %D%/regex.c %D%/regex.h %D%/runs.c \
	%D%/spaces.c %D%/spaces.h %D%/tokenizer.c %D%/tokenizer.h %D%/trie.c %D%/trie.h %D%/unigram.c \
	%D%/unigram.h %D%/utf8.c %D%/utf8.h %D%/wordpiece.c %D%/words.c
