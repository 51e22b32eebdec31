#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# I1 whatever groups a stage splits parameters and state over, on three nodes of two ranks, in
# memory and over tiers; state of every unit by itself, saved and gone on with; and which groups are
# refused.
. "$ZR_SRCDIR/tests/lib/tap.sh" || exit 99
. "$ZR_SRCDIR/tests/lib/fixture.sh"
. "$ZR_SRCDIR/tests/lib/tiers.sh"

build groups
groups() { # groups DIGITS OPTIMIZER GRADIENT PARAMETERS THREADS [OPTIONS...]
	local threshold=
	[[ $1 = 0* ]] || threshold="-o zero.persistence_threshold=0"
	SPLIT=$1 digest bf16 fp32 "$2" "$3" "$4" "$scratch/groups.so" 6 keep tiny auto "$5" \
		-o boot.ranks_per_node=2 $threshold "${@:6}"
}
name=(whole node world)
one=$(digest bf16 fp32 none none none stage0 1 keep auto auto 1)
like 'one rank alone trains' "$one" '^digest: losses=[0-9a-f]{16} params=[0-9a-f]{16}$'
for of in 000 021 012 120 101 112 210 221 202; do
	one_in 3 || continue
	is "I1: parameters ${name[${of:0:1}]}, state ${name[${of:2:1}]}" \
		"$(groups $of none none none 2)" "$one"
done
is 'I1: state of nodes on the host' "$(groups 021 cpu none none 1)" "$one"
is 'I1: state of nodes and their sums on disk' "$(groups 111 nvme nvme nvme 1)" "$one"
is 'I1: state of nodes, parameters of the world on disk' "$(groups 221 cpu cpu nvme 1)" "$one"
is 'I1: state and parameters of nodes of one rank, sums on disk' \
	"$(groups 111 cpu nvme cpu 1 -o boot.ranks_per_node=1)" "$one"
build devcomm
is 'I1 device comm: state of nodes on the host' \
	"$(groups 111 cpu cpu none 1 -o comm.plugin="$scratch/devcomm.so" -o comm.host.plugin=local)" "$one"

# ---- state split over the world, over nodes, and whole, a unit after the other ----

for of in 00210 12102 22012; do
	one_in 3 || continue
	is "I1: each unit's state by itself: $of" "$(groups $of none none none 2)" "$one"
done
lists=(-o zero.allgather_bucket_size=1e9 -o zero.reduce_bucket_size=1e9)
is 'I1: all of them in one list' "$(groups 00210 none none none 1 "${lists[@]}")" "$one"
is 'I1: some parameters are whole' \
	"$(groups 11210 none none none 1 "${lists[@]}" -o zero.persistence_threshold=8192)" "$one"
is 'I1: over a comm of the device' \
	"$(groups 11210 cpu cpu none 1 "${lists[@]}" -o comm.plugin="$scratch/devcomm.so" -o comm.host.plugin=local)" "$one"
is 'I1: a node is all' "$(groups 11210 none none none 1 -o boot.ranks_per_node=6)" "$one"
zeroth=$ZEROTH
export SHUFFLE
for SHUFFLE in 1 2; do
	ZEROTH=$ZR_BUILDDIR/tests/doubles/shuffled
	is "I1: in another order: $SHUFFLE" "$(groups 1121 nvme nvme nvme 1 "${lists[@]}")" "$one"
	ZEROTH=$zeroth
done

# go PRECISION STAGE WORLD TIER OPTION...: six steps on nodes of two ranks, to $scratch/run
go() {
	local nodes=-o
	[ "$3" = 1 ] && nodes+=boot.ranks_per_node=1 || nodes+=boot.ranks_per_node=2
	digest "$1" fp32 "$4" none none "$2" "$3" keep tiny auto 1 -o train.train_batch_size=4 \
		-o train.steps=6 "$nodes" "${@:5}" > /dev/null
	digest_or_end "$scratch/out"
}
mixed=$scratch/groups.so
resume() { # resume NAME PRECISION "FROM..." "TO..." OPTION...: as those of go from the stage to the tier
	local name=$1 precision=$2 from=$3 to=$4 want
	one_in 3 || return 0
	shift 4
	want=$(go "$precision" stage1 1 none "$@")
	like "$name: one rank alone trains" "$want" '^digest: '
	# shellcheck disable=SC2086 # several words
	is "I1, I6: $name: six steps" "$(go "$precision" $from "$@" -o checkpoint.every=3)" "$want"
	rm -rf "$scratch/first"
	mv "$scratch/run" "$scratch/first"
	ok "I6: $name: checkpoints are whole" "$ZEROTH" checkpoint verify "$scratch/first"
	# shellcheck disable=SC2086 # several words
	is "I1, I6: $name: three, and three more" "$(go "$precision" $to "$@" \
		--resume "$scratch/first/checkpoints/step-00000003")" "$want"
}
export SPLIT
lamb=(-o optimizer.plugin=lamb)
muon=(-o 'optimizer.m.match=h.*.attn.*.weight' -o optimizer.m.plugin=muon)
SPLIT=00210
resume 'to stage1' fp32 "$mixed 4 none" 'stage1 2 none'
resume 'asynchronously, to stage3' bf16 "$mixed 4 none" 'stage3 2 none' -o checkpoint.async=yes
resume 'from the disk to nodes' bf16 "$mixed 4 nvme" 'mics 4 none'
resume 'whole matrices, to the disk' fp32 "$mixed 4 none" 'stage2 4 nvme' "${muon[@]}"
SPLIT=11210
resume 'from nodes' fp32 'mics 4 none' "$mixed 4 nvme"
resume 'norms of tensors' bf16 "$mixed 4 nvme" "$mixed 2 none" "${lamb[@]}"
SPLIT=11012
resume 'from whole state' bf16 'stage0 2 none' "$mixed 4 none" "${lamb[@]}"
unset SPLIT

# ---- what is refused ----

has='has parameters of group 1, gradients of 1, state of'
like 'a group that does not exist' "$(groups 113 none none none 1)" \
	"\[zero\] groups: unit wte $has 3: a group that does not exist; mend the plugin"

# Three ranks on nodes of two and of one.
uneven() { # uneven STAGE: the last line of rank 0
	rm -rf "$scratch/meet"
	mkdir "$scratch/meet"
	for r in 0 1 2; do
		RANK=$r WORLD_SIZE=3 LOCAL_RANK=$((r % 2)) LOCAL_WORLD_SIZE=$((2 - r / 2)) \
			timeout 60 "$ZEROTH" train "$ZR_SRCDIR/tests/lib/matrix.ini" -o boot.plugin=env \
			-o boot.directory="$scratch/meet" -o data.path="$scratch/text" -o zero.plugin="$1" \
			-o train.train_batch_size=6 -o run.dir="$scratch/$1" > "$scratch/rank$r" 2>&1 &
	done
	wait
	tail -n 1 "$scratch/rank0"
}
for stage in hpz mics; do
	like "$stage on nodes of two sizes" "$(uneven $stage)" \
		"\[zero\] $stage: unit wte .*: nodes have different numbers of ranks: start as many on each"
done
like 'what is split over all ranks is not' "$(uneven stage3)" '^digest: '
done_testing
