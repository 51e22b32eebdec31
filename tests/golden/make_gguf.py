#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# make_gguf.py LLAMA_CPP TESTS [--pieces | CASE...]: what llama.cpp's converter, of the folder that has its conversion/, makes of the
# small models of TESTS/lib/gguf.py: TESTS/golden/gguf/CASE.txt has all keys and tensors in F16, then the tensors in BF16, then in
# Q8_0. How a tokenizer cuts text has the name that the case gives it, since the converter knows none of these few tokens.
# With --pieces: trains the tokenizer.model of SentencePiece that some of them have.
# blocks.txt: numbers, and what the gguf library makes of them in Q8_0 and BF16.
# llama.cpp as in llama-cpp-python 0.3.36, gguf 0.19, transformers 5.24, sentencepiece 0.2.3 and numpy made the files.
import importlib.util
import os
import pathlib
import sys
import tempfile

llama, tests = sys.argv[1:3]
golden = os.path.join(tests, "golden")
sys.path[:0] = [llama, os.path.join(llama, "gguf-py")]
spec = importlib.util.spec_from_file_location("small", os.path.join(tests, "lib", "gguf.py"))
small = importlib.util.module_from_spec(spec)
spec.loader.exec_module(small)


def train_pieces():
    import sentencepiece
    with open(os.path.join(golden, "tokenizers", "text"), encoding="utf-8", errors="ignore") as f:
        plain = f.read().encode("ascii", "ignore")
    with tempfile.TemporaryDirectory() as root:
        text = os.path.join(root, "text")
        open(text, "wb").write(plain)
        sentencepiece.SentencePieceTrainer.train(
            input=text, model_prefix=os.path.join(root, "m"), vocab_size=400, model_type="bpe", byte_fallback=True,
            normalization_rule_name="identity", num_threads=1, user_defined_symbols=["<mine>"])
        data = open(os.path.join(root, "m.model"), "rb").read()
    open(os.path.join(golden, "gguf", "tokenizer.model"), "wb").write(data)
    print("tokenizer.model: %d bytes" % len(data))


def write_blocks():
    import gguf
    import numpy
    rng = numpy.random.default_rng(1)
    x = rng.standard_normal((12, 32)).astype("float32") * numpy.float32([[10.0 ** (i - 6)] for i in range(12)])
    x[1] = 0
    x[2, ::2] *= -1
    x[3] = (numpy.arange(32) - 16) / 2  # halfway between codes
    x[3, 0] = 63.5
    x[4, :4] = numpy.array([0x3f808000, 0x3f818000, 0x3f808001, 0x80000001], "uint32").view("float32")  # halfway in bf16
    q8 = gguf.quants.quantize(x, gguf.GGMLQuantizationType.Q8_0)
    bf16 = gguf.quants.quantize(x, gguf.GGMLQuantizationType.BF16)
    with open(os.path.join(golden, "gguf", "blocks.txt"), "w") as f:
        for row, q, b in zip(x, q8, bf16):
            f.write("%s %s %s\n" % (row.tobytes().hex(), q.tobytes().hex(), b.tobytes().hex()))


def convert(name, root):
    import gguf
    import torch
    from conversion import get_model_class
    from conversion.base import ModelBase, TextModel

    where = pathlib.Path(root, "model")
    small.write_model(name, where, golden)
    TextModel.get_vocab_base_pre = lambda self, tokenizer: small.TOKENIZERS[name][1]
    kind = get_model_class(ModelBase.load_hparams(where, False)["architectures"][0])
    lines = []
    for type in "MOSTLY_F16", "MOSTLY_BF16", "MOSTLY_Q8_0":
        out = pathlib.Path(root, type + ".gguf")
        with torch.inference_mode():
            kind(where, gguf.LlamaFileType[type], out).write()
        lines += small.dump(out, type != "MOSTLY_F16")
    with open(os.path.join(golden, "gguf", name + ".txt"), "w") as f:
        f.write("\n".join(lines) + "\n")
    print(name, len(lines))


if sys.argv[3:] == ["--pieces"]:
    train_pieces()
else:
    write_blocks()
    for case in sys.argv[3:] or small.MODELS:
        with tempfile.TemporaryDirectory() as directory:
            convert(case, directory)
