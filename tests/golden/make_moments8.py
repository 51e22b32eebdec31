#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
#
# make_moments8.py > moments8.txt: 8-bit moments by FlashOptim (arXiv 2602.23349; flashoptim 0.1.4 of
# PyPI), its own kernels, run on the processor by Triton's interpreter. Inputs are not stored: they
# are drawn from the generator below; tests/unit/kernels/t_moments8.c draws the same. Lines: name,
# count and values.
#
#   read.m, read.v    what the 256 codes stand for under a scale of 0.75
#   STEP.m, .v        codes of every 13th element after so many updates by AdamW
#   STEP.m_scale, ..  all scales
#   STEP.p            every 13th parameter
import os

os.environ["TRITON_INTERPRET"] = "1"

import torch
import triton


class Untuned:
    """What triton.autotune makes of a kernel: here with a fixed block, as nothing is tuned without a GPU."""

    def __init__(self, kernel):
        self.kernel = kernel

    def __getitem__(self, grid):
        run = self.kernel[lambda meta: grid({**meta, "BLOCK_SIZE_N": 1024})]
        return lambda *args: run(*args, BLOCK_SIZE_N=1024)


triton.autotune = lambda *args, **named: Untuned
from flashoptim import optimizers as flash

flash._get_sm_count = lambda *args: 1
flash.libdevice.pow = lambda x, n: x ** int(n.handle.data.item())

N = 2048 + 77
EVERY = 13


class Draw:
    """Knuth's MMIX congruential generator; products of three numbers in [-2, 2) of 8 bits each."""

    def __init__(self, seed):
        self.x = seed

    def one(self):
        self.x = (self.x * 6364136223846793005 + 1442695040888963407) % 2**64
        return ((self.x >> 40) & 0xFF) / 64.0 - 2.0

    def array(self, n):
        return torch.tensor([self.one() * self.one() * self.one() for _ in range(n)], dtype=torch.float32)


def show(name, x):
    print(name, x.numel(), *("%.9g" % v for v in x.tolist()))


codes = torch.arange(256, dtype=torch.int32)
scale = torch.full((8,), 0.75, dtype=torch.float16)
show("read.m", flash.dequantize(codes.to(torch.uint8).view(torch.int8), scale))
show("read.v", flash.dequantize(codes.to(torch.uint8), scale, signed=False, sqrt=True, softsign=False))

draw = Draw(5)
p = draw.array(N)
m, v = torch.zeros(N, dtype=torch.int8), torch.zeros(N, dtype=torch.uint8)
groups = (N + 31) // 32
m_scale, v_scale = torch.zeros(groups, dtype=torch.float16), torch.zeros(groups, dtype=torch.float16)
lr = 2.0**-7
for step in range(1, 51):
    flash._fused_adam_step(m, m_scale, v, v_scale, p, draw.array(N), None, lr, 0.9, 0.95, 1e-8, lr * 0.1, True, step)
    if step in (1, 10, 50):
        for name, x in ("m", m), ("v", v), ("p", p):
            show("%d.%s" % (step, name), x[::EVERY])
        show("%d.m_scale" % step, m_scale)
        show("%d.v_scale" % step, v_scale)
