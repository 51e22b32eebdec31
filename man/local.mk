# SPDX-License-Identifier: Apache-2.0
#
# man: pages in mdoc. The options in zeroth.ini(5) come from the option tables; `make man-options`
# writes them.
dist_man_MANS += \
	%D%/zeroth.1 \
	%D%/zeroth-bench.1 \
	%D%/zeroth-checkpoint.1 \
	%D%/zeroth-config.1 \
	%D%/zeroth-data.1 \
	%D%/zeroth-doctor.1 \
	%D%/zeroth-launch.1 \
	%D%/zeroth-plugin.1 \
	%D%/zeroth-sample.1 \
	%D%/zeroth-tokenize.1 \
	%D%/zeroth-train.1 \
	%D%/zeroth.ini.5 \
	%D%/zeroth-plugin.7 \
	%D%/zeroth-cluster.7
dist_man_MANS += %D%/zeroth.3 %D%/zeroth_model.3 %D%/zeroth-torch.7 %D%/zeroth-python.7
dist_man_MANS += %D%/zeroth-report.1 %D%/zeroth-watch.1 %D%/zeroth-tutorial.7
EXTRA_DIST += %D%/options.sh

man-options: all
	bash $(srcdir)/man/options.sh ./zeroth$(EXEEXT) '$(abs_builddir)/plugins' \
		$(srcdir)/man/zeroth.ini.5

.PHONY: man-options
