#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Threads of a rank stay on the processors that its card is plugged into: with the double of cards, of which a directory
# says what sysfs says of a PCI device.
. "$ZR_SRCDIR/tests/lib/tap.sh" || exit 99
. "$ZR_SRCDIR/tests/lib/fixture.sh" || exit 99
cd "$scratch" || exit 99

mapfile -t processor < <(taskset -cp $$ | sed 's/.*: //' | tr , '\n' | awk -F- '{ for (k = $1; k <= ($2 == "" ? $1 : $2); k++) print k }')
[ ${#processor[@]} -ge 2 ] || skip_all 'two processors are needed'
first=${processor[0]} second=${processor[1]}

tiny text 2 4 3 < /dev/null
# plugged RANK NODE LIST: where the card of a rank is
plugged() {
	mkdir -p "sysfs/$1"
	echo "$2" > "sysfs/$1/numa_node"
	echo "$3" > "sysfs/$1/local_cpulist"
}
export ZR_CARD_SYSFS=$scratch/sysfs
# the lists of processors that threads of a process may use
allowed() { sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' "/proc/$1/task/"*/status | sort -u | xargs; }
# train NAME OPTION...: until it has begun; sets `process`
train() {
	"$ZEROTH" train tiny.ini -o run.dir="$1" "${on_cards[@]}" -o train.steps=100000 -o run.log_every=1 "${@:2}" > "$1.out" 2>&1 &
	process=$!
	await $process grep -q '^step 2/' "$1.out"
}
stop() {
	kill "$process"
	wait "$process"
}

on_cards=(-o device.plugin="$cards" -o device.memory=64M)
"$ZEROTH" train tiny.ini -o run.dir=anywhere "${on_cards[@]}" > anywhere.out 2>&1
digest=$(grep '^digest:' anywhere.out)

plugged 0 0 "$second"
mkdir disk
train near -o offload.optimizer.plugin=nvme -o offload.optimizer.path="$scratch/disk"
is 'all threads of a rank, also of its disk, stay near its card' "$(allowed $process)" "$second"
like '... of which the run speaks' "$(grep '^device' near.out)" ", 1 thread near it, on processors $second\$"
stop
"$ZEROTH" train tiny.ini -o run.dir=same "${on_cards[@]}" > same.out 2>&1
is 'I1: the same bits as anywhere' "$(grep '^digest:' same.out)" "$digest"

plugged 1 1 "$first"
train two -n 2
is 'each rank of a machine goes to its own card' \
	"$(for r in $(children $process); do allowed "$r"; done | sort -n | xargs)" "$(printf '%d\n' "$first" "$second" | sort -n | xargs)"
stop

# stays NAME NODE LIST [COMMAND...]: threads stay where they may be
stays() {
	plugged 0 "$2" "$3"
	"${@:4}" "$ZEROTH" train tiny.ini -o run.dir="${1// /-}" "${on_cards[@]}" > out 2>&1
	is "$1" "$(grep -c '^device.*near it' out) $(grep '^digest:' out)" "0 $digest"
}
stays 'a machine without parts: anywhere' -1 "$second"
stays 'all processors are near' 0 "$first-$second"
stays 'the user has chosen processors near it' 0 "$second" taskset -c "$second"
stays '... and elsewhere' 0 "$second" taskset -c "$first"
stays 'a list that is none' 0 'nonsense'
done_testing
