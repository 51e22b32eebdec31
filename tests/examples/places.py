# SPDX-License-Identifier: Apache-2.0
"""places.py - a model that Python computes by itself, with an engine that has its parameters when a
layer needs them: y = w x + b, three times, in so many ranks, which are threads of this program.

    places.py RANKS [section.key=value]...
"""
import ctypes
import sys
import threading

from zeroth.outside import BACKWARD, DONE, FORWARD, LOSS, Outside

WIDE, STEPS, SLOTS = 8, 3, 2
UNITS = [("outer", [("w", (WIDE,), False), ("b", (2, WIDE // 2), False)]),
         ("inner", [("v", (WIDE,), False), ("c", (WIDE,), True)])]
LAYERS = [("1", [0]), ("2", [1]), ("3", [0])]


def floats(at):
    return (ctypes.c_float * WIDE).from_address(at)


def compute(engine, rank, x):
    """A micro-batch of one sample, whose loss is the mean of y^2."""
    xs, dy = [x], None
    engine.begin(rank, True)
    while True:
        kind, call = engine.take(rank), engine.call[rank]
        if kind == DONE:
            return
        if kind == FORWARD:
            w, b = floats(call.param[0]), floats(call.param[1])
            xs.append([w[i] * xs[-1][i] + b[i] for i in range(WIDE)])
        elif kind == LOSS:
            floats(call.loss)[0] = sum(y * y for y in xs[-1]) / WIDE
            dy = [call.scale * 2 * y / WIDE for y in xs[-1]]
        elif kind == BACKWARD:
            x, w = xs[call.layer], floats(call.param[0])
            for k, new in enumerate(([dy[i] * x[i] for i in range(WIDE)], dy)):
                if call.dparam[k]:
                    to = floats(call.dparam[k])
                    to[:] = [n + (to[i] if call.accumulate[k] else 0) for i, n in enumerate(new)]
            dy = [dy[i] * w[i] for i in range(WIDE)]
        engine.give(rank)


def main(ranks, options):
    text = "[train]\nsteps = {}\nmicro_batch_size = 1\ntrain_batch_size = {}\n".format(STEPS, SLOTS)
    with Outside(UNITS, LAYERS, text=text, options=options, ranks=ranks, numbers=3) as engine:
        numbers = [(ctypes.c_float * 3).from_address(engine.numbers(r)) for r in range(ranks)]
        first = max(0, engine.resume()) if "run.dir" in options else 0
        for step in range(first, STEPS):
            for micro in range(SLOTS // ranks):
                threads = []
                for r in range(ranks):
                    x = [0.1 * (i + step + micro * ranks + r) for i in range(WIDE)]
                    threads.append(threading.Thread(target=compute, args=(engine, r, x)))
                    threads[-1].start()
                for t in threads:
                    t.join()
                result = engine.train_step()
            for row in numbers:
                row[:] = [row[0] + 1, step, result["loss"]]
            if "run.dir" in options:
                engine.save()
                print("saved", list(numbers[0][:2]))
                break
        print("digest: losses={} params={}".format(*engine.digest()))
        print(engine.sum([[1.0, r] for r in range(ranks)]))


if __name__ == "__main__":
    if sys.argv[2:] and "=" in sys.argv[2]:
        main(int(sys.argv[1]), dict(o.split("=", 1) for o in sys.argv[2:]))
    else:
        main(int(sys.argv[1]), {})
