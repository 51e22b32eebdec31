# SPDX-License-Identifier: Apache-2.0
"""spirals.py - spirals.c in Python: layers are functions on numpy arrays."""
import numpy as np
import zeroth


def source(call):
    return call.batch[0] if call.x is None else call.x


def forward(call):
    call.y[:] = np.tanh(source(call) @ call.params[0].T)


def backward(call):
    x = source(call)
    d = call.dy * (1 - np.tanh(x @ call.params[0].T) ** 2)
    call.grads[0] += d.T @ x
    if call.dx is not None:
        call.dx[:] = d @ call.params[0]


def last(call):
    y, side = (call.x @ call.params[0].T)[:, 0], call.batch[1]
    call.loss[:] = np.log1p(np.exp(-side * y))
    if call.grads:
        d = (call.scale * -side / (1 + np.exp(side * y))).astype(np.float32)[:, None]
        call.grads[0] += d.T @ call.x
        call.dx[:] = d @ call.params[0]


def fails(call):
    raise KeyError("a defect of the program")


def draw(random, n=64):
    t, side = random.random(n) * 5 + 0.5, random.choice([-1, 1], n)
    x = np.stack([side * t * np.cos(t) / 5, side * t * np.sin(t) / 5, np.ones(n)], 1)
    return x.astype(np.float32), side.astype(np.float32)


layers = [zeroth.Layer("1", [("w1", (32, 3), 0.5)], 32, forward, backward),
          zeroth.Layer("2", [("w2", (32, 32), 0.3)], 32, forward, backward),
          zeroth.Layer("3", [("w3", (1, 32), 0.3)], 0, last, last)]
config = "[train]\nmicro_batch_size = 64\nsteps = 200\n[optimizer]\nlr = 0.01\n"
random = np.random.default_rng(1)
with zeroth.Engine(text=config, options={"zero.plugin": "stage3"}, ranks=2, layers=layers) as engine:
    while engine.step < engine.steps:
        engine.forward([draw(random), draw(random)])
        engine.backward()
        engine.train_step()
    if engine.infer([draw(random), draw(random)]) < 0.1:
        print("learned in stage 3 on 2 ranks")

layers[1] = zeroth.Layer("2", [("w2", (32, 32), 0.3)], 32, fails, backward)
with zeroth.Engine(text=config, layers=layers) as engine:
    try:
        engine.forward([draw(random)])
        print("a failure got lost")
    except KeyError:
        pass
