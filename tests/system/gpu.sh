#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# tests/gpu/run without a GPU: the bundle, results of a phase, and that neither a hang nor a wrong result goes by unseen. What a
# GPU computes is not to be seen here, but a slip of the scripts would cost the little time there is with one.
. "$ZR_SRCDIR/tests/lib/tap.sh" || exit 99

[ -z "$ZR_SANITIZE" ] || skip_all 'it tests scripts, which are the same without'
for program in ldd objdump strip timeout; do
	command -v $program >/dev/null || skip_all "no $program"
done
gpu() { bash "$ZR_SRCDIR/tests/gpu/run" "$@" 2>&1; }
export ZR_GPU_DEVICE=cpu
unset ZEROTH_PLUGIN_PATH ZEROTH_DATA_PATH ZR_TEST_PLUGINS OUT

# A phase of tests that pass, fail, hang and die.
bad_tests() {
	export ZR_GPU_WORK=$PWD
	mkdir bin
	ln -s "$(type -P true)" bin/zeroth
	printf '#!/bin/sh\ncase $1 in n*) sleep 100 ;; c*) echo "# columns, type 1"; echo "not ok 1 - $1" ;; *) echo "ok 1 - $1" ;; esac\n' >bin/t_twin
	printf '#!/bin/sh\necho ok 1 - one\nkill -9 $$\n' >bin/t_device
	chmod +x bin/t_*
	table=$(ZR_GPU_PHASE=6 gpu kernels)
	is "a failure is the exit code" "$?" 1
	like "what passes" "$table" 'pass t_twin: elements'
	like "what differs" "$table" 'fail t_twin: columns.*1 differences'
	like "what hangs is ended" "$table" 'fail t_twin norms.*ended after 0 tests'
	like "what dies between its tests" "$table" '(fail t_device *: 137 code \(ended after 1|skip t_device)'
}
beside bad_tests

bash "$ZR_SRCDIR/tests/gpu/bundle.sh" "$scratch/bundle.tar.gz" >"$scratch/bundle.out" 2>&1
is "a bundle" "$?" 0
like "it says what it needs" "$(cat "$scratch/bundle.out")" 'bytes, for GLIBC_2\.[0-9]+ or later$'
cd "$scratch" || exit 99
export ZR_GPU_WORK=$scratch/work OUT=$scratch/out
mkdir out

like "without a bundle" "$(gpu nccl)" 'no bundle in .*give the archive'
like "an unknown phase" "$(gpu -b bundle.tar.gz nothing)" 'no phase nothing: build kernels '
table=$(gpu nccl)
is "a phase that passes" "$?" 0
like "its results are counted" "$table" '8 passed, 0 failed, 0 below their target, 0 skipped$'
is "in the table too" "$(grep -c '^nccl *pass' work/gpu.txt)" 8
is "and where they are wanted" "$(ls out | tr '\n' ' ')" "gpu.json gpu.txt logs.tar.gz results.jsonl state.tar.gz "
like "no time left" "$(ZR_GPU_PHASE=0 gpu nccl)" 'skip one rank.* s are left of this phase'
like "nor of the stay" "$(ZR_GPU_STAY=0 gpu nccl)" 'skip one rank.* s are left of this phase'

mkdir fresh
ZR_GPU_WORK=$scratch/fresh gpu -b bundle.tar.gz -b out/state.tar.gz report >/dev/null
is "results travel to another machine" "$(grep -c '^nccl *skip' fresh/gpu.txt)" "$(grep -c '^nccl *skip' work/gpu.txt)"
done_testing
