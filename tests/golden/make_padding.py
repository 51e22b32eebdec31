#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# make_padding.py DIR: one document of 14 tokens, of which the last six are learned, as a file of
# tokens with documents, one.tok; and what ten steps of AdamW give on it in float64 where the loss of
# balance of pretrained/MODEL is learned too, MODEL.txt: loss and loss of balance of each step, in a
# sequence of 24 of which transformers masks the rest. Its epsilon keeps gradients that are nearly 0
# from counting. Written by transformers 5.24 and PyTorch 2.15. Of transformers 4.57 OLMoE is the same
# within 4e-7; Mixtral and Qwen3 have no gradient there for experts without tokens, whose weights
# AdamW then does not decay, and differ from the third step on by up to 5e-3.
import os
import sys

os.environ["HF_HUB_OFFLINE"] = "1"

import numpy
import torch
import transformers
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM

HERE = os.path.dirname(os.path.abspath(__file__))
TOKENS, LEARNED, LENGTH, STEPS, BALANCE = 14, 6, 24, 10, 0.3


def write_documents(path, ids):
	learned = torch.zeros(TOKENS, dtype=torch.uint8)
	learned[-LEARNED:] = 1
	save_file({"tokens": torch.tensor(ids.astype("uint16")), "learned": learned,
		   "documents": torch.tensor([0, TOKENS])}, path,
		  metadata={"format": "zeroth.documents/1", "vocabulary": "61"})


def train(name, ids, path):
	# transformers 5 has another product of experts by default, which float64 has not
	words = {} if transformers.__version__.startswith("4") else {"experts_implementation": "eager"}
	model = AutoModelForCausalLM.from_pretrained(os.path.join(HERE, "pretrained", name),
						     dtype=torch.float64, **words)
	inputs = torch.zeros(1, LENGTH, dtype=torch.long)
	inputs[0, :TOKENS] = torch.tensor(ids.astype("int64"))
	mask = torch.zeros(1, LENGTH, dtype=torch.long)
	mask[0, :TOKENS - 1] = 1  # the last token is a target alone
	labels = torch.full((1, LENGTH), -100)
	labels[0, TOKENS - LEARNED:TOKENS] = inputs[0, TOKENS - LEARNED:TOKENS]
	model.train()
	model.router_aux_loss_coef = BALANCE
	optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, betas=(0.9, 0.999), eps=1e-3,
				      weight_decay=0.01)
	with open(path, "w", encoding="ascii") as f:
		for _ in range(STEPS):
			out = model(input_ids=inputs, attention_mask=mask, labels=labels,
				    output_router_logits=True)
			optimizer.zero_grad()
			out.loss.backward()
			optimizer.step()
			balance = BALANCE * out.aux_loss.item()
			f.write("%.9f %.9f\n" % (out.loss.item() - balance, balance))


if __name__ == "__main__":
	ids = numpy.fromfile(os.path.join(HERE, "pretrained", "tokens.bin"), dtype="uint16")[:TOKENS]
	os.makedirs(sys.argv[1], exist_ok=True)
	write_documents(os.path.join(sys.argv[1], "one.tok"), ids)
	for model in "mixtral", "qwen3-moe", "olmoe":
		train(model, ids, os.path.join(sys.argv[1], model + ".txt"))
