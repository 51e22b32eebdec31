# Plugins of the role scheduler: the learning rate as a function of the step.
schedulerplugindir = $(plugindir)/scheduler
schedulerplugin_LTLIBRARIES = %D%/constant.la %D%/warmup_lr.la

%C%_constant_la_SOURCES = %D%/constant.c
%C%_constant_la_CFLAGS = $(PLUGIN_CFLAGS)
%C%_constant_la_LDFLAGS = $(PLUGIN_LDFLAGS)

%C%_warmup_lr_la_SOURCES = %D%/warmup_lr.c
%C%_warmup_lr_la_CFLAGS = $(PLUGIN_CFLAGS)
%C%_warmup_lr_la_LDFLAGS = $(PLUGIN_LDFLAGS)
%C%_warmup_lr_la_LIBADD = -lm
