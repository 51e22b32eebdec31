# SPDX-License-Identifier: Apache-2.0
#
# Planted mistakes, and the tests that notice them: see mutate.sh. The test says that each can be planted.
TESTS += %D%/mutate.sh
EXTRA_DIST += %D%/mutate.sh %D%/mutations

.PHONY: mutate
mutate: distdir
	@$(AM_TESTS_ENVIRONMENT) bash $(srcdir)/%D%/mutate.sh run $(abs_top_builddir)/$(distdir); rc=$$?; \
		rm -rf $(distdir); exit $$rc
