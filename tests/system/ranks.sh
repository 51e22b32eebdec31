#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# I5: real trainings of several ranks that are killed, stopped, hung and interrupted end by themselves, soon, with the
# right name, and leave no process and no shared memory. ZR_KILLS: how many random kills (5).
. "$ZR_SRCDIR/tests/lib/tap.sh" || exit 99
. "$ZR_SRCDIR/tests/lib/fixture.sh" || exit 99
cd "$scratch" || exit 99

for i in $(seq 1 3000); do echo "line $i of a text that is long enough"; done > text
cat > tiny.ini <<INI
[train]
train_batch_size = 12
micro_batch_size = 1
steps = 1000000
[model]
plugin = gpt2
layers = 2
heads = 2
width = 32
context = 32
[data]
plugin = text
path = $scratch/text
[zero]
plugin = stage3
INI
# What other programs leave there is theirs, and so are the directories of other tests.
shm_ours() { ls -A /dev/shm 2>/dev/null | grep -i -e zeroth -e '^zr' | grep -v '^zeroth-[a-z]*[.-]......$' || true; }

under=() # a command that runs the training
# start N [ARGUMENT]...: a training in the background; waits for its first steps. Sets $run and ${rank[@]}.
start() {
	local n=$1
	shift
	rm -rf r
	: > out
	# a shell ignores SIGINT in the background
	"${under[@]}" env --default-signal=INT "$ZEROTH" train -n "$n" "$scratch/tiny.ini" -o run.dir=r -o run.log_every=1 "$@" > out 2> err &
	run=$!
	await $run grep -q '^step [0-9]' out
	# Forked in order: ascending, as long as process numbers have not wrapped around.
	rank=($(children $run))
}

# finish SECONDS: waits for the end, kills what hangs; sets $code and $last.
finish() {
	timeout "$1" tail --pid=$run -s 0.02 -f /dev/null || kill -9 $run
	wait $run 2>/dev/null
	code=$?
	last=$(tail -n 1 err)
}

# What every rank says alike is the last line, and the only one.
once() {
	err=$("$ZEROTH" train -n 4 tiny.ini -o run.dir=r3 "${@:4}" 2>&1)
	is "$1: exit $2" "$?" "$2"
	like "$1 is said once, with the rank" "$err" "^zeroth: rank [0-3] failed with code $2: $3\$"
	is "$1 is said once" "$(wc -l <<<"$err")" 1
}

left() { running "${rank[@]}"; }

start 4
kill -9 "${rank[2]}"
finish 120
is "kill -9 of a rank: exit 4" "$code" 4
is "kill -9 of a rank is the last line" "$last" "zeroth: rank 2 was killed by SIGKILL (Killed)"
is "no rank is left" "$(left)" ""

stopped() {
	start 4 -o comm.timeout=4
	kill -STOP "${rank[1]}"
	finish 120
	is "a stopped rank: exit 4" "$code" 4
	like "a stopped rank is named, and what it was doing" "$last" \
		'^zeroth: rank [023] failed with code 4: .*timeout: [a-z_]+ over the world \(step [0-9]+, op -?[0-9]+.*\) of rank [023] waited [0-9.]+ s for .*rank 1 \('
	is "no stopped rank is left" "$(left)" ""
}
beside stopped

start 3
kill -INT $run
finish 120
is "SIGINT to the supervisor: exit 130" "$code" 130
like "an interrupted run ends whole" "$(tail -n 1 out)" '^digest: '
ok "an interrupted run has its weights" test -f r/model.safetensors

# What one rank alone has heard all know after the next step.
for r in 0 2; do
	start 3 -o train.steps=1000000 -o checkpoint.every=1000000
	kill -TERM "${rank[r]}"
	finish 120
	is "SIGTERM to rank $r alone ends all" "$code" 130
	is "and saves the last step" "$(sed 's/^step-0*//' r/checkpoints/latest)" "$(grep '^step ' out | tail -n 1 | sed 's/^step \([0-9]*\).*/\1/')"
done

start 3
kill -9 $run
wait $run 2>/dev/null
for _ in $(seq 6000); do [ -z "$(left)" ] && break; sleep 0.02; done
is "ranks die with their supervisor" "$(left)" ""

bad=
for i in $(seq 1 "${ZR_KILLS:-5}"); do
	n=$((RANDOM % 3 + 2)) victim=$((RANDOM % n))
	start $n -o zero.plugin=stage$((RANDOM % 4))
	sleep 0.0$((RANDOM % 100))
	kill -9 "${rank[$victim]}"
	finish 120
	[ "$code" = 4 ] && [ "$last" = "zeroth: rank $victim was killed by SIGKILL (Killed)" ] && [ -z "$(left)" ] ||
		bad+="rank $victim of $n: code $code: $last"$'\n'
done
is "random kills always end the run with the right name" "$bad" ""

is "nothing of ours is left in /dev/shm" "$(shm_ours)" ""

err=$("$ZEROTH" train -n 3 tiny.ini -o model.hieght=3 2>&1)
is "a wrong configuration: exit 2" "$?" 2
is "a wrong configuration is said once" "$(wc -l <<<"$err")" 1
err=$(SLURM_NTASKS=4 SLURM_STEP_NUM_TASKS=4 "$ZEROTH" train -n 3 tiny.ini 2>&1)
is "two launchers: exit 2" "$?" 2
is "two launchers are refused" "$err" \
	"zeroth: -n 3 starts ranks, but another launcher has done so (SLURM_STEP_NUM_TASKS=4): drop one of the two"
err=$(SLURM_NTASKS=4 SLURM_PROCID=0 "$ZEROTH" train -n 2 tiny.ini -o run.dir=batch -o train.steps=1 2>&1 > out)
is "a batch script of SLURM that srun did not start is no launcher: exit 0" "$? $err" "0 "
for n in 257 5000; do
	err=$("$ZEROTH" train -n $n tiny.ini 2>&1)
	is "more ranks than one machine connects" "$? $err" "2 zeroth train: -n $n: expected a number of ranks in [1, 256]"
done
"$ZEROTH" train -n 2 tiny.ini -o run.dir=many -o train.steps=1 > out
want=$("$ZEROTH" sample many -n 8 -t 0 2>&1)
sed -i 's/^ranks_per_node = .*/ranks_per_node = 65536/' many/config.ini # as boot/mpi writes auto
is "a run that boot/mpi started is sampled by boot/local" "$("$ZEROTH" sample many -n 8 -t 0 2>&1)" "$want"
like "... and evaluated" "$("$ZEROTH" eval many -n 2 2>&1)" '^  digest '
once "nodes that are not full" 2 '.*ranks_per_node = 3: 4 ranks do not fill nodes of that size' -o boot.ranks_per_node=3
once "a batch that ranks cannot share" 2 '.*train_batch_size = 6 is not a multiple of micro_batch_size = 2 times 4 ranks; change one of them' \
	-o train.train_batch_size=6 -o train.micro_batch_size=2
once "a wrong value" 2 '-o: \[model\] heads = 3 does not divide width = 32' -o model.heads=3
once "a model that does not fit" 3 'does not fit: .* for all ranks here .*' -o model.width=100000 -o model.layers=1000
once "a batch that the ranks do not divide" 2 '.*train_batch_size.*' -o train.train_batch_size=13
# The processors and the memory of a machine are those of all its ranks, however many nodes they play.
share=$(($(env -u OMP_NUM_THREADS -u OMP_THREAD_LIMIT nproc) / 2))
for nodes in 1 2; do
	out=$("$ZEROTH" train -n 2 tiny.ini -o run.dir=threads$nodes -o train.steps=1 -o boot.ranks_per_node=$nodes)
	like "each of 2 ranks takes half of the processors, nodes of $nodes" "$out" \
		"^device .*, $((share > 1 ? share : 1)) threads?\$"
done
need() {
	"$ZEROTH" plan --json "$@" tiny.ini -o zero.plugin=stage0 -o train.train_batch_size=24 |
		sed -n 's/.*"needed": \([0-9]*\),/\1/p'
}
one=$(need -n 4 -o boot.ranks_per_node=4)
many=$(need -n 4 -o boot.ranks_per_node=1)
ok "4 nodes of one rank each need the memory of 4 ranks, as one node does: $many, $one bytes" test "$many" -gt $((one / 2))
seq 1 2000000 > large
held=$(($(stat -c %s large) - $(stat -c %s text)))
more=$(need -n 4 -o boot.ranks_per_node=4 -o data.path=large)
ok "what plugins hold is needed by every rank: data of $held bytes more, $one and $more bytes" \
	test $((more - one)) -gt $((3 * held))

mkdir r3
once "an error of one rank" 2 '-o: run directory r3 exists already.*'
rmdir r3

# A defect in one of 4 ranks, from step 3 on; see planted.c.
build planted
planted() {
	PLANTED=$1 start 4 -o comm.plugin=./planted.so -o comm.timeout=60 -o zero.plugin="$2"
	finish 120
	is "planted $1, $2: exit 4" "$code" 4
	like "planted $1, $2: the last line says who and what" "$last" "^zeroth: rank $3\$"
	is "planted $1, $2: no rank is left" "$(left)" ""
	[ "$1" = memory ] || is "planted $1, $2: no second line" "$(wc -l <err)" 1
}
for case in "kind: the kind of operation: barrier" "tag: the place in the program: [a-z_]+" "type: the type of elements: [a-z_]+" \
	"count: the number of elements: [a-z_]+"; do
	IFS=: read -r what differs call <<<"$case"
	odd="rank 2 calls${call} over the world \\(step 3, op -?[0-9]+.*\\).*"
	both="(rank [01] calls .*, $odd|$odd, rank 3 calls .*); all others call what rank [013] calls"
	planted "$what" stage3 "[0-3] failed with code 4: \\[comm\\] ranks differ in${differs}: $both"
done
planted fail stage0 "2 failed with code 4: \\[comm\\] the disk is full; rank 2, step 3, [a-z ]+( \\(unit [a-z_0-9.]+\\))?"
planted fail stage3 "2 failed with code 4: \\[comm\\] the disk is full; rank 2, step 3, [a-z ]+( \\(unit [a-z_0-9.]+\\))?"

if group=$(memory_group 1G 2>&1); then
	under=(bash -c 'echo $$ > "$0/cgroup.procs" && exec "$@"' "$group")
	planted memory stage3 "2 was killed by the kernel: out of memory"
	under=()
	rmdir "$group"
else
	skip "a rank that the kernel kills for memory" "$(head -n 1 <<<"$group")"
fi

is "nothing of ours is left in /dev/shm" "$(shm_ours)" ""

done_testing
