#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# zeroth tokenize beside Hugging Face's `tokenizers`, one thread each, in turns: seconds of the
# processor for the ids of TEXT, with vocabularies of 32768 trained on it by the rules of each
# family. zeroth's time has reading the tokenizer and the text and writing the tokens in it, the
# other's the encoding alone, without offsets, in texts of 64 KiB.
#
#   bench/tokenize.py TEXT [ROUNDS [FAMILY...]]
#
# ZEROTH: the program (default: zeroth in PATH). Needs what tests/golden/make_tokenizers.py does.
# Prints megabytes a second, medians over rounds, and their ratio: above 1 zeroth is faster.
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../tests/golden"))
import make_tokenizers


def processor():
	use = resource.getrusage(resource.RUSAGE_CHILDREN)
	return use.ru_utime + use.ru_stime


def ours(tokenizer, path, out):
	start = processor()
	subprocess.run([os.environ.get("ZEROTH", "zeroth"), "tokenize", "-T", tokenizer, "--eot", "none", "-o", out, path], check=True,
		       stdout=subprocess.DEVNULL)
	return processor() - start


def theirs(tokenizer, texts):
	start = time.process_time()
	for text in texts:
		tokenizer.encode_batch_fast([text], add_special_tokens=False)
	return time.process_time() - start


def main():
	path, rounds = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 5
	text = open(path, errors="replace", newline="").read()
	size = os.path.getsize(path) * 1e-6
	texts = [text[i:i + 65536] for i in range(0, len(text), 65536)]
	print(f"{'':10} {'zeroth':>10} {'tokenizers':>10}  ratio")
	with tempfile.TemporaryDirectory() as work:
		for name, t in make_tokenizers.tokenizers(texts, 32768, sys.argv[3:]):
			t.save(f"{work}/t.json")
			pairs = [(ours(f"{work}/t.json", path, f"{work}/out.bin"), theirs(t, texts)) for _ in range(rounds)]
			a, b = (size / statistics.median(side) for side in zip(*pairs))
			print(f"{name:10} {a:10.1f} {b:10.1f}  {a / b:.2f}", flush=True)


main()
