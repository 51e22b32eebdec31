# SPDX-License-Identifier: Apache-2.0
#
# device/cpu: host memory and the vector kernels.
deviceplugin_LTLIBRARIES += plugins/device/cpu.la
plugins_device_cpu_la_SOURCES = %D%/cpu.c %D%/cpu.h %D%/attention.c %D%/elementwise.c %D%/experts.c %D%/head.c %D%/head.h \
	%D%/head_blocks.c %D%/head_part.c %D%/matmul.c %D%/matrices.c \
	%D%/memory.c %D%/narrow.c %D%/ops.c
plugins_device_cpu_la_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/kernels
plugins_device_cpu_la_CFLAGS = $(PLUGIN_CFLAGS)
plugins_device_cpu_la_LDFLAGS = $(PLUGIN_LDFLAGS)
plugins_device_cpu_la_LIBADD = kernels/libzrkernels.la
