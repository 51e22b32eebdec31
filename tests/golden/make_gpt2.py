#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
#
# make_gpt2.py gpt2.bin: one step of a tiny GPT-2 by PyTorch in float64, gradients through autograd.
#
# Nothing that goes in is stored: parameters and tokens come from the hash below, which tests/lib/model_fixture.c
# computes too, and are exact in fp32. What comes out, as little-endian float64:
#   loss of each token [B*T], logits of the last token [V], then the gradient of their mean w.r.t. every
#   parameter in canonical order (wte, wpe, h.0.*, h.1.*, ln_f.*).
import math
import struct
import sys

import torch
import torch.nn.functional as F

from documents import documents

V, C, H, L, CONTEXT, B, T = 97, 24, 3, 2, 16, 2, 13
M64 = 2**64 - 1


def splitmix(x):
    x = (x + 0x9E3779B97F4A7C15) & M64
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & M64
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & M64
    return x ^ (x >> 31)


def draw(stream, n):
    """n values in [-1, 1), multiples of 2^-15."""
    values = [(splitmix((stream << 32) + e) >> 48) / 32768.0 - 1 for e in range(n)]
    return torch.tensor(values, dtype=torch.float64)


def shapes():
    yield "wte.weight", (V, C)
    yield "wpe.weight", (CONTEXT, C)
    for i in range(L):
        for name, shape in (
            ("ln_1.weight", (C,)), ("ln_1.bias", (C,)),
            ("attn.c_attn.weight", (C, 3 * C)), ("attn.c_attn.bias", (3 * C,)),
            ("attn.c_proj.weight", (C, C)), ("attn.c_proj.bias", (C,)),
            ("ln_2.weight", (C,)), ("ln_2.bias", (C,)),
            ("mlp.c_fc.weight", (C, 4 * C)), ("mlp.c_fc.bias", (4 * C,)),
            ("mlp.c_proj.weight", (4 * C, C)), ("mlp.c_proj.bias", (C,)),
        ):
            yield f"h.{i}.{name}", shape
    yield "ln_f.weight", (C,)
    yield "ln_f.bias", (C,)


def parameters():
    p = {}
    for number, (name, shape) in enumerate(shapes()):
        x = draw(number, math.prod(shape)).reshape(shape) / 4
        if len(shape) == 1 and name.endswith("weight"):
            x = 1 + x
        p[name] = x.requires_grad_()
    return p


def norm(x, p, name):
    return F.layer_norm(x, (C,), p[name + ".weight"], p[name + ".bias"], 1e-5)


def linear(x, p, name):
    return x @ p[name + ".weight"] + p[name + ".bias"]


def attention(qkv, apart):
    q, k, v = (x.reshape(B, T, H, C // H).transpose(1, 2) for x in qkv.split(C, dim=2))
    scores = q @ k.transpose(2, 3) / math.sqrt(C // H)
    scores = scores.masked_fill(apart, float("-inf"))
    return (scores.softmax(-1) @ v).transpose(1, 2).reshape(B, T, C)


def gelu(x):
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def logits(p, tokens, positions, apart):
    x = p["wte.weight"][tokens] + p["wpe.weight"][positions]
    for i in range(L):
        h = f"h.{i}."
        x = x + linear(attention(linear(norm(x, p, h + "ln_1"), p, h + "attn.c_attn"), apart), p, h + "attn.c_proj")
        x = x + linear(gelu(linear(norm(x, p, h + "ln_2"), p, h + "mlp.c_fc")), p, h + "mlp.c_proj")
    return norm(x, p, "ln_f") @ p["wte.weight"].T


def tokens(stream):
    return torch.tensor([(splitmix((stream << 32) + e) >> 33) % V for e in range(B * T)]).reshape(B, T)



out = open(sys.argv[1], "wb")
for packed in False, True:
    p = parameters()
    starts, weights = documents(B, T) if packed else (torch.zeros(B, T, dtype=torch.long), torch.ones(B * T).double())
    t = torch.arange(T)
    apart = (t[None, None, :] > t[None, :, None]) | (t[None, None, :] < starts[:, :, None])
    y = logits(p, tokens(1000), t[None, :] - starts, apart[:, None]).reshape(B * T, V)
    loss = F.cross_entropy(y, tokens(1001).reshape(-1), reduction="none") * weights
    loss.mean().backward()
    values = loss.tolist() + y[-1].tolist()
    for x in p.values():
        values += x.grad.reshape(-1).tolist()
    out.write(struct.pack("<%dd" % len(values), *values))
    print("%d values, mean loss %.6f" % (len(values), loss.mean()))
    for name, x in p.items():
        print("%-24s |grad| %.3e" % (name, x.grad.norm()))
