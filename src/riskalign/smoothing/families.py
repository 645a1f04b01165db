"""Bandwidths that share products and exponentials.

Scores of two bandwidths differ by a factor and by one number a centre, their tilt. So one
product serves all: the scores of the narrowest, less their row's largest, are small for the
pairs that matter, and those of the others are made of them in float32. The tilt is left to the
sums, which multiply by a number a centre anyway. Where the factors are as small whole numbers,
weights are powers of one exponential.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from riskalign.arrays import FloatArray
from riskalign.smoothing.sums import Floats

SMALLEST = {4: -85.0, 8: -700.0}
"""Scores, by bytes of a float, below which a weight counts as that small, 1e-37 of the row's
largest: the exponentials beyond are subnormal, and ten times slower."""

NOTHING = 27.0
"""Nats between the row's largest weight and one that counts as nothing."""

CHAINS = ((1, 2), (2, 3, 4), (3, 4, 6))
"""Powers of one exponential: a product each costs less than another exponential. What counts
as nothing in the highest power must do so in the lowest, which leaves room for small tilts."""


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
    tilt: FloatArray
    offset: float

    @cached_property
    def least_tilt(self) -> float:
        """The lowest tilt of a centre."""
        return float(self.tilt.min())

    def factors(self, dtype: npt.DTypeLike) -> Floats | None:
        """What powers of the other's weights are multiplied by ``(n,)``, None if by one."""
        return np.exp(self.tilt).astype(dtype) if self.least_tilt < 0 else None


@dataclass(frozen=True)
class Chain:
    """Bandwidths whose weights are powers of one exponential.

    Attributes
    ----------
    power : of the family's scores, whose exponential is the base
    members : powers of the base, ascending, and the bandwidths' steps from the family's scores
    """

    power: float
    members: Sequence[tuple[int, Step]]

    @property
    def is_close(self) -> bool:
        """Whether tilts leave the largest weights far above those that count as nothing."""
        highest, _ = self.members[-1]
        return all(
            step.least_tilt >= NOTHING + SMALLEST[4] * power / highest
            for power, step in self.members
        )


@dataclass(frozen=True)
class Family:
    """Bandwidths that share a product, which has this scale and this bias ``(n,)``."""

    scale: float
    bias: Floats
    chains: Sequence[Chain]

    @cached_property
    def least_bias(self) -> float:
        """The lowest bias of a centre."""
        return float(self.bias.min())

    @property
    def steps(self) -> Iterator[Step]:
        """From the family's scores to each bandwidth's."""
        return (step for chain in self.chains for _, step in chain.members)


def make_families(bandwidths: Sequence[Bandwidth]) -> list[Family]:
    """Bandwidths by the product that they share.

    A family's scores are those of its narrowest chain, exact where it matters.
    """
    groups = _groups(bandwidths)
    families = []
    while groups:
        power, widest = groups[-1][0]
        reference = bandwidths[widest]
        scale, bias = reference.scale / power, reference.bias / power
        chains, apart = [], []
        for group in reversed(groups):
            chain = _chain(scale, bias, bandwidths, group)
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
    return Family(scale, bias.astype(precision, copy=False), chains)


Group = list[tuple[int, int]]
"""Powers of a base, ascending, and the positions of their bandwidths."""


def _groups(bandwidths: Sequence[Bandwidth]) -> list[Group]:
    """What chains are made of; the widest bandwidth first."""
    groups = []
    remaining = sorted(range(len(bandwidths)), key=lambda i: -bandwidths[i].h)
    while remaining:
        possible = [_group(bandwidths, remaining, powers) for powers in CHAINS]
        groups.append(max(possible, key=len))
        taken = {position for _, position in groups[-1]}
        remaining = [i for i in remaining if i not in taken]
    return groups


def _group(
    bandwidths: Sequence[Bandwidth], remaining: Sequence[int], powers: Sequence[int]
) -> Group:
    """The widest of the remaining as the first of some powers, and what there is of the rest."""
    reference = bandwidths[remaining[0]]
    group = [(powers[0], remaining[0])]
    for i in remaining[1:]:
        power = powers[0] * bandwidths[i].scale / reference.scale
        whole = round(power)
        if whole in powers[1:] and abs(power / whole - 1) < 1e-9:
            group.append((whole, i))
    scale, bias = reference.scale / powers[0], reference.bias / powers[0]
    together = len(group) > 1 and _chain(scale, bias, bandwidths, group).is_close
    return group if together else [(1, remaining[0])]


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
