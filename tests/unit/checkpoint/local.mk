# SPDX-License-Identifier: Apache-2.0
#
# The files of checkpoints.
checkpoint_tests = %D%/t_checkpoint %D%/t_direct %D%/t_reader %D%/t_save_alloc
check_PROGRAMS += $(checkpoint_tests)
TESTS += $(checkpoint_tests)

%C%_t_checkpoint_SOURCES = %D%/t_checkpoint.c $(ckpt_fixture)
%C%_t_checkpoint_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS) $(XXHASH_CFLAGS)
%C%_t_checkpoint_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_checkpoint_LDADD = files/libfiles.la core/libcore.la $(JANSSON_LIBS) $(XXHASH_LIBS) \
	$(CMOCKA_LIBS)

%C%_t_direct_SOURCES = %D%/t_direct.c
%C%_t_direct_CPPFLAGS = $(AM_CPPFLAGS) $(XXHASH_CFLAGS)
%C%_t_direct_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_direct_LDADD = files/libfiles.la core/libcore.la $(XXHASH_LIBS) $(CMOCKA_LIBS)

%C%_t_reader_SOURCES = %D%/t_reader.c $(ckpt_fixture)
%C%_t_reader_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS) $(XXHASH_CFLAGS)
%C%_t_reader_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_reader_LDADD = files/libfiles.la core/libcore.la $(JANSSON_LIBS) $(XXHASH_LIBS) $(CMOCKA_LIBS)

%C%_t_save_alloc_SOURCES = %D%/t_save_alloc.c
%C%_t_save_alloc_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS)
%C%_t_save_alloc_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_save_alloc_LDADD = train/librun.la core/libcore.la $(JANSSON_LIBS) $(CMOCKA_LIBS)
