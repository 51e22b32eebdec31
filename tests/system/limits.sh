#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# I5, I7: whatever the process that starts zeroth hands down - signals that are ignored or blocked, closed files, pipes that
# nobody reads, limits of resources - each command does what it does without, or ends within seconds and says why.
. "$ZR_SRCDIR/tests/lib/tap.sh" || exit 99
. "$ZR_SRCDIR/tests/lib/fixture.sh" || exit 99
[ -z "$ZR_SANITIZE" ] || skip_all 'a sanitizer needs memory, files and processes of its own'
memory_scratch
chmod 755 "$scratch"
cd "$scratch" || exit 99
env --ignore-signal=CHLD --block-signal=CHLD true 2> /dev/null || skip_all 'env(1) cannot ignore signals'

tiny text 1 16 2 <<INI
[device]
threads = 2
INI
text=$PWD/text ini=$PWD/tiny.ini
"$ZEROTH" train "$ini" -o run.dir=model -o checkpoint.every=1 > model.out || exit 99
model=$PWD/model
digest=$(tail -n 1 model.out)

# Each command, and what it prints that is the same each time. [train] is with 1, 2 and 16 ranks. Who writes a file or a
# directory writes `made`.
trainings=('train' 'train -n 2' 'train -n 16')
gpt2=$ZR_SRCDIR/tests/golden/tokenizers/gpt2.json
others=('plugin check scheduler/constant' 'doctor' "sample $model -n 8 -t 0" "eval $model" "eval -n 2 $model" "watch $model"
	"plan $ini" "config check $ini" "config show $ini" "config diff $ini $model" "data show $ini" "schedule $ini"
	"checkpoint ls $model" "checkpoint verify $model" "checkpoint export $model made" 'checkpoint prune --keep 2 pruned'
	"report --samples 0 -o made $model" "tokenize --tokenizer $gpt2 -o made $text" 'plugin list' 'plugin info scheduler/constant'
	'plugin new --dir made scheduler mine' 'completion bash' 'bench adam -n 1 --seconds 0.02 --rates made')
commands=("${trainings[@]}" "${others[@]}")
command_line() { # $1 as the array `words`
	words=($1)
	case $1 in
	train*) words+=("$ini" -o run.dir=run) ;;
	# it locks the directory, and others read the model at the same time
	*pruned) rm -rf pruned && cp -r "$model" pruned ;;
	esac
}
# What the last command has made: its hash, or nothing.
made() { find made* -type f -exec sha256sum {} + 2> /dev/null | sort; }
# ended COMMAND [PREFIX]...: runs it for at most three minutes. Its exit code, what of its output is the same each time, and what it
# has made.
ended() {
	local code words
	command_line "$1"
	rm -rf run made*
	timeout -s KILL 180 "${@:2}" "$ZEROTH" "${words[@]}" > out 2> err < /dev/null
	code=$?
	case $1 in
	train*) tail -n 1 out ;;
	doctor) tail -n 1 out ;;
	# it trains, or has had no step for some time, by how slow the machine is
	watch*) sed -E 's/(training|no step for .*)$/not over/' out | head -n 1 ;;
	plan*) grep -v available out ;;
	tokenize*) sed 's/, [0-9.]* .B\/s$//' out ;;
	bench*) ;;
	*) cat out ;;
	esac
	[ -z "$(tail -c 1 out)" ] || echo # a line that is cut off
	echo "exit $code"
	case $1 in
	bench*) ls -d made 2> /dev/null ;;
	*) made ;;
	esac
}

# ---- signals ---------------------------------------------------------------------
declare -A plain
checked=("${commands[@]}" 'plugin check optimizer/adamw') # which takes more memory, and is not tried with all
for command in "${checked[@]}"; do plain[$command]=$(ended "$command"); done
is 'each command does without limits what it is for' "$(grep '^exit' <<< "$(printf '%s\n' "${plain[@]}")" | sort | uniq -c | xargs)" \
	"${#commands[@]} exit 0 1 exit 1"
is 'a training ends with its digest' "${plain[train]}" "$digest"$'\n''exit 0'
is 'with 16 ranks as well' "${plain[train -n 16]}" "$digest"$'\n''exit 0'

# some COMMAND...: every second one of them, the others at the next call, into the array `chosen`: each command is tried with some
# of a kind of limits, and each limit with some commands.
calls=0
some() {
	local i
	chosen=()
	for ((i = calls % 2; i < $#; i += 2)); do chosen+=("${@:i+1:1}"); done
	calls=$((calls + 1))
}
inherited() { # NAME OPTION: of env
	local command
	for command in "${chosen[@]}"; do
		is "$1: $command" "$(ended "$command" env "$2")" "${plain[$command]}"
	done
}
some "${commands[@]}"
beside inherited 'SIGCHLD ignored' --ignore-signal=CHLD
some "${commands[@]}"
beside inherited 'SIGALRM and SIGUSR1 ignored' --ignore-signal=ALRM,USR1
some "${commands[@]}"
beside inherited 'signals that ask for an end ignored' --ignore-signal=INT,TERM,HUP,QUIT,PIPE,USR2
some "${commands[@]}"
beside inherited 'faults ignored' --ignore-signal=SEGV,BUS,FPE,ILL,ABRT
some "${commands[@]}"
beside inherited 'all signals blocked' --block-signal

# A signal that was blocked asks for an end all the same; one that was ignored does not, as in other programs.
build hold
asked() { # NAME SIGNAL WANTED RANKS OPTION...: exit code of a training that gets the signal in its step 3
	rm -rf run go held.*
	HOLD=step3 HOLD_DIR=$PWD setsid env --default-signal=INT,HUP "${@:5}" "$ZEROTH" train $4 "$ini" \
		-o data.plugin="$scratch/hold.so" -o train.steps=6 -o run.dir=run > out 2> err &
	local run=$!
	await $run test -e held.0
	kill -"$2" $run
	touch go
	timeout 180 tail --pid=$run -s 0.02 -f /dev/null || kill -9 -$run
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

# A supervisor takes the ends of its children: also of a rank that died and was started again.
children() { # STATE: how many children in that state the training has; all, without STATE
	cat /proc/[0-9]*/status 2> /dev/null |
		awk -v parent="$run" -v state="$1" '/^State:/ { s = $2 }
			/^PPid:/ { n += $2 == parent && (state == "" || s == state) } END { print n + 0 }'
}
no_zombies() {
	rm -rf run go held.*
	HOLD=step3 HOLD_DIR=$PWD "$ZEROTH" train -n 4 --restarts 1 "$ini" -o data.plugin="$scratch/hold.so" \
		-o train.steps=6 -o checkpoint.every=1 -o run.dir=run > out 2> err &
	local run=$! rank
	await $run test -e held.0
	is 'zombies: four ranks are children, and none has ended' "$(children) $(children Z)" '4 0'
	rank=$(cat /proc/[0-9]*/status 2> /dev/null |
		awk -v parent=$run '/^Pid:/ { p = $2 } /^PPid:/ && $2 == parent { last = p } END { print last }')
	rm -f held.*
	kill -9 "$rank"
	await $run test -e held.0
	is 'zombies: nor is one left of ranks that were started again' "$(children) $(children Z)" '4 0'
	touch go
	wait $run
	is 'zombies: that training ends' "$?" 0
}
beside no_zombies

# ---- closed files ----------------------------------------------------------------
closed() { # NUMBERS: standard files that are closed
	local command words redirect= fd
	for ((fd = 0; fd < ${#1}; fd++)); do redirect+=" ${1:fd:1}>&-"; done
	for command in "${chosen[@]}"; do
		command_line "$command"
		rm -rf run made* out err
		eval "timeout -s KILL 180 \"\$ZEROTH\" \"\${words[@]}\" < /dev/null > out 2> err $redirect"
		code=$?
		case $1 in
		*1*) is "closed $1: $command: exit 4" "$code" 4 ;;
		*) is "closed $1: $command: exit as without" "exit $code" "$(grep '^exit' <<< "${plain[$command]}")" ;;
		esac
		case $command in
		bench*) ok "closed $1: $command: what it makes is there, or nobody reads why not" test -s made -o $code = 4 ;;
		*) is "closed $1: $command: what it makes is whole" "$(made)" "$(sed '1,/^exit/d' <<< "${plain[$command]}")" ;;
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
for numbers in 0 1 2 01 02 12 012; do
	some "${commands[@]}"
	beside closed $numbers
done

# ---- pipes that nobody reads -----------------------------------------------------
# unread NAME: opens the pipe NAME, fills it, and keeps it open without reading as file $unread.
unread() {
	mkfifo "$1" && exec {unread}<> "$1" || exit 99
	dd if=/dev/zero bs=4096 oflag=nonblock > "$1" 2> /dev/null
}
# full NAME STDOUT STDERR [ARGUMENT]...: a training there. Sets $code.
full() {
	rm -rf run
	timeout -s KILL 180 "$ZEROTH" train "$ini" -o run.dir=run "${@:4}" > "$2" 2> "$3" < /dev/null
	code=$?
	is "$1: the weights are whole" "$(weights run)" "$(weights "$model")"
}
full_pipes() { # [ARGUMENT]...
	local name="full pipes, ${*:-alone}"
	unread out
	full "$name" out err "$@"
	is "$name, standard output: exit 4" "$code" 4
	is "$name, standard output: says so" "$(tail -n 1 err | sed 's/rank 0 failed with code 4: //')" \
		'zeroth: standard output: nobody reads it, and its last lines are lost'
	rm out err
	mkfifo both && exec {unread}<> both
	dd if=/dev/zero bs=4096 oflag=nonblock > both 2> /dev/null
	full "$name, both" both both "$@"
	is "$name, both: exit 4" "$code" 4
}
for ranks in '' '-n 2' '-n 16'; do beside full_pipes $ranks; done

# The lines that the reader lets pass are missing where they were, and the others are there.
resumed() {
	unread out
	HOLD=step1 HOLD_DIR=$PWD timeout -s KILL 180 "$ZEROTH" train "$ini" -o run.dir=run "$@" -o data.plugin="$scratch/hold.so" > out 2> err &
	local training=$! reader
	await $training test -e held.0
	cat <&$unread > seen &
	reader=$!
	until [ -s seen ]; do sleep 0.02; done
	touch go
	wait $training
	is "a reader that begins late, ${*:-alone}: exit 0" "$?" 0
	await $reader grep -qa '^digest' seen
	kill $reader
	tr -d '\0' < seen > lines
	like "a reader that begins late, ${*:-alone}: sees what is missing" "$(cat lines)" 'zeroth: [0-9]+ lines? (is|are) missing here: nobody read for 5 s'
	is "a reader that begins late, ${*:-alone}: sees the digest" "$(tail -n 1 lines)" "$digest"
}
beside resumed
beside resumed -n 2

# A supervisor that cannot print goes on watching.
watched() {
	rm -rf run
	unread both
	HOLD=step3 HOLD_DIR=$PWD timeout -s KILL 180 "$ZEROTH" train --watchdog 1 -n 2 "$ini" -o data.plugin="$scratch/hold.so" \
		-o train.steps=6 -o run.dir=run > both 2>&1 < /dev/null
	is 'full pipes: the watchdog ends ranks that hang' "$?" 4
	rm -rf run held.*
	HOLD=step3 HOLD_DIR=$PWD "$ZEROTH" train -n 2 "$ini" -o data.plugin="$scratch/hold.so" -o train.steps=1000000 -o run.log_every=1000 -o run.dir=run > both 2>&1 &
	local run=$!
	await $run test -e held.0
	kill -TERM $run
	touch go
	timeout 180 tail --pid=$run -s 0.02 -f /dev/null || kill -9 $run
	wait $run
	is 'full pipes: SIGTERM ends the training' "$?" 130
}
beside watched

# ---- limits ----------------------------------------------------------------------
# limited NAME CAUSE LIMIT... -- [COMMAND]...: each command ends under these limits of ulimit as without, or with the cause.
names_causes='^(# plugin|# untested|hinders|[0-3]  *state.*: |[a-z]+/[a-z0-9_]+ +unusable:)' # lines of standard output
under=() # a command that runs what is limited
limited() {
	local name=$1 cause=$2 limits=() command got
	shift 2
	while [ "$1" != -- ]; do limits+=("$1"); shift; done
	shift
	for command; do
		got=$(ended "$command" "${under[@]}" bash -c "ulimit ${limits[*]} && exec \"\$@\"" -)
		if [ "$got" = "${plain[$command]}" ]; then
			pass "$name: $command: as without"
		elif [ "$got" = 'exit 127' ]; then # not one line of the program has run
			like "$name: $command: the dynamic linker says why" "$(tail -n 1 err)" 'error while loading shared libraries'
		else
			case $command in
			plan* | 'plugin list') like "$name: $command: ends" "$got" '^exit [0-5]$' ;; # a cause in the place of one line
			'plugin check'*) like "$name: $command: does not blame the plugin" "$got" '^exit 4$' ;;
			*) like "$name: $command: ends" "$got" '^exit [1-5]$' ;;
			esac
			is "$name: $command: leaves nothing that is not whole" "$(sed '1,/^exit/d' <<< "$got")" ''
			like "$name: $command: says why" "$(tail -n 1 err; grep -E "$names_causes" out)" "$cause"
		fi
	done
}
stack='the stack is limited to [0-9]+ KiB, and 512 are needed: raise ulimit -s$'
files='Too many open files|^hinders *a process may open [0-9]+ files|a process may open [0-9]+ files here, and [0-9]+ are needed: raise ulimit -n$'
memory='[Oo]ut of memory|gives the test no |Cannot allocate memory|too little memory|does not fit|no memory'
for limit in 64 128; do
	some "${commands[@]}"
	beside limited "ulimit -s $limit" "$stack" -s $limit -- "${chosen[@]}"
done
beside limited 'ulimit -s 600' "$stack" -s 600 -- "${commands[@]}"
for limit in 6 8 12 20 30; do
	some "${checked[@]}"
	beside limited "ulimit -n $limit" "$files" -n $limit -- "${chosen[@]}"
done
beside limited 'ulimit -l 0' none -l 0 -- "${commands[@]}"
for limit in 20000 40000 60000 120000; do
	some "${checked[@]}"
	beside limited "ulimit -v $limit" "$memory" -v $limit -- "${chosen[@]}"
done

# A report whose checkpoints cannot be opened is whole, and says why they answer nothing.
answerless() {
	local page
	(ulimit -v 20000 && exec "$ZEROTH" report -o made "$model") > out 2> err
	is 'a report without memory for answers: exit 0' "$?" 0
	page=$(sed -n '/Answers over time/,$p' made | sed 's/<[^>]*>/ /g' | grep -m 1 'memory')
	like 'a report without memory for answers says so' "$page" "$memory"
}
beside answerless

# What the plugin's training lacks is not laid to the plugin, though the same training without it had enough.
starved() {
	local said
	said=$(LD_PRELOAD=$ZR_BUILDDIR/tests/faults/.libs/libfaults.so ZR_FAULT="call=write n=1 and=later kind=$1 path=/alone/" \
		"$ZEROTH" plugin check optimizer/adamw 2>&1; echo "exit $?")
	like "a training without memory: plugin check: untested" "$(tail -n 3 <<< "$said" | tr '\n' ' ')" \
		"# untested: this machine gives a training too little: .*$2 .* exit 4 \$"
}
beside starved ENOMEM 'Cannot allocate memory'
beside starved ENOSPC 'No space left on device'
size='File too large|raise it \(ulimit -f unlimited\)$|^hinders *files are limited to'
for limit in 1 16 1048576; do
	some "${commands[@]}"
	beside limited "ulimit -f $limit" "$size" -f $limit -- "${chosen[@]}"
done
lowered() {
	rm -rf run held.* go
	HOLD=step3 HOLD_DIR=$PWD "$ZEROTH" train -n 2 "$ini" -o data.plugin="$scratch/hold.so" -o train.steps=6 -o run.dir=run > /dev/null 2> err &
	local run=$!
	await $run test -e held.0
	prlimit --pid $run --nofile=2
	kill -TERM $run
	timeout -s KILL 180 tail --pid=$run -s 0.02 -f /dev/null || kill -9 $run
	wait $run
	echo "exit $?"
	tail -n 1 err
}
is 'the supervisor ends where its limit of files is lowered' "$(lowered 2>&1)" 'exit 4
zeroth: cannot watch the ranks: Invalid argument: the limit of open files (ulimit -n) was lowered'

# root is not bound by the number of its processes.
if [ "$(id -u)" = 0 ] && setpriv --reuid=65533 --clear-groups sh -c '[ -r "$0" ] && [ -x "$1" ]' "$ini" "$ZEROTH" 2> /dev/null; then
	nobody() { # LIMIT: of processes, each by a user of its own
		local cause='Resource temporarily unavailable' under=(setpriv --reuid=$((65000 + $1)) --clear-groups)
		chmod 777 .
		limited "ulimit -u $1" "$cause" -u "$1" -- "${chosen[@]}"
	}
	for limit in 1 2 4 8; do
		some "${trainings[@]}" "${others[@]/checkpoint prune*/plugin list}"
		beside nobody $limit
	done
else
	skip 'ulimit -u' 'another user cannot be set'
fi

# ---- memory of a control group ----------------------------------------------------
# Enough: as without. Too little: refused before memory is taken, or ended by the kernel, which a supervisor names.
grouped() { # LIMIT WANTED
	local group command got codes
	group=$(memory_group "$1" 2>&1) || { skip "$1 of memory in a control group" "$(head -n 1 <<< "$group")"; return; }
	for command in "${trainings[@]}"; do
		got=$(ended "$command" bash -c 'echo $$ > "$0/cgroup.procs" && exec "$@"' "$group")
		case $got:$(tail -n 1 err) in
		"${plain[$command]}:"*) got=trains ;;
		*'exit 3:zeroth: '*'does not fit: needs '*) got=refused ;;
		*'exit 2:zeroth: '*' bytes, which is the memory at hand; '*) got=refused ;;
		*'exit 4:zeroth: rank '*' was killed by the kernel: out of memory') got=refused ;;
		*'exit 137:'*) [ "$command" != train ] || got=refused ;; # it cannot say so itself
		*) got+=" $(tail -n 1 err)" ;;
		esac
		is "$1 of memory in a control group: $command" "$got" "$2"
	done
	for command in "${others[@]}"; do
		got=$(ended "$command" bash -c 'echo $$ > "$0/cgroup.procs" && exec "$@"' "$group")
		case "$2:$got" in
		*":${plain[$command]}") pass "$1 of memory in a control group: $command: as without" ;;
		refused:*'exit 137'*) pass "$1 of memory in a control group: $command: the kernel ends it" ;;
		*)
			[[ $command = 'plugin check'* ]] && codes=4 || codes=1-5
			like "$1 of memory in a control group: $command: ends" "$got" "^exit [$codes]\$"
			like "$1 of memory in a control group: $command: says why" "$(tail -n 1 err; grep -E "$names_causes" out)" "$memory|slows .* memory"
			;;
		esac
	done
	rmdir "$group"
}
grouped 1G trains
grouped 24M refused
grouped 6M refused

done_testing
