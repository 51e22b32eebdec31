#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# Chat templates of models, which are not part of this repository, beside Hugging Face's transformers: a row for each. One that
# Zeroth refuses whole has what it says in its row.
#
#   bench/templates.py BUILD COUNT TEMPLATE.jinja...     needs transformers and jinja2; after `make check` in BUILD
#
# For COUNT conversations drawn at random (tests/golden/make_jinja.py):
#   text     how many have transformers' text and, where the template has generation blocks, its mask
#   refused  how many both refuse
#   differ   all others
# For those with an answer, what is learned by the rule of files/chat/turns.h, which texts_of() of make_jinja.py states once more:
#   rule     blocks: as generation blocks say; turns: what a turn adds to the text before it
#   one      how many become one text
#   each     how many become several, since no text has all turns as they were generated
#   none     how many have no such text, or are refused
#   differ   where the program and texts_of() do not agree
#   twin     of the texts that TRL's NAME_training.jinja writes as well: masks that are equal, or equal but for white space
import json
import os
import subprocess
import sys

# tokenize.py of this folder is not Python's.
sys.path[0] = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "golden")

import make_jinja as beside

COLUMNS = ["text", "refused", "differ", "one", "each", "none", "differ"]


def answers(program, path, variable, lines):
	env = dict(os.environ, ZR_JINJA_DAYS=str((beside.DAY - beside.datetime.date(1970, 1, 1)).days))
	env[variable] = path
	run = subprocess.run([program], input="\n".join(lines) + "\n", capture_output=True, text=True, env=env)
	got = [json.loads(line) for line in run.stdout.split("\n")[:-1]]
	if len(got) != len(lines):
		raise ValueError(run.stderr.strip()[-300:].split(": ", 1)[-1])
	return got


def rendered(build, path, template, drawn):
	"""How many texts are equal, refused by both, others."""
	counts = [0, 0, 0]
	got = answers(build + "/tests/unit/chat/t_jinja", path, "ZR_JINJA_TEMPLATE", [json.dumps(v) for v in drawn])
	for v, is_ in zip(drawn, got):
		wanted = beside.reference(template, v)
		if not wanted and "error" in is_:
			counts[1] += 1
		elif wanted and is_.get("text") == wanted[0] and (is_["lost"] or is_["spans"] == wanted[1]):
			counts[0] += 1
		else:
			counts[2] += 1
	return counts


def learned(build, path, template, drawn):
	"""How many conversations become one text, several, none; how many are not as texts_of() says."""
	counts, lines, wanted = [0, 0, 0, 0], [], []
	for v in drawn:
		v = dict(v)
		messages = v.pop("messages")
		v.pop("add_generation_prompt")
		if any(beside.is_wanted(m) for m in messages):
			lines.append(json.dumps({"messages": messages, "turns": "auto", "trl": False, "variables": v}))
			wanted.append(beside.texts_of(template, messages, "auto", False, v))
	for want, got in zip(wanted, answers(build + "/tests/unit/chat/t_turns", path, "ZR_TURNS_TEMPLATE", lines)):
		counts[3] += want != got
		if not want:
			counts[2] += 1
		else:
			counts[len(want) > 1] += 1
	return counts


def joined(spans):
	"""Blocks that touch are one."""
	out = []
	for s in spans:
		if out and out[-1][1] == s[0]:
			out[-1][1] = s[1]
		else:
			out.append(list(s))
	return out


def twin(path, template, drawn):
	"""Masks that are those of TRL's template for training, of the texts that both write; empty: it has none."""
	name = path.replace(".jinja", "_training.jinja")
	if not os.path.exists(name):
		return ""
	with open(name, newline="") as f:
		other = f.read()

	same = near = texts = 0
	for v in drawn:
		v = dict(v)
		messages = v.pop("messages")
		v.pop("add_generation_prompt")
		ours, theirs = (beside.texts_of(t, messages, "auto", True, v) for t in (template, other))
		if not ours or not theirs or ours[0][0] != theirs[0][0] or len(ours) > 1 or not ours[0][1]:
			continue
		raw = ours[0][0].encode()
		ours, theirs = ours[0][1], joined(theirs[0][1])
		texts += 1
		same += ours == theirs
		near += ours != theirs and [raw[a:b].strip() for a, b in ours] == [raw[a:b].strip() for a, b in theirs]
	return f"{same} + {near} of {texts}"


def main():
	if len(sys.argv) < 4:
		sys.exit("usage: templates.py BUILD COUNT TEMPLATE.jinja...")
	drawn = [beside.conversation(i) for i in range(int(sys.argv[2]))]
	total = [0] * len(COLUMNS)
	width = max(len(os.path.basename(p)) for p in sys.argv[3:])
	print(f"{'':{width}}  rule  " + "".join(f"{c:>8}" for c in COLUMNS) + "  twin")
	for path in sys.argv[3:]:
		with open(path, newline="") as f:
			template = f.read()
		blocks = "generation %}" in template or "generation -%}" in template
		try:
			row = rendered(sys.argv[1], path, template, drawn) + learned(sys.argv[1], path, template, drawn)
		except ValueError as e:
			print(f"{os.path.basename(path):{width}}  not read: {e}", flush=True)
			continue
		total = [a + b for a, b in zip(total, row)]
		print(f"{os.path.basename(path):{width}}  {'blocks' if blocks else 'turns':6}" + "".join(f"{n:8}" for n in row) + "  " +
		      twin(path, template, drawn), flush=True)
	print(f"{'all':{width}}        " + "".join(f"{n:8}" for n in total))


if __name__ == "__main__":
	main()
