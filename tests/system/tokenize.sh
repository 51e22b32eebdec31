#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# zeroth tokenize gives the ids of Hugging Face's `tokenizers` for each family, however the text comes, in files that
# data/tokens and llm.c read; and zeroth sample decodes with the same file.
. "$ZR_SRCDIR/tests/lib/tap.sh" || exit 99
golden=$(cd "$ZR_SRCDIR" && pwd)/tests/golden/tokenizers
cd "$scratch" || exit 99
"$ZEROTH" tokenize -T "$golden/gpt2.json" --eot none -o out.bin "$golden/text" >out 2>err
if grep -q 'needs PCRE2' err; then
	like 'without PCRE2: what to install' "$(cat err)" 'install libpcre2-dev, configure and build again$'
	done_testing
	exit
fi
nfc=yes
"$ZEROTH" tokenize -T "$golden/qwen2.json" -o qwen.bin "$golden/text" 2>&1 | grep -q 'install libutf8proc-dev' && nfc=

# The ids of a file, one a line.
ids() {
	case $(od -An -tu4 -N4 "$1" | tr -d ' ') in
	20240520) od -An -v -tu2 -w2 -j1024 "$1" | tr -d ' ' ;;
	20240801) od -An -v -tu4 -w4 -j1024 "$1" | tr -d ' ' ;;
	esac
}

# same NAME FAMILY [argument]...: the ids of the golden text with these arguments
same() {
	local name=$1 family=$2
	shift 2
	rm -f out.bin
	"$ZEROTH" tokenize -T "$golden/$family.json" --eot none -o out.bin "$@" >out 2>err || cat err
	tr ' ' '\n' <"$golden/$family.ids" >wanted
	if ids out.bin | cmp -s - wanted; then
		pass "$family: $name"
	else
		fail "$family: $name" "$(ids out.bin | diff - wanted | head -n 5)"
	fi
}

gzip -c "$golden/text" >text.gz
for family in gpt2 llama3 qwen2 gpt4 joined; do
	case $family$nfc in
	qwen2 | gpt4)
		skip "$family" 'no utf8proc'
		continue
		;;
	esac
	same 'the ids of tokenizers' $family "$golden/text"
	for chunk in 1 2 3 5 64 1000; do
		same "in pieces of $chunk" $family --chunk-bytes $chunk "$golden/text"
	done
	same 'of standard input' $family - <"$golden/text"
	if gzip -cd text.gz | cmp -s - "$golden/text" && "$ZEROTH" tokenize -T "$golden/gpt2.json" -o gz.bin text.gz >/dev/null 2>&1; then
		same 'of a gzip file' $family text.gz
	else
		skip "$family: of a gzip file" 'no zlib'
	fi
done

# With spaces as SentencePiece writes them.
for family in llama2 mistral gemma metaspace behind across; do
	same 'the ids of tokenizers' $family "$golden/text"
	for chunk in 1 7; do
		same "in pieces of $chunk" $family --chunk-bytes $chunk "$golden/text"
	done
done

# With other models, and steps that only they have.
for family in falcon digits plain fused unknown t5 albert fallback behind_whole bert cased wordpiece; do
	case $family$nfc in
	t5 | albert | fallback | behind_whole | bert | cased | wordpiece)
		skip "$family" 'no utf8proc'
		continue
		;;
	esac
	same 'the ids of tokenizers' $family "$golden/text"
	for chunk in 1 7; do
		same "in pieces of $chunk" $family --chunk-bytes $chunk "$golden/text"
	done
done

# Without tokens for some bytes, in text that is UTF-8.
for family in neox lacking; do
	if [ $family$nfc = neox ]; then
		skip "$family" 'no utf8proc'
		continue
	fi
	same 'the ids of tokenizers' $family "$golden/utf8"
	for chunk in 1 7; do
		same "in pieces of $chunk" $family --chunk-bytes $chunk "$golden/utf8"
	done
done

# Files of old versions of the library do not name their model.
for family in gpt2 t5 bert; do
	case $family$nfc in
	t5 | bert)
		skip "$family, its model without a name" 'no utf8proc'
		continue
		;;
	esac
	sed 's/"model":{"type":"[A-Za-z]*",/"model":{/' "$golden/$family.json" >unnamed.json
	"$ZEROTH" tokenize -f -T unnamed.json --eot none -o out.bin "$golden/text" >out 2>err || cat err
	ok "$family, its model without a name" cmp <(ids out.bin) <(tr ' ' '\n' <"$golden/$family.ids")
done

# ---- the file ----
printf 'one two' >a
printf 'three' >b
: >empty
run() { "$ZEROTH" tokenize -f -T "$golden/gpt2.json" -o ab.bin "$@" >out 2>err; echo "$? $(cat err)"; }
is 'documents come after <|endoftext|>' "$(run a empty b)" '0 '
eot=$(grep -o '"id":[0-9]*,"content":"<|endoftext|>"' "$golden/gpt2.json" | tr -dc 0-9)
is 'of three documents three' "$(ids ab.bin | grep -cx "$eot")" 3
is 'the first token is one' "$(ids ab.bin | head -n 1)" "$eot"
is 'the header: magic, version, tokens' "$(od -An -td4 -N16 ab.bin | xargs)" "20240520 1 $(ids ab.bin | wc -l) 0"
like 'what is printed' "$(cat out)" "^tokenized   12 B in 3 documents, each after <\|endoftext\|>: $(ids ab.bin | wc -l) tokens, uint16, "
run --eot '<|a|>' a b >/dev/null
is '--eot takes any added token' "$(ids ab.bin | head -n 1)" "$(grep -o '"id":[0-9]*,"content":"<|a|>"' "$golden/gpt2.json" | tr -dc 0-9)"
run --eot none a b >/dev/null
is '--eot none' "$(ids ab.bin | grep -cx "$eot")" 0
sed 's/"id":[0-9]*,"content":"<|a|>b"/"id":70000,"content":"<|a|>b"/' "$golden/gpt2.json" >large.json
"$ZEROTH" tokenize -T large.json -o large.bin --eot '<|a|>b' a >/dev/null
is 'a large vocabulary: uint32' "$(od -An -td4 -N8 large.bin | xargs) $(ids large.bin | head -n 1)" '20240801 7 70000'
"$ZEROTH" tokenize -T "$golden/llama3.json" --add-special -o bos.bin a b >/dev/null
bos=$(grep -o '"id":[0-9]*,"content":"<|begin_of_text|>"' "$golden/llama3.json" | tr -dc 0-9)
is '--add-special: what the post-processor adds' "$(ids bos.bin | grep -cx "$bos") $(ids bos.bin | head -n 1)" "2 $bos"
run --raw --eot none a >/dev/null
cp ab.bin raw.bin
run --eot none a >/dev/null
ok '--raw: the same without a header' cmp raw.bin <(tail -c +1025 ab.bin)
run "$golden/text" >/dev/null
like 'what is not UTF-8 is told, and where' "$(cat err)" '^zeroth: warning: tokenize: [0-9]+ places are not UTF-8 and were read as U\+FFFD, the first behind [0-9]+ bytes of .*/text$'
like 'and what a model needs' "$(cat out)" '^vocabulary  457 tokens: \[model\] vocabulary = 457, or more$'
printf 'whole' >whole; printf 'four\xe4\xf6' >odd
run whole odd >/dev/null
is 'the first place is that of its file' "$(cat err)" \
	'zeroth: warning: tokenize: odd looks binary, not like text: more than a byte of 20 is no UTF-8
zeroth: warning: tokenize: 2 places are not UTF-8 and were read as U+FFFD, the first behind 4 bytes of odd'
printf 'a\0b' | run - >/dev/null
is 'zeros are binary' "$(cat err)" 'zeroth: warning: tokenize: standard input looks binary, not like text: it has bytes that are zero'
is 'nothing is left over' "$(ls ./*.tmp 2>/dev/null)" ''

# ---- what goes wrong ----
cp ab.bin before
like 'a file that is not there' "$(run a nowhere)" '^2 zeroth: nowhere: No such file or directory$'
is 'leaves the output as it was' "$(cmp ab.bin before && ls ./*.tmp 2>/dev/null)" ''
is 'a file that is there is not replaced' "$("$ZEROTH" tokenize -T "$golden/gpt2.json" -o ab.bin b 2>&1; echo $?)" \
	"zeroth: ab.bin exists already; choose another name, or --force replaces it"$'\n'2
ok 'and is as it was' cmp ab.bin before
like 'a directory' "$(run .)" '^4 zeroth: \.: Is a directory$'
head -c 100 text.gz >short.gz
like 'a truncated gzip file' "$(run short.gz)" '^2 zeroth: short\.gz: .*(truncated|no zlib)'
yes 'word after word' | head -c 40000000 | gzip >bomb.gz
like 'a gzip file that expands too far, I7' "$(run bomb.gz)" \
	'^2 zeroth: bomb\.gz: (its first [0-9]+ bytes expand to more than 256 times as much .* gunzip it|.*no zlib)'
like 'and plain it is text as any' "$(gunzip -c bomb.gz | head -c 4000000 | run -)" '^0 '
like 'an unknown --eot' "$(run --eot '<|nothing|>' a)" '^2 zeroth: --eot <\|nothing\|>: is not an added token of '
(trap '' XFSZ; ulimit -f 1; "$ZEROTH" tokenize -T "$golden/gpt2.json" -o full.bin "$golden/text" >/dev/null 2>err)
is 'a full disk' "$? $(grep -v warning err)" '4 zeroth: full.bin.tmp: cannot write: File too large'
# refused NAME PATTERN SED: a tokenizer.json that this changes
refused() {
	sed "$3" "$golden/llama3.json" >bad.json
	like "refused: $1" "$("$ZEROTH" tokenize -T bad.json -o bad.bin a 2>&1; echo "code $?")" "^zeroth: bad\.json: $2"
}
refused 'another model' \
	'model\.type: expected BPE, Unigram or WordPiece, found "WordLevel"$' \
	's/"type":"BPE"/"type":"WordLevel"/'
refused 'another pre-tokenizer' \
	'pre_tokenizer\.pretokenizers\[0\]: UnicodeScripts is not supported; BertPreTokenizer, ' \
	's/"type":"Split"/"type":"UnicodeScripts"/'
refused 'another behavior' 'pre_tokenizer\.pretokenizers\[0\]: behavior MergedWithBoth is not supported; Isolated, .* and MergedWithNext are$' 's/"Isolated"/"MergedWithBoth"/'
refused 'an escape that means something else' 'pre_tokenizer\.pretokenizers\[0\]: \\w at byte 1 of the pattern' 's/"Regex":"/&\\\\w|/'
refused 'another normalizer' \
	'normalizer: ByteLevel is not supported; BertNormalizer, ' \
	's/"normalizer":null/"normalizer":{"type":"ByteLevel"}/'
refused 'dropout' 'model\.dropout: is not supported' 's/"dropout":null/"dropout":0.1/'
refused 'a merge of strangers' 'model\.merges\[0\]: elephant is not in the vocabulary' 's/"merges":\[\[[^]]*\]/"merges":[["elephant","a"]/'
spaced_refused() { # NAME PATTERN FAMILY SED
	sed "$4" "$golden/$3.json" >bad.json
	like "refused: $1" "$("$ZEROTH" tokenize -T bad.json -o bad.bin a 2>&1; echo "code $?")" \
		"^zeroth: bad\.json: $2"
}
spaced_refused 'a normalizer behind that of spaces' \
	'normalizer: NFKC after a Replace of a space by U\+2581 is not supported' \
	gemma 's/"normalizer":\({[^}]*}[^}]*}\)/"normalizer":{"type":"Sequence","normalizers":[\1,{"type":"NFKC"}]}/'
spaced_refused 'a pre-tokenizer that would see other spaces' \
	'pre_tokenizer: Digits is not supported where the normalizer writes spaces as U\+2581' \
	gemma 's/"type":"Split"/"type":"Digits"/'
spaced_refused 'a second Metaspace' 'pre_tokenizer.pretokenizers\[1\]: a second Metaspace is not supported' \
	mistral 's/"pre_tokenizer":\({[^}]*}\)/"pre_tokenizer":{"type":"Sequence","pretokenizers":[\1,\1]}/'
if [ $nfc ]; then
	spaced_refused 'Metaspace with WordPiece' 'pre_tokenizer: Metaspace is not supported with this model' \
		bert 's/"type":"BertPreTokenizer"/"type":"Metaspace"/'
	spaced_refused 'a map that is none' 'normalizer: Precompiled is no map of SentencePiece in base64' \
		t5 's/"precompiled_charsmap":"[^"]*"/"precompiled_charsmap":"AAAA"/'
	spaced_refused 'Unigram without an unknown token' 'model.unk_id: expected the id of a token, found null' \
		t5 's/"unk_id":[0-9]*/"unk_id":null/'
fi
spaced_refused 'an unknown token that is none' \
	'model.unk_token: expected a token of the vocabulary, found "<none>"' \
	llama2 's/"unk_token":"<unk>"/"unk_token":"<none>"/'
spaced_refused 'another prepend_scheme' \
	'pre_tokenizer.prepend_scheme: expected never, first or always, found "last"' \
	mistral 's/"prepend_scheme":"first"/"prepend_scheme":"last"/'
refused 'bytes without a token, and characters as tokens of bytes' 'model\.byte_fallback: is not supported where' \
	's/"vocab":{"!":/"vocab":{"elephant":/; s/"byte_fallback":false/"byte_fallback":true/'

# ---- bytes without a token ----
# lacks NAME WANTED SED TEXT: of a text behind a document without a fault, which has the byte 0x21 in an added token,
# and llama3.json that SED changes
lacks() {
	sed "$3" "$golden/llama3.json" >lacks.json
	printf 'no fault in cafe\xcc\x81!\n' >good
	printf '%b' "$4" >text
	is "$1" "$("$ZEROTH" tokenize -T lacks.json -o lacks.bin good text 2>&1; echo "$? $(ls lacks.bin* 2>/dev/null)")" "zeroth: text: byte $2"$'\n''2 '
}
none="has no token in the tokenizer's vocabulary" without='s/"vocab":{"!":/"vocab":{"elephant":/'
lacks 'a byte without a token: file and place' "0x21, first behind 9 bytes of the text, $none" "$without" 'two words! or!'
lacks 'in a word of many' "0x21, first behind 300 bytes of the text, $none" "$without" "$(printf 'a%.0s' $(seq 300))!!"
lacks 'one that UTF-8 never has' "0xff, first behind 70002 bytes of the text, $none, and UTF-8 never has it" 's/"ÿ"/"elephant"/' \
	"$(printf 'words %.0s' $(seq 11667))\\xff"
lacks 'one that the normalizer puts there' "0x21, which the normalizer puts into the text, $none" \
	"$without"'; s/"normalizer":null/"normalizer":{"type":"Replace","pattern":{"String":"?"},"content":"!"}/' 'so?'
sed 's/"ÿ"/"elephant"/' "$golden/llama3.json" >lacks.json
printf 'a\x80' >text
like 'other bytes that are no UTF-8 are U+FFFD' "$("$ZEROTH" tokenize -T lacks.json -o lacks.bin text 2>&1)" 'first behind 1 bytes of text$'

# ---- a directory ----
mkdir -p model/other model/none
cp "$golden/gpt2.json" model/tokenizer.json
run --eot none a >/dev/null
cp ab.bin file.bin
"$ZEROTH" tokenize -T model/ --eot none -o dir.bin a >/dev/null
ok 'a directory: its tokenizer.json' cmp dir.bin file.bin
# other NAME PATTERN TEXT: a directory that has this file instead
other() {
	rm -f model/other/*
	printf '%b' "$3" >"model/other/$1"
	local how="is $2, which is not read; this writes its tokenizer\.json: python3 -c .*from_pretrained\('model/other'\)"
	like "a directory with $1" "$("$ZEROTH" tokenize -T model/other -o x.bin a 2>&1)" "^zeroth: model/other/$1: $how"
	like "$1 itself" "$("$ZEROTH" tokenize -T "model/other/$1" -o x.bin a 2>&1)" "^zeroth: model/other/$1: $how"
}
other tokenizer.model 'a model of SentencePiece, as of Llama 2, Mistral and Gemma' '\n\016\n\005<unk>'
other tokenizer.model 'a vocabulary of tiktoken' 'IQ== 0\nIg== 1\n'
other spiece.model 'a model of SentencePiece, as of T5 and ALBERT' '\n\016'
other vocab.txt 'a vocabulary of WordPiece, as of BERT' '[PAD]\n'
other vocab.json 'half of a byte-level BPE, as of GPT-2' '{}'
other tekken.json "a tokenizer of Mistral's own, Tekken" '{}'
like 'a directory without one' "$("$ZEROTH" tokenize -T model/none -o x.bin a 2>&1)" '^zeroth: model/none: is a directory without a tokenizer\.json$'

# ---- sample ----
"$ZEROTH" tokenize -T "$golden/gpt2.json" -o train.bin "$golden/text" >/dev/null 2>&1
if "$ZEROTH" train "$ZR_SRCDIR/tests/lib/matrix.ini" -o data.plugin=tokens -o data.path=train.bin -o model.vocabulary=512 -o run.dir=run \
	-o train.eval_every=0 >out 2>&1; then
	text=$("$ZEROTH" sample run -T "$golden/gpt2.json" -p 'It'"'"'s 人工😀' -n 20 -k 0 -t 1)
	is 'sample: the prompt by the tokenizer' "${text:0:15}" "It's 人工😀"
	ok 'and text behind it' test ${#text} -gt 15
	like 'sample: without a tokenizer numbers' "$("$ZEROTH" sample run -n 3)" '^[0-9]+ [0-9]+ [0-9]+ $'
	cp "$golden/gpt2.json" run/tokenizer.json
	is 'sample: the one in the run' "$("$ZEROTH" sample run -n 20 2>err)" "$("$ZEROTH" sample run -T "$golden/gpt2.json" -n 20)"
	is 'and says so' "$(cat err)" 'tokenizer   run/tokenizer.json'
	cp large.json run/tokenizer.json
	like 'sample: not if it is of another model' "$("$ZEROTH" sample run -n 3 2>err)" '^[0-9]+ [0-9]+ [0-9]+ $'
	like 'and says so' "$(cat err)" '^zeroth: tokens are numbers here, since their tokenizer cannot be used: run/tokenizer.json: has 70001 tokens'
	rm run/tokenizer.json
	mkdir dir
	cp "$golden/gpt2.json" dir/tokenizer.json
	sed -i '/^\[model\]/a path = dir' run/config.ini
	like 'sample: that of [model] path' "$("$ZEROTH" sample run -n 3 2>&1)" '^tokenizer   dir/tokenizer.json'
	"$ZEROTH" sample run -T "$golden/gpt2.json" -n 3 >/dev/null 2>err
	is 'sample: one that is given is used' "$?$(cat err)" 0
	"$ZEROTH" sample run -T dir -n 3 >/dev/null 2>err
	is 'sample: a directory' "$?$(cat err)" 0
	if [ $nfc ]; then
		like 'sample: a prompt as the tokenizer decodes it' \
			"$("$ZEROTH" sample run -T "$golden/bert.json" -p 'the room, go!' -n 3 -k 0)" '^the room, go!'
	fi
	like 'sample: a tokenizer of more tokens' "$("$ZEROTH" sample run -T large.json 2>&1)" \
		'^zeroth: large\.json: has 70001 tokens, the model of run knows 512: '
else
	fail 'a training from tokens' "$(cat out)"
fi

done_testing
