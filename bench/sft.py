#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# Twenty steps on conversations with tools and thoughts, beside TRL's SFTTrainer: the same tiny model, tokenizer, template and
# conversations to both, and the weights afterwards compared.
#
#   sft.py ZEROTH [FAMILY=TEMPLATE.jinja...]
#
# FAMILY is qwen3, llama3.1 or mistral; without one, qwen3 and llama3.1 with the templates that TRL has. Where TRL has a training
# template of a family, or the template has generation blocks, SFTTrainer makes the masks (assistant_only_loss) and Zeroth reads the
# same template with mask = trl. Elsewhere SFTTrainer is given the ids of transformers, and the masks by the rule of
# tests/golden/make_jinja.py, which Zeroth must find by itself; the template's own text, without blocks, is read by both. Everything is
# learned once, too (train_on = all), where no mask is wanted. Needs torch, trl (1.16.0), transformers (5.24), datasets, tokenizers.
import json
import os
import random
import subprocess
import sys
import tempfile

# tokenize.py of this folder is not Python's.
sys.path[0] = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "golden")

import torch
import transformers
import trl
from datasets import Dataset
from safetensors.torch import load_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from make_jinja import texts_of

transformers.logging.set_verbosity_error()

STEPS, BATCH, LENGTH = 20, 4, 1024
SPECIAL = {
	"qwen3": ["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
	"llama3.1": ["<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>",
		     "<|eom_id|>", "<|python_tag|>"],
	"mistral": ["<unk>", "<s>", "</s>", "[INST]", "[/INST]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]", "[TOOL_RESULTS]",
		    "[/TOOL_RESULTS]", "[TOOL_CALLS]"],
}
PLAIN = {"qwen3": ["<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>"]}
ENDS = {"qwen3": (None, "<|im_end|>"), "llama3.1": ("<|begin_of_text|>", "<|eot_id|>"), "mistral": ("<s>", "</s>")}

CITIES = ["Bern", "Oslo", "Lima", "Kyōto", "Quito", "Łódź"]
TOOL = {"type": "function", "function": {
	"name": "weather", "description": "Says how warm it is.", "parameters": {
		"type": "object", "properties": {
			"city": {"type": "string", "description": "Where"}, "days": {"type": "integer", "description": "When"}},
		"required": ["city"]}}}


def conversation(number, family):
	r = random.Random(number)
	city = r.choice(CITIES)
	out = [{"role": "system", "content": "You help."}] if r.random() < .5 and family != "mistral" else []
	out.append({"role": "user", "content": f"How warm is it in {city}?"})
	for turn in range(r.randrange(1, 3)):
		if r.random() < .7:
			out.append({"role": "assistant", "content": "", "tool_calls": [{
				"type": "function", "id": f"call{number:03}{turn:02}", "function": {
					"name": "weather", "arguments": {"city": city, "days": r.randrange(5)}}}]})
			out.append({"role": "tool", "name": "weather", "tool_call_id": f"call{number:03}{turn:02}",
				    "content": json.dumps({"degrees": r.randrange(-20, 40)})})
		answer = {"role": "assistant", "content": f"It is {r.randrange(-20, 40)} degrees in {city}."}
		if family == "qwen3" and r.random() < .5:
			answer["reasoning_content"] = f"The tool knows {city}."
		out.append(answer)
		if turn or r.random() < .5:
			break
		out.append({"role": "user", "content": r.choice(["And tomorrow?", "Sure?\n\nReally?"])})
	return {"messages": out, "tools": [TOOL]}


def make_tokenizer(family, texts, directory):
	t = Tokenizer(models.BPE())
	t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
	t.decoder = decoders.ByteLevel()
	t.train_from_iterator(texts, trainers.BpeTrainer(
		vocab_size=400, show_progress=False, initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet())))
	t.add_special_tokens(SPECIAL[family])
	t.add_tokens(PLAIN.get(family, []))
	begin, end = ENDS[family]
	made = PreTrainedTokenizerFast(tokenizer_object=t, bos_token=begin, eos_token=end, pad_token=SPECIAL[family][0])
	made.save_pretrained(directory)
	return PreTrainedTokenizerFast.from_pretrained(directory)


def make_model(family, vocabulary):
	shape = dict(vocab_size=vocabulary, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
		     num_key_value_heads=2, max_position_embeddings=LENGTH, tie_word_embeddings=False)
	config = {
		"qwen3": lambda: transformers.Qwen3Config(head_dim=8, **shape),
		"llama3.1": lambda: transformers.LlamaConfig(rope_parameters={
			"rope_type": "llama3", "rope_theta": 10000.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
			"original_max_position_embeddings": 256}, **shape),
		"mistral": lambda: transformers.MistralConfig(sliding_window=None, **shape),
	}[family]()
	torch.manual_seed(7)
	return transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager", dtype=torch.float32)


def theirs(model, tokenizer, rows, learned, directory):
	"""TRL's weights and losses. rows have messages and tools, or input_ids and masks."""
	losses = []

	class Note(transformers.TrainerCallback):
		def on_log(self, args, state, control, logs=None, **kwargs):
			if "loss" in logs:
				losses.append(logs["loss"])

	config = trl.SFTConfig(
		output_dir=directory, max_length=LENGTH, packing=False, assistant_only_loss=learned, per_device_train_batch_size=1,
		gradient_accumulation_steps=BATCH, max_steps=STEPS, learning_rate=1e-3, lr_scheduler_type="linear", warmup_steps=4,
		weight_decay=0.01, max_grad_norm=1.0, optim="adamw_torch", bf16=False, fp16=False, use_cpu=True, report_to=[],
		save_strategy="no", logging_steps=1, logging_strategy="steps", train_sampling_strategy="sequential",
		gradient_checkpointing=False, disable_tqdm=True, seed=1)
	trainer = trl.SFTTrainer(model=model, args=config, train_dataset=Dataset.from_list(rows), processing_class=tokenizer,
				 callbacks=[Note()])
	trainer.remove_callback(transformers.PrinterCallback)
	trainer.train()
	return {k: v.detach().clone() for k, v in trainer.model.state_dict().items()}, losses


def ours(zeroth, directory, template, learned, mask):
	with open(os.path.join(directory, "train.ini"), "w", encoding="utf-8") as f:
		f.write(f"""[train]
steps = {STEPS}
micro_batch_size = 1
train_batch_size = {BATCH}
sequence_length = {LENGTH}
gradient_clipping = 1.0
[model]
path = {directory}/model
[data]
plugin = chat
path = {directory}/rows.jsonl
tokenizer = {directory}/model
template = {template}
train_on = {learned}
mask = {mask}
order = sequential
packing = none
cache = {directory}/cache
[optimizer]
plugin = adamw
lr = 1e-3
weight_decay = 0.01
[optimizer.norms]
match = *norm.weight
weight_decay = 0
[scheduler]
plugin = linear
warmup_num_steps = 4
[run]
dir = {directory}/run
log_every = 1
""")
	for args in (["train", f"{directory}/train.ini"], ["checkpoint", "export", f"{directory}/run", f"{directory}/out"]):
		done = subprocess.run([zeroth, *args], capture_output=True, text=True)
		if done.returncode:
			sys.exit(f"zeroth {' '.join(args)}: {done.stderr or done.stdout}")
	with open(os.path.join(directory, "run", "metrics.jsonl")) as f:
		lines = [json.loads(line) for line in f]
	return load_file(f"{directory}/out/model.safetensors"), [m["loss"] for m in lines if "loss" in m]


def write(path, text):
	with open(path, "w", encoding="utf-8") as f:
		f.write(text)


def spans_to_mask(tokenizer, text, spans):
	made = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
	at = [0]  # the byte where each character begins
	for c in text:
		at.append(at[-1] + len(c.encode()))
	return made["input_ids"], [int(any(s <= at[b] < e for s, e in spans)) for b, _ in made["offset_mapping"]]


def template_with_blocks(tokenizer):
	"""What SFTTrainer can mask by, or None, and what that is called."""
	if "generation %}" in tokenizer.chat_template:
		return tokenizer.chat_template, "generation blocks"
	try:
		return trl.get_training_chat_template(tokenizer), "TRL's training template"
	except (ValueError, NotImplementedError):
		return None, "the rule of turns"


def compare(zeroth, family, source, learned):
	with tempfile.TemporaryDirectory() as d:
		conversations = [conversation(i, family) for i in range(STEPS * BATCH)]
		texts = [json.dumps(c, ensure_ascii=False) for c in conversations]
		write(f"{d}/rows.jsonl", "\n".join(texts) + "\n")
		tokenizer = make_tokenizer(family, texts, f"{d}/model")
		tokenizer.chat_template = source
		twin, by = None, "all"
		if learned:
			twin, by = template_with_blocks(tokenizer)
		model = make_model(family, len(tokenizer))
		model.save_pretrained(f"{d}/model")
		rows, mask = conversations, "trl" if twin else "turn"
		if twin:
			tokenizer.chat_template = twin
		elif learned:
			more = {"tools": [TOOL], "bos_token": tokenizer.bos_token, "eos_token": tokenizer.eos_token}
			rows = []
			for c in conversations:
				made = texts_of(source, c["messages"], "auto", False, more)
				if made is None:
					sys.exit(f"{family}: no text of {c}")
				for text, spans in made:
					ids, wanted = spans_to_mask(tokenizer, text, spans)
					rows.append({"input_ids": ids, "assistant_masks": wanted})
		write(f"{d}/used.jinja", twin or source)
		theirs_weights, theirs_losses = theirs(model, tokenizer, rows, bool(twin), f"{d}/trl")
		our_weights, our_losses = ours(zeroth, d, f"{d}/used.jinja", "assistant" if learned else "all", mask)
		worst = max(float((theirs_weights[k] - v.float()).abs().max()) for k, v in our_weights.items())
		loss = max(abs(a - b) / b for a, b in zip(our_losses, theirs_losses))
		print(f"{family:9} {by:24} steps {len(our_losses)} {len(theirs_losses)}  losses {loss:.1e}  weights {worst:.1e}",
		      flush=True)
		return worst <= 2e-6 and len(our_losses) == len(theirs_losses) == STEPS


def main():
	zeroth = sys.argv[1]
	families = {"qwen3": trl.chat_template_utils.qwen3_chat_template, "llama3.1": trl.chat_template_utils.llama3_1_chat_template}
	for arg in sys.argv[2:]:
		name, path = arg.split("=", 1)
		with open(path, encoding="utf-8") as f:
			families[name] = f.read()
	good = [compare(zeroth, name, source, learned) for name, source in families.items() for learned in (True, False)]
	sys.exit(0 if all(good) else 1)


main()
