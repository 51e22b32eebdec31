# SPDX-License-Identifier: Apache-2.0
#
# plugins/optimizer.
optimizer_tests = %D%/t_optim %D%/t_optim_bits
check_PROGRAMS += $(optimizer_tests)
TESTS += $(optimizer_tests)

# Plugins of tests/examples.
check_LTLIBRARIES += %D%/adafactor.la %D%/adamw_ema.la %D%/ademamix.la %D%/dadapt_adam.la %D%/lion.la %D%/prodigy.la \
	%D%/schedulefree.la %D%/signum.la %D%/soap.la
%C%_adafactor_la_SOURCES = tests/examples/adafactor.c
%C%_adafactor_la_CFLAGS = $(PLUGIN_CFLAGS)
%C%_adafactor_la_LDFLAGS = $(PLUGIN_LDFLAGS) -rpath /nowhere
%C%_adafactor_la_LIBADD = -lm
%C%_ademamix_la_SOURCES = tests/examples/ademamix.c
%C%_ademamix_la_CFLAGS = $(PLUGIN_CFLAGS)
%C%_ademamix_la_LDFLAGS = $(PLUGIN_LDFLAGS) -rpath /nowhere
%C%_ademamix_la_LIBADD = -lm
%C%_adamw_ema_la_SOURCES = tests/examples/adamw_ema.c
%C%_adamw_ema_la_CFLAGS = $(PLUGIN_CFLAGS)
%C%_adamw_ema_la_LDFLAGS = $(PLUGIN_LDFLAGS) -rpath /nowhere
%C%_dadapt_adam_la_SOURCES = tests/examples/dadapt_adam.c
%C%_dadapt_adam_la_CFLAGS = $(PLUGIN_CFLAGS)
%C%_dadapt_adam_la_LDFLAGS = $(PLUGIN_LDFLAGS) -rpath /nowhere
%C%_prodigy_la_SOURCES = tests/examples/prodigy.c
%C%_prodigy_la_CFLAGS = $(PLUGIN_CFLAGS)
%C%_prodigy_la_LDFLAGS = $(PLUGIN_LDFLAGS) -rpath /nowhere
%C%_schedulefree_la_SOURCES = tests/examples/schedulefree.c
%C%_schedulefree_la_CFLAGS = $(PLUGIN_CFLAGS)
%C%_schedulefree_la_LDFLAGS = $(PLUGIN_LDFLAGS) -rpath /nowhere
%C%_lion_la_SOURCES = tests/examples/lion.c
%C%_lion_la_CFLAGS = $(PLUGIN_CFLAGS)
%C%_lion_la_LDFLAGS = $(PLUGIN_LDFLAGS) -rpath /nowhere
%C%_signum_la_SOURCES = tests/examples/signum.c
%C%_signum_la_CFLAGS = $(PLUGIN_CFLAGS)
%C%_signum_la_LDFLAGS = $(PLUGIN_LDFLAGS) -rpath /nowhere
%C%_soap_la_SOURCES = tests/examples/soap.c
%C%_soap_la_CFLAGS = $(PLUGIN_CFLAGS)
%C%_soap_la_LDFLAGS = $(PLUGIN_LDFLAGS) -rpath /nowhere

optim_fixture = %D%/optim_fixture.c %D%/optim_fixture.h

%C%_t_optim_SOURCES = %D%/t_optim.c $(optim_fixture)
%C%_t_optim_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_optim_LDADD = tests/lib/libtesthost.la core/libcore.la $(CMOCKA_LIBS) -lm

%C%_t_optim_bits_SOURCES = %D%/t_optim_bits.c $(optim_fixture) $(half_h)
%C%_t_optim_bits_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_optim_bits_LDADD = tests/lib/libtesthost.la core/libcore.la $(CMOCKA_LIBS)
