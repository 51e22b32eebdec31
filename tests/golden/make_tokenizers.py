#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# The golden files of tests/system/tokenize.sh: tokenizers with the rules of GPT-2, Llama 3, Qwen2
# and GPT-4, with those of SentencePiece in Llama 2, Mistral and Gemma, and of models with Unigram
# or WordPiece; small vocabularies that are trained on the spot, a text that is hard to split, and
# the ids that Hugging Face's `tokenizers` gives it.
#
#   make_tokenizers.py DIRECTORY [BYTES [VOCABULARY [SEED [NAME]...]]]
#
# NAME: writes those of these tokenizers alone. text has places that are no UTF-8, utf8 has U+FFFD
# there. Needs the packages tokenizers, sentencepiece and protobuf. Its trainers of Unigram and WordPiece
# draw by chance: another run makes other vocabularies of these, of the same rules.
import io
import json
import os
import random
import sys
import tempfile
import unicodedata

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
# As published for cl100k_base, and as those who converted it to this format wrote it: what the pattern leaves out is removed.
GPT4 = (r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+")

ENGLISH = """The quick brown fox jumps over the lazy dog. It's what we've said, isn't it? I'LL SAY IT'S DONE; they'd go, you're here,
she'S not, we'Ve seen 'em. In 1984, 12345 people paid $3.50 each (that's 43,207.50 in all) --- see section 4.2.1 for more...
""".split(" ")
CODE = """static int add(struct buf *b, const void *p, size_t n)\n{\n\tif (n > b->room)\n\t\treturn -ENOMEM;\n\tfor (i = 0; i < n; i++)
        x[i] += 0x1fULL << 3;\r\n\r\n    return b->n == ~0u ? "\\"\\n" : NULL; /* ok */\n}\n#define A(x) ((x) * 2)\n<a href='x'>\n\n\n""".split(" ")
OTHER = ("人工智能正在改变世界。今天天气很好，我们去公园吧！ 2024年3月15日 日本語のテキスト カタカナ 한국어 문장입니다 Привет, мир! Ελληνικά Ünïcödé "
	 "العربية ٣٤٥ עברית हिन्दी में १२३ ไทย ½ ⅷ Ⅻ ² ① ㊿ ﬁn ſtraße İstanbul 'ſ 'S' K Å").split(" ")
EMOJI = ["😀", "👨‍👩‍👧‍👦", "🏳️‍🌈", "👍🏽", "🇩🇪", "❤️", "☃", "𝔘𝔫𝔦", "🀄", "\U0001f9ff"]
SPACES = [" ", "  ", "   ", "\t", "\n", "\n\n", "\r\n", "\r", " \n", "\n ", "\u00a0", "\u3000", "\u2028", "\u2003\u2009", "\u180e", "\u0085",
	  "\v", "\f", "\u200b", "\ufeff", " " * 17, "\n" * 5, "\t\t\t ", " \u00a0 ", "\x1c", "\x00", "\x7f"]
# Text that normalization changes, and text that only looks as if.
MARKS = ["e\u0301", "a\u0308\u0323", "q\u0323\u0307", "\u1100\u1161\u11a8", "\u0301", "\u212b", "\u2126", "\u0958", "\u1e9b\u0323", "\u3046\u3099",
	 "o\u0302\u0301", "\u2000", "\uf900", "\u0344", "a\u0315\u0300\u05ae\u0300b", "n\u0303", "\u0b47\u0b3e", "\U0001d15e"]
BROKEN = [b"\xff", b"\xc3", b"\xe4\xbd", b"\xf0\x9f\x98", b"\xed\xa0\x80", b"\xc0\x80", b"\x80\x80", b"\xf4\x90\x80\x80", b"\xe4\xbd\xffx",
	  b"\xf8\x88\x80\x80\x80", b"\xf0\x80\x80\x80", b"\xe4\xff\xbd"]
TOKENS = ["<|endoftext|>", "<|im_start|>", "<|begin_of_text|>", "<|a|>", "<|a|>b", "<mask>", " <mask>", "<mask> \n ", "<right>", "<right>\u3000 x",
	  "<|end", "<", "\u212bngstrom", "A\u030angstrom", "caf\u00e9!", "cafe\u0301!"]


def text(n, seed):
	draw = random.Random(seed)
	kinds = [(30, ENGLISH), (10, CODE), (12, OTHER), (3, EMOJI), (14, SPACES), (2, MARKS), (1, BROKEN), (2, TOKENS), (2, None)]
	out, size = [], 0
	while size < n:
		kind = draw.choices([k for _, k in kinds], [w for w, _ in kinds])[0]
		if kind is None: # any character there is
			c = draw.choice([0x80, 0x800, 0x3000, 0x10000, 0x20000, 0x110000])
			c = draw.randrange(c)
			# those of later versions of Unicode (here 14) are other things in other libraries
			part = chr(c) if unicodedata.category(chr(c)) not in ("Cn", "Cs") else "\ufffd"
		else:
			part = draw.choice(kind)
		part = part if isinstance(part, bytes) else part.encode()
		if draw.random() < 0.6:
			part += b" "
		out.append(part)
		size += len(part)
	return b"".join(out)


def added(t, special, normalized):
	t.add_special_tokens([AddedToken(x, special=True, normalized=normalized) for x in special])
	t.add_tokens([AddedToken("<mask>", lstrip=True, normalized=False), AddedToken("<right>", rstrip=True, normalized=False),
		      AddedToken("<|a|>", normalized=False), AddedToken("<|a|>b", normalized=True),
		      AddedToken("\u212bngstrom", normalized=True), AddedToken("cafe\u0301!", normalized=False)])


def split(pattern, behavior="isolated", invert=False):
	return pre_tokenizers.Split(Regex(pattern), behavior=behavior, invert=invert)


def byte_level(**flags):
	return pre_tokenizers.ByteLevel(add_prefix_space=False, **flags)


# Splits that join what they split, and tokens that are not found in longer words.
def joined():
	return pre_tokenizers.Sequence([split(r"\p{N}", "contiguous"), split(r"[.,;]", "merged_with_previous"), split(r"[-<(]|\s", "merged_with_next"),
					split(r"\p{L}+", "merged_with_next", True), split("\u0301", "merged_with_previous", True), split("~", "contiguous", True),
					byte_level(use_regex=False)])


SINGLE = [AddedToken("of", single_word=True, normalized=False), AddedToken("ar", single_word=True, normalized=False),
	  AddedToken("the", single_word=True, lstrip=True, rstrip=True, normalized=False), AddedToken("S", single_word=True, normalized=True),
	  AddedToken("e\u0301", single_word=True, normalized=True), AddedToken("b", single_word=True, normalized=True),
	  AddedToken("(", single_word=True, normalized=True), AddedToken("x", single_word=True, normalized=False)]


def families():
	sequence = pre_tokenizers.Sequence
	yield "gpt2", None, byte_level(), {}, ["<|endoftext|>"], True
	yield "llama3", None, sequence([split(LLAMA3), byte_level(use_regex=False)]), {"ignore_merges": True}, ["<|begin_of_text|>", "<|end_of_text|>"], False
	yield "qwen2", normalizers.NFC(), sequence([split(QWEN2), byte_level(use_regex=False)]), {}, ["<|endoftext|>", "<|im_start|>"], False
	yield "gpt4", normalizers.NFC(), sequence([split(GPT4, "removed", True), pre_tokenizers.ByteLevel(add_prefix_space=True)]), {}, \
		["<|endoftext|>"], False
	yield "joined", None, joined(), {}, ["<|endoftext|>"], True
	# in ByteLevel's characters there are other digits
	yield "falcon", None, sequence([
		pre_tokenizers.Punctuation("contiguous"), byte_level(), pre_tokenizers.Digits(False),
		split("[0-9][0-9][0-9]")]), {}, ["<|endoftext|>"], False
	yield "digits", None, sequence([pre_tokenizers.Digits(True), byte_level()]), {}, \
		["<|endoftext|>"], False
	# vocabularies without tokens for some bytes: for those that UTF-8 never has; for many
	yield "neox", normalizers.NFC(), byte_level(), {}, ["<|endoftext|>"], False
	yield "lacking", None, byte_level(), {"unk_token": "<unk>"}, ["<|endoftext|>"], False


# The characters of ByteLevel that a vocabulary has to begin with.
def alphabet(name):
	never = {chr(b) for b in (0xc0, 0xc1, *range(0xf5, 0x100))}
	if name == "neox":
		return sorted(set(byte_level().alphabet()) - never)
	return [] if name == "lacking" else byte_level().alphabet()


def train(family, corpus, vocabulary):
	name, normalizer, pre, flags, special, normalized = family
	t = Tokenizer(models.BPE(**flags))
	if normalizer:
		t.normalizer = normalizer
	t.pre_tokenizer = pre
	t.decoder = decoders.ByteLevel()
	few = {"limit_alphabet": 120, "special_tokens": ["<unk>"]} if name == "lacking" else {}
	t.train_from_iterator(corpus, trainers.BpeTrainer(vocab_size=vocabulary, show_progress=False, initial_alphabet=alphabet(name), **few))
	added(t, special, normalized)
	if name == "joined":
		t.add_tokens(SINGLE)
	t.post_processor = processors.ByteLevel(trim_offsets=False)
	if name == "llama3":
		bos = t.token_to_id("<|begin_of_text|>")
		t.post_processor = processors.Sequence([t.post_processor, processors.TemplateProcessing(
			single="<|begin_of_text|> $A", pair=None, special_tokens=[("<|begin_of_text|>", bos)])])
	return t


# As SentencePiece: a space is U+2581, merges begin with characters, and what has no token becomes
# tokens of its bytes. Some have spaces made by the normalizer, some by the pre-tokenizer.
MARK = "\u2581"
REPLACE = normalizers.Replace(" ", MARK)


def spaced_words():
	return pre_tokenizers.Split(Regex(f"{MARK}*[^{MARK}]+|{MARK}+"), "isolated")


def spaced_families():
	metaspace, words = pre_tokenizers.Metaspace, spaced_words()
	yield "llama2", normalizers.Sequence([normalizers.Prepend(MARK), REPLACE]), None, words
	yield "mistral", None, metaspace(prepend_scheme="first", split=False), words
	yield "gemma", REPLACE, pre_tokenizers.Split(" ", "merged_with_previous"), words
	yield "metaspace", None, metaspace(), metaspace()
	# in what steps behind Metaspace split, spaces are U+2581 already
	yield "behind", None, pre_tokenizers.Sequence([
		metaspace(prepend_scheme="first"), pre_tokenizers.Digits(True),
		split(f"{MARK}\\p{{L}}| ", "merged_with_next")]), words
	# with merges across words, as no pre-tokenizer kept them apart
	yield "across", normalizers.Sequence([REPLACE]), None, \
		pre_tokenizers.Split(Regex(r"[^\n]{1,30}\n*|\n+"), "isolated")


def train_spaced(family, corpus, vocabulary):
	name, normalizer, pre, words = family
	t = Tokenizer(models.BPE())
	t.normalizer, t.pre_tokenizer = REPLACE, words
	t.train_from_iterator([c.replace("\0", "") for c in corpus], trainers.BpeTrainer(
		vocab_size=vocabulary, show_progress=False, limit_alphabet=150))
	model = json.loads(t.to_str())["model"]
	special = ["<unk>", "<s>", "</s>"] + [f"<0x{i:02X}>" for i in range(256)]
	tokens = special + list(model["vocab"])
	t = Tokenizer(models.BPE({x: i for i, x in enumerate(tokens)},
				 [tuple(m) for m in model["merges"]], unk_token="<unk>",
				 fuse_unk=True, byte_fallback=True))
	if normalizer is not None:
		t.normalizer = normalizer
	if pre is not None:
		t.pre_tokenizer = pre
	added(t, special[:3] + ["<|endoftext|>"], name == "across")
	t.post_processor = processors.TemplateProcessing(
		single="<s> $A", pair=None, special_tokens=[("<s>", 1)])
	return t


# SentencePiece's way to write what characters become, from a few rules of NFKC and some of its own.
def charsmap():
	import sentencepiece
	from sentencepiece import sentencepiece_model_pb2
	rules = [(c, unicodedata.normalize("NFKC", c)) for c in "\u00a0\u3000\u2003\u2009\ufb01\u00bd"
		 "\u2177\u216b\u00b2\u2460\u32bf\u212b\u212a\u00fc\u0130"]
	rules += [("e\u0301", "\u00e9"), ("a\u0308\u0323", "\u1ea1\u0308"), ("\u1100\u1161", "\uac00")]
	rules += [("\t", " "), ("\n", " "), ("\r", " "), ("\u200b", ""), ("\x7f", ""), ("\u0301", "")]
	rules += [("\u0627", "alef"), ("\u0915", "k"), ("\U0001f468", "man")]
	rules = [rule for rule in rules if rule[0] != rule[1]]
	with tempfile.NamedTemporaryFile("w", suffix=".tsv") as f:
		for a, b in rules:
			f.write("\t".join(" ".join(f"{ord(c):X}" for c in side) for side in (a, b)) + "\n")
		f.flush()
		out = io.BytesIO()
		sentencepiece.SentencePieceTrainer.train(
			sentence_iterator=iter([f"some words {i} of a text" for i in range(100)]),
			model_writer=out, vocab_size=40, normalization_rule_tsv=f.name,
			hard_vocab_limit=False, minloglevel=2)
	model = sentencepiece_model_pb2.ModelProto()
	model.ParseFromString(out.getvalue())
	return model.normalizer_spec.precompiled_charsmap


def unigram_families():
	metaspace, replace = pre_tokenizers.Metaspace, normalizers.Replace
	spaces = replace(Regex(" {2,}"), " ")
	yield "t5", normalizers.Sequence([normalizers.Precompiled(charsmap()), spaces]), \
		pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), metaspace()]), False
	yield "albert", normalizers.Sequence([
		replace("``", '"'), replace("''", '"'), normalizers.NFKD(), normalizers.StripAccents(),
		normalizers.Lowercase(), normalizers.Strip(), spaces]), \
		metaspace(prepend_scheme="first"), False
	yield "fallback", normalizers.Nmt(), metaspace(prepend_scheme="never", split=False), True
	yield "plain", None, pre_tokenizers.CharDelimiterSplit(" "), False
	yield "behind_whole", normalizers.Nmt(), pre_tokenizers.Sequence([
		metaspace(prepend_scheme="always", split=False), pre_tokenizers.Punctuation("isolated"),
		split(MARK, "removed")]), True


def train_unigram(family, corpus, vocabulary):
	name, normalizer, pre, fallback = family
	t = Tokenizer(models.Unigram())
	if normalizer:
		t.normalizer = normalizer
	t.pre_tokenizer = pre if name != "fallback" else pre_tokenizers.Metaspace()
	special = ["<pad>", "</s>", "<unk>"] + [f"<0x{i:02X}>" for i in range(256)] * fallback
	t.train_from_iterator([c.replace("\0", "") for c in corpus], trainers.UnigramTrainer(
		vocab_size=2 * vocabulary + len(special), show_progress=False, unk_token="<unk>",
		special_tokens=special))
	model = json.loads(t.to_str())
	# characters that are rare are left out, for want of room and to be unknown
	rows = model["model"]["vocab"]
	rare = sorted((s, p) for p, s in rows if len(p) == 1 and ord(p) > 0x7f and p != MARK)
	rare = {p for _, p in rare[:len(rare) * 4 // 5]}
	model["model"]["vocab"] = [r for r in rows if r[0] not in rare]
	model["model"]["byte_fallback"] = fallback
	t = Tokenizer.from_str(json.dumps(model))
	t.pre_tokenizer = pre
	t.decoder = decoders.Metaspace(prepend_scheme="never" if name == "fallback" else "always")
	t.post_processor = processors.TemplateProcessing(
		single="$A </s>", pair=None, special_tokens=[("</s>", t.token_to_id("</s>"))])
	added(t, ["<|endoftext|>"], name == "albert")
	return t


def wordpiece_families():
	bert, sequence = normalizers.BertNormalizer, normalizers.Sequence
	yield "bert", bert(), pre_tokenizers.BertPreTokenizer(), 100
	yield "cased", bert(lowercase=False, handle_chinese_chars=False), pre_tokenizers.Sequence([
		pre_tokenizers.WhitespaceSplit(),
		pre_tokenizers.Punctuation("merged_with_previous")]), 100
	yield "wordpiece", sequence([normalizers.NFD(), normalizers.Lowercase(),
				     normalizers.StripAccents(), normalizers.NFKC()]), \
		pre_tokenizers.Whitespace(), 8


def train_wordpiece(family, corpus, vocabulary):
	name, normalizer, pre, longest = family
	t = Tokenizer(models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=longest))
	t.normalizer, t.pre_tokenizer = normalizer, pre
	t.decoder = decoders.WordPiece(cleanup=name != "cased")
	t.train_from_iterator([c.replace("\0", "") for c in corpus], trainers.WordPieceTrainer(
		vocab_size=vocabulary, show_progress=False, limit_alphabet=200,
		special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]"]))
	added(t, ["<|endoftext|>", "[CLS]", "[SEP]"], False)
	t.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
	return t


# Of SentencePiece, where what has no token is unknown.
def train_unknown(name, corpus, vocabulary):
	t = train_spaced((name, None, None, spaced_words()), corpus, vocabulary)
	model = json.loads(t.to_str())["model"]
	tokens = [x for x in model["vocab"] if not x.startswith("<0x")]
	t = Tokenizer(models.BPE({x: i for i, x in enumerate(tokens)},
				 [tuple(m) for m in model["merges"]], unk_token="<unk>",
				 fuse_unk=name == "fused"))
	t.pre_tokenizer = pre_tokenizers.Metaspace()
	t.decoder = decoders.Metaspace()
	added(t, ["<|endoftext|>"], True)
	return t


# All of them, or those with these names.
def tokenizers(corpus, vocabulary, names=()):
	makers = [(family[0], train, family) for family in families()]
	makers += [(family[0], train_spaced, family) for family in spaced_families()]
	makers += [(family[0], train_unigram, family) for family in unigram_families()]
	makers += [(family[0], train_wordpiece, family) for family in wordpiece_families()]
	makers += [(name, train_unknown, name) for name in ("fused", "unknown")]
	for name, make, family in makers:
		if not names or name in names:
			yield name, make(family, corpus, vocabulary)


def main():
	given = list(map(int, sys.argv[2:5]))
	where, names = sys.argv[1], sys.argv[5:]
	size, vocabulary, seed = given + [4000, 450, 1][len(given):]
	os.makedirs(where, exist_ok=True)
	data = text(size, seed)
	open(f"{where}/text", "wb").write(data)
	lossy = data.decode("utf-8", errors="replace")
	open(f"{where}/utf8", "w").write(lossy)
	corpus = [text(20000, 1000 + i).decode("utf-8", errors="replace") for i in range(max(4, size // 20000))]
	for name, t in tokenizers(corpus, vocabulary, names):
		path = f"{where}/{name}.json"
		t.save(path, pretty=False)
		if name == "gpt2": # merges as files had them for long
			j = json.load(open(path))
			j["model"]["merges"] = [" ".join(m) for m in j["model"]["merges"]]
			del j["model"]["type"]
			json.dump(j, open(path, "w"), ensure_ascii=False, separators=(",", ":"))
		ids = t.encode(lossy, add_special_tokens=False).ids
		rows = (" ".join(map(str, ids[i:i + 25])) for i in range(0, len(ids), 25))
		open(f"{where}/{name}.ids", "w").write("\n".join(rows) + "\n")
		print(name, len(ids))


if __name__ == "__main__":
	main()
