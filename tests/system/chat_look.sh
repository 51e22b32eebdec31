#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# zeroth data show of conversations: what each token is, what is learned, where they are cut and why, as text and as a
# page; and that it is what training gets.
. "$ZR_SRCDIR/tests/lib/tap.sh" || exit 99
. "$ZR_SRCDIR/tests/lib/fixture.sh" || exit 99
golden=$(cd "$ZR_SRCDIR" && pwd)/tests/golden/chat
cd "$scratch" || exit 99
cp "$golden/bytes.json" tokenizer.json
{
	sed '/^\[data\]/,/^plugin/d; s/^context = .*/context = 2000/; s/^sequence_length = .*/sequence_length = 2000/' "$ZR_SRCDIR/tests/lib/matrix.ini"
	printf '[data]\nplugin = chat\npath = chat.jsonl\ntokenizer = tokenizer.json\ntemplate = chatml\ncache = cache\n'
} >chat.ini
# show ARGUMENT...: conversations; a line end behind a segment is \n there
show() { "$ZEROTH" data show chat.ini -o model.vocabulary=1024 -o train.train_batch_size=3 "$@" 2>&1; }
# A template that drops earlier thoughts and answers tools in a user's turn, as some models have it.
cat >think.jinja <<'T'
{%- if tools %}{{ '<|im_start|>system\n' }}{% if messages[0].role == 'system' %}{{ messages[0].content + '\n' }}{% endif %}{{ 'Tools:' }}{% for t in tools %}{{ '\n' + t | tojson }}{% endfor %}{{ '<|im_end|>\n' }}
{%- elif messages[0].role == 'system' %}{{ '<|im_start|>system\n' + messages[0].content + '<|im_end|>\n' }}{% endif %}
{%- set ns = namespace(last=0) %}{% for m in messages %}{% if m.role == 'user' %}{% set ns.last = loop.index0 %}{% endif %}{% endfor %}
{%- for m in messages %}
{%- if m.role == 'user' %}{{ '<|im_start|>user\n' + m.content + '<|im_end|>\n' }}
{%- elif m.role == 'tool' %}{{ '<|im_start|>user\n<response>\n' + m.content + '\n</response><|im_end|>\n' }}
{%- elif m.role == 'assistant' %}{{ '<|im_start|>assistant\n' }}
{%- set text = m.content or '' %}{% set thought = m.reasoning_content or '' %}
{%- if '</think>' in text %}{% set thought = text.split('</think>')[0].split('<think>')[-1].strip('\n') %}{% set text = text.split('</think>')[-1].lstrip('\n') %}{% endif %}
{%- if thought and loop.index0 > ns.last %}{{ '<think>\n' + thought.strip('\n') + '\n</think>\n\n' }}{% endif %}{{ text }}
{%- for c in m.tool_calls or [] %}{{ '\n<tool_call>\n{"name": "' + c.function.name + '", "arguments": ' + c.function.arguments | tojson + '}\n</tool_call>' }}{% endfor %}{{ '<|im_end|>\n' }}
{%- endif %}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}
T
# Another one: tools in the first user's turn, calls in place of the text.
cat >inside.jinja <<'T'
{% set ns = namespace(first=true) %}{% for m in messages %}
{%- if m.role == 'user' and ns.first and tools %}{{ '<h>user</h>\n\nGiven these functions:\n' }}{% for t in tools %}{{ t | tojson + '\n' }}{% endfor %}{{ m.content | trim + '<e>' }}{% set ns.first = false %}
{%- elif m.tool_calls %}{{ '<h>assistant</h>\n\n{"name": "' + m.tool_calls[0].function.name + '", "parameters": ' + m.tool_calls[0].function.arguments | tojson + '}<e>' }}
{%- elif m.role == 'tool' %}{{ '<h>ipython</h>\n\n' + m.content | tojson + '<e>' }}
{%- else %}{{ '<h>' + m.role + '</h>\n\n' + m.content | trim + '<e>' }}{% endif %}{% endfor %}
{%- if add_generation_prompt %}{{ '<h>assistant</h>\n\n' }}{% endif %}
T
cat >think.jsonl <<'J'
{"messages":[{"role":"system","content":"Be terse."},{"role":"user","content":"2 + 2?"},{"role":"assistant","reasoning_content":"A sum.","content":"4"},{"role":"user","content":"3 <script>alert(1)</script>"},{"role":"assistant","content":"<think>\nOdd.\n</think>\n\nNo & \"so\""}]}
J
cat >tools.jsonl <<'J'
{"tools":[{"type":"function","function":{"name":"sky","description":"Of a city.","parameters":{"type":"object","properties":{"city":{"type":"string"},"days":{"type":"integer"}}}}}],"messages":[{"role":"user","content":"Sky of Paris?"},{"role":"assistant","content":"","tool_calls":[{"type":"function","function":{"name":"sky","arguments":{"city":"Paris","days":3}}}]},{"role":"tool","content":"clear"},{"role":"assistant","content":"It is clear."}]}
J
cat >chat.jsonl <<'J'
{"messages":[{"role":"system","content":"Be kind."},{"role":"user","content":"Hi"},{"role":"assistant","content":"Hello\nthere"}]}
{"messages":[{"role":"user","content":"Only asked."}]}
{"text":"As it is"}
{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"},{"role":"user","content":"one two three four five six seven"},{"role":"assistant","content":"d"}]}
J
got=$(show -n 4)
case $got in *' build'*) skip_all 'no PCRE2 or no utf8proc' ;; esac

# rows TEXT: whose, what, learned or not, text, with one blank between
rows() { grep -E '^ .*\| |^===|^  ---' <<< "$1" | sed -E 's/^ +//; s/ +(\+?\|) /\1 /; s/ +(template|text|thought|call|tools|output)/ \1/'; }
is 'ChatML' "$(rows "$got" | sed -n '1,/^=== .*:2/p')" '=== conversation 1, chat.jsonl:1: '"$(sed -n 's/^=== conversation 1, chat.jsonl:1: //p' <<< "$got")"'
system template| <|im_start|>system\n
text| Be kind.
template| <|im_end|>\n
user template| <|im_start|>user\n
text| Hi
template| <|im_end|>\n
assistant template| <|im_start|>assistant\n
text+| Hello
+| there
template+| <|im_end|>
template| \n
=== chat.jsonl:2: left out: nothing in it is learned'
like 'a text without a template' "$(tr '\n' ' ' <<< "$got")" 'chat.jsonl:3: [0-9]+ tokens, [0-9]+ learned +- +text +\| A +text +\+\| s it is'
is 'from the fourth' "$(show -n 1 --from 4 | grep -c '^=== conversation 3, chat.jsonl:4: ')" 1
like 'statistics' "$(tr '\n' ' ' <<< "$got")" '3 conversations +min +median +mean +p95 +max +tokens +[0-9]+ +[0-9]+ +[0-9.]+ +[0-9]+ +[0-9]+ +learned .*dropped.no_target +1'

# ---- templates of Jinja ----
of() { local t=$1 file=$2; shift 2; show -o data.template="$t" -o data.path="$file" "$@"; }
is 'thoughts' "$(rows "$(of think.jinja think.jsonl -n 1)" | tail -n +2)" '- template| <|im_start|>system\n
system text| Be terse.
template| <|im_end|>\n
user template| <|im_start|>user\n
text| 2 + 2?
template| <|im_end|>\n
assistant template| <|im_start|>assistant\n
text| 4
template| <|im_end|>\n
user template| <|im_start|>user\n
text| 3 <script>alert(1)</script>
template| <|im_end|>\n
assistant template| <|im_start|>assistant\n
template+| <think>\n
thought+| Odd.\n
template+| </think>
+| \n
text+| No & "so"
template+| <|im_end|>
template| \n'
is 'an answer in a text of its own' "$(of think.jinja think.jsonl | grep -c '^=== conversation .*think.jsonl:1: ')" 2
got=$(of think.jinja tools.jsonl)
like 'definitions of tools' "$(tr '\n' ' ' <<< "$got")" '=== conv[^=]* learned   - +tools +\| <\|im_start\|>system +\| Tools: +\| \{"type": "function", .*"integer"\}\}\}\}\}<\|im_end\|>\\n   user +template +\| <\|im_start'
like 'a call, with its numbers' "$(tr '\n' ' ' <<< "$got")" 'call +\+\| .*"city": "Paris", "days": 3\}\} +\+\| </tool_call> +template +\+\| <\|im_end\|> +template +\| \\n   tool +template +\| <\|im_start\|>user +\| <response>\\n +output +\| clear +template'
got=$(of inside.jinja tools.jsonl)
like 'tools inside of a turn' "$(tr '\n' ' ' <<< "$got")" 'tools +\| .*user +text +\| Sky of Paris'
like 'a call in place of a text' "$(tr '\n' ' ' <<< "$got")" 'call +\+\| \{"name": "sky", "parameters": \{"city": "Paris", "days": 3\}\} +template \+\| <e> +tool +template'
done_testing
