#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# [model] store: the frozen maps of a base in codes of 4 and 8 bits. Adapters learn beside it what
# PEFT's learn beside what bitsandbytes made of the same weights; one digest over ranks, stages,
# tiers, recomputation and resumes (I1); what makes no sense is refused.
. "$ZR_SRCDIR/tests/lib/tap.sh" || exit 99
. "$ZR_SRCDIR/tests/lib/fixture.sh" || exit 99
golden=$(cd "$ZR_SRCDIR" && pwd)/tests/golden
cd "$scratch" || exit 99

{ peft_ini; printf '[model]\nstore = nf4\n'; } > plain.ini
{ cat plain.ini; printf '[adapter]\nplugin = lora\n'; } > base.ini

# ---- PEFT and bitsandbytes as the oracle ----
# near FILE FILE: the largest difference between the numbers in two files; none: more than 2e-6
near() {
	paste "$1" "$2" | awk '{ d = $1 - $2; d = d < 0 ? -d : d; most = d > most ? d : most }
		END { if (NR != 20 || !(most <= 2e-6)) print NR " lines, " most }'
}
for model in gpt2 llama qwen2 mixtral qwen3-moe; do
	adapters=$golden/adapters/$model
	trained base.ini -o model.path="$golden/pretrained/$model" \
		-o adapter.path="$adapters" > digest
	like "$model: it trains" "$(cat digest)" '^digest'
	grep -o '"loss":[^,]*' run/metrics.jsonl | cut -d : -f 2 > losses
	is "$model: twenty losses are PEFT's on NF4" "$(near losses "$adapters/nf4.txt")" ''
done

# ---- the same bits ----
use_disk
build devcomm
ways() {
	same 'accumulation on two ranks' -n 2
	same 'stage3 on four ranks' -n 4 -o zero.plugin=stage3 -o zero.persistence_threshold=0
	[ $type = fp32 ] || same 'parameters on disk' -n 2 -o zero.plugin=stage3 \
		-o offload.param.plugin=nvme -o offload.param.path=disk
	same 'a device that only copies reach' -n 2 -o zero.plugin=stage3 -o device.memory=48M \
		-o device.plugin="$cards"
	same 'a comm of device memory' -n 2 -o zero.plugin=stage3 -o device.memory=48M \
		-o device.plugin="$cards" -o comm.plugin="$scratch/devcomm.so" -o comm.host.plugin=local \
		-o comm.host.plugin=local
	same 'everything on disk, recomputed' -n 2 -o zero.plugin=stage3 "${disk[@]}" \
		-o activation.plugin=recompute
	same 'embeddings whole' -n 2 -o zero.plugin=stage3 -o zero.persistence_threshold=0 \
		-o zero.persistent="$embedding"
	same 'shares in the node' -n 4 -o zero.plugin=hpz
	same 'stage1' -n 2 -o zero.plugin=stage1
}
for model in gpt2 llama; do
	case $model in
	gpt2) embedding='wte*' ;;
	llama) embedding='model.embed* lm_*' ;;
	esac
	for type in fp32 bf16 fp16; do
		for store in nf4 int8; do
			common=(-o "model.path=$golden/pretrained/$model"
				-o "precision.plugin=$type" -o "model.store=$store"
				-o train.train_batch_size=8 -o train.steps=4
				-o adapter.r=3 -o adapter.dropout=0.1 -o adapter.targets=all-linear)
			same() {
				one_in 5 && is "I1 $model, $type, $store: $1" \
					"$(trained base.ini "${common[@]}" "${@:2}")" "$want"
			}
			want=$(trained base.ini "${common[@]}")
			like "$model, $type, $store: it trains" "$want" '^digest'
			[ -z "$ZR_SANITIZE" ] || [ $model$type$store = gpt2fp32nf4 ] || continue
			case $model-$type-$store in
			gpt2-fp32-nf4 | llama-bf16-int8) ways ;;
			*) same 'two ranks' -n 2 -o zero.plugin=stage3 ;;
			esac
		done
	done
done
common=(-o "model.path=$golden/pretrained/llama" -o adapter.targets=all-linear)
want=$(trained base.ini "${common[@]}" -o train.steps=3)
for order in 1 2 3; do
	one_in 5 && is "I1 instructions in another order: $order" \
		"$(ZEROTH=$ZR_BUILDDIR/tests/doubles/shuffled SHUFFLE=$order \
		trained base.ini "${common[@]}" -o train.steps=3 -n 2 \
		-o zero.plugin=stage$order)" "$want"
done
bases=$(for store in auto bf16 int8 nf4; do
	trained base.ini "${common[@]}" -o model.store=$store -o train.steps=2
done | sort -u | wc -l)
is 'each store gives another base' "$bases" 4
is 'bf16 beside bf16 is the precision itself' \
	"$(trained base.ini "${common[@]}" -o model.store=bf16 -o precision.plugin=bf16)" \
	"$(trained base.ini "${common[@]}" -o model.store=auto -o precision.plugin=bf16)"
is 'without adapters: [train] freeze' \
	"$(trained plain.ini -o "model.path=$golden/pretrained/llama" \
		-o train.freeze='*_proj.weight' -n 2 -o zero.plugin=stage3)" \
	"$(trained plain.ini -o "model.path=$golden/pretrained/llama" \
		-o train.freeze='*_proj.weight')"

# ---- what a run leaves ----
want=$(trained base.ini "${common[@]}" -n 2 -o zero.plugin=stage3 -o checkpoint.every=10)
mv run/checkpoints/step-00000010 half
one_in 5 && is 'I1 a resume' "$(trained base.ini "${common[@]}" --resume half)" "$want"
like 'a run evaluates' \
	"$("$ZEROTH" eval run -o data.val_path="$golden/pretrained/tokens.bin" 2>&1)" \
	'^  digest '
ok 'and samples' "$ZEROTH" sample -n 4 run
rm -rf store8
like 'I7 another store does not go on' \
	"$(trained base.ini "${common[@]}" -o model.store=int8 --resume half)" \
	'in \[model\] path it is not what it was, or \[model\] store is another'

trained plain.ini "${common[@]:0:2}" -o train.freeze='*_proj.weight' -o precision.plugin=bf16 \
	-o checkpoint.every=20 >digest
"$ZEROTH" checkpoint export run saved >log 2>&1
rm -rf run/checkpoints
"$ZEROTH" checkpoint export run ended >>log 2>&1
ok 'the export of the end of a run is that of its checkpoint' \
	cmp saved/model.safetensors ended/model.safetensors

# ---- what is refused ----
refused() { # NAME TEXT OPTION...
	like "$1" "$(trained base.ini "${@:3}")" "$2"
}
refused 'a type that is none' 'auto, bf16, int8, nf4' "${common[@]}" -o model.store=fp4
like 'I7 nothing frozen is refused' \
	"$(trained plain.ini -o "model.path=$golden/pretrained/llama")" \
	'\[model\] store: no linear map of the model is frozen'
refused 'saving all' '\[checkpoint\] save = all is not for \[model\] store: take it out$' \
	"${common[@]}" -o checkpoint.save=all
is 'without adapters, too, what is frozen is left out' \
	"$(trained plain.ini "${common[@]:0:2}" -o train.freeze='*_proj.weight' >digest
	sed -n 's/^save = \([a-z]*\).*/\1/p' run/config.ini)" trainable
refused 'a base that is drawn' 'store needs \[model\] path' -o model.plugin=llama \
	-o model.layers=1 -o model.heads=2 -o model.width=32 -o model.context=32 \
	-o model.vocabulary=64
done_testing
