#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# I7: a training that goes on elsewhere warns where its bits can differ, once per cause, and nowhere else.
. "$ZR_SRCDIR/tests/lib/tap.sh" || exit 99
cd "$scratch" || exit 99
for i in $(seq 1 3000); do echo "line $i of a text that is long enough to learn a little from"; done > text

# train DIR OPTION...: prints the digest
train() {
	"$ZEROTH" train "$ZR_SRCDIR/tests/lib/matrix.ini" -o data.path=text -o run.dir="$1" -o train.steps=4 -o train.train_batch_size=4 \
		-o checkpoint.every=2 -o device.threads=1 "${@:2}" 2> err | grep '^digest: '
}
warnings() { sed -n 's/^.*zeroth: warning: resume: //p' err; }

# quiet NAME FROM DIGEST OPTION...: goes on from step 2 of run FROM without a warning, to the same bits
quiet() {
	is "I1: $1" "$(train next --resume "$2/checkpoints/step-00000002" "${@:4}")" "$3"
	is "I7: $1: no warning" "$(warnings)" ''
	rm -rf next
}

# warned NAME FROM KEY OPTION...: goes on with one warning, of KEY
warned() {
	train next --resume "$2/checkpoints/step-00000002" "${@:4}" > out
	like "$1: goes on" "$(cat out)" '^digest: '
	is "I7: $1: one warning" "$(warnings | sed 's/: from here on.*//')" "$3"
	rm -rf next
}

host=$(train host)
like "trains" "$host" '^digest: '
limited="-o device.memory=64M"
separate="-o device.memory=64M -o device.plugin=$cards"
program() {
	"$ZEROTH" plan --program -n 2 "$ZR_SRCDIR/tests/lib/matrix.ini" -o data.path=text -o zero.plugin=stage3 \
		-o zero.persistence_threshold=0 -o offload.optimizer.plugin=cpu "$@"
}
card=$(program $limited)
like "device/cpu plays a card: state is copied to it and back" "$card" ' copy  '
is "its program is that of a card which only operations and copies reach" "$card" "$(program $separate)"
ok "and another than that of a card which the host reaches" test "$card" != "$(program $separate -o device.separate=no)"
is "I1: on a separate device" "$(train far $separate -o offload.optimizer.plugin=cpu)" "$host"
quiet "to a device with a memory of its own" host "$host" $limited
quiet "to a separate one" host "$host" $separate
quiet "to a separate one that computes on the host as well" host "$host" $separate -o offload.optimizer.plugin=cpu
quiet "back" far "$host"
quiet "to two ranks of stage3 there" far "$host" $separate -n 2 -o zero.plugin=stage3
quiet "with a type for gradients that is the one they had" host "$host" -o train.communication_data_type=fp32
quiet "with sums on a rank that is alone" host "$host" -o train.reduction=local

"$ZEROTH" train "$ZR_SRCDIR/tests/lib/matrix.ini" -o data.path=text -o run.dir=none -o device.isa=avx2 -o train.steps=1 > /dev/null 2> err
if grep -q 'this machine lacks' err; then
	skip "I7: other vector instructions" "not on this processor"
else
	train wide -o device.isa=avx2 > /dev/null
	warned "other vector instructions" wide "device.variant was cpu (avx2+own), is cpu (scalar+own)" -o device.isa=scalar
	warned "other vector instructions on the host" wide "device.variant was cpu (avx2+own), is cpu (avx2+own), host cpu (scalar+own)" \
		$separate -o device.isa=avx2 -o device.host.isa=scalar
fi
warned "gradients in another type" host "train.communication_data_type was F32, is BF16" -o train.communication_data_type=bf16
train local -n 2 -o train.reduction=local > /dev/null
warned "sums on each rank" host "train.reduction was slots, is local over 2 ranks" -n 2 -o train.reduction=local
warned "sums on a rank that is alone now" local "train.reduction was local over 2 ranks, is slots" -o train.reduction=local
warned "another scheduler" host "scheduler.plugin was constant, is warmup_lr" -o scheduler.plugin=warmup_lr -o scheduler.warmup_num_steps=7
warned "a new parameter group" host "optimizer.plain.plugin was not there, is adamw" -o 'optimizer.plain.match=*.bias' \
	-o optimizer.plain.weight_decay=0 -o optimizer.plain.lr=1e-5
train grouped -o 'optimizer.plain.match=*.bias' -o optimizer.plain.weight_decay=0 -o optimizer.plain.lr=1e-5 > /dev/null
warned "a parameter group less" grouped "optimizer.plain.plugin was adamw, is not there"
done_testing
