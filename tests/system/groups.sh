#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# I1 whatever groups a stage splits parameters and state over, on three nodes of two ranks, in
# memory and over tiers; and which groups are refused.
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
	"$(groups 111 cpu cpu none 1 -o comm.plugin="$scratch/devcomm.so")" "$one"

has='has parameters of group 1, gradients of 1, state of'
like 'a group that does not exist' "$(groups 113 none none none 1)" \
	"\[zero\] groups: unit wte $has 3: a group that does not exist; mend the plugin"
like 'state of two groups' "$(groups 1121 none none none 1)" \
	"unit wpe $has 1: state split over another group than that of other units"
is 'I1: of which one is that of nodes of all ranks' \
	"$(groups 1121 none none none 1 -o boot.ranks_per_node=6)" "$one"

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
