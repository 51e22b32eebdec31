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
	printf '#!/bin/sh\necho ok 1 - $0\n' >bin/t_fp8
	chmod +x bin/t_*
	table=$(ZR_GPU_PHASE=6 gpu kernels)
	is "a failure is the exit code" "$?" 1
	like "what passes" "$table" 'pass t_twin: elements'
	like "what differs" "$table" 'fail t_twin: columns.*1 differences'
	like "what hangs is ended" "$table" 'fail t_twin norms.*ended after 0 tests'
	like "what dies between its tests" "$table" '(fail t_device *: 137 code \(ended after 1|skip t_device)'
}
beside bad_tests

# It compiles what make does: all files of a plugin, and those that plugins of the role share.
compiles() {
	eval "$(sed -n '/^sources() {/,/^}/p' "$ZR_SRCDIR/tests/gpu/build.sh")"
	cd "$ZR_SRCDIR" || return
	is "all files of device/cuda are compiled" "$(sources device cuda | LC_ALL=C sort | xargs)" \
		"$(ls kernels/cuda/*.c plugins/device/cuda/*.c | grep -vE 'elementwise_source|trial_main' | LC_ALL=C sort | xargs)"
	is "all files of comm/nccl are compiled" "$(sources comm nccl | LC_ALL=C sort | xargs)" \
		"$(ls plugins/comm/header.c plugins/comm/nccl/*.c plugins/comm/sum.c | LC_ALL=C sort | xargs)"
}
beside compiles

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

# ---- one day with a GPU ----

both_halves() {
	rm -rf out
	mkdir out
	table=$(ZR_GPU_PHASE=9000 gpu day1)
	is "the first half of a day" "$?" 0
	is "its models train" "$(grep -c ' day1 *pass \(GPT-2\|Llama\).*tokens/s (target' <<<"$table")" 6
	is "attention of each shape both ways" "$(grep -c ' day1 *pass attention.*TFLOP/s (target' <<<"$table")" 4
	like "a step in parts" "$table" 'clock of the GPU: [0-9.]+ ms \(forward [0-9.]+ ms, backward [0-9.]+ ms'
	is "a day has a table of its own" "$(grep -c ^day1 out/gpu-day.txt)" "$(grep -c ' day1 ' <<<"$table")"
	is "which replaces no other" "$(ls out | tr '\n' ' ')" "gpu-day.json gpu-day.txt logs.tar.gz results.jsonl state.tar.gz "

	table=$(ZR_GPU_PHASE=9000 gpu day2)
	is "the second half" "$?" 0
	is "copies each way and both" "$(grep -c ' day2 *pass copies, .*GB/s (target' <<<"$table")" 3
	is "what the host does beside" "$(grep -c ' day2 *pass .* on the host: .*GB/s (target' <<<"$table")" 2
	is "state on the host beside what the first half measured" "$(grep -c 'of the rate on the GPU: [0-9.]* x' <<<"$table")" 2
	is "micro-batches of a model that is on the host as a whole" "$(grep -c ' day2 *pass Llama 2 13B.*tokens/s' <<<"$table")" 3
	is "forecasts beside what was measured" "$(grep -c ' day2 *pass forecast .*forecast, [0-9]* measured' <<<"$table")" 2
	is "both halves have one table" "$(grep -c '^day[12]' out/gpu-day.txt)" "$(grep -hc . work/day[12].json | awk '{ n += $1 } END { print n }')"

	table=$(ZR_GPU_STAY=0 gpu day1 day2)
	is "what does not fit in is no failure" "$?" 0
	like "but said" "$table" 'skip Llama 7B, 16 x 2 x 2048.* s are left of this phase'
	is "of each line" "$(grep -c ' day[12] *skip ' <<<"$table")" 19
}
if command -v python3 >python; then both_halves; else skip "a day" "python3 makes its tokens"; fi

. "$ZR_SRCDIR/tests/gpu/day.sh"
of_day() { :; }
measured() { :; }
left() { echo $((ends - SECONDS)); }
table() { :; }
table_of() { :; }
ends=$((SECONDS + 1000)) phase=day1
ok "a line ends by itself" test "$(line 5 left)" -le 5
ok "and leaves the phase its time" test "$(left)" -gt 900

# Twelve steps of six kernels, in ns: gaps of 2 us, of 52 before the update and of 102 behind it.
kernels_of_steps() {
	awk 'function run(name, ns) { printf "%d %d %s\n", at, at + ns, name; at += ns + 2000 }
		BEGIN { for (at = 1e6; step < 12; step++) {
			run("embedding_kernel", 1e5); run("nvjet_x", 1e6); run("_Z14forward_kernel", 5e5); run("softmax_kernel", 2e5)
			run("dkv_kernel", 7e5); at += 5e4; run("zr_ahead_kernelI5adamw", 3e5); at += 1e5 } }'
}
kernels_of_steps | step_of_kernels | sort >step
like "a step's time, and how much of it something runs" "$(grep -E '^(step|busy|gaps) [0-9]' step | tr '\n' ' ')" \
	'^busy 2.800 gaps 0.162 step 2.962 $'
like "where nothing runs" "$(grep -E '^gaps (in|between|above)' step | tr '\n' ' ')" \
	'^gaps above 20 us 0.154 gaps between steps 0.102 gaps in or after backward 0.054 gaps in or after forward 0.006 $'
like "kernels of a kind" "$(grep -E '^of ' step | tr '\n' ' ')" 'of attention 1.200 .* of products 1.000'
is "clocks under load alone" "$(printf '%s, 3201, %s, 5%s, 0x4\n' 1755 650 5 345 80 0 1740 640 6 1770 630 4 | clocks_under_load)" \
	"SM clock 1755 MHz (1740 to 1770), memory 3201 MHz, 640 W, 56 degrees, reasons 0x4, 3 samples"

like "the least time of a step that copies" "$(for micro in 1 16; do bound_of_13b $micro; done | tr '\n' ' ')" \
	'^6.877 fold, in 3.334 out 3.334 fold 6.877 .* s 1.043 products, in 0.2084 out 0.2084 fold 0.4298 '

mkdir fresh
ZR_GPU_WORK=$scratch/fresh gpu -b bundle.tar.gz -b out/state.tar.gz report >/dev/null
is "results travel to another machine" "$(grep -c '^nccl *skip' fresh/gpu.txt)" "$(grep -c '^nccl *skip' work/gpu.txt)"
done_testing
