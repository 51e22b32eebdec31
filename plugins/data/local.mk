# Plugins of the role data: which tokens a slot of a step holds.
dataplugindir = $(plugindir)/data
dataplugin_LTLIBRARIES = %D%/chat.la %D%/mix.la %D%/text.la %D%/tokens.la
data_common = %D%/files.c %D%/files.h %D%/windows.c %D%/windows.h

%C%_mix_la_SOURCES = %D%/mix.c %D%/windows.c %D%/windows.h
%C%_mix_la_CFLAGS = $(PLUGIN_CFLAGS)
%C%_mix_la_LDFLAGS = $(PLUGIN_LDFLAGS)
%C%_mix_la_LIBADD = -lm

%C%_text_la_SOURCES = %D%/text.c %D%/bytes.c %D%/bytes.h \
	%D%/content.c %D%/content.h $(data_common)
%C%_text_la_CFLAGS = $(PLUGIN_CFLAGS) $(ZLIB_CFLAGS) $(LIBDEFLATE_CFLAGS) $(XXHASH_CFLAGS)
%C%_text_la_LDFLAGS = $(PLUGIN_LDFLAGS)
%C%_text_la_LIBADD = files/libcontent.la $(ZLIB_LIBS) $(LIBDEFLATE_LIBS) $(XXHASH_LIBS)

%C%_tokens_la_SOURCES = %D%/tokens.c %D%/mapped.c %D%/mapped.h \
	%D%/documents.c %D%/documents.h %D%/packing.c %D%/packing.h $(data_common)
%C%_tokens_la_CFLAGS = $(PLUGIN_CFLAGS) $(XXHASH_CFLAGS) $(JANSSON_CFLAGS)
%C%_tokens_la_LDFLAGS = $(PLUGIN_LDFLAGS)
%C%_tokens_la_LIBADD = files/tokens/libtokens.la core/libbase.la $(XXHASH_LIBS) $(JANSSON_LIBS)

# With what files/ has of conversations and tokenizers in it.
%C%_chat_la_SOURCES = %D%/chat.c %D%/chat.h %D%/chat_cache.c %D%/chat_kept.c %D%/chat_kept.h \
	%D%/chat_look.c \
	%D%/mapped.c %D%/mapped.h \
	%D%/documents.c %D%/documents.h %D%/packing.c %D%/packing.h $(data_common)
%C%_chat_la_CFLAGS = $(PLUGIN_CFLAGS) $(XXHASH_CFLAGS) $(JANSSON_CFLAGS)
%C%_chat_la_LDFLAGS = $(PLUGIN_LDFLAGS)
%C%_chat_la_LIBADD = files/chat/libchat.la files/tokenizer/libtokenizer.la \
	files/tokens/libtokens.la core/libbase.la $(XXHASH_LIBS) $(JANSSON_LIBS)
