# Plugins of the role offload: where data lives that does not fit the device.
offloadplugindir = $(plugindir)/offload
offloadplugin_LTLIBRARIES = %D%/cpu.la %D%/nvme.la

%C%_cpu_la_SOURCES = %D%/cpu.c
%C%_cpu_la_CFLAGS = $(PLUGIN_CFLAGS)
%C%_cpu_la_LDFLAGS = $(PLUGIN_LDFLAGS)

%C%_nvme_la_SOURCES = %D%/nvme.c %D%/nvme.h %D%/nvme_chunk.c %D%/nvme_dir.c %D%/nvme_file.c %D%/nvme_plain.c %D%/nvme_queue.c \
	%D%/nvme_ring.c
%C%_nvme_la_CFLAGS = $(PLUGIN_CFLAGS) $(LIBURING_CFLAGS) $(XXHASH_CFLAGS)
%C%_nvme_la_LDFLAGS = $(PLUGIN_LDFLAGS)
%C%_nvme_la_LIBADD = $(LIBURING_LIBS) $(XXHASH_LIBS) -lpthread
