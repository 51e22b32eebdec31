#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# ptxas.sh [TARGET...] - registers, shared memory, stack and spilled bytes of every CUDA kernel, for
# all that are compiled by default or the given ones; bench/results/ptxas.txt is what it printed last.
# Of sm_90a are the kernels of *_hopper*.cu, which no other target has. Needs nvcc. Fails if a kernel
# has a stack, for what it spills or for arrays that are not in registers, and is not in the list of
# those that may, which is at the end of this file.
cd "$(dirname "$0")/.." || exit 1
targets=${*:-80 86 89 90 90a 100 120}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

# Lines "target kernel registers shared stack stores loads" from what ptxas says.
lines() {
	c++filt | awk -v target="$1" '
		/Compiling entry function/ { sub(/.*function ./, ""); sub(/. for .sm_.*/, ""); name = $0 }
		/bytes stack frame/ { stack = $1; stores = $5; loads = $9 }
		/Used [0-9]+ registers/ {
			regs = $0; sub(/.*Used /, "", regs); sub(/ .*/, "", regs)
			smem = 0
			if (match($0, /[0-9]+ bytes smem/)) { smem = substr($0, RSTART); sub(/ .*/, "", smem) }
			gsub(/ /, "", name); sub(/^void/, "", name); gsub(/structzr_op_/, "zr_op_", name); sub(/\(.*/, "", name)
			printf "sm_%-4s %-64s %4d %7d %6d %6d %6d\n", target, name, regs, smem, stack, stores, loads
		}'
}

printf '%-7s %-64s %4s %7s %6s %6s %6s\n' target kernel regs smem stack stores loads
for target in $targets; do
	for file in kernels/cuda/*.cu; do
		case $target:$file in
		90a:*_hopper*.cu) ;;
		90a:* | *_hopper*.cu) continue ;;
		esac
		nvcc -std=c++20 -O3 -fmad=false -gencode=arch=compute_"$target",code=sm_"$target" -Iinclude -Ikernels -Xptxas -v -cubin \
			-o "$work/x.cubin" "$file" >"$work/said" 2>&1 || { cat "$work/said" >&2; exit 1; }
		if grep -q warning "$work/said"; then cat "$work/said" >&2; exit 1; fi
		lines "$target" <"$work/said"
	done
done | tee "$work/table"

# Kernels that may have a stack, each a part of its name, bytes at most, and why.
may='adamw8<float> 8 one register on sm_90
forward_kernel<f16,96,true,true> 8 the same, where the largest scores are wanted
forward_kernel<bf16,96,true,true> 8 the same
bias_part_kernel 16 the four sums of a thread, once, on sm_100
fold_many 96 partial sums of a tree, whose depth the number of ranks says
dkv_kernel<f16,64,true,true,true> 8 two or three registers on sm_120
dkv_kernel<bf16,64,true,true,true> 8 the same
dq_kernel<f16,64,true> 8 the same
dq_kernel<bf16,64,true> 8 the same
rmsnorm_kernel<bf16,32> 32 the longest rows that registers keep, on sm_120
hopper_bwd_kernel<f16,128, 16 four registers of sums and scores
hopper_bwd_kernel<bf16,128, 16 the same
hopper_bwd_kernel<f16,128,2, 72 dropout: the generator beside sums, before the products of a tile
hopper_bwd_kernel<bf16,128,2, 72 the same
hopper_kernel<f16,96,2, 24 dropout: the generator beside results, while products of a tile run
hopper_kernel<bf16,96,2, 24 the same
hopper_kernel<f16,128,2, 24 the same
hopper_kernel<bf16,128,2, 24 the same
hopper_kernel<f16,256,2, 64 the same
hopper_kernel<bf16,256,2, 64 the same'
awk -v may="$may" 'BEGIN { n = split(may, line, "\n"); for (i = 1; i <= n; i++) { split(line[i], w, " "); part[i] = w[1]; most[i] = w[2] } }
	$5 + 0 > 0 {
		ok = 0
		for (i = 1; i <= n; i++) if (index($2, part[i]) && $5 <= most[i]) ok = 1
		if (!ok) { print "stack: " $0; bad = 1 }
	}
	END { exit bad }' "$work/table" >&2
