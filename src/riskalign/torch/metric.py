"""Calibration errors as a torchmetrics metric whose state does not grow with the data."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torchmetrics import Metric

from riskalign.bandwidth.search import Bandwidth
from riskalign.data.cells import Cells
from riskalign.data.counting import Part
from riskalign.data.counts import CellCounts
from riskalign.data.notions import NOTIONS
from riskalign.data.state import SketchState
from riskalign.data.validation import BFLOAT16_TOLERANCE, ROW_SUM_TOLERANCE
from riskalign.equations.losses import ProperLoss
from riskalign.results import CalibrationResult
from riskalign.sketches.sketch import CalibrationSketch
from riskalign.torch import rows as row_table
from riskalign.torch import totals as sums
from riskalign.torch.counts import CellTables, counted, encode

BAD = {
    "a prediction that is NaN": "Correct the model, or drop those rows.",
    "a prediction outside [0, 1]": "Pass `from_logits=True` for logits.",
    "predictions that do not sum to 1 (tolerance 1e-3, for bfloat16 8e-3)": (
        "Pass `from_logits=True` for logits, or take the softmax in float32."
    ),
    "a label that is not a class number": "Pass `ignore_index=` for padding.",
}
"""What can be wrong with a row, in the order in which it is looked for, and the cure."""


def _described(settings: Tensor) -> str:
    """The settings that a state depends on, in words."""
    notion, n_classes, bits, limit = settings.tolist()[:4]
    return (
        f"notion={list(NOTIONS)[notion]!r}, {n_classes} classes, bits={bits}, exact_limit={limit}"
    )


@dataclass(frozen=True)
class _Constants:
    """What `update` reads on a device, float64 where the device knows it."""

    edges: dict[torch.dtype, Tensor]
    parts: Tensor
    logs: Tensor
    multipliers: Tensor

    @classmethod
    def of(cls, binned: CellTables, width: int, device: torch.device) -> _Constants:
        kinds = {torch.float32, sums.wide(device)}
        return cls(
            {kind: binned.edges_for(kind).to(device) for kind in kinds},
            binned.parts.to(device),
            sums.tables().to(sums.wide(device)).to(device),
            row_table.multipliers_of(width).to(device),
        )


class CalibrationError(Metric):
    """A calibration error of any number of predictions, from a state of constant size.

    The state is that of a `riskalign.CalibrationSketch`, as integer tensors on the metric's
    device: counts of finely rounded probabilities, sums of log loss and Brier score, and, where
    asked for, a sample of rows. `update` never waits for the device. Rows that are wrong are
    counted there, and `compute` raises.

    Parameters
    ----------
    notion : {"binary", "top-label", "classwise", "canonical"}, optional
        What must be calibrated. Default: "binary" for two classes, otherwise "classwise".
    classes : int or sequence, optional
        The number of classes, or their names in the order of the columns; two if left out.
    loss : {"l2", "kl", "ranked"} or ProperLoss
    estimator, bandwidth : as for `riskalign.calibration_error`
    from_logits : bool
        Whether predictions are logits. Nothing is guessed.
    ignore_index : int, optional
        Label of rows to leave out.
    exact_limit : int, optional
        Number of distinct rows that are held beside the counts: up to it results are those of
        the sample itself, and beyond it they are a random sample of the rows. Canonical errors,
        and the intervals of class-wise errors, need rows. Default: 0, for canonical errors
        20,000 (fewer for more than 200 classes).
    bits : int, optional
        Significant bits of the counts: 10, for more than 16 classes 8.
    **options
        Those of `torchmetrics.Metric`.

    Examples
    --------
    >>> import torch
    >>> from riskalign.torch import CalibrationError
    >>> generator = torch.Generator().manual_seed(0)
    >>> metric = CalibrationError("top-label", 3, from_logits=True)
    >>> for _ in range(4):
    ...     logits = torch.randn(500, 3, generator=generator)
    ...     labels = torch.multinomial((0.5 * logits).softmax(1), 1, generator=generator)[:, 0]
    ...     metric.update(logits, labels)
    >>> round(float(metric.compute()), 3), metric.sketch().n_samples
    (0.012, 2000)
    """

    full_state_update = False
    is_differentiable = False
    higher_is_better = False
    plot_lower_bound = 0.0

    settings: Tensor
    n_rows: Tensor
    bad: Tensor
    cells: Tensor
    top: Tensor
    totals: Tensor
    rows: Tensor

    def __init__(
        self,
        notion: str | None = None,
        classes: int | Iterable[object] | None = None,
        loss: str | ProperLoss = "l2",
        *,
        estimator: str = "debiased",
        bandwidth: Bandwidth | None = None,
        from_logits: bool = False,
        ignore_index: int | None = None,
        exact_limit: int | None = None,
        bits: int | None = None,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        given = tuple(classes) if isinstance(classes, Iterable) else classes
        sketch = CalibrationSketch(notion, given, exact_limit=exact_limit, bits=bits)
        settings = sketch._state.settings
        limit = settings.limit if exact_limit is not None or settings.asked.joint else 0
        self._sketch_options = {"exact_limit": limit, "bits": settings.bits}
        self._given = given
        self.notion, self.loss = settings.notion, loss
        self.estimator, self.bandwidth = estimator, bandwidth
        self.from_logits, self.ignore_index = from_logits, ignore_index
        self._asked, self.n_classes = settings.asked, len(settings.classes)
        self._limit = limit
        state = SketchState(settings)
        whole = torch.int64

        def table(counts: CellCounts | None) -> Tensor:
            size = 0 if counts is None else 2 * counts.n_problems * counts.cells.n_slots
            return torch.zeros(2, size, dtype=whole)

        self.add_state("settings", self._settings(), dist_reduce_fx="max")
        self.add_state("n_rows", torch.zeros((), dtype=whole), dist_reduce_fx="sum")
        self.add_state("bad", torch.zeros(len(BAD), dtype=whole), dist_reduce_fx="sum")
        self.add_state("cells", table(state.counts), dist_reduce_fx="sum")
        self.add_state("top", table(state.top), dist_reduce_fx="sum")
        self.add_state("totals", torch.zeros(2, 2, dtype=whole), dist_reduce_fx="sum")
        self.add_state(
            "rows", row_table.empty(settings.width, limit), dist_reduce_fx=row_table.merged
        )
        self._cells = None if state.counts is None else state.counts.cells
        self._top_cells = None if state.top is None else state.top.cells
        binned = self._top_cells or self._cells
        assert binned is not None  # every notion has one of them
        self._binned, self._width = CellTables.of(binned), settings.width
        self._constants = _Constants.of(self._binned, self._width, self.device)

    def _settings(self) -> Tensor:
        """What the other states depend on, as a state.

        Metrics of a collection that differ in it never share a state, and a checkpoint says what
        it was made with.
        """
        notion, bits = list(NOTIONS).index(self.notion), self._sketch_options["bits"]
        ignored = (self.ignore_index is not None, self.ignore_index or 0)
        return torch.tensor([notion, self.n_classes, bits, self._limit, *ignored]).long()

    def _apply(self, fn: Any, *others: Any, **options: Any) -> Any:
        """Constants follow the metric to its device, and counts stay integers."""
        before = {name: (self._defaults[name], getattr(self, name)) for name in self._defaults}
        moved = super()._apply(fn, *others, **options)
        for name, (default, state) in before.items():
            if getattr(self, name).dtype != state.dtype:  # by `set_dtype`
                self._defaults[name] = default.to(self.device)
                setattr(self, name, state.to(self.device))
        self._constants = _Constants.of(self._binned, self._width, self.device)
        return moved

    def _load_from_state_dict(
        self,
        state_dict: Any,
        prefix: str,
        local_metadata: Any,
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        """Refuse the state of a metric with other settings."""
        key, own = prefix + "settings", self._settings()
        found = _described(state_dict[key]) if key in state_dict else "other settings"
        stored = {name for name in self._defaults if prefix + name in state_dict}
        fits = all(state_dict[prefix + name].shape == self._defaults[name].shape for name in stored)
        if not fits or (key in state_dict and found != _described(own)):
            error_msgs.append(
                f"The state is that of a CalibrationError with {found}; this one has "
                f"{_described(own)}. Make the metric with the settings of the state, or leave the "
                "state out of the checkpoint."
            )
            for name in stored:
                del state_dict[prefix + name]
        elif key in state_dict:  # the label of rows to leave out may be another one from now on
            state_dict[key] = own.to(self.device)
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        )

    def update(self, preds: Tensor, target: Tensor) -> None:
        """Add predictions and labels.

        Parameters
        ----------
        preds : (N, C) or (N, C, ...)
            Probabilities, or logits with `from_logits`; for binary errors also (N,), (N, ...) or
            (N, 1, ...), those of the second class.
        target : (N,) or (N, ...)
            Labels from 0 to C - 1, or `ignore_index`.
        """
        self._add(preds, target)

    def _add(self, preds: Tensor, target: Tensor) -> None:
        """What `update` does, one graph of operations of which none waits for the device."""
        p, labels = self._flat(preds, target)
        bfloat16 = preds.dtype == torch.bfloat16
        tolerance = BFLOAT16_TOLERANCE if bfloat16 else ROW_SUM_TOLERANCE
        p, labels, valid, bad = self._checked(p, labels, tolerance)
        constants = self._constants
        self.n_rows = self.n_rows + valid.sum()
        self.bad = self.bad + bad
        top, chosen = p.max(1)
        right = (chosen == labels).long()
        clamped = p.clamp(max=1.0)
        if self._top_cells is not None:
            points, outcomes, matrix = clamped, labels, p
            self.top = self._count(self.top, clamped.amax(1), right, valid, self._top_cells)
        elif self._asked.is_one_class:
            points, outcomes, matrix = clamped[:, 1], labels, clamped[:, 1:]
        else:
            points, outcomes, matrix = top.clamp(max=1.0), right, top.clamp(max=1.0)[:, None]
        if self._cells is not None:
            self.cells = self._count(self.cells, points, outcomes, valid, self._cells)
        if not self._asked.is_one_class:
            self.totals = sums.added(self.totals, p, labels, valid, constants.logs)
        if self._limit:
            of_columns = constants.multipliers
            self.rows = row_table.added(self.rows, matrix, outcomes, valid, of_columns)

    def _count(
        self, table: Tensor, p: Tensor, labels: Tensor, valid: Tensor, cells: Cells
    ) -> Tensor:
        """A table of cells with problems ``(n,)`` or ``(n, P)`` added."""
        constants = self._constants
        edges = constants.edges[p.dtype] if cells.n_bins > 1 else None
        slots, offsets = encode(p, cells, edges, constants.parts)
        if p.dim() == 1:
            return counted(table, slots + labels * cells.n_slots, offsets, valid)
        problems = torch.arange(p.shape[1], device=p.device)
        came = (labels[:, None] == problems).long()
        codes = slots + (2 * problems + came) * cells.n_slots
        return counted(table, codes, offsets, valid[:, None].expand_as(codes))

    def _flat(self, preds: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """Probabilities ``(n, K)`` in float32 or float64, and labels ``(n,)``."""
        if not preds.is_floating_point():
            raise TypeError(
                f"`preds` must hold probabilities or logits; found {preds.dtype}. The order is "
                "(preds, target)."
            )
        if target.is_floating_point():
            raise TypeError(f"`target` must hold class numbers; found {target.dtype}.")
        preds = preds.detach()
        p = preds if preds.dtype == torch.float64 else preds.float()
        expected = (*preds.shape[:1], *preds.shape[2:])
        one_column = preds.dim() > 1 and preds.shape[1] == 1 and target.shape == expected
        if self._asked.is_one_class and (one_column or preds.shape == target.shape):
            p = p.sigmoid() if self.from_logits else p
            # A probability may lie above 1 by rounding; that of the other class is then 0.
            p = torch.stack([(1 - p).clamp(min=0), p], -1).reshape(-1, 2)
        elif preds.dim() < 2 or preds.shape[1] != self.n_classes or target.shape != expected:
            raise ValueError(self._wrong_shapes(preds, target))
        else:
            p = p.movedim(1, -1).reshape(-1, self.n_classes)
            p = p.softmax(1) if self.from_logits else p
        return p, target.reshape(-1).long()

    def _wrong_shapes(self, preds: Tensor, target: Tensor) -> str:
        """What to say of shapes that do not fit, with the cure."""
        said = (
            f"`preds` must have shape (N, {self.n_classes}, ...) and `target` (N, ...); found "
            f"{tuple(preds.shape)} and {tuple(target.shape)}."
        )
        columns, binary = preds.shape[1] if preds.dim() > 1 else 1, self._asked.is_one_class
        if columns == self.n_classes or (columns == 1 and binary):
            return said  # the labels are wrong
        if columns == 1:
            return f"{said} Use notion='binary' for one prediction per row."
        other = " and another notion than 'binary'" if binary else ""
        return f"{said} Make CalibrationError with `classes={columns}`{other}."

    def extra_repr(self) -> str:
        """What is measured, for the print of a model."""
        loss = self.loss.name if isinstance(self.loss, ProperLoss) else self.loss
        return f"{self.notion}, classes={self.n_classes}, {loss}"

    def _checked(
        self, p: Tensor, labels: Tensor, tolerance: float
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Rows with harmless numbers where they are not valid, which are, and bad ones counted."""
        used = torch.ones_like(labels, dtype=torch.bool)
        if self.ignore_index is not None:
            used = labels != self.ignore_index
        wrong = torch.stack(
            [
                p.isnan().any(1),
                ((p < 0) | (p > 1 + tolerance)).any(1),
                (p.sum(1) - 1).abs() > tolerance,
                (labels < 0) | (labels >= self.n_classes),
            ]
        )  # (4, n)
        wrong &= used
        wrong &= wrong.cumsum(0) == 1  # the first fault of a row
        valid = used & ~wrong.any(0)
        p = torch.where(valid[:, None], p, 0.0)
        return p, torch.where(valid, labels, 0), valid, wrong.sum(1)

    def compute(self) -> Tensor:
        """The calibration error; NaN with fewer than two rows."""
        self._raise_if_bad()
        if int(self.n_rows) < 2:
            return torch.tensor(torch.nan, device=self.n_rows.device)
        value = self._result(self._sketch()).value
        return torch.tensor(value, dtype=torch.float32, device=self.n_rows.device)

    def compute_result(self, confidence: float | None = None, **options: Any) -> CalibrationResult:
        """The whole result, as of `riskalign.CalibrationSketch.calibration_error`.

        In a distributed run every process must call it, as `compute`.

        Parameters
        ----------
        confidence : float, optional
            Level of the interval, such as 0.95.
        **options
            Other options, in place of those of the metric.
        """
        return self._result(self.sketch(), confidence=confidence, **options)

    def _result(self, sketch: CalibrationSketch, **options: Any) -> CalibrationResult:
        own = {"loss": self.loss, "estimator": self.estimator, "bandwidth": self.bandwidth}
        return sketch.calibration_error(**(own | {"progress": False} | options))

    def sketch(self) -> CalibrationSketch:
        """The rows so far as a sketch, which merges, stores, and answers other questions.

        In a distributed run every process must call it, as `compute`.
        """
        with self.sync_context(dist_sync_fn=self.dist_sync_fn, should_sync=self.sync_on_compute):
            return self._sketch()

    def _sketch(self) -> CalibrationSketch:
        self._raise_if_bad()
        sketch = CalibrationSketch(self.notion, self._given, **self._sketch_options)
        state, n = sketch._state, int(self.n_rows)
        state.n_rows = n
        state.rows = row_table.as_row_table(self.rows, n)
        for counts, table in ((state.counts, self.cells), (state.top, self.top)):
            if counts is not None:
                number, offsets = table.cpu().numpy()
                held = np.flatnonzero(number)
                counts.restore(Part(held, (number[held], offsets[held])), n, False, 0)
        if state.totals is not None:
            state.totals.restore(sums.exact(self.totals), np.zeros(3), n, False, 0)
        return sketch

    def _raise_if_bad(self) -> None:
        found = self.bad.tolist()
        if any(found):
            words = "; ".join(
                f"{count:,} with {what}. {cure}"
                for count, (what, cure) in zip(found, BAD.items(), strict=True)
                if count
            )
            raise ValueError(f"Rows that cannot be used were given to `update`: {words}")

    def plot(self, val: Any = None, ax: Any = None) -> Any:
        """Plot the value, or several; see `torchmetrics.Metric.plot`."""
        return self._plot(val, ax)
