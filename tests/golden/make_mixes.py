#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# make_mixes.py ZEROTH TOKENS COUNT SEED [FAMILY...]: exports models of random options and compares them with transformers, 4.57 or
# 5.24, whichever runs this. Of each family, COUNT mixes of [model] options train for two steps, so that no bias is 0. What
# `checkpoint export` makes of one is a line: "refused" and the reason; "same" and config.json, where transformers' class has the same
# loss to 1e-5 and zeroth, which reads the export, has the very loss; "OTHER" and what differs. "no model" is one that no training
# takes. mixes.txt, for tests/system/mixes.sh, has refused and same ones of every family, as both versions print them.
import json
import os
import random
import subprocess
import sys
import tempfile

import numpy
import torch
import torch.nn.functional as F
import transformers

transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()
VERSION = ".".join(transformers.__version__.split(".")[:2])
FAMILIES = ("llama gpt2 gpt_neox qwen3 gemma gemma2 gemma3 phi3 olmo2 smollm3 starcoder2 granite mixtral olmoe qwen3_moe").split()
NUMBERS = {
    "layers": [2, 3], "heads": [2, 4], "kv_heads": [1, 2], "head_dim": [4, 6, 8, 10], "width": [16], "ffn_width": [24, 40],
    "context": [16, 64], "window": [0, 2, 5, 13, 40], "global_every": [0, 1, 2, 3], "rope_skip_every": [0, 1, 2, 4],
    "score_width": [1, 3, 7, 16], "score_softcap": [0, 1.5, 20], "logit_softcap": [0, 1.5, 20], "norm_eps": [1e-5, 1e-6, 0.01],
    "rope_theta": [100, 10000, 1e6, 123.45], "rope_local_theta": [100, 10000, 123.45], "rope_factor": [1, 2, 2.5, 8],
    "rope_low_freq": [1, 2], "rope_high_freq": [4, 3], "rope_beta_fast": [32, 4], "rope_beta_slow": [1, 0.5],
    "rope_attention": [1, 0.7, 1.3], "rope_original_context": [4, 8, 16, 32], "rope_fraction": [0.25, 0.5, 0.75, 1],
    "embed_gain": [1, 3], "residual_gain": [1, 0.4], "score_gain": [1, 0.3], "logit_divisor": [1, 2], "experts": [4, 5],
    "experts_per_token": [1, 2, 3],
}
LEFT = {"preset", "size", "vocabulary", "init_std", "dropout", "router_aux_loss_coef", "router_z_loss_coef"}
ALWAYS = {"layers": 2, "heads": 2, "width": 16, "context": 16, "experts": 4, "experts_per_token": 2}
zeroth, tokens, count, seed = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]


def run(*words):
    return subprocess.run([zeroth, *words], capture_output=True, text=True)


def factors(r, options):
    """LongRoPE's list, for each pair of elements that turn."""
    dim = int(options.get("head_dim", options["width"] // options["heads"]) * options.get("rope_fraction", 1))
    return ",".join("%g" % r.uniform(1, 6) for _ in range(dim // 2))


def mix(r, table):
    """Options of the model, about half of them given."""
    names = [o["name"] for o in table if o["name"] not in LEFT]
    options = {k: v for k, v in ALWAYS.items() if k in names}
    options["heads"] = r.choice(NUMBERS["heads"])
    for o in table:
        if o["name"] in LEFT | {"heads"} or r.random() < 0.5:
            continue
        if o["name"] in NUMBERS:
            options[o["name"]] = r.choice(NUMBERS[o["name"]])
        elif "choices" in o or o["type"] == "yes or no":
            options[o["name"]] = r.choice(o.get("choices", ["no", "yes"]))
        elif o["name"] == "layer_types":
            options["layer_types"] = [r.choice(("full_attention", "sliding_attention")) for _ in range(options["layers"])]
        elif o["name"] == "rope_layers":
            options["rope_layers"] = [r.choice("01") for _ in range(options["layers"])]
    if options.get("rope_scaling") == "longrope":
        options["rope_short"], options["rope_long"] = factors(r, options), factors(r, options)
    return ["model.%s=%s" % (k, ",".join(v) if isinstance(v, list) else v) for k, v in options.items()]


def loss_of(run_or_dir, *options):
    words = [w for o in options for w in ("-o", o)]
    done = run("eval", "--json", run_or_dir, *words)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return next(iter(json.loads(done.stdout).values()))["loss"]


def theirs(where):
    more = {} if VERSION.startswith("4.") else {"experts_implementation": "eager"}
    model, info = transformers.AutoModelForCausalLM.from_pretrained(where, attn_implementation="eager", output_loading_info=True,
                                                                    **more)
    ids = torch.tensor(numpy.fromfile(os.path.join(where, "../val"), "<u2").astype("int64"))
    with torch.no_grad():
        logits = model.double().eval()(ids[:-1].reshape(2, 13)).logits
    lost = [k for k in ("missing_keys", "unexpected_keys", "mismatched_keys") if info.get(k)]
    return F.cross_entropy(logits.reshape(26, -1), ids[1:]).item(), lost


def verdict(family, options, root):
    new, out, val = (os.path.join(root, d) for d in ("new", "out", "val"))
    ids = numpy.fromfile(tokens, "<u2")[:27]
    ids.tofile(val)
    data = ["data.plugin=tokens", "data.format=uint16", "data.val_path=" + val, "train.sequence_length=13"]
    words = ["model.plugin=" + family, "model.vocabulary=61", "model.init_std=0.2", *options, *data, "data.path=" + tokens,
             "run.dir=" + new, "train.train_batch_size=2", "train.micro_batch_size=2", "train.eval_every=0", "train.steps=2",
             "optimizer.plugin=adamw", "optimizer.lr=0.05"]
    ini = os.path.join(root, "a.ini")
    open(ini, "w").write("[train]\n")
    done = run("train", ini, *[w for o in words for w in ("-o", o)])
    if done.returncode:
        return "no model", done.stderr.strip().splitlines()[-1]
    ours = loss_of(new)
    done = run("checkpoint", "export", new, out)
    if done.returncode:
        return "refused", done.stderr.strip()
    wrong = []
    try:
        again = loss_of(out, *data[:2], data[3], "data.path=" + val, "train.train_batch_size=2", "train.micro_batch_size=2")
        if again != ours:
            wrong.append("zeroth reads it with loss %.9g" % again)
    except RuntimeError as e:
        wrong.append("zeroth cannot read it: " + str(e).strip())
    try:
        other, lost = theirs(out)
        if lost or abs(other / ours - 1) > 1e-5:
            wrong.append("transformers has loss %.9g %s" % (other, " ".join(lost)))
    except Exception as e:
        wrong.append("transformers cannot read it: %s: %s" % (type(e).__name__, " ".join(str(e).split())[:200]))
    if wrong:
        return "OTHER", "; ".join(["%.9g" % ours, *wrong])
    return "same", " ".join(open(os.path.join(out, "config.json")).read().split())


tally = {}
for family in sys.argv[5:] or FAMILIES:
    r = random.Random("%s %s" % (seed, family))
    table = json.loads(run("plugin", "info", "model/" + family, "--json").stdout)["options"]
    for i in range(count):
        options = mix(r, table)
        with tempfile.TemporaryDirectory() as root:
            what, why = verdict(family, options, root)
        tally[family, what] = tally.get((family, what), 0) + 1
        print(what, family, " ".join(o[6:] for o in options), "|", why, flush=True)
for (family, what), n in sorted(tally.items()):
    print("# %s: %s %d" % (family, what, n))
