#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# zeroth tokenize --chat beside Hugging Face's `tokenizers`, in turns: conversations made of the
# words of TEXT in records of 200, 2000 and 20000 bytes, and a GPT-2 tokenizer of 50257 tokens that
# is trained on TEXT. zeroth's time has all in it: it reads the tokenizer and JSON lines and writes
# tokens and what is learned of them. The other's is encode_batch_fast alone, of texts that are
# there already.
#
#   bench/chat.py TEXT [ROUNDS [THREADS]]      needs the package tokenizers
#
# ZEROTH: the program (default: zeroth in PATH); BEFORE: an earlier one. Prints megabytes of JSON a
# second, of a clock and of a processor, medians over rounds, and the medians of the ratios of each
# round: above 1 zeroth is faster.
import json
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time

SIZE = 20_000_000 # bytes of each file
BATCH = 1000
TOKENS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]


def train(path, out):
	from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
	t = Tokenizer(models.BPE())
	t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
	t.decoder = decoders.ByteLevel()
	t.train([path], trainers.BpeTrainer(vocab_size=50257, show_progress=False,
		special_tokens=TOKENS, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
	t.save(out)


def record(draw, words, size):
	turns = 2 if size < 10000 else 12
	messages = []
	for i in range(turns):
		n = size // turns // (9 if i % 2 == 0 else 5) # an answer is longer than a question
		at = draw.randrange(len(words) - n)
		content = "".join(words[at:at + n]).strip() or "Yes."
		messages.append({"role": ["user", "assistant"][i % 2], "content": content})
	return json.dumps({"messages": messages}, ensure_ascii=False) + "\n"


def write_records(text, size, path):
	draw = random.Random(size)
	words = re.findall(r"\S+\s*", text)
	with open(path, "wb") as f:
		while f.tell() < SIZE:
			f.write(record(draw, words, size).encode())


# The process that --theirs starts: seconds of its encoding, and of its processors.
def encode(tokenizer, path):
	from tokenizers import Tokenizer
	t = Tokenizer.from_file(tokenizer)
	texts = ["".join(f"<|im_start|>{m['role']}\n{m['content']}<|im_end|>\n"
			 for m in json.loads(line)["messages"]) for line in open(path)]
	start, used = time.time(), time.process_time()
	for i in range(0, len(texts), BATCH):
		t.encode_batch_fast(texts[i:i + BATCH], add_special_tokens=False)
	print(time.time() - start, time.process_time() - used)


def theirs(tokenizer, path, threads):
	out = subprocess.run([sys.executable, __file__, "--theirs", tokenizer, path], check=True,
			     stdout=subprocess.PIPE, env={**os.environ,
			     "RAYON_NUM_THREADS": threads, "TOKENIZERS_PARALLELISM": "true"})
	return list(map(float, out.stdout.split()))


def ours(program, tokenizer, path, threads):
	start = time.time()
	child = subprocess.Popen([program, "tokenize", "--chat", "--force", "-T", tokenizer, "-t", "chatml",
				  "-j", threads, "-o", path + ".tokens", path],
				 stdout=subprocess.DEVNULL)
	_, status, use = os.wait4(child.pid, 0)
	if status:
		sys.exit(f"{program} failed")
	return time.time() - start, use.ru_utime + use.ru_stime


# of each side and round: seconds of a clock, and of processors
def show(name, size, sides):
	line = f"{name:>7}"
	for side in sides:
		for k in 0, 1:
			line += f"  {size * 1e-6 / statistics.median(r[k] for r in side):6.1f}"
	for side in sides[1:]:
		for k in 0, 1:
			ratio = statistics.median(b[k] / a[k] for a, b in zip(sides[0], side))
			line += f"  {ratio:6.2f}"
	print(line, flush=True)


def main():
	path, rounds, threads = sys.argv[1], *(sys.argv[2:] + ["5", "2"][len(sys.argv) - 2:])
	text = open(path, errors="replace", newline="").read()
	programs = [p for p in (os.environ.get("ZEROTH", "zeroth"), os.environ.get("BEFORE")) if p]
	names = ["zeroth", "before"][:len(programs)] + ["tokenizers"]
	print(" " * 7 + "".join(f"  {x:>14}" for x in names + ["to " + x for x in names[1:]]))
	print(f"{'record':>7}" + "   clock    cpu" * (2 * len(names) - 1))
	with tempfile.TemporaryDirectory() as work:
		tokenizer, lines = f"{work}/tokenizer.json", f"{work}/lines"
		train(path, tokenizer)
		for size in 200, 2000, 20000:
			write_records(text, size, lines)
			rows = [[*(ours(p, tokenizer, lines, threads) for p in programs),
				 theirs(tokenizer, lines, threads)] for _ in range(int(rounds))]
			show(f"{size} B", os.path.getsize(lines), list(zip(*rows)))


if sys.argv[1] == "--theirs":
	encode(*sys.argv[2:])
else:
	main()
