#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# Writes warmup.txt here: learning rates of DeepSpeed's WarmupLR by its formula. One line per update:
#   type warmup_num_steps warmup_min_lr warmup_max_lr  updates-applied-before  lr
import math


def lr(kind, steps, low, high, before):
    i = before - 1  # the scheduler's counter starts at -1 and advances after each update
    n = max(2, steps)
    if i < 0:
        gamma = 0.0
    elif i >= n:
        gamma = 1.0
    elif kind == "log":
        gamma = math.log(i + 1, n)
    else:
        gamma = i / n
    return low * (1 - gamma) + high * gamma


with open("warmup.txt", "w") as out:
    for kind in ("log", "linear"):
        for steps, low, high in ((10, 0, 1e-3), (1000, 0, 3e-4), (7, 1e-5, 6e-4), (1, 2e-6, 1e-3), (3, 1e-3, 1e-4)):
            for before in sorted({*range(14), 99, 500, 999, 1000, 1001, 1002, 5000}):
                print(kind, steps, "%g" % low, "%g" % high, before, "%.9g" % lr(kind, steps, low, high, before), file=out)
