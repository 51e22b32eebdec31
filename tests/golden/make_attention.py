#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
#
# make_attention.py > attention.txt: values of causal attention and its gradients by PyTorch in
# float64, through autograd. Inputs are not stored: q, k, v, dout, in this order, are drawn from the
# generator below, whose values are exact in fp32; tests/unit/kernels/t_attention.c draws the same.
#
# Per case: "case B T heads kv_heads head_dim", and behind it what differs from 0 of "window W",
# "softcap C" and "documents 1" (sequences cut as by give_documents() of attention_case.c); then the
# arrays, one a line, as "name count values": out, dq [B, T, heads, head_dim], dk, dv [B, T, kv_heads,
# head_dim], lse [B, heads, T].
import torch

CASES = [
    (2, 13, 3, 3, 5, {}),
    (1, 13, 3, 3, 8, {}),
    (1, 9, 4, 2, 6, {}),
    (1, 70, 1, 1, 3, {}),
    (1, 1, 2, 1, 4, {}),
    (1, 13, 1, 1, 5, {"window": 1}),
    (2, 13, 4, 2, 3, {"window": 4}),
    (1, 13, 2, 1, 3, {"window": 13}),
    (1, 13, 2, 1, 3, {"window": 14}),
    (1, 70, 2, 1, 3, {"window": 20, "documents": 1}),
    (1, 9, 4, 2, 6, {"softcap": 0.75}),
    (2, 13, 2, 1, 3, {"softcap": 0.5, "window": 4}),
    (1, 70, 2, 1, 3, {"softcap": 30, "window": 33, "documents": 1}),
]
LENGTHS = [3, 1, 1, 33, 2, 67, 130, 5]


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


def documents(b, t):
    """The number of each token's document, [B, T]."""
    rows = []
    for n in range(b):
        row = []
        while len(row) < t:
            row += [n] * LENGTHS[n % 8]
            n += 1
        rows.append(row[:t])
    return torch.tensor(rows)


def attention(q, k, v, scale, options):
    """out [B, T, H, D] and lse [B, H, T] of q [B, T, H, D], k, v [B, T, G, D]."""
    share = q.shape[2] // k.shape[2]
    k, v = (x.repeat_interleave(share, dim=2) for x in (k, v))
    s = torch.einsum("bihd,bjhd->bhij", q, k) * scale
    if "softcap" in options:
        s = options["softcap"] * torch.tanh(s / options["softcap"])
    b, t = q.shape[:2]
    distance = torch.arange(t)[:, None] - torch.arange(t)[None, :]
    hidden = (distance < 0).expand(b, t, t)
    if "window" in options:
        hidden = hidden | (distance >= options["window"])
    if "documents" in options:
        of = documents(b, t)
        hidden = hidden | (of[:, :, None] != of[:, None, :])
    s = s.masked_fill(hidden[:, None], float("-inf"))
    return torch.einsum("bhij,bjhd->bihd", s.softmax(-1), v), s.logsumexp(-1)


def show(name, x):
    flat = x.detach().reshape(-1).tolist()
    print(name, len(flat), *("%.8g" % f for f in flat))


for seed, (b, t, h, g, d, options) in enumerate(CASES, start=1):
    draw = Draw(seed)
    q = draw.array(b, t, h, d).requires_grad_()
    k = draw.array(b, t, g, d).requires_grad_()
    v = draw.array(b, t, g, d).requires_grad_()
    dout = draw.array(b, t, h, d)
    scale = torch.tensor(1.25 / d**0.5, dtype=torch.float32).item()  # the operation's is a float
    out, lse = attention(q, k, v, scale, options)
    out.backward(dout)
    print("case", b, t, h, g, d, *(word for option in options.items() for word in option))
    for name, x in (("out", out), ("lse", lse), ("dq", q.grad), ("dk", k.grad), ("dv", v.grad)):
        show(name, x)
