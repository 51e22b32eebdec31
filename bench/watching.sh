#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# watching.sh [PAIRS [STEPS]]: what it costs to watch a training: all monitors, the parts of each
# step as a line and as metrics, and a trace of each step, against a training with none of these but
# metrics.jsonl. Runs take turns. ZEROTH is the program; its plugins are where it finds them.
#   ratio   of processor time and of wall time, pair by pair
#   differ  the same of a model with as many instructions and next to no work, in microseconds of
#           processor time a step: what watching takes, which other work hides in the ratio
set -e
: "${ZEROTH:?names no program}"
pairs=${1:-20} steps=${2:-40}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
for i in $(seq 1 20000); do echo "line $i of a text that is long enough to learn from"; done > text

# timed WIDTH CONTEXT STEPS [argument]...: the processor seconds, the wall seconds, and those in
# steps, of a training
timed() {
	local TIMEFORMAT='%U %S %R' out
	local model=(-o model.plugin=gpt2 -o model.layers=6 -o model.heads=4 -o model.width="$1"
		-o model.context="$2" -o data.plugin=text -o data.path=text)
	rm -rf run
	out=$({ time "$ZEROTH" train /dev/null -o run.dir=run "${model[@]}" -o device.threads=1 \
		-o train.micro_batch_size=2 -o train.eval_every=0 -o train.steps="$3" "${@:4}" \
		> log 2>&1; } 2>&1)
	awk -v in_steps="$(sed -n 's/.*"step_seconds": \([0-9.e-]*\).*/\1/p' run/summary.json)" \
		'{ print $1 + $2, $3, in_steps }' <<< "$out"
}

watched=(-o run.log_every=1 -o run.wall_clock_breakdown=yes -o monitor.table.plugin=csv
	-o monitor.board.plugin=tensorboard -o monitor.cloud.plugin=wandb)
# turns WIDTH CONTEXT STEPS: lines of six numbers, of a watched training and one that is not
turns() {
	for ((i = 0; i < pairs; i++)); do
		local a= b
		((i % 2)) || a=$(timed "$@" "${watched[@]}" -o run.trace="1-$3")
		b=$(timed "$@" -o run.log_every=1000000)
		[ -n "$a" ] || a=$(timed "$@" "${watched[@]}" -o run.trace="1-$3")
		echo "$a $b"
	done
}
middle() {
	sort -g | awk '{ v[NR] = $1 }
		END { printf "%.4g (%.4g to %.4g)", v[int((NR + 1) / 2)], v[1], v[NR] }'
}
turns 256 256 "$steps" > wide
turns 8 8 $((50 * steps)) > narrow
echo "a step takes $(awk -v n="$steps" '{ print 1e3 * $6 / n }' wide | middle) ms"
echo "ratio   processor time $(awk '{ print $1 / $4 }' wide | middle)," \
	"wall time $(awk '{ print $2 / $5 }' wide | middle)"
echo "differ  $(awk -v n=$((50 * steps)) '{ print 1e6 * ($1 - $4) / n }' narrow | middle) us a step"
