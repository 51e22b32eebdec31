#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# make_muon.py > muon.txt: trajectories of Muon by the code of others, as make_optim.py has them of other optimizers. It
# needs torch 2.15 and, in PYTHONPATH, DeepSpeed 0.19.8 and gram-newton-schulz 0.1.6 of PyPI and Dion of
# github.com/microsoft/dion (0a059a4). Their files run as they are but for the precision: 64 bits instead of 16, and no
# compiler.
import inspect
import pathlib
import sys
import types

import torch

MATRICES = ((37, 29), (29, 71), (5, 1))
HEADS = ((48, 20), (24, 71), (36, 5))
HEAD_ROWS = 12
STEP = 131


class Draw:
    """Knuth's MMIX congruential generator; 8 of its upper bits as a number in [-2, 2)."""

    def __init__(self, seed):
        self.x = seed

    def array(self, shape):
        out = []
        for _ in range(torch.Size(shape).numel()):
            self.x = (self.x * 6364136223846793005 + 1442695040888963407) % 2**64
            out.append(((self.x >> 40) & 0xFF) / 64.0 - 2.0)
        return torch.tensor(out, dtype=torch.float64).reshape(shape)


def precise(text):
    for short in "torch.float32", "torch.float16", "torch.bfloat16":
        text = text.replace(short, "torch.float64")
    return text.replace(".bfloat16()", ".double()")


def module(path, package, **known):
    """The module in a file, in float64; `known`: modules that it imports and does without."""
    found = next(p for p in (pathlib.Path(d) / path for d in sys.path) if p.exists())
    sys.modules.update({name.replace("_of_", "."): value for name, value in known.items()})
    made = types.ModuleType(package + "." + found.stem)
    made.__package__ = package
    exec(compile(precise(found.read_text()), str(found), "exec"), made.__dict__)
    return made


def nothing(**members):
    made = types.ModuleType("nothing")
    made.__dict__.update(members)
    return made


def uncompiled(*_, **__):
    return lambda function: function


torch.compile = uncompiled
deepspeed = module(
    "deepspeed/runtime/zero/muon/original_muon.py", "muon", deepspeed=nothing(comm=None), deepspeed_of_comm=nothing(),
    deepspeed_of_runtime=nothing(compiler=nothing(compile=uncompiled)),
    deepspeed_of_accelerator=nothing(get_accelerator=None))
deepspeed.ns_compute_dtype = lambda method: torch.float64
dion = module("dion/polar_express.py", "dion", dion=nothing(),
              dion_of_newton_schulz_triton=nothing(ns_line_1=None, ns_line_2=None))
coefficients = module("gram_newton_schulz/coefficients.py", "gram")
gram = module("gram_newton_schulz/gram_newton_schulz.py", "gram", gram=nothing(), gram_of_coefficients=coefficients)
exec(precise(inspect.getsource(torch.optim._muon._zeropower_via_newtonschulz)), torch.optim._muon.__dict__)

POLAR = list(dion._POLAR_EXPRESS_COEFFS)
MARGIN = 1.02
DIVIDED = [tuple(c / MARGIN**power for c, power in zip(POLAR[0], (1, 3, 5)))] + POLAR[1:]
JORDAN = [(3.4445, -4.7750, 2.0315)]


def with_polynomial(params, orthogonal, **options):
    """DeepSpeed's optimizer with another function that makes a matrix orthogonal."""
    optimizer = deepspeed.SingleDeviceMuon(params, ns_method="standard", **options)
    optimizer.orthogonal = lambda x, steps: orthogonal(x)
    return optimizer


def polar(steps):
    def orthogonal(x):
        dion._POLAR_EXPRESS_COEFFS = POLAR[:steps]
        return dion.polar_express(x)

    return lambda p: with_polynomial(p, orthogonal)


def authors_gram(coefficients, restarts):
    orthogonal = gram.GramNewtonSchulz(ns_use_kernels=False, ns_coefficients=coefficients, compile_kwargs=None,
                                       gram_newton_schulz_reset_iterations=restarts)
    return lambda p: with_polynomial(p, orthogonal)


def heads(method):
    def make(params):
        for p in params:
            p.muon_num_heads = p.shape[0] // HEAD_ROWS
        return deepspeed.SingleDeviceMuon(params, momentum=0.8, ns_method=method)

    return make


CASES = {
    "torch": (MATRICES, lambda p: torch.optim.Muon(p, weight_decay=0)),
    "torch-adamw": (MATRICES, lambda p: torch.optim.Muon(p, momentum=0.8, nesterov=False, weight_decay=0.1, ns_steps=3,
                                                         adjust_lr_fn="match_rms_adamw")),
    "torch-unclamped": (MATRICES, lambda p: torch.optim.Muon(p, weight_decay=0.1, adjust_lr_fn="spectral_unclamped")),
    "deepspeed": (MATRICES, lambda p: deepspeed.SingleDeviceMuon(p, weight_decay=0.1, ns_method="standard")),
    "deepspeed-gram": (MATRICES, lambda p: deepspeed.SingleDeviceMuon(p, weight_decay=0.1, ns_method="gram")),
    "deepspeed-heads": (HEADS, heads("standard")),
    "deepspeed-heads-gram": (HEADS, heads("gram")),
    "polar": (MATRICES, polar(5)),
    "polar-3": (MATRICES, polar(3)),
    "polar-gram": (MATRICES, authors_gram(DIVIDED, [2])),
    "gram-9": (MATRICES, authors_gram(JORDAN * 9, [2, 5, 8])),
}


def trajectory(name, shapes, make):
    draw = Draw(1)
    params = [draw.array(s).requires_grad_() for s in shapes]
    optimizer = make(params)
    deepspeed.zeropower_via_newtonschulz5 = getattr(optimizer, "orthogonal", standard)
    for t in range(1, 51):
        for p in params:
            p.grad = draw.array(p.shape)
        optimizer.param_groups[0]["lr"] = 2.0 ** (-6 - t % 3)
        optimizer.step()
        if t in (1, 2, 10, 50):
            flat = torch.cat([p.detach().reshape(-1) for p in params])
            print(name, t, *("%.10g" % x for x in flat[::STEP].tolist()))


standard = deepspeed.zeropower_via_newtonschulz5
for name, (shapes, make) in CASES.items():
    trajectory(name, shapes, make)
