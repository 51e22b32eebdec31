#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The optimizer step with its state on disk against its two limits, in turns: the same bytes moved
# by fio (io_uring, direct, huge pages, the same block size and depth, reads and writes mixed as the
# step mixes them), and the same arithmetic with the state in memory. 75.8 M parameters in bf16: 16 bytes of
# each are read (master, moments, gradient), 14 written (master, moments, bf16 copy).
#
#   bench/nvme_step.sh DIRECTORY [--rounds N] [--threads N]
#
# ZEROTH is the program under test (default: zeroth in PATH). Needs fio, python3 and 6 GB in
# DIRECTORY. Prints the median over rounds of max(fio, arithmetic) / step: 1 is a step that hides
# whatever is shorter.
set -u

rounds=5 threads=2
dir=${1:-}
[ -d "$dir" ] || { sed -n '4,15s/^# \{0,1\}//p' "$0" >&2; exit 2; }
shift
while [ $# -gt 0 ]; do
	case $1 in
	--rounds) rounds=$2 ;;
	--threads) threads=$2 ;;
	*) sed -n '4,15s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
	esac
	shift 2
done
zeroth=${ZEROTH:-zeroth}
work=$(mktemp -d "$dir/zeroth-bench.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
head -c 200000 /dev/urandom | base64 >"$work/text"
echo >"$work/empty.ini"

# update ARGUMENTS...: seconds of one update; digest to $work/digest
update() {
	rm -rf "$work/run"
	"$zeroth" train -o model.plugin=gpt2 -o model.layers=24 -o model.width=512 \
		-o model.heads=8 -o model.context=64 \
		-o model.vocabulary=256 -o data.plugin=text -o data.path="$work/text" \
		-o train.micro_batch_size=1 \
		-o train.gradient_accumulation_steps=1 -o train.steps=4 -o train.eval_every=0 \
		-o precision.plugin=bf16 -o precision.master=fp32 \
		-o zero.plugin=stage3 -o device.threads="$threads" \
		-o run.dir="$work/run" "$@" "$work/empty.ini" 2>&1 | tail -n 1 >"$work/digest"
	[ -e "$work/run/summary.json" ] || { cat "$work/digest" >&2; kill $$; }
	python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["update_seconds"])' "$work/run/summary.json"
}

# Seconds for 75.82 M parameters times 30 bytes.
fio_seconds() {
	GLIBC_TUNABLES=glibc.malloc.hugetlb=1 fio --name=mix --filename="$work/fio" --size=1200M \
		--ioengine=io_uring --direct=1 --bs=1M --iodepth=32 --rw=rw \
		--rwmixread=53 --io_size=2274M --fixedbufs --output-format=json 2>/dev/null |
		python3 -c 'import json, sys; j = json.load(sys.stdin)["jobs"][0]; b = j["read"]["io_bytes"] + j["write"]["io_bytes"]
print(75.82e6 * 30 / b * j["job_runtime"] / 1000)'
}

for tier in optimizer gradient param; do disk+=(-o offload.$tier.plugin=nvme \
	-o offload.$tier.path="$work"); done
fio --name=mix --filename="$work/fio" --size=1200M --ioengine=io_uring --direct=1 --bs=1M --iodepth=32 --rw=write >/dev/null 2>&1 ||
	{ echo "fio cannot write in $work" >&2; exit 1; }
echo "round  disk step  fio  in memory  max/step"
for round in $(seq "$rounds"); do
	step=$(update "${disk[@]}")
	far=$(cat "$work/digest")
	io=$(fio_seconds)
	memory=$(update)
	[ "$far" = "$(cat "$work/digest")" ] || { echo "the digests differ" >&2; exit 1; }
	awk -v r="$round" -v s="$step" -v i="$io" -v m="$memory" 'BEGIN {
		most = i > m ? i : m; printf "%5d  %9.3f  %.3f  %9.3f  %.3f\n", r, s, i, m, most / s }' | tee -a "$work/ratios"
done
sort -k 5 -n "$work/ratios" | awk '{ v[NR] = $5 } END { printf "median %.3f\n", v[int((NR + 1) / 2)] }'
