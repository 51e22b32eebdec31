/* SPDX-License-Identifier: Apache-2.0
 *
 * tests.c - the tests of `zeroth plugin check`, in the order in which they run.
 */
#include "cmd/check/check.h"

const struct zr_test zr_tests[] = {
	{ "symbols", NULL, zr_test_symbols, "exports the entry and nothing else", 1 },
	{ "sections", NULL, zr_test_sections, "no executable stack, no text relocations", 1 },
	{ "runpath", NULL, zr_test_runpath, "finds its libraries where only the system writes", 1 },
	{ "imports", NULL, zr_test_imports, "calls nothing that prints or ends the process", 1 },
	{ "load", NULL, zr_test_load, "loading it changes and prints nothing", 0 },
	{ "descriptor", NULL, zr_test_descriptor, "names, interfaces and functions", 0 },
	{ "options", NULL, zr_test_options, "the table of options, and their defaults", 0 },
	{ "boundaries", NULL, zr_test_boundaries, "resolve and check take any value in range", 0 },
	{ "alone", NULL, zr_test_alone, "create bears a host that offers nothing", 0 },
	{ "lifecycle", NULL, zr_test_lifecycle, "instances come and go and leave nothing", 0 },
	{ "no_memory", NULL, zr_test_no_memory, "create fails whole at each allocation", 0 },
	{ "hosts", NULL, zr_test_hosts, "hosts with shorter and longer structs", 0 },
	{ "states", "optimizer", zr_test_states, "caps and the table of states", 0 },
	{ "step", "optimizer", zr_test_step, "keeps to its buffers, and its lr acts", 0 },
	{ "multiplier", "optimizer", zr_test_multiplier, "gradients are times grad_mult", 0 },
	{ "padding", "optimizer", zr_test_padding, "nothing behind a segment changes", 0 },
	{ "rounding", "optimizer", zr_test_rounding, "the copy in 16 bits is the master", 0 },
	{ "cut", "optimizer", zr_test_cut, "the same bits in any pieces, in any order", 0 },
	{ "repeat", "optimizer", zr_test_repeat, "the same calls give the same bits", 0 },
	{ "restore", "optimizer", zr_test_restore, "its states are all that it remembers", 0 },
	{ "ranks", "optimizer", zr_test_ranks, "the same bits on another rank", 0 },
	{ "nonfinite", "optimizer", zr_test_nonfinite, "bears gradients that are not finite", 0 },
	{ "shorter", "optimizer", zr_test_shorter, "a host of the minor that it needs", 0 },
	{ "longer", "optimizer", zr_test_longer, "a host of a later minor", 0 },
	{ "schedule", "scheduler", zr_test_schedule, "finite, and a function of the step", 0 },
	{ "points", "scheduler", zr_test_schedule_sizes, "points of other hosts", 0 },
	{ "scale", "precision", zr_test_precision, "types, and a scale that resumes", 0 },
	{ "choices", "activation", zr_test_activation, "a valid choice for each layer", 0 },
	{ "metrics", "monitor", zr_test_monitor, "takes the metrics of 30 steps", 0 },
	{ "resume", "monitor", zr_test_monitor_resume, "goes on in its files", 0 },
	{ 0 },
};
