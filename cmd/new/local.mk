# SPDX-License-Identifier: Apache-2.0
#
# cmd/new: `zeroth plugin new`, and what it writes, with marks for names.
cmd_libcmd_la_SOURCES += %D%/new_plugin.c %D%/new_plugin.h

new_templates = Makefile README.md activation.c adapter.c boot.c comm.c data.c gpt2.ini model.c monitor.c \
	offload.c optimizer.c plugin.ini precision.c scheduler.c text.ini zero.c
EXTRA_DIST += $(new_templates:%=%D%/%)

# The templates as strings, a line each.
nodist_cmd_libcmd_la_SOURCES = %D%/templates.c
CLEANFILES += %D%/templates.c
%D%/templates.c: $(new_templates:%=%D%/%) %D%/local.mk
	@$(MKDIR_P) %D%
	$(AM_V_GEN){ echo '#include "cmd/new/new_plugin.h"'; \
		echo 'const struct zr_template zr_templates[] = {'; \
		for name in $(new_templates); do \
			echo "{ \"$$name\", (const char *const[]){"; \
			$(page_lines) $(srcdir)/%D%/$$name; echo 'NULL } },'; \
		done; echo '{ NULL, NULL } };'; } >$@
