#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# [precision] products = fp8: one digest (I1) over stages, ranks, tiers, devices, activations, slices, micro-batches, threads
# and resumes, of models of both ways to store a map, with adapters and with frozen parameters that are stored in codes; the
# bytes that the plan says (I2); evaluation and sampling; what is refused.
. "$ZR_SRCDIR/tests/lib/tap.sh" || exit 99
. "$ZR_SRCDIR/tests/lib/bytes.sh" || exit 99
. "$ZR_SRCDIR/tests/lib/fixture.sh" || exit 99
memory_scratch
cd "$scratch" || exit 99

. "$ZR_SRCDIR/tests/lib/digests.sh"
build anew
cp "$ZR_SRCDIR/tests/lib/matrix.ini" gpt2.ini
cat > llama.ini <<'INI'
[model]
plugin = llama
layers = 3
heads = 4
kv_heads = 2
width = 64
ffn_width = 96
context = 40
[data]
plugin = text
[train]
micro_batch_size = 1
steps = 3
INI
fp8=(-o precision.plugin=bf16 -o precision.products=fp8)
on() { digest "$1" "$2" "${fp8[@]}" "${@:3}"; }

# ---- what is learned ----
for model in gpt2 llama; do
	plain=$(digest $model 1 -o precision.plugin=bf16)
	one=$(on $model 1)
	like "$model: it trains" "$one" '^digest: losses=[0-9a-f]{16} params=[0-9a-f]{16}$'
	ok "$model: other bits than in bf16" test "$one" != "$plain"
	other=$(digest $model 1 -o precision.plugin=bf16 -o precision.products=fp8_e5m2_gradients)
	like "$model: gradients in E5M2" "$other" '^digest: losses='
	ok "$model: gradients in E5M2 are other ones" test "$one" != "$other"

	is "I1 $model: stage1 on 2 ranks" "$(on $model 2 -o zero.plugin=stage1)" "$one"
	one_in 4 && is "I1 $model: stage2 on 3 ranks, in pieces" "$(on $model 3 -o zero.plugin=stage2 "${pieces[@]}")" "$one"
	one_in 4 && is "I1 $model: stage3 on 3 ranks" "$(on $model 3 "${split[@]}")" "$one"
	one_in 4 && is "I1 $model: stage3 on 6 ranks over TCP" "$(on $model 6 "${split[@]}" -o comm.plugin=tcp)" "$one"
	one_in 4 && is "I1 $model: all on disk" "$(on $model 2 "${split[@]}" "${all[@]}")" "$one"
	one_in 4 && is "I1 $model: a device of its own" "$(on $model 2 "${split[@]}" "${apart[@]}")" "$one"
	is "I1 $model: one that rounds every operand anew" "$(on $model 1 -o device.memory=32M -o device.plugin="$scratch/anew.so")" "$one"
	one_in 4 && is "I1 $model: parameters in host memory beside it" \
		"$(on $model 2 "${split[@]}" "${apart[@]}" -o offload.param.plugin=cpu -o offload.optimizer.plugin=cpu)" "$one"
	one_in 4 && is "I1 $model: layers are computed again, the last one ends early" \
		"$(on $model 2 -o activation.plugin=recompute -o activation.last=recompute)" "$one"
	one_in 4 && is "I1 $model: 3 threads" "$(on $model 1 -o device.threads=3)" "$one"
	one_in 4 && is "I1 $model: 2 ranks with 2 threads" "$(on $model 2 "${split[@]}" -o device.threads=2)" "$one"
	train run $model 2 "${fp8[@]}" "${split[@]}" -o train.steps=2 -o checkpoint.every=2 -o checkpoint.dir="$PWD/saved.$model"
	train run2 $model 3 "${fp8[@]}" --resume "saved.$model/step-00000002" -o zero.plugin=stage1
	one_in 4 && is "I1 $model: going on with other ranks" "$(tail -n 1 run2.out)" "$one"
done

# ---- sequences in slices, which ranks share: an order of its own ----
sliced=(-o train.slices=4 -o model.context=64 -o train.sequence_length=64)
sed -i '/^dropout/d' gpt2.ini
for model in gpt2 llama; do
	one=$(on $model 1 "${sliced[@]}")
	like "$model: 4 slices train" "$one" '^digest: losses='
	one_in 2 && is "I1 $model: 2 ranks share a sequence" "$(on $model 2 "${sliced[@]}" -o train.sequence_ranks=2)" "$one"
	one_in 2 && is "I1 $model: by keys, in stage 3" "$(on $model 2 "${sliced[@]}" -o train.sequence_ranks=2 -o train.sequence=keys \
		"${split[@]}")" "$one"
done

# ---- adapters, frozen weights in codes, experts ----
lora=(-o adapter.plugin=lora -o adapter.r=4)
one=$(on llama 1 "${lora[@]}")
like 'adapters train' "$one" '^digest: losses='
ok 'adapters beside weights in bf16 learn something else' test "$one" != "$(digest llama 1 -o precision.plugin=bf16 "${lora[@]}")"
is 'I1 adapters: stage3 on 3 ranks' "$(on llama 3 "${lora[@]}" "${split[@]}")" "$one"
is 'I1 adapters: a device that rounds every operand anew' \
	"$(on llama 1 "${lora[@]}" -o device.memory=32M -o device.plugin="$scratch/anew.so")" "$one"
train base llama 1
codes=("${lora[@]}" -o model.path=base -o model.store=nf4)
one=$(on llama 1 "${codes[@]}")
like 'frozen weights in codes' "$one" '^digest: losses='
one_in 2 && is 'I1 codes: stage3 on 2 ranks' "$(on llama 2 "${codes[@]}" "${split[@]}")" "$one"
sed -e 's/plugin = llama/plugin = mixtral/' -e 's/^width/experts = 4\nexperts_per_token = 2\nwidth/' llama.ini > mixtral.ini
one=$(on mixtral 1)
like 'a mixture trains' "$one" '^digest: losses='
ok 'its attention is in 8 bits' test "$one" != "$(digest mixtral 1 -o precision.plugin=bf16)"
one_in 2 && is 'I1 a mixture: experts over 2 ranks' "$(on mixtral 2 -o zero.expert_ranks=2)" "$one"

# ---- evaluation and sampling ----
train base llama 1 "${fp8[@]}" -o train.eval_every=1 -o train.eval_batches=2
is 'I1: evaluation in 8 bits changes nothing' "$(tail -n 1 base.out)" "$(on llama 1)"
sampled() { "$ZEROTH" sample base -n 30 -t 1 -k 0 --seed 3 -p 'line 12' "$@" 2> sample.err; }
is 'a token is computed alone as among others' "$(sampled --no-cache)" "$(sampled)"

# ---- the plan (I2) ----
planned() { "$ZEROTH" plan --json --no-compare llama.ini -o data.path=text -o train.train_batch_size=6 -o train.eval_every=0 \
	-o device.threads=1 -o model.ffn_width=600 "$@"; }
ok 'I2: operands of 8 bits take work, which is planned' \
	test "$(planned "${fp8[@]}" | planned_bytes | tr -dc 0-9)" -gt "$(planned -o precision.plugin=bf16 | planned_bytes | tr -dc 0-9)"
train taken llama 1 "${fp8[@]}" -o model.ffn_width=600
is 'I2: it takes what was planned' "$(taken_bytes < taken/summary.json)" "$(planned "${fp8[@]}" | planned_bytes)"

# ---- refusals ----
refused() { # NAME PATTERN OPTION...
	"$ZEROTH" train llama.ini -o data.path=text -o run.dir=no "${@:3}" > no.out 2>&1
	is "$1: exit 2" $? 2
	like "$1" "$(cat no.out)" "$2"
}
refused 'a word that is none' 'products.*fp9.*bf16.*fp8' -o precision.plugin=bf16 -o precision.products=fp9
refused 'another precision' 'products' -o precision.plugin=fp16 -o precision.products=fp8
printf 'mixed_precision: fp8\n' > accelerate.yaml
like 'another program with other scales' "$("$ZEROTH" config import accelerate.yaml 2>&1)" 'mixed_precision.*products = fp8'
train first llama 1 "${fp8[@]}" -o train.steps=1 -o checkpoint.every=1
"$ZEROTH" train llama.ini -o data.path=text -o train.train_batch_size=6 -o train.eval_every=0 -o precision.plugin=bf16 \
	-o run.dir=first --resume auto > no.out 2>&1
like 'a resume with other products' "$(cat no.out)" 'products'
done_testing
