#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# A save finds ranks that have drifted apart: what differs is not saved, and the last line names tensor and rank (I7). See
# drift.c for what is planted. Then fp16: a break at every step of a training that overflows, in the middle of a count of
# hysteresis too, leaves the bits as they are (I1, I6); and going on begins with what `latest` names.
. "$ZR_SRCDIR/tests/lib/tap.sh" || exit 99
. "$ZR_SRCDIR/tests/lib/fixture.sh" || exit 99

cd "$scratch" || exit 99
for i in $(seq 1 2000); do echo "line $i of a text that is long enough to learn a little from"; done > text
build drift

# train RUN OPTION...: output in RUN.out, log in RUN.err
train() {
	local dir=$1
	shift
	timeout 120 "$ZEROTH" train "$ZR_SRCDIR/tests/lib/matrix.ini" -o data.path=text -o run.dir="$dir" -o train.train_batch_size=4 \
		-o train.eval_every=0 "$@" > "$dir.out" 2> "$dir.err"
}
digest() { tail -n 1 "$1.out"; }

# ---- ranks that have drifted apart ----
two=(-n 2 -o optimizer.plugin=./drift.so -o checkpoint.every=2 -o train.steps=6)
for more in checkpoint.async=no checkpoint.async=yes precision.plugin=bf16; do
	rm -rf a b
	DRIFT='' train a "${two[@]}" -o $more
	is "$more: ranks that are alike save" "$? $(cat a/checkpoints/latest)" "0 step-00000006"
	DRIFT=h.1.ln_1.weight train b "${two[@]}" -o $more
	is "$more: ranks that are not: exit 4" "$?" 4
	like "I7: $more: which tensor and rank" "$(tail -n 1 b.err)" \
		'step 4: tensor h\.1\.ln_1\.weight \(unit h\.1\) of rank 1 is not that of rank 0: ranks have drifted apart, so this step is not saved'
	is "I6: $more: nothing of it is saved" "$(ls b/checkpoints | tr '\n' ' ')" "latest step-00000002 "
	DRIFT='' train b "${two[@]}" -o $more --resume auto
	is "I6: $more: the checkpoint before serves" "$? $(digest b)" "0 $(digest a)"
done

# Padding is no drift: of what passes through buffers on its way from the disk to a device it has what was there before.
rm -rf a
train a -n 2 -o precision.plugin=bf16 -o zero.plugin=stage0 -o device.memory=32M -o device.plugin="$cards" \
	-o offload.optimizer.plugin=nvme -o offload.optimizer.path=. -o checkpoint.every=3
is "padding of other bytes is saved" "$? $(cat a/checkpoints/latest)" "0 step-00000003"

# What every node has, split over its ranks: only what is frozen is not published anew.
build planted
nodes=(-n 4 -o boot.ranks_per_node=2 -o comm.plugin=./planted.so -o zero.plugin=hpz
	-o zero.persistence_threshold=0 -o train.freeze='h.1.*' -o checkpoint.every=2
	-o train.steps=4)
rm -rf a b
PLANTED='' train a "${nodes[@]}"
is "shares of nodes that are alike save" "$? $(cat a/checkpoints/latest)" "0 step-00000004"
PLANTED=share train b "${nodes[@]}"
is "shares that are not: exit 4" "$?" 4
like "I7: shares: which tensor and ranks" "$(tail -n 1 b.err)" \
	'step 4: tensor h\.1\.[a-z0-9_.]+ \(unit h\.1[a-z0-9/]*\) of rank 3 is not that of rank 1:'
is "I6: shares: nothing of it is saved" "$(ls b/checkpoints | tr '\n' ' ')" "latest step-00000002 "

# Masters that every node has, too little apart for compute copies to differ.
nodes=(-n 4 -o boot.ranks_per_node=2 -o comm.plugin=./planted.so -o zero.plugin=mics
	-o zero.persistence_threshold=0 -o precision.plugin=bf16 -o checkpoint.every=3
	-o train.steps=3)
rm -rf a b
PLANTED='' train a "${nodes[@]}"
is "masters of nodes that are alike save" "$? $(cat a/checkpoints/latest)" "0 step-00000003"
PLANTED=sums train b "${nodes[@]}"
is "masters that are not: exit 4" "$?" 4
like "I7: masters: which tensor and ranks" "$(tail -n 1 b.err)" \
	'step 3: tensor [a-z0-9_.]+ \(unit [a-z0-9._]*\) of rank 3 is not that of rank 1:'

# ---- hysteresis ----
fp16=(-o precision.plugin=fp16 -o precision.initial_scale_power=22 -o precision.loss_scale_window=2 -o precision.hysteresis=3
	-o train.steps=16)
train whole "${fp16[@]}" -o checkpoint.every=1 -o checkpoint.keep=0
counts=$(for f in whole/checkpoints/step-*/manifest.json; do sed -n 's/.*"hysteresis": \([0-9]\)$/\1/p' "$f"; done | tr '\n' ' ')
like "overflows are counted down, and anew after the scale has doubled" "$counts" '^2 1 .*1 3 .*2 1 $'
for step in 1 2 15; do
	rm -rf on
	train on "${fp16[@]}" --resume whole/checkpoints/step-$(printf %08d $step)
	is "I1, I6: fp16, a break after step $step, in the middle of a count" "$(digest on)" "$(digest whole)"
	is "the same steps are skipped with the same scales" "$(grep -o 'step [0-9]* skipped.*' on.err)" \
		"$(grep -o 'step [0-9]* skipped.*' whole.err | tail -n "$(grep -c skipped on.err)")"
done

# ---- latest ----
train one -o train.steps=6 -o checkpoint.every=2
fresh() { rm -rf "$1" && cp -r one "$1"; }
fresh c
echo step-00000002 > c/checkpoints/latest
train c --resume auto -o train.steps=6
like "a checkpoint that is newer than the one that latest names is not preferred" "$(cat c.out)" '^resumed after step 2$'
for what in rubbish step-00000005; do
	fresh d
	echo $what > d/checkpoints/latest
	train d --resume auto -o train.steps=6
	like "latest is $what: the newest whole one before it" "$(cat d.out)" "^resumed after step $([ $what = rubbish ] && echo 6 || echo 4)\$"
	like "I7: and the log says so" "$(cat d.err)" "^zeroth: warning: resume: d/checkpoints/latest names no checkpoint: the newest whole one is taken\$"
done
fresh e
rm e/checkpoints/latest
train e --resume auto -o train.steps=6
like "latest is missing: the newest whole one, said" "$(cat e.out; cat e.err)" '^zeroth: warning: resume: e/checkpoints/latest names no checkpoint'
done_testing
