#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# chat/trl/*.txt, golden files of tests/unit/chat/t_chat.c: the ids and masks that TRL's training
# templates give the conversations of make_chat.py with assistant_only_loss. Each of these templates
# must write what the one of files/chat/template.c does that has its name here.
#
#   make_trl_masks.py DIRECTORY      chat; needs the packages trl (1.16.0) and transformers (5.24)
import json
import os
import sys

from jinja2.exceptions import TemplateError
from transformers import PreTrainedTokenizerFast
from trl import chat_template_utils as trl

from make_chat import allowed, fnv

# What TRL calls them, and the tokenizer.
TEMPLATES = {
	"gemma": ("gemma", "spaces"), "gemma3": ("gemma3", "spaces"),
	"llama3": ("llama3", "bytes"), "phi3": ("phi3", "spaces"), "phi3.5": ("phi3_5", "spaces"),
	"qwen2": ("qwen2_5_vl", "bytes"), "qwen2.5": ("qwen2_5", "bytes"),
}


def masked(tokenizer, template, messages):
	try:
		found = tokenizer.apply_chat_template(
			messages, chat_template=template, tokenize=True, return_dict=True,
			return_assistant_tokens_mask=True)
	except TemplateError:
		return None
	return found["input_ids"], found["assistant_masks"]


# The hashes of ids that make_chat.py has, by the number of the conversation.
def known(directory, name):
	with open(os.path.join(directory, name + ".txt")) as f:
		rows = [line.split() for line in f.readlines()[1:]]
	return {int(r[0]): r[3] for r in rows if r[0].isdigit()}


def main(directory):
	with open(os.path.join(directory, "conversations.jsonl"), encoding="utf-8") as f:
		conversations = [json.loads(line)["messages"] for line in f]
	os.makedirs(os.path.join(directory, "trl"), exist_ok=True)
	for name, (theirs, file) in TEMPLATES.items():
		tokenizer = PreTrainedTokenizerFast(
			tokenizer_file=os.path.join(directory, file + ".json"), bos_token="<s>",
			eos_token="</s>")
		tokenizer.chat_template = getattr(trl, theirs + "_chat_template")
		template = trl.get_training_chat_template(tokenizer)
		assert template, theirs
		before, lines, same = known(directory, name), [], 0
		for i, m in enumerate(conversations):
			found = masked(tokenizer, template, m) if allowed(name, m) else None
			if not found or not any(found[1][1:]):
				continue
			ids, mask = found
			if i + 1 in before:
				assert before[i + 1] == "%08x" % fnv(ids), (name, i)
				same += 1
			lines.append("%d %d %d %08x %08x" % (i + 1, len(ids), sum(mask[1:]), fnv(ids),
							     fnv(mask)))
			if len(ids) < 200 and sum(x[0] == "i" for x in lines) < 2:
				lines.append("ids " + " ".join(map(str, ids)))
				lines.append("mask " + "".join(map(str, mask)))
		with open(os.path.join(directory, "trl", name + ".txt"), "w", newline="\n") as f:
			f.write(file + "\n" + "\n".join(lines) + "\n")
		print(name, theirs, len(lines), same)


if __name__ == "__main__":
	main(sys.argv[1])
