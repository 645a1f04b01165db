"""The calibration error of a batch, row by row, as a function of log-probabilities.

A notion makes problems of the rows. Rows of a problem are queries; the rows of the batch and of
the queue are its keys. With e = y - f the residuals of f itself,

    "debiased"   A = W e, and the term <e, A> for quadratic losses: a U-statistic, whose
                 expectation is 0 if f is calibrated, whatever the bandwidth and the batch;
                 for the log loss the terms of `riskalign.equations.debiased` with R = f + A.
    "plugin"     R = W y, and the term <R, l(f) - l(R)>, as in the paper.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from riskalign.data.notions import NOTIONS
from riskalign.equations.arrays import FLOOR
from riskalign.equations.simplex import KEPT_SHARE
from riskalign.smoothing.operator import ALONE
from riskalign.torch.attention import MASKED, attend
from riskalign.torch.nodes import kernel_sums

LOG_FLOOR = math.log(FLOOR)


@dataclass(frozen=True)
class Points:
    """Predictions and outcomes of P problems, columns first.

    Attributes
    ----------
    logs : (P, d, n), logarithms of `f`, floored
    f : (P, d, n); for problems of one probability d = 2, the pair (1 - p, p)
    y : (P, d, n), one-hot
    weights : (n,)
    """

    logs: Tensor
    f: Tensor
    y: Tensor
    weights: Tensor

    def take(self, rows: slice) -> Points:
        """Some of the rows."""
        return Points(
            self.logs[..., rows], self.f[..., rows], self.y[..., rows], self.weights[rows]
        )

    def free(self, columns: Tensor) -> Tensor:
        """Columns ``(P, d, n)`` that say all: of a pair, the second alone."""
        return columns[:, 1:] if self.f.shape[1] == 2 else columns


def points(notion: str, log_f: Tensor, labels: Tensor, weights: Tensor) -> Points:
    """The problems of a notion.

    Parameters
    ----------
    notion : {"binary", "top-label", "classwise", "canonical"}
    log_f : (n, K), log-probabilities
    labels : (n,), from 0 to K - 1
    weights : (n,), 0 for rows that are left out
    """
    columns = log_f.T  # (K, n)
    asked = NOTIONS[notion]
    if asked.joint or asked.per_class:
        came = (torch.arange(len(columns), device=labels.device)[:, None] == labels).to(log_f)
    if asked.joint:
        return Points(columns.clamp(min=LOG_FLOOR)[None], columns.exp()[None], came[None], weights)
    if asked.per_class:
        log_p = columns
    elif asked.is_confidence:
        log_p, top = (each[None] for each in columns.max(0))
        came = (top == labels).to(log_f)
    else:
        log_p, came = columns[1:], labels[None].to(log_f)
    rest = -torch.expm1(log_p)  # 1 - p, without cancellation
    logs = torch.stack([rest.clamp(min=FLOOR).log(), log_p.clamp(min=LOG_FLOOR)], 1)
    return Points(
        logs, torch.stack([rest, log_p.exp()], 1), torch.stack([1 - came, came], 1), weights
    )


def calibration_terms(
    rows: Points,
    keys: Points,
    first: int,
    h: Tensor | float,
    loss: str,
    estimator: str,
    n_nodes: int = 0,
) -> Tensor:
    """The terms of the calibration error ``(n,)``, summed over problems.

    Parameters
    ----------
    rows : n rows, each of which is among the keys
    keys : m rows
    first : the place of the first row among the keys
    h : bandwidth, one or ``(P,)``
    n_nodes : number of nodes to sum at, see `riskalign.torch.nodes`; 0 for all pairs
    """
    if isinstance(h, Tensor):
        h = h.detach().to(rows.f).reshape(-1, 1, 1)
    if estimator == "plugin":
        queries, columns, shape, log_weights = _attention(rows, keys, h)
        bias = torch.where(keys.weights > 0, shape + log_weights, MASKED)
        R, logs, _ = attend(queries, columns, bias, keys.free(keys.y), first)
        return torch.where(logs > MASKED / 2, _plugin(rows, R, loss), 0.0).sum(0)
    if n_nodes:
        A = _at_nodes(keys, slice(first, first + rows.f.shape[2]), h, n_nodes)
        return _debiased(rows, A, torch.zeros_like(A), loss).sum(0)
    return _debiased(rows, *_of_pairs(rows, keys, first, h, loss == "kl"), loss).sum(0)


def _attention(
    rows: Points, keys: Points, h: Tensor | float
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Queries, keys, and the two parts of the bias, for `attend`."""
    queries, columns = rows.logs / h, keys.free(keys.f)
    if queries.shape[1] == 2:  # <log x, c> = c log-odds(x) + log(1 - x), which no weight feels
        queries = queries[:, 1:] - queries[:, :1]
    shape = -torch.lgamma(keys.f / h + 1).sum(1)  # (P, m)
    return queries, columns, shape, torch.where(keys.weights > 0, keys.weights, 1.0).log()


def _of_pairs(
    rows: Points, keys: Points, first: int, h: Tensor | float, squares: bool
) -> tuple[Tensor, Tensor]:
    """Smoothed residuals, and s, ``(P, 1, n)``: from all pairs of rows and keys."""
    queries, columns, shape, log_weights = _attention(rows, keys, h)
    bias = torch.where(keys.weights > 0, shape + log_weights, MASKED)
    averages, logs, s = attend(
        queries, columns, bias, keys.free(keys.y - keys.f), first, squares=squares
    )
    own = slice(first, first + queries.shape[2])
    log_own = (queries * columns[..., own]).sum(1) + (shape + log_weights)[:, own]
    # Rows without neighbours say nothing: the library's rule for residuals.
    shrink = (logs - log_own - math.log(ALONE)).clamp(max=0.0).exp()[:, None]
    return shrink * averages, shrink * shrink * s[:, None]


def _at_nodes(keys: Points, own: slice, h: Tensor | float, n_nodes: int) -> Tensor:
    """Smoothed residuals ``(P, 1, n)`` of problems of one probability, from sums at nodes.

    What a row adds to its own sum is taken off. Averages divide by at least 0.15 of it, so that
    the error of the sums, which is a small part of it, cannot grow.
    """
    if isinstance(h, Tensor):
        h = h[:, 0]
    log_odds, u = keys.logs[:, 1] - keys.logs[:, 0], keys.weights
    e = keys.y[:, 1] - keys.f[:, 1]
    values = torch.stack([u * e, u.expand_as(e)], 1)
    sums, peaks = kernel_sums(log_odds, values, h, n_nodes, own)
    at_own = peaks * u[own]
    enough = ALONE * peaks * torch.where(u > 0, u, 1.0)[own]
    rest = torch.maximum(sums[:, 1] - at_own, enough)
    return ((sums[:, 0] - at_own * e[:, own]) / rest)[:, None]


def _plugin(rows: Points, R: Tensor, loss: str) -> Tensor:
    """<R, l(f) - l(R)>, ``(P, n)``, from R ``(P, 1, n)`` or ``(P, K, n)``."""
    if loss == "kl":
        R = torch.cat([1 - R, R], 1) if rows.f.shape[1] == 2 else R
        return (R * (R.clamp(min=FLOOR).log() - rows.logs)).sum(1)
    gap = R - rows.free(rows.f)
    return _inner(gap, gap, loss)


def _debiased(rows: Points, A: Tensor, s: Tensor, loss: str) -> Tensor:
    """The debiased terms ``(P, n)``, from smoothed residuals ``(P, 1, n)`` or ``(P, K, n)``."""
    if loss != "kl":
        return _inner(rows.free(rows.y - rows.f), A, loss)
    A = torch.cat([-A, A], 1) if rows.f.shape[1] == 2 else A
    R = torch.maximum(rows.f + A, KEPT_SHARE * rows.f)
    R = R / R.sum(1, keepdim=True)
    let_in = torch.maximum(R + s * (rows.y - R), KEPT_SHARE * R)
    logs = (R.clamp(min=FLOOR).log() + let_in.clamp(min=FLOOR).log()) / 2
    return (rows.y * (logs - rows.logs)).sum(1)


def _inner(a: Tensor, b: Tensor, loss: str) -> Tensor:
    """The inner product that belongs to a quadratic loss."""
    if loss == "ranked" and a.shape[1] > 1:
        a, b = a.cumsum(1)[:, :-1], b.cumsum(1)[:, :-1]
    return (a * b).sum(1)
