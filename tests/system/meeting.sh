#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Where ranks meet, as strangers and accidents leave it: links, FIFOs, files of others, files of dead runs, forged and damaged
# ones, several runs at once. A test for each sentence of SECURITY.md about what processes share.
. "$ZR_SRCDIR/tests/lib/tap.sh" || exit 99
. "$ZR_SRCDIR/tests/lib/fixture.sh" || exit 99
cd "$scratch" || exit 99
chmod 755 .

tiny text 1 2 3 <<INI
[device]
threads = 1
INI
uid=$(id -u)
here=meet/zeroth-$uid
stranger=65534
as_stranger() { setpriv --reuid=$stranger --regid=$stranger --clear-groups "$@"; }
strangers=
[ "$uid" = 0 ] && as_stranger true 2> /dev/null && strangers=yes

# rank R N [OPTION]...: one rank of N that meets in `meet`
rank() {
	local r=$1 n=$2
	shift 2
	RANK=$r WORLD_SIZE=$n exec timeout 60 "$ZEROTH" train tiny.ini -o run.dir="${run:-never}" -o boot.plugin=env \
		-o boot.directory=meet -o train.eval_every=0 "$@"
}
# alone [OPTION]...: rank 0 of 2, which waits in vain; sets `out`, `code`
alone() {
	out=$( (rank 0 2 -o boot.timeout=0.3 "$@") 2>&1)
	code=$?
}
# pair RUN [OPTION]...: a run of two ranks; its output is in RUN.0 and RUN.1
pair() {
	local run=$1
	shift
	(rank 1 2 "$@") > "$run.1" 2>&1 &
	(rank 0 2 "$@") > "$run.0" 2>&1
	wait $!
}
digest_of() { tail -n 1 "$1.0"; }
fresh() { rm -rf meet && mkdir -m 755 meet; }
# until_there PATTERN: waits until a name of the meeting matches, prints it
until_there() {
	local i
	for i in $(seq 1 1000); do
		(cd $here 2> /dev/null && compgen -G "$1") && return
		sleep 0.02
	done
	return 1
}
# refused NAME PATTERN: what the last rank said
refused() {
	is "$1: exit 2" "$code" 2
	like "$1: why" "$out" "^zeroth: .*\[boot\] $2"
}

"$ZEROTH" train tiny.ini -o run.dir=one -o train.eval_every=0 > one.0 2>&1
one=$(digest_of one)
like "one process prints a digest" "$one" '^digest: losses=[0-9a-f]{16} params=[0-9a-f]{16}$'
fresh
pair two
is "two ranks meet" "$(digest_of two)" "$one"
is "what they leave is one empty directory" "$(cd meet && find . -mindepth 1)" "./zeroth-$uid"
is "which is theirs alone" "$(stat -c %a-%u $here)" "700-$uid"

# ---- the directory
mkdir victim
for name in key-a joined-0 left-0 new-0 stopped hello; do echo mine > "victim/$name"; done
untouched() { is "$1" "$(cd victim && cat ./* | sort | uniq -c | xargs)" '6 mine'; }

fresh
ln -s ../victim meet/zeroth-00000000deadbeef
alone
like "a link in the directory: the rank waits for the other" "$out" 'timeout: waited 0 s for rank 1 to join'
untouched "and what it leads to is not swept"
fresh
ln -s ../victim $here
alone
refused "a link for the meeting" "meet/zeroth-$uid: it is a link or no directory: remove it"
untouched "and nothing behind it is changed"
for what in mkfifo touch; do
	fresh
	$what $here
	alone
	refused "the meeting made by $what" "meet/zeroth-$uid: it is a link or no directory: remove it"
done
fresh
mkdir -m 750 $here
alone
refused "a meeting that others may see" "meet/zeroth-$uid: its mode is 0750, others may see what is there"
fresh
chmod 777 meet
alone
refused "a directory in which everybody may rename" 'directory meet: its mode is 0777, everybody may rename .*chmod \+t'
chmod 1777 meet
pair sticky
is "a sticky one is as good as one's own" "$(digest_of sticky)" "$one"
ln -s meet way
(rank 1 2 -o boot.directory=way) > way.1 2>&1 &
(rank 0 2 -o boot.directory=way) > way.0 2>&1
wait $!
is "the directory itself may be a link: its user has named it" "$(digest_of way)" "$one"

if [ -n "$strangers" ]; then
	chmod 1777 meet
	rm -rf $here
	as_stranger mkdir -m 777 $here
	alone
	refused "a stranger's directory for the meeting" "meet/zeroth-0: it belongs to user $stranger, not to user 0: choose another"
	out=$( (rank 1 2 -o boot.timeout=0.3) 2>&1)
	code=$?
	refused "which no other rank takes either" "meet/zeroth-0: it belongs to user $stranger"
	fresh
	chmod 1777 meet
	as_stranger sh -c 'for f in run hello-1 joined-0; do echo forged > meet/$f; done; mkfifo meet/hello-1-0123456789abcdef'
	pair forged
	is "what a stranger puts beside the meeting changes nothing" "$(digest_of forged)" "$one"
	ok "and a stranger cannot put anything into it" test "$(as_stranger sh -c "ls $here; echo x > $here/run" 2> /dev/null; echo $?)" != 0
	fresh
	chown $stranger meet
	alone
	refused "a stranger's directory" "directory meet: it belongs to user $stranger, who may rename .*: choose one of your own"
	fresh
	chgrp $stranger meet
	chmod 775 meet
	mkdir -m 700 $here meet/secret
	for name in joined-0 hello-1 notes; do echo mine > meet/secret/$name; done
	as_stranger sh -c "mv $here meet/away && mv meet/secret $here"
	alone
	is "a group that renames your directory to the meeting: its files stay" "$(cat $here/* | xargs)" 'mine mine mine'
	as_stranger sh -c "mv $here meet/secret && mkdir $here"
	alone
	refused "or makes one" "meet/zeroth-0: it belongs to user $stranger, not to user 0"
	rmdir $here
	pair group
	is "a directory of a group is as good as any" "$(digest_of group)" "$one"
	fresh
	chown $stranger meet
	chmod 1777 meet
	pair theirs
	is "a stranger's sticky one is as good as any" "$(digest_of theirs)" "$one"
else
	skip "a second user" "only root can become another one"
fi

# ---- files of the meeting that are none of ours
hello=hello-1-0123456789abcdef
meeting() { fresh && mkdir -m 700 $here; }
bad_file() {
	alone
	refused "$1" "$here/$hello: $2"
}
meeting
mkfifo -m 600 $here/$hello
bad_file "a FIFO for a hello" 'it is no regular file: remove it'
meeting
mkdir -m 700 $here/$hello
bad_file "a directory for a hello" 'it is no regular file: remove it'
meeting
ln -s ../../victim/hello $here/$hello
bad_file "a link for a hello" 'it is a link: remove it'
meeting
(umask 022 && echo x > $here/$hello)
bad_file "a hello that others may use" 'its mode is 0644, others may use it: remove it'
if [ -n "$strangers" ]; then
	meeting
	(umask 077 && echo x > $here/$hello)
	chown $stranger $here/$hello
	bad_file "another user's hello" "it belongs to user $stranger, not to user 0: remove it"
fi

# ---- hellos, whole and damaged, as bytes of this machine
le() { # le BYTES NUMBER
	local i
	for ((i = 0; i < $1; i++)); do printf '%b' "\\x$(printf %02x $(($2 >> 8 * i & 255)))"; done
}
# file NONCE: with what standard input has
file() {
	cat > data
	printf 'zeroth 2'
	le 8 $1
	le 8 "$(stat -c %s data)"
	cat data
}
# says DRAW RANK WORLD LOCAL_RANK LOCAL_WORLD [PID [MACHINE]]
says() {
	le 8 $1
	le 8 0
	le 8 $((${7:-0}))
	for i in $2 $3 $4 $5 ${6:-0} 0; do le 4 $i; done
	head -c 64 /dev/zero
}
damaged() {
	meeting
	says 1 1 2 0 0 | file 1 > $here/hello-1-0000000000000002 # the nonce of another
	says 3 1 2 0 0 | file 3 | head -c 90 > $here/hello-1-0000000000000003
	{ says 4 1 2 0 0; echo more; } | file 4 > $here/hello-1-0000000000000004
	says 5 1 2 2147483647 -2147483648 | file 5 > $here/hello-1-0000000000000005
	says 6 1 2 0 0 | tr '\0' x | file 6 > $here/hello-1-0000000000000006
	says 7 2147483647 2 0 0 | file 7 > $here/hello-1-0000000000000007
	: > $here/hello-1-0000000000000008
	says 9 1 2 0 0 | file 9 > $here/hello-99999-0000000000000009
	echo x > $here/hello-1
	echo x > $here/hello-1-12
	chmod 600 $here/*
}
if [ "$(le 2 1 | od -An -d | tr -d ' ')" = 1 ]; then
	damaged
	pair damaged
	is "damaged hellos disturb nobody" "$(digest_of damaged)" "$one"
	is "and stay for a day" "$(ls $here | wc -l)" 10
	touch -d '2 days ago' $here/*
	alone
	is "then they are swept, but for names that nobody gives" "$(ls $here | xargs)" 'hello-1 hello-1-12'
	meeting
	says 10 1 3 0 0 | file 10 > $here/hello-1-000000000000000a
	chmod 600 $here/*
	alone
	like "a rank of another world is named" "$out" 'for rank 1 to join; a rank 1 came that is one of 3 ranks, not of 2$'
else
	skip "damaged hellos" "they are written as little-endian machines do"
fi

# with_run NAME COMMAND PATTERN: rank 0 waits, COMMAND is run in the directory of its run: it ends at once, saying the pattern
with_run() {
	fresh
	(rank 0 2 -o boot.timeout=50) > out 2>&1 &
	local rank0=$! dir
	dir=$(until_there 'run-*')
	until_there 'run-*/joined-0' > joined
	(umask 077 && cd "$here/$dir" && eval "$2")
	wait $rank0
	code=$?
	out=$(< out)
	refused "$1" "$here/$dir/$3"
}
# shellcheck disable=SC2016 # for with_run
{
	with_run "a FIFO for a seat" 'mkfifo joined-1' 'joined-1: it is no regular file: remove it'
	with_run "a link for a seat" 'ln -s joined-0 joined-1' 'joined-1: it is a link: remove it'
	with_run "a torn seat" 'echo x > joined-1' 'joined-1: it is no file of this run'
	with_run "a seat of another rank" 'cp -p joined-0 new && mv new joined-1' 'joined-1: no rank 1 of 2 can have written it'
	with_run "a FIFO for a reason" 'mkfifo stopped' 'stopped: it is no regular file: remove it'
}
fresh
(rank 1 2 -o boot.timeout=50) > out 2>&1 &
name=$(until_there 'hello-1-*')
mkfifo -m 600 "$here/welcome-${name#hello-}"
wait $!
code=$?
out=$(< out)
refused "a FIFO for an answer" "$here/welcome-1-[0-9a-f]{16}: it is no regular file: remove it"
is "the rank takes back its hello" "$(ls $here)" ''

# ---- where comm/local meets: rank 0's process and descriptor, as a forged rank 0 says them

# forged NAME PATTERN: rank 1 meets a rank 0 that this script plays, and whose word for comm/local is on standard input
forged() {
	local id=0000000000000abc name dir=$here/run-0000000000000abc
	cat > word
	name=$(cd $here && compgen -G 'hello-1-*')
	(
		umask 077
		mkdir $dir
		says 0xabc 0 2 0 0 | file 0xabc > $dir/joined-0
		file 0xabc < word > $dir/key-comm.local
		le 8 0x$id | file "0x${name##*-}" > new
		mv new "$here/welcome-${name#hello-}"
	)
	wait $rank1
	code=$?
	like "$1" "exit $code, $(tail -n 1 out)" "^exit [24], zeroth: (-o: )?\[(comm|boot)\] $2"
}
# follow: starts that rank 1
follow() {
	meeting
	(run=never rank 1 2 -o comm.timeout=50) > out 2>&1 &
	rank1=$!
	until_there 'hello-1-*' > joined
}
# word PID FD [WORLD]
word() {
	for i in $1 $2 ${3:-2} 0; do le 4 $i; done
	le 8 77
	le 8 1048576
}
no='is not the memory of the ranks: it is no memory that a rank has sealed'
cp text other
mkfifo pipe
sleep 50 3<> other 4<> pipe 5< . &
holder=$!
for fd in 3:file 4:FIFO; do
	follow
	forged "comm/local: the descriptor of a ${fd#*:}" "/proc/$holder/fd/${fd%:*} $no" < <(word $holder ${fd%:*})
done
ok "comm/local: the file is as it was" cmp text other
follow
forged "comm/local: that of a directory" "cannot open the memory of rank 0 \(/proc/$holder/fd/5: Is a directory\)" < <(word $holder 5)
follow
own=$(children $rank1)
forged "comm/local: one of the rank itself" "/proc/$own/fd/1 $no" < <(word "$own" 1)
follow
forged "comm/local: of no process" 'cannot open the memory of rank 0 \(/proc/-1/fd/-1: No such file' < <(word -1 -1)
follow
forged "comm/local: of another world" 'rank 0 has 7 ranks and staging = 1048576, rank 1 has 2 and 1048576' < <(word $holder 3 7)
follow
forged "comm/local: a longer word" 'key comm.local holds 40 bytes, not 32' < <(word $holder 3; le 8 0)
kill $holder
(ulimit -f 1000000 && pair limited)
is "comm/local: a limit of file sizes" "$(digest_of limited)" "$one"
(ulimit -f 9000 && pair small)
like "comm/local: one that is too low is named" "$(cat small.0)" \
	'\[comm\] the memory that ranks share takes [0-9]+ bytes in one file, and ulimit -f allows 9216000: raise it'

(ulimit -f 1000 && "$ZEROTH" train -n 2 tiny.ini -o run.dir=never) > out 2>&1
is "train -n: one that is lower yet" "$(< out)" \
	'zeroth: cannot start 2 ranks: they share files of more than ulimit -f allows: raise it (ulimit -f unlimited)'
(ulimit -f 1000000 && "$ZEROTH" train -n 2 tiny.ini -o run.dir=supervised -o train.eval_every=0) > supervised.0 2>&1
is "train -n: one that suffices" "$(digest_of supervised)" "$one"

# ---- what the supervisor gives its ranks
given() {
	like "ZEROTH_LOCAL_FD, $1: refused" "$(ZEROTH_LOCAL_RANK=0 ZEROTH_LOCAL_WORLD=2 ZEROTH_LOCAL_FD=9 timeout 60 "$ZEROTH" train tiny.ini \
		-o run.dir=never 2>&1)" '\[boot\] ZEROTH_LOCAL_FD=9 is not what zeroth train -n made for 2 ranks: .*, unset them$'
}
given "a file" 9<> other
ok "ZEROTH_LOCAL_FD, a file: as it was" cmp text other
given "a FIFO" 9<> pipe
given "a directory" 9< .
given "nothing" 9>&-
if [ -w /dev/shm ]; then
	file=$(mktemp /dev/shm/zeroth-test.XXXXXX)
	exec 8<> "$file"
	rm "$file"
	given "a file in memory" 9<&8
	exec 8>&-
fi

# ./peek PROCESS ADDRESS tries to read there; refuse.so lets nobody do so.
cat > peek.c <<'C'
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#ifdef REFUSE
ssize_t process_vm_readv(pid_t pid, const struct iovec *to, unsigned long n, const struct iovec *from, unsigned long m, unsigned long flags)
{
	(void)pid, (void)to, (void)n, (void)from, (void)m, (void)flags;
	errno = EPERM;
	return -1;
}
#endif
int main(int argc, char **argv)
{
	long word;
	struct iovec to = { &word, sizeof word }, from = { (void *)strtoul(argv[argc - 1], NULL, 16), sizeof word };
	puts(strerror(process_vm_readv(atoi(argv[1]), &to, 1, &from, 1, 0) < 0 ? errno : 0));
}
C
${CC:-cc} -w -o peek peek.c && ${CC:-cc} -w -DREFUSE -shared -fPIC -o refuse.so peek.c || exit 99

# memory_of PROCESS: its descriptors of memory that ranks share
memory_of() { find "/proc/$1/fd" -lname '/memfd:zeroth*' 2> /dev/null; }
if [ -n "$strangers" ]; then
	"$ZEROTH" train -n 2 tiny.ini -o run.dir=long -o train.steps=1000000 -o run.log_every=1 > out 2>&1 &
	supervisor=$!
	await $supervisor grep -q '^step [0-9]' out
	ranks=$(children $supervisor)
	is "ranks share two memories" "$(memory_of "${ranks##*[[:space:]]}" | wc -l)" 2
	is "which a stranger can neither see nor open" "$(for rank in $ranks; do
		for memory in $(memory_of $rank); do as_stranger sh -c ": < $memory" 2> /dev/null && echo "$memory"; done; done)" ''
	first=${ranks%%[[:space:]]*}
	address=$(sed -n '1s/-.*//p' "/proc/$first/maps")
	is "its user reads the private memory of a rank" "$(./peek "$first" "$address")" Success
	is "which a stranger cannot" "$(as_stranger ./peek "$first" "$address")" 'Operation not permitted'
	kill $supervisor
	wait $supervisor
fi
is "ranks read each other's private memory, and nobody writes it" \
	"$(grep -rhoaE 'process_vm_(read|write)v' "$ZEROTH" "$ZR_TEST_PLUGINS" | sort -u)" process_vm_readv
# Where the kernel does not let ranks read each other, memory that they share takes all.
if [ -n "$ZR_SANITIZE" ]; then
	skip "ranks that may not read each other" "sanitizers are loaded first"
else
	fresh
	LD_PRELOAD=$PWD/refuse.so pair unread -o log.level=info
	like "ranks that may not read each other say so" "$(cat unread.0)" 'process_vm_readv is not permitted here: buffers outside mem_alloc are staged'
	is "and compute the same" "$(digest_of unread)" "$one"
fi

# ---- dead runs
fresh
(rank 0 3 -o boot.timeout=50) > out 2>&1 &
rank0=$!
until_there 'run-*/joined-0' > joined
(rank 1 3 -o boot.timeout=50) > out.1 2>&1 &
rank1=$!
living=$here/$(dirname "$(until_there 'run-*/joined-1')")
mkdir -m 700 $here/run-0123456789abcdef $here/run-aaaaaaaaaaaaaaaa
echo mine > $here/run-aaaaaaaaaaaaaaaa/notes
touch -d '2 days ago' $here/run-aaaaaaaaaaaaaaaa
ln -s ../../victim $here/run-bbbbbbbbbbbbbbbb
[ -z "$strangers" ] || { mkdir -m 700 $here/run-cccccccccccccccc && chown $stranger $here/run-cccccccccccccccc; }
alone
is "a living run is not swept" "$(ls "$living" | xargs)" 'joined-0 joined-1'
ok "nor what is young" test -d $here/run-0123456789abcdef
is "nor what this plugin never writes" "$(cat $here/run-aaaaaaaaaaaaaaaa/notes)" mine
kill -9 $(children $rank0) $(children $rank1)
wait
(rank 1 2 -o boot.timeout=50) > out 2>&1 &
rank1=$!
name=$(until_there 'hello-1-*')
kill -9 $(children $rank1)
wait
alone
ok "a dead run is" test ! -e "$living"
ok "so is the hello of a dead rank" test ! -e "$here/$name"
pair after
is "and does not disturb the next one" "$(digest_of after)" "$one"
untouched "nor is anything behind a link"
[ -z "$strangers" ] || ok "nor another user's directory" test -d $here/run-cccccccccccccccc

# ---- a disk that is full, at each file that rank 0 writes
if [ -n "$ZR_SANITIZE" ]; then
	skip "a full disk" "sanitizers are loaded first"
else
	export LD_PRELOAD=$ZR_BUILDDIR/tests/faults/.libs/libfaults.so
	for n in 1 2 3 4 5 6 7 8; do
		fresh
		(rank 1 2) > full.1 2>&1 &
		rank1=$!
		(ZR_FAULT="call=write kind=ENOSPC n=$n path=zeroth-$uid" rank 0 2 -o run.dir=full.$n) > full.0 2>&1
		kill $rank1 2> /dev/null
		wait
		tail -n 1 full.0
	done > full
	unset LD_PRELOAD
	is "a full disk is named as the cause" "$(grep -vc -e 'No space left on device$' -e "^$one\$" full)" 0
	ok "in a few cases of these" test "$(grep -c 'No space left' full)" -gt 4
fi

# ---- several runs at once
fresh
pair first &
pair second &
run=third
for r in 2 1 0; do (rank $r 3 -o train.train_batch_size=6) > third.$r 2>&1 & done
wait
"$ZEROTH" train tiny.ini -o run.dir=six -o train.eval_every=0 -o train.train_batch_size=6 > six.0 2>&1
is "two runs at once in one directory: the first" "$(cat first.0 second.0 | grep -c "^$one\$")" 2
is "and one of another size: the third" "$(digest_of third)" "$(digest_of six)"
is "they leave nothing" "$(ls -A $here)" ''
TORCHELASTIC_RUN_ID=a pair left -o optimizer.lr=1e-4 &
TORCHELASTIC_RUN_ID=b pair right &
wait
"$ZEROTH" train tiny.ini -o run.dir=slow -o train.eval_every=0 -o optimizer.lr=1e-4 > slow.0 2>&1
is "ranks of one job find each other" "$(digest_of left) $(digest_of right)" "$(digest_of slow) $one"
# job RUN RANK SIZE NAME VALUE [OPTION]...: two ranks of a launcher that calls these so, and its job by that name
job() {
	local run=$1 rank
	for rank in 1 0; do
		env -u SLURM_JOB_ID -u SLURM_STEP_ID "$2=$rank" "$3=2" "$4=$5" timeout 60 "$ZEROTH" train tiny.ini -o run.dir="$run" -o boot.plugin=env \
			-o boot.directory=meet -o train.eval_every=0 "${@:6}" > "$run.$rank" 2>&1 &
	done
	wait
}
for names in 'RANK WORLD_SIZE MASTER_PORT' 'OMPI_COMM_WORLD_RANK OMPI_COMM_WORLD_SIZE PMIX_NAMESPACE' \
	'SLURM_PROCID SLURM_STEP_NUM_TASKS SLURM_JOB_ID' 'SLURM_PROCID SLURM_STEP_NUM_TASKS SLURM_STEP_ID'; do
	rm -rf left right
	# shellcheck disable=SC2086
	{
		job left $names 1 -o optimizer.lr=1e-4 &
		job right $names 2 &
		wait
	}
	is "... which is told by ${names##* }" "$(digest_of left) $(digest_of right)" "$(digest_of slow) $one"
done
done_testing
