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
		$3 == "copy" && $7 ~ /^< (gradient buffers|communication|micro-batch sums)/ && $8 ~ /^> gradients/ {
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
	rounded=(-o train.communication_data_type=$type -o train.accumulate_on=tier)
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

# ---- micro-batches are added up on the device ----

here=(-o train.accumulate_on=device)
there=(-o train.accumulate_on=tier)
auto=(-o train.accumulate_on=auto)
on_host='fp32 fp32 cpu none none stage1 1 keep auto auto 1'

added() { # added NAME ARGUMENTS OF digest...: the bits of one memory, whatever adds up micro-batches
	local name=$1 want=$plain
	one_in 3 || return 0
	shift
	case $1 in bf16) want=$bf16 ;; fp16) want=$fp16 ;; esac
	is "I1 $name: on the device" "$(digest "$@" "${here[@]}" -o device.separate=yes)" "$want"
	is "I1 $name: on its tier" "$(digest "$@" "${there[@]}" -o device.separate=yes)" "$want"
}

plain=$(digest fp32 fp32 none none none stage0 1 keep auto auto 1)
bf16=$(digest bf16 fp32 none none none stage0 1 keep auto auto 1)
fp16=$(digest fp16 fp32 none none none stage0 1 keep auto auto 1)
like 'one memory trains' "$plain$bf16$fp16" '^(digest: losses=[0-9a-f]{16} params=[0-9a-f]{16}){3}$'
added 'one rank, host' fp32 fp32 cpu none none stage1 1 keep tiny auto 1
added 'one rank, disk' bf16 split nvme nvme nvme stage3 1 recompute tiny 5 1
added 'one rank, all on the host' fp16 fp32 cpu cpu cpu hpz 1 offload auto auto 1
added 'two ranks, host' fp32 fp32 cpu none none stage2 2 keep auto 5 1
added 'three ranks, disk' bf16 fp32 nvme nvme nvme stage3 3 keep tiny auto 1
added 'three ranks, whole state' fp32 fp32 cpu none none stage0 3 keep auto auto 1
added 'two ranks, mics' bf16 fp32 cpu cpu cpu mics 2 keep auto 5 1 -o boot.ranks_per_node=1
build devcomm
gpu=(-o comm.plugin="$scratch/devcomm.so" -o comm.host.plugin=local)
added 'comm of device memory, host' fp32 fp32 cpu none none stage1 2 keep tiny auto 1 "${gpu[@]}"
added 'comm of device memory, whole state on the host' bf16 fp32 cpu cpu none stage0 3 keep auto 5 1 "${gpu[@]}"
added 'comm of device memory, disk' fp16 fp32 nvme nvme nvme stage3 3 keep tiny auto 1 "${gpu[@]}"

# Trees over several micro-batches, updates inside a backward or a forward, numbers that are not finite.
plain=$(digest fp32 fp32 none none none stage0 1 keep auto auto 1 -o train.sum_group=4 -o train.train_batch_size=8)
added 'trees, one rank, host' $on_host -o train.sum_group=4 -o train.train_batch_size=8
added 'trees, two ranks, disk' fp32 fp32 nvme nvme nvme stage3 2 keep tiny auto 1 -o train.sum_group=4 -o train.train_batch_size=8
rounded=(-o train.communication_data_type=bf16)
plain=$(digest fp32 fp32 none none none stage0 1 keep auto auto 1 "${rounded[@]}")
added 'rounded, one rank, disk' fp32 fp32 nvme nvme nvme stage3 1 keep tiny auto 1 "${rounded[@]}"
added 'rounded, comm of device memory' fp32 fp32 cpu none none stage1 3 keep auto auto 1 "${rounded[@]}" "${gpu[@]}"
unclipped=(-o train.gradient_clipping=0)
plain=$(digest fp32 fp32 none none none stage0 1 keep auto auto 1 "${unclipped[@]}")
added 'updates in the backward' fp32 fp32 cpu none cpu stage3 1 keep tiny auto 1 "${unclipped[@]}" -o zero.update_in_backward=yes
plain=$(digest fp32 fp32 none none none stage0 1 keep auto auto 1)
added 'updates in the forward' $on_host -o train.update_in_forward=yes
added 'updates alone' $on_host -o train.update_in_forward=no

# ---- what a step copies ----

digest $on_host > /dev/null
each=$(outward "${there[@]}")
last=$(outward "${auto[@]}")
is 'sums leave the device once in a step' "$(awk '/^program last micro/' <<<"$each")" "$last"
is 'gradients leave it with each micro-batch' "$(awk '!/update/ { print $NF }' <<<"$each" | sort | uniq -c | awk '{ print $1 }')" 3
reads() { "$ZEROTH" plan "$scratch/run/config.ini" --program "$@" | awk '/^program / { program = $0 } program ~ /^program micro/ && /  (read|write)  .*gradients/' | wc -l; }
digest bf16 fp32 nvme nvme none stage1 1 keep auto auto 1 > /dev/null
ok 'sums on disk are read and written with each micro-batch' test "$(reads "${there[@]}")" -gt 0
is '... or with the last one alone' "$(reads "${auto[@]}")" 0

# ---- where it has room, and where it means nothing ----

digest $on_host > /dev/null
sums() { "$ZEROTH" plan "$scratch/run/config.ini" "$@" 2>&1 | grep -c '^device  *micro-batch sums'; }
is 'auto: on the device' "$(sums "${auto[@]}")" 1
is 'auto: there is no room' "$(sums "${auto[@]}" -o device.memory=1500K)" 0
is 'device: there is no room' "$(sums -o device.memory=1500K "${here[@]}")" 1
like 'a device without room is refused' "$("$ZEROTH" plan "$scratch/run/config.ini" -o device.memory=1500K "${here[@]}" 2>&1)" \
	'does not fit: needs .* of device memory'
is 'I1 no room: the same bits' "$(digest $on_host "${auto[@]}" -o device.memory=1500K)" "$plain"
is 'I1 no room, comm of device memory: the same bits' "$(digest fp32 fp32 cpu none none stage1 2 keep auto auto 1 "${auto[@]}" \
	-o device.memory=1700K "${gpu[@]}")" "$plain"
is 'auto: there is no room for two ranks' "$(sums -n 2 "${auto[@]}" -o device.memory=1700K)$(sums -n 2 "${auto[@]}" -o device.memory=3M)" 01
is 'auto: a comm of host memory' "$(digest fp32 fp32 cpu none none stage1 2 keep auto auto 1 > /dev/null; sums -n 2 "${auto[@]}")" 0
like '--fit: there is no room' "$("$ZEROTH" plan --fit --card H200 --device 1050K --host 1G --disk 1G "$ZR_SRCDIR/tests/lib/matrix.ini" \
	-o data.path="$scratch/text" -o train.train_batch_size=7 | grep -m 1 'state: cpu')" '^0 +state: cpu +fits: '
refused() { # refused REASON ARGUMENTS OF digest...
	like "accumulate_on = device: $1" "$(digest "${@:2}" "${here[@]}")" "accumulate_on = device: it does nothing here: $1; take it out"
}
refused 'sums are on the device' fp32 fp32 none none none stage1 1 keep auto auto 1 -o device.separate=yes
refused 'the device has no memory of its own' fp32 fp32 cpu none none stage1 2 keep auto auto 2
refused 'each rank has one micro-batch in a step' $on_host -o train.micro_batch_size=6
refused 'with reduction = local it is so' fp32 fp32 cpu none none stage1 2 keep auto auto 1 -o train.reduction=local
done_testing
