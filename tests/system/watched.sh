#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Around a device: a failure of any of its operations says rank, unit, operation and the device's own words; gradients on
# their way through host memory move beside the layers and beside the folds. See watchdevice.c.
. "$ZR_SRCDIR/tests/lib/tap.sh" || exit 99
. "$ZR_SRCDIR/tests/lib/fixture.sh" || exit 99

for i in $(seq 1 400); do echo "line $i of a text that is long enough to learn a little from"; done > "$scratch/text"
build watchdevice watched

# train OPTIONS...: on the watched device, with memory that copies alone reach, but for the options
train() {
	rm -rf "${scratch:?}/run"
	"$ZEROTH" train "$ZR_SRCDIR/tests/lib/matrix.ini" -o data.path="$scratch/text" -o run.dir="$scratch/run" -o train.eval_every=0 \
		-o train.train_batch_size=4 -o device.threads=1 -o device.plugin="$scratch/watched.so" -o device.memory=32M "$@" 2>&1
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
	"attention_bwd: $no; rank 0, step 1, backward of layer h\.0 \(unit h\.0\)"
fails 'loss layer' 'head_loss 1' "head_loss: $no; rank 0, step 1, backward of layer [a-z_]+ \(unit [a-z_]+\)"
fails 'sums of gradients' 'fold 2' "fold: $no; rank 0, step 1, (wait for the )?reduce \(unit [a-z_0-9.]+\)" -o zero.plugin=stage2
fails 'sums of gradients, two ranks' 'fold 9' "fold: $no; rank [01], step [0-9], reduce \(unit [a-z_0-9.]+\)" -n 2 \
	-o zero.plugin=stage2
fails 'an optimizer that calls the device' 'adamw 2' "adamw: $no; rank 0, step 1, update \(unit [a-z_0-9.]+\)"
fails 'recompute, two ranks' 'matmul 40' \
	"matmul: $no; rank [01], step [0-9], (forward|recompute|backward) of layer [a-z_0-9.]+ \(unit [a-z_0-9.]+\)" \
	-n 2 -o zero.plugin=stage3 -o activation.plugin=recompute

# Copies that happen as late as they may, so that all that are under way are seen, and whatever comes too early is found; and
# at once, which finds what comes too late.
build devcomm

# beside OPERATION: how many calls of rank 0, and how many of them while a copy to the host was under way
beside() { awk -v op="$1" '$1 == op { print($3 > 0 ? "some" : $2 > 0 ? "none" : "no call") }' "$scratch/count.0"; }

# moves NAME LAYERS FOLDS OPTIONS...: the same bits as in one memory, with copies beside the layers and beside folds, or not
moves() {
	local same
	case " $* " in *precision.plugin=bf16*) same=$bf16 ;; *reduction=local*) same=$local ;; *) same=$fp32 ;; esac
	out=$(WATCH_COUNT=$scratch/count train -o device.late_copies=yes -o device.host.plugin="$scratch/watched.so" "${@:4}" | tail -n 1)
	is "I1 $1: same bits, late" "$out" "$same"
	is "I1 $1: same bits, early" "$(train "${@:4}" | tail -n 1)" "$same"
	is "$1: layers while gradients go to the host" "$(beside attention_bwd)" "$2"
	like "$1: folds meanwhile" "$(beside fold)" "^($3)\$"
}

here=(-o device.plugin=cpu -o device.memory=auto)
fp32=$(train "${here[@]}" | tail -n 1)
bf16=$(train "${here[@]}" -o precision.plugin=bf16 | tail -n 1)
local=$(train "${here[@]}" -n 2 -o zero.plugin=stage2 -o train.reduction=local | tail -n 1)
like 'one memory trains' "$fp32$bf16$local" '^(digest: losses=[0-9a-f]{16} params=[0-9a-f]{16}){3}$'
host="-o offload.optimizer.plugin=cpu -o train.accumulate_on=tier"
moves 'one rank, sums on the host' some some $host
moves 'one rank, sums on the host, added up on the device' some some -o offload.optimizer.plugin=cpu
moves 'one rank, sums on the device' none none
moves 'two ranks, sums on the host' some some -n 2 -o zero.plugin=stage2 $host
moves 'two ranks, sums on the device' some some -n 2 -o zero.plugin=stage1
moves 'two ranks, 16 bits, sums on the host' some some -n 2 -o zero.plugin=stage3 -o precision.plugin=bf16 $host
moves 'two ranks, 16 bits, sums on the device' some some -n 2 -o zero.plugin=stage2 -o precision.plugin=bf16
moves 'two ranks, whole states' some some -n 2 -o zero.plugin=stage0
moves 'two ranks, summed locally' some some -n 2 -o zero.plugin=stage2 -o train.reduction=local $host
moves 'two ranks, summed locally, sums on the device' some some -n 2 -o zero.plugin=stage1 -o train.reduction=local
moves 'two ranks, summed locally, comm of device memory, sums on the host' some some -n 2 -o zero.plugin=stage2 $host \
	-o train.reduction=local -o comm.plugin="$scratch/devcomm.so" -o comm.host.plugin=local
# the host's thread folds while the next gradient may begin to go
moves 'two ranks, comm of device memory, sums on the host' some 'some|none' -n 2 -o zero.plugin=stage2 $host \
	-o comm.plugin="$scratch/devcomm.so" -o comm.host.plugin=local
moves 'two ranks, 16 bits, comm of device memory, sums on the host' some 'some|none' -n 2 -o zero.plugin=stage3 -o precision.plugin=bf16 \
	$host -o comm.plugin="$scratch/devcomm.so" -o comm.host.plugin=local

# Of units that go through host memory in chunks, each has a part for each rank: the device copies all parts at once.
copies() { # copies RANKS STAGE: that rank 0 starts
	WATCH_COUNT=$scratch/count train -n "$1" -o zero.plugin="$2" -o precision.plugin=bf16 -o train.train_batch_size="$1" \
		-o train.steps=1 -o model.width=768 -o model.layers=1 -o device.memory=400M > "$scratch/copies.out" || note "$(tail -n 3 "$scratch/copies.out")"
	awk '$1 == "copies" { print $2 }' "$scratch/count.0"
}
for stage in stage1 stage2 stage3; do
	two=$(copies 2 $stage)
	ok "$stage copies through host memory" test "$two" -gt 10
	is "$stage starts as many copies on four ranks as on two" "$(copies 4 $stage)" "$two"
done

# Updates in the backward: while the gradients of the next list go to the host, and new values come without waiting for layers.
updates() { # updates NAME ADAMW COPIES OPTIONS...
	out=$(WATCH_COUNT=$scratch/count train -o device.late_copies=yes -o device.host.plugin="$scratch/watched.so" -o precision.plugin=bf16 \
		-o train.gradient_clipping=0 -o zero.reduce_bucket_size=1 $host "${@:4}" | tail -n 1)
	is "I1 $1: same bits" "$out" "$unclipped"
	is "$1: updates while gradients go to the host" "$(beside adamw)" "$2"
	is "$1: new values come meanwhile" "$(beside copy_after)" "$3"
}
unclipped=$(train "${here[@]}" -o precision.plugin=bf16 -o train.gradient_clipping=0 | tail -n 1)
updates 'updates after the backward' none none
updates 'updates in the backward' some some -o zero.update_in_backward=yes
updates 'updates in the backward, added up on the device' some some -o zero.update_in_backward=yes -o train.accumulate_on=device
updates 'updates in the backward, two ranks' some some -o zero.update_in_backward=yes -n 2 -o zero.plugin=stage2
done_testing
