#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# I1, same bits: one digest per precision and slot count, however the training is spread: stage, ranks, overlap, bucket
# sizes, threads, nodes, and how ranks communicate. The validation loss counts too. `make check` runs a pairwise choice
# (every two values of two columns occur together in some run), MATRIX=full the whole product (`make check-matrix`).
#
# Accumulation follows from the world: slots = micro-batches per step. Cases of padding, with 6 ranks: wpe is one block
# (five ranks hold nothing of it), h.0 and h.1 are cut inside a tensor, wte is tied; the last rows have a rank that
# holds nothing at all.
#
# MATRIX_COMM="local mpi" (local): through which plugins of [comm] ranks communicate.
. "$ZR_SRCDIR/tests/lib/tap.sh" || exit 99
. "$ZR_SRCDIR/tests/lib/pairwise.sh"
[[ " $MATRIX_COMM " != *" mpi "* ]] || . "$ZR_SRCDIR/tests/lib/mpi_env.sh"

for i in $(seq 1 4000); do echo "line $i of a text that is long enough to learn a little from"; done > "$scratch/text"

precisions=(fp32 bf16 fp16) # the first step of fp16 overflows and is skipped
slots=(6 12)
stages=(stage0 stage1 stage2 stage3 hpz mics)
worlds=(1 2 3 4 6)
overlaps=(yes no)
buckets=(tiny auto huge)
threads=(1 2)
nodes=(one many) # many: nodes of 2 ranks, or of 1 where the world is odd: memory is not shared between them
comms=()
for comm in ${MATRIX_COMM:-local}; do
	why=
	[ "$comm" != mpi ] || why=$(no_mpi)
	if [ -z "$why" ]; then comms+=("$comm"); else skip "I1 with comm mpi" "$why"; fi
done
if [ ${#comms[@]} = 0 ]; then
	done_testing
	exit
fi

# Prints "precision slots stage world overlap buckets threads nodes comm" for each run.
product() {
	local p s z w o b t n c
	for p in "${precisions[@]}"; do for s in "${slots[@]}"; do for z in "${stages[@]}"; do for w in "${worlds[@]}"; do
	for o in "${overlaps[@]}"; do for b in "${buckets[@]}"; do for t in "${threads[@]}"; do for n in "${nodes[@]}"; do
	for c in "${comms[@]}"; do
		[ $((s % w)) = 0 ] && [ "$w$n" != 1many ] && echo "$p $s $z $w $o $b $t $n $c"
	done; done; done; done; done; done; done; done; done
}

# Starts ranks: launch COMM WORLD ARGUMENTS-OF-TRAIN...
launch() {
	local comm=$1 world=$2
	shift 2
	case $comm in
	local) "$ZEROTH" train -n "$world" "$@" -o boot.plugin=local -o comm.plugin=local ;;
	mpi) timeout 300 "$mpirun" -n "$world" "$ZEROTH" train "$@" -o boot.plugin=mpi -o comm.plugin=mpi ;;
	*) echo "no way to start ranks with comm $comm"; return 1 ;;
	esac
}

# Options of the bucket sizes; those of parameters only where parameters are split.
sizes() {
	local stage=$1 overlap=$2 bucket=$3 n=1e9 ahead=1e9
	[ "$bucket" != auto ] || return
	[ "$bucket" != tiny ] || n=1 ahead=0
	[ "$bucket" != huge ] || echo "-o zero.sub_group_size=9223372036854775000"
	[ "$overlap" = yes ] || ahead=0
	echo "-o zero.reduce_bucket_size=$n -o zero.allgather_bucket_size=$n"
	case $stage in stage3 | hpz | mics)
		echo "-o zero.prefetch_bucket_size=$ahead -o zero.max_live_parameters=$ahead -o zero.max_reuse_distance=$ahead"
		echo "-o zero.persistence_threshold=0"
		[ "$bucket" = tiny ] || echo "-o zero.persistent=wte" ;;
	esac
}

# digest PRECISION SLOTS STAGE WORLD OVERLAP BUCKETS THREADS NODES COMM [OPTIONS...]: "losses=.. params=.. val=.."
digest() {
	local per_node=$4 options
	[ "$8" = one ] || per_node=$((2 - $4 % 2))
	options=$(sizes "$3" "$5" "$6")
	[ "$1" != fp16 ] || options+=" -o precision.initial_scale_power=20 -o precision.hysteresis=1"
	set -- "$@" -o train.train_batch_size="$2" -o precision.plugin="$1" -o zero.plugin="$3" -o zero.overlap_comm="$5" $options
	shift 3
	local world=$1 thread=$4 comm=$6
	shift 6
	rm -rf "${scratch:?}/run"
	launch "$comm" "$world" "$ZR_SRCDIR/tests/lib/matrix.ini" -o data.path="$scratch/text" -o run.dir="$scratch/run" \
		-o device.threads="$thread" -o boot.ranks_per_node="$per_node" "$@" > "$scratch/out" 2> "$scratch/err" ||
		{ tail -q -n 3 "$scratch/out" "$scratch/err"; return; }
	echo "$(tail -n 1 "$scratch/out") $(grep -o '"last_val_loss": [0-9.e-]*' "$scratch/run/summary.json")"
}

declare -A want runs same worst
note "one digest per precision and slots; each run: precision slots stage world overlap buckets threads nodes comm"
for p in "${precisions[@]}"; do
	for s in "${slots[@]}"; do
		want[$p.$s]=$(digest "$p" "$s" stage0 1 yes auto 1 one "${comms[0]}")
		like "$p, $s slots: one rank alone trains" "${want[$p.$s]}" '^digest: losses=[0-9a-f]{16} params=[0-9a-f]{16} "last_val_loss"'
	done
done

while read -r p s z w rest <&3; do
	got=$(digest "$p" "$s" "$z" "$w" $rest)
	is "I1 $p $s slots: $z, $w ranks, $(set -- $rest; echo "overlap $1, buckets $2, $3 threads, nodes $4, comm $5")" "$got" "${want[$p.$s]}"
	runs[$z.$w]=$((${runs[$z.$w]:-0} + 1))
	[ "$got" != "${want[$p.$s]}" ] || same[$z.$w]=$((${same[$z.$w]:-0} + 1))
done 3< <(product | { if [ "$MATRIX" = full ]; then cat; else pairwise; fi; })

# A rank that holds nothing: 12 + 2 + 1 + 1 blocks in 4 units over 5 ranks leave the last one empty.
for z in "${stages[@]}"; do
	for p in "${precisions[@]}"; do
		empty=(-o model.layers=1 -o model.width=8 -o model.heads=1)
		one=$(digest "$p" 5 stage0 1 yes auto 1 one "${comms[0]}" "${empty[@]}")
		one_in 5 && is "I1 $p 5 slots: $z, 5 ranks of which the last has empty shards" \
			"$(digest "$p" 5 "$z" 5 yes tiny 1 one "${comms[0]}" "${empty[@]}")" "$one"
	done
done

# Families of their own: rounded on the wire, which no stage or node changes; summed on each rank, where bits depend on
# the world alone.
for option in communication_data_type=bf16 reduction=local; do
	one=$(digest fp32 12 stage0 3 yes auto 1 one "${comms[0]}" -o train.$option)
	like "$option: trains to other bits" "$([ "$one" != "${want[fp32.12]}" ] && echo "$one")" '^digest: losses=[0-9a-f]{16} '
	for z in "${stages[@]}"; do
		one_in 5 && is "I1 $option: $z, 3 ranks" "$(digest fp32 12 "$z" 3 yes tiny 1 one "${comms[0]}" -o train.$option)" "$one"
		one_in 5 && is "I1 $option: $z, 3 nodes" "$(digest fp32 12 "$z" 3 no huge 2 many "${comms[0]}" -o train.$option)" "$one"
	done
done
one_in 5 && is "I1 communication_data_type=bf16: one rank rounds too" \
	"$(digest fp32 12 stage0 1 yes auto 1 one "${comms[0]}" -o train.communication_data_type=bf16)" \
	"$(digest fp32 12 stage3 6 yes auto 1 one "${comms[0]}" -o train.communication_data_type=bf16)"

for key in "${!want[@]}"; do note "$(printf '%-6s %3s slots  %s' "${key%.*}" "${key#*.}" "${want[$key]}")"; done
note "runs with the digest of one rank, of all runs:"
note "$(printf '%-8s' stage; printf '%10s' "${worlds[@]/%/ ranks}")"
for z in "${stages[@]}"; do
	note "$(printf '%-8s' "$z"; for w in "${worlds[@]}"; do printf '%10s' "${same[$z.$w]:-0}/${runs[$z.$w]:-0}"; done)"
done
done_testing
