#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# make_transformers_schedules.py AXOLOTL: writes transformers_schedules.txt here: learning rates over 2000 updates
# by get_scheduler of transformers (5.24) and by utils/schedulers.py of the checkout AXOLOTL (0.18). Per case
#   case SCHEDULER BASE OPTION=VALUE...
#   at K LR        K updates were applied before; sampled
#   sum S W        over all 2000: of the rates, and of the rates times 1 + K mod 97
import importlib.util
import math
import sys
import warnings

import torch
from transformers import get_scheduler

warnings.filterwarnings("ignore")
spec = importlib.util.spec_from_file_location("schedulers", sys.argv[1] + "/src/axolotl/utils/schedulers.py")
axolotl = importlib.util.module_from_spec(spec)
spec.loader.exec_module(axolotl)

STEPS = 2000
TRAINER = ("linear", "cosine", "cosine_with_restarts", "polynomial", "constant_with_warmup", "inverse_sqrt",
           "cosine_with_min_lr", "cosine_warmup_with_min_lr", "warmup_stable_decay")


def rates(make, base):
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=base)
    schedule, lr = make(optimizer), []
    for _ in range(STEPS):
        lr.append(schedule.get_last_lr()[0])
        optimizer.step()
        schedule.step()
    return lr


def of_trainer(name, base, warmup, total, **given):
    return rates(lambda o: get_scheduler(name, o, warmup, total, given), base)


# (name, base lr, options of ours, the rates)
CASES = []


def case(name, base, warmup, total, ours=None, **given):
    """As the trainer calls get_scheduler; `ours` where an option has another name here."""
    options = dict(warmup_num_steps=warmup)
    if name not in ("constant_with_warmup", "inverse_sqrt"):
        options["total_num_steps"] = total
    CASES.append((name, base, {**options, **(given if ours is None else ours)}, of_trainer(name, base, warmup, total, **given)))


for name in TRAINER:
    more = dict(min_lr_rate=0.1) if "min_lr" in name else dict(num_decay_steps=400) if "stable" in name else {}
    for base, warmup, total in ((2e-4, 100, 2000), (3e-5, 0, 1999), (1e-2, 1, 700), (6e-4, 333, 1777), (1e-3, 50, 20)):
        case(name, base, warmup, total, **more)

case("cosine", 1e-3, 10, 1500, num_cycles=2.5)
case("cosine_with_restarts", 1e-3, 97, 1900, num_cycles=4)
case("polynomial", 1e-3, 97, 1900, power=2.0, lr_end=1e-5)
case("polynomial", 1e-3, 0, 1900, power=0.5, lr_end=0.0)
case("inverse_sqrt", 1e-3, 97, 1900, timescale=1000)
case("cosine_with_min_lr", 1e-3, 97, 1900, min_lr=1e-4)
case("cosine_with_min_lr", 1e-3, 97, 1900, min_lr_rate=1.0, num_cycles=1.5)
case("cosine_warmup_with_min_lr", 1e-3, 97, 1900, min_lr=1e-4)
case("cosine_warmup_with_min_lr", 1e-3, 97, 1900, min_lr_rate=0.05, warmup_lr_rate=0.2)
case("cosine_warmup_with_min_lr", 1e-3, 1, 1900, min_lr_rate=0.05, warmup_lr_rate=0.2)
for way in ("linear", "cosine", "1-sqrt"):
    for back in ("linear", "cosine", "1-sqrt"):
        shape = dict(warmup_type=way, decay_type=back, num_decay_steps=600)
        case("warmup_stable_decay", 1e-3, 97, 1900, dict(shape, min_lr_rate=0.03), **shape, min_lr_ratio=0.03)
case("warmup_stable_decay", 1e-3, 97, 1900, num_decay_steps=300, num_stable_steps=200)
case("warmup_stable_decay", 1e-3, 97, 300, num_decay_steps=400)

# a share of the updates: transformers rounds it up, Axolotl down
CASES.append(("linear", 1e-3, dict(warmup_ratio=0.07, total_num_steps=100), of_trainer("linear", 1e-3, math.ceil(100 * 0.07), 100)))
CASES.append(("linear", 1e-3, dict(warmup_ratio=0.29, total_num_steps=100, warmup_rounding="down"),
              of_trainer("linear", 1e-3, int(0.29 * 100), 100)))

for base, warmup, total, low, end in ((2e-4, 100, 2000, 0.1, 0.8), (1e-3, 0, 1777, 0.03, 0.333), (1e-3, 97, 500, 1.0, 0.1)):
    CASES.append(("cosine_with_min_lr", base, dict(warmup_num_steps=warmup, total_num_steps=total, min_lr_rate=low),
                  rates(lambda o: axolotl.get_cosine_schedule_with_min_lr(o, warmup, total, low), base)))
    CASES.append(("cosine_with_min_lr", base, dict(warmup_num_steps=warmup, total_num_steps=total, min_lr_rate=low,
                                                   constant_lr_ratio=end),
                  rates(lambda o: axolotl.get_cosine_schedule_with_warmup_decay_constant(o, warmup, total, end, low), base)))
    CASES.append(("cosine", base, dict(warmup_num_steps=warmup, total_num_steps=total, quadratic_warmup="yes"),
                  rates(lambda o: axolotl.get_cosine_schedule_with_quadratic_warmup(o, warmup, total), base)))

with open("transformers_schedules.txt", "w") as out:
    for name, base, options, lr in CASES:
        print("case", name, base, *("%s=%s" % kv for kv in options.items()), file=out)
        edges = {v + d for v in options.values() if type(v) is int for d in (-1, 0, 1)}
        for k in sorted(k for k in edges | set(range(3)) | set(range(17, STEPS, 331)) | {STEPS - 1} if 0 <= k < STEPS):
            print("at %d %.17g" % (k, lr[k]), file=out)
        print("sum %.17g %.17g" % (math.fsum(lr), math.fsum(x * (1 + k % 97) for k, x in enumerate(lr))), file=out)
