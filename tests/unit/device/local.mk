# SPDX-License-Identifier: Apache-2.0
#
# plugins/device.
device_tests = %D%/t_attention_long %D%/t_cap %D%/t_device %D%/t_elementwise %D%/t_experts %D%/t_fp8 %D%/t_head %D%/t_low_rank \
	%D%/t_matmul %D%/t_matrices %D%/t_near %D%/t_refused %D%/t_right %D%/t_separate %D%/t_trial %D%/t_twin
check_PROGRAMS += $(device_tests)
TESTS += $(device_tests)

%C%_t_attention_long_SOURCES = %D%/t_attention_long.c $(testdevice_h)
%C%_t_attention_long_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_attention_long_LDADD = tests/lib/libtesthost.la $(CMOCKA_LIBS) -lm

%C%_t_cap_SOURCES = %D%/t_cap.c %D%/golden.h $(testdevice_h)
%C%_t_cap_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_cap_LDADD = tests/lib/libtesthost.la $(CMOCKA_LIBS) -lm

%C%_t_device_SOURCES = %D%/t_device.c %D%/device_ops.h $(testdevice_h) $(isa_h)
%C%_t_device_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_device_LDADD = tests/lib/libtesthost.la $(CMOCKA_LIBS) -lm

elementwise_texts = %D%/elementwise_adamw.c %D%/elementwise_both.c %D%/elementwise_lamb.c %D%/elementwise_many.c \
	%D%/elementwise_random.c %D%/elementwise_texts.h

%C%_t_elementwise_SOURCES = %D%/t_elementwise.c $(elementwise_texts) $(testdevice_h)
%C%_t_elementwise_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_elementwise_LDADD = tests/lib/libtesthost.la $(CMOCKA_LIBS) -lm

%C%_t_experts_SOURCES = %D%/t_experts.c %D%/mixture.h $(testdevice_h)
%C%_t_experts_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_experts_LDADD = tests/lib/libtesthost.la $(CMOCKA_LIBS) -lm

%C%_t_fp8_SOURCES = %D%/t_fp8.c $(testdevice_h)
%C%_t_fp8_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_fp8_LDADD = tests/lib/libtesthost.la $(CMOCKA_LIBS) -lm

%C%_t_head_SOURCES = %D%/t_head.c %D%/golden.h $(testdevice_h)
%C%_t_head_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_head_LDADD = tests/lib/libtesthost.la $(CMOCKA_LIBS) -lm

%C%_t_low_rank_SOURCES = %D%/t_low_rank.c %D%/product_in_double.h $(testdevice_h)
%C%_t_low_rank_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_low_rank_LDADD = tests/lib/libtesthost.la $(CMOCKA_LIBS) -lm

%C%_t_near_SOURCES = %D%/t_near.c
%C%_t_near_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_near_LDADD = $(CMOCKA_LIBS)

%C%_t_matmul_SOURCES = %D%/t_matmul.c %D%/product_in_double.h $(testdevice_h)
%C%_t_matmul_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_matmul_LDADD = tests/lib/libtesthost.la $(CMOCKA_LIBS) -lm

%C%_t_matrices_SOURCES = %D%/t_matrices.c $(testdevice_h)
%C%_t_matrices_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_matrices_LDADD = tests/lib/libtesthost.la $(CMOCKA_LIBS) -lm

%C%_t_refused_SOURCES = %D%/t_refused.c $(testdevice_h)
%C%_t_refused_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_refused_LDADD = tests/lib/libtesthost.la $(CMOCKA_LIBS) -lm

%C%_t_right_SOURCES = %D%/t_right.c $(testdevice_h)
%C%_t_right_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_right_LDADD = tests/lib/libtesthost.la $(CMOCKA_LIBS) -lm

%C%_t_separate_SOURCES = %D%/t_separate.c $(testdevice_h) $(model_fixture)
%C%_t_separate_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_separate_LDADD = tests/lib/libtesthost.la $(CMOCKA_LIBS) -lm

%C%_t_twin_SOURCES = %D%/t_twin.c %D%/twin.h %D%/twin_attention.h %D%/twin_experts.h $(testdevice_h)
%C%_t_twin_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_twin_LDADD = tests/lib/libtesthost.la $(CMOCKA_LIBS) -lm

if HAVE_CUDA
check_PROGRAMS += %D%/t_cuda_error
TESTS += %D%/t_cuda_error
%C%_t_cuda_error_SOURCES = %D%/t_cuda_error.c plugins/device/cuda/error.c \
	plugins/device/cuda/cuda.h plugins/cuda_missing.h
%C%_t_cuda_error_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/plugins -I$(top_srcdir)/kernels \
	$(CUDA_CPPFLAGS)
%C%_t_cuda_error_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_cuda_error_LDADD = tests/lib/libtesthost.la $(CUDA_LIBS) $(CMOCKA_LIBS)
endif

%C%_t_trial_SOURCES = %D%/t_trial.c plugins/device/cuda/trial.c plugins/device/cuda/trial.h
%C%_t_trial_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_trial_LDADD = tests/lib/libtesthost.la $(CMOCKA_LIBS)
EXTRA_%C%_t_trial_DEPENDENCIES = plugins/device/cuda-trial$(EXEEXT) tests/doubles/trial.la
