# Plugins of the role scheduler: the learning rate as a function of the step.
schedulerplugindir = $(plugindir)/scheduler
schedulerplugin_LTLIBRARIES = %D%/constant.la %D%/lr_range_test.la %D%/one_cycle.la \
	%D%/warmup_lr.la %D%/warmup_decay_lr.la %D%/warmup_cosine_lr.la %D%/linear.la \
	%D%/cosine.la %D%/cosine_with_restarts.la %D%/cosine_with_min_lr.la \
	%D%/cosine_warmup_with_min_lr.la %D%/constant_with_warmup.la %D%/polynomial.la \
	%D%/inverse_sqrt.la %D%/warmup_stable_decay.la

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

%C%_cosine_la_SOURCES = %D%/cosine.c %D%/transformers.h %D%/pure.h
%C%_cosine_la_CFLAGS = $(PLUGIN_CFLAGS)
%C%_cosine_la_LDFLAGS = $(PLUGIN_LDFLAGS)
%C%_cosine_la_LIBADD = -lm

%C%_cosine_warmup_with_min_lr_la_SOURCES = %D%/cosine_warmup_with_min_lr.c %D%/transformers.h %D%/pure.h
%C%_cosine_warmup_with_min_lr_la_CFLAGS = $(PLUGIN_CFLAGS)
%C%_cosine_warmup_with_min_lr_la_LDFLAGS = $(PLUGIN_LDFLAGS)
%C%_cosine_warmup_with_min_lr_la_LIBADD = -lm

%C%_cosine_with_min_lr_la_SOURCES = %D%/cosine_with_min_lr.c %D%/transformers.h %D%/pure.h
%C%_cosine_with_min_lr_la_CFLAGS = $(PLUGIN_CFLAGS)
%C%_cosine_with_min_lr_la_LDFLAGS = $(PLUGIN_LDFLAGS)
%C%_cosine_with_min_lr_la_LIBADD = -lm

%C%_cosine_with_restarts_la_SOURCES = %D%/cosine_with_restarts.c %D%/transformers.h %D%/pure.h
%C%_cosine_with_restarts_la_CFLAGS = $(PLUGIN_CFLAGS)
%C%_cosine_with_restarts_la_LDFLAGS = $(PLUGIN_LDFLAGS)
%C%_cosine_with_restarts_la_LIBADD = -lm

%C%_constant_with_warmup_la_SOURCES = %D%/constant_with_warmup.c %D%/transformers.h %D%/pure.h
%C%_constant_with_warmup_la_CFLAGS = $(PLUGIN_CFLAGS)
%C%_constant_with_warmup_la_LDFLAGS = $(PLUGIN_LDFLAGS)
%C%_constant_with_warmup_la_LIBADD = -lm

%C%_inverse_sqrt_la_SOURCES = %D%/inverse_sqrt.c %D%/transformers.h %D%/pure.h
%C%_inverse_sqrt_la_CFLAGS = $(PLUGIN_CFLAGS)
%C%_inverse_sqrt_la_LDFLAGS = $(PLUGIN_LDFLAGS)
%C%_inverse_sqrt_la_LIBADD = -lm

%C%_linear_la_SOURCES = %D%/linear.c %D%/transformers.h %D%/pure.h
%C%_linear_la_CFLAGS = $(PLUGIN_CFLAGS)
%C%_linear_la_LDFLAGS = $(PLUGIN_LDFLAGS)
%C%_linear_la_LIBADD = -lm

%C%_polynomial_la_SOURCES = %D%/polynomial.c %D%/transformers.h %D%/pure.h
%C%_polynomial_la_CFLAGS = $(PLUGIN_CFLAGS)
%C%_polynomial_la_LDFLAGS = $(PLUGIN_LDFLAGS)
%C%_polynomial_la_LIBADD = -lm

%C%_warmup_stable_decay_la_SOURCES = %D%/warmup_stable_decay.c %D%/transformers.h %D%/pure.h
%C%_warmup_stable_decay_la_CFLAGS = $(PLUGIN_CFLAGS)
%C%_warmup_stable_decay_la_LDFLAGS = $(PLUGIN_LDFLAGS)
%C%_warmup_stable_decay_la_LIBADD = -lm
