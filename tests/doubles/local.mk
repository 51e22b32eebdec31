# SPDX-License-Identifier: Apache-2.0
#
# Plugins and programs that misbehave, or are watched, for tests. Scripts compile most of them, when
# and as they want them.
EXTRA_DIST += %D%/anew.c %D%/badoptimizer.c %D%/badplugin.c %D%/badprecision.c %D%/broken.c %D%/brokencomm.c %D%/brokenmixture.c %D%/brokenschedule.c %D%/declares.c %D%/devcomm.c %D%/documents.c \
	%D%/drift.c %D%/faulty.c %D%/faultydevice.c %D%/groups.c \
	%D%/heads.c %D%/hold.c %D%/lacking.c %D%/latedevice.c %D%/latedisk.c %D%/persistent.c %D%/planted.c %D%/rounding.c %D%/samples.c %D%/slowmonitor.c %D%/slowread.c %D%/unhashed.c %D%/whole.c \
	%D%/watchdevice.c %D%/watchways.c %D%/wrapped.h

# Preloaded, it makes the disk fail. -rpath makes it a shared object though it is not installed.
check_LTLIBRARIES += %D%/baddisk.la
%C%_baddisk_la_SOURCES = %D%/baddisk.c
%C%_baddisk_la_CFLAGS = $(AM_CFLAGS) $(LIBURING_CFLAGS)
%C%_baddisk_la_LDFLAGS = -module -avoid-version -shared -rpath /nowhere
%C%_baddisk_la_LIBADD = -ldl

# Preloaded, it spoils what a rank sends to others by MPI.
EXTRA_DIST += %D%/forgedmpi.c
if HAVE_MPI
check_LTLIBRARIES += %D%/forgedmpi.la
%C%_forgedmpi_la_SOURCES = %D%/forgedmpi.c
%C%_forgedmpi_la_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CFLAGS) -I$(top_srcdir)
%C%_forgedmpi_la_CFLAGS = $(PLUGIN_CFLAGS) -fvisibility=default
%C%_forgedmpi_la_LDFLAGS = -module -avoid-version -shared -rpath /nowhere
%C%_forgedmpi_la_LIBADD = $(MPI_LIBS)
endif

# What cuda-trial loads.
check_LTLIBRARIES += %D%/trial.la
%C%_trial_la_SOURCES = %D%/trial.c plugins/device/cuda/trial.h
%C%_trial_la_CFLAGS = $(PLUGIN_CFLAGS)
%C%_trial_la_LDFLAGS = -module -avoid-version -shared $(NO_UNDEFINED) -rpath /nowhere

# A boot plugin for ranks that are threads.
check_LTLIBRARIES += %D%/threads.la
%C%_threads_la_SOURCES = %D%/threads.c
%C%_threads_la_CFLAGS = $(PLUGIN_CFLAGS)
%C%_threads_la_LDFLAGS = $(PLUGIN_LDFLAGS) -rpath /nowhere

# device/cpu with a memory of its own that nothing but operations and copies can touch.
check_LTLIBRARIES += %D%/cards.la
%C%_cards_la_SOURCES = %D%/cards.c %D%/cards.h %D%/cards_graphs.c %D%/cards_later.c %D%/cards_ops.c %D%/cards_pinned.c %D%/cards_time.c plugins/near.h
%C%_cards_la_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/kernels
%C%_cards_la_CFLAGS = $(PLUGIN_CFLAGS)
%C%_cards_la_LDFLAGS = -module -avoid-version -shared $(NO_UNDEFINED) -rpath /nowhere \
	-export-symbols-regex '^(zr_plugin_entry_v1|card_real_address)$$'
%C%_cards_la_LIBADD = -ldl

# comm/nccl without a GPU: over a double of what it calls of CUDA and NCCL.
check_LTLIBRARIES += %D%/nccl_double.la
%C%_nccl_double_la_SOURCES = %D%/nccl/plugin.c %D%/nccl/cuda.c %D%/nccl/nccl.c %D%/nccl/double.h \
	%D%/nccl/cuda_runtime_api.h %D%/nccl/nccl.h $(comm_nccl)
%C%_nccl_double_la_CPPFLAGS = -I$(srcdir)/%D%/nccl $(AM_CPPFLAGS) -I$(top_srcdir)/plugins \
	-DNN_RANKS_PER_ID=2 -DNN_PEER=8192u -DNN_HALF_LEAST=16384u -DNN_HALF_MOST=65536u
%C%_nccl_double_la_CFLAGS = $(PLUGIN_CFLAGS)
%C%_nccl_double_la_LDFLAGS = $(PLUGIN_LDFLAGS) -rpath /nowhere
%C%_nccl_double_la_LIBADD = -lpthread -ldl

# zeroth, with another zr_run_program: instructions in orders drawn at random.
check_PROGRAMS += %D%/shuffled
%C%_shuffled_SOURCES = $(zeroth_SOURCES) %D%/shuffled_run.c
%C%_shuffled_CPPFLAGS = $(zeroth_CPPFLAGS)
%C%_shuffled_LDADD = $(zeroth_LDADD)
