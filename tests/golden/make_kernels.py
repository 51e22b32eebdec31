#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
#
# make_kernels.py > kernels.txt: values of the row and element kernels by PyTorch in float64, through
# autograd and torch.optim. Inputs are not stored: they are drawn from the generator below, whose
# values are exact in bf16; tests/unit/kernels/kernels_fixture.c draws the same. One array a
# line: name count values.
import torch


class Draw:
    """Knuth's MMIX congruential generator; 8 of its upper bits as a number in [-2, 2)."""

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


def embedding():
    draw = Draw(1)
    wte, wpe = draw.array(11, 19).requires_grad_(), draw.array(6, 19).requires_grad_()
    dout = draw.array(2, 5, 19)
    tokens = torch.tensor([[3, 0, 3, 10, 7], [7, 3, 1, 1, 0]])
    out = wte[tokens] + wpe[:5]
    out.backward(dout)
    show("embedding.out", out)
    show("embedding.dwte", wte.grad)
    show("embedding.dwpe", wpe.grad)


def layernorm():
    draw = Draw(2)
    x, gamma, beta = (draw.array(*s).requires_grad_() for s in ((13, 97), (97,), (97,)))
    dy, dx = draw.array(13, 97), draw.array(13, 97)
    y = torch.nn.functional.layer_norm(x, (97,), gamma, beta, eps=1e-5)
    y.backward(dy)
    show("layernorm.y", y)
    show("layernorm.mean", x.mean(1))
    show("layernorm.rstd", 1 / torch.sqrt(x.var(1, unbiased=False) + 1e-5))
    show("layernorm.dx", dx + x.grad)
    show("layernorm.dgamma", gamma.grad)
    show("layernorm.dbeta", beta.grad)


def rmsnorm():
    draw = Draw(5)
    x, gamma = (draw.array(*s).requires_grad_() for s in ((5, 41), (41,)))
    dy, dx = draw.array(5, 41), draw.array(5, 41)
    rstd = 1 / torch.sqrt((x * x).mean(1, keepdim=True) + 1e-5)
    y = x * rstd * gamma
    y.backward(dy)
    show("rmsnorm.y", y)
    show("rmsnorm.rstd", rstd)
    show("rmsnorm.dx", dx + x.grad)
    show("rmsnorm.dgamma", gamma.grad)


def rotary():
    """As Hugging Face's rotate_half(): 2 sequences of 5 rows of 2 heads of 22, angles in fp32."""
    draw = Draw(6)
    x = draw.array(2, 5, 2, 22).requires_grad_()
    dout = draw.array(2, 5, 2, 22)
    frequency = torch.tensor([3.5 / 2**i for i in range(11)])
    angle = torch.outer(torch.arange(5).float(), frequency).double()
    cos, sin = (f(torch.cat((angle, angle), 1))[None, :, None, :] for f in (torch.cos, torch.sin))
    out = x * cos + torch.cat((-x[..., 11:], x[..., :11]), 3) * sin
    out.backward(dout)
    show("rotary.out", out)
    show("rotary.dx", x.grad)


def swiglu():
    draw = Draw(7)
    gate = (8 * draw.array(97)).requires_grad_()
    up = draw.array(97).requires_grad_()
    dy = draw.array(97)
    y = torch.nn.functional.silu(gate) * up
    y.backward(dy)
    show("swiglu.y", y)
    show("swiglu.dgate", gate.grad)
    show("swiglu.dup", up.grad)


def gelu():
    draw = Draw(3)
    x = (2 * draw.array(97)).requires_grad_()
    dy = draw.array(97)
    u = (2 / torch.pi) ** 0.5 * (x + 0.044715 * x**3)
    y = 0.5 * x * (1 + torch.tanh(u))
    y.backward(dy)
    show("gelu.y", y)
    show("gelu.dx", x.grad)


def gelu_erf():
    draw = Draw(8)
    x = (2 * draw.array(97)).requires_grad_()
    dy = draw.array(97)
    y = torch.nn.functional.gelu(x)
    y.backward(dy)
    show("gelu_erf.y", y)
    show("gelu_erf.dx", x.grad)


def glu(name, f):
    """5 rows of 21."""
    draw = Draw(9)
    gate = (2 * draw.array(105)).requires_grad_()
    up = draw.array(105).requires_grad_()
    dy = draw.array(105)
    y = f(gate) * up
    y.backward(dy)
    show("glu_%s.y" % name, y)
    show("glu_%s.dgate" % name, gate.grad)
    show("glu_%s.dup" % name, up.grad)


def rmsnorm_heads():
    """10 rows of 20, by 1 + gamma as Gemma's; and without gamma."""
    draw = Draw(10)
    x, gamma = (draw.array(*s).requires_grad_() for s in ((10, 20), (20,)))
    dy = draw.array(10, 20)
    xh = x / torch.sqrt((x * x).mean(1, keepdim=True) + 1e-5)
    y = xh * (1 + gamma)
    dx, dgamma = torch.autograd.grad(y, (x, gamma), dy, retain_graph=True)
    show("rmsnorm_heads.y", y)
    show("rmsnorm_heads.dx", dx)
    show("rmsnorm_heads.dgamma", dgamma)
    show("rmsnorm_plain.y", xh)
    show("rmsnorm_plain.dx", torch.autograd.grad(xh, x, dy)[0])


def rotary_part():
    """Of heads of 22 the first 16 turn; cosine and sine are scaled, as by YaRN."""
    draw = Draw(11)
    x = draw.array(2, 5, 2, 22).requires_grad_()
    dout = draw.array(2, 5, 2, 22)
    frequency = torch.tensor([3.5 / 2**i for i in range(8)])
    angle = torch.outer(torch.arange(5).float(), frequency).double()
    angle = torch.cat((angle, angle), 1)[None, :, None, :]
    cos, sin = 1.375 * torch.cos(angle), 1.375 * torch.sin(angle)
    turned, rest = x[..., :16], x[..., 16:]
    turned = turned * cos + torch.cat((-turned[..., 8:], turned[..., :8]), 3) * sin
    out = torch.cat((turned, rest), 3)
    out.backward(dout)
    show("rotary_part.x", x)
    show("rotary_part.out", out)
    show("rotary_part.dx", x.grad)


def layernorm_plain():
    """10 rows of 20 without beta."""
    draw = Draw(12)
    x, gamma = (draw.array(*s).requires_grad_() for s in ((10, 20), (20,)))
    dy, dx = draw.array(10, 20), draw.array(10, 20)
    y = torch.nn.functional.layer_norm(x, (20,), gamma, None, eps=1e-5)
    y.backward(dy)
    show("layernorm_plain.y", y)
    show("layernorm_plain.dx", dx + x.grad)
    show("layernorm_plain.dgamma", gamma.grad)


def trajectory(name, make, state):
    """50 updates of 7 parameters; gradients are drawn and halved (grad_mult); seen after 1, 10, 50."""
    draw = Draw(4)
    p = draw.array(7).requires_grad_()
    optimizer = make([p])
    for step in range(1, 51):
        p.grad = draw.array(7) / 2
        optimizer.step()
        if step in (1, 10, 50):
            show("%s.%d.p" % (name, step), p)
            for key in state:
                show("%s.%d.%s" % (name, step, key), optimizer.state[p][key])


class Lion(torch.optim.Optimizer):
    """Chen et al. 2023, algorithm 2, with decoupled weight decay."""

    def __init__(self, params, lr, betas, weight_decay):
        super().__init__(params, dict(lr=lr, betas=betas, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            (b1, b2), lr = group["betas"], group["lr"]
            for p in group["params"]:
                m = self.state[p].setdefault("exp_avg", torch.zeros_like(p))
                direction = torch.sign(b1 * m + (1 - b1) * p.grad)
                p -= lr * (direction + group["weight_decay"] * p)
                m.mul_(b2).add_(p.grad, alpha=1 - b2)


moments = ("exp_avg", "exp_avg_sq")
lr = 2**-7
adam = dict(lr=lr, betas=(0.9, 0.95), eps=1e-8)
embedding()
layernorm()
rmsnorm()
rotary()
swiglu()
gelu()
trajectory("adamw", lambda p: torch.optim.AdamW(p, weight_decay=0.1, **adam), moments)
trajectory("adam_l2", lambda p: torch.optim.Adam(p, weight_decay=0.1, **adam), moments)
trajectory("sgd", lambda p: torch.optim.SGD(p, lr=lr), ())
trajectory("sgd_wd", lambda p: torch.optim.SGD(p, lr=lr, weight_decay=0.1), ())
trajectory("momentum", lambda p: torch.optim.SGD(p, lr=lr, momentum=0.9), ("momentum_buffer",))
trajectory("damped", lambda p: torch.optim.SGD(p, lr=lr, momentum=0.9, dampening=0.3, weight_decay=0.1),
           ("momentum_buffer",))
trajectory("nesterov", lambda p: torch.optim.SGD(p, lr=lr, momentum=0.9, nesterov=True, weight_decay=0.1),
           ("momentum_buffer",))
trajectory("lion", lambda p: Lion(p, lr=lr, betas=(0.9, 0.98), weight_decay=0.1), ("exp_avg",))
trajectory("adagrad", lambda p: torch.optim.Adagrad(p, lr=lr, lr_decay=0.01, weight_decay=0.1,
                                                    initial_accumulator_value=0.25), ("sum",))
gelu_erf()
glu("silu", torch.nn.functional.silu)
glu("gelu_tanh", lambda x: torch.nn.functional.gelu(x, approximate="tanh"))
glu("gelu_erf", torch.nn.functional.gelu)
rmsnorm_heads()
rotary_part()
layernorm_plain()
