# SPDX-License-Identifier: Apache-2.0
#
# Model directories of Hugging Face.
pretrained_tests = %D%/t_pretrained %D%/t_configs %D%/t_gguf %D%/t_others %D%/t_qk_clip
check_PROGRAMS += $(pretrained_tests)
TESTS += $(pretrained_tests)

%C%_t_others_SOURCES = %D%/t_others.c
%C%_t_others_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS)
%C%_t_others_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_others_LDADD = cmd/others/libothers.la train/librun.la core/libcore.la $(JANSSON_LIBS) $(CMOCKA_LIBS) -lm

%C%_t_pretrained_SOURCES = %D%/t_pretrained.c
%C%_t_pretrained_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS)
%C%_t_pretrained_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_pretrained_LDADD = train/librun.la core/libcore.la $(JANSSON_LIBS) $(CMOCKA_LIBS) -lm
%C%_t_configs_SOURCES = %D%/t_configs.c
%C%_t_configs_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS)
%C%_t_configs_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_configs_LDADD = train/librun.la core/libcore.la $(JANSSON_LIBS) $(CMOCKA_LIBS) -lm
%C%_t_gguf_SOURCES = %D%/t_gguf.c
%C%_t_gguf_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS)
%C%_t_gguf_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_gguf_LDADD = train/librun.la files/libfiles.la core/libcore.la $(JANSSON_LIBS) $(CMOCKA_LIBS) -lm
%C%_t_qk_clip_SOURCES = %D%/t_qk_clip.c
%C%_t_qk_clip_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS)
%C%_t_qk_clip_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_qk_clip_LDADD = train/librun.la core/libcore.la $(JANSSON_LIBS) $(CMOCKA_LIBS) -lm
