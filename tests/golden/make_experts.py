#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# make_experts.py > experts.txt: what transformers' blocks with a mixture of experts compute in float64 (their routing weights
# in float32), and their gradients by autograd, of a loss that has the load balancing loss and the z loss beside it. Inputs
# are drawn as in make_kernels.py. One array a line: name count values. transformers 4.51 with PyTorch 2.4 wrote those here.
import torch
from transformers import MixtralConfig, OlmoeConfig, Qwen3MoeConfig
from transformers.models.mixtral.modeling_mixtral import MixtralSparseMoeBlock, load_balancing_loss_func
from transformers.models.olmoe.modeling_olmoe import OlmoeSparseMoeBlock
from transformers.models.qwen3_moe.modeling_qwen3_moe import Qwen3MoeSparseMoeBlock

ROWS, EXPERTS, K, WIDTH, FFN, BALANCE, Z = 9, 5, 2, 8, 6, 0.25, 0.125
SIZES = dict(hidden_size=WIDTH, intermediate_size=FFN, num_experts_per_tok=K)

CASES = {
    "mixtral": MixtralSparseMoeBlock(MixtralConfig(num_local_experts=EXPERTS, **SIZES)),
    "olmoe": OlmoeSparseMoeBlock(OlmoeConfig(num_experts=EXPERTS, norm_topk_prob=False, **SIZES)),
    "qwen3": Qwen3MoeSparseMoeBlock(Qwen3MoeConfig(num_experts=EXPERTS, norm_topk_prob=True, moe_intermediate_size=FFN, **SIZES)),
}


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
    print(name, len(flat), *("%.8g" % f for f in flat))


def weights(expert):
    """gate, up and down"""
    if hasattr(expert, "w1"):
        return expert.w1.weight, expert.w3.weight, expert.w2.weight
    return expert.gate_proj.weight, expert.up_proj.weight, expert.down_proj.weight


def case(name, block):
    draw = Draw(7)
    block = block.double()
    x, dout = draw.array(ROWS, WIDTH).requires_grad_(), draw.array(ROWS, WIDTH)
    with torch.no_grad():
        block.gate.weight.copy_(draw.array(EXPERTS, WIDTH) / 4)
        for expert in block.experts:
            for w in weights(expert):
                w.copy_(draw.array(*w.shape) / 4)
    out, logits = block(x[None])
    balance = load_balancing_loss_func((logits,), EXPERTS, K)
    z = torch.logsumexp(logits, 1).square().mean()
    ((out[0] * dout).sum() + BALANCE * balance + Z * z).backward()
    show(name + ".losses", torch.stack([balance, z]))
    show(name + ".out", out)
    show(name + ".dx", x.grad)
    show(name + ".dgate", block.gate.weight.grad)
    for i, part in enumerate(("dw_gate", "dw_up", "dw_down")):
        show(name + "." + part, torch.stack([weights(e)[i].grad if weights(e)[i].grad is not None else torch.zeros_like(weights(e)[i])
                                             for e in block.experts]))


for name, block in CASES.items():
    case(name, block)
