# SPDX-License-Identifier: Apache-2.0
#
# documents.py - how make_gpt2.py and make_llama.py cut their sequences into documents, as
# fixture_documents() of tests/lib/model_fixture.c does.
import torch


def documents(B, T):
    """Where each token's document starts [B, T]; weights [B*T], 0 where there is no target."""
    starts = []
    for b in range(B):
        t, n = 0, b
        while t < T:
            length = min([5, 1, 7][n % 3], T - t)
            starts += [t] * length
            t, n = t + length, n + 1
    weights = [0 if i % 3 == 1 else i % 4 / 2 for i in range(B * T)]
    return torch.tensor(starts).reshape(B, T), torch.tensor(weights, dtype=torch.float64)
