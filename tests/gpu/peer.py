#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# peer.py - GPT-2 and Llama by PyTorch alone, what tests/gpu/run holds trainings against. Works with PyTorch 1.13 on a CPU
# (2.0 or later for speed) and needs no other package.
#
#   peer.py make DIR KIND KEY=N...              a model directory with random weights, and DIR/tokens.bin (uint16)
#   peer.py steps DIR TYPE SGD ADAM KEY=N...    runs of zeroth from it beside the same steps here
#   peer.py speed KIND KEY=N...                 trains as fast as it can; "N" on stdin is N steps, answered with tokens/s
#   peer.py limits                              rates of this GPU: products, copies, AdamW
#   peer.py attention HEADS/KV_HEADS/WIDTH/LENGTH...   rates of causal attention by FlashAttention and by cuDNN, 16384 tokens
#   peer.py copies                              rates of copies each way and both at once, by 2 and by 4 streams
#
# KIND is gpt2 or llama; keys: layers heads kv_heads width ffn vocabulary length batch micro steps, and rate, AdamW's lr in
# millionths. TYPE: fp32 bf16 fp16.
#
# steps: SGD is a run of one step with lr = RATE and nothing else, so that its weights tell the gradient of every tensor; ADAM
# one of `steps` steps of AdamW (betas 0.9 0.95, weight_decay 0.1, clipping at 1). Both take sequences in order. The
# reference is fp32. What bf16 and fp16 may be off is what PyTorch's autocast is off, with some room. Prints lines of
# name, pass or fail, value, unit and remark between tabs.
import contextlib
import ctypes
import json
import math
import os
import struct
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn

RATE = 65536.0  # of SGD: large, for what a subtraction of nearby weights loses
SCALE = 256.0  # of losses in fp16
DEVICE = os.environ.get("PEER_DEVICE", "cuda" if torch.cuda.is_available() else "cpu")
TYPES = {"F32": torch.float32, "BF16": torch.bfloat16, "F16": torch.float16}
EXACT = False  # whether attention is written out: libraries may take TF32 for fp32
SMALL = {"fp32": None, "bf16": torch.bfloat16, "fp16": torch.float16}


# ---- safetensors: 8 bytes of length, a JSON of places, the values -------------------------------------------

def load(path):
    with open(path, "rb") as f:
        (n,) = struct.unpack("<Q", f.read(8))
        places = json.loads(f.read(n))
        values = bytearray(f.read())
    places.pop("__metadata__", None)
    out = {}
    for name, p in places.items():
        a, b = p["data_offsets"]
        name = name.removeprefix("transformer.")
        out[name] = torch.frombuffer(values, dtype=TYPES[p["dtype"]], count=math.prod(p["shape"]), offset=a).reshape(p["shape"])
        assert out[name].numel() * out[name].element_size() == b - a, name
    return out


def save(path, tensors):
    places, at = {}, 0
    for name, x in tensors.items():
        places[name] = {"dtype": "F32", "shape": list(x.shape), "data_offsets": [at, at + 4 * x.numel()]}
        at += 4 * x.numel()
    head = json.dumps(places).encode()
    head += b" " * (-len(head) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(head)) + head)
        for x in tensors.values():
            x = x.detach().float().cpu().contiguous()
            f.write((ctypes.c_char * (4 * x.numel())).from_address(x.data_ptr()))


# ---- models, with the names and orientations of Hugging Face's files ------------------------------------------

def attend(q, k, v):
    """Causal attention of [B, T, heads, D]; k and v may have fewer heads."""
    share = q.shape[2] // k.shape[2]
    if share > 1:
        k, v = (x.repeat_interleave(share, dim=2) for x in (k, v))
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    if hasattr(F, "scaled_dot_product_attention") and not EXACT:
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    else:
        s = q @ k.transpose(2, 3) / math.sqrt(q.shape[3])
        mask = torch.ones(q.shape[2], q.shape[2], dtype=torch.bool, device=q.device).triu(1)
        y = s.masked_fill(mask, float("-inf")).softmax(-1) @ v
    return y.transpose(1, 2).flatten(2)


class Columns(nn.Module):
    """x W + b with W [in, out]."""

    def __init__(self, n, m):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(n, m))
        self.bias = nn.Parameter(torch.empty(m))

    def forward(self, x):
        return torch.addmm(self.bias, x.view(-1, x.shape[-1]), self.weight).view(*x.shape[:-1], -1)


class Gpt2Attention(nn.Module):
    def __init__(self, o):
        super().__init__()
        self.heads = o["heads"]
        self.c_attn = Columns(o["width"], 3 * o["width"])
        self.c_proj = Columns(o["width"], o["width"])

    def forward(self, x):
        return self.c_proj(attend(*(y.unflatten(2, (self.heads, -1)) for y in self.c_attn(x).chunk(3, dim=2))))


class Gpt2Mlp(nn.Module):
    def __init__(self, o):
        super().__init__()
        self.c_fc = Columns(o["width"], 4 * o["width"])
        self.c_proj = Columns(4 * o["width"], o["width"])

    def forward(self, x):
        return self.c_proj(F.gelu(self.c_fc(x), approximate="tanh"))


class Gpt2Block(nn.Module):
    def __init__(self, o):
        super().__init__()
        self.ln_1 = nn.LayerNorm(o["width"])
        self.attn = Gpt2Attention(o)
        self.ln_2 = nn.LayerNorm(o["width"])
        self.mlp = Gpt2Mlp(o)

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class Gpt2(nn.Module):
    def __init__(self, o):
        super().__init__()
        self.wte = nn.Embedding(o["vocabulary"], o["width"])
        self.wpe = nn.Embedding(o["length"], o["width"])
        self.h = nn.ModuleList(Gpt2Block(o) for _ in range(o["layers"]))
        self.ln_f = nn.LayerNorm(o["width"])

    def forward(self, tokens):
        x = self.wte(tokens) + self.wpe.weight[: tokens.shape[1]]
        for block in self.h:
            x = block(x)
        return F.linear(self.ln_f(x), self.wte.weight)


class RmsNorm(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(n))

    def forward(self, x):
        y = x.float()
        return (y * torch.rsqrt(y.square().mean(-1, keepdim=True) + 1e-5) * self.weight).to(x.dtype)


def turn(x, cos, sin):
    """Rotary positions of [B, T, heads, D], in halves."""
    a, b = x.float().chunk(2, dim=3)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=3).to(x.dtype)


class LlamaAttention(nn.Module):
    def __init__(self, o):
        super().__init__()
        self.head = o["width"] // o["heads"]
        self.q_proj = nn.Linear(o["width"], o["width"], bias=False)
        self.k_proj = nn.Linear(o["width"], o["kv_heads"] * self.head, bias=False)
        self.v_proj = nn.Linear(o["width"], o["kv_heads"] * self.head, bias=False)
        self.o_proj = nn.Linear(o["width"], o["width"], bias=False)

    def forward(self, x, cos, sin):
        q, k, v = (p(x).unflatten(2, (-1, self.head)) for p in (self.q_proj, self.k_proj, self.v_proj))
        return self.o_proj(attend(turn(q, cos, sin), turn(k, cos, sin), v))


class LlamaMlp(nn.Module):
    def __init__(self, o):
        super().__init__()
        self.gate_proj = nn.Linear(o["width"], o["ffn"], bias=False)
        self.up_proj = nn.Linear(o["width"], o["ffn"], bias=False)
        self.down_proj = nn.Linear(o["ffn"], o["width"], bias=False)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class LlamaBlock(nn.Module):
    def __init__(self, o):
        super().__init__()
        self.input_layernorm = RmsNorm(o["width"])
        self.self_attn = LlamaAttention(o)
        self.post_attention_layernorm = RmsNorm(o["width"])
        self.mlp = LlamaMlp(o)

    def forward(self, x, cos, sin):
        x = x + self.self_attn(self.input_layernorm(x), cos, sin)
        return x + self.mlp(self.post_attention_layernorm(x))


class LlamaBody(nn.Module):
    def __init__(self, o):
        super().__init__()
        self.embed_tokens = nn.Embedding(o["vocabulary"], o["width"])
        self.layers = nn.ModuleList(LlamaBlock(o) for _ in range(o["layers"]))
        self.norm = RmsNorm(o["width"])
        half = o["width"] // o["heads"] // 2
        angle = torch.outer(torch.arange(o["length"]).double(), 10000.0 ** (-torch.arange(half).double() / half))
        self.register_buffer("cos", angle.cos().float()[:, None], persistent=False)
        self.register_buffer("sin", angle.sin().float()[:, None], persistent=False)

    def forward(self, tokens):
        x, n = self.embed_tokens(tokens), tokens.shape[1]
        for block in self.layers:
            x = block(x, self.cos[:n], self.sin[:n])
        return self.norm(x)


class Llama(nn.Module):
    def __init__(self, o):
        super().__init__()
        self.model = LlamaBody(o)
        self.lm_head = nn.Linear(o["width"], o["vocabulary"], bias=False)

    def forward(self, tokens):
        return self.lm_head(self.model(tokens))


MODELS = {"gpt2": Gpt2, "llama": Llama}


def fill(model, o):
    """Random values: activations of size 1, so that no softmax is flat and no GELU a line, and no constants, so that nothing hides
    behind a 0 or 1."""
    small = 1 / math.sqrt(2 * o["layers"])
    for name, p in model.named_parameters():
        if p.dim() == 1:
            nn.init.normal_(p, 1.0 if name.endswith("weight") else 0.0, 0.05)
        else:
            inputs = p.shape[0] if ".c_" in name else p.shape[1]
            gain = small if name.endswith(("c_proj.weight", "o_proj.weight", "down_proj.weight")) else 1.0
            nn.init.normal_(p, 0.0, gain / math.sqrt(inputs))


def created(kind, o):
    with torch.device(DEVICE) if torch.__version__ >= "2" else contextlib.nullcontext():  # billions are drawn faster there
        model = MODELS[kind](o)
    fill(model, o)
    return model


# ---- make ----------------------------------------------------------------------------------------------------

def config(kind, o):
    if kind == "gpt2":
        return {"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "n_layer": o["layers"], "n_head": o["heads"],
                "n_embd": o["width"], "n_positions": o["length"], "vocab_size": o["vocabulary"], "resid_pdrop": 0, "embd_pdrop": 0,
                "attn_pdrop": 0, "activation_function": "gelu_new"}
    return {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "num_hidden_layers": o["layers"],
            "num_attention_heads": o["heads"], "num_key_value_heads": o["kv_heads"], "hidden_size": o["width"],
            "intermediate_size": o["ffn"], "max_position_embeddings": o["length"], "vocab_size": o["vocabulary"],
            "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": False, "hidden_act": "silu"}


def make(where, kind, o):
    os.makedirs(where, exist_ok=True)
    torch.manual_seed(7)
    model = created(kind, o)
    with open(os.path.join(where, "config.json"), "w") as f:
        json.dump(config(kind, o), f, indent=1)
    save(os.path.join(where, "model.safetensors"), dict(model.named_parameters()))
    n = o["batch"] * o["length"] * o["steps"] + 1
    tokens = (torch.rand(n, generator=torch.Generator().manual_seed(8)) ** 3 * o["vocabulary"]).to(torch.int32).tolist()
    with open(os.path.join(where, "tokens.bin"), "wb") as f:
        f.write(struct.pack(f"<{n}H", *(min(t, o["vocabulary"] - 1) for t in tokens)))


# ---- steps ---------------------------------------------------------------------------------------------------

def batches(where, o):
    """tokens and targets [batch, length] of each step, in order."""
    with open(os.path.join(where, "tokens.bin"), "rb") as f:
        raw = f.read()
    stream = torch.tensor(struct.unpack(f"<{len(raw) // 2}H", raw), device=DEVICE)
    n = o["batch"] * o["length"]
    for step in range(o["steps"]):
        part = stream[step * n : step * n + n + 1]
        yield part[:-1].view(o["batch"], -1), part[1:].view(o["batch"], -1)


def loss_of(model, tokens, targets, small):
    if DEVICE == "cpu" and small == torch.float16:
        small = torch.bfloat16  # the only one that autocast has there: a coarser yardstick
    with torch.autocast(DEVICE, small) if small else contextlib.nullcontext():
        logits = model(tokens)
    return F.cross_entropy(logits.float().flatten(0, 1), targets.flatten())


def backward(model, tokens, targets, o, small):
    """The mean loss, in micro-batches; its gradient is added to what is there."""
    mean, parts, scale = 0.0, o["batch"] // o["micro"], SCALE if small == torch.float16 else 1.0
    for x, y in zip(tokens.split(o["micro"]), targets.split(o["micro"])):
        loss = loss_of(model, x, y, small) / parts
        (loss * scale).backward()
        mean += loss.item()
    for p in model.parameters():
        p.grad /= scale
    return mean


def fresh(where, kind, o):
    model = MODELS[kind](o)
    model.load_state_dict(load(os.path.join(where, "model.safetensors")))
    return model.to(DEVICE)


def gradient(where, kind, o, small):
    model = fresh(where, kind, o)
    backward(model, *next(batches(where, o)), o, small)
    return {name: p.grad.double() for name, p in model.named_parameters()}


def descend(where, kind, o, small):
    """Losses and norms of the gradient of each step of AdamW."""
    model = fresh(where, kind, o)
    adam = torch.optim.AdamW(model.parameters(), lr=o["rate"] * 1e-6, betas=(0.9, 0.95), weight_decay=0.1)
    for tokens, targets in batches(where, o):
        adam.zero_grad(set_to_none=True)
        loss = backward(model, tokens, targets, o, small)
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0).item()
        adam.step()
        yield loss, norm


def away(got, want):
    """How far gradients are from others: of all, and of the worst tensor, with its name. A tensor whose gradient is next to
    nothing counts by a millionth of all."""
    difference = {name: (got[name].to(DEVICE).double() - w).norm().item() for name, w in want.items()}
    norm = {name: w.norm().item() for name, w in want.items()}
    everything = math.hypot(*norm.values())
    worst = max(want, key=lambda name: difference[name] / (norm[name] + 1e-6 * everything))
    return math.hypot(*difference.values()) / everything, difference[worst] / (norm[worst] + 1e-6 * everything), worst


def metrics(run):
    with open(os.path.join(run, "metrics.jsonl")) as f:
        return [(m["loss"], m["grad_norm"]) for m in map(json.loads, f)]


def tell(name, good, value, unit, remark):
    text = f"{value:.3g}" if math.isfinite(value) else '"nan"'
    print("\t".join((name, "pass" if good else "fail", text, unit, remark)), flush=True)


def steps(where, kind, type_, sgd, adam, o):
    global EXACT
    EXACT = True
    small = SMALL[type_]
    begin = load(os.path.join(where, "model.safetensors"))
    end = load(os.path.join(sgd, "model.safetensors"))
    got = {name: (begin[name].to(DEVICE).double() - end[name].to(DEVICE).double()) / RATE for name in begin}
    want = gradient(where, kind, o, None)
    total, worst, name = away(got, want)
    if small:
        total0, worst0, name0 = away(gradient(where, kind, o, small), want)
        most, most_of_one = 2 * total0 + 1e-3, 2 * worst0 + 1e-2
        beside = f"; autocast {total0:.3g}, {worst0:.3g} of {name0}"
    else:
        most, most_of_one, beside = 2e-5, 2e-4, ""
    tell("gradient", total <= most, total, "", f"relative, at most {most:.3g}{beside}")
    tell("gradient, worst tensor", worst <= most_of_one, worst, "", f"{name}, at most {most_of_one:.3g}")

    ours, theirs = metrics(adam), list(descend(where, kind, o, None))
    if len(ours) != len(theirs):
        tell("losses", False, math.nan, "", f"{len(ours)} steps, not {len(theirs)}")
        return
    apart = [max(abs(a[k] - b[k]) / (1 if k == 0 else b[k]) for a, b in zip(ours, theirs)) for k in (0, 1)]
    limit = [1e-4, 1e-3]
    if small:
        others = list(descend(where, kind, o, small))
        limit = [max(2e-2, 2 * max(abs(a[0] - b[0]) for a, b in zip(others, theirs))),
                 max(5e-2, 2 * max(abs(a[1] - b[1]) / b[1] for a, b in zip(others, theirs)))]
    tell("losses", apart[0] <= limit[0], apart[0], "",
         f"{o['steps']} steps from {theirs[0][0]:.4f} to {theirs[-1][0]:.4f}, at most {limit[0]:.3g}")
    tell("norms of the gradient", apart[1] <= limit[1], apart[1], "", f"relative, at most {limit[1]:.3g}")


# ---- speed ---------------------------------------------------------------------------------------------------

def speed(kind, o):
    torch.set_float32_matmul_precision("high")
    torch.manual_seed(1)
    model = created(kind, o).to(DEVICE)
    fused = {"fused": True} if DEVICE == "cuda" else {}
    adam = torch.optim.AdamW(model.parameters(), lr=1e-4, betas=(0.9, 0.95), weight_decay=0.1, **fused)
    run = lambda x, y: loss_of(model, x, y, torch.bfloat16)
    if o.get("compile", 1) and o["layers"] <= 12:
        run = torch.compile(run)
    elif o.get("compile", 1):  # one block for all: a whole model this deep takes minutes
        for block in model.h if kind == "gpt2" else model.model.layers:
            block.compile()
    parts = o["batch"] // o["micro"]
    data = [torch.randint(o["vocabulary"], (o["micro"], o["length"]), device=DEVICE) for _ in range(parts + 1)]

    def step():
        for k in range(parts):
            (run(data[k], data[k + 1]) / parts).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        adam.step()
        adam.zero_grad(set_to_none=True)

    def wait():
        if DEVICE == "cuda":
            torch.cuda.synchronize()

    for _ in range(3):
        step()
    wait()
    print("ready", torch.__version__, f"{torch.cuda.max_memory_allocated() / 2**30:.1f}" if DEVICE == "cuda" else "0", flush=True)
    for line in sys.stdin:
        n, began = int(line), time.perf_counter()
        for _ in range(n):
            step()
        wait()
        print(f"{n * o['batch'] * o['length'] / (time.perf_counter() - began):.1f}", flush=True)


# ---- limits --------------------------------------------------------------------------------------------------

def median_ms(f):
    """Of 5 batches of at least a twentieth of a second, as bench/device has them."""
    times, n = [], 1
    while len(times) < 6:
        a, b = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        a.record()
        for _ in range(n):
            f()
        b.record()
        torch.cuda.synchronize()
        if a.elapsed_time(b) > 50:
            times.append(a.elapsed_time(b) / n)
        else:
            n *= 2
    return sorted(times[1:])[2]


def limits():
    a, b = (torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    print(f"torch_matmul_square {2e-9 * 8192**3 / median_ms(lambda: a @ b):.4g} TFLOP/s")
    q, k, v = (torch.randn(32, 12, 1024, 64, device="cuda", dtype=torch.bfloat16, requires_grad=True) for _ in range(3))
    work = 2e-9 * 768 * 32 * 1024**2
    print(f"torch_attention {work / median_ms(lambda: F.scaled_dot_product_attention(q, k, v, is_causal=True)):.4g} TFLOP/s")
    y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    dy = torch.randn_like(y)
    backward = lambda: torch.autograd.grad(y, (q, k, v), dy, retain_graph=True)
    print(f"torch_attention_bwd {2.5 * work / median_ms(backward):.4g} TFLOP/s")
    del q, k, v, y, dy
    x, y = torch.randn(1 << 30, device="cuda"), torch.empty(1 << 30, device="cuda")
    print(f"torch_copy_on_device {8e-6 * x.numel() / median_ms(lambda: y.copy_(x)):.4g} GB/s")
    host = torch.empty(1 << 28, pin_memory=True)
    print(f"torch_copy_to_device {4e-6 * host.numel() / median_ms(lambda: y[: 1 << 28].copy_(host, non_blocking=True)):.4g} GB/s")
    print(f"torch_copy_from_device {4e-6 * host.numel() / median_ms(lambda: host.copy_(x[: 1 << 28], non_blocking=True)):.4g} GB/s")
    del y
    p = x[: 1 << 28].clone().requires_grad_()
    p.grad = x[1 << 28 : 1 << 29].clone()
    adam = torch.optim.AdamW([p], fused=True)
    print(f"torch_adamw {28e-6 * p.numel() / median_ms(adam.step):.4g} GB/s")


# ---- attention and copies --------------------------------------------------------------------------------------

def attention(shape):
    from torch.nn.attention import SDPBackend, sdpa_kernel
    heads, kv_heads, width, length = map(int, shape.split("/"))
    batch = max(1, 16384 // length) if DEVICE == "cuda" else 1
    new = lambda n: torch.randn(batch, n, length, width, device=DEVICE, dtype=torch.bfloat16, requires_grad=True)
    q, k, v = new(heads), new(kv_heads), new(kv_heads)
    work = 2e-9 * batch * heads * width * length**2
    attend = lambda: F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=heads != kv_heads)
    for name, which in (("flash", SDPBackend.FLASH_ATTENTION), ("cudnn", SDPBackend.CUDNN_ATTENTION)):
        try:
            with sdpa_kernel(which):
                y = attend()
                dy = torch.randn_like(y)
                back = lambda: torch.autograd.grad(y, (q, k, v), dy, retain_graph=True)
                place = shape.replace("/", "_")
                print(f"torch_{name}_attention_{place} {work / median_ms(attend):.4g} TFLOP/s", flush=True)
                print(f"torch_{name}_attention_bwd_{place} {2.5 * work / median_ms(back):.4g} TFLOP/s", flush=True)
        except RuntimeError as e:  # a backend has no such shape
            print(f"# {name} {shape}: {str(e).splitlines()[0]}", flush=True)


def copies():
    part = 1 << 28  # bytes of each copy
    host = [torch.empty(part, dtype=torch.uint8, pin_memory=True) for _ in range(4)]
    device = [torch.empty(part, dtype=torch.uint8, device="cuda") for _ in range(4)]
    streams = [torch.cuda.Stream() for _ in range(4)]

    def rate(name, ways):
        """ways: of each stream, whether it copies to the device."""
        times = []
        for _ in range(6):
            torch.cuda.synchronize()
            began = time.perf_counter()
            for k, to in enumerate(ways):
                with torch.cuda.stream(streams[k]):
                    for _ in range(4):
                        if to:
                            device[k].copy_(host[k], non_blocking=True)
                        else:
                            host[k].copy_(device[k], non_blocking=True)
            torch.cuda.synchronize()
            times.append(time.perf_counter() - began)
        print(f"torch_{name} {4e-9 * part * len(ways) / sorted(times[1:])[2]:.4g} GB/s", flush=True)

    rate("copies_to_device", [True])
    rate("copies_from_device", [False])
    rate("copies_2_streams", [True, False])
    rate("copies_4_streams", [True, False, True, False])


# ---- arguments -----------------------------------------------------------------------------------------------

def keys(words):
    o = {"layers": 2, "heads": 2, "width": 64, "vocabulary": 256, "length": 64, "batch": 2, "steps": 10, "rate": 1000}
    o.update((k, int(v)) for k, v in (w.split("=") for w in words))
    o.setdefault("kv_heads", o["heads"])
    o.setdefault("ffn", (8 * o["width"] // 3 + 63) // 64 * 64)
    o.setdefault("micro", o["batch"])
    return o


def kind_of(where):
    with open(os.path.join(where, "config.json")) as f:
        return json.load(f)["model_type"]


def main(what, *words):
    if what == "make":
        make(words[0], words[1], keys(words[2:]))
    elif what == "steps":
        steps(words[0], kind_of(words[0]), words[1], words[2], words[3], keys(words[4:]))
    elif what == "speed":
        speed(words[0], keys(words[1:]))
    elif what == "limits":
        limits()
    elif what == "attention":
        for shape in words:
            attention(shape)
    elif what == "copies":
        copies()
    else:
        sys.exit("peer.py: make, steps, speed, limits, attention or copies")


main(*sys.argv[1:])
