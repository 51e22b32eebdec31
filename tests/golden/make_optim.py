#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
#
# make_optim.py > optim.txt: trajectories of optimizers in float64 over 50 updates of three parameters, of
# torch.optim where it has them, else of the classes below. Nothing that goes in is stored: tests/unit/optimizer/optim_fixture.c
# draws the same. Lines: case, update, and every STEP-th element of the parameters after it, one after the other.
# Those of examples need in PYTHONPATH ademamix.py, the authors' own (github.com/apple/ml-ademamix, pytorch/), and
# pytorch_optimizer 3.1.2 of PyPI.
import torch

torch.optim.lr_scheduler.LRScheduler = torch.optim.lr_scheduler._LRScheduler  # its new name
from ademamix import AdEMAMix
from pytorch_optimizer import AdaFactor, SignSGD

SHAPES = ((3 * 2048 + 3,), (37, 29), (5,))
LARGER_MATRICES = ((40, 20), (29, 71), (64, 33))
STEP = 131


class Draw:
    """Knuth's MMIX congruential generator; 8 of its upper bits as a number in [-2, 2)."""

    def __init__(self, seed):
        self.x = seed

    def array(self, shape):
        out = []
        for _ in range(torch.Size(shape).numel()):
            self.x = (self.x * 6364136223846793005 + 1442695040888963407) % 2**64
            out.append(((self.x >> 40) & 0xFF) / 64.0 - 2.0)
        return torch.tensor(out, dtype=torch.float64).reshape(shape)


class Lion(torch.optim.Optimizer):
    """Chen et al. 2023, algorithm 2."""

    def __init__(self, params, betas, weight_decay):
        super().__init__(params, dict(lr=1, betas=betas, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            (b1, b2), lr = group["betas"], group["lr"]
            for p in group["params"]:
                m = self.state[p].setdefault("exp_avg", torch.zeros_like(p))
                direction = torch.sign(b1 * m + (1 - b1) * p.grad)
                p -= lr * (direction + group["weight_decay"] * p)
                m.mul_(b2).add_(p.grad, alpha=1 - b2)


class Lamb(torch.optim.Optimizer):
    """You et al. 2020, algorithm 2, with the ratio of norms cut to [least, most]."""

    def __init__(self, params, betas, eps, weight_decay, least=0.01, most=10, correct=True):
        super().__init__(params, dict(lr=1, betas=betas, eps=eps, weight_decay=weight_decay, limits=(least, most)))
        self.t, self.correct = 0, correct

    @torch.no_grad()
    def step(self):
        self.t += 1
        for group in self.param_groups:
            (b1, b2), (least, most) = group["betas"], group["limits"]
            c1, c2 = (1 - b1**self.t, 1 - b2**self.t) if self.correct else (1, 1)
            for p in group["params"]:
                m = self.state[p].setdefault("exp_avg", torch.zeros_like(p))
                v = self.state[p].setdefault("exp_avg_sq", torch.zeros_like(p))
                m.mul_(b1).add_(p.grad, alpha=1 - b1)
                v.mul_(b2).addcmul_(p.grad, p.grad, value=1 - b2)
                r = (m / c1) / ((v / c2).sqrt() + group["eps"]) + group["weight_decay"] * p
                p -= group["lr"] * min(max(float(p.norm() / r.norm()), least), most) * r


CASES = {
    "adamw": lambda p: torch.optim.AdamW(p, betas=(0.9, 0.95), weight_decay=0.1),
    "adam": lambda p: torch.optim.Adam(p, betas=(0.8, 0.99), eps=1e-6, weight_decay=0.1),
    "sgd": lambda p: torch.optim.SGD(p, lr=1),
    "sgd-decay": lambda p: torch.optim.SGD(p, lr=1, weight_decay=0.1),
    "sgd-momentum": lambda p: torch.optim.SGD(p, lr=1, momentum=0.9, dampening=0.25, weight_decay=0.05),
    "sgd-nesterov": lambda p: torch.optim.SGD(p, lr=1, momentum=0.8, nesterov=True),
    "lion": lambda p: Lion(p, betas=(0.9, 0.98), weight_decay=0.1),
    "adagrad": lambda p: torch.optim.Adagrad(p),
    "adagrad-all": lambda p: torch.optim.Adagrad(p, lr_decay=0.05, eps=1e-6, weight_decay=0.1,
                                                 initial_accumulator_value=0.5),
    "lamb": lambda p: Lamb(p, betas=(0.9, 0.999), eps=1e-8, weight_decay=0),
    "lamb-all": lambda p: Lamb(p, betas=(0.8, 0.99), eps=1e-6, weight_decay=0.1, least=1.25, most=3, correct=False),
}

EXAMPLE_CASES = {
    "ademamix": lambda p: AdEMAMix(p),
    "ademamix-all": lambda p: AdEMAMix(p, betas=(0.8, 0.98, 0.995), alpha=3, beta3_warmup=20, alpha_warmup=20,
                                       eps=1e-6, weight_decay=0.1),
    "signum": lambda p: SignSGD(p, momentum=0.8),
}


def trajectory(name, make, shapes):
    draw = Draw(1)
    params = [draw.array(s).requires_grad_() for s in shapes]
    optimizer = make(params)
    for t in range(1, 51):
        for p in params:
            p.grad = draw.array(p.shape)
        optimizer.param_groups[0]["lr"] = 2.0 ** (-6 - t % 3)
        optimizer.step()
        if t in (1, 2, 10, 50):
            flat = torch.cat([p.detach().reshape(-1) for p in params])
            print(name, t, *("%.10g" % x for x in flat[::STEP].tolist()))


for name, make in CASES.items():
    trajectory(name, make, SHAPES)
for name, make in EXAMPLE_CASES.items():
    trajectory(name, make, SHAPES)
trajectory("adafactor", lambda p: AdaFactor(p, betas=(None, 0.999), relative_step=False, scale_parameter=False),
           LARGER_MATRICES)  # false: it multiplies by the root mean square of parameters
