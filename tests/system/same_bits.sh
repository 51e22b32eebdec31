#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# I1, same bits: one digest over threads, evaluation, restarts, and what becomes of activations.
# Under sanitizers the last, and the other model, run in one precision each: the moves are the same.
. "$ZR_SRCDIR/tests/lib/tap.sh" || exit 99

for i in $(seq 1 4000); do echo "line $i of a text that is long enough to learn a little from"; done > "$scratch/text"

# digest EXTRA...: trains a tiny model and prints its digest line
digest() {
	"$ZEROTH" train -o model.plugin=gpt2 -o model.layers=2 -o model.heads=3 -o model.width=48 -o model.context=40 \
		-o data.plugin=text -o data.path="$scratch/text" -o run.dir="$(mktemp -u "$scratch/run.XXXXXX")" \
		-o train.micro_batch_size=3 -o train.steps=12 -o train.eval_every=0 "$@" "$scratch/empty.ini" \
		2> "$scratch/err" | tail -n 1
}
echo > "$scratch/empty.ini"

for precision in fp32 bf16 fp16; do
	set -- -o precision.plugin=$precision -o model.dropout=0.1 -o train.gradient_accumulation_steps=2
	one=$(digest "$@" -o device.threads=1)
	like "$precision: a digest is printed last" "$one" '^digest: losses=[0-9a-f]{16} params=[0-9a-f]{16}$'
	one_in 5 && is "I1 $precision: two runs in a row" "$(digest "$@" -o device.threads=1)" "$one"
	one_in 5 && is "I1 $precision: 2 threads as 1" "$(digest "$@" -o device.threads=2)" "$one"
	one_in 5 && is "I1 $precision: 3 threads as 1" "$(digest "$@" -o device.threads=3)" "$one"
	one_in 5 && is "I1 $precision: evaluation changes nothing" "$(digest "$@" -o train.eval_every=1 -o train.eval_batches=2)" "$one"
	other=$(digest "$@" -o train.seed=7)
	[ "$other" != "$one" ] && pass "$precision: another seed, other bits" || fail "$precision: another seed, other bits"
done
# What is dropped runs again with the same dropout, what waits elsewhere returns: per slot of 1 sequence, however slots are
# spread.
mkdir "$scratch/disk"
disk="-o offload.activation.plugin=nvme -o offload.activation.path=$scratch/disk"
host="-o offload.activation.plugin=cpu -o device.memory=32M"
for precision in $([ -z "$ZR_SANITIZE" ] && echo fp32 bf16) fp16; do
	set -- -o precision.plugin=$precision -o model.layers=6 -o model.dropout=0.1 -o train.micro_batch_size=1 \
		-o train.train_batch_size=4 -o train.steps=4
	one=$(digest "$@")
	like "$precision, 6 layers: trains" "$one" '^digest: losses='
	for run in "every=1 stage0 1" "every=1 stage3 2" "every=2 stage0 2" "every=3 stage3 1" "every=2 stage3 2" \
		"every=5 stage0 1" "max_bytes=400K stage3 2"; do
		read -r option stage ranks <<<"$run"
		one_in 5 && is "I1 $precision: recompute $option, $stage, $ranks ranks" "$(digest "$@" -n "$ranks" -o activation.plugin=recompute \
			-o activation.$option -o zero.plugin=$stage -o device.threads=1)" "$one"
	done
	one_in 5 && is "I1 $precision: the last layers are computed again, too" "$(digest "$@" -n 2 -o zero.plugin=stage3 -o device.threads=1 \
		-o activation.plugin=recompute -o activation.every=2 -o activation.last=recompute)" "$one"
	set -- "$@" -o device.threads=1 -o activation.plugin=offload
	one_in 5 && is "I1 $precision: activations on disk" "$(digest "$@" $disk)" "$one"
	one_in 5 && is "I1 $precision: activations on disk, stage3, 2 ranks" "$(digest "$@" -n 2 -o zero.plugin=stage3 $disk)" "$one"
	one_in 5 && is "I1 $precision: activations on the host" "$(digest "$@" $host -o device.plugin="$cards")" "$one"
	one_in 5 && is "I1 $precision: activations on the host without a section" "$(digest "$@" -o device.memory=32M)" "$one"
	one_in 5 && is "I1 $precision: activations on disk beside a separate device" "$(digest "$@" $disk -o device.memory=32M -o device.plugin="$cards" \
		-o activation.keep=1)" "$one"
	one_in 5 && is "I1 $precision: recompute every=2 from outputs on the host, stage3, 2 ranks" "$(digest "$@" -n 2 -o zero.plugin=stage3 $host \
		-o activation.plugin=recompute -o activation.every=2 -o activation.outputs=offload)" "$one"
done
# Another model: rotary positions, grouped keys and values with biases, the head tied or a unit of its own.
for precision in $([ -z "$ZR_SANITIZE" ] && echo fp32 fp16) bf16; do
	tied=yes
	[ $precision != bf16 ] || tied=no
	set -- -o precision.plugin=$precision -o model.plugin=llama -o model.layers=3 -o model.heads=4 -o model.kv_heads=2 \
		-o model.qkv_bias=yes -o model.tied=$tied -o train.micro_batch_size=1 -o train.train_batch_size=4 -o train.steps=4
	one=$(digest "$@" -o device.threads=1)
	like "llama, $precision: trains" "$one" '^digest: losses='
	one_in 5 && is "I1 llama, $precision: 3 threads" "$(digest "$@" -o device.threads=3)" "$one"
	one_in 5 && is "I1 llama, $precision: stage3, 2 ranks" "$(digest "$@" -n 2 -o zero.plugin=stage3 -o device.threads=1)" "$one"
	one_in 5 && is "I1 llama, $precision: recompute, stage2, 4 ranks" "$(digest "$@" -n 4 -o zero.plugin=stage2 -o device.threads=1 \
		-o activation.plugin=recompute -o activation.every=2)" "$one"
	one_in 5 && is "I1 llama, $precision: activations on the host beside a separate device" "$(digest "$@" -o activation.plugin=offload $host \
		-o device.plugin="$cards")" "$one"
done
is "I5: nothing is left on disk" "$(ls "$scratch/disk")" ""
for isa in scalar avx2 avx512 avx512bf16 amx; do
	one=$(digest -o device.isa=$isa -o device.threads=1)
	if [ -z "$one" ] && grep -q 'this machine lacks' "$scratch/err"; then
		skip "I1 $isa: 2 threads as 1" "not on this processor"
		continue
	fi
	one_in 5 && is "I1 $isa: 2 threads as 1" "$(digest -o device.isa=$isa -o device.threads=2)" "$one"
done
done_testing
