# SPDX-License-Identifier: Apache-2.0
#
# Tests of core's mechanism.

check_PROGRAMS += tests/t_exact tests/t_pool tests/t_layout tests/t_run
TESTS += tests/t_exact tests/t_pool tests/t_layout tests/t_run tests/run.sh tests/same_bits.sh tests/repeat.sh tests/matrix.sh \
	tests/precision.sh tests/offload.sh tests/update.sh tests/watched.sh tests/pinned.sh tests/ways.sh tests/fit.sh tests/ledger.sh tests/optimizers.sh
EXTRA_DIST += tests/devcomm.c tests/ways.sh tests/watchways.c tests/watchdevice.c tests/wrapped.h tests/watched.sh tests/pinned.sh tests/run.sh tests/precision.sh tests/offload.sh tests/update.sh tests/tiers.sh tests/fit.sh tests/ledger.sh tests/optimizers.sh tests/same_bits.sh tests/repeat.sh tests/matrix.sh tests/pairwise.sh tests/matrix.ini
TESTS += tests/late.sh
EXTRA_DIST += tests/late.sh tests/latedevice.c

# The full products; the tests alone run a pairwise choice.
.PHONY: check-matrix
check-matrix: all
	@$(AM_TESTS_ENVIRONMENT) for t in $(MATRIX_TESTS); do MATRIX=full bash $(srcdir)/tests/$$t.sh; done | \
		awk '{ print } /^not ok/ { bad = 1 } END { exit bad }'
MATRIX_TESTS = matrix repeat offload update fit resume kill

tests_t_exact_SOURCES = tests/t_exact.c
tests_t_exact_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
tests_t_exact_LDADD = core/libcore.la $(CMOCKA_LIBS)

tests_t_pool_SOURCES = tests/t_pool.c
tests_t_pool_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
tests_t_pool_LDADD = core/libcore.la $(CMOCKA_LIBS)

tests_t_layout_SOURCES = tests/t_layout.c
tests_t_layout_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
tests_t_layout_LDADD = core/libcore.la $(CMOCKA_LIBS)

tests_t_run_SOURCES = tests/t_run.c tests/ranks_rig.c tests/ranks_rig.h
tests_t_run_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS)
tests_t_run_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
tests_t_run_LDADD = cmd/librun.la core/libcore.la $(JANSSON_LIBS) $(CMOCKA_LIBS)

# zeroth, with another zr_run: instructions in orders drawn at random.
check_PROGRAMS += tests/shuffled
tests_shuffled_SOURCES = $(zeroth_SOURCES) tests/shuffled_run.c
tests_shuffled_CPPFLAGS = $(zeroth_CPPFLAGS)
tests_shuffled_LDADD = $(zeroth_LDADD)
TESTS += tests/shuffled.sh
EXTRA_DIST += tests/shuffled.sh
.PHONY: check-shuffled
check-shuffled: all tests/shuffled
	@$(AM_TESTS_ENVIRONMENT) bash $(srcdir)/tests/shuffled.sh

# zeroth, with a toy codec in front of what gathers.
check_PROGRAMS += tests/xored
tests_xored_SOURCES = $(zeroth_SOURCES) tests/xor_codec.c
tests_xored_CPPFLAGS = $(zeroth_CPPFLAGS)
tests_xored_LDFLAGS = -Wl,--wrap=zr_low_collective -Wl,--wrap=zr_begin_cast
tests_xored_LDADD = $(zeroth_LDADD)
TESTS += tests/codec.sh
EXTRA_DIST += tests/codec.sh
