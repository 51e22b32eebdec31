#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# I5, I7: whatever the process that starts zeroth hands down - signals that are ignored or blocked, closed files, pipes that
# nobody reads, limits of resources - each command does what it does without, or ends within seconds and says why.
. "$ZR_SRCDIR/tests/lib/tap.sh" || exit 99
. "$ZR_SRCDIR/tests/lib/fixture.sh" || exit 99
memory_scratch
cd "$scratch" || exit 99
env --ignore-signal=CHLD --block-signal=CHLD true 2> /dev/null || skip_all 'env(1) cannot ignore signals'

tiny text 1 16 2 <<INI
[device]
threads = 1
INI
text=$PWD/text ini=$PWD/tiny.ini
"$ZEROTH" train "$ini" -o run.dir=model > model.out || exit 99
model=$PWD/model
digest=$(tail -n 1 model.out)

# Each command, and what it prints that is the same each time. [train] is with 1, 2 and 16 ranks.
commands=('train' 'train -n 2' 'train -n 16' 'plugin check scheduler/constant' 'doctor' "sample $model -n 8 -t 0" "eval $model" "watch $model")
command_line() { # $1 as the array `words`
	words=($1)
	[ "${words[0]}" != train ] || words+=("$ini" -o run.dir=run)
}
# ended COMMAND [PREFIX]...: runs it for at most a minute. Its exit code and what of its output is the same each time.
ended() {
	local code words
	command_line "$1"
	rm -rf run
	timeout -s KILL 60 "${@:2}" "$ZEROTH" "${words[@]}" > out 2> err < /dev/null
	code=$?
	case $1 in
	train*) tail -n 1 out ;;
	doctor) tail -n 1 out ;;
	watch*) sed 's/ [0-9.]* [^ ]*tok.s.*//; s/[0-9.]* *s ago//' out | head -n 1 ;;
	*) cat out ;;
	esac
	echo "exit $code"
}

# ---- signals ---------------------------------------------------------------------
declare -A plain
for command in "${commands[@]}"; do plain[$command]=$(ended "$command"); done
is 'a training ends with its digest' "${plain[train]}" "$digest"$'\n''exit 0'
is 'with 16 ranks as well' "${plain[train -n 16]}" "$digest"$'\n''exit 0'

inherited() { # NAME OPTION: of env
	local command
	for command in "${commands[@]}"; do
		is "$1: $command" "$(ended "$command" env "$2")" "${plain[$command]}"
	done
}
beside inherited 'SIGCHLD ignored' --ignore-signal=CHLD
beside inherited 'SIGALRM and SIGUSR1 ignored' --ignore-signal=ALRM,USR1
beside inherited 'signals that ask for an end ignored' --ignore-signal=INT,TERM,HUP,QUIT,PIPE,USR2
beside inherited 'faults ignored' --ignore-signal=SEGV,BUS,FPE,ILL,ABRT
beside inherited 'all signals blocked' --block-signal

# A signal that was blocked asks for an end all the same; one that was ignored does not, as in other programs.
build hold
asked() { # NAME SIGNAL WANTED RANKS OPTION...: exit code of a training that gets the signal in its step 3
	rm -rf run go held.*
	HOLD=step3 HOLD_DIR=$PWD setsid env --default-signal=INT,HUP "${@:5}" "$ZEROTH" train $4 "$ini" \
		-o data.plugin="$scratch/hold.so" -o train.steps=6 -o run.dir=run > out 2> err &
	local run=$!
	until [ -e held.0 ] || ! kill -0 $run 2> /dev/null; do sleep 0.02; done
	kill -"$2" $run
	touch go
	timeout 60 tail --pid=$run -s 0.02 -f /dev/null || kill -9 -$run
	wait $run
	is "$1, ${4:-alone}: SIG$2 gives exit $3" "$?" "$3"
}
asked_all() { # RANKS
	asked 'blocked' TERM 130 "$1" --block-signal=TERM,INT,HUP,CHLD
	asked 'nothing arranged' INT 130 "$1"
	local sig
	for sig in INT TERM HUP; do asked 'ignored' $sig 0 "$1" --ignore-signal=$sig; done
}
beside asked_all ''
beside asked_all '-n 2'

# ---- closed files ----------------------------------------------------------------
closed() { # NUMBERS: standard files that are closed
	local command words redirect= fd
	for ((fd = 0; fd < ${#1}; fd++)); do redirect+=" ${1:fd:1}>&-"; done
	for command in train 'train -n 2' 'plugin check scheduler/constant' doctor "eval $model" "watch $model"; do
		command_line "$command"
		rm -rf run out err
		eval "timeout -s KILL 60 \"\$ZEROTH\" \"\${words[@]}\" < /dev/null > out 2> err $redirect"
		code=$?
		case $1 in
		*1*) is "closed $1: $command: exit 4" "$code" 4 ;;
		*) is "closed $1: $command: exit 0" "$code" 0 ;;
		esac
		case $1 in
		1 | 01) is "closed $1: $command: says so" "$(tail -n 1 err | sed 's/rank 0 failed with code 4: //')" \
			'zeroth: standard output: Bad file descriptor' ;;
		esac
		case $command in
		train*) is "closed $1: $command: the weights are whole" "$(weights run)" "$(weights "$model")" ;;
		esac
	done
}
weights() { tail -c +9 "$1/model.safetensors" | sha256sum; }
for numbers in 0 1 2 01 02 12 012; do beside closed $numbers; done

done_testing
