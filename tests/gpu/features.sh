# SPDX-License-Identifier: Apache-2.0
#
# features.sh - part of tests/gpu/run: the phase `features`, what models, adapters, stores and optimizers add to the operations:
# trainings of tiny models beside device/cpu's and PEFT's losses, and I1 over ranks and tiers.

# A training on both devices, and on the GPU once more, split: on two ranks in stage 3, all of it on the host.
both() { # both NAME RUN LIMIT ARGUMENT...
	local name=$1 run=$2 limit=$3 digest
	shift 3
	enough "$name" 10 || return
	cpu_beside_device "$name beside device/cpu" "$run" "$limit" "$@"
	expects "$name on two ranks, on the host" "$digest" "$run-2" "$@" "${on_device[@]}" -n 2 -o zero.plugin=stage3 \
		-o zero.persistence_threshold=0 -o offload.optimizer.plugin=cpu -o offload.param.plugin=cpu
}

# Losses beside numbers of a file.
losses_of() { # losses_of NAME RUN FILE LIMIT ARGUMENT...
	local name=$1 run=$2 file=$3 limit=$4
	shift 4
	enough "$name" 5 || return
	train "$run" "$@" "${on_device[@]}" >/dev/null
	mkdir -p "$work/run/$run-want"
	sed 's/.*/{"loss":&,}/' "$file" >"$work/run/$run-want/metrics.jsonl"
	near "$name" "$run" "$run-want" "$limit"
}

# An optimizer of tests/ or bench/ built here as an author would.
author() { # author SOURCE: prints the path of its plugin
	local so=$work/run/$(basename "$1" .c).so
	cc -std=gnu11 -O2 -shared -fPIC -Iinclude -o "$so" "$1" 2>"$so.log" && echo "$so"
}

features() {
	local golden=$root/tests/golden model store p o so want conf=$work/run/features.ini few
	peft_ini >"$conf"
	for model in "$golden"/pretrained/*/; do
		model=$(basename "$model")
		for p in fp32 bf16; do
			beside both "$model, $p" "f-$model-$p" "$([ $p = fp32 ] && echo 2e-3 || echo 1e-1)" "$conf" -o train.steps=6 \
				-o model.path="$golden/pretrained/$model" -o precision.plugin=$p
		done
	done
	wait
	for model in gpt2 llama qwen2 mixtral qwen3-moe; do
		few=("$conf" -o model.path="$golden/pretrained/$model" -o adapter.plugin=lora -o adapter.path="$golden/adapters/$model")
		beside losses_of "adapters of $model: PEFT's losses" "f-peft-$model" "$golden/adapters/$model/losses.txt" 2e-4 "${few[@]}"
		beside losses_of "adapters of $model on nf4: PEFT's losses" "f-peft-nf4-$model" "$golden/adapters/$model/nf4.txt" 2e-4 \
			"${few[@]}" -o model.store=nf4
		for store in nf4 int8; do
			beside both "adapters of $model on $store, bf16" "f-$store-$model" 1e-1 "${few[@]}" -o model.store=$store \
				-o precision.plugin=bf16
		done
	done
	wait
	few=(tests/lib/matrix.ini -o data.path="$text" -o train.train_batch_size=4 -o model.dropout=0 -o train.eval_every=0
		-o optimizer.lr=1e-3)
	for o in adam adamw adagrad lamb lion sgd; do
		beside both "optimizer $o, bf16" "f-$o" 1e-1 "${few[@]}" -o precision.plugin=bf16 -o optimizer.plugin=$o
	done
	for o in adamw lion; do
		beside both "optimizer $o in 8 bits, bf16" "f-$o-8bit" 1e-1 "${few[@]}" -o precision.plugin=bf16 \
			-o optimizer.plugin=$o -o optimizer.states=8bit
	done
	beside both 'optimizer muon beside adamw, bf16' f-muon 1e-1 "${few[@]}" -o precision.plugin=bf16 -o optimizer.plugin=adamw \
		-o optimizer.matrices.plugin=muon -o 'optimizer.matrices.match=*.c_fc.weight *.c_proj.weight' -o optimizer.matrices.lr=0.02
	beside both 'adamw with masters in two halves' f-split 1e-1 "${few[@]}" -o precision.plugin=bf16 -o precision.master=split
	beside both 'adamw in 8 bits with masters of 24 bits' f-split24 1e-1 "${few[@]}" -o precision.plugin=bf16 -o precision.master=split24 \
		-o optimizer.plugin=adamw -o optimizer.states=8bit
	wait
	for p in fp32 bf16; do
		want=$(train "f-own-$p" "${few[@]}" -o precision.plugin=$p "${on_device[@]}" -o optimizer.weight_decay=0.1)
		so=$(author bench/ew_adamw.c) && expects "an author's adamw has adamw's bits, $p" "$want" "f-author-$p" "${few[@]}" \
			-o precision.plugin=$p "${on_device[@]}" -o optimizer.weight_decay=0.1 -o optimizer.plugin="$so"
	done
	for o in lion signum ademamix; do
		so=$(author tests/examples/$o.c) && beside both "an author's $o" "f-own-$o" 1e-1 "${few[@]}" -o optimizer.plugin="$so" \
			-o precision.plugin=bf16
	done
	wait
}
