#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Updates in the backward, [zero] update_in_backward: I1, the bits of updates after it, over stages, ranks, tiers,
# activations, pieces and buffers; what they save; when they cannot be.
. "$ZR_SRCDIR/tests/lib/tap.sh" || exit 99
. "$ZR_SRCDIR/tests/lib/fixture.sh" || exit 99
. "$ZR_SRCDIR/tests/lib/pairwise.sh"
. "$ZR_SRCDIR/tests/lib/tiers.sh"

late=(-o train.gradient_clipping=0)
early=("${late[@]}" -o zero.update_in_backward=yes)

declare -A want
for p in fp32 bf16; do
	want[$p]=$(digest $p fp32 none none none stage0 1 keep auto auto 1 "${late[@]}")
	like "$p: updates after the backward train" "${want[$p]}" '^digest: losses=[0-9a-f]{16} params=[0-9a-f]{16}$'
	is "I1 $p: updates in the backward" "$(digest $p fp32 none none none stage0 1 keep auto auto 1 "${early[@]}")" "${want[$p]}"
done

tried=("${early[@]}") plain=("${late[@]}")
product | grep -v ^fp16 > "$scratch/choices"
everywhere "$scratch/choices"

# One micro-batch a rank: sums of gradients live from their reduce to their update only.
once 'fp32, 1 rank' 1 fp32 fp32 none none none stage0
once 'bf16, 1 rank, state on the host of a device with memory of its own' 1 bf16 fp32 cpu none none stage2
once 'fp32, 1 rank, all on disk' 1 fp32 fp32 nvme nvme nvme stage3
once 'bf16, 2 ranks, gradients on disk' 2 bf16 split cpu nvme none stage1
once 'fp32, 2 ranks, parameters split over nodes' 2 fp32 fp32 none none none hpz
once 'bf16, 3 ranks, all on the host' 3 bf16 fp32 cpu cpu cpu stage3
once 'fp32, 3 ranks, whole state' 3 fp32 fp32 none none none stage0
is 'I2, I5: nothing is left on disk' "$(find "$scratch/disk" -mindepth 1)" ''

plan() {
	"$ZEROTH" plan "$@" "$ZR_SRCDIR/tests/lib/matrix.ini" -o data.path="$scratch/text" \
		-o model.layers=${layers:-8} -o zero.reduce_bucket_size=1
}
gradients() { plan "$@" | awk '$2 == "gradients" { print $3 * ($4 == "MiB" ? 1024 : 1) }'; }
later=$(gradients "${late[@]}") sooner=$(gradients "${early[@]}")
ok "sums of 8 layers are never there together: $sooner KiB instead of $later" awk "BEGIN { exit !($sooner > 0 && $sooner < $later / 2) }"

# An update runs when the layer after its own has been enqueued; at once, where a layer has run when
# it returns.
program=$(plan --program -o zero.plugin=stage2 "${early[@]}" |
	sed -n '/^program last micro/,/^program eval/p')
like 'one rank on a processor updates block 7 before the backward of block 6' \
	"$(sed -n '/backward of layer h\.7 /,/backward of layer h\.6 /p' <<<"$program")" \
	'optimize +update \(unit h\.7\)'
program=$(plan -n 2 --program -o zero.plugin=stage2 "${early[@]}" | sed -n '/^program last micro/,/^program eval/p')
like 'block 7 is updated beside the backward of block 5' "$(sed -n '/backward of layer h\.5 /,/backward of layer h\.4 /p' <<<"$program")" \
	'optimize +update \(unit h\.7\)'
is 'the update program has nothing left' "$(sed -n '/^program update/,$p' <<<"$program" | grep -c optimize)" 0

# On disk, what an update takes at once is not written, and its states are read beside the forward: from its begin on, behind
# writes of the step before, or, where the store does not see to that, when these have left the buffers.
mkdir -p "$scratch/disk"
build latedisk
stored() { # stored OPTION...: the program of a micro-batch
	plan --program -o zero.plugin=stage1 -o train.train_batch_size=1 -o train.micro_batch_size=1 \
		-o train.gradient_part_size=0 -o offload.optimizer.buffer_count=3 "${early[@]}" "$@" |
		sed -n '/^program last micro/,/^program eval/p'
}
disks=(-o offload.optimizer.plugin=nvme -o offload.optimizer.path="$scratch/disk"
	-o offload.gradient.plugin=nvme -o offload.gradient.path="$scratch/disk")
program=$(stored "${disks[@]}")
is 'no gradient is written that is taken at once' "$(grep -cE ' write .*> (parts of )?gradients' <<<"$program")" 0
like 'the first states are read from the first layer on' "$(sed '/forward of layer h\.0 /,$d' <<<"$program")" \
	'store +read .*\(unit ln_f\).*< optimizer state'
is 'reads end with the writes that the store keeps them behind' "$(awk '{
	kind[$1] = $2 " " $3
	for (k = 1; k <= NF; k++)
		if ($k == "behind")
			while ($++k ~ /^[0-9]+$/)
				print $2, $3, "behind", kind[$k]
}' <<<"$program" | sort -u)" 'store read behind store write'
if command -v python3 >/dev/null; then
	sums=("${disks[@]}" -o zero.plugin=stage2 -o train.train_batch_size=2)
	is 'plan --program --json: waits as in the text' "$(plan --json --program "${sums[@]}" | python3 -c '
import json, sys
for p in json.load(sys.stdin)["programs"]:
	for n, i in enumerate(p["instructions"]):
		waits = [" ".join(map(str, [w] + i[w])) for w in ("after", "behind") if i[w]]
		late = ["after late %(instruction)d of %(program)s" % w for w in i["after_late"]]
		print(n, *waits, *late, *["late"] * i["late"], sep="  ")')" \
		"$(plan --program "${sums[@]}" | awk -F '  +' '/^ / {
			printf "%s", $2
			for (k = 3; k <= NF; k++)
				if ($k ~ /^(after|behind|late)( late)?( [0-9]|$)/)
					printf "  %s", $k
			print ""
		}')"
fi
program=$(stored -o offload.optimizer.plugin="$scratch/latedisk.so" -o offload.gradient.plugin="$scratch/latedisk.so")
forward=$(sed '/backward of layer/,$d' <<<"$program")
like 'or beside the last layers of the forward' "$(sed '1,/forward of layer h\.5 /d' <<<"$forward")" \
	'store +read .*\(unit ln_f\).*< optimizer state'
is 'and not before' "$(sed '/forward of layer h\.5 /q' <<<"$forward" | grep -c '< optimizer state')" 0

# Buffers of its own choice: those of three layers more, in a quarter of what is updated; not for
# updates after the backward.
sets() { # sets OPTION...: their KiB
	plan -o zero.plugin=stage1 -o offload.optimizer.plugin=nvme \
		-o offload.optimizer.path="$scratch/disk" "$@" |
		awk '$2 == "staging" { print $3 * ($4 == "MiB" ? 1024 : 1) }'
}
three=$(sets "${early[@]}" -o offload.optimizer.buffer_count=3)
several() { # several NAME SETS OPTION...
	local n=$(sets "${@:3}")
	ok "$1: $2 buffers" awk "BEGIN { n = $n / $three * 3; exit !(n > $2 - .5 && n < $2 + .5) }"
}
several 'of a quarter of 8 layers' 5 "${early[@]}"
layers=16
several 'of three layers of 16' 6 "${early[@]}"
several 'after the backward' 3 "${late[@]}" -o train.update_in_forward=no
several 'within the next forward, in a third of it' 6 "${late[@]}"
several 'as given' 4 "${early[@]}" -o offload.optimizer.buffer_count=4

refused() { # refused NAME PATTERN OPTION...
	local text code
	text=$("$ZEROTH" train "$ZR_SRCDIR/tests/lib/matrix.ini" -o data.path="$scratch/text" -o run.dir="$scratch/refused" \
		-o zero.update_in_backward=yes "${@:3}" 2>&1)
	code=$?
	is "$1: exit 2" "$code" 2
	like "$1: why" "$text" "unit ln_f cannot be updated in the backward: $2"
}
refused 'with clipping' '\[train\] gradient_clipping needs the norm of all gradients first: set it to 0, or update_in_backward = no$'
refused 'with a loss scale' 'the loss scale of \[precision\] fp16 .*: choose another plugin, or update_in_backward = no$' "${late[@]}" -o precision.plugin=fp16
refused 'with steps that may be skipped' '.*set on_nonfinite = stop, or ' "${late[@]}" -o precision.on_nonfinite=skip
refused 'with lamb' '\[optimizer\] lamb needs sums over whole parameters first: choose another plugin, or ' "${late[@]}" -o optimizer.plugin=lamb
refused 'with muon' '\[optimizer\.m\] muon takes whole parameters: ' "${late[@]}" -o optimizer.m.plugin=muon -o optimizer.m.match=h.*.mlp.*.weight

# Too late to leave the weights as they were: they are not written, and the last checkpoint is what is left.
burst() {
	"$ZEROTH" train -n 2 "$ZR_SRCDIR/tests/lib/matrix.ini" -o data.path="$scratch/text" -o run.dir="$scratch/burst" -o checkpoint.every=1 \
		-o train.train_batch_size=2 -o zero.plugin=stage1 "${early[@]}" "$@" 2>&1
}
text=$(burst -o train.steps=6 -o optimizer.lr=1e30)
is 'non-finite gradients: exit 5' "$?" 5
like 'they are named, and what to do' "$(printf '%s\n' "$text" | tail -n 1)" \
	'step [23]: non-finite numbers in the gradient of .*, rank [01], .*\(update_in_backward\): what is left is the last checkpoint, if there is one$'
ok 'I6: no weights are written' test ! -e "$scratch/burst/model.safetensors"
like 'I6: the last checkpoint is whole' "$("$ZEROTH" checkpoint verify "$scratch/burst" 2>&1)" 'step-00000001 +whole'
rm -r "$scratch/burst"
burst -o train.steps=6 -o optimizer.lr=1e30 -o checkpoint.async=yes > "$scratch/out"
like 'I6: so is one that was being saved' "$("$ZEROTH" checkpoint verify "$scratch/burst" 2>&1)" 'step-00000001 +whole'
done_testing
