#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# [data] plugin = chat: conversations are tokenized once, by one of all ranks, and learned as
# data/tokens learns the file that zeroth tokenize --chat writes of them.
. "$ZR_SRCDIR/tests/lib/tap.sh" || exit 99
. "$ZR_SRCDIR/tests/lib/fixture.sh" || exit 99
golden=$(cd "$ZR_SRCDIR" && pwd)/tests/golden/chat
cd "$scratch" || exit 99
cp "$golden/bytes.json" tokenizer.json
head -n 60 "$golden/conversations.jsonl" >chat.jsonl
{
	sed '/^\[data\]/,/^plugin/d' "$ZR_SRCDIR/tests/lib/matrix.ini"
	printf '[data]\nplugin = chat\npath = chat.jsonl\ntokenizer = tokenizer.json\n'
	printf 'template = chatml\nsplit = 0.1\ncache = cache\n'
} >chat.ini
# train [argument]...: as trained, of a small batch
train() { trained "$@" -o model.vocabulary=1024 -o train.train_batch_size=3; }
"$ZEROTH" tokenize --chat -T tokenizer.json -t chatml -o chat.tok chat.jsonl >out 2>err
grep -q ' build' err && skip_all 'no PCRE2 or no utf8proc'

want=$(train chat.ini -o data.plugin=tokens -o data.path=chat.tok -o run.dir=tokens \
	-o data.tokenizer= -o data.template= -o data.cache=)
like 'from a file of tokens' "$want" '^digest'
is 'from the conversations: the same bits' "$(train chat.ini -n 3 -o run.dir=one)" "$want"
like 'it is shown as text' "$("$ZEROTH" data show chat.ini -n 1 -o data.packing=none -o model.vocabulary=1024 -o train.train_batch_size=3 2>&1)" \
	'<\|im_start\|>assistan'
is 'one rank of three wrote' "$(cat out log | grep -c 'tokenizing chat.jsonl, with template chatml, to cache/')" 1
ok 'the same file' cmp chat.tok cache/chat-*.tokens
is 'and nothing else' "$(find cache -type f ! -name '*.lock' | wc -l)" 1
train chat.ini -o run.dir=set -o eval.set.plugin=chat -o eval.set.path=chat.jsonl \
	-o eval.set.tokenizer=tokenizer.json -o eval.set.template=chatml -o eval.set.cache=cache >/dev/null
like 'all conversations of a set are evaluated' "$(cat out)" '^eval    set: .* in 60 conversations, all to evaluate on$'
is 'again: the same bits' "$(train chat.ini -o run.dir=two)" "$want"
is 'from what was kept' "$(cat out log | grep -c tokenizing)" 0
is 'by another name of the file' "$(cp chat.jsonl other.jsonl; train chat.ini -o data.path=other.jsonl -o run.dir=three)" "$want"
is 'as well' "$(cat out log | grep -c tokenizing)" 0
train chat.ini -o data.train_on=all -o run.dir=four >/dev/null
is 'another option: another file' "$(find cache -name '*.tokens' | wc -l)" 2
"$ZEROTH" tokenize --chat -T tokenizer.json -t chatml --mask trl -o trl.tok chat.jsonl >/dev/null 2>&1
like_trl=$(train chat.ini -o data.mask=trl -o data.cache=masks -o run.dir=masked)
is 'mask: the same bits as of a file of tokens' "$like_trl" "$(train chat.ini -o data.plugin=tokens -o data.path=trl.tok \
	-o run.dir=masked_tokens -o data.tokenizer= -o data.template= -o data.cache=)"
train chat.ini -o data.cache=masks -o run.dir=unmasked >/dev/null
is 'another mask: another file' "$(find masks -name '*.tokens' | wc -l)" 2
ok 'and another training' test "$like_trl" != "$want"
XDG_CACHE_HOME=$scratch/xdg train chat.ini -o data.cache= -o run.dir=five >/dev/null
is 'the usual place' "$(find xdg/zeroth -name 'chat-*.tokens' | wc -l)" 1

# ---- what is believed ----
tokens=$(ls cache/*.tokens | head -n 1)
for each in cache/*.tokens; do cmp -s chat.tok "$each" && tokens=$each; done
# again NAME WARNING: a training gives the same bits, one of its ranks warns, and the file is what it was
again() {
	rm -rf again
	is "$1: the same bits" "$(train chat.ini -n 3 -o run.dir=again)" "$want"
	is "$1: a line says so" "$(sed -n 's/^rank [0-9]: \(zeroth: warning\)/\1/p' log)" \
		"zeroth: warning: data: $tokens: $2: it is not used, and written again"
	ok "$1: the file is as it was" cmp chat.tok "$tokens"
}
size=$(stat -c %s chat.tok)
for at in 9 $((size / 2)) $((size - 1)); do
	printf '\x5a' | dd of="$tokens" bs=1 seek="$at" conv=notrunc 2>/dev/null
	again "byte $at is another" 'is not what was written'
done
truncate -s 0 "$tokens"
again 'nothing is left' 'is empty'
chmod 666 "$tokens"
again 'others can write it' 'has mode 0666, writable by others'
mv "$tokens" elsewhere
ln -s ../elsewhere "$tokens"
again 'a link' 'is a symbolic link'
ok 'what the link pointed to is as it was' cmp chat.tok elsewhere
: >"$tokens.lock"
again 'no hash' 'has no hash beside it'
for other in cache/*.tokens; do [ "$other" = "$tokens" ] || break; done
cp "$other" "$tokens"
cp "$other.lock" "$tokens.lock"
again 'a file of other options under this name' 'is not what was written'
if [ "$(id -u)" = 0 ] && chown 4242 "$tokens"; then
	again "another user's" 'belongs to uid 4242'
	chown 4242 "$tokens.lock"
	like "another user's hash" "$(train chat.ini -o run.dir=no)" \
		"$tokens.lock: belongs to uid 4242: remove it, or set cache to a directory of your own\$"
	chown 0 "$tokens.lock"
	chown 4242 cache
	like "another user's directory" "$(train chat.ini -o run.dir=no)" \
		'cache = cache: it belongs to uid 4242, who can change what is learned: set cache to a directory of your own$'
	chown 0 cache
else
	skip "another user's" 'only root can give files away'
fi
chmod 777 cache
like 'a directory that others can write' "$(train chat.ini -o run.dir=no)" \
	'cache = cache: its mode is 0777, writable by others, .*: run chmod o-w on it, or set cache to a directory of your own$'
chmod 1777 cache
is 'but not rename in' "$(train chat.ini -o run.dir=sticky)" "$want"
chmod 755 cache
like 'no home, no place' "$(unset HOME XDG_CACHE_HOME; train chat.ini -o data.cache= -o run.dir=no)" \
	'cache: no place for the tokens: neither XDG_CACHE_HOME nor HOME is .*; set cache to one$'
is 'and none in /tmp' "$(find /tmp/.cache -newer chat.tok 2>/dev/null)" ''
is 'a place of one'"'"'s own' "$(stat -c %a xdg/zeroth) $(stat -c %a xdg/zeroth/chat-*.tokens)" '700 600'

# ---- going on needs the same data ----
like 'resume' "$(train chat.ini -o run.dir=six -o checkpoint.every=1 -o train.steps=2; train chat.ini -o run.dir=six -o checkpoint.every=1 --resume auto)" '^digest'
sed -i '3s/content/kontent/' chat.jsonl
like 'a broken line' "$(train chat.ini -o run.dir=seven)" \
	'chat.jsonl:3: message 1: has no content; it needs role and content'
ok 'leaves no file' test "$(find cache -name '*.tmp*' -o -name '*.tokens' | wc -l)" = 2
like 'and left out it is other data' "$(train chat.ini -o data.on_bad=skip -o run.dir=six -o checkpoint.every=1 -o train.steps=9 --resume auto)" \
	'the data is another: .* in chat.jsonl, tokenized in cache/chat-[0-9a-f]*.tokens, is .* in chat.jsonl, tokenized in cache/chat-[0-9a-f]*.tokens: .* --other-data$'
done_testing
