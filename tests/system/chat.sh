#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# zeroth tokenize --chat: lines of every format and of every kind of damage, templates, what is
# learned, and what is left out and why. (Ids and masks: tests/unit/chat/t_chat.c.)
. "$ZR_SRCDIR/tests/lib/tap.sh" || exit 99
golden=$(cd "$ZR_SRCDIR" && pwd)/tests/golden/chat
cd "$scratch" || exit 99
cp "$golden/bytes.json" tokenizer.json

chat() { "$ZEROTH" tokenize --chat --force -T tokenizer.json -o out.tok "$@" >out 2>err; echo "$? $(cat err)"; }
# run TEMPLATE TEXT [argument]...: of lines that printf makes
run() {
	local template=$1 text=$2
	shift 2
	printf "$text" >in.jsonl
	chat -t "$template" "$@" in.jsonl
}
# The file without its header, of records that are the same however they are written.
data() { tail -c +8193 out.tok | sha256sum; }
count() { head -c 8192 out.tok | grep -ao "\"$1\":\"[0-9]*\"" | tr -dc '0-9'; }

hi='{"messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":"Hello"}]}\n'
got=$(run chatml "$hi")
case $got in *'build'*) skip_all 'no PCRE2 or no utf8proc' ;; esac
is 'a conversation' "$got" '0 '
wanted=$(data)
like 'what is printed' "$(cat out)" '^tokenized   .*, template chatml: 1 of 1 records, [0-9]+ tokens, [0-9]+ targets \([0-9]+ %\), longest [0-9]+, '
# same NAME LINE [argument]...: gives the same tokens and targets
same() {
	local name=$1 line=$2
	shift 2
	is "$name" "$(run chatml "$line" "$@") $(data)" "0  $wanted"
}
same 'as ShareGPT' '{"conversations":[{"from":"human","value":"Hi"},{"from":"gpt","value":"Hello"}]}\n'
same 'as prompt and completion' '{"prompt":"Hi","completion":"Hello"}\n'
same 'as lists of them' '{"prompt":[{"role":"user","content":"Hi"}],"completion":[{"role":"assistant","content":"Hello"}]}\n'
same 'with fields that say nothing' '{"prompt":"Hi","completion":"Hello","tools":[],"images":null,"chosen":""}\n'
is 'which nobody counts' "$(grep -c '^not read' out)" 0
same 'with fields that are not read' '{"id":7,"source":"web","messages":[{"role":"user","content":"Hi","name":"me"},{"role":"assistant","content":"Hello","weight":1,"train":true}],"label":"greeting"}\n'
is 'which are counted by name' "$(grep '^not read' out)" \
	'not read    messages.name (1 record), id (1 record), source (1 record), label (1 record)'
same 'as a list over lines' '[\n  {"prompt":\n "Hi",\n "completion": "Hello" }\n]\n'
same 'as a list in one line' '[{"prompt":"Hi","completion":"Hello"}]'
like 'a list without its end' "$(run chatml '[{"prompt":"Hi","completion":"Hello"}\n')" '^2 zeroth: in.jsonl: the list that it begins with does not end$'
like 'more behind a list' "$(run chatml '[{"prompt":"Hi","completion":"Hello"}]\n{}')" '^2 zeroth: in.jsonl: something follows the list that it begins with$'
like 'a list with a comma too much' "$(run chatml '[{"prompt":"Hi","completion":"Hello"},]')" '^2 zeroth: in.jsonl:2: not JSON: '
like 'a Parquet file' "$(run chatml 'PAR1\x15\x04\x15\x00more')" '^2 zeroth: in.jsonl: is a Parquet file, not JSON lines: pandas.read_parquet'
like 'an Arrow file' "$(run chatml 'ARROW1\x00\x00more')" '^2 zeroth: in.jsonl: is an Arrow file, not JSON lines: pandas.read_feather'
turns='{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"},{"role":"user","content":"Hi"},{"role":"assistant","content":"Hello"}]}\n'
run chatml "$turns" --train-on completion >/dev/null
history=$(data)
run chatml '{"instruction":"Hi","output":"Hello","history":[["a","b"]]}\n' --train-on completion >/dev/null
is 'a history comes before' "$(data)" "$history"
unlearned='{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b","%s":%s},{"role":"user","content":"Hi"},{"role":"assistant","content":"Hello"}]}\n'
run chatml "$(printf "$unlearned" weight 0)\n" >/dev/null
weighed=$(data)
run chatml "$(printf "$unlearned" train false)\n" >/dev/null
is 'train: false is weight 0' "$(data)" "$weighed"
run chatml "$hi" >/dev/null
same 'as alpaca' '{"instruction":"Hi","input":"","output":"Hello"}\n'
same 'in parts' '{"messages":[{"role":"user","content":[{"type":"text","text":"H"},{"text":"i","type":"text"}]},{"role":"assistant","content":"Hello"}]}\n'
same 'with other names' '{"d":[{"who":"me","what":"Hi"},{"who":"you","what":"Hello"}]}\n' \
	--field messages=d --field 'role=who, content=what' --field user=me --field assistant=you
same 'with CRLF, a BOM and empty lines' '\xef\xbb\xbf\r\n{"prompt":"Hi","completion":"Hello"}\r\n \t\r\n\n'
same 'without a line end' '{"prompt":"Hi","completion":"Hello"}'
same 'with escapes' '{"prompt":"\\u0048\\u0069","completion":"Hell\\u006F","other":[1.5e3,null,{"a":[]}]}'
same 'as a template of forms' "$hi" --user-form '<|im_start|>user\n{content}<|im_end|>\n' \
	--assistant-form '<|im_start|>assistant\n{content}<|im_end|>\n' --end ''
run chatml '{"messages":[{"role":"system","content":"S"},{"role":"user","content":"Hi"},{"role":"assistant","content":"Hello"}]}\n' >/dev/null
wanted=$(data)
same 'a system message from outside' "$hi" --system S
same 'a system message beside' '{"system":"S","prompt":"Hi","completion":"Hello"}\n'
is 'an emoji in two escapes is itself' "$(run none '{"text":"\\ud83d\\ude00\\u0000"}\n'; data)" \
	"$(run none '{"text":"\xf0\x9f\x98\x80\\u0000"}\n'; data)"

# ---- several files, compressed, standard input, threads ----
for i in 1 2 3; do cat "$golden/conversations.jsonl"; done >many.jsonl
chat -t llama3 -j 1 many.jsonl >/dev/null
wanted=$(data)
chat -t llama3 -j 4 many.jsonl >/dev/null
is 'the same file from four threads' "$(data)" "$wanted"
chat -t llama3 "$golden/conversations.jsonl" - "$golden/conversations.jsonl" <"$golden/conversations.jsonl" >/dev/null
is 'and from three files' "$(data)" "$wanted"
is '600 records' "$(count records)" 600
gzip -c many.jsonl >many.gz
got=$(chat -t llama3 many.gz)
case $got in *'no zlib'*) skip 'gzip' 'no zlib' ;; *) is 'gzip' "$got $(data)" "0  $wanted" ;; esac
if command -v zstd >/dev/null && zstd -q -c many.jsonl >many.zst; then
	got=$(chat -t llama3 many.zst)
	case $got in *libzstd-dev*) skip 'zstd' 'no zstd' ;; *) is 'zstd' "$got $(data)" "0  $wanted" ;; esac
	head -c 2000 many.zst >short.zst
	like 'zstd, cut short' "$(chat -t llama3 short.zst)" '^[24] zeroth: short.zst: .*(truncated|libzstd-dev)'
else
	skip 'zstd' 'no program zstd'
fi

# ---- what is learned ----
two='{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b c"},{"role":"user","content":"d"},{"role":"assistant","content":"e"}]}\n'
targets() { run chatml "$@" >/dev/null; sed -n 's/.* \([0-9]*\) targets.*/\1/p' out; }
one='{"prompt":"d","completion":"e"}\n'
is 'completion: the answer to the last message' "$(targets "$two" --train-on completion)" "$(targets "$one")"
is 'last: the last answer' "$(targets "$two" --train-on last)" "$(targets "$one")"
# masks TEMPLATE [argument]...: targets with --mask turn and with --mask trl
masks() {
	local template=$1 mask
	shift
	for mask in turn trl; do
		run "$template" "$two" --mask $mask "$@" >/dev/null
		sed -n 's/.* \([0-9]*\) targets.*/\1/p' out
	done | xargs
}
more() { masks "$@" | awk '{ print $2 - $1 }'; }
is 'TRL learns the line end behind each answer' "$(more chatml) $(more chatml --train-on last)" '2 1'
is 'and before it with qwen2.5' "$(more qwen2.5) $(more qwen2.5 --train-on last)" '4 2'
is 'where it is no part of the prompt' "$(more qwen2.5 --train-on completion)" 1
is 'and what ends all' "$(more phi3 --end '<|im_end|>') $(more phi3 --end '<|im_end|>' --train-on last)" '3 2'
is 'but not behind a user' "$(two=${two/%\]\}\\n/,{\"role\":\"user\",\"content\":\"f\"\}]\}\\n}; more phi3 --end '<|im_end|>')" 2
is 'nor of an answer that is not learned' \
	"$(two=${two/\"e\"/\"e\",\"weight\":0}; more phi3 --end '<|im_end|>')" 1
like 'another mask' "$(run chatml "$one" --mask all)" '^2 zeroth: mask all: expected turn or trl$'
ok 'assistant: both' test "$(targets "$two")" -gt "$(targets "$one")"
is 'all: all but the first token' "$(targets "$one" --train-on all)" \
	"$(($(run chatml "$one" >/dev/null; sed -n 's/.* \([0-9]*\) tokens,.*/\1/p' out) - 1))"
is 'weight: 0 of a message' "$(targets "${two/\"b c\"/\"b c\",\"weight\":0}")" "$(targets "$one")"

# ---- too long ----
run chatml "$one" >/dev/null
wanted=$(data)
n=$(sed -n 's/.* \([0-9]*\) tokens,.*/\1/p' out)
is 'the oldest turns go' "$(run chatml "$two" --max-length "$n") $(data)" "0  $wanted"
is 'which is counted' "$(grep '^truncated' out) $(count truncated) $(count dropped)" 'truncated   1 lost their oldest turns 1 0'
is '... unless it is to be left out as it is' \
	"$(run chatml "$two$one" --max-length "$n" --on-long drop | head -c 2) $(data) $(count 'dropped.too_long')" \
	"0  $wanted 1"
like 'an unknown way' "$(run chatml "$one" --on-long cut)" 'on-long cut: expected shorten or drop$'
run chatml "$one" --system 'Be brief.' >/dev/null
kept=$(data) most=$(sed -n 's/.* \([0-9]*\) tokens,.*/\1/p' out)
is 'but not the system message' \
	"$(run chatml "$two" --system 'Be brief.' --max-length "$most") $(data)" "0  $kept"
like 'what is too long without them is left out' "$(run chatml "$two{\"prompt\":\"d\",\"completion\":\"\"}\n" --max-length $((n - 1)))" \
	"^zeroth: warning: tokenize: in.jsonl:1: left out: [0-9]+ tokens, more than the $((n - 1)) that were asked for$|^0 zeroth: warning: tokenize: in.jsonl:1: left out"
is 'and counted' "$(count dropped) $(count 'dropped.too_long')" '1 1'

# Each number of turns is kept where it just fits, and the oldest go first.
turn() { printf '{"role":"user","content":"question %s"},{"role":"assistant","content":"answer %s"}' "$1" "$1"; }
last() { # last K: the last K of five turns
	local k=$1 turns
	turns=$(turn $((6 - k)))
	while [ $((k -= 1)) -gt 0 ]; do turns+=,$(turn $((6 - k))); done
	printf '{"messages":[%s]}\\n' "$turns"
}
for k in 5 4 3 2 1; do
	run chatml "$(last $k)" >/dev/null
	kept=$(data) n=$(sed -n 's/.* longest \([0-9]*\),.*/\1/p' out)
	run chatml "$(last 5)" --max-length "$n" >/dev/null
	is "$k turns of five are kept where they fit" "$(data)" "$kept"
done

# What is not to be learned is not, whatever is trained on.
unlearned='{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"},{"role":"user","content":"c"},{"role":"assistant","content":"d","weight":0}]}\n'
like 'the last answer, if it has no weight' "$(run chatml "$unlearned" --train-on last)" 'left out: nothing in it is learned$'

# A text that ends with the last token has it once.
run chatml '{"text":"abc"}\n' >/dev/null
once=$(data)
run chatml '{"text":"abc<|im_end|>"}\n' >/dev/null
ended=$(data)
run chatml '{"text":"abc<|im_end|><|im_end|>"}\n' >/dev/null
if [ "$(data)" = "$once" ]; then fail 'a text ends with the last token once' 'twice is once'
else is 'a text ends with the last token once' "$ended" "$once"; fi

# And one that begins with what the tokenizer puts before a text has that once.
cp "$golden/spaces.json" tokenizer.json
run zephyr '{"text":"abc"}\n' >/dev/null
once=$(data)
run zephyr '{"text":"<s>abc"}\n' >/dev/null
is 'a text begins with the first token once' "$(data)" "$once"
cp "$golden/bytes.json" tokenizer.json

# ---- damage: refused, and left out ----
# bad NAME LINE PATTERN REASON [argument]...
bad() {
	local name=$1 line=$2 pattern=$3 reason=$4 template=${template:-chatml}
	shift 4
	like "$name" "$(run "$template" "$hi$line$hi" "$@")" "^(2 )?zeroth: in.jsonl:2: $pattern \(on_bad = skip, or --on-bad skip, leaves such lines out\)$"
	run "$template" "$hi$line$hi" --on-bad skip "$@" >/dev/null
	is "$name: skip" "$(count records) $(count dropped) $(count "dropped.$reason") $(grep -c '^dropped' out)" '3 1 1 1'
}
bad 'no JSON' 'hello\n' 'not JSON: byte 5: .*' json
bad 'cut short' '{"text":"a\n' 'not JSON: byte 10: .*' json
bad 'a NUL' '{"text":"a\0b"}\n' 'not JSON: byte 10: control character .*' json
bad 'no UTF-8' '{"text":"a\xff"}\n' 'not JSON: byte 10: unable to decode byte 0xff.*' json
bad 'half a surrogate' '{"text":"\\ud800x"}\n' 'not JSON: byte 17: invalid Unicode .*' json
bad 'two values' '{"text":"a"} {}\n' 'not JSON: byte 14: .*' json
bad 'a list' '[{"text":"a"}]\n' 'a list; a line is one object, or the file is one list' json
bad 'no field that is known' '{"a":1}\n' 'has none of the fields that are read: .*' fields
bad 'a field twice' '{"text":"a","text":"b"}\n' 'not JSON: byte 18: duplicate object key.*' json
bad 'a number as text' '{"text":1}\n' 'text: expected a text, found a number' fields
bad 'no content' '{"messages":[{"role":"user","content":null}]}\n' 'message 1: has no content; it needs role and content' fields
bad 'no answer' '{"prompt":"a"}\n' 'has prompt and no completion' fields
bad 'an image' '{"messages":[{"role":"user","content":[{"type":"image_url"}]}]}\n' 'message 1: a part that is not .*; only text is read' fields
bad 'calls of tools' '{"messages":[{"role":"assistant","content":"","tool_calls":[{}]}]}\n' 'message 1: tool_calls: calls of tools are not written to the text' fields

# What asks for another training is refused by its name, wherever it stands.
pair='"prompt":"Hi","completion":"Hello"'
bad 'preferences' '{"prompt":"Hi","chosen":"Hello","rejected":"No"}\n' 'chosen: preferences are another training than that of answers' fields
bad 'a bad answer' "{$pair,\"label\":false}\\n" 'label: answers that are good or bad are another training: .*' fields
bad 'a good answer among bad ones' "{$pair,\"label\":true}\\n" 'label: answers that are good or bad are another training: .*' fields
bad 'pictures' "{$pair,\"images\":[\"a.png\"]}\\n" 'images: only text is read' fields
bad 'tools' "{$pair,\"tools\":[{}]}\\n" 'tools: tools are not written to the text' fields
answer() { printf '{"messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":"Hello",%s}]}\\n' "$1"; }
for thought in reasoning_content reasoning thinking; do
	bad "thoughts as $thought" "$(answer "\"$thought\":\"hm\"")" "message 2: $thought: thoughts are not written to the text" fields
done
bad 'half a weight' "$(answer '"weight":0.5')" 'message 2: weight: expected 0 or 1, found 0.5' fields
bad 'train that is no truth value' "$(answer '"train":"no"')" 'message 2: train: expected true or false, found a text' fields
bad 'a system message that is none' "{$pair,\"system\":7}\\n" 'system: expected a text, found a number' fields
bad 'a history that is none' '{"instruction":"a","output":"b","history":[["a"]]}\n' 'history: turn 1: expected a list of two texts, an instruction and an output' fields
bad 'an unknown role' '{"messages":[{"role":"tool","content":"x"}]}\n' 'message 1: role "tool"; .*' roles
sed 's/"~":/"elephant":/' "$golden/bytes.json" >tokenizer.json
bad 'a byte without a token' '{"prompt":"Hi~","completion":"Hello"}\n' \
	"byte 0x7e, first behind 19 bytes of the text, has no token in the tokenizer's vocabulary" no_token
cp "$golden/bytes.json" tokenizer.json
template=gemma bad 'an order that a template does not allow' '{"messages":[{"role":"assistant","content":"x"}]}\n' \
	'message 1 is of role assistant, and template gemma wants user here' roles
template=gemma bad 'a role that it lacks' '{"messages":[{"role":"system","content":"x"},{"role":"user","content":"x"}]}\n' \
	'template gemma has no system message' roles
like 'nothing to learn is no mistake' "$(run chatml "$hi"'{"messages":[{"role":"user","content":"x"}]}\n')" \
	'^0 zeroth: warning: tokenize: in.jsonl:2: left out: nothing in it is learned$'
is 'but counted' "$(count 'dropped.no_target')" 1
like 'nothing at all' "$(run chatml '\n')" '^2 zeroth: there is no conversation to learn from in in.jsonl$'
is 'leaves nothing behind' "$(ls ./*.tmp* 2>/dev/null)" ''

# ---- templates of Jinja ----
turn='{{ "<|im_start|>" + m.role + "\n" }}'
cat >same.jinja <<END
{% for m in messages %}$turn{{ m.content }}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}
END
run chatml "$hi" >/dev/null
wanted=$(data)
same_jinja() {
	is "$1" "$(run same.jinja "$2" "${@:3}") $(data)" "0  $wanted"
}
same_jinja 'by Jinja: as by forms' "$hi"
like 'which says so' "$(cat out)" '^tokenized   .*, template of Jinja: 1 of 1 records, '
same_jinja 'ShareGPT' '{"conversations":[{"from":"human","value":"Hi"},{"from":"gpt","value":"Hello"}]}\n'
same_jinja 'prompt and completion' '{"prompt":"Hi","completion":"Hello"}\n' --train-on completion
same_jinja 'the last answer' '{"prompt":"Hi","completion":"Hello"}\n' --train-on last
run chatml "$turns" --mask trl >/dev/null
wanted=$(data)
same_jinja 'the line end, too' "$turns" --mask trl
unlearned='{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b","weight":0},{"role":"user","content":"Hi"},{"role":"assistant","content":"Hello"}]}\n'
run chatml "$unlearned" >/dev/null
wanted=$(data)
same_jinja 'an answer that is not learned' "$unlearned"
run chatml "$hi" --system be --max-length 2000 >/dev/null
wanted=$(data)
same_jinja 'a system message' "$hi" --system be
long='{"messages":[{"role":"user","content":"%0200d"},{"role":"assistant","content":"a"},{"role":"user","content":"b"},{"role":"assistant","content":"c"}]}\n'
run chatml "$(printf "$long" 0)\n" --max-length 100 >/dev/null
wanted=$(data)
same_jinja 'one that is too long loses its oldest turns' "$(printf "$long" 0)\n" --max-length 100
is 'and is counted' "$(count truncated)" 1

# told WORD: how many it printed
told() { sed -n "s/.* \([0-9]*\) $1[ ,].*/\1/p" out; }

# Thoughts of the last answer alone are written: each answer is learned as where it is last.
cat >thinks.jinja <<END
{%- set ns = namespace(last=-1) %}
{%- for m in messages %}{% if m.role == 'user' %}{% set ns.last = loop.index0 %}{% endif %}{% endfor %}
{%- for m in messages %}$turn{% if m.reasoning_content and loop.index0 > ns.last %}<think>{{ m.reasoning_content }}</think>{% endif %}{{ m.content }}
{%- for c in m.tool_calls %}<call>{{ c.function.name }}{{ c.function.arguments|tojson }}{% endfor %}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}
END
thoughts='{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b","reasoning":"one"},{"role":"user","content":"c"},{"role":"assistant","content":"d","thinking":"two"}]}\n'
is 'answers that are written in another way later' "$(run thinks.jinja "$thoughts")" '0 '
like 'are learned in texts of their own' "$(cat out)" ': 1 of 1 records in 2 texts, '
thought=$(data)
is 'as those that end there' "$(run thinks.jinja '{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"},{"role":"user","content":"c"},{"role":"assistant","content":"d","reasoning_content":"two"}]}\n{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b","reasoning_content":"one"}]}\n' --train-on last) $(data)" "0  $thought"
is 'each' "$(run thinks.jinja "$thoughts" --turns each) $(data)" "0  $thought"
like 'whole' "$(run thinks.jinja "$thoughts" --turns whole)" '^2 zeroth: in.jsonl:1: message 2: the template writes it in another way where others follow: turns = auto, or each, '
like 'with forms' "$(run chatml "$hi" --turns each)" '^2 zeroth: turns each: template chatml writes earlier answers as it writes the last one: '
tools='{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":null,"tool_calls":[{"type":"function","function":{"name":"f","arguments":{"x":1}}}]},{"role":"tool","content":"said"},{"role":"assistant","content":"b"}]}\n'
is 'calls and what tools say' "$(run thinks.jinja "$tools" --train-on last)" '0 '
two='{"messages":[{"role":"user","content":"a"},{"role":"assistant","tool_calls":[{"type":"function","function":{"name":"f","arguments":{"x":1}}}]},{"role":"tool","content":"said"},{"role":"assistant","content":"b","reasoning":"so","weight":%s}]}\n'
run thinks.jinja "$(printf "$two" 0)\n" >/dev/null
calls=$(data)
is 'answers that call tools' "$(run thinks.jinja "$(printf "$two" 1)\n" --train-on calls) $(data)" "0  $calls"
run thinks.jinja '{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b","reasoning":"so"}]}\n' >/dev/null
of_thought=$(told targets)
is 'answers with thoughts' "$(run thinks.jinja "$(printf "$two" 1)\n" --train-on thoughts) $(told targets)" "0  $of_thought"
of_call=$(run thinks.jinja "$(printf "$two" 0)\n" >/dev/null; told targets)
is 'what a tool says is not learned' "$(run thinks.jinja "$(printf "$two" 1)\n") $(told targets)" "0  $((of_thought + of_call))"
is 'calls as ShareGPT has them' "$(run thinks.jinja '{"conversations":[{"from":"human","value":"a"},{"from":"function_call","value":"{\\"name\\":\\"f\\",\\"arguments\\":{\\"x\\":1}}"},{"from":"observation","value":"said"},{"from":"gpt","value":"b","reasoning":"so","weight":0}]}\n') $(data)" "0  $calls"
like 'or not' "$(run thinks.jinja '{"conversations":[{"from":"human","value":"a"},{"from":"function_call","value":"f(1)"}]}\n')" '^2 zeroth: in.jsonl:1: message 2: function_call: not JSON: byte '
like 'by forms' "$(run chatml "$hi" --train-on calls)" '^2 zeroth: train-on calls: template chatml writes no calls and no thoughts$'
printf '{%%%% for t in tools or [] %%%%}{{ t.name }}{%%%% endfor %%%%}{{ x }}' | sed 's/%%/%/g' | cat - same.jinja >tools.jinja
given='{"tools":%s,"messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":"Hello"}]}\n'
run tools.jinja "$(printf "$given" '[{"name":"f"}]')\n" >/dev/null
wanted=$(data)
is 'tools as text' "$(run tools.jinja "$(printf "$given" '"[{\\"name\\":\\"f\\"}]"')\n") $(data)" "0  $wanted"
like 'that is none' "$(run tools.jinja "$(printf "$given" '"f"')\n")" '^2 zeroth: in.jsonl:1: tools: not JSON: byte '
is 'variables of a record' "$(run tools.jinja '{"chat_template_kwargs":{"x":"f"},"prompt":"Hi","completion":"Hello"}\n'"$hi") $(told tokens)" \
	"0  $(($(run tools.jinja "$hi$hi" --template-kwargs '{"x":"f"}' >/dev/null; told tokens) - 1))"
last='{"role":"user","content":"a"},{"role":"assistant","tool_calls":[{"type":"function","function":{"name":"f","arguments":{"x":1}}}]},{"role":"tool","content":"said"},{"role":"assistant","content":"b"}]}\n'
run thinks.jinja '{"messages":['"$last" >/dev/null
wanted=$(data)
is 'a turn that calls a tool is left whole' "$(run thinks.jinja "$(printf '{"messages":[{"role":"user","content":"%0200d"},{"role":"assistant","content":"a"},' 0)$last" \
	--max-length 200) $(data)" "0  $wanted"
is 'or out' "$(run thinks.jinja '{"messages":['"$last" --max-length 20 | grep -c "more than the 20")" 1
is 'forms do not write' "$(run chatml "$tools" | sed 's/ (on_bad.*//')" '2 zeroth: in.jsonl:1: message 2: tool_calls: calls of tools are not written to the text'
is 'nor does a template that has no word of them' "$(run same.jinja "$tools" | sed 's/ (on_bad.*//')" \
	'2 zeroth: in.jsonl:1: message 2: tool_calls: the chat template does not write it'
# by_blocks TEXT: of a template that says itself what is learned
printf '{%%%% for m in messages %%%%}<s>{%%%% if m.role == "assistant" %%%%}{%%%% generation %%%%}{{ m.content }}!{%%%% endgeneration %%%%}\n{%%%% else %%%%}{{ m.content }}{%%%% endif %%%%}{%%%% endfor %%%%}' | sed 's/%%/%/g' >blocks.jinja
is 'generation blocks' "$(run blocks.jinja "$turns" --train-on last)" '0 '
last=$(data)
run blocks.jinja "$unlearned" >/dev/null
is 'of answers that are learned' "$(data)" "$last"
run blocks.jinja "$turns" >/dev/null
ok 'of all' test "$(data)" != "$last"
printf '{{ strftime_now("%%%%Y") }}' | sed 's/%%/%/g' >day.jinja
like 'the day is given' "$(run day.jinja "$hi")" '^2 zeroth: in.jsonl:1: day.jinja:1: the template writes the day on which it is rendered: say which '
like 'as a day' "$(run day.jinja "$hi" --date 2026-02-29)" '^2 zeroth: date 2026-02-29: there is no such day$'
like 'what cannot be told' "$(run day.jinja "$hi" --date 2026-02-28)" '^2 zeroth: in.jsonl:1: message 2: what the template writes of it does not come behind what it writes without it, '
is 'left out, once' "$(run day.jinja "$turns$hi" --date 2026-02-28 --on-bad skip | grep -c 'left out: message')" 2
like 'a line that it refuses' "$(printf '{{ raise_exception("no " + messages[0].role) }}' >no.jinja; run no.jinja "$hi")" '^2 zeroth: in.jsonl:1: no.jinja:1: the template refuses it: no user '
printf '{%%%% for m in messages %%%%}{{ m.content }}{%%%% endfor %%%%}{{ x }}{{ bos_token }}' | sed 's/%%/%/g' >x.jinja
like 'a token that nobody names' "$(run x.jinja "$hi")" '^2 zeroth: the chat template writes bos_token, and tokenizer_config.json names none: give --bos, empty for none$'
is 'variables' "$(run x.jinja "$hi" --bos '' --template-kwargs '{"x": "!"}' --train-on all)" '0 '
is 'are written' "$(run x.jinja '{"messages":[{"role":"user","content":"HiHello!"}]}\n' --bos '' --train-on all) $(data)" "0  $(data)"
like 'of forms' "$(run chatml "$hi" --template-kwargs '{}')" '^2 zeroth: template_kwargs: template chatml takes none$'
jq=$(sed 's/\\/\\\\/g; s/"/\\"/g' same.jinja | sed ':a; N; $!ba; s/\n/\\n/g')
printf '%s' '{"chat_template":[{"name":"default","template":"'"$jq"'"},{"name":"tool_use","template":"{%- for t in tools %}{{ t.name }}{% endfor %}'"$jq"'"}]}' >tokenizer_config.json
run same.jinja "$hi" >/dev/null
wanted=$(data)
is 'of several templates the default' "$(run auto "$hi") $(data)" "0  $wanted"
run tools.jinja "$(printf "$given" '[{"name":"f"}]')\n" >/dev/null
wanted=$(data)
is 'with tools tool_use' "$(run auto "$(printf "$given" '[{"name":"f"}]')\n") $(data)" "0  $wanted"
rm tokenizer_config.json
for i in $(seq 300); do printf "$thoughts"; printf "$hi"; done >many.jsonl
for threads in 1 3; do
	"$ZEROTH" tokenize --chat --force -T tokenizer.json -t thinks.jinja -o $threads.tok -j $threads --on-bad skip many.jsonl >out 2>err
done
ok 'threads change nothing' cmp 1.tok 3.tok
like 'no file' "$(run gone.jinja "$hi")" '^2 zeroth: gone.jinja: cannot read: '

# ---- templates ----
like 'an unknown name' "$(run jinja "$hi")" '^2 zeroth: template jinja: expected auto, or one of chatml, .*, or none with --user-form'
like 'a tokenizer without a name' "$("$ZEROTH" tokenize --chat -T '' -t chatml -o chat.tok in.jsonl 2>&1)" '^zeroth: tokenizer: names no file$'
like 'auto without a configuration' "$(chat in.jsonl)" '^2 zeroth: tokenizer_config.json: has no chat_template: name one of chatml, '
printf '{"chat_template":"x\\n{{ messages|pprint }}","eos_token":{"content":"</s>"}}' >tokenizer_config.json
is 'auto: one that is not in the subset' "$(chat in.jsonl)" \
	'2 zeroth: tokenizer_config.json: chat_template:2: filter pprint: not in the subset of Jinja that Zeroth has'
known='{% for m in messages %}{{ m.content }}{% if m.role == '"'assistant'"' %}{{ eos_token }}{% endif %}{% endfor %}'
run none "$hi" >/dev/null
wanted=$(data)
printf '%s\n' "$known" >chat_template.jinja
is 'auto: one that is, in a file beside' "$(chat in.jsonl) $(data)" "0  $wanted"
like 'which is said' "$(cat out)" ', template none: 1 of 1 records'
rm chat_template.jinja
printf '{"chat_template":[{"name":"tool_use","template":"x"},{"name":"default","template":"%s"}],"eos_token":"</s>"}' "$known" >tokenizer_config.json
is 'auto: the default of several' "$(chat in.jsonl) $(data)" "0  $wanted"
sed -i 's/^{/{"model_max_length":1000000000000000019884624838656,/' tokenizer_config.json
is 'a length without a limit, as transformers writes it' "$(chat in.jsonl) $(data)" "0  $wanted"
is 'another last token' "$(chat --eos '<|end|>' in.jsonl; data | grep -c "${wanted%% *}")" "0 
0"
like 'forms without content' "$(chat --user-form x --assistant-form y in.jsonl)" '^2 zeroth: --user-form and --assistant-form: both are needed, with \{content\} in each'
mv tokenizer_config.json away
like 'a first token that nobody names' "$(run none "$hi" --between '{bos}')" \
	'^2 zeroth: template none has \{bos\}, and tokenizer_config.json names no bos_token: give --bos$'
mv away tokenizer_config.json
for form in '{/trim}' '{trim}' '{trim}{trim}{/trim}' '{trim}{/trim}{/trim}'; do
	is "a form with $form" "$(run none "$hi" --begin "$form")" \
		"2 zeroth: form $form: expected a {/trim} behind each {trim}, and no other"
done
run none "$hi" --assistant-form 'A {content}{eos}' >/dev/null
wanted=$(data)
is 'an answer that is trimmed is learned' "$(run none "${hi/Hello/ \\\\t Hello }" \
	--assistant-form 'A {trim} {content} {/trim}{eos}') $(data)" "0  $wanted"
sed 's/<|im_end|>/<|im_over|>/g' tokenizer.json >other.json
like 'a template of tokens that are not there' "$("$ZEROTH" tokenize --chat -T other.json -t chatml -o o.tok in.jsonl 2>&1 >/dev/null)" \
	'^zeroth: warning: tokenize: <\|im_end\|> of template chatml is no added token of other.json: it is written as several tokens$'
like 'an unknown field' "$(chat --field a=b in.jsonl)" '^2 zeroth: a=b: expected NAME=FIELD, NAME one of messages, '

# ---- a long line takes memory in proportion, and no more ----
{ printf '{"prompt":"x","completion":"'; yes 'a few words and' | head -c 24000000 | tr '\n' ' '; printf '"}\n'; printf "$hi"; } >long.jsonl
long() { ([ -n "$ZR_SANITIZE" ] || ulimit -v "$1"; chat -t chatml -j 1 long.jsonl); }
like 'a line of 24 MB' "$(long 450000; cat out)" '2 of 2 records'
if [ -n "$ZR_SANITIZE" ]; then
	skip 'without that memory' 'sanitizers take more'
else
	like 'without that memory' "$(long 150000)" '^4 zeroth: long.jsonl:1: out of memory$'
fi
done_testing
