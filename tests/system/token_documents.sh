#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# zeroth tokenize --documents writes a file of safetensors that says where documents begin; and
# the bytes of its text, which bits per byte are of.
. "$ZR_SRCDIR/tests/lib/tap.sh" || exit 99
golden=$(cd "$ZR_SRCDIR" && pwd)/tests/golden/tokenizers
cd "$scratch" || exit 99
printf 'one two' >a
printf 'three' >b
: >empty
run() { "$ZEROTH" tokenize --force -T "$golden/gpt2.json" -o ab.tok "$@" >out 2>err; echo "$? $(cat err)"; }
got=$(run --documents --eot none a empty b)
case $got in *'needs PCRE2'*) skip_all 'no PCRE2' ;; esac

# The header without its padding, and numbers of $1 from byte $2 of the data: type, count.
header() { head -c 8192 "$1" | tail -c +9 | sed 's/ *$//'; }
numbers() { od -An -v -t "$3" -w"$4" -j $((8192 + $2)) "$1" | tr -d ' ' | xargs; }

is 'it runs' "$got" '0 '
run --documents --eot none a empty b >/dev/null
is 'the header has 8192 bytes' "$(od -An -t d8 -N8 ab.tok | tr -d ' ')" 8184
"$ZEROTH" tokenize -T "$golden/gpt2.json" --raw --eot none -o a.bin a >/dev/null
"$ZEROTH" tokenize -T "$golden/gpt2.json" --raw --eot none -o b.bin b >/dev/null
na=$(($(stat -c %s a.bin) / 2)) nb=$(($(stat -c %s b.bin) / 2))
n=$((na + nb)) size=$(grep -o '"id":[0-9]*' "$golden/gpt2.json" | tr -dc '0-9\n' | sort -n | tail -n 1)
like 'format, vocabulary and tensors' "$(header ab.tok)" \
	"\"format\":\"zeroth.documents/1\".*\"tokens\":\{\"dtype\":\"U16\",\"shape\":\[$n\],\"data_offsets\":\[0,$((2 * n))\]\}.*\"documents\":\{\"dtype\":\"I64\",\"shape\":\[3\],\"data_offsets\":\[$((2 * n)),$((2 * n + 24))\]\}"
like 'the vocabulary' "$(header ab.tok)" "\"vocabulary\":\"$((size + 1))\""
is 'tokens are those of the texts' "$(head -c $((8192 + 2 * n)) ab.tok | tail -c +8193 | sha256sum)" \
	"$(cat a.bin b.bin | sha256sum)"
is 'an empty text is no document' "$(numbers ab.tok $((2 * n)) d8 8)" "0 $na $n"
is 'nothing else is in it' "$(stat -c %s ab.tok)" $((8192 + 2 * n + 24))
is 'nothing is left over' "$(ls ./*.tmp* 2>/dev/null)" ''
run --documents a b >/dev/null
eot=$(grep -o '"id":[0-9]*,"content":"<|endoftext|>"' "$golden/gpt2.json" | tr -dc 0-9)
n=$((n + 2))
is 'each ends with <|endoftext|>' "$(numbers ab.tok $((2 * na)) d2 2 | cut -d' ' -f1) $(numbers ab.tok $((2 * n - 2)) d2 2 | cut -d' ' -f1)" "$eot $eot"
like 'and it says so' "$(cat out)" '^tokenized   12 B in 2 documents, each before <\|endoftext\|>: '
sed 's/"id":[0-9]*,"content":"<|a|>b"/"id":70000,"content":"<|a|>b"/' "$golden/gpt2.json" >large.json
"$ZEROTH" tokenize -T large.json -o large.tok --documents --eot '<|a|>b' a >/dev/null
is 'a large vocabulary: 4 bytes' "$(numbers large.tok $((4 * na)) d4 4 | cut -d' ' -f1)" 70000
cp ab.tok before
like '--raw has no documents' "$(run --raw --documents a)" '^2 zeroth tokenize: --raw and --documents exclude each other'
like 'a file that is not there' "$(run --documents a nowhere)" '^2 zeroth: nowhere: No such file'
is 'leaves the output as it was' "$(cmp ab.tok before && ls ./*.tmp* 2>/dev/null)" ''
(trap '' XFSZ; ulimit -f 9; "$ZEROTH" tokenize -T "$golden/gpt2.json" --documents -o full.tok "$golden/text" >/dev/null 2>err)
like 'a full disk' "$? $(cat err)" '^4 zeroth: full.tok.tmp: cannot write: File too large'
is 'leaves nothing' "$(ls full* 2>/dev/null)" ''

# ---- JSON, which is no text ----
printf '{"text": "one"}\n{"text": "two"}\n' >rows.jsonl
gzip -c rows.jsonl >rows.gz
printf '\xef\xbb\xbf\n[\n {"text" : "one"}]' >list.json
printf '{ int x = 1; }\n' >program
how='--chat makes documents of conversations, --content rows of the field text of each row \(--field text=NAME reads another one\); --content any takes its bytes as they are'
for file in rows.jsonl list.json rows.gz; do
	got=$(run --documents a $file)
	case $got in *zlib*) skip "$file is refused" 'no zlib' && continue ;; esac
	like "$file is refused" "$got" "^2 zeroth: $file: is JSON, not text: $how\$"
	is "$file: the output is as it was" "$(cmp ab.tok before && ls ./*.tmp* 2>/dev/null)" ''
done
like 'so is standard input' "$(run --documents - <rows.jsonl)" "^2 zeroth: standard input: is JSON, not text: "
like 'without --documents, too' "$("$ZEROTH" tokenize -T "$golden/gpt2.json" -o rows.bin rows.jsonl 2>&1)" '^zeroth: rows.jsonl: is JSON, not text: '
is 'a program that begins with a brace is text' "$(run --documents program)" '0 '
is '--content any takes JSON as bytes' "$(run --documents --content any rows.jsonl)" '0 '
like 'another --content' "$(run --content json a)" '^2 zeroth tokenize: --content json: expected text, rows or any$'

# ---- rows ----
# Those of a file give what their texts give as files of their own, however they come.
cat >rows.jsonl <<'END'
{"id": 1, "text": "one"}
{"id": 2, "text": "two"}
{"id": 3, "text": "thr\u00e9e\n"}
END
printf one >r1; printf two >r2; printf 'thr\xc3\xa9e\n' >r3
run --documents r1 r2 r3 >/dev/null
dd if=ab.tok bs=8192 skip=1 2>/dev/null >want
rows() { got=$(run --documents --content rows "$@") && dd if=ab.tok bs=8192 skip=1 2>/dev/null | cmp - want && echo "same $got"; }
is 'rows are the documents that their texts are' "$(rows rows.jsonl)" 'same 0 '
like 'they are counted' "$(head -n 1 out)" '^tokenized   13 B in 3 documents, each before <\|endoftext\|>: '
like '... in the file' "$(header ab.tok)" '"records":"3"'
is 'on standard input' "$(rows - <rows.jsonl)" 'same 0 '
is 'in small pieces' "$(rows --chunk-bytes 1 rows.jsonl)" 'same 0 '
is 'in a list over lines' "$(rows - < <(printf '\xef\xbb\xbf['; sed '$!s/$/,/; s/, /,\n/' rows.jsonl; echo ']'))" 'same 0 '
is 'of another field' "$(rows --field text=body - < <(sed 's/"text"/"text": 3, "body"/' rows.jsonl))" 'same 0 '
is 'in a stream with <|endoftext|> before each' "$(run --content rows rows.jsonl; tail -c +1025 ab.tok | sha256sum)" \
	"$(run r1 r2 r3; tail -c +1025 ab.tok | sha256sum)"
is 'empty lines and empty texts are no documents' "$(rows - < <(sed '1s/^/\n{"text": ""}\n/' rows.jsonl; printf ' \t\n\n'))" 'same 0 '
is '... the texts are counted' "$(tail -n 1 out)" 'left out    1 of 4 rows: empty'
like '... in the file, too' "$(header ab.tok)" '"dropped.empty":"1"'
refused() { printf "$1" | run --documents --content rows "${@:2}" -; }
like 'a text that is null' "$(refused '{"text": "a"}\n{"text": null}\n')" '^2 zeroth: standard input:2: field text: expected a text, found null$'
like 'one that is a number' "$(refused '\n{"text": 1}')" '^2 zeroth: standard input:2: field text: expected a text, found another type of JSON$'
like 'no text' "$(refused '{"id": 1, "body": "a"}\n')" '^2 zeroth: standard input:1: has no field text, but id body: --field text=NAME reads another$'
like 'no object' "$(refused '"a"\n')" '^2 zeroth: standard input:1: expected an object of JSON$'
like 'no JSON' "$(refused '{"text": "a"}\n{"text": "a\n')" '^2 zeroth: standard input:2: not JSON: '
like 'no rows' "$(refused '\n{"text": ""}\n')" '^2 zeroth: there is no row with a text in standard input$'
like 'a field of what are no rows' "$(run --field text=body r1)" '^2 zeroth tokenize: --field goes with --content rows'
like 'another name of a field' "$(run --content rows --field body r1)" '^2 zeroth tokenize: --field body: expected text=NAME$'
is 'what was refused leaves the output as it was' "$(header ab.tok | grep -c dropped.empty; ls ./*.tmp* 2>/dev/null)" 1

# ---- bits per byte ----
# Of documents of 7 bytes; a document's first token, of one byte, is no target, and <|endoftext|> has no bytes.
mkdir short
for i in $(seq 10 49); do printf '\nrun %d' "$i" >"short/$i"; done
"$ZEROTH" tokenize --force -T "$golden/gpt2.json" --documents -o short.tok short/* >/dev/null
cat >tiny.ini <<-INI
	[train]
	steps = 2
	train_batch_size = 2
	micro_batch_size = 2
	sequence_length = 32
	eval_every = 2
	[model]
	plugin = gpt2
	layers = 1
	heads = 2
	width = 32
	context = 32
	vocabulary = $((size + 1))
	[data]
	plugin = tokens
	path = short.tok
	split = 0.3
INI
"$ZEROTH" train tiny.ini -o run.dir=first -o checkpoint.every=2 >/dev/null 2>&1
"$ZEROTH" checkpoint export first hf >/dev/null 2>&1
cp "$golden/gpt2.json" hf/tokenizer.json
"$ZEROTH" eval --json hf -o data.plugin=tokens -o data.path=short.tok >eval.json 2>err
value() { grep -oE "\"$1\": *[0-9.]+" | sed 's/.*[: ]//'; }
is 'special tokens are no bytes of text' "$(awk -v l="$(value loss <eval.json)" -v n="$(value targets <eval.json)" \
	-v b="$(value bits_per_byte <eval.json)" 'BEGIN { printf "%.2f", b ? l * n / log(2) / b : 0 }')" $((40 * 6)).00
"$ZEROTH" train tiny.ini -o run.dir=next -o model.path=hf >/dev/null 2>&1
cp "$golden/gpt2.json" next/tokenizer.json
trained=$(tail -n 1 next/metrics.jsonl | grep -o '"val_bits_per_byte":[0-9.]\{7\}' | cut -d: -f2)
is 'as training has it' "${trained:-nothing}" \
	"$("$ZEROTH" eval --json next 2>err | value bits_per_byte | cut -c1-7)"
done_testing
