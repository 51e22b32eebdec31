#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# checkpoint export --gguf: the keys and the bytes of tensors are those of llama.cpp's converter (golden/make_gguf.py); what it
# does not say is refused by name; a file is whole, or it is not there.
. "$ZR_SRCDIR/tests/lib/tap.sh" || exit 99

if ! command -v python3 > /dev/null; then
	skip 'checkpoint export --gguf' 'python3 makes the models, and reads the files'
	done_testing
	exit
fi

cd "$scratch" || exit 99
root=$(cd "$ZR_SRCDIR" && pwd)
golden=$root/tests/golden
cat > a.ini <<END
[data]
plugin = tokens
path = $golden/pretrained/tokens.bin
format = uint16
[train]
sequence_length = 13
steps = 1
train_batch_size = 2
micro_batch_size = 2
eval_every = 0
[optimizer]
plugin = adamw
lr = 0
weight_decay = 0
END
model() { python3 "$root/tests/lib/gguf.py" model "$1" "$2" "$golden"; }
dump() { python3 "$root/tests/lib/gguf.py" dump "$@"; }
train() { # train RUN OPTION...
	local dir=$1
	shift
	"$ZEROTH" train a.ini -o run.dir="$dir" "$@" > "$dir.out" 2> "$dir.err" || cat "$dir.err"
}
export_as() { # export_as TYPE RUN OUT OPTION...
	"$ZEROTH" checkpoint export "$2" "$3" --gguf "$1" "${@:4}" > out 2> err || cat err
}

# ---- all families ----

# under sanitizers a few: each is like the others
for name in llama llama-bias llama-tied mistral qwen2 qwen2-yarn qwen3 gemma2 gemma3 phi3 phi3-long; do
	model "$name" "$name"
	[[ "$name" =~ ^(llama|mistral|qwen2|qwen2-yarn|gemma2|gemma3)$ ]] || one_in 3 || continue
	train "run.$name" -o model.path="$name"
	export_as f16 "run.$name" "$name.f16.gguf"
	export_as bf16 "run.$name" "$name.bf16.gguf"
	export_as q8_0 "run.$name" "$name.q8_0.gguf"
	{
		dump "$name.f16.gguf"
		dump "$name.bf16.gguf" tensors
		dump "$name.q8_0.gguf" tensors
	} > "$name.txt" 2>&1
	is "$name: keys and tensors are those of llama.cpp's converter" "$(cat "$name.txt")" "$(cat "$golden/gguf/$name.txt")"
done

# ---- where it comes from ----

like 'a window that llama.cpp does not have is said' "$("$ZEROTH" checkpoint export run.mistral said.gguf --gguf f16 2>&1)" \
	'^zeroth: warning: export: the model attends to 48 tokens; llama\.cpp has no window for MistralForCausalLM'
like 'a file is said' "$(cat said.gguf > /dev/null; "$ZEROTH" checkpoint export run.llama said2.gguf --gguf f16)" \
	'^exported    step 1 of run\.llama/model\.safetensors to said2\.gguf$'
named() { python3 "$root/tests/lib/gguf.py" name "$1"; }
is 'the name is that of the file' "$(named qwen2.bf16.gguf)" qwen2.bf16
is 'llama.cpp looks for tokens in what is called Phi-3: one without them has no name' "$(named phi3.bf16.gguf)" ''
cp -r phi3 ends
sed -i 's/<|user|>/<|endoftext|>/' ends/tokenizer_config.json
train run.ends -o model.path=ends
export_as f16 run.ends my-PHI-3.gguf
is 'one with them has it' "$(named my-PHI-3.gguf)" my-PHI-3
train kept -o model.path=qwen2 -o checkpoint.every=1
export_as bf16 kept/checkpoints/step-00000001 kept.gguf
is 'a checkpoint gives the same bytes as the end' "$(dump kept.gguf)" "$(dump qwen2.bf16.gguf)"
train lora -o model.path=llama -o adapter.plugin=lora -o optimizer.lr=1e-2 -o train.steps=3
like 'adapters alone are no model' "$("$ZEROTH" checkpoint export lora no.gguf --gguf f16 2>&1)" \
	'^zeroth: --gguf is for a model, and these are adapters: --merge makes them one$'
export_as f16 lora merged.gguf --merge
"$ZEROTH" checkpoint export lora merged --merge > /dev/null
train run.merged -o model.path=merged
export_as f16 run.merged again.gguf
is 'merged adapters are those of the merged model' "$(dump merged.gguf)" "$(dump again.gguf)"
ok 'which is another one' [ "$(dump merged.gguf tensors)" != "$(dump llama.f16.gguf tensors)" ]

# a model of its own, with the tokenizer of another directory
own=(-o model.plugin=llama -o model.layers=2 -o model.heads=4 -o model.width=32 -o model.ffn_width=48 -o model.context=16)
train own "${own[@]}" -o model.vocabulary=464
refused() { # refused NAME TEXT RUN OPTION...: exit 2, and no file
	local said
	said=$("$ZEROTH" checkpoint export "$3" no.gguf --gguf f16 "${@:4}" 2>&1)
	is "$1" "$? $(ls no.gguf* 2> /dev/null) $said" "2  zeroth: $2"
}
refused 'a model that began with no directory' \
	'--gguf: a file has its tokenizer in it, and the model began with no directory: --tokenizer names the one of its tokenizer' own
export_as f16 own own.gguf --tokenizer llama
is 'another tokenizer' "$(dump own.gguf | grep tokenizer.ggml | grep -v '_token_id ')" \
	"$(dump llama.f16.gguf | grep tokenizer.ggml | grep -v '_token_id ')"
refused 'no directory' '--gguf: nowhere, which has the files of the tokenizer, cannot be read: --tokenizer names another directory' own \
	--tokenizer nowhere
mkdir bare
refused 'a directory without one' \
	'--gguf: bare: there is no tokenizer.json and no tokenizer.model: --tokenizer names a directory that has the model'"'s" own --tokenizer bare
train small "${own[@]}" -o model.vocabulary=400
refused 'a tokenizer with more tokens' '--gguf: llama/tokenizer.json: token ju is number 400, and the model has 400: it is the '\
'tokenizer of another model' small --tokenizer llama

# ---- what has no words ----

tokenizer() { # tokenizer NAME COMMAND: another tokenizer.json
	rm -rf other
	cp -r "$1" other
	python3 -c "
import json
t = json.load(open('other/tokenizer.json'))
$2
json.dump(t, open('other/tokenizer.json', 'w'))"
}
cuts='how it cuts text (normalizer, pre_tokenizer, ignore_merges) has no name in llama.cpp that is known here: export without --gguf, and '
cuts+='convert with a llama.cpp that knows the tokenizer'
tokenizer llama "t['pre_tokenizer']['pretokenizers'][0]['pattern']['Regex'] += '|x'"
refused 'an unknown pre-tokenizer' "--gguf: other/tokenizer.json: $cuts" own --tokenizer other
tokenizer llama "t['model']['ignore_merges'] = False"
refused 'one that merges otherwise' "--gguf: other/tokenizer.json: $cuts" own --tokenizer other
tokenizer qwen2 "t['normalizer'] = None"
refused 'one that normalizes otherwise' "--gguf: other/tokenizer.json: $cuts" own --tokenizer other
tokenizer llama "t['model']['byte_fallback'] = True"
refused 'pieces without their scores' "--gguf: other: llama.cpp needs tokenizer.model of this tokenizer, whose scores tokenizer.json \
does not have: put it there, or name a directory that has it with --tokenizer" own --tokenizer other
printf 'x' > other/tokenizer.model
refused 'a damaged tokenizer.model' 'other/tokenizer.model: not a model of SentencePiece' own --tokenizer other

without='which is not so here: export without --gguf'
train a.gpt2 -o model.path="$golden/pretrained/gpt2"
refused 'another family' '--gguf: it writes Llama, Mistral, Qwen2, Qwen3, Gemma 2, Gemma 3 and Phi-3, and this is GPT2LMHeadModel: '\
'export without --gguf, and let llama.cpp convert that' a.gpt2
train a.dynamic -o model.path="$golden/pretrained/llama-dynamic"
refused 'a rule of positions' "--gguf: [model] rope_scaling = dynamic has no words in llama.cpp's llama: export without --gguf" a.dynamic
train a.yarn -o model.path=qwen2-yarn -o model.rope_beta_fast=16
refused 'another turn of wavelengths' "--gguf: llama.cpp's qwen2 has yarn with [model] rope_beta_fast = 32, rope_beta_slow = 1 and \
rope_attention = auto alone" a.yarn
cp -r gemma2 scores
sed -i 's/"query_pre_attn_scalar": 16/"query_pre_attn_scalar": 8/' scores/config.json
train a.scores -o model.path=scores
refused 'another divisor of scores' "--gguf: llama.cpp's gemma2 takes it that [model] score_width is 16 where there are 2 layers, $without" \
	a.scores
cp -r gemma3 windows
sed -i 's/"hidden_size"/"sliding_window_pattern": 3, "hidden_size"/' windows/config.json
train a.windows -o model.path=windows
refused 'other layers with windows' "--gguf: llama.cpp's gemma3 takes it that all layers have a window but each 6th ([model] window, \
global_every), $without" a.windows
train a.bias "${own[@]}" -o model.plugin=qwen3 -o model.qkv_bias=yes -o model.o_bias=yes -o model.vocabulary=464
refused 'a bias' "--gguf: llama.cpp's qwen3 takes it that the output of attention has no bias: [model] o_bias = no, $without" a.bias \
	--tokenizer llama

# ---- the command ----

like 'a file is not overwritten' "$("$ZEROTH" checkpoint export run.llama own.gguf --gguf f16 2>&1)" \
	'^zeroth: own\.gguf exists already; choose another file or remove it$'
like 'one type' "$("$ZEROTH" checkpoint export run.llama x --gguf f16 --dtype bf16 2>&1)" '--gguf says the type itself: without --dtype$'
like 'one file' "$("$ZEROTH" checkpoint export run.llama x --gguf f16 --shard-bytes 1M 2>&1)" '--gguf writes one file: without --shard-bytes$'
like 'a tokenizer alone' "$("$ZEROTH" checkpoint export run.llama x --tokenizer llama 2>&1)" '--tokenizer is for --gguf$'
like 'another type' "$("$ZEROTH" checkpoint export run.llama x --gguf q4_0 2>&1)" 'gguf'
if unshare -rm true 2> /dev/null; then
	mkdir full
	unshare -rm bash -c "mount -t tmpfs -o size=40k tmpfs full && \"$ZEROTH\" checkpoint export run.llama full/x.gguf --gguf f16; echo \$? \$(ls full)" \
		> left 2> tight.err
	is 'a disk without room' "$(cat left)" 4
	like 'is seen before' "$(cat tight.err)" '^zeroth: full/x\.gguf: the model needs 0\.[0-9] MiB, the disk has 0\.0 MiB left: make room or'
else
	skip 'a disk without room' 'no name spaces for users'
fi
done_testing
