#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# comm/nccl without a GPU: over a double of CUDA and NCCL (tests/doubles/nccl/), it passes what comm/tcp passes (I1, I5).
. "$ZR_SRCDIR/tests/lib/tap.sh" || exit 99
. "$ZR_SRCDIR/tests/lib/fixture.sh" || exit 99
. "$ZR_SRCDIR/tests/lib/launched.sh" || exit 99
cd "$scratch" || exit 99

tiny text 2 24 5 <<INI
[device]
threads = 1
INI
double=$ZR_BUILDDIR/tests/doubles/.libs/nccl_double.so

export COMM=../tests/doubles/.libs/nccl_double BOOT=boot/env

# ---- operations on memory of the host --------------------------------------------
fails() { like "$1" "$(ranks_of 3 3 "$2")" "$3"; }
op7='barrier over the world \(step 1, op 7\)'
beside fails "I5: a timeout names the missing rank and where it was seen" late \
	"rank [02]: good: timeout: $op7 of rank [02] waited [0-9.]+ s for rank 1 \\(last seen in barrier over the world \\(step 1, op 0\\)\\)\$"
beside fails "I5: nobody waits for a rank that has left" leave "rank [02]: good: rank 1 has left; $op7 waits for it"
beside fails "I5: differing operations are named with both ranks" differ 'rank [0-2]: good: ranks differ in the number of elements: rank [01] calls all_reduce over the world \(step 1, op 3\) of [56] f32 in 1 segment, rank [12] calls all_reduce .* of [56] f32 in 1 segment; all others call what rank [02] calls'
beside fails 'I5: a pair that exchanges other counts than it expects' counts \
	'rank 1: good: ranks differ in what they exchange: rank 0 sends 5 u8 to rank 2, which expects 6, in exchange over the world \(step 1, op 3\)'
aborts() { is "$1" "$(ranks_of 3 3 stop | grep -c 'good: rank 1 stopped: no disk$')" 3; }
beside aborts "I5: an abort ends all ranks with its reason"
one_in 3 && beside good "every kind over nodes and the world; 64 tickets; boot's values" 4 2
one_in 3 && beside good "the same with 3 ranks on one node" 3 3
one_in 3 && beside good "the same with 6 ranks on nodes of three" 6 3

# ---- operations on memory of GPUs ------------------------------------------------
on_device() { ZR_DOUBLE_MEMORY=device good "$@"; }
one_in 3 && beside on_device "every kind over nodes and the world, on GPUs; 64 tickets" 4 2 device
one_in 3 && beside on_device "the same with 3 ranks on one node" 3 3 device
one_in 3 && beside on_device "the same with sums by NCCL, as near as sums of 4 can be" 4 2 device nccl
before() {
	like "I5: operations on GPUs that differed are found on the host" "$(ZR_DOUBLE_MEMORY=device ranks_of 3 3 before)" \
		"rank [0-2]: good: ranks ([02] and 1|1 and 0) posted other operations on memory of GPUs before $op7: do all run the same program\\?"
}
beside before
same_gpu() {
	out=$(ZR_DOUBLE_GPU=0000:01:00.0 ranks_of 2 2 kinds)
	like 'two ranks on one GPU are refused by name' "$out" '^ranks 0 and 1 have the same GPU 0000:01:00.0, which NCCL refuses'
}
beside same_gpu
unset COMM BOOT

# ---- trainings -------------------------------------------------------------------
one_process
on_cards=(-o device.plugin="$cards" -o device.memory=64M)
"$ZEROTH" train tiny.ini -o run.dir=card -o train.eval_every=0 "${on_cards[@]}" > card.out 2>&1
is 'one process with the double of cards' "$(digest_of card.out)" "$one"
same() { # NAME DIGEST RANKS PER_NODE OPTION...
	all trains "$3" "$4" "$ZEROTH" train ../tiny.ini -o run.dir=run -o boot.plugin=env "${on_cards[@]}" -o comm.plugin="$double" \
		-o train.eval_every=0 "${@:5}"
	is "$1" "$(digest_of trains.0)" "$2"
	[ "$(digest_of trains.0)" = "$2" ] || note "$(tail -n 3 trains.*)"
}
mixture=(-o model.plugin=mixtral -o model.experts=4 -o model.experts_per_token=2 -o model.ffn_width=24)
"$ZEROTH" train tiny.ini -o run.dir=mixed -o train.eval_every=0 "${mixture[@]}" > mixed.out 2>&1
one_in 3 && beside same 'ranks divide experts' "$(digest_of mixed.out)" 4 2 -o zero.plugin=stage3 -o zero.persistence_threshold=0 "${mixture[@]}" \
	-o zero.expert_ranks=2
for stage in stage0 stage1 stage2 stage3; do
	one_in 3 && beside same "I1: 2 ranks, $stage" "$one" 2 2 -o zero.plugin=$stage
done
one_in 3 && beside same "I1: 3 ranks, stage3" "$one" 3 3 -o zero.plugin=stage3
one_in 3 && beside same "I1: 4 ranks on 2 nodes, hpz" "$one" 4 2 -o zero.plugin=hpz
one_in 3 && beside same "I1: 4 ranks on 2 nodes, mics" "$one" 4 2 -o zero.plugin=mics
one_in 3 && beside same "I1: beside a comm of host memory" "$one" 2 2 -o zero.plugin=stage2 -o comm.host.plugin=tcp
local=(-o train.reduction=local)
"$ZEROTH" train tiny.ini -n 2 -o run.dir=local "${local[@]}" -o train.eval_every=0 > local.out 2>&1
one_in 3 && beside same "I1: comm/nccl adds for 2 ranks" "$(digest_of local.out)" 2 2 "${local[@]}"
trees=(-o train.sum_group=2)
"$ZEROTH" train tiny.ini -o run.dir=trees "${trees[@]}" -o train.eval_every=0 > trees.out 2>&1
one_in 3 && beside same "I1: 4 ranks on 2 nodes, sums of a node in one message" "$(digest_of trees.out)" 4 2 -o zero.plugin=stage2 "${trees[@]}"
export ZR_DOUBLE_REGISTERED=yes # the double ends a process that moves what it has not registered
for stage in stage0 stage2 stage3; do
	one_in 3 && beside same "what 2 ranks of $stage move is registered with NCCL until it is freed" "$one" 2 2 -o zero.plugin=$stage
done
one_in 3 && beside same "so is what 4 ranks on 2 nodes move in the node and between nodes, with sums of a node" "$(digest_of trees.out)" 4 2 \
	-o zero.plugin=hpz "${trees[@]}"
unset ZR_DOUBLE_REGISTERED
refused() {
	ZR_DOUBLE_REFUSES=yes same 'NCCL that registers nothing trains' "$one" 2 2
	like '... with a warning that has its reason' "$(cat trains.0)" 'rank 0, GPU 0, ncclCommRegister of [0-9]+ bytes: invalid usage; no more is known: NCCL copies'
}
beside refused
received() {
	all trains 2 1 "$ZEROTH" train ../tiny.ini -o run.dir=run -o boot.plugin=env "${on_cards[@]}" -o comm.plugin="$double" "${local[@]}"
	like "I2: a rank receives what was planned" "$(tr -d ' \n' < run/summary.json | grep -o '"received_bytes_per_step":{[^}]*}')" \
		':\{"planned":([1-9][0-9]*),"measured":\1\}$'
}
beside received

plan() { "$ZEROTH" plan -n 2 tiny.ini "${on_cards[@]}" "$@" | grep -o 'total .* of .*' | tr -s ' '; }
like 'I2: a plan leaves to comm what it takes of a card: 2 MiB a group and 32 KiB' "$(plan -o comm.plugin="$double" | xargs)" '^total .* of 60.0 MiB$'
like '... and all of it to itself without' "$(plan | xargs)" '^total .* of 64.0 MiB$'

# ---- failures --------------------------------------------------------------------
fails_alone() {
	mkdir taken
	all taken 3 3 "$ZEROTH" train ../tiny.ini -o run.dir=taken -o boot.plugin=env "${on_cards[@]}" -o comm.plugin="$double"
	like 'I5: a rank that fails alone says why' "$(cat taken.0)" 'run directory taken exists already'
	is '... and the others name it' "$(grep -hc '^zeroth: .*rank 0 stopped: .*run directory taken exists already' taken.1 taken.2 | xargs)" '1 1'
}
beside fails_alone
# killed NAME WANTED OPTION...: rank 1 of 3 dies while the others wait, mostly for the GPU; what both say then
killed() {
	new_port
	for r in 2 1 0; do
		(as $r 3 3 "$ZEROTH" train ../tiny.ini -o run.dir=run -o boot.plugin=env "${on_cards[@]}" -o comm.plugin="$double" \
			-o train.steps=100000 -o run.log_every=1 "${@:3}") > dies.$r 2>&1 &
		process[$r]=$!
	done
	await ${process[0]} grep -q '^step 3/' dies.0
	kill -KILL ${process[1]}
	wait ${process[0]} ${process[2]}
	is "$1" "$(grep -hcE "^zeroth: .*$2" dies.0 dies.2 | xargs)" '1 1'
}
beside killed 'I5: a rank that is killed ends at once the others, which wait for the GPU and name it' \
	'rank 1 on [^ ]* has ended, or its connection was cut'
mkdir meeting
beside killed '... also those that met in a directory' 'rank 1 on [^ ]* has ended$' -o boot.directory="$PWD/meeting"
passes() {
	said=$("$ZEROTH" plugin check --exclude imports "$double") # the double ends the process where it is misused
	is 'plugin check passes' "$? $(grep -A 1 '^not ok' <<< "$said")" '0 '
}
beside passes
done_testing
