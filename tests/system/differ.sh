#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# I7: ranks that read different files, as machines without shared storage may have them, are refused before they begin,
# with the kind of file, the rank and both files. Files that are alike may lie anywhere. Checkpoints need a directory
# that all ranks see.
. "$ZR_SRCDIR/tests/lib/tap.sh" || exit 99
. "$ZR_SRCDIR/tests/lib/fixture.sh" || exit 99
golden=$(cd "$ZR_SRCDIR" && pwd)/tests/golden
cd "$scratch" || exit 99
mkdir meet

# ranks CONF OPTIONS...: ranks 0, 1, ... as another launcher starts them: each with its own words of options, and those of ${all[@]}.
# What they print is in rank.*, their exit codes are in $codes.
all=()
keep= # not empty: the run directory stays
ranks() {
	local conf=$1 r=0 own job=()
	shift
	[ -n "$keep" ] || rm -rf run
	for own in "$@"; do
		# shellcheck disable=SC2086 # words of options
		RANK=$r WORLD_SIZE=$# timeout 100 "$ZEROTH" train "$conf" -o run.dir=run -o boot.plugin=env -o boot.directory=meet \
			"${all[@]}" $own > "rank.$r" 2>&1 &
		job+=($!)
		r=$((r + 1))
	done
	codes=
	for own in "${job[@]}"; do
		wait "$own"
		codes+="$? "
	done
}

# A rank that ends first may end the others, with its message.
refused() { # refused NAME KIND RANK FILE FILE_OF_RANK_0
	local r
	like "$1: exit 2" "$codes" '\<2 '
	for r in rank.*; do
		like "$1: $r names both files" "$(tail -n 1 "$r")" "rank $3 on [^ ]+ reads another $2 than rank 0 on [^ ]+: $4, there $5; "
	done
	is "$1: before step 1" "$(grep -h '^step' rank.*)" ""
	ok "$1: no run directory is left" test ! -e run
	rm rank.*
}
print='\([0-9]+ bytes, xxh3 [0-9a-f]{16}\)'

# ---- data ----
tiny text 2 6 3 <<< ''
want=$(trained tiny.ini)
like "one rank trains" "$want" '^digest'
sed 's/1000 of a text/1000 of a next/' text > next
is "another text has as many bytes" "$(stat -c %s next)" "$(stat -c %s text)"
ranks tiny.ini "" "-o data.path=next"
refused "another text of equal length" "data file" 1 "next $print" "[^ ]*/text $print"
ranks tiny.ini "" "" "-o data.path=next"
refused "on the last of 3 ranks" "data file" 2 "next $print" "[^ ]*/text $print"
head -n 2999 text > shorter
ranks tiny.ini "" "-o data.val_path=next" "-o data.val_path=next"
refused "a file more" "data file" 1 "next $print" "nothing"

mkdir else
cp text else/name
ranks tiny.ini "" "-o data.path=else/name"
is "the same text elsewhere: exit 0" "$codes" "0 0 "
is "the same text elsewhere: same bits" "$(tail -n 1 rank.0)" "$want"
rm rank.*

# ---- the model ----
cat > model.ini <<END
[data]
plugin = tokens
path = $golden/pretrained/tokens.bin
format = uint16
[train]
sequence_length = 13
steps = 2
train_batch_size = 2
micro_batch_size = 1
eval_every = 0
END
for name in llama gpt2-shards; do
	cp -r "$golden/pretrained/$name" "$name-a"
	chmod -R u+w "$name-a"
	cp -r "$name-a" "$name-b"
	want=$(trained model.ini -o model.path=$name-a)
	ranks model.ini "-o model.path=$name-a" "-o model.path=$name-b"
	is "$name elsewhere: same bits" "$codes $(tail -n 1 rank.0)" "0 0  $want"
	rm rank.*
done
# change FILE: another last byte
change() {
	local at=$(($(stat -c %s "$1") - 1))
	printf '\x11' | dd of="$1" bs=1 seek="$at" conv=notrunc 2> /dev/null
}
change llama-b/model.safetensors
ranks model.ini "-o model.path=llama-a" "-o model.path=llama-b"
refused "other weights" "file of weights" 1 "llama-b/model.safetensors $print" "llama-a/model.safetensors $print"
shard=$(cd gpt2-shards-b && ls ./*.safetensors | tail -n 1)
change "gpt2-shards-b/$shard"
ranks model.ini "-o model.path=gpt2-shards-a" "-o model.path=gpt2-shards-b"
refused "one other shard" "file of weights" 1 "gpt2-shards-b/${shard#./} $print" "gpt2-shards-a/${shard#./} $print"
sed 's/"hidden_act"/ "hidden_act"/' llama-a/config.json > llama-b/config.json
ranks model.ini "-o model.path=llama-a" "-o model.path=llama-b"
refused "another config.json" "config.json" 1 "[^ ]*/config.json $print" "[^ ]*/config.json $print"

# A training that goes on reads its checkpoint alone: a rank without the weights needs none.
all=(-o checkpoint.every=1 -o checkpoint.save=all)
want=$(trained model.ini -o model.path=llama-a "${all[@]}")
ranks model.ini "-o model.path=llama-a -o train.steps=1" "-o model.path=llama-a -o train.steps=1"
mkdir bare
cp llama-a/config.json bare
keep=yes
ranks model.ini "-o model.path=llama-a --resume auto" "-o model.path=bare --resume auto"
keep=
is "going on where one rank has no weights: same bits" "$codes $(tail -n 1 rank.0)" "0 0  $want"
rm rank.*
all=()

# ---- tokenizers ----
# The files differ in one token, so that its number stands for another text.
cp "$golden/chat/bytes.json" a.json
sed 's/<|a|>/<|b|>/' a.json > b.json
rm -r llama-b
cp -r llama-a llama-b
cp a.json llama-a/tokenizer.json
cp b.json llama-b/tokenizer.json
ranks model.ini "-o model.path=llama-a" "-o model.path=llama-b"
refused "another tokenizer of the model" "tokenizer" 1 "llama-b/tokenizer.json $print" "llama-a/tokenizer.json $print"

head -n 60 "$golden/chat/conversations.jsonl" > chat.jsonl
{
	sed '/^\[data\]/,/^plugin/d' "$ZR_SRCDIR/tests/lib/matrix.ini"
	printf '[data]\nplugin = chat\npath = chat.jsonl\ntokenizer = a.json\n'
	printf 'template = chatml\nsplit = 0.1\ncache = cache\n'
} > chat.ini
all=(-o model.vocabulary=1024 -o train.train_batch_size=2)
if "$ZEROTH" tokenize --chat -T a.json -t chatml -o chat.tok chat.jsonl 2>&1 | grep -q ' build'; then
	skip "tokenizers of conversations" "no PCRE2 or no utf8proc"
else
	ranks chat.ini "" "-o data.tokenizer=b.json"
	refused "another tokenizer of conversations" "tokenizer" 1 "b.json $print" "a.json $print"
	cp a.json else/c.json
	ranks chat.ini "" "-o data.tokenizer=else/c.json -o data.cache=else"
	is "the same tokenizer elsewhere: same bits" "$codes $(tail -n 1 rank.0)" "0 0  $(trained chat.ini "${all[@]}")"
	rm rank.*
fi
all=()

# Large files are hashed in part: their length, their beginning and some blocks. A tokenizer that cannot be read is not used.
want=$(trained model.ini -o model.path=llama-a)
large() { # large NAME BYTES [FROM TO]: refused with a file of zeros of that length, ones in between
	rm llama-b/tokenizer.json
	truncate -s "$2" llama-b/tokenizer.json
	[ -z "$3" ] || head -c $(($4 - $3)) /dev/zero | tr '\0' '\1' | dd of=llama-b/tokenizer.json bs=64K seek="$3" oflag=seek_bytes conv=notrunc 2> /dev/null
	ranks model.ini "-o model.path=llama-a" "-o model.path=llama-b"
	[ "$1" = alike ] || refused "$1" "tokenizer" 1 "llama-b/tokenizer.json $print" "llama-a/tokenizer.json $print"
}
rm llama-a/tokenizer.json
truncate -s 66M llama-a/tokenizer.json
large alike 66M
is "large files that are alike: same bits" "$codes $(tail -n 1 rank.0)" "0 0  $want"
rm rank.*
large "a large file with another length" $(((66 << 20) + 1))
large "a large file with another beginning" 66M 0 1
large "a large file with another middle" 66M $((20 << 20)) $((40 << 20))

# ---- all bytes ----
# One other byte between the samples is not seen, unless one rank at least asks for all.
byte_at() { # byte_at FILE PLACE
	printf '\1' | dd of="$1" bs=1 seek="$2" conv=notrunc 2> /dev/null
}
reads() { # reads NAME FILE: the line of a rank that reads all of a file
	like "$1: a line says so" "$(cat rank.*)" "^zeroth: verify: reads all [0-9.]+ [KMG]iB of $2\$"
}
large alike 66M
byte_at llama-b/tokenizer.json $((30 << 20))
ranks model.ini "-o model.path=llama-a" "-o model.path=llama-b"
is "a byte between the samples, without --verify: trains" "$codes $(tail -n 1 rank.0)" "0 0  $want"
is "without --verify no line says that all is read" "$(cat rank.* | grep -c 'verify')" 0
rm rank.*
ranks model.ini "-o model.path=llama-a --verify" "-o model.path=llama-b"
reads "--verify on one rank" "llama-[ab]/tokenizer.json"
refused "--verify on one rank" "tokenizer" 1 "llama-b/tokenizer.json $print" "llama-a/tokenizer.json $print"
ranks model.ini "-o model.path=llama-a --verify" "-o model.path=llama-a --verify"
is "--verify of files that are alike: same bits" "$codes $(tail -n 1 rank.0)" "0 0  $want"
rm rank.*

truncate -s 257M one.bin
cp --sparse=always one.bin other.bin
byte_at other.bin 5000
tokens() { # tokens PLUGIN: options of a training on such a file
	all=(-o data.plugin="$1" -o data.format=uint16 -o model.vocabulary=512 -o train.sequence_length=32)
}
tokens tokens
ranks tiny.ini "-o data.path=one.bin" "-o data.path=other.bin"
is "a byte of data between the samples, without --verify: trains" "$codes" "0 0 "
rm rank.*
ranks tiny.ini "-o data.path=one.bin --verify" "-o data.path=other.bin --verify"
reads "--verify of data" "(one|other).bin"
refused "--verify of data" "data file" 1 "other.bin $print" "one.bin $print"
all=(-o data.plugin=mix -o 'data.weights=a:1 b:1' -o train.sequence_length=32 -o model.vocabulary=512 --verify)
for set in a b; do
	all+=(-o "data.$set.plugin=tokens" -o "data.$set.format=uint16")
done
sed '/^path/d' tiny.ini > mix.ini
ranks mix.ini "-o data.a.path=one.bin -o data.b.path=one.bin" "-o data.a.path=one.bin -o data.b.path=other.bin"
refused "--verify of a mixture" "data file" 1 "other.bin $print" "one.bin $print"

build samples
tokens "$scratch/samples.so"
ranks tiny.ini "-o data.path=one.bin" "-o data.path=other.bin"
is "a plugin that knows samples alone, without --verify: trains" "$codes" "0 0 "
rm rank.*
ranks tiny.ini "-o data.path=one.bin --verify" "-o data.path=other.bin --verify"
like "a plugin that knows samples alone: exit 2" "$codes" '\<2 '
like "a plugin that knows samples alone is named" "$(tail -qn 1 rank.*)" \
	"\[data\] plugin = samples: it hashes no more than samples of (one|other).bin: --verify cannot compare all bytes of it\$"
rm rank.*
all=()
rm one.bin other.bin llama-?/tokenizer.json

"$ZEROTH" train tiny.ini -o run.dir=alone --verify > alone.out 2>&1
is "--verify of one rank trains" "$?" 0
like "--verify of one rank warns" "$(cat alone.out)" "^zeroth: warning: verify: one rank trains: there is no other to compare"

# ---- plugins ----
for dir in a b; do
	mkdir "$dir"
	cp "$ZR_TEST_PLUGINS/optimizer/sgd.so" "$dir/sgd.so"
done
all=(-o optimizer.lr=0.1)
ranks tiny.ini "-o optimizer.plugin=./a/sgd.so" "-o optimizer.plugin=./b/sgd.so"
is "the same plugin elsewhere: exit 0" "$codes" "0 0 "
rm rank.*
echo "another build" >> b/sgd.so
ranks tiny.ini "-o optimizer.plugin=./a/sgd.so" "-o optimizer.plugin=./b/sgd.so"
refused "another plugin file" "plugin file" 1 "[^ ]*/b/sgd.so $print" "[^ ]*/a/sgd.so $print"

all=()

# ---- the run directory ----
# away OPTIONS...: 3 ranks, the last of which has another working directory, so another `run`
away() {
	local r dir job=()
	rm -rf run else/run
	for r in 0 1 2; do
		dir=.
		[ $r != 2 ] || dir=else
		(cd "$dir" && RANK=$r WORLD_SIZE=3 exec timeout 100 "$ZEROTH" train "$scratch/tiny.ini" -o run.dir=run -o boot.plugin=env \
			-o boot.directory="$scratch/meet" "$@") > "rank.$r" 2>&1 &
		job+=($!)
	done
	codes=
	for r in "${job[@]}"; do
		wait "$r"
		codes+="$? "
	done
}
blind='rank 2 on [^ ]+ does not see run of rank 0 on [^ ]+, where checkpoints go: '
for option in checkpoint.every=2 checkpoint.keep_best=yes; do
	away -o "$option"
	like "$option, no shared directory: exit 2" "$codes" '\<2 '
	for r in 0 1 2; do like "$option, no shared directory: rank $r says so" "$(tail -n 1 rank.$r)" "$blind"; done
	is "$option, no shared directory: before step 1" "$(grep -h '^step' rank.*)" ""
	ok "$option, no shared directory: none is left" test ! -e run
done
want=$(trained tiny.ini)
away
is "nothing but a signal saves: all trains" "$codes $(tail -n 1 rank.0)" "0 0 0  $want"
like "and a warning says what a signal would do" "$(cat rank.0)" "^zeroth: warning: checkpoint: $blind"
away -o checkpoint.on_signal=no
is "nothing saves: all trains" "$codes $(tail -n 1 rank.0)" "0 0 0  $want"
is "and nobody warns" "$(grep -h warning rank.*)" ""
away -o checkpoint.every=2 -o checkpoint.dir="$scratch/common"
is "checkpoints in a shared directory: all trains" "$codes $(tail -n 1 rank.0)" "0 0 0  $want"
is "no probe is left" "$(find run common -name '.probe*')" ""

done_testing
