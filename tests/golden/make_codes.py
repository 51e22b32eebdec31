#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# Writes codes.txt: a block of 2048 numbers, the bytes that bitsandbytes 0.50 makes of them as NF4
# in groups of 64, and its scales. All numbers are bits in hexadecimal.
#
#   python3 make_codes.py > codes.txt      needs bitsandbytes and torch

import struct
import bitsandbytes.functional as F
import torch

# Those that are no fp32 have no ties in the file: bitsandbytes rounds two of them to one neighbour
# in its code for CUDA, which ours agrees with, and to the other in that for the CPU, which runs
# here.
MIDPOINTS = [
    -0.8480964004993439, -0.6106329262256622, -0.4599952697753906, -0.33967943489551544,
    -0.23460740596055984, -0.13791173323988914, -0.045525018125772476, 0.03979014977812767,
    0.1202552504837513, 0.2035212516784668, 0.2920137718319893, 0.3893125355243683,
    0.5016634166240692, 0.6427869200706482, 0.8614784181118011]

torch.manual_seed(7)
x = torch.randn(2048)
x[64:128] *= 1e-3
x[128:192] *= 1e4
exact = [m for m in MIDPOINTS if struct.unpack("f", struct.pack("f", m))[0] == m]
ties = torch.tensor([1.0, -1.0, 0.0, -0.0] + exact)
x[192:256] = 0.5
x[192:192 + len(ties)] = ties
x[256:320] = 0.25
x[256:256 + len(ties)] = torch.nextafter(ties, torch.tensor(-4.0)).clamp(-1, 1)
x[320:384] = 0.125
x[320:320 + len(ties)] = torch.nextafter(ties, torch.tensor(4.0)).clamp(-1, 1)
x[384:448] = 0
x[384 + 5] = -3.5
x[448:512] = torch.linspace(-2, 2, 64)
between = torch.tensor([m for m in MIDPOINTS if m not in exact])
x[576:640] = 1
x[576:576 + len(between)] = between * (1 - 2e-6)
x[600:600 + len(between)] = between * (1 + 2e-6)
x[512:576] = x[512:576].bfloat16().float()

codes, state = F.quantize_4bit(x, blocksize=64, quant_type="nf4", compress_statistics=False)


def bits(values):
    return " ".join("%08x" % struct.unpack("<I", struct.pack("<f", v))[0] for v in values)


print("x 2048", bits(x.tolist()))
print("codes 1024", " ".join("%02x" % c for c in codes.flatten().tolist()))
print("scales 32", bits(state.absmax.tolist()))
