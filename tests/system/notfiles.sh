#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# I7: a FIFO, a device or a directory in the place of a file is refused by one line, at once; a configuration may be a pipe, and
# one that never comes can be interrupted.
. "$ZR_SRCDIR/tests/lib/tap.sh" || exit 99
. "$ZR_SRCDIR/tests/lib/fixture.sh" || exit 99
cd "$scratch" || exit 99

tiny text 1 4 1 < /dev/null
mkfifo fifo
mkdir dir
ln -s fifo link

# refused NAME PATTERN COMMAND...: exit 2, one line, well before a minute is over.
refused() {
	err=$(timeout 60 "${@:3}" 2>&1 >/dev/null </dev/null)
	is "$1: exit 2" "$?" 2
	like "$1" "$err" "$2"
	is "$1: one line" "$(wc -l <<<"$err")" 1
}
for what in fifo link dir /dev/zero; do
	refused "text: $what" "path = $what: is not a regular file" "$ZEROTH" train tiny.ini -o run.dir=r -o data.path=$what
	refused "tokens: $what" "path = $what: is not a regular file" "$ZEROTH" train tiny.ini -o run.dir=r -o data.plugin=tokens \
		-o data.path=$what
	[ "$what" != dir ] || not="is a directory without a tokenizer.json" # it may be a model's
	refused "tokenizer.json: $what" "$what: ${not:-not a regular file}" "$ZEROTH" tokenize --tokenizer $what -o out text
	not=
	mkdir -p model
	ln -sfn "$(realpath $what)" model/config.json
	refused "config.json: $what" 'config.json.*not a regular file' "$ZEROTH" train tiny.ini -o run.dir=r -o model.path=model
	rm -r model
	ok "$what: no run directory is left" test ! -e r
done
refused "a configuration that is a device" '^zeroth: /dev/zero: a device, which is no text' "$ZEROTH" train /dev/zero
refused "a configuration that is a directory" '^zeroth: dir: Is a directory' "$ZEROTH" train dir

"$ZEROTH" config check <(cat tiny.ini) > out 2>&1
is "a configuration may be a pipe: exit $?" "$?" 0
"$ZEROTH" train <(cat tiny.ini) -o run.dir=piped > out 2>&1
is "and trained: exit 0" "$?" 0
for ranks in '' '-n 2'; do
	"$ZEROTH" train $ranks fifo > out 2>&1 &
	pid=$!
	# It waits for the FIFO's other end: nothing else shows that it came so far.
	until grep -qs 'fifo\|pipe\|wait_for_partner\|do_wait' /proc/$pid/wchan || [ $((waited += 1)) -gt 100 ]; do sleep 0.02; done
	kin=$(children $pid)
	kill -TERM $pid
	timeout 60 tail --pid=$pid -s 0.02 -f /dev/null
	wait $pid
	is "a configuration that never comes can be interrupted ${ranks:-alone}" "$?" 143
	for _ in $(seq 6000); do left=$(running $kin); [ -z "$left" ] && break; sleep 0.02; done
	is "and nobody is left ${ranks:-alone}" "$left" ""
done

# A file of tokens is written anew, and not through a link.
echo precious > precious
ln -s precious out.bin.tmp
ok "tokenize" "$ZEROTH" tokenize --tokenizer "$ZR_SRCDIR/tests/golden/tokenizers/gpt2.json" -o out.bin text
is "tokenize follows no link" "$(cat precious)" precious
done_testing
