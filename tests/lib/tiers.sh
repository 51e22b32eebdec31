# SPDX-License-Identifier: Apache-2.0
#
# A small training for each combination of what may lie where, and its digest. For the scripts that source it, after tap.sh.
# It learns what the options `data` say: a text.

for i in $(seq 1 4000); do echo "line $i of a text that is long enough to learn a little from"; done > "$scratch/text"
mkdir "$scratch/disk"
data=(-o data.path="$scratch/text")

# Prints "precision master optimizer gradient parameters stage world activation pieces buffers threads" for each run. The
# last three are combined with all others only for the pairwise choice. WORLDS: numbers of ranks.
product() {
	awk -v full="$MATRIX" -v worlds="${WORLDS:-1 2 3}" 'BEGIN {
		split("fp32/fp32 bf16/fp32 bf16/split fp16/fp32", formats); split("none cpu nvme", tiers)
		split("stage0 stage1 stage2 stage3 hpz mics", stages); n = split(worlds, world); split("keep recompute offload", acts)
		split("tiny auto", pieces); split("auto 5", buffers)
		for (f = 1; f <= 4; f++) for (o = 1; o <= 3; o++) for (g = 1; g <= 3; g++) for (p = 1; p <= 3; p++)
		for (z = 1; z <= 6; z++) for (w = 1; w <= n; w++) for (a = 1; a <= 3; a++) {
			if (p > 1 && z < 4) continue                 # only stages that split parameters offload them
			if (p > 1 && o == 1 && f == 1) continue      # in fp32 the master would stay behind
			if (g == 3 && z == 1) continue               # whole sums on disk
			precision = formats[f]; sub("/", " ", precision)
			turn++
			for (i = 0; i < 8; i++) {
				if (full == "full" ? i != turn % 8 : (turn * 5 + i * 3) % 29 > 0) continue
				print precision, tiers[o], tiers[g], tiers[p], stages[z], z == 6 && w == 3 ? 6 : world[w], acts[a], pieces[1 + i % 2],
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
	options="$(tier optimizer "$3") $(tier gradient "$4") $(tier param "$5") -o device.plugin=$cards -o device.memory=32M -o device.separate=no"
	# Memory that only copies reach, as a GPU's; its own operations cannot reach what is offloaded alone.
	if [ "$world" = 1 ] || [ "$threads" = 1 ]; then
		[ "$optimizer" = none ] && [ "$gradient$param" != nonenone ] || options+=" -o device.separate=on"
	fi
	[ "$buffers" != 5 ] || options+=" -o device.late_copies=yes" # as late as a copy beside the computing may be; else as early
	[ "$precision" != bf16 ] || options+=" -o precision.master=$master"
	[ "$buffers" = 5 ] || [ "$pieces" = tiny ] || options+=" -o train.accumulate_on=tier"
	[ "$act" != offload ] || options+=" -o activation.keep=1 $(tier activation "$([ "$threads" = 1 ] && echo cpu || echo nvme)")"
	[ "$act" != recompute ] || options+=" -o activation.every=$threads"
	[ "$pieces" != tiny ] || options+=" -o zero.sub_group_size=5000 -o device.later=yes" # operations as late as they may be, too
	[ "$pieces" = tiny ] || options+=" -o device.graphs=yes" # and some of them at once
	[ "$optimizer$buffers" != nvme5 ] || options+=" -o offload.optimizer.buffer_count=5"
	case $stage$world in mics[46] | hpz4) options+=" -o boot.ranks_per_node=2" ;; esac
	case $stage in stage3 | hpz | mics) options+=" -o zero.persistence_threshold=0" ;; esac
	shift 11
	rm -rf "${scratch:?}/run"
	"$ZEROTH" train -n "$world" "$ZR_SRCDIR/tests/lib/matrix.ini" "${data[@]}" -o run.dir="$scratch/run" \
		-o train.train_batch_size=6 -o train.eval_every=0 -o model.layers=3 -o precision.plugin="$precision" -o activation.plugin="$act" \
		-o zero.plugin="$stage" -o device.threads="$threads" $options "$@" > "$scratch/out" 2>&1 || { tail -n 3 "$scratch/out"; return; }
	tail -n 1 "$scratch/out"
}

# everywhere LINES: I1 for each choice of these lines of product: the options in `tried` give the digest in want[PRECISION].
# Sets `runs`.
everywhere() {
	local p m o g q z w rest
	runs=0
	while read -r p m o g q z w rest <&3; do
		is "I1 $p, master $m: optimizer $o, gradient $g, param $q, $z, $w ranks, $(set -- $rest; echo "$1, pieces $2, buffers $3, $4 threads")" \
			"$(digest "$p" "$m" "$o" "$g" "$q" "$z" "$w" $rest "${tried[@]}")" "${want[$p]}"
		runs=$((runs + 1))
	done 3< <(if [ "$MATRIX" = full ]; then cat "$1"; else pairwise < "$1"; fi)
}

# once NAME WORLD OPTIONS OF digest UP TO THE STAGE...: I1 with one micro-batch a rank: `tried` gives the digest of `plain`.
once() {
	local world=$2 micro=(-o train.micro_batch_size=$((6 / $2)))
	set -- "$1" "${@:3}"
	is "I1 one micro-batch a rank: $1" "$(digest "${@:2}" "$world" keep tiny 5 2 "${tried[@]}" "${micro[@]}")" \
		"$(digest fp32 fp32 none none none stage0 "$world" keep auto auto 1 "${plain[@]}" "${micro[@]}" -o precision.plugin="$2")"
}
