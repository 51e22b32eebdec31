#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
#
# make_split24.py > split24.txt: masters of 24 bits by FlashOptim (arXiv 2602.23349; flashoptim 0.1.4
# of PyPI), its own kernels, run on the processor by Triton's interpreter. Lines: the bits of a
# number in fp32, those of its bf16 rounding, the correction of 8 bits, and the bits of what comes
# back.
import os

os.environ["TRITON_INTERPRET"] = "1"

import torch
from flashoptim import optimizers as flash

flash._get_sm_count = lambda *args: 1
flash.libdevice.copysign = lambda x, sign: flash.tl.where(sign < 0, -x, x)

torch.manual_seed(24)
x = torch.randn(96) * torch.exp2(torch.randint(-20, 4, (96,)).float())
lowp = x.to(torch.bfloat16)
rem = flash.compute_ecc_bits(x, lowp, master_bytewidth=3)
back = flash.reconstruct_fp32_param(lowp, rem)


def bits(x):
    return [int(v) & 0xFFFFFFFF for v in x.view(torch.int32)]


for a, b, r, c in zip(bits(x), bits(lowp.float()), rem.tolist(), bits(back)):
    print("%08x %04x %d %08x" % (a, b >> 16, r, c))
