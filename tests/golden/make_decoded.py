#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# tokenizers/decoded.json, the golden file of tests/unit/tokenizer/t_decode.c: ids drawn by chance,
# ids of a text, and what Hugging Face's `tokenizers` 0.23 decodes them to, with the decoders of published
# models on the tokenizers of make_tokenizers.py. normalized: all added tokens are so.
#
#   make_decoded.py DIRECTORY      of those; needs the package tokenizers
import json
import random
import sys

from tokenizers import Tokenizer, decoders

SPACES = [decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()]
LLAMA, GEMMA = decoders.Sequence(SPACES + [decoders.Strip(" ", 1, 0)]), decoders.Sequence(SPACES)
ABSENT = object()
CASES = [("gpt2", None), ("llama2", LLAMA), ("llama2", decoders.Sequence(SPACES[:1] + SPACES[2:])),
	 ("mistral", LLAMA), ("gemma", GEMMA), ("metaspace", decoders.Metaspace()),
	 ("fallback", LLAMA), ("fallback", None), ("t5", None), ("bert", None), ("cased", None),
	 ("bert", decoders.WordPiece("##", True)), ("plain", decoders.Fuse()),
	 ("cased", ABSENT), ("llama2", LLAMA)]
NORMALIZED = len(CASES) - 1 # this one


def main():
	where, draw, rows = sys.argv[1], random.Random(1), []
	for i, (name, decoder) in enumerate(CASES):
		t = Tokenizer.from_file(f"{where}/{name}.json")
		more = {"normalized": True} if i == NORMALIZED else {}
		if more:
			own = json.loads(t.to_str())
			for token in own["added_tokens"]:
				token["normalized"] = True
			t = Tokenizer.from_str(json.dumps(own))
		if decoder is not None:
			t.decoder = None if decoder is ABSENT else decoder
		size = t.get_vocab_size()
		known = open(f"{where}/{name}.ids").read().split()
		bytes_ = [t.token_to_id(f"<0x{b:02X}>") for b in "a\u00e9\u4eba\U0001f600".encode()]
		texts = [[draw.randrange(size) for _ in range(60)], [int(x) for x in known[:120]],
			 t.encode(" don 't do not , ' s . it ' ve ! ##x", add_special_tokens=False).ids]
		if bytes_[0] is not None:
			texts += [bytes_, bytes_[:3], bytes_[1:] + bytes_[:5], [bytes_[0]] * 3]
		own = json.loads(t.to_str())["decoder"]
		for ids in texts:
			rows.append({"file": name, **more, "decoder": own, "ids": ids,
				     "text": t.decode(ids, skip_special_tokens=False)})
	with open(f"{where}/decoded.json", "w") as f:
		f.write("[\n" + ",\n".join(json.dumps(r, ensure_ascii=False) for r in rows) + "\n]\n")


main()
