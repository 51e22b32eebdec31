#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# The golden files of tests/unit/chat/t_chat.c: conversations that are hard to write as text, small
# tokenizers with the special tokens of chat templates, and the ids and masks that Hugging Face's
# libraries give the conversations. The templates are those of models' tokenizers, one file each
# (chatml.jinja, llama3.jinja, ...), and are not part of this repository.
#
#   make_chat.py DIRECTORY TEMPLATES          needs the packages jinja2 and tokenizers
#   make_chat.py --hash TEMPLATE.jinja...     what files/chat/template.c knows them by (xxhash)
#
# A mask is that of apply_chat_template(return_assistant_tokens_mask=True) where the answer and the
# token that ends it are between {% generation %} and {% endgeneration %}: the token of the first
# character, up to that of the last one.
import json
import os
import random
import sys

OPEN, CLOSE = "\ue000", "\ue001"  # around answers, until it is known where they are

# The token that ends an answer, and the tokenizer.
TEMPLATES = {
	"chatml": ("<|im_end|>", "bytes"), "chatml-bos": ("<|im_end|>", "bytes"),
	"qwen2": ("<|im_end|>", "bytes"), "qwen2.5": ("<|im_end|>", "bytes"),
	"hermes3": ("<|im_end|>", "bytes"), "smollm": ("<|im_end|>", "bytes"),
	"llama2": (" </s>", "spaces"), "llama3": ("<|eot_id|>", "bytes"),
	"llama3.1": ("<|eot_id|>", "bytes"), "mistral-v0.1": ("</s>", "spaces"),
	"mistral-v0.2": ("</s>", "spaces"), "mistral-v1": ("</s>", "spaces"),
	"mistral-v3": ("</s>", "spaces"), "mistral-v3-tekken": ("</s>", "bytes"),
	"mistral-v7": ("</s>", "spaces"), "mistral-v7-tekken": ("</s>", "bytes"),
	"gemma": ("<end_of_turn>", "spaces"), "gemma3": ("<end_of_turn>", "spaces"),
	"phi3": ("<|end|>", "spaces"), "phi3.5": ("<|end|>", "spaces"),
	"phi4": ("<|im_end|>", "bytes"), "phi4-mini": ("<|end|>", "bytes"),
	"zephyr": ("</s>", "spaces"), "alpaca-plain": ("</s>", "bytes"),
	"alpaca": ("</s>", "bytes"), "none": ("</s>", "bytes"),
}
# Those that no model has.
OURS = {
	"alpaca": """{{ bos_token }}{% if messages[0].role != 'system' %}Below is an instruction \
that describes a task. Write a response that appropriately completes the request.

{% endif %}{% for m in messages %}{% if m.role == 'user' %}### Instruction:
{{ m.content }}{% elif m.role == 'assistant' %}### Response:
{{ m.content }}{{ eos_token }}{% else %}{{ m.content }}{% endif %}\
{% if not loop.last %}{{ '\n\n' }}{% endif %}{% endfor %}""",
	"none": "{% for m in messages %}{{ m.content }}{% if m.role == 'assistant' %}"
		"{{ eos_token }}{% endif %}{% endfor %}",
}
STRICT = ("llama2", "mistral-v0.1", "mistral-v0.2", "mistral-v1", "mistral-v3",
	  "mistral-v3-tekken", "gemma", "gemma3")
FIRST_ONLY = ("alpaca", "alpaca-plain")
SPECIAL = [
	"<s>", "</s>", "<|im_start|>", "<|im_end|>", "<|im_sep|>", "<|begin_of_text|>",
	"<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "<start_of_turn>",
	"<end_of_turn>", "<|system|>", "<|user|>", "<|assistant|>", "<|end|>", "[SYSTEM_PROMPT]",
	"[/SYSTEM_PROMPT]", "[TOOL]"
]

PIECES = [
	"Hello", "hello there", "What is 2 + 2?", "It's", "4", "1984", "def f(x):\n    return x",
	"caf\u00e9", "e\u0301", "\u0301", "\u0323\u0307", "A\u030a", "\u212b",
	"\u4eba\u5de5\u667a\u80fd", "\u65e5\u672c\u8a9e", "\ud55c\uad6d\uc5b4",
	"\u0627\u0644\u0639\u0631\u0628\u064a\u0629", "\U0001f600",
	"\U0001f468\u200d\U0001f469\u200d\U0001f467", "\U0001f1e9\U0001f1ea", " ", "  ", "\n",
	"\n\n", "\t", "\r\n", "\u00a0", "\u3000", "\u2028", "\x1c", "\x00", "\u200b", "\ufeff",
	"<|im_end|>", "<|im_start|>assistant\n", "</s>", "<s>", "<|eot_id|>", "<end_of_turn>",
	"[INST]", "[/INST]", "<<SYS>>", "<|end|>", "<|", "{content}", "{{ x }}", "{bos}",
	"\u2581", "\u2581x", "### Response:\n", "<think>", "\\n", "\"", "\u0338", "~", "\ue123"
]
EDGES = [
	"", " ", "\n", "\n\n", "  \t", "\u0301", "\u00a0", "\U0001f600", "\x1f", "\u3000\n",
	"<|im_end|>", "</s>", "\r\n", "\u2581"
]


def content(draw, size):
	words = [draw.choice(PIECES) for _ in range(draw.choice(size))]
	glue = draw.choice(["", " ", " ", "\n"])
	before, behind = (draw.choice(EDGES) * draw.randint(0, 1) for _ in range(2))
	return before + glue.join(words) + behind


def conversation(draw, i):
	size = [0, 1, 1, 2, 3, 5, 8, 20] if i % 25 else [150]
	m = []
	if draw.random() < 0.4:
		m.append({"role": "system", "content": content(draw, size)})
	turns = draw.choice([1, 1, 1, 2, 3, 6])
	for k in range(turns):
		m.append({"role": "user", "content": content(draw, size)})
		if draw.random() < 0.05:
			role = draw.choice(["user", "system"])
			m.append({"role": role, "content": content(draw, size)})
		m.append({"role": "assistant", "content": content(draw, size)})
		if draw.random() < 0.04:
			m.append({"role": "assistant", "content": content(draw, size)})
	if draw.random() < 0.1:
		m.append({"role": "user", "content": content(draw, size)})
	return m if any(x["role"] == "assistant" for x in m) else conversation(draw, i)


# An answer, which can still be told when it is part of a longer text.
class Answer(str):
	def __new__(cls, text):
		return super().__new__(cls, OPEN + text + CLOSE)

	def strip(self, chars=None):
		return Answer(str(self)[1:-1].strip(chars))


def environment():
	from jinja2.sandbox import ImmutableSandboxedEnvironment

	def raise_exception(message):
		raise ValueError(message)
	# as transformers has it
	e = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
	e.globals["raise_exception"] = raise_exception
	return e


# The text, and where its answers are; None: the template refuses.
def render(template, messages, end):
	marked = [dict(m, content=Answer(m["content"])) if m["role"] == "assistant" else m
		  for m in messages]
	try:
		text = template.render(messages=marked, bos_token="<s>", eos_token="</s>",
				       add_generation_prompt=False)
	except ValueError:
		return None
	out, spans, start = "", [], None
	for at, c in enumerate(text):
		if c == OPEN:
			start = len(out)
		elif c == CLOSE:
			if end and not text.startswith(end, at + 1):
				return None
			spans.append((start, len(out) + len(end)))
		else:
			out += c
	return out, spans


def encode(tokenizer, text, spans):
	e = tokenizer.encode(text, add_special_tokens=False)
	mask = [0] * len(e.ids)
	for start, stop in spans:
		for i in range(e.char_to_token(start), e.char_to_token(stop - 1) + 1):
			mask[i] = 1
	return e.ids, mask


def fnv(values):
	h = 0xcbf29ce484222325
	for v in values:
		h = ((h ^ v) * 0x100000001b3) & 0xffffffffffffffff
	return h >> 32


def allowed(name, m):
	first = m[0]["role"] == "system"
	late = any(x["role"] == "system" for x in m[first:])
	return not (late and (name in STRICT or name in FIRST_ONLY))


def golden(name, source, end, tokenizer, conversations):
	template = environment().from_string(source)
	lines = []
	for i, m in enumerate(conversations):
		found = render(template, m, end) if allowed(name, m) else None
		if not found:
			continue
		ids, mask = encode(tokenizer, *found)
		if not any(mask[1:]):
			continue
		lines.append("%d %d %d %08x %08x" % (i + 1, len(ids), sum(mask[1:]), fnv(ids),
						     fnv(mask)))
		if len(ids) < 200 and sum(x[0] == "i" for x in lines) < 2:
			lines.append("ids " + " ".join(map(str, ids)))
			lines.append("mask " + "".join(map(str, mask)))
	return lines


def tokenizers(directory):
	from tokenizers import AddedToken, Tokenizer
	base = os.path.join(os.path.dirname(os.path.abspath(__file__)), "tokenizers")
	for name, of in (("bytes", "qwen2"), ("spaces", "llama2")):
		t = Tokenizer.from_file(os.path.join(base, of + ".json"))
		special = [AddedToken(x, special=True, normalized=False) for x in SPECIAL]
		t.add_special_tokens(special)
		t.save(os.path.join(directory, name + ".json"), pretty=False)
		yield name, t


def main(directory, templates):
	os.makedirs(directory, exist_ok=True)
	draw = random.Random(15)
	conversations = [conversation(draw, i) for i in range(200)]
	path = os.path.join(directory, "conversations.jsonl")
	with open(path, "w", encoding="utf-8", newline="\n") as f:
		for i, m in enumerate(conversations):
			f.write(json.dumps({"messages": m}, ensure_ascii=bool(i % 2)) + "\n")
	of = dict(tokenizers(directory))
	for name, (end, tokenizer) in TEMPLATES.items():
		path = os.path.join(templates, name + ".jinja")
		source = OURS.get(name) or open(path, encoding="utf-8").read()
		lines = golden(name, source, end, of[tokenizer], conversations)
		path = os.path.join(directory, name + ".txt")
		with open(path, "w", encoding="utf-8", newline="\n") as f:
			f.write(tokenizer + "\n" + "\n".join(lines) + "\n")
		print(name, sum(x[0].isdigit() for x in lines))


def print_hashes(paths):
	import xxhash
	for path in paths:
		text = open(path, "rb").read()
		text = text[:-1] if text.endswith(b"\n") else text
		print("%s 0x%s" % (path, xxhash.xxh3_64_hexdigest(text)))


if __name__ == "__main__":
	if sys.argv[1] == "--hash":
		print_hashes(sys.argv[2:])
	else:
		main(*sys.argv[1:])
