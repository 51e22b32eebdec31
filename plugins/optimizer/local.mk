# Plugins of the role optimizer: arithmetic of an update.
optimizerplugindir = $(plugindir)/optimizer
optimizerplugin_LTLIBRARIES = %D%/adagrad.la %D%/adam.la %D%/adamw.la \
	%D%/cpu_adam.la %D%/lamb.la %D%/lion.la %D%/muon.la \
	%D%/sgd.la

adam_family = %D%/adam_family.c %D%/adam_family.h %D%/moments.h %D%/piece.h
moments_cppflags = $(AM_CPPFLAGS) $(kernel_flags) -I$(top_srcdir)/kernels/cpu

%C%_adagrad_la_SOURCES = %D%/adagrad.c %D%/piece.h
%C%_adagrad_la_CFLAGS = $(PLUGIN_CFLAGS)
%C%_adagrad_la_LDFLAGS = $(PLUGIN_LDFLAGS)

%C%_adam_la_SOURCES = %D%/adam.c $(adam_family)
%C%_adam_la_CPPFLAGS = $(moments_cppflags)
%C%_adam_la_CFLAGS = $(PLUGIN_CFLAGS)
%C%_adam_la_LDFLAGS = $(PLUGIN_LDFLAGS)

%C%_adamw_la_SOURCES = %D%/adamw.c $(adam_family)
%C%_adamw_la_CPPFLAGS = $(moments_cppflags)
%C%_adamw_la_CFLAGS = $(PLUGIN_CFLAGS)
%C%_adamw_la_LDFLAGS = $(PLUGIN_LDFLAGS)

%C%_cpu_adam_la_SOURCES = %D%/cpu_adam.c $(adam_family)
%C%_cpu_adam_la_CPPFLAGS = $(moments_cppflags)
%C%_cpu_adam_la_CFLAGS = $(PLUGIN_CFLAGS)
%C%_cpu_adam_la_LDFLAGS = $(PLUGIN_LDFLAGS)
%C%_cpu_adam_la_LIBADD = kernels/libzrkernels.la

%C%_lamb_la_SOURCES = %D%/lamb.c %D%/piece.h
%C%_lamb_la_CFLAGS = $(PLUGIN_CFLAGS)
%C%_lamb_la_LDFLAGS = $(PLUGIN_LDFLAGS)

%C%_lion_la_SOURCES = %D%/lion.c %D%/moments.h %D%/piece.h
%C%_lion_la_CPPFLAGS = $(moments_cppflags)
%C%_lion_la_CFLAGS = $(PLUGIN_CFLAGS)
%C%_lion_la_LDFLAGS = $(PLUGIN_LDFLAGS)

%C%_muon_la_SOURCES = %D%/muon.c %D%/piece.h
%C%_muon_la_CFLAGS = $(PLUGIN_CFLAGS)
%C%_muon_la_LDFLAGS = $(PLUGIN_LDFLAGS)
%C%_muon_la_LIBADD = -lm

%C%_sgd_la_SOURCES = %D%/sgd.c %D%/piece.h
%C%_sgd_la_CFLAGS = $(PLUGIN_CFLAGS)
%C%_sgd_la_LDFLAGS = $(PLUGIN_LDFLAGS)
