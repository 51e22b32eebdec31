#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# What optimizer states in 8 bits cost and save, in turns with fp32 ones: the seconds of an update of 37.8 M parameters in
# bf16, with the optimizer's data in memory and on disk. Masters are in fp32 or, with -split, beside the copy as 16 bits
# more, on both sides; with -split24 the 8-bit side has masters of 24 bits, and the other all in fp32. 24 bytes of a
# parameter go from and to the disk with fp32 states, 12.25 with 8-bit ones; 20 and 8.25 with split masters; 6.25 with those
# of 24 bits.
#
#   bench/moments8.sh DIRECTORY [ROUNDS [THREADS]]
#
# ZEROTH is the program under test (default: zeroth in PATH). Needs python3 and 1 GB in DIRECTORY. Prints each pair and the
# median of its ratios: above 1, 8 bits are faster.
set -u

dir=${1:-} rounds=${2:-5} threads=${3:-2}
[ -d "$dir" ] || { sed -n '4,14s/^# \{0,1\}//p' "$0" >&2; exit 2; }
zeroth=${ZEROTH:-zeroth}
work=$(mktemp -d "$dir/zeroth-bench.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
head -c 200000 /dev/urandom | base64 >"$work/text"
echo >"$work/empty.ini"

update() { # update ARGUMENTS...: seconds of one
	rm -rf "$work/run"
	"$zeroth" train -o model.plugin=gpt2 -o model.layers=12 -o model.width=512 -o model.heads=8 -o model.context=64 \
		-o model.vocabulary=256 -o data.plugin=text -o data.path="$work/text" -o train.micro_batch_size=1 \
		-o train.gradient_accumulation_steps=1 -o train.steps=4 -o train.eval_every=0 -o precision.plugin=bf16 \
		-o zero.plugin=stage3 -o device.threads="$threads" -o run.dir="$work/run" "$@" "$work/empty.ini" \
		>"$work/log" 2>&1
	[ -e "$work/run/summary.json" ] || { cat "$work/log" >&2; kill $$; }
	python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["update_seconds"])' "$work/run/summary.json"
}

pair() { # pair NAME ARGUMENTS...: the last of them, `--` before, for the 8-bit side alone
	local name=$1 wide narrow both=()
	shift
	while [ $# -gt 0 ] && [ "$1" != -- ]; do
		both+=("$1")
		shift
	done
	shift
	wide=$(update "${both[@]}")
	narrow=$(update "${both[@]}" -o optimizer.states=8bit "$@")
	awk -v n="$name" -v a="$wide" -v b="$narrow" 'BEGIN { printf "%-16s %9.3f %9.3f %6.2f\n", n, a, b, a / b }' | tee -a "$work/pairs"
}

fp32=(-o precision.master=fp32)
disk=(-o offload.optimizer.plugin=nvme -o offload.optimizer.path="$work")
printf '%-16s %9s %9s %6s\n' 'optimizer data' fp32 8bit ratio
for _ in $(seq "$rounds"); do
	pair memory "${fp32[@]}" --
	pair memory-split -o precision.master=split --
	pair memory-split24 "${fp32[@]}" -- -o precision.master=split24
	pair disk "${disk[@]}" "${fp32[@]}" --
	pair disk-split "${disk[@]}" -o precision.master=split --
	pair disk-split24 "${disk[@]}" "${fp32[@]}" -- -o precision.master=split24
done
for name in memory memory-split memory-split24 disk disk-split disk-split24; do
	awk -v n=$name '$1 == n { print $4 }' "$work/pairs" | sort -n | awk -v n=$name '{ v[NR] = $1 }
		END { printf "median %-14s %.2f\n", n, v[int((NR + 1) / 2)] }'
done
