#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# I1, I6: three steps, a checkpoint, and three steps in another process have the digest of six, whatever stage, ranks,
# tiers, activation policy, threads and master format wrote it and whatever goes on from it. fp16 is caught between two
# overflows: steps 1 and 2 are skipped. `make check` runs a pairwise choice, MATRIX=full (`make check-matrix`) every stage,
# world and tier after every other, with the rest in turn.
. "$ZR_SRCDIR/tests/lib/tap.sh" || exit 99
. "$ZR_SRCDIR/tests/lib/fixture.sh" || exit 99
. "$ZR_SRCDIR/tests/lib/pairwise.sh"

for i in $(seq 1 4000); do echo "line $i of a text that is long enough to learn a little from"; done > "$scratch/text"
mkdir "$scratch/disk"

# "precision | stage world tier of the first half | of the second | activation threads async master" for each run. The
# last four are combined with all others only for the pairwise choice.
product() {
	awk -v full="$MATRIX" '
	function ranks(stage, w) { return stages[stage] == "mics" && w == 3 ? 6 : worlds[w] } # three nodes of two
	BEGIN {
		split("fp32 bf16 fp16", precisions); split("stage0 stage1 stage2 stage3 hpz mics", stages); split("none cpu nvme", tiers)
		split("1 2 3", worlds); split("keep recompute", acts); split("no yes", asyncs); split("fp32 split", masters)
		for (p = 1; p <= 3; p++)
		for (z = 1; z <= 6; z++) for (w = 1; w <= 3; w++) for (t = 1; t <= 3; t++)
		for (y = 1; y <= 6; y++) for (v = 1; v <= 3; v++) for (u = 1; u <= 3; u++) {
			turn++
			for (i = 0; i < 16; i++) {
				if (full == "full" ? i != turn % 16 : (turn * 7 + i * 5) % 61 > 0) continue
				print precisions[p], stages[z], ranks(z, w), tiers[t], stages[y], ranks(y, v), tiers[u], acts[1 + i % 2],
					1 + int(i / 2) % 2, asyncs[1 + int(i / 4) % 2], masters[1 + int(i / 8) % 2]
			}
		}
	}'
}

# train DIR WORLD PRECISION STAGE TIER MASTER OPTION...: its output in $scratch/out
train() {
	local dir=$1 world=$2 precision=$3 stage=$4 tier=$5 master=$6 options=()
	shift 6
	[ "$precision" != bf16 ] || options+=(-o precision.master="$master")
	[ "$precision" != fp16 ] || options+=(-o precision.initial_scale_power=21 -o precision.loss_scale_window=2)
	[ "$tier" = none ] || options+=(-o device.memory=32M -o offload.optimizer.plugin="$tier")
	[ "$tier" != nvme ] || options+=(-o offload.optimizer.path="$scratch/disk")
	case $stage in stage3 | hpz | mics) options+=(-o zero.persistence_threshold=0) ;; esac
	[ "$stage$world" != mics6 ] || options+=(-o boot.ranks_per_node=2)
	"$ZEROTH" train -n "$world" "$ZR_SRCDIR/tests/lib/matrix.ini" -o data.path="$scratch/text" -o run.dir="$dir" \
		-o train.train_batch_size=6 -o precision.plugin="$precision" -o zero.plugin="$stage" "${options[@]}" "$@" \
		> "$scratch/out" 2>&1
}
# Of the run in DIR: its digests, and the last loss on the held-out text.
result() { echo "$(digest_or_end "$scratch/out") $(grep -o '"last_val_loss": [0-9.e-]*' "$1/summary.json" 2>/dev/null)"; }

declare -A want saved
for p in fp32 bf16 fp16; do
	train "$scratch/$p" 1 $p stage0 none fp32 -o train.steps=6
	want[$p]=$(result "$scratch/$p")
	like "$p: six steps without a break" "${want[$p]}" '^digest: losses=[0-9a-f]{16} params=[0-9a-f]{16} "last_val_loss": '
done
like "fp16: the first half ends between overflows" "$(cat "$scratch/fp16/summary.json")" '"skipped": [2-5],'

runs=0
while read -r p z w t y v u act threads async master <&3; do
	from="$p.$z.$w.$t.$async.$([ $p = bf16 ] && echo $master)"
	if [ -z "${saved[$from]}" ]; then
		train "$scratch/$from" "$w" "$p" "$z" "$t" "$master" -o train.steps=3 -o checkpoint.every=3 -o checkpoint.async="$async" ||
			note "$(tail -n 2 "$scratch/out")"
		saved[$from]=1
	fi
	rm -rf "${scratch:?}/run"
	other=$([ "$master" = fp32 ] && echo split || echo fp32)
	train "$scratch/run" "$v" "$p" "$y" "$u" "$other" --resume "$scratch/$from" -o train.steps=6 -o activation.plugin="$act" \
		-o device.threads="$threads" || note "$(tail -n 2 "$scratch/out")"
	is "I1, I6 $p: $z, $w ranks, $t tier, async $async, then $y, $v ranks, $u tier, $act, $threads threads" \
		"$(result "$scratch/run")" "${want[$p]}"
	runs=$((runs + 1))
done 3< <(product | { if [ "$MATRIX" = full ]; then cat; else pairwise; fi; })
note "$runs runs"
is 'I2, I5: nothing is left on disk' "$(find "$scratch/disk" -mindepth 1)" ''

# A master of 16 bits is its compute copy, rounded by element: a family of its own.
train "$scratch/none" 1 bf16 stage0 none none -o train.steps=6
one=$(result "$scratch/none")
like 'master = none trains to other bits' "$([ "$one" != "${want[bf16]}" ] && echo "$one")" '^digest: '
train "$scratch/none2" 2 bf16 stage2 nvme none -o train.steps=3 -o checkpoint.every=3
rm -rf "${scratch:?}/run"
train "$scratch/run" 3 bf16 stage3 cpu none --resume "$scratch/none2" -o train.steps=6
is 'I1, I6 master = none: on disk, 2 ranks, then on the host, 3 ranks' "$(result "$scratch/run")" "$one"

# Groups with optimizers of their own.
groups=(-o optimizer.vectors.match='*.bias *ln_*' -o optimizer.vectors.plugin=lion -o optimizer.vectors.lr=1e-4
	-o optimizer.wte.match=wte.weight -o optimizer.wte.plugin=sgd -o optimizer.wte.momentum=0.9 -o optimizer.wte.lr=0.1)
train "$scratch/groups" 1 fp32 stage0 none fp32 "${groups[@]}" -o train.steps=6
one=$(result "$scratch/groups")
like 'groups train to other bits' "$([ "$one" != "${want[fp32]}" ] && echo "$one")" '^digest: '
train "$scratch/groups3" 3 fp32 stage1 nvme fp32 "${groups[@]}" -o train.steps=3 -o checkpoint.every=3
rm -rf "${scratch:?}/run"
train "$scratch/run" 2 fp32 stage3 none fp32 --resume "$scratch/groups3" "${groups[@]}" -o train.steps=6
is 'I1, I6 three optimizers: on disk, 3 ranks, then 2 ranks' "$(result "$scratch/run")" "$one"

# Optimizers that look at whole matrices and whole tensors; in fp16 the break is between two skipped steps.
for rest in adamw lamb; do
	for p in fp32 fp16; do
		one_in 5 || continue
		groups=(-o optimizer.plugin=$rest -o optimizer.matrices.match='h.*.attn.*.weight h.*.mlp.*.weight' -o optimizer.matrices.plugin=muon)
		train "$scratch/m.$rest.$p" 1 $p stage0 none fp32 "${groups[@]}" -o train.steps=6
		one=$(result "$scratch/m.$rest.$p")
		like "$p, muon and $rest: six steps" "$([ "$one" != "${want[$p]}" ] && echo "$one")" '^digest: '
		train "$scratch/m2.$rest.$p" 2 $p stage2 cpu fp32 "${groups[@]}" -o train.steps=3 -o checkpoint.every=3 -o checkpoint.async=yes
		rm -rf "${scratch:?}/run"
		train "$scratch/run" 3 $p stage3 nvme fp32 --resume "$scratch/m2.$rest.$p" "${groups[@]}" -o train.steps=6
		is "I1, I6 $p, muon and $rest: on the host, 2 ranks, then on disk, 3 ranks" "$(result "$scratch/run")" "$one"
	done
done

# More than one break, saved while training goes on.
rm -rf "${scratch:?}/run"
for last in 2 3 5 6; do
	train "$scratch/run" $((last % 3 + 1)) fp32 stage2 none fp32 --resume auto -o train.steps=$last -o checkpoint.every=1 \
		-o checkpoint.async=yes -o checkpoint.keep=2
done
is 'I1, I6: three breaks in one run directory' "$(result "$scratch/run")" "${want[fp32]}"
is 'keep = 2 keeps the newest two' "$(ls "$scratch/run/checkpoints" | tr '\n' ' ')" 'latest step-00000005 step-00000006 '
is 'metrics continue' "$(grep -o '"step":[0-9]*' "$scratch/run/metrics.jsonl" | tr -dc '0-9\n' | tr '\n' ' ')" '1 2 3 4 5 6 '
done_testing
