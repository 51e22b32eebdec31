#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# I1, I5, I6: a training whose ranks die, hang or stall goes on from its newest checkpoint, with as many ranks or fewer, to the
# digest of one that nothing happened to; what would fail again is not tried again.
. "$ZR_SRCDIR/tests/lib/tap.sh" || exit 99
. "$ZR_SRCDIR/tests/lib/fixture.sh" || exit 99
cd "$scratch" || exit 99

tiny "$scratch/hold.so" 1 12 6 <<INI
[train]
eval_every = 0
[zero]
plugin = stage2
[checkpoint]
every = 2
INI
build hold

# Before each restart is a pause: trainings run beside each other, each in a directory of its own.
# start DIRECTORY WHAT ARGUMENT...
start() {
	mkdir "$1" || exit 99
	(
		cd "$1" || exit 99
		HOLD=$2 HOLD_DIR=$PWD timeout 300 "$ZEROTH" train ../tiny.ini "${@:3}" > out 2> err
		echo $? > code
	) &
}
# ended DIRECTORY: sets $code, $digest, $restarts and $last of that training.
ended() {
	code=$(cat "$1/code")
	digest=$(tail -n 1 "$1/out")
	restarts=$(grep '^zeroth: restart ' "$1/err")
	last=$(tail -n 1 "$1/err")
}
# same DIRECTORY NAME LINE: exit 0, the digest of the undisturbed training, and such a line.
same() {
	ended "$1"
	is "$2: exit 0" "$code" 0
	is "I1: $2: the digest" "$digest" "$wanted"
	like "$2: a line says so" "$restarts" "^zeroth: restart $3\$"
}

# Hangs: as the watchdog notices them, and as the other ranks do. These take longest.
start stall hang3 -o run.dir=r -n 2 --restarts 9 --watchdog 2
start hang hang3 -o run.dir=r -n 2 --restarts 9 -o comm.timeout=2
start other none -o run.dir=r -n 2 -o train.steps=3 -o checkpoint.every=3
other=$!

# While it waits for the next attempt it can be ended.
mkdir ended
(
	cd ended || exit 99
	HOLD=dies0 HOLD_DIR=$PWD exec "$ZEROTH" train ../tiny.ini -o run.dir=r -n 2 --restarts 100 > out 2> err
) &
ended=$!
await $ended grep -q '^zeroth: restart 1 ' ended/err
kill -TERM $ended
timeout 60 tail --pid=$ended -s 0.02 -f /dev/null || kill -KILL $ended
wait $ended
is "a signal between two attempts: exit 130" "$?" 130

auto=(-o train.train_batch_size=auto -o train.gradient_accumulation_steps=2)
start first die0 -n 4 --restarts 1
start repeated dies3 -o run.dir=r -n 2 --restarts 2
start fewer die5 -o run.dir=r -n 4 --restarts 3 --min-ranks 2
wait $other
start onward die3 -o run.dir=r -n 4 --restarts 1 --resume ../other/r
start death die5 -o run.dir=r -n 4 --restarts 3
wait -n
start early die1 -o run.dir=r -n 4 --restarts 1
wait -n
start one die3 -o run.dir=r -o checkpoint.every=1 -o checkpoint.async=yes -o zero.plugin=stage3 --restarts 1
wait -n
start batch die5 -o run.dir=r -n 4 --restarts 1 --min-ranks 1 "${auto[@]}"
wait -n
start plain none -o run.dir=r -n 4
wait -n
start once die5 -o run.dir=r -n 4
wait -n
start plain8 none -o run.dir=r -n 4 "${auto[@]}"
wait -n
start refused fail1 -o run.dir=r -n 2 --restarts 3
wait -n
start high high -o run.dir=r -n 2 --restarts 3
wait -n
start wrong none -o run.dir=r -n 2 --restarts 3 -o model.heads=3
wait -n
start infinite none -o run.dir=r --restarts 3 -o optimizer.plugin=sgd -o optimizer.lr=1e30 -o scheduler.plugin=constant \
	-o train.gradient_clipping=0
wait

ended plain
wanted=$digest
like "an undisturbed training" "$wanted" '^digest: '
is "has no restart" "$code $restarts" "0 "

killed='rank 3 was killed by SIGKILL \(Killed\)'
same death "the death of a rank" "1 of 3: $killed; goes on from step 4 with 4 ranks in 1 s"
is "the death of a rank: one restart" "$(wc -l <<<"$restarts")" 1
is "the death of a rank: metrics have every step once" "$(sed 's/^{"step":\([0-9]*\),.*/\1/' death/r/metrics.jsonl | tr '\n' ' ')" '1 2 3 4 5 6 '
same fewer "fewer ranks" "1 of 3: $killed; goes on from step 4 with 3 ranks in 1 s"
same early "before the first checkpoint" "1 of 1: $killed; goes on from the beginning with 4 ranks in 1 s"
same first "in the first step, a directory of its own" "1 of 1: $killed; goes on from the beginning with 4 ranks in 2 s"
is "in the first step: one run directory" "$(ls first/runs | wc -l)" 1
same one "one rank" "1 of 1: rank 0 was killed by SIGKILL \(Killed\); goes on from step [23] with 1 rank in 1 s"
same onward "a training that goes on from another one" "1 of 1: $killed; goes on from \.\./other/r with 4 ranks in 2 s"

# The batch is what it was, though it followed from the number of ranks; 3 ranks do not divide 8.
ended plain8
wanted8=$digest
ended batch
is "I1: a batch of 4 ranks with 2: the digest" "$digest" "$wanted8"
like "a batch of 4 ranks with 2" "$restarts" "goes on from step 4 with 2 ranks in 1 s\$"

ended repeated
is "a rank that dies each time: exit 4" "$code" 4
is "a rank that dies each time: two restarts" "$(wc -l <<<"$restarts")" 2
is "a rank that dies each time: the last line" "$last" \
	"zeroth: rank 1 was killed by SIGKILL (Killed); -o run.dir=r --resume auto goes on from step 2"
ended once
is "without --restarts the last line names it" "$code $last" \
	"4 zeroth: rank 3 was killed by SIGKILL (Killed); -o run.dir=r --resume auto goes on from step 4, --restarts N does so by itself"

# What a rank says itself is not tried again.
ended refused
is "a refusal: exit 2" "$code" 2
is "a refusal is not tried again" "$restarts" ""
ended high
is "I7: a token that the model does not have: exit 2" "$code $restarts" "2 "
like "I7: a token that the model does not have" "$last" \
	'\[data\] hold: token 1 of slot [0-9]+ has start 0, position 1, token 1073741824, target [0-9]+ of [0-9]+ and weight 1, which'
ended wrong
is "a wrong configuration is not tried again" "$code $restarts" "2 "
ended infinite
is "non-finite numbers are not tried again" "$code $restarts" "5 "

same hang "a hang" '[0-9] of 9: rank 0 failed with code 4: .*timeout: .*; goes on from step 2 with 2 ranks in 1 s'
same stall "a stall" '[0-9] of 9: no rank got on for 2 s: their stacks are above; goes on from step 2 with 2 ranks in 1 s'
for rank in 0 1; do
	like "a stall: the stack of rank $rank" "$(cat stall/err)" "^rank $rank: zeroth: thread [0-9]+ is at\$"
done
like "a stall: where the one is that stalls" "$(cat stall/err)" '^rank 1: .*hold\.so'

# What a rank printed and nobody could take is no death.
if [ -w /dev/full ]; then
	mkdir full
	(cd full && HOLD=none HOLD_DIR=$PWD timeout 60 "$ZEROTH" train ../tiny.ini -o run.dir=r -n 2 --restarts 2 > /dev/full 2> err)
	is "a full disk behind standard output: exit 4" "$?" 4
	is "a full disk behind standard output: the last line" "$(tail -n 1 full/err)" "zeroth: rank 0 failed with code 4: standard output: No space left on device"
	is "a full disk behind standard output is not tried again" "$(grep -c 'zeroth: restart' full/err)" 0
else
	skip "a full disk behind standard output" 'no /dev/full'
fi

is "--min-ranks needs --restarts" "$("$ZEROTH" train -n 2 --min-ranks 1 tiny.ini 2>&1)" "zeroth train: --min-ranks 1: is for --restarts"
is "--min-ranks is no more than -n" "$("$ZEROTH" train -n 2 --restarts 1 --min-ranks 3 tiny.ini 2>&1)" \
	"zeroth train: --min-ranks 3: expected a number of ranks in [1, 2]"
like "--restarts is a number" "$("$ZEROTH" train --restarts x tiny.ini 2>&1)" 'zeroth train: --restarts x: expected a number of restarts, 1 or more'
like "--watchdog is a number" "$("$ZEROTH" train --watchdog 0 tiny.ini 2>&1)" 'zeroth train: --watchdog 0: expected a number of seconds, more than 0'
done_testing
