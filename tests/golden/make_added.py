#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# make_added.py: writes tests/golden/added: a tokenizer of 59 tokens for the models of tests/golden/pretrained, which have
# 61 rows, and what transformers makes of both when tokens are added by add_special_tokens and resize_token_embeddings:
#   tokenizer.json, tokenizer_config.json
#   cases.json  by list of tokens: their ids, the length of the tokenizer, the rows of the model, the ids of the text, and of a
#               conversation by the chat template
#   losses.txt  a line for each model: its name and the losses of 3 steps of AdamW (lr 1e-2, betas 0.9, 0.95, no weight decay,
#               float32) on the sequence of tokens.bin (uint16), with the longest list
# transformers 5.24 with tokenizers 0.23 and PyTorch 2.15 wrote them; new rows have their noise there, of 1e-9 of the covariance.
import json
import os
import struct

import torch
import transformers
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

HERE = os.path.dirname(os.path.abspath(__file__))
OUT = HERE + "/added"
TEXT = "<|im_start|>the end<tool> of<|im_end|>the <think>thing</think><|endoftext|>, then<|im_end|>"
LISTS = ["<|im_start|> <|im_end|>", "<|im_start|> <|endoftext|> <|im_end|> the <think> </think>"]
CHAT = ("{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>' + '\n' }}{% endfor %}"
        "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}")
MESSAGES = [{"role": "user", "content": "the end?"}, {"role": "assistant", "content": "then the thing."}]


def tokenizer():
    merges = [("t", "h"), ("th", "e"), ("\u0120", "t"), ("\u0120", "a"), ("i", "n"), ("e", "n"), ("in", "g"), ("u", "s"),
              ("e", "r"), ("us", "er"), ("o", "f"), ("a", "s"), ("s", "t"), ("as", "s"), ("th", "ing"), ("en", "d"),
              ("an", "t"), ("a", "n")]
    merges = merges[:-2] + [("a", "n"), ("an", "t")]
    letters = list("abcdefghijklmnopqrstuvwxyz") + ["\u0120", "\u010a"] + list(".,!?<>|_/\"&")
    vocab = {c: i for i, c in enumerate(letters + [a + b for a, b in merges])}
    assert len(vocab) == 57
    t = Tokenizer(models.BPE(vocab=vocab, merges=merges))
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    t.decoder = decoders.ByteLevel()
    t.add_special_tokens([AddedToken("<|endoftext|>", special=True, normalized=False)])
    t.add_tokens([AddedToken("<tool>", normalized=False)])
    return t


def settings(t):
    decoder = {str(i): {k: v for k, v in a.__getstate__().items()} for i, a in sorted(t.get_added_tokens_decoder().items())}
    return {"added_tokens_decoder": decoder, "chat_template": CHAT, "clean_up_tokenization_spaces": False,
            "eos_token": "<|endoftext|>", "model_max_length": 32, "tokenizer_class": "PreTrainedTokenizerFast"}


def case(tokens):
    t = transformers.AutoTokenizer.from_pretrained(OUT)
    t.add_special_tokens({"additional_special_tokens": tokens.split()})
    chat = t.apply_chat_template(MESSAGES, tokenize=False)
    return t, {"tokens": tokens, "ids": t.convert_tokens_to_ids(tokens.split()), "length": len(t), "text": t.encode(TEXT),
               "chat": t.encode(chat, add_special_tokens=False)}


def losses(name, t, ids):
    torch.manual_seed(1)
    model = transformers.AutoModelForCausalLM.from_pretrained(f"{HERE}/pretrained/{name}", dtype=torch.float32)
    if len(t) > model.get_input_embeddings().weight.shape[0]:
        model.resize_token_embeddings(len(t))
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, betas=(0.9, 0.95), eps=1e-8, weight_decay=0)
    x, out = torch.tensor([ids]), []
    for _ in range(3):
        loss = model(input_ids=x, labels=x).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        out.append(loss.item())
    return model.get_input_embeddings().weight.shape[0], out


def main():
    os.makedirs(OUT, exist_ok=True)
    t = tokenizer()
    t.save(OUT + "/tokenizer.json")
    with open(OUT + "/tokenizer_config.json", "w") as f:
        f.write(json.dumps(settings(t), indent=2, sort_keys=True) + "\n")
    made = [case(tokens) for tokens in LISTS]
    grown, last = made[-1]
    ids = (last["text"][:8] + [61, 0, 62] + last["chat"])[:14]
    assert {59, 60, 61, 62} <= set(ids) and len(ids) == 14, (ids, last)
    with open(OUT + "/tokens.bin", "wb") as f:
        f.write(struct.pack("<14H", *ids))
    with open(OUT + "/losses.txt", "w") as f:
        for name in ("llama", "llama-tied", "gpt2", "gpt-neox"):
            last["rows"], values = losses(name, grown, ids)
            f.write(" ".join([name] + [f"{x:.6f}" for x in values]) + "\n")
    made[0][1]["rows"] = losses("llama", made[0][0], ids[:2])[0]
    with open(OUT + "/cases.json", "w") as f:
        f.write(json.dumps({"text": TEXT, "messages": MESSAGES, "cases": [c for _, c in made]}, indent=1) + "\n")


main()
