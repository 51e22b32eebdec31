#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# comm/nccl without a GPU: over a double of CUDA and NCCL (tests/doubles/nccl/), it passes what comm/tcp passes (I1, I5).
. "$ZR_SRCDIR/tests/lib/tap.sh" || exit 99
. "$ZR_SRCDIR/tests/lib/fixture.sh" || exit 99
. "$ZR_SRCDIR/tests/lib/launched.sh" || exit 99
cd "$scratch" || exit 99

tiny text 2 24 5 <<INI
[device]
threads = 1
INI
double=$ZR_BUILDDIR/tests/doubles/.libs/nccl_double.so

# ---- operations on memory of GPUs ------------------------------------------------
export COMM=../tests/doubles/.libs/nccl_double BOOT=boot/env
on_device() { ZR_DOUBLE_MEMORY=device good "$@"; }
beside on_device "every kind over nodes and the world, on GPUs; 64 tickets" 4 2 device
beside on_device "the same with 3 ranks on one node" 3 3 device
beside on_device "the same with sums by NCCL, as near as sums of 4 can be" 4 2 device nccl
unset COMM BOOT
same_gpu() {
	out=$(COMM=../tests/doubles/.libs/nccl_double BOOT=boot/env ZR_DOUBLE_GPU=0000:01:00.0 ranks_of 2 2 kinds)
	like 'two ranks on one GPU are refused by name' "$out" '^ranks 0 and 1 have the same GPU 0000:01:00.0, which NCCL refuses'
}
beside same_gpu

# ---- trainings -------------------------------------------------------------------
one_process
on_cards=(-o device.plugin="$cards" -o device.memory=64M)
"$ZEROTH" train tiny.ini -o run.dir=card -o train.eval_every=0 "${on_cards[@]}" > card.out 2>&1
is 'one process with the double of cards' "$(digest_of card.out)" "$one"
same() { # NAME DIGEST RANKS PER_NODE OPTION...
	all trains "$3" "$4" "$ZEROTH" train ../tiny.ini -o run.dir=run -o boot.plugin=env "${on_cards[@]}" -o comm.plugin="$double" \
		-o comm.host.plugin=tcp -o train.eval_every=0 "${@:5}"
	is "$1" "$(digest_of trains.0)" "$2"
	[ "$(digest_of trains.0)" = "$2" ] || note "$(tail -n 3 trains.*)"
}
for stage in stage0 stage1 stage2 stage3; do
	beside same "I1: 2 ranks, $stage" "$one" 2 2 -o zero.plugin=$stage
done
beside same "I1: 3 ranks, stage3" "$one" 3 3 -o zero.plugin=stage3
beside same "I1: 4 ranks on 2 nodes, hpz" "$one" 4 2 -o zero.plugin=hpz
beside same "I1: 4 ranks on 2 nodes, mics" "$one" 4 2 -o zero.plugin=mics
local=(-o train.reduction=local)
"$ZEROTH" train tiny.ini -n 2 -o run.dir=local "${local[@]}" -o train.eval_every=0 > local.out 2>&1
beside same "I1: comm/nccl adds for 2 ranks" "$(digest_of local.out)" 2 2 "${local[@]}"
done_testing
