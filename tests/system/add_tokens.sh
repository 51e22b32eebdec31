#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# [model] add_tokens: ids, rows and losses are those of transformers (tests/golden/make_added.py), whoever reads the
# tokenizer knows the tokens, and exports have them.
. "$ZR_SRCDIR/tests/lib/tap.sh" || exit 99
golden=$(cd "$ZR_SRCDIR" && pwd)/tests/golden
cd "$scratch" || exit 99
tokens='<|im_start|> <|endoftext|> <|im_end|> the <think> </think>'
cat > a.ini <<END
[model]
path = dir
add_tokens = $tokens
[data]
plugin = tokens
path = $golden/added/tokens.bin
format = uint16
[train]
sequence_length = 13
steps = 3
train_batch_size = 2
micro_batch_size = 1
eval_every = 0
gradient_clipping = 0
[run]
log_every = 1
[optimizer]
lr = 0.01
betas = 0.9 0.95
weight_decay = 0
END
fresh() { # fresh MODEL: in dir, with the tokenizer
	rm -rf dir
	cp -r "$golden/pretrained/$1" dir
	cp "$golden"/added/tokenizer*.json dir
	chmod -R u+w dir
}
train() { # train RUN OPTION...
	local dir=$1
	shift
	"$ZEROTH" train a.ini -o run.dir="$dir" "$@" > "$dir.out" 2> "$dir.err"
}
digest() { tail -n 1 "$1.out"; }
ids() { # ids FILE [argument]...: of the text
	"$ZEROTH" tokenize "$@" --raw --eot none -f -o ids.tok text > /dev/null 2> err || cat err
	od -An -v -tu2 ids.tok | tr -s ' \n' ' '
}
refused() { # refused NAME PATTERN OPTION...
	local name=$1 text=$2
	shift 2
	like "$name" "$("$ZEROTH" config check a.ini "$@" 2>&1 | tr '\n' ' '; echo "code ${PIPESTATUS[0]}")" "$text.*code 2"
}

# ---- ids ----
fresh llama
printf '%s' '<|im_start|>the end<tool> of<|im_end|>the <think>thing</think><|endoftext|>, then<|im_end|>' > text
python3 - "$golden/added/cases.json" 2> /dev/null > cases <<'END' || skip_all 'python3 reads the golden values'
import json, sys
for c in json.load(open(sys.argv[1]))["cases"]:
    print(*c["text"])
    print(*c["chat"])
    print(c["length"], c["rows"])
END
{ read -r few; read -r _; read -r few_rows; read -r text; read -r chat; read -r rows; } < cases
got=$(ids -T dir --add-tokens '<|im_start|> <|im_end|>')
grep -q ' build' err && skip_all 'no PCRE2 or no utf8proc'
is 'ids of two tokens' "$got" " $few "
like 'which take rows that are there' "$("$ZEROTH" config show a.ini -o data.path=ids.tok -o model.add_tokens='<|im_start|> <|im_end|>')" '^vocabulary = 61 ;'
is 'and of several, of which some are there' "$(ids -T dir --add-tokens "$tokens")" " $text "
is 'as in transformers' "$few_rows" '61 61'
is 'others are added' "$rows" '63 63'
like 'as here' "$("$ZEROTH" config show a.ini)" '^vocabulary = 63 ;'

# ---- refused ----
refused 'without a model that was trained' '-o model.add_tokens=<a>: .*: needs \[model\] path' -o model.path= \
	-o model.add_tokens='<a>'
sed '/^path = dir/d' a.ini > b.ini
like 'so by a file' "$("$ZEROTH" config check b.ini 2>&1)" 'b.ini:2: \[model\] add_tokens = .*: needs \[model\] path'
refused 'one that is there and is not special' '<tool> is an added token there that is not special' -o model.add_tokens='<a> <tool>'
refused 'twice' 'is to be added twice' -o model.add_tokens='<a> <b> <a>'
rm dir/tokenizer.json
refused 'no tokenizer' 'a.ini:3: \[model\] add_tokens = .*: dir: is a directory without a tokenizer.json'

# ---- what is learned ----
while read -r model first second third; do
	fresh "$model"
	train "$model"
	sed -n 's/^step .*  loss \([0-9.]*\)  .*/\1/p' "$model.out" > losses
	is "$model: losses of transformers" "$(printf '%s\n' "$first" "$second" "$third" | paste losses - |
		awk '{ d = $1 - $2; near += d < 1e-4 && d > -1e-4 } END { print near }')" 3
done < "$golden/added/losses.txt"
fresh llama
train ranks -n 2 -o zero.plugin=stage3 -o checkpoint.every=2
is 'I1: the same bits of ranks that split all' "$(digest ranks)" "$(digest llama)"
mkdir store
train tiers -o zero.plugin=stage3 -o offload.optimizer.plugin=nvme -o offload.optimizer.path=store \
	-o offload.param.plugin=nvme -o offload.param.path=store
is 'I1: and of weights on disk' "$(digest tiers)" "$(digest llama)"
train still -o train.steps=1 -o optimizer.lr=0
is 'rows are those of the files, and their mean' "$(python3 - dir/model.safetensors still/model.safetensors <<'END'
import json, struct, sys
def read(path):
    data = open(path, "rb").read()
    n = struct.unpack("<Q", data[:8])[0]
    head = json.loads(data[8:8 + n])
    head.pop("__metadata__", None)
    return {k: data[8 + n + v["data_offsets"][0]:8 + n + v["data_offsets"][1]] for k, v in head.items()}
was, now = map(read, sys.argv[1:])
assert was.keys() == now.keys()
for name, old in was.items():
    new = now[name]
    assert new[:len(old)] == old, name
    if len(new) == len(old):
        continue
    rows = [struct.unpack("<16f", old[i:i + 64]) for i in range(0, len(old), 64)]
    mean = struct.pack("<16f", *(sum(c) / len(rows) for c in zip(*rows)))
    assert new[len(old):] == 2 * mean, name
    print(name)
END
)" 'lm_head.weight
model.embed_tokens.weight'

# ---- going on ----
rm -rf on
ok 'a run goes on' "$ZEROTH" train a.ini --resume ranks -o run.dir=on -o train.steps=4
rm -rf on
like 'not with others' "$("$ZEROTH" train a.ini --resume ranks -o run.dir=on -o train.steps=4 \
	-o model.add_tokens="${tokens/<|endoftext|> /}" 2>&1)" 'add_tokens was <\|im_start\|> <\|endoftext\|> .*, is <\|im_start\|> <\|im_end\|> the'

# ---- who reads the tokenizer ----
printf '%s\n' '{"messages": [{"role": "user", "content": "the end?"}, {"role": "assistant", "content": "then the thing."}]}' > chat.jsonl
fresh llama
"$ZEROTH" tokenize --chat -T dir --add-tokens "$tokens" -o chat.tok chat.jsonl > /dev/null 2> err
chats=(-o data.plugin=chat -o data.path=chat.jsonl -o data.format= -o data.tokenizer=dir -o data.cache=cache -o train.sequence_length=24
	-o model.path=long)
cp -r dir long
sed -i 's/"max_position_embeddings": [0-9]*/"max_position_embeddings": 64/' long/config.json
shown=$("$ZEROTH" data show a.ini "${chats[@]}" -n 1 -o train.train_batch_size=1 2>&1)
like 'data show' "$shown" '<\|im_start\|>assistant'
ok 'conversations have the same tokens' cmp chat.tok cache/chat-*.tokens
is 'those of transformers' "$(python3 -c 'import struct, sys
want = [int(x) for x in sys.argv[2].split()]
data = open(sys.argv[1], "rb").read()
print(struct.pack("<%dH" % len(want), *want) in data or struct.pack("<%dI" % len(want), *want) in data)' chat.tok "$chat")" True
cp -r dir other
sed -i 's/"id": 58,/"id": 59,/' other/tokenizer.json
like 'another tokenizer has other ids' "$("$ZEROTH" data show a.ini "${chats[@]}" -o data.tokenizer=other 2>&1)" \
	'data.* tokenizer = other: <\|im_start\|> of \[model\] add_tokens is token 60 there, and 59 of the model'
like 'a run samples with them' "$("$ZEROTH" sample llama -n 1 --prompt '<think>the' 2>&1)" '<think>the'

# ---- exports ----
ok 'a checkpoint is exported' "$ZEROTH" checkpoint export ranks out
ok 'and the end of a run' "$ZEROTH" checkpoint export llama end
ok 'with the same tokenizer' cmp out/tokenizer.json end/tokenizer.json
is 'whose ids need no list' "$(ids -T out)" " $text "
like 'with more rows' "$(cat out/config.json)" '"vocab_size": 63'
like 'settings have the tokens' "$(tr -d ' \n' < out/tokenizer_config.json)" \
	'"61":.*"content":"<think>","lstrip":false,"normalized":false,"rstrip":false,"single_word":false,"special":true.*"additional_special_tokens":\["<\|im_start\|>"'
rm -rf again
cp a.ini b.ini
sed -i 's/^path = dir/path = out/' b.ini
like 'it begins a training, with the tokens or without' "$("$ZEROTH" config check b.ini -o model.path=out 2>&1; echo $?)" '^0$'
ok 'in a file of llama.cpp' "$ZEROTH" checkpoint export --gguf f16 llama x.gguf
is 'they are there, too' "$(grep -ac '<think>' x.gguf)" 1
cp dir/tokenizer.json kept
echo '{' > dir/tokenizer.json
like 'not with a tokenizer that is damaged' "$("$ZEROTH" checkpoint export ranks bad 2>&1 | tr '\n' ' '; echo "code ${PIPESTATUS[0]}")" \
	'tokenizer.json:2:[0-9]*: not JSON: .*code 2'
more='{"id": 59, "content": "<more>", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": false}'
sed '/"id": 58/,/}/s/}/}, '"$more/" kept > dir/tokenizer.json
is_other='<\|im_start\|> is token 60 there, and was token 59 when the model was trained: give the tokenizer.json that it was'
like 'nor with one that has other ids since' "$("$ZEROTH" checkpoint export ranks bad 2>&1 | tr '\n' ' '; echo "code ${PIPESTATUS[0]}")" \
	"zeroth: .*/dir: $is_other.*code 2"
like 'nor a file of llama.cpp' "$("$ZEROTH" checkpoint export --gguf f16 ranks y.gguf 2>&1)" "dir: $is_other"
like 'nor does a run go on' "$("$ZEROTH" train a.ini --resume ranks -o run.dir=on3 -o train.steps=4 2>&1)" \
	'\[model\] add_tokens had the ids 59 .*, and tokenizer.json of \[model\] path now gives 60 '
mv kept dir/tokenizer.json

# ---- adapters ----
fresh llama
train lora -o adapter.plugin=lora -o adapter.r=2
like 'frozen rows are said' "$(cat lora.err lora.out)" 'add_tokens: model.embed_tokens.weight is frozen.*modules_to_save'
like 'adapters alone would lose rows' "$("$ZEROTH" checkpoint export lora alone 2>&1 | tr '\n' ' '; echo "code ${PIPESTATUS[0]}")" \
	'model.embed_tokens.weight, which they do not train.*--merge.*code 2'
ok 'merged they are whole' "$ZEROTH" checkpoint export --merge lora merged
like 'with all rows' "$(cat merged/config.json)" '"vocab_size": 63'
train saved -o adapter.plugin=lora -o adapter.r=2 -o adapter.modules_to_save='embed_tokens lm_head'
is 'rows that are trained are no news' "$(grep -c 'is frozen' saved.err)" 0
ok 'and adapters have them' "$ZEROTH" checkpoint export saved alone

done_testing
