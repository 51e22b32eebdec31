#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# compare_exports.py ZEROTH DIR [MODEL...]: whether DeepSpeed and torch.distributed.checkpoint go on from what
# `zeroth checkpoint export --to` writes, by hand: it needs transformers 5.24, deepspeed 0.19.8 (DS_ACCELERATOR=cpu, gloo) and
# PyTorch 2.15, which the suite does without. ZEROTH_PLUGIN_PATH and ZEROTH_DATA_PATH are those of ZEROTH.
#
# Zeroth trains a tiny model for 14 steps, with a checkpoint behind the fourth, which is exported in each form. The libraries
# begin with other weights, load it, and train 10 steps on the same sequences: their losses are those of Zeroth's steps 5 to
# 14 within 1e-5, or the line of the case says by how much they are not, and the script fails.
import json
import os
import shutil
import subprocess
import sys

import torch
import transformers
from make_checkpoints import AFTER, BEFORE, KEEP, T, V, WIDE, gpt2, groups, llama, loss_of, tokens

NEAR = 1e-5
LR = 1e-2


def qwen3():
    return transformers.Qwen3Config(vocab_size=V, max_position_embeddings=32, hidden_size=8, intermediate_size=12, num_hidden_layers=2,
                                    num_attention_heads=2, num_key_value_heads=1, head_dim=4, tie_word_embeddings=True,
                                    initializer_range=0.2, bos_token_id=1, eos_token_id=2)


def untied_gpt2():
    config = gpt2()
    config.tie_word_embeddings = False
    return config


MODELS = {"gpt2": gpt2, "gpt2-untied": untied_gpt2, "llama": llama, "qwen3": qwen3}
PLAIN = {"gpt2": "*.bias *ln_*", "gpt2-untied": "*.bias *ln_*", "llama": "*.bias *norm.weight", "qwen3": "*norm.weight"}

CONF = """
[model]
path = {model}
[data]
plugin = tokens
path = {data}
format = uint16
order = sequential
[train]
sequence_length = {T}
steps = {KEEP}
train_batch_size = {WIDE}
micro_batch_size = 1
eval_every = 0
gradient_clipping = {clip}
[optimizer]
plugin = {optimizer}
lr = {LR}
weight_decay = 0.1
{more}
[optimizer.plain]
match = {plain}
weight_decay = 0
[scheduler]
plugin = {schedule}
warmup_num_steps = 3
[precision]
plugin = fp32
[checkpoint]
every = {BEFORE}
keep = 0
"""

# of Zeroth: the optimizer, its further options, the schedule; whether gradients are clipped
KINDS = {
    "adamw": dict(optimizer="adamw", more="", schedule="cosine", clip=1.0),
    "adam": dict(optimizer="adam", more="betas = 0.9, 0.95", schedule="cosine", clip=0),
    "own": dict(optimizer="adamw", more="", schedule="cosine", clip=1.0),  # there it is DeepSpeed's
    "sgd": dict(optimizer="sgd", more="momentum = 0.9", schedule="cosine", clip=0),
    "warmup": dict(optimizer="adamw", more="", schedule="warmup_decay_lr\nwarmup_type = linear", clip=1.0),
}


def optimizer_of(model, kind):
    if kind == "sgd":
        return torch.optim.SGD(groups(model), lr=LR, momentum=0.9)
    if kind == "adam":
        return torch.optim.Adam(groups(model), lr=LR, betas=(0.9, 0.95))
    return torch.optim.AdamW(groups(model), lr=LR)


def schedule_of(optimizer):
    return transformers.get_cosine_schedule_with_warmup(optimizer, 3, KEEP)


def another(config):
    torch.manual_seed(2)
    return transformers.AutoModelForCausalLM.from_config(config)


def begin(rank, world, port):
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(world), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port),
                      DS_ACCELERATOR="cpu")
    torch.set_num_threads(1)


def sequences_of(step, rank, world):
    n = WIDE // world
    return step * WIDE + rank * n, n


def mean_of(loss, world):
    mean = loss.detach().clone()
    torch.distributed.all_reduce(mean)
    return float(mean) / world


# ---- DeepSpeed ----

def deepspeed_rank(rank, world, case, stage, path, to, port):
    begin(rank, world, port)
    import deepspeed
    deepspeed.init_distributed(dist_backend="gloo")
    name, kind = case
    data = tokens()
    model = another(MODELS[name]())
    config = {"train_batch_size": WIDE, "train_micro_batch_size_per_gpu": WIDE // world, "zero_allow_untested_optimizer": True,
              "gradient_clipping": KINDS[kind]["clip"], "zero_optimization": {"stage": stage}, "checkpoint": {"load_universal": True}}
    more = {}
    if kind == "warmup":
        config["scheduler"] = {"type": "WarmupDecayLR", "params": {"total_num_steps": KEEP, "warmup_num_steps": 3,
                                                                   "warmup_max_lr": LR, "warmup_type": "linear"}}
    else:
        more["lr_scheduler"] = schedule_of
    if kind == "own":
        config["optimizer"] = {"type": "AdamW", "params": {"lr": LR}}
        more["model_parameters"] = groups(model)
    else:
        more["optimizer"] = optimizer_of(model, kind)
    engine, *_ = deepspeed.initialize(model=model, config=config, **more)
    engine.load_checkpoint(path)
    if stage == 3:  # which gives all parts of a rank one tensor as their count, and so counts each update as often as it has parts
        for state in engine.optimizer.optimizer.state.values():
            state["step"] = state["step"].clone()
    losses = []
    for step in range(BEFORE, KEEP):
        loss = loss_of(engine, data, *sequences_of(step, rank, world))
        engine.backward(loss)
        engine.step()
        losses.append(mean_of(loss, world))
    if rank == 0:
        write(to, losses)
    engine.destroy()


# ---- torch.distributed.checkpoint ----

def dcp_rank(rank, world, case, form, path, to, port):
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.default_planner import DefaultLoadPlanner
    from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader
    from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
    from torch.distributed.fsdp import fully_shard
    begin(rank, world, port)
    torch.distributed.init_process_group("gloo")
    name, kind = case
    data = tokens()
    model = another(MODELS[name]())
    if world > 1:
        mesh = torch.distributed.device_mesh.init_device_mesh("cpu", (world,))
        for layer in model.model.layers if hasattr(model, "model") else model.transformer.h:
            fully_shard(layer, mesh=mesh)
        fully_shard(model, mesh=mesh)
    optimizer = optimizer_of(model, kind)
    schedule = schedule_of(optimizer)
    weights, states = get_state_dict(model, optimizer)
    everything = {"model": weights, "optim": states}
    if form == "dcp":
        dcp.load(everything, checkpoint_id=path)
    else:
        dcp.load(everything, storage_reader=HuggingFaceStorageReader(path), planner=DefaultLoadPlanner(allow_partial_load=True))
    set_state_dict(model, optimizer, model_state_dict=everything["model"], optim_state_dict=everything["optim"])
    for _ in range(BEFORE):  # of a training that has made as many
        optimizer._opt_called = True
        schedule.step()
    clip = KINDS[kind]["clip"]
    losses = []
    for step in range(BEFORE, KEEP):
        loss = loss_of(model, data, *sequences_of(step, rank, world))
        loss.backward()
        if clip:
            torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        losses.append(mean_of(loss, world))
    if rank == 0:
        write(to, losses)
    torch.distributed.barrier()


# ---- all of it ----

def write(to, losses):
    with open(to, "w") as f:
        json.dump(losses, f)


def train(zeroth, base, name, kind):
    to = os.path.join(base, f"{name}-{kind}")
    shutil.rmtree(to, ignore_errors=True)
    os.makedirs(to)
    torch.manual_seed(1)
    transformers.utils.logging.disable_progress_bar()
    transformers.AutoModelForCausalLM.from_config(MODELS[name]()).save_pretrained(f"{to}/model")
    tokens().tofile(f"{to}/tokens.bin")
    with open(f"{to}/conf.ini", "w") as f:
        f.write(CONF.format(plain=PLAIN[name], model=f"{to}/model", data=f"{to}/tokens.bin", T=T, KEEP=KEEP, WIDE=WIDE, LR=LR, BEFORE=BEFORE,
                            **KINDS[kind]))
    subprocess.run([zeroth, "train", f"{to}/conf.ini", "-o", f"run.dir={to}/run"], check=True, capture_output=True)
    with open(f"{to}/run/metrics.jsonl") as f:
        losses = [row["loss"] for row in map(json.loads, f) if "loss" in row]
    assert len(losses) == KEEP, losses
    return to, losses[BEFORE:]


def export(zeroth, to, form):
    out = f"{to}/{form}"
    subprocess.run([zeroth, "checkpoint", "export", "--to", form, f"{to}/run/checkpoints/step-{BEFORE:08d}", out], check=True,
                   capture_output=True)
    return out


def compare(what, to, losses):
    with open(to) as f:
        theirs = json.load(f)
    off = max(abs(a - b) for a, b in zip(theirs, losses))
    good = len(theirs) == AFTER and off <= NEAR
    print(f"{'ok' if good else 'NOT OK':7s}{what}: losses differ by {off:.2g} at most", flush=True)
    return good


def run(target, world, *args):
    run.port += 1
    torch.multiprocessing.spawn(target, (world, *args, run.port), nprocs=world)


run.port = 29800


def model_cases(zeroth, base, name, kind):
    to, losses = train(zeroth, base, name, kind)
    good = True
    out, found = export(zeroth, to, "universal"), f"{to}/losses.json"
    for stage in (1, 2) if kind == "sgd" else (1, 2, 3):
        for world in (1, 2):
            run(deepspeed_rank, world, (name, kind), stage, out, found)
            good &= compare(f"{name} {kind}: DeepSpeed, stage {stage}, {world} ranks", found, losses)
    if kind in ("own", "warmup"):
        return good
    for form in ("dcp", "dcp-safetensors"):
        out = export(zeroth, to, form)
        for world in (1,) if KINDS[kind]["clip"] else (1, 2):
            run(dcp_rank, world, (name, kind), form, out, found)
            good &= compare(f"{name} {kind}: {form}, {world} ranks", found, losses)
    return good


def main():
    zeroth, base, names = sys.argv[1], os.path.abspath(sys.argv[2]), sys.argv[3:]
    good = True
    for name in names or MODELS:
        name, _, kind = name.partition(":")
        for k in [kind] if kind else KINDS:
            good &= model_cases(zeroth, base, name, k)
    sys.exit(not good)


if __name__ == "__main__":
    main()
