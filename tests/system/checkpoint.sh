#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Checkpoints as people meet them: saving and going on, what is refused and why (I7), what damage, a full disk and signals
# do (I6), and `zeroth checkpoint`.
. "$ZR_SRCDIR/tests/lib/tap.sh" || exit 99
. "$ZR_SRCDIR/tests/lib/fixture.sh" || exit 99

cd "$scratch" || exit 99
newline=$'\n'
for i in $(seq 1 4000); do echo "line $i of a text that is long enough to learn a little from"; done > text

# train RUN OPTION...: output in RUN.out, log in RUN.err
train() {
	local dir=$1
	shift
	"$ZEROTH" train "$ZR_SRCDIR/tests/lib/matrix.ini" -o data.path=text -o run.dir="$dir" -o train.train_batch_size=4 "$@" \
		> "$dir.out" 2> "$dir.err"
}
digest() { tail -n 1 "$1.out"; }
fresh() { rm -rf "$1"; cp -r one "$1"; }
flip() { # flip FILE OFFSET: one bit
	local byte
	byte=$(od -An -tu1 -j "$2" -N 1 "$1")
	printf "\\x$(printf %x $((byte ^ 16)))" | dd of="$1" bs=1 seek="$2" conv=notrunc status=none
}

# ---- saving, and what is left ----
train whole -o train.steps=6
train one -n 2 -o train.steps=5 -o checkpoint.every=2 -o zero.plugin=stage2
is "a training with checkpoints succeeds" "$?" 0
is "every second step is saved, and the last" "$(ls one/checkpoints | tr '\n' ' ')" "latest step-00000002 step-00000004 step-00000005 "
is "a checkpoint has a manifest and a file per rank" "$(ls one/checkpoints/step-00000004 | tr '\n' ' ')" \
	"manifest.json rank-00000-of-00002.safetensors rank-00001-of-00002.safetensors "
is "latest names the last" "$(cat one/checkpoints/latest)" step-00000005
like "a save is logged with its size and what training waited" "$(cat one.err)" \
	'^rank 0: zeroth: checkpoint: step 4 saved in [0-9.]+ s, of which training waited [0-9.]+ s: 0\.8 MiB in one/checkpoints/step-00000004$'
like "the end says so too" "$(cat one.out)" '^checkpoints 3 of [0-9.]+ KiB; training waited [0-9.]+ s of the [0-9.]+ s that they took$'
like "and the summary" "$(tr -d '\n' < one/summary.json)" '"checkpoints": \{ *"saved": 3, *"failed": 0, *"bytes": [0-9]+, *"seconds": [0-9.]+, *"stall_seconds": '

ls=$("$ZEROTH" checkpoint ls one)
is "ls succeeds" "$?" 0
like "ls: step, size, ranks, plugins, whole" "$ls" \
	'^step 4 +[0-9.]+ KiB  2 ranks  model gpt2 1\.0  optimizer adamw 1  precision fp32 1  whole$'
like "ls marks the latest" "$ls" '^step 5 .* whole, latest$'
is "ls of one checkpoint" "$("$ZEROTH" checkpoint ls one/checkpoints/step-00000004)" "$(grep '^step 4' <<<"$ls")"
out=$("$ZEROTH" checkpoint verify one)
is "verify succeeds" "$?" 0
is "verify has a line for each" "$(grep -c '  whole, [0-9.]* KiB$' <<<"$out")" 3

# ---- going on ----
fresh two
train two --resume auto -o train.steps=6
is "I6: --resume auto goes on from the latest" "$(digest two)" "$(digest whole)"
like "and says from where" "$(cat two.out)" '^resumed after step 5$'
like "and at the end what the run has in all" "$(cat two.out)" '^resumed     after step 5; in all 6 steps, 0\.00 M tokens$'
like "beside what this process trained" "$(cat two.out)" '^trained 1 step, 0\.00 M tokens in '
value() { sed -n "s/.*\"$2\": \([0-9.e-]*\).*/\1/p" "$1/summary.json"; }
is "its summary has both: steps" "$(value two steps) $(value two process_steps)" "6 1"
is "and tokens" "$(value two total_tokens) $(value two tokens)" "$(value whole tokens) $(($(value whole tokens) / 6))"
is "of a run without a break they are the same" "$(value whole total_tokens) $(value whole process_steps)" \
	"$(value whole tokens) $(value whole steps)"
is "metrics continue" "$(grep -o '"step":[0-9]*' two/metrics.jsonl | tr -dc '0-9\n' | tr '\n' ' ')" '1 2 3 4 5 6 '
train three --resume one/checkpoints/step-00000002 -o train.steps=6
is "I6: --resume of a checkpoint, into a new run" "$(digest three)" "$(digest whole)"
is "its metrics are those of its steps" "$(grep -o '"step":[0-9]*' three/metrics.jsonl | tr -dc '0-9\n' | tr '\n' ' ')" '3 4 5 6 '
fresh back
train back --resume back/checkpoints/step-00000002 -o train.steps=6 -o monitor.table.plugin=csv
is "I6: back in its own directory" "$(digest back)" "$(digest whole)"
steps='1 2 3 4 5 6 '
is "metrics have every step once" "$(grep -o '"step":[0-9]*' back/metrics.jsonl | tr -dc '0-9\n' | tr '\n' ' ')" "$steps"
like "and a line says so" "$(cat back.err)" \
	'^zeroth: monitor.jsonl: .*: the run goes on after step 2: took out 3 rows of a training that was left$'
sed -i '3,4d; 2s/,.*/,0/' back/metrics.csv
printf '4,1\n5,1\n6,1\n7,1' >> back/metrics.csv
train back --resume back/checkpoints/step-00000004 -o train.steps=6 -o monitor.table.plugin=csv
is "a row that was not finished is none" "$(cut -d, -f1 back/metrics.csv | tr '\n' ' ')" 'step 3 4 5 6 '
fresh four
train four --resume auto -o train.steps=5
is "nothing is left to do: the same digest" "$(digest four)" "$(digest one)"
like "I7: and says so" "$(cat four.out)" '^nothing is left to train: \[train\] steps = 5$'
train five --resume auto -o train.steps=6
is "--resume auto without a checkpoint trains from the beginning" "$(digest five)" "$(digest whole)"
like "I7: and says so" "$(cat five.err)" '^zeroth: resume: no checkpoint in five/checkpoints: training starts from the beginning$'
rm -r five/checkpoints
before=$(cksum five/*)
train five --resume auto -o train.steps=7
is "but not over the model of a run that ended: exit 2" "$?" 2
like "I7: and says so" "$(cat five.err)" \
	'^zeroth: run directory five has the model of a run that ended, and five/checkpoints no checkpoint to go on from: choose another'
is "the run is what it was" "$(cksum five/*)" "$before"

is "I7: what has no checkpoint, and how to have some" "$("$ZEROTH" checkpoint verify five 2>&1)" \
	'zeroth: five: no checkpoint there; [checkpoint] every saves some'

# ---- refused by name ----
refused() { # refused NAME TEXT OPTION...
	local name=$1 text=$2
	shift 2
	rm -rf no
	train no --resume one "$@"
	is "$name: exit 2" "$?" 2
	like "I7: $name" "$(tail -n 1 no.err)" "$text"
}
at='^zeroth: one/checkpoints/step-00000005: cannot go on from here: '
refused "another seed" "$at\\[train\\] seed was 1234, is 5\$" -o train.steps=6 -o train.seed=5
refused "another batch" "${at}the number of micro-batches in a step of all ranks was 4, is 8\$" -o train.steps=6 -o train.train_batch_size=8
refused "another shape" "${at}the model is another one: tensor wpe.weight had another shape: 1920 elements, now 960: give \\[model\\] and" \
	-o train.steps=6 -o model.context=20
refused "other layers" "${at}the model is another one, of [0-9]+ tensors where it had [0-9]+: give \\[model\\] and \\[adapter\\] as they were, which config.ini of its run has, or train without --resume in another \\[run\\] dir\$" \
	-o train.steps=6 -o model.layers=1
refused "another optimizer" "${at}the optimizer of tensor wte.weight was adamw, is sgd\$" -o train.steps=6 -o optimizer.plugin=sgd
refused "another type" "${at}the type of \\[precision\\] was F32, is BF16\$" -o train.steps=6 -o precision.plugin=bf16
refused "a training that is over" "${at}it is at step 5, and \\[train\\] steps = 4\$" -o train.steps=4
ok "a refused training leaves nothing" test ! -e no
train no --resume text
like "I7: --resume of what is no directory" "$(cat no.err)" '^zeroth: text: not a directory$'
mkdir empty
train no --resume empty
like "I7: --resume of what has no checkpoint" "$(cat no.err)" '^zeroth: empty: no checkpoint there$'
err=$("$ZEROTH" train "$ZR_SRCDIR/tests/lib/matrix.ini" -o data.path=text -o train.train_batch_size=4 --resume auto 2>&1)
like "I7: --resume auto without a directory" "$err" '^zeroth: --resume auto: \[run\] dir and \[checkpoint\] dir are auto'
train one -o train.steps=6
like "a run directory that exists" "$(cat one.err)" 'run directory one exists already; go on from its checkpoint with --resume auto, choose'
train no -o checkpoint.dir=one/checkpoints
like "a directory with checkpoints of another training" "$(cat no.err)" \
	'^zeroth: \[checkpoint\] dir = one/checkpoints has checkpoints already: go on from them with --resume auto'
rm -rf no
train no --resume one -o train.steps=6 -o optimizer.lr=1e-4 -o train.gradient_clipping=2
is "what may change results goes on" "$?" 0
like "I7: with a warning" "$(cat no.err)" '^zeroth: warning: resume: optimizer.lr was 0.001, is 0.0001: from here on results are not those of'
is "for each of these settings alone" "$(grep -c warning no.err)" 2

# ---- the data ----
tr a-zA-Z n-za-mN-ZA-M < text > rot13
refused "other data of the same size" "${at}the data is another: file 1 was [0-9]+ bytes, xxh3 [0-9a-f]{16} "\
'in text, is [0-9]+ bytes, xxh3 [0-9a-f]{16} in rot13: give what it was, or go on with --other-data$' \
	-o train.steps=6 -o data.path=rot13
head -n 3999 text > less
refused "fewer data" "${at}the data is another: file 1 was " -o train.steps=6 -o data.path=less
refused "one file more" "${at}the data is another: file 2 was not there, is [0-9]+ bytes, " \
	-o train.steps=6 -o data.val_path=text
train no --resume one -o train.steps=6 -o data.path=rot13 --other-data
is "other data on purpose" "$?" 0
like "I7: is said" "$(cat no.err)" '^zeroth: warning: resume: data.file 1 was [0-9]+ bytes, .* in rot13: from here on results'
rm -rf no
mkdir elsewhere && cp text elsewhere/renamed && gzip -c text > packed.gz
for same in elsewhere/renamed packed.gz; do
	rm -rf no
	train no --resume one/checkpoints/step-00000004 -o train.steps=6 -o data.path="$same"
	is "the same data as $same" "$(digest no) $(grep -c warning no.err)" "$(digest whole) 0"
done
build unhashed text
train old -o train.steps=4 -o checkpoint.every=4 -o data.plugin="$scratch/text.so"
train old --resume auto -o train.steps=6 -o data.path=rot13
is "a checkpoint of an older zeroth goes on" "$?" 0
like "I7: and a line says what is not known" "$(cat old.err)" \
	'^zeroth: resume: the checkpoint has no hash of its data: not compared$'
"$ZEROTH" train --other-data "$ZR_SRCDIR/tests/lib/matrix.ini" 2> flag.err
is "--other-data without --resume" "$? $(cat flag.err)" "2 zeroth train: --other-data: is for --resume"

# ---- damage ----
# broken NAME STEP TEXT: training goes on after STEP, with TEXT in the log and the same digest
broken() {
	train bad --resume auto -o train.steps=6
	is "I6: $1: the one before serves" "$(digest bad)" "$(digest whole)"
	like "$1: from the right step" "$(cat bad.out)" "^resumed after step $2\$"
	like "I7: $1: the message" "$(cat bad.err)" "$3"
}
file=rank-00001-of-00002.safetensors
passed='^zeroth: warning: resume: bad/checkpoints/step-00000005 is not whole and is passed over: bad/checkpoints/step-00000005/'
fresh bad
flip bad/checkpoints/step-00000005/$file 200000
broken "a flipped bit" 4 "$passed$file: tensor [a-z0-9._]+/[a-z_]+@[0-9]+ is damaged: checksum [0-9a-f]{16}, written as [0-9a-f]{16}\$"
fresh bad
err=$(flip bad/checkpoints/step-00000005/$file 200000; "$ZEROTH" checkpoint verify bad 2>/dev/null)
is "verify finds it, exit 2" "$?" 2
like "and names file and tensor" "$err" "^bad/checkpoints/step-00000005  damaged: .*$file: tensor [a-z0-9._]+/[a-z_]+@[0-9]+ is damaged"
fresh bad
truncate -s 300000 bad/checkpoints/step-00000005/$file
broken "a file cut short" 4 "$passed$file: (cut short|tensor .*: a place outside)"
like "ls: not whole" "$("$ZEROTH" checkpoint ls bad | grep 00005)" "^bad/checkpoints/step-00000005  not whole: .*$file: 300000 bytes, but"
fresh bad
rm bad/checkpoints/step-00000005/$file
broken "a missing file" 4 "$passed$file: No such file"
fresh bad
flip bad/checkpoints/step-00000005/manifest.json 1000
rm bad/checkpoints/step-00000004/manifest.json
broken "two broken manifests" 2 "${passed}manifest.json: the manifest is damaged: its checksum does not fit\$"
fresh bad
echo rubbish > bad/checkpoints/latest
broken "a damaged latest" 5 ''
fresh bad
echo step-00000002 > bad/checkpoints/latest
train bad --resume auto -o train.steps=6
is "I6: latest names an earlier one: training goes on from there" "$(digest bad)" "$(digest whole)"
like "and says so" "$(cat bad.out)" '^resumed after step 2$'
fresh bad
for step in 2 4 5; do flip bad/checkpoints/step-0000000$step/$file 200000; done
train bad --resume auto -o train.steps=6
is "I6: all broken: exit 2" "$?" 2
like "I7: and the reason" "$(tail -n 1 bad.err)" '^zeroth: bad/checkpoints: none of its checkpoints is whole; the last reason: .*step-00000002.* is damaged'
train no2 --resume bad/checkpoints/step-00000005 -o train.steps=6
is "I6: one that was asked for is not replaced by another" "$?" 2
ok "and nothing is made" test ! -e no2

# ---- no space ----
# A file may have at most 400 KiB: that of the rank has more, the weights have less.
train part -o train.steps=4
for async in no yes; do
	(ulimit -f 400; train full -o train.steps=4 -o checkpoint.every=2 -o checkpoint.async=$async)
	is "a full disk, async $async: exit 4" "$?" 4
	is "training goes on to its end" "$(digest full)" "$(digest part)"
	like "I7: every failure is logged, with rank and file" "$(cat full.err)" \
		'^zeroth: error: checkpoint: step 2 is not saved: rank 0: full/checkpoints/step-00000002.tmp/rank-00000-of-00001.safetensors: cannot write: File too large; training goes on$'
	like "the last line says so" "$(tail -n 1 full.err)" 'trained, but not all is saved: 2 checkpoints failed, the last because: '
	is "I6: nothing is left of them" "$(ls full/checkpoints)" ""
	ok "the weights are there" "$ZEROTH" sample full -n 3
	like "of no save, and none was waited for" "$(tr -d '\n ' < full/summary.json)" '"seconds":0.0,"stall_seconds":0.0'
	rm -r full
done
fresh kept
(ulimit -f 400; train kept --resume auto -o train.steps=6 -o checkpoint.every=6)
is "I6: a save that fails leaves those before it" "$("$ZEROTH" checkpoint ls kept | grep -c ' whole')" 3

# One rank of two cannot write.
if command -v prlimit > /dev/null; then
	"$ZEROTH" train -n 2 "$ZR_SRCDIR/tests/lib/matrix.ini" -o data.path=text -o run.dir=odd -o train.train_batch_size=4 -o train.steps=100000 \
		-o train.eval_every=0 -o run.log_every=1 -o checkpoint.every=1 > odd.out 2> odd.err &
	pid=$!
	await $pid test -e odd/checkpoints/latest
	prlimit --fsize=1000 --pid "$(children $pid | tail -n 1)"
	await $pid grep -q error odd.err
	kill -TERM $pid
	wait $pid
	is "one rank that cannot write: exit 4" "$?" 4
	like "I7: which rank" "$(cat odd.err)" '^rank 0: zeroth: error: checkpoint: step [0-9]+ is not saved: rank 1: odd/.*cannot write: File too large; training'
	ok "I6: those before are whole" "$ZEROTH" checkpoint verify odd
else
	skip "one rank that cannot write" "no prlimit(1)"
fi

# An overlay of this directory in a small tmpfs, where a user may have one.
if unshare -rm sh -c "mount -t tmpfs -o size=400k tmpfs '$scratch/empty'" 2>/dev/null; then
	export -f train
	unshare -rm bash -c "mount -t tmpfs -o size=400k tmpfs empty && train tight -o checkpoint.dir=empty -o checkpoint.every=3; ls empty > left"
	is "a disk that is too small: exit 4" "$(grep -c 'trained, but not all is saved' tight.err)" 1
	like "I7: what is needed and what there is" "$(cat tight.err)" \
		'step 3 is not saved: rank 0: empty: a checkpoint needs 0\.[0-9] MiB, the disk has 0\.4 MiB left: make room, lower'
	is "nothing is left on it" "$(cat left)" ""
	for dir in empty/run empty/new/run; do
		unshare -rm bash -c "mount -t tmpfs -o size=200k tmpfs empty && train over -o run.dir=$dir; ls empty > left" 2> /dev/null
		like "the weights at the end do not fit $dir" "$(cat over.err)" \
			"^zeroth: -o: \\[run\\] dir = $dir: the weights at the end of the training need [0-9.]+ [KM]iB, its disk has 200\\.0 KiB left: make room, or choose a dir on another disk\$"
		is "no step is trained" "$(cat over.out left)" ""
	done
	unshare -rm bash -c "mount -t tmpfs -o size=8k tmpfs empty && \"$ZEROTH\" report -o empty/page.html one; echo \$? \$(ls empty)" > left 2> tight.err
	is "nor by a report" "$(cat left)" 4
	unshare -rm bash -c "mount -t tmpfs -o size=100k tmpfs empty && \"$ZEROTH\" checkpoint export one empty/x; echo \$? \$(ls empty)" > left 2> tight.err
	is "nor for an export" "$(cat left)" 4
	like "I7: which is not begun" "$(cat tight.err)" '^zeroth: empty/x: the model needs 0\.[0-9] MiB, the disk has 0\.1 MiB left: make room or'
else
	skip "a disk that is too small" "no file system of its own"
fi

# ---- signals ----
interrupt() { # interrupt RUN OPTION...: SIGTERM after some steps
	local dir=$1
	(train "$@" -o train.steps=100000 -o train.eval_every=0 -o run.log_every=1) &
	local pid=$!
	await $pid grep -q '^step 3/' "$dir.out"
	kill -TERM $(children $pid)
	wait $pid
}
interrupt int
is "I5: SIGTERM: exit 130" "$?" 130
step=$(sed -n 's/^interrupted after \([0-9]*\) .*/\1/p' int.out)
is "with a checkpoint of the last step" "$(cat int/checkpoints/latest)" "$(printf 'step-%08d' "$step")"
train int --resume auto -o train.steps=$((step + 2)) -o train.eval_every=0
train straight -o train.steps=$((step + 2)) -o train.eval_every=0
is "I6: from which it goes on" "$(digest int)" "$(digest straight)"
interrupt int2 -o checkpoint.on_signal=no
ok "on_signal = no: none" test ! -e int2/checkpoints

# ---- export and prune ----
"$ZEROTH" checkpoint export one out > /dev/null
is "export succeeds" "$?" 0
is "export: what is there" "$(ls out | tr '\n' ' ')" "config.json model.safetensors "
bytes=$(($(grep -o '"parameters": [0-9]*' one/summary.json | tr -dc 0-9) * 4))
ok "I6: export has the bits of the weights" cmp <(tail -c $bytes out/model.safetensors) <(tail -c $bytes one/model.safetensors)
like "config.json has numbers" "$(tr -d '\n ' < out/config.json)" \
	'"architectures":\["GPT2LMHeadModel"\],.*"n_layer":2,.*"tie_word_embeddings":true,.*"torch_dtype":"float32"'
like "and the dropout of the training: other tools would take another one" "$(tr -d '\n ' < out/config.json)" \
	'"resid_pdrop":0\.1,"embd_pdrop":0\.1,"attn_pdrop":0\.1,'
is "without a checkpoint, that is the model of the end" "$("$ZEROTH" checkpoint export five end 2>&1)" \
	"exported    step 6 of five/model.safetensors to end"
ok "with the bits of the weights" cmp <(tail -c $bytes end/model.safetensors) <(tail -c $bytes five/model.safetensors)
ok "and the same config.json" cmp end/config.json out/config.json
is "--merge of it: exit 2" "$("$ZEROTH" checkpoint export --merge five no 2>&1; echo $?)" \
	"zeroth: five: --merge: there are no adapters in it${newline}2"
fresh later
train later --resume auto -o train.steps=6
is "as it is where it is later" "$("$ZEROTH" checkpoint export later late 2>&1)" \
	"exported    step 6 of later/model.safetensors to late${newline}            the last checkpoint has step 5: later/checkpoints/step-00000005"
"$ZEROTH" checkpoint export --dtype bf16 one/checkpoints/step-00000002 half > /dev/null
is "bf16 has half of it" "$(tail -c $((bytes / 2)) half/model.safetensors | wc -c)" $((bytes / 2))
"$ZEROTH" checkpoint export --shard-bytes 60000 one parts > /dev/null
is "large models are in several files" "$(ls parts | tr '\n' ' ')" \
	"config.json $(for i in 1 2 3 4 5 6 7; do printf 'model-0000%d-of-00007.safetensors ' $i; done)model.safetensors.index.json "
like "with an index" "$(tr -d '\n ' < parts/model.safetensors.index.json)" \
	"\"total_size\":$bytes},\"weight_map\":\\{\"wte.weight\":\"model-00001-of-00007.safetensors\","
like "an export is not overwritten" "$("$ZEROTH" checkpoint export one out 2>&1)" '^zeroth: out exists already'
fresh bad
flip bad/checkpoints/step-00000005/$file 200000
flip bad/checkpoints/step-00000005/rank-00000-of-00002.safetensors 200000
err=$("$ZEROTH" checkpoint export bad torn 2>&1)
is "I6: a damaged checkpoint is not exported" "$?" 2
ok "and leaves nothing" test ! -e torn -a ! -e torn.tmp
mkdir bad/checkpoints/step-00000009.tmp
out=$("$ZEROTH" checkpoint prune --keep 1 bad)
is "prune keeps the newest whole ones" "$out $(ls bad/checkpoints | tr '\n' ' ')" \
	"removed     2 checkpoints and 1 unfinished in bad/checkpoints latest step-00000005 "
like "prune --keep 0" "$("$ZEROTH" checkpoint prune --keep 0 bad 2>&1)" '^zeroth checkpoint: --keep 0: expected a number of checkpoints, 1 or more$'
like "no action" "$("$ZEROTH" checkpoint 2>&1)" '^zeroth checkpoint: expected ls, verify, export, import or prune$'
like "an unknown one" "$("$ZEROTH" checkpoint rm one 2>&1)" '^zeroth checkpoint: expected ls, verify, export, import or prune, found rm$'
is "help" "$("$ZEROTH" checkpoint --help | head -n 1)" "usage: zeroth checkpoint ls DIR"

# ---- weights in 16 bits ----
train sixteen -n 2 -o precision.plugin=bf16 -o zero.plugin=stage3 -o zero.gather_16bit_weights_on_model_save=yes
is "gather_16bit_weights_on_model_save: what is there" "$(ls sixteen/model-16bit | tr '\n' ' ')" "config.json model.safetensors "
like "and the end says so" "$(grep ^written sixteen.out)" ' sixteen: model\.safetensors config\.ini summary\.json model-16bit/$'
like "in the type of the training" "$(head -c 200 sixteen/model-16bit/model.safetensors | tr -d '\0')" '"dtype":"BF16"'
train no3 -o zero.gather_16bit_weights_on_model_save=yes
like "I7: refused in fp32" "$(cat no3.err)" 'gather_16bit_weights_on_model_save needs a \[precision\] of 16 bits'
done_testing
