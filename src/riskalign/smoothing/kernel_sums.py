"""Kernel sums of masses on nodes: one product with a banded matrix, shared by all columns.

Nodes that resolve the narrowest kernel are more than a wide one needs. Masses are carried to
coarser nodes (the transpose of interpolation), multiplied there, and the sums carried back. In
coordinates f^tau the kernel's own nodes are nodes of f^tau; the masses stay where they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.sparse import csr_array

from riskalign.equations.arrays import FloatArray
from riskalign.equations.kernels import Kernel, SquaredKernel
from riskalign.equations.simplex import FLATTENINGS, tempered
from riskalign.smoothing.nodes import Nodes, nodes_at
from riskalign.smoothing.operator import Tuning

LEVEL, LEVELS = 2.0, 9
"""Ratio of the bandwidths that neighbouring levels of nodes resolve, and how many there are
above the finest: the nodes of the last are so few that wider kernels take them too."""

NEGLIGIBLE = 60.0
"""Nats below a row's largest term at which a kernel is zero: 1e6 samples there add 1e-20."""

BLOCK = 64
"""Rows of the kernel matrix whose band is found together."""


def resolution_of(kernel: Kernel) -> float:
    """The narrowest bandwidth that nodes resolve."""
    return kernel.bandwidth_range(2)[0]


def nodes_of(kernel: Kernel) -> Nodes:
    """The nodes on which masses are held: they resolve the kernel in all its coordinates."""
    return nodes_at(kernel, resolution_of(kernel), FLATTENINGS)


def kernel_sums(
    kernel: Kernel,
    tuning: Tuning,
    masses: FloatArray,
    *,
    squared: bool = False,
    span: tuple[int, int] | None = None,
) -> FloatArray:
    """sum_b k_h(x_a; x_b) mass_b with x at every node, ``(M, C)`` both.

    `squared` takes the square of the kernel in place of the kernel. With a span, masses and sums
    are those of the nodes from its first to before its last.
    """
    transfer = _transfer(kernel, tuning, squared, span)
    carried = transfer.to_coarse @ masses
    sums = np.zeros_like(carried)
    for rows, band, block in _bands(transfer.kernel, transfer.level, tuning.bandwidth):
        if rows.stop > transfer.first and rows.start < transfer.last:
            np.matmul(block, carried[band], out=sums[rows])
    result: FloatArray = transfer.to_fine @ sums
    return result


@lru_cache(maxsize=256)
def own_kernel(kernel: Kernel, tuning: Tuning) -> FloatArray:
    """k_h(x_a; x_a) at the nodes, ``(M,)``: what a sample adds to its own sum."""
    points = nodes_of(kernel).points
    if tuning.flattening != 1.0:
        points = tempered(points, tuning.flattening)
    return np.exp(kernel.log_peak(points, tuning.bandwidth))


@dataclass(frozen=True)
class _Transfer:
    """Between the nodes that hold masses and those of a level.

    Attributes
    ----------
    to_fine, to_coarse : interpolation from the level's nodes, and its transpose
    kernel : the kernel, or its square
    level : the bandwidth that the level's nodes resolve
    first, last : the nodes of the level that have a part
    """

    to_fine: csr_array
    to_coarse: csr_array
    kernel: Kernel
    level: float
    first: int
    last: int


@lru_cache(maxsize=512)
def _transfer(
    kernel: Kernel, tuning: Tuning, squared: bool, span: tuple[int, int] | None
) -> _Transfer:
    finest = resolution_of(kernel)
    steps = int(np.floor(np.log(tuning.bandwidth / finest) / np.log(LEVEL) + 1e-9))
    level = finest * LEVEL ** min(max(steps, 0), LEVELS)
    used: Kernel = SquaredKernel(kernel) if squared else kernel
    nodes, tau, some = nodes_of(kernel), tuning.flattening, slice(*(span or (None, None)))
    p = nodes.probabilities if tau == 1.0 else tempered(nodes.points, tau)[:, 1]
    to_fine = nodes_at(used, level).weights_at(tau * nodes.log_odds[some], p[some])
    first, last = int(to_fine.indices.min()), int(to_fine.indices.max()) + 1
    return _Transfer(to_fine, csr_array(to_fine.T.tocsr()), used, level, first, last)


@lru_cache(maxsize=64)
def _bands(kernel: Kernel, level: float, bandwidth: float) -> list[tuple[slice, slice, FloatArray]]:
    """The kernel matrix of a level's nodes in blocks: rows, columns that matter, entries.

    It is a band: a kernel is log-concave in its centre, and the centres that matter move up
    with x, so those of the first and of the last row of a block bound those of the block.
    """
    points = nodes_at(kernel, level).points
    queries = kernel.scale(bandwidth) * kernel.queries(points)
    key_bias = kernel.key_bias(points, bandwidth)
    query_bias = kernel.query_bias(points, bandwidth)
    starts = np.arange(0, len(points), BLOCK)
    ends = np.minimum(starts + BLOCK, len(points))
    edges = np.stack([starts, ends - 1], axis=1).ravel()
    scores = queries[edges] @ points.T + key_bias
    matters = scores > scores.max(axis=1, keepdims=True) - NEGLIGIBLE
    first = matters.argmax(axis=1)[::2]
    last = len(points) - matters[:, ::-1].argmax(axis=1)[1::2]
    blocks = []
    for rows, band in zip(map(slice, starts, ends), map(slice, first, last), strict=True):
        scores = queries[rows] @ points[band].T
        scores += key_bias[band]
        scores += query_bias[rows, None]
        blocks.append((rows, band, np.exp(scores)))
    return blocks
