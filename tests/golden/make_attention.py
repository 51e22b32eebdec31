#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
#
# make_attention.py > attention.txt: values of causal attention and its gradients by PyTorch in
# float64, through autograd. Inputs are not stored: q, k, v, dout, in this order, are drawn from the
# generator below, whose values are exact in fp32; tests/unit/kernels/t_attention.c draws the same.
#
# Per case: "case B T heads kv_heads head_dim", then the arrays, one a line, as "name count values":
# out, dq [B, T, heads, head_dim], dk, dv [B, T, kv_heads, head_dim], lse [B, heads, T].
import torch

CASES = [(2, 13, 3, 3, 5), (1, 13, 3, 3, 8), (1, 9, 4, 2, 6), (1, 70, 1, 1, 3), (1, 1, 2, 1, 4)]


class Draw:
    """Knuth's MMIX congruential generator; 16 of its upper bits as a number in [-1, 1)."""

    def __init__(self, seed):
        self.x = seed

    def array(self, *shape):
        n = torch.Size(shape).numel()
        out = []
        for _ in range(n):
            self.x = (self.x * 6364136223846793005 + 1442695040888963407) % 2**64
            out.append(((self.x >> 40) & 0xFFFF) / 32768.0 - 1.0)
        return torch.tensor(out, dtype=torch.float64).reshape(shape)


def attention(q, k, v, scale):
    """out [B, T, H, D] and lse [B, H, T] of q [B, T, H, D], k, v [B, T, G, D]."""
    share = q.shape[2] // k.shape[2]
    k, v = (x.repeat_interleave(share, dim=2) for x in (k, v))
    s = torch.einsum("bihd,bjhd->bhij", q, k) * scale
    t = q.shape[1]
    s = s.masked_fill(torch.ones(t, t).triu(1).bool(), float("-inf"))
    return torch.einsum("bhij,bjhd->bihd", s.softmax(-1), v), s.logsumexp(-1)


def show(name, x):
    flat = x.detach().reshape(-1).tolist()
    print(name, len(flat), *("%.8g" % f for f in flat))


for seed, (b, t, h, g, d) in enumerate(CASES, start=1):
    draw = Draw(seed)
    q = draw.array(b, t, h, d).requires_grad_()
    k = draw.array(b, t, g, d).requires_grad_()
    v = draw.array(b, t, g, d).requires_grad_()
    dout = draw.array(b, t, h, d)
    scale = torch.tensor(1.25 / d**0.5, dtype=torch.float32).item()  # the operation's is a float
    out, lse = attention(q, k, v, scale)
    out.backward(dout)
    print("case", b, t, h, g, d)
    for name, x in (("out", out), ("lse", lse), ("dq", q.grad), ("dk", k.grad), ("dv", v.grad)):
        show(name, x)
