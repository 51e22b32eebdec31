#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Ranks without MPI: comm/tcp passes what comm/mpi passes (I1, I5), started by the environment alone.
. "$ZR_SRCDIR/tests/lib/tap.sh" || exit 99
. "$ZR_SRCDIR/tests/lib/fixture.sh" || exit 99
. "$ZR_SRCDIR/tests/lib/launched.sh" || exit 99
cd "$scratch" || exit 99

tiny text 2 24 5 <<INI
[device]
threads = 1
INI
# ---- operations ------------------------------------------------------------------
export COMM=comm/tcp BOOT=boot/env
fails() { like "$1" "$(ranks_of 3 3 "$2")" "$3"; }
op7='barrier over the world \(step 1, op 7\)'
beside fails "I5: a timeout names the missing rank and where it was seen" late \
	"rank [02]: good: timeout: $op7 of rank [02] waited [0-9.]+ s for rank 1 \\(last seen in barrier over the world \\(step 1, op 0\\)\\)\$"
beside fails 'I5: ... and one whose data has stopped' stuck \
	'rank [02]: good: .*timeout: all_gather over the world \(step 1, op 7\) of rank [02] waited [0-9.]+ s for rank 1 \(has come, but not all' 1
beside fails "I5: nobody waits for a rank that has left" leave "rank [02]: good: rank 1 has left; $op7 waits for it"
beside fails "I5: differing operations are named with both ranks" differ 'rank [0-2]: good: ranks differ in the number of elements: rank [01] calls all_reduce over the world \(step 1, op 3\) of [56] f32 in 1 segment, rank [12] calls all_reduce .* of [56] f32 in 1 segment; all others call what rank [02] calls'
beside fails 'I5: a pair that exchanges other counts than it expects' counts \
	'rank 1: good: ranks differ in what they exchange: rank 0 sends 5 u8 to rank 2, which expects 6, in exchange over the world \(step 1, op 3\)'
aborts() { is "$1" "$(ranks_of 3 3 stop | grep -c 'good: rank 1 stopped: no disk$')" 3; }
beside aborts "I5: an abort ends all ranks with its reason"
beside good "every kind over nodes and the world; 64 tickets; boot's values" 4 2
beside good "the same with 3 ranks on one node" 3 3
beside good "the same with 6 ranks on nodes of three" 6 3
unset COMM BOOT

# ---- trainings -------------------------------------------------------------------
one_process
same() { # NAME DIGEST RANKS PER_NODE OPTION...
	all trains "$3" "$4" "$ZEROTH" train ../tiny.ini -o run.dir=run -o boot.plugin=env -o comm.plugin=tcp -o train.eval_every=0 "${@:5}"
	is "$1" "$(digest_of trains.0)" "$2"
}
for stage in stage0 stage1 stage2 stage3; do
	for n in 2 3; do one_in 3 && beside same "I1: $n ranks, $stage" "$one" $n $n -o zero.plugin=$stage; done
done
one_in 3 && beside same "I1: 4 ranks on 2 nodes, hpz" "$one" 4 2 -o zero.plugin=hpz
one_in 3 && beside same "I1: 4 ranks on 2 nodes, mics" "$one" 4 2 -o zero.plugin=mics
one_in 3 && beside same "I1: 6 ranks on nodes of 1" "$one" 6 1 -o zero.plugin=stage3
one_in 3 && beside same "I1: 3 ranks of a machine that read nobody's memory" "$one" 3 3 -o zero.plugin=stage3 -o comm.cross_read=off
containers() { # whose processes have the same number, and do not see each other
	unshare --pid --fork true 2> /dev/null || { skip "I1: 2 ranks in containers of a machine" "no PID namespaces are allowed here"; return; }
	all contained 2 2 unshare --pid --fork "$ZEROTH" train ../tiny.ini -o run.dir=run -o boot.plugin=env -o comm.plugin=tcp -o train.eval_every=0
	is "I1: 2 ranks in containers of a machine" "$(digest_of contained.0)" "$one"
}
beside containers
one_in 3 && beside same "I1: an interface" "$one" 2 2 -o comm.interface=lo
local=(-o train.reduction=local -o train.eval_every=0)
for n in 2 3; do
	"$ZEROTH" train tiny.ini -n $n -o run.dir=local$n "${local[@]}" > local$n.out 2>&1
	one_in 3 && beside same "I1: comm/tcp adds for $n ranks" "$(digest_of local$n.out)" $n $n "${local[@]}"
done
received() {
	all trains 2 1 "$ZEROTH" train ../tiny.ini -o run.dir=run -o boot.plugin=env -o comm.plugin=tcp "${local[@]}"
	like "I2: a rank receives what was planned" "$(tr -d ' \n' < run/summary.json | grep -o '"received_bytes_per_step":{[^}]*}')" \
		':\{"planned":([1-9][0-9]*),"measured":\1\}$'
}
beside received

# ---- failures --------------------------------------------------------------------
killed() {
	new_port
	for r in 2 1 0; do
		(as $r 3 3 "$ZEROTH" train ../tiny.ini -o run.dir=run -o boot.plugin=env -o comm.plugin=tcp -o train.steps=100000 -o run.log_every=1) \
			> dies.$r 2>&1 &
		process[$r]=$!
	done
	await ${process[0]} grep -q '^step 3/' dies.0
	kill -KILL ${process[1]}
	wait ${process[0]} ${process[2]}
	is 'I5: a rank that is killed ends the others, who name it' \
		"$(grep -hc 'zeroth: .*rank 1 has ended, or its connection was cut' dies.0 dies.2 | xargs)" '1 1'
}
beside killed
fails_alone() {
	mkdir taken
	all taken 3 3 "$ZEROTH" train ../tiny.ini -o run.dir=taken -o boot.plugin=env -o comm.plugin=tcp
	like 'I5: a rank that fails alone says why' "$(cat taken.0)" 'run directory taken exists already'
	is '... and the others name it' "$(grep -hc '^zeroth: \[[a-z]*\] rank 0 stopped: .*run directory taken exists already' taken.1 taken.2 | xargs)" '1 1'
}
beside fails_alone
is 'an interface that is not there' "$(all bad 2 1 "$ZEROTH" train tiny.ini -o run.dir=never -o boot.plugin=env -o comm.plugin=tcp \
	-o comm.interface=nosuch0 -o boot.timeout=5 -o comm.timeout=5; tail -n 1 bad.0)" \
	'zeroth: -o: [comm] interface nosuch0: this machine has none of that name with an address; `ip address` lists them'
done_testing
