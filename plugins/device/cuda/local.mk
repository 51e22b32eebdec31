# SPDX-License-Identifier: Apache-2.0
#
# device/cuda: an NVIDIA GPU.
#
# The source of updates of one element: text of headers as C strings.
cuda_source_dir = plugins/device/cuda
cuda_texts = $(cuda_source_dir)/elementwise_before.h $(cuda_source_dir)/elementwise_after.h
CLEANFILES += $(cuda_texts)
as_string = sed -e '/^\#include/d' -e 's/\\/\\\\/g' -e 's/"/\\"/g' -e 's/.*/"&\\n"/'

$(cuda_source_dir)/elementwise_before.h: $(cuda_text_before)
	@$(MKDIR_P) $(@D)
	$(AM_V_GEN)for f in $(cuda_text_before); do $(as_string) $(srcdir)/$$f || exit; done >$@

$(cuda_source_dir)/elementwise_after.h: $(cuda_text_after)
	@$(MKDIR_P) $(@D)
	$(AM_V_GEN)$(as_string) $(srcdir)/$(cuda_text_after) >$@

noinst_LTLIBRARIES += %D%/libsource.la
%C%_libsource_la_SOURCES = %D%/elementwise_source.c %D%/elementwise_source.h
%C%_libsource_la_CPPFLAGS = $(AM_CPPFLAGS) $(kernel_flags) -I$(cuda_source_dir)
$(plugins_device_cuda_libsource_la_OBJECTS): $(cuda_texts)

if HAVE_CUDA
deviceplugin_LTLIBRARIES += plugins/device/cuda.la
plugins_device_cuda_la_SOURCES = %D%/attention.c %D%/attention.h kernels/cuda/attention_compare.c kernels/attention_compare.h \
	%D%/cuda.c %D%/cuda.h %D%/elementwise.c %D%/error.c %D%/experts.c %D%/fp8.c %D%/graphs.c %D%/head.c \
	%D%/matmul.c %D%/matmul.h %D%/memory.c %D%/nvrtc.c %D%/nvrtc.h %D%/ops.c %D%/ranges.c %D%/time.c %D%/trial.c %D%/trial.h %D%/trial_gpu.c plugins/cuda_missing.h plugins/near.h
plugins_device_cuda_la_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/plugins -I$(top_srcdir)/kernels \
	$(CUDA_CPPFLAGS)
plugins_device_cuda_la_CFLAGS = $(PLUGIN_CFLAGS)
plugins_device_cuda_la_LDFLAGS = -module -avoid-version -shared $(NO_UNDEFINED) \
	-export-symbols-regex '^(zr_plugin_entry_v1|zr_cuda_trial)$$'
plugins_device_cuda_la_LIBADD = plugins/device/cuda/libsource.la $(cuda_objects) $(CUDA_LIBS) $(SYS_LIBS) -lstdc++
EXTRA_plugins_device_cuda_la_DEPENDENCIES = $(cuda_objects)
deviceplugin_PROGRAMS = plugins/device/cuda-trial
else
check_PROGRAMS += plugins/device/cuda-trial
endif

# What device/cuda starts to try kernels; it lies beside the plugin.
plugins_device_cuda_trial_SOURCES = %D%/trial_main.c %D%/trial.h
plugins_device_cuda_trial_LDADD = -ldl
