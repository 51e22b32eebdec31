# SPDX-License-Identifier: Apache-2.0
#
# cmd/report: the metrics of runs, and the page that `zeroth report` makes of them.
cmd_libcmd_la_LIBADD += %D%/libreport.la
noinst_LTLIBRARIES += %D%/libreport.la
%C%_libreport_la_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS)
%C%_libreport_la_LIBADD = $(JANSSON_LIBS) -lm
%C%_libreport_la_SOURCES = cmd/report.c cmd/watch.c \
	%D%/answers.c %D%/answers.h %D%/asked.c %D%/asked.h \
	%D%/breakdown.c %D%/chart.c %D%/chart.h %D%/curves.c \
	%D%/decimate.c %D%/decimate.h %D%/frame.c %D%/frame.h %D%/histogram.c %D%/histogram.h %D%/html.c %D%/html.h %D%/memory.c %D%/page.c \
	%D%/plot.c %D%/plot.h %D%/screen.c %D%/screen.h %D%/section.c \
	%D%/report.h %D%/rows.c %D%/rows.h %D%/rows_file.c %D%/run.c %D%/run.h \
	%D%/tables.c %D%/talks.c %D%/ticks.c %D%/timeline.c
EXTRA_DIST += %D%/frame.css %D%/page.css %D%/page.js

# Styles and script as strings, a line each.
nodist_%C%_libreport_la_SOURCES = %D%/page_text.c
CLEANFILES += %D%/page_text.c
page_lines = sed 's/\\/\\\\/g; s/"/\\"/g; s/^/"/; s/$$/",/'
%D%/page_text.c: %D%/frame.css %D%/page.css %D%/page.js cmd/look/page.css
	@$(MKDIR_P) %D%
	$(AM_V_GEN){ echo '#include "cmd/report/report.h"'; \
		echo '#include "cmd/report/frame.h"'; \
		echo 'const char *const zr_frame_css[] = {'; \
		$(page_lines) $(srcdir)/%D%/frame.css; echo 'NULL };'; \
		echo 'const char *const zr_page_css[] = {'; \
		$(page_lines) $(srcdir)/%D%/page.css $(srcdir)/cmd/look/page.css; echo 'NULL };'; \
		echo 'const char *const zr_page_js[] = {'; \
		$(page_lines) $(srcdir)/%D%/page.js; echo 'NULL };'; } >$@
