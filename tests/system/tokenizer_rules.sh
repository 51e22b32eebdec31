#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Rules of tokenizer.json that show only in vocabularies which lack something, or where steps meet:
# small ones, and the ids that Hugging Face's `tokenizers` 0.22 gives a text.
. "$ZR_SRCDIR/tests/lib/tap.sh" || exit 99
cd "$scratch" || exit 99

# is_ids NAME IDS TEXT MODEL NORMALIZER PRE_TOKENIZER [ADDED]
is_ids() {
	printf '{"model":{"type":"%s",%s},"normalizer":%s,"pre_tokenizer":%s,"added_tokens":[%s]}' \
		"${model:-BPE}" "$4" "$5" "$6" "$7" >tokenizer.json
	printf '%b' "$3" >text
	"$ZEROTH" tokenize -f --raw -T tokenizer.json --eot none -o out.bin text >out 2>err || cat err
	case $(cat err) in
	*'not have PCRE2'* | *'install libutf8proc-dev'* | *'install libpcre2-dev'*)
		skip "$1" 'no PCRE2 or no utf8proc'
		return
		;;
	esac
	is "$1" "$(od -An -v -tu2 out.bin | xargs)" "$2"
}

spaces='{"type":"Replace","pattern":{"String":" "},"content":"▁"}'
metaspace() { printf '{"type":"Metaspace","replacement":"▁","prepend_scheme":"%s","split":false}' "$1"; }
words='"vocab":{"<unk>":0,"▁":1,"a":2,"b":3,"▁▁":4,"ab":5,"▁ab":6},"merges":[["▁","▁"],["a","b"]]'

# ---- added tokens beside spaces ----
token='{"id":7,"content":"<x>","special":false,"single_word":false,"normalized":true,"lstrip":true,"rstrip":true}'
is_ids 'U+2581 that the normalizer made is no white space' '2 1 7 4 3' 'a <x>  b' "$words" "$spaces" null "$token"
is_ids 'other white space is' '2 1 7 3' 'a \t<x>\n\nb' "$words" "$spaces" null "$token"
is_ids 'so are spaces of which Metaspace makes U+2581' '2 7 3' 'a <x>  b' "$words" null "$(metaspace never)" "$token"

# ---- text that is merged as one ----
is_ids 'ignore_merges is of the text, not of a word' '1 5 1 5' ' ab ab' "$words,\"ignore_merges\":true" "$spaces" null
is_ids 'with Metaspace, too' '1 5 1 5' 'ab ab' "$words,\"ignore_merges\":true" null "$(metaspace first)"
is_ids 'and a text that is one token is that' 6 ' ab' "$words,\"ignore_merges\":true" "$spaces" null
is_ids 'spaces beside what becomes nothing are merged' '4 2' ' ~ a' "$words" "$spaces" null
is_ids 'unknown characters of two words are one token' '0 1' '~ ~b' \
	'"vocab":{"<unk>":0,"b":1,"a":2},"merges":[],"unk_token":"<unk>","fuse_unk":true' "$spaces" null
is_ids 'a Split at spaces of which there are none removes nothing' '2 1 3' 'a b' "$words" "$spaces" \
	'{"type":"Split","pattern":{"String":" "},"behavior":"Removed","invert":false}'

# ---- U+2581 without a token ----
bytes='"<0xE2>":1,"<0x96>":2,"<0x81>":3,"<0x20>":4'
is_ids 'has tokens of its own bytes, not of a space' '1 2 3 5' 'a' \
	"\"vocab\":{\"<unk>\":0,$bytes,\"a\":5},\"merges\":[],\"byte_fallback\":true" null "$(metaspace first)"
all=$(for i in $(seq 0 255); do printf '"<0x%02X>":%d,' "$i" "$i"; done)
is_ids 'also where words are cut for merges' '226 150 129 258 226 150 129 226 150 129 256' 'ab  a' \
	"\"vocab\":{$all\"a\":256,\"b\":257,\"ab\":258},\"merges\":[[\"a\",\"b\"]],\"byte_fallback\":true" \
	null "$(metaspace first)"

# ---- bytes without a token ----
byte_level='{"type":"ByteLevel","add_prefix_space":false,"use_regex":true}'
few='"vocab":{"<unk>":0,"a":1,"b":2,"ab":3,"Ġ":4,"Ġa":5},"merges":[["a","b"],["Ġ","a"]],"unk_token":"<unk>"'
is_ids 'are unknown, each' '3 0 0 1 5 0 2 4 0 0 0' 'abxya a!b ☃' "$few" null "$byte_level"
is_ids 'or all that follow one another' '3 0 1 5 0 2 4 0' 'abxya a!b ☃' "$few,\"fuse_unk\":true" null "$byte_level"
is_ids 'but none is with ignore_merges where the word is a token' 5 'xy' \
	'"vocab":{"<unk>":0,"a":1,"xy":5},"merges":[],"unk_token":"<unk>","ignore_merges":true' null "$byte_level"

# ---- steps behind Metaspace ----
behind() { printf '{"type":"Sequence","pretokenizers":[%s,%s]}' "$(metaspace "$1")" "$2"; }
mark='{"type":"Split","pattern":{"String":"▁"},"behavior":"Isolated","invert":false}'
is_ids 'find U+2581 in the place of a space' '1 5 1 1 2' 'ab  a' "$words" null "$(behind first "$mark")"
is_ids 'and no space' '1 5 4 2' 'ab  a' "$words" null "$(behind first '{"type":"Split","pattern":{"String":" "},"behavior":"Isolated","invert":false}')"
is_ids 'first is the start of the document behind the step before' '1 2 1 2 7 1 3' 'a a<x> b' "$words" \
	null "$(behind first "$mark")" '{"id":7,"content":"<x>","special":false,"single_word":false,"normalized":true,"lstrip":false,"rstrip":false}'

# ---- Unigram ----
model=Unigram is_ids 'an unknown character costs ten more than the worst token' '1 2' 'xab' \
	'"unk_id":0,"vocab":[["<unk>",0],["xa",-20],["b",-5],["ab",-1]]' null null

# ---- prepend_scheme = first ----
is_ids 'first: the text begins a document' '1 2 1 2' 'a a' "$words" null "$(metaspace first)"
is_ids 'not behind a character that the normalizer takes' 2 '\xcc\x81a' "$words" '{"type":"StripAccents"}' "$(metaspace first)"
is_ids 'also where steps follow' 2 '\xcc\x81a' "$words" '{"type":"StripAccents"}' "$(behind first "$mark")"
is_ids 'nor behind white space' '2 1 2' ' \n a a' "$words" '{"type":"Strip","strip_left":true,"strip_right":true}' \
	"$(metaspace first)"
is_ids 'but behind one that it changes' '1 2' 'A' "$words" '{"type":"Lowercase"}' "$(metaspace first)"

done_testing
