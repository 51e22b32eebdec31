# SPDX-License-Identifier: Apache-2.0
#
# device/cuda: an NVIDIA GPU.
if HAVE_CUDA
deviceplugin_LTLIBRARIES += plugins/device/cuda.la
plugins_device_cuda_la_SOURCES = %D%/cuda.c %D%/cuda.h %D%/error.c %D%/experts.c %D%/head.c \
	%D%/matmul.c %D%/memory.c %D%/ops.c plugins/cuda_missing.h
plugins_device_cuda_la_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/plugins -I$(top_srcdir)/kernels \
	-D_GNU_SOURCE $(CUDA_CPPFLAGS)
plugins_device_cuda_la_CFLAGS = $(PLUGIN_CFLAGS)
plugins_device_cuda_la_LDFLAGS = $(PLUGIN_LDFLAGS)
plugins_device_cuda_la_LIBADD = $(cuda_objects) $(CUDA_LIBS) -lstdc++
EXTRA_plugins_device_cuda_la_DEPENDENCIES = $(cuda_objects)
endif
