# Tests of kernels/cuda, run by the host; and what proves device/cuda on a machine with a GPU.
EXTRA_DIST += %D%/cuda_emulated.h %D%/gpu/run %D%/gpu/build.sh %D%/gpu/proof.sh %D%/gpu/speed.sh %D%/gpu/peer.py %D%/gpu/bundle.sh
if HAVE_CXX
cuda_tests = %D%/t_cuda_attention %D%/t_cuda_kernels %D%/t_cuda_rows
check_PROGRAMS += $(cuda_tests)
TESTS += $(cuda_tests)

emulated_flags = -DZR_CUDA_EMULATED='"tests/cuda_emulated.h"' $(AM_CPPFLAGS) $(kernel_flags)
emulated_objects = $(cuda_kernels:kernels/cuda/%.cu=%D%/cuda_%.o)
CLEANFILES += $(emulated_objects)

$(emulated_objects): %D%/cuda_%.o: kernels/cuda/%.cu $(cuda_headers) $(kernel_headers) %D%/cuda_emulated.h
	@$(MKDIR_P) $(@D)
	$(AM_V_GEN)$(CXX) -x c++ -std=c++20 -O2 -Wall -Wextra -Wno-unknown-pragmas -ffp-contract=off -fno-exceptions -fno-rtti -fno-threadsafe-statics \
		$(RACE_CFLAGS) $(emulated_flags) -c -o $@ $<

%C%_t_cuda_attention_SOURCES = %D%/t_cuda_attention.c %D%/attention_case.c %D%/attention_case.h %D%/isa.h
%C%_t_cuda_attention_CPPFLAGS = $(emulated_flags)
%C%_t_cuda_attention_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_cuda_attention_LDFLAGS = $(RACE_CFLAGS)
%C%_t_cuda_attention_LDADD = kernels/libkernels_f64.la $(emulated_objects) kernels/libzrkernels.la %D%/libtesthost.la $(CMOCKA_LIBS) -lm
EXTRA_%C%_t_cuda_attention_DEPENDENCIES = $(emulated_objects)
%C%_t_cuda_kernels_SOURCES = %D%/t_cuda_kernels.c %D%/testdevice.h %D%/half.h
%C%_t_cuda_kernels_CPPFLAGS = $(emulated_flags)
%C%_t_cuda_kernels_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_cuda_kernels_LDFLAGS = $(RACE_CFLAGS)
%C%_t_cuda_kernels_LDADD = $(emulated_objects) kernels/libzrkernels.la %D%/libtesthost.la $(CMOCKA_LIBS) -lm
EXTRA_%C%_t_cuda_kernels_DEPENDENCIES = $(emulated_objects)
%C%_t_cuda_rows_SOURCES = %D%/t_cuda_rows.c %D%/testdevice.h %D%/half.h
%C%_t_cuda_rows_CPPFLAGS = $(emulated_flags)
%C%_t_cuda_rows_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_cuda_rows_LDFLAGS = $(RACE_CFLAGS)
%C%_t_cuda_rows_LDADD = $(emulated_objects) kernels/libzrkernels.la %D%/libtesthost.la $(CMOCKA_LIBS) -lm
EXTRA_%C%_t_cuda_rows_DEPENDENCIES = $(emulated_objects)
endif

if HAVE_CUDA
check_PROGRAMS += %D%/t_cuda_error
TESTS += %D%/t_cuda_error
%C%_t_cuda_error_SOURCES = %D%/t_cuda_error.c plugins/device/cuda_error.c plugins/device/cuda.h plugins/cuda_missing.h
%C%_t_cuda_error_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/plugins -I$(top_srcdir)/kernels $(CUDA_CPPFLAGS)
%C%_t_cuda_error_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_cuda_error_LDADD = %D%/libtesthost.la $(CUDA_LIBS) $(CMOCKA_LIBS)
endif
TESTS += %D%/gpu.sh
EXTRA_DIST += %D%/gpu.sh

gpu-bundle: all %D%/t_device %D%/t_twin bench/device
	bash $(abs_srcdir)/%D%/gpu/bundle.sh zeroth-gpu-bundle.tar.gz

.PHONY: gpu-bundle
CLEANFILES += zeroth-gpu-bundle.tar.gz
