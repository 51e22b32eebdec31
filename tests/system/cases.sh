#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The case studies of conf/: each fits the card that it is for, by its plan, and without what makes
# it fit it does not; a small model runs with the settings of each.
. "$ZR_SRCDIR/tests/lib/tap.sh" || exit 99
. "$ZR_SRCDIR/tests/lib/fixture.sh" || exit 99
src=$(cd "$ZR_SRCDIR" && pwd)
golden=$src/tests/golden/pretrained
cd "$scratch" || exit 99
head -c 100000 /dev/zero > tokens

# planned CASE MEMORY [argument]...: the exit code of a plan for a card of so much memory
planned() {
	"$ZEROTH" plan "$src/conf/$1.ini" -o data.path=tokens -o data.format=uint16 \
		-o "device.memory=$2" --memory 256G "${@:3}" > plan 2>&1
	echo $?
}
is 'LoRA on 8 B: 24 GB' "$(planned llama3-8b-lora 24G)" 0
is 'and not 16 GB' "$(planned llama3-8b-lora 16G)" 3
is 'QLoRA on 8 B: 12 GB' "$(planned llama3-8b-qlora 12G)" 0
like 'the plan says what is stored' "$(cat plan)" 'stored in nf4: 6979321856 of them, 4.5 bits each'
is 'and not with the base in bf16' "$(planned llama3-8b-qlora 12G -o model.store=auto)" 3
# what two cards of 24 GB lend beside their contexts
is 'QLoRA on 70 B: two of 24 GB' "$(planned llama3-70b-qlora 23G -n 2)" 0
is 'and not one' "$(planned llama3-70b-qlora 24G)" 3

# received STORE [argument]...: bytes of a step of 70 B from the other rank, with the base kept so
received() {
	"$ZEROTH" plan "$src/conf/llama3-70b-qlora.ini" -n 2 -o data.path=tokens -o data.format=uint16 \
		-o device.memory=200G --memory 1T --card H100 --no-compare --json \
		-o "model.store=$1" "${@:2}" | sed -nE 's/^ *"received_bytes": ([0-9]+).*/\1/p'
}
nf4=$(received nf4) bf16=$(received auto)
ok "a base in 4 bits moves at most 0.30 of the bytes ($nf4 of $bf16)" test $((nf4 * 100)) -le $((bf16 * 30))

# Of 1.3 B embeddings and head are a larger part.
few=(-o model.layers=24 -o model.heads=16 -o model.kv_heads=16 -o model.width=2048
	-o model.ffn_width=5504 -o model.vocabulary=32000)
whole=(-o 'zero.persistent=model.embed* lm_*')
nf4=$(received nf4 "${few[@]}" "${whole[@]}") bf16=$(received auto "${few[@]}")
ok "so does one of 1.3 B with whole embeddings ($nf4 of $bf16)" \
	test $((nf4 * 100)) -le $((bf16 * 30)) -a "$nf4" -gt 1000000000
bf16=$(received auto "${few[@]}" "${whole[@]}")
ok "also beside bf16 with whole embeddings ($nf4 of $bf16)" test $((nf4 * 100)) -le $((bf16 * 30))

is 'QLoRA on a mixture of 30 B: 40 GB' "$(planned qwen3-30b-a3b-qlora 40G)" 0
is 'and not with the base in bf16' "$(planned qwen3-30b-a3b-qlora 40G -o model.store=auto)" 3
is 'all of 13 B: 32 GB' "$(planned llama2-13b 32G)" 0
is 'and not with half of its host memory' "$(planned llama2-13b 32G --memory 128G)" 3
is 'all of 8 B: 80 GB' "$(planned llama3-8b 80G)" 0
is 'and not with moments of fp32' "$(planned llama3-8b 80G -o optimizer.states=fp32)" 3

# Without a card all of it is in the memory of the machine.
cat > base.ini <<'END'
[train]
micro_batch_size = 1
[model]
plugin = gpt2
layers = 24
width = 2048
heads = 16
context = 128
vocabulary = 50257
store = nf4
[adapter]
plugin = lora
targets = all-linear
[data]
plugin = tokens
path = tokens
format = uint16
[precision]
plugin = bf16
[activation]
plugin = recompute
END
# in_memory [argument]...: the exit code of a plan for 1.2 GB of memory
in_memory() {
	"$ZEROTH" plan base.ini --memory 1144M --no-compare "$@" > plan 2>&1
	echo $?
}
is 'QLoRA on 1.3 B: 1.2 GB of memory' "$(in_memory)" 0
is 'and not with the base in bf16' "$(in_memory -o model.store=auto)" 3

# small CASE [argument]...: two steps of a small model with its settings
small() {
	trained "$src/conf/$1.ini" -o model.preset= -o "model.path=$golden/llama" -o train.steps=2 \
		-o data.path=tokens -o data.format=uint16 -o train.sequence_length=13 \
		-o train.eval_every=0 -o device.plugin="$cards" -o device.memory=64M "${@:2}"
}
shape=(-o model.layers= -o model.heads= -o model.kv_heads= -o model.width= -o model.ffn_width=
	-o model.context= -o model.vocabulary= -o model.rope_theta=)
like 'LoRA runs' "$(small llama3-8b-lora -o adapter.r=2)" '^digest'
like 'QLoRA runs' "$(small llama3-8b-qlora -o adapter.r=2)" '^digest'
like 'QLoRA on two cards runs' \
	"$(small llama3-70b-qlora -n 2 -o adapter.r=2 "${shape[@]}")" '^digest'
like 'QLoRA on a mixture runs' \
	"$(small qwen3-30b-a3b-qlora -o "model.path=$golden/qwen3-moe" -o adapter.r=2)" '^digest'
like 'a full fine-tune with the host runs' "$(small llama2-13b)" '^digest'
like 'a full fine-tune with moments of 8 bits runs' "$(small llama3-8b)" '^digest'
done_testing
