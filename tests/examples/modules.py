# SPDX-License-Identifier: Apache-2.0
"""modules.py - modules of PyTorch trained by zeroth.torch and by PyTorch alone, side by side.

    modules.py          prints the cases
    modules.py CASE     prints "good", or what differs
"""
import contextlib
import copy
import json
import os
import random
import subprocess
import sys
import tempfile

import torch
import torch.nn.functional as F
from torch import nn

import zeroth.torch
from zeroth import devices

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


def split(stage):
    """A stage that leaves no small unit whole."""
    splits = stage in ("stage3", "hpz", "mics")
    return {"plugin": stage, **({"persistence_threshold": 0} if splits else {})}


@case
def stages():
    model = made()
    want, digest = plain(model), None
    for ranks in 1, 2:
        for stage in "stage0", "stage1", "stage2", "stage3", "hpz", "mics":
            got = trained(model, ranks, zero=split(stage))
            near(got, want)
            assert digest in (None, got[1]), (ranks, stage, digest, got[1])
            digest = got[1]


@case
def buffers_and_resume():
    model = made(norm=nn.BatchNorm1d)
    want = plain(model)
    near(trained(model, zero=split("stage3")), want)
    with tempfile.TemporaryDirectory() as at:
        run = {"dir": os.path.join(at, "run")}
        first = trained(model, last=5, run=run)
        got = trained(model, 2, first=5, run=run, zero=split("stage3"))
        losses = first[0] + got[0]
        near((losses, got[1], got[2]), want, names=[n for n in want[1] if "norm." not in n])
        again = trained(model, first=5, run=run, zero={"plugin": "stage2"})
        near((first[0] + again[0], again[1], again[2]), want)


@case
def tiers():
    model = made()
    want = plain(model)
    with tempfile.TemporaryDirectory() as disk:
        nvme = {"plugin": "nvme", "path": disk}
        some = {"offload.optimizer": nvme, "offload.gradient": nvme}
        digest = trained(model)[1]
        for ranks, stage, more in ((1, "stage2", some), (2, "stage1", {"offload.optimizer": nvme}),
                                   (1, "stage3", {**some, "offload.param": nvme}),
                                   (2, "stage3", {**some, "offload.param": nvme})):
            got = trained(model, ranks, zero=split(stage), **more)
            near(got, want)
            assert got[1] == digest, (ranks, stage)


class Again(nn.Module):
    """A block that computes parts of itself, or all of it, again."""

    def __init__(self, how, wide=16):
        super().__init__()
        self.norm, self.one, self.two = nn.LayerNorm(wide), nn.Linear(wide, 32), nn.Linear(32, wide)
        self.how, self.count = how, 0

    def inner(self, h):
        self.count += 1
        return self.two(F.gelu(self.one(h)))

    def forward(self, h):
        if self.how is None:
            return self.inner(self.norm(h))
        return torch.utils.checkpoint.checkpoint(self.inner, self.norm(h), use_reentrant=self.how)


@case
def recomputation():
    want, digest = plain(made()), None
    for block, more in ((None, {}), ("all", {}), (None, {"activation": {"plugin": "recompute"}})):
        model = made()
        model.checkpoint = block == "all"
        got = trained(model, 2, zero=split("stage3"), **more)
        near(got, want)
        assert digest in (None, got[1])
        digest = got[1]
    digest = None
    for how in None, False, True:
        model = made()
        torch.manual_seed(2)
        model.blocks = nn.ModuleList(Again(how) for _ in range(2))
        want = plain(model)
        got = trained(model, 2, zero=split("stage3"))
        near(got, want)
        assert digest in (None, got[1]), how
        digest = got[1]
    model = made()
    model.blocks = nn.ModuleList(Again(None) for _ in range(2))
    engine = zeroth.torch.initialize(model, config(activation={"plugin": "recompute"}),
                                     example=batch(0, 0))
    before = model.blocks[1].count
    engine.backward(engine(*batch(0, 0)))
    assert model.blocks[1].count == before + 2
    engine.close()
    assert "forward" not in model.blocks[1].__dict__


def values(model):
    return {name: x.detach().double().clone() for name, x in model.state_dict().items()}


@case
def values_come_and_go():
    def go(rank):
        model = copy.deepcopy(start)
        engine = zeroth.torch.initialize(model, config(zero=split("stage3")), example=batch(0, 0))
        first = engine.state_dict()
        assert all((first[n].double() == x).all() for n, x in values(start).items())
        assert engine.digest() and torch.isnan(model.pos).all() and model.pos.shape == (LONG, 16)
        with engine.gathered(model.blocks[1]):
            assert (model.blocks[1][1].weight == start.blocks[1][1].weight).all()
            assert torch.isnan(model.head.weight).all()
            with torch.no_grad():
                model.blocks[1][1].weight.mul_(2)
        with engine.gathered([model.pos, model.scale]):
            model.scale.data.fill_(3)
        changed = engine.state_dict()
        assert (changed["blocks.1.1.weight"] == 2 * start.blocks[1][1].weight).all()
        assert changed["scale"] == 3 and (changed["pos"] == start.pos).all()
        loss = engine.evaluate([batch(0, 2 * i + rank) for i in range(3)])
        assert model.training and loss["batches"] == 6
        model.load_state_dict = None
        engine.load_state_dict(first)
        losses = []
        for micro in range(2):
            engine.backward(engine(*batch(0, micro * 2 + rank)))
            losses.append(engine.step())
        assert [x["outcome"] for x in losses] == ["pending", "applied"]
        after = engine.state_dict()
        assert engine.unwrap() is model
        assert all((after[n] == x).all() for n, x in model.state_dict().items())
        return loss["loss"], after

    start = made()
    got = zeroth.torch.run(go, 2)
    with torch.no_grad():
        other = copy.deepcopy(start).eval()
        other.blocks[1][1].weight.mul_(2)
        other.scale.fill_(3)
        want = sum(other(*batch(0, slot)).item() for slot in range(6)) / 6
    assert abs(got[0][0] - want) < 2e-6 and got[0][0] == got[1][0]
    assert all((x == got[1][1][n]).all() for n, x in got[0][1].items())
    want = plain(start, 1)[1]
    assert max((got[0][1][n] - x).abs().max().item() for n, x in want.items()) < 2e-6


def refused(function, *words):
    try:
        function()
    except (zeroth.Error, ValueError) as e:
        assert all(w in str(e) for w in words), (str(e), words)
        return
    raise AssertionError("accepted; expected a text with {}".format(words))


class Wanders(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))
        self.order = [0, 1, 2]

    def forward(self, x):
        for i in self.order:
            x = self.blocks[i](x).tanh()
        return x.sum()


class Sometimes(nn.Module):
    """Blocks of which the second gets no gradient every other time."""

    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(nn.Linear(8, 8) for _ in range(3))
        self.count = 0

    def forward(self, x):
        self.count += self.training and torch.is_grad_enabled()
        h = self.blocks[0](x).tanh()
        more = self.blocks[1](h)
        h = self.blocks[2](h + (more.detach() if self.count % 2 else more)).tanh()
        return (h - 0.3).square().mean()


def scaled(module, args):
    return args[0] * module.weight.square().mean().sqrt(),


class Odd(nn.Module):
    """A recurrent layer, a hook that computes with weights, and a kernel that lies otherwise."""

    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(WORDS, 8)
        self.conv = nn.Conv2d(8, 8, (1, 3), padding=(0, 1)).to(memory_format=torch.channels_last)
        self.lstm = nn.LSTM(8, 8, num_layers=2, batch_first=True, bidirectional=True)
        self.normed = torch.nn.utils.parametrizations.weight_norm(nn.Linear(16, 8))
        self.hooked = nn.Linear(8, 8)
        self.hooked.register_forward_pre_hook(scaled)
        self.attend = nn.MultiheadAttention(8, 2, batch_first=True)
        self.head = nn.Linear(8, WORDS)
        self.register_buffer("turned", torch.arange(6.0).view(2, 3).t())

    def forward(self, x, y):
        h = self.emb(x).transpose(1, 2).unsqueeze(2)
        h = self.normed(self.lstm(self.conv(h).squeeze(2).transpose(1, 2))[0])
        h = self.attend(h, h, h)[0] + self.hooked(h)
        return F.cross_entropy(self.head(h).flatten(0, 1), y.flatten())


@case
def odd_modules():
    model = made(Odd)
    want, digests = plain(model), set()
    for ranks, stage in (1, "stage0"), (2, "stage1"), (2, "stage3"):
        got = trained(model, ranks, zero=split(stage))
        near(got, want, parameters=1e-3)  # biases of keys have no gradient but rounding
        digests.add(got[1])
    assert len(digests) == 1
    with tempfile.TemporaryDirectory() as at:
        run = {"dir": os.path.join(at, "run")}
        trained(model, last=3, run=run)
        got = trained(model, 2, first=3, run=run, zero=split("stage3"))
        assert got[1][1] in {d for _, d in digests}
        assert (got[2]["turned"] == model.turned).all()


@case
def no_gradient():
    """Of a micro-batch it is 0."""
    start, data = made(Sometimes), [torch.randn(SAMPLES, 8) for _ in range(STEPS)]
    want, digests = copy.deepcopy(start), set()
    adam = torch.optim.AdamW(want.parameters(), lr=0.01, weight_decay=0.01)
    losses = []
    for x in data:
        loss = want(x)
        loss.backward()
        for p in want.parameters():
            p.grad = torch.zeros_like(p) if p.grad is None else p.grad
        adam.step()
        adam.zero_grad()
        losses.append(loss.item())

    def go(rank, stage):
        how = config(zero=split(stage))
        how["train"] = {"steps": STEPS, "micro_batch_size": SAMPLES}
        model = copy.deepcopy(start)
        engine, got = zeroth.torch.initialize(model, how, example=(data[0],)), []
        model.count = 0
        for x in data:
            engine.backward(engine(x))
            got.append(engine.step()["loss"])
        assert max(abs(a - b) for a, b in zip(got, losses)) < 2e-6, (got, losses)
        digest = engine.digest()
        engine.close()
        return digest
    for ranks, stage in (1, "stage0"), (1, "stage3"), (2, "stage3"):
        digests.update(zeroth.torch.run(lambda r: go(r, stage), ranks))
    assert len(digests) == 1


@case
def refusals():
    def opened(model=None, example=(torch.ones(2, 4),), **more):
        model = model or Wanders()
        return model, zeroth.torch.initialize(model, config(**more), example=example)

    for order, words in (([0, 2, 1], ("blocks.2", "had blocks.1")), ([0, 1], ("ended before blocks.2",)),
                         ([0, 1, 2, 0], ("blocks.0", "had the end"))):
        model, engine = opened(zero=split("stage3"))
        model.order = order
        refused(lambda: engine(torch.ones(2, 4)), *words)
        refused(lambda: engine(torch.ones(2, 4)), "has ended")
        engine.close()
        refused(engine.step, "closed")
    model, engine = opened()
    refused(lambda: engine.backward(torch.ones(())), "comes after a forward pass")
    loss = engine(torch.ones(2, 4))
    refused(lambda: engine(torch.ones(2, 4)), "engine.backward(loss) is missing")
    refused(engine.save, "engine.backward(loss) is missing")
    refused(lambda: engine.backward(loss.detach()), "requires_grad=False")
    engine.backward(loss)
    refused(lambda: engine.resume("x"), "before the first micro-batch")
    refused(lambda: engine.load_state_dict({}), "missing blocks.0.bias")
    model, engine = opened()
    loss = engine(torch.ones(2, 4))
    refused(lambda: loss.backward(), "engine.backward(loss)")
    refused(lambda: zeroth.torch.initialize(Wanders(), config()).save(), "initialize(..., example")
    refused(lambda: zeroth.torch.initialize(Wanders(), units="block.*"), "no module has a name like block.*")
    refused(lambda: zeroth.torch.initialize(nn.GELU()), "no parameters")
    both = Wanders()
    both.blocks[1].weight.data = both.blocks[0].weight.data
    refused(lambda: zeroth.torch.initialize(both), "blocks.0.weight and blocks.1.weight")
    refused(lambda: zeroth.torch.initialize(Wanders().double()), "blocks.0.weight is torch.float64")
    refused(lambda: opened(activation={"plugin": "recompute", "every": 2}), "every = 2")
    refused(lambda: opened(train={"steps": 4, "micro_batch_siz": 2}), "micro_batch_siz")

    torch.manual_seed(1)
    first, models = Wanders(), [Wanders(), Wanders()]
    refused(lambda: zeroth.torch.run(lambda r: opened(models[r])[1](torch.ones(2, 4)), 2), "the ranks begin "
            "with different parameters")

    for when in range(3):
        def one_fails(rank):
            model, engine = opened(copy.deepcopy(first), zero=split("stage3"))
            for i in range(4):
                if rank and when == i:
                    raise ValueError("rank 1 has had enough")
                loss = engine(torch.ones(2, 4))
                if rank and when == 2:
                    raise ValueError("rank 1 has had enough")
                engine.backward(loss)
                engine.step()
        refused(lambda: zeroth.torch.run(one_fails, 2), "rank 1 has had enough")


def plain16(model, dtype, scale):
    """As plain(), with parameters of 16 bits beside fp32 ones that the optimizer has."""
    masters = {n: p.detach().clone() for n, p in model.named_parameters() if p.requires_grad}
    adam = torch.optim.AdamW(masters.values(), lr=0.01, betas=(0.9, 0.999), eps=1e-8,
                             weight_decay=0.01)
    model, losses = copy.deepcopy(model).to(dtype), []
    for step in range(STEPS):
        sums = {n: torch.zeros_like(m) for n, m in masters.items()}
        losses.append(0)
        for slot in range(MICRO):
            model.zero_grad()
            loss = model(*batch(step, slot))
            loss.backward(torch.full_like(loss, scale / MICRO))
            losses[-1] += loss.item() / MICRO
            for n, p in model.named_parameters():
                if p.grad is not None:
                    sums[n] += p.grad.float() / scale
        for n, m in masters.items():
            m.grad = sums[n]
        nn.utils.clip_grad_norm_(masters.values(), 1.0)
        adam.step()
        with torch.no_grad():
            for n, p in model.named_parameters():
                if n in masters:
                    p.copy_(masters[n])
    return losses


@case
def sixteen_bits():
    model = made()
    for dtype, how, scale, near_to in (
            (torch.bfloat16, {"plugin": "bf16"}, 1, 5e-2),
            (torch.bfloat16, {"plugin": "bf16", "master": "split"}, 1, 5e-2),
            (torch.float16, {"plugin": "fp16", "loss_scale": 256}, 256, 8e-3)):
        want, digests = plain16(model, dtype, scale), set()
        for ranks, stage in (1, "stage0"), (2, "stage2"), (2, "stage3"):
            got = trained(model, ranks, zero=split(stage), precision=how)
            apart = max(abs(a - b) for a, b in zip(got[0], want))
            assert apart < near_to, (dtype, apart, got[0], want)
            digests.add(got[1])
        assert len(digests) == 1, digests
    # a loss scale that is too high at first is halved, and the step left out
    engine = zeroth.torch.initialize(copy.deepcopy(model), config(
        precision={"plugin": "fp16", "initial_scale_power": 30, "hysteresis": 1}))
    outcomes = []
    for step in range(STEPS):
        for slot in range(MICRO):
            engine.backward(engine(*batch(0, slot)))
            outcomes.append(engine.step()["outcome"])
    assert outcomes[MICRO - 1] == "skipped" and "pending" in outcomes, outcomes
    engine.close()


@case
def compiled():
    model = made()
    want = plain(model)
    for block in model.blocks:
        block.compile(backend="aot_eager")
    engine = zeroth.torch.initialize(model, config(zero=split("stage3")))
    for step in range(STEPS):
        for slot in range(MICRO):
            engine.backward(engine(*batch(step, slot)))
            loss = engine.step()["loss"]
        assert abs(loss - want[0][step]) < 2e-6
    engine.close()


@case
def dropout():
    """Draws the same after a resume, and other numbers in each micro-batch."""
    model = made()
    model.norm = nn.Dropout(0.5)
    with tempfile.TemporaryDirectory() as at:
        whole = trained(model, zero=split("stage3"))
        again = trained(model)
        assert whole[1] == again[1]
        run = {"dir": os.path.join(at, "run")}
        trained(model, last=3, run=run)
        torch.manual_seed(99)
        assert trained(model, first=3, run=run)[1] == whole[1]
        assert trained(model, train={**config()["train"], "seed": 7})[1] != whole[1]
    state = torch.get_rng_state()
    engine = zeroth.torch.initialize(copy.deepcopy(model), config())
    first = engine(*batch(0, 0))
    engine.backward(first)
    engine.step()
    second = engine(*batch(0, 0))
    assert first.item() != second.item() and (state == torch.get_rng_state()).all()
    engine.backward(second)
    engine.close()


@case
def deepspeed():
    """Its configuration gives what ours does."""
    model = made()
    theirs = {"train_batch_size": SAMPLES * MICRO, "train_micro_batch_size_per_gpu": SAMPLES,
              "gradient_clipping": 1.0,
              "optimizer": {"type": "AdamW", "params": {"lr": 0.01, "betas": [0.9, 0.999],
                                                        "eps": 1e-8, "weight_decay": 0.01}},
              "zero_optimization": {"stage": 3, "stage3_param_persistence_threshold": 0}}
    with tempfile.TemporaryDirectory() as at:
        path = os.path.join(at, "ds.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(theirs, file)
        want = trained(model)[1]
        for how in path, theirs:
            engine = zeroth.torch.initialize(copy.deepcopy(model), how,
                                             options={"train.steps": STEPS})
            for step in range(STEPS):
                for slot in range(MICRO):
                    engine.backward(engine(*batch(step, slot)))
                    engine.step()
            assert engine.digest() == want
            engine.close()
    refused(lambda: zeroth.torch.initialize(model, {**theirs, "fp32": {}}, example=batch(0, 0)),
            "fp32")


@case
def optimizer():
    start = made()
    losses, want = plain(start)
    digests = set()
    with tempfile.TemporaryDirectory() as at:
        disk = {"offload.optimizer": {"plugin": "nvme", "path": at}}
        for stage, more in ("stage0", {}), ("stage2", disk):
            model, got = copy.deepcopy(start), []
            how = config(zero=split(stage), **more)
            how["train"] = {"steps": STEPS, "gradient_clipping": 1.0}
            adam = zeroth.torch.Optimizer(model.named_parameters(), how)
            for step in range(STEPS):
                got.append(0)
                for slot in range(MICRO):
                    loss = model(*batch(step, slot)) / MICRO
                    loss.backward()
                    got[-1] += loss.item()
                adam.step()
                adam.zero_grad()
            digests.add(adam._engine.digest()[1])
            adam.close()
            assert max(abs(a - b) for a, b in zip(got, losses)) < 2e-6
            assert all((x - want[n]).abs().max() < 2e-6 for n, x in model.state_dict().items()
                       if "unused" not in n)
    assert len(digests) == 1
    refused(lambda: zeroth.torch.Optimizer(start.parameters(), {"zero.plugin": "stage3"}).step(),
            "stage0, stage1 or stage2")
    refused(lambda: zeroth.torch.Optimizer(start.parameters(), {"precision.plugin": "bf16"}),
            "torch.float32")


@case
def processes():
    """Ranks that a launcher starts: each a process."""
    if "RANK" in os.environ:
        got = train(made(), int(os.environ["RANK"]), 2, zero=split("stage3"))
        print(got[1])
        return
    ports = random.sample(range(20000, 60000), 1)
    ranks = [subprocess.Popen(
        [sys.executable, __file__, "processes"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        env={**os.environ, "RANK": str(r), "WORLD_SIZE": "2", "LOCAL_RANK": str(r),
             "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(ports[0])})
        for r in range(2)]
    got = [r.communicate()[0].decode() for r in ranks]
    want = "{}\ngood\n".format(trained(made(), 2, zero=split("stage3"))[1])
    assert got == [want, want], (got, want)


def families(transformers):
    """Of each: a model, and a micro-batch of it."""
    def words(step, slot, n=16):
        g = torch.Generator().manual_seed(step * 100 + slot)
        return torch.randint(1, 96, (SAMPLES, n), generator=g)

    def text(step, slot):
        return {"input_ids": words(step, slot), "labels": words(step, slot)}

    def pairs(step, slot):
        return {"input_ids": words(step, slot), "labels": words(step, slot + 50, 7)}

    def images(step, slot):
        g = torch.Generator().manual_seed(step * 100 + slot)
        return {"pixel_values": torch.randn(SAMPLES, 3, 32, 32, generator=g),
                "labels": torch.randint(0, 5, (SAMPLES,), generator=g)}
    layers = {"hidden_size": 64, "num_hidden_layers": 2}
    heads = {"num_attention_heads": 4, "intermediate_size": 128}
    t = transformers
    return {
        "gpt2": (t.GPT2LMHeadModel, t.GPT2Config(
            n_embd=64, n_layer=2, n_head=4, vocab_size=96, n_positions=32, resid_pdrop=0,
            embd_pdrop=0, attn_pdrop=0, bos_token_id=0, eos_token_id=0), text),
        "qwen3": (t.Qwen3ForCausalLM, t.Qwen3Config(
            **layers, **heads, vocab_size=96, num_key_value_heads=2, head_dim=16), text),
        "mixtral": (t.MixtralForCausalLM, t.MixtralConfig(
            **layers, **heads, vocab_size=96, num_key_value_heads=2, num_local_experts=4), text),
        "mamba": (t.MambaForCausalLM, t.MambaConfig(**layers, vocab_size=96, state_size=8), text),
        "t5": (t.T5ForConditionalGeneration, t.T5Config(
            d_model=64, d_kv=16, d_ff=128, num_layers=2, num_heads=4, vocab_size=96,
            dropout_rate=0., decoder_start_token_id=0), pairs),
        "vit": (t.ViTForImageClassification, t.ViTConfig(
            **layers, **heads, image_size=32, patch_size=8, num_labels=5), images),
    }


def sides(model, data, steps=20):
    """Losses of PyTorch alone; digests of Zeroth's in several ways, whose losses are near."""
    kept = copy.deepcopy(model)
    adam = torch.optim.AdamW(kept.parameters(), lr=1e-3, weight_decay=0.01)
    want = []
    for step in range(steps):
        adam.zero_grad()
        losses = [kept(**data(step, slot)).loss / 2 for slot in range(2)]
        for loss in losses:
            loss.backward()
        nn.utils.clip_grad_norm_(kept.parameters(), 1.0)
        adam.step()
        want.append(sum(loss.item() for loss in losses))

    def go(rank, ranks, **more):
        how = config(**more)
        how["train"].update(steps=steps, train_batch_size=2 * SAMPLES)
        how["optimizer"]["lr"] = 1e-3
        engine, got = zeroth.torch.initialize(copy.deepcopy(model), how), []
        for step in range(steps):
            for micro in range(2 // ranks):
                engine.backward(engine(**data(step, micro * ranks + rank)).loss)
                result = engine.step()
            got.append(result["loss"])
        assert max(abs(a - b) for a, b in zip(got, want)) < 2e-6, (got, want)
        out = engine.digest()
        engine.close()
        return out
    with tempfile.TemporaryDirectory() as disk:
        nvme = {"plugin": "nvme", "path": disk}
        tiers = {"offload." + part: nvme for part in ("param", "gradient", "optimizer")}
        return {zeroth.torch.run(lambda r: go(r, ranks, zero=split(stage), **more), ranks)[0]
                for ranks, stage, more in ((1, "stage0", {}), (2, "stage3", tiers))}


@case
def transformers_models():
    os.environ["HF_HUB_OFFLINE"] = "1"
    try:
        import transformers
    except ImportError:
        return
    for name, (kind, how, data) in families(transformers).items():
        torch.manual_seed(1)
        digests = sides(kind(how).train(), data)
        assert len(digests) == 1, (name, digests)


def apart(**more):
    """Options of a device whose memory Zeroth cannot reach, as that of a GPU; ZR_CARDS names it."""
    return {"device": {"plugin": os.environ["ZR_CARDS"], "memory": "64M", "separate": "no",
                       "declared": "yes", **more}}


@case
def a_device_with_its_own_memory():
    model = made(norm=nn.BatchNorm1d)
    want, digest = plain(model), trained(model)[1]
    with tempfile.TemporaryDirectory() as disk:
        nvme = {"plugin": "nvme", "path": disk}
        for ranks, stage, more in ((1, "stage0", {}), (1, "stage2", {"offload.optimizer": nvme}),
                                   (1, "stage3", {"offload.param": nvme, "offload.optimizer": nvme}),
                                   (2, "stage3", {})):
            got = trained(model, ranks, zero=split(stage), **apart(late_copies="yes"), **more)
            if ranks == 1:  # as ranks see different batches, running means are not those of one
                near(got, want)
                assert got[1] == digest, stage
    loss = nn.Linear(4, 4)
    with_it = zeroth.torch.initialize(loss, {"train": {"micro_batch_size": 4}, **apart()})
    out = with_it.evaluate([torch.ones(4, 4)], lambda out, _: out.mean())
    assert out["batches"] == 1
    with_it.close()
    refused(lambda: zeroth.torch.initialize(made(), config(**apart(stream="yes")),
                                            example=batch(0, 0)), "is on the CPU", "cuda")


@case
def memory_by_dlpack():
    for dtype in torch.float32, torch.bfloat16, torch.float16:
        for shape in (), (3,), (2, 3, 4):
            own = torch.arange(24).to(dtype)
            lent = devices.Lent(own.data_ptr(), shape, dtype, torch.device("cpu"))
            view = torch.from_dlpack(lent)
            n = view.numel()
            assert view.shape == shape and view.dtype == dtype and view.is_contiguous()
            assert view.data_ptr() == own.data_ptr()
            view.fill_(100)
            assert (own[:n] == 100).all() and (own[n:] != 100).all()
            del view, lent


class Stream:
    """Stands for a stream of CUDA: writes down who waits for whom."""

    def __init__(self, name, log):
        self.name, self.log = name, log

    def wait_stream(self, other):
        self.log.append((self.name, other.name))

    def synchronize(self):
        self.log.append((self.name, "host"))


class PretendedCuda(devices.Cuda):
    """A GPU whose memory is that of the CPU."""

    def __init__(self, log):
        super().__init__(torch.device("cpu"))
        self.log = log

    def complete(self, how, says, ranks):
        pass

    def begin(self, settings, stream, local):
        assert stream
        self.stream = Stream("engine", self.log)

    def generators(self):
        return []


@case
def order_of_streams():
    """What the module computes comes behind what the program did, and before what it does next."""
    log = []
    program = Stream("program", log)
    current = [program]

    @contextlib.contextmanager
    def within(stream):
        current.append(stream)
        yield
        current.pop()

    kept = torch.cuda.current_stream, torch.cuda.stream, zeroth.torch.place_of
    torch.cuda.current_stream, torch.cuda.stream = lambda device: current[-1], within
    zeroth.torch.place_of = lambda pairs: PretendedCuda(log)
    try:
        model = made()
        got = trained(model, zero=split("stage3"), **apart(stream="yes"))
        near(got, plain(model))
        passes = log.count(("engine", "program"))
        assert passes == 2 * STEPS * MICRO and log == [("engine", "program"),
                                                       ("program", "engine")] * passes
        log.clear()
        p = nn.Parameter(torch.ones(3))
        adam = zeroth.torch.Optimizer([p], apart(stream="yes"))
        p.grad = torch.ones(3)
        adam.step()
        assert log == [("engine", "program"), ("program", "engine"), ("engine", "host")], log
        assert (p < 1).all()
        adam.close()
    finally:
        torch.cuda.current_stream, torch.cuda.stream, zeroth.torch.place_of = kept


@case
def devices_are_checked():
    meta = nn.Linear(2, 2).to("meta")
    refused(lambda: zeroth.torch.initialize(meta), "weight is on meta", "CPU or on a GPU")
    gpu = devices.Cuda(torch.device("cuda", 1))
    how = {"options": {}}
    gpu.complete(how, lambda section, key: False, 1)
    assert how["options"] == {"device.plugin": "cuda", "device.index": 1}
    gpu.complete({}, lambda section, key: True, 2)
    refused(lambda: gpu.begin({"device.index": "1"}, None, 1), "is on cuda:1", "on the CPU")
    refused(lambda: gpu.begin({"device.index": "0"}, 4096, 1), "is on cuda:1", "index = 0")
    refused(lambda: gpu.begin({"device.index": "auto"}, 4096, 0), "is on cuda:1", "index = auto")


if __name__ == "__main__":
    for name in sys.argv[1:]:
        CASES[name]()
        print("good")
    if not sys.argv[1:]:
        print("\n".join(CASES))
