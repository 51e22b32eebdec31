#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# How long `zeroth train` takes to the end of its first step, from its exec on, and how long `zeroth
# plan` takes by layers: `bench/start.sh [TURNS]` in a build. The model is that of quickstart.ini,
# without the evaluation that would come first; medians.
here=$(cd "$(dirname "$0")/.." && pwd)
zeroth=${ZEROTH:-./zeroth}
export ZEROTH_PLUGIN_PATH=${ZEROTH_PLUGIN_PATH:-$PWD/plugins}
export ZEROTH_DATA_PATH=${ZEROTH_DATA_PATH:-$here/conf}
conf=$here/conf/quickstart.ini
turns=${1:-10}
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT

# Milliseconds to the line of the first step of: train ARGUMENT...
first_step() {
	local start=$EPOCHREALTIME line
	"$zeroth" train "$conf" "$@" -o run.dir="$dir/run" -o train.steps=1 -o train.eval_every=0 |
		while read -r line; do
			case $line in
			"step 1/"*) awk -v a="$start" -v b="$EPOCHREALTIME" \
				'BEGIN { print (b - a) * 1e3 }' ;;
			esac
		done
	rm -rf "$dir/run"
}

plan() {
	local start=$EPOCHREALTIME
	"$zeroth" plan -n 2 "$conf" "$@" > "$dir/plan" 2>&1
	awk -v a="$start" -v b="$EPOCHREALTIME" 'BEGIN { print (b - a) * 1e3 }'
}

# NAME COMMAND...: the median of its turns
median() {
	local name=$1
	shift
	for ((i = 0; i < turns; i++)); do "$@"; done | sort -n | awk -v name="$name" \
		'{ x[NR] = $1 } END { printf "%-28s %6.1f ms\n", name, x[int((NR + 1) / 2)] }'
}

median "first step" first_step
median "first step, 2 ranks" first_step -n 2
for layers in 500 1000 2000 4000 8000; do
	median "plan, $layers layers" plan -o model.layers=$layers
	median "plan, $layers layers, stage3" plan -o model.layers=$layers -o zero.plugin=stage3
done
