#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# I6: what is named is on disk. Commands are run with their writes, syncs and renames recorded, and
# tests/faults/durable.awk says what a cut of the power could take away at each moment.
. "$ZR_SRCDIR/tests/lib/tap.sh" || exit 99
[ -z "$ZR_SANITIZE" ] || skip_all 'preloading is between the program and its sanitizers'

cd "$scratch" || exit 99
scratch=$(pwd -P)
for i in $(seq 1 60); do echo "line $i of a text that is long enough"; done > text
golden=$(cd "$ZR_SRCDIR" && pwd)/tests/golden/tokenizers

# recorded NAME NAMES COMMAND...: its log has no violation, and at least so many names that were taken
recorded() {
	local name=$1 names=$2 said code
	shift 2
	rm -f log
	LD_PRELOAD="$ZR_BUILDDIR/tests/faults/.libs/libfaults.so" ZR_FAULT_LOG=$scratch/log \
		"$@" > out 2>&1
	code=$?
	said=$(awk -f "$ZR_SRCDIR/tests/faults/durable.awk" log)
	is "I6: $name: names come after what they name is on disk" "$code $(grep -v '^looked' <<< "$said")" '0 '
	ok "$name: names were taken" test "$(sed -n 's/^looked at \([0-9]*\) names.*/\1/p' <<< "$said")" -ge "$names"
}

train=("$ZEROTH" train -o model.plugin=gpt2 -o model.layers=1 -o model.heads=1 -o model.width=8 -o model.context=8 -o data.plugin=text
	-o data.path=text -o train.train_batch_size=2 -o train.micro_batch_size=1 -o train.eval_every=0 -o device.threads=1
	-o checkpoint.every=1 -o checkpoint.keep=2 /dev/null)
recorded 'saves' 9 "${train[@]}" -o run.dir=new/one -o train.steps=4
ok 'the plan, which can be made again, is written' grep -q $'\twrite\t.*/plan\.json' log
is 'and the first step waits for no disk because of it' "$(grep -c $'\tsync\t.*/plan\.json' log)" 0
is 'config.ini, written beside the first step, is on disk before a checkpoint begins' "$(awk -F '\t' '
	$2 == "rename" && $4 ~ /config\.ini$/ { named = 1 }
	$2 == "sync" && named && $3 ~ /new\/one$/ { lasts = 1 }
	$2 == "mkdir" && /checkpoints\/step/ { print lasts + 0; exit }' log)" 1
out=$(LD_PRELOAD="$ZR_BUILDDIR/tests/faults/.libs/libfaults.so" ZR_FAULT='call=sync n=1 kind=EIO' \
	"${train[@]}" -o run.dir=three -o train.steps=4 2>&1)
is 'a config.ini that does not get there ends the run' "$? ${out##*$'\n'}" \
	'4 zeroth: three/config.ini: cannot write: Input/output error'
ok 'before it saves anything' test ! -e three/checkpoints
recorded 'saves beside the training, two ranks' 9 "${train[@]}" -n 2 -o run.dir=two -o train.steps=4 -o checkpoint.async=yes \
	-o zero.plugin=stage2
truncate -s 1000 new/one/checkpoints/step-00000004/rank-00000-of-00001.safetensors
recorded 'a checkpoint in the place of a damaged one' 3 "${train[@]}" -o run.dir=new/one -o train.steps=4 --resume auto
recorded 'weights in 16 bits' 6 "${train[@]}" -o run.dir=half -o train.steps=1 -o precision.plugin=bf16 \
	-o zero.gather_16bit_weights_on_model_save=yes
recorded 'an export' 1 "$ZEROTH" checkpoint export --shard-bytes 4096 two exported
recorded 'prune' 0 "$ZEROTH" checkpoint prune --keep 1 two
grep -q HAVE_PCRE2 "$ZR_BUILDDIR/config.status" && recorded 'tokens' 1 "$ZEROTH" tokenize -T "$golden/gpt2.json" -o tokens.bin text
done_testing
