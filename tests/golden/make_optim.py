#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
#
# Writes optim.txt here: trajectories of torch.optim in float64 on 8 parameters with a given gradient.
# Line: name, update (1-based), the 8 parameters after it. Parameter i starts at 1 - i / 4; its gradient at
# update t is the float32 of sin(0.7 i + 0.3 t) * 2^(i - 4); the learning rate is 0.01 / sqrt(t).
import math

import torch

CASES = {
    "adamw": lambda p: torch.optim.AdamW(p, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1),
    "sgd": lambda p: torch.optim.SGD(p, lr=1),
    "sgd-decay": lambda p: torch.optim.SGD(p, lr=1, weight_decay=0.1),
    "sgd-momentum": lambda p: torch.optim.SGD(p, lr=1, momentum=0.9, dampening=0.25, weight_decay=0.05),
    "sgd-nesterov": lambda p: torch.optim.SGD(p, lr=1, momentum=0.8, nesterov=True),
}

with open("optim.txt", "w") as out:
    for name, make in CASES.items():
        p = torch.tensor([1 - i / 4 for i in range(8)], dtype=torch.float64, requires_grad=True)
        optimizer = make([p])
        for t in range(1, 51):
            g = torch.tensor([math.sin(0.7 * i + 0.3 * t) * 2.0 ** (i - 4) for i in range(8)])
            p.grad = g.to(torch.float32).to(torch.float64)
            optimizer.param_groups[0]["lr"] = 0.01 / math.sqrt(t)
            optimizer.step()
            if t in (1, 2, 10, 50):
                print(name, t, *("%.12g" % x for x in p.tolist()), file=out)
