#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# I1, I6: what has to be waited for is, however late it comes: one rank folds, updates or computes later than the others,
# and a disk takes its time with the checkpoint that training does not wait for. See latedevice.c, faults/faults.h.
. "$ZR_SRCDIR/tests/lib/tap.sh" || exit 99
. "$ZR_SRCDIR/tests/lib/fixture.sh" || exit 99

for i in $(seq 1 400); do echo "line $i of a text that is long enough to learn a little from"; done > "$scratch/text"
build latedevice late
cd "$scratch" || exit 99

train() { # train RUN OPTION...: its digest
	local dir=$1
	shift
	rm -rf "$dir"
	"$ZEROTH" train "$ZR_SRCDIR/tests/lib/matrix.ini" -o data.path="$scratch/text" -o run.dir="$dir" -o train.eval_every=0 \
		-o train.train_batch_size=4 -o model.layers=4 -o model.width=32 -o model.heads=2 -o model.context=16 "$@" 2>&1 | grep '^digest' ||
		echo "no digest in $dir"
}

# ---- a late rank ----

want=$(train one -o train.steps=3)
like "one rank trains" "$want" '^digest: losses=[0-9a-f]{16} params=[0-9a-f]{16}$'
late() { # late "OPERATION RANK MS" NAME OPTION...
	local what=$1 name=$2
	shift 2
	is "I1: $name, $what ms later" "$(LATE=$what train late -o train.steps=3 -o device.plugin="$scratch/late.so" "$@")" "$want"
}
split="-o zero.plugin=stage3 -o zero.persistence_threshold=0"
for rank in 0 1; do
	beside late "fold $rank 3" "stage1, 2 ranks, rank" -n 2 -o zero.plugin=stage1 -o zero.reduce_bucket_size=1
	beside late "fold $rank 3" "stage3, 2 ranks, rank" -n 2 $split -o zero.reduce_bucket_size=1
	beside late "adamw $rank 5" "stage1, 2 ranks, rank" -n 2 -o zero.plugin=stage1
	beside late "adamw $rank 5" "stage3, 2 ranks, rank" -n 2 $split
done
beside late "embedding_bwd 3 20" "stage3, 4 ranks, rank" -n 4 $split

# ---- a late checkpoint ----

# Written slowly, while training changes what is written; then gone on from, which reads every byte of it.
if [ -n "$ZR_SANITIZE" ]; then
	skip "I6: a slow disk" "sanitizers have an allocator of their own"
	done_testing
	exit
fi
disk() { # disk NAME OPTION...
	local name=$1 want
	shift
	want=$(train whole -o train.steps=8 "$@")
	LD_PRELOAD=$ZR_BUILDDIR/tests/faults/.libs/libfaults.so ZR_FAULT='call=write n=1 and=later kind=slow slow=0.004 path=rank-0' \
		train slow -o train.steps=8 -o checkpoint.every=3 -o checkpoint.async=yes -o checkpoint.keep=0 "$@" > digest
	is "I1: $name: a training that does not wait for its checkpoints" "$(cat digest)" "$want"
	is "I6: $name: they are whole" "$("$ZEROTH" checkpoint verify slow | grep -c '  whole, ')" 3
	for step in 3 6; do
		is "I6: $name: on from step $step" "$(train on --resume "slow/checkpoints/step-0000000$step" -o train.steps=8 "$@")" "$want"
	done
}
beside disk "a slow disk"
beside disk "a slow disk, small pieces" -o zero.sub_group_size=2048 -n 2 -o zero.plugin=stage1
beside disk "a slow disk, lamb" -o optimizer.plugin=lamb
beside disk "a slow disk, whole matrices" -o optimizer.matrices.match='h.*.attn.*.weight h.*.mlp.*.weight' -o optimizer.matrices.plugin=muon
beside disk "a slow disk, a master in two parts" -o precision.plugin=bf16 -o precision.master=split -n 2 -o zero.plugin=stage3
done_testing
