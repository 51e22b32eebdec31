#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# gguf.py model NAME DIR GOLDEN: a small model of that name as a directory of Hugging Face: config.json, model.safetensors, whose
#   numbers follow from the names of its tensors, and the files of its tokenizer from GOLDEN, tests/golden.
# gguf.py dump FILE [tensors]: what a GGUF file says, a line for each key and each tensor, in the order of their names. Long lists
#   and the bytes of tensors are digests; keys of `general` that say how somebody called the model are left out; a vector is
#   its numbers, to six digits, where `exp` and `pow` are in it. tensors: these alone.
# gguf.py name FILE: the name that the model has in it.
# Needs nothing but Python: the reader is independent of what wrote the file.
import hashlib
import json
import os
import shutil
import struct
import sys
import zlib

SHAPE = dict(hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
             max_position_embeddings=64, rms_norm_eps=1e-5, bos_token_id=1, eos_token_id=2, tie_word_embeddings=False,
             torch_dtype="float32", vocab_size=464)
LLAMA = dict(SHAPE, architectures=["LlamaForCausalLM"], model_type="llama", hidden_act="silu")
GEMMA = dict(SHAPE, head_dim=16, query_pre_attn_scalar=16, sliding_window=24, tie_word_embeddings=True, vocab_size=412,
             hidden_activation="gelu_pytorch_tanh", rms_norm_eps=1e-6, pad_token_id=0)
PHI = dict(SHAPE, architectures=["Phi3ForCausalLM"], model_type="phi3", hidden_act="silu", pad_token_id=0)
MODELS = {
    "llama": dict(LLAMA, rope_theta=100.0, eos_token_id=[2, 3], rope_scaling={
        "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 64}),
    "llama-bias": dict(LLAMA, attention_bias=True, mlp_bias=True, head_dim=16, vocab_size=412, num_key_value_heads=4),
    "llama-tied": dict(LLAMA, tie_word_embeddings=True, intermediate_size=64, rope_scaling={"type": "linear", "factor": 2.0}),
    "mistral": dict(SHAPE, architectures=["MistralForCausalLM"], model_type="mistral", hidden_act="silu", sliding_window=48,
                    vocab_size=412, rope_theta=1e6),
    "qwen2": dict(SHAPE, architectures=["Qwen2ForCausalLM"], model_type="qwen2", hidden_act="silu", rope_theta=1e6),
    "qwen2-yarn": dict(SHAPE, architectures=["Qwen2ForCausalLM"], model_type="qwen2", hidden_act="silu", rope_theta=1e6,
                       rope_scaling={"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16}),
    "qwen3": dict(SHAPE, architectures=["Qwen3ForCausalLM"], model_type="qwen3", hidden_act="silu", head_dim=16,
                  tie_word_embeddings=True, rope_theta=1e6),
    "gemma2": dict(GEMMA, architectures=["Gemma2ForCausalLM"], model_type="gemma2", attn_logit_softcapping=40.0,
                   final_logit_softcapping=20.0),
    "gemma3": dict(GEMMA, architectures=["Gemma3ForCausalLM"], model_type="gemma3_text", num_hidden_layers=6, rope_theta=1e6,
                   rope_local_base_freq=5000.0, rope_scaling={"rope_type": "linear", "factor": 8.0}),
    "phi3": dict(PHI, sliding_window=47, vocab_size=412, original_max_position_embeddings=64),
    "phi3-long": dict(PHI, sliding_window=None, partial_rotary_factor=0.75, original_max_position_embeddings=16,
                      rope_scaling={"type": "longrope", "short_factor": [1.0, 1.1, 1.3], "long_factor": [1.0, 2.5, 4.0]}),
}

# The tokenizer of each: its name, and how it cuts text.
TOKENIZERS = {"llama": ("llama3", "llama-bpe"), "llama-bias": ("pieces", None), "llama-tied": ("gpt2", "gpt-2"),
              "mistral": ("pieces", None), "qwen2": ("qwen2", "qwen2"), "qwen2-yarn": ("qwen2", "qwen2"), "qwen3": ("digits", "smollm"),
              "gemma2": ("gemma", None), "gemma3": ("gemma", None), "phi3": ("phi", None), "phi3-long": ("gpt2", "gpt-2")}
PIECES = ("pieces", "gemma", "phi")


def copy_tokenizer(name, where, golden):
    at = os.path.join(golden, "gguf")
    if name in PIECES:
        shutil.copy(os.path.join(at, "tokenizer.model"), where)
        shutil.copy(os.path.join(at, "pieces.json"), os.path.join(where, "tokenizer.json"))
    else:
        with open(os.path.join(golden, "tokenizers", name + ".json")) as f:
            tokenizer = json.load(f)
        tokenizer["model"]["type"] = "BPE"  # older files do not say it; the converter of Llama looks for it
        with open(os.path.join(where, "tokenizer.json"), "w") as f:
            json.dump(tokenizer, f)
    with open(os.path.join(at, "settings.json")) as f:
        settings = json.load(f)[name]
    for file, content in settings.items():
        with open(os.path.join(where, file), "w") as f:
            f.write(content if isinstance(content, str) else json.dumps(content, indent=1))


def shapes(c):
    """Names and shapes of a model's tensors."""
    width, ffn, heads, kv = (c[k] for k in ("hidden_size", "intermediate_size", "num_attention_heads", "num_key_value_heads"))
    head = c.get("head_dim", width // heads)
    kind = c["model_type"]
    yield "model.embed_tokens.weight", [c["vocab_size"], width]
    for i in range(c["num_hidden_layers"]):
        at = "model.layers.%d." % i
        if kind == "phi3":
            yield at + "self_attn.qkv_proj.weight", [(heads + 2 * kv) * head, width]
            yield at + "mlp.gate_up_proj.weight", [2 * ffn, width]
        else:
            for name, rows in ("q", heads), ("k", kv), ("v", kv):
                yield at + "self_attn.%s_proj.weight" % name, [rows * head, width]
                if kind == "qwen2" or c.get("attention_bias"):
                    yield at + "self_attn.%s_proj.bias" % name, [rows * head]
            yield at + "mlp.gate_proj.weight", [ffn, width]
            yield at + "mlp.up_proj.weight", [ffn, width]
        yield at + "self_attn.o_proj.weight", [width, heads * head]
        yield at + "mlp.down_proj.weight", [width, ffn]
        if c.get("attention_bias"):
            yield at + "self_attn.o_proj.bias", [width]
        if c.get("mlp_bias"):
            yield at + "mlp.gate_proj.bias", [ffn]
            yield at + "mlp.up_proj.bias", [ffn]
            yield at + "mlp.down_proj.bias", [width]
        if kind in ("qwen3", "gemma3_text"):
            yield at + "self_attn.q_norm.weight", [head]
            yield at + "self_attn.k_norm.weight", [head]
        norms = ["input_layernorm", "post_attention_layernorm"]
        if kind.startswith("gemma"):
            norms += ["pre_feedforward_layernorm", "post_feedforward_layernorm"]
        for norm in norms:
            yield at + norm + ".weight", [width]
    yield "model.norm.weight", [width]
    if not c["tie_word_embeddings"]:
        yield "lm_head.weight", [c["vocab_size"], width]


def numbers(name, n, norm):
    """n numbers of 24 bits between -1/4 and 1/4, or near 1."""
    x = zlib.crc32(name.encode()) * 2654435761 % 2**64
    out = []
    for _ in range(n):
        x = (x * 6364136223846793005 + 1442695040888963407) % 2**64
        out.append(((x >> 40) - 2**23) / 2**25 + (1 if norm else 0))
    return struct.pack("<%df" % n, *out)


def write_model(name, where, golden):
    config = MODELS[name]
    header, data = {}, b""
    for tensor, shape in shapes(config):
        count = 1
        for n in shape:
            count *= n
        part = numbers(tensor, count, tensor.endswith("norm.weight") and not config["model_type"].startswith("gemma"))
        header[tensor] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(part)]}
        data += part
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    os.makedirs(where, exist_ok=True)
    with open(os.path.join(where, "model.safetensors"), "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)
    with open(os.path.join(where, "config.json"), "w") as f:
        json.dump(config, f, indent=1)
    copy_tokenizer(TOKENIZERS[name][0], where, golden)


# ---- the reader ----

SCALARS = {0: ("u8", "<B"), 1: ("i8", "<b"), 2: ("u16", "<H"), 3: ("i16", "<h"), 4: ("u32", "<I"), 5: ("i32", "<i"), 6: ("f32", "<f"),
           7: ("bool", "<?"), 10: ("u64", "<Q"), 11: ("i64", "<q"), 12: ("f64", "<d")}
TYPES = {0: ("F32", 1, 4), 1: ("F16", 1, 2), 8: ("Q8_0", 32, 34), 30: ("BF16", 1, 2)}  # elements and bytes of a block


class Reader:
    def __init__(self, path):
        self.data = open(path, "rb").read()
        self.at = 0

    def take(self, form):
        value, = struct.unpack_from(form, self.data, self.at)
        self.at += struct.calcsize(form)
        return value

    def text(self):
        n = self.take("<Q")
        self.at += n
        return self.data[self.at - n:self.at].decode()

    def value(self, kind):
        if kind == 8:
            return "text", self.text()
        if kind != 9:
            return SCALARS[kind][0], self.take(SCALARS[kind][1])
        inner = self.take("<I")
        values = [self.value(inner)[1] for _ in range(self.take("<Q"))]
        return "[%s]" % ("text" if inner == 8 else SCALARS[inner][0]), values


def key_line(key, kind, value):
    text = json.dumps(value, ensure_ascii=False)
    if len(text) > 400:
        text = "%d values, %s" % (len(value), hashlib.sha256(text.encode()).hexdigest()[:16])
    return "%s %s %s" % (key, kind, text)


def read_keys(r):
    """The numbers of version and tensors, and the keys."""
    assert r.data[:4] == b"GGUF", "no GGUF"
    r.at = 4
    version, tensors, keys = r.take("<I"), r.take("<Q"), r.take("<Q")
    return version, tensors, [(r.text(), *r.value(r.take("<I"))) for _ in range(keys)]


def dump(path, only_tensors):
    r = Reader(path)
    version, tensors, keys = read_keys(r)
    lines, places, end = [], [], 0
    for key, kind, value in keys:
        if not key.startswith("general.") or key in ("general.architecture", "general.type", "general.file_type",
                                                     "general.quantization_version"):
            lines.append(key_line(key, kind, value))
    for _ in range(tensors):
        name = r.text()
        dims = [r.take("<Q") for _ in range(r.take("<I"))]
        places.append((name, dims, r.take("<I"), r.take("<Q")))
    start = r.at + -r.at % 32
    shown = []
    for name, dims, kind, at in sorted(places):
        count = 1
        for n in dims:
            count *= n
        word, elements, size = TYPES[kind]
        part = r.data[start + at:start + at + count // elements * size]
        assert at % 32 == 0 and len(part) == count // elements * size, name
        end = max(end, at + len(part))
        what = hashlib.sha256(part).hexdigest()[:16]
        if name.startswith("rope_f"):
            what = " ".join("%.6g" % x for x in struct.unpack("<%df" % count, part))
        shown.append("%s %s %s %s" % (name, word, dims, what))
    assert len(r.data) == start + end + -end % 32, "the end of the file"
    assert len({p[0] for p in places}) == len(places), "a tensor twice"
    if only_tensors:
        return shown
    return ["version %d" % version] + sorted(lines) + shown


if __name__ == "__main__":
    if sys.argv[1] == "model":
        write_model(*sys.argv[2:5])
    elif sys.argv[1] == "name":
        print(*[value for key, _, value in read_keys(Reader(sys.argv[2]))[2] if key == "general.name"])
    else:
        print("\n".join(dump(sys.argv[2], len(sys.argv) > 3)))
