#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# I1, same bits in any order: what a program leaves open may happen in every way. The program `shuffled` (shuffled_run.c) runs
# trainings over tiers, stages, ranks and kinds of memory in orders drawn at random. `make check-shuffled SHUFFLES=N` runs N
# of them, from number SHUFFLE on, also on four ranks; with MATRIX=full over the whole product. It says how far it is, and at
# the end how many runs of each stage and number of ranks gave how many digests; SHUFFLE_LOG=FILE: of each run.
. "$ZR_SRCDIR/tests/lib/tap.sh" || exit 99
. "$ZR_SRCDIR/tests/lib/pairwise.sh"
. "$ZR_SRCDIR/tests/lib/tiers.sh"

zeroth=$ZEROTH
steps=()
log=${SHUFFLE_LOG:-$scratch/log}
[ -z "$SHUFFLES" ] || WORLDS='1 2 3 4' steps=(-o train.train_batch_size=12 -o train.steps=2)
declare -A want
for p in fp32 bf16 fp16; do
	want[$p]=$(digest $p fp32 none none none stage0 1 keep auto auto 1 "${steps[@]}")
	like "$p: in the order of the program" "${want[$p]}" '^digest: losses=[0-9a-f]{16} params=[0-9a-f]{16}$'
done

# The choice again and again, each time with other orders.
choice() { if [ "$MATRIX" = full ]; then sort -R --random-source="$scratch/text"; else pairwise; fi; }
export SHUFFLE=${SHUFFLE:-0}
most=24
[ -z "$ZR_SANITIZE" ] || most=10
runs=0 wrong=0 first=
ZEROTH=$ZR_BUILDDIR/tests/doubles/shuffled
mapfile -t cases < <(product | choice)
while [ "$runs" -lt "${SHUFFLES:-$most}" ]; do
	read -r p m o g q z w rest <<<"${cases[$((runs % ${#cases[@]}))]}"
	SHUFFLE=$((SHUFFLE + 1)) runs=$((runs + 1))
	got=$(digest "$p" "$m" "$o" "$g" "$q" "$z" "$w" $rest "${steps[@]}")
	echo "$SHUFFLE $p $m $o $g $q $z $w $rest ${got//$'\n'/; }" >> "$log"
	[ "$got" = "${want[$p]}" ] || { wrong=$((wrong + 1)); first=${first:-"SHUFFLE=$SHUFFLE $p $m $o $g $q $z $w $rest: $got"}; }
	[ $((runs % 500)) -ne 0 ] || note "$runs runs, $wrong with other bits"
done
is "I1 $runs runs in other orders: so many have other bits" "$wrong" 0
[ -z "$first" ] || note "$first"
[ -z "$SHUFFLES" ] || note "$(awk '{
	kind = $7 ", ranks: " $8 ", " $2
	runs[kind]++
	digests[kind] += !seen[kind, $14 $15]++
} END {
	for (kind in runs)
		print kind ": " runs[kind] " runs, digests: " digests[kind]
}' "$log" | sort)"

# The other kinds of ranks, optimizers and models.
orders() { # orders NAME OPTION...: the digest of zeroth, and of two orders
	local one i
	ZEROTH=$zeroth
	one=$(digest fp32 fp32 none none none stage0 1 keep auto auto 1 "${@:2}" | tail -n 1)
	ZEROTH=$ZR_BUILDDIR/tests/doubles/shuffled
	for i in 2 3; do
		SHUFFLE=$((SHUFFLE + 1))
		one_in 5 && is "I1 $1: order $i" "$(digest fp32 fp32 none none none stage$i $i keep tiny auto 1 "${@:2}")" "$one"
	done
}
orders 'sums over parameters' -o optimizer.plugin=lamb
orders 'whole matrices' -o 'optimizer.m.plugin=muon' -o 'optimizer.m.match=h.*.mlp.*.weight'
orders 'updates in the backward' -o train.gradient_clipping=0 -o zero.update_in_backward=yes
orders 'frozen tensors' -o 'train.freeze=h.0.* wpe*'

# No dependency is there for nothing: without one of them, and with what was waited for as late as it goes, bits change. Of a
# training whose optimizer is on disk each 29th is left out, with CUTS=full each. (Elsewhere what is read too early may be
# the right bytes all the same: those of the micro-batch before.)
setup='fp32 fp32 nvme none none stage2 1 keep tiny auto 1'
one=
cut_away() { # cut_away PROGRAM DEPENDENCY OPTION...: whether some order without it gives other bits
	local order
	for order in 1 2 3 4 5 6 7 8; do
		[ "$(CUT=$1:$2 SHUFFLE=$order digest $setup "${@:3}")" = "$one" ] || return 0
	done
	return 1
}
at=0 cuts=0 same=
cut_programs() { # cut_programs "NAME=NUMBER..." OPTION...: as they are called in a plan, and numbered
	local name=$1 program k n
	ZEROTH=$zeroth
	one=$(digest $setup "${@:2}")
	"$zeroth" plan "$scratch/run/config.ini" --program > "$scratch/program"
	ZEROTH=$ZR_BUILDDIR/tests/doubles/shuffled
	while IFS='=' read -r name program; do
		n=$(sed -n "s/^program $name: .* \\([0-9]*\\) dependencies.*/\\1/p" "$scratch/program")
		for ((k = 0; k < ${n:-0}; k++)); do
			[ "${CUTS:-}" = full ] || [ $((at++ % 29)) = 0 ] || continue
			cuts=$((cuts + 1))
			cut_away "$program" "$k" "${@:2}" || same="$same $program:$k"
		done
	done <<<"$1"
}
cut_programs 'first micro=0
micro=1
last micro=2
boundary=3
update=5' -o train.update_in_forward=no
cut_programs 'update, first micro=6'
ok "dependencies are left out ($cuts)" test "$cuts" -gt 10
is 'each of them changes bits' "$same" ''
ZEROTH=$zeroth
done_testing
