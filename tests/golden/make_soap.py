#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
#
# make_soap.py soap.py [float32] > soap.txt: trajectories of the authors' own soap.py (github.com/nikhilvyas/SOAP, commit
# a1e5535) in float64 over 50 updates of three parameters, laid out as those of make_optim.py. Its text makes fp32 of what its
# eigenvectors and bases are computed from: there that becomes float64. With float32 the text is the authors', and all is
# computed in fp32: how far their code is from itself. Matrices are square, or have a basis on the shorter side alone: of a
# longer one the first average has a null space, in which any basis is right.
import sys

import torch

text = open(sys.argv[1]).read()
DTYPE = torch.float32 if "float32" in sys.argv else torch.float64
if DTYPE == torch.float64:
    assert text.count(".data.float()") == 5 and text.count("!= torch.float:") == 2
    text = text.replace(".data.float()", ".data.double()").replace("!= torch.float:", "!= torch.float64:")
torch.set_default_dtype(DTYPE)
authors = {}
exec(compile(text, sys.argv[1], "exec"), authors)
SOAP = authors["SOAP"]

BOTH = ((24, 24), (40, 40), (5,))
ONE = ((37, 29), (29, 71), (31, 33))
STEP = 131
CASES = {
    "soap": (BOTH, {}),
    "soap-all": (BOTH, dict(betas=(0.9, 0.99), shampoo_beta=0.8, eps=1e-6, weight_decay=0.1, precondition_frequency=3)),
    "soap-one": (ONE, dict(max_precond_dim=31, precondition_frequency=5)),
    "soap-none": (ONE, dict(max_precond_dim=28)),
}
if "null" in sys.argv:  # not kept: what a null space makes of rounding
    CASES = {"soap-null": (ONE, {})}


class Draw:
    """Knuth's MMIX congruential generator; 8 of its upper bits as a number in [-2, 2)."""

    def __init__(self, seed):
        self.x = seed

    def array(self, shape):
        out = []
        for _ in range(torch.Size(shape).numel()):
            self.x = (self.x * 6364136223846793005 + 1442695040888963407) % 2**64
            out.append(((self.x >> 40) & 0xFF) / 64.0 - 2.0)
        return torch.tensor(out, dtype=DTYPE).reshape(shape)


for name, (shapes, options) in CASES.items():
    draw = Draw(1)
    params = [draw.array(s).requires_grad_() for s in shapes]
    optimizer = SOAP(params, **options)
    for t in range(1, 51):
        for p in params:
            p.grad = draw.array(p.shape)
        optimizer.param_groups[0]["lr"] = 2.0 ** (-6 - t % 3)
        optimizer.step()
        if t in (1, 2, 10, 50):
            flat = torch.cat([p.detach().reshape(-1) for p in params])
            print(name, t, *("%.10g" % x for x in flat[::STEP].tolist()))
