#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# What goes between disk, host memory, ranks and a device that only copies reach runs ahead, leg by leg: each read, copy and
# all-gather is under way while a layer computes, but for those at the begin of a program. The bits are those of one memory.
# See watchways.c.
. "$ZR_SRCDIR/tests/lib/tap.sh" || exit 99
. "$ZR_SRCDIR/tests/lib/fixture.sh" || exit 99

for i in $(seq 1 400); do echo "line $i of a text that is long enough to learn a little from"; done > "$scratch/text"
mkdir "$scratch/disk"
for plugin in watchways devcomm; do
	build "$plugin"
done

# train OPTIONS...: two steps of four slots, six blocks with embedding and head
train() {
	rm -rf "${scratch:?}/run"
	"$ZEROTH" train "$ZR_SRCDIR/tests/lib/matrix.ini" -o data.path="$scratch/text" -o run.dir="$scratch/run" -o train.eval_every=0 \
		-o train.train_batch_size=4 -o train.steps=2 -o model.layers=6 -o device.threads=1 "$@" 2>&1
}
watched=(-o device.plugin="$scratch/watchways.so" -o device.memory=32M -o device.separate=no -o device.late_copies=yes)
blind="-o device.separate=yes" wide="-o precision.master=fp32"
split="-o zero.plugin=stage3 -o zero.persistence_threshold=0"
state="-o offload.optimizer.plugin=cpu"
disk() { echo "-o offload.$1.plugin=$scratch/watchways.so -o offload.$1.path=$scratch/disk"; }
two="-n 2 -o comm.plugin=$scratch/watchways.so"

declare -A want
for p in fp32 bf16; do
	want[$p]=$(train -o precision.plugin=$p | tail -n 1)
	like "$p: one memory trains" "${want[$p]}" '^digest: losses=[0-9a-f]{16} params=[0-9a-f]{16}$'
done

# ways NAME PRECISION "TRANSFER LATE ..." OPTIONS...: how many of each kind of transfer end, in each micro-batch, without a layer
# since they were posted
ways() {
	local name=$1 precision=$2 late=$3 ranks=1
	shift 3
	[[ " $* " != *" -n 2 "* ]] || ranks=2
	is "I1 $name: same bits" "$(WATCH_WAYS=$scratch/ways train "${watched[@]}" -o precision.plugin="$precision" "$@" | tail -n 1)" \
		"${want[$precision]}"
	set -- $late
	while [ $# -gt 0 ]; do
		is "$name: $1 with no layer beside it" "$(awk -v what="$1" -v runs=$((8 / ranks)) '
			$1 == what { print($2 < 8 ? "not there" : ($2 - $3) / runs) }' "$scratch/ways.0")" "$2"
		shift 2
	done
}

# Late are, of each program, wte and wpe, which the first layer needs; after their reads those of h.0 have a layer, its next leg
# has none; and so on. The batch's tokens and the scalars of an update come, and losses and squares go, beside none.
ways 'disk' fp32 'read_param 2 copy_in 4' $blind $split $state $(disk param)
ways 'disk, ranks meet on the host' bf16 'read_param 2 gather 2 copy_in 5' $blind $split $state $(disk param) $two $wide
ways 'disk, ranks meet on the device' fp32 'read_param 2 copy_in 4' $blind $split $state $(disk param) -n 2 \
	-o comm.plugin="$scratch/devcomm.so" -o comm.host.plugin=local
ways 'disk, into memory that the host reaches' bf16 'read_param 2 gather 2' $split $state $(disk param) $two $wide
# An update of split masters reads their copies, too, in nine requests; within the next forward some are beside layers.
ways 'disk, masters in two parts' bf16 'read_param 11 gather 2' $split $state $(disk param) $two -o precision.master=split \
	-o train.update_in_forward=no
ways 'disk, masters in two parts, updates within the forward' bf16 'read_param 7.5 gather 2' $split $state $(disk param) $two \
	-o precision.master=split
ways 'host' fp32 'copy_in 3' $blind $split $state -o offload.param.plugin=cpu
ways 'host, ranks meet on the host' bf16 'gather 1 copy_in 4' $blind $split $state -o offload.param.plugin=cpu $two
# Two return so soon that their reads are posted behind their writes.
ways 'activations on disk' fp32 'write_act 0 read_act 0 copy_out 1.5 copy_in 1.25' $blind -o activation.plugin=offload \
	-o activation.keep=1 $(disk activation)

# A store that takes few requests at a time, and everything wanted at once.
ahead="-o zero.prefetch_bucket_size=1e9 -o zero.max_live_parameters=1e9 -o zero.allgather_bucket_size=1e9"
export WATCH_ROOM
for WATCH_ROOM in 1 3; do
	is "I1 $WATCH_ROOM reads at a time: same bits" "$(train "${watched[@]}" $blind $split $state $(disk param) $ahead | tail -n 1)" "${want[fp32]}"
done
unset WATCH_ROOM

# A read that fails while others are under way: the last line says whose, and where; nothing is left, nothing hangs.
fails() {
	out=$(WATCH_FAIL=$2 train "${watched[@]}" $blind $split $state $(disk param) "${@:4}")
	is "$1: exit 4" $? 4
	like "$1: the last line says who, what, where" "$(tail -n 1 <<<"$out")" \
		"^zeroth: (rank [01] failed with code 4: )?\\[offload\\.param\\] param: the disk caught fire; rank [01], step [01], $3\$"
}
fails 'a read beside a layer' 4 'wait for the gather \(unit h\.1\)'
fails 'a read at the wait' 1 'wait for the gather \(unit wte\)'
fails 'a read of two ranks' 9 'wait for the gather \(unit [a-z0-9_.]+\)' $two
is 'I5: nothing is left on disk' "$(find "$scratch/disk" -mindepth 1)" ''
done_testing
