# SPDX-License-Identifier: Apache-2.0
"""t5.py - a model of transformers that Zeroth does not know, an encoder with a decoder, trained in
stage 3 on 2 ranks with the optimizer's states on disk, beside PyTorch alone. It learns to reverse."""
import copy
import sys
import tempfile

import torch
from transformers import T5Config, T5ForConditionalGeneration

import zeroth.torch

STEPS, SAMPLES, RANKS = int(sys.argv[1]) if sys.argv[1:] else 30, 8, 2
torch.manual_seed(1)
start = T5ForConditionalGeneration(T5Config(
    d_model=64, d_kv=16, d_ff=256, num_layers=3, num_heads=4, vocab_size=32, dropout_rate=0.0,
    decoder_start_token_id=0)).train()


def batch(step, slot):
    words = torch.randint(1, 32, (SAMPLES, 10), generator=torch.Generator().manual_seed(
        step * RANKS + slot))
    return {"input_ids": words, "labels": words.flip(1)}


def train(rank):
    losses, model = [], copy.deepcopy(start)
    engine = zeroth.torch.initialize(model, {
        "train": {"steps": STEPS, "micro_batch_size": SAMPLES, "gradient_clipping": 1},
        "optimizer": {"plugin": "adamw", "lr": 3e-3, "weight_decay": 0.01},
        "zero": {"plugin": "stage3", "persistence_threshold": 0},
        "offload.optimizer": {"plugin": "nvme", "path": tempfile.gettempdir()}})
    for step in range(STEPS):
        engine.backward(engine(**batch(step, rank)).loss)
        losses.append(engine.step()["loss"])
    engine.close()
    return losses


def plain(model):
    adam, losses = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.01), []
    for step in range(STEPS):
        adam.zero_grad()
        losses.append(sum(model(**batch(step, slot)).loss / RANKS for slot in range(RANKS)))
        losses[-1].backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1)
        adam.step()
    return [loss.item() for loss in losses]


zeroths, pytorchs = zeroth.torch.run(train, RANKS)[0], plain(copy.deepcopy(start))
print("loss {:.4f}, of PyTorch {:.4f}; at most {:.0e} apart".format(
    zeroths[-1], pytorchs[-1], max(abs(a - b) for a, b in zip(zeroths, pytorchs))))
