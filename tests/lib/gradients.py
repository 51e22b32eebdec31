#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# gradients.py RUN GOLDEN: the run is one step of gradient descent at a learning rate of 2^40, behind which weights are
# gradients alone. Prints by how much its loss, and its gradients in the largest element of their tensor, differ from those
# of make_slices.py, and how many tensors there are.
import json
import struct
import sys


def read(path):
    with open(path, "rb") as f:
        data = f.read()
    at = 8 + struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:at])
    meta = header.pop("__metadata__", {})
    tensors = {}
    for name, t in header.items():
        lo, hi = t["data_offsets"]
        assert t["dtype"] == "F32", t
        tensors[name] = struct.unpack("<%df" % ((hi - lo) // 4), data[at + lo : at + hi])
    return tensors, meta


def main(run, golden):
    weights, _ = read(run + "/model.safetensors")
    gradients, meta = read(golden)
    with open(run + "/metrics.jsonl", encoding="ascii") as f:
        loss = json.loads(f.readline())["loss"]
    worst = 0
    for name, g in gradients.items():
        apart = max(abs(w / -(2.0**40) - x) for w, x in zip(weights[name], g, strict=True))
        worst = max(worst, apart / max(map(abs, g)))
    print("%.2g %.2g %d" % (abs(loss - float(meta["loss"])), worst, len(gradients)))


main(*sys.argv[1:])
