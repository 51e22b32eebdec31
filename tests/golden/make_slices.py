#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# make_slices.py DIR [LENGTH]: loss and gradients of one sequence in which documents are packed, in float64. DIR/sequence.tok
# is the sequence, DIR/MODEL.safetensors has each gradient by its tensor's name, and the loss among its metadata. MODEL: of
# pretrained/, of 32 tokens; with LENGTH a Llama of width 64 with shared key heads, which is written to DIR/llama, too.
# Documents of one row lie at borders of slices. transformers finds the documents by positions that start anew, and the same
# is computed from each document alone, which must agree within 1e-12.
# transformers 5.24 with torch 2.15; 4.57.6 writes the same files.
import os
import sys

os.environ["HF_HUB_OFFLINE"] = "1"

import torch
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, LlamaConfig

HERE = os.path.dirname(os.path.abspath(__file__))
MODELS = ["llama", "llama-tied", "qwen3"]
VOCABULARY = 61
LONG = 97


def sizes(length):
    """Rows of documents that fill the sequence, one row on both sides of each eighth's border."""
    slice_rows, rows = length // 8, []
    for k in range(8):
        left = slice_rows - 2
        rows.append(1)
        while left > 0:
            n = min(left, 1 + (len(rows) * 37 + k * 11) % LONG)
            rows.append(n)
            left -= n
        rows.append(1)
    return rows


def sequence(rows):
    """Tokens of the documents, each one more than it has rows, and which are learned."""
    n = sum(rows) + len(rows)
    ids = torch.tensor([(i * 37 + i * i * 11 + i // 50 + 5) % VOCABULARY for i in range(n)])
    learned = torch.tensor([i % 7 != 3 for i in range(n)])
    ends = torch.tensor(rows).add(1).cumsum(0)
    return ids, learned, torch.cat([torch.zeros(1, dtype=torch.long), ends])


def packed(ids, learned, starts):
    """Inputs, positions and labels, which are of the same row, of all documents."""
    inputs, positions, labels = [], [], []
    for a, b in zip(starts[:-1].tolist(), starts[1:].tolist()):
        inputs.append(ids[a : b - 1])
        positions.append(torch.arange(b - 1 - a))
        labels.append(torch.where(learned[a + 1 : b], ids[a + 1 : b], -100))
    return inputs, positions, labels


def summed(model, inputs, positions, labels):
    logits = model(input_ids=inputs[None], position_ids=positions[None], use_cache=False).logits
    return torch.nn.functional.cross_entropy(logits[0], labels, ignore_index=-100, reduction="sum")


def gradients(model):
    got = {name: p.grad.clone() for name, p in model.named_parameters()}
    model.zero_grad()
    return got


def expected(model, parts):
    inputs, positions, labels = [torch.cat(x) for x in parts]
    targets = (labels >= 0).sum()
    loss = summed(model, inputs, positions, labels) / targets
    loss.backward()
    got = gradients(model)

    alone = 0
    for document in zip(*parts):
        one = summed(model, *document) / targets
        one.backward()
        alone += one.item()
    for name, g in gradients(model).items():
        worst = ((g - got[name]).abs().max() / g.abs().max()).item()
        assert worst < 1e-12, (name, worst)
    assert abs(alone - loss.item()) < 1e-12, (alone, loss.item())
    return loss.detach(), got


def write(path, model, parts):
    loss, got = expected(model.double().eval(), parts)
    single = {name: g.float().contiguous() for name, g in got.items()}
    save_file(single, path, metadata={"loss": "%.12f" % loss.item()})
    print(path, loss.item(), torch.cat([g.flatten() for g in got.values()]).norm().item())


def small_llama(length):
    torch.manual_seed(7)
    config = LlamaConfig(vocab_size=VOCABULARY, hidden_size=64, intermediate_size=160, num_hidden_layers=2,
                         num_attention_heads=8, num_key_value_heads=2, max_position_embeddings=length,
                         initializer_range=0.1, tie_word_embeddings=False)
    return AutoModelForCausalLM.from_config(config)


def main(to, length=None):
    os.makedirs(to, exist_ok=True)
    ids, learned, starts = sequence(sizes(length or 32))
    save_file({"tokens": ids.to(torch.uint16), "learned": learned.to(torch.uint8), "documents": starts},
              os.path.join(to, "sequence.tok"),
              metadata={"format": "zeroth.documents/1", "vocabulary": str(VOCABULARY)})
    parts = packed(ids, learned, starts)
    if length:
        model = small_llama(length)
        model.save_pretrained(os.path.join(to, "llama"))
        write(os.path.join(to, "llama.safetensors"), model, parts)
        return
    for name in MODELS:
        model = AutoModelForCausalLM.from_pretrained(os.path.join(HERE, "pretrained", name), dtype=torch.float32)
        write(os.path.join(to, name + ".safetensors"), model, parts)


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
