#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# Causal attention in bf16, heads of width 64, forward and backward: device/cpu in turns with
# PyTorch's scaled_dot_product_attention.
#
#   bench/attention.py PROGRAM [--workers N] [--rounds N] [--isa NAME] LENGTH:HEADS...
#
# PROGRAM is bench/attention as it was built. Prints per shape the least milliseconds of both, their
# ratio (above 1: ahead of PyTorch), and the billions of operations a second of the scores that are
# not masked, forward 4 and backward 10 per score and element of a head.
import argparse
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
args = args.parse_args()

torch.set_num_threads(args.workers)
ours = subprocess.Popen([args.program, str(args.workers), args.isa], text=True,
                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def ask(length, heads):
    ours.stdin.write(f"{length} {heads}\n")
    ours.stdin.flush()
    return [float(x) for x in ours.stdout.readline().split()][:2]


def pytorch(q, k, v, dout):
    began = time.perf_counter()
    out = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    between = time.perf_counter()
    out.backward(dout)
    return [1e3 * (between - began), 1e3 * (time.perf_counter() - between)]


print(f"# PyTorch {torch.__version__}, {args.workers} threads, {args.isa}")
print(f"# {'length:heads':14}{'forward':>9}{'PyTorch':>9}{'ratio':>7}{'backward':>10}{'PyTorch':>9}"
      f"{'ratio':>7}{'both':>7}{'GFLOP/s':>9}")
for shape in args.shapes:
    length, heads = map(int, shape.split(":"))
    q, k, v = (torch.randn(1, heads, length, 64).bfloat16().requires_grad_() for _ in range(3))
    dout = torch.randn(1, heads, length, 64).bfloat16()
    mine, theirs = [], []
    for _ in range(args.rounds):
        mine.append(ask(length, heads))
        theirs.append(pytorch(q, k, v, dout))
    a, b = ([min(t[i] for t in times) for i in range(2)] for times in (mine, theirs))
    operations = 14 * 64 * heads * length * (length + 1) / 2
    print(f"{shape:16}{a[0]:9.2f}{b[0]:9.2f}{b[0] / a[0]:7.2f}{a[1]:10.2f}{b[1]:9.2f}"
          f"{b[1] / a[1]:7.2f}{sum(b) / sum(a):7.2f}{1e-6 * operations / sum(a):9.0f}", flush=True)
