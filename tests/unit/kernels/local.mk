# SPDX-License-Identifier: Apache-2.0
#
# kernels/cpu in every variant that the machine has, and kernels/cuda, run by the host.
kernel_tests = %D%/t_activations %D%/t_attention %D%/t_attention_options %D%/t_cast_heads \
	%D%/t_attention_pairs %D%/t_attention_slices %D%/t_kernels \
	%D%/t_kernels_bits %D%/t_master %D%/t_kernels_codes %D%/t_kernels_mx %D%/t_kernels_narrow %D%/t_kernels_simd %D%/t_kernels_slopes \
	%D%/t_kernels_types %D%/t_kernels_update %D%/t_moments8 %D%/t_norms %D%/t_pairs %D%/t_rotary %D%/t_scale_heads \
	%D%/t_softmax
check_PROGRAMS += $(kernel_tests)
TESTS += $(kernel_tests)

attention_case = %D%/attention_case.c %D%/attention_case.h $(isa_h)
attention_slices = %D%/attention_slices.c %D%/attention_slices.h $(attention_case)
kernel_fixture = %D%/kernels_fixture.c %D%/kernels_fixture.h $(isa_h)
kernel_mode = %D%/kernels_mode.h $(kernel_fixture)
kernel_job = %D%/kernels_job.c %D%/kernels_job.h $(kernel_fixture)
if HAVE_AVX512
avx512_defined = -DHAVE_AVX512
endif
kernel_test_cppflags = $(AM_CPPFLAGS) -I$(top_srcdir)/kernels $(avx512_defined)
if HAVE_X86_64
kernel_test_cppflags += -DHAVE_X86_64
twins_ldadd = tests/twins/libtwins.la
endif
if HAVE_AVX512BF16
kernel_test_cppflags += -DHAVE_AVX512BF16
pairs_ldadd = kernels/libkernels_amx_emulated.la
endif
if HAVE_AMX
kernel_test_cppflags += -DHAVE_AMX
endif
kernel_test_ldadd = kernels/libzrkernels.la $(CMOCKA_LIBS) -lm

%C%_t_activations_SOURCES = %D%/t_activations.c $(kernel_mode)
%C%_t_activations_CPPFLAGS = $(kernel_test_cppflags)
%C%_t_activations_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_activations_LDADD = kernels/libkernels_f64.la $(kernel_test_ldadd)

%C%_t_attention_SOURCES = %D%/t_attention.c $(attention_case)
%C%_t_attention_CPPFLAGS = $(kernel_test_cppflags)
%C%_t_attention_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_attention_LDADD = kernels/libzrkernels.la kernels/libkernels_f64.la $(CMOCKA_LIBS) -lm

%C%_t_attention_options_SOURCES = %D%/t_attention_options.c $(attention_case)
%C%_t_attention_options_CPPFLAGS = $(kernel_test_cppflags)
%C%_t_attention_options_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_attention_options_LDADD = kernels/libzrkernels.la kernels/libkernels_f64.la $(CMOCKA_LIBS) -lm

%C%_t_attention_slices_SOURCES = %D%/t_attention_slices.c $(attention_slices)
%C%_t_attention_slices_CPPFLAGS = $(kernel_test_cppflags)
%C%_t_attention_slices_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_attention_slices_LDADD = kernels/libzrkernels.la kernels/libkernels_f64.la $(CMOCKA_LIBS) -lm

%C%_t_attention_pairs_SOURCES = %D%/t_attention_pairs.c $(attention_slices)
%C%_t_attention_pairs_CPPFLAGS = $(kernel_test_cppflags)
%C%_t_attention_pairs_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_attention_pairs_LDADD = $(pairs_ldadd) $(twins_ldadd) kernels/libzrkernels.la kernels/libkernels_f64.la $(CMOCKA_LIBS) -lm

%C%_t_kernels_SOURCES = %D%/t_kernels.c $(kernel_mode)
%C%_t_kernels_CPPFLAGS = $(kernel_test_cppflags)
%C%_t_kernels_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_kernels_LDADD = kernels/libkernels_f64.la $(kernel_test_ldadd)

%C%_t_kernels_bits_SOURCES = %D%/t_kernels_bits.c $(kernel_fixture)
%C%_t_kernels_bits_CPPFLAGS = $(kernel_test_cppflags)
%C%_t_kernels_bits_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_kernels_bits_LDADD = $(kernel_test_ldadd)

%C%_t_master_SOURCES = %D%/t_master.c $(kernel_fixture)
%C%_t_master_CPPFLAGS = $(kernel_test_cppflags)
%C%_t_master_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_master_LDADD = $(kernel_test_ldadd)

%C%_t_kernels_mx_SOURCES = %D%/t_kernels_mx.c $(kernel_fixture)
%C%_t_kernels_mx_CPPFLAGS = $(kernel_test_cppflags)
%C%_t_kernels_mx_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_kernels_mx_LDADD = $(kernel_test_ldadd)

%C%_t_kernels_narrow_SOURCES = %D%/t_kernels_narrow.c $(kernel_fixture)
%C%_t_kernels_narrow_CPPFLAGS = $(kernel_test_cppflags)
%C%_t_kernels_narrow_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_kernels_narrow_LDADD = $(kernel_test_ldadd)

%C%_t_kernels_codes_SOURCES = %D%/t_kernels_codes.c $(kernel_fixture)
%C%_t_kernels_codes_CPPFLAGS = $(kernel_test_cppflags)
%C%_t_kernels_codes_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_kernels_codes_LDADD = $(kernel_test_ldadd)

%C%_t_kernels_simd_SOURCES = %D%/t_kernels_simd.c $(kernel_job)
%C%_t_kernels_simd_CPPFLAGS = $(kernel_test_cppflags)
%C%_t_kernels_simd_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_kernels_simd_LDADD = $(kernel_test_ldadd)

%C%_t_kernels_slopes_SOURCES = %D%/t_kernels_slopes.c $(kernel_fixture)
%C%_t_kernels_slopes_CPPFLAGS = $(kernel_test_cppflags)
%C%_t_kernels_slopes_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_kernels_slopes_LDADD = kernels/libkernels_f64.la $(kernel_test_ldadd)

%C%_t_kernels_types_SOURCES = %D%/t_kernels_types.c $(kernel_fixture) $(half_h)
%C%_t_kernels_types_CPPFLAGS = $(kernel_test_cppflags)
%C%_t_kernels_types_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_kernels_types_LDADD = $(kernel_test_ldadd)

%C%_t_kernels_update_SOURCES = %D%/t_kernels_update.c $(kernel_job)
%C%_t_kernels_update_CPPFLAGS = $(kernel_test_cppflags)
%C%_t_kernels_update_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_kernels_update_LDADD = $(kernel_test_ldadd)

%C%_t_moments8_SOURCES = %D%/t_moments8.c $(kernel_fixture)
%C%_t_moments8_CPPFLAGS = $(kernel_test_cppflags)
%C%_t_moments8_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_moments8_LDADD = $(kernel_test_ldadd)

%C%_t_norms_SOURCES = %D%/t_norms.c $(kernel_mode)
%C%_t_norms_CPPFLAGS = $(kernel_test_cppflags)
%C%_t_norms_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_norms_LDADD = kernels/libkernels_f64.la $(kernel_test_ldadd)

%C%_t_pairs_SOURCES = %D%/t_pairs.c %D%/tiles_emulated.h $(kernel_fixture)
%C%_t_pairs_CPPFLAGS = $(kernel_test_cppflags)
%C%_t_pairs_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_pairs_LDADD = $(pairs_ldadd) $(twins_ldadd) $(kernel_test_ldadd)

%C%_t_rotary_SOURCES = %D%/t_rotary.c $(kernel_mode)
%C%_t_rotary_CPPFLAGS = $(kernel_test_cppflags)
%C%_t_rotary_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_rotary_LDADD = kernels/libkernels_f64.la $(kernel_test_ldadd)

%C%_t_cast_heads_SOURCES = %D%/t_cast_heads.c $(kernel_fixture)
%C%_t_cast_heads_CPPFLAGS = $(kernel_test_cppflags)
%C%_t_cast_heads_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_cast_heads_LDADD = $(kernel_test_ldadd)

%C%_t_scale_heads_SOURCES = %D%/t_scale_heads.c
%C%_t_scale_heads_CPPFLAGS = $(kernel_test_cppflags)
%C%_t_scale_heads_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_scale_heads_LDADD = $(kernel_test_ldadd)

%C%_t_softmax_SOURCES = %D%/t_softmax.c $(kernel_fixture)
%C%_t_softmax_CPPFLAGS = $(kernel_test_cppflags)
%C%_t_softmax_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_softmax_LDADD = $(kernel_test_ldadd)

# What NVRTC compiles for updates of one element.
example_plugins = tests/unit/optimizer/ademamix.la tests/unit/optimizer/lion.la \
	tests/unit/optimizer/signum.la tests/unit/optimizer/prodigy.la \
	tests/unit/optimizer/dadapt_adam.la tests/unit/optimizer/schedulefree.la
elementwise_test = tests/unit/device/elementwise_adamw.c tests/unit/device/elementwise_both.c \
	tests/unit/device/elementwise_lamb.c \
	tests/unit/device/elementwise_many.c tests/unit/device/elementwise_random.c \
	tests/unit/device/elementwise_texts.h %D%/elementwise_sources.h

check_PROGRAMS += %D%/t_nvrtc
TESTS += %D%/t_nvrtc
%C%_t_nvrtc_SOURCES = %D%/t_nvrtc.c $(elementwise_test) \
	plugins/device/cuda/nvrtc.c plugins/device/cuda/nvrtc.h
EXTRA_%C%_t_nvrtc_DEPENDENCIES = $(example_plugins)
%C%_t_nvrtc_CPPFLAGS = $(AM_CPPFLAGS) $(kernel_flags)
%C%_t_nvrtc_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_nvrtc_LDADD = plugins/device/cuda/libsource.la tests/lib/libtesthost.la $(CMOCKA_LIBS) $(SYS_LIBS)

EXTRA_DIST += %D%/cuda_emulated.h %D%/hopper_emulated.h %D%/hopper_kernels.cu
if HAVE_CXX
cuda_tests = %D%/t_cuda_attention %D%/t_cuda_attention_hopper %D%/t_cuda_attention_hopper_bwd \
	%D%/t_cuda_compare %D%/t_cuda_elementwise %D%/t_cuda_experts %D%/t_cuda_hopper %D%/t_cuda_kernels \
	%D%/t_cuda_narrow %D%/t_cuda_rows
check_PROGRAMS += $(cuda_tests)
TESTS += $(cuda_tests)

emulated_flags = -DZR_CUDA_EMULATED='"%D%/cuda_emulated.h"' $(AM_CPPFLAGS) $(kernel_flags) $(avx512_defined)
emulated_objects = $(cuda_kernels:kernels/cuda/%.cu=%D%/cuda_%.o) \
	$(hopper_kernels:kernels/cuda/%.cu=%D%/cuda_%.o)
CLEANFILES += $(emulated_objects)
cuda_test_libs = $(emulated_objects) kernels/libzrkernels.la tests/lib/libtesthost.la \
	$(CMOCKA_LIBS) -lm

emulated_headers = %D%/cuda_emulated.h %D%/hopper_emulated.h $(cuda_headers) $(kernel_headers)
emulated_compile = $(CXX) -x c++ -std=c++20 -O1 -Wall -Wextra -Wno-unknown-pragmas \
	-Wno-uninitialized -ffp-contract=off -fno-exceptions -fno-rtti -fno-threadsafe-statics \
	$(RACE_CFLAGS) $(emulated_flags) -c

$(emulated_objects): $(emulated_headers)
$(emulated_objects): %D%/cuda_%.o: kernels/cuda/%.cu
	@$(MKDIR_P) $(@D)
	$(AM_V_GEN)$(emulated_compile) -o $@ $<

%C%_t_cuda_attention_SOURCES = %D%/t_cuda_attention.c $(attention_slices)
%C%_t_cuda_attention_CPPFLAGS = $(emulated_flags)
%C%_t_cuda_attention_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_cuda_attention_LDFLAGS = $(RACE_CFLAGS)
%C%_t_cuda_attention_LDADD = kernels/libkernels_f64.la $(cuda_test_libs)
EXTRA_%C%_t_cuda_attention_DEPENDENCIES = $(emulated_objects)

%C%_t_cuda_attention_hopper_SOURCES = %D%/t_cuda_attention_hopper.c $(attention_slices)
%C%_t_cuda_attention_hopper_CPPFLAGS = $(emulated_flags)
%C%_t_cuda_attention_hopper_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_cuda_attention_hopper_LDFLAGS = $(RACE_CFLAGS)
%C%_t_cuda_attention_hopper_LDADD = %D%/hopper_kernels.o kernels/libkernels_f64.la $(cuda_test_libs)
EXTRA_%C%_t_cuda_attention_hopper_DEPENDENCIES = $(emulated_objects) %D%/hopper_kernels.o

%C%_t_cuda_attention_hopper_bwd_SOURCES = %D%/t_cuda_attention_hopper_bwd.c $(attention_slices)
%C%_t_cuda_attention_hopper_bwd_CPPFLAGS = $(emulated_flags)
%C%_t_cuda_attention_hopper_bwd_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_cuda_attention_hopper_bwd_LDFLAGS = $(RACE_CFLAGS)
%C%_t_cuda_attention_hopper_bwd_LDADD = %D%/hopper_kernels.o kernels/libkernels_f64.la $(cuda_test_libs)
EXTRA_%C%_t_cuda_attention_hopper_bwd_DEPENDENCIES = $(emulated_objects) %D%/hopper_kernels.o

%C%_t_cuda_compare_SOURCES = %D%/t_cuda_compare.c %D%/attention_case.c %D%/attention_case.h \
	plugins/device/cuda/attention.c plugins/device/cuda/attention.h \
	kernels/cuda/attention_compare.c kernels/attention_compare.h
%C%_t_cuda_compare_CPPFLAGS = $(emulated_flags)
%C%_t_cuda_compare_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_cuda_compare_LDFLAGS = $(RACE_CFLAGS)
%C%_t_cuda_compare_LDADD = %D%/hopper_kernels.o kernels/libkernels_f64.la $(cuda_test_libs)
EXTRA_%C%_t_cuda_compare_DEPENDENCIES = $(emulated_objects) %D%/hopper_kernels.o

# Run, it prints the sources, which the C++ compiler then compiles.
check_PROGRAMS += %D%/elementwise_emulated
%C%_elementwise_emulated_SOURCES = %D%/elementwise_emulated.c $(elementwise_test)
%C%_elementwise_emulated_LDADD = plugins/device/cuda/libsource.la tests/lib/libtesthost.la
CLEANFILES += %D%/emulated.cc %D%/emulated.o

%D%/emulated.cc: %D%/elementwise_emulated$(EXEEXT) $(example_plugins)
	$(AM_V_GEN)ZR_TEST_PLUGINS=$(abs_top_builddir)/plugins %D%/elementwise_emulated$(EXEEXT) >$@

%D%/emulated.o: %D%/emulated.cc %D%/cuda_emulated.h %D%/hopper_emulated.h
	$(AM_V_GEN)$(CXX) -x c++ -std=c++20 -O1 -Wall -Wextra -Wno-unknown-pragmas \
		-Wno-uninitialized -ffp-contract=off -fno-exceptions -fno-rtti \
		-fno-threadsafe-statics $(RACE_CFLAGS) \
		$(AM_CPPFLAGS) -c -o $@ $<

%C%_t_cuda_elementwise_SOURCES = %D%/t_cuda_elementwise.c $(elementwise_test) $(testdevice_h)
%C%_t_cuda_elementwise_CPPFLAGS = $(AM_CPPFLAGS) $(kernel_flags)
%C%_t_cuda_elementwise_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_cuda_elementwise_LDFLAGS = $(RACE_CFLAGS)
%C%_t_cuda_elementwise_LDADD = %D%/emulated.o tests/lib/libtesthost.la $(CMOCKA_LIBS) -lm
EXTRA_%C%_t_cuda_elementwise_DEPENDENCIES = %D%/emulated.o

%C%_t_cuda_experts_SOURCES = %D%/t_cuda_experts.c $(testdevice_h)
%C%_t_cuda_experts_CPPFLAGS = $(emulated_flags)
%C%_t_cuda_experts_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_cuda_experts_LDFLAGS = $(RACE_CFLAGS)
%C%_t_cuda_experts_LDADD = $(cuda_test_libs)
EXTRA_%C%_t_cuda_experts_DEPENDENCIES = $(emulated_objects)

# Kernels of the test's own.
CLEANFILES += %D%/hopper_kernels.o
%D%/hopper_kernels.o: %D%/hopper_kernels.cu %D%/hopper_kernels.h $(emulated_headers)
	$(AM_V_GEN)$(emulated_compile) -o $@ $<

%C%_t_cuda_hopper_SOURCES = %D%/t_cuda_hopper.c %D%/hopper_kernels.h
%C%_t_cuda_hopper_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_cuda_hopper_LDFLAGS = $(RACE_CFLAGS)
%C%_t_cuda_hopper_LDADD = %D%/hopper_kernels.o $(CMOCKA_LIBS) -lm
EXTRA_%C%_t_cuda_hopper_DEPENDENCIES = %D%/hopper_kernels.o

%C%_t_cuda_kernels_SOURCES = %D%/t_cuda_kernels.c $(testdevice_h)
%C%_t_cuda_kernels_CPPFLAGS = $(emulated_flags)
%C%_t_cuda_kernels_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_cuda_kernels_LDFLAGS = $(RACE_CFLAGS)
%C%_t_cuda_kernels_LDADD = $(cuda_test_libs)
EXTRA_%C%_t_cuda_kernels_DEPENDENCIES = $(emulated_objects)

%C%_t_cuda_narrow_SOURCES = %D%/t_cuda_narrow.c $(testdevice_h)
%C%_t_cuda_narrow_CPPFLAGS = $(emulated_flags)
%C%_t_cuda_narrow_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_cuda_narrow_LDFLAGS = $(RACE_CFLAGS)
%C%_t_cuda_narrow_LDADD = $(cuda_test_libs)
EXTRA_%C%_t_cuda_narrow_DEPENDENCIES = $(emulated_objects)

%C%_t_cuda_rows_SOURCES = %D%/t_cuda_rows.c $(testdevice_h)
%C%_t_cuda_rows_CPPFLAGS = $(emulated_flags)
%C%_t_cuda_rows_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_cuda_rows_LDFLAGS = $(RACE_CFLAGS)
%C%_t_cuda_rows_LDADD = $(cuda_test_libs)
EXTRA_%C%_t_cuda_rows_DEPENDENCIES = $(emulated_objects)
endif
