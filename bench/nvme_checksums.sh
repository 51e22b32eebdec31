#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# What the checksums of offload/nvme cost: the same training with optimizer, gradients and
# parameters on disk, with and without them, in turns; every second round begins with the other one.
# The checksums cost what a step moves; a step of more sequences, of 256 tokens each, computes more
# and moves no more.
#
#   bench/nvme_checksums.sh DIRECTORY [--rounds N] [--threads N] [--layers N] [--sequences N]
#
# ZEROTH is the program under test (default: zeroth in PATH). Needs python3 and 100 MB a layer in
# DIRECTORY. Prints seconds of a step, of its update, and processor seconds of the whole run, with
# and without, their ratios, and the medians of these.
set -u

rounds=5 threads=2 layers=12 sequences=4
dir=${1:-}
[ -d "$dir" ] || { sed -n '4,13s/^# \{0,1\}//p' "$0" >&2; exit 2; }
shift
while [ $# -gt 0 ]; do
	case $1 in
	--rounds) rounds=$2 ;;
	--threads) threads=$2 ;;
	--layers) layers=$2 ;;
	--sequences) sequences=$2 ;;
	*) sed -n '4,13s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
	esac
	shift 2
done
zeroth=${ZEROTH:-zeroth}
work=$(mktemp -d "$dir/zeroth-bench.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
head -c 200000 /dev/urandom | base64 >"$work/text"
echo >"$work/empty.ini"
for tier in optimizer gradient param; do disk+=(-o offload.$tier.plugin=nvme \
	-o offload.$tier.path="$work"); done

# train yes|no: "STEP UPDATE PROCESSOR DIGEST" of five steps, in seconds
train() {
	local sums=() tier
	for tier in optimizer gradient param; do sums+=(-o offload.$tier.checksums="$1"); done
	rm -rf "$work/run"
	TIMEFORMAT='%U %S'
	{ time "$zeroth" train -o model.plugin=gpt2 -o model.layers="$layers" -o model.width=512 \
		-o model.heads=8 -o model.context=256 \
		-o model.vocabulary=256 -o data.plugin=text -o data.path="$work/text" \
		-o train.micro_batch_size="$sequences" \
		-o train.gradient_accumulation_steps=1 -o train.steps=5 -o train.eval_every=0 \
		-o precision.plugin=bf16 \
		-o zero.plugin=stage3 -o device.threads="$threads" \
		-o run.dir="$work/run" "${disk[@]}" "${sums[@]}" "$work/empty.ini" \
		>"$work/out" 2>&1; } 2>"$work/time"
	[ -e "$work/run/summary.json" ] || { tail -n 1 "$work/out" >&2; kill $$; }
	python3 -c 'import json, sys
j = json.load(open(sys.argv[1])); user, system = map(float, open(sys.argv[2]).read().split())
print(j["seconds"] / 5, j["update_seconds"], user + system, sys.argv[3].split()[-1])' "$work/run/summary.json" "$work/time" \
		"$(tail -n 1 "$work/out")"
}

echo "round  step without  with  ratio | update without  with  ratio | processor without  with  ratio"
train no >/dev/null
for round in $(seq "$rounds"); do
	if [ $((round % 2)) = 1 ]; then
		without=$(train no) with=$(train yes)
	else
		with=$(train yes) without=$(train no)
	fi
	[ "${without##* }" = "${with##* }" ] || { echo "the digests differ" >&2; exit 1; }
	awk -v r="$round" -v a="$without" -v b="$with" 'BEGIN { split(a, x); split(b, y)
		printf "%5d  %.3f  %.3f  %.3f | %.3f  %.3f  %.3f | %.2f  %.2f  %.3f\n", r, x[1], y[1], y[1] / x[1], x[2], y[2], y[2] / x[2],
			x[3], y[3], y[3] / x[3] }' | tee -a "$work/ratios"
done
for column in 4:step 8:update 12:processor; do
	sort -k "${column%:*}" -n "$work/ratios" | awk -v c="${column%:*}" -v name="${column#*:}" '{ v[NR] = $c }
		END { printf "median ratio of the %s %.3f\n", name, v[int((NR + 1) / 2)] }'
done
