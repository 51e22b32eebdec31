#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Around a device: a failure of any of its operations says rank, unit, operation and the device's own words. See
# watchdevice.c.
. "$ZR_SRCDIR/tests/tap.sh"

for i in $(seq 1 400); do echo "line $i of a text that is long enough to learn a little from"; done > "$scratch/text"
cc=(${CC:-cc})
"${cc[@]}" -std=gnu11 -w -shared -fPIC -I"$ZR_SRCDIR/include" -o "$scratch/watched.so" "$ZR_SRCDIR/tests/watchdevice.c" -ldl
chmod 755 "$scratch/watched.so"

# train OPTIONS...: on the watched device, with memory that copies alone reach, but for the options
train() {
	rm -rf "$scratch/run"
	"$ZEROTH" train "$ZR_SRCDIR/tests/matrix.ini" -o data.path="$scratch/text" -o run.dir="$scratch/run" -o train.eval_every=0 \
		-o train.train_batch_size=4 -o device.threads=1 -o device.plugin="$scratch/watched.so" -o device.memory=32M \
		-o device.separate=yes "$@" 2>&1
}

# fails NAME "OPERATION N" PATTERN OPTIONS...
fails() {
	out=$(WATCH_FAIL=$2 train "${@:4}")
	code=$?
	is "$1: exit 4" "$code" 4
	like "$1: the last line says who, what, where" "$(tail -n 1 <<<"$out")" "^zeroth: (rank [01] failed with code 4: )?\[device\] $3\$"
}

no='the device caught fire \(error 451\)'
fails 'backward of a layer' 'attention_bwd 4' \
	"attention_bwd: $no; rank 0, step 0, backward of layer h\.0 \(unit h\.0\)"
fails 'loss layer' 'head_loss 1' "head_loss: $no; rank 0, step 0, backward of layer [a-z_]+ \(unit [a-z_]+\)"
fails 'sums of gradients' 'fold 2' "fold: $no; rank 0, step 0, (wait for the )?reduce \(unit [a-z_0-9.]+\)" -o zero.plugin=stage2
fails 'sums of gradients, two ranks' 'fold 9' "fold: $no; rank [01], step [0-9], wait for the reduce \(unit [a-z_0-9.]+\)" -n 2 \
	-o zero.plugin=stage2
fails 'an optimizer that calls the device' 'adamw 2' "adamw: $no; rank 0, step 0, update \(unit [a-z_0-9.]+\)"
fails 'recompute, two ranks' 'matmul 40' \
	"matmul: $no; rank [01], step [0-9], (forward|recompute|backward) of layer [a-z_0-9.]+ \(unit [a-z_0-9.]+\)" \
	-n 2 -o zero.plugin=stage3 -o activation.plugin=recompute
done_testing
