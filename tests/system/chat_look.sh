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
is 'an answer in a text of its own' "$(of think.jinja think.jsonl | grep -c '^=== conversation .*think.jsonl:1[:,]')" 2
got=$(of think.jinja tools.jsonl)
like 'definitions of tools' "$(tr '\n' ' ' <<< "$got")" '=== conv[^=]* learned   - +tools +\| <\|im_start\|>system +\| Tools: +\| \{"type": "function", .*"integer"\}\}\}\}\}<\|im_end\|>\\n   user +template +\| <\|im_start'
like 'a call, with its numbers' "$(tr '\n' ' ' <<< "$got")" 'call +\+\| .*"city": "Paris", "days": 3\}\} +\+\| </tool_call> +template +\+\| <\|im_end\|> +template +\| \\n   tool +template +\| <\|im_start\|>user +\| <response>\\n +output +\| clear +template'
got=$(of inside.jinja tools.jsonl)
like 'tools inside of a turn' "$(tr '\n' ' ' <<< "$got")" 'tools +\| .*user +text +\| Sky of Paris'
like 'a call in place of a text' "$(tr '\n' ' ' <<< "$got")" 'call +\+\| \{"name": "sky", "parameters": \{"city": "Paris", "days": 3\}\} +template \+\| <e> +tool +template'
is 'which says so' "$(of think.jinja think.jsonl | grep -c '^=== conversation 2, think.jsonl:1, again: ')" 1

cat think.jsonl tools.jsonl >both.jsonl
is 'what the template does not write is left out' "$(of inside.jinja both.jsonl -o data.on_bad=skip | grep '^===' | cut -c1-93)" \
	"=== both.jsonl:1: left out: message 3: reasoning_content: the chat template does not write it
$(of inside.jinja both.jsonl -o data.on_bad=skip | grep '^=== conversation 1, both.jsonl:2: ')"

# ---- where it is cut, and why ----
cuts() { grep -E '^(===|  ---)' | sed -E 's/[0-9]+ (tokens|learned)/N \1/g'; }
long=$(show -n 1 --from 4 | sed -n 's/^=== .* \([0-9]*\) tokens.*/\1/p')
is 'longer than max_length' "$(show -n 9 --from 4 -o data.max_length=$((long - 1)) | cuts)" \
	"=== conversation 3, chat.jsonl:4: N tokens, N learned
  --------- cut: its oldest 2 messages are left out: with them it has N tokens, more than max_length"
is 'left out for it' "$(show -n 9 --from 4 -o data.max_length=$((long - 1)) -o data.on_long=drop | cuts)" \
	"=== chat.jsonl:4: left out: N tokens, more than the $((long - 1)) that were asked for"
packed=(-n 9 --from 4 -o train.sequence_length=16)
is 'longer than a sequence' "$(show "${packed[@]}" -o data.train_on=all | cuts | sort | uniq -c | sed 's/^ *//')" "$(((long - 2) / 16)) "'  --------- cut: the sequence is full, and another one goes on here
1 === conversation 4, chat.jsonl:4: N tokens, N learned'
# between cuts: a line each, without line ends; of sequences, without the token before
between() { show "${packed[@]}" -o data.train_on=all | sed -nE 's/^ {2}-+ cut.*/@/p; s/^ {2}.{9} .{8} [+ ]\| //p' | sed 's/\\n$//' | tr -d '\n' | tr @ '\n'; echo; }
sequences() {
	show -n 11 -o train.sequence_length=16 -o data.train_on=all -o data.packing=none -o data.order=sequential --sequences |
		sed '1,/^=== sequence 6/d; /^chat.jsonl/,$d' | grep -v '^---' | sed 's/^=== .*/@/' | tr -d '\n' | tr @ '\n' | sed 's/\[-[^]]*-\]//'
	echo
}
is 'what is between cuts is what sequences have' "$(between | sed '1s/^<|im_start|>//')" "$(sequences | sed 1d)"
like 'the first of which is the start' "$(show "${packed[@]}" -o data.train_on=last | grep -A1 '^=== ')" 'left out from here: no sequence has the next [0-9]+ tokens'

# ---- it is what training gets ----
same=(-o data.path=many.jsonl -o train.sequence_length=3000 -o model.context=3000 -o data.order=sequential -o data.packing=none -o data.template=think.jinja)
{ cat think.jsonl; grep -v text chat.jsonl; cat tools.jsonl; } >many.jsonl
show -n 40 "${same[@]}" >shown
show -n "$(grep -c '^=== conv' shown)" "${same[@]}" --sequences | sed -n '/^=== /,/^many.jsonl: /p' | grep -v '^===\|^--- \|^many' | tr -d '\n' >batches
# texts PATTERN: of the lines of segments that have it, without line ends
texts() { sed -nE "s/^ {2}.{9} .{8} $1\| //p" shown | sed 's/\\n$//' | tr -d '\n'; }
ok 'there is something to compare' test "$(wc -c <batches)" -gt 1000
is "what is learned is what batches learn" "$(texts '\+')" "$(sed 's/\[-/\n[-/g; s/-\]/-]\n/g' batches | grep -v '^\[-.*-\]$' | tr -d '\n')"
is 'and all text is theirs' "$(texts '[+ ]')" "$(sed 's/\[-//g; s/-\]//g' batches)"

# ---- a page ----
is 'a page: its name' "$(of think.jinja think.jsonl --html page.html | tail -n 1)" page.html
is 'a text is never markup' "$(grep -c '<script' page.html) $(grep -o '&lt;script&gt;alert(1)&lt;/script&gt;' page.html | wc -l)" '0 1'
is 'nor an attribute' "$(grep -c 'No &amp; &quot;so&quot;' page.html)" 1
like 'thoughts fold' "$(cat page.html)" '<details open><summary>thought, [0-9]+ tokens, learned</summary><div><ins>Odd'
is 'nothing of it comes from elsewhere' "$(grep -oE '(src|href)="[^#d][^"]*"|url\(|@import' page.html)" ''
of think.jinja tools.jsonl --html tools.html >/dev/null
like 'definitions of tools fold' "$(cat tools.html)" '<b>tools</b><div class="words"><details><summary>definitions of tools, [0-9]+ tokens</summary>'
like 'a call is one' "$(tr '\n' ' ' <tools.html)" '<em title="call of a tool">.*get|<em title="call of a tool"> ?&lt;tool_call'
show -n 9 --html cut.html "${packed[@]:4}" -o data.max_length=$((long - 1)) >/dev/null
like 'cuts are there' "$(cat cut.html)" '<p class="cut">cut: its oldest 2 messages are left out: with them it has [0-9]+ tokens, more than max_length</p>'
like 'and what was left out' "$(cat cut.html)" '<p class="cut">left out: nothing in it is learned</p>'
if command -v python3 >/dev/null; then
	cat >closed.py <<'P'
import html.parser, sys
class Page(html.parser.HTMLParser):
    open = []
    def handle_starttag(self, tag, attrs):
        if tag not in ("meta", "link", "rect", "br"):
            self.open.append(tag)
    def handle_endtag(self, tag):
        if tag == "rect" or tag == "title" and self.open[-1] != "title":
            return
        if not self.open or self.open.pop() != tag:
            print("not open:", tag, self.getpos())
for name in sys.argv[1:]:
    page = Page()
    page.feed(open(name).read())
    print(name, *page.open)
P
	is 'all elements are closed' "$(python3 closed.py page.html tools.html cut.html)" "$(printf '%s\n' page.html tools.html cut.html)"
else
	skip 'all elements are closed' 'no python3'
fi
printf '{"messages":[{"role":"user","content":"a\\u0001\\u202eb"},{"role":"assistant","content":"\\u00e9"}]}\n' >odd.jsonl
like 'what has no look is shown as its bytes' "$(show -o data.path=odd.jsonl)" 'text +\| a\\x01\\xe2\\x80\\xaeb'
show -o data.path=odd.jsonl --html odd.html >/dev/null
like 'on a page, too' "$(cat odd.html)" 'a<code>\\x01</code><code>\\xe2\\x80\\xae</code>b'

# ---- where it is shown ----
if command -v script >/dev/null && script -qec true /dev/null >/dev/null 2>&1; then
	# tty NAME=VALUE: on a terminal
	tty() { script -qec "env $1 '$ZEROTH' data show chat.ini -o model.vocabulary=1024 -o train.train_batch_size=3 -n 1" /dev/null </dev/null 2>&1 | tr -d '\r'; }
	is 'a terminal has colours' "$(tty NO_COLOR= | grep -c $'text .*+| .*\x1b\\[32m.*Hello')" 1
	is 'but not with NO_COLOR' "$(tty NO_COLOR=1 | grep -c $'\x1b')" 0
else
	skip 'a terminal has colours' 'no script'
	skip 'but not with NO_COLOR' 'no script'
fi
head -n 1 chat.jsonl >val.jsonl
like 'sets of a mixture' "$("$ZEROTH" data show chat.ini -o model.vocabulary=1024 -o train.train_batch_size=3 -n 1 -o data.plugin=mix -o data.weights='a:1 b:2' \
	-o data.path= -o data.tokenizer= -o data.template= -o data.cache= \
	-o data.a.plugin=chat -o data.a.path=chat.jsonl -o data.a.tokenizer=tokenizer.json -o data.a.template=chatml -o data.a.cache=cache \
	-o data.b.plugin=chat -o data.b.path=val.jsonl -o data.b.tokenizer=tokenizer.json -o data.b.template=chatml -o data.b.cache=cache 2>&1 | tr '\n' ' ')" \
	'=== conversation 1, chat.jsonl:1: .*=== conversation 1, val.jsonl:1: .* 4 conversations '

# ---- what cannot be ----
like 'a directory that is not there' "$(show --html no/page.html | tail -n 1)" '^zeroth: no/page.html.*: No such file or directory'
like 'a page of other data' "$(show --html page.html -o data.plugin=text -o data.path=think.jinja -o train.sequence_length=16 -o data.tokenizer= -o data.template= -o data.cache= | tail -n 1)" \
	'^zeroth: --html: no plugin of \[data\] has conversations to show, as data/chat has$'
like 'one or the other' "$(show --html page.html --sequences | tail -n 1)" '^zeroth: --html: writes conversations, not --sequences$'
like 'nothing is held out' "$(show --val | tail -n 1)" '\[data\] holds nothing out$'
is 'what is held out' "$(show --val -o data.val_path=val.jsonl | grep -c '^=== conversation 1, val.jsonl:1: ')" 1
both() { for part in '' --val; do show -n 9 $part "${same[@]}" -o data.split=0.4 | grep '^=== conv'; done; }
ok 'split has some on both sides' test "$(show -n 9 --val "${same[@]}" -o data.split=0.4 | grep -c '^=== conv')" -gt 0
is 'and each on one' "$(both | sed 's/ conversation [0-9]*,//' | sort)" "$(grep '^=== conv' shown | sed 's/ conversation [0-9]*,//' | sort)"
done_testing
