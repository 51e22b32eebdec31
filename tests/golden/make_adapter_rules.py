#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# make_adapter_rules.py > adapters/rules.txt: what PEFT makes of configurations: which modules get
# adapters, of which rank and alpha, and which tensors are trained as they are. Each case is
#
#   case MODEL adapter_config.json, on one line
#   map MODULE RANK ALPHA
#   keep TENSOR
#
# or "error" behind its first line, where PEFT refuses the configuration, or wraps an adapter with the
# module around it as one to be trained: adapter/lora refuses both. Written by PEFT 0.21.2 and
# transformers 5.24.0; PEFT 0.21.2 and transformers 4.57.6 write the same.
import json
import re
import sys
import warnings

from peft import LoraConfig, get_peft_model
from peft.tuners.lora import LoraLayer
from transformers import AutoConfig, AutoModelForCausalLM

ALL = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
SIZES = dict(vocab_size=97, hidden_size=24, num_hidden_layers=2, num_attention_heads=3,
	     num_key_value_heads=3, intermediate_size=48, max_position_embeddings=16, head_dim=8,
	     tie_word_embeddings=False)
MODELS = {
	"gpt2": dict(vocab_size=97, n_embd=24, n_layer=2, n_head=3, n_positions=16,
		     tie_word_embeddings=True),
	"llama": SIZES,
	"qwen3": SIZES,
}

CASES = [
	# what is trained: the end of a name, behind a dot or not, of a module or its parents
	("llama", dict(target_modules=["q_proj"], modules_to_save=["norm"])),
	("qwen3", dict(target_modules=["q_proj"], modules_to_save=["norm"])),
	("llama", dict(target_modules=["q_proj"], modules_to_save=["layernorm"])),
	("llama", dict(target_modules=["q_proj"], modules_to_save=["mlp"])),
	("llama", dict(target_modules=["q_proj"], modules_to_save=["0.mlp", "lm_head"])),
	("llama", dict(target_modules=["q_proj"], modules_to_save=["ers.1"])),
	("gpt2", dict(target_modules=["c_attn"], modules_to_save=["ln_f"])),
	("gpt2", dict(target_modules=["c_fc"], modules_to_save=["1"])),
	("gpt2", dict(target_modules=["c_attn"], modules_to_save=["wpe"])),
	# what is trained gets no adapter: whole parts of names
	("llama", dict(target_modules=["q_proj", "down_proj"], modules_to_save=["q_proj"])),
	("llama", dict(target_modules=["q_proj", "down_proj"], modules_to_save=["mlp"])),
	("llama", dict(target_modules="all-linear", modules_to_save=["mlp.up_proj"])),
	("llama", dict(target_modules="all-linear", modules_to_save=["1.self_attn"])),
	("llama", dict(target_modules="all-linear", modules_to_save=["lm_head"])),
	("llama", dict(target_modules=["q_proj"], modules_to_save=["q_proj"])),
	("llama", dict(target_modules=r".*\.(q|v)_proj", modules_to_save=["v_proj"])),
	# a list has whole names, or their ends behind a dot
	("llama", dict(target_modules=["proj"])),
	("llama", dict(target_modules=["self_attn.q_proj", "1.mlp.up_proj"])),
	("llama", dict(target_modules=["model.layers.0.self_attn.k_proj"])),
	("llama", dict(target_modules=["layers.0.self_attn.k_proj", "_proj"])),
	("llama", dict(target_modules=["q_proj", "none_such"])),
	("llama", dict(target_modules=["none_such"])),
	("llama", dict(target_modules=["mlp"])),
	("llama", dict(target_modules=["norm"])),
	("gpt2", dict(target_modules=["h.0.attn.c_attn"])),
	("gpt2", dict(target_modules=["transformer.h.1.attn.c_attn", "c_proj"])),
	# a text fits whole names
	("llama", dict(target_modules="q_proj")),
	("llama", dict(target_modules=r".*q_proj")),
	("llama", dict(target_modules=r"model\.layers\.1\..*_proj")),
	("llama", dict(target_modules=r".*self_attn.*")),
	("llama", dict(target_modules="All-Linear")),
	("gpt2", dict(target_modules=r"h\.\d+\.attn\.c_attn")),
	("gpt2", dict(target_modules=r"transformer\.h\.\d+\.attn\.c_attn")),
	# embeddings
	("llama", dict(target_modules=["embed_tokens"])),
	("llama", dict(target_modules=r".*(embed_tokens|q_proj)", rank_pattern={"embed_tokens": 3})),
	("llama", dict(target_modules=["embed_tokens", "q_proj"], layers_to_transform=[0])),
	("llama", dict(target_modules=["model.embed_tokens", "q_proj"], layers_to_transform=[0])),
	("llama", dict(target_modules=["embed_tokens", "q_proj"], exclude_modules=["embed_tokens"])),
	("llama", dict(target_modules=["embed_tokens", "q_proj"], modules_to_save=["embed_tokens"])),
	("gpt2", dict(target_modules=["wte", "c_attn"], alpha_pattern={"w.e": 3})),
	# an embedding that is the head
	("gpt2", dict(target_modules=["c_attn"], modules_to_save=["lm_head"],
		      ensure_weight_tying=True)),
	("gpt2", dict(target_modules=["c_attn"], modules_to_save=["ln_f", "lm_head"],
		      ensure_weight_tying=True)),
	("gpt2", dict(target_modules="all-linear", modules_to_save=["transformer.wte", "lm_head"],
		      ensure_weight_tying=True)),
	("gpt2", dict(target_modules=["c_attn"], ensure_weight_tying=True)),
	("llama", dict(target_modules=["embed_tokens"], ensure_weight_tying=True)),
	("llama", dict(target_modules=["q_proj"], modules_to_save=["lm_head"],
		       ensure_weight_tying=True)),
	# heads
	("llama", dict(target_modules=["lm_head", "q_proj"], rank_pattern={"lm_head": 3})),
	("llama", dict(target_modules=r".*(lm_head|embed_tokens)")),
	("gpt2", dict(target_modules="all-linear", exclude_modules=["lm_head"])),
	# expressions are Python's, of Unicode
	("llama", dict(target_modules="[^\u00e9]*\\.q_proj")),
	("llama", dict(target_modules="(\u00e9|mode)\\w\\..*[\u00e0-\u00ffq]_proj")),
	("llama", dict(target_modules=r"(?P<a>model)(?:\.|\x2e)layers\.\d{1,2}\..*(?<=self_attn\.)q_proj\Z")),
	("llama", dict(target_modules=r"(?i:MODEL)\..*?\.[^]x]_proj(?#the end)")),
	("llama", dict(target_modules=r"\hmodel.*q_proj")),
	("llama", dict(target_modules=r".*[[:lower:]]_proj")),
	("llama", dict(target_modules=r"(?<a>model).*q_proj")),
	("llama", dict(target_modules=r"(?|model|x).*q_proj")),
	("llama", dict(target_modules=r"\Qmodel\E.*q_proj")),
	("llama", dict(target_modules=r"(*UTF)model.*q_proj")),
	("llama", dict(target_modules=["q_proj", "v_proj"], rank_pattern={r"\p{L}_proj": 3})),
	# what is excluded
	("llama", dict(target_modules=["q_proj", "v_proj"], exclude_modules=["v_proj"])),
	("llama", dict(target_modules=["q_proj", "v_proj"], exclude_modules=["_proj"])),
	("llama", dict(target_modules=["q_proj"], exclude_modules=["0.self_attn.q_proj"])),
	("llama", dict(target_modules="all-linear", exclude_modules=r".*mlp.*")),
	("llama", dict(target_modules="all-linear", exclude_modules=r"mlp")),
	("llama", dict(target_modules=r".*_proj", exclude_modules=["mlp"])),
	("llama", dict(target_modules=["q_proj"], exclude_modules=["q_proj"])),
	("llama", dict(target_modules=r".*(self_attn|q_proj)", exclude_modules=["self_attn"])),
	# layers
	("llama", dict(target_modules=["q_proj", "up_proj"], layers_to_transform=[1])),
	("llama", dict(target_modules=["q_proj"], layers_to_transform=0)),
	("llama", dict(target_modules=["q_proj"], layers_to_transform=[])),
	("llama", dict(target_modules=["q_proj"], layers_to_transform=[7])),
	("llama", dict(target_modules=["q_proj"], layers_to_transform=[0], layers_pattern="layers")),
	("llama", dict(target_modules=["q_proj"], layers_to_transform=[0], layers_pattern=["h"])),
	("llama", dict(target_modules=["q_proj"], layers_to_transform=[0],
		       layers_pattern=["h", "layers"])),
	("llama", dict(target_modules=["q_proj"], layers_to_transform=[0], layers_pattern="ayers")),
	("llama", dict(target_modules=["q_proj"], layers_pattern="layers")),
	("llama", dict(target_modules=["model.layers.0.self_attn.q_proj", "k_proj"],
		       layers_to_transform=[1])),
	("llama", dict(target_modules=r".*q_proj", layers_to_transform=[1])),
	("llama", dict(target_modules="all-linear", layers_to_transform=[1])),
	("gpt2", dict(target_modules=["c_attn"], layers_to_transform=[1])),
	("gpt2", dict(target_modules=["c_attn"], layers_to_transform=[1], layers_pattern="h")),
	# ranks
	("llama", dict(target_modules=["q_proj", "v_proj"], rank_pattern={"v_proj": 3})),
	("llama", dict(target_modules=["q_proj", "v_proj"], rank_pattern={"proj": 3})),
	("llama", dict(target_modules=ALL, rank_pattern={"self_attn.*": 3, "q_proj": 5},
		       alpha_pattern={"(q|up)_proj": 7, ".*_proj": 9})),
	("llama", dict(target_modules=ALL, rank_pattern={"mlp.up.proj": 3, "q.proj": 5})),
	("llama", dict(target_modules=ALL, rank_pattern={"1.mlp.up_proj": 3, "up_proj": 4})),
	("llama", dict(target_modules=ALL, rank_pattern={"up_proj": 4, "1.mlp.up_proj": 3})),
	("llama", dict(target_modules=ALL, rank_pattern={r"layers\.0\..*": 6, "^model.*": 4})),
	("llama", dict(target_modules=ALL, rank_pattern={"model.layers.1.mlp.down_proj": 6})),
	("llama", dict(target_modules=ALL, alpha_pattern={r"(\w+\.)+(k|v)_proj": 2.5})),
	("gpt2", dict(target_modules=["c_attn", "c_proj"], rank_pattern={"h.0.attn.c_proj": 3})),
	("gpt2", dict(target_modules=["c_attn", "c_proj"], rank_pattern={"attn.c_.*": 3})),
]


def outcome(kind, options):
	config = AutoConfig.for_model(kind, **MODELS[kind])
	model = AutoModelForCausalLM.from_config(config)
	try:
		lora = LoraConfig(task_type="CAUSAL_LM", r=2, lora_alpha=4,
				  fan_in_fan_out=kind == "gpt2", **options)
		model = get_peft_model(model, lora).base_model.model
	except (ValueError, TypeError, re.error):
		return ["error"]
	lines = []
	for name, module in model.named_modules():
		if isinstance(module, LoraLayer):
			lines.append("map %s %d %g" % (name, module.r["default"],
						       module.lora_alpha["default"]))
	for name, p in model.named_parameters():
		if ".modules_to_save.default" in name and p.requires_grad:
			lines.append("keep " + name.replace(".modules_to_save.default", ""))
	if any("lora_" in line or ".modules_to_save." in line for line in lines):
		return ["error"]
	return sorted(lines)


warnings.simplefilter("ignore")
for kind, options in CASES:
	file = dict(peft_type="LORA", task_type="CAUSAL_LM", r=2, lora_alpha=4, **options)
	print("case", kind, json.dumps(file))
	print("\n".join(outcome(kind, options)))
