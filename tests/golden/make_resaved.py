#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# make_resaved.py ZEROTH TOKENS RESAVED [CASE...]: takes models there and back. Of each line of RESAVED/cases, a name and options,
# ZEROTH trains a small model of its own and exports it; transformers, 4.57 or 5.24, whichever runs this, loads that, must find the
# same loss, and saves it again; ZEROTH reads what it saved, and its export must have the same bytes and mean the same options.
# The config.json that transformers saved is left as RESAVED/NAME.VERSION.json, for tests/system/resaved.sh.
import json
import os
import shutil
import subprocess
import sys
import tempfile

import numpy
import torch
import torch.nn.functional as F
import transformers
from safetensors.numpy import load_file

VERSION = ".".join(transformers.__version__.split(".")[:2])
SMALL = ["model.layers=2", "model.heads=2", "model.width=16", "model.ffn_width=24", "model.context=16", "model.vocabulary=61"]
DATA = ["data.plugin=tokens", "data.format=uint16", "data.order=sequential", "train.sequence_length=13", "train.train_batch_size=2",
        "train.micro_batch_size=2", "train.eval_every=0", "optimizer.plugin=adamw"]
zeroth, tokens, resaved = sys.argv[1:4]


def run(*words):
    done = subprocess.run([zeroth, *words], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit("%s: %s" % (" ".join(words), done.stderr))
    return done.stdout


def train(where, *options):
    """The last loss, and the options of the model as the run had them."""
    words = []
    for option in [*DATA, "data.path=" + tokens, "run.dir=" + where, *options]:
        words += ["-o", option]
    ini = where + ".ini"
    open(ini, "w").write("[train]\n")
    run("train", ini, *words)
    losses = [json.loads(line)["loss"] for line in open(os.path.join(where, "metrics.jsonl"))]
    own = open(os.path.join(where, "config.ini")).read().split("[model]")[1].split("\n[")[0].splitlines()
    values = {line.split(" ; ")[0] for line in own if line}
    return losses[-1], {v for v in values if not v.startswith(("path", "dropout"))}


def loss_of(model):
    ids = torch.tensor(numpy.fromfile(tokens, "<u2")[:27].astype("int64"))
    with torch.no_grad():
        logits = model.double().eval()(ids[:-1].reshape(2, 13)).logits
    return F.cross_entropy(logits.reshape(26, -1), ids[1:]).item()


def there_and_back(name, options, root):
    at = {d: os.path.join(root, d) for d in ("new", "out", "saved", "again", "back", "still")}
    train(at["new"], *[o for o in SMALL if o.split("=")[0] not in {p.split("=")[0] for p in options}], *options, "train.steps=2",
          "optimizer.lr=1e-2", "model.init_std=0.2")
    run("checkpoint", "export", at["new"], at["out"])
    still, ours = train(at["still"], "model.path=" + at["out"], "train.steps=1", "optimizer.lr=0", "optimizer.weight_decay=0")
    more = {} if VERSION.startswith("4.") else {"experts_implementation": "eager"}
    transformers.AutoModelForCausalLM.from_pretrained(at["out"]).save_pretrained(at["saved"])
    theirs = loss_of(transformers.AutoModelForCausalLM.from_pretrained(at["saved"], attn_implementation="eager", **more))
    assert abs(theirs / still - 1) < 2e-6, (name, theirs, still)
    again, options_again = train(at["again"], "model.path=" + at["saved"], "train.steps=1", "optimizer.lr=0",
                                 "optimizer.weight_decay=0")
    assert again == still, (name, again, still)
    assert options_again == ours, (name, sorted(options_again ^ ours))
    run("checkpoint", "export", at["again"], at["back"])
    first, last = (load_file(os.path.join(at[d], "model.safetensors")) for d in ("out", "back"))
    assert first.keys() == last.keys() and all(first[k].tobytes() == last[k].tobytes() for k in first), name
    shutil.copy(os.path.join(at["saved"], "config.json"), os.path.join(resaved, "%s.%s.json" % (name, VERSION)))
    print("%-16s loss %.7g, theirs %.7g" % (name, still, theirs))


for line in open(os.path.join(resaved, "cases")):
    name, *options = line.split()
    if not sys.argv[4:] or name in sys.argv[4:]:
        with tempfile.TemporaryDirectory() as root:
            try:
                there_and_back(name, options, root)
            except Exception as e:
                print("%-16s %s: %s" % (name, type(e).__name__, " ".join(str(e).split())[:300]))
