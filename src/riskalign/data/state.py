"""The state of a sketch: distinct rows, counts of cells and sums of losses.

One pass over the sample fills all parts. Each of them is bounded in size and merges:

- `rows`: the distinct rows or, when they are many, a sample of them; see `RowTable`. A row holds
  one probability and whether it came true (binary, top-label), or all probabilities and the
  label (class-wise, canonical);
- `counts`: cells of the notion's one-dimensional problems, see `CellCounts`; canonical
  calibration has no such problem;
- `top`: cells of the top label, the most probable class, if `counts` are not of it already;
- `totals`: sums of log loss and Brier score; for binary calibration `counts` give them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from riskalign.data import packing
from riskalign.data.cells import Numbers
from riskalign.data.counts import MOST_ROWS, Atoms, CellCounts
from riskalign.data.format import SketchFormatError, pack, unpack
from riskalign.data.notions import NOTIONS, TOP_LABEL, Notion
from riskalign.data.rows import RowTable
from riskalign.data.totals import Totals
from riskalign.data.weights import in_units
from riskalign.equations.arrays import FloatArray, LabelArray, floored_log

MOST_DISTINCT = 20_000
MOST_NUMBERS = 4_000_000
"""The most distinct rows of a kind that are kept, and the most numbers in them: 32 MB."""

N_BINS = 15
"""Bins of equal width that the cells of a single problem respect."""

FINE, COARSE, FEW_PROBLEMS = 10, 8, 16
"""Significant bits of a cell for up to 16 problems, and for more: the counts of 1,000 problems
take 100 MB with 8 bits."""


def most_rows(notion: Notion, n_classes: int) -> int:
    """The most distinct rows of a kind that are kept where nothing else is asked."""
    return min(MOST_DISTINCT, MOST_NUMBERS // (n_classes if notion.whole_rows else 1))


@dataclass(frozen=True)
class Settings:
    """What two states must share to be merged.

    Attributes
    ----------
    notion : one of `NOTIONS`
    classes : names of the classes
    limit : the most distinct rows to keep of each kind, see `RowTable`
    bits : significant bits of a cell
    """

    notion: str
    classes: tuple[str, ...]
    limit: int
    bits: int

    @classmethod
    def of(
        cls,
        notion: str,
        classes: tuple[str, ...],
        limit: int | None = None,
        bits: int | None = None,
    ) -> Settings:
        """Settings with the defaults for this notion and number of classes.

        Examples
        --------
        >>> Settings.of("classwise", tuple("abc"))
        Settings(notion='classwise', classes=('a', 'b', 'c'), limit=20000, bits=10)
        """
        settings = cls(notion, classes, 0, 0)
        if limit is None:
            limit = most_rows(settings.asked, len(classes))
        if bits is None:
            bits = FINE if settings.n_problems <= FEW_PROBLEMS else COARSE
        return replace(settings, limit=limit, bits=bits)

    @property
    def asked(self) -> Notion:
        """The notion itself."""
        return NOTIONS[self.notion]

    @property
    def width(self) -> int:
        """Numbers in a row: one probability, or those of all classes."""
        return len(self.classes) if self.asked.whole_rows else 1

    @property
    def n_problems(self) -> int:
        """Number of one-dimensional problems."""
        return 0 if self.asked.joint else self.asked.n_problems(len(self.classes))


class SketchState:
    """Rows, counts and sums of a sample, for one notion of calibration.

    Parameters
    ----------
    settings : Settings

    Attributes
    ----------
    notion : Notion
        That decides what is kept.
    n_rows : int
    weighted : bool
        Whether weights have come.
    rows : RowTable
    counts, top : CellCounts or None
    totals : Totals or None

    Examples
    --------
    >>> import numpy as np
    >>> settings = Settings.of("binary", ("no", "yes"))
    >>> a = SketchState(settings).update(np.array([0.2, 0.7, 0.2]), np.array([0, 1, 0]))
    >>> b = SketchState(settings).update(np.array([0.7]), np.array([1]))
    >>> a.merge(b).n_rows, len(a.rows.rows), a.rows.complete
    (4, 2, True)
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.n_rows = 0
        self.weighted = False
        self.notion = notion = settings.asked
        n_problems = settings.n_problems
        n_bins = 1 if notion.whole_rows else N_BINS
        self.rows = RowTable(settings.width, settings.limit)
        self.counts = CellCounts(n_problems, settings.bits, n_bins) if n_problems else None
        self.top = CellCounts(1, FINE, N_BINS) if notion.whole_rows else None
        self.totals = None if notion.is_one_class else Totals()

    def update(
        self, p: Numbers, labels: LabelArray, weights: FloatArray | None = None
    ) -> SketchState:
        """Add rows in place, and return the state. Rows of weight 0 are left out.

        Parameters
        ----------
        p : (n, K), float32 or float64; for binary calibration also (n,)
            Valid probabilities; nothing is checked here.
        labels : (n,), integers from 0 to K - 1
        weights : (n,), optional
            1 for every row if left out.
        """
        p, labels, weights = _with_weight(p, labels, weights)
        self._expect(len(labels))
        points, outcomes = self.notion.reduce(p, labels)
        self.rows.add(points[:, None] if points.ndim == 1 else points, outcomes, weights)
        if self.counts is not None:
            self.counts.add(points, outcomes, weights)
        if self.top is not None:
            self.top.add(*TOP_LABEL.reduce(p, labels), weights)
        if self.totals is not None:
            self.totals.add(p, labels, weights)
        self.n_rows += len(labels)
        self.weighted |= weights is not None and len(labels) > 0
        return self

    def merge(self, other: SketchState) -> SketchState:
        """Add the rows of another state in place, and return this state."""
        mine, others = vars(self.settings), vars(other.settings)
        for name in mine:
            if mine[name] != others[name]:
                raise ValueError(
                    f"Sketches merge if their settings are the same; `{name}` is "
                    f"{_short(mine[name])} here and {_short(others[name])} there."
                )
        self._expect(other.n_rows)
        self.rows.merge(other.rows)
        if self.counts is not None and other.counts is not None:
            self.counts.merge(other.counts)
        if self.top is not None and other.top is not None:
            self.top.merge(other.top)
        if self.totals is not None and other.totals is not None:
            self.totals.merge(other.totals)
        self.n_rows += other.n_rows
        self.weighted |= other.weighted
        return self

    def copy(self) -> SketchState:
        """A state of the same rows that changes on its own."""
        return SketchState(self.settings).merge(self)

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays in memory."""
        parts = (self.rows, self.counts, self.top)
        return sum(part.nbytes for part in parts if part is not None)

    @property
    def exponent(self) -> int:
        """Sums of w are in units of 2^exponent, see `riskalign.data.weights`."""
        part = self.counts or self.top
        assert part is not None  # every notion has one of them
        return part.exponent

    def top_atoms(self) -> Atoms:
        """Cells of the top label: confidences, and whether the top label is right.

        The sums over them give accuracy, confidence and over-confidence. For binary
        calibration they are the cells of the positive class, turned round below 1/2.
        """
        if self.top is not None:
            return self.top.atoms(0)
        assert self.counts is not None
        atoms = self.counts.atoms(0)
        if self.totals is not None:
            return atoms
        p, labels = atoms.locations, atoms.labels
        turned = p <= 0.5
        return replace(
            atoms,
            locations=np.where(turned, 1 - p, p),
            labels=np.where(turned, 1 - labels, labels),
        )

    def bins(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Sums ``(15,)`` over bins of equal width: of w, of w p, and of w where it came true.

        They are of the top label's probability or, for binary calibration, of the positive
        class's.
        """
        part = self.top or self.counts
        assert part is not None
        return part.bins(0)

    def losses(self) -> tuple[float, float]:
        """Mean log loss and Brier score, NaN without rows.

        For binary calibration the Brier score is the mean of (p - y)^2, and both are sums over
        the distinct rows or, where rows were dropped, over cells: then the log loss is too small
        by less than 5e-7 if cells have 10 bits, and the Brier score by less still.
        """
        if self.totals is not None:
            return self.totals.means()
        assert self.counts is not None
        atoms = self.counts.atoms(0)
        p, labels, w = atoms.locations, atoms.labels, atoms.totals
        if self.rows.complete:
            rows = self.rows.rows
            p, labels = rows.predictions[:, 0], rows.labels
            w = rows.counts * in_units(rows.weights, self.exponent)
        if w.sum() == 0:
            return np.nan, np.nan
        w = w / w.sum()
        true = np.where(labels == 1, p, 1 - p)
        return float(w @ -floored_log(true)), float(w @ (1 - true) ** 2)

    def scores(self) -> dict[str, float]:
        """Accuracy, confidence, log loss, Brier score and ECE of the top label."""
        top = self.top_atoms()
        weights = top.totals / top.totals.sum()
        log_loss, brier = self.losses()
        mass, predicted, came = self.bins()
        return {
            "accuracy": float(weights @ top.labels),
            "confidence": float(weights @ top.locations),
            "log_loss": log_loss,
            "brier": brier,
            "ece": float(np.abs(predicted - came).sum() / mass.sum()),
        }

    def to_bytes(self) -> bytes:
        """The state as bytes, see `riskalign.data.format`; equal states give equal bytes.

        Examples
        --------
        >>> state = SketchState(Settings.of("binary", ("no", "yes")))
        >>> blob = state.to_bytes()
        >>> SketchState.from_bytes(blob).to_bytes() == blob
        True
        """
        settings: dict[str, Any] = vars(self.settings) | {
            "n_rows": self.n_rows,
            "weighted": self.weighted,
            "exponent": self.exponent,
            "thresholds": self.rows.thresholds,
        }
        if self.weighted:
            settings["merged"] = self.rows.merged
        arrays = packing.of_rows(self.rows, self.weighted)
        for name, counts in (("counts", self.counts), ("top", self.top)):
            if counts is not None:
                arrays |= packing.of_counts(counts, name)
        if self.totals is not None:
            settings["losses"] = self.totals.exact
            arrays |= {"losses": self.totals.sums} if self.weighted else {}
        return pack(settings, arrays)

    @classmethod
    def from_bytes(cls, blob: bytes | bytearray | memoryview) -> SketchState:
        """The state from its bytes.

        Raises
        ------
        SketchFormatError
            If the bytes are of something else, of a newer version, cut short, changed, or hold
            what no state can hold.
        """
        if not isinstance(blob, bytes | bytearray | memoryview):
            raise TypeError(f"A sketch is made from bytes; found {type(blob).__name__}.")
        found, arrays = unpack(blob)
        try:
            return cls._restored(packing.Reader(found, arrays))
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            if isinstance(error, SketchFormatError):
                raise
            raise SketchFormatError(f"The sketch is malformed: {error}") from error

    @classmethod
    def _restored(cls, reader: packing.Reader) -> SketchState:
        notion, classes = reader.text("notion"), reader.texts("classes")
        reader.check(notion in NOTIONS and len(classes) >= 2, "its notion or classes")
        state = cls(Settings(notion, classes, reader.whole("limit"), reader.whole("bits", 16)))
        n = reader.whole("n_rows", MOST_ROWS)
        weighted, exponent = reader.truth("weighted"), reader.whole("exponent", 1023, -1074)
        reader.check(weighted or exponent == 0, "`exponent`")
        state.n_rows, state.weighted = n, weighted
        n_labels = len(classes) if state.notion.whole_rows else 2
        state.rows = reader.rows(state.rows, n_labels, n, weighted, exponent)
        for name, counts in (("counts", state.counts), ("top", state.top)):
            if counts is not None:
                reader.fill_counts(counts, name, n, weighted, exponent)
        if state.totals is not None:
            reader.fill_totals(state.totals, n, weighted, exponent)
        return state

    def _expect(self, n: int) -> None:
        if self.n_rows + n > MOST_ROWS:
            raise ValueError(
                f"A sketch holds at most 2^43 = {MOST_ROWS:.2g} rows; found {self.n_rows + n:.4g}."
            )


def _with_weight(
    p: Numbers, labels: LabelArray, weights: FloatArray | None
) -> tuple[Numbers, LabelArray, FloatArray | None]:
    """The rows whose weight is not 0: the others are as if they were not there."""
    if weights is None or weights.all():
        return p, labels, weights
    used = np.flatnonzero(weights)
    return p[used], labels[used], weights[used]


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
