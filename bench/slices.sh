#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# slices.sh TEXT [LENGTH]: what cutting a sequence into slices costs on one rank: the time of a step by that of an uncut one, of
# medians over trainings in turns. ZEROTH: the program. bench/results/sequences.txt has what it says.
set -e
text=$(realpath "$1")
length=${2:-2048}
zeroth=${ZEROTH:-zeroth}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

cat > "$dir/slices.ini" <<INI
[model]
plugin = llama
vocabulary = 8192
layers = 4
heads = 8
kv_heads = 4
width = 512
ffn_width = 1408
context = $length
[data]
plugin = text
path = $text
[train]
train_batch_size = 1
micro_batch_size = 1
steps = 7
eval_every = 0
[monitor.csv]
plugin = csv
INI

# Seconds of the steps of a training, but for the first two.
steps() { # PRECISION SLICES
	rm -rf "$dir/run"
	"$zeroth" train "$dir/slices.ini" -o run.dir="$dir/run" -o precision.plugin="$1" -o train.slices="$2" > "$dir/out" 2>&1 ||
		{ cat "$dir/out" >&2; exit 1; }
	awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) if ($i == "step_seconds") at = i } NR > 3 { print $at }' "$dir/run/metrics.csv"
}
median() { sort -n | awk '{ x[NR] = $1 } END { print x[int((NR + 1) / 2)] }'; }

counts='1 2 4 8 16 32'
for precision in fp32 bf16; do
	for turn in 1 2; do
		for k in $counts; do steps $precision "$k" >> "$dir/$precision.$k"; done
	done
	one=$(median < "$dir/$precision.1")
	for k in $counts; do
		echo "$precision $k $(median < "$dir/$precision.$k") $one" |
			awk -v length_="$length" '{ printf "%s, %2d slices of %4d rows: %.2f\n", $1, $2, length_ / $2, $3 / $4 }'
	done
done
