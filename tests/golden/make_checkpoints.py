#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# make_checkpoints.py DIR [CASE...]: checkpoints of tiny models, as the libraries themselves write them, and beside each
# losses.txt: what they learn in the 10 steps that follow. Step s of the Trainer's trains on sequences 2s and 2s + 1 of
# tokens.bin (uint16), of the others' on 4s to 4s + 3, each of 12 tokens and their targets, as `[data] order = sequential` gives them. orders.txt has the parameters of the models
# of tests/golden/pretrained in the order in which optimizers number them.
#
# transformers 5.24, accelerate 1.15, deepspeed 0.19.8 (DS_ACCELERATOR=cpu, gloo), PyTorch 2.15.
import os
import shutil
import sys

import numpy
import torch
import transformers

T, B, V, BEFORE, AFTER = 12, 2, 32, 4, 10
WIDE = 4  # sequences of a step that several ranks share
KEEP = BEFORE + AFTER


def tokens():
    rng = numpy.random.default_rng(7)
    return rng.integers(0, V, (KEEP * WIDE * T + 1,)).astype(numpy.uint16)


def sequences(data, first, n):
    rows = [data[i * T:i * T + T + 1].astype(numpy.int64) for i in range(first, first + n)]
    x = torch.from_numpy(numpy.stack(rows))
    return x[:, :-1], x[:, 1:]


def llama(**more):
    return transformers.LlamaConfig(**{**dict(vocab_size=V, max_position_embeddings=32, hidden_size=8, intermediate_size=12,
                                              num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=1,
                                              attention_bias=True, initializer_range=0.2, bos_token_id=1, eos_token_id=2),
                                       **more})


def gpt2():
    return transformers.GPT2Config(vocab_size=V, n_positions=16, n_embd=8, n_layer=1, n_head=2, resid_pdrop=0, embd_pdrop=0,
                                   attn_pdrop=0, initializer_range=0.2, bos_token_id=1, eos_token_id=2)


def loss_of(model, data, first, n):
    x, y = sequences(data, first, n)
    logits = model(input_ids=x).logits.float()
    return torch.nn.functional.cross_entropy(logits.reshape(-1, V), y.reshape(-1))


def groups(model):
    named = list(model.named_parameters())
    return [{"params": [p for _, p in named if p.ndim > 1], "weight_decay": 0.1},
            {"params": [p for _, p in named if p.ndim == 1], "weight_decay": 0.0}]


# ---- transformers' Trainer ----

class Rows(torch.utils.data.Dataset):
    def __init__(self, data):
        self.data = data

    def __len__(self):
        return KEEP * B

    def __getitem__(self, i):
        row = torch.from_numpy(self.data[i * T:i * T + T + 1].astype(numpy.int64))
        return {"input_ids": row[:-1], "labels": row[1:]}


class Ordered(transformers.Trainer):
    def _get_train_sampler(self, *_):
        return torch.utils.data.SequentialSampler(self.train_dataset)

    def compute_loss(self, model, inputs, return_outputs=False, **_):
        logits = model(input_ids=inputs["input_ids"]).logits.float()
        loss = torch.nn.functional.cross_entropy(logits.reshape(-1, V), inputs["labels"].reshape(-1))
        self.seen.append(float(loss.detach()))
        return (loss, logits) if return_outputs else loss


def trainer(to, data, config, **more):
    torch.manual_seed(1)
    model = transformers.AutoModelForCausalLM.from_config(config)
    args = transformers.TrainingArguments(**{**dict(
        output_dir=to + ".tmp", max_steps=KEEP, per_device_train_batch_size=B, learning_rate=1e-2, weight_decay=0.1,
        lr_scheduler_type="cosine", warmup_steps=3, save_steps=BEFORE, save_strategy="steps", logging_steps=1, report_to=[],
        use_cpu=True, dataloader_drop_last=True, seed=1, remove_unused_columns=False), **more})
    t = Ordered(model=model, args=args, train_dataset=Rows(data))
    t.seen = []
    t.train()
    shutil.rmtree(to, ignore_errors=True)
    shutil.copytree(f"{to}.tmp/checkpoint-{BEFORE}", to)
    shutil.rmtree(to + ".tmp")
    for name in os.listdir(to):
        if name not in ("config.json", "model.safetensors", "optimizer.pt", "scheduler.pt", "scaler.pt", "trainer_state.json"):
            os.remove(os.path.join(to, name))
    write_losses(to, t.seen[BEFORE:])


# ---- DeepSpeed ----

def ds_train(rank, world, to, stage, data):
    import deepspeed
    torch.manual_seed(1)
    model = transformers.AutoModelForCausalLM.from_config(llama())
    if rank == 0:
        model.config.save_pretrained(to)
    config = {"train_batch_size": WIDE, "train_micro_batch_size_per_gpu": WIDE // world, "gradient_clipping": 1.0,
              "zero_optimization": {"stage": stage}, "zero_allow_untested_optimizer": True,
              "scheduler": {"type": "WarmupDecayLR", "params": {"total_num_steps": KEEP, "warmup_num_steps": 3,
                                                                "warmup_max_lr": 1e-2, "warmup_type": "linear"}}}
    engine, *_ = deepspeed.initialize(model=model, optimizer=torch.optim.AdamW(groups(model), lr=1e-2), config=config)
    losses = []
    for step in range(KEEP):
        n = WIDE // world
        loss = loss_of(engine, data, step * WIDE + rank * n, n)
        engine.backward(loss)
        engine.step()
        mean = loss.detach().clone()
        torch.distributed.all_reduce(mean)
        losses.append(float(mean) / world)
        if step + 1 == BEFORE:
            engine.save_checkpoint(to)
    engine.destroy()
    return losses[BEFORE:]


def ds_rank(rank, world, base, data):
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(world), MASTER_ADDR="127.0.0.1",
                      MASTER_PORT=str(29611 + world), DS_ACCELERATOR="cpu")
    torch.set_num_threads(1)
    import deepspeed
    deepspeed.init_distributed(dist_backend="gloo")
    for stage in (1, 2, 3):
        to = os.path.join(base, f"zero{stage}-{world}")
        if rank == 0:
            shutil.rmtree(to, ignore_errors=True)
            os.makedirs(to)
        torch.distributed.barrier()
        losses = ds_train(rank, world, to, stage, data)
        if rank == 0:
            write_losses(to, losses)
            os.remove(os.path.join(to, "zero_to_fp32.py"))
            os.remove(os.path.join(to, "zero_to_torch.py"))
            print(to, losses[0], losses[-1], flush=True)


def deepspeed_cases(base, data, world):
    torch.multiprocessing.spawn(ds_rank, (world, base, data), nprocs=world)


def universal(base, data):
    from deepspeed.checkpoint.ds_to_universal import main as convert
    of, to = os.path.join(base, "zero1-2"), os.path.join(base, "universal")
    shutil.rmtree(to, ignore_errors=True)
    convert(type("Args", (), dict(input_folder=f"{of}/global_step{BEFORE}", output_folder=to, num_extract_workers=1,
                                  num_merge_workers=1, keep_temp_folder=False, strict=True, inject_missing_state=True)))
    shutil.copy(f"{of}/config.json", to)
    shutil.copy(f"{of}/losses.txt", to)


def scaled(base, data):
    """The universal checkpoint's options with the loss scaler of a training in fp16, after overflows."""
    os.environ.update(RANK="0", LOCAL_RANK="0", WORLD_SIZE="1", MASTER_ADDR="127.0.0.1", MASTER_PORT="29610", DS_ACCELERATOR="cpu")
    import deepspeed
    from deepspeed.runtime.fp16.loss_scaler import DynamicLossScaler
    deepspeed.init_distributed(dist_backend="gloo")
    scaler = DynamicLossScaler(init_scale=2.0 ** 16, scale_window=1000, min_scale=1, delayed_shift=2, consecutive_hysteresis=False)
    for overflow in (True, True, False, False):
        scaler.update_scale(overflow)
    state = torch.load(os.path.join(base, "universal/zero/optimizer_state.pt"), weights_only=False)
    state.update(loss_scaler=scaler, dynamic_loss_scale=True)
    torch.save(state, os.path.join(base, "scaled.pt"))
    print(scaler.__dict__)
    grad = torch.amp.GradScaler("cpu")  # as the Trainer saves it
    parameter = torch.nn.Parameter(torch.ones(2))
    optimizer = torch.optim.SGD([parameter], lr=0)
    for _ in range(3):
        grad.scale(parameter.sum()).backward()
        grad.step(optimizer)
        grad.update()
        optimizer.zero_grad()
    torch.save(grad.state_dict(), os.path.join(base, "scaler.pt"))
    print(grad.state_dict())


# ---- torch.distributed.checkpoint ----

def fsdp_rank(rank, world, base, data):
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageWriter
    from torch.distributed.checkpoint.state_dict import get_state_dict
    from torch.distributed.fsdp import fully_shard
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(world), MASTER_ADDR="127.0.0.1",
                      MASTER_PORT=str(29711 + world))
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo")
    mesh = torch.distributed.device_mesh.init_device_mesh("cpu", (world,))
    os.chdir(base)  # the metadata has the path
    to = f"dcp-{world}"
    if rank == 0:
        shutil.rmtree(to, ignore_errors=True)
        os.makedirs(to)
    torch.distributed.barrier()
    torch.manual_seed(1)
    model = transformers.AutoModelForCausalLM.from_config(llama(attention_bias=False))
    if rank == 0:
        model.config.save_pretrained(to)
    for layer in model.model.layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(groups(model), lr=1e-2)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1, (step + 1) / 4))
    losses, n = [], WIDE // world
    for step in range(KEEP):
        loss = loss_of(model, data, step * WIDE + rank * n, n)
        loss.backward()
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        mean = loss.detach().clone()
        torch.distributed.all_reduce(mean)
        losses.append(float(mean) / world)
        if step + 1 == BEFORE:
            weights, states = get_state_dict(model, optimizer)
            dcp.save({"model": weights, "optim": states}, checkpoint_id=os.path.join(to, "checkpoint"))
            dcp.save(weights, storage_writer=HuggingFaceStorageWriter(os.path.join(to, "safetensors"), save_distributed=True))
    if rank == 0:
        write_losses(to, losses[BEFORE:])
        print(to, losses[BEFORE], losses[-1], flush=True)
    torch.distributed.barrier()


def dcp_cases(base, data, world):
    torch.multiprocessing.spawn(fsdp_rank, (world, base, data), nprocs=world)


# ---- accelerate's FSDP ----

def accelerate_rank(rank, world, base, data, whole):
    """A tied model, as transformers' Trainer lets accelerate save it: of each rank its part, or whole."""
    from accelerate import Accelerator
    from accelerate.utils import FullyShardedDataParallelPlugin
    from accelerate.utils.fsdp_utils import save_fsdp_model, save_fsdp_optimizer
    from safetensors.torch import save_file
    from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
    from torch.distributed.fsdp import fully_shard
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(world), MASTER_ADDR="127.0.0.1",
                      MASTER_PORT=str(29811 + world))
    torch.set_num_threads(1)
    accelerator = Accelerator(cpu=True)
    mesh = torch.distributed.device_mesh.init_device_mesh("cpu", (world,))
    os.chdir(base)  # the metadata has the path
    to = "accelerate-whole" if whole else f"accelerate-{world}"
    if rank == 0:
        shutil.rmtree(to, ignore_errors=True)
        os.makedirs(to)
    torch.distributed.barrier()
    torch.manual_seed(1)
    model = transformers.AutoModelForCausalLM.from_config(llama(attention_bias=False, tie_word_embeddings=True))
    if rank == 0:
        model.config.save_pretrained(to)
    for layer in model.model.layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(groups(model), lr=1e-2)
    plugin = FullyShardedDataParallelPlugin(fsdp_version=2, state_dict_type="FULL_STATE_DICT" if whole else "SHARDED_STATE_DICT")
    losses, n = [], WIDE // world
    for step in range(KEEP):
        loss = loss_of(model, data, step * WIDE + rank * n, n)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        mean = loss.detach().clone()
        torch.distributed.all_reduce(mean)
        losses.append(float(mean) / world)
        if step + 1 == BEFORE:
            if whole:  # the Trainer has weights in model.safetensors then
                weights = get_model_state_dict(model, options=StateDictOptions(full_state_dict=True, cpu_offload=True))
                weights.pop("lm_head.weight", None)
                if rank == 0:
                    save_file({k: v.contiguous() for k, v in weights.items()}, f"{to}/model.safetensors", {"format": "pt"})
            else:
                save_fsdp_model(plugin, accelerator, model, to)
            save_fsdp_optimizer(plugin, accelerator, optimizer, model, to)
    if rank == 0:
        transformers.TrainerState(global_step=BEFORE).save_to_json(f"{to}/trainer_state.json")
        write_losses(to, losses[BEFORE:])
        print(to, losses[BEFORE], losses[-1], flush=True)
    torch.distributed.barrier()


def accelerate_cases(base, data, world, whole):
    torch.multiprocessing.spawn(accelerate_rank, (world, base, data, whole), nprocs=world)


def write_losses(to, losses):
    with open(os.path.join(to, "losses.txt"), "w") as f:
        f.writelines(f"{x:.9g}\n" for x in losses)


CASES = {
    "trainer-llama": lambda base, data: trainer(os.path.join(base, "trainer-llama"), data, llama()),
    "trainer-gpt2": lambda base, data: trainer(os.path.join(base, "trainer-gpt2"), data, gpt2(), lr_scheduler_type="linear",
                                               adam_beta2=0.95),
    "deepspeed-1": lambda base, data: deepspeed_cases(base, data, 1),
    "deepspeed-2": lambda base, data: deepspeed_cases(base, data, 2),
    "deepspeed-4": lambda base, data: deepspeed_cases(base, data, 4),
    "dcp-1": lambda base, data: dcp_cases(base, data, 1),
    "dcp-2": lambda base, data: dcp_cases(base, data, 2),
    "dcp-4": lambda base, data: dcp_cases(base, data, 4),
    "accelerate-2": lambda base, data: accelerate_cases(base, data, 2, False),
    "accelerate-whole": lambda base, data: accelerate_cases(base, data, 2, True),
    "universal": universal,  # of what deepspeed-2 wrote
    "scaled": scaled,  # of that
}


def orders(base):
    models = os.path.join(os.path.dirname(os.path.abspath(__file__)), "pretrained")
    with open(os.path.join(base, "orders.txt"), "w") as f:
        for name in sorted(os.listdir(models)):
            if not os.path.isdir(os.path.join(models, name)):
                continue
            model = transformers.AutoModelForCausalLM.from_config(transformers.AutoConfig.from_pretrained(os.path.join(models, name)))
            for parameter, _ in model.named_parameters():
                print(name, parameter, file=f)


def main():
    base, names = sys.argv[1], sys.argv[2:] or list(CASES)
    os.makedirs(base, exist_ok=True)
    data = tokens()
    data.tofile(os.path.join(base, "tokens.bin"))
    if not sys.argv[2:]:
        orders(base)
    for name in names:
        CASES[name](base, data)


if __name__ == "__main__":
    main()
