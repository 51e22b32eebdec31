# Causal attention: t_attention. golden/attention.txt is written by golden/make_attention.py.
check_PROGRAMS += %D%/t_attention
TESTS += %D%/t_attention
EXTRA_DIST += %D%/golden/attention.txt %D%/golden/make_attention.py
%C%_t_attention_SOURCES = %D%/t_attention.c %D%/attention_case.c %D%/attention_case.h %D%/isa.h
%C%_t_attention_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/kernels
%C%_t_attention_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_attention_LDADD = kernels/libzrkernels.la kernels/libkernels_f64.la $(CMOCKA_LIBS) -lm
