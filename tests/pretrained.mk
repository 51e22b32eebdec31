# SPDX-License-Identifier: Apache-2.0
#
# Tests of model directories of Hugging Face.
check_PROGRAMS += %D%/t_pretrained
TESTS += %D%/t_pretrained %D%/pretrained.sh %D%/nonfinite.sh
EXTRA_DIST += %D%/pretrained.sh %D%/nonfinite.sh %D%/golden/make_pretrained.py %D%/golden/pretrained

%C%_t_pretrained_SOURCES = %D%/t_pretrained.c
%C%_t_pretrained_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS)
%C%_t_pretrained_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_pretrained_LDADD = cmd/librun.la core/libcore.la $(JANSSON_LIBS) $(CMOCKA_LIBS) -lm
