#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# A training on a file of documents, some longer than the context, some without a target: the same
# bits over ranks, stages, tiers, accumulation and a resume within an epoch (I1); also epochs.
. "$ZR_SRCDIR/tests/lib/tap.sh" || exit 99
. "$ZR_SRCDIR/tests/lib/fixture.sh" || exit 99

cd "$scratch" || exit 99
cat > make.c <<-'C'
	#include <stdint.h>
	#include <stdio.h>
	#include <string.h>

	int main(void)
	{
		static uint16_t tokens[20000];
		static uint8_t learned[20000];
		static int64_t offsets[151];
		uint32_t x = 1, n = 0, d = 0;
		char head[500];
		for (; d < 150; d++, offsets[d] = n)
			for (int i = 0, size = 2 + d * 37 % 90; i < size; i++, n++) {
				x = x * 1103515245 + 12345;
				tokens[n] = (x >> 16) % 61;
				learned[n] = d % 7 && i % 11 > 3;
			}
		uint64_t size = snprintf(head, sizeof head,
			"{\"__metadata__\":{\"format\":\"zeroth.documents/1\","
			"\"vocabulary\":\"61\"},"
			"\"tokens\":{\"dtype\":\"U16\",\"shape\":[%u],\"data_offsets\":[0,%u]},"
			"\"learned\":{\"dtype\":\"U8\",\"shape\":[%u],\"data_offsets\":[%u,%u]},"
			"\"documents\":{\"dtype\":\"I64\",\"shape\":[%u],"
			"\"data_offsets\":[%u,%u]}}",
			n, n * 2, n, n * 2, n * 3, d + 1, n * 3, n * 3 + (d + 1) * 8);
		fwrite(&size, 8, 1, stdout);
		fwrite(head, size, 1, stdout);
		fwrite(tokens, 2, n, stdout);
		fwrite(learned, 1, n, stdout);
		fwrite(offsets, 8, d + 1, stdout);
		return 0;
	}
C
read -ra cc <<< "${CC:-cc}"
"${cc[@]}" -w -o make make.c && ./make > packed || exit 99
{
	sed -e '/^steps/d' -e '/^\[data\]/,/^plugin/d' "$ZR_SRCDIR/tests/lib/matrix.ini"
	printf 'train_batch_size = 12\n[data]\nplugin = tokens\npath = packed\nsplit = 0.1\n'
} > gpt2.ini

# train OPTION...: as trained, of $conf
conf=gpt2.ini
train() { trained "$conf" "$@"; }
same() { one_in 5 && is "I1 $1" "$(train "${@:2}")" "$want"; }

use_disk

# ---- what is shown ----
"$ZEROTH" data show gpt2.ini -n 134 > shown 2> log || cat log
is 'all sequences of an epoch are shown' "$(grep -c '^===' shown)" 134
is 'with their targets' \
	"$(awk '/^---.*targets$/ { n += $(NF - 1) } END { print n }' shown)" \
	"$(awk '$1 == "targets" { print $2; exit }' shown)"
like 'masks are marked' "$(sed -n 3p shown)" '^\[-[0-9 ]+-\]([0-9 ]+\[-[0-9 ]+-\])*[0-9 ]*$'
# on_terminal VARIABLE=VALUE: the first document's text, as a terminal gets it
on_terminal() {
	script -qec "env $1 '$ZEROTH' data show gpt2.ini -n 1" /dev/null </dev/null 2>&1 | tr -d '\r' |
		grep -A 1 '^---' | sed -n 2p
}
if command -v script >/dev/null && script -qec true /dev/null >/dev/null 2>&1; then
	like 'a terminal dims what is no target' "$(on_terminal NO_COLOR=)" $'^\x1b\\[2m[0-9 ]+\x1b\\[0m'
	is 'NO_COLOR has marks in its place' "$(on_terminal NO_COLOR=1)" "$(sed -n 3p shown)"
else
	skip 'a terminal dims what is no target' 'no script(1)'
	skip 'NO_COLOR has marks in its place' 'no script(1)'
fi
counts='training documents 133 tokens 6213 targets 3331 62\.4 % sequences 134'
counts+=' rows of padding 21 0\.4 % tokens of the longest document 91 documents cut 65 48\.9 % left out: no target 20'
like 'documents and padding are counted' "$(tr -s ' \n' ' ' < shown)" \
	"$counts validation documents 17 "
like 'the held-out part is shown' "$("$ZEROTH" data show --val -n 1 gpt2.ini)" \
	'^=== sequence 1 of 13'
like 'text is shown as text' "$("$ZEROTH" data show -n 1 -o data.plugin=text -o data.path=make.c \
	-o data.split= -o model.vocabulary=256 -o data.order=sequential gpt2.ini)" \
	'\[-#-\]include <stdint.h>'
like 'what is not held out is not' "$("$ZEROTH" data show --val -o data.split= gpt2.ini 2>&1)" \
	'^zeroth: \[data\] holds nothing out$'

# What `zeroth tokenize --documents` writes, in words.
gpt2=$ZR_SRCDIR/tests/golden/tokenizers/gpt2.json
for i in 1 2 3; do echo "Text $i, of words that are said." > "text$i"; done
if "$ZEROTH" tokenize --documents --tokenizer "$gpt2" --eot none -o words text? 2> log; then
	"$ZEROTH" data show -n 1 -T "$gpt2" -o data.path=words -o data.split= -o data.packing=none \
		-o data.order=sequential -o model.vocabulary=60000 gpt2.ini > shown 2>&1
	like 'documents of a tokenizer are shown in its words' "$(sed -n 3p shown)" \
		'^\[-T[a-z]*-\][a-z]* 1, of words that are said\.$'
else
	skip 'documents of a tokenizer are shown in its words' "$(cat log)"
fi

# ---- epochs ----
want=$(train -o train.epochs=1.25)
like 'it trains' "$want" '^digest: losses=[0-9a-f]{16} params=[0-9a-f]{16}$'
steps=$(grep -oE 'trained [0-9]+ steps' out | grep -oE '[0-9]+')
cp run/config.ini both.ini
conf=both.ini same 'the configuration that a run writes, which has steps and epochs, is that run'
same 'epochs are steps' -o train.steps="$steps"
like 'and no epochs less or more' "$(train -o train.steps="$steps" -o train.epochs=2)" \
	"-o: steps = $steps, but epochs = 2 of [0-9]+ sequences are [0-9]+ steps; give one of"

# A share of these steps, rounded up, lies between evaluations and between checkpoints.
every=$(((steps * 3 + 9) / 10)) half=$(((steps + 1) / 2))
train -o train.epochs=1.25 -o train.eval_every= -o train.eval_every_ratio=0.3 -o checkpoint.every_ratio=0.5 \
	-o checkpoint.keep=0 > shares
is 'shares of steps change no bit' "$(cat shares)" "$want"
evaluations() { sed -n '/val_loss/s/^{"step":\([0-9]*\).*/\1/p' run/metrics.jsonl | sort -nu | tr '\n' ' '; }
is 'a share of steps between evaluations' "$(evaluations)" "$(seq -s ' ' "$every" "$every" $((steps - 1))) $steps "
is 'a share of steps between checkpoints' "$(printf '%s ' run/checkpoints/step-* | sed 's/run.checkpoints.step-0*//g')" "$half $steps "
cp run/config.ini shares.ini
like 'the configuration that such a run writes has both' "$(cat shares.ini)" "^eval_every = $every\b"
conf=shares.ini same 'and is that run'
like 'a share beside another number' "$(train -o train.epochs=1.25 -o train.eval_every_ratio=0.3 -o train.eval_every=1)" \
	"^zeroth: -o: eval_every = 1, but eval_every_ratio = 0.3 of $steps steps are $every steps; give one of the two"
like 'a share of checkpoints beside another number' "$(train -o train.epochs=1.25 -o checkpoint.every_ratio=0.5 -o checkpoint.every=1)" \
	"^zeroth: -o: every = 1, but every_ratio = 0.5 of $steps steps are $half steps; give one of the two"
train -o train.steps="$steps" -o train.eval_every= -o train.eval_every_ratio=1 > /dev/null
is 'the share of a given number of steps' "$(evaluations)" "$steps "

like 'nor a schedule without their number' "$("$ZEROTH" schedule gpt2.ini -o train.epochs=2 2>&1)" \
	'\[train\] epochs = 2: how many steps that is the data says, which is not read here: give'
decay=(gpt2.ini -o scheduler.plugin=warmup_decay_lr)
is 'the schedule of so many steps' \
	"$("$ZEROTH" schedule "${decay[@]}" -o train.epochs=2 --steps "$steps")" \
	"$("$ZEROTH" schedule "${decay[@]}" -o train.steps="$steps")"
build documents
like 'epochs of data that does not say how many sequences it has' \
	"$(train -o data.plugin=./documents.so -o train.epochs=2)" \
	'\[train\] epochs: the data does not say how many sequences it has: give steps instead'
for kind in wrapped none; do
	like "packing = $kind trains" "$(train -o train.epochs=0.5 -o data.packing=$kind)" '^digest'
done

# ---- the same bits ----
same 'accumulation on two ranks' -o train.epochs=1.25 -n 2
same 'stage3 on three ranks' -o train.epochs=1.25 -n 3 -o zero.plugin=stage3 \
	-o zero.persistence_threshold=0
same 'a device that only copies reach' -o train.epochs=1.25 -n 2 -o zero.plugin=stage2 \
	-o device.memory=48M -o device.plugin="$cards"
same 'everything on disk' -o train.epochs=1.25 -n 2 -o zero.plugin=stage3 "${disk[@]}" \
	-o activation.plugin=recompute
train -o train.steps=5 -o checkpoint.every=5 -n 2 > first
like 'a part of the first epoch' "$(cat first)" '^digest'
mv run part
same 'a resume within an epoch' --resume part -o train.epochs=1.25 -n 3 -o zero.plugin=stage3
before=$(train -o train.epochs=1 -o train.gradient_clipping=0)
is 'I1 updates in the backward' "$(train -o train.epochs=1 -o train.gradient_clipping=0 -n 2 \
	-o zero.update_in_backward=yes)" "$before"

done_testing
