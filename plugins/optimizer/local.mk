# Plugins of the role optimizer: arithmetic of an update.
optimizerplugindir = $(plugindir)/optimizer
optimizerplugin_LTLIBRARIES = %D%/adamw.la %D%/sgd.la

%C%_adamw_la_SOURCES = %D%/adamw.c %D%/piece.h
%C%_adamw_la_CFLAGS = $(PLUGIN_CFLAGS)
%C%_adamw_la_LDFLAGS = $(PLUGIN_LDFLAGS)

%C%_sgd_la_SOURCES = %D%/sgd.c %D%/piece.h
%C%_sgd_la_CFLAGS = $(PLUGIN_CFLAGS)
%C%_sgd_la_LDFLAGS = $(PLUGIN_LDFLAGS)
