#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# model/llama as people meet it: trains, samples, and leaves a config.json and tensors that transformers takes for its own
# (golden/make_llama.py compares what they compute); what it cannot do is refused by name.
. "$ZR_SRCDIR/tests/lib/tap.sh" || exit 99

cd "$scratch" || exit 99
for i in $(seq 1 500); do echo "line $i of a text that is long enough to learn a little from"; done > text
cat > a.ini <<END
[model]
plugin = llama
layers = 2
heads = 4
kv_heads = 2
width = 32
context = 24
[data]
plugin = text
path = text
[train]
steps = 150
micro_batch_size = 4
eval_every = 0
[checkpoint]
every = 150
[optimizer]
plugin = adamw
lr = 1e-2
[optimizer.no_decay]
match = *norm.weight
weight_decay = 0
END

# after RUN OPTION...: trains and exports
after() {
	local run=$1
	shift
	"$ZEROTH" train a.ini -o run.dir="$run" "$@" > "$run.out" 2>&1 &&
		"$ZEROTH" checkpoint export "$run" "$run.hf" > "$run.export" 2>&1
}
config() { tr -d ' \n' < "$1.hf/config.json"; }
tensors() { grep -aoE '"(model|lm_head)[a-z0-9_.]*"' "$1.hf/model.safetensors" | tr -d '"' | sort; }

ok "trains and is exported" after plain
like "it learns" "$(grep '^loss ' plain.out)" '^loss +5\.[0-9]+ -> [01]\.'
for key in '"architectures":\["LlamaForCausalLM"\]' '"model_type":"llama"' '"num_key_value_heads":2' '"head_dim":8' \
	'"rms_norm_eps":1(\.0+1)?e-0?5' '"tie_word_embeddings":false' '"rope_theta":10000.0' '"hidden_act":"silu"'; do
	like "config.json has ${key%%:*}" "$(config plain)" "[{,]$key[,}]"
done
is "and no rope_scaling" "$(config plain | grep -c rope_scaling)" 0
is "the tensors are those of transformers" \
	"$(tensors plain | sed 's/layers\.[01]/layers.I/' | sort | uniq -c | sed 's/^ *//' | tr '\n' ';')" \
	"1 lm_head.weight;1 model.embed_tokens.weight;$(for n in input_layernorm mlp.down_proj mlp.gate_proj mlp.up_proj \
		post_attention_layernorm self_attn.k_proj self_attn.o_proj self_attn.q_proj self_attn.v_proj; do
		echo "$n"; done | sed 's/.*/2 model.layers.I.&.weight/' | tr '\n' ';')1 model.norm.weight;"
like "it samples what it learnt" "$("$ZEROTH" sample -t 0 -n 20 -p 'that is long en' plain)" '^that is long enough to learn'

ok "a tied head, scaled positions" after scaled -o model.tied=yes -o model.rope_scaling=llama3 -o model.rope_factor=4 \
	-o model.rope_original_context=12
like "rope_scaling is an object" "$(config scaled)" \
	'"rope_scaling":\{"rope_type":"llama3","factor":4.0,"original_max_position_embeddings":12,"low_freq_factor":1.0,'\
'"high_freq_factor":4.0\}'
like "numbers have no more digits than they need" "$(config scaled)" '"rms_norm_eps":1e-0?5,'
is "and the head no tensor" "$(tensors scaled | grep -c lm_head)" 0
ok "biases" after biased -o model.qkv_bias=yes
like "make it a Qwen2" "$(config biased)" '"architectures":\["Qwen2ForCausalLM"\],"model_type":"qwen2"'
is "with three a block" "$(tensors biased | grep -c 'self_attn\.[qkv]_proj\.bias')" 6

refused() { # refused TEXT OPTION...
	local text=$1
	shift
	err=$("$ZEROTH" config check a.ini "$@" 2>&1)
	is "refused: $*: exit 2" "$?" 2
	like "I7: $*" "$err" "$text"
}
refused 'model.rope_scaling=short: .*default.*linear.*dynamic.*llama3.*yarn.*longrope' -o model.rope_scaling=short
refused 'rope_short = : rope_scaling = longrope needs 4 positive numbers' -o model.rope_scaling=longrope
refused 'rope_factor is not set: rope_scaling = linear needs it' -o model.rope_scaling=linear
refused 'kv_heads = 3 does not divide heads = 4' -o model.kv_heads=3
refused 'head_dim = 7: rotary positions need an even number' -o model.head_dim=7
done_testing
