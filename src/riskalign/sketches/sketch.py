"""A summary of a sample in bounded memory: it is filled in one pass, merged, stored and queried."""

from __future__ import annotations

import copy
from collections.abc import Iterable

import numpy as np

from riskalign.bandwidth.criteria import CRITERIA
from riskalign.bandwidth.result import BandwidthSearch
from riskalign.bandwidth.search import Bandwidth, Candidates, search_bandwidth
from riskalign.data.case import Case
from riskalign.data.counts import MOST_ROWS
from riskalign.data.labels import listed
from riskalign.data.notions import NOTIONS, named_notion, notion_of
from riskalign.data.state import Settings, SketchState
from riskalign.data.validation import as_batch, check_shares, is_whole, one_of
from riskalign.display import help, numbers, svg
from riskalign.display.notebook import framed
from riskalign.display.table import Row
from riskalign.equations.kernels import KERNELS
from riskalign.equations.losses import ProperLoss
from riskalign.inference.calibration_test import CalibrationTest, perform_test
from riskalign.inference.comparison import Comparison, compared_apart
from riskalign.methods import KernelSmoother
from riskalign.methods.curve import ReliabilityCurve, curve_of, grid_points
from riskalign.options import (
    check_draws,
    choose_method,
    loss_of,
    refuse_exact,
)
from riskalign.pipeline import check_rows, error_of
from riskalign.results import CalibrationResult

MOST_CLASSES = 1_000_000

ROUNDING = 1e-13
"""Rows that stand for so little more than a number of samples stand for that number."""


class CalibrationSketch:
    """What calibration errors need to know of any number of predictions.

    A sketch is filled in one pass, merges with other sketches, has a bounded size, and answers
    later, for any loss, estimator, bandwidth and confidence. Up to 20,000 distinct rows (fewer
    for more than 200 classes) it holds the sample itself, and its answers are those of
    `calibration_error`. Beyond, binary, top-label and class-wise errors come from counts of
    finely rounded probabilities, which move them by less than 2% of a standard error; canonical
    errors and the test come from a random sample of the rows. Neither the order of the rows
    nor their division into batches changes a sketch.

    Parameters
    ----------
    notion : {"binary", "top-label", "classwise", "canonical"}
        What is to be asked; class-wise and canonical sketches also know the top label. Default:
        "binary" without classes or for two, otherwise "classwise".
    classes : int or sequence, optional
        The number of classes, or their labels in the order of the columns. None for one
        probability, and for two classes 0 and 1.
    exact_limit : int, optional
        Distinct rows up to which the sample itself is held.
    bits : int, optional
        Significant bits to which probabilities are rounded in the counts: 10, for more than 16
        classes 8.

    Examples
    --------
    >>> import riskalign as ra
    >>> data = ra.datasets.temperature(2000, 3, seed=0)
    >>> sketch = ra.CalibrationSketch(notion="classwise", classes=3)
    >>> for rows in (slice(0, 500), slice(500, 2000)):
    ...     sketch = sketch.update(data.y_true[rows], data.y_prob[rows])
    >>> result = sketch.calibration_error(confidence=0.95)
    >>> whole = ra.calibration_error(data.y_true, data.y_prob, confidence=0.95)
    >>> sketch.n_samples, result.value == whole.value, result.interval == whole.interval
    (2000, True, True)
    """

    def __init__(
        self,
        notion: str | None = None,
        classes: int | Iterable[object] | None = None,
        *,
        exact_limit: int | None = None,
        bits: int | None = None,
    ) -> None:
        self._labels: list[object] | None = None
        self._named = False  # whether labels are known by their names alone
        if classes is None or isinstance(classes, int | np.integer):
            n_classes = 2 if classes is None else min(int(classes), MOST_CLASSES + 1)
            names = tuple(str(k) for k in range(n_classes))
        elif isinstance(classes, Iterable):
            self._labels = listed(classes)
            names = tuple(str(label) for label in self._labels)
        else:
            names = ()
        if not 2 <= len(names) <= MOST_CLASSES or len(set(names)) < len(names):
            raise ValueError(
                f"`classes` must be a number from 2 to {MOST_CLASSES:,}, or as many different "
                f"labels; found {classes!r}."
            )
        if exact_limit is not None:
            if not is_whole(exact_limit) or not 0 <= exact_limit <= MOST_ROWS:
                raise ValueError(
                    f"`exact_limit` must be a number of rows, at most 2^43; found {exact_limit!r}."
                )
            exact_limit = int(exact_limit)
        if bits is not None:
            if not is_whole(bits):
                raise ValueError(f"`bits` must lie between 4 and 16; found {bits!r}.")
            bits = int(bits)
        asked = notion_of(notion, len(names))
        self._state = SketchState(Settings.of(asked.name, names, exact_limit, bits))

    @property
    def notion(self) -> str:
        """What the sketch is to be asked."""
        return self._state.settings.notion

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes."""
        return self._state.settings.classes

    @property
    def n_samples(self) -> int:
        """Number of samples."""
        return self._state.n_rows

    @property
    def nbytes(self) -> int:
        """Bytes that the sketch takes in memory."""
        return self._state.nbytes

    @property
    def is_exact(self) -> bool:
        """Whether the sketch holds the sample itself."""
        rows, weighted = self._state.rows, self._state.weighted
        return rows.complete and not (weighted and any(rows.merged))

    def __repr__(self) -> str:
        """One line."""
        exact = "exact" if self.is_exact else "rounded"
        return (
            f"CalibrationSketch(notion={self.notion!r}, {len(self.classes)} classes, "
            f"n_samples={self.n_samples:,}, {exact}, {self.nbytes:,} bytes)"
        )

    def _repr_html_(self) -> str:
        """The table and a small diagram, for notebooks: 15 bins of what it was filled with."""
        exact = "all rows" if self.is_exact else "counts of rounded probabilities"
        rows = [
            Row("rows", numbers.count(self.n_samples), "", f"{self.nbytes:,} bytes, {exact}"),
            Row("classes", str(len(self.classes))),
        ]
        picture = ""
        if self.n_samples:
            scores = self.scores
            rows += [
                Row("accuracy", numbers.percent(scores["accuracy"]), "", "", help.ACCURACY),
                Row("mean confidence", numbers.percent(scores["confidence"])),
                Row("ECE (15 bins)", f"{numbers.points(scores['ece'])} pts", "", "", help.ECE),
            ]
            mass, predicted, came = self._state.bins()
            filled = mass > 0
            predicted, came = predicted[filled] / mass[filled], came[filled] / mass[filled]
            picture = svg.reliability(predicted, came, came, came)
        return framed(f"Sketch for {NOTIONS[self.notion].title} calibration", "", rows, picture)

    def update(
        self,
        y_true: object,
        y_prob: object,
        *,
        sample_weight: object = None,
        from_logits: bool = False,
        normalize: bool = False,
        ignore_index: int | None = None,
    ) -> CalibrationSketch:
        """Add rows in place, and return the sketch; parameters as for `calibration_error`."""
        if self._named and (labels := np.asarray(y_true)).ndim == 1 and labels.dtype.kind in "iu":
            y_true = labels.astype(str)
        batch = as_batch(
            y_true,
            y_prob,
            sample_weight,
            from_logits,
            normalize,
            ignore_index,
            self._labels,
            pairs=not self._state.notion.is_one_class,
        )
        if len(batch.classes) != len(self.classes):
            raise ValueError(
                f"`y_prob` must have the sketch's {len(self.classes)} classes; found "
                f"{len(batch.classes)}."
            )
        self._state.update(batch.probabilities, batch.labels, batch.weights)
        return self

    def merge(self, other: CalibrationSketch) -> CalibrationSketch:
        """Add the rows of another sketch in place, and return this one.

        Examples
        --------
        >>> import riskalign as ra
        >>> a = ra.CalibrationSketch().update([0, 1], [0.2, 0.7])
        >>> b = ra.CalibrationSketch().update([1, 1], [0.4, 0.9])
        >>> a.merge(b).n_samples, b.n_samples
        (4, 2)
        """
        if not isinstance(other, CalibrationSketch):
            raise TypeError(f"Sketches merge with sketches; found {type(other).__name__}.")
        self._state.merge(other._state)
        return self

    def __add__(self, other: CalibrationSketch) -> CalibrationSketch:
        """A new sketch of the rows of both."""
        if not isinstance(other, CalibrationSketch):
            return NotImplemented
        return self.copy().merge(other)

    def copy(self) -> CalibrationSketch:
        """A sketch of the same rows that can be filled further on its own."""
        twin = copy.copy(self)
        twin._state = self._state.copy()
        return twin

    def to_bytes(self) -> bytes:
        """The sketch as bytes, in a versioned format with a checksum; see `from_bytes`.

        Sketches of the same rows have the same bytes. Labels of classes that are not strings
        are stored by name; whole numbers are found by theirs.
        """
        return self._state.to_bytes()

    @classmethod
    def from_bytes(cls, blob: bytes) -> CalibrationSketch:
        """The sketch that `to_bytes` stored.

        Examples
        --------
        >>> import riskalign as ra
        >>> sketch = ra.CalibrationSketch().update([0, 1], [0.2, 0.7])
        >>> ra.CalibrationSketch.from_bytes(sketch.to_bytes()).n_samples
        2
        """
        sketch = cls.__new__(cls)
        sketch._state = SketchState.from_bytes(blob)
        numbered = tuple(str(k) for k in range(len(sketch.classes)))
        sketch._named = sketch.classes != numbered
        sketch._labels = list(sketch.classes) if sketch._named else None
        return sketch

    def case(self, loss: str | ProperLoss, notion: str | None = None) -> Case:
        """What is asked of the rows so far, for the packages that answer it."""
        if self.n_samples < 2:
            raise ValueError(
                "At least two samples are needed (each is estimated from the others; rows of "
                f"weight 0 do not count); found {self.n_samples}."
            )
        own, asked = self._state.notion, named_notion(notion)
        case = Case.of_state(self._state, loss_of(loss, own, len(self.classes)))
        if asked is not None and asked.is_confidence and own.whole_rows:
            case = case.of_top_label()
        elif asked is not None and asked is not own:
            raise ValueError(
                f"`notion={notion!r}` cannot be asked of a {self.notion!r} sketch. Make the sketch "
                f"with notion={notion!r}."
            )
        if case.notion.joint:
            check_rows(case)
        weights, units = case.problems[0].weights, case.problems[0].units
        # Samples of unequal weight that became one row are more than one.
        n = np.ceil((weights / units) * (1 - ROUNDING)).sum()
        check_shares(n, weights.sum(), units.max(initial=0.0))
        return case

    def calibration_error(
        self,
        *,
        notion: str | None = None,
        loss: str | ProperLoss = "l2",
        method: KernelSmoother | None = None,
        estimator: str = "debiased",
        bandwidth: Bandwidth | None = None,
        kernel: str = "dirichlet",
        candidates: Candidates = None,
        power: float = 2,
        start: str = "logistic",
        norm: str | None = None,
        confidence: float | None = None,
        engine: str = "auto",
        seed: int = 0,
        progress: bool | None = None,
    ) -> CalibrationResult:
        """The calibration error of all rows so far; parameters as for `calibration_error`.

        `notion` may be "top-label" for a class-wise or canonical sketch. `method` may only be a
        `KernelSmoother`: the others need all rows. The result has no `conditional`.
        """
        refuse_exact(engine, self.is_exact)
        options = KernelSmoother(bandwidth, kernel, estimator, candidates, power, start, norm)
        chosen = choose_method(method, options, engine)
        if not isinstance(chosen, KernelSmoother):
            raise TypeError(
                f"`method` of a sketch must be a KernelSmoother; found {method!r}, which needs all "
                "rows. Pass them to riskalign.calibration_error."
            )
        case = self.case(loss, notion)
        result = error_of(case, chosen, confidence, engine=engine, seed=seed, progress=progress)
        return result.without_rows()

    def compare(
        self,
        other: CalibrationSketch,
        *,
        notion: str | None = None,
        loss: str | ProperLoss = "l2",
        names: tuple[str, str] = ("A", "B"),
        confidence: float = 0.95,
        kernel: str = "dirichlet",
        start: str = "logistic",
        seed: int = 0,
        progress: bool | None = None,
    ) -> Comparison:
        """The calibration error of this sketch less that of another, as of independent samples.

        A sketch does not know which of its rows belong to which rows of another, so the comparison
        is unpaired: for two models on the same samples its interval is wider than that of
        `riskalign.compare`, which needs the rows. Parameters are as for `compare`.

        Examples
        --------
        >>> import riskalign as ra
        >>> data = ra.datasets.temperature(2000, 2, t2=0.5, seed=0)
        >>> model, truth = (
        ...     ra.CalibrationSketch().update(data.y_true, p)
        ...     for p in (data.y_prob, data.conditional)
        ... )
        >>> comparison = model.compare(truth, names=("model", "truth"))
        >>> comparison.difference > 0, comparison.paired
        (True, False)
        """
        if not isinstance(other, CalibrationSketch):
            raise TypeError(
                f"A sketch is compared with another sketch; found {type(other).__name__}. With "
                "the rows of two models at hand, use riskalign.compare."
            )
        if (self.notion, self.classes) != (other.notion, other.classes):
            raise ValueError(
                "Sketches are compared if their notion and classes are the same; found "
                f"{self.notion!r} with {len(self.classes)} classes here and {other.notion!r} with "
                f"{len(other.classes)} there."
            )
        first, second = (
            each.calibration_error(
                notion=notion,
                loss=loss,
                kernel=kernel,
                start=start,
                confidence=confidence,
                seed=seed,
                progress=progress,
            )
            for each in (self, other)
        )
        return compared_apart((first, second), names)

    def select_bandwidth(
        self,
        *,
        notion: str | None = None,
        loss: str | ProperLoss = "l2",
        criterion: str = "risk-alignment",
        kernel: str = "dirichlet",
        candidates: Candidates = None,
        power: float = 2,
        progress: bool | None = None,
    ) -> BandwidthSearch:
        """The bandwidth of smoothed labels; parameters as for `select_bandwidth`.

        `notion` may be "top-label" for a class-wise or canonical sketch.
        """
        case = self.case(loss, notion)
        return search_bandwidth(
            case.problems,
            KERNELS[one_of("kernel", kernel, KERNELS)],
            one_of("criterion", criterion, CRITERIA),
            per_class=case.notion.per_class,
            candidates=candidates,
            power=power,
            progress=progress,
        )

    def reliability_curve(
        self,
        *,
        grid: object = 101,
        notion: str | None = None,
        loss: str | ProperLoss = "l2",
        estimator: str = "debiased",
        bandwidth: Bandwidth | None = None,
        kernel: str = "dirichlet",
        candidates: Candidates = None,
        power: float = 2,
        start: str = "logistic",
        progress: bool | None = None,
    ) -> ReliabilityCurve:
        """The estimate of E[y | f] at points; parameters as for `reliability_curve`."""
        case = self.case(loss, notion)
        method = KernelSmoother(bandwidth, kernel, estimator, candidates, power, start)
        method.check(len(case.problems), case.notion.name)
        points = grid_points(grid, case.notion, case.problems[0].n_classes)
        return curve_of(case, method, points, "auto", progress)

    def calibration_test(
        self,
        *,
        notion: str | None = None,
        n_draws: int = 999,
        seed: int = 0,
        most_samples: int | None = None,
        progress: bool | None = None,
    ) -> CalibrationTest:
        """The test of calibration; parameters as for `calibration_test`.

        Beyond the rows that the sketch holds, those that it holds are tested. `most_samples`
        limits how many are, a random part; `n_samples` of the result says how many were. `notion`
        may be "top-label" for a class-wise or canonical sketch.
        """
        check_draws(n_draws, seed)
        case = self.case("l2", notion)
        check_rows(case)
        return perform_test(case, n_draws, seed, progress, most_samples)

    @property
    def scores(self) -> dict[str, float]:
        """Plain scores of all rows: accuracy, confidence, log loss, Brier score, 15-bin ECE.

        Examples
        --------
        >>> import riskalign as ra
        >>> sketch = ra.CalibrationSketch().update([0, 1, 1, 1], [0.2, 0.7, 0.6, 0.9])
        >>> {name: round(value, 3) for name, value in sketch.scores.items()}
        {'accuracy': 1.0, 'confidence': 0.75, 'log_loss': 0.299, 'brier': 0.075, 'ece': 0.25}
        """
        if not self.n_samples:
            raise ValueError("The sketch is empty: it has no scores. Fill it with `update` first.")
        return self._state.scores()
