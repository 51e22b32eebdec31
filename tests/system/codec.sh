#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Gradients and parameters that ranks send each other as MXINT8 ([train] communication_data_type and gather_data_type): one
# digest (I1) in every stage, number of ranks, comm, tier and device, wherever updates are; bytes of the plan; refusals.
. "$ZR_SRCDIR/tests/lib/tap.sh" || exit 99
. "$ZR_SRCDIR/tests/lib/tiers.sh"

gradients=(-o train.communication_data_type=mxint8) parameters=(-o train.gather_data_type=mxint8)
codes=("${gradients[@]}" "${parameters[@]}")
one=(bf16 fp32 none none none stage0 1 keep auto auto 1)
# wanted NAME OPTION...: sets `want`, the digest of one rank in the first stage
wanted() {
	want=$(digest "${one[@]}" "${codes[@]}" "${@:2}")
	like "$1" "$want" '^digest: losses=[0-9a-f]{16} params=[0-9a-f]{16}$'
}
plain=$(digest "${one[@]}")
wanted 'a training with codes'
ok 'codes of both change what is learned' test "$want" != "$plain" -a "$(digest "${one[@]}" "${gradients[@]}")" != "$want"

# coded NAME OPTIMIZER GRADIENT PARAMETERS STAGE WORLD ACTIVATION PIECES BUFFERS THREADS OPTION...
coded() { is "I1 $1: same bits" "$(digest bf16 fp32 "${@:2:9}" "${codes[@]}" "${@:11}")" "$want"; }
tcp=(-o comm.plugin=tcp)
coded 'ranks that read each other' none none none stage3 2 keep auto auto 2
coded 'stage1 over a network' none none none stage1 2 keep tiny auto 2 "${tcp[@]}"
coded 'stage2 over a network' none none none stage2 3 recompute auto auto 1 "${tcp[@]}"
coded 'stage3 over a network' none none none stage3 6 keep auto auto 1 "${tcp[@]}"
coded 'hpz, three nodes' none none none hpz 6 keep tiny auto 2 "${tcp[@]}" -o boot.ranks_per_node=2
coded 'mics, three nodes' none none none mics 6 keep auto auto 1 "${tcp[@]}"
coded 'parameters in host memory' cpu none cpu stage3 2 keep auto auto 1 "${tcp[@]}"
coded 'all on disk' nvme nvme nvme stage3 3 offload tiny 5 2 "${tcp[@]}"
coded 'one rank, all on disk' nvme nvme nvme stage3 1 keep auto 5 1
coded 'ranks that read each other, on disk' nvme none nvme stage3 2 keep tiny auto 2

# Where nothing is clipped, units may be updated in the backward.
free=(-o train.gradient_clipping=0 -o zero.update_in_backward)
wanted 'without clipping' "${free[@]}"=no
coded 'updates in the backward' none none none stage3 2 keep auto auto 1 "${tcp[@]}" "${free[@]}"=yes

# Whole matrices; ranks that share sequences.
muon=(-o 'optimizer.m.match=h.*.attn.*.weight' -o optimizer.m.plugin=muon)
wanted 'with matrices' "${muon[@]}"
coded 'matrices that ranks own' none none none stage3 3 keep auto auto 1 "${tcp[@]}" "${muon[@]}"
coded 'matrices on disk' nvme none none stage1 2 keep tiny auto 1 "${tcp[@]}" "${muon[@]}"
codes=("${parameters[@]}")
wanted 'parameters alone, in slices' -o train.slices=4
coded 'ranks that share sequences' none none none stage3 6 keep auto auto 1 "${tcp[@]}" -o train.slices=4 -o train.sequence_ranks=2
codes=("${gradients[@]}" "${parameters[@]}")

# What goes on elsewhere: 2 steps of one rank, the third one of three.
small=(train "$ZR_SRCDIR/tests/lib/matrix.ini" "${data[@]}" -o precision.plugin=bf16 -o train.train_batch_size=6 -o train.eval_every=0
	"${codes[@]}" -o run.dir="$scratch/on")
digest_of() { timeout 100 "$ZEROTH" "${small[@]}" "$@" 2>&1 | tail -n 1; }
want=$(digest_of)
rm -rf "$scratch/on"
digest_of -o train.steps=2 -o checkpoint.every=2 > "$scratch/first"
is 'I1, I6 resumed by other ranks: same weights' \
	"$(digest_of -n 3 -o zero.plugin=stage3 "${tcp[@]}" --resume auto | sed 's/.* //')" "${want##* }"

# The plan has the bytes: 2112 for a block of 2048 elements. Gradients in bf16 and parameters have 4096.
received() {
	"$ZEROTH" plan --scale 2 "$ZR_SRCDIR/tests/lib/matrix.ini" "${data[@]}" "${tcp[@]}" -o precision.plugin=bf16 -o model.width=768 \
		--json "$@" |
		grep -o '"received_bytes": [0-9]*' | sed 's/.* //'
}
for stage in stage1 stage2 stage3; do
	half=$(received "${codes[@]}" -o zero.plugin=$stage) whole=$(received -o train.communication_data_type=bf16 -o zero.plugin=$stage)
	ok "I2 $stage: $half bytes where bf16 receives $whole" \
		awk "BEGIN { r = $half / $whole * 4096 / 2112; exit !($whole > 0 && r > 0.999 && r < 1.02) }"
done
program=$("$ZEROTH" plan -n 2 "$ZR_SRCDIR/tests/lib/matrix.ini" "${data[@]}" "${tcp[@]}" -o precision.plugin=bf16 --program \
	-o zero.plugin=stage3 -o zero.persistence_threshold=0 "${codes[@]}")
for what in 'encode +gather' 'decode +gather' 'encode +reduce' 'encode +update' 'decode +update'; do
	ok "the program has ${what/ +/ of a }" grep -qE "$what" <<< "$program"
done

refused() { like "$1 is refused" "$(digest "${one[@]}" "${@:3}")" "$2"; }
refused 'codes of gradients and trees' 'communication_data_type = mxint8: sums of a sum_group have no codes: set it to 1, or take bf16$' \
	"${gradients[@]}" -o train.sum_group=2
refused 'codes of gradients and slices' 'communication_data_type = mxint8: gradients of slices have no codes: set slices = 1' \
	"${gradients[@]}" -o train.slices=2
refused 'codes of gradients and parts' 'have no codes: set gradient_part_size = 0' "${gradients[@]}" -o train.gradient_part_size=4096
refused 'masters of the rounded copy' 'gather_data_type = mxint8: masters must not be made of the rounded copy: set .* master = fp32' \
	"${parameters[@]}" -o precision.master=split
like 'parameters in fp32 are refused' "$(digest fp32 "${one[@]:1}" "${parameters[@]}")" \
	'gather_data_type = mxint8: it rounds parameters in bf16, and \[precision\] fp32 has none: take plugin = bf16, or auto$'
done_testing
