#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# zeroth tokenize beside Hugging Face's `tokenizers`, one thread each, in turns: seconds of the
# processor for the same job, from files to a file: read tokenizer.json, read TEXT, write its ids
# as integers of 16 bits, or of 32 where the vocabulary has more than 65536. The other encodes
# texts of 64 KiB without offsets; the start of Python and its imports are not counted, the start
# of zeroth is.
#
#   bench/tokenize.py TEXT [ROUNDS [FAMILY...]]
#
# FAMILY: one of tests/golden/make_tokenizers.py, of which a vocabulary of 32768 is trained on TEXT
# (default: all), or the name of a tokenizer.json. ZEROTH: the program (default: zeroth in PATH).
# Needs what make_tokenizers.py does. Prints megabytes a second, medians over rounds, and their
# ratio: above 1 zeroth is faster.
import array
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
from tokenizers import Tokenizer


def processor():
	use = resource.getrusage(resource.RUSAGE_CHILDREN)
	return use.ru_utime + use.ru_stime


def ours(tokenizer, path, out):
	start = processor()
	subprocess.run([os.environ.get("ZEROTH", "zeroth"), "tokenize", "--force", "-T", tokenizer, "--eot",
			"none", "--raw", "-o", out, path], check=True, stdout=subprocess.DEVNULL)
	return processor() - start


def read(path):
	text = open(path, errors="replace", newline="").read()
	return [text[i:i + 65536] for i in range(0, len(text), 65536)]


def theirs(tokenizer, path, out):
	start = time.process_time()
	t = Tokenizer.from_file(tokenizer)
	integers = "I" if t.get_vocab_size() > 65536 else "H"
	with open(out, "wb") as file:
		for text in read(path):
			encoding, = t.encode_batch_fast([text], add_special_tokens=False)
			file.write(array.array(integers, encoding.ids).tobytes())
	return time.process_time() - start


def files(path, names, work):
	for name in names:
		if name.endswith(".json"):
			yield os.path.basename(name)[:-len(".json")], name
	families = [name for name in names if not name.endswith(".json")]
	if names and not families:
		return
	for name, t in make_tokenizers.tokenizers(read(path), 32768, families):
		t.save(f"{work}/t.json")
		yield name, f"{work}/t.json"


def main():
	path, rounds = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 5
	size = os.path.getsize(path) * 1e-6
	print(f"{'':14} {'zeroth':>10} {'tokenizers':>10}  ratio")
	with tempfile.TemporaryDirectory() as work:
		for name, file in files(path, sys.argv[3:], work):
			pairs = [(ours(file, path, f"{work}/ids"), theirs(file, path, f"{work}/ids"))
				 for _ in range(rounds)]
			a, b = (size / statistics.median(side) for side in zip(*pairs))
			print(f"{name:14} {a:10.1f} {b:10.1f}  {a / b:.2f}", flush=True)


main()
