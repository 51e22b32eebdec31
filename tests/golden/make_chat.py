#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# The golden files of tests/unit/chat/t_chat.c: conversations that are hard to write as text, small
# tokenizers with the special tokens of chat templates, and the ids and masks that
# apply_chat_template(return_assistant_tokens_mask=True) of Hugging Face's transformers gives them.
# The templates are those of models' tokenizers; they are not part of this repository.
#
#   make_chat.py DIRECTORY TEMPLATES          needs the package transformers (4.45.2 was used)
#   make_chat.py --hash TEMPLATE.jinja...     what files/chat/template.c knows them by (xxhash)
#
# TEMPLATES has files of Jinja, of any name: files/chat/template.c says by their hash which template
# each is, and all texts of a template must give the same. Those texts do not say what the assistant
# generates, so mark() puts {% generation %} around the answer and what ends it; that this changes
# no text, and is around nothing else, is checked for every conversation.
import glob
import json
import os
import random
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
BEGIN, END = "{% generation %}", "{% endgeneration %}"
OPEN, CLOSE = "\ue000", "\ue001"  # in their place, to look at what is between them

# What ends an answer, and the tokenizer.
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
	"falcon-h1": ("<|im_end|>", "bytes"), "phi3-short": ("<|end|>", "spaces"),
	"deepseek-v2": ("</s>", "spaces"),
}
# Tokenized by apart() below, as Axolotl does rows of type alpaca.
APART = {"alpaca-input": ("spaces", "", "### Instruction:\n%s\n\n", "### Response:\n"),
	 "user-input": ("spaces", "SYSTEM: ", "USER: %s\nASSISTANT:", "")}
# Of texts that only grow: what an answer adds behind its head is learned.
# Their heads are no special tokens of the tokenizers here, so that a token may have a part of both.
GROWING = {"llama4": ("bytes", "<|header_start|>assistant<|header_end|>\n\n", "<|eot|>"),
	   "cohere": ("bytes", "<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>", "<|END_OF_TURN_TOKEN|>")}
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
ALPACA = ("Below is an instruction that describes a task. Write a response that appropriately "
	  "completes the request.\n\n")
STRICT = ("llama2", "mistral-v0.1", "mistral-v0.2", "mistral-v1", "mistral-v3",
	  "mistral-v3-tekken", "gemma", "gemma3", "cohere")
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


# {{ before + content + behind }}, with any of these names for the text of a message.
WRITES = re.compile(r"""
	\{\{(?P<left>-?) \s* (?:(?P<before>[^{}]*?) \s*\+\s*)?
	(?P<content>\b(?:content | (?:message|m)(?:\.content | \[['"]content['"]\]))
		(?:\s*\|\s*trim | \.strip\(\))?)
	\s*\+\s* (?P<behind>[^{}]*?) \s* (?P<right>-?)\}\}""", re.X)
# What writes it in templates that have none of these, and what is to be there for an answer.
OTHERS = {
	"chatml": [
		("{{- message.content }}", BEGIN + "{{ message.content + '<|im_end|>' }}" + END),
		("{{- '<|im_end|>' + '\n' }}", "{{ '\n' }}")
	],
	"qwen2": [
		("{{ message['content'] }}<|im_end|>\n",
		 BEGIN + "{{ message['content'] + '<|im_end|>' }}" + END + "{{ '\n' }}")
	],
	"llama3": [
		("{{ content }}",
		 "{% set n = content.index('<|end_header_id|>') + 19 %}{{ content[:n] }}"
		 + BEGIN + "{{ content[n:] }}" + END)
	],
	"gemma3": [
		("{{ message['content'] | trim }}",
		 BEGIN + "{{ message['content'] | trim + '<end_of_turn>' }}" + END),
		("{{ '<end_of_turn>\n' }}", "{{ '\n' }}")
	],
	"alpaca": [
		("{{ m.content }}{{ eos_token }}", BEGIN + "{{ m.content + eos_token }}" + END)
	],
	"none": [
		("{{ m.content }}{% if m.role == 'assistant' %}{{ eos_token }}{% endif %}",
		 BEGIN + "{{ m.content + eos_token }}" + END)
	],
}

# Likewise in those that write other messages as above.
ALSO = {
	"chatml": [
		(r"{{- '<|im_start|>' + message.role + '\n' + content }}",
		 r"{{ '<|im_start|>' + message.role + '\n' }}" + BEGIN
		 + "{{ content + '<|im_end|>' }}" + END),
		(r"{{- '<|im_end|>\n' }}", r"{{ '\n' }}")
	],
}


# `text` of a template for all messages but answers, which have `answer` there.
def choose(text, answer):
	left, right = ("-" if x else "" for x in (text.startswith("{{-"), text.endswith("-}}")))
	message = "m" if "m.content" in text else "message"
	return ("{{" + left + " '' }}{% if " + message + ".role == 'assistant' %}" + answer
		+ "{% else %}" + text + "{% endif %}{{ '' " + right + "}}")


def mark(name, source, end):
	def written(found):
		before, content, behind = found.group("before", "content", "behind")
		n = len(end)
		return choose(found[0], "{% set behind = " + behind + " %}{{ " + (before or "''")
			      + " }}" + BEGIN + "{{ " + content + " + behind[:%d] }}" % n + END
			      + "{{ behind[%d:] }}" % n)
	marked, n = WRITES.subn(written, source)
	for text, answer in ALSO.get(name, []) if n else OTHERS[name]:
		marked = marked.replace(text, choose(text, answer), 1)
	return marked


# Ids and mask, or None: the template refuses.
def encode(tokenizer, source, marked, messages, end):
	from jinja2.exceptions import TemplateError

	def apply(template, **how):
		return tokenizer.apply_chat_template(messages, chat_template=template,
						     date_string="26 Jul 2024", **how)
	try:
		text = apply(source, tokenize=False)
	except TemplateError:
		return None
	shown = apply(marked.replace(BEGIN, OPEN).replace(END, CLOSE), tokenize=False)
	assert shown.replace(OPEN, "").replace(CLOSE, "") == text, (text, shown)
	said = [m["content"].strip() for m in messages if m["role"] == "assistant"]
	found = re.findall(OPEN + "(.*?)" + CLOSE, shown, re.S)
	assert all(x.endswith(end) for x in found), (end, found)
	assert [x[:-len(end)].strip() for x in found] == said, (found, said)
	both = apply(marked, tokenize=True, return_dict=True, return_assistant_tokens_mask=True)
	assert both["input_ids"] == tokenizer(text, add_special_tokens=False)["input_ids"]
	return both["input_ids"], both["assistant_masks"]


def fnv(values):
	h = 0xcbf29ce484222325
	for v in values:
		h = ((h ^ v) * 0x100000001b3) & 0xffffffffffffffff
	return h >> 32


def allowed(name, m):
	first = m[0]["role"] == "system"
	late = any(x["role"] == "system" for x in m[first:])
	return not (late and (name in STRICT or name in FIRST_ONLY))


# What all texts of a template that do not refuse a conversation give it.
def agreed(name, tokenizer, texts, messages, end):
	if not allowed(name, messages):
		return None
	found = [encode(tokenizer, s, t, messages, end) for s, t in texts]
	found = [x for x in found if x]
	assert all(x == found[0] for x in found), (name, messages, found)
	return found[0] if found else None


def golden(name, sources, end, tokenizer, conversations):
	texts = [(s, mark(name, s, end)) for s in sources]
	lines = []
	for i, m in enumerate(conversations):
		found = agreed(name, tokenizer, texts, m, end)
		if not found or not any(found[1][1:]):
			continue
		ids, mask = found
		lines.append("%d %d %d %08x %08x" % (i + 1, len(ids), sum(mask[1:]), fnv(ids),
						     fnv(mask)))
		if len(ids) < 200 and sum(x[0] == "i" for x in lines) < 2:
			lines.append("ids " + " ".join(map(str, ids)))
			lines.append("mask " + "".join(map(str, mask)))
	return lines


# Axolotl's AlpacaPromptTokenizingStrategy, for more than one turn: what is before an answer, and the
# answer with its last token, are texts of their own behind what the tokenizer begins with.
def apart(tokenizer, messages, begin, user, answer):
	ids = tokenizer("")["input_ids"]
	mask, text = [0] * len(ids), begin + (ALPACA[:-1] if begin else ALPACA)

	def flush(text, learned):
		more = tokenizer(text, add_special_tokens=False)["input_ids"] if text else []
		ids.extend(more)
		mask.extend([learned] * len(more))
	for m in messages:
		if m["role"] == "user":
			text += user % m["content"]
			continue
		flush(text + answer, 0)
		flush(m["content"] + tokenizer.eos_token, 1)
		text = ""
	flush(text, 0)
	return ids, mask


def golden_apart(tokenizer, conversations, *forms):
	lines = []
	for i, m in enumerate(conversations):
		if any(x["role"] == "system" for x in m):
			continue
		ids, mask = apart(tokenizer, m, *forms)
		lines.append("%d %d %d %08x %08x" % (i + 1, len(ids), sum(mask[1:]), fnv(ids),
						     fnv(mask)))
	return lines


def golden_growing(name, source, tokenizer, conversations, head, end):
	from jinja2.exceptions import TemplateError

	def render(messages):
		return tokenizer.apply_chat_template(messages, chat_template=source, tokenize=False)
	lines = []
	for i, m in enumerate(conversations):
		try:
			text, spans = render(m), []
		except TemplateError:
			continue
		if not allowed(name, m):
			continue
		for k, x in enumerate(m):
			if x["role"] != "assistant":
				continue
			said = x["content"].strip() if name in STRICT else x["content"]
			at = len(render(m[:k])) + len(head)
			spans.append((at, at + len(said) + len(end)))
			assert text[at:spans[-1][1]] == said + end
			if head[-1] == ">" and said[:1] == "\u0338": # NFC makes one of them
				spans[-1] = (at - 1, spans[-1][1])
		both = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
		mask = [int(any(a < to and b > at for at, to in spans)) for a, b in both["offset_mapping"]]
		ids = both["input_ids"]
		lines.append("%d %d %d %08x %08x" % (i + 1, len(ids), sum(mask[1:]), fnv(ids),
						     fnv(mask)))
	return lines


def tokenizers(directory):
	from tokenizers import AddedToken, Tokenizer
	from transformers import PreTrainedTokenizerFast
	for name, of in (("bytes", "qwen2"), ("spaces", "llama2")):
		t = Tokenizer.from_file(os.path.join(HERE, "tokenizers", of + ".json"))
		special = [AddedToken(x, special=True, normalized=False) for x in SPECIAL]
		t.add_special_tokens(special)
		path = os.path.join(directory, name + ".json")
		t.save(path, pretty=False)
		yield name, PreTrainedTokenizerFast(tokenizer_file=path, bos_token="<s>",
						    eos_token="</s>")


def hash_of(text):
	import xxhash
	return xxhash.xxh3_64_hexdigest((text[:-1] if text.endswith("\n") else text).encode())


# The texts of each template that files/chat/template.c lists.
def find_sources(templates):
	path = os.path.join(HERE, "..", "..", "files", "chat", "template.c")
	with open(path, encoding="utf-8") as f:
		known = dict(re.findall(r'UINT64_C\(0x(\w+)\), "([^"]+)"', f.read()))
	texts = list(OURS.values())
	for path in sorted(glob.glob(os.path.join(templates, "*"))):
		with open(path, encoding="utf-8", newline="") as f:
			texts.append(f.read())
	texts = {hash_of(x): x for x in texts}
	for missing in sorted(known.keys() - texts.keys()):
		print("no text of", known[missing], missing)
	return {n: [texts[h] for h in known if known[h] == n and h in texts]
		for n in [*TEMPLATES, *GROWING]}


def main(directory, templates):
	os.makedirs(directory, exist_ok=True)
	draw = random.Random(15)
	conversations = [conversation(draw, i) for i in range(200)]
	path = os.path.join(directory, "conversations.jsonl")
	with open(path, "w", encoding="utf-8", newline="\n") as f:
		for i, m in enumerate(conversations):
			f.write(json.dumps({"messages": m}, ensure_ascii=bool(i % 2)) + "\n")
	of = dict(tokenizers(directory))
	sources = find_sources(templates)
	for name, (end, tokenizer) in TEMPLATES.items():
		lines = golden(name, sources[name], end, of[tokenizer], conversations)
		path = os.path.join(directory, name + ".txt")
		with open(path, "w", encoding="utf-8", newline="\n") as f:
			f.write(tokenizer + "\n" + "\n".join(lines) + "\n")
		print(name, len(sources[name]), sum(x[0].isdigit() for x in lines))
	for name, (tokenizer, head, end) in GROWING.items():
		lines = golden_growing(name, sources[name][0], of[tokenizer], conversations, head, end)
		path = os.path.join(directory, name + ".txt")
		with open(path, "w", encoding="utf-8", newline="\n") as f:
			f.write(tokenizer + "\n" + "\n".join(lines) + "\n")
	for name, (tokenizer, *forms) in APART.items():
		lines = golden_apart(of[tokenizer], conversations, *forms)
		path = os.path.join(directory, name + ".txt")
		with open(path, "w", encoding="utf-8", newline="\n") as f:
			f.write(tokenizer + "\n" + "\n".join(lines) + "\n")


def print_hashes(paths):
	for path in paths:
		with open(path, encoding="utf-8", newline="") as f:
			print(path, "0x" + hash_of(f.read()))


if __name__ == "__main__":
	if sys.argv[1] == "--hash":
		print_hashes(sys.argv[2:])
	else:
		main(*sys.argv[1:])
