#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# A mixture: exact shares over a period, each set in its own order as if it were alone, documents
# beside plain text, and the same bits over ranks, stages and a resume within a period (I1).
. "$ZR_SRCDIR/tests/lib/tap.sh" || exit 99
. "$ZR_SRCDIR/tests/lib/fixture.sh" || exit 99

cd "$scratch" || exit 99
for i in $(seq 400); do printf '%s' "line $i of the first set, in small letters; "; done > small
tr 'a-z' 'A-Z' < small > LARGE
mix=(-o data.plugin=mix -o data.weights='s:0.7 l:0.3' -o data.s.plugin=text -o data.s.path=small
	-o data.l.plugin=text -o data.l.path=LARGE)
{
	sed '/^\[data\]/,/^plugin/d' "$ZR_SRCDIR/tests/lib/matrix.ini"
	printf 'train_batch_size = 6\n[data]\n'
} > gpt2.ini

# ---- shares ----
# What a plugin draws is seen by the letters: one line for each sequence.
order() {
	"$ZEROTH" data show -n 200 "${mix[@]}" -o train.seed="$1" gpt2.ini 2>&1 |
		awk '/^===/ { n++; next } /^---/ { next } /^$/ { exit } { text[n] = text[n] $0 }
		END { for (i = 1; i <= n; i++) print (text[i] ~ /[a-z][a-z]/ ? "s" : "l") }'
}
for seed in 1 2 3 4; do
	order $seed > order.$seed
	is "seed $seed: sequences of both are drawn" "$(wc -l < order.$seed)" 200
	is "seed $seed: shares are exact after each period of ten" \
		"$(awk '{ s += $1 == "s" } NR % 10 == 0 && s * 10 != NR * 7 { print NR, s }' \
			order.$seed)" ''
	is "seed $seed: and never further off than two sequences" \
		"$(awk '{ s += $1 == "s"; d = s - NR * 0.7 } d > 2 || d < -2 { print NR, s }' \
			order.$seed)" ''
done
is 'one seed has one order' "$(order 4)" "$(cat order.4)"
ok 'and seeds have different ones' test "$(md5sum order.? | cut -c 1-32 | sort -u | wc -l)" -gt 1

# 8.2 times a million is less than 8200000 in double precision.
is 'weights are what they say' "$("$ZEROTH" data show -n 100 "${mix[@]}" -o data.weights='s:8.2 l:1.9' gpt2.ini 2>&1 |
	grep -c '^===')" 100

# ---- each set as if it were alone ----
texts() { awk '/^===/ { if (n++) print text; text = ""; next } /^---/ { next } /^$/ { exit }
	{ text = text $0 "/" } END { print text }'; }
"$ZEROTH" data show -n 100 "${mix[@]}" gpt2.ini 2>&1 | texts | grep -E '[a-z][a-z]' > of_small
"$ZEROTH" data show -n 70 -o data.plugin=text -o data.path=small gpt2.ini 2>&1 | texts > alone
is 'a set goes on in its own order' "$(cat of_small)" "$(cat alone)"
is 'of seventy sequences' "$(wc -l < alone)" 70

# ---- the same bits ----
gpt2=$ZR_SRCDIR/tests/golden/tokenizers/gpt2.json
"$ZEROTH" tokenize --documents --tokenizer "$gpt2" --eot none -o words small LARGE 2> log || {
	skip 'documents in a mixture' "$(cat log)"
	done_testing
	exit
}
docs=(-o data.plugin=mix -o data.weights='s:2 d' -o data.s.plugin=text -o data.s.path=small
	-o data.d.plugin=tokens -o data.d.path=words -o model.vocabulary=600)
train() { trained gpt2.ini "${docs[@]}" "$@"; }
want=$(train -o train.steps=5)
like 'documents beside text: it trains' "$want" '^digest: losses=[0-9a-f]{16} params=[0-9a-f]{16}$'
is 'I1 stage3 on three ranks' "$(train -o train.steps=5 -n 3 -o zero.plugin=stage3)" "$want"
train -o train.steps=2 -o checkpoint.every=2 -n 2 > /dev/null
mv run part
is 'I1 a resume' "$(train --resume part -o train.steps=5 -n 2)" "$want"
for order in 's:2 d' 'd s:2'; do
	train -o train.steps=1 -o model.vocabulary= -o data.weights="$order" > /dev/null
	grep '^vocabulary' run/config.ini
done > vocabularies
is 'the vocabulary is the largest of all sets, in any order' "$(sort vocabularies | uniq -c | awk '{ print $1 }')" 2
ok 'and more than bytes' grep -qE '= (25[7-9]|2[6-9][0-9]|[3-9][0-9][0-9]|[0-9]{4,}) ' vocabularies
# Beside documents each token of a text is a target, also that of number 0.
head -c 4001 /dev/zero > zeros
"$ZEROTH" data show -n 12 "${docs[@]}" -o data.s.path=zeros -o data.s.content=any gpt2.ini > shown
is 'token 0 is a target' "$(grep -ac '^--- .*[^0-9]0 targets$' shown)" 0
split -b 60 -a 3 small piece.
"$ZEROTH" tokenize --documents --tokenizer "$gpt2" --eot none -o pieces piece.* > log 2>&1
one=(-o data.plugin=tokens -o data.path=pieces -o data.packing=none
	-o model.vocabulary=600 -o train.steps=5)
is 'I1 of one set: documents that leave room' \
	"$(trained gpt2.ini "${one[@]//data./data.d.}" -o data.plugin=mix -o data.weights=d)" \
	"$(trained gpt2.ini "${one[@]}")"
many=(-o train.train_batch_size=12 -o train.micro_batch_size=1)
is 'I1 of one set: targets of twelve slots' \
	"$(trained gpt2.ini "${one[@]//data./data.d.}" -o data.plugin=mix -o data.weights=d "${many[@]}")" \
	"$(trained gpt2.ini "${one[@]}" "${many[@]}")"
like 'data of a set is that of the run' \
	"$(cp LARGE small; train --resume part -o train.steps=5)" 'the data is another'

# ---- all that is held out, once ----
head -c 5001 small > seen
head -c 2043 small > known
trained gpt2.ini "${mix[@]}" -o data.s.val_path=seen -o data.l.val_path=known -o train.eval_batches=9999 > out
# sums SET...: targets and loss of some sets of the last evaluation together
sums() { tr -d '\n' < sets | grep -oE "\"($1)\": [^}]*" | sed 's/.*"targets": \([0-9]*\), *"loss": \([0-9.]*\).*/\1 \2/' |
	awk '{ n += $1; nats += $1 * $2 } END { printf "%d %.9f\n", n, n ? nats / n : 0 }'; }
"$ZEROTH" eval --json run -o eval.a.plugin=text -o eval.a.path=seen -o eval.b.plugin=text -o eval.b.path=known > sets 2> log
is 'each sequence of each set is evaluated once' "$(sums 'held out')" "$(sums 'a|b')"
like 'all of them' "$(sums 'held out')" '^7042 '
rounded() { awk '{ printf "%.7f\n", $1 }'; }
is 'also in a training' "$(tail -n 1 run/metrics.jsonl | sed 's/.*"val_loss":\([0-9.]*\).*/\1/' | rounded)" \
	"$(sums 'held out' | cut -d ' ' -f 2 | rounded)"
head -c 1001 small > few
"$ZEROTH" tokenize --documents --tokenizer "$gpt2" --eot none -o few.tok few 2> log
like 'and beside documents' "$(train -o train.steps=1 -o train.eval_batches=9999 -o data.s.val_path=few -o data.d.val_path=few.tok)" '^digest: '

# ---- what is refused ----
build documents
like 'I7 epochs of sets of which one does not say how long it is' \
	"$(trained gpt2.ini -o data.plugin=mix -o data.weights='a b' -o data.a.plugin=./documents.so -o data.b.plugin=text \
		-o data.b.path=LARGE -o model.vocabulary=512 -o train.epochs=2 -o train.steps=)" \
	'\[train\] epochs: the data does not say how many sequences it has: give steps instead'
refused() { # NAME PATTERN OPTION...
	like "I7 $1" "$(timeout 60 "$ZEROTH" config check gpt2.ini "${@:3}" 2>&1)" "$2"
}
refused 'a set without a section' '\[data\] weights: there is no section \[data.c\]' "${mix[@]}" \
	-o data.weights='s:1 c:2'
refused 'a set that is not named' \
	'\[data.l\] plugin: \[data\] mix does not draw from this section' "${mix[@]}" -o data.weights=s
refused 'a section that nothing mixes' \
	'\[data.l\] plugin: \[data\] text does not draw from this section' \
	-o data.plugin=text -o data.path=small -o data.l.plugin=text -o data.l.path=LARGE
refused 'a weight of nothing' "weights: 'l:0': expected NAME:WEIGHT" "${mix[@]}" \
	-o data.weights='s:1 l:0'
refused 'a set named twice' 'weights: s is named twice' "${mix[@]}" -o data.weights='s s:2 l'
printf 'a' > short
refused 'what a set refuses, by its name' 'short: 1 bytes to train on, one sequence needs 41' \
	"${mix[@]}" -o data.l.path=short

done_testing
