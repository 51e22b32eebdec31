#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# I5, I6: a training that is asked to end does so after its step, with a checkpoint, whoever asks and however often at once:
# a process group's signal, timeout, Ctrl-C, a hangup, a pipe that is closed. ZR_SIGNALS: how many at random moments (4).
. "$ZR_SRCDIR/tests/lib/tap.sh" || exit 99
. "$ZR_SRCDIR/tests/lib/fixture.sh" || exit 99
cd "$scratch" || exit 99
command -v setsid >/dev/null || skip_all 'no setsid(1)'

tiny "$scratch/hold.so" 2 4 1000000 <<INI
[train]
eval_every = 2
eval_batches = 2
[checkpoint]
on_signal = yes
INI
build hold

# start WHERE COMMAND...: in the background, in a session of its own; waits until every rank stops at
# WHERE: one that has not begun the step yet would tell the others of a signal in this step already.
# Sets $run. A shell ignores SIGINT in the background, nohup SIGHUP, and a training would, too.
start() {
	local signs=(-e held.0)
	case "$*" in *"-n 2"*) signs+=(-a -e held.1) ;; esac
	rm -rf r go held.* out
	HOLD=$1 HOLD_DIR=$PWD setsid env --default-signal=HUP,INT "${@:2}" > out 2> err &
	run=$!
	await $run test "${signs[@]}"
}
train() { # WHERE [ARGUMENT]...: a training
	start "$1" "$ZEROTH" train "$scratch/tiny.ini" -o run.dir=r -o run.log_every=1 "${@:2}"
}
# Waits for the end, kills what hangs; sets $code.
finish() {
	timeout 120 tail --pid=$run -s 0.02 -f /dev/null || kill -9 -$run
	wait $run 2>/dev/null
	code=$?
}
# What a training leaves that was asked to end in its step $2; ranks agree on it in the step that follows.
ended() {
	local step=$2
	[ "$1" = "${1#*-n 2}" ] || step=$((step + 1))
	finish
	is "$1: exit 130" "$code" 130
	like "$1: the last line is the digest" "$(tail -n 1 out)" '^digest: '
	is "$1: the step is saved" "$(cat r/checkpoints/latest 2>&1)" "step-$(printf %08d $step)"
}

# A second signal after the moment ends all at once, though the step never ends.
later_second() {
	local name=${1:-alone} ranks_of
	train step3 $1
	ranks_of=$(children $run)
	# A slow machine may take the first one late: another follows then.
	for _ in 1 2 3 4; do
		kill -TERM -$run 2> /dev/null
		timeout 2.5 tail --pid=$run -s 0.02 -f /dev/null && break
	done
	finish
	ok "a later second signal ends at once, $name: exit $code" test "$code" = 143 -o "$code" = 130
	is "a later second signal, $name: nobody is left" "$(running $ranks_of)" ""
	ok "a later second signal, $name: no summary" test ! -e r/summary.json
}

beside later_second
beside later_second '-n 2'
for ranks in '' '-n 2'; do
	name=${ranks:-alone}
	for sig in TERM INT HUP; do
		train step3 $ranks
		kill -$sig -$run
		kill -$sig $run
		kill -$sig -$run
		touch go
		ended "I6: SIG$sig three times in a moment, $name" 4
	done
	train eval2 $ranks
	kill -TERM -$run
	kill -HUP -$run
	touch go
	ended "I6: SIGTERM and SIGHUP in an evaluation, $name" 2

	train create $ranks
	kill -TERM -$run
	finish
	is "a signal before the first step, $name: exit 130" "$code" 130
	is "a signal before the first step, $name: one line" "$(sed 's/^rank 0: //' err)" \
		"zeroth: SIGTERM before the first step: nothing is saved"
	ok "a signal before the first step, $name: no run directory is left" test ! -e r

	if command -v nohup >/dev/null; then
		start step3 nohup "$ZEROTH" train tiny.ini -o run.dir=r -o train.steps=5 $ranks
		kill -HUP -$run
		touch go
		finish
		is "a hangup under nohup is none, $name: exit 0" "$code" 0
	else
		skip "a hangup under nohup is none, $name" 'no nohup(1)'
	fi

	rm -rf r
	"$ZEROTH" train tiny.ini -o run.dir=r -o run.log_every=1 $ranks 2> err | head -n 12 > out
	is "I6: a pipe that is closed, $name: exit 130" "${PIPESTATUS[0]}" 130
	like "a pipe that is closed, $name: says so" "$(cat err)" 'nobody reads standard output any more: the run ends after step [0-9]+$'
	is "a pipe that is closed, $name: nothing else" "$(grep -vc "checkpoint: step .* saved" err)" 1
	like "I6: a pipe that is closed, $name: the step is saved" "$(cat r/checkpoints/latest 2>&1)" '^step-'
	ok "I6: a pipe that is closed, $name: the weights are there" test -f r/model.safetensors
done

# Only the supervisor is told, as by a batch system that knows no other process; then its group.
train step3 -n 2
sleeps() { sed -n 's/^voluntary_ctxt_switches:[[:space:]]*//p' /proc/$run/status; }
before=$(sleeps)
kill -TERM $run
# it sleeps again once it has told the ranks
slept() { [ "$(sleeps)" -gt "$before" ]; }
await $run slept
touch go
ended "I6: SIGTERM to the supervisor alone, -n 2" 4

# And one rank alone.
train step3 -n 2
kill -TERM "$(children $run | tail -n 1)"
touch go
ended "I6: SIGTERM to one rank, -n 2" 4
train create -n 2
kill -TERM "$(children $run | tail -n 1)"
finish
is "a signal to one rank before the first step: exit 130" "$code" 130
ok "a signal to one rank before the first step: no run directory is left" test ! -e r
HOLD_MORTAL=1 train create -n 2
kill -TERM "$(children $run | tail -n 1)"
finish
is "a signal to a rank that cannot take it yet: exit 130" "$code" 130

# timeout(1) sends what it gets to its child and to the group, perhaps a few steps later.
start step3 timeout 1000 "$ZEROTH" train -n 2 tiny.ini -o run.dir=r -o run.log_every=1
kill -TERM $run
touch go
finish
like "I6: timeout(1): the last line is the digest" "$(tail -n 1 out)" '^digest: '
last=$(grep -oE '^step [0-9]+' out | tail -n 1)
is "I6: timeout(1): the step is saved" "$(cat r/checkpoints/latest 2>&1)" \
	"step-$(printf %08d "${last#step }")"

# At random moments of trainings that save after every step.
bad=
for i in $(seq "${ZR_SIGNALS:-4}"); do
	rm -rf r go held.* out
	HOLD=none setsid "$ZEROTH" train tiny.ini -o run.dir=r -o run.log_every=1 -o checkpoint.every=1 \
		-o checkpoint.async=$([ $((i / 2 % 2)) = 0 ] && echo yes || echo no) $([ $((i % 2)) = 1 ] || echo --ranks 2) > out 2> err &
	run=$!
	await $run grep -q '^step 2/' out
	sleep 0.0$((RANDOM % 100))
	kill -TERM -$run
	kill -TERM -$run
	touch go
	finish
	steps=$(sed -n 's/^interrupted after \([0-9]*\) steps.*/\1/p' out)
	[ "$code" = 130 ] && [ -n "$steps" ] && [ "$(cat r/checkpoints/latest)" = "step-$(printf %08d "$steps")" ] ||
		bad+="$i: exit $code after $steps: $(cat r/checkpoints/latest err 2>&1)"$'\n'
done
is "I6: at random moments" "$bad" ""
done_testing
