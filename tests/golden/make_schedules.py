#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# Writes schedules.txt here: learning rates of DeepSpeed's schedules over 5000 updates, by their formulas in double
# precision. Per case
#   case SCHEDULER BASE OPTION=VALUE...
#   at K LR        K updates were applied before; sampled
#   sum S W        over all 5000: of the rates, and of the rates times 1 + K mod 97
import math
from fractions import Fraction

STEPS = 5000


def rise(o, i):
    n = max(2, o["warmup_num_steps"])
    return math.log(i + 1) / math.log(n) if o["warmup_type"] == "log" else i / n


def warmup_lr(o, base, k, tail=lambda i, n: 1.0):
    i, n = k - 1, max(2, o["warmup_num_steps"])
    low, high = o["warmup_min_lr"], o.get("warmup_max_lr", base)
    gamma = 0.0 if i < 0 else rise(o, i) if i < n else tail(i, n)
    return low + (high - low) * gamma


def warmup_decay_lr(o, base, k):
    t = o["total_num_steps"]
    return warmup_lr(o, base, k, lambda i, n: max(0.0, (t - i) / max(1, t - n)))


def warmup_cosine_lr(o, base, k):
    i, n, t = k - 1, max(2, o["warmup_num_steps"]), o["total_num_steps"]
    if i < 0:
        return 0.0
    if i < n:
        return base * (o["warmup_min_ratio"] + (1 - o["warmup_min_ratio"]) * rise(o, i))
    p = min(1.0, (i - n + 1) / max(1, t - n))
    return base * (o["cos_min_ratio"] + (1 - o["cos_min_ratio"]) * (1 + math.cos(math.pi * p)) / 2)


def one_cycle(o, base, k):
    first, second = o["cycle_first_step_size"], o["cycle_second_step_size"]
    high, total = o.get("cycle_max_lr", base), first + second
    low = o.get("cycle_min_lr", high / 10)
    if k > total:
        d = o["decay_step_size"]
        return low / (1 + o["decay_lr_rate"] * (k - total) / d) if d else low
    at = k % total  # exact: the height is a fraction of whole updates
    s = Fraction(at, first) if at <= first else Fraction(total - at, second)
    stairs = o["cycle_first_stair_count"] if at <= first else o["cycle_second_stair_count"]
    if stairs:
        s = Fraction(math.floor(s * stairs), stairs)
    return low + (high - low) * float(s)


def lr_range_test(o, base, k):
    step = o["lr_range_test_step_size"]
    interval = k // step if o["lr_range_test_staircase"] else k / step
    return o.get("lr_range_test_min_lr", base) * (1 + o["lr_range_test_step_rate"] * interval)


WARM = dict(warmup_min_lr=0.0, warmup_num_steps=1000, warmup_type="log")
DECAY = dict(WARM, total_num_steps=4000)
COSINE = dict(total_num_steps=4000, warmup_min_ratio=0.0, warmup_num_steps=1000, cos_min_ratio=1e-4, warmup_type="log")
CYCLE = dict(decay_lr_rate=0.0, cycle_first_step_size=2000,
             cycle_second_step_size=2000, cycle_first_stair_count=0, cycle_second_stair_count=0, decay_step_size=0)
RANGE = dict(lr_range_test_step_size=2000, lr_range_test_step_rate=1.0,
             lr_range_test_staircase=False)

# (schedule, defaults, base lr, what differs from the defaults; total_num_steps is given always)
CASES = [
    (warmup_lr, WARM, 3e-4, dict(warmup_max_lr=6e-4, warmup_min_lr=1e-6)),
    (warmup_lr, WARM, 3e-4, dict(warmup_max_lr=6e-4, warmup_num_steps=777, warmup_type="linear")),
    (warmup_decay_lr, DECAY, 3e-4, dict(total_num_steps=4000, warmup_max_lr=1e-3)),
    (warmup_decay_lr, DECAY, 3e-4, dict(total_num_steps=5000, warmup_min_lr=1e-5, warmup_max_lr=6e-4, warmup_num_steps=313,
                                        warmup_type="linear")),
    (warmup_decay_lr, DECAY, 3e-4, dict(total_num_steps=100, warmup_num_steps=200)),
    (warmup_decay_lr, DECAY, 3e-4, dict(total_num_steps=3001, warmup_num_steps=1)),
    (warmup_cosine_lr, COSINE, 3e-4, dict(total_num_steps=4000)),
    (warmup_cosine_lr, COSINE, 6e-4, dict(total_num_steps=5000, warmup_min_ratio=0.1, cos_min_ratio=0.05, warmup_num_steps=313,
                                          warmup_type="linear")),
    (warmup_cosine_lr, COSINE, 1e-2, dict(total_num_steps=100, warmup_num_steps=200)),
    (warmup_cosine_lr, COSINE, 1e-2, dict(total_num_steps=2999, warmup_num_steps=1, cos_min_ratio=0.0)),
    (one_cycle, CYCLE, 7.0, dict(cycle_min_lr=1e-5, cycle_max_lr=1e-3)),
    (one_cycle, CYCLE, 7.0, dict(cycle_min_lr=1e-4, cycle_max_lr=6e-3, cycle_first_step_size=900, cycle_second_step_size=2311,
                                 decay_lr_rate=0.3, decay_step_size=50)),
    (one_cycle, CYCLE, 7.0, dict(cycle_min_lr=1e-4, cycle_max_lr=1e-2, cycle_first_step_size=1300,
                                 cycle_second_step_size=1701, cycle_first_stair_count=7, cycle_second_stair_count=3)),
    (one_cycle, CYCLE, 7.0, dict(cycle_min_lr=1e-4, cycle_max_lr=1e-2, cycle_first_step_size=100, cycle_second_step_size=0)),
    (one_cycle, CYCLE, 2e-5, dict(cycle_first_step_size=1000, cycle_second_step_size=1500)),
    (lr_range_test, RANGE, 1e-3, dict()),
    (lr_range_test, RANGE, 7.0, dict(lr_range_test_min_lr=1e-5, lr_range_test_step_size=333, lr_range_test_step_rate=2.5,
                                     lr_range_test_staircase=True)),
]


def text(v):
    return "yes" if v is True else "no" if v is False else "%r" % v if isinstance(v, float) else str(v)


with open("schedules.txt", "w") as out:
    for schedule, defaults, base, given in CASES:
        o = dict(defaults, **given)
        lr = [schedule(o, base, k) for k in range(STEPS)]
        print("case", schedule.__name__, base, *("%s=%s" % (n, text(v)) for n, v in given.items()), file=out)
        edges = {v + d for v in o.values() if type(v) is int for d in (-1, 0, 1, 2)}
        edges |= {o.get("cycle_first_step_size", 0) + o.get("cycle_second_step_size", 0) + d for d in (-1, 0, 1, 2)}
        for k in sorted(k for k in edges | set(range(4)) | set(range(17, STEPS, 463)) | {STEPS - 1} if 0 <= k < STEPS):
            print("at %d %.17g" % (k, lr[k]), file=out)
        print("sum %.17g %.17g" % (math.fsum(lr), math.fsum(x * (1 + k % 97) for k, x in enumerate(lr))), file=out)
