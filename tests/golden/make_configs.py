#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# make_configs.py PRETRAINED: writes PRETRAINED/configs.json: config.json in other words for the models of make_pretrained.py, each
# with the loss that transformers computes with it and the weights that are there already, in float64. Run it with transformers
# 4.57, then with 5.24: an entry is
#   model   the directory whose weights it has
#   what    what is special about it
#   set     keys of that directory's config.json that are replaced; null: that are taken out
#   config  or all of config.json, as a version saved that model again
#   loss    of the tokens of tokens.bin, by the versions that read these keys, which must agree; or
#   refused what the versions say that refuse it
#   names   what Zeroth's refusal has to name, where it must refuse what transformers computes
import json
import os
import shutil
import sys
import tempfile

import numpy
import torch
import torch.nn.functional as F
import transformers

B, T, V = 2, 13, 61
VERSION = ".".join(transformers.__version__.split(".")[:2])
OLD = VERSION.startswith("4.")

# pairs that turn of a head
PAIRS = {"gpt-neox": 2, "llama": 2, "mistral": 2, "qwen2": 2, "qwen3": 3, "gemma": 4, "gemma2": 4, "gemma3": 4, "phi3": 1, "phi3-long": 3,
         "olmo2": 2, "smollm3": 2, "starcoder2": 2, "granite": 2, "mixtral": 2, "qwen3-moe": 3, "olmoe": 2}
THETA = 100.0


def factors(first, pairs):
    return [round(first + 0.7 * i * (1 + 0.1 * i), 3) for i in range(pairs)]


def kinds(model):
    pairs = PAIRS[model]
    return {
        "default": {},
        "linear": {"factor": 2.5},
        "dynamic": {"factor": 4.0},
        "yarn": {"factor": 4.0, "original_max_position_embeddings": 8, "beta_fast": 4.0, "beta_slow": 0.5},
        "longrope": {"short_factor": factors(1.0, pairs), "long_factor": factors(2.0, pairs), "original_max_position_embeddings": 8},
        "llama3": {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 16},
    }


def theta_keys(model):
    return {"gpt-neox": {"rotary_emb_base": THETA}, "gemma3": {"rope_theta": THETA, "rope_local_base_freq": 20.0}}.get(
        model, {"rope_theta": THETA})


def head_dim(model):
    """Both versions fail to multiply null with the part that turns."""
    return {"head_dim": 4} if model in ("mistral", "mixtral") else {}


def old_keys(model, kind, more):
    """As transformers 4 writes them: what 4.57 does not read inside rope_scaling is beside it."""
    keys = {**theta_keys(model), "rope_parameters": None, "rope_scaling": None}
    scaling = dict(more)
    if kind == "longrope":
        keys["original_max_position_embeddings"] = scaling.pop("original_max_position_embeddings")
        if model == "gemma3":  # 4.57 reads no such key there, and never goes far
            scaling["original_max_position_embeddings"] = keys.pop("original_max_position_embeddings")
        if not model.startswith("phi3"):
            context = 16 if model == "gpt-neox" else 32
            scaling["factor"] = context / 8
    if kind != "default":
        keys["rope_scaling"] = {"type" if model in ("phi3", "phi3-long", "olmo2") else "rope_type": kind, **scaling}
    return {**keys, **head_dim(model)}


def new_keys(model, kind, more, share):
    """As transformers 5 does."""
    keys = {**{k: None for k in theta_keys(model)}, "rope_scaling": None}
    inside = {"rope_type": kind, "rope_theta": THETA, **more}
    if kind == "longrope":
        inside["factor"] = 2.0  # not what the contexts say
        if model.startswith("phi3"):  # reads it beside them only
            keys["original_max_position_embeddings"] = 8
    if model in ("gpt-neox", "phi3"):
        inside["partial_rotary_factor"] = share
        keys.update({"rotary_pct": None, "partial_rotary_factor": None})
    if model == "gemma3":
        inside = {"full_attention": inside, "sliding_attention": {"rope_type": "default", "rope_theta": 20.0}}
    return {**keys, **head_dim(model), "rope_parameters": inside}


def rotary_cases():
    for model in PAIRS:
        for kind, more in kinds(model).items():
            if model == "phi3" and kind == "longrope" or model == "phi3-long" and kind != "longrope":
                continue
            yield model, kind + ", keys of 4", old_keys(model, kind, more)
            yield model, kind + ", keys of 5", new_keys(model, kind, more, 0.5)
    yarn = kinds("llama")["yarn"]
    yield "gpt-neox", "yarn, a quarter turns", new_keys("gpt-neox", "yarn", yarn, 0.25)
    yield "llama", "yarn, its gain given", new_keys("llama", "yarn", {**yarn, "attention_factor": 1.3}, 1)
    yield "llama", "longrope, its gain given", new_keys("llama", "longrope", {**kinds("llama")["longrope"], "attention_factor": 1.3}, 1)
    yield "llama", "longrope of short sequences", new_keys(
        "llama", "longrope", {**kinds("llama")["longrope"], "original_max_position_embeddings": 16}, 1)
    yield "granite", "yarn, its gain given", new_keys("granite", "yarn", {**yarn, "attention_factor": 1.3}, 1)
    yield "phi3-long", "longrope, within a window", {**new_keys("phi3-long", "longrope", kinds("phi3-long")["longrope"], 1),
                                                     "sliding_window": 6}
    yield "phi3-long", "its old name", {**old_keys("phi3-long", "longrope", kinds("phi3-long")["longrope"]),
                                        "rope_scaling": {"type": "su", "short_factor": factors(1.0, 3), "long_factor": factors(2.0, 3)}}
    yield "gemma3", "layers without a period", {"layer_types": ["full_attention", "sliding_attention", "sliding_attention"]}
    yield "gemma2", "layers without a period", {"layer_types": ["full_attention", "full_attention", "sliding_attention"]}
    yield "smollm3", "layers without positions", {"no_rope_layers": [0, 1]}
    for model in ("llama", "gpt2-untied", "gpt-neox", "granite", "mistral", "mixtral", "olmo2", "olmoe", "phi3"):
        yield model, "tied, with a head of its own", {"tie_word_embeddings": True}  # 4.57 drops that
    yield "qwen3-moe", "experts by another name", {"num_experts": None, "num_local_experts": 5}
    yield "qwen3-moe", "as Qwen3-Coder is published", {"qkv_bias": False, "use_qk_norm": True, "shared_expert_intermediate_size": 0}
    yield "starcoder2", "as its largest is published", {"mlp_type": "default", "norm_type": "layer_norm", "rms_norm_eps": 1e-5}


ACT_KEY = {"gpt2": "activation_function", "gemma2": "hidden_activation", "gemma3": "hidden_activation"}
GELU = ("gelu", "gelu_new", "gelu_pytorch_tanh")


def activation_cases():
    """Each function that ACT2FN has by a name which is in use, in every family: computed, or refused by name."""
    tanh = GELU[1:]
    computed = {"gpt2": GELU, "gpt-neox": GELU, "starcoder2": GELU, "gemma": GELU,
                "gemma2": tanh[1:], "gemma3": tanh[1:]}
    for model in ["gpt2", *PAIRS]:
        if model == "phi3-long":
            continue
        key = ACT_KEY.get(model, "hidden_act")
        for name in (*GELU, "gelu_fast", "quick_gelu", "relu", "silu"):
            here = name in computed.get(model, ("silu",))
            yield model, key + " = " + name, {key: name}, None if here else key
    # No version's model of Gemma reads hidden_activation. By gelu 5.24 means its tanh form there, and 4.57 gelu itself.
    for name in GELU:
        yield "gemma", "gelu, hidden_activation = " + name, {"hidden_act": "gelu", "hidden_activation": name}, \
            None if name == "gelu_pytorch_tanh" else "hidden_activation"


def tokens():
    return torch.tensor([(i * 37 + i * i * 11 + 5) % V for i in range(B * T + 1)])


def directory(root, entry, where):
    for name in os.listdir(os.path.join(root, entry["model"])):
        if "expect" not in name and name != "config.json":
            shutil.copy(os.path.join(root, entry["model"], name), where)
    config = entry.get("config")
    if config is None:
        config = json.load(open(os.path.join(root, entry["model"], "config.json")))
        for key, value in entry["set"].items():
            config.pop(key, None) if value is None else config.update({key: value})
    json.dump(config, open(os.path.join(where, "config.json"), "w"))


def loss_of(where):
    model = transformers.AutoModelForCausalLM.from_pretrained(where, attn_implementation="eager", dtype=torch.float32,
                                                              **({} if OLD else {"experts_implementation": "eager"})).double().eval()
    ids = tokens()
    with torch.no_grad():
        logits = model(ids[:-1].reshape(B, T)).logits
        return F.cross_entropy(logits.reshape(B * T, V), ids[1:]).item()


def judge(root, entry):
    with tempfile.TemporaryDirectory() as where:
        directory(root, entry, where)
        try:
            loss = float("%.9g" % loss_of(where))
        except Exception as e:  # of whatever kind
            entry.setdefault("refused", {})[VERSION] = " ".join(str(e).split())[-120:]
            return
        entry.setdefault("loss", {})[VERSION] = loss


def is_new(entry):
    """Whether 4.57 would read past its keys."""
    keys = entry.get("set") or entry["config"]
    return bool(keys.get("rope_parameters")) or "num_local_experts" in keys and entry["model"] == "qwen3-moe"


def saved_again(root, model):
    with tempfile.TemporaryDirectory() as where:
        transformers.AutoModelForCausalLM.from_pretrained(os.path.join(root, model)).save_pretrained(where)
        return json.load(open(os.path.join(where, "config.json")))


def main(root):
    path = os.path.join(root, "configs.json")
    entries = [] if OLD else json.load(open(path))
    if OLD:
        entries = [{"model": m, "what": w, "set": s} for m, w, s in rotary_cases()]
        for model, what, keys, names in activation_cases():
            entries.append({"model": model, "what": what, "set": keys, **({"names": names} if names else {})})
    models = sorted(m for m in os.listdir(root) if os.path.isdir(os.path.join(root, m)))
    entries += [{"model": m, "what": "saved by " + VERSION, "config": saved_again(root, m)} for m in models]
    for entry in entries:
        if not OLD or not is_new(entry):
            judge(root, entry)
        print("%-16s %-28s %s" % (entry["model"], entry["what"], entry.get("loss", entry.get("refused"))))
    with open(path, "w") as f:
        f.write("[\n" + ",\n".join(json.dumps(e) for e in entries) + "\n]\n")


main(sys.argv[1])
