# SPDX-License-Identifier: Apache-2.0
#
# cmd/import: configurations of other programs as INI files.
noinst_LTLIBRARIES += %D%/libimport.la
%C%_libimport_la_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS) $(YAML_CFLAGS)
%C%_libimport_la_LIBADD = $(JANSSON_LIBS) $(YAML_LIBS)
%C%_libimport_la_SOURCES = %D%/import.h %D%/rows.h %D%/accelerate.c %D%/axolotl.c %D%/axolotl.h %D%/axolotl_data.c %D%/axolotl_freeze.c %D%/check.c %D%/deepspeed.c \
	%D%/deepspeed.h %D%/deepspeed_defaults.c %D%/deepspeed_muon.c %D%/deepspeed_values.c %D%/factory.c %D%/factory.h %D%/hf.c %D%/hf.h \
	%D%/import.c %D%/lines.c %D%/read.c %D%/report.c %D%/schedules.c %D%/sequences.c %D%/settings.c %D%/spelling.c %D%/tensors.c %D%/tensors.h \
	%D%/trainer.c %D%/tree.c %D%/yaml.c
