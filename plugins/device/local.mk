# Plugins of the role device: where computation happens.
deviceplugindir = $(plugindir)/device
deviceplugin_LTLIBRARIES = %D%/cpu.la

%C%_cpu_la_SOURCES = %D%/cpu.c %D%/cpu.h %D%/cpu_attention.c %D%/cpu_head.c %D%/cpu_matmul.c %D%/cpu_memory.c \
	%D%/cpu_ops.c %D%/cpu_pinned.c %D%/cpu_separate.c
%C%_cpu_la_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/kernels -D_GNU_SOURCE
%C%_cpu_la_CFLAGS = $(PLUGIN_CFLAGS)
%C%_cpu_la_LDFLAGS = $(PLUGIN_LDFLAGS)
%C%_cpu_la_LIBADD = kernels/libzrkernels.la

if HAVE_CUDA
deviceplugin_LTLIBRARIES += %D%/cuda.la
%C%_cuda_la_SOURCES = %D%/cuda.c %D%/cuda.h %D%/cuda_error.c %D%/cuda_head.c %D%/cuda_matmul.c %D%/cuda_memory.c %D%/cuda_ops.c \
	plugins/cuda_missing.h
%C%_cuda_la_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/plugins -I$(top_srcdir)/kernels -D_GNU_SOURCE $(CUDA_CPPFLAGS)
%C%_cuda_la_CFLAGS = $(PLUGIN_CFLAGS)
%C%_cuda_la_LDFLAGS = $(PLUGIN_LDFLAGS)
%C%_cuda_la_LIBADD = $(cuda_objects) $(CUDA_LIBS) -lstdc++
EXTRA_%C%_cuda_la_DEPENDENCIES = $(cuda_objects)
endif
