#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# I1, same bits wherever things lie: one digest per precision over the tiers of optimizer state, gradients and parameters,
# stage, ranks, activation policy, pieces and buffers of the update, threads, and what is kept of the master. Device memory
# is limited and, with one rank, cannot be read outside operations, so that what lies elsewhere really does. `make check`
# runs a pairwise choice, MATRIX=full (`make check-matrix`) everything, with pieces, buffers and threads in turn.
. "$ZR_SRCDIR/tests/lib/tap.sh" || exit 99
. "$ZR_SRCDIR/tests/lib/fixture.sh" || exit 99
. "$ZR_SRCDIR/tests/lib/pairwise.sh"

. "$ZR_SRCDIR/tests/lib/tiers.sh"

declare -A want
for p in fp32 bf16 fp16; do
	want[$p]=$(rm -rf "${scratch:?}/run"; "$ZEROTH" train "$ZR_SRCDIR/tests/lib/matrix.ini" -o data.path="$scratch/text" \
		-o run.dir="$scratch/run" -o train.train_batch_size=6 -o train.eval_every=0 -o model.layers=3 -o precision.plugin=$p 2>&1 | tail -n 1)
	like "$p: everything in one memory trains" "${want[$p]}" '^digest: losses=[0-9a-f]{16} params=[0-9a-f]{16}$'
done

tried=()
product > "$scratch/choices"
everywhere "$scratch/choices"
note "$runs runs"

# Stochastic rounding draws by element: a family of its own.
one=$(digest bf16 none none none none stage0 1 keep auto auto 1)
like 'master = none trains to other bits' "$([ "$one" != "${want[bf16]}" ] && echo "$one")" '^digest: losses=[0-9a-f]{16} '
one_in 5 && is 'I1 master = none: in pieces on disk, 3 ranks' "$(digest bf16 none nvme nvme nvme stage3 3 keep tiny 5 2)" "$one"
one_in 5 && is 'I1 master = none: on the host, 2 ranks' "$(digest bf16 none cpu none cpu hpz 2 recompute tiny auto 1)" "$one"
# A comm of device memory alone, with another one for what is on the host; see devcomm.c.
build devcomm
gpu="-o device.separate=yes -o comm.plugin=$scratch/devcomm.so -o comm.host.plugin=local"
one_in 5 && is 'I1 device comm: stage1, 3 ranks' "$(digest fp32 fp32 none none none stage1 3 keep auto auto 1 $gpu)" "${want[fp32]}"
one_in 5 && is 'I1 device comm: state on the host, hpz, 2 ranks' "$(digest bf16 split cpu cpu none hpz 2 recompute tiny 5 2 $gpu)" "${want[bf16]}"
matrices="-o optimizer.m.plugin=muon -o optimizer.m.match=h.*.mlp.*.weight"
one_in 5 && is 'I1 device comm: whole matrices on the host, hpz, 2 ranks' \
	"$(digest fp32 fp32 cpu none none hpz 2 keep tiny auto 1 $gpu $matrices)" \
	"$(digest fp32 fp32 none none none stage0 1 keep auto auto 1 $matrices)"
one_in 5 && is 'I1 device comm: all on the host, stage3, 3 ranks' "$(digest fp16 fp32 cpu none cpu stage3 3 offload tiny auto 1 $gpu)" "${want[fp16]}"
one_in 5 && is 'I1 device comm: all on disk, stage3, 2 ranks' "$(digest bf16 fp32 nvme nvme nvme stage3 2 keep tiny 5 1 $gpu)" "${want[bf16]}"
one_in 5 && is 'I1 device comm: parameters on disk, hpz, 2 ranks' "$(digest fp32 fp32 cpu none nvme hpz 2 keep auto auto 1 $gpu)" "${want[fp32]}"
unclipped='-o train.gradient_clipping=0'
one_in 5 && is 'I1 device comm: updates in the backward, state on the host, stage2, 2 ranks' "$(digest bf16 fp32 cpu none none stage2 2 keep tiny 5 1 \
	$gpu $unclipped -o zero.update_in_backward=yes)" "$(digest bf16 fp32 none none none stage0 1 keep auto auto 1 $unclipped)"
once='-o train.micro_batch_size=3' # and one sum for each rank, which comm adds
one_in 5 && is 'I1 device comm: gradients straight to their sums on the host, stage1, 2 ranks' "$(digest fp32 fp32 cpu none none stage1 2 keep auto 5 1 \
	$gpu $once)" "$(digest fp32 fp32 none none none stage0 1 keep auto auto 1 $once)"
one_in 5 && is 'I1 device comm: gradients straight to whole sums on the host, stage0, 2 ranks' "$(digest bf16 fp32 cpu cpu none stage0 2 keep tiny auto 1 \
	$gpu $once)" "$(digest bf16 fp32 none none none stage0 1 keep auto auto 1 $once)"
one_in 5 && is 'I1 separate device: parameters on disk, hpz, 1 rank' "$(digest fp32 fp32 nvme nvme nvme hpz 1 keep tiny auto 2)" "${want[fp32]}"
# Summed on each rank first: another family, in which comm adds what ranks send wherever homes do not read it in place.
local=(-o train.reduction=local)
one=$(digest fp32 fp32 none none none stage2 3 keep auto auto 2 "${local[@]}")
like 'summed locally: trains to other bits' "$([ "$one" != "${want[fp32]}" ] && echo "$one")" '^digest: losses=[0-9a-f]{16} '
one_in 5 && is 'I1 summed locally: whole states, separate device' "$(digest fp32 fp32 none none none stage0 3 keep tiny 5 2 -o device.separate=yes \
	"${local[@]}")" "$one"
one_in 5 && is 'I1 summed locally: all on disk, separate device' "$(digest fp32 fp32 nvme nvme nvme stage3 3 keep tiny auto 1 "${local[@]}")" "$one"
one_in 5 && is 'I1 summed locally: all on disk, a node per rank' "$(digest fp32 fp32 nvme nvme nvme hpz 3 keep tiny 5 2 -o boot.ranks_per_node=1 \
	"${local[@]}")" "$one"
one_in 5 && is 'I1 summed locally: all on disk, device comm' "$(digest fp32 fp32 nvme nvme nvme stage3 3 keep tiny auto 1 $gpu "${local[@]}")" "$one"
one_in 5 && is 'I1 summed locally: state on the host, device comm' "$(digest fp32 fp32 cpu none none stage1 3 keep auto 5 2 $gpu "${local[@]}")" "$one"
like 'a device comm for a device without memory of its own' "$(digest fp32 fp32 none none none stage1 2 keep auto auto 2 \
	-o comm.plugin="$scratch/devcomm.so")" 'zeroth: .*it moves memory of GPUs, and this device has none'
like 'a device comm that has no other beside it' "$(digest fp32 fp32 none none none stage1 2 keep auto auto 2 \
	-o device.separate=yes -o comm.plugin="$scratch/devcomm.so")" 'zeroth: .*it moves memory of GPUs alone: add a section \[comm.host\]'
# A unit that host memory for communication holds only in several messages: of each rank the part that
# belongs to it is copied.
for type in fp32 bf16; do
	wide=(-o model.vocabulary=60000 -o train.steps=2 -o device.memory=128M
		-o "train.communication_data_type=$type")
	whole=$(digest fp32 fp32 none none none stage0 1 keep auto auto 1 "${wide[@]}")
	like "a large unit trains, $type" "$whole" '^digest:'
	one_in 5 && is "I1 separate device: a unit in several messages, $type" \
		"$(digest fp32 fp32 cpu none none stage3 2 keep auto 5 1 "${wide[@]}")" "$whole"
done
# Somebody writes into the file that holds the optimizer's state: the run ends and names it.
damage() {
	local file
	while sleep 0.05; do
		file=$(find "$scratch/disk" -name '*-state.obj' | head -n 1)
		# nocreat: a file that the run has removed by now would keep its directory
		[ -z "$file" ] || dd if=/dev/urandom of="$file" bs=64 count=1 seek=$((RANDOM % 64)) \
			conv=notrunc,nocreat status=none 2>/dev/null
	done
}
damage &
damaging=$!
said=$(timeout 60 "$ZEROTH" train "$ZR_SRCDIR/tests/lib/matrix.ini" -o data.path="$scratch/text" -o run.dir="$scratch/damaged" -o train.steps=1000000 \
	-o train.eval_every=0 -o zero.plugin=stage3 -o offload.optimizer.plugin=nvme -o offload.optimizer.path="$scratch/disk" 2>&1 >/dev/null)
code=$?
kill $damaging
wait $damaging 2>/dev/null
like 'I7: what a disk damages ends the run, with file, offset and what was read' "$code $(tail -n 1 <<<"$said")" "^4 zeroth: \[offload\.optimizer\] \
$scratch/disk/[^ ]*-state\.obj: the 4096 bytes at offset [0-9]+ are not what was written there \(checksum\): .*; rank 0, step [0-9]+, (wait for the )?update \(unit"
is 'I2, I5: nothing is left on disk' "$(find "$scratch/disk" -mindepth 1)" ''
done_testing
