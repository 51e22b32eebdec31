#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# What SECURITY.md says and no other test shows: that its tables name all that is read from the environment and made outside of
# the directories that a user names, and what can name code. The table at its end says what the other tests show.
. "$ZR_SRCDIR/tests/lib/tap.sh" || exit 99
. "$ZR_SRCDIR/tests/lib/fixture.sh" || exit 99
cd "$scratch" || exit 99
chmod 755 .
umask 022
page=$ZR_SRCDIR/SECURITY.md
sources=$(cd "$ZR_SRCDIR" && find . \( -path ./tests -o -path ./bench -o -path ./build -o -name '.?*' \) -prune -o -name '*.[ch]' -print -o -name '*.cu' -print \
	-o -name '*.py' -print)

# ---- each variable of the environment is in the table ----
# Names in the files that ask for one. cmd/check/imports.c answers plugins that ask.
asked() {
	cd "$ZR_SRCDIR" || exit 99
	grep -lE '\b(getenv|zr_trusted_env|secure_getenv)\(|os\.environ' $sources | grep -v imports.c | xargs cat |
		grep -oE '"[A-Z][A-Z]*(_[A-Z]+)*"' | tr -d '"' | sort -u | grep -E '_|^(HOME|RANK|COLUMNS|LINES|TMPDIR)$' |
		grep -vE '^(LC_|ZR_|RTLD_)'
}
# The names of the table; one that ends in * is a beginning.
listed=$(sed -n '/^| variable /,/^$/s/^| \([^|]*\)|.*/\1/p' "$page" | grep -o '`[A-Z_]*\*\?`' | tr -d '`')
# `_WORLD` and `_FD` stand for ZEROTH_LOCAL_WORLD and ZEROTH_LOCAL_FD.
listed=$(sed 's/^_/ZEROTH_LOCAL_/' <<< "$listed")
unlisted() {
	local name one
	for name in $(asked); do
		for one in $listed; do
			# shellcheck disable=SC2053 # it is a pattern
			[[ $name != $one ]] || continue 2
		done
		case $name in LOCAL_RANK | LOCAL_WORLD_SIZE) continue ;; esac # of [boot], with RANK
		echo "$name"
	done
}
ok 'variables are found in the sources' test "$(asked | wc -l)" -gt 20
is 'each is in the table' "$(unlisted)" ''
is 'the table has none that nobody asks for' "$(for one in $listed; do
	asked | grep -q "^${one/\*/.*}\$" || echo "$one"; done)" ''

# ---- what is made outside of the directories that a user names ----
ok 'symbols are found' test "$(nm -D "$ZEROTH" | grep -c ' U fopen')" -gt 0
sockets=$(find "$ZR_TEST_PLUGINS" -name '*.so' ! -name env.so ! -name pmix.so ! -name tcp.so -exec nm -D {} + | grep -cE ' U (socket|socketpair|connect|bind|listen|accept)(@|$)')
is 'no plugin but boot/env, boot/pmix and comm/tcp makes a socket' "$sockets" 0
is 'nor does zeroth but to see which port is free: nothing listens' \
	"$(nm -D "$ZEROTH" | grep -oE ' U (socket|socketpair|connect|bind|listen|accept)(@|$)' | tr -d '@' | xargs)" 'U bind U socket'
is 'comm/nccl opens and maps nothing itself' \
	"$(cd "$ZR_SRCDIR" && grep -nE '\b(open|openat|fopen|creat|mmap|shm_open|memfd_create)\(' $(grep '/comm/nccl/' <<< "$sources"))" ''
ok 'comm/nccl is there' test -n "$(grep '/comm/nccl/' <<< "$sources")"
build hold
tiny text 1 2 2 < /dev/null
before=$(cd /tmp && compgen -G 'zeroth-check-*')
HOLD=create HOLD_DIR=$PWD "$ZEROTH" plugin check --include lifecycle -o path="$PWD/text" ./hold.so > out 2>&1 &
await $! test -e held.0
made=$(cd /tmp && compgen -G 'zeroth-check-*' | grep -vxF "$before")
like 'plugin check works in a directory of its own' "$(cd /tmp && stat -c '%a %u' $made)" "^700 $(id -u)\$"
touch go
wait
is 'which is removed' "$(cd /tmp && ls -d $made 2> /dev/null | head -n 1)" ''
mkdir room
TMPDIR=$PWD/room "$ZEROTH" bench step -n 1 --seconds 0.02 --rates rates.ini > out 2>&1 &
await $! compgen -G 'room/zeroth-bench.*'
like 'bench writes a file of its own in TMPDIR' "$(stat -c '%a %u' room/* 2> /dev/null)" "^600 $(id -u)\$"
wait
is 'which is removed, too' "$(ls room)" ''
like 'rates need the absolute path of a directory' "$(XDG_STATE_HOME=state HOME=home "$ZEROTH" bench 2>&1)" \
	'no place for rates.ini: neither XDG_STATE_HOME nor HOME is the absolute path of a directory'

# ---- what names code, and what does not ----
printf '#include <fcntl.h>\n__attribute__((constructor)) static void here(void) { open("%s/loaded", O_CREAT | O_WRONLY, 0600); }\n' \
	"$PWD" > evil.c
${CC:-cc} -shared -fPIC -o evil.so evil.c || exit 99
"$ZEROTH" train tiny.ini -o run.dir=run -o checkpoint.every=1 > out 2>&1
is 'a run to spoil' "$?" 0
spoil() { sed -i "s,plugin = [a-z0-9]*,plugin = $PWD/evil.so,g; s,\"\\(gpt2\\|adamw\\|model_type\\)\",\"$PWD/evil.so\",g" "$@"; }
cp -r run spoilt
spoil spoilt/checkpoints/*/manifest.json
ok 'a manifest names another plugin' grep -q evil.so spoilt/checkpoints/step-00000002/manifest.json
"$ZEROTH" train tiny.ini -o run.dir=spoilt --resume auto -o train.steps=4 > out 2>&1
"$ZEROTH" checkpoint ls spoilt > out 2>&1
"$ZEROTH" checkpoint export spoilt out.dir > out 2>&1
ok '... which is not loaded' test ! -e loaded
"$ZEROTH" checkpoint export run model > out 2>&1
spoil model/config.json
sed -i "s,GPT2LMHeadModel,$PWD/evil.so," model/config.json
ok 'weights name another model' grep -q evil.so model/config.json
"$ZEROTH" train tiny.ini -o run.dir=other -o model.path=model > out 2>&1
"$ZEROTH" sample model -n 1 > out 2>&1
"$ZEROTH" eval model -o data.plugin=text -o data.path=text > out 2>&1
ok '... whose file is not loaded' test ! -e loaded
cp -r run whole
spoil run/config.ini
"$ZEROTH" sample run -n 1 > out 2>&1
ok 'the config.ini of a run does name code' test -e loaded
rm loaded
mkdir scheduler
cp evil.so scheduler/mine.so
"$ZEROTH" plugin info scheduler/mine > out 2>&1
"$ZEROTH" train tiny.ini -o run.dir=here -o scheduler.plugin=mine > out 2>&1
ok 'a bare id is not looked for in the working directory' test ! -e loaded

# ---- names in files are no paths ----
"$ZEROTH" checkpoint export --shard-bytes 60000 whole parts > out 2>&1
mv parts/model-00002-of-*.safetensors .
for path in ../ "$PWD/" ./../; do
	cp -r parts led
	sed -i "s,model-00002-of,${path}model-00002-of,g" led/model.safetensors.index.json
	like "an index that names a shard $path..." "$("$ZEROTH" train tiny.ini -o run.dir=led.run -o model.path=led 2>&1; echo "exit $?")" \
		$'expected the name of a file beside it$\n^exit 2$'
	rm -r led
done

# ---- what is trusted ----
ln -s elsewhere.jsonl link.jsonl
"$ZEROTH" train tiny.ini -o run.dir=linked -o monitor.more.plugin=jsonl -o monitor.more.path="$PWD/link.jsonl" > out 2>&1
ok 'the absolute path of a monitor is followed' test -s elsewhere.jsonl
if [ -n "$ZR_SANITIZE" ]; then
	skip 'a file of tokens that shrinks' 'sanitizers report the signal'
	done_testing
	exit
fi
head -c 4000000 /dev/urandom | tr '\200-\377' '\0-\177' > tokens.bin
"$ZEROTH" train tiny.ini -o run.dir=cut -o train.steps=1000000 -o run.log_every=1 -o data.plugin=tokens -o data.path=tokens.bin \
	-o data.format=uint16 -o model.vocabulary=65536 > cut.out 2>&1 &
await $! grep -q '^step 2/' cut.out
: > tokens.bin
wait $!
code=$?
ok "a file of tokens that shrinks ends the run: $code" test $code -gt 1
like '... by a signal, which is named' "$(cat cut.out)" 'SIGBUS'

done_testing
