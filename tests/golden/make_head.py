#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
#
# make_head.py > head.txt: softmax cross entropy fused with the output projection, and a matrix product
# with bias and GELU, by PyTorch in float64 through autograd. Inputs are drawn: multiples of 1/64 in
# [-2, 2), exact in bf16; tests/unit/device/t_head.c draws the same. One array a
# line: name count values.
import torch


class Draw:
    def __init__(self, seed):
        self.x = seed

    def array(self, *shape):
        out = []
        for _ in range(torch.Size(shape).numel()):
            self.x = (self.x * 6364136223846793005 + 1442695040888963407) % 2**64
            out.append(((self.x >> 40) & 0xFF) / 64.0 - 2.0)
        return torch.tensor(out, dtype=torch.float64).reshape(shape)


def show(name, x):
    flat = x.detach().reshape(-1).tolist()
    print(name, len(flat), *("%.10g" % f for f in flat))


draw = Draw(5)
x, w = draw.array(7, 6).requires_grad_(), draw.array(13, 6).requires_grad_()
targets = torch.tensor([3, 12, 0, 3, 7, 11, 12])
loss = torch.nn.functional.cross_entropy(x @ w.T, targets, reduction="none")
loss.mul(0.25).sum().backward()
show("head.loss", loss)
show("head.dx", x.grad)
show("head.dw", w.grad)

draw = Draw(6)
a, b, bias = draw.array(5, 9), draw.array(9, 19), draw.array(19)
pre = a @ b / 4 + bias
u = (2 / torch.pi) ** 0.5 * (pre + 0.044715 * pre**3)
show("matmul.pre", pre)
show("matmul.gelu", 0.5 * pre * (1 + torch.tanh(u)))


def capped(name, gain, softcap):
    """Logits scaled and under a soft cap, as those of Gemma 2."""
    draw = Draw(8)
    x, w = draw.array(7, 6).requires_grad_(), draw.array(13, 6).requires_grad_()
    logits = x @ w.T * gain
    if softcap:
        logits = softcap * torch.tanh(logits / softcap)
    loss = torch.nn.functional.cross_entropy(logits, targets, reduction="none")
    loss.mul(0.25).sum().backward()
    show(name + ".logits", logits)
    show(name + ".loss", loss)
    show(name + ".dx", x.grad)
    show(name + ".dw", w.grad)


capped("scaled", 0.375, 0)
capped("capped", 1, 3)
capped("both", 0.375, 3)
