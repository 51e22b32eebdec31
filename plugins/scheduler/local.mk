# Plugins of the role scheduler: the learning rate as a function of the step.
schedulerplugindir = $(plugindir)/scheduler
schedulerplugin_LTLIBRARIES = %D%/constant.la %D%/lr_range_test.la %D%/one_cycle.la \
	%D%/warmup_lr.la %D%/warmup_decay_lr.la %D%/warmup_cosine_lr.la

%C%_constant_la_SOURCES = %D%/constant.c %D%/pure.h
%C%_constant_la_CFLAGS = $(PLUGIN_CFLAGS)
%C%_constant_la_LDFLAGS = $(PLUGIN_LDFLAGS)

%C%_lr_range_test_la_SOURCES = %D%/lr_range_test.c %D%/pure.h
%C%_lr_range_test_la_CFLAGS = $(PLUGIN_CFLAGS)
%C%_lr_range_test_la_LDFLAGS = $(PLUGIN_LDFLAGS)
%C%_lr_range_test_la_LIBADD = -lm

%C%_one_cycle_la_SOURCES = %D%/one_cycle.c %D%/pure.h
%C%_one_cycle_la_CFLAGS = $(PLUGIN_CFLAGS)
%C%_one_cycle_la_LDFLAGS = $(PLUGIN_LDFLAGS)
%C%_one_cycle_la_LIBADD = -lm

%C%_warmup_lr_la_SOURCES = %D%/warmup_lr.c %D%/warmup.h %D%/pure.h
%C%_warmup_lr_la_CFLAGS = $(PLUGIN_CFLAGS)
%C%_warmup_lr_la_LDFLAGS = $(PLUGIN_LDFLAGS)
%C%_warmup_lr_la_LIBADD = -lm

%C%_warmup_decay_lr_la_SOURCES = %D%/warmup_decay_lr.c %D%/warmup.h %D%/pure.h
%C%_warmup_decay_lr_la_CFLAGS = $(PLUGIN_CFLAGS)
%C%_warmup_decay_lr_la_LDFLAGS = $(PLUGIN_LDFLAGS)
%C%_warmup_decay_lr_la_LIBADD = -lm

%C%_warmup_cosine_lr_la_SOURCES = %D%/warmup_cosine_lr.c %D%/warmup.h %D%/pure.h
%C%_warmup_cosine_lr_la_CFLAGS = $(PLUGIN_CFLAGS)
%C%_warmup_cosine_lr_la_LDFLAGS = $(PLUGIN_LDFLAGS)
%C%_warmup_cosine_lr_la_LIBADD = -lm
