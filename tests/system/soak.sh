#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# I1, I5, I6: trainings that are ended again and again, at moments that nobody chose: a rank or all are killed, or told to
# stop. Each goes on from its newest checkpoint with another stage, world, tier, policy and way to save, and in the end
# has the digest of a training that nobody disturbed. One start and its end are a cycle. `make check` runs a few,
# `make soak SOAK_CYCLES=1000 SOAK_SEED=1` as many as wanted:
#   SOAK_SEED=N    all choices follow from it; moments still depend on the machine
#   SOAK_ONLY=T    only training T of that seed
#   SOAK_KEEP=DIR  what a training that went wrong had: its run as it was before each cycle, and the commands
. "$ZR_SRCDIR/tests/lib/tap.sh" || exit 99

cycles=${SOAK_CYCLES:-8} seed=${SOAK_SEED:-1}
cd "$scratch" || exit 99
mkdir disk
for i in $(seq 1 400); do echo "line $i of a text that is long enough to learn a little from"; done > text

# ---- choices ----

# choose VARIABLE VALUE...: in this shell, for a subshell has random numbers of its own
choose() {
	local name=$1
	shift $((1 + RANDOM % ($# - 1)))
	printf -v "$name" %s "$1"
}

# What must stay as it is for the digest to stay, as options: $numbers.
choose_training() {
	choose precision fp32 bf16 fp16
	choose optimizer adamw cpu_adam lamb lion muon
	numbers=(-o precision.plugin="$precision" -o train.seed="$RANDOM")
	[ "$precision" != fp16 ] || numbers+=(-o precision.initial_scale_power=20 -o precision.loss_scale_window=5)
	case $optimizer in
	muon) numbers+=(-o optimizer.matrices.match='h.*.attn.*.weight h.*.mlp.*.weight' -o optimizer.matrices.plugin=muon) ;;
	*) numbers+=(-o optimizer.plugin="$optimizer") ;;
	esac
}

# What may change from one cycle to the next: $what; and how the cycle is to end.
choose_cycle() {
	local opt act grad par master separate
	choose stage stage0 stage1 stage2 stage3 hpz mics
	choose world 1 2 4
	choose threads 1 2
	choose opt none cpu nvme
	choose grad none none cpu nvme
	choose par none cpu nvme
	choose act keep recompute offload
	choose master fp32 split
	choose separate yes no
	choose every 1 1 2 5
	choose async yes no
	choose keep 0 2 3
	choose pieces auto 5000
	[ "$grad$stage" != nvmestage0 ] || grad=cpu # whole sums on disk
	case $stage in stage3 | hpz | mics) ;; *) par=none ;; esac
	[ "$par$opt$precision" != "${par}nonefp32" ] || par=none # the master would stay behind
	[ "$optimizer" != cpu_adam ] || [ "$opt" != none ] || separate=no
	what=(-n "$world" -o zero.plugin="$stage" -o device.threads="$threads" -o checkpoint.every="$every"
		-o checkpoint.async="$async" -o checkpoint.keep="$keep" -o activation.plugin="$act" -o device.plugin="$cards" -o device.memory=32M -o device.separate=no
		-o zero.sub_group_size="$pieces")
	tier optimizer "$opt"
	tier gradient "$grad"
	tier param "$par"
	case $stage in stage3 | hpz | mics) what+=(-o zero.persistence_threshold=0) ;; esac
	[[ $world$stage != 4@(hpz|mics) ]] || what+=(-o boot.ranks_per_node=2)
	[ "$precision" != bf16 ] || what+=(-o precision.master="$master")
	if [ "$act" = offload ]; then
		what+=(-o activation.keep=1)
		choose act cpu nvme
		tier activation "$act"
	fi
	# memory of its own is for a rank alone, or a thread alone; and something must be elsewhere
	if [ "$separate" = yes ] && { [ "$world" = 1 ] || [ "$threads" = 1 ]; } && { [ "$opt" != none ] || [ "$grad$par" = nonenone ]; }; then
		what+=(-o device.separate=yes)
	fi
	choose ending rank all supervisor term group int
	[ "$world" != 1 ] || [ "$ending" != rank ] || ending=all
	moment=$((RANDOM % 250))
}

tier() {
	[ "$2" = none ] || what+=(-o "offload.$1.plugin=$2")
	[ "$2" != nvme ] || what+=(-o "offload.$1.path=disk")
}

# ---- cycles ----

# Into $command: what trains, in the run directory $1.
train() {
	local dir=$1
	shift
	command=("$ZEROTH" train "$ZR_SRCDIR/tests/lib/matrix.ini" -o data.path=text -o run.dir="$dir" -o run.log_every=1
		-o model.layers=3 -o model.width=16 -o model.heads=2 -o model.context=8 -o train.train_batch_size=4
		-o train.eval_every=0 "${numbers[@]}" "$@")
}

# The last step that is saved.
saved() { sed 's/^step-0*//' run/checkpoints/latest 2> /dev/null || echo 0; }

wrong() { # wrong COUNT WHY: something that must not be
	printf -v "$1" %d $((${!1} + 1))
	note "training $training, cycle $cycle: $2"
	note "  ${command[*]}"
	bad=yes
}

begun() { [[ $(< out) == *$'\n''step '* ]]; }

# Waits for the first step; fails where the training ends before.
has_begun() {
	await "$1" begun
	begun
}

end_it() { # end_it PID: as $ending says
	local ranks
	case $ending in
	rank) ranks=($(children "$1")); kill -KILL "${ranks[RANDOM % ${#ranks[@]}]}" ;;
	all) ranks=$(children "$1"); kill -KILL "$1" $ranks ;;
	supervisor) ranks=$(children "$1"); kill -KILL "$1" ;;
	term) kill -TERM "$1" ;;
	group) kill -TERM -- "-$1" ;;
	int) kill -INT -- "-$1" ;;
	esac 2> /dev/null
	wait "$1" 2> /dev/null
	rc=$?
	for i in $(seq 6000); do [ -n "$(running ${ranks[@]})" ] || break; sleep 0.01; done
}

# What must hold once a training was ended.
look() {
	local now=$(saved) last
	[ -n "$(find run/checkpoints -name '*.tmp' 2> /dev/null)" ] && in_save=$((in_save + 1))
	[ "$now" -ge "$before" ] || wrong back "from step $before back to step $now"
	[ "$now" = 0 ] || "$ZEROTH" checkpoint verify run > verify 2>&1 || wrong torn "$(grep -v '  whole, ' verify)"
	[ "$before" = 0 ] || grep -qx "resumed after step $before" out || wrong stuck "$(grep -h resumed out err) for step $before"
	case $ending in
	rank)
		[ "$rc" = 4 ] && tail -n 1 err | grep -q 'killed by SIGKILL' || wrong silent "status $rc: $(tail -n 1 err)" ;;
	term | group | int)
		last=$(grep '^step ' out | tail -n 1 | sed 's/^step \([0-9]*\).*/\1/')
		[ "$rc" = 130 ] && [ "$now" = "$last" ] || wrong deaf "status $rc, step $now saved, but $last was done: $(tail -n 1 err)" ;;
	esac
}

one_cycle() {
	cycle=$((cycle + 1)) ran=$((ran + 1)) before=$(saved)
	choose_cycle
	train run --resume auto -o train.steps=1000000 "${what[@]}"
	echo "training $training cycle $cycle: after $moment ms: $ending: ${command[*]:1}" >> log
	[ -z "$SOAK_KEEP" ] || { rm -rf "before.$cycle"; cp -r run "before.$cycle" 2> /dev/null; }
	: > out
	(exec env --default-signal=INT "${command[@]}") > out 2> err &
	local pid=$!
	if ! has_begun $pid; then
		wait $pid
		wrong stuck "did not go on from step $before: status $?: $(tail -n 1 err)"
		return
	fi
	sleep "0.$(printf %03d $moment)"
	end_it $pid
	ends[$ending]=$((${ends[$ending]:-0} + 1))
	[ "$before" = 0 ] || resumes=$((resumes + 1))
	look
}

digest_of() { "${command[@]}" 2> err | tail -n 1; }

# The last cycle of a training comes to its end; another one of as many steps is never disturbed.
last_cycle() {
	local steps got want
	before=$(saved) cycle=$((cycle + 1)) ran=$((ran + 1))
	steps=$((before + 1 + RANDOM % 3))
	choose_cycle
	train run --resume auto -o train.steps=$steps "${what[@]}"
	echo "training $training cycle $cycle: to step $steps: ${command[*]:1}" >> log
	got=$(digest_of)
	[ -z "$(find run/checkpoints -name '*.tmp')" ] || wrong left "$(find run/checkpoints -name '*.tmp')"
	[ "$before" = 0 ] || resumes=$((resumes + 1))
	train undisturbed -o train.steps=$steps
	want=$(digest_of)
	train tidy -o train.steps=1 -o offload.optimizer.plugin=nvme -o offload.optimizer.path=disk # clears what the killed left
	[[ $(digest_of) == digest* ]] && [ -z "$(find disk -mindepth 1)" ] || wrong left "$(cat err; find disk -mindepth 1)"
	if [[ $want == 'digest: losses='* && $got = "$want" ]]; then
		equal=$((equal + 1))
	else
		train run --resume auto -o train.steps=$steps "${what[@]}"
		wrong differ "step $steps: '$got' for '$want'"
	fi
}

one_training() {
	local more
	training=$1 cycle=0 bad=
	RANDOM=$((seed * 7919 + training))
	choose_training
	rm -rf run undisturbed tidy log before.*
	more=$((2 + RANDOM % 5))
	while [ $((more--)) -gt 0 ]; do one_cycle; done
	last_cycle
	trained=$((trained + 1))
	[ -n "$bad" ] || return
	note "SOAK_SEED=$seed SOAK_ONLY=$training does it again:"
	note "$(cat log)"
	[ -z "$SOAK_KEEP" ] || { mkdir -p "$SOAK_KEEP/$seed.$training" && cp -r log out err run before.* "$SOAK_KEEP/$seed.$training"; }
}

declare -A ends
ran=0 trained=0 resumes=0 in_save=0 equal=0
back=0 torn=0 stuck=0 silent=0 deaf=0 left=0 differ=0
set -m # each has a process group of its own
if [ -n "$SOAK_ONLY" ]; then
	one_training "$SOAK_ONLY"
else
	for ((number = 1; ran < cycles; number++)); do one_training $number; done
fi
note "seed $seed: $ran cycles of $trained trainings, $resumes resumes, $in_save ends inside a save"
for ending in "${!ends[@]}"; do note "$(printf '%5d ended by: %s' "${ends[$ending]}" "$ending")"; done
is "I1, I6: all digests are those of trainings that nobody disturbed" "$equal" "$trained"
is "I6: all went on from their newest checkpoint" "$stuck" 0
is "I6: no checkpoint went back" "$back" 0
is "I6: none was torn" "$torn" 0
is "I5: who died was named" "$silent" 0
is "a training that is told to stop saves its last step" "$deaf" 0
is "nothing is left behind" "$left" 0
is "nothing differs" "$differ" 0
done_testing
