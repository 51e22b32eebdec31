#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# I1 over time: a training that is run again has the same bits, with more threads than processors, whatever the instruction
# set. MATRIX=full runs each 200 times.
. "$ZR_SRCDIR/tests/lib/tap.sh" || exit 99
[ -z "$ZR_SANITIZE" ] || [ "${MATRIX-}" = full ] ||
	skip_all 'same_bits.sh has these runs once: again they would show sanitizers nothing new'

runs=6
[ "${MATRIX-}" != full ] || runs=200
for i in $(seq 1 500); do echo "line $i of a text that is long enough to learn a little from"; done > "$scratch/text"
printf '%s\n' '[model]' 'plugin = gpt2' 'layers = 2' 'heads = 4' 'width = 128' 'context = 64' '[data]' 'plugin = text' \
	"path = $scratch/text" '[train]' 'micro_batch_size = 4' 'steps = 2' 'eval_every = 0' > "$scratch/conf.ini"

# digests N EXTRA...: the digests of N runs, each kind on one line
digests() {
	local n=$1
	shift
	for _ in $(seq "$n"); do
		"$ZEROTH" train "$scratch/conf.ini" -o run.dir="$scratch/run" "$@" 2> "$scratch/err" | grep '^digest: '
		rm -rf "$scratch/run"
	done | sort -u
}

for isa in scalar avx2 avx512 avx512bf16 amx; do
	one=$(digests 1 -o device.isa=$isa -o device.threads=1)
	if [ -z "$one" ] && grep -q 'this machine lacks' "$scratch/err"; then
		skip "I1 $isa: $runs runs with 4 threads" "not on this processor"
		continue
	fi
	like "$isa: trains" "$one" '^digest: '
	is "I1 $isa: $runs runs with 4 threads have the digest of one thread" "$(digests $runs -o device.isa=$isa \
		-o device.threads=4)" "$one"
done
done_testing
