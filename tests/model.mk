# Tests of plugins/model.
check_PROGRAMS += %D%/t_gpt2
TESTS += %D%/t_gpt2
%C%_t_gpt2_SOURCES = %D%/t_gpt2.c %D%/gpt2_rig.c %D%/gpt2_rig.h
%C%_t_gpt2_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_gpt2_LDADD = %D%/libtesthost.la $(CMOCKA_LIBS) -lm
EXTRA_DIST += %D%/golden/make_gpt2.py %D%/golden/gpt2.bin
