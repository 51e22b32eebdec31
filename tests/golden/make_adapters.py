#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# make_adapters.py DIR [CASE...]: adapters as PEFT's save_pretrained leaves them, for the models in
# tests/golden/pretrained, and beside each what twenty steps of AdamW from there on give in float64:
# losses.txt, the loss of each step, and after.safetensors, the adapters behind the last one;
# nf4.txt, the losses where the linear maps of the base, but the output projection and routers, are
# what bitsandbytes makes of them in NF4 and back; and merged.safetensors, the model that PEFT's
# merge_and_unload makes of the adapters, in float64 and rounded once; merged_nf4.safetensors with
# that base. The steps see the two sequences of tokens.bin, each time.
# PEFT 0.13, transformers 4.45, PyTorch 2.15 and bitsandbytes 0.50 wrote gpt2, llama and qwen2; PEFT
# 0.17, transformers 4.57, PyTorch 2.4 and bitsandbytes 0.50 the mixtures of experts; PEFT 0.21,
# transformers 4.57 and PyTorch 2.4 those of PLAIN, which have no nf4.txt; PEFT 0.21.2, transformers
# 5.24 and PyTorch 2.15 those that end with -tokens, -saved and -head.
import os
import shutil
import sys

os.environ["HF_HUB_OFFLINE"] = "1"  # bases are looked for there otherwise

import numpy
import torch
import torch.nn.functional as F
from peft import LoraConfig, PeftModel, get_peft_model
from peft.utils import get_peft_model_state_dict
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM

B, T, STEPS = 2, 13, 20
BASE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "pretrained")

CASES = {
	"gpt2": ("gpt2", dict(r=4, lora_alpha=8, target_modules="all-linear",
			      fan_in_fan_out=True)),
	"llama": ("llama", dict(r=3, lora_alpha=6, use_rslora=True,
				target_modules=["q_proj", "v_proj", "down_proj"],
				rank_pattern={"v_proj": 2}, alpha_pattern={"1.mlp.down_proj": 5},
				modules_to_save=["lm_head"])),
	"qwen2": ("qwen2", dict(r=1, lora_alpha=1, target_modules="all-linear")),
	"mixtral": ("mixtral", dict(r=3, lora_alpha=6, use_rslora=True,
				    target_modules=["q_proj", "o_proj", "w1", "w2", "w3"],
				    rank_pattern={"w2": 2})),
	"qwen3-moe": ("qwen3-moe", dict(r=2, lora_alpha=3,
					target_modules=["gate_proj", "down_proj"])),
	# names with what is before them in PyTorch, as this PEFT writes those of all-linear
	"gpt2-names": ("gpt2", dict(r=4, lora_alpha=8, target_modules="all-linear",
				    fan_in_fan_out=True,
				    rank_pattern={"transformer.h.0.attn.c_attn": 2},
				    alpha_pattern={"transformer.h.1.mlp.c_fc": 14},
				    modules_to_save=["transformer.ln_f"])),
	"gpt2-untied": ("gpt2-untied", dict(r=2, lora_alpha=3, target_modules=["c_attn", "c_fc"],
					    fan_in_fan_out=True, modules_to_save=["lm_head"])),
	# of embeddings; PEFT writes the weights of those called embed_tokens, too
	"llama-tokens": ("llama", dict(r=3, lora_alpha=6, lora_dropout=0.0,
				       target_modules=["embed_tokens", "q_proj"],
				       rank_pattern={"embed_tokens": 2})),
	"gpt2-tokens": ("gpt2", dict(r=4, lora_alpha=8, target_modules=["wte", "c_attn"],
				     fan_in_fan_out=True)),
	"gemma2-tokens": ("gemma2", dict(r=2, lora_alpha=3, target_modules=r"model\.embed_tokens")),
	# an embedding that is the head; PEFT writes it twice
	"qwen2-saved": ("qwen2", dict(r=2, lora_alpha=3, target_modules=["q_proj"],
				      modules_to_save=["embed_tokens"], ensure_weight_tying=True)),
}
CASES["llama-head"] = ("llama", dict(r=3, lora_alpha=6, target_modules=["lm_head", "q_proj"]))
PLAIN = ("llama-head", "gpt2-names", "gpt2-untied", "llama-tokens", "gpt2-tokens", "gemma2-tokens", "qwen2-saved")
TIED = "gpt2-tokens", "gemma2-tokens"  # PEFT's merge would change the head, too


def tokens():
	t = numpy.fromfile(os.path.join(BASE, "tokens.bin"), dtype=numpy.uint16).astype("int64")
	t = torch.from_numpy(t)
	return t[:B * T].view(B, T), t[1:B * T + 1].view(B, T)


def loss_of(model):
	inputs, targets = tokens()
	logits = model(inputs).logits
	return F.cross_entropy(logits.double().view(B * T, -1), targets.reshape(-1))


def merge(root, name, file, nf4):
	base, where = CASES[name][0], os.path.join(root, name)
	model = AutoModelForCausalLM.from_pretrained(os.path.join(BASE, base),
						     torch_dtype=torch.float32)
	if nf4:
		quantise(model)
	model = PeftModel.from_pretrained(model, where, autocast_adapter_dtype=False).double()
	merged = model.merge_and_unload().state_dict()
	tied = "lm_head.weight" if model.config.tie_word_embeddings else None
	before = "transformer." if tied else ""
	save_file({k.removeprefix(before): v.float().contiguous()
		   for k, v in merged.items() if k != tied}, os.path.join(where, file))


def make(root, name):
	base, options = CASES[name]
	where = os.path.join(root, name)
	torch.manual_seed(16)
	model = AutoModelForCausalLM.from_pretrained(os.path.join(BASE, base),
						     torch_dtype=torch.float32)
	model = get_peft_model(model, LoraConfig(task_type="CAUSAL_LM", **options))
	for key, p in model.named_parameters():
		if "lora_B" in key or "lora_embedding_A" in key:  # adapters that have learned something
			torch.nn.init.normal_(p, std=0.1)
	model.peft_config["default"].base_model_name_or_path = base
	shutil.rmtree(where, ignore_errors=True)
	model.save_pretrained(where)
	os.remove(os.path.join(where, "README.md"))
	train(model, os.path.join(where, "losses.txt"))
	after = get_peft_model_state_dict(model).items()
	save_file({k: v.float().clone() for k, v in after if ".base_layer." not in k},
		  os.path.join(where, "after.safetensors"))
	if name in PLAIN:
		return
	model = AutoModelForCausalLM.from_pretrained(os.path.join(BASE, base),
						     torch_dtype=torch.float32)
	quantise(model)
	train(PeftModel.from_pretrained(model, where, is_trainable=True),
	      os.path.join(where, "nf4.txt"))


def quantise(model):
	import bitsandbytes.functional as quantised
	for key, p in model.named_parameters():
		module = key.split(".")[-2]
		if p.dim() == 2 and module not in ("wte", "wpe", "embed_tokens", "lm_head", "gate"):
			codes, state = quantised.quantize_4bit(
				p.data, blocksize=64, quant_type="nf4", compress_statistics=False)
			# not dequantize_4bit: beside PyTorch 2.4 it mixes up small ones on a CPU
			pairs = torch.stack([codes.flatten() >> 4, codes.flatten() & 15], 1)
			values = state.code[pairs.flatten().long()].view(-1, 64)
			p.data = (values * state.absmax.view(-1, 1)).view(p.shape)


def train(model, path):
	model.double()
	trained = [p for p in model.parameters() if p.requires_grad]
	optimizer = torch.optim.AdamW(trained, lr=1e-2, betas=(0.9, 0.999), eps=1e-8,
				      weight_decay=0.01)
	losses = []
	for _ in range(STEPS):
		optimizer.zero_grad()
		loss = loss_of(model)
		loss.backward()
		optimizer.step()
		losses.append(loss.item())
	with open(path, "w", encoding="ascii") as f:
		f.write("".join("%.12g\n" % x for x in losses))
	print(path, losses[0], losses[-1])


if __name__ == "__main__":
	for case in sys.argv[2:] or CASES:
		make(sys.argv[1], case)
		if case not in TIED:
			merge(sys.argv[1], case, "merged.safetensors", False)
		if case == "llama":
			merge(sys.argv[1], case, "merged_nf4.safetensors", True)
