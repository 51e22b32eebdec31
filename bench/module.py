#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# module.py - a step of a PyTorch module under zeroth.torch, beside the same module with PyTorch's
# fused AdamW and with DeepSpeed, each in a process of its own, in turns.
#
#   bench/module.py [--rounds N] [--steps N] [--batch B] [--tokens T] [--stage S] [--only FORM,...]
#
# The module is GPT-2 124M of torch_peer.py. Forms: fp32, and bf16, which is autocast beside
# [precision] plugin = bf16 (weights in bf16, masters in fp32). Each process says how long its start
# took (to the end of its first step) and the most memory that it had. Ratios are medians over rounds
# of this machine, zeroth's time over PyTorch's. Run it on a machine that is idle. PYTHON has torch,
# and deepspeed where it is to be compared; ZEROTH_LIBRARY is libzeroth.
import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.realpath(__file__))
THREADS = len(os.sched_getaffinity(0))
VOCABULARY = 50257


# ---- a peer -------------------------------------------------------------------------------


def plain(torch, model, form, ask):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)

    def step(data):
        with torch.autocast("cpu", torch.bfloat16, enabled=form == "bf16"):
            loss = model(*data)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return float(loss.detach())

    return step


def zeroth(torch, model, form, ask):
    import zeroth.torch

    options = {
        "zero.plugin": f"stage{ask['stage']}",
        "precision.plugin": form,
        "train.micro_batch_size": ask["batch"],
        "train.steps": 1000000,
        "optimizer.lr": 1e-4,
    }
    engine = zeroth.torch.initialize(model, None, options=options)

    def step(data):
        loss = engine(*data)
        engine.backward(loss)
        engine.step()
        return float(loss.detach())

    step.planned = lambda: engine.planned
    return step


def deepspeed(torch, model, form, ask):
    os.environ.update(
        DS_ACCELERATOR="cpu", RANK="0", LOCAL_RANK="0", WORLD_SIZE="1", MASTER_ADDR="127.0.0.1"
    )
    os.environ.setdefault("MASTER_PORT", "29631")
    import deepspeed as ds

    config = {
        "train_micro_batch_size_per_gpu": ask["batch"],
        "gradient_accumulation_steps": 1,
        "zero_optimization": {"stage": ask["stage"]},
        "optimizer": {"type": "AdamW", "params": {"lr": 1e-4, "torch_adam": True, "fused": True}},
        "zero_allow_untested_optimizer": True,
    }
    if form == "bf16":
        config["bf16"] = {"enabled": True}
    ds.init_distributed(dist_backend="gloo")
    engine = ds.initialize(model=model, config=config)[0]

    def step(data):
        loss = engine(*data)
        engine.backward(loss)
        engine.step()
        return float(loss.detach())

    return step


PEERS = {"plain": plain, "zeroth": zeroth, "deepspeed": deepspeed}


def serve(name, form, ask):
    """Says what the start took; then each line of input asks for so many steps."""
    start = time.perf_counter()
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what libraries print is no answer
    sys.path.pop(0)  # this folder has a tokenize.py, which is also the name of a module of Python's
    import torch

    sys.path.append(HERE)
    from torch_peer import GPT2

    torch.set_num_threads(THREADS)

    torch.manual_seed(1)
    model = GPT2()
    for p in model.parameters():
        if p.dim() > 1:
            torch.nn.init.normal_(p, std=0.02)
    ids = torch.randint(VOCABULARY, (ask["batch"], ask["tokens"] + 1))
    data = ids[:, :-1].contiguous(), ids[:, 1:].contiguous()
    try:
        step = PEERS[name](torch, model, form, ask)
        losses = [step(data)]
        started = time.perf_counter() - start
        losses.append(step(data))
    except Exception as e:
        print(json.dumps({"error": f"{type(e).__name__}: {e}"[:300]}), file=answers)
        return
    planned = step.planned() if hasattr(step, "planned") else 0
    print(json.dumps({"start": started, "losses": losses, "planned": planned}), file=answers)
    for line in sys.stdin:
        times = []
        for _ in range(int(line)):
            start = time.perf_counter()
            step(data)
            times.append(time.perf_counter() - start)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        print(json.dumps({"seconds": statistics.median(times), "peak": peak}), file=answers)


# ---- the comparison -----------------------------------------------------------------------


class Peer:
    def __init__(self, name, form, ask):
        env = dict(
            os.environ,
            OMP_NUM_THREADS=str(THREADS),
            PYTHONPATH=os.pathsep.join(
                [os.path.join(HERE, "..", "embed"), os.environ.get("PYTHONPATH", "")]
            ),
        )
        self.name = name
        self.process = subprocess.Popen(
            [os.environ.get("PYTHON", sys.executable), __file__, "--serve", name, form]
            + [f"--{k}={v}" for k, v in ask.items()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=None if os.environ.get("VERBOSE") else subprocess.DEVNULL,
            text=True,
            env=env,
        )
        self.said = self.answer()

    def answer(self):
        line = self.process.stdout.readline()
        return json.loads(line) if line else {"error": "it ended"}

    def steps(self, n):
        self.process.stdin.write(f"{n}\n")
        self.process.stdin.flush()
        return self.answer()

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def compare(form, names, rounds, steps, ask):
    peers = []
    for name in names:
        peer = Peer(name, form, ask)
        if "error" in peer.said:
            print(f"{form:5} {name:9} {peer.said['error']}")
            peer.close()
            continue
        losses = ", ".join(f"{x:.6f}" for x in peer.said["losses"])
        print(f"{form:5} {name:9} start {peer.said['start']:6.1f} s, losses {losses}", flush=True)
        peers.append(peer)
    seen = {p.name: [] for p in peers}
    for i in range(rounds):
        for peer in peers[i % len(peers) :] + peers[: i % len(peers)]:
            seen[peer.name].append(peer.steps(steps))
    base = [x["seconds"] for x in seen["plain"]]
    for peer in peers:
        mine = [x["seconds"] for x in seen[peer.name]]
        ratios = sorted(a / b for a, b in zip(mine, base))
        peak = seen[peer.name][-1]["peak"] / 2**30
        planned = peer.said["planned"] / 2**30
        by_plan = f", {planned:.2f} GiB of them by its plan" if planned else ""
        print(
            f"{form:5} {peer.name:9} of PyTorch's time {statistics.median(ratios):.3f} "
            f"({ratios[0]:.3f} to {ratios[-1]:.3f}), least {min(mine) / min(base):.3f}; "
            f"most memory {peak:.2f} GiB{by_plan}",
            flush=True,
        )
        peer.close()


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--rounds", type=int, default=9)
    p.add_argument("--steps", type=int, default=2, help="of a round")
    p.add_argument("--batch", type=int, default=4)
    p.add_argument("--tokens", type=int, default=256)
    p.add_argument("--stage", type=int, default=2)
    p.add_argument("--only", default="fp32,bf16")
    p.add_argument("--peers", default="plain,zeroth,deepspeed")
    p.add_argument("--serve", nargs=2, metavar=("PEER", "FORM"))
    args = p.parse_args()
    ask = {"batch": args.batch, "tokens": args.tokens, "stage": args.stage}
    if args.serve:
        return serve(*args.serve, ask)
    for form in args.only.split(","):
        compare(form, args.peers.split(","), args.rounds, args.steps, ask)


main()
