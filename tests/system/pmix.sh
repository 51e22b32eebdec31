#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Ranks of a launcher with PMIx, which need no MPI: the bits of one process (I1), and all end together (I5).
. "$ZR_SRCDIR/tests/lib/tap.sh" || exit 99
. "$ZR_SRCDIR/tests/lib/fixture.sh" || exit 99

[ -e "$ZEROTH_PLUGIN_PATH/boot/pmix.so" ] || skip_all 'this build has no boot/pmix'
mpirun=$(command -v prterun || command -v "${MPIRUN:-mpirun}") || skip_all 'no launcher with PMIx'
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 PRTE_ALLOW_RUN_AS_ROOT=1 PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1
export ASAN_OPTIONS="$ASAN_OPTIONS${ASAN_OPTIONS:+:}detect_leaks=0" # libpmix's own
cd "$scratch" || exit 99
timeout 60 "$mpirun" -n 2 true > why 2>&1 || skip_all "$mpirun starts nothing here: $(head -n 1 why)"

tiny text 1 16 20 <<INI
[device]
threads = 1
[run]
log_every = 1
INI
one_process

# ranks N [OPTION]...: output in out
ranks() {
	rm -rf run
	timeout -s KILL 120 "$mpirun" -n "$1" "$ZEROTH" train tiny.ini -o run.dir=run -o boot.plugin=pmix -o train.eval_every=0 "${@:2}" > out 2>&1
}
for options in 'comm=tcp stage1' 'comm=tcp stage3' 'comm=local stage3'; do
	read -r comm stage <<< "$options"
	ranks 4 -o comm.plugin="${comm#*=}" -o zero.plugin="$stage"
	is "I1: 4 ranks, $options" "$(grep '^digest:' out)" "$one"
done
ranks 1
is 'I1: a rank alone' "$(grep '^digest:' out)" "$one"

ranks 2 -o comm.plugin=tcp -o boot.interface=none
like 'an interface that is not there is refused' "$(cat out)" 'interface none: this machine has none of that name'
like 'no launcher is refused' "$("$ZEROTH" train tiny.ini -o run.dir=never -o boot.plugin=pmix 2>&1)" \
	'^zeroth: .*PMIx does not start .*: start ranks by a launcher that has it'

ranks 4 -o comm.plugin=tcp -o train.steps=1000000 &
launched=$!
await $launched grep -qasE 'step [0-9]+/' out # mpirun lends a terminal
started=$(children "$(children "$(children $launched)")") # of mpirun, of timeout
is 'I5: there are 4 ranks' "$(wc -w <<< "$started")" 4
kill -KILL "$(tail -n 1 <<< "$started")"
wait $launched
code=$?
gone() { [ -z "$(running $started)" ]; }
await $$ gone # mpirun ends before those that it has killed
is 'I5: a rank is killed: all end' "$code $(running $started)" '137 '
done_testing
