#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Three machines without MPI, which network namespaces play: the same bits (I1), and what becomes of a training when a
# machine goes or a cable is pulled out (I5).
. "$ZR_SRCDIR/tests/lib/tap.sh" || exit 99
. "$ZR_SRCDIR/tests/lib/fixture.sh" || exit 99
. "$ZR_SRCDIR/tests/lib/hosts.sh" || exit 99

why=$(no_hosts)
[ -z "$why" ] || skip_all "$why"
make_hosts 5 > "$scratch/why" 2>&1 || skip_all "network namespaces are not allowed here: $(head -n 1 "$scratch/why")"
cd "$scratch" || exit 99
unset MASTER_ADDR MASTER_PORT ZEROTH_TOKEN RANK WORLD_SIZE

tiny text 2 24 4 <<INI
[device]
threads = 1
INI
one_process

# over NAME PER_HOST OPTION...: a training over $count hosts from $first on, in the background; process[RANK], output in
# NAME.RANK. Rank 0's machine is $master; host N has the file names.N, if that is there, as its /etc/hosts.
first=0 count=3 master=$net.2
over() {
	local name=$1 per=$2 rank host world
	world=$((per * count))
	process=()
	for ((rank = world - 1; rank >= 0; rank--)); do
		host=$((first + rank / per))
		(on_host $host env RANK=$rank WORLD_SIZE=$world LOCAL_RANK=$((rank % per)) LOCAL_WORLD_SIZE=$per MASTER_ADDR="$master" MASTER_PORT=29500 \
			sh -c '[ ! -e names.$0 ] || mount --bind names.$0 /etc/hosts; exec "$@"' $host "$ZEROTH" train "$scratch/tiny.ini" -o run.dir="$name" -o boot.plugin=env -o boot.timeout=60 -o comm.plugin=tcp -o train.eval_every=0 "${@:3}") > "$name.$rank" 2>&1 &
		process[$rank]=$!
	done
}
same() { # NAME PER_HOST OPTION...
	one_in 3 || return 0
	over run "${@:2}"
	wait ${process[@]}
	is "I1: $1" "$(grep '^digest:' run.0)" "$one"
	[ "$(grep '^digest:' run.0)" = "$one" ] || note "$(tail -qn 3 run.*)"
	rm -rf run run.*
}
# A cable is out for a while: TCP sends again.
cut() {
	first=3 count=2 master=$net.5
	"$ZEROTH" train "$scratch/tiny.ini" -o run.dir=long -o train.eval_every=0 -o train.steps=40 > long.out 2>&1
	over cut 1 -o train.steps=40 -o run.log_every=1
	await ${process[0]} grep -q '^step 1/' cut.0
	link_of 4 down
	sleep 5
	link_of 4 up
	wait ${process[@]}
	is 'I1: a cable that is out for 5 s' "$(grep '^digest:' cut.0)" "$(grep '^digest:' long.out || echo no digest)"
}
beside cut

for stage in stage0 stage1 stage2 stage3; do same "three hosts, $stage" 1 -o zero.plugin=$stage; done
for stage in stage3 hpz mics; do same "2 ranks on each of three hosts, $stage" 2 -o zero.plugin=$stage; done

# Ranks of two hosts share sequences, by keys and by heads.
plain=$one
sliced=(-o train.slices=8 -o train.micro_batch_size=1)
"$ZEROTH" train tiny.ini "${sliced[@]}" -o run.dir=sliced -o train.eval_every=0 > sliced.out 2>&1 || exit 99
one=$(grep '^digest:' sliced.out)
count=2
for mode in keys heads; do
	same "two hosts share a sequence, by $mode" 1 "${sliced[@]}" -o train.sequence_ranks=2 -o train.sequence=$mode -o zero.plugin=stage3
done
same '4 ranks of two hosts share a sequence' 2 "${sliced[@]}" -o train.sequence_ranks=4 -o zero.plugin=stage2
same '... two of each, and their sums are added there' 2 "${sliced[@]}" -o train.sequence_ranks=2 -o zero.plugin=hpz
one=$plain count=3

# Debian leads a machine's own name to 127.0.1.1, where no other machine's rank can come.
for host in 0 1 2; do
	{
		echo "127.0.1.1 ${hosts[host]}"
		for other in 0 1 2; do [ $other = $host ] || echo "$net.$((other + 2)) ${hosts[other]}"; done
	} > names.$host
done
master=${hosts[0]}
same "a machine's own name leads to loopback" 2
same '... and rank 0 listens on an interface' 2 -o boot.interface=eth0
echo "$net.2 ${hosts[0]}" >> names.0
same '... or to loopback first' 2
rm names.*
master=localhost
over lost 1 -o boot.timeout=2
wait ${process[@]}
like 'where each machine reaches itself, what to do is said' "$(tail -n 1 lost.1)" \
	'timeout: waited . s for rank 0 at localhost, port 29500: .*; each machine reaches itself there: MASTER_ADDR or \[boot\] address says how'
like '... and rank 0 says where it listens' "$(cat lost.0)" 'localhost leads to this machine alone, .* on port 29500 of all interfaces; \[boot\] interface'
master=$net.2

# What ranks of a host send each other does not go through its network if they may read each other's memory.
loopback() { # OPTION...: bytes that went through the loopback device of the first host in a training
	local before
	before=$(on_host_0 cat /sys/class/net/lo/statistics/tx_bytes)
	over run 2 -o zero.plugin=stage0 "$@"
	wait ${process[@]}
	echo $(($(on_host_0 cat /sys/class/net/lo/statistics/tx_bytes) - before))
	rm -rf run run.*
}
on_host_0() { (on_host 0 "$@"); }
sent=$(loopback -o comm.cross_read=off)
read=$(loopback -o comm.cross_read=auto)
ok 'ranks of a host read what is large' test "$sent" -gt 100000 -a $((2 * read)) -lt "$sent"

over gone 1 -o train.steps=1000000 -o run.log_every=1 -o comm.timeout=5
await ${process[0]} grep -q '^step 2/' gone.0
link_of 2 down
wait ${process[0]} ${process[1]} ${process[2]}
like 'I5: a host that is cut off is named' "$(tail -qn 1 gone.0 gone.1)" 'rank 2'
like '... and sees it itself' "$(tail -n 1 gone.2)" 'zeroth: .*(timeout|rank [01])'
link_of 2 up

over dies 1 -o train.steps=1000000 -o run.log_every=1
await ${process[0]} grep -q '^step 2/' dies.0
kill -KILL ${process[1]}
wait ${process[0]} ${process[2]}
named=$(grep -hc 'zeroth: .*rank 1 has ended, or its connection was cut' dies.0 dies.2 | xargs)
is 'I5: a rank that is killed is named by the others' "$named" '1 1'
[ "$named" = '1 1' ] || note "$(tail -qn 2 dies.*)"

# Two trainings on one port of a machine.
over first 1 -o train.steps=1000000 -o run.log_every=1
firsts=(${process[@]})
await ${process[0]} grep -q '^step 1/' first.0
over second 1 -o boot.timeout=5
wait ${process[@]}
like 'a second training on the port is refused' "$(tail -n 1 second.0)" 'port 29500 of .* is in use, perhaps by another training'
kill -TERM ${firsts[@]}
wait ${firsts[@]}
like 'and the first one goes on until it is asked to end' "$(grep -o '^interrupted after [0-9]* steps' first.0)" '^interrupted after [0-9]+ steps'
done_testing
