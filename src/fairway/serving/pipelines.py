"""How long does a server take that writes no tokens: image pipelines, classifiers, whatever has steps of one length?

A request takes `start_s` and as many steps as it asks for (`output`); of `n` at once a step takes `1 + (n - 1) ·
batched` times as long: 0, the card has room for all; 1, they take as long as one after the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from fairway.serving.steptimes import StepTimes

# There is no cache that could be full.
_NO_END = 2**50


class Named(NamedTuple):
    name: str


@dataclass(frozen=True, slots=True)
class Pipeline:
    """`seqs_most` requests at once: together in a batch where `batch_delay_s` is not negative, else each on its own."""

    model: Named
    start_s: float
    step_s: float
    batched: float = 1.0
    seqs_most: int = 1
    batch_delay_s: float = 0.0
    tokens_most: int = _NO_END
    draft_tokens: int = 0
    tokens_a_step: float = 1.0


def pipeline_times(pipeline: Pipeline) -> StepTimes:
    """A "token" of a prompt is a request that starts, one that is written a step."""
    at_once = np.arange(pipeline.seqs_most + 1, dtype=np.float64)
    longer = np.where(at_once > 0, 1 + (at_once - 1) * pipeline.batched, 0.0)
    steps = pipeline.step_s * longer
    # The first step is the one that a request starts with.
    return StepTimes(pipeline.start_s * longer + steps, steps, 0.0, 0.0, _NO_END)
