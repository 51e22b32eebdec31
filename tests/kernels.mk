# SPDX-License-Identifier: Apache-2.0
#
# Tests of the row and element kernels. They run every variant that the machine has.
kernel_tests = %D%/t_kernels %D%/t_kernels_slopes %D%/t_kernels_simd %D%/t_kernels_update %D%/t_kernels_bits %D%/t_kernels_types
check_PROGRAMS += $(kernel_tests)
TESTS += $(kernel_tests)
EXTRA_DIST += %D%/golden/make_kernels.py %D%/golden/kernels.txt

kernel_rig = %D%/kernels_rig.c %D%/kernels_rig.h %D%/isa.h
kernel_test_cppflags = $(AM_CPPFLAGS) -I$(top_srcdir)/kernels
if HAVE_X86_64
kernel_test_cppflags += -DHAVE_X86_64
endif
kernel_test_cflags = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
kernel_test_ldadd = kernels/libzrkernels.la $(CMOCKA_LIBS) -lm

%C%_t_kernels_SOURCES = %D%/t_kernels.c $(kernel_rig)
%C%_t_kernels_CPPFLAGS = $(kernel_test_cppflags)
%C%_t_kernels_CFLAGS = $(kernel_test_cflags)
%C%_t_kernels_LDADD = kernels/libkernels_f64.la $(kernel_test_ldadd)

%C%_t_kernels_slopes_SOURCES = %D%/t_kernels_slopes.c $(kernel_rig)
%C%_t_kernels_slopes_CPPFLAGS = $(kernel_test_cppflags)
%C%_t_kernels_slopes_CFLAGS = $(kernel_test_cflags)
%C%_t_kernels_slopes_LDADD = kernels/libkernels_f64.la $(kernel_test_ldadd)

kernel_job = %D%/kernels_job.c %D%/kernels_job.h $(kernel_rig)
%C%_t_kernels_simd_SOURCES = %D%/t_kernels_simd.c $(kernel_job)
%C%_t_kernels_simd_CPPFLAGS = $(kernel_test_cppflags)
%C%_t_kernels_simd_CFLAGS = $(kernel_test_cflags)
%C%_t_kernels_simd_LDADD = $(kernel_test_ldadd)

%C%_t_kernels_update_SOURCES = %D%/t_kernels_update.c $(kernel_job)
%C%_t_kernels_update_CPPFLAGS = $(kernel_test_cppflags)
%C%_t_kernels_update_CFLAGS = $(kernel_test_cflags)
%C%_t_kernels_update_LDADD = $(kernel_test_ldadd)

%C%_t_kernels_bits_SOURCES = %D%/t_kernels_bits.c $(kernel_rig)
%C%_t_kernels_bits_CPPFLAGS = $(kernel_test_cppflags)
%C%_t_kernels_bits_CFLAGS = $(kernel_test_cflags)
%C%_t_kernels_bits_LDADD = $(kernel_test_ldadd)

%C%_t_kernels_types_SOURCES = %D%/t_kernels_types.c $(kernel_rig) %D%/half.h
%C%_t_kernels_types_CPPFLAGS = $(kernel_test_cppflags)
%C%_t_kernels_types_CFLAGS = $(kernel_test_cflags)
%C%_t_kernels_types_LDADD = $(kernel_test_ldadd)
