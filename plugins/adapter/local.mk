# Plugins of the role adapter: what is trained beside a frozen model.
adapterplugindir = $(plugindir)/adapter
adapterplugin_LTLIBRARIES = %D%/lora.la

%C%_lora_la_SOURCES = %D%/lora.c %D%/lora.h %D%/config.c %D%/embedding.c %D%/experts.c %D%/head.c \
	%D%/maps.c %D%/maps.h %D%/merge.c %D%/names.c %D%/names.h %D%/places.c %D%/products.c %D%/python.c %D%/regex.c %D%/targets.c %D%/tying.c
%C%_lora_la_CFLAGS = $(PLUGIN_CFLAGS) $(JANSSON_CFLAGS) $(PCRE2_CFLAGS)
%C%_lora_la_LDFLAGS = $(PLUGIN_LDFLAGS)
%C%_lora_la_LIBADD = -lm $(JANSSON_LIBS) $(PCRE2_LIBS)
