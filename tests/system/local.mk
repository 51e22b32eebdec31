# SPDX-License-Identifier: Apache-2.0
#
# The program zeroth as people meet it, and the tree itself: a script each.
# Those that take longest begin first, so that none of them is alone at the end.
system_tests = %D%/plugin_check.sh %D%/outoftree.sh %D%/swaps.sh %D%/limits.sh %D%/parity.sh %D%/launch.sh \
	%D%/plugin_new.sh %D%/offload.sh %D%/once.sh %D%/plugin_faults.sh %D%/tutorial.sh \
	%D%/abi.sh %D%/across.sh %D%/add_tokens.sh %D%/adapter.sh %D%/answers.sh %D%/bases.sh %D%/bench.sh %D%/cases.sh %D%/chat.sh %D%/chat_data.sh %D%/chat_look.sh %D%/clock.sh %D%/checkpoint.sh %D%/checkpoint_export.sh %D%/checkpoint_import.sh %D%/codec.sh %D%/cluster.sh %D%/commands.sh %D%/completion.sh %D%/contract.sh %D%/counted.sh %D%/datasets.sh %D%/differ.sh %D%/doctor.sh \
	%D%/documents.sh %D%/drift.sh %D%/durable.sh %D%/embed.sh %D%/errors.sh %D%/eval.sh %D%/families.sh %D%/faults.sh %D%/fit.sh %D%/forecast.sh %D%/format.sh %D%/fp8.sh %D%/freeze.sh %D%/gguf.sh %D%/groups.sh \
	%D%/gpu.sh %D%/graphs.sh %D%/headers.sh %D%/homes.sh %D%/hosts.sh %D%/import.sh %D%/joint.sh %D%/kill.sh %D%/late.sh %D%/layering.sh %D%/ledger.sh %D%/marks.sh \
	%D%/links.sh %D%/llama.sh %D%/loader.sh %D%/matrix.sh %D%/meeting.sh %D%/merge.sh %D%/mixes.sh %D%/moe.sh %D%/mix.sh %D%/moments8.sh %D%/monitors.sh %D%/moved.sh \
	%D%/mpi.sh %D%/many_ranks.sh %D%/nccl.sh %D%/near.sh \
	%D%/netns.sh %D%/nonfinite.sh %D%/notfiles.sh %D%/onward.sh %D%/optimizers.sh \
	%D%/packages.sh %D%/packed.sh %D%/parts.sh %D%/persistent.sh %D%/pinned.sh %D%/pmix.sh %D%/precision.sh %D%/prefix.sh %D%/pretrained.sh %D%/published.sh %D%/qk_clip.sh %D%/ranges.sh %D%/ranks.sh \
	%D%/readme.sh %D%/rendezvous.sh %D%/repeat.sh %D%/restart.sh %D%/resaved.sh %D%/resume.sh %D%/rounding.sh %D%/run.sh \
	%D%/same_bits.sh %D%/sample.sh %D%/scalars.sh %D%/security.sh %D%/shuffled.sh %D%/signals.sh %D%/slices.sh %D%/soak.sh %D%/split24.sh %D%/store.sh %D%/sum_group.sh %D%/sums.sh %D%/tcp.sh %D%/texture.sh \
	%D%/timing.sh %D%/token_documents.sh %D%/tokenize.sh %D%/tokenizer_rules.sh %D%/torch.sh %D%/update.sh %D%/watched.sh %D%/ways.sh %D%/writers.sh %D%/report.sh %D%/gallery.sh
TESTS += $(system_tests)
EXTRA_DIST += $(system_tests) ABI.md tests/examples/signsgd.c \
	tests/examples/embed_run.c tests/examples/embed_train.c tests/examples/inside.c tests/examples/lion.cc tests/examples/modules.py tests/examples/places.py tests/examples/t5.py tests/examples/spirals.c tests/examples/spirals.py

# The full products; the tests alone run a pairwise choice.
MATRIX_TESTS = matrix repeat offload update fit resume kill
check-matrix: all
	@$(AM_TESTS_ENVIRONMENT) for t in $(MATRIX_TESTS); do \
		MATRIX=full bash $(srcdir)/%D%/$$t.sh; done | $(fails_with_a_test)
fails_with_a_test = awk '{ print } /^not ok/ { bad = 1 } END { exit bad }'

# Trainings in many more random orders: SHUFFLES=N.
check-shuffled: all tests/doubles/shuffled
	@$(AM_TESTS_ENVIRONMENT) bash $(srcdir)/%D%/shuffled.sh

# Trainings that are ended again and again; SOAK_CYCLES, SOAK_SEED: see soak.sh.
soak: all
	@$(AM_TESTS_ENVIRONMENT) SOAK_CYCLES="$${SOAK_CYCLES:-1000}" bash $(srcdir)/%D%/soak.sh | \
		$(fails_with_a_test)

# Every call of every case, more than 10000; the test alone tries some of each.
check-faults: all $(check_LTLIBRARIES) $(check_PROGRAMS)
	@$(AM_TESTS_ENVIRONMENT) FAULTS=full bash $(srcdir)/%D%/families.sh %D%/faults.sh | $(fails_with_a_test)
.PHONY: check-matrix check-shuffled soak check-faults
