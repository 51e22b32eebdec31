#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# What people ask of sampling: an end of the text, stop strings, many prompts, JSON, conversations;
# and that the cache changes none of it.
. "$ZR_SRCDIR/tests/lib/tap.sh" || exit 99
cd "$scratch" || exit 99

for i in $(seq 1 300); do echo "line $i of a text that is long enough"; done > text
golden=$ZR_SRCDIR/tests/golden
"$ZEROTH" train "$ZR_SRCDIR/tests/lib/matrix.ini" -o data.path=text -o run.dir=run \
	-o train.eval_every=0 -o train.steps=60 -o optimizer.lr=0.01 > out 2>&1 ||
	fail 'a training' "$(cat out)"
sample() { "$ZEROTH" sample "$@" 2>&1; }

# ---- the cache, whose window of 40 tokens moves ----
text=$(sample run -n 150 -t 1 -k 0 -p 'line 12')
is 'the cache changes no token' "$(sample run -n 150 -t 1 -k 0 -p 'line 12' --no-cache)" "$text"
is 'nor on a device of its own memory' \
	"$(sample run -n 150 -t 1 -k 0 -p 'line 12' -o device.plugin="$cards" -o device.memory=64M)" \
	"$text"
is 'a prompt longer than the window' \
	"$(sample run -n 9 -p "$(head -c 100 text)")" \
	"$(sample run -n 9 -p "$(head -c 100 text)" --no-cache)"

short=(run -n 500 -t 1 -k 0 -p line -o train.sequence_length=1)
text=$(sample "${short[@]}")
ok 'a window of one token: all are drawn' test "${#text}" -gt 300
is 'with the cache and without' "$(sample "${short[@]}" --no-cache)" "$text"

# ---- what ends a text ----
greedy=$(sample run -t 0 -n 90 -p 'line')
line() { sample run -t 0 -p line "$@"; }
rest=${greedy#line}
stop=${rest:20:3}
is 'a stop string is not printed' "$(line -n 90 --stop "$stop")" "line${rest%%"$stop"*}"
is 'the first of two that comes' \
	"$(line -n 90 --stop nowhere --stop "$stop" --stop "$stop$stop")" \
	"line${rest%%"$stop"*}"
is 'what began like one is printed at the end' "$(line -n 5 --stop "${rest:3:20}")" \
	"line${rest:0:5}"
is 'one that the prompt has does not count' "$(line -n 2 --stop line)" "line${rest:0:2}"
byte=$(printf '%d' "'${rest:7:1}")
is 'a token by its number' "$(line -n 90 --eos "$byte")" "line${rest%%"${rest:7:1}"*}"
like 'a token that is none' "$(sample run --eos '<|nothing|>')" \
	'^zeroth: --eos <\|nothing\|>: is neither an added token of the tokenizer nor a number'
is 'an empty stop string' "$(sample run --stop '')" 'zeroth sample: --stop must not be empty'

# a model's directory, whose tokens are numbers here; the fourth token that it draws becomes its end
cp -r "$golden/pretrained/gpt2" dir
chmod -R u+w dir
drawn=($(sample dir -t 0.9 -n 20 --eos none))
end=${drawn[3]}
want=
for t in "${drawn[@]}"; do [ "$t" = "$end" ] && break; want+="$t "; done
echo "{\"eos_token_id\": [511000000, $end]}" > dir/generation_config.json
is 'generation_config.json says what ends a text' "$(sample dir -t 0.9 -n 20)" "$want"
is 'unless --eos does' "$(sample dir -t 0.9 -n 20 --eos none)" "${drawn[*]} "
rm dir/generation_config.json
sed -i "s/\"eos_token_id\": *[0-9]*/\"eos_token_id\": $end/" dir/config.json
is 'config.json says it, too' "$(sample dir -t 0.9 -n 20)" "$want"
echo '{"eos_token_id": ' > dir/generation_config.json
like 'a file that is damaged' "$(sample dir)" \
	'^zeroth: dir/generation_config\.json:[0-9]+:[0-9]+: not JSON'
# its keys are others in texts of more than 8 tokens
cp -r "$golden/pretrained/phi3-long" long
chmod -R u+w long
is 'longrope: the cache changes no token' "$(sample long -t 0.9 -n 30 --eos none --samples 3)" \
	"$(sample long -t 0.9 -n 30 --eos none --samples 3 --no-cache)"

# what a model's tokenizer puts before a text
tokenizer() {
	printf '{"model":{"type":"BPE","unk_token":"u","vocab":{"a":3,"b":4,"u":5},"merges":[]},'
	printf '"added_tokens":[{"id":1,"content":"<s>"}],"post_processor":%s}' "$1"
}
first='{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"<s>"}},{"Sequence":{"id":"A"}}],
	"special_tokens":{"<s>":{"ids":[1]}}}'
tokenizer null > long/tokenizer.json
begun=$("$ZEROTH" sample long -t 0.9 -p '<s>ab' --json 2> err | grep -o '"tokens.*')
case $(cat err) in *build*) begun= ;; esac # no PCRE2
without=$("$ZEROTH" sample long -t 0.9 -p 'ab' --json 2> /dev/null | grep -o '"tokens.*')
tokenizer "$first" > long/tokenizer.json
if [ "$begun" ]; then
	ok 'a first token is another text' test "$begun" != "$without"
	is 'the first token of a model comes before a prompt' \
		"$("$ZEROTH" sample long -t 0.9 -p 'ab' --json 2> /dev/null | grep -o '"tokens.*')" "$begun"
	is 'but once' \
		"$("$ZEROTH" sample long -t 0.9 -p '<s>ab' --json 2> /dev/null | grep -o '"tokens.*')" "$begun"
	like 'and is not printed' "$("$ZEROTH" sample long -n 3 -p 'ab' 2> /dev/null)" '^a b'
fi

# ---- many texts ----
printf 'line 1\n\nof a\r\n' > prompts
printf '{"prompt": "line 1", "id": 7}\n{"prompt": "of a"}\n' > prompts.jsonl
is 'samples of a prompt: the first is the only one of before' \
	"$(sample run -n 20 -p line --samples 3 | sed '/^---$/,$d')" "$(sample run -n 20 -p line)"
is 'each is another one' "$(sample run -n 20 -p line --samples 3 --json --stop '
' | grep -o '"text":"[^"]*"' | sort -u | wc -l)" 3
sample run -n 20 --prompts prompts --samples 2 --json --stop of > plain.out
form='^{"prompt":"\(line 1\|of a\)","sample":[01],"text":".*","tokens":\[[0-9,]*\],"end":"[a-z]*"}$'
is 'a line for each text' "$(grep -c "$form" plain.out)" 4
is 'JSONL has the same prompts' \
	"$(sample run -n 20 --prompts prompts.jsonl --samples 2 --json --stop of)" \
	"$(cat plain.out)"
is 'and without the cache the same texts' \
	"$(sample run -n 20 --prompts - --samples 2 --json --stop of --no-cache < prompts)" \
	"$(cat plain.out)"
like 'why it ended: length' "$(sample run -n 3 -t 0 -p line --json)" '"end":"length"}$'
like 'why it ended: stop' "$(sample run -n 90 -t 0 -p line --json --stop "$stop")" '"end":"stop"}$'
like 'why it ended: eos' "$(sample run -n 90 -t 0 -p line --json --eos "$byte")" '"end":"eos"}$'
printf '{"prompt": "a"}\n{"text": "b"}\n' > bad.jsonl
like 'a line without a prompt' "$(sample run --prompts bad.jsonl)" \
	'^zeroth: bad\.jsonl:2: has no text "prompt": '
printf '{"prompt": "a"}\nb\n' > bad.jsonl
like 'a line that is not JSON' "$(sample run --prompts bad.jsonl)" \
	'^zeroth: bad\.jsonl:2: not JSON: '
like 'no prompts' "$(sample run --prompts /dev/null)" '^zeroth: /dev/null: has no prompts$'
is 'I7 no run' "$(sample nowhere)" 'zeroth: nowhere: No such file or directory'
mkdir begun
cp run/config.ini begun
like 'I7 a run that has no model yet' "$(sample begun)" '^zeroth: begun: the run has no model\.safetensors yet: it ends with one; a'
like 'no file' "$(sample run --prompts nowhere)" '^zeroth: nowhere: cannot open: No such file'
is 'two kinds of prompts' "$(sample run --prompts prompts -p x)" \
	'zeroth sample: --prompt and --prompts: give one of them'

# ---- a conversation ----
cp "$golden/chat/bytes.json" tokenizer.json
got=$("$ZEROTH" tokenize -T tokenizer.json -o talk.bin text 2>&1)
case $got in *'build'*) done_testing; exit ;; esac # no PCRE2 or no utf8proc
"$ZEROTH" train "$ZR_SRCDIR/tests/lib/matrix.ini" -o data.plugin=tokens -o data.path=talk.bin \
	-o model.vocabulary=512 -o model.context=200 -o run.dir=talk -o train.eval_every=0 \
	-o train.steps=20 -o optimizer.lr=0.01 -o checkpoint.every=10 > out 2>&1 ||
	fail 'a training' "$(cat out)"
cp tokenizer.json talk
# at that temperature all tokens are drawn alike
hot() { "$ZEROTH" sample talk -t 100 -k 0 -n 9000 --json "$@" 2> /dev/null; }
plain=$(hot)
like 'a tokenizer alone: <|endoftext|> ends a text' "$plain" '"end":"eos"}$'
is 'that is what it means' "$(hot --eos '<|endoftext|>')" "$plain"
echo '{"eos_token": {"content": "<|im_end|>"}}' > talk/tokenizer_config.json
is 'tokenizer_config.json says another token' "$(hot)" "$(hot --eos '<|im_end|>')"
ok 'and that is another end' test "$(hot)" != "$plain"
rm talk/tokenizer_config.json
talk() { "$ZEROTH" sample talk --chat --template chatml -t 0 -n 12 "$@" 2> talk.err; }
# answer TEXT: what the model says behind it
answer() {
	local out
	out=$("$ZEROTH" sample talk -t 0 -n 12 --eos '<|im_end|>' -p "$1" 2> /dev/null)
	printf '%s' "${out#"$1"}"
}
# ask TEXT: as the template has it
ask() { printf '<|im_start|>user\n%s<|im_end|>\n<|im_start|>assistant\n.' "$1"; }
first=$(ask 'line 1') first=${first%.} second=$(ask 'a text') second=${second%.}
one=$(answer "$first")
two=$(answer "$first$one<|im_end|>
$second")
is 'an answer' "$(echo 'line 1' | talk)" "$one"
is 'an answer to all that was said' "$(printf 'line 1\na text\n' | talk)" "$one
$two"
is 'the same without the cache' "$(printf 'line 1\na text' | talk --no-cache)" "$one
$two"
is '/reset forgets, /quit ends, empty lines are none' \
	"$(printf 'line 1\r\n/reset\n\nline 1\n/quit\na text\n' | talk)" "$one
$one"
cat > talk.jinja <<'END'
{% for m in messages %}{{ '<|im_start|>' + m.role }}
{{ m.content }}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}
END
is 'a template of Jinja' "$(printf 'line 1\na text\n' | talk --template talk.jinja)" "$(printf 'line 1\na text\n' | talk)"
echo '[{"name": "line 1"}]' > tools.json
like 'a template that writes no tools' "$(echo x | talk --template talk.jinja --tools tools.json; cat talk.err)" \
	'zeroth: tools.json: template of Jinja writes no tools'
{ echo '{% for t in tools or [] %}{{ t.name }}{% endfor %}'; cat talk.jinja; } > tools.jinja
is 'one that writes them' "$(echo 'a text' | talk --template tools.jinja --tools tools.json)" "$(answer "line 1
$second")"
is 'a system message' "$(echo 'line 1' | talk --system 'of a text')" \
	"$(answer "<|im_start|>system
of a text<|im_end|>
$first")"
like 'what does not go together' "$(talk --json < /dev/null; cat talk.err)" \
	'^zeroth sample: --chat reads standard input, and answers once: not with --prompt, '
stop=${one:2:2}
is 'a stop string ends an answer' "$(echo 'line 1' | talk --stop "$stop")" "${one%%"$stop"*}"
is 'where many lines do not fit, the oldest go' \
	"$(for i in 1 2 3 4 5 6; do echo "line $i of a text"; done | talk -n 30 > out; echo $?)" 0
like 'and people are told' "$(cat talk.err)" \
	'the oldest question and its answer are left out: the model sees 200 tokens$'
is 'a question that does not fit is not asked' "$(printf '%0300d\nline 1\n' 1 | talk)" "$one"
like 'and people are told that, too' "$(cat talk.err)" \
	'tokens long, the model sees 200: ask shorter$'
forms=(--user-form '<|im_start|>user\n{content}<|im_end|>\n'
	--assistant-form '<|im_start|>assistant\n{content}{eos}\n')
own() { "$ZEROTH" sample talk --chat -t 0 -n 12 "${forms[@]}" "$@" 2> talk.err; }
is "a template of one's own" "$(printf 'line 1\na text\n' | own --eos '<|im_end|>')" "$one
$two"
is 'with what comes first' "$(echo 'line 1' | own --eos '<|im_end|>' --begin '{bos}\n' --bos '<s>')" \
	"$(answer "<s>
$first")"
spaced=$(own --eos '<|im_end|>' --assistant-form 'A: {content}{eos}\n' < <(printf 'line 1\na text\n'))
one=$(answer "${first%%<|im_start|>assistant*}A:") one=${one# }
two=$(answer "${first%%<|im_start|>assistant*}A: $one<|im_end|>
${second%%<|im_start|>assistant*}A:")
is 'a space before an answer is drawn with its first word' "$spaced" "$one
${two# }"
one=$(answer "$first")
trimmed=(-t 1 -k 0 -n 40 --user-form 'U{content|trim}' --assistant-form 'A{content}' --eos '<|im_end|>')
is 'what is no UTF-8 is asked as U+FFFD' "$(printf 'line \xa5\n' | own "${trimmed[@]}")" \
	"$(printf 'line \xef\xbf\xbd\n' | own "${trimmed[@]}")"
like 'without a conversation' "$(sample talk --begin x)" \
	'^zeroth sample: --system, --template, --bos and the forms are for --chat$'

# ---- a checkpoint ----
early=talk/checkpoints/step-00000010 late=talk/checkpoints/step-00000020
is 'a checkpoint of the end is the run' "$("$ZEROTH" sample $late -p line -n 30 2> /dev/null)" \
	"$("$ZEROTH" sample talk -p line -n 30 2> /dev/null)"
ok 'one of before is not' test "$("$ZEROTH" sample $early -p line -n 30 2> /dev/null)" != \
	"$("$ZEROTH" sample talk -p line -n 30 2> /dev/null)"
"$ZEROTH" checkpoint export $early early > out 2>&1 || fail 'an export' "$(cat out)"
cp tokenizer.json early
is 'it is what is exported of it' "$("$ZEROTH" sample $early -p line -n 30 --json 2> /dev/null)" \
	"$("$ZEROTH" sample early -p line -n 30 --json 2> /dev/null)"
cp -r $late broken
printf x | dd of=broken/$(ls broken | grep -m 1 safetensors) bs=1 seek=9000 conv=notrunc 2> /dev/null
like 'one that is damaged' "$(sample broken)" '^zeroth: broken/.*: (checksum|hash|.* is damaged)'

# ---- beside another model ----
cp -r "$golden/pretrained/gpt2" numbers
asked='line 1
a text
/reset
a text
'
# alone RUN: its answers, a line each
alone() { printf "$asked" | "$ZEROTH" sample "$1" --chat --template chatml -t 1 -n 12 --stop '
' 2> /dev/null; }
both() { printf "$asked" | "$ZEROTH" sample "$1" --beside "$2" --chat --template chatml -t 1 -n 12 --stop '
' 2> beside.err; }
both talk early > beside.out
is 'beside: each answers as it does alone, from its own history' \
	"$(sed -n '2~4p' beside.out) $(sed -n '4~4p' beside.out)" "$(alone talk) $(alone early)"
is 'below its name' "$(sed -n '1~2p' beside.out | sort | uniq -c | tr -s ' \n' ' ')" ' 3 --- early 3 --- talk '
ok 'they say other things' test "$(alone talk)" != "$(alone early)"
is 'with one seed the same again' "$(both talk early)" "$(cat beside.out)"
is 'a checkpoint stands beside, too' "$(both talk $early | grep -v '^---')" "$(grep -v '^---' beside.out)"
is 'texts without a conversation' "$("$ZEROTH" sample talk --beside run -p 'line' -n 20 --samples 2 2> /dev/null)" "$(
	"$ZEROTH" sample talk -p 'line' -n 20 --samples 2 > a 2> /dev/null
	sample run -p 'line' -n 20 --samples 2 > b
	for i in 1 2; do for name in talk run; do
		echo "--- $name"
		[ $name = talk ] && file=a || file=b
		awk -v i=$i 'BEGIN { n = 1 } /^---$/ { n++; next } n == i' $file
	done; done)"
is 'and as JSON' "$("$ZEROTH" sample talk --beside run -p line -n 5 --json 2> /dev/null | sed 's/"model":"[a-z]*",//')" \
	"$(for name in talk run; do "$ZEROTH" sample $name -p line -n 5 --json 2> /dev/null; done)"
is 'with the name of the model' \
	"$("$ZEROTH" sample talk --beside run -p line -n 5 --json 2> /dev/null | grep -o '^{"model":"[^"]*"')" \
	'{"model":"talk"
{"model":"run"'
is 'no model there' "$(both talk nowhere; cat beside.err)" 'zeroth: nowhere: No such file or directory'
mkdir nothing
like 'a directory of something else' "$(both talk nothing; cat beside.err)" \
	'zeroth: nothing: neither a run, which has config\.ini, nor a model'
like 'one without a tokenizer' "$(both talk numbers; tail -n 1 beside.err)" \
	'^zeroth: numbers: --chat needs a tokenizer\.json'
like 'one without a chat template' "$(echo x | sample talk --chat --beside early)" \
	'zeroth: (talk|early)(/|: ).*tokenizer_config\.json: has no chat_template'
is 'the same model' "$(both talk talk; cat beside.err)" \
	'zeroth sample: --beside names the model that it would stand beside'
is 'texts that are kept' "$(sample talk --beside run --keep)" \
	'zeroth sample: --keep is for texts of a run alone: not with --beside'

# ---- a run says how its conversations were written ----
mkdir elsewhere
cp -r talk told
mv told/tokenizer.json elsewhere
awk '/^\[/ { data = /^\[data\]/ } !data' talk/config.ini > told/config.ini
cat >> told/config.ini << 'EOF'
[data]
plugin = chat
path = chat.jsonl
tokenizer = elsewhere/tokenizer.json
user_form = <|im_start|>user\n{content}<|im_end|>\n
assistant_form = <|im_start|>assistant\n{content}{eos}\n
system_form = <|im_start|>system\n{content}<|im_end|>\n
system = of a text
eos = <|im_end|>
EOF
told() { "$ZEROTH" sample told --chat -t 0 -n 12 "$@" 2> talk.err; }
one=$(echo 'line 1' | talk --system 'of a text')
is 'its forms and system message' "$(echo 'line 1' | told)" "$one"
like 'and its tokenizer' "$(cat talk.err)" '^tokenizer   elsewhere/tokenizer\.json$'
is 'options win' "$(echo 'line 1' | told --system x --user-form 'U{content}' --assistant-form 'A{content}' \
	--system-form '{content}S')" "$("$ZEROTH" sample talk -t 0 -n 12 --eos '<|im_end|>' -p 'xSUline 1A' \
	2> /dev/null | sed 's/^xSUline 1A//')"
like 'a template has forms of its own' "$(echo x | told --template jinja; cat talk.err)" \
	'zeroth: template jinja: expected auto, or one of chatml, '
like 'no template' "$(echo x | sample talk --chat)" \
	'talk/tokenizer_config\.json: has no chat_template: name one of '
like 'bytes have no template' "$(echo x | sample run --chat)" \
	'zeroth: --chat needs a tokenizer\.json'

done_testing
