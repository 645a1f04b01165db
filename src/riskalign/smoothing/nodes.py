"""Nodes on [0, 1], dense where kernels are narrow, and polynomials between them.

A smooth function of a probability is known by its values at the nodes: between them it is
the polynomial of degree seven through the eight nearest. The transpose of that interpolation
*spreads* samples onto nodes, so that a sum over samples becomes a sum over nodes,

    sum_i w_i f(p_i) = sum_a m_a f(x_a),    m_a = sum_i w_i P_ia,

with P_ia the weight of node a in the polynomial at p_i.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array
from scipy.special import expit

from riskalign.equations.arrays import FLOOR, FloatArray
from riskalign.equations.kernels import Kernel
from riskalign.equations.simplex import LOG_ODDS_END, log_odds

SPACING = 0.22
"""Distance of neighbouring nodes in units of the kernel's width."""

STENCIL = 8
"""Nodes that share a sample: polynomials of degree seven."""

KNOTS = 8_193
"""Knots of the spline from log-odds to places among the nodes: it errs by 1e-11 nodes."""

DIFFERENCE = 1e-4
"""Step in log-odds of the numerical derivative that measures a kernel's width."""

NEWTON_STEPS = 3
"""Newton steps that find a node's log-odds from the inverse spline's."""

CHUNK = 8_192
"""Samples whose weights are computed at once: temporaries stay in cache."""


class Nodes:
    """Nodes that resolve a kernel at bandwidths from `resolution` up.

    The first and the last node are 0 and 1 themselves. Between them nodes follow a coordinate
    whose unit is the kernel's width, from the floor of the logarithm to its mirror image.
    Nodes for several flattenings tau resolve the kernel of every f^tau at once: the squares of
    their densities add up.

    Attributes
    ----------
    probabilities : (M,), the nodes
    log_odds : (M,), their log-odds, those of the floor (and of its mirror image) at 0 (at 1)
    """

    def __init__(
        self, kernel: Kernel, resolution: float, flattenings: tuple[float, ...] = (1.0,)
    ) -> None:
        t = np.linspace(-LOG_ODDS_END, LOG_ODDS_END, KNOTS)
        squared_density = np.ones(KNOTS)  # functions of the log-odds themselves are resolved too
        for tau in flattenings:
            around = (expit(tau * (t + step)) for step in (DIFFERENCE, -DIFFERENCE))
            above, below = (kernel.coordinate(q, resolution) for q in around)
            squared_density += ((above - below) / (2 * DIFFERENCE)) ** 2
        from scipy.interpolate import CubicSpline  # its import takes a while

        arc = CubicSpline(t, np.sqrt(squared_density)).antiderivative()(t)
        self._last = max(int(np.ceil(arc[-1] / SPACING)), 2 * STENCIL)  # inner nodes less one
        place = arc * (self._last / arc[-1])
        spline = CubicSpline(t, place)
        self._step = t[1] - t[0]
        self._pieces = np.ascontiguousarray(spline.c.T)  # (KNOTS - 1, 4)
        wanted = np.arange(self._last + 1.0)
        inner = CubicSpline(place, t)(wanted)
        for _ in range(NEWTON_STEPS):
            inner -= (spline(inner) - wanted) / spline(inner, 1)
        inner[0], inner[-1] = -LOG_ODDS_END, LOG_ODDS_END
        self.log_odds: FloatArray = np.concatenate([inner[:1], inner, inner[-1:]])
        self.probabilities: FloatArray = np.concatenate([[0.0], expit(inner), [1.0]])

    def __len__(self) -> int:
        """Number of nodes M."""
        return len(self.probabilities)

    @property
    def points(self) -> FloatArray:
        """The nodes on the simplex, ``(M, 2)``, accurate in both tails."""
        complement = expit(-self.log_odds)
        complement[0], complement[-1] = 1.0, 0.0
        return np.array([complement, self.probabilities]).T

    def weights(self, p: FloatArray) -> csr_array:
        """Interpolation weights P ``(n, M)`` at probabilities p ``(n,)``: eight per row."""
        return self.weights_at(log_odds(p), p)

    def weights_at(self, odds: FloatArray, p: FloatArray) -> csr_array:
        """The same at given log-odds, which are accurate where p is close to 1."""
        n = len(p)
        weights = np.empty((n, STENCIL))
        columns = np.empty((n, STENCIL), dtype=np.int32)
        for start in range(0, n, CHUNK):
            rows = slice(start, start + CHUNK)
            of_nodes, numbers = self._stencils(odds[rows], p[rows])
            weights[rows], columns[rows] = of_nodes.T, numbers.T
        starts = np.arange(n + 1, dtype=np.int64) * STENCIL
        if n * STENCIL < 2**31:
            starts = starts.astype(np.int32)
        return csr_array((weights.ravel(), columns.ravel(), starts), shape=(n, len(self)))

    def stencils(self, p: FloatArray) -> Iterator[tuple[slice, FloatArray, npt.NDArray[np.int32]]]:
        """Some samples after others: rows, weights and node numbers, ``(8, b)`` each."""
        for start in range(0, len(p), CHUNK):
            rows = slice(start, start + CHUNK)
            yield rows, *self._stencils(log_odds(p[rows]), p[rows])

    def _stencils(
        self, odds: FloatArray, p: FloatArray
    ) -> tuple[FloatArray, npt.NDArray[np.int32]]:
        """Weights and node numbers of some samples, ``(8, b)`` each."""
        distance = odds + LOG_ODDS_END
        piece = np.minimum((distance / self._step).astype(np.intp), KNOTS - 2)
        distance -= piece * self._step
        cubic, square, linear, constant = self._pieces[piece].T
        place = ((cubic * distance + square) * distance + linear) * distance + constant
        first = np.floor(place).astype(np.int32) - (STENCIL // 2 - 1)
        np.clip(first, 0, self._last + 1 - STENCIL, out=first)
        weights = _lagrange(place - first - (STENCIL - 1) / 2)
        columns = first + np.arange(1, STENCIL + 1, dtype=np.int32)[:, None]
        # Below the floor (above its mirror image) the kernel is linear in its centre and
        # constant in its query: a straight line to the end node is exact to rounding.
        for end, neighbour, outside, gap in (
            (0, 1, p < FLOOR, p),
            (len(self) - 1, len(self) - 2, p > 1 - FLOOR, 1 - p),
        ):
            if outside.any():
                share = np.clip(gap[outside] / FLOOR, 0.0, 1.0)
                weights[:, outside] = 0.0
                weights[0, outside], weights[1, outside] = 1 - share, share
                columns[0, outside], columns[1, outside] = end, neighbour
        return weights, columns


def _lagrange(offset: FloatArray) -> FloatArray:
    """Weights ``(m, n)`` of the polynomial through unit-spaced nodes, at offsets from their middle.

    The weight of node a is the product of (offset - x_b) / (x_a - x_b) over the other nodes b:
    a product of those before a and one of those after it.
    """
    nodes = np.arange(STENCIL) - (STENCIL - 1) / 2
    weights = np.ones((STENCIL, len(offset)))
    before, after = np.ones_like(offset), np.ones_like(offset)
    for a in range(1, STENCIL):
        before *= offset - nodes[a - 1]
        weights[a] *= before
        after *= offset - nodes[-a]
        weights[-a - 1] *= after
    differences = nodes[:, None] - nodes
    np.fill_diagonal(differences, 1.0)
    weights /= differences.prod(axis=1)[:, None]
    return weights


@lru_cache(maxsize=64)
def nodes_at(kernel: Kernel, resolution: float, flattenings: tuple[float, ...] = (1.0,)) -> Nodes:
    """The nodes of a kernel at a resolution; a process makes each once."""
    return Nodes(kernel, resolution, flattenings)
