# Plugins of the role zero: who holds what, and when it moves.
zeroplugindir = $(plugindir)/zero
zeroplugin_LTLIBRARIES = \
	%D%/stage0.la %D%/stage1.la %D%/stage2.la %D%/stage3.la %D%/hpz.la %D%/mics.la

zero_whole = %D%/persistent.c %D%/policy.c %D%/policy.h
zero_split = $(zero_whole) %D%/split.c

%C%_stage0_la_SOURCES = %D%/stage0.c $(zero_whole)
%C%_stage0_la_CFLAGS = $(PLUGIN_CFLAGS)
%C%_stage0_la_LDFLAGS = $(PLUGIN_LDFLAGS)

%C%_stage1_la_SOURCES = %D%/stage1.c $(zero_whole)
%C%_stage1_la_CFLAGS = $(PLUGIN_CFLAGS)
%C%_stage1_la_LDFLAGS = $(PLUGIN_LDFLAGS)

%C%_stage2_la_SOURCES = %D%/stage2.c $(zero_whole)
%C%_stage2_la_CFLAGS = $(PLUGIN_CFLAGS)
%C%_stage2_la_LDFLAGS = $(PLUGIN_LDFLAGS)

%C%_stage3_la_SOURCES = %D%/stage3.c $(zero_split)
%C%_stage3_la_CFLAGS = $(PLUGIN_CFLAGS)
%C%_stage3_la_LDFLAGS = $(PLUGIN_LDFLAGS)

%C%_hpz_la_SOURCES = %D%/hpz.c $(zero_split)
%C%_hpz_la_CFLAGS = $(PLUGIN_CFLAGS)
%C%_hpz_la_LDFLAGS = $(PLUGIN_LDFLAGS)

%C%_mics_la_SOURCES = %D%/mics.c $(zero_split)
%C%_mics_la_CFLAGS = $(PLUGIN_CFLAGS)
%C%_mics_la_LDFLAGS = $(PLUGIN_LDFLAGS)
