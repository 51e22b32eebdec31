#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
#
# make_adaptive.py [float32] > adaptive.txt: trajectories of the authors' own prodigyopt 1.1.2, dadaptation 3.2 and
# schedulefree 1.4.1 of PyPI in float64 over 50 updates of three parameters, laid out as those of make_optim.py. Gradients
# of the first two are those of a bowl around 0, with a fourth of what is drawn beside, so that there is a step size to
# learn. schedulefree-x are the weights of its eval(), ema-x the average that torch makes of AdamW's. With float32 all is
# computed in that: how far the authors' code is from itself.
import contextlib
import sys

import torch
from dadaptation import DAdaptAdam
from prodigyopt import Prodigy
from schedulefree import AdamWScheduleFree
from torch.optim.swa_utils import get_ema_multi_avg_fn

SHAPES = ((3 * 2048 + 3,), (37, 29), (5,))
STEP = 131
DTYPE = torch.float32 if "float32" in sys.argv else torch.float64


class Draw:
    """Knuth's MMIX congruential generator; 8 of its upper bits as a number in [-2, 2)."""

    def __init__(self, seed):
        self.x = seed

    def array(self, shape):
        out = []
        for _ in range(torch.Size(shape).numel()):
            self.x = (self.x * 6364136223846793005 + 1442695040888963407) % 2**64
            out.append(((self.x >> 40) & 0xFF) / 64.0 - 2.0)
        return torch.tensor(out, dtype=DTYPE).reshape(shape)


CLOSED = {
    "prodigy": lambda p: Prodigy(p, d0=1e-2),
    "prodigy-all": lambda p: Prodigy(p, betas=(0.8, 0.99), beta3=0.9, eps=1e-6, weight_decay=0.1, d0=1e-2, d_coef=0.5,
                                     growth_rate=1.5, use_bias_correction=True, safeguard_warmup=True),
    "dadapt": lambda p: DAdaptAdam(p, decouple=True),
    "dadapt-all": lambda p: DAdaptAdam(p, betas=(0.8, 0.99), eps=1e-6, weight_decay=0.1, decouple=True, d0=1e-4,
                                       growth_rate=1.5, use_bias_correction=True),
}


class AdamWithAverage(torch.optim.AdamW):
    """torch's AdamW and the average of torch.optim.swa_utils.AveragedModel: eval() gives that."""

    def __init__(self, params):
        super().__init__(params, weight_decay=0.1)
        self.ema = [p.detach().clone() for p in params]

    def step(self):
        super().step()
        params = self.param_groups[0]["params"]
        get_ema_multi_avg_fn(0.9)(self.ema, [p.detach() for p in params], 0)

    def train(self):
        pass

    def averages(self):
        return self.ema


SCHEDULE_FREE = {
    "schedulefree": lambda p: AdamWScheduleFree(p),
    "schedulefree-all": lambda p: AdamWScheduleFree(p, betas=(0.8, 0.99), eps=1e-6, weight_decay=0.1, warmup_steps=20,
                                                    r=1, weight_lr_power=1),
    "schedulefree-x": lambda p: AdamWScheduleFree(p),
    "ema": AdamWithAverage,
    "ema-x": AdamWithAverage,
}


def trajectory(name, make, closed):
    draw = Draw(1)
    params = [draw.array(s).requires_grad_() for s in SHAPES]
    with contextlib.redirect_stdout(sys.stderr):  # the authors print, too
        optimizer = make(params)
    evaluates = name.endswith("-x")
    for t in range(1, 51):
        if not closed:
            optimizer.train()
        for p in params:
            drawn = draw.array(p.shape)
            p.grad = p.detach() + drawn / 4 if closed else drawn
        optimizer.param_groups[0]["lr"] = 1.0 if closed else 2.0 ** (-6 - t % 3)
        optimizer.step()
        shown = params
        if evaluates and name == "ema-x":
            shown = optimizer.averages()
        elif evaluates:
            optimizer.eval()
        if t in (1, 2, 10, 50):
            flat = torch.cat([p.detach().reshape(-1) for p in shown])
            print(name, t, *("%.10g" % x for x in flat[::STEP].tolist()))


for name, make in CLOSED.items():
    trajectory(name, make, True)
for name, make in SCHEDULE_FREE.items():
    trajectory(name, make, False)
