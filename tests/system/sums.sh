#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Gradients of a device on their way to sums in host memory or on disk: the bits of one memory, and no byte more than it takes.
. "$ZR_SRCDIR/tests/lib/tap.sh" || exit 99
. "$ZR_SRCDIR/tests/lib/fixture.sh" || exit 99
. "$ZR_SRCDIR/tests/lib/tiers.sh"

# outward OPTION...: bytes that copies of gradients take from the device in a program of the last run, of each program a line
outward() {
	"$ZEROTH" plan "$scratch/run/config.ini" --program "$@" | awk -F '  +' '
		/^program / { split($1, word, ":"); program = word[1] }
		$3 == "copy" && $7 ~ /^< (gradient buffers|communication|sums of micro-batches)/ && $8 ~ /^> gradients/ {
			split($6, size, " ")
			sum[program] += size[1] * (size[2] == "KiB" ? 1024 : size[2] == "MiB" ? 1048576 : 1)
		}
		END {
			for (program in sum)
				print program, sum[program]
		}' | sort
}

# ---- one rank rounds on the device what its host adds ----

for type in bf16 fp16; do
	rounded=(-o train.communication_data_type=$type)
	one=$(digest fp32 fp32 none none none stage0 1 keep auto auto 1 "${rounded[@]}")
	is "I1 $type: one rank, sums on the host" \
		"$(digest fp32 fp32 cpu none none stage1 1 keep tiny auto 1 "${rounded[@]}")" "$one"
	half=$(outward)
	like "$type: gradients leave the device" "$half" '^program first micro [1-9][0-9]*$'
	is "$type: half the bytes of fp32 do" "$(awk '{ $NF *= 2; print }' <<<"$half")" \
		"$(outward -o train.communication_data_type=fp32)"
	is "I1 $type: one rank, sums on disk" \
		"$(digest fp32 fp32 nvme nvme nvme stage3 1 recompute auto 5 1 "${rounded[@]}")" "$one"
done
done_testing
