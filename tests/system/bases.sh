#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# I1, same bits with an optimizer whose states follow from the shapes of matrices (soap), built as a stranger would: over
# stages, ranks, tiers, devices and resumes; what it is refused for.
. "$ZR_SRCDIR/tests/lib/tap.sh" || exit 99
cd "$scratch" || exit 99
umask 022
read -ra cc <<< "${CC:-cc}"

for i in $(seq 1 4000); do echo "line $i of a text that is long enough to learn a little from"; done > text
mkdir disk
ok 'soap has less than 80 lines' test "$(wc -l < "$ZR_SRCDIR/tests/examples/soap.c")" -lt 80
ok 'soap builds' "${cc[@]}" -std=c11 -Wall -Wextra -Werror -O2 -shared -fPIC -I"$ZR_SRCDIR/include" -o soap.so \
	"$ZR_SRCDIR/tests/examples/soap.c"
like 'its check passes' "$("$ZEROTH" plugin check ./soap.so 2>&1 | grep -v '^ok'; echo "code ${PIPESTATUS[0]}")" '^code 0$'

settings=(-o data.path=text -o run.dir=run -o optimizer.plugin="$scratch/soap.so" -o optimizer.lr=3e-3 -o optimizer.precondition_frequency=2
	-o model.width=48 -o train.train_batch_size=6 -o train.steps=6 -o train.eval_every=0 -o device.threads=1)
run() { # RANKS [argument]...: the last line
	local ranks=$1
	shift
	[[ $* = *--resume* ]] || rm -rf run
	"$ZEROTH" train -n "$ranks" "$ZR_SRCDIR/tests/lib/matrix.ini" "${settings[@]}" "$@" 2>&1 | tail -n 1
}

split=(-o zero.plugin=stage3 -o zero.persistence_threshold=0)
disk=()
for what in optimizer gradient param; do disk+=(-o "offload.$what.plugin=nvme" -o "offload.$what.path=$scratch/disk"); done
apart=(-o device.plugin="$cards" -o device.memory=32M)
one=$(run 1 -o zero.plugin=stage0)
like 'soap trains' "$one" '^digest: losses=[0-9a-f]{16} params=[0-9a-f]{16}$'
is 'I1: stage 1 on 2 ranks' "$(run 2 -o zero.plugin=stage1)" "$one"
one_in 5 && is 'I1: stage 0 on 3 ranks' "$(run 3 -o zero.plugin=stage0)" "$one"
one_in 5 && is 'I1: stage 2 on 3 ranks, in pieces, 2 threads' "$(run 3 -o zero.plugin=stage2 -o zero.sub_group_size=5000 -o device.threads=2)" "$one"
one_in 5 && is 'I1: stage 3 on 3 ranks' "$(run 3 "${split[@]}")" "$one"
one_in 5 && is 'I1: stage 3 on 2 ranks on 2 nodes' "$(run 2 "${split[@]}" -o boot.ranks_per_node=1)" "$one"
one_in 5 && is 'I1: all on disk' "$(run 1 "${split[@]}" "${disk[@]}")" "$one"
one_in 5 && is 'I1: all on disk, 3 ranks, in pieces' "$(run 3 "${split[@]}" "${disk[@]}" -o zero.sub_group_size=5000)" "$one"
one_in 5 && is 'I1: beside a device of its own, states in host memory' "$(run 2 "${split[@]}" "${apart[@]}" -o offload.optimizer.plugin=cpu)" "$one"
other=$(run 1 -o optimizer.max_precond_dim=100)
like 'sides without a basis' "$other" '^digest: '
ok '... have other bits' test "$other" != "$one"
one_in 5 && is 'I1: ... on 3 ranks, on disk' "$(run 3 "${split[@]}" "${disk[@]}" -o optimizer.max_precond_dim=100)" "$other"

run 3 "${split[@]}" -o train.steps=3 -o checkpoint.every=3 > stopped
cp -r run kept
is 'I1: going on with other ranks and a disk' "$(run 2 -o zero.plugin=stage1 "${disk[@]:0:4}" --resume auto)" "$one"
rm -rf run
mv kept run
like 'other sides are refused by name' "$(run 1 -o optimizer.max_precond_dim=100 --resume auto)" \
	'state bases of tensor wte.weight had [0-9]+ bytes per block, has [0-9]+: give optimizer soap the options that it had'

# Averages and bases of both sides of each matrix, in fp32, beside the moments; a share of them on each of two ranks.
state() { "$ZEROTH" plan -n "$1" "$ZR_SRCDIR/tests/lib/matrix.ini" "${settings[@]}" -o zero.plugin=stage1 "${@:2}" | sed -n 's/.*optimizer state *//p'; }
is 'the plan has them' "$(state 1) $(state 2) $(state 1 -o optimizer.max_precond_dim=1)" '3.1 MiB 1.9 MiB 912.0 KiB'

like 'on a device that alone reaches its memory it is refused by name' "$(run 1 "${apart[@]}")" \
	'optimizer soap runs on host memory only: add \[offload.optimizer\]'
# States of so many bytes per block whatever the shape must fill places that begin at multiples of 64 bytes.
sed 's/^#define SUMS .*/#define SUMS 300/' "$ZR_SRCDIR/tests/examples/adafactor.c" > adafactor.c
"${cc[@]}" -std=c11 -Wall -Wextra -Werror -O2 -shared -fPIC -I"$ZR_SRCDIR/include" -o adafactor.so adafactor.c -lm
like 'bytes per block that do not fit whole parameters are refused by name' "$(run 2 -o optimizer.plugin=adamw \
	-o optimizer.matrices.plugin="$scratch/adafactor.so" -o optimizer.matrices.match='*.c_fc.weight' -o optimizer.precondition_frequency=)" \
	'adafactor.so: state sums has 300 bytes per block; with step_whole\(\) a multiple of 64 fits every number of ranks'
like 'a matrix far longer than wide is refused by name' "$(run 1 -o model.width=2 -o model.heads=1 -o model.context=1024)" \
	'tensor .* has a shape that state bases of soap needs [0-9]+ bytes per block for, where multiples of 64 up to 1048576 can be'
done_testing
