# SPDX-License-Identifier: Apache-2.0
#
# Tests of checkpoints: their files, and going on from them.
checkpoint_tests = %D%/t_checkpoint %D%/t_reader %D%/t_save_alloc
check_PROGRAMS += $(checkpoint_tests)
TESTS += $(checkpoint_tests) %D%/resume.sh %D%/checkpoint.sh %D%/kill.sh %D%/moved.sh %D%/soak.sh
EXTRA_DIST += %D%/resume.sh %D%/checkpoint.sh %D%/kill.sh %D%/moved.sh %D%/soak.sh
TESTS += %D%/links.sh %D%/drift.sh
EXTRA_DIST += %D%/links.sh %D%/drift.sh %D%/drift.c

# Trainings that are ended again and again; SOAK_CYCLES, SOAK_SEED: see soak.sh.
.PHONY: soak
soak: all
	@$(AM_TESTS_ENVIRONMENT) SOAK_CYCLES="$${SOAK_CYCLES:-1000}" bash $(srcdir)/%D%/soak.sh | \
		awk '{ print } /^not ok/ { bad = 1 } END { exit bad }'

ckpt_rig = %D%/ckpt_rig.c %D%/ckpt_rig.h

%C%_t_checkpoint_SOURCES = %D%/t_checkpoint.c $(ckpt_rig)
%C%_t_checkpoint_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS) $(XXHASH_CFLAGS)
%C%_t_checkpoint_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_checkpoint_LDADD = core/libcore.la $(JANSSON_LIBS) $(XXHASH_LIBS) $(CMOCKA_LIBS)

%C%_t_reader_SOURCES = %D%/t_reader.c $(ckpt_rig)
%C%_t_reader_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS) $(XXHASH_CFLAGS)
%C%_t_reader_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_reader_LDADD = core/libcore.la $(JANSSON_LIBS) $(XXHASH_LIBS) $(CMOCKA_LIBS)

%C%_t_save_alloc_SOURCES = %D%/t_save_alloc.c
%C%_t_save_alloc_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS)
%C%_t_save_alloc_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_save_alloc_LDADD = cmd/librun.la core/libcore.la $(JANSSON_LIBS) $(CMOCKA_LIBS)
