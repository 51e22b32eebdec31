#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# Sampling beside transformers' generate() on PyTorch, both with their caches of keys and values:
# bench/sample_peer.py [TOKENS...] in a build, with the Python of an environment that has torch and
# transformers. The model is GPT-2 124M with random weights, the text the likeliest tokens, batch 1,
# THREADS threads (2). The time of a token is that from the first to the last of n, over n - 1: what
# starts a process and reads weights is not in it. In turns; medians, and the median of the ratios.
import os
import statistics
import subprocess
import sys
import tempfile
import time

del sys.path[0]  # the tokenize.py beside this one is not Python's
import torch  # noqa: E402
import transformers  # noqa: E402

TURNS = int(os.environ.get("TURNS", "5"))
THREADS = int(os.environ.get("THREADS", "2"))
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}


def ours(directory, precision):
    """Seconds from the first token to the last of n, printed as they are drawn."""
    def run(n):
        command = [os.environ.get("ZEROTH", "./zeroth"), "sample", directory, "-n", str(n), "-t",
                   "0", "--eos", "none", "-o", f"precision.plugin={precision}", "-o",
                   f"device.threads={THREADS}"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                              bufsize=0) as process:
            process.stdout.read(1)
            start = time.monotonic()
            while process.stdout.read(4096):
                last = time.monotonic()
        return last - start
    return run


def peer(directory, precision):
    """Seconds of n tokens less those of one."""
    model = transformers.GPT2LMHeadModel.from_pretrained(directory, torch_dtype=DTYPES[precision])
    model.eval()
    prompt = torch.tensor([[50256]])

    def generate(n):
        start = time.monotonic()
        with torch.inference_mode():
            model.generate(prompt, max_new_tokens=n, min_new_tokens=n, do_sample=False,
                           use_cache=True, pad_token_id=50256)
        return time.monotonic() - start
    generate(4)
    return lambda n: generate(n) - generate(1)


def main():
    counts = [int(x) for x in sys.argv[1:]] or [64, 257]
    torch.set_num_threads(THREADS)
    transformers.logging.set_verbosity_error()
    print(f"torch {torch.__version__}, transformers {transformers.__version__}, {THREADS} threads")
    with tempfile.TemporaryDirectory() as directory:
        torch.manual_seed(1)
        transformers.GPT2LMHeadModel(transformers.GPT2Config()).save_pretrained(directory)
        for precision in DTYPES:
            a, b = ours(directory, precision), peer(directory, precision)
            for n in counts:
                turns = [(a(n) / (n - 1), b(n) / (n - 1)) for _ in range(TURNS)]
                mine, theirs = (1e3 * statistics.median(x) for x in zip(*turns))
                ratio = statistics.median(y / x for x, y in turns)
                print(f"{precision} {n:4} tokens: {mine:6.2f} ms a token, PyTorch {theirs:6.2f}: "
                      f"{ratio:.2f} times as fast", flush=True)


if __name__ == "__main__":
    main()
