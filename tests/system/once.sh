#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Which tests ./setup check leaves out as they are, because they ran whole under sanitizers: tests/ran_whole.
. "$ZR_SRCDIR/tests/lib/tap.sh" || exit 99
of_texts

sources=$scratch/sources ran=$scratch/ran
# test_of NAME RESULT...: a program, or a script where it ends by .sh, whose checks gave these results
test_of() {
	local results=$ran/${1%.sh}.trs
	mkdir -p "$sources/${1%/*}" "$ran/${1%/*}"
	[[ $1 != *.sh ]] || echo "$text" > "$sources/$1"
	printf ':test-result: %s one check\n' "${@:2}" > "$results"
}
left_out() { bash "$ZR_SRCDIR/tests/ran_whole" "$sources" "$ran"; }

text='echo 1..2'
test_of tests/unit/model/t_passed PASS PASS
test_of tests/system/passed.sh PASS PASS
is 'what passed whole is left out' "$(left_out)" $'tests/system/passed.sh\ntests/unit/model/t_passed'
rm -r "$ran"

for result in SKIP FAIL ERROR XFAIL XPASS; do
	test_of tests/system/other.sh PASS $result PASS
	is "$result: the script runs again" "$(left_out)" ''
done
for text in '[ -n "$ZR_SANITIZE" ] || exit' 'one_in 3 || return' 'product | pairwise'; do
	test_of tests/system/fewer.sh PASS
	is "a script that does less under sanitizers runs again: $text" "$(left_out)" ''
done
rm -r "$ran"
test_of tests/unit/kernels/t_kernels PASS
test_of tests/unit/device/t_device PASS
is 'results of kernels are those of a build: they run again' "$(left_out)" ''
is 'nothing ran elsewhere: nothing is left out' "$(bash "$ZR_SRCDIR/tests/ran_whole" "$sources" "$scratch/none" 2>/dev/null)" ''
done_testing
