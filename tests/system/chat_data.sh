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
XDG_CACHE_HOME=$scratch/xdg train chat.ini -o data.cache= -o run.dir=five >/dev/null
is 'the usual place' "$(find xdg/zeroth -name 'chat-*.tokens' | wc -l)" 1

# ---- going on needs the same data ----
like 'resume' "$(train chat.ini -o run.dir=six -o checkpoint.every=1 -o train.steps=2; train chat.ini -o run.dir=six -o checkpoint.every=1 --resume auto)" '^digest'
sed -i '3s/content/kontent/' chat.jsonl
like 'a broken line' "$(train chat.ini -o run.dir=seven)" \
	'chat.jsonl:3: message 1: has no content; it needs role and content'
ok 'leaves no file' test "$(find cache -name '*.tmp*' -o -name '*.tokens' | wc -l)" = 2
like 'and left out it is other data' "$(train chat.ini -o data.on_bad=skip -o run.dir=six -o checkpoint.every=1 -o train.steps=9 --resume auto)" \
	'chat.jsonl.*(other|changed|differ|not the same|--other-data)'
done_testing
