#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# make_pretrained.py DIR [[--losses | --aux] CASE...]: directories as transformers' save_pretrained leaves them, of tiny random
# models, and beside their config.json and safetensors what one step of theirs gives in float64, as expect.safetensors:
#   loss, of the mean over B*T tokens; logits after the first sequence; grad.NAME of every parameter, NAME as in the model
#   file; losses of 20 steps of AdamW (lr 1e-3, weight decay 0.1), each on the same tokens;
#   of mixtures of experts also aux.loss, which is 0.5 times transformers' load balancing loss plus 0.125 times the mean
#   square of the log of the sum of exponentials of the routers' logits, and aux.grad.NAME and aux.losses: gradients and
#   20 losses as above, of a training to which that is added.
# tokens.bin has the tokens, uint16: sequence b is [b*T, b*T + T), its targets one further.
# transformers 4.44 with PyTorch 1.13 wrote gpt2, llama and qwen2 (4.40 the GPT-2s; 5.23, 2.15 llama-dynamic); 4.57 with 2.4
# the other families and, with --losses, the losses of all; with --aux, those of routers.
import json
import os
import sys

import numpy
import torch
import torch.nn.functional as F
import transformers
from safetensors.torch import load_file, save_file

B, T, V = 2, 13, 61


def gpt2(**more):
    return transformers.GPT2Config(vocab_size=V, n_positions=16, n_embd=16, n_layer=2, n_head=2, resid_pdrop=0,
                                   embd_pdrop=0, attn_pdrop=0, initializer_range=0.2, **more)


def llama(kind=transformers.LlamaConfig, **more):
    return kind(**{**dict(vocab_size=V, max_position_embeddings=32, hidden_size=16, intermediate_size=24, num_hidden_layers=2,
                          num_attention_heads=4, initializer_range=0.2, bos_token_id=1, eos_token_id=2), **more})


LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 16}
YARN = {"rope_type": "yarn", "factor": 4.0}
DYNAMIC = {"rope_type": "dynamic", "factor": 4.0}  # acts beyond the context only: these sequences just fill it

# name: (config, type of the file, save the model without its head, most bytes of a file)
CASES = {
    "gpt2": (gpt2(), torch.float32, False, "1GB"),
    "gpt2-bf16": (gpt2(n_inner=64), torch.bfloat16, True, "1GB"),
    "gpt2-shards": (gpt2(), torch.float16, False, "6KB"),
    "llama": (llama(num_key_value_heads=2, rope_scaling=LLAMA3, rope_theta=5e5), torch.float32, False, "1GB"),
    "llama-tied": (llama(tie_word_embeddings=True, rope_scaling={"type": "linear", "factor": 2.0}), torch.bfloat16, False, "1GB"),
    "llama-yarn": (llama(num_key_value_heads=1, rms_norm_eps=1e-5, rope_scaling=YARN), torch.float32, False, "1GB"),
    "llama-dynamic": (llama(max_position_embeddings=T, num_key_value_heads=2, tie_word_embeddings=True, rope_scaling=DYNAMIC),
                      torch.float32, False, "1GB"),
    "qwen2": (llama(transformers.Qwen2Config, num_key_value_heads=2, tie_word_embeddings=True), torch.float16, False, "4KB"),
}

LONG = {"type": "longrope", "short_factor": [1.0, 1.1, 1.3], "long_factor": [1.0, 2.5, 4.0]}


def small(kind, **more):
    return llama(kind, **{**dict(num_key_value_heads=2, pad_token_id=0), **more})


def gemma(kind, **more):
    return small(kind, **{**dict(head_dim=8, num_attention_heads=2, num_key_value_heads=1), **more})


def neox(**more):
    return transformers.GPTNeoXConfig(vocab_size=V, hidden_size=16, intermediate_size=40, num_hidden_layers=2,
                                      num_attention_heads=2, max_position_embeddings=16, initializer_range=0.2, **more)


if hasattr(transformers, "SmolLM3Config"):
    CASES.update({name: (config, torch.float32, False, "1GB") for name, config in {
        "gpt2-untied": gpt2(tie_word_embeddings=False, activation_function="gelu", n_inner=40, layer_norm_epsilon=1e-3),
        "llama-bias": small(transformers.LlamaConfig, attention_bias=True, mlp_bias=True),
        "mistral": small(transformers.MistralConfig, sliding_window=5),
        "qwen3": small(transformers.Qwen3Config, head_dim=6, tie_word_embeddings=True),
        "gemma": gemma(transformers.GemmaConfig),
        "gemma2": gemma(transformers.Gemma2Config, num_hidden_layers=3, sliding_window=4, query_pre_attn_scalar=10,
                        attn_logit_softcapping=2.0, final_logit_softcapping=3.0),
        "gemma3": gemma(transformers.Gemma3TextConfig, num_hidden_layers=3, sliding_window=6, sliding_window_pattern=2,
                        query_pre_attn_scalar=7, rope_scaling={"rope_type": "linear", "factor": 2.0}, rope_theta=1e4,
                        rope_local_base_freq=100.0),
        "phi3": small(transformers.Phi3Config, sliding_window=6, partial_rotary_factor=0.5, original_max_position_embeddings=32),
        "phi3-long": small(transformers.Phi3Config, hidden_size=24, rope_scaling=LONG,
                           original_max_position_embeddings=8),
        "olmo2": small(transformers.Olmo2Config, rms_norm_eps=1e-5),
        "smollm3": small(transformers.SmolLM3Config, no_rope_layer_interval=2),
        "gpt-neox": neox(rotary_pct=0.5),
        "gpt-neox-serial": neox(use_parallel_residual=False, rotary_pct=1.0, hidden_act="gelu_new", tie_word_embeddings=True),
        "starcoder2": small(transformers.Starcoder2Config, sliding_window=7, norm_epsilon=1e-4),
        "mixtral": small(transformers.MixtralConfig, num_local_experts=4, intermediate_size=12, pad_token_id=None),
        "qwen3-moe": small(transformers.Qwen3MoeConfig, head_dim=6, num_experts=5, num_experts_per_tok=2, norm_topk_prob=True,
                           moe_intermediate_size=12, tie_word_embeddings=True, pad_token_id=None),
        "olmoe": small(transformers.OlmoeConfig, num_experts=4, num_experts_per_tok=3, intermediate_size=12, pad_token_id=None),
        "granite": small(transformers.GraniteConfig, embedding_multiplier=3.0, residual_multiplier=0.4, attention_multiplier=0.3,
                         logits_scaling=2.0),
    }.items()})


def tokens():
    return torch.tensor([(i * 37 + i * i * 11 + 5) % V for i in range(B * T + 1)])


def plain(model, ids):
    return F.cross_entropy(model(ids[:-1].reshape(B, T)).logits.reshape(B * T, V), ids[1:]), 0


def with_routers(model, ids):
    out = model(ids[:-1].reshape(B, T), output_router_logits=True)
    z = torch.cat(out.router_logits).logsumexp(-1).square().mean()
    return F.cross_entropy(out.logits.reshape(B * T, V), ids[1:]), 0.5 * out.aux_loss + 0.125 * z


def train(model, ids, both=plain):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.1)
    losses = []
    for _ in range(20):
        optimizer.zero_grad()
        loss, aux = both(model, ids)
        (loss + aux).backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def make(root, name):
    config, dtype, base, shard = CASES[name]
    where = os.path.join(root, name)
    torch.manual_seed(1234)
    model = transformers.AutoModelForCausalLM.from_config(config).eval()
    for p in model.parameters():  # biases and gains, too, are no constants
        if p.dim() == 1:
            p.data += 0.3 * torch.randn_like(p)
    model = model.to(dtype)
    (model.base_model if base else model).save_pretrained(where, safe_serialization=True, max_shard_size=shard)
    model = transformers.AutoModelForCausalLM.from_pretrained(where, attn_implementation="eager").double().eval()
    ids = tokens()
    logits = model(ids[:-1].reshape(B, T)).logits
    loss = F.cross_entropy(logits.reshape(B * T, V), ids[1:])
    loss.backward()
    expect = {"loss": loss.detach().reshape(1), "logits": logits[0, -1].detach()}
    for key, p in (model.base_model if base else model).named_parameters():
        expect["grad." + key] = p.grad.clone()
    expect["losses"] = torch.tensor(train(model, ids))
    save_file({k: v.float().contiguous() for k, v in expect.items()}, os.path.join(where, "expect.safetensors"))
    os.path.exists(extra := os.path.join(where, "generation_config.json")) and os.remove(extra)
    print("%-16s loss %.6f, %d tensors" % (name, loss.item(), len(expect) - 3))


def there(root, name):
    where = os.path.join(root, name)
    model = transformers.AutoModelForCausalLM.from_pretrained(where, attn_implementation="eager").double().eval()
    return where, model, tokens(), load_file(os.path.join(where, "expect.safetensors"))


def aux_of(root, name):
    """Adds what the losses of routers change to a directory that is there already."""
    where, model, ids, expect = there(root, name)
    loss, aux = with_routers(model, ids)
    (loss + aux).backward()
    expect["aux.loss"] = aux.detach().reshape(1).float()
    for key, p in model.named_parameters():
        expect["aux.grad." + key] = p.grad.float()
    expect["aux.losses"] = torch.tensor(train(model, ids, with_routers)).float()
    save_file(expect, os.path.join(where, "expect.safetensors"))
    print("%-16s aux.loss %.6f" % (name, aux.item()))


def losses_of(root, name):
    """Adds the losses of a directory that is there already."""
    where, model, ids, expect = there(root, name)
    expect["losses"] = torch.tensor(train(model, ids)).float()
    assert abs(expect["losses"][0] / expect["loss"][0] - 1) < 1e-6, "not the model that it was"
    save_file(expect, os.path.join(where, "expect.safetensors"))


root = sys.argv[1]
if sys.argv[2:3] in (["--losses"], ["--aux"]):
    for name in sys.argv[3:]:
        (losses_of if sys.argv[2] == "--losses" else aux_of)(root, name)
    sys.exit()
os.makedirs(root, exist_ok=True)
tokens().numpy().astype("<u2").tofile(os.path.join(root, "tokens.bin"))
for name in sys.argv[2:] or CASES:
    make(root, name)
