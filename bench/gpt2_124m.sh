#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# A step of GPT-2 124M in fp32 (B 4, T 64, random weights, random tokens) beside llm.c's CPU
# trainer, in turns.
#
#   bench/gpt2_124m.sh [--rounds N] [--steps N] [--threads N]
#
# The trainers are yours to build; name at least one in the environment:
#   LLMC        train_gpt2 as its Makefile makes it
#   LLMC_BLAS   the same with its matmuls handed to a BLAS
# Each runs in its own directory, where it must find the files it opens. ZEROTH is the program under
# test (default: zeroth in PATH); ZEROTH_ARGS holds further arguments of `zeroth train`. One more
# argument list in ZEROTH_OTHER adds a second run of zeroth to every round, to compare two settings.
#
# Prints per trainer: median step, tokens per second, peak memory (VmHWM), and for each the ratio of
# the medians to zeroth's: above 1 zeroth is faster. The first step of every run warms up and is not
# counted.
set -u

rounds=3
steps=6
threads=2
while [ $# -gt 0 ]; do
	case $1 in
	--rounds) rounds=$2 ;;
	--steps) steps=$2 ;;
	--threads) threads=$2 ;;
	*) sed -n '4,18s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
	esac
	shift 2
done

zeroth=${ZEROTH:-zeroth}
here=$(cd "$(dirname "$0")/.." && pwd)
conf=${ZEROTH_CONF:-$here/conf/gpt2-124m.ini}
work=$(mktemp -d "${TMPDIR:-/tmp}/zeroth-bench.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
export OMP_NUM_THREADS=$threads OPENBLAS_NUM_THREADS=$threads

# Tokens below 32768: random uint16 with the top bit of both bytes cleared.
head -c 1000000 /dev/urandom | LC_ALL=C tr '\200-\377' '\000-\177' >"$work/tokens.bin"

# Prints the peak resident memory of process $1 in kB, once it ended.
watch_peak() {
	local peak=0 now
	while now=$(sed -n 's/^VmHWM:[[:space:]]*\([0-9]*\).*/\1/p' "/proc/$1/status" 2>/dev/null) && [ -n "$now" ]; do
		peak=$now
		sleep 0.1
	done
	echo "$peak"
}

# llm.c trainer $2 under the name $1: adds its step times in ms to $work/$1.ms. It trains longer
# than asked for and evaluates in between; it is stopped after the steps that count.
run_llmc() {
	local name=$1 program=$2 seen=0 line pid
	mkfifo "$work/pipe"
	(cd "$(dirname "$program")" && exec stdbuf -oL "$program") >"$work/pipe" 2>/dev/null &
	pid=$!
	watch_peak "$pid" >>"$work/$name.kb" &
	while read -r line; do
		case $line in
		step*took*)
			seen=$((seen + 1))
			[ "$seen" = 1 ] || echo "$line" | sed -n 's/.*took \([0-9.]*\) ms.*/\1/p' >>"$work/$name.ms"
			[ "$seen" -le "$steps" ] || break
			;;
		esac
	done <"$work/pipe"
	kill "$pid" 2>/dev/null
	wait
	rm -f "$work/pipe"
}

# zeroth under the name $1 with further arguments: the same, from its metrics.
run_zeroth() {
	local name=$1 pid
	shift
	rm -rf "$work/run"
	"$zeroth" train "$conf" -o "run.dir=$work/run" -o data.plugin=tokens \
		-o "data.path=$work/tokens.bin" \
		-o data.format=uint16 -o precision.plugin=fp32 -o train.micro_batch_size=4 \
		-o train.train_batch_size=4 \
		-o train.sequence_length=64 -o train.gradient_clipping=0 -o train.eval_every=0 \
		-o "train.steps=$((steps + 1))" \
		-o "device.threads=$threads" "$@" >"$work/$name.log" 2>&1 &
	pid=$!
	watch_peak "$pid" >>"$work/$name.kb" &
	if ! wait "$pid"; then
		cat "$work/$name.log" >&2
		exit 1
	fi
	wait
	sed -n 's/.*"tokens_per_s": *\([0-9.e+]*\).*/\1/p' "$work/run/metrics.jsonl" | tail -n +2 |
		awk '{ print 256000 / $1 }' >>"$work/$name.ms"
}

median() { sort -n "$1" | awk '{ v[NR] = $1 } END { print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2 }'; }

names=zeroth
for ((round = 0; round < rounds; round++)); do
	# shellcheck disable=SC2086 # lists of arguments
	run_zeroth zeroth ${ZEROTH_ARGS-}
	if [ -n "${ZEROTH_OTHER-}" ]; then
		run_zeroth other ${ZEROTH_ARGS-} $ZEROTH_OTHER
		names='zeroth other'
	fi
	[ -z "${LLMC-}" ] || run_llmc llmc "$LLMC"
	[ -z "${LLMC_BLAS-}" ] || run_llmc llmc-blas "$LLMC_BLAS"
done
names+="${LLMC:+ llmc}${LLMC_BLAS:+ llmc-blas}"

own=$(median "$work/zeroth.ms")
printf '%-10s %12s %10s %12s %8s\n' '' 'step (ms)' 'tokens/s' 'peak (MiB)' 'ratio'
for name in $names; do
	peak=$(sort -n "$work/$name.kb" | tail -n 1)
	awk -v name="$name" -v ms="$(median "$work/$name.ms")" -v own="$own" -v kb="$peak" 'BEGIN {
		printf "%-10s %12.1f %10.1f %12.0f %8.2f\n", name, ms, 256000 / ms, kb / 1024, ms / own }'
done
