"""A common unit for sums of weights, so that their squares stay within range.

Weights may lie anywhere between 1e-300 and 1e300, where w^2 leaves the range of float64. Sums
therefore hold w / 2^e and (w / 2^e)^2, with 2^e the largest power of two up to the largest
weight so far. Scaling by a power of two is exact, sums in different units merge by bringing both
to the larger one, and e is a maximum, so it does not depend on the order of rows. Squares of
weights below 2^-537 times the largest become 0, which no sum could show anyway.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from riskalign.equations.arrays import FloatArray, IntArray

LEAST_EXPONENT = -1074
"""That of the smallest positive float64: the unit while every weight was 0."""


def exponent_of(weights: FloatArray) -> int:
    """The e of the unit 2^e for these weights.

    Examples
    --------
    >>> import numpy as np
    >>> exponent_of(np.array([1.0, 1.0])), exponent_of(np.array([0.2, 5e300]))
    (0, 998)
    """
    largest = float(weights.max(initial=0.0))
    return math.frexp(largest)[1] - 1 if largest > 0 else LEAST_EXPONENT


def in_units(sums: FloatArray, exponent: int, power: int = 1) -> FloatArray:
    """Sums of w^power that are in units of 1, in units of 2^(power * exponent)."""
    return sums if exponent == 0 else np.ldexp(sums, -power * exponent)


def in_own_unit(largest: FloatArray, *others: FloatArray) -> tuple[FloatArray, ...]:
    """Weights in the unit of the largest of the first of them.

    Examples
    --------
    >>> import numpy as np
    >>> [weights.tolist() for weights in in_own_unit(np.array([1.0, 6.0]), np.array([2.0]))]
    [[0.25, 1.5], [0.5]]
    """
    exponent = exponent_of(largest)
    return tuple(in_units(weights, exponent) for weights in (largest, *others))


MAGNITUDE = 256
"""Squares of numbers between 2^-256 and 1 are far from the end of the range of float64."""


def by_magnitude(weights: FloatArray) -> Iterator[tuple[IntArray | slice, int]]:
    """Weights that are positive in parts whose sums have a unit 2^e: places, and e.

    Examples
    --------
    >>> import numpy as np
    >>> [e for _, e in by_magnitude(np.array([0.3, 2.0]))]
    [1]
    >>> [(part.tolist(), e) for part, e in by_magnitude(np.array([0.3, 2e-300, 2.0]))]
    [([0, 2], 1), ([1], -996)]
    """
    exponent = exponent_of(weights)
    if math.frexp(float(weights.min()))[1] > exponent - MAGNITUDE:
        yield slice(None), exponent
        return
    left = np.arange(len(weights))
    while len(left):
        exponent = exponent_of(weights[left])
        large = np.frexp(weights[left])[1] > exponent - MAGNITUDE
        yield left[large], exponent
        left = left[~large]
