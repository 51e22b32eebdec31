#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
#
# make_right.py > right.txt: which targets are the likeliest token, by PyTorch's argmax of the logits
# x w^T, in float64. Inputs are drawn as tests/unit/device/t_right.c draws them: multiples of 1/64 in
# [-2, 2), exact in bf16. Tokens 14 to 27 have the rows of w of tokens 0 to 13, so that all rows of
# logits but those that token 28 leads have two largest ones. Weights are 0, 0.5, 1, 1.5, and so on
# round. One line a row: target, weight if it is the likeliest, else 0.
import torch

state = 7


def array(*shape):
    global state
    out = []
    for _ in range(torch.Size(shape).numel()):
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        out.append(((state >> 40) & 0xFF) / 64.0 - 2.0)
    return torch.tensor(out, dtype=torch.float64).reshape(shape)


x, w = array(40, 6), array(29, 6)
w[14:28] = w[:14]
likeliest = (x @ w.T).argmax(1)
for r in range(40):
    top = int(likeliest[r])
    # the likeliest, its twin, another one, none
    target = [top, (top + 14) % 28, (top + 1) % 29, -1][r % 7 % 4]
    print(target, (r % 4) / 2 if target == top else 0.0)
