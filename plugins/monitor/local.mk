# Plugins of the role monitor: where metrics go.
monitorplugindir = $(plugindir)/monitor
monitorplugin_LTLIBRARIES = %D%/csv.la %D%/jsonl.la

%C%_csv_la_SOURCES = %D%/csv.c %D%/cut.c %D%/line.c %D%/line.h
%C%_csv_la_CFLAGS = $(PLUGIN_CFLAGS)
%C%_csv_la_LDFLAGS = $(PLUGIN_LDFLAGS)
%C%_csv_la_LIBADD = -lm

%C%_jsonl_la_SOURCES = %D%/jsonl.c %D%/cut.c %D%/line.c %D%/line.h
%C%_jsonl_la_CFLAGS = $(PLUGIN_CFLAGS)
%C%_jsonl_la_LDFLAGS = $(PLUGIN_LDFLAGS)
%C%_jsonl_la_LIBADD = -lm
