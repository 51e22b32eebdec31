#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Ranks that meet at a port of rank 0, as torchrun, srun or a script starts them: the same bits as one process, and what happens
# where somebody is missing, dies, comes twice, does not know the token, or sends what is no rank's.
. "$ZR_SRCDIR/tests/lib/tap.sh" || exit 99
. "$ZR_SRCDIR/tests/lib/fixture.sh" || exit 99
. "$ZR_SRCDIR/tests/lib/launched.sh" || exit 99
cd "$scratch" || exit 99

tiny text 1 4 3 <<INI
[device]
threads = 1
INI
# rank R N [OPTION]...: becomes rank R of N
rank() {
	local r=$1 n=$2
	shift 2
	RANK=$r WORLD_SIZE=$n MASTER_ADDR=${address-127.0.0.1} MASTER_PORT=$port exec timeout 120 "$ZEROTH" train tiny.ini \
		-o run.dir="${run:-never}" -o boot.plugin=env -o train.eval_every=0 "$@"
}
# all NAME N [OPTION]...: a run of N ranks, the last one first; output in NAME.R
all() {
	local run=$1 n=$2 r
	shift 2
	for ((r = n - 1; r >= 0; r--)); do (rank $r "$n" "$@") > "$run.$r" 2>&1 & done
	wait
}
port=none
last() { tail -n 1 "$1" | sed "s/$port/PORT/"; }
# said R N [OPTION]...: the last line of that rank; an option of its own is not told from the launcher's word
said() { (rank "$@") 2>&1 | tail -n 1 | sed "s/$port/PORT/; s/^zeroth: -o: /zeroth: /"; }
# beside_rank0 N [OPTION]...: rank 0 of N in the background, as `first`, its output in first.out; returns once it listens
beside_rank0() {
	local hex n=$1
	printf -v hex ':%04X ' $port
	(run=first$port rank 0 "$@") > first.out 2>&1 &
	first=$!
	await $first grep -qs "$hex" /proc/net/tcp /proc/net/tcp6
}

# connected N: whether rank 0 has that many connections, each of which is seen at both ends
connected() { [ "$(grep -hs "$(printf ':%04X ' $port)" /proc/net/tcp /proc/net/tcp6 | grep -c ' 01 ')" -ge $((2 * $1)) ]; }
# joins NAME: as rank 1 of 2 does, after which rank 0 has the digest
joins() {
	(run=second$port rank 1 2) > second.out 2>&1
	wait $first
	is "$1" "$(digest_of first.out)" "$digest"
}

one_process
digest=$one

# ---- they meet -------------------------------------------------------------------
for n in 2 4; do
	new_port
	all "met$n" $n
	is "I1: $n ranks have the digest of one" "$(digest_of met$n.0)" "$digest"
done
new_port
address=localhost all named 2
is 'the machine of rank 0 has a name' "$(digest_of named.0)" "$digest"

new_port
TORCHELASTIC_USE_AGENT_STORE=True all torchrun 2 &
await $! grep -qs "$(printf ':%04X ' $((port + 1)))" /proc/net/tcp
is 'with the store of torchrun on the port, ranks meet on the next one' "$?" 0
wait
is '... and train' "$(digest_of torchrun.0)" "$digest"

slurm() { # R
	env SLURM_PROCID=$1 SLURM_STEP_NUM_TASKS=2 SLURM_JOB_ID=$((RANDOM * 7 + 3)) SLURM_STEP_ID=1 "${@:2}" timeout 120 "$ZEROTH" train tiny.ini \
		-o run.dir=slurm -o boot.plugin=env -o train.eval_every=0 2>&1 | tail -n 1
}
is 'Slurm says neither host nor list: refused' "$(slurm 0)" \
	'zeroth: [boot] nothing says where rank 0 is: set MASTER_ADDR, or [boot] address, or give a `directory` that all ranks see'
job=$RANDOM
slurm() { # R
	env SLURM_PROCID=$1 SLURM_STEP_NUM_TASKS=2 SLURM_JOB_ID=$job SLURM_STEP_ID=1 SLURM_STEP_NODELIST='127.0.0.[1-3],other' \
		timeout 120 "$ZEROTH" train tiny.ini -o run.dir=slurm -o boot.plugin=env -o train.eval_every=0 2>&1 | tail -n 1
}
slurm 1 > slurm.1 &
is 'srun alone says enough' "$(slurm 0)" "$digest"
wait

# ---- somebody is missing ---------------------------------------------------------
new_port
is 'rank 0 alone names who is missing' "$(said 0 3 -o boot.timeout=0.3)" \
	'zeroth: [boot] timeout: waited 0 s for rank 1, 2 to join'
is 'a rank alone names where it looked' "$(said 1 2 -o boot.timeout=0.3 | sed 's/waited [01] s/waited/')" \
	'zeroth: [boot] timeout: waited for rank 0 at 127.0.0.1, port PORT: Connection refused'
new_port
beside_rank0 3 -o boot.timeout=2
is 'who gives up tells the others' "$(said 1 3)" \
	'zeroth: [boot] rank 0 stopped: timeout: waited 2 s for rank 2 to join'
wait

new_port
beside_rank0 3
(rank 1 3) > second.out 2>&1 &
second=$!
await $second connected 2
pkill -KILL -P $second zeroth
pkill -KILL -P $second timeout
wait $first
like 'a rank that is killed ends the others, who name it' "$(last first.out)" \
	'^zeroth: \[boot\] rank 1 on .* has ended, or its connection was cut$'
wait

# ---- who does not belong there ---------------------------------------------------
new_port
beside_rank0 2 -o boot.timeout=3
is 'another number of ranks' "$(said 2 3)" \
	'zeroth: [boot] a rank 2 came that is one of 3 ranks, where rank 0 is one of 2'
wait
is '... of which rank 0 speaks, too' "$(last first.out)" \
	'zeroth: [boot] timeout: waited 3 s for rank 1 to join; it has refused one: a rank 2 came that is one of 3 ranks, where rank 0 is one of 2'

new_port
beside_rank0 3 -o boot.timeout=3
(rank 1 3) > second.out 2>&1 &
sleep 0.5
like 'a rank that comes twice' "$(said 1 3)" \
	'^zeroth: \[boot\] rank 1 has come already, from .*: give each training its own port$'
like 'another job of the launcher' "$(export TORCHELASTIC_RUN_ID=other; said 2 3)" \
	'^zeroth: \[boot\] rank 0 is of another job of the launcher: give each its own port$'
is 'a second training on the port' "$(said 0 2)" \
	'zeroth: [boot] port PORT of 127.0.0.1 is in use, perhaps by another training: choose another one with MASTER_PORT or [boot] port'
wait

new_port
unknown='its token is not that of rank 0: both have \[boot\] token, or ZEROTH_TOKEN, or neither$'
ZEROTH_TOKEN=ours beside_rank0 2
for token in theirs our ours2 ''; do
	like "a wrong token: '$token'" "$(export ZEROTH_TOKEN=$token; said 1 2)" "$unknown"
done
like 'no token' "$(said 1 2)" "$unknown"
ZEROTH_TOKEN=ours joins 'the right one is let in afterwards'

echo ours > token
chmod 640 token
new_port
like 'a token that others may read' "$(said 0 2 -o boot.token=token)" \
	'token token: its mode is 0640, and others may read it or it is no regular file: run chmod 600 on it$'
chmod 600 token
: > empty && chmod 600 empty
like 'an empty one' "$(said 0 2 -o boot.token=empty)" 'token empty: its first line is empty$'
new_port
all filed 2 -o boot.token=token
is 'a token of a file' "$(digest_of filed.0)" "$digest"
is '... is in no file of the run' "$(grep -rl ours filed)" ''

# ---- what is no rank's -----------------------------------------------------------
new_port
beside_rank0 2
for i in $(seq 1 60); do
	(
		case $((i % 3)) in
		0) printf 'GET / HTTP/1.1\r\nHost: x\r\n\r\n' ;;
		1) head -c $((i * 97)) /dev/urandom ;;
		2) printf '1TrZ\x02\x00\xff\xff\xff\xff\xff\xff'; head -c 300 /dev/urandom ;;
		esac > "/dev/tcp/127.0.0.1/$port"
	) 2> /dev/null
done
exec {open[0]}<> "/dev/tcp/127.0.0.1/$port"
joins 'after garbage on the port a run is as without'
exec {open[0]}>&-

new_port
beside_rank0 2
for i in $(seq 1 80); do exec {open[i]}<> "/dev/tcp/127.0.0.1/$port"; done
joins 'strangers who say nothing cannot keep ranks out for long'
for i in $(seq 1 80); do exec {open[i]}>&-; done

is 'an interface that is not there' "$(said 0 2 -o boot.interface=nosuch0)" \
	'zeroth: [boot] interface nosuch0: this machine has none of that name with an address; `ip address` lists them'
new_port
all lo 2 -o boot.interface=lo
is 'one that is there' "$(digest_of lo.0)" "$digest"
is 'no port' "$(env RANK=0 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 "$ZEROTH" train tiny.ini -o boot.plugin=env -o run.dir=never 2>&1 | tail -n 1)" \
	'zeroth: [boot] nothing says on which port ranks meet: set MASTER_PORT, or [boot] port, or give a `directory` that all of them see'
is 'nothing is left of the runs that failed' "$(ls -d never 2> /dev/null)" ''
done_testing
