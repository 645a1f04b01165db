"""Bandwidths that share products and exponentials.

Scores of two bandwidths differ by a factor and by one number a centre, their tilt. So one
product serves all: the scores of the narrowest, less their row's largest, are small for the
pairs that matter, and those of the others are made of them in float32. Where the factor is
3/2 or 2, weights are made of weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from riskalign.smoothing.sums import Floats

TILTS = 40.0
"""Largest spread of a tilt, in nats: the largest weight of a row remains above e-17."""

POWERS, POWER_TILTS = (1.5, 2.0), 15.0
"""Powers of a weight that cost less than an exponential, and the largest spread of their tilt."""


@dataclass(frozen=True)
class Bandwidth:
    """What the scores of a bandwidth are made of.

    Attributes
    ----------
    bias : (n,), less the shift, in the precision of the scores
    shift : keeps scores below zero
    """

    h: float
    scale: float
    bias: Floats
    shift: float


@dataclass(frozen=True)
class Step:
    """How the scores of a bandwidth follow from those of another.

    score = power * (the other's score) + tilt + offset; the tilt is one number a centre, at
    most 0.
    """

    position: int
    power: float
    tilt: Floats
    offset: float

    @cached_property
    def factors(self) -> Floats:
        """What weights that are powers of the other's are multiplied by."""
        return np.exp(self.tilt)

    def lowest(self, of_other: float) -> float:
        """A bound of all scores, from one of the other's."""
        return self.power * of_other + float(self.tilt.min())


@dataclass(frozen=True)
class Head:
    """A bandwidth whose weights are exponentials, and those whose weights are its powers."""

    step: Step
    powers: Sequence[Step]


def make_families(bandwidths: Sequence[Bandwidth], dtype: np.dtype[Any]) -> list[list[Head]]:
    """Bandwidths that share a product: the first head of a family, and those made of it.

    The first is the narrowest, whose scores are exact where it matters.
    """
    heads = []
    remaining = sorted(range(len(bandwidths)), key=lambda i: -bandwidths[i].h)
    while remaining:
        widest, *others = remaining
        related = [i for i in others if _power(bandwidths[widest], bandwidths[i]) in POWERS]
        steps = [_step(bandwidths, widest, i, POWER_TILTS, dtype) for i in related]
        powers = [step for step in steps if step is not None]
        heads.append((widest, powers))
        taken = {step.position for step in powers}
        remaining = [i for i in others if i not in taken]
    families = []
    while heads:
        narrowest, powers = heads.pop()
        families.append([Head(Step(narrowest, 1.0, np.zeros(1, dtype), 0.0), powers)])
        for head in heads[::-1]:
            limit = POWER_TILTS if head[1] else TILTS
            step = _step(bandwidths, narrowest, head[0], limit, dtype)
            if step is not None:
                families[-1].append(Head(step, head[1]))
                heads.remove(head)
    return families


def _power(reference: Bandwidth, own: Bandwidth) -> float:
    """The ratio of two scales: one of the `POWERS` itself if it is that up to rounding."""
    ratio = own.scale / reference.scale
    return next((each for each in POWERS if abs(ratio / each - 1) < 1e-9), ratio)


def _step(
    bandwidths: Sequence[Bandwidth], first: int, position: int, limit: float, dtype: np.dtype[Any]
) -> Step | None:
    """From the scores of one bandwidth to another's, None if the tilt is too large."""
    reference, own = bandwidths[first], bandwidths[position]
    power = _power(reference, own)
    tilt = own.bias - power * reference.bias.astype(np.float64)
    top = float(tilt.max())
    if np.ptp(tilt) > limit:
        return None
    return Step(position, power, (tilt - top).astype(dtype), top)
