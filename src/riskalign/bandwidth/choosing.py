"""Bandwidth and coordinates of smoothed residuals, by the leave-one-out risk of R.

The least of many noisy risks is too small by chance. Rows that were among those that chose
would carry that luck into their error: it would come out too large, for a calibrated model
above all. So the rows are dealt into folds, and each fold is smoothed as the *other* rows
alone would choose. A row's label then has no part in the choice of its own bandwidth, and
the error of a calibrated model is 0 on average whatever is chosen.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from riskalign.bandwidth.coordinates import (
    FLATTENINGS,
    OFFSET,
    Choice,
    Part,
    Valued,
    is_single,
    onto_simplex,
    spread,
    values_of,
    with_residuals,
)
from riskalign.bandwidth.search import Curve
from riskalign.data.sample import Problem
from riskalign.equations.arrays import FloatArray, IntArray, row_dot
from riskalign.equations.kernels import Kernel
from riskalign.equations.starts import started
from riskalign.equations.terms import risk_of
from riskalign.progress import track
from riskalign.smoothing import Average, Engine, choose_smoother

SEARCH_ROWS = 2_048
"""Rows that choose for one fold. Candidates differ by parts of the error itself, so a few
hundred rows, enough for risk alignment, would choose among them by chance."""

CHEAP_ROWS = 400_000
"""The same for problems of one probability, whose rows cost little, all problems of a batch
together: with fewer, what a large sample shows is not seen, and its error comes out too small."""

CLOSE = 0.5
"""Standard errors by which a risk may exceed the least and count as equal: with less, chance
chooses narrow kernels and their noise, with more, the wide ones miss what there is to see."""

FOLDS = 5
"""Folds of rows. With two, half of the rows choose, and miss what only many rows show."""

FEWEST = 20
"""Rows below which all of them choose for all: fewer could not."""


def folds(problems: Sequence[Problem]) -> list[IntArray] | None:
    """Rows dealt into folds, None for few rows.

    In the order of the squared length of their predictions, rows go to the folds in turn: a
    rule that knows neither labels nor the order of rows and classes, and makes folds alike.
    """
    counts = problems[0].weights > 0
    if np.count_nonzero(counts) < FEWEST:
        return None
    length = np.zeros(len(counts))
    for problem in problems:
        length += row_dot(problem.points, problem.points)
    order = np.lexsort((length, counts))
    return [np.sort(order[fold::FOLDS]) for fold in range(FOLDS)]


def choose_across(
    batch: Sequence[Problem],
    start: str,
    dealt: Sequence[IntArray] | None,
    kernel: Kernel,
    engine: Engine,
    candidates: FloatArray | None,
    progress: bool | None,
) -> tuple[list[Choice], list[Part]]:
    """The choice to be shown, the median of what the folds are smoothed by, and those of all.

    The rows that choose for a fold fit their own start: a common fit would know of the fold.
    """
    if dealt is None:
        starts = [started(problem, start) for problem in batch]
        chosen = choose(batch, starts, kernel, engine, candidates, progress)
        return chosen, [Part(None, chosen)]
    parts = []
    for rows in dealt:
        others = np.delete(np.arange(len(batch[0].labels)), rows)
        rest = [problem.take(others) for problem in batch]
        starts = [started(problem, start) for problem in rest]
        chosen = choose(rest, starts, kernel, engine, candidates, progress)
        parts.append(Part(rows, chosen))
    each = zip(*(part.choices for part in parts), strict=True)
    shown = [sorted(own, key=lambda choice: choice.bandwidth)[len(own) // 2] for own in each]
    return shown, parts


def choose(
    batch: Sequence[Problem],
    starts: Sequence[FloatArray],
    kernel: Kernel,
    engine: Engine,
    candidates: FloatArray | None,
    progress: bool | None,
) -> list[Choice]:
    """Bandwidth and flattening of each problem, by the leave-one-out risk of R.

    Risks are flat in h: octaves resolve them.
    """
    valued = [
        with_residuals(problem, start, flattening)
        for flattening in FLATTENINGS
        for problem, start in zip(batch, starts, strict=True)
    ]
    if candidates is None:
        low, high = kernel.bandwidth_range(valued[0].n_classes)
        candidates = high / 2.0 ** np.arange(np.floor(np.log2(high / low)) + 1)[::-1]
    risks, weights = _risks(valued, candidates, kernel, engine, progress)
    by_problem = risks.reshape(len(FLATTENINGS), len(batch), len(candidates), -1)
    return [
        _widest(problem.name, candidates, by_problem[:, k], weights)
        for k, problem in enumerate(batch)
    ]


def _risks(
    valued: Sequence[Valued],
    candidates: FloatArray,
    kernel: Kernel,
    engine: Engine,
    progress: bool | None,
) -> tuple[FloatArray, FloatArray]:
    """Leave-one-out risks of some rows, ``(problems, H, rows)``, and the rows' weights."""
    n, wanted = len(valued[0].labels), SEARCH_ROWS
    if is_single(valued[0]):
        wanted = max(wanted, CHEAP_ROWS * len(FLATTENINGS) // len(valued))
    rows = np.arange(n)
    if n > wanted:
        rows = np.sort(np.random.default_rng(0).choice(n, wanted, replace=False))
    requests = [(k, h) for k in range(len(valued)) for h in candidates.tolist()]
    risks = np.empty((len(requests), len(rows)))
    place = np.empty(n, dtype=np.intp)
    place[rows] = np.arange(len(rows))
    smoother = choose_smoother(valued, kernel, engine, values_of)
    tiles = smoother.each(
        requests,
        lambda k, own: _left_out_risk(valued[k].take(own)),
        None if len(rows) == n else rows,
    )
    steps = ((len(own), (i, own, risk)) for i, own, risk in tiles)
    for i, own, risk in track(steps, len(rows) * len(requests), "bandwidth", progress):
        risks[i, place[own]] = risk
    return risks.reshape(len(valued), len(candidates), -1), valued[0].weights[rows]


def _left_out_risk(rows: Problem) -> Callable[[Average], FloatArray]:
    """<y, l(R)>; the start is read off the residuals."""
    start = rows.one_hot() - spread(rows, values_of(rows) - OFFSET)

    def risk(average: Average) -> FloatArray:
        R = onto_simplex(start, spread(rows, average.mean - OFFSET))
        return risk_of(rows.loss, rows.labels, R)

    return risk


def _widest(name: str, candidates: FloatArray, risks: FloatArray, weights: FloatArray) -> Choice:
    """The widest bandwidth whose risk is within half a standard error of the least.

    Parameters
    ----------
    risks : (flattenings, H, rows)
    """
    share = (weights / weights.sum()).astype(np.float64)
    means = risks @ share  # (flattenings, H)
    least = np.unravel_index(np.argmin(means), means.shape)
    excess = risks - risks[least]  # the same rows: their difference is far less noisy
    gap = means - means[least]
    error = np.sqrt(((excess - gap[..., None]) ** 2) @ share**2)
    close = gap <= CLOSE * error
    widest = int(np.flatnonzero(close.any(axis=0))[-1])
    power = int(np.argmin(np.where(close[:, widest], means[:, widest], np.inf)))
    total = float(weights.sum())
    at_edge = len(candidates) > 1 and widest in (0, len(candidates) - 1)
    flattening, h = FLATTENINGS[power], float(candidates[widest])
    curve = Curve(name, candidates, means[power] * total, h, at_edge, flattening)
    return Choice(h, flattening, curve)
