"""What is asked: the problems that a notion makes of the data, and the rows behind them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from riskalign.data.counts import Atoms
from riskalign.data.distinct import Rows, row_hashes
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

    @classmethod
    def of_state(cls, state: SketchState, loss: ProperLoss) -> Case:
        """What a sketch knows: all rows, or some of them and counts."""
        table, notion = state.rows, state.notion.of_reduced
        sample = _sample_of_rows(table.rows, table.inclusion, state.settings.classes)
        problems = notion.problems(sample, loss)
        if not table.complete and state.counts is not None:
            problems = [_of_cells(each, state.counts.atoms(k)) for k, each in enumerate(problems)]
        (top,) = notion.top_label.problems(sample, loss)
        if not table.complete:
            top = _of_cells(top, state.top_atoms())
            if not notion.whole_rows:  # a cell is all that there is to know of its rows
                sample = _sample_of(problems[0], sample.classes)
        # The joint problem is known by the rows alone.
        by_rows = table.complete or state.counts is not None
        n = state.n_rows if by_rows else int(table.rows.counts.sum())
        return cls(sample, notion, loss, problems, n, top, table.complete, state)

    def of_top_label(self) -> Case:
        """The same samples, asked for their top label; the case of a sketch of whole rows."""
        state = self.state
        assert state is not None
        notion = TOP_LABEL.of_reduced
        if not state.rows.complete:
            sample = _sample_of(self.top, self.sample.classes)
        else:  # rows of one top probability become one, in the order of a top-label sketch
            rows = state.rows.rows
            p, right = TOP_LABEL.reduce(rows.predictions, rows.labels)
            table = RowTable(1, len(rows))
            table.add(p[:, None], right, rows.weights)
            places = table.find(p[:, None], right, rows.weights)
            counts = np.bincount(places, rows.counts, len(table.rows)).astype(np.int64)
            sample = _sample_of_rows(replace(table.rows, counts=counts), 1.0, self.sample.classes)
        (top,) = notion.problems(sample, self.loss)
        n = state.n_rows
        return replace(
            self, sample=sample, notion=notion, problems=[top], n_samples=n, top=top, state=None
        )

    def of_class(self, k: int) -> Case:
        """The same samples, asked for the probability of class k alone, as a binary case."""
        problem = self.problems[k]
        sample = _sample_of(problem, ("other", problem.name))
        (top,) = TOP_LABEL.problems(sample, self.loss)
        return Case(sample, BINARY, self.loss, [problem], self.n_samples, top, self.complete, None)

    def places(self, rows: Sample) -> IntArray:
        """Which row of the case each of the rows is of which it was made, -1 without weight."""
        if self.state is None:
            return np.arange(len(rows.labels))
        predictions, labels = self.state.notion.reduce(rows.probabilities, rows.labels)
        predictions = Problem.free(predictions.astype(np.float64))
        found = self.state.rows.find(predictions, labels, rows.weights)
        kept = _kept(self.state.rows.rows)
        places = np.full(len(self.state.rows.rows), -1)
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
    units = in_units(rows.weights, exponent_of(rows.weights)) / inclusion
    weights, kept = units * rows.counts, _kept(rows)
    return Sample(
        completed(f)[kept],
        rows.labels[kept].astype(np.intp),
        weights[kept],
        classes,
        units[kept],
    )


def _kept(rows: Rows) -> IntArray:
    """The rows that have weight, in an order that the scale of the weights does not change."""
    kept = np.flatnonzero(in_units(rows.weights, exponent_of(rows.weights)) > 0)
    if (rows.weights == 1).all():
        return kept
    some = rows.take(kept)
    without_weights = row_hashes(some.predictions, some.labels, None)
    return kept[np.lexsort((some.weights, without_weights))]


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
