#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Host memory that copies beside the computing touch is pinned. The device that is played refuses to start a copy of other
# memory, and says what was pinned or given back out of order, so each run here is a check of all copies that core starts: over
# the tiers in host memory, stages, ranks and precisions. What is pinned is what copies do touch, and nothing else; and where
# the system pins no more, training goes on, slower, with a line that says so. See watchdevice.c.
. "$ZR_SRCDIR/tests/lib/tap.sh" || exit 99
. "$ZR_SRCDIR/tests/lib/fixture.sh" || exit 99

for i in $(seq 1 400); do echo "line $i of a text that is long enough to learn a little from"; done > "$scratch/text"
build watchdevice watched
build devcomm
far=(-o device.plugin="$scratch/watched.so" -o device.memory=32M)

train() { # train OPTIONS...
	rm -rf "${scratch:?}/run"
	"$ZEROTH" train "$ZR_SRCDIR/tests/lib/matrix.ini" -o data.path="$scratch/text" -o run.dir="$scratch/run" -o train.eval_every=0 \
		-o train.train_batch_size=4 -o device.threads=1 "$@" 2>&1
}

# pins: how many objects rank 0 had pinned, and whether copies touched them
pins() { awk '$1 == "mem_pin" { print $2, ($3 > 0 ? "copied" : "not copied") }' "$scratch/count.0"; }

declare -A want
for p in fp32 bf16; do
	want[$p]=$(train -o zero.plugin=stage3 -o precision.plugin=$p | tail -n 1)
	like "$p: everything in one memory trains" "${want[$p]}" '^digest: losses=[0-9a-f]{16} params=[0-9a-f]{16}$'
done

# States are used where they are, and sums but for those that come straight from the device: a single rank's, and what was added up there; in fp32 the
# masters are what is gathered. A comm takes what is on the host from where it lies, unless it moves device memory alone.
run=0
while read -r stage tiers fp32_1 fp32_2 bf16_1 bf16_2; do
	for p in fp32 bf16; do
		options=(-o precision.plugin=$p -o zero.plugin="$stage")
		for t in ${tiers//+/ }; do
			case $t in devcomm) options+=(-o comm.plugin="$scratch/devcomm.so" -o comm.host.plugin=local) ;; *) options+=(-o offload.$t.plugin=cpu) ;; esac
		done
		case $tiers in *activation*) options+=(-o activation.plugin=offload -o activation.keep=1) ;; esac
		case $stage in stage3 | hpz) options+=(-o zero.persistence_threshold=0) ;; esac
		for n in 1 2; do
			pinned=${p}_$n
			pinned=${!pinned}
			late=$([ $((run++ % 2)) = 0 ] && echo yes || echo no)
			out=$(WATCH_COUNT=$scratch/count train -n $n "${far[@]}" "${options[@]}" -o device.late_copies="$late")
			is "I1 $p, $stage, $n ranks, $tiers: same bits" "$(grep '^digest' <<<"$out")" "${want[$p]}"
			is "$p, $stage, $n ranks, $tiers: what is pinned" "$(pins)" "$pinned $([ "$pinned" = 0 ] && echo not\ )copied"
			is "$p, $stage, $n ranks, $tiers: nothing to say" "$(grep -E 'zeroth: (warning|error)' <<<"$out")" ''
		done
	done
done <<'END'
stage0 optimizer 0 0 0 0
stage0 activation 1 1 1 1
stage1 optimizer+gradient 1 0 1 0
stage1 optimizer+gradient+activation 2 1 2 1
stage2 optimizer+activation 1 1 1 1
stage3 optimizer+gradient 1 0 1 0
stage3 optimizer+param 1 0 1 0
stage3 optimizer+param+devcomm 1 1 1 1
stage3 optimizer+gradient+param+activation 3 1 3 1
stage3 optimizer+gradient+param+activation+devcomm 3 3 3 3
hpz optimizer+param 2 2 1 1
END

# A save of what only copies reach, and going on from it, with memory that nobody pinned.
options=(-o zero.plugin=stage1 -o precision.plugin=bf16 -o checkpoint.every=2)
one=$(train "${options[@]}" -o train.steps=4 | tail -n 1)
train "${far[@]}" "${options[@]}" -o train.steps=2 >/dev/null
mv "$scratch/run" "$scratch/saved"
is 'I6: state that copies alone reach is saved and read' \
	"$(train "${far[@]}" "${options[@]}" -o train.steps=4 --resume "$scratch/saved" | tail -n 1 | grep -o params.*)" "${one#* losses=* }"

all=(-o precision.plugin=bf16 -o zero.plugin=stage3 -o zero.persistence_threshold=0 -o activation.plugin=offload -o activation.keep=1)
for t in optimizer gradient param activation; do all+=(-o offload.$t.plugin=cpu); done
for n in 1 2; do
	out=$(WATCH_FAIL='mem_pin 1' train -n $n "${far[@]}" "${all[@]}" -o comm.plugin="$scratch/devcomm.so" -o comm.host.plugin=local)
	is "$n ranks, nothing can be pinned: same bits" "$(grep '^digest' <<<"$out")" "${want[bf16]}"
	is "$n ranks, nothing can be pinned: who says so" "$(grep 'zeroth: warning' <<<"$out" | sed -E 's/no [0-9]+ bytes/no bytes/' | sort)" \
		"$(for rank in $(seq 0 $((n - 1))); do
			for t in activation gradient param; do
				echo "rank $rank: zeroth: warning: offload.$t: ${t/gradient/grad} is not pinned, so that its copies will hold up the host:" \
					"[device] the device pins no bytes (error 452)"
			done
		done)"
done
out=$(WATCH_FAIL='mem_pin 2' train "${far[@]}" "${all[@]}")
is 'one of three can be pinned: same bits' "$(grep '^digest' <<<"$out")" "${want[bf16]}"
is 'one of three can be pinned: lines' "$(grep -c '^zeroth: warning: .*: .* is not pinned' <<<"$out")" 2
out=$(WATCH_FAIL='pinned_twice 1' train "${far[@]}" "${all[@]}")
like 'any other failure ends the run' "$(tail -n 1 <<<"$out")" '^zeroth: .*\[device\] mem_pin: of [0-9]+ bytes at .* some are pinned already'
is 'a device with no optional function: same bits' "$(WATCH_OLD=1 train "${far[@]}" "${all[@]}" | tail -n 1)" "${want[bf16]}"
done_testing
