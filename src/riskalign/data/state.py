"""The state of a sketch: distinct rows, counts per problem and plain sums, filled in one pass.

All parts have a bounded size. While there are at most `limit` distinct rows, the table of rows
is the sample, and results are exact. Beyond, it is a random sample of the distinct rows, and
one-dimensional problems are known by their counts.
"""

from __future__ import annotations

from dataclasses import dataclass

from riskalign.data.counts import CellCounts
from riskalign.data.notions import TOP_LABEL, Notion
from riskalign.data.rows import RowTable
from riskalign.data.sample import Sample
from riskalign.data.totals import Totals

LIMIT, NUMBERS = 20_000, 4_000_000
"""Distinct rows that are held, and numbers in them: fewer rows of many classes."""

BITS = 10
"""Significant bits of a cell."""


@dataclass
class SketchState:
    """Rows, counts and sums of a sample.

    Attributes
    ----------
    notion : what is kept of a row
    classes : names of the classes
    table : distinct rows
    counts : cells of the notion's problems, None for the canonical notion
    top : cells of the top label, for the notion whose problems do not hold them
    totals : plain sums
    """

    notion: Notion
    classes: tuple[str, ...]
    table: RowTable
    counts: CellCounts | None
    top: CellCounts | None
    totals: Totals

    @classmethod
    def empty(
        cls, notion: Notion, classes: tuple[str, ...], limit: int | None = None, bits: int = BITS
    ) -> SketchState:
        """The state of no rows."""
        n_classes = len(classes)
        width = 1 if notion.one_probability else n_classes
        most = min(LIMIT, NUMBERS // width) if limit is None else limit
        counts = None if notion.joint else CellCounts(notion.n_problems(n_classes), bits)
        top = CellCounts(1, bits) if notion.per_class else None
        return cls(notion, classes, RowTable(width, most), counts, top, Totals())

    @property
    def n_samples(self) -> int:
        """Number of samples."""
        return self.totals.n_rows

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        counts = sum(each.nbytes for each in (self.counts, self.top) if each is not None)
        return self.table.nbytes + counts

    def update(self, sample: Sample, *, weighted: bool) -> SketchState:
        """Add the rows of a sample in place, and return the state."""
        f, labels = sample.probabilities, sample.labels
        weights = sample.weights if weighted else None
        predictions, outcomes = self.notion.kept(f, labels)
        self.table.add(predictions, outcomes, weights)
        if self.counts is not None:
            p = predictions[:, 0] if self.notion.one_probability else predictions
            self.counts.add(p, outcomes, weights)
        if self.top is not None:
            p, right = TOP_LABEL.kept(f, labels)
            self.top.add(p[:, 0], right, weights)
        self.totals.add(f[:, 1] if f.shape[1] == 2 else f, labels, weights)
        return self

    def merge(self, other: SketchState) -> SketchState:
        """Add the rows of another state in place, and return this state."""
        self.table.merge(other.table)
        self.totals.merge(other.totals)
        for own, theirs in ((self.counts, other.counts), (self.top, other.top)):
            if own is not None and theirs is not None:
                own.merge(theirs)
        return self
