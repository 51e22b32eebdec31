#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Ranks of other launchers: I1 through MPI and through the environment, and how such runs fail (I5).
. "$ZR_SRCDIR/tests/lib/tap.sh" || exit 99

for i in $(seq 1 3000); do echo "line $i of a text that is long enough"; done > "$scratch/text"
cat > "$scratch/tiny.ini" <<INI
[train]
micro_batch_size = 2
train_batch_size = 24
steps = 5
eval_every = 0
[model]
plugin = gpt2
layers = 2
heads = 2
width = 32
context = 32
[data]
plugin = text
path = $scratch/text
[device]
threads = 1
INI
cd "$scratch" || exit 99

# train COMMAND... -- ARGS...: runs `COMMAND zeroth train tiny.ini ARGS` in the run directory $run
train() {
	local words=()
	while [ "$1" != -- ]; do words+=("$1"); shift; done
	shift
	"${words[@]}" "$ZEROTH" train "$scratch/tiny.ini" -o run.dir="$run" "$@"
}
digest() { run=$(mktemp -u run.XXXXXX); train "$@" 2> err | tail -n 1; }

# env_ranks N ARGS...: N processes with the environment of a launcher; their output is in rank.*
env_ranks() {
	local n=$1 r
	shift
	run=$(mktemp -u run.XXXXXX)
	mkdir -p meet
	for r in $(seq 0 $((n - 1))); do
		train env RANK="$r" WORLD_SIZE="$n" timeout 100 -- -o boot.plugin=env -o boot.directory=meet "$@" > "rank.$r" 2>&1 &
	done
	wait
	tail -n 1 rank.0
}

one=$(digest -- -o zero.plugin=stage0)
like "one process prints a digest" "$one" '^digest: losses=[0-9a-f]{16} params=[0-9a-f]{16}$'

is "I1: boot/env, 2 ranks, stage2" "$(env_ranks 2 -o zero.plugin=stage2)" "$one"
is "I1: boot/env, 3 ranks, stage3, where others have met" "$(env_ranks 3 -o zero.plugin=stage3)" "$one"
is "boot/env leaves an empty directory behind" "$(cd meet && find . -mindepth 1)" "./zeroth-$(id -u)"
is "only rank 0 sums up" "$(cat rank.1 rank.2)" ""
slurm() {
	SLURM_PROCID=$1 SLURM_STEP_NUM_TASKS=2 SLURM_LOCALID=$1 timeout 100 "$ZEROTH" train tiny.ini -o run.dir=slurm -o boot.plugin=env \
		-o boot.directory=meet > "rank.$1" 2>&1
}
slurm 1 & slurm 0
wait
is "I1: boot/env knows SLURM's names" "$(tail -n 1 rank.0)" "$one"

# Each rank reads its own configuration: one that differs is found before the first update.
run=$(mktemp -u run.XXXXXX)
for r in 0 1; do
	train env RANK=$r WORLD_SIZE=2 timeout 60 -- -o boot.plugin=env -o boot.directory=meet -o optimizer.lr=1e-$((3 + r)) > "rank.$r" 2>&1 &
done
wait
like "I7: ranks with other settings are refused" "$(cat rank.0 rank.1)" \
	'rank [01] runs another program than rank [01]: its config, model or plugins differ'
ok "and no weights are left" test ! -e "$run/model.safetensors"

# A rank that fails alone, after the ranks have met and before a step.
mkdir there
for r in 0 1 2; do
	RANK=$r WORLD_SIZE=3 timeout 60 "$ZEROTH" train tiny.ini -o run.dir=there -o boot.plugin=env -o boot.directory=meet > "rank.$r" 2>&1 &
done
wait
is "I5: a rank that fails alone says why" "$(cat rank.0)" \
	'zeroth: -o: run directory there exists already; go on from its checkpoint with --resume auto, choose another [run] dir or remove it'
is "I5: the other ranks name it and its cause" "$(cat rank.1 rank.2)" \
	"$(printf 'zeroth: [comm] rank 0 stopped: -o: run directory there exists already; go on from its checkpoint with --resume auto, choose another [run] dir or remove it\n%.0s' 1 2)"

# Two machines of one rank each, as far as the launcher says: neither shares its processors.
for r in 0 1; do
	RANK=$r WORLD_SIZE=2 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 timeout 60 "$ZEROTH" train tiny.ini -o run.dir=apart -o boot.plugin=env \
		-o boot.directory=meet -o device.threads=auto > "rank.$r" 2>&1 &
done
wait
all=$(env -u OMP_NUM_THREADS -u OMP_THREAD_LIMIT nproc)
like "a rank alone on its machine takes all processors" "$(cat rank.0)" "^device .*, $all threads?\$"
is "I1: boot/env, 2 nodes" "$(tail -n 1 rank.0)" "$one"

complain() {
	like "$1" "$(env "${@:3}" timeout 60 "$ZEROTH" train tiny.ini -o run.dir=never -o boot.plugin=env -o boot.timeout=0.5 \
		${directory:+-o boot.directory="$directory"} 2>&1)" "$2"
}
complain "boot/env: several ranks need a place to meet" 'zeroth: \[boot\] nothing says where rank 0 is: set MASTER_ADDR' RANK=0 WORLD_SIZE=2
complain "boot/env: a rank outside the world" 'RANK=2, WORLD_SIZE=2: ranks are numbered from 0' RANK=2 WORLD_SIZE=2
like "torchrun's ranks, which boot/local does not know" \
	"$(RANK=1 WORLD_SIZE=2 timeout 60 "$ZEROTH" train tiny.ini -o run.dir=never 2>&1)" \
	'a launcher started several ranks \(WORLD_SIZE=2\), but \[boot\] found only one'
like "a world without a rank is none" "$(WORLD_SIZE=2 digest --)" '^digest: '
like "ranks of -n, which boot/env does not know" \
	"$(timeout 60 "$ZEROTH" train -n 2 tiny.ini -o run.dir=never -o boot.plugin=env 2>&1)" \
	'-n 2 started 2 ranks, but \[boot\] found 1: leave out -n, or choose plugin = local'
ok "and nothing is left of it" test ! -e never
complain "boot/env: not a number" 'RANK=x is not a number' RANK=x WORLD_SIZE=2
complain "boot/env: a rank without a world" 'RANK is set, but not WORLD_SIZE' RANK=0
complain "boot/env: a place on the node that cannot be" 'rank 0 of 2 cannot be rank 1 of 2 of a node' \
	RANK=0 WORLD_SIZE=2 LOCAL_RANK=1 LOCAL_WORLD_SIZE=2
directory=meet
complain "I5: boot/env names the missing ranks" 'timeout: waited [0-9]+ s for rank 1, 2 to join' RANK=0 WORLD_SIZE=3
complain "I5: boot/env names rank 0 if that is missing" 'timeout: waited [0-9]+ s for rank 0 to come' RANK=1 WORLD_SIZE=3
directory=meet/nowhere
complain "boot/env: no such directory" '\[boot\] directory meet/nowhere: No such file' RANK=0 WORLD_SIZE=2

# ---- MPI
. "$ZR_SRCDIR/tests/lib/mpi_env.sh"
why=$(no_mpi)
if [ -n "$why" ]; then
	skip "training through MPI" "$why"
	done_testing
	exit
fi
# Beside others: where they share a directory for their sessions, one removes it as another makes its own below.
mpi() { TMPDIR=$PWD timeout 120 "$mpirun" -n "$@"; }

# Rank 0 writes the weights for longer than a rank that failed would wait for the others. (mpirun of Open MPI 5.0.7 does
# not survive a second program on its command line.)
slow_writer() {
	local slow="export ZR_BADDISK_SYNC=6 LD_PRELOAD=$ZR_BUILDDIR/tests/doubles/.libs/baddisk.so"
	local one_rank=("$ZEROTH" train ../tiny.ini -o run.dir=run -o boot.plugin=mpi -o comm.plugin=local)
	out=$(mpi 2 bash -c '[ "${OMPI_COMM_WORLD_RANK:-$PMI_RANK}" != 0 ] || '"$slow"'; exec "$@"' - "${one_rank[@]}" 2> err)
	code=$?
	is "ranks that are done wait for one that writes" "$code $(tail -n 1 <<<"$out")" "0 $one"
	[ $code = 0 ] || note "$(cat err)"
}
if [[ $ZR_SANITIZE = *address* ]]; then
	skip "ranks that are done wait for one that writes" "a library cannot be preloaded before that of the address sanitizer"
else
	beside slow_writer
fi

# What a rank sends is not believed: another build of zeroth may have sent it.
forged() { # HOW RANK PATTERN [OPTION]...: the rank sends it, another says so, if there is a pattern
	local out code how="[ \"\${OMPI_COMM_WORLD_RANK:-\$PMI_RANK}\" != $2 ] || export FORGE=$1 LD_PRELOAD=$ZR_BUILDDIR/tests/doubles/.libs/forgedmpi.so"
	out=$(mpi 2 bash -c "$how; exec \"\$@\"" - "$ZEROTH" train ../tiny.ini -o run.dir=run -o boot.plugin=mpi "${@:4}" 2>&1)
	code=$?
	ok "a message of MPI that is forged, $1: the run ends" test $code != 0 -a $code != 124 -a $code -lt 128
	[ -z "$3" ] || like "... and names who sent it" "$out" "zeroth: .*rank $2 sent $3: do all ranks run the same zeroth\\?"
}
if [[ $ZR_SANITIZE = *address* ]]; then
	skip "a message of MPI that is forged" "a library cannot be preloaded before that of the address sanitizer"
else
	for how in total bytes at rest later short; do beside forged $how 0 "what is no value" -o comm.plugin=local; done
	beside forged group 1 "" -o comm.plugin=mpi # read when all are done: no line then
fi

unit() { mpi "$1" "$ZR_BUILDDIR/tests/unit/comm/comm_mpi" "${@:2}" 2>&1; }
# fails NAME WAY PATTERN: what 3 ranks say that fail in a way of comm_mpi's
fails() { like "$1" "$(unit 3 "$2" 3)" "$3"; }
op7='barrier over the world \(step 1, op 7\)'
beside fails "I5: a timeout names the missing rank and where it was seen" late \
	"rank [02]: good: timeout: $op7 of rank [02] waited [0-9.]+ s for rank 1 \\(last seen in barrier over the world \\(step 1, op 0\\)\\)\$"
beside fails "I5: nobody waits for a rank that has left" leave "rank [02]: good: rank 1 has left; $op7 waits for it"
beside fails "I5: differing operations are named with both ranks" differ 'rank [0-2]: good: ranks differ in the number of elements: rank [01] calls all_reduce over the world \(step 1, op 3\) of [56] f32 in 1 segment, rank [12] calls all_reduce .* of [56] f32 in 1 segment; all others call what rank [02] calls'
beside fails "I5: counts of a pair that differ are named on all ranks" counts \
	'rank 1: good: ranks differ in what they exchange: rank 0 sends 5 u8 to rank 2, which expects 6, in exchange over the world \(step 1, op 3\)'
aborts() { is "$1" "$(unit 3 stop 3 | grep -c 'good: rank 1 stopped: no disk$')" 3; }
beside aborts "I5: an abort ends all ranks with its reason"
# good NAME RANKS RANKS_PER_NODE [SUMS]
good() {
	out=$(unit "$2" kinds "${@:3}")
	is "$1" "$(grep -c 'rank [0-3]: good' <<<"$out")" "$2"
	[ "$(grep -c good <<<"$out")" = "$2" ] || note "$out"
}
beside good "every kind over nodes and the world; 64 tickets; boot's values" 4 2
beside good "the same with 3 ranks on one node" 3 3
beside good "the same with sums by MPI, as near as sums of 4 can be" 4 2 mpi

# same NAME DIGEST WORD...: a training with that digest
same() { is "$1" "$(digest "${@:3}")" "$2"; }
for stage in stage0 stage1 stage2 stage3; do
	for n in 2 3; do
		beside same "I1: comm/mpi, $n ranks, $stage" "$one" mpi $n -- -o boot.plugin=mpi -o comm.plugin=mpi -o zero.plugin=$stage
	done
done
beside same "I1: comm/mpi, 4 ranks on 2 played nodes, hpz" "$one" \
	mpi 4 -- -o boot.plugin=mpi -o boot.ranks_per_node=2 -o comm.plugin=mpi -o zero.plugin=hpz
# Ranks that share sequences.
sliced=(-o train.slices=8 -o train.micro_batch_size=1)
one_sliced=$(digest -- "${sliced[@]}")
for mode in keys heads; do
	beside same "I1: comm/mpi, two share a sequence by $mode" "$one_sliced" \
		mpi 4 -- "${sliced[@]}" -o train.sequence_ranks=2 -o train.sequence=$mode -o boot.plugin=mpi -o comm.plugin=mpi -o zero.plugin=stage3
done
beside same "I1: comm/mpi, four share a sequence" "$one_sliced" \
	mpi 4 -- "${sliced[@]}" -o train.sequence_ranks=4 -o boot.plugin=mpi -o boot.ranks_per_node=2 -o comm.plugin=mpi -o zero.plugin=stage2
# Summed on each rank first. Where ranks share memory a home folds; through MPI comm adds.
local=(-o train.reduction=local)
for n in 2 3; do
	one_local=$(digest -- -n $n "${local[@]}")
	for stage in stage0 stage2 stage3; do
		beside same "I1: comm/mpi adds for $n ranks, $stage" "$one_local" \
			mpi $n -- "${local[@]}" -o boot.plugin=mpi -o comm.plugin=mpi -o zero.plugin=$stage
	done
done
# Sums of two have one result in any order; of four MPI may find another.
sums=("${local[@]}" -o boot.plugin=mpi -o comm.plugin=mpi -o zero.plugin=stage2 -o optimizer.plugin=sgd)
value() { tr -d '\n' < "$run/summary.json" | sed -n "s/.*\"$1\": \"\{0,1\}\([^\",]*\).*/\1/p"; }
in_order() { same "sums = mpi: two ranks as in order" "$(digest mpi 2 -- "${sums[@]}")" mpi 2 -- "${sums[@]}" -o comm.sums=mpi; }
beside in_order
for how in ordered mpi; do
	run=run.$how
	out=$(train mpi 4 -- "${sums[@]}" -o comm.sums=$how)
	losses+=" $(value last_loss)"
	digests+=" $(tail -n 1 <<<"$out")"
	received=$(tr -d ' \n' < $run/summary.json | grep -o '"received_bytes_per_step":{[^}]*}')
	like "I2: sums = $how: a rank receives what was planned" "$received" ':\{"planned":([1-9][0-9]*),"measured":\1\}$'
done
is "sums = mpi: four ranks' last loss as in order, but for 3 roundings of fp32" \
	"$(awk '{ d = $1 > $2 ? $1 - $2 : $2 - $1; print (d <= 3 * $1 / 2^24 ? "near" : $0) }' <<<"$losses")" near
like "a run says who adds" "$out" '^sums    over ranks by .*: bits depend on its order$'
like "and so does its summary" "sums    over ranks by $(value sums_over_ranks): bits depend on its order" "^$(grep '^sums' <<<"$out")\$"
if [[ $out = *'by Open MPI'* ]]; then
	ok "sums = mpi: four ranks, other bits" test "$(awk '{ print ($3 == $6 ? "same" : "other") }' <<<"$digests")" = other
else
	skip "sums = mpi: four ranks, other bits" "another library may add in rank order"
fi
for no in train.reduction=slots train.communication_data_type=bf16; do
	like "I7: sums = mpi with $no is refused" "$(timeout 60 "$ZEROTH" plan -n 2 tiny.ini "${sums[@]}" -o boot.plugin=local -o comm.sums=mpi \
		-o $no 2>&1)" '\[comm\] sums: .* would add nothing: .*set \[train\] reduction = local and communication_data_type = fp32, or sums = ordered$'
done
beside same "I1: boot/mpi with comm/local" "$one" mpi 2 -- -o boot.plugin=mpi -o zero.plugin=stage1
beside same "I1: boot/env with comm/mpi" "$one" \
	mpi 2 -- -o boot.plugin=env -o boot.directory=. -o comm.plugin=mpi -o zero.plugin=stage3

complain() {
	run=$(mktemp -u run.XXXXXX)
	out=$(train mpi "$2" -- "${@:4}" 2>&1)
	like "$1" "$out" "$3"
}
beside complain "a launcher that [boot] does not know" 2 'zeroth: a launcher started several ranks \(.*=2\), but \[boot\] found only one' -o comm.plugin=mpi
beside complain "nodes that do not fit" 3 'zeroth: .*\[boot\] ranks_per_node = 2: 3 ranks do not fill nodes of that size' -o boot.plugin=mpi -o boot.ranks_per_node=2
one_fails() {
	mkdir taken
	out=$(mpi 3 "$ZEROTH" train ../tiny.ini -o run.dir=taken -o boot.plugin=mpi -o comm.plugin=mpi 2>&1)
	code=$?
	like "I5: a rank that fails alone says why, and all end" "$out" 'run directory taken exists already'
	ok "and the launcher does not call that a success" test "$code" != 0 -a "$code" != 124
}
beside one_fails
rm -rf meet
mkdir meet
like "processes that MPI does not know" "$(env_ranks 2 -o comm.plugin=mpi)" '\[comm\] MPI has 1 process, boot says 2 ranks: start them'
done_testing
