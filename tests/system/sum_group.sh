#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# [train] sum_group: gradients added as balanced trees. I1 over stages, ranks, tiers and comms, whether a tree is one
# micro-batch's or goes on over several; what is refused; what it adds to the plan (I2).
. "$ZR_SRCDIR/tests/lib/tap.sh" || exit 99
. "$ZR_SRCDIR/tests/lib/fixture.sh" || exit 99
. "$ZR_SRCDIR/tests/lib/pairwise.sh"
. "$ZR_SRCDIR/tests/lib/tiers.sh"

eight=(-o train.train_batch_size=8)
of() { echo "-o train.sum_group=$1"; }

declare -A want
for p in fp32 bf16 fp16; do
	for g in 1 2 4 8; do
		want[$p$g]=$(digest $p fp32 none none none stage0 1 keep auto auto 1 "${eight[@]}" $(of $g))
	done
	like "$p: trees of two train" "${want[${p}2]}" '^digest: losses=[0-9a-f]{16} params=[0-9a-f]{16}$'
	ok "$p: trees of two are another order than one after the other" test "${want[${p}2]}" != "${want[${p}1]}"
	ok "$p: and trees of four are another one" test "${want[${p}4]}" != "${want[${p}2]}"
done
is 'fp32: two trees of four are one of eight' "${want[fp324]}" "${want[fp328]}"

# Of all that pairwise chooses every third, with each size of a tree in turns.
turn=0
while read -r p m o g q z w rest <&3; do
	turn=$((turn + 1))
	[ $((turn % 3)) = 1 ] && one_in 3 || continue
	[ "$z$w" != mics6 ] || w=4
	size=$((2 << turn / 3 % 3))
	is "I1 $p, trees of $size: optimizer $o, gradient $g, param $q, $z, $w ranks" \
		"$(digest "$p" "$m" "$o" "$g" "$q" "$z" "$w" $rest "${eight[@]}" $(of $size))" "${want[$p$size]}"
done 3< <(WORLDS='1 2 4' product | pairwise)
is 'I1: eight ranks, trees of two' "$(digest bf16 fp32 none none none stage2 8 keep auto auto 1 "${eight[@]}" $(of 2))" "${want[bf162]}"
is 'I1: eight ranks, one tree' "$(digest fp16 fp32 none none none stage3 8 keep auto auto 1 "${eight[@]}" $(of 8))" "${want[fp168]}"
is 'I1: sums on disk, gradients in parts' "$(digest bf16 fp32 nvme nvme none stage3 2 keep tiny auto 1 "${eight[@]}" $(of 8) \
	-o train.gradient_part_size=4096)" "${want[bf168]}"

build devcomm
for g in 2 8; do
	is "I1: trees of $g over a comm that copies" "$(digest bf16 fp32 none none none stage2 4 keep auto auto 1 "${eight[@]}" $(of $g) \
		-o comm.plugin="$scratch/devcomm.so" -o comm.host.plugin=local)" "${want[bf16$g]}"
	is "I1: trees of $g in fp32 over a comm that copies" "$(digest fp32 fp32 cpu none none stage1 4 keep auto auto 1 "${eight[@]}" \
		$(of $g) -o comm.plugin="$scratch/devcomm.so" -o comm.host.plugin=local)" "${want[fp32$g]}"
done

# ---- nodes: what their ranks have is added there, and the sums go to the owners ----
for g in 2 4 8; do
	for n in 2 4; do
		one_in 3 || continue
		is "I1: trees of $g over nodes of $n" "$(digest bf16 fp32 none none none stage2 8 keep auto auto 1 "${eight[@]}" $(of $g) \
			-o boot.ranks_per_node=$n)" "${want[bf16$g]}"
	done
done
is 'I1: over nodes, split parameters, trees over two micro-batches' "$(digest fp16 fp32 none none none hpz 4 keep auto auto 1 \
	"${eight[@]}" $(of 8) -o boot.ranks_per_node=2)" "${want[fp168]}"
is 'I1: over nodes, sums on the host of a device that only copies reach' "$(digest fp32 fp32 cpu none none stage2 4 keep auto auto 1 \
	"${eight[@]}" $(of 4) -o boot.ranks_per_node=2)" "${want[fp324]}"
is 'I1: over nodes, sums on disk, gradients in parts' "$(digest bf16 fp32 nvme nvme none stage3 4 keep tiny auto 1 "${eight[@]}" $(of 8) \
	-o boot.ranks_per_node=2 -o train.gradient_part_size=4096)" "${want[bf168]}"
is 'I1: over nodes, a comm that copies' "$(digest bf16 fp32 cpu none none stage2 4 keep auto auto 1 "${eight[@]}" $(of 4) \
	-o boot.ranks_per_node=2 -o comm.plugin="$scratch/devcomm.so" -o comm.host.plugin=local)" "${want[bf164]}"
six=(-o train.train_batch_size=6 $(of 2))
is 'I1: nodes of three hold no whole trees' "$(digest fp32 fp32 none none none stage2 6 keep auto auto 1 "${six[@]}" \
	-o boot.ranks_per_node=3)" "$(digest fp32 fp32 none none none stage0 1 keep auto auto 1 "${six[@]}")"

# The program: how often ranks exchange, and what they add, whatever their number.
program() { # program RANKS PER_NODE GROUP
	"$ZEROTH" plan -n "$1" "$ZR_SRCDIR/tests/lib/matrix.ini" -o data.path="$scratch/text" -o train.train_batch_size="$1" \
		-o boot.ranks_per_node="$2" -o train.sum_group="$3" -o zero.plugin=stage2 --program |
		awk '/^program/ { on = /last micro/ } on && /reduce/ { count[$3]++ } END { print count["accumulate"], count["join"], count["collective"] }'
}
is 'each gradient is added by one instruction' "$(program 8 8 1 | cut -d ' ' -f 1)" "$(program 2 2 1 | cut -d ' ' -f 1)"
is 'whatever the number of ranks and nodes' "$(program 32 8 8)" "$(program 16 8 8)"

# ---- going on: the number of ranks may change, the order of sums may not ----
run=$scratch/kept
go() { # go RANKS STEPS OPTION...; resume: goes on
	"$ZEROTH" train -n "$1" ${resume:+--resume auto} "$ZR_SRCDIR/tests/lib/matrix.ini" -o data.path="$scratch/text" -o run.dir="$run" -o train.steps="$2" \
		-o train.eval_every=0 -o device.threads=1 -o checkpoint.every=2 "${eight[@]}" -o train.gradient_clipping=0 "${@:3}" \
		> "$scratch/out" 2>&1
	digest_or_end "$scratch/out"
}
whole=$(go 1 4 $(of 4))
rm -rf "$run"
go 4 2 $(of 4) > /dev/null
is 'I1, I6: a run of four ranks goes on with one, whose tree takes four micro-batches' "$(resume=yes go 1 4 $(of 4))" "$whole"
rm -rf "$run"
go 2 2 $(of 4) > /dev/null
resume=yes go 2 4 $(of 2) > /dev/null
like 'I7: going on with another order of sums says so' "$(tr '\n' ' ' < "$scratch/out")" 'train\.sum_group'

# ---- refusals ----
refused() { like "I7: $1" "$(digest fp32 fp32 none none none stage0 "$2" keep auto auto 1 "${eight[@]}" "${@:4}")" "$3"; }
refused 'no power of two' 2 'sum_group = 3: it must be a power of two' $(of 3)
refused 'more than the micro-batches of a step' 2 'sum_group = 16: it must divide the number of all micro-batches of a step, 8' $(of 16)
refused 'neither divides the ranks nor they it' 3 'sum_group = 2: it must divide the number of ranks, 3, or be a multiple' $(of 2) \
	-o train.train_batch_size=12
refused 'sums of each rank first' 2 'sum_group = 2: reduction = local adds in another order' $(of 2) -o train.reduction=local

# ---- the plan ----
plan() { # plan RANKS OPTION...: bytes of partial sums
	"$ZEROTH" plan -n "$1" "$ZR_SRCDIR/tests/lib/matrix.ini" -o data.path="$scratch/text" "${eight[@]}" --json "${@:2}" |
		grep -oE '"partial sums": *[0-9]+' | grep -oE '[0-9]+$'
}
is 'I2: a rank alone keeps three partial sums for trees of eight' "$(plan 1 $(of 8))" "$((3 * $(plan 1 $(of 2))))"
is 'I2: as many ranks as leaves keep none' "$(plan 8 $(of 8))" ''

done_testing
