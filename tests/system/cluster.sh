#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The files of conf/cluster, each run by the launcher that it is for, which is played here except MPI's: the bits of one process
# (I1), and what they do after a death and when their time is up (I6). zeroth-cluster(7) tells of them.
. "$ZR_SRCDIR/tests/lib/tap.sh" || exit 99
. "$ZR_SRCDIR/tests/lib/fixture.sh" || exit 99

cluster=$ZR_SRCDIR/conf/cluster
cd "$scratch" || exit 99
for name in $(compgen -e | grep -E '^(SLURM_|OMPI_|PMI|MASTER_|RANK$|WORLD_SIZE$|LOCAL_|ZEROTH_TOKEN$)'); do unset "$name"; done
tiny text 1 16 200 <<INI
[device]
threads = 1
[checkpoint]
every = 50
[run]
log_every = 1
INI
one_process
few=(-o train.steps=8) # where nothing is done to it
few_steps=$("$ZEROTH" train tiny.ini -o run.dir=few -o train.eval_every=0 "${few[@]}" 2>&1 | grep '^digest:')
host=(-o comm.plugin=tcp -o train.eval_every=0) # a comm that every machine has

mkdir bin
ln -s "$ZEROTH" bin/zeroth
export PATH=$PWD/bin:$PATH
player() { cat > "bin/$1" && chmod 755 "bin/$1"; }
digest() { grep '^digest:' out || tail -n 3 out; }

# ---- Slurm ----
player srun <<'SH'
#!/bin/bash
# srun of two tasks on one machine; who is asked to end asks the tasks
while [[ $1 == -* ]]; do shift; done
trap 'kill -TERM "${task[@]}"' TERM
for r in 0 1; do
	SLURM_PROCID=$r SLURM_LOCALID=$r SLURM_STEP_NUM_TASKS=2 SLURM_STEP_ID=0 SLURM_STEP_NODELIST=127.0.0.1 "$@" &
	task[r]=$!
done
echo "${task[@]}" > tasks
worst=0
for t in "${task[@]}"; do
	while :; do
		wait "$t"
		code=$?
		kill -0 "$t" 2> /dev/null || break
	done
	[ $code -le $worst ] || worst=$code
done
exit $worst
SH
player scontrol <<'SH'
#!/bin/bash
echo "$@" > requeued
SH

# job [argument]...: the job of one number, as often as it is started
job() { SLURM_JOB_ID=$$ bash "$cluster/slurm.sbatch" tiny.ini "${host[@]}" "$@" > out 2>&1; }
# hurt_at_7 COMMAND...: a job, and what is done to it after step 7; its exit code in `code`
hurt_at_7() {
	rm -f out requeued
	job -o train.steps=1000000 &
	await $! grep -qs '^step 7/' out
	"$@"
	wait $!
	code=$?
}
job
is 'I1: slurm.sbatch' "$(digest)" "$one"
is '... does not come again' "$(ls requeued 2>&1)" "ls: cannot access 'requeued': No such file or directory"
rm -r runs

time_is_up() { kill -TERM $(cat tasks); }
hurt_at_7 time_is_up
is 'I6: its time is up: exit code, requeued' "$code $(cat requeued)" "130 requeue $$"
SLURM_RESTART_COUNT=1 job
like '... goes on where it was' "$(cat out)" '^resumed +after step [0-9]+'
is '... to the same bits' "$(digest)" "$one"
rm -r runs

a_rank_dies() { kill -KILL "$(cut -d' ' -f2 tasks)"; }
hurt_at_7 a_rank_dies
is 'I5: a rank is killed: requeued' "$(cat requeued)" "requeue $$"
SLURM_RESTART_COUNT=1 job
is 'I6: ... and it goes on to the same bits' "$(digest)" "$one"
rm -rf runs requeued
job -o train.steps=x
is 'what a rank refuses ends the job' "$? $(ls requeued 2>&1 | grep -c 'No such file')" '2 1'

# An agent that zeroth launch starts: of what it prints srun passes on whole lines, but for --unbuffered.
player srun <<'SH'
#!/bin/bash
unbuffered=
while [[ $1 == -* ]]; do
	[ "$1" != --unbuffered ] || unbuffered=yes
	shift
done
[ -z "$unbuffered" ] || exec "$@"
"$@" | LC_ALL=C sed -u ''
SH
timeout 60 "$ZEROTH" launch --hosts a,b --through srun tiny.ini -o boot.address=127.0.0.1 -o train.eval_every=0 "${few[@]}" > out 2>&1
is 'I1: zeroth launch --through srun' "$(digest)" "$few_steps"
rm -rf runs

# ---- torchrun ----
player torchrun <<'SH'
#!/bin/bash
# torchrun on one of two machines, with a rank on each
while [ "$1" != --no-python ]; do
	case $1 in --rdzv-endpoint=*) MASTER_ADDR=${1#*=} ;; esac
	shift
done
export MASTER_ADDR=${MASTER_ADDR%:*} MASTER_PORT=$PORT TORCHELASTIC_USE_AGENT_STORE=True
export RANK=$MACHINE WORLD_SIZE=2 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1
exec "${@:2}"
SH
export PORT=$((20000 + $$ % 10000)) ZEROTH_TOKEN=secret
for machine in 1 0; do
	MACHINE=$machine bash "$cluster/torchrun.sh" 127.0.0.1 tiny.ini "${host[@]}" "${few[@]}" > out.$machine 2>&1 &
done
wait
cp out.0 out
is 'I1: torchrun.sh' "$(digest)" "$few_steps"

# ---- Kubernetes ----
# what a container runs, and its variables
awk '/^ *- \|$/ { on = 1; next } on && /^        [a-z]/ { exit } on' "$cluster/kubernetes.yaml" |
	sed 's|/conf/train.ini|tiny.ini|; s|/shared/|pods/|; s|comm.plugin=nccl|comm.plugin=tcp -o train.steps=8|' > pod.sh
value() { sed -n "/name: $1\$/{n;s/.*value: \"*\([^\"]*\)\"*\$/\1/p}" "$cluster/kubernetes.yaml"; }
pods=$(value WORLD_SIZE)
is 'as many pods as ranks' "$(sed -n 's/^ *\(completions\|parallelism\): //p' "$cluster/kubernetes.yaml" | xargs)" "$pods $pods"
mkdir pods
for ((pod = pods - 1; pod >= 0; pod--)); do
	JOB_COMPLETION_INDEX=$pod WORLD_SIZE=$pods MASTER_ADDR=127.0.0.1 MASTER_PORT=$((PORT + 3)) sh pod.sh > pod.$pod 2>&1 &
done
wait
cp pod.0 out
is 'I1: kubernetes.yaml' "$(digest)" "$few_steps"

# ---- ssh ----
player ssh <<'SH'
#!/bin/sh
# ssh -o OPTION HOST COMMAND...: the other machine is this one
shift 3
exec sh -c "$*"
SH
bash "$cluster/ssh.sh" a,b tiny.ini -o boot.address=127.0.0.1 -o train.eval_every=0 "${few[@]}" > out 2>&1
is 'I1: ssh.sh' "$(digest)" "$few_steps"

# ---- MPI ----
if [ -n "$MPIRUN" ] && [ -e "$ZEROTH_PLUGIN_PATH/comm/mpi.so" ]; then
	export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
	echo 'localhost slots=2' > hostfile
	ln -s "$(command -v "$MPIRUN")" bin/mpirun
	bash "$cluster/mpirun.sh" hostfile tiny.ini -o train.eval_every=0 "${few[@]}" > out 2>&1
	is 'I1: mpirun.sh' "$(digest)" "$few_steps"
	timeout 60 "$ZEROTH" launch --hosts localhost:2 --through mpirun tiny.ini -o train.eval_every=0 "${few[@]}" > out 2>&1
	is 'I1: zeroth launch --through mpirun' "$(digest)" "$few_steps"
else
	skip 'I1: mpirun.sh' 'needs mpirun, and comm/mpi'
	skip 'I1: zeroth launch --through mpirun' 'needs mpirun'
fi

# ---- the page names what there is ----
for file in "$cluster"/*; do
	like "zeroth-cluster(7) tells of ${file##*/}" "$(cat "$ZR_SRCDIR/man/zeroth-cluster.7")" "^\.Pa ${file##*/}"
done
done_testing
