#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
#
# make_llama.py llama.bin [DIR]: one step each of tiny models of Hugging Face's transformers (4.45), in float64 as far as they
# let it, gradients through autograd. With DIR the models themselves are saved there, a directory for each.
#
# Nothing that goes in is stored: parameters and tokens come from the hash below, which tests/lib/model_fixture.c computes too, and
# are exact in fp32. What comes out, as little-endian float32, case after case in the order of CASES:
#   loss of each token [B*T], logits of the last token [V], then the gradient of their mean w.r.t. every parameter in
#   canonical order (embed_tokens, layers.0.*, layers.1.*, norm, lm_head unless tied). Then PACKED: sequences that
#   hold documents, of which no token sees another one, and the mean of the tokens' losses times their weights.
import struct
import sys

import torch
import torch.nn.functional as F
from transformers import LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM

from documents import documents

V, B, T = 61, 2, 13
M64 = 2**64 - 1
SAME = dict(vocab_size=V, hidden_size=16, intermediate_size=20, num_hidden_layers=2, num_attention_heads=4,
            max_position_embeddings=16, hidden_act="silu", rms_norm_eps=1e-5)
LLAMA3 = dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=64)
YARN = dict(rope_type="yarn", factor=4.0, beta_fast=4.0, beta_slow=0.25)

# as the table of the same names in tests/unit/model/t_llama.c
CASES = {
    "mha": (LlamaConfig, dict(num_key_value_heads=4, tie_word_embeddings=False)),
    "gqa-linear": (LlamaConfig, dict(num_key_value_heads=2, tie_word_embeddings=False,
                                     rope_scaling=dict(rope_type="linear", factor=4.0))),
    "mqa-tied-llama3": (LlamaConfig, dict(num_attention_heads=2, num_key_value_heads=1, tie_word_embeddings=True,
                                          rope_theta=100.0, rope_scaling=LLAMA3)),
    "mha-tied-yarn": (LlamaConfig, dict(num_attention_heads=2, num_key_value_heads=2, tie_word_embeddings=True,
                                        rope_theta=100.0, rope_scaling=YARN)),
    "head-dim": (LlamaConfig, dict(num_attention_heads=3, num_key_value_heads=3, head_dim=10, tie_word_embeddings=False)),
    "qwen2": (Qwen2Config, dict(num_key_value_heads=2, tie_word_embeddings=True, rms_norm_eps=1e-6, rope_theta=1e6)),
}


def splitmix(x):
    x = (x + 0x9E3779B97F4A7C15) & M64
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & M64
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & M64
    return x ^ (x >> 31)


def draw(stream, n):
    """n values in [-1, 1), multiples of 2^-15."""
    values = [(splitmix((stream << 32) + e) >> 48) / 32768.0 - 1 for e in range(n)]
    return torch.tensor(values, dtype=torch.float64)


def names(config):
    yield "model.embed_tokens.weight"
    for i in range(config.num_hidden_layers):
        for name in ("input_layernorm.weight", "self_attn.q_proj.weight", "self_attn.k_proj.weight", "self_attn.v_proj.weight",
                     "self_attn.o_proj.weight", "post_attention_layernorm.weight", "mlp.gate_proj.weight",
                     "mlp.up_proj.weight", "mlp.down_proj.weight"):
            yield f"model.layers.{i}.{name}"
        if config.model_type == "qwen2":
            for name in "qkv":
                yield f"model.layers.{i}.self_attn.{name}_proj.bias"
    yield "model.norm.weight"
    if not config.tie_word_embeddings:
        yield "lm_head.weight"


def parameters(model):
    p = dict(model.named_parameters())
    assert set(p) == set(names(model.config)), set(p) ^ set(names(model.config))
    with torch.no_grad():
        for number, name in enumerate(names(model.config)):
            x = draw(number, p[name].numel()).reshape(p[name].shape) / 4
            p[name].copy_(1 + x if x.dim() == 1 and name.endswith("weight") else x)
    return [(name, p[name]) for name in names(model.config)]


def tokens(stream):
    return torch.tensor([(splitmix((stream << 32) + e) >> 33) % V for e in range(B * T)]).reshape(B, T)


# cases that come once more, cut into documents
PACKED = ["gqa-linear", "qwen2"]


out = open(sys.argv[1], "wb")
for case, packed in [(c, False) for c in CASES] + [(c, True) for c in PACKED]:
    kind, options = CASES[case]
    config = kind(**{**SAME, **options}, attn_implementation="eager")
    model = (Qwen2ForCausalLM if kind is Qwen2Config else LlamaForCausalLM)(config).double().train()
    p = parameters(model)
    given, weights = {}, torch.ones(B * T).double()
    if packed:
        starts, weights = documents(B, T)
        t = torch.arange(T)
        apart = (t[None, None, :] > t[None, :, None]) | (t[None, None, :] < starts[:, :, None])
        mask = torch.zeros(B, 1, T, T).double().masked_fill(apart[:, None], torch.finfo(torch.float64).min)
        given = dict(position_ids=t[None, :] - starts, attention_mask=mask)
    y = model(tokens(1000), use_cache=False, **given).logits.reshape(B * T, V).double()
    loss = F.cross_entropy(y, tokens(1001).reshape(-1), reduction="none") * weights
    loss.mean().backward()
    values = loss.tolist() + y[-1].tolist()
    for _, x in p:
        values += x.grad.reshape(-1).tolist()
    out.write(struct.pack("<%df" % len(values), *values))
    print("%s: %d values, mean loss %.6f, least |grad| %.1e" % (case, len(values), loss.mean(), min(x.grad.norm() for _, x in p)))
    if len(sys.argv) > 2 and not packed:
        model.float().save_pretrained(f"{sys.argv[2]}/{case}")
