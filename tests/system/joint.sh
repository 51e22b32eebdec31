#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Weights that lie one behind the other, of q, k and v or of gate and up, are one operand of a product. How many operations
# that saves, and what keeps them apart; I1 over stages, ranks, recomputation, slices, tiers and frozen layers.
. "$ZR_SRCDIR/tests/lib/tap.sh" || exit 99
. "$ZR_SRCDIR/tests/lib/fixture.sh" || exit 99

cd "$scratch" || exit 99
tiny text 2 12 2 < /dev/null
sed -e 's/^plugin = gpt2/plugin = llama/' -e 's/^heads = 2/heads = 4\nkv_heads = 2\nffn_width = 192/' -e 's/^width = 32/width = 64/' \
	-e 's/^context = 32/context = 64/' tiny.ini > llama.ini
sed -e 's/^plugin = llama/plugin = qwen3\nhead_dim = 16/' llama.ini > qwen3.ini

# operations INI OPTION...: how many a run of two steps enqueues, of one micro-batch each
operations() {
	rm -f count.0
	ZR_CARD_COUNT=$scratch/count trained "$1" -o device.memory=64M -o device.plugin="$cards" -o train.eval_every=0 \
		-o train.train_batch_size=1 -o precision.plugin=bf16 "${@:2}" > digest
	cut -d ' ' -f 1 count.0
}
# saves NAME N INI OPTION...: so many operations fewer than where gate does not end with a block, nor queries: shapes of the same
# tensors
saves() {
	local joint
	joint=$(operations "${@:3}")
	like "$1: it trains" "$(cat digest)" '^digest: losses=[0-9a-f]{16} params=[0-9a-f]{16}$'
	is "$1: operations saved in two steps" $(($(operations "${@:3}" -o model.ffn_width=190 -o model.width=72) - joint)) "$2"
}

# ---- how many operations ----

# Of two blocks, in two steps: of q, k and v two products in the forward, two of gradients w.r.t. weights, two of those w.r.t.
# inputs, and a cast; of gate and up one each, and a cast.
qkv=$((2 * 2 * 7)) gates=$((2 * 2 * 4))
saves 'q, k, v and gate, up' $((qkv + gates)) llama.ini
saves 'gate does not end with a block' $qkv llama.ini -o model.ffn_width=190
saves 'queries do not end with a block' $gates llama.ini -o model.width=72 -o model.ffn_width=256
saves 'biases are added to each' $gates llama.ini -o model.qkv_bias=yes
saves 'biases of gate and up, too' 0 llama.ini -o model.qkv_bias=yes -o model.mlp_bias=yes
saves 'queries and keys have norms' $gates qwen3.ini
saves 'a map of both' 0 llama.ini -o model.plugin=phi3
saves 'products in 8 bits' 0 llama.ini -o precision.products=fp8
saves 'a part of a unit is frozen' 0 llama.ini -o train.freeze='*.k_proj.weight'
saves 'whole units are frozen' $((2 * (7 + 4) + 2 * 3)) llama.ini -o train.freeze='model.embed* model.layers.0.*'
saves 'adapters look at each weight' 0 llama.ini -o adapter.plugin=lora
saves 'two evaluations' $((qkv + gates + 2 * 2 * 3)) llama.ini -o train.eval_every=2 -o train.eval_batches=1

# ---- the same bits ----

build devcomm
use_disk
# same NAME OPTION...: as one rank
same() { is "I1 $1" "$(trained "$ini" "${common[@]}" "${@:2}")" "$want"; }
for p in fp32 bf16 fp16; do
	[ $p = bf16 ] || [ -z "$ZR_SANITIZE" ] || continue
	for ini in llama.ini qwen3.ini; do
		common=(-o precision.plugin=$p)
		want=$(trained $ini "${common[@]}")
		like "$p, $ini: it trains" "$want" '^digest: losses=[0-9a-f]{16} params=[0-9a-f]{16}$'
		for stage in stage1 stage2 stage3 hpz; do
			same "$p, $ini: $stage, two ranks" -n 2 -o zero.plugin=$stage
		done
		same "$p, $ini: stage3, three ranks" -n 3 -o zero.plugin=stage3 -o zero.persistence_threshold=0
		same "$p, $ini: computed again" -n 2 -o zero.plugin=stage3 -o activation.plugin=recompute
		same "$p, $ini: everything on disk" -n 2 -o zero.plugin=stage3 "${disk[@]}" -o activation.plugin=recompute
		same "$p, $ini: a device that only copies reach, in graphs" -n 2 -o zero.plugin=stage2 -o device.memory=64M \
			-o device.plugin="$cards" -o device.graphs=yes
		same "$p, $ini: ... and a comm of its memory" -n 2 -o zero.plugin=stage3 -o device.memory=64M -o device.plugin="$cards" \
			-o comm.plugin="$scratch/devcomm.so" -o comm.host.plugin=local
	done
done
ini=llama.ini
for frozen in 'model.layers.0.*' '*.k_proj.weight' '*.up_proj.weight'; do
	common=(-o precision.plugin=bf16 -o train.freeze="$frozen")
	want=$(trained llama.ini "${common[@]}")
	like "$frozen is frozen: it trains" "$want" '^digest: losses=[0-9a-f]{16} params=[0-9a-f]{16}$'
	same "$frozen is frozen: stage3, three ranks" -n 3 -o zero.plugin=stage3 -o zero.persistence_threshold=0
	same "$frozen is frozen: stage1, computed again" -n 2 -o zero.plugin=stage1 -o activation.plugin=recompute
done
common=(-o precision.plugin=bf16 -o train.slices=4)
want=$(trained llama.ini "${common[@]}")
like 'slices: they train' "$want" '^digest: losses=[0-9a-f]{16} params=[0-9a-f]{16}$'
for how in heads keys; do
	same "slices: $how, two ranks" -n 2 -o train.sequence_ranks=2 -o train.sequence=$how
	same "slices: $how, stage3, four ranks, computed again" -n 4 -o train.sequence_ranks=2 -o train.sequence=$how \
		-o zero.plugin=stage3 -o activation.plugin=recompute
done

done_testing
