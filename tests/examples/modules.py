# SPDX-License-Identifier: Apache-2.0
"""modules.py - modules of PyTorch trained by zeroth.torch and by PyTorch alone, side by side.

    modules.py          prints the cases
    modules.py CASE     prints "good", or what differs
"""
import copy
import os
import sys
import tempfile

import torch
import torch.nn.functional as F
from torch import nn

import zeroth.torch

STEPS, SAMPLES, MICRO, WORDS, LONG = 8, 4, 4, 20, 6
CASES = {}


def case(function):
    CASES[function.__name__] = function
    return function


def batch(step, slot):
    g = torch.Generator().manual_seed(step * 100 + slot)
    return tuple(torch.randint(0, WORDS, (SAMPLES, LONG), generator=g) for _ in range(2))


class Net(nn.Module):
    """Tied and frozen parameters, one of no and one of five dimensions, some that are the module's
    own, a block that is used twice, layers without parameters, and a map that is never used."""

    def __init__(self, norm=nn.Identity, wide=16):
        super().__init__()
        self.emb = nn.Embedding(WORDS, wide)
        self.pos = nn.Parameter(torch.randn(LONG, wide) * 0.1)
        self.scale = nn.Parameter(torch.tensor(1.5))
        self.volume = nn.Parameter(torch.randn(2, 2, 2, 2, 4) * 0.1)
        self.frozen = nn.Linear(wide, wide).requires_grad_(False)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(wide), nn.Linear(wide, 32), nn.GELU(), nn.Linear(32, wide))
            for _ in range(3))
        self.norm = norm(wide)
        self.unused = nn.Linear(3, 3)
        self.head = nn.Linear(wide, WORDS, bias=False)
        self.head.weight = self.emb.weight
        self.checkpoint = False

    def run(self, block, h):
        if self.checkpoint:
            return torch.utils.checkpoint.checkpoint(block, h, use_reentrant=False)
        return block(h)

    def forward(self, x, y):
        h = self.emb(x) + self.pos
        h = h + self.frozen(h)
        for block in self.blocks:
            h = h + self.run(block, h)
        h = h + self.run(self.blocks[0], h)
        h = self.norm(h.transpose(1, 2)).transpose(1, 2)
        h = h * self.scale * self.volume.mean() + h
        return F.cross_entropy(self.head(h).flatten(0, 1), y.flatten())


def made(kind=Net, **how):
    torch.manual_seed(1)
    return kind(**how)


def plain(model, steps=STEPS):
    """Losses, and the state_dict() afterwards."""
    model = copy.deepcopy(model)
    trained = [p for p in model.parameters() if p.requires_grad]
    adam = torch.optim.AdamW(trained, lr=0.01, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01)
    losses = []
    for step in range(steps):
        adam.zero_grad()
        sum_of = 0
        for slot in range(MICRO):
            loss = model(*batch(step, slot)) / MICRO
            loss.backward()
            sum_of += loss.item()
        nn.utils.clip_grad_norm_(trained, 1.0)
        adam.step()
        losses.append(sum_of)
    return losses, model.state_dict()


def config(**more):
    return {"train": {"steps": STEPS, "train_batch_size": SAMPLES * MICRO,
                      "micro_batch_size": SAMPLES, "gradient_clipping": 1.0},
            "optimizer": {"plugin": "adamw", "lr": 0.01, "betas": "0.9 0.999", "eps": 1e-8,
                          "weight_decay": 0.01}, **more}


def train(model, rank, ranks, first=0, last=STEPS, **more):
    """Losses, digests, state_dict() of one rank."""
    model = copy.deepcopy(model)
    engine = zeroth.torch.initialize(model, config(**more), example=batch(0, 0))
    if first:
        assert engine.resume() == first
    losses = []
    for step in range(first, last):
        for micro in range(MICRO // ranks):
            loss = engine(*batch(step, micro * ranks + rank))
            engine.backward(loss)
            result = engine.step()
        losses.append(result["loss"])
    assert engine.global_step == last and result["outcome"] == "applied"
    if last < STEPS:
        engine.save()
    out = losses, engine.digest(), engine.state_dict()
    engine.close()
    return out


def trained(model, ranks=1, **more):
    return zeroth.torch.run(lambda rank: train(model, rank, ranks, **more), ranks)[0]


def near(got, want, losses=2e-6, parameters=2e-6, names=None):
    assert max(abs(a - b) for a, b in zip(got[0], want[0])) <= losses, (got[0], want[0])
    assert list(got[2]) == list(want[1])
    for name in names or want[1]:
        apart = (got[2][name].double() - want[1][name].double()).abs().max().item()
        assert apart <= parameters, (name, apart)


@case
def stages():
    model = made()
    want, digest = plain(model), None
    for ranks in 1, 2:
        for stage in "stage0", "stage1", "stage2", "stage3", "hpz":
            got = trained(model, ranks, zero={"plugin": stage})
            near(got, want)
            assert digest in (None, got[1]), (ranks, stage, digest, got[1])
            digest = got[1]


@case
def buffers_and_resume():
    model = made(norm=nn.BatchNorm1d)
    want = plain(model)
    near(trained(model, zero={"plugin": "stage3"}), want)
    with tempfile.TemporaryDirectory() as at:
        run = {"dir": os.path.join(at, "run")}
        first = trained(model, last=5, run=run)
        got = trained(model, 2, first=5, run=run, zero={"plugin": "stage3"})
        losses = first[0] + got[0]
        near((losses, got[1], got[2]), want, names=[n for n in want[1] if "norm." not in n])
        again = trained(model, first=5, run=run, zero={"plugin": "stage2"})
        near((first[0] + again[0], again[1], again[2]), want)


if __name__ == "__main__":
    for name in sys.argv[1:]:
        CASES[name]()
        print("good")
    if not sys.argv[1:]:
        print("\n".join(CASES))
