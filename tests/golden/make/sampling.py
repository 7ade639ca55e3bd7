"""Writes sampling.txt: the tokens that transformers draws from logits in its different ways.

= 0.5 3 0.9 0.1 1.3      temperature, top_k, top_p, min_p, repetition_penalty
: 4 1 ..                 the tokens of two rows of logits, drawn 20 times

The logits and the earlier tokens are those of test_sampling.c.
"""

import itertools
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
# transformers.py is one of these scripts; the library's folder must come before theirs.
sys.path = [p for p in sys.path if os.path.abspath(p or ".") != HERE] + [HERE]

import torch
from transformers import (
    MinPLogitsWarper,
    RepetitionPenaltyLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from golden import Golden

LOGITS = torch.tensor([[(7 * i * i + 3 * r) % 23 / 4 - 3 for i in range(12)] for r in range(2)])
PREVIOUS = torch.tensor([[1, 3, 3], [0, 11, 2]])


def limited(temperature, top_k, top_p, min_p, penalty):
    """Returns the logits after the steps that generate() makes, in its order."""
    scores = RepetitionPenaltyLogitsProcessor(penalty)(PREVIOUS, LOGITS.clone())
    scores = TemperatureLogitsWarper(temperature)(PREVIOUS, scores)
    if top_k:
        scores = TopKLogitsWarper(top_k)(PREVIOUS, scores)
    if top_p < 1:
        scores = TopPLogitsWarper(top_p)(PREVIOUS, scores)
    if min_p:
        scores = MinPLogitsWarper(min_p)(PREVIOUS, scores)
    return scores


with Golden("sampling") as data:
    ways = ((0.5, 1.0, 2.0), (0, 3, 50), (1.0, 0.8), (0.0, 0.2), (1.0, 1.7))
    for way in itertools.product(*ways):
        scores = limited(*way)
        g = torch.Generator().manual_seed(42)
        draws = [torch.multinomial(scores.softmax(-1), 1, generator=g) for _ in range(20)]
        data.case(*way)
        data.numbers(torch.cat(draws).flatten().tolist())
