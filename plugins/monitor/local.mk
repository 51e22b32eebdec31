# Plugins of the role monitor: where metrics go.
monitorplugindir = $(plugindir)/monitor
monitorplugin_LTLIBRARIES = %D%/csv.la %D%/jsonl.la %D%/tensorboard.la

%C%_csv_la_SOURCES = %D%/csv.c %D%/cut.c %D%/line.c %D%/line.h
%C%_csv_la_CFLAGS = $(PLUGIN_CFLAGS)
%C%_csv_la_LDFLAGS = $(PLUGIN_LDFLAGS)
%C%_csv_la_LIBADD = -lm

%C%_jsonl_la_SOURCES = %D%/jsonl.c %D%/cut.c %D%/line.c %D%/line.h
%C%_jsonl_la_CFLAGS = $(PLUGIN_CFLAGS)
%C%_jsonl_la_LDFLAGS = $(PLUGIN_LDFLAGS)
%C%_jsonl_la_LIBADD = -lm

%C%_tensorboard_la_SOURCES = %D%/tensorboard.c %D%/message.c %D%/message.h %D%/output.c \
	%D%/output.h %D%/tag.c %D%/tag.h
%C%_tensorboard_la_CFLAGS = $(PLUGIN_CFLAGS)
%C%_tensorboard_la_LDFLAGS = $(PLUGIN_LDFLAGS)

monitorplugin_LTLIBRARIES += %D%/wandb.la
%C%_wandb_la_SOURCES = %D%/wandb.c %D%/wandb_log.c %D%/wandb_log.h %D%/message.c %D%/message.h \
	%D%/output.c %D%/output.h %D%/tag.c %D%/tag.h
%C%_wandb_la_CFLAGS = $(PLUGIN_CFLAGS)
%C%_wandb_la_LDFLAGS = $(PLUGIN_LDFLAGS)
%C%_wandb_la_LIBADD = files/libprotobuf.la -lm
