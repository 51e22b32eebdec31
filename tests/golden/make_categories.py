#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# Prints what files/tokenizer/characters.c and regex.h have of Hugging Face's `tokenizers`, whose
# tables of Unicode are old: of characters that Unicode calls punctuation, marks and so on, the
# ranges that the library does not, and those that only the library does. A range goes over
# characters that are of the kind for neither.
#
#   make_categories.py      needs the packages tokenizers and unicodedata2
import bisect

import unicodedata2
from tokenizers import normalizers, pre_tokenizers

CHARACTERS = [c for c in range(1, 0x110000) if not 0xd800 <= c <= 0xdfff]
CATEGORY = {c: unicodedata2.category(chr(c)) for c in CHARACTERS}


def removed(normalizer):
	return {c for c in CHARACTERS if normalizer.normalize_str(f"a{chr(c)}b") == "ab"}


def bert(clean, accents):
	return normalizers.BertNormalizer(clean_text=clean, handle_chinese_chars=False,
					  strip_accents=accents, lowercase=False)


def report(name, library, ours):
	known, ranges = sorted(library), []
	for c in sorted(ours - library):
		if ranges and bisect.bisect(known, c) == bisect.bisect(known, ranges[-1][1]):
			ranges[-1][1] = c
		else:
			ranges.append([c, c])
	print(f"{name}:", " ".join(f"{a:x}-{b:x}" for a, b in ranges))
	print("   the library only:", " ".join(f"{c:x}" for c in sorted(library - ours)))


def of(kinds):
	return {c for c in CHARACTERS if CATEGORY[c] in kinds or CATEGORY[c][0] in kinds}


punctuation = pre_tokenizers.Punctuation()
report("punctuation", {c for c in CHARACTERS if c > 127 and
		       len(punctuation.pre_tokenize_str(f"a{chr(c)}b")) > 1},
       {c for c in of(["P"]) if c > 127})
report("other", removed(bert(True, False)) - {0xfffd}, of(["Cc", "Cf", "Co"]) - {9, 10, 13})
report("nonspacing", removed(bert(False, True)), of(["Mn"]))
report("mark", removed(normalizers.StripAccents()), of(["M"]))
