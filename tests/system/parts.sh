#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# I1: a gradient in parts is the gradient: [train] gradient_part_size over tiers, ranks, stages,
# types and models, in the order of the program and in others; and the memory that it saves.
. "$ZR_SRCDIR/tests/lib/tap.sh" || exit 99
. "$ZR_SRCDIR/tests/lib/tiers.sh"

more=(-o model.vocabulary=1000)
parts=(-o train.gradient_part_size=6000)

# same NAME PRECISION "RUN..." OPTION...: as those of digest from [offload.optimizer] to the threads
same() {
	local name=$1 precision=$2 run=$3 want got
	one_in 5 || return
	shift 3
	want=$(digest "$precision" fp32 none none none stage0 1 keep auto auto 1 "${more[@]}" "$@")
	# shellcheck disable=SC2086 # several words
	got=$(digest "$precision" fp32 $run "${more[@]}" "${parts[@]}" "$@")
	case $want in digest:*) is "I1 $name: $run" "$got" "$want" ;; *) fail "I1 $name" "$want" ;; esac
}
same fp32 fp32 'cpu cpu none stage0 1 keep tiny auto 1'
same fp32 fp32 'nvme nvme nvme stage3 2 recompute auto 5 2'
same fp32 fp32 'cpu nvme none stage1 3 offload tiny 5 1'
same bf16 bf16 'nvme nvme none stage2 1 recompute tiny 5 1'
same fp16 fp16 'cpu cpu cpu mics 6 keep auto auto 1'
same 'sums in bf16' fp32 'nvme nvme none hpz 2 keep tiny auto 2' -o train.communication_data_type=bf16
same 'updates in the backward' fp32 'nvme nvme none stage3 2 keep auto auto 1' \
	-o train.gradient_clipping=0 -o zero.update_in_backward=yes -o train.train_batch_size=2
same 'a frozen norm' fp32 'nvme nvme none stage3 1 keep auto auto 2' -o train.freeze=ln_f.weight

# another model, its head a matrix of its own
mkdir -p "$scratch/src/tests/lib"
sed 's/plugin = gpt2/plugin = llama/; /^dropout/d' "$ZR_SRCDIR/tests/lib/matrix.ini" \
	> "$scratch/src/tests/lib/matrix.ini"
root=$ZR_SRCDIR ZR_SRCDIR=$scratch/src
same llama fp32 'cpu cpu none stage1 2 keep tiny auto 1' -o model.tied=yes
same 'llama, a head of its own' bf16 'nvme nvme nvme stage3 1 keep auto 5 1' -o model.tied=no
ZR_SRCDIR=$root

# in other orders
zeroth=$ZEROTH
want=$(digest fp32 fp32 none none none stage0 1 keep auto auto 1 "${more[@]}")
ZEROTH=$ZR_BUILDDIR/tests/doubles/shuffled
export SHUFFLE
for SHUFFLE in 1 2 3 4; do
	one_in 5 && is "I1 in another order: $SHUFFLE" "$(digest fp32 fp32 nvme nvme none stage3 $((1 + SHUFFLE % 2)) \
		keep tiny 5 1 "${more[@]}" "${parts[@]}")" "$want"
done
ZEROTH=$zeroth

# what it is for
ini=(tests/lib/matrix.ini -o data.path="$scratch/text" -o zero.plugin=stage3 -o model.vocabulary=50000)
disk=(-o offload.gradient.plugin=nvme -o offload.gradient.path="$scratch/disk")
plan() { (cd "$ZR_SRCDIR" && "$ZEROTH" plan "${ini[@]}" "$@" 2>&1); }
bytes() { plan --json "$@" | sed -nE 's/^ *"gradient buffers": ([0-9]+).*/\1/p'; }
whole=$(bytes "${disk[@]}" -o train.gradient_part_size=0)
some=$(bytes "${disk[@]}" -o train.gradient_part_size=100000)
ok "buffers of $whole bytes become $some" test "$whole" -gt 9600000 -a "$some" -lt 1600000
like 'the parts are in the plan' "$(plan "${disk[@]}" -o train.gradient_part_size=100000)" \
	'^disk +parts of gradients +9\.[0-9] MiB'

# I7
like 'without a place for the parts' "$(plan "${parts[@]}")" \
	'\[train\] gradient_part_size: it does nothing here: .* needs \[offload\.gradient\]'
like 'with sums of each rank' "$(plan -n 2 "${disk[@]}" "${parts[@]}" -o train.reduction=local \
	-o train.gradient_accumulation_steps=2)" 'gradient_part_size: .* is not for reduction = local'
done_testing
