#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# tokenizers/words.txt: the ids that Hugging Face's `tokenizers` gives to words that are long, or
# that no merge joins in some places, with the tokenizers that make_tokenizers.py has made.
#
#   make_words.py DIRECTORY
#
# A line: the name of a tokenizer, a text in JSON, the ids.
import json
import random
import sys

from tokenizers import Tokenizer

MARK = "\u2581"
FAMILIES = ["gpt2", "llama2", "metaspace", "across", "fused", "unknown", "t5", "fallback"]


def texts():
	draw = random.Random(17)
	letters = "theandingofion aeiourstlnm"
	word = "".join(draw.choice(letters).strip() for _ in range(200))
	for n in 23, 24, 25, 30, 31, 32, 90:
		yield word[:n]
	yield "ab" * 20 + "the" * 9 + "inging" * 5
	yield f"the{MARK}end{MARK}{MARK}of the{MARK} {MARK}fox in{MARK}"
	yield f"{MARK}{MARK} the  quick{MARK}brown   fox {MARK}"
	yield "the,quick;brown\n\nfox\tand(the)lazy...dog---over\nthe\nlazy\n"
	yield "the\u2603quick\u2603\u2603brown\u4e00\u4e01fox\U0001f600\U0001f601the\u00e9\u00e8\u0416x\u0416"
	yield "\u4eba\u5de5\u667a\u80fd\u6b63\u5728\u6539\u53d8\u4e16\u754c" * 4
	yield "\u043f\u0440\u0438\u0432\u0435\u0442\u043c\u0438\u0440" * 5 + "\u0001\u0002the\u0003"
	yield "<0x0A><0xE2><unk>the<s>"
	yield "".join(draw.choice(f"aet {MARK}\u4eba\u5de5\u00e9\U0001f600,") for _ in range(90))


def main():
	where = sys.argv[1]
	with open(f"{where}/words.txt", "w") as out:
		for name in FAMILIES:
			t = Tokenizer.from_file(f"{where}/{name}.json")
			for text in texts():
				ids = t.encode(text, add_special_tokens=False).ids
				out.write(f"{name} {json.dumps(text)} {' '.join(map(str, ids))}\n")


main()
