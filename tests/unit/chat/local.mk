# SPDX-License-Identifier: Apache-2.0
#
# Conversations.
chat_tests = %D%/t_chat %D%/t_jinja %D%/t_turns
check_PROGRAMS += $(chat_tests)
TESTS += $(chat_tests)

%C%_t_chat_SOURCES = %D%/t_chat.c
%C%_t_chat_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS)
%C%_t_chat_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_chat_LDADD = files/chat/libchat.la files/tokenizer/libtokenizer.la core/libcore.la \
	$(JANSSON_LIBS) $(CMOCKA_LIBS)

%C%_t_jinja_SOURCES = %D%/t_jinja.c
%C%_t_jinja_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS)
%C%_t_jinja_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_jinja_LDADD = files/chat/libchat.la files/tokenizer/libtokenizer.la core/libcore.la \
	$(JANSSON_LIBS) $(CMOCKA_LIBS)

%C%_t_turns_SOURCES = %D%/t_turns.c
%C%_t_turns_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS)
%C%_t_turns_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_turns_LDADD = files/chat/libchat.la files/tokenizer/libtokenizer.la core/libcore.la \
	$(JANSSON_LIBS) $(CMOCKA_LIBS)
