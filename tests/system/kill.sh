#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# I6: kill -9 at random moments of a training that saves after every step, by turns synchronously and not, with one rank
# and with two. Whatever bears the name of a checkpoint is whole each time, there is always one to go on from, and in the
# end the digest is that of a training that was never killed. `make check` kills 6 times, MATRIX=full 200.
. "$ZR_SRCDIR/tests/lib/tap.sh" || exit 99

for i in $(seq 1 4000); do echo "line $i of a text that is long enough to learn a little from"; done > "$scratch/text"
run=$scratch/run
RANDOM=4711 # which moments these are still depends on the machine

# train RUN OPTION...
train() {
	local dir=$1
	shift
	exec "$ZEROTH" train "$ZR_SRCDIR/tests/lib/matrix.ini" -o data.path="$scratch/text" -o run.dir="$dir" -o run.log_every=1 \
		-o train.train_batch_size=2 -o train.eval_every=0 "$@"
}

# The last step that is saved.
saved() { sed 's/^step-0*//' "$run/checkpoints/latest" 2>/dev/null || echo 0; }

kills=6
[ "$MATRIX" != full ] || kills=200
torn=0 lost=0 back=0 stuck=0 last=0 left=0
for i in $(seq $kills); do
	async=$([ $((i % 2)) = 0 ] && echo yes || echo no)
	: > "$scratch/out" # what the last one said is not what this one says
	(train "$run" -n $((i / 2 % 2 + 1)) --resume auto -o train.steps=1000000 -o checkpoint.every=1 -o checkpoint.async=$async \
		-o zero.plugin=stage2) > "$scratch/out" 2> "$scratch/err" &
	pid=$!
	await $pid grep -q '^step ' "$scratch/out"
	grep -q '^step ' "$scratch/out" || { stuck=$((stuck + 1)); note "$(cat "$scratch/err")"; }
	sleep "0.$((RANDOM % 4))$((RANDOM % 10))$((RANDOM % 10))"
	ranks=$(children $pid)
	kill -KILL $pid $ranks 2>/dev/null
	wait $pid 2>/dev/null
	while [ -n "$(running $ranks)" ]; do sleep 0.01; done # they hold the lock of the run directory until then
	[ -n "$(find "$run/checkpoints" -name '*.tmp' 2>/dev/null)" ] && left=$((left + 1))
	[ -n "$(find "$run/checkpoints" -name 'step-????????' 2>/dev/null)" ] || { [ "$last" = 0 ] || lost=$((lost + 1)); continue; }
	"$ZEROTH" checkpoint verify "$run" > "$scratch/verify" 2>&1 || { torn=$((torn + 1)); note "$(cat "$scratch/verify")"; }
	[ "$(saved)" -ge "$last" ] || back=$((back + 1))
	last=$(saved)
done
note "$kills kills, $left of them in a save; step $last is saved"
is "I6: every training went on after a kill" "$stuck" 0
is "I6: no checkpoint was lost" "$lost" 0
is "I6: none was torn" "$torn" 0
is "I6: none went back" "$back" 0

rm -rf "${scratch:?}/other"
end=$((last + 2))
(train "$run" --resume auto -o train.steps=$end -o checkpoint.every=1) > "$scratch/out" 2>&1
got=$(grep "^digest" "$scratch/out")
(train "$scratch/other" -o train.steps=$end) > "$scratch/out" 2>&1
is "I1, I6: the digest is that of a training that was never killed" "$got" "$(grep "^digest" "$scratch/out")"
is "metrics have every step once, in order" "$(sed 's/^{"step":\([0-9]*\),.*/\1/' "$run/metrics.jsonl" | md5sum)" "$(seq $end | md5sum)"
is "what the kills left unfinished is gone" "$(find "$run/checkpoints" -name '*.tmp')" ""
done_testing
