#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# zeroth report: what the checkpoints of a run answer to conversations of its data, and where they do not.
. "$ZR_SRCDIR/tests/lib/tap.sh" || exit 99
cd "$scratch" || exit 99
cp "$ZR_SRCDIR/tests/golden/chat/bytes.json" tokenizer.json

for i in $(seq 1 60); do
	printf '{"messages":[{"role":"user","content":"a<b> & %d"},{"role":"assistant","content":"It is %d."}]}\n' $i $((i % 7))
done > chat.jsonl
cat > chat.ini <<'INI'
[train]
steps = 80
train_batch_size = 8
micro_batch_size = 8
eval_every = 0
[model]
plugin = gpt2
layers = 2
heads = 2
width = 32
context = 72
[data]
plugin = chat
path = chat.jsonl
tokenizer = tokenizer.json
template = chatml
max_length = 73
split = 0.2
[optimizer]
plugin = adamw
lr = 1e-2
[checkpoint]
every = 10
keep = 20
INI
"$ZEROTH" train chat.ini -o run.dir=run > out 2>&1
case $(cat out) in *'this build'*) skip_all 'no PCRE2 or no utf8proc' ;; esac
ok 'a training' test -e run/model.safetensors

"$ZEROTH" report run > out 2> err
is 'a report' "$? $(cat out err)" '0 run/report.html'
page=$(tr '\n' '|' < run/report.html)
steps() { grep -o '<th scope="row">step [0-9]*' "$1" | sed 's/.* //' | sort -nu | tr '\n' ' '; }
talks() { grep -c '<div class="answered">' "$1"; }
like 'the page has the section' "$page" '<h2 id="answers">.*Held out: nothing of it was learned\.'
is 'the first checkpoint, the last and some between' "$(steps run/report.html)" '10 20 40 50 70 80 '
is 'two conversations unasked' "$(talks run/report.html)" 2
like 'as they are rendered' "$page" '<section class="msg user"><b>user</b><div class="words"><i class="template">&lt;\|im_start\|&gt;user\|</i>a&lt;b&gt; &amp; [0-9]+<i class'
like 'with the answer that is learned' "$page" '</i><ins>It is [0-9]\.</ins><ins><i class="template">&lt;\|im_end\|&gt;</i></ins>'

# what is answered is what `zeroth sample` draws
number=$(grep -m 1 -o '>a&lt;b&gt; &amp; [0-9]*' run/report.html | grep -o '[0-9]*$')
printf -v asked '<|im_start|>user\na<b> & %s<|im_end|>\n<|im_start|>assistant\n' "$number"
shown() { # shown STEP [PAGE]: to the first conversation
	tr '\n' '\r' < "${2-run/report.html}" | grep -o "step $1</th><td>[^/]*" | head -n 1 | sed 's/.*<pre>//; s/<$//' | tr '\r' '\n'
}
drawn() { # drawn SOURCE
	"$ZEROTH" sample "$1" -T tokenizer.json -t 0 -n 96 --eos '<|im_end|>' -p "$asked" --json 2> /dev/null |
		sed 's/.*"text":"//; s/","tokens".*//; s/\\n/\n/g'
}
is 'a checkpoint answers what it draws' "$(shown 40)" "$(drawn run/checkpoints/step-00000040)"
is 'and the end of the run' "$(shown 80)" "$(drawn run)"
ok 'they say other things' test "$(shown 10)" != "$(shown 80)"
like 'it has learned how answers look' "$(shown 80)" '^It is [0-9]\.$'
cp run/report.html first.html
"$ZEROTH" report run > /dev/null
is 'a second report is the same' "$(cmp run/report.html first.html 2>&1)" ''

"$ZEROTH" report --samples 0 -o none.html run > /dev/null
like 'none' "$(cat none.html)" 'None were asked for\.'
is 'nobody answers' "$(talks none.html)" 0
"$ZEROTH" report --samples 5 -o five.html run > /dev/null
is 'five' "$(talks five.html)" 5
like 'a number that is none' "$("$ZEROTH" report --samples x run 2>&1)" '^zeroth report: --samples x: expected a number of conversations'

# said NAME PATTERN: what the section says of `run`, with exit code 0
said() {
	"$ZEROTH" report -o said.html "${@:3}" run > out 2> err
	is "$1: exit code, messages" "$? $(cat err)" '0 '
	like "$1" "$(sed -n '/<h2 id="answers">/,/<h2 id="samples">/p' said.html)" "$2"
}

# ---- a conversation of several turns: its last answer ----
for i in $(seq 1 30); do
	printf '{"messages":[{"role":"user","content":"%s"},{"role":"assistant","content":"B"},' $i
	printf '{"role":"user","content":"c"},{"role":"assistant","content":"D"}]}\n'
done > turns.jsonl
"$ZEROTH" train chat.ini -o run.dir=turns -o data.path=turns.jsonl -o train.steps=60 -o checkpoint.every=0 -o model.context=160 \
	-o data.max_length=161 > out 2>&1 || fail 'a training' "$(cat out)"
"$ZEROTH" report --samples 1 -o turns.html turns > /dev/null
asked=$(sed -n '/class="asked"/,/<table/p' turns.html | sed 's/<[^>]*>//g; s/&lt;/</g; s/&gt;/>/g' | grep -A 99 '^user' |
	grep -vE '^(user|assistant)<' | tr '\n' '|')
like 'all turns are shown' "$asked" 'B<\|im_end\|>.*c<\|im_end\|>.*D<\|im_end\|>'
printf -v asked '<|im_start|>%s<|im_end|>\n' "user
$(sed -n 's/.*>\([0-9]*\)<i class="template">&lt;|im_end|&gt;$/\1/p' turns.html | head -n 1)" 'assistant
B' 'user
c'
asked+='<|im_start|>assistant
'
is 'and the last one is answered' "$(shown 60 turns.html)" "$(drawn turns)"
is 'which is not the first' "$(shown 60 turns.html)" D

# ---- what is not answered, and why ----
rm -r run/checkpoints/step-000000[3-8]0 # two opened are enough
mv chat.jsonl away
said 'the data is gone' '<b>run</b>: .*chat\.jsonl.*No such file'
mv away chat.jsonl
file=$(ls run/checkpoints/step-00000020/*.safetensors | head -n 1)
cp "$file" whole
printf x | dd of="$file" bs=1 seek=9000 conv=notrunc 2> /dev/null
said 'a checkpoint that is damaged' 'step 20</th><td><p class="note">no answer: run/checkpoints/step-00000020/'
like 'the others answer' "$(sed -n '/id="answers"/,/id="samples"/p' said.html)" 'step 10</th><td><pre>'
mv whole "$file"
mv run/model.safetensors .
said 'a run that has not ended' '<b>run</b>: the run has not ended: --samples N has its answers'
said 'but with --samples' 'step 20</th><td><pre>' --samples 1
mv model.safetensors run
sed -i "s|^plugin = adamw .*|plugin = $PWD/adamw.so|" run/config.ini
said 'a plugin that a path names' '<b>run</b>: the run names a plugin by its path, which would be loaded: '
sed -i "s|^plugin = .*adamw.so|plugin = adamw|" run/config.ini

# ---- texts without questions ----
for i in $(seq 1 300); do echo "line $i of a text that is long enough"; done > text
"$ZEROTH" train "$ZR_SRCDIR/tests/lib/matrix.ini" -o data.path=text -o run.dir=plain -o train.eval_every=0 \
	-o train.steps=4 -o checkpoint.every=2 > out 2>&1 || fail 'a training' "$(cat out)"
"$ZEROTH" report -o plain.html plain > /dev/null
is 'texts go on' "$(steps plain.html) $(talks plain.html)" '2 4  2'
like 'of what was learned' "$(cat plain.html)" 'Of what was learned: nothing is held out\.'
"$ZEROTH" report -o two.html run plain > /dev/null
is 'two runs' "$(talks two.html)" 4

done_testing
