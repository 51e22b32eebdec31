#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# What it takes to add a codec to the gather: a toy of under 60 lines (xor_codec.c) goes through every tier, partition and
# comm, and the bits are those of a training without it.
. "$ZR_SRCDIR/tests/lib/tap.sh" || exit 99
. "$ZR_SRCDIR/tests/lib/tiers.sh"

ok 'the toy has at most 60 lines' test "$(wc -l < "$ZR_SRCDIR/tests/doubles/xor_codec.c")" -le 60
zeroth=$ZEROTH xored=$ZR_BUILDDIR/tests/doubles/xored
want=$(digest fp32 fp32 none none none stage0 1 keep auto auto 1)
like 'a training without a codec' "$want" '^digest: losses=[0-9a-f]{16} params=[0-9a-f]{16}$'

# coded NAME PARAMETERS STAGE WORLD OPTION...
coded() {
	local program
	ZEROTH=$xored
	is "I1 $1: same bits" "$(digest fp32 fp32 cpu none "$2" "$3" "$4" keep tiny auto 2 "${@:5}")" "$want"
	program=$("$xored" plan --program -n "$4" "$ZR_SRCDIR/tests/lib/matrix.ini" -o data.path="$scratch/text" -o zero.plugin="$3" \
		-o device.plugin="$cards" -o device.memory=32M -o device.separate=no -o zero.persistence_threshold=0 $(tier optimizer cpu) $(tier param "$2") "${@:5}")
	ok "$1: gathers are coded" grep -qE 'host +cast +gather' <<<"$program"
	ZEROTH=$zeroth
}
for stage in stage3 hpz mics; do
	for where in none cpu nvme; do
		coded "$stage, parameters $where" $where $stage 2
	done
done
coded 'ranks meet on the host' nvme stage3 3 -o device.separate=yes
coded 'nodes of a rank each, and gathers ahead' cpu stage3 2 -o boot.ranks_per_node=1 -o zero.prefetch_bucket_size=1e9
. "$ZR_SRCDIR/tests/lib/mpi_env.sh"
why=$(no_mpi)
if [ -n "$why" ]; then
	skip 'I1 over MPI: same bits' "$why"
else
	is 'I1 over MPI: same bits' "$(timeout 100 "$mpirun" -n 2 "$xored" train "$ZR_SRCDIR/tests/lib/matrix.ini" -o data.path="$scratch/text" \
		-o train.train_batch_size=6 -o train.eval_every=0 -o model.layers=3 -o zero.plugin=stage3 -o zero.persistence_threshold=0 \
		-o boot.plugin=mpi -o comm.plugin=mpi -o run.dir="$scratch/mpi" 2>&1 | grep '^digest')" "$want"
fi
done_testing
