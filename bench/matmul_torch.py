#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# matmul_torch.py - bench/matmul beside PyTorch's matrix products (oneDNN for bf16, its BLAS for
# fp32) on the same shapes and as many threads, in turns: a turn of one, a turn of the other, for
# each shape. PyTorch's results are of the operands' type; those of device/cpu for gradients of
# weights (dw) are fp32. The ratio is above 1 where device/cpu is faster.
#
#   bench/matmul_torch.py BENCH/MATMUL [workers [part of a shape's name [milliseconds [turns]]]]
import subprocess
import sys
import time

sys.path.pop(0)  # this folder has a tokenize.py, which is also the name of a module of Python's

import torch  # noqa: E402


def rate(m, n, k, dtype, trans_a, trans_b, seconds):
    a = torch.randn((k, m) if trans_a else (m, k)).to(dtype)
    b = torch.randn((n, k) if trans_b else (k, n)).to(dtype)
    a, b = a.t() if trans_a else a, b.t() if trans_b else b
    d = torch.empty(m, n, dtype=dtype)
    best, end = 1e9, time.time() + seconds
    torch.mm(a, b, out=d)
    while time.time() < end:
        start = time.perf_counter()
        torch.mm(a, b, out=d)
        best = min(best, time.perf_counter() - start)
    return 2e-9 * m * n * k / best


def main():
    missing = ["2", "bf16", "100", "3"][len(sys.argv) - 2:]
    program, workers, part, ms, turns = sys.argv[1:] + missing
    torch.set_num_threads(int(workers))
    own, other = {}, {}
    for _ in range(int(turns)):
        run = subprocess.run([program, workers, "auto", ms, part], text=True,
                             stdout=subprocess.PIPE)
        for line in run.stdout.splitlines()[1:]:
            name, (m, n, k, flops, share) = line[:24].strip(), line[24:].split()[:5]
            shape = int(m), int(n), int(k)
            nk = any(word in name for word in ("llama", "head", "adapter x"))
            last = name.split()[-1]
            trans_a, trans_b = last == "dw", last != "dw" and (last == "dx") != nk
            dtype = torch.bfloat16 if "bf16" in name else torch.float32
            got = rate(*shape, dtype, trans_a, trans_b, float(ms) / 1e3)
            old = own.get(name, (0, 0))
            own[name] = max(old, (float(flops), float(share)))
            other[name] = max(other.get(name, 0), got)
    print(f"{'':24} {'own':>7} {'share':>6} {'PyTorch':>8} {'ratio':>6}  ({torch.__version__})")
    for name, (flops, share) in own.items():
        print(f"{name:24} {flops:7.1f} {share:6.2f} {other[name]:8.1f} {flops / other[name]:6.2f}")


main()
