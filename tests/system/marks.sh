#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# I1: a copy beside a device that is behind comes after the operations that it needs, and perhaps before those that it does not
# need. The double of cards lets operations wait until something needs them (cards_later.c); copies are made at once, or as late
# as they may be. Where it takes no notice of the marks by which copies wait, bits change: the test would see a missing one.
. "$ZR_SRCDIR/tests/lib/tap.sh" || exit 99
. "$ZR_SRCDIR/tests/lib/fixture.sh" || exit 99
. "$ZR_SRCDIR/tests/lib/tiers.sh"

later=(-o device.separate=yes -o device.later=yes)
unmarked=("${later[@]}" -o device.marks=no)

marked() { # marked NAME ARGUMENTS OF digest...: the bits of one memory, early and late; other ones without marks
	local name=$1 here
	shift
	case $1 in fp32) here=$fp32 ;; bf16) here=$bf16 ;; esac
	is "I1 $name: operations late, copies early" "$(digest "$@" "${later[@]}")" "$here"
	is "I1 $name: both late" "$(digest "$@" "${later[@]}" -o device.late_copies=yes)" "$here"
	[ -n "$ZR_SANITIZE" ] || # who reads too early may read past a table
		ok "$name: without marks bits change" test "$(digest "$@" "${unmarked[@]}")" != "$here"
}

fp32=$(digest fp32 fp32 none none none stage0 1 keep auto auto 1)
bf16=$(digest bf16 fp32 none none none stage0 1 keep auto auto 1)
like 'one memory trains' "$fp32$bf16" '^(digest: losses=[0-9a-f]{16} params=[0-9a-f]{16}){2}$'

marked 'sums on the device' fp32 fp32 none none none stage0 1 keep auto auto 1
marked 'sums on the host' fp32 fp32 cpu none none stage1 1 keep auto auto 1
marked 'parameters and activations on the host' bf16 fp32 cpu none cpu stage3 1 offload auto auto 1
marked 'all on disk, two ranks' bf16 fp32 nvme nvme nvme stage3 2 recompute auto auto 1

# A comm that moves memory of the device: what it brought is on the device once that goes on.
build devcomm
marked 'comm of device memory, two ranks' fp32 fp32 cpu none cpu stage3 2 keep auto auto 1 \
	-o comm.plugin="$scratch/devcomm.so" -o comm.host.plugin=local

# More marks than the device remembers: copies wait for later ones.
deep=(-o model.layers=40 -o device.memory=128M)
one=$(digest fp32 fp32 none none none stage0 1 keep auto auto 1 "${deep[@]}")
like 'forty layers train' "$one" '^digest: '
is 'I1 forty layers' "$(digest fp32 fp32 cpu none cpu hpz 1 recompute auto auto 1 "${deep[@]}" "${later[@]}")" "$one"

# A plan says which instructions copies start after.
plan=$("$ZEROTH" plan "$scratch/run/config.ini" --program)
ok 'a plan shows marks' grep -q '^ *[0-9]*  compute .*  marked$' <<<"$plan"
is 'nothing but what is computed has a mark' "$(grep '  marked$' <<<"$plan" | grep -vc '^ *[0-9]*  compute ')" 0
done_testing
