#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# make_qk_clip.py > qk_clip.safetensors: one step of QK-Clip, by its formula, of the tiny models of make_pretrained.py. For
# each of CASES, in float64: a step of plain gradient descent, and after it the queries and keys of each head are scaled.
# CASE/scores: [layers, heads] the largest score of each head in the forward of the step, before a soft cap, of queries and
# keys that they attend to; CASE/clip: the threshold, alpha, the learning rate, how many query heads are scaled;
# CASE/NAME: the weight or bias of queries, keys, or of these and values, after the step.
# transformers 5.24 with torch 2.15.
import pathlib
import sys

import torch
import torch.nn.functional as F
import transformers
from safetensors.torch import save

B, T, V, LR = 2, 13, 61, 0.5
HERE = pathlib.Path(__file__).parent / "pretrained"

# What has the queries and keys of a layer, and alpha.
CASES = {
    "gpt2": ("h.{}.attn.c_attn", 0.5),
    "llama": ("model.layers.{}.self_attn", 0.3),
    "llama-bias": ("model.layers.{}.self_attn", 0.5),
    "qwen2": ("model.layers.{}.self_attn", 1.0),
    "mistral": ("model.layers.{}.self_attn", 0.5),
    "gemma2": ("model.layers.{}.self_attn", 0.5),
    "phi3": ("model.layers.{}.self_attn.qkv_proj", 0.7),
    "gpt-neox": ("gpt_neox.layers.{}.attention.query_key_value", 0.5),
    "starcoder2": ("model.layers.{}.self_attn", 0.0),
}


def noting(attention, scores):
    """The attention of a model's file, noting the largest score of each head."""

    def noted(module, query, key, value, mask, *args, **known):
        scaling = known.get("scaling")
        keys = key.repeat_interleave(query.shape[1] // key.shape[1], 1)
        s = query @ keys.transpose(2, 3) * (query.shape[-1] ** -0.5 if scaling is None else scaling)
        seen = torch.ones(T, T).tril().bool() if mask is None else mask > -1
        scores.append(s.masked_fill(~seen, -torch.inf).amax((0, 2, 3)).detach())
        return attention(module, query, key, value, mask, *args, **known)

    return noted


def factors(scores, kv_heads, tau, alpha):
    """Of each head of queries, and of keys: heads that share a key go by the largest of them."""
    share = len(scores) // kv_heads
    eta = (tau / scores.clamp(min=1e-30).reshape(kv_heads, share).amax(1)).clamp(max=1)
    return (eta**alpha).repeat_interleave(share), eta ** (1 - alpha)


def scale(x, first, factor, width):
    """Rows of x, `width` for each head, from `first` on."""
    rows = slice(first, first + len(factor) * width)
    x[rows] *= factor.repeat_interleave(width).reshape(-1, *[1] * (x.dim() - 1))


def clip(case, at, params, q, k, heads, kv_heads, width):
    for kind in "weight", "bias":
        if case == "gpt2":  # columns are outputs
            x = params[f"{at}.{kind}"]
            x = x.T if kind == "weight" else x
            scale(x, 0, q, width)
            scale(x, heads * width, k, width)
        elif case == "phi3" and kind == "weight":
            scale(params[f"{at}.weight"], 0, q, width)
            scale(params[f"{at}.weight"], heads * width, k, width)
        elif case == "gpt-neox":  # q, k and v of a head, then those of the next
            x = params[f"{at}.{kind}"]
            x = x.view(heads, 3, width, *x.shape[1:])
            x[:, 0] *= q.reshape(-1, *[1] * (x.dim() - 2))
            x[:, 1] *= k.reshape(-1, *[1] * (x.dim() - 2))
        else:
            for name, factor in ("q_proj", q), ("k_proj", k):
                if f"{at}.{name}.{kind}" in params:
                    scale(params[f"{at}.{name}.{kind}"], 0, factor, width)


def step(case):
    where, alpha = CASES[case]
    model = transformers.AutoModelForCausalLM.from_pretrained(HERE / case, attn_implementation="eager").double().eval()
    config, scores = model.config, []
    code = sys.modules[type(model).__module__]
    plain = code.eager_attention_forward
    code.eager_attention_forward = noting(plain, scores)
    ids = torch.tensor([(i * 37 + i * i * 11 + 5) % V for i in range(B * T + 1)])
    loss = F.cross_entropy(model(ids[:-1].reshape(B, T), use_cache=False).logits.reshape(B * T, V), ids[1:])
    code.eager_attention_forward = plain
    loss.backward()

    heads = config.num_attention_heads
    kv_heads = getattr(config, "num_key_value_heads", None) or heads
    width = getattr(config, "head_dim", None) or config.hidden_size // heads
    of_keys = torch.stack(scores).reshape(len(scores), kv_heads, -1).amax(2).flatten().sort().values
    tau = of_keys[len(of_keys) // 2 - 1 :][:2].mean().float().item()  # between two of them
    params = {n.removeprefix("transformer."): p.data - LR * p.grad for n, p in model.named_parameters()}
    for layer, s in enumerate(scores):
        q, k = factors(s, kv_heads, tau, alpha)
        clip(case, where.format(layer), params, q, k, heads, kv_heads, width)
    clipped = heads // kv_heads * int((of_keys > tau).sum())
    out = {"scores": torch.stack(scores), "clip": torch.tensor([tau, alpha, LR, clipped])}
    known = "c_attn", "q_proj", "k_proj", "qkv_proj", "query_key_value"
    out.update({n: p for n, p in params.items() if n.split(".")[-2] in known})
    return {f"{case}/{n}": p.float().contiguous() for n, p in out.items()}


if __name__ == "__main__":
    made = {}
    for case in CASES:
        made.update(step(case))
    sys.stdout.buffer.write(save(made))
