"""The debiased estimate: residuals are smoothed, and what their noise adds is taken out.

With g a start (f itself, or f as a few parameters correct it), e = y - g its residuals and
w_ij the kernel's weights without the row itself,

    R_i = g_i + sum_j w_ij e_j,    s_i = sum_j w_ij^2.

Smoothing bias touches only what g misses of E[y | f], and is zero for a calibrated model.
The variational error <y, l(f) - l(R)> falls short of the truth by E D(E[y | f], R): the
square of the bias of R, and its variance. The second is known: a label let into its own
average with weight s_i gains twice what R's noise costs it when it is left out. So

    terms_i = <y_i, l(f_i)> - 1/2 <y_i, l(R_i) + l(R_i + s_i (y_i - R_i))>

has an expectation below the true error by the *squared* smoothing bias alone. A fitted
start is noise of R too: a label is let into its fit along with the average.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from riskalign.bandwidth.choosing import choose_across, folds
from riskalign.bandwidth.coordinates import (
    KEPT_SHARE,
    Choice,
    Part,
    apart,
    is_single,
    like,
    onto_simplex,
    residuals_and_slopes,
    shares_of,
    smoothed_values,
)
from riskalign.data.sample import Problem
from riskalign.equations.arrays import FloatArray, row_dot
from riskalign.equations.kernels import Kernel
from riskalign.equations.starts import FitNoise, Start, moved
from riskalign.equations.terms import risk_of
from riskalign.smoothing import Engine

BATCH = 64
"""Problems whose residuals and coordinates are held at once."""


@dataclass(frozen=True)
class Debiased:
    """The debiased estimate of one problem.

    Attributes
    ----------
    terms : (n,), whose mean is the calibration error
    risk : (n,), <y, l(f)>
    reconstructed_risk : (n,), <R, l(f)>
    plugin : (n,), <R, l(f) - l(R)>
    put_back : (n,), what the noise of R had taken from the terms
    gains : l(f) - l(R) of each outcome, ``(n, K)``; of one probability ``(n,)``, that of
        outcome 1 less that of outcome 0
    conditional : R, in the form of the problem's predictions
    choice : bandwidth and coordinates
    """

    terms: FloatArray
    risk: FloatArray
    reconstructed_risk: FloatArray
    plugin: FloatArray
    put_back: FloatArray
    gains: FloatArray
    conditional: FloatArray
    choice: Choice


def debiased(
    problems: Sequence[Problem],
    kernel: Kernel,
    engine: Engine,
    start: str,
    choices: Sequence[Choice] | None = None,
    candidates: FloatArray | None = None,
    progress: bool | None = None,
) -> tuple[list[Debiased], list[Part]]:
    """The debiased estimate of every problem, and which rows were smoothed by which choices.

    Without choices, bandwidth and coordinates of each fold of the rows are those that the
    other rows choose; see `choosing`.
    """
    dealt = folds(problems) if choices is None else None
    estimates: list[Debiased] = []
    batches: list[list[Part]] = []
    for first in range(0, len(problems), BATCH):
        batch = problems[first : first + BATCH]
        if choices is None:
            shown, parts = choose_across(batch, start, dealt, kernel, engine, candidates, progress)
        else:
            shown = list(choices[first : first + BATCH])
            parts = [Part(None, shown)]
        batches.append(parts)
        estimates += _estimates(batch, start, shown, parts, kernel, engine)
    joined = [
        Part(same[0].rows, [choice for part in same for choice in part.choices])
        for same in zip(*batches, strict=True)
    ]
    return estimates, joined


def _estimates(
    batch: Sequence[Problem],
    start: str,
    shown: Sequence[Choice],
    parts: Sequence[Part],
    kernel: Kernel,
    engine: Engine,
) -> Iterator[Debiased]:
    """The estimate of each problem; `shown` is the choice that it reports."""
    fits = [Start.fit(problem, start) for problem in batch]
    starts = [fit.without_each(problem) for fit, problem in zip(fits, batch, strict=True)]
    slopes = [
        fit.slopes(problem.points, g) for fit, problem, g in zip(fits, batch, starts, strict=True)
    ]
    values = [residuals_and_slopes(*each) for each in zip(batch, starts, slopes, strict=True)]
    shares = shares_of(batch, parts, kernel, engine)
    smoothed = smoothed_values(batch, values, parts, kernel, engine)
    for k, (problem, g, slope) in enumerate(zip(batch, starts, slopes, strict=True)):
        noise = None
        if start != "identity":
            smoothed_slope = apart(problem, smoothed[k])[1]
            noise = FitNoise.of(fits[k].information, problem.weights, slope, smoothed_slope)
        yield combine(problem, g, slope, smoothed[k], shares[k], shown[k], noise)


def combine(
    problem: Problem,
    start: FloatArray,
    slope: FloatArray,
    smoothed: FloatArray,
    s: FloatArray,
    choice: Choice,
    noise: FitNoise | None,
) -> Debiased:
    """The estimate of some rows, from averages ``(n, d)`` of residuals and of slopes."""
    q, smoothed_slope = apart(problem, smoothed)
    shift: FloatArray | float = 0.0
    if noise is not None:
        push = noise.pushes(problem, start)
        shift = noise.own_shift(slope, push)
        # The row leaves its neighbours' starts too.
        q = q + moved(smoothed_slope, push)
    R = onto_simplex(start, q)
    loss_f = problem.loss(problem.points)  # (n, K)
    gains = loss_f - problem.loss(R)
    risk = loss_f[np.arange(len(R)), problem.labels]
    refinement = second_order(problem, R, s, shift)
    return Debiased(
        terms=risk - refinement,
        risk=risk,
        reconstructed_risk=row_dot(R, loss_f),
        plugin=row_dot(R, gains),
        put_back=risk_of(problem.loss, problem.labels, R) - refinement,
        gains=gains[:, 1] - gains[:, 0] if is_single(problem) else gains,
        conditional=like(problem, R),
        choice=choice,
    )


def second_order(
    problem: Problem, R: FloatArray, s: FloatArray, shift: FloatArray | float
) -> FloatArray:
    """1/2 <y, l(R) + l(R + s (y - R) + shift)>: refinement without R's noise, row by row.

    `shift` is what a row's label would do to its own start.
    """
    let_in = R + s[:, None] * (problem.one_hot() - R) + shift
    np.maximum(let_in, KEPT_SHARE * R, out=let_in)
    left_out = risk_of(problem.loss, problem.labels, R)
    return (left_out + risk_of(problem.loss, problem.labels, let_in)) / 2
