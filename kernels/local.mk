# SPDX-License-Identifier: Apache-2.0
#
# The kernels: libzrkernels, the scalar ones and, on x86-64, the vector variants inside it; and
# those of CUDA. Plugins link it and choose at run time (cpu/isa.c). Flags of an instruction set
# belong to its own library: nothing that runs before the choice has them.

kernel_flags = -I$(top_srcdir)/kernels

kernel_headers = \
	%D%/checks.h \
	%D%/elementwise.h \
	%D%/fold.h \
	%D%/narrow_work.h \
	%D%/kernels.h \
	%D%/kernels.def \
	%D%/cpu/adamw.h \
	%D%/cpu/adamw8.h \
	%D%/cpu/adamw8_simd.h \
	%D%/cpu/attention_blocks.h \
	%D%/cpu/attention_few.h \
	%D%/cpu/attention_pairs.h \
	%D%/cpu/attention_places.h \
	%D%/cpu/attention_simd.h \
	%D%/cpu/attention_tiles.h \
	%D%/cpu/attention_tiles_simd.h \
	%D%/cpu/bf16_pairs.h \
	%D%/cpu/cast_heads.h \
	%D%/cpu/codes.h \
	%D%/cpu/double_simd.h \
	%D%/cpu/elementary.h \
	%D%/cpu/gemm_ahead.h \
	%D%/cpu/gemm_few.h \
	%D%/cpu/gemm_pack.h \
	%D%/cpu/gemm_pairs.h \
	%D%/cpu/gemm_tiles_pack.h \
	%D%/cpu/gemv.h \
	%D%/cpu/gemm_low_rank.h \
	%D%/cpu/gemm_wide.h \
	%D%/cpu/kept_simd.h \
	%D%/cpu/lamb.h \
	%D%/cpu/master.h \
	%D%/cpu/master_simd.h \
	%D%/cpu/moments8.h \
	%D%/cpu/moments8_simd.h \
	%D%/cpu/mx.h \
	%D%/cpu/narrow.h \
	%D%/cpu/raise.h \
	%D%/cpu/rng.h \
	%D%/cpu/route.h \
	%D%/cpu/scalar.h \
	%D%/cpu/scale_heads.h \
	%D%/cpu/simd.h \
	%D%/cpu/simd_avx2.h \
	%D%/cpu/simd_avx512.h \
	%D%/cpu/softmax.h \
	%D%/cpu/sumsq.h \
	%D%/cpu/table.h \
	%D%/cpu/tile_queue.h \
	%D%/cpu/transpose_simd.h \
	%D%/cpu/tiles.h \
	%D%/cpu/update.h

kernel_scalar = \
	%D%/cpu/adagrad.c \
	%D%/cpu/adamw.c \
	%D%/cpu/attention.c \
	%D%/cpu/bias_bwd.c \
	%D%/cpu/cast.c \
	%D%/cpu/codes.c \
	%D%/cpu/embedding.c \
	%D%/cpu/experts.c \
	%D%/cpu/fold.c \
	%D%/cpu/gelu_bwd.c \
	%D%/cpu/gemm.c \
	%D%/cpu/init.c \
	%D%/cpu/lamb.c \
	%D%/cpu/layernorm.c \
	%D%/cpu/lion.c \
	%D%/cpu/logit_cap.c \
	%D%/cpu/master.c \
	%D%/cpu/muon.c \
	%D%/cpu/mx.c \
	%D%/cpu/narrow.c \
	%D%/cpu/residual.c \
	%D%/cpu/rmsnorm.c \
	%D%/cpu/rotary.c \
	%D%/cpu/round_stochastic.c \
	%D%/cpu/scale_heads.c \
	%D%/cpu/sgd.c \
	%D%/cpu/softmax.c \
	%D%/cpu/state8.c \
	%D%/cpu/swiglu.c

kernel_simd = \
	%D%/cpu/adagrad.simd.c \
	%D%/cpu/adamw.simd.c \
	%D%/cpu/adamw8.simd.c \
	%D%/cpu/attention.simd.c \
	%D%/cpu/bias_bwd.simd.c \
	%D%/cpu/cast.simd.c \
	%D%/cpu/codes.simd.c \
	%D%/cpu/embedding.simd.c \
	%D%/cpu/experts.simd.c \
	%D%/cpu/fold.simd.c \
	%D%/cpu/gelu_bwd.simd.c \
	%D%/cpu/gemm.simd.c \
	%D%/cpu/gemv.simd.c \
	%D%/cpu/init.simd.c \
	%D%/cpu/lamb.simd.c \
	%D%/cpu/layernorm.simd.c \
	%D%/cpu/lion.simd.c \
	%D%/cpu/logit_cap.simd.c \
	%D%/cpu/master.simd.c \
	%D%/cpu/muon.simd.c \
	%D%/cpu/mx.simd.c \
	%D%/cpu/narrow.simd.c \
	%D%/cpu/residual.simd.c \
	%D%/cpu/rmsnorm.simd.c \
	%D%/cpu/rotary.simd.c \
	%D%/cpu/round_stochastic.simd.c \
	%D%/cpu/sgd.simd.c \
	%D%/cpu/softmax.simd.c \
	%D%/cpu/state8.simd.c \
	%D%/cpu/swiglu.simd.c \
	%D%/cpu/table.simd.c

EXTRA_DIST += $(kernel_headers)

# For who compiles the rest with less optimization.
%D%/cpu/%.lo: CFLAGS += $(KERNEL_CFLAGS)

noinst_LTLIBRARIES += %D%/libzrkernels.la
%C%_libzrkernels_la_SOURCES = $(kernel_scalar) %D%/cpu/isa.c %D%/cpu/table.c
%C%_libzrkernels_la_CPPFLAGS = $(AM_CPPFLAGS) $(kernel_flags)
%C%_libzrkernels_la_LIBADD = -lm

# The scalar source in double: the tests' oracle for finite differences.
check_LTLIBRARIES += %D%/libkernels_f64.la
%C%_libkernels_f64_la_SOURCES = $(kernel_scalar)
%C%_libkernels_f64_la_CPPFLAGS = $(AM_CPPFLAGS) $(kernel_flags) -DZR_REAL=double

if HAVE_X86_64
%C%_libzrkernels_la_CPPFLAGS += -DHAVE_X86_64
noinst_LTLIBRARIES += %D%/libkernels_avx2.la
%C%_libzrkernels_la_LIBADD += %D%/libkernels_avx2.la

%C%_libkernels_avx2_la_SOURCES = $(kernel_simd)
%C%_libkernels_avx2_la_CPPFLAGS = $(AM_CPPFLAGS) $(kernel_flags) -DZR_ISA=avx2
%C%_libkernels_avx2_la_CFLAGS = $(AM_CFLAGS) -mavx2 -mfma -mf16c
endif

avx512_cflags = $(AM_CFLAGS) -mavx2 -mfma -mf16c -mavx512f -mavx512bw -mavx512dq -mavx512vl \
	-mprefer-vector-width=512
if HAVE_AVX512
%C%_libzrkernels_la_CPPFLAGS += -DHAVE_AVX512
noinst_LTLIBRARIES += %D%/libkernels_avx512.la
%C%_libzrkernels_la_LIBADD += %D%/libkernels_avx512.la

%C%_libkernels_avx512_la_SOURCES = $(kernel_simd)
%C%_libkernels_avx512_la_CPPFLAGS = $(AM_CPPFLAGS) $(kernel_flags) -DZR_ISA=avx512
%C%_libkernels_avx512_la_CFLAGS = $(avx512_cflags)
endif

if HAVE_AVX512BF16
%C%_libzrkernels_la_CPPFLAGS += -DHAVE_AVX512BF16
noinst_LTLIBRARIES += %D%/libkernels_avx512bf16.la
%C%_libzrkernels_la_LIBADD += %D%/libkernels_avx512bf16.la

%C%_libkernels_avx512bf16_la_SOURCES = %D%/cpu/attention_pairs.simd.c \
	%D%/cpu/gemm.simd.c %D%/cpu/pair_sums.c %D%/cpu/table_bf16.c
%C%_libkernels_avx512bf16_la_CPPFLAGS = $(AM_CPPFLAGS) $(kernel_flags) -DZR_ISA=avx512bf16 -DZR_PAIRS
%C%_libkernels_avx512bf16_la_CFLAGS = $(avx512_cflags) -mavx512bf16
%C%_libkernels_avx512bf16_la_SOURCES += %D%/cpu/gemv.simd.c

# The source of amx on tile registers in C: the tests' own.
check_LTLIBRARIES += %D%/libkernels_amx_emulated.la
%C%_libkernels_amx_emulated_la_SOURCES = %D%/cpu/attention_tiles.simd.c \
	%D%/cpu/attention_tiles_bwd.simd.c %D%/cpu/gemm_few.simd.c %D%/cpu/gemm_tiles.simd.c
%C%_libkernels_amx_emulated_la_CPPFLAGS = $(AM_CPPFLAGS) $(kernel_flags) -DZR_ISA=amx_emulated -DZR_PAIRS \
	-DZR_TILES_EMULATED='"tests/unit/kernels/tiles_emulated.h"'
%C%_libkernels_amx_emulated_la_CFLAGS = $(avx512_cflags)
endif

if HAVE_AMX
%C%_libzrkernels_la_CPPFLAGS += -DHAVE_AMX
noinst_LTLIBRARIES += %D%/libkernels_amx.la
%C%_libzrkernels_la_LIBADD += %D%/libkernels_amx.la

%C%_libkernels_amx_la_SOURCES = %D%/cpu/attention_tiles.simd.c \
	%D%/cpu/attention_tiles_bwd.simd.c %D%/cpu/gemm_few.simd.c %D%/cpu/gemm_tiles.simd.c \
	%D%/cpu/table_amx.c %D%/cpu/tile_sums.c
%C%_libkernels_amx_la_CPPFLAGS = $(AM_CPPFLAGS) $(kernel_flags) -DZR_ISA=amx -DZR_PAIRS
%C%_libkernels_amx_la_CFLAGS = $(avx512_cflags) -mamx-tile -mamx-bf16
endif

# CUDA kernels, objects of plugins/device/cuda. Contraction to fma would
# change the bits of elementwise operations.
cuda_kernels = \
	%D%/cuda/attention.cu \
	%D%/cuda/attention_mma.cu \
	%D%/cuda/attention_mma_bwd.cu \
	%D%/cuda/blocks.cu \
	%D%/cuda/codes.cu \
	%D%/cuda/columns.cu \
	%D%/cuda/elements.cu \
	%D%/cuda/experts.cu \
	%D%/cuda/head.cu \
	%D%/cuda/matmul.cu \
	%D%/cuda/matmul_grouped.cu \
	%D%/cuda/mx.cu \
	%D%/cuda/narrow.cu \
	%D%/cuda/norms.cu \
	%D%/cuda/updates.cu
# For compute capability 9.0 alone.
hopper_kernels = %D%/cuda/attention_hopper.cu %D%/cuda/attention_hopper_bwd.cu
cuda_headers = %D%/kernels_cuda.h \
	%D%/cuda/attention.h %D%/cuda/attention_hopper.h %D%/cuda/attention_mma.h \
	%D%/cuda/groups.h %D%/cuda/hopper.h %D%/cuda/kernel.h %D%/cuda/mma.h %D%/cuda/parts.h %D%/cuda/slopes.h %D%/cuda/storage.h
EXTRA_DIST += $(cuda_kernels) $(hopper_kernels) $(cuda_headers) %D%/cuda/nvcc.sh
# What NVRTC compiles before an update of one element, and behind it.
cuda_text_before = %D%/elementwise_args.h %D%/cpu/scalar.h %D%/cpu/elementary.h %D%/cpu/rng.h \
	%D%/cpu/moments8.h %D%/cuda/storage.h %D%/cuda/groups.h
cuda_text_after = %D%/cuda/elementwise.cuh
EXTRA_DIST += %D%/elementwise_args.h $(cuda_text_after)

if HAVE_CUDA
hopper_objects = $(hopper_kernels:.cu=.lo)
cuda_objects = $(cuda_kernels:.cu=.lo) $(hopper_objects)
NVCCFLAGS = -std=c++20 -O3 -fmad=false -Wno-deprecated-gpu-targets -Xcompiler=-Wall,-Wextra
CLEANFILES += $(cuda_objects)

cuda_targets = $(NVCC_TARGETS)
$(hopper_objects): cuda_targets = -gencode=arch=compute_90a,code=sm_90a

$(cuda_objects): %.lo: %.cu $(cuda_headers) $(kernel_headers)
	@$(MKDIR_P) $(@D)
	$(AM_V_GEN)$(LIBTOOL) $(AM_V_lt) --tag=CC --mode=compile \
		$(SHELL) $(top_srcdir)/%D%/cuda/nvcc.sh $(NVCC) $(NVCCFLAGS) \
		$(cuda_targets) $(AM_CPPFLAGS) $(kernel_flags) $(CUDA_CPPFLAGS) -c -o $@ $<
endif
