"""Rows that come in batches, kept as masses on nodes: all that smoothers need to know of them.

A row of a one-dimensional problem is a probability and a label. What is smoothed, residuals
and the slopes of their start, are functions of the two, so that they can be computed at the
nodes, label by label, when the rows themselves have gone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from riskalign.bandwidth.coordinates import OFFSET, like, residuals_and_slopes
from riskalign.composition import Case
from riskalign.data.sample import Problem, Sample, reduce
from riskalign.data.validation import as_sample
from riskalign.equations.arrays import FloatArray, IntArray
from riskalign.equations.kernels import Kernel
from riskalign.equations.starts import Start, powered
from riskalign.smoothing.gathered import Gathered
from riskalign.smoothing.threads import ordered_map

Batches = Iterable[tuple[object, object]]
"""Pairs (y_true, y_prob), to be read more than once."""

CELLS = 500_000
"""Probabilities that are worked on at once: 4 MB, and fifty times that for what they become."""

HELD, HELD_CELLS = 4_096, 400_000
"""Rows that are held at least, and probabilities: they choose the bandwidth, and show the noise
of the smoother. With fewer, what a large sample shows is not seen."""


@dataclass(frozen=True)
class Rows:
    """Batches of rows as checked samples, as often as they are asked for."""

    batches: Batches
    from_logits: bool = False
    normalize: bool = False
    classes: Sequence[object] | None = None

    def __iter__(self) -> Iterator[Sample]:
        """Samples of about `CELLS` probabilities."""
        first = 0
        for y, p in _resized(self.batches):
            try:
                yield as_sample(
                    y,
                    p,
                    from_logits=self.from_logits,
                    normalize=self.normalize,
                    classes=self.classes,
                )
            except (ValueError, TypeError) as error:
                raise type(error)(f"In the rows from {first:,} on: {error}") from None
            first += len(p)


def _resized(batches: Batches) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Batches cut and joined to a good size; none has a single row, if that can be helped."""
    if iter(batches) is batches:
        raise TypeError(
            "`batches` is read more than once, but this is an iterator, which ends after the "
            "first time. Pass a list, or an object whose `__iter__` begins anew."
        )
    waiting: list[tuple[np.ndarray, np.ndarray]] = []
    for y, p in batches:
        waiting.append((np.asarray(y), np.asarray(p)))
        wide = waiting[0][1].shape[1] if waiting[0][1].ndim == 2 else 1
        size = max(2, CELLS // wide)
        while sum(len(some) for some, _ in waiting) >= size + 2:
            y_all, p_all = _joined(waiting)
            yield y_all[:size], p_all[:size]
            waiting = [(y_all[size:], p_all[size:])]
    if waiting:
        yield _joined(waiting)


def _joined(parts: Sequence[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    if len(parts) == 1:
        return parts[0]
    if len({p.shape[1:] for _, p in parts}) > 1:
        shapes = " and ".join(sorted({str(p.shape) for _, p in parts})[:2])
        raise ValueError(f"`batches` must agree in their classes; found shapes {shapes}.")
    return np.concatenate([y for y, _ in parts]), np.concatenate([p for _, p in parts])


@dataclass(frozen=True)
class Gathering:
    """All rows, read once.

    Attributes
    ----------
    rows : to be read again
    case : what is asked, of the rows that are held
    kernel : the kernel
    tables : for each problem, its masses in each of the kernel's coordinates
    n : number of rows
    """

    rows: Rows
    case: Case
    kernel: Kernel
    tables: list[dict[float, Gathered]]
    n: int

    @property
    def problems(self) -> list[Problem]:
        """The problems of the rows that are held."""
        return self.case.problems


def gather(
    rows: Rows,
    make_case: Callable[[Sample], Case],
    kernel: Kernel,
    flattenings: Sequence[float],
    visit: Callable[[Sample], None] = lambda sample: None,
) -> Gathering:
    """Read all rows once; `visit` sees every batch too."""
    tables: dict[tuple[int, float], Gathered] = {}
    held = _Reservoir()
    n, case = 0, None
    for sample in rows:
        case = case or make_case(sample)
        visit(sample)
        held.add(sample)
        n += len(sample.labels)
        _add(tables, reduce(sample, case.notion, case.loss), kernel, flattenings)
    if case is None:
        raise ValueError("`batches` is empty: there are no rows.")
    by_problem = [
        {tau: tables[k, tau] for tau in flattenings} for k in range(len(tables) // len(flattenings))
    ]
    return Gathering(rows, make_case(held.sample()), kernel, by_problem, n)


def _add(
    tables: dict[tuple[int, float], Gathered],
    problems: Sequence[Problem],
    kernel: Kernel,
    flattenings: Sequence[float],
) -> None:
    """Add rows to the tables of their problems, in all coordinates."""

    def added(task: tuple[int, float]) -> Gathered:
        k, tau = task
        known = tables[task] if task in tables else Gathered.empty(kernel)
        return known.add(flattened(problems[k], tau), problems[k].labels)

    tasks = [(k, tau) for k in range(len(problems)) for tau in flattenings]
    tables.update(zip(tasks, list(ordered_map(added, tasks)), strict=True))


def flattened(problem: Problem, tau: float) -> FloatArray:
    """Where the kernel sees the predictions ``(n,)``."""
    return problem.predictions if tau == 1.0 else like(problem, powered(problem.points, tau))


class _Reservoir:
    """Some of the rows seen so far, all sets of them equally likely."""

    def __init__(self) -> None:
        self._random = np.random.default_rng(0)
        self._keys: FloatArray = np.empty(0)
        self._sample: Sample | None = None

    def add(self, sample: Sample) -> None:
        """See some more rows: each draws a number, the smallest stay."""
        keys = np.concatenate([self._keys, self._random.random(len(sample.labels))])
        joined = sample
        if self._sample is not None:
            both = (self._sample, sample)
            joined = replace(
                sample,
                probabilities=np.concatenate([each.probabilities for each in both]),
                labels=np.concatenate([each.labels for each in both]),
                weights=np.concatenate([each.weights for each in both]),
            )
        stay: IntArray = np.arange(len(keys))
        size = max(HELD, HELD_CELLS // sample.probabilities.shape[1])
        if len(keys) > size:
            stay = np.sort(np.argpartition(keys, size)[:size])
        self._keys = keys[stay]
        self._sample = replace(
            joined,
            probabilities=joined.probabilities[stay],
            labels=joined.labels[stay],
            weights=joined.weights[stay],
        )

    def sample(self) -> Sample:
        """The rows that stayed."""
        assert self._sample is not None
        return self._sample


@dataclass(frozen=True)
class Starts:
    """The start of every problem, fitted to all rows, and what follows from it at the nodes."""

    gathering: Gathering
    start: str

    @cached_property
    def fitted(self) -> list[Start]:
        """The start of each problem."""
        numbers = range(len(self.gathering.tables))
        return [Start.fit(self._at_nodes(k), self.start, unit=1.0) for k in numbers]

    def _at_nodes(self, k: int) -> Problem:
        """All rows of a problem as weighted rows at the nodes."""
        gathered = self.gathering.tables[k][1.0]
        nodes = gathered.points[:, 1]
        return replace(
            self.gathering.problems[k],
            predictions=np.concatenate([nodes, nodes]),
            labels=np.repeat([0, 1], len(nodes)),
            weights=gathered.smooth.T.ravel(),
        )

    def of(self, k: int, problem: Problem) -> tuple[FloatArray, FloatArray]:
        """The start at rows, each left out of its fit, ``(b, 2)``; its slopes, ``(b, 2, p)``."""
        g = self.fitted[k].without_each(problem)
        return g, self.fitted[k].slopes(problem.points, g)

    def values(self, k: int, tau: float, *, slopes: bool) -> tuple[FloatArray, FloatArray]:
        """Residuals, and slopes if asked for, at the nodes, for labels 0 and 1, ``(M, d)`` each."""
        gathered = self.gathering.tables[k][tau]
        f = powered(gathered.points, 1 / tau)
        found = []
        for y in (0, 1):
            problem = self._rows(k, f[:, 1], y)
            g, slope = self.of(k, problem)
            carried = slope if slopes else slope[:, :, :0]
            found.append(residuals_and_slopes(problem, g, carried) + OFFSET)
        return found[0], found[1]

    def _rows(self, k: int, p: FloatArray, y: int) -> Problem:
        """Rows of one label at given probabilities."""
        labels = np.full(len(p), y)
        return replace(
            self.gathering.problems[k], predictions=p, labels=labels, weights=np.ones(len(p))
        )
