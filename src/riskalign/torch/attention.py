r"""Softmax attention with the diagonal masked, in tiles that are recomputed for the gradient.

With queries q, keys k, one bias b per key and values v,

.. math::

    w_{ij} = \operatorname{softmax}_{j \ne i}(\langle q_i, k_j \rangle + b_j), \qquad
    A_i = \sum_j w_{ij} v_j, \quad L_i = \log \sum_{j \ne i} e^{\langle q_i, k_j \rangle + b_j},
    \quad s_i = \sum_j w_{ij}^2.

The derivative of a loss by a score is

.. math::

    w_{ij} \bigl(\langle \bar A_i, v_j - A_i \rangle + \bar L_i + 2 \bar s_i (w_{ij} - s_i)\bigr)

with a bar for derivatives by the outputs. It needs the scores of a tile only, so the tile is
computed a second time, and nothing of the size n x n is kept. Scores are in units of log 2, because
powers of two are computed faster; columns come first, because products with a few long rows are.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

TILE = 1 << 18
"""Scores that are computed at a time: 1 MB in float32, so that a tile stays in a core's cache."""

MASKED = -1e30
"""The score of a key that may not be seen. It is finite, so that no row gives 0 / 0."""

FAINT = -80.0
"""Weights below 2^-80 of the largest count as that: they change no sum, and numbers that are
smaller still are slow to compute with."""


def attend(
    queries: Tensor,
    keys: Tensor,
    bias: Tensor,
    values: Tensor,
    first: int = 0,
    squares: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:
    """Averages of values over all keys but the query's own.

    Parameters
    ----------
    queries : (P, d, n)
    keys : (P, d, m)
    bias : (P, m)
    values : (P, c, m)
    first : int
        The key of query 0; that of query i is first + i.
    squares : bool
        Whether s is wanted.

    Returns
    -------
    averages (P, c, n), logarithms of the sums (P, n), and s (P, n), which is 0 if not wanted

    Examples
    --------
    >>> import torch
    >>> q, v = torch.zeros(1, 1, 3), torch.tensor([[[1.0, 2.0, 6.0]]])
    >>> averages, _, _ = attend(q, q, torch.zeros(1, 3), v)
    >>> averages[0, 0].tolist()
    [4.0, 3.5, 1.5]
    """
    unit = math.log(2.0)
    averages, logs, s = _Attention.apply(queries / unit, keys, bias / unit, values, first, squares)
    return averages, logs * unit, s


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        queries: Tensor,
        keys: Tensor,
        bias: Tensor,
        values: Tensor,
        first: int,
        squares: bool,
    ) -> tuple[Tensor, Tensor, Tensor]:
        queries, keys, values = queries.contiguous(), keys.contiguous(), values.contiguous()
        n_problems, _, n = queries.shape
        averages = queries.new_empty(n_problems, values.shape[1], n)
        logs = queries.new_empty(n_problems, n)
        s = queries.new_zeros(n_problems, n)
        for part, rows, scores in _tiles(queries, keys, bias, first):
            top = scores.amax(2, keepdim=True)
            weights = scores.sub_(top).clamp_(min=FAINT).exp2_()
            total = weights.sum(2)
            averages[part, :, rows] = torch.bmm(values[part], weights.mT) / total[:, None]
            logs[part, rows] = top[..., 0] + total.log2()
            if squares:
                norm = torch.linalg.vector_norm(weights, dim=2) / total
                s[part, rows] = norm * norm
        ctx.first, ctx.squares = first, squares
        ctx.save_for_backward(queries, keys, bias, values, averages, logs, s)
        return averages, logs, s

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, by_averages: Tensor, by_logs: Tensor, by_s: Tensor) -> Any:
        queries, keys, bias, values, averages, logs, s = ctx.saved_tensors
        unit = math.log(2.0)  # of the scores; the logarithms are in the same
        of_rows = by_logs / unit - (by_averages * averages).sum(1)  # (P, n)
        if ctx.squares:
            of_rows = of_rows - 2 * by_s * s
        with_ones = torch.cat([queries, torch.ones_like(queries[:, :1])], 1)
        by_queries = torch.empty_like(queries)
        by_keys = keys.new_zeros(keys.shape[0], keys.shape[1] + 1, keys.shape[2])
        by_values = torch.zeros_like(values) if ctx.needs_input_grad[3] else None
        room: Tensor | None = None
        for part, rows, scores in _tiles(queries, keys, bias, ctx.first):
            weights = scores.sub_(logs[part, rows, None]).clamp_(min=FAINT).exp2_()
            room = torch.empty_like(weights) if room is None else room
            slopes = room.view(-1)[: weights.numel()].view(weights.shape)
            by_average = by_averages[part, :, rows]
            _products(by_average, values[part], of_rows[part, rows, None], slopes)
            if ctx.squares:
                slopes.addcmul_(weights, 2 * by_s[part, rows, None])
            if by_values is not None:
                by_values[part].baddbmm_(by_average, weights)
            slopes.mul_(weights)
            by_queries[part, :, rows] = torch.bmm(keys[part], slopes.mT)
            by_keys[part].baddbmm_(with_ones[part, :, rows], slopes)
        by_queries *= unit
        by_keys *= unit
        return by_queries, by_keys[:, :-1], by_keys[:, -1], by_values, None, None


def _tiles(
    queries: Tensor, keys: Tensor, bias: Tensor, first: int
) -> Iterator[tuple[slice, slice, Tensor]]:
    """Problems, rows and scores of one tile after the other, in memory that is used again."""
    n_problems, _, n = queries.shape
    m = keys.shape[2]
    height = max(1, min(n, TILE // max(m, 1)))
    depth = max(1, min(n_problems, TILE // max(n * m, 1)))
    room = queries.new_empty(depth * height * m)
    for problem in range(0, n_problems, depth):
        part = slice(problem, min(problem + depth, n_problems))
        for row in range(0, n, height):
            rows = slice(row, min(row + height, n))
            shape = (part.stop - problem, rows.stop - row, m)
            scores = room[: shape[0] * shape[1] * m].view(shape)
            _products(queries[part, :, rows], keys[part], bias[part, None], scores)
            scores.diagonal(first + row, 1, 2).fill_(MASKED)
            yield part, rows, scores


def _products(left: Tensor, right: Tensor, added: Tensor, out: Tensor) -> None:
    """<left_i, right_j> + added, into `out`."""
    if left.shape[1] == 1:
        torch.addcmul(added, left.mT, right, out=out)
    else:
        torch.baddbmm(added, left.mT, right, out=out)
