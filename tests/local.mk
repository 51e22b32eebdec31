# SPDX-License-Identifier: Apache-2.0
#
# Tests: lib/ has what they share, unit/<area>/ programs that test parts, system/ scripts that
# test the program zeroth and the tree, doubles/ plugins and programs that misbehave for them,
# twins/ what kernels compute, an element at a time. Each folder wires its own.
EXTRA_DIST += %D%/coverage %D%/reach %D%/reach.py %D%/reached README.md ARCHITECTURE.md SECURITY.md

# In a build of its own: what of the sources the tests reach.
coverage:
	@MAKE='$(MAKE)' bash $(srcdir)/%D%/coverage '$(abs_srcdir)' '$(abs_builddir)/coverage-build'
.PHONY: coverage

# In the same way: the scripts that the sanitizers can do without.
reach:
	@MAKE='$(MAKE)' bash $(srcdir)/%D%/reach '$(abs_srcdir)' '$(abs_builddir)/reach-build'
.PHONY: reach

# The tests, but those that another build, RAN=its directory, has run whole.
EXTRA_DIST += %D%/ran_whole
ran_whole = $(shell bash $(srcdir)/%D%/ran_whole '$(abs_srcdir)' '$(RAN)')
check-rest:
	@$(MAKE) check check_PROGRAMS='$(filter-out $(ran_whole),$(check_PROGRAMS))' \
		TESTS='$(filter-out $(ran_whole),$(TESTS))'
.PHONY: check-rest

# Planted mistakes, and the tests that notice them: see mutate.sh. As a test, it says that each can
# be planted.
TESTS += %D%/mutate.sh
EXTRA_DIST += %D%/mutate.sh %D%/mutations
mutate: distdir
	@$(AM_TESTS_ENVIRONMENT) \
		bash $(srcdir)/%D%/mutate.sh run $(abs_top_builddir)/$(distdir); rc=$$?; \
		rm -rf $(distdir); exit $$rc
.PHONY: mutate

# What has to stay the same while code is moved or written again: see proof.sh. DIR=directory.
TESTS += %D%/proof.sh
EXTRA_DIST += %D%/proof.sh
proof: all
	@$(AM_TESTS_ENVIRONMENT) bash $(srcdir)/%D%/proof.sh record '$(DIR)'
.PHONY: proof

# Trainings of sequences that ranks share, or of experts that they divide, drawn at random; RUNS, SEED: see the scripts.
EXTRA_DIST += %D%/sweep_slices.sh %D%/sweep_experts.sh
sweep-slices: all tests/doubles/shuffled tests/doubles/cards.la
	@$(AM_TESTS_ENVIRONMENT) bash $(srcdir)/%D%/sweep_slices.sh | $(fails_with_a_test)
sweep-experts: all tests/doubles/shuffled tests/doubles/cards.la
	@$(AM_TESTS_ENVIRONMENT) bash $(srcdir)/%D%/sweep_experts.sh | $(fails_with_a_test)
.PHONY: sweep-slices sweep-experts

include tests/lib/local.mk
include tests/doubles/local.mk
include tests/faults/local.mk
include tests/fuzz/local.mk
include tests/golden/local.mk
include tests/gpu/local.mk
include tests/system/local.mk
include tests/twins/local.mk
include tests/unit/chat/local.mk
include tests/unit/checkpoint/local.mk
include tests/unit/cmd/local.mk
include tests/unit/comm/local.mk
include tests/unit/config/local.mk
include tests/unit/core/local.mk
include tests/unit/data/local.mk
include tests/unit/device/local.mk
include tests/unit/kernels/local.mk
include tests/unit/embed/local.mk
include tests/unit/lower/local.mk
include tests/unit/model/local.mk
include tests/unit/offload/local.mk
include tests/unit/optimizer/local.mk
include tests/unit/plugins/local.mk
include tests/unit/pretrained/local.mk
include tests/unit/program/local.mk
include tests/unit/stages/local.mk
include tests/unit/tokenizer/local.mk
include tests/unit/update/local.mk
