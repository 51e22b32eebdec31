# SPDX-License-Identifier: Apache-2.0
#
# cmd/look: conversations as `zeroth data show` shows them.
cmd_libcmd_la_SOURCES += \
	%D%/conversations.c %D%/lengths.c %D%/look.h %D%/page.c %D%/segments.c %D%/terminal.c
EXTRA_DIST += %D%/page.css

# The style as strings, a line each.
nodist_cmd_libcmd_la_SOURCES += %D%/page_text.c
CLEANFILES += %D%/page_text.c
%D%/page_text.c: %D%/page.css
	@$(MKDIR_P) %D%
	$(AM_V_GEN){ echo '#include "cmd/look/look.h"'; \
		echo 'const char *const zr_look_css[] = {'; \
		$(page_lines) $(srcdir)/%D%/page.css; echo 'NULL };'; } >$@
