#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# I1, same bits wherever things lie: one digest per precision over the tiers of optimizer state, gradients and parameters,
# stage, ranks, activation policy, pieces and buffers of the update, threads, and what is kept of the master. Device memory
# is limited and, with one rank, cannot be read outside operations, so that what lies elsewhere really does. `make check`
# runs a pairwise choice, MATRIX=full (`make check-matrix`) everything, with pieces, buffers and threads in turn.
. "$ZR_SRCDIR/tests/tap.sh" || exit 99
. "$ZR_SRCDIR/tests/pairwise.sh"

for i in $(seq 1 4000); do echo "line $i of a text that is long enough to learn a little from"; done > "$scratch/text"
mkdir "$scratch/disk"

# Prints "precision master optimizer gradient parameters stage world activation pieces buffers threads" for each run. The
# last three are combined with all others only for the pairwise choice.
product() {
	awk -v full="$MATRIX" 'BEGIN {
		split("fp32/fp32 bf16/fp32 bf16/split fp16/fp32", formats); split("none cpu nvme", tiers)
		split("stage0 stage1 stage2 stage3 hpz", stages); split("1 2 3", worlds); split("keep recompute offload", acts)
		split("tiny auto", pieces); split("auto 5", buffers)
		for (f = 1; f <= 4; f++) for (o = 1; o <= 3; o++) for (g = 1; g <= 3; g++) for (p = 1; p <= 3; p++)
		for (z = 1; z <= 5; z++) for (w = 1; w <= 3; w++) for (a = 1; a <= 3; a++) {
			if (p > 1 && z < 4) continue                 # only stages that split parameters offload them
			if (p > 1 && o == 1 && f == 1) continue      # in fp32 the master would stay behind
			if (g == 3 && z == 1) continue               # whole sums on disk
			precision = formats[f]; sub("/", " ", precision)
			turn++
			for (i = 0; i < 8; i++) {
				if (full == "full" ? i != turn % 8 : (turn * 5 + i * 3) % 29 > 0) continue
				print precision, tiers[o], tiers[g], tiers[p], stages[z], worlds[w], acts[a], pieces[1 + i % 2],
					buffers[1 + int(i / 2) % 2], 1 + int(i / 4)
			}
		}
	}'
}

tier() { # tier SECTION PLUGIN: options
	case $2 in
	cpu) echo "-o offload.$1.plugin=cpu" ;;
	nvme) echo "-o offload.$1.plugin=nvme -o offload.$1.path=$scratch/disk" ;;
	esac
}

# digest PRECISION MASTER OPTIMIZER GRADIENT PARAMETERS STAGE WORLD ACTIVATION PIECES BUFFERS THREADS [OPTIONS...]
digest() {
	local precision=$1 master=$2 optimizer=$3 gradient=$4 param=$5 stage=$6 world=$7 act=$8 pieces=$9 buffers=${10} threads=${11} options
	options="$(tier optimizer "$3") $(tier gradient "$4") $(tier param "$5") -o device.memory=32M"
	# Memory that only copies reach, as a GPU's; its own operations cannot reach what is offloaded alone.
	if [ "$world" = 1 ] || [ "$threads" = 1 ]; then
		[ "$optimizer" = none ] && [ "$gradient$param" != nonenone ] || options+=" -o device.separate=on"
	fi
	[ "$buffers" != 5 ] || options+=" -o device.late_copies=yes" # as late as a copy beside the computing may be; else as early
	[ "$precision" != bf16 ] || options+=" -o precision.master=$master"
	[ "$act" != offload ] || options+=" -o activation.keep=1 $(tier activation "$([ "$threads" = 1 ] && echo cpu || echo nvme)")"
	[ "$act" != recompute ] || options+=" -o activation.every=$threads"
	[ "$pieces" != tiny ] || options+=" -o zero.sub_group_size=5000"
	[ "$optimizer$buffers" != nvme5 ] || options+=" -o offload.optimizer.buffer_count=5"
	case $stage in stage3 | hpz) options+=" -o zero.persistence_threshold=0" ;; esac
	shift 11
	rm -rf "${scratch:?}/run"
	"$ZEROTH" train -n "$world" "$ZR_SRCDIR/tests/matrix.ini" -o data.path="$scratch/text" -o run.dir="$scratch/run" \
		-o train.train_batch_size=6 -o train.eval_every=0 -o model.layers=3 -o precision.plugin="$precision" -o activation.plugin="$act" \
		-o zero.plugin="$stage" -o device.threads="$threads" $options "$@" > "$scratch/out" 2>&1 || { tail -n 3 "$scratch/out"; return; }
	tail -n 1 "$scratch/out"
}

declare -A want
for p in fp32 bf16 fp16; do
	want[$p]=$(rm -rf "${scratch:?}/run"; "$ZEROTH" train "$ZR_SRCDIR/tests/matrix.ini" -o data.path="$scratch/text" \
		-o run.dir="$scratch/run" -o train.train_batch_size=6 -o train.eval_every=0 -o model.layers=3 -o precision.plugin=$p 2>&1 | tail -n 1)
	like "$p: everything in one memory trains" "${want[$p]}" '^digest: losses=[0-9a-f]{16} params=[0-9a-f]{16}$'
done

runs=0
while read -r p m o g q z w rest <&3; do
	is "I1 $p, master $m: optimizer $o, gradient $g, param $q, $z, $w ranks, $(set -- $rest; echo "$1, pieces $2, buffers $3, $4 threads")" \
		"$(digest "$p" "$m" "$o" "$g" "$q" "$z" "$w" $rest)" "${want[$p]}"
	runs=$((runs + 1))
done 3< <(product | { if [ "$MATRIX" = full ]; then cat; else pairwise; fi; })
note "$runs runs"

# Stochastic rounding draws by element: a family of its own.
one=$(digest bf16 none none none none stage0 1 keep auto auto 1)
like 'master = none trains to other bits' "$([ "$one" != "${want[bf16]}" ] && echo "$one")" '^digest: losses=[0-9a-f]{16} '
is 'I1 master = none: in pieces on disk, 3 ranks' "$(digest bf16 none nvme nvme nvme stage3 3 keep tiny 5 2)" "$one"
is 'I1 master = none: on the host, 2 ranks' "$(digest bf16 none cpu none cpu hpz 2 recompute tiny auto 1)" "$one"
# A comm of device memory alone, with another one for what is on the host; see devcomm.c.
cc=(${CC:-cc})
"${cc[@]}" -std=gnu11 -w -shared -fPIC -I"$ZR_SRCDIR/include" -o "$scratch/devcomm.so" "$ZR_SRCDIR/tests/devcomm.c" -ldl
chmod 755 "$scratch/devcomm.so"
gpu="-o device.separate=yes -o comm.plugin=$scratch/devcomm.so"
is 'I1 device comm: stage1, 3 ranks' "$(digest fp32 fp32 none none none stage1 3 keep auto auto 1 $gpu)" "${want[fp32]}"
is 'I1 device comm: state on the host, hpz, 2 ranks' "$(digest bf16 split cpu cpu none hpz 2 recompute tiny 5 2 $gpu)" "${want[bf16]}"
is 'I1 device comm: all on the host, stage3, 3 ranks' "$(digest fp16 fp32 cpu none cpu stage3 3 offload tiny auto 1 $gpu)" "${want[fp16]}"
is 'I1 device comm: all on disk, stage3, 2 ranks' "$(digest bf16 fp32 nvme nvme nvme stage3 2 keep tiny 5 1 $gpu)" "${want[bf16]}"
is 'I1 device comm: parameters on disk, hpz, 2 ranks' "$(digest fp32 fp32 cpu none nvme hpz 2 keep auto auto 1 $gpu)" "${want[fp32]}"
is 'I1 separate device: parameters on disk, hpz, 1 rank' "$(digest fp32 fp32 nvme nvme nvme hpz 1 keep tiny auto 2)" "${want[fp32]}"
like 'a device comm for a device without memory of its own' "$(digest fp32 fp32 none none none stage1 2 keep auto auto 2 \
	-o comm.plugin="$scratch/devcomm.so")" 'zeroth: .*it moves memory of GPUs, and this device has none'
is 'I2, I5: nothing is left on disk' "$(find "$scratch/disk" -mindepth 1)" ''
done_testing
