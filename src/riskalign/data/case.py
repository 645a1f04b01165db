"""What is asked: the problems that a notion makes of the data, and the rows behind them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from riskalign.data.counts import Atoms
from riskalign.data.distinct import Rows, distinct, row_hashes
from riskalign.data.notions import BINARY, TOP_LABEL, Notion
from riskalign.data.rows import RowTable
from riskalign.data.sample import Sample
from riskalign.data.state import SketchState
from riskalign.data.weights import exponent_of, in_units
from riskalign.equations.arrays import FloatArray, IntArray
from riskalign.equations.losses import ProperLoss
from riskalign.equations.problem import Problem
from riskalign.equations.simplex import completed


@dataclass(frozen=True)
class Case:
    """The problems of a notion, and the rows behind them.

    Attributes
    ----------
    sample : rows of the sample, all of them or a random part
    notion, loss : what is asked
    problems : from all samples: by the rows, or by cells if these are a part
    n_samples : number of samples behind the problems
    top : the top-label problem of all samples
    complete : whether `sample` holds all rows
    pooled : number of equal samples that do for each of `n_samples`, see `n_drawn`
    state : the sketch that it was made from, if there is one
    """

    sample: Sample
    notion: Notion
    loss: ProperLoss
    problems: list[Problem]
    n_samples: int
    top: Problem
    complete: bool = True
    state: SketchState | None = None
    pooled: float = 1.0

    @property
    def n_drawn(self) -> float:
        """Number of samples if those of unequal weight that became one row are taken as equal.

        The noise of a mean over rows that are drawn for such samples goes down with it.
        """
        return self.n_samples * self.pooled

    @classmethod
    def of_state(cls, state: SketchState, loss: ProperLoss) -> Case:
        """What a sketch knows: all rows, or some of them and counts."""
        table, notion = state.rows, state.notion.of_reduced
        sample = _sample_of_rows(table.rows, table.inclusion, state.settings.classes)
        problems = notion.problems(sample, loss)
        if not table.complete and state.counts is not None:
            problems = [_of_cells(each, state.counts.atoms(k)) for k, each in enumerate(problems)]
        (top,) = notion.top_label.problems(sample, loss)
        pooled = _pooled(table, joint=state.counts is None)
        if not table.complete:
            top = _of_cells(top, state.top_atoms())
            if not notion.whole_rows:  # a cell is all that there is to know of its rows
                sample = _sample_of(problems[0], sample.classes)
                pooled = problems[0].n_samples / state.n_rows
        # The joint problem is known by the rows alone.
        by_rows = table.complete or state.counts is not None
        n = state.n_rows if by_rows else int(table.rows.counts.sum())
        return cls(sample, notion, loss, problems, n, top, table.complete, state, pooled)

    def of_top_label(self) -> Case:
        """The same samples, asked for their top label; the case of a sketch of whole rows."""
        state = self.state
        assert state is not None
        notion = TOP_LABEL.of_reduced
        pooled = self.pooled
        if not state.rows.complete:
            sample = _sample_of(self.top, self.sample.classes)
            pooled = self.top.n_samples / state.n_rows
        else:  # rows of one top probability become one, in the order of a top-label sketch
            rows = state.rows.rows
            p, right = TOP_LABEL.reduce(rows.predictions, rows.labels)
            points, labels = p[:, None].astype(np.float64), right.astype(np.int64)
            hashes = row_hashes(points, labels)
            rows = replace(rows, hashes=hashes, predictions=points, labels=labels)
            rows = distinct(rows, state.rows.merged)
            sample = _sample_of_rows(rows, 1.0, self.sample.classes)
        (top,) = notion.problems(sample, self.loss)
        n = state.n_rows
        return replace(
            self,
            sample=sample,
            notion=notion,
            problems=[top],
            n_samples=n,
            top=top,
            state=None,
            pooled=pooled,
        )

    def of_class(self, k: int) -> Case:
        """The same samples, asked for the probability of class k alone, as a binary case."""
        problem = self.problems[k]
        sample = _sample_of(problem, ("other", problem.name))
        (top,) = TOP_LABEL.problems(sample, self.loss)
        n = self.n_samples
        pooled = self.pooled if self.complete else problem.n_samples / n
        return Case(sample, BINARY, self.loss, [problem], n, top, self.complete, None, pooled)

    def places(self, rows: Sample) -> IntArray:
        """Which row of the case each of the rows is of which it was made, -1 without weight."""
        if self.state is None:
            return np.arange(len(rows.labels))
        predictions, labels = self.state.notion.reduce(rows.probabilities, rows.labels)
        predictions = Problem.free(predictions.astype(np.float64))
        found = self.state.rows.find(predictions, labels, rows.weights)
        kept = _kept(self.state.rows.rows)
        places = np.full(len(self.state.rows.rows) + 1, -1)  # the last one is that of no row
        places[kept] = np.arange(len(kept))
        return places[found]

    @classmethod
    def of(cls, sample: Sample, notion: Notion, loss: ProperLoss) -> Case:
        """All rows of a sample."""
        (top,) = TOP_LABEL.problems(sample, loss)
        return cls(sample, notion, loss, notion.problems(sample, loss), len(sample.labels), top)

    @property
    def divergence(self) -> str:
        """The calibration error of one prediction, in words."""
        return self.notion.loss_of(self.loss).divergence


def _sample_of_rows(rows: Rows, inclusion: FloatArray | float, classes: tuple[str, ...]) -> Sample:
    """The rows of a table; one probability becomes the pair (1 - p, p).

    Each row has the weight of all its copies, over the probability that the table holds it.
    """
    f = rows.predictions
    # A row stands for others that the table does not hold: so does each of its samples.
    exponent, kept = exponent_of(rows.units), _kept(rows)
    weights = in_units(rows.weights, exponent) / inclusion * rows.counts
    units = np.minimum(in_units(rows.units, exponent) / inclusion, weights)
    return Sample(
        completed(f)[kept],
        rows.labels[kept].astype(np.intp),
        weights[kept],
        classes,
        units[kept],
    )


def _pooled(table: RowTable, *, joint: bool) -> float:
    """Number of equal samples for each sample, over the rows of a table.

    Of the joint problem these rows are all that is known; of others they stand for all.
    """
    rows = table.rows
    if not len(rows) or not any(table.merged):
        return 1.0
    shares = np.ones(len(rows)) if joint else 1 / table.inclusion
    return float(shares @ (rows.counts * rows.weights / rows.units) / (shares @ rows.counts))


def _kept(rows: Rows) -> IntArray:
    """The rows that have weight beside the heaviest, in whose unit others may become 0."""
    return np.flatnonzero(in_units(rows.weights, exponent_of(rows.units)) > 0)


def _of_cells(problem: Problem, atoms: Atoms) -> Problem:
    """A problem by its cells in place of its rows.

    Cells of continuous scores hold predictions that differ. There each label has the mean of its
    own predictions, so that sums of l(f) are exact. Cells of discrete scores hold one each, which
    labels share: two places for a score would tell the labels apart.
    """
    used = atoms.totals > 0
    totals = atoms.totals[used]
    rounded = atoms.holds_many
    return replace(
        problem,
        predictions=(atoms.locations if rounded else atoms.shared_locations)[used],
        labels=atoms.labels[used].astype(np.int8),
        weights=totals,
        sample_weights=atoms.squares[used] / totals,
        rounded=rounded,
    )


def _sample_of(problem: Problem, classes: tuple[str, ...]) -> Sample:
    """The rows of a one-dimensional problem as a sample."""
    return Sample(
        problem.points,
        problem.labels.astype(np.intp),
        problem.weights,
        classes,
        problem.sample_weights,
    )
