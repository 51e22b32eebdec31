#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# [model] path as people meet it: an INI with nothing but a directory, what contradicts it, what a config asks for that is
# not there, files that are damaged (I7), and the way back: exports that have the files they came with.
. "$ZR_SRCDIR/tests/lib/tap.sh" || exit 99

cd "$scratch" || exit 99
golden=$ZR_SRCDIR/tests/golden/pretrained
cat > a.ini <<END
[model]
path = dir
[data]
plugin = tokens
path = $golden/tokens.bin
format = uint16
[train]
sequence_length = 13
steps = 2
train_batch_size = 2
micro_batch_size = 1
eval_every = 0
END
fresh() { rm -rf dir; cp -r "${1:-$golden/gpt2}" dir; chmod -R u+w dir; }
train() { # train RUN OPTION...
	local dir=$1
	shift
	"$ZEROTH" train a.ini -o run.dir="$dir" "$@" > "$dir.out" 2> "$dir.err"
}
digest() { tail -n 1 "$1.out"; }

# ---- an INI with only the path ----
fresh
show=$("$ZEROTH" config show a.ini)
is "the path is enough" "$?" 0
like "its model_type names the plugin" "$show" '^plugin = gpt2 ; dir/config.json \(model_type\)$'
like "its keys the options" "$show" '^width = 16 ; dir/config.json \(n_embd\)$'
like "and the path stays in sight" "$show" '^path = /.*/dir ; a.ini:2$'
train one
is "it trains" "$?" 0
train two -n 2 -o zero.plugin=stage3
is "I1: ranks that split everything begin with the same" "$(digest two)" "$(digest one)"
mkdir store
train three -o zero.plugin=stage3 -o offload.optimizer.plugin=nvme -o offload.optimizer.path=store \
	-o offload.param.plugin=nvme -o offload.param.path=store
is "I1: and with everything on disk" "$(digest three)" "$(digest one)"
ok "a run's own configuration begins there again" "$ZEROTH" config check one/config.ini
rm -r dir
ok "a run samples without it" "$ZEROTH" sample -n 2 one
fresh
train four -o model.width=16 -o model.plugin=gpt2 -o model.layers=auto -o model.dropout=0
is "what the file says may be said again" "$(digest four)" "$(digest one)"
ok "what it does not say may be said" "$ZEROTH" config check a.ini -o model.dropout=0.1

# ---- refused: by places, name and value ----
refused() { # refused NAME TEXT OPTION...
	local name=$1 text=$2
	shift 2
	err=$("$ZEROTH" config check a.ini "$@" 2>&1)
	is "$name: exit 2" "$?" 2
	like "I7: $name" "$err" "$text"
}
edit() { # edit KEY VALUE: of a fresh directory's config.json
	fresh
	sed -i -e "/^  \"$1\": \[/,/]/d" -e "/^  \"$1\":/d" -e "s/^{\$/{\n  \"$1\": $2,/" dir/config.json
}
refused "an option that says otherwise" \
	'^zeroth: -o model.width=32: dir/config.json has n_embd = 16; take the option out, or choose another \[model\] path$' -o model.width=32
sed 's/^path = dir/&\nheads = 4/' a.ini > b.ini
like "I7: both places" "$("$ZEROTH" config check b.ini 2>&1)" '^zeroth: b.ini:3: \[model\] heads = 4: dir/config.json has n_head = 2;'
refused "a preset beside it" '^zeroth: -o model.size=124m: dir/config.json says what the model is; take the option out$' -o model.size=124m
asks() { # asks KEY VALUE TEXT
	edit "$1" "$2"
	refused "$1" "^zeroth: dir/config.json: $1 = $3"
}
asks activation_function '"relu"' 'relu: \[model\] plugin = gpt2 can do gelu_new or gelu_pytorch_tanh or gelu only$'
asks scale_attn_by_inverse_layer_idx true 'true: .* can do false only$'
asks reorder_and_upcast_attn true 'true: '
asks scale_attn_weights false 'false: '
edit n_inner 40
like "a width of its own" "$("$ZEROTH" config show a.ini)" '^ffn_width = 40 ; dir/config.json \(n_inner\)$'
edit quantization_config '{"quant_method": "bitsandbytes", "load_in_4bit": true}'
refused "weights of bitsandbytes" \
	'dir/config.json: quantization_config: bitsandbytes has quantised its weights: give the directory of the model that they were made from'
refused "weights of bitsandbytes, and what converts them" \
	"made from, or convert it: .* as M; M.from_pretrained\('dir'\).dequantize\(\).save_pretrained\('dir-16'\)"
edit quantization_config '{"load_in_8bit": true}'
refused "old weights of bitsandbytes" 'quantization_config: bitsandbytes has quantised its weights'
edit quantization_config '{"quant_method": "fp8", "weight_block_size": [128, 128]}'
refused "weights of fp8" \
	"quantization_config: fp8 has .*FineGrainedFP8Config as C; .*\('dir', quantization_config=C\(dequantize=True\)\)"
for method in gptq awq; do
	edit quantization_config "{\"quant_method\": \"$method\", \"bits\": 4}"
	refused "weights of $method" \
		"quantization_config: $method has quantised its weights: give .* made from; \[model\] store"
done
edit quantization_config '{"bits": 4}'
refused "weights of others" 'quantization_config: another program has quantised'
asks add_cross_attention true 'true: '
asks architectures '["GPT2ForSequenceClassification"]' 'GPT2ForSequenceClassification: '
edit model_type '"mamba"'
refused "a model_type that nobody reads" '^zeroth: dir/config.json: model_type = mamba: no plugin reads it. The nearest is \[model\] plugin = [a-z0-9_]+, wh'
refused "or not the plugin that is named" '^zeroth: dir/config.json: model_type = mamba: \[model\] plugin = gpt2 reads gpt2$' -o model.plugin=gpt2
edit n_layer 0
refused "a value out of range" '^zeroth: dir/config.json \(n_layer\): \[model\] layers = 0: '
edit n_layer '"many"'
refused "a value of another type" '^zeroth: dir/config.json: n_layer = "many": expected a number$'
edit n_head 3
refused "values that do not go together" 'heads = 3 does not divide width = 16'
fresh
sed -i '/model_type/d' dir/config.json
refused "no model_type" '^zeroth: a.ini:2: \[model\] path = dir: dir/config.json: no model_type'
fresh
truncate -s 300 dir/config.json
refused "a config cut short" '^zeroth: a.ini:2: \[model\] path = dir: dir/config.json:[0-9]+:[0-9]+: not JSON: '
rm -r dir
refused "no directory" '^zeroth: a.ini:2: \[model\] path = dir: dir/config.json: No such file'
fresh
sed -i 's/"n_layer": 2/"n_layer": 2, "n_layer": 3/' dir/config.json
refused "a key that is there twice" 'dir/config.json:[0-9]+:[0-9]+: not JSON: duplicate object key'

# ---- what nobody reads is refused ----
unknown='take it out of the file, or, if it changes nothing that is computed, name it in \[model\] ignore_keys$'
edit residual_gate true
refused "an unknown key" "^zeroth: dir/config.json: \[model\] plugin = gpt2 does not know: residual_gate; $unknown"
train gate -o model.ignore_keys='other residual_gate'
is "one that is named changes nothing" "$(digest gate)" "$(digest one)"
ok "a run's own configuration names it, too" "$ZEROTH" config check gate/config.ini
like "and so does what is shown" "$("$ZEROTH" config show a.ini -o model.ignore_keys=residual_gate)" '^ignore_keys = residual_gate ; -o$'
edit rope_scaling '{"rope_type": "linear", "factor": 2.0}'
refused "gpt2 has no rotary positions" 'does not know: rope_scaling; '
edit 'red_\\u001bm' true
refused "a terminal obeys none of them" 'does not know: red_ m; '

# ---- what training does not follow is said ----
fresh
train silent
is "nothing is not followed" "$(grep -c 'not followed' silent.err)" 0
sed -i 's/"\(attn\|embd\)_pdrop": 0,/"\1_pdrop": 0.10,/; /resid_pdrop/d
	s/"n_layer": 2/"n_layer": 2, "pad_token_id": 5/' dir/config.json
train named
is "what is not followed changes nothing" "$(digest named)" "$(digest one)"
like "I7: but is said, a missing key as well" "$(cat named.err)" '^zeroth: model: dir/config.json: '\
'not followed: resid_pdrop = 0.1 \(here dropout = 0\), embd_pdrop = 0.1 \(here dropout = 0\), '\
'attn_pdrop = 0.1 \(here dropout = 0\), '\
'pad_token_id = 5 \(here a token like any other: its embedding is trained\)$'
train followed -o model.dropout=0.1
like "what the INI does too is not" "$(cat followed.err)" 'not followed: pad_token_id'

# ---- a plugin that ends who loads it ----
fresh
mkdir -p ended/model
echo '#include <signal.h>
__attribute__((constructor)) static void end(void) { raise(SIGKILL); }' > ended.c
read -ra cc <<< "${CC:-cc}"
if "${cc[@]}" -shared -fPIC -o ended/model/aaa.so ended.c; then
	ZEROTH_PLUGIN_PATH=$PWD/ended:$ZEROTH_PLUGIN_PATH train ended
	like "I7: the signal is said" "$(tail -n 1 ended.err)" \
		'reads model_type gpt2 \(the process that loads them ended: Killed\): name one by \[model\] plugin$'
else
	skip "I7: the signal is said" 'no C compiler'
fi

# ---- tensors ----
broken() { # broken NAME TEXT
	rm -rf no
	train no
	is "$1: exit 2" "$?" 2
	like "I7: $1" "$(tail -n 1 no.err)" "$2"
}
name() { # name FROM TO: of a tensor, of the same length
	LC_ALL=C sed -i "s/$1/$2/" dir/model.safetensors
}
fresh
name h.1.ln_2.bias h.1.ln_3.bias
broken "a missing tensor" '^zeroth: dir/model.safetensors: tensor h.1.ln_2.bias is missing$'
edit n_layer 1
broken "a surplus one" "^zeroth: dir/model.safetensors: tensor transformer.h.1.* is none of the model's: "
edit n_positions 20
broken "another shape" \
	"^zeroth: dir/model.safetensors: tensor transformer.wpe.weight has shape \\[16, 16\\], but the model's config makes it \\[20, 16\\]\$"
fresh
name 'F32","shape":\[61' 'I32","shape":[61'
broken "another type" '^zeroth: dir/model.safetensors: tensor transformer.wte.weight has type I32, expected F32, BF16 or F16$'
fresh
name 'F32","shape":\[61' 'U32","shape":[61'
broken "a type that nothing here is of" '^zeroth: dir/model.safetensors: tensor transformer.wte.weight has type U32, expected F32, BF16 or F16$'
fresh
truncate -s 20000 dir/model.safetensors
broken "a file cut short" '^zeroth: dir/model.safetensors: tensor .*: a place outside the file, which may have been cut short$'
fresh
rm dir/model.safetensors
touch dir/pytorch_model.bin
broken "PyTorch's pickles" "^zeroth: dir: pytorch_model.bin .* is not read; this converts it: python3 -c .*from_pretrained\('dir'\)"
fresh "$golden/gpt2-shards"
rm dir/model-00002-of-00003.safetensors
broken "a missing shard" '^zeroth: dir/model-00002-of-00003.safetensors: No such file'
fresh "$golden/gpt2-shards"
sed -i 's/"transformer.ln_f.bias": "model-0000[0-9]/"transformer.ln_f.bias": "model-00001/' dir/model.safetensors.index.json
broken "an index that is wrong" '^zeroth: dir/model.safetensors.index.json: tensor transformer.ln_f.bias is not in model-00001-of-00003'
fresh "$golden/gpt2-shards"
sed -i 's/"model-00003-of/"..\/model-00003-of/' dir/model.safetensors.index.json
broken "an index that points elsewhere" 'expected the name of a file beside it$'
fresh "$golden/gpt2-shards"
cp dir/model-00001-of-00003.safetensors dir/again.safetensors
sed -i '0,/model-00001-of-00003/s//again/' dir/model.safetensors.index.json
broken "a tensor that is there twice" 'tensor transformer[a-z0-9._]* is there again: transformer'

# ---- Llama ----
edit() { # edit KEY VALUE: of a fresh directory's config.json; an empty value takes the key out
	fresh "$golden/llama"
	sed -i -e "/^  \"$1\": [[{]/,/^  []}]/d" -e "/^  \"$1\":/d" -e "s/^{\$/{${2:+\n  \"$1\": $2,}/" dir/config.json
}
fresh "$golden/llama"
train llama
is "a Llama trains" "$?" 0
like "its keys are read, objects too" "$("$ZEROTH" config show a.ini)" \
	'^rope_original_context = 16 ; dir/config.json \(rope_scaling.original_max_position_embeddings\)$'
edit rope_scaling ''
sed -i -e '/"rope_theta"/d' -e 's/"torch_dtype"/"dtype"/' -e 's/^{$/{\n  "rope_parameters": {"rope_theta": 500000.0, "factor": 8.0, \
"high_freq_factor": 4.0, "low_freq_factor": 1.0, "original_max_position_embeddings": 16, "rope_type": "llama3"},/' dir/config.json
train newer
is "and as transformers 5 writes it" "$(digest newer)" "$(digest llama)"
asks hidden_act '"gelu"' 'gelu: \[model\] plugin = llama can do silu only$'
asks partial_rotary_factor 0.5 '0.5: '
asks use_sliding_window true 'true: '
edit model_type '"mistral"'
sed -i 's/^{$/{\n  "sliding_window": 4096,/' dir/config.json
like "a window" "$("$ZEROTH" config show a.ini)" '^window = 4096 ; dir/config.json \(sliding_window\)$'
sed -i 's/4096/null/' dir/config.json
like "null: none" "$("$ZEROTH" config show a.ini)" '^window = 0 ; auto'
sed -i '/sliding_window/d' dir/config.json
like "the class's where the key is missing" "$("$ZEROTH" config show a.ini)" '^window = 4096 ; dir/config.json \(sliding_window\)$'
# ---- a head that is the embedding, or is not ----
edit tie_word_embeddings true
train untied
is "a head that differs from the embedding is kept" "$(digest untied)" "$(digest llama)"
like "I7: which is said" "$(cat untied.err)" 'dir/config.json: tie_word_embeddings, but lm_head.weight differs from the embedding: both are kept'
"$ZEROTH" checkpoint export untied out > /dev/null
like "and an export says it" "$(cat out/config.json)" '"tie_word_embeddings": false'
ok "a run's own configuration, too" "$ZEROTH" config check untied/config.ini
rm -r out
fresh "$golden/llama-tied"
train tied
LC_ALL=C sed -i 's/"model.embed_tokens.weight"/"lm_head.weight"           /' dir/model.safetensors
train alone
is "a head without an embedding is both" "$(digest alone)" "$(digest tied)"
train frozen -o train.freeze='*embed* *layers.0*' -o checkpoint.every=1 -o checkpoint.save=trainable
ok "where a checkpoint leaves it out, too" "$ZEROTH" checkpoint export "$(ls -d frozen/checkpoints/step-* | tail -n 1)" out
is "it is the embedding of an export" "$(grep -ac '"model.embed_tokens.weight"' out/model.safetensors)" 1
rm -r out
fresh "$golden/llama-tied"
train once -o optimizer.lr=0
"$ZEROTH" checkpoint export --dtype bf16 --shard-bytes 1 once parts > /dev/null
rm -r dir
mv parts dir
of=$(grep -o '"model.embed_tokens.weight": "[^"]*"' dir/model.safetensors.index.json | cut -d'"' -f4)
LC_ALL=C sed 's/"model.embed_tokens.weight"/"lm_head.weight"           /' "dir/$of" > dir/head.safetensors
sed -i 's/"weight_map": {/&"lm_head.weight": "head.safetensors",/' dir/model.safetensors.index.json
train equal
is "one that is equal is tied" "$(digest equal)" "$(digest tied)"
is "I7: without a word" "$(grep -c 'tie_word' equal.err)" 0
size=$(stat -c %s dir/head.safetensors)
printf '\100' | dd of=dir/head.safetensors bs=1 seek=$((size - 1)) conv=notrunc 2> /dev/null
train last
like "I7: all of it is compared" "$(cat last.err)" 'lm_head.weight differs from the embedding'
edit model_type '"mistral"'
edit model_type '"qwen2"'
broken "biases that are missing" 'tensor model.layers.0.self_attn.q_proj.bias is missing$'
sed -i 's/"mlp_bias": false/"mlp_bias": true/' dir/config.json
refused "what its class has not" 'mlp_bias = true: \[model\] plugin = llama can do false only$'

# ---- what nobody reads of rotary positions is refused, too ----
rope() { # rope KEY VALUE: of a llama's config.json, without its own rule
	rm -rf dir
	cp -r "$golden/llama" dir
	chmod -R u+w dir
	sed -i -e '/"rope_scaling"/,/}/d' -e '/"rope_theta"/d' -e "s/^{\$/{\n  \"$1\": $2,/" dir/config.json
}
rope rope_parameters '{"rope_type": "linear", "rope_theta": 1e4, "factr": 2.0}'
refused "an unknown key in an object" "plugin = llama does not know: rope_parameters.factr; $unknown"
rope rope_parameters '{"full_attention": {"rope_type": "default"}}'
refused "an object for each kind of layer, of a class that has one kind" 'does not know: rope_parameters.full_attention; '
rope rope_parameters '{"rope_type": "yarn", "rope_theta": 1e4, "factor": "4"}'
refused "a number as a text" '^zeroth: dir/config.json: rope_parameters.factor = "4": expected a number$'
rope rope_parameters '{"rope_type": "yarn", "rope_theta": true, "factor": 4}'
refused "a boolean as a number" 'rope_parameters.rope_theta = true: expected a number$'
rope rope_parameters '"yarn"'
refused "a text as an object" '^zeroth: dir/config.json: rope_parameters = yarn: expected an object$'
rope rope_parameters '{"rope_type": "linear", "rope_theta": 1e4, "factor": 2.0, "beta_fast": 32}'
refused "a key of another rule" '^zeroth: dir/config.json: rope_parameters.beta_fast = 32: rope_type = linear does not read it: take it out$'
rope rope_parameters '{"rope_theta": 1e4, "factor": 2.0}'
refused "a key without a rule" 'rope_parameters.factor = 2: rope_type = default does not read it: take it out$'
rope rope_parameters '{"rope_type": "yarn", "rope_theta": 1e4, "factor": 2.0, "mscale": 0.7}'
refused "what is not computed" 'rope_parameters.mscale = 0.7: .* can do null only$'
rope factor 2.0
refused "a key beside the object" 'does not know: factor; '
rope rope_scaling '{"rope_type": "linear", "factor": 2.0}'
sed -i 's/^{$/{"rope_parameters": {"rope_type": "linear", "factor": 2.0, "rope_theta": 77.0},/' dir/config.json
refused "two objects that differ" 'rope_scaling and rope_parameters are both there, and rope_theta of the second is not in the first: take one of them out$'
rope rope_scaling '{"rope_type": "longrope", "factor": 2.0}'
refused "a rule without its lists" 'rope_short = : rope_scaling = longrope needs 2 positive numbers, one for each pair of elements that turn$'
rope rope_scaling '{"rope_type": "yarn", "factor": 2.0, "truncate": false}'
refused "a variant of a rule" '^zeroth: dir/config.json: rope_scaling.truncate = false: .* can do true only$'

# ---- and back ----
fresh "$golden/gpt2-bf16"
echo '{"version": "1.0"}' > dir/tokenizer.json
echo '{"eos_token_id": 3}' > dir/generation_config.json
beside='tokenizer_config.json special_tokens_map.json added_tokens.json vocab.json merges.txt tokenizer.model chat_template.jinja'
for name in $beside; do echo '{}' > "dir/$name"; done
train back -n 2 -o zero.plugin=stage3 -o optimizer.lr=0 -o optimizer.weight_decay=0 -o checkpoint.every=2 -o precision.plugin=bf16 \
	-o zero.gather_16bit_weights_on_model_save=yes
is "bf16 files train" "$?" 0
"$ZEROTH" checkpoint export --dtype bf16 back out > /dev/null
data() { tail -c 15648 "$1/model.safetensors" | od -An -v -tx2 -w2 | sort; }
is "the export of what was not changed has its values" "$(data out)" "$(data dir)"
ok "and its tokenizer" cmp out/tokenizer.json dir/tokenizer.json
for name in $beside; do ok "and its $name" cmp "out/$name" "dir/$name"; done
ok "at the end of a training, too" cmp back/model-16bit/generation_config.json dir/generation_config.json
ok "the two are one" cmp back/model-16bit/model.safetensors out/model.safetensors
is "what was not changed draws what its directory draws" "$("$ZEROTH" sample -n 6 -t 0 back 2> /dev/null)" \
	"$("$ZEROTH" sample -n 6 -t 0 -o precision.plugin=bf16 -o train.sequence_length=13 dir 2> /dev/null)"
like "numbers, where the tokenizer is none" "$("$ZEROTH" sample -n 2 dir 2> dir.err)" '^[0-9]+ [0-9]+ $'
like "I7: which is said" "$(cat dir.err)" '^zeroth: tokens are numbers here, since their tokenizer cannot be used: dir/tokenizer\.json: '
is "I7: a prompt needs one" "$("$ZEROTH" sample -p x "$golden/gpt2" 2>&1)" \
	"zeroth: nothing here knows the text of its tokens: --prompt needs a --tokenizer"
mv dir was
"$ZEROTH" checkpoint export back bare > /dev/null 2> bare.err
is "an export without the directory succeeds" "$?" 0
like "I7: and says what is left out" "$(cat bare.err)" '/dir, which the model began with, cannot be read: files of its tokenizer are left out$'
mv out dir
train again
is "an export can be begun with" "$?" 0
"$ZEROTH" checkpoint export --shard-bytes 4000 back parts > /dev/null
like "parts have an index" "$(cat parts/model.safetensors.index.json)" '"h.0.ln_1.bias": "model-[0-9]+-of-[0-9]+.safetensors"'
rm -r dir
mv parts dir
train parts -o model.path=dir
is "and are read again: fp32 of the same values" "$(digest parts)" "$(digest again)"

# A file may have just as many bytes of tensors as it is given.
total=$(grep -o '"total_size": [0-9]*' dir/model.safetensors.index.json | grep -o '[0-9]*')
"$ZEROTH" checkpoint export --shard-bytes "$total" back whole > /dev/null
ok "all bytes in one file" test ! -e whole/model.safetensors.index.json
"$ZEROTH" checkpoint export --shard-bytes $((total - 1)) back halves > /dev/null
ok "one byte less is two files" test -e halves/model-00002-of-00002.safetensors

# What is too large for fp16 is counted: a million as the last weight.
printf '\000\044\164\111' |
	dd of=parts/model.safetensors bs=1 seek=$(($(stat -c %s parts/model.safetensors) - 4)) conv=notrunc 2> /dev/null
is "a million becomes infinite" "$("$ZEROTH" checkpoint export --dtype fp16 parts half 2>&1 > /dev/null)" \
	'zeroth: 1 values are too large for fp16 and are infinite now'

# The type of the tensors has the name that config.json has for it.
for key in torch_dtype dtype; do
	fresh "$golden/gpt2"
	sed -i "s/\"[a-z_]*dtype\"/\"$key\"/" dir/config.json
	train "$key"
	rm -rf out
	"$ZEROTH" checkpoint export --dtype bf16 "$key" out > /dev/null
	is "$key is told once" "$(grep -o '"[a-z_]*dtype": "[a-z0-9]*"' out/config.json)" "\"$key\": \"bfloat16\""
done
# Without masters of its own a frozen tensor is in 16 bits, also beside others of its unit.
fresh "$golden/gpt2"
train sixteen -o precision.plugin=bf16 -o precision.master=none -o train.freeze='*c_fc.weight' -o checkpoint.every=1 \
	-o checkpoint.save=trainable
ok "what a checkpoint of 16 bits leaves out is as training had it" "$ZEROTH" checkpoint export sixteen of_sixteen
done_testing
