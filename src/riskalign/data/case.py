"""What is asked: the problems that a notion makes of the data, and the rows behind them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from riskalign.data.cells import Numbers
from riskalign.data.counts import Atoms
from riskalign.data.distinct import HALF, WHOLE, Kept, distinct_rows, regrouped
from riskalign.data.notions import BINARY, TOP_LABEL, Notion
from riskalign.data.rows import RowTable
from riskalign.data.sample import Sample
from riskalign.data.state import Settings, SketchState, most_rows
from riskalign.data.weights import in_own_unit
from riskalign.equations.arrays import FloatArray, IntArray, LabelArray
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
    top : the top-label problem of all samples
    n_samples : number of samples behind the problems
    n_drawn : the same if those of unequal weight that became one row are taken as equal; the noise
        of a mean over rows that are drawn for such samples goes down with it
    n_rows : number of samples that came: more than `n_samples` where the rows are a part and no
        cells replace them
    complete : whether `sample` holds all rows
    kept : the distinct rows of which `sample` was made, if it was
    """

    sample: Sample
    notion: Notion
    loss: ProperLoss
    problems: list[Problem]
    top: Problem
    n_samples: int
    n_drawn: float
    n_rows: int
    complete: bool = True
    kept: Kept | None = None

    @classmethod
    def of(cls, sample: Sample, notion: Notion, loss: ProperLoss) -> Case:
        """All rows of a sample, equal ones too."""
        problems, top = notion.with_top(sample, loss)
        n = len(sample.labels)
        return cls(sample, notion, loss, problems, top, n, n, n)

    @classmethod
    def of_sample(
        cls,
        sample: Sample,
        notion: Notion,
        loss: ProperLoss,
        *,
        limit: int | None = None,
        weighted: bool = True,
    ) -> Case:
        """The distinct rows of a sample or, if it is larger than a sketch, what that would know.

        `limit` is that of `Settings`; unless `weighted`, all weights are 1.
        """
        limit = most_rows(notion, len(sample.classes)) if limit is None else limit
        p, labels = sample.probabilities, sample.labels
        weights = sample.weights if weighted else None
        if len(labels) > limit:
            state = SketchState(Settings.of(notion.name, sample.classes, limit))
            return cls.of_state(state.update(p, labels, weights), loss)
        rows = distinct_rows(*_reduced(notion, p, labels), weights)
        n = int(rows.counts.sum())
        return cls._of_rows(Kept(rows, limit), notion, loss, sample.classes, n)

    @classmethod
    def of_state(cls, state: SketchState, loss: ProperLoss) -> Case:
        """What a sketch knows: all rows, or some of them and counts."""
        kept, classes = state.rows.kept(), state.settings.classes
        case = cls._of_rows(kept, state.notion, loss, classes, state.n_rows)
        if kept.complete:
            return case
        top = _of_cells(case.top, state.top_atoms())
        if state.counts is None:
            return replace(case, top=top)
        problems = [_of_cells(each, state.counts.atoms(k)) for k, each in enumerate(case.problems)]
        if case.notion.whole_rows:
            return replace(case, problems=problems, top=top)
        # A cell is all that there is to know of its rows.
        sample, n_drawn = _sample_of(problems[0], case.sample.classes), problems[0].n_samples
        return replace(case, sample=sample, problems=problems, top=top, n_drawn=n_drawn)

    @classmethod
    def _of_rows(
        cls, kept: Kept, notion: Notion, loss: ProperLoss, classes: tuple[str, ...], n_rows: int
    ) -> Case:
        """The case of distinct rows; one probability becomes the pair (1 - p, p).

        Each row has the weight of all its copies, over the probability that it was kept.
        """
        rows, notion = kept.rows, notion.of_reduced
        units, weights = in_own_unit(rows.units, rows.weights)
        used = np.flatnonzero(weights)  # beside the heaviest a weight may become 0
        # A row stands for others that were not kept: so does each of its samples.
        weights = weights / kept.inclusion * rows.counts
        units = np.minimum(units / kept.inclusion, weights)
        f, labels = completed(rows.predictions)[used], rows.labels[used].astype(np.intp)
        sample = Sample(f, labels, weights[used], classes, units[used])
        problems, top = notion.with_top(sample, loss)
        of_equal = 1.0
        if any(kept.merged) and len(rows):
            counts = rows.counts if notion.joint else rows.counts / kept.inclusion
            of_equal = float(counts @ (rows.weights / rows.units) / counts.sum())
        # The joint problem is known by the rows alone.
        n = int(rows.counts.sum()) if notion.joint and not kept.complete else n_rows
        return cls(
            sample, notion, loss, problems, top, n, n * of_equal, n_rows, kept.complete, kept
        )

    def of_top_label(self) -> Case:
        """The same samples, asked for their top label; the case of a sketch of whole rows."""
        kept, classes = self.kept, self.sample.classes
        assert kept is not None
        if kept.complete:  # rows of one top probability become one, as in a top-label sketch
            points, right = _reduced(TOP_LABEL, kept.rows.predictions, kept.rows.labels)
            rows = regrouped(kept.rows, points, right.astype(np.int64), kept.merged)
            kept = replace(kept, rows=rows)
            case = self._of_rows(kept, TOP_LABEL, self.loss, classes, self.n_rows)
            return replace(case, n_drawn=self.n_drawn)
        notion, sample = TOP_LABEL.of_reduced, _sample_of(self.top, classes)
        (top,) = problems = notion.problems(sample, self.loss)
        return replace(
            self,
            sample=sample,
            notion=notion,
            problems=problems,
            top=top,
            n_samples=self.n_rows,
            n_drawn=self.top.n_samples,
        )

    def of_class(self, k: int) -> Case:
        """The same samples, asked for the probability of class k alone, as a binary case."""
        problem, n = self.problems[k], self.n_samples
        sample = _sample_of(problem, ("other", problem.name))
        (top,) = TOP_LABEL.problems(sample, self.loss)
        n_drawn = self.n_drawn if self.complete else problem.n_samples
        return Case(sample, BINARY, self.loss, [problem], top, n, n_drawn, n, self.complete)

    def places(self, rows: Sample) -> IntArray:
        """Which row of the case each of the rows is of which it was made, -1 without weight."""
        kept = self.kept
        if kept is None:
            return np.arange(len(rows.labels))
        assert kept.complete
        table = RowTable.restored(kept.rows, kept.limit, (HALF, WHOLE), kept.merged)
        points, labels = _reduced(self.notion, rows.probabilities, rows.labels)
        found = table.find(points, labels, rows.weights)
        used = np.flatnonzero(in_own_unit(kept.rows.units, kept.rows.weights)[1])
        places = np.full(len(kept.rows) + 1, -1)  # the last one is that of no row
        places[used] = np.arange(len(used))
        return places[found]


def _reduced(notion: Notion, p: Numbers, labels: LabelArray) -> tuple[FloatArray, LabelArray]:
    """What a sketch keeps of rows, with predictions as a matrix ``(n, d)``."""
    points, outcomes = notion.reduce(p, labels)
    matrix: FloatArray = points.astype(np.float64, copy=False)
    return matrix[:, None] if matrix.ndim == 1 else matrix, outcomes


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
