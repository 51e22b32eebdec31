#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# zeroth launch: a training on several machines, which a remote shell leads to. The same bits as with one process (I1), and
# all ends together (I5), with a cause; restarts go on from the newest checkpoint (I6). The machines are played: a shell that
# only changes the name of the host, and network namespaces where there may be some.
. "$ZR_SRCDIR/tests/lib/tap.sh" || exit 99
. "$ZR_SRCDIR/tests/lib/fixture.sh" || exit 99
. "$ZR_SRCDIR/tests/lib/hosts.sh" || exit 99

cd "$scratch" || exit 99
unset MASTER_ADDR MASTER_PORT ZEROTH_TOKEN RANK WORLD_SIZE
tiny text 2 24 4 <<INI
[device]
threads = 1
INI
one_process

# A remote shell to played hosts, all of which are 127.0.0.1: `shell HOST COMMAND...`. It leaves its number in HOST.pid.
cat > shell <<'SH'
#!/bin/bash
echo $$ > "$SHELLS/$1.pid"
[ ! -e "$SHELLS/$1.noise" ] || cat "$SHELLS/$1.noise"
exec "${@:2}"
SH
chmod 755 shell
export SHELLS=$PWD

# launch HOSTS [argument]...: the output in out, lines for people in log
launch() {
	rm -rf run out log
	timeout -s KILL 180 "$ZEROTH" launch --hosts "$1" --through "$PWD/shell" tiny.ini -o run.dir=run -o train.eval_every=0 \
		-o boot.address=127.0.0.1 "${@:2}" > out 2> log
}
digest() { grep '^digest:' out || tail -n 3 log; }

"$ZEROTH" train tiny.ini -o run.dir=long -o train.eval_every=0 -o train.steps=40 > long.out 2>&1 || exit 99
long=$(grep '^digest:' long.out)
ranks_of() { children "$(children "$(cat "$1.pid")")"; } # HOST: its agent is the shell, its supervisor the agent's child

# ---- machines of their own ----
cat > netns <<'SH'
#!/bin/bash
echo $$ > "$SHELLS/$1.pid"
exec ip netns exec "$1" unshare --uts sh -c 'hostname "$0" && exec "$@"' "$@"
SH
chmod 755 netns

# Names that the machines know: of the first one to the others.
over() {
	timeout -s KILL 180 "$ZEROTH" launch --hosts "$list" --through "$scratch/netns" "$scratch/tiny.ini" -o run.dir=run -o train.eval_every=0 \
		-o boot.address="$net.2" "$@" > out 2> log
}
cut_off() {
	export SHELLS=$PWD
	over -o train.steps=40 -o checkpoint.every=5 -o run.log_every=1 -o comm.timeout=5 --restarts 3 --min-ranks 2 &
	local launcher=$!
	await $launcher grep -q '^step 7/' out
	link_of 2 down
	kill -STOP $(cat "${hosts[2]}.pid") $(children "$(cat "${hosts[2]}.pid")") $(ranks_of "${hosts[2]}")
	wait $launcher
	is 'I6: a machine that is cut off and hangs: exit code' "$?" 0
	is 'I1: ... and the digest' "$(digest)" "$long"
	like '... and it is named' "$(grep -o '^zeroth: restart 1 of 3: .*' log)" 'rank 2|it did not end its ranks'
	kill -KILL $(cat ./*.pid) 2> killed
}
why=$(no_hosts)
[ -z "$why" ] && { make_hosts 3 > why 2>&1 || why="network namespaces are not allowed here: $(head -n 1 why)"; }
if [ -n "$why" ]; then
	skip 'three machines' "$why"
else
	list=$(IFS=,; echo "${hosts[*]}")
	for stage in stage1 stage3; do
		rm -rf run
		over -o zero.plugin=$stage -n 2
		is "I1: three machines, 2 ranks each, $stage" "$(digest)" "$one"
	done
	beside cut_off
fi

# ---- restarts ----
# again NAME HURT WHY HOSTS [argument]...: the training goes on after HURT, and says why
again() {
	export SHELLS=$PWD
	"$ZEROTH" launch --hosts "$4" --through "$scratch/shell" --restarts 2 "$scratch/tiny.ini" -o run.dir=run -o train.eval_every=0 \
		-o boot.address=127.0.0.1 -o run.log_every=1 -o train.steps=40 -o checkpoint.every=5 "${@:5}" > out 2> log &
	local launcher=$!
	await $launcher grep -q '^step 7/' out
	$2
	wait $launcher
	is "I6: $1: exit code" "$?" 0
	is "I1: $1: the digest" "$(digest)" "$long"
	like "... and why it begins again, $1" "$(cat log)" "$3"
}
kill_rank() { kill -KILL "$(ranks_of b | head -n 1)"; }
kill_first() { kill -KILL "$(cat a.pid)"; }
kill_second() { kill -KILL "$(cat b.pid)"; }
beside again 'a rank is killed' kill_rank \
	'^zeroth: restart 1 of 2: b: rank 2 was killed by SIGKILL .*; goes on from step [0-9]+ with 4 ranks in 1 s$' a:2,b:2
beside again 'a machine is gone for a moment' kill_second 'b: it has gone: .*; goes on from step [0-9]+ with 2 ranks in' a,b
beside again 'a machine is gone, and fewer ranks may do' kill_second 'b: it has gone: .*; goes on from step [0-9]+ with 2 ranks in' \
	a:2,b:2 --min-ranks 1
beside again 'the first machine is gone' kill_first 'a: it has gone: .*; goes on from step [0-9]+ with 2 ranks in' a:2,b:2 --min-ranks 1

# ---- the same bits ----
for what in 'a,b 1 stage3' 'a:2,b 1 stage2' 'a,b,c 1 hpz' 'a,b 2 stage0'; do
	read -r names n stage <<< "$what"
	launch "$names" -n "$n" -o zero.plugin="$stage"
	is "I1: $names, -n $n, $stage" "$(digest)" "$one"
done
is 'the run says which comm it had' "$(sed -n '/^\[comm\]/,/^\[/s/^plugin = \([a-z]*\).*/\1/p' run/config.ini)" tcp
launch a,b -o comm.plugin=tcp -o comm.timeout=20 -o comm.host.plugin=local
is 'I1: a comm that is named stays' "$(digest)" "$one"
is '... and beside a comm of GPUs' "$(sed -n '/^\[comm.host\]/,/^\[/s/^plugin = \([a-z]*\).*/\1/p' run/config.ini)" tcp

# ---- what may be said before ----
printf 'Welcome to a\nno newline' > a.noise
echo >> a.noise
launch a,b
is 'I1: a shell that greets' "$(digest)" "$one"
like '... whose lines are shown' "$(cat log)" '^a: Welcome to a$'
rm a.noise

"$ZEROTH" launch --hosts localhost -n 2 tiny.ini -o run.dir=here -o train.eval_every=0 > out 2> log
is 'I1: this machine, without a shell' "$(digest)" "$one"

# ssh gives the words to a shell: a program whose name has blanks and quotes
mkdir "a 'place'" player
ln -s "$ZEROTH" "a 'place'/zeroth"
printf '#!/bin/sh\nshift 3\nexec sh -c "$*"\n' > player/ssh
chmod 755 player/ssh
PATH=$PWD/player:$PATH "$ZEROTH" launch --hosts a,b --program "$PWD/a 'place'/zeroth" tiny.ini -o run.dir=quoted -o train.eval_every=0 \
	-o boot.address=127.0.0.1 > out 2> log
is 'I1: ssh, and a path that needs quotes' "$(digest)" "$one"

VALUE=7 launch a,b --env VALUE --env OTHER=8 -o data.path="$PWD/text"
is 'I1: variables for the ranks' "$(digest)" "$one"

# ---- what is refused ----
refused() { # NAME PATTERN CODE ARGUMENT...
	timeout -s KILL 120 "$ZEROTH" launch "${@:4}" > out 2> log
	is "$1: exit code" "$?" "$3"
	like "$1" "$(cat log)" "$2"
}
refused 'no hosts' '^zeroth launch: --hosts is missing' 2 tiny.ini
refused 'no ranks' '^zeroth launch: --hosts: a:0: expected a number of ranks from 1 to 256' 2 --hosts a:0 tiny.ini
refused 'no name' '^zeroth launch: --hosts: :2: expected HOST' 2 --hosts a,:2 tiny.ini
refused 'an option as a host' "^zeroth launch: --hosts: -oProxyCommand=x: a host's name does not begin with -" 2 --hosts -oProxyCommand=x tiny.ini
refused 'a host twice' '^zeroth launch: --hosts: a: it is there twice' 2 --hosts a,a tiny.ini
refused 'localhost among others' '^zeroth launch: --hosts: localhost: other machines' 2 --hosts localhost,b tiny.ini
refused 'a variable that is not set' '^zeroth launch: --env NOT_SET: it is not set here' 2 --hosts a --env NOT_SET tiny.ini
refused 'too many ranks that must be left' '--min-ranks 3: expected a number of ranks in \[1, 2\]' 2 --hosts a,b --restarts 1 --min-ranks 3 tiny.ini
refused 'a shell that is not there' '^zeroth: a: no agent: its remote shell ended with code 127' 4 --hosts a --through ./none tiny.ini
like '... and why' "$(cat log)" '^a: ./none: No such file or directory$'
refused 'a program that is not there' '^zeroth: [ab]: no agent: its remote shell ended with code 127' 4 --hosts a,b --through "$PWD/shell" --program ./none tiny.ini
printf '#!/bin/sh\necho zeroth-agent 1 0.0.1\n' > older && chmod 755 older
refused 'a program that is another one' '^zeroth: a: it has zeroth 0.0.1, and this is .*: install the same' 2 --hosts a --through "$PWD/shell" --program "$PWD/older" tiny.ini
refused 'a configuration that is not there' '^zeroth: .*none.ini' 2 --hosts a,b --through "$PWD/shell" none.ini
refused 'a wrong value is said once' '^zeroth: [ab]: its ranks ended with code 2$' 2 --hosts a,b --through "$PWD/shell" tiny.ini -o train.steps=x
OMPI_COMM_WORLD_SIZE=2 refused 'a launcher in a launcher' 'another launcher has done so \(OMPI_COMM_WORLD_SIZE=2\)' 2 --hosts a tiny.ini

# ---- ends ----
# start HOSTS [argument]...: in the background, number in `launcher`, until step 2
start() {
	rm -rf run out log
	"$ZEROTH" launch --hosts "$1" --through "$PWD/shell" tiny.ini -o run.dir=run -o train.eval_every=0 -o train.steps=1000000 \
		-o boot.address=127.0.0.1 -o run.log_every=1 "${@:2}" > out 2> log &
	launcher=$!
	await $launcher grep -q '^step 2/' out
}
all_gone() { [ -z "$(running $(cat ./*.pid))" ]; }

start a:2,b:2
victim=$(ranks_of b | tail -n 1)
kill -KILL "$victim"
wait $launcher
is 'I5: a rank is killed: exit code' "$?" 4
like '... and it is named with its host' "$(tail -n 1 log)" '^zeroth: b: rank 3 was killed by SIGKILL'
await $$ all_gone
is '... and no agent is left' "$(running $(cat ./*.pid))" ''

start a,b
kill -KILL "$(cat b.pid)"
wait $launcher
is 'I5: a machine is gone: exit code' "$?" 4
like '... and it is named' "$(tail -n 1 log)" '^zeroth: b: it has gone: its remote shell was killed by signal 9'

start a:2,b
kill -TERM $launcher
wait $launcher
is 'I5: it is asked to end: exit code' "$?" 130
like '... after a checkpoint' "$(cat out)" '^interrupted after [0-9]+ steps'

start a,b
ranks=$(ranks_of a; ranks_of b)
kill -KILL $launcher
wait $launcher
await $$ all_gone
is 'I5: the launcher is killed: all ranks end' "$(running $ranks)" ''
like '... after a checkpoint' "$(ls run/checkpoints 2>&1)" '^step'
done_testing
