# SPDX-License-Identifier: Apache-2.0
#
# Twins: what kernels of bf16 compute, an element at a time in the same order. The compiler may use
# the instructions of AVX-512 for their multiply-adds, which makes them fast enough.
if HAVE_X86_64
check_LTLIBRARIES += %D%/libtwins.la
%C%_libtwins_la_SOURCES = %D%/attention_tiles_twin.c %D%/attention_twin.c %D%/attention_twin.h \
	%D%/gemm_twin.c %D%/twins.h
%C%_libtwins_la_CPPFLAGS = $(AM_CPPFLAGS) $(kernel_flags) -DZR_ISA=avx512
%C%_libtwins_la_CFLAGS = $(avx512_cflags)
endif
