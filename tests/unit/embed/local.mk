# SPDX-License-Identifier: Apache-2.0
#
# The library libzeroth, by its header alone.
check_PROGRAMS += %D%/t_embed
TESTS += %D%/t_embed
%C%_t_embed_SOURCES = %D%/t_embed.c
%C%_t_embed_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_embed_LDADD = libzeroth.la $(CMOCKA_LIBS)
check_PROGRAMS += %D%/t_outside
TESTS += %D%/t_outside
%C%_t_outside_SOURCES = %D%/t_outside.c
%C%_t_outside_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_outside_LDADD = libzeroth.la $(CMOCKA_LIBS)
