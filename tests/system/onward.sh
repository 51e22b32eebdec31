#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# An update inside the next forward, [train] update_in_forward: I1, the bits of an update of its own, over stages, ranks,
# tiers, activations, pieces, buffers, optimizers; what looks at weights between two steps; where it is chosen; what it orders.
. "$ZR_SRCDIR/tests/lib/tap.sh" || exit 99
. "$ZR_SRCDIR/tests/lib/fixture.sh" || exit 99
. "$ZR_SRCDIR/tests/lib/pairwise.sh"
. "$ZR_SRCDIR/tests/lib/tiers.sh"

after=(-o train.update_in_forward=no)
within=(-o train.update_in_forward=yes)

declare -A want
for p in fp32 bf16 fp16; do
	want[$p]=$(digest $p fp32 none none none stage0 1 keep auto auto 1 "${after[@]}")
	like "$p: updates of their own train" "${want[$p]}" '^digest: losses=[0-9a-f]{16} params=[0-9a-f]{16}$'
done

tried=("${within[@]}") plain=("${after[@]}")
product > "$scratch/choices"
everywhere "$scratch/choices"

# One micro-batch a rank: the program within which the update runs is the last one of its step, too.
once 'fp32, 1 rank, state on disk' 1 fp32 fp32 nvme none none stage0
once 'bf16, 1 rank, all on disk' 1 bf16 split nvme nvme nvme stage3
once 'bf16, 2 ranks, state on disk' 2 bf16 split nvme none none stage3
once 'fp16, 3 ranks, state on disk, parameters on the host' 3 fp16 fp32 nvme none cpu stage3
once 'fp32, 2 ranks, parameters split over nodes' 2 fp32 fp32 nvme none none hpz

# Other optimizers, models and ways to train.
same() { # same NAME OPTION...
	is "I1 $1" "$(digest fp32 fp32 nvme none none stage2 2 keep tiny auto 1 "${within[@]}" "${@:2}")" \
		"$(digest fp32 fp32 none none none stage0 1 keep auto auto 1 "${after[@]}" "${@:2}")"
}
same 'sums over parameters' -o optimizer.plugin=lamb
same 'whole matrices' -o optimizer.m.plugin=muon -o 'optimizer.m.match=h.*.mlp.*.weight'
same 'frozen tensors' -o 'train.freeze=h.0.* wpe*'
same 'gradients as trees' -o train.sum_group=2
same 'local sums' -o train.train_batch_size=2 -o train.reduction=local
same 'an evaluation after each step' -o train.eval_every=1 -o train.eval_batches=1
same 'a save after each step' -o checkpoint.every=1
same 'a save after each step that goes on into the next' -o checkpoint.every=1 -o checkpoint.async=yes
is 'nothing is left on disk' "$(find "$scratch/disk" -mindepth 1)" ''

# What a run leaves after any step is what it leaves without: a checkpoint goes on to the same bits.
train() { digest fp32 fp32 nvme none none stage2 2 keep tiny auto 1 "$@"; }
whole=$(train "${after[@]}" -o train.steps=4)
train "${within[@]}" -o train.steps=4 -o checkpoint.every=2 -o checkpoint.dir="$scratch/saved" > /dev/null
rm -rf "$scratch/saved/step-00000004" "$scratch/saved/latest"
saved=$(find "$scratch/saved" -maxdepth 1 -name 'step-*2')
ok 'a checkpoint between two steps is there' test -d "$saved"
is 'I6: it goes on to the same bits' "$(rm -rf "$scratch/run2"; "$ZEROTH" train -n 2 --resume "$saved" "$scratch/run/config.ini" \
	-o train.update_in_forward=no -o checkpoint.every=0 -o run.dir="$scratch/run2" 2>&1 | tail -n 1 | sed 's/losses=[0-9a-f]*//')" "$(sed 's/losses=[0-9a-f]*//' <<<"$whole")"

# Where it is chosen, and what it orders.
plan() {
	"$ZEROTH" plan --program "$ZR_SRCDIR/tests/lib/matrix.ini" -o data.path="$scratch/text" -o model.layers=8 \
		-o train.train_batch_size=2 "$@" | sed -n '/^program update, first micro/,/^program eval/p'
}
disk=(-o offload.optimizer.plugin=nvme -o offload.optimizer.path="$scratch/disk")
chosen() { # chosen NAME COUNT OPTION...
	is "$1" "$(plan "${@:3}" | grep -c 'layer  *forward of layer h\.0 ')" "$2"
}
chosen 'in memory it changes nothing, and is not chosen' 0
chosen 'with states on disk it is' 1 "${disk[@]}"
chosen 'not where they are to stay apart' 0 "${disk[@]}" "${after[@]}"
chosen 'not with updates in the backward' 0 "${disk[@]}" "${within[@]}" -o train.gradient_clipping=0 -o zero.update_in_backward=yes
program=$(plan "${disk[@]}")
like 'block 3 is updated behind the forward of block 2' "$(sed -n '/forward of layer h\.2 /,/forward of layer h\.3 /p' <<<"$program")" \
	'optimize +update \(unit h\.3\)'
is 'no update is left for the backward' "$(sed '1,/backward of layer/d' <<<"$program" | grep -c optimize)" 0
like 'learning rates of the next step follow the last update' "$(sed '1,/optimize  *update (unit ln_f)/d' <<<"$program")" 'call +learning rates'
like 'the first states are there before the update begins: read beside the backward before' \
	"$("$ZEROTH" plan --program "$ZR_SRCDIR/tests/lib/matrix.ini" -o data.path="$scratch/text" -o model.layers=8 \
		-o train.train_batch_size=2 "${disk[@]}" | sed -n '/^program last micro/,/^program boundary/p' | sed '1,/backward of layer h\.5 /d')" \
	'store +read .*< optimizer state'

# What needs more memory than there is is refused with the way out.
room() { "$ZEROTH" plan --json --no-compare "$ZR_SRCDIR/tests/lib/matrix.ini" -o data.path="$scratch/text" -o model.layers=8 \
	-o model.width=192 -o train.train_batch_size=2 "${disk[@]}" "$@"; }
most=$(room | sed -n '/"total": {/,/}/s/.*"host": *\([0-9]*\).*/\1/p')
like 'too little memory for its buffers: what to do' "$(room -o memory.host=$((most - 100000)) 2>&1)" \
	'does not fit: .*set \[train\] update_in_forward = no, which takes fewer buffers'
ok 'which helps' room -o memory.host=$((most - 100000)) "${after[@]}"

# A failure belongs to the step whose update it is, wherever that runs.
build latedisk
writes() { # writes OPTION...: the last line of a training of two steps
	rm -rf "$scratch/failed"
	"$ZEROTH" train "$ZR_SRCDIR/tests/lib/matrix.ini" -o data.path="$scratch/text" -o run.dir="$scratch/failed" -o train.steps=2 \
		-o offload.optimizer.plugin="$scratch/latedisk.so" -o train.train_batch_size=1 -o train.eval_every=0 -o zero.sub_group_size=2048 "$@" 2>&1 | tail -n 1
}
LATEDISK_SAY=$scratch/said writes -o train.steps=1 > /dev/null
read -r all left < "$scratch/said"
failing() { # failing NAME OPTION...
	like "$1" "$(LATEDISK_FAIL=$((all - 40)) writes "${@:2}")" 'write [0-9]+ failed; rank 0, step 1, wait for the update '
}
failing 'an update that fails names its step' "${after[@]}"
failing 'also within the next step' "${within[@]}"
failing 'also before an evaluation' "${within[@]}" -o train.eval_every=1 -o train.eval_batches=1
done_testing
