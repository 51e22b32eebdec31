#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# torch_peer.py - PyTorch doing what bench/run measures: a process that reads a line of JSON, does
# what it says, and answers with a line: {"seconds": ...}, {"error": ...} or {"version": ...}.
#
#   {"do": "version"}
#   {"do": "step", "form": FORM, "batch": B, "tokens": T, "steps": N}   GPT-2 124M, forward to AdamW
#   {"do": "matmul", "dtype": "fp32"|"bf16", "layout": "nn"|"nt"|"tn", "m":, "n":, "k":, "seconds":}
#   {"do": "attention", "dtype":, "tokens":, "width":, "backward": true|false, "seconds":}   8 heads
#   {"do": "adam", "n": PARAMETERS, "seconds":}
#   {"do": "save"|"load", "path":, "bytes":}
#
# FORM is fp32, autocast (bf16 in products) or bf16 (weights, too), and +compiled. "seconds": to repeat
# for, in five batches as `zeroth bench` does; the answer is that of the second least. All by as many
# threads as the argument says.
import json
import os
import sys
import time

if __name__ == "__main__":
    sys.path.pop(0)  # this folder has a tokenize.py, which is also the name of a module of Python's

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402

TYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}


class Layer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (
            y.view(b, t, self.heads, -1).transpose(1, 2)
            for y in self.qkv(self.norm1(x)).split(c, 2)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, c))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class GPT2(nn.Module):
    def __init__(self, vocabulary=50257, context=1024, width=768, heads=12, layers=12):
        super().__init__()
        self.token, self.place = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
        self.layers = nn.ModuleList(Layer(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)

    def forward(self, tokens, targets):
        x = self.token(tokens) + self.place.weight[: tokens.shape[1]]
        for layer in self.layers:
            x = layer(x)
        logits = self.norm(x) @ self.token.weight.t()
        return F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())


def adamw(parameters):
    try:
        return torch.optim.AdamW(parameters, lr=1e-4, fused=True)
    except (RuntimeError, TypeError):
        return torch.optim.AdamW(parameters, lr=1e-4)


class Steps:
    """A model that stays from one call to the next, of one form and shape at a time."""

    def __init__(self):
        self.key = None

    def open(self, form, batch, tokens):
        self.model = self.optimizer = None
        self.model = GPT2().to(TYPES["bf16" if form.startswith("bf16") else "fp32"])
        self.optimizer = adamw(self.model.parameters())
        self.run = torch.compile(self.model) if form.endswith("+compiled") else self.model
        data = torch.randint(50257, (batch, tokens + 1))
        self.data = data[:, :-1].contiguous(), data[:, 1:].contiguous()
        self.key = form, batch, tokens
        self.step()
        self.step()

    def step(self):
        with torch.autocast("cpu", torch.bfloat16, enabled=self.key[0].startswith("autocast")):
            loss = self.run(*self.data)
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)

    def __call__(self, form, batch, tokens, steps):
        if self.key != (form, batch, tokens):
            self.open(form, batch, tokens)
        times = []
        for _ in range(steps):
            start = time.perf_counter()
            self.step()
            times.append(time.perf_counter() - start)
        return sorted(times)[len(times) // 2]


def batch(function, calls):
    start = time.perf_counter()
    for _ in range(calls):
        function()
    return time.perf_counter() - start


def time_of(function, seconds, batches=5):
    """Seconds of a call, as zr_bench_time() of cmd/measure/ measures them."""
    function()
    calls, first = 1, 0
    while (first := batch(function, calls)) < seconds / batches:
        calls = int(calls * min(max(1.2 * seconds / batches / first, 2), 16))
    times = [first] + [batch(function, calls) for _ in range(batches - 1)]
    return sorted(times)[1] / calls


def matmul(dtype, layout, m, n, k, seconds):
    a = torch.randn((k, m) if layout[0] == "t" else (m, k)).to(TYPES[dtype])
    b = torch.randn((n, k) if layout[1] == "t" else (k, n)).to(TYPES[dtype])
    a, b = a.t() if layout[0] == "t" else a, b.t() if layout[1] == "t" else b
    out = torch.empty(m, n, dtype=TYPES[dtype])
    return time_of(lambda: torch.mm(a, b, out=out), seconds)


def attention(dtype, tokens, width, backward, seconds, heads=8):
    q, k, v = (
        torch.randn(1, heads, tokens, width).to(TYPES[dtype]).requires_grad_(backward)
        for _ in range(3)
    )
    y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    if backward:
        dy = torch.randn_like(y)
        return time_of(lambda: torch.autograd.grad(y, (q, k, v), dy, retain_graph=True), seconds)
    return time_of(lambda: F.scaled_dot_product_attention(q, k, v, is_causal=True), seconds)


def adam(n, seconds):
    p = nn.Parameter(torch.randn(n))
    p.grad = torch.randn(n)
    return time_of(adamw([p]).step, seconds)


def save(path, bytes):
    state = {name: torch.rand(bytes // 12) for name in ("master", "m", "v")}
    start = time.perf_counter()
    with open(path, "wb") as f:
        torch.save(state, f)
        f.flush()
        os.fsync(f.fileno())
    return time.perf_counter() - start


def load(path, bytes):
    start = time.perf_counter()
    torch.load(path)
    return time.perf_counter() - start


def main():
    torch.set_num_threads(int(sys.argv[1]))
    torch.manual_seed(1)
    steps = Steps()
    for line in sys.stdin:
        ask = json.loads(line)
        do = ask.pop("do")
        try:
            if do == "version":
                answer = {"version": torch.__version__}
            else:
                call = {
                    "step": steps,
                    "matmul": matmul,
                    "attention": attention,
                    "adam": adam,
                    "save": save,
                    "load": load,
                }[do]
                answer = {"seconds": call(**ask)}
        except Exception as e:  # what a version does not have is an answer, too
            answer = {"error": f"{type(e).__name__}: {e}"[:200]}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
