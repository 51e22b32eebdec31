#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Which scripts the sanitizers can do without: `make reach` calls it.

usage: reach.py COUNTERS SECONDS

COUNTERS has a folder for each test, with the .gcda files that its processes left; SECONDS a line for each test: processor seconds
and name. Scripts are left out one by one, the one first that costs most for each branch of the product that no other test reaches,
until one branch in fifty is lost. Prints those scripts: name, seconds, branches lost with it.
"""
import collections
import os
import struct
import sys

MAGIC = b"adcg"  # of gcda files of a little-endian machine
FUNCTION, ARCS = 0x01000000, 0x01A10000
LOSS = 1 / 50
FLAT = 15  # branches that count as lost in any case, so that cheap scripts stay


def branches(path):
    """(function, number) of each branch that was taken; gcc 12 and later, whose lengths are bytes."""
    data = open(path, "rb").read()
    if data[:4] != MAGIC:
        sys.exit(f"{path}: no counters of gcc 12 or later")
    taken, function, at = set(), None, 16
    while at + 8 <= len(data):
        tag, length = struct.unpack_from("<Ii", data, at)
        at += 8
        if tag == 0:
            break
        # a negative length stands for counters that are all zero, and have no bytes
        if length > 0 and tag == FUNCTION:
            (function,) = struct.unpack_from("<I", data, at)
        elif length > 0 and tag == ARCS:
            counts = struct.unpack_from(f"<{length // 8}Q", data, at)
            taken.update((function, i) for i, count in enumerate(counts) if count)
        at += max(length, 0)
    return taken


def source(path):
    """What of a counters' file names the source: one source may be part of several libraries."""
    folder, name = os.path.split(path)
    return folder.replace("/.libs", "") + "/" + name.removesuffix(".gcda").split("-")[-1]


def reached(folder, build):
    found = set()
    for at, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(at, name)
            _, inside, rest = path.partition(build + "/")
            if not name.endswith(".gcda") or not inside or rest.startswith("tests/"):
                continue
            key = source(rest)
            found.update((key, *branch) for branch in branches(path))
    return found


def main():
    counters, seconds = sys.argv[1:3]
    build = os.path.realpath(os.environ.get("BUILD", "."))
    tests = {name: reached(os.path.join(counters, name), build) for name in os.listdir(counters)}
    cost = {}
    for line in open(seconds):
        spent, name = line.split()
        cost[name] = float(spent)

    reach = collections.Counter(branch for found in tests.values() for branch in found)
    allowed, lost, saved = len(reach) * LOSS, 0, 0.0
    if not allowed:
        sys.exit(f"{counters}: no test has reached anything of {build}")
    while True:
        alone = {name: sum(reach[branch] == 1 for branch in found) for name, found in tests.items() if name.endswith(".sh")}
        name = max(alone, key=lambda name: cost.get(name, 0) / (alone[name] + FLAT))
        if lost + alone[name] > allowed:
            break
        lost += alone[name]
        saved += cost.get(name, 0)
        print(f"{name:<24} {cost.get(name, 0):6.1f} {alone[name]:4d}")
        reach.subtract(tests.pop(name))
    print(f"{saved:.0f} of {sum(cost.values()):.0f} s, {lost} of {len(reach)} branches", file=sys.stderr)


main()
