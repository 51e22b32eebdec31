#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# I1, I5, I6: a training whose ranks die, hang or stall goes on from its newest checkpoint, with as many ranks or fewer, to the
# digest of one that nothing happened to; what would fail again is not tried again.
. "$ZR_SRCDIR/tests/lib/tap.sh" || exit 99
. "$ZR_SRCDIR/tests/lib/rig.sh" || exit 99
cd "$scratch" || exit 99

tiny ./hold.so 1 12 6 <<INI
[train]
eval_every = 0
[zero]
plugin = stage2
[checkpoint]
every = 2
INI
build hold
export HOLD_DIR=$scratch

# train WHAT ARGUMENT...: sets $code, $digest and $restarts, the lines that say of one.
train() {
	rm -rf r done
	HOLD=$1 timeout 300 "$ZEROTH" train tiny.ini "${@:2}" > out 2> err
	code=$?
	digest=$(tail -n 1 out)
	restarts=$(grep '^zeroth: restart ' err)
}
# same NAME LINE: exit 0, the digest of the undisturbed training, and such a line.
same() {
	is "$1: exit 0" "$code" 0
	is "I1: $1: the digest" "$digest" "$wanted"
	like "$1: a line says so" "$restarts" "^zeroth: restart $2\$"
}
train none -o run.dir=r -n 4
wanted=$digest
like "an undisturbed training" "$wanted" '^digest: '
is "has no restart" "$code $restarts" "0 "

killed='rank 3 was killed by SIGKILL \(Killed\)'
train die5 -o run.dir=r -n 4 --restarts 3
same "the death of a rank" "1 of 3: $killed; goes on from step 4 with 4 ranks in 1 s"
is "the death of a rank: one restart" "$(wc -l <<<"$restarts")" 1
is "the death of a rank: metrics have every step once" "$(sed 's/^{"step":\([0-9]*\),.*/\1/' r/metrics.jsonl | tr '\n' ' ')" '1 2 3 4 5 6 '
train die5 -o run.dir=r -n 4 --restarts 3 --min-ranks 2
same "fewer ranks" "1 of 3: $killed; goes on from step 4 with 3 ranks in 1 s"
train die1 -o run.dir=r -n 4 --restarts 1
same "before the first checkpoint" "1 of 1: $killed; goes on from the beginning with 4 ranks in 1 s"
train die0 -n 4 --restarts 1
same "in the first step, a directory of its own" "1 of 1: $killed; goes on from the beginning with 4 ranks in 2 s"
is "in the first step: one run directory" "$(ls runs | wc -l)" 1
train die3 -o run.dir=r -o checkpoint.every=1 -o checkpoint.async=yes -o zero.plugin=stage3 --restarts 1
same "one rank" "1 of 1: rank 0 was killed by SIGKILL \(Killed\); goes on from step [23] with 1 rank in 1 s"
train none -o run.dir=other -n 2 -o train.steps=3 -o checkpoint.every=3
train die3 -o run.dir=r -n 4 --restarts 1 --resume other
same "a training that goes on from another one" "1 of 1: $killed; goes on from other with 4 ranks in 2 s"

# The batch is what it was, though it followed from the number of ranks; 3 ranks do not divide 8.
train none -o run.dir=r -n 4 -o train.train_batch_size=auto -o train.gradient_accumulation_steps=2
wanted8=$digest
train die5 -o run.dir=r -n 4 --restarts 1 --min-ranks 1 -o train.train_batch_size=auto -o train.gradient_accumulation_steps=2
is "I1: a batch of 4 ranks with 2: the digest" "$digest" "$wanted8"
like "a batch of 4 ranks with 2" "$restarts" "goes on from step 4 with 2 ranks in 1 s\$"

train dies3 -o run.dir=r -n 2 --restarts 2
is "a rank that dies each time: exit 4" "$code" 4
is "a rank that dies each time: two restarts" "$(wc -l <<<"$restarts")" 2
is "a rank that dies each time: the last line" "$(tail -n 1 err)" "zeroth: rank 1 was killed by SIGKILL (Killed)"

# What a rank says itself is not tried again.
train fail1 -o run.dir=r -n 2 --restarts 3
is "a refusal: exit 2" "$code" 2
is "a refusal is not tried again" "$restarts" ""
train none -o run.dir=r -n 2 --restarts 3 -o model.heads=3
is "a wrong configuration is not tried again" "$code $restarts" "2 "
train none -o run.dir=r --restarts 3 -o optimizer.plugin=sgd -o optimizer.lr=1e30 -o scheduler.plugin=constant \
	-o train.gradient_clipping=0
is "non-finite numbers are not tried again" "$code $restarts" "5 "

# Hangs: as the other ranks notice them, and as the watchdog does.
train hang3 -o run.dir=r -n 2 --restarts 1 -o comm.timeout=2
same "a hang" '1 of 1: rank 0 failed with code 4: .*timeout: .*; goes on from step 2 with 2 ranks in 1 s'
train hang3 -o run.dir=r -n 2 --restarts 9 --watchdog 6
same "a stall" '[0-9] of 9: no rank got on for 6 s: their stacks are above; goes on from step 2 with 2 ranks in 1 s'
for rank in 0 1; do
	like "a stall: the stack of rank $rank" "$(cat err)" "^rank $rank: zeroth: thread [0-9]+ is at\$"
done
like "a stall: where the one is that stalls" "$(cat err)" '^rank 1: .*hold\.so'

# While it waits for the next attempt, or trains, it can be ended.
rm -rf r done
HOLD=dies0 "$ZEROTH" train tiny.ini -o run.dir=r -n 2 --restarts 100 > out 2> err &
pid=$!
until grep -q '^zeroth: restart 3 ' err || ! kill -0 $pid; do sleep 0.02; done 2>/dev/null
kill -TERM $pid
timeout 60 tail --pid=$pid -s 0.02 -f /dev/null || kill -KILL $pid
wait $pid
is "a signal between two attempts: exit 130" "$?" 130

is "--min-ranks needs --restarts" "$("$ZEROTH" train -n 2 --min-ranks 1 tiny.ini 2>&1)" "zeroth train: --min-ranks 1: is for --restarts"
is "--min-ranks is no more than -n" "$("$ZEROTH" train -n 2 --restarts 1 --min-ranks 3 tiny.ini 2>&1)" \
	"zeroth train: --min-ranks 3: expected a number of ranks in [1, 2]"
like "--restarts is a number" "$("$ZEROTH" train --restarts x tiny.ini 2>&1)" 'zeroth train: --restarts x: expected a number of restarts, 1 or more'
like "--watchdog is a number" "$("$ZEROTH" train --watchdog 0 tiny.ini 2>&1)" 'zeroth train: --watchdog 0: expected a number of seconds, more than 0'
done_testing
