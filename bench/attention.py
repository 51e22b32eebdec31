#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# Causal attention forward and backward: device/cpu in turns with PyTorch's
# scaled_dot_product_attention.
#
#   bench/attention.py PROGRAM [--workers N] [--rounds N] [--isa NAME] [--dtype fp32|bf16]
#                      [--width N] LENGTH:HEADS...
#
# PROGRAM is bench/attention as it was built. Prints per shape the least milliseconds of both, the
# median ratio of the rounds (above 1: ahead of PyTorch), and the billions of operations a second of
# the scores that are not masked, forward 4 and backward 10 per score and element of a head.
import argparse
import statistics
import subprocess
import sys
import time

sys.path.pop(0)  # tokenize.py here is not Python's
import torch  # noqa: E402

args = argparse.ArgumentParser()
args.add_argument("program")
args.add_argument("shapes", nargs="+")
args.add_argument("--workers", type=int, default=2)
args.add_argument("--rounds", type=int, default=5)
args.add_argument("--isa", default="auto")
args.add_argument("--dtype", choices=("fp32", "bf16"), default="bf16")
args.add_argument("--width", type=int, default=64)
args = args.parse_args()

torch.set_num_threads(args.workers)
ours = subprocess.Popen([args.program, str(args.workers), args.isa], text=True,
                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def ask(length, heads):
    ours.stdin.write(f"{length} {heads} {args.width} {args.dtype}\n")
    ours.stdin.flush()
    return [float(x) for x in ours.stdout.readline().split()][:2]


def least(function):
    began, best = time.perf_counter(), 1e9
    while best == 1e9 or time.perf_counter() - began < 0.05:
        start = time.perf_counter()
        function()
        best = min(best, time.perf_counter() - start)
    return 1e3 * best


def pytorch(q, k, v, dout):
    def forward():
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)

    def backward():
        torch.autograd.grad(out, (q, k, v), dout, retain_graph=True)

    with torch.no_grad():
        there = least(forward)
    out = forward()
    return [there, least(backward)]


print(f"# PyTorch {torch.__version__}, {args.workers} threads, {args.isa}, {args.dtype}, "
      f"width {args.width}")
TYPE = torch.float32 if args.dtype == "fp32" else torch.bfloat16
print(f"# {'length:heads':14}{'forward':>9}{'PyTorch':>9}{'ratio':>7}{'backward':>10}{'PyTorch':>9}"
      f"{'ratio':>7}{'both':>7}{'GFLOP/s':>9}")
for shape in args.shapes:
    length, heads = map(int, shape.split(":"))
    size = (1, heads, length, args.width)
    q, k, v = (torch.randn(size).to(TYPE).requires_grad_() for _ in range(3))
    dout = torch.randn(size).to(TYPE)
    mine, theirs = [], []
    for _ in range(args.rounds):
        mine.append(ask(length, heads))
        theirs.append(pytorch(q, k, v, dout))
    a, b = ([min(t[i] for t in times) for i in range(2)] for times in (mine, theirs))
    r = [statistics.median(y[i] / x[i] for x, y in zip(mine, theirs)) for i in range(2)]
    r.append(statistics.median(sum(y) / sum(x) for x, y in zip(mine, theirs)))
    operations = 14 * args.width * heads * length * (length + 1) / 2
    print(f"{shape:16}{a[0]:9.3f}{b[0]:9.3f}{r[0]:7.2f}{a[1]:10.3f}{b[1]:9.3f}"
          f"{r[1]:7.2f}{r[2]:7.2f}{1e-6 * operations / sum(a):9.0f}", flush=True)
