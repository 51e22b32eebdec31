#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Mixtures of experts, from directories that transformers wrote (golden/make_pretrained.py; tests/unit/pretrained compares
# them with its numbers): one digest over threads, ranks, stages, tiers, recomputation, buckets and a resume (I1), with the
# losses of balance and of the router's logits and
# their value; routing at its limits; sampling by a cache; export; what is refused (I7).
. "$ZR_SRCDIR/tests/lib/tap.sh" || exit 99

cd "$scratch" || exit 99
golden=$(cd "$ZR_SRCDIR" && pwd)/tests/golden/pretrained
cat > a.ini <<END
[data]
plugin = tokens
path = $golden/tokens.bin
format = uint16
[train]
sequence_length = 13
steps = 3
train_batch_size = 4
micro_batch_size = 1
eval_every = 0
[optimizer]
plugin = adamw
lr = 1e-2
END
train() { # train RUN OPTION...
	local dir=$1
	shift
	"$ZEROTH" train a.ini -o run.dir="$dir" "$@" > "$dir.out" 2> "$dir.err" || cat "$dir.err"
}
digest() { tail -n 1 "$1.out"; }
aux() { grep -o '"aux_loss":[^,]*' "$1/metrics.jsonl" | tr '\n' ' '; }
same() { is "I1: $1" "$(digest "$2")" "$(digest "$3")"; }

mkdir store
disk=(-o offload.optimizer.plugin=nvme -o offload.optimizer.path=store
	-o offload.param.plugin=nvme -o offload.param.path=store)
losses=(-o model.router_aux_loss_coef=0.1 -o model.router_z_loss_coef=0.01)
for f in mixtral qwen3-moe olmoe; do
	from=(-o model.path="$golden/$f" "${losses[@]}")
	train "$f" "${from[@]}"
	like "$f trains" "$(digest "$f")" '^digest: '
	train "$f.split" "${from[@]}" -n 2 -o zero.plugin=stage3 -o activation.plugin=recompute
	same "$f split by two ranks, activations computed again" "$f.split" "$f"
	train "$f.disk" "${from[@]}" -o zero.plugin=stage3 "${disk[@]}"
	same "$f on disk" "$f.disk" "$f"
	train "$f.part" "${from[@]}" -o train.steps=2 -o checkpoint.every=2
	train "$f.on" "${from[@]}" -n 2 -o zero.plugin=stage2 --resume "$f.part"
	same "$f goes on from step 2 with two ranks" "$f.on" "$f"
	is "I1: $f: the losses of the routers, too" \
		"$(aux "$f.split") $(aux "$f.disk")" "$(aux "$f") $(aux "$f")"
done
from=(-o model.path="$golden/mixtral" "${losses[@]}")
train threads "${from[@]}" -o device.threads=3
same "threads" threads mixtral
train four "${from[@]}" -n 4 -o zero.plugin=stage1
same "four ranks, stage 1" four mixtral
train kept "${from[@]}" -n 2 -o zero.plugin=stage3 -o activation.plugin=offload -o activation.keep=1 -o device.memory=64M -o device.plugin="$cards"
same "a device of its own, activations fetched back" kept mixtral
train plain -o model.path="$golden/mixtral"
is "without these losses there is no value of them" "$(aux plain)" ''
like "with them there is one for each step" "$(aux mixtral)" '^("aux_loss":[0-9.]+ ){3}$'
ok "the losses of the router change what is learned" test "$(digest plain)" != "$(digest mixtral)"

# ---- rows that fill a sequence up ----
# most PADDED FILE: the largest difference between losses of the run and of a golden file, if over 2e-6
most() {
	grep -oE '"(loss|aux_loss)":[^,]*' "$1/metrics.jsonl" | cut -d : -f 2 | paste - - | paste - "$2" |
		awk 'function far(a, b) { return a > b ? a - b : b - a }
			{ for (i = 1; i < 3; i++) if (far($i, $(i + 2)) > most) most = far($i, $(i + 2)) }
			END { if (NR != 10 || !(most <= 2e-6)) print NR " steps, " most }'
}
for f in mixtral qwen3-moe olmoe; do
	for length in 13 24; do
		train padded -o model.path="$golden/$f" -o model.router_aux_loss_coef=0.3 \
			-o data.path="$golden/../padding/one.tok" -o data.format=auto -o train.steps=10 \
			-o train.train_batch_size=1 -o train.gradient_clipping=0 -o optimizer.eps=1e-3 \
			-o optimizer.weight_decay=0.01 \
			-o train.sequence_length=$length
		is "$f: padding to $length rows: the losses of transformers, which masks it" \
			"$(most padded "$golden/../padding/$f.txt")" ''
		rm -rf padded
	done
done

# ---- what config.json says of them ----
cp -r "$golden/mixtral" balanced
sed 's/"output_router_logits": false/"output_router_logits": true/
	s/"router_aux_loss_coef": [0-9.]*/"router_aux_loss_coef": 0.3/' \
	"$golden/mixtral/config.json" > balanced/config.json
train balanced1 -o model.path=balanced
train balanced2 -o model.path="$golden/mixtral" -o model.router_aux_loss_coef=0.3
is 'output_router_logits adds the loss of balance' "$(digest balanced1)" "$(digest balanced2)"
train balanced3 -o model.path=balanced -o model.router_aux_loss_coef=0
is 'the INI counts before it' "$(digest balanced3)" "$(digest plain)"

# ---- routing at its limits, in bf16 ----
new=(-o model.plugin=mixtral -o model.layers=2 -o model.heads=2 -o model.width=16 -o model.ffn_width=24
	-o model.context=16 -o model.vocabulary=61 -o precision.plugin=bf16)
for shape in '1 1' '4 4' '200 1'; do
	few=(-o model.experts="${shape% *}" -o model.experts_per_token="${shape#* }")
	train "one.${shape/ /.}" "${new[@]}" "${few[@]}"
	like "${shape/ /, } of them each trains" "$(digest "one.${shape/ /.}")" '^digest: '
	train "two.${shape/ /.}" "${new[@]}" "${few[@]}" -n 2 -o zero.plugin=stage3 -o activation.plugin=recompute
	same "${shape/ /, }: split" "two.${shape/ /.}" "one.${shape/ /.}"
done

# ---- adapters of experts, on a base in 4 bits ----
tune=(-o model.path="$golden/mixtral" -o model.store=nf4 -o adapter.plugin=lora -o adapter.r=2
	-o adapter.dropout=0.1)
for type in fp32 bf16; do
	how=(-o precision.plugin=$type)
	train "lora.$type" "${tune[@]}" "${how[@]}"
	like "$type: adapters of experts train" "$(digest "lora.$type")" '^digest: '
	train "lora2.$type" "${tune[@]}" "${how[@]}" -n 2 -o zero.plugin=stage3 \
		-o activation.plugin=recompute
	same "$type: adapters of experts, split, computed again" "lora2.$type" "lora.$type"
	train "lora3.$type" "${tune[@]}" "${how[@]}" -o zero.plugin=stage3 -o device.threads=3 \
		"${disk[@]:0:4}"
	same "$type: adapters of experts, threads, states on disk" "lora3.$type" "lora.$type"
done
tune+=(-o adapter.dropout=0)
train home1 "${tune[@]}"
train home2 "${tune[@]}" -n 2 -o zero.plugin=stage3 -o zero.expert_ranks=2
same "adapters of experts that ranks divide" home2 home1
refused() { like "I7: $1" "$("$ZEROTH" plan a.ini "${tune[@]}" "${@:3}" 2>&1)" "$2"; }
refused 'adapters of one expert alone' 'experts.1 is not adapted as .*experts.0 is: experts of' \
	-o adapter.targets=experts.0.w1
refused 'another rank of one expert' 'experts.2 is not adapted as .*experts.0 is: experts of' \
	-o adapter.rank_pattern=experts.2.w2:1

# ---- the rest of a model's life ----
train kept4 "${new[@]}" -o model.experts=4 -o model.experts_per_token=2 -o checkpoint.every=3
"$ZEROTH" checkpoint export kept4 out > export.out 2>&1
is "it is exported" "$?" 0
train again -o model.path=out -o precision.plugin=bf16 -o optimizer.lr=0 -o optimizer.weight_decay=0
is "and read again" "$(digest again | grep -o 'params=.*')" "$(digest kept4 | grep -o 'params=.*')"
"$ZEROTH" plan a.ini "${new[@]}" -o model.experts=4 -o model.experts_per_token=2 > plan.out 2>&1
is "it is planned" "$?" 0
# 4372 units: more than a collective of comm/local takes.
for bucket in auto 5e8; do
	train "units-$bucket" -n 2 "${new[@]}" -o model.layers=17 -o model.heads=1 -o model.kv_heads=1 -o model.width=8 \
		-o model.ffn_width=8 -o model.experts=256 -o model.experts_per_token=1 -o train.steps=1 -o zero.plugin=stage2 \
		-o zero.reduce_bucket_size=$bucket -o zero.allgather_bucket_size=$bucket
done
like "thousands of units in one bucket" "$(digest units-5e8)" '^digest: losses='
is "I1: thousands of units in one bucket" "$(digest units-5e8)" "$(digest units-auto)"
like "I7: more experts of a token than there are" "$("$ZEROTH" config check a.ini "${new[@]}" -o model.experts=2 \
	-o model.experts_per_token=3 2>&1)" 'experts_per_token = 3 is more than experts = 2'
like "I7: no experts" "$("$ZEROTH" config check a.ini "${new[@]}" 2>&1)" 'experts is not set: give it, or choose a preset'
done_testing
