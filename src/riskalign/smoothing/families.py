"""Bandwidths that share products and exponentials.

Scores of two bandwidths differ by a factor and by one number per centre, their tilt. So one
product serves all: the scores of the narrowest, less their row's largest, are small for the
pairs that matter, and those of the others are made of them in float32. The tilt is left to the
sums, which multiply by a number per centre anyway. Where the factors are as small whole numbers,
weights are powers of one exponential.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from riskalign.equations.arrays import FloatArray, IntArray
from riskalign.smoothing.sums import Floats

SMALLEST = {4: -85.0, 8: -700.0}
"""Lowest scores, by bytes of a float: the exponentials beyond are subnormal, and ten times
slower, so that weights beyond count as that small."""

NOTHING = 27.0
"""How far the logarithm of a negligible weight is below that of the largest of its row."""

STEEPEST = NOTHING + SMALLEST[4]
"""Lowest tilt of bandwidths that share a product: steeper ones leave what matters to scores that
float32 rounds too coarsely."""

DOUBLINGS = 90
"""How often the row's largest weight is doubled where others would count as nothing too early.
Weights times values then add up to less than the largest number of float32 as long as values
add up to less than 1e11."""

SILENT = -1e30
"""Bias of a centre that weighs nothing."""

HIGHEST = 8
"""Highest power of one exponential: a product each costs less than another exponential."""

WIDEST = (DOUBLINGS * np.log(2) - SMALLEST[4]) / NOTHING
"""Largest ratio of such powers: what counts as nothing in the highest must do so in the
lowest. A smaller one leaves room for small tilts."""


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

    score = power * (the other's score) + tilt + offset; the tilt is one number per centre, at
    most 0.
    """

    position: int
    power: float
    tilt: FloatArray
    offset: float

    @cached_property
    def least_tilt(self) -> float:
        """The lowest tilt of a centre."""
        return float(self.tilt.min())

    def factors(self, dtype: npt.DTypeLike) -> Floats | None:
        """The factors ``(n,)`` of powers of the other's weights; None if all are one."""
        factors = np.exp(self.tilt).astype(dtype)
        return None if (factors == 1).all() else factors


@dataclass(frozen=True)
class Chain:
    """Bandwidths whose weights are powers of one exponential.

    Attributes
    ----------
    power : of the family's scores, whose exponential is the base
    members : powers of the base, ascending, and the bandwidths' steps from the family's scores
    squared : whether squares of weights are summed too, and must neither vanish nor overflow
    """

    power: float
    members: Sequence[tuple[int, Step]]
    squared: bool = False

    @property
    def highest(self) -> int:
        """The highest power."""
        return self.members[-1][0]

    @cached_property
    def doublings(self) -> int:
        """How often the base is doubled, which is exact, after its exponential."""
        return 0 if self._leaves_room(0) else self._most_doublings

    def smallest(self, dtype: np.dtype[Any]) -> float:
        """Lowest score of the base whose highest power is not subnormal."""
        return SMALLEST[dtype.itemsize] / self.highest - self.doublings * float(np.log(2))

    @property
    def is_close(self) -> bool:
        """Whether tilts leave the largest weights far above those that count as nothing."""
        if self.squared:
            lowest = min(step.least_tilt for _, step in self.members)
            return lowest >= STEEPEST / 2 and self._leaves_room(0)
        return self._leaves_room(self._most_doublings)

    @property
    def _most_doublings(self) -> int:
        return DOUBLINGS // self.highest

    def _leaves_room(self, doublings: int) -> bool:
        room = doublings * np.log(2) - SMALLEST[4] / self.highest  # of the base, in nats
        return all(
            step.least_tilt >= max(NOTHING - power * room, STEEPEST) for power, step in self.members
        )


@dataclass(frozen=True)
class Family:
    """Bandwidths that share a product.

    Attributes
    ----------
    scale : of the product
    bias : (n,), of the product
    least_bias : the lowest of a centre that weighs something
    chains : the bandwidths
    """

    scale: float
    bias: Floats
    least_bias: float
    chains: Sequence[Chain]

    def silencing(self, centres: IntArray) -> Family:
        """The same where some centres weigh nothing."""
        lowered = self.bias.copy()
        lowered[centres] = SILENT
        return replace(self, bias=lowered)

    @property
    def steps(self) -> Iterator[Step]:
        """From the family's scores to each bandwidth's."""
        return (step for chain in self.chains for _, step in chain.members)


def make_families(bandwidths: Sequence[Bandwidth], *, squared: bool = False) -> list[Family]:
    """Bandwidths by the product that they share.

    A family's scores are those of its narrowest chain, exact where it matters. Bandwidths whose
    weights are squared have an exponential each.
    """
    widest_first = sorted(range(len(bandwidths)), key=lambda i: -bandwidths[i].h)
    groups = [[(1, i)] for i in widest_first] if squared else _groups(bandwidths)
    families = []
    while groups:
        power, widest = groups[-1][0]
        reference = bandwidths[widest]
        scale, bias = reference.scale / power, reference.bias / power
        chains, apart = [], []
        for group in reversed(groups):
            chain = replace(_chain(scale, bias, bandwidths, group), squared=squared)
            if chain.is_close:
                chains.append(chain)
            else:
                apart.append(group)
        families.append(_family(scale, bias, chains, bandwidths))
        groups = apart[::-1]
    return families


def _family(
    scale: float, bias: Floats, chains: Sequence[Chain], bandwidths: Sequence[Bandwidth]
) -> Family:
    """A family in the precision that its most demanding bandwidth needs."""
    members = [bandwidths[step.position] for chain in chains for _, step in chain.members]
    precision = np.result_type(*(member.bias.dtype for member in members))
    return Family(scale, bias.astype(precision, copy=False), float(bias.min()), chains)


Group = list[tuple[int, int]]
"""Powers of a base, ascending, and the positions of their bandwidths."""


def _groups(bandwidths: Sequence[Bandwidth]) -> list[Group]:
    """What chains are made of; the widest bandwidth first."""
    groups = []
    remaining = sorted(range(len(bandwidths)), key=lambda i: -bandwidths[i].h)
    while remaining:
        groups.append(_group(bandwidths, remaining))
        taken = {position for _, position in groups[-1]}
        remaining = [i for i in remaining if i not in taken]
    return groups


def _group(bandwidths: Sequence[Bandwidth], remaining: Sequence[int]) -> Group:
    """The widest of the remaining, and all that are powers of the same base."""
    reference = bandwidths[remaining[0]]
    ratios = np.array([bandwidths[i].scale for i in remaining]) / reference.scale
    powers = np.arange(1, HIGHEST + 1)[:, None] * ratios  # a line for each power of the widest
    whole = np.rint(powers)
    possible = (whole <= HIGHEST) & (np.abs(powers / whole - 1) < 1e-9) & (ratios <= WIDEST)
    first = int(possible.sum(axis=1).argmax())
    chosen = np.flatnonzero(possible[first])
    group = [(int(whole[first, i]), remaining[i]) for i in chosen.tolist()]
    while len(group) > 1:
        divisor = math.gcd(*(power for power, _ in group))
        group = [(power // divisor, position) for power, position in group]
        lowest, _ = group[0]
        scale, bias = reference.scale / lowest, reference.bias / lowest
        if _chain(scale, bias, bandwidths, group).is_close:
            return group
        group.pop()
    return [(1, remaining[0])]


def _chain(scale: float, bias: Floats, bandwidths: Sequence[Bandwidth], group: Group) -> Chain:
    members = [(power, _step(scale, bias, bandwidths, i)) for power, i in group]
    power, step = members[0]
    return Chain(step.power / power, members)


def _step(scale: float, bias: Floats, bandwidths: Sequence[Bandwidth], position: int) -> Step:
    """To a bandwidth's scores from those of some scale and bias."""
    own = bandwidths[position]
    power = own.scale / scale
    tilt = own.bias - power * bias.astype(np.float64)
    top = float(tilt.max())
    return Step(position, power, tilt - top, top)
