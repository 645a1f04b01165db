"""The parts of a state as arrays for `riskalign.data.format`, and back.

Hashes are not stored but found again. Codes are stored as differences, which are small. What
is read is checked against all that holds for a state, because a checksum proves that bytes are
as they were written, not that they were written in good faith.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from riskalign.data.cells import OFFSET_BITS
from riskalign.data.counting import Part
from riskalign.data.counts import CellCounts
from riskalign.data.distinct import HALF, WHOLE, Kinds, Rows, are_of, in_order, row_hashes
from riskalign.data.format import Array, SketchFormatError
from riskalign.data.rows import RowTable
from riskalign.data.totals import UNIT, Totals
from riskalign.data.weights import exponent_of, in_units

SLACK = 0.01
"""Rounded probabilities may lie a little above 1, and so may their sum; validation allows 1.001."""

ROUNDING, UNDERFLOW = 1e-6, 1e-300
"""How far sums of weights may differ from what holds for them, relative and absolute."""

WORST_LOG_LOSS, WORST_BRIER = 20.8, 2.1
"""No row's log loss, floored at 1e-9, or Brier score is larger."""

PLAIN = ("counts", "offsets")
WEIGHTED = ("counts", "totals", "squares", "moments")
"""Columns of counts without and with weights."""


def of_rows(table: RowTable, weighted: bool) -> dict[str, Array]:
    """The rows of a table."""
    rows = table.rows
    arrays: dict[str, Array] = {
        "rows.predictions": rows.predictions,
        "rows.labels": rows.labels,
        "rows.counts": rows.counts,
    }
    weights = {"rows.weights": rows.weights, "rows.units": rows.units}
    return arrays | (weights if weighted else {})


def of_counts(counts: CellCounts, name: str) -> dict[str, Array]:
    """The cells of a table of counts."""
    part = counts.sums
    names = WEIGHTED if counts.weighted else PLAIN
    columns = {f"{name}.{each}": column for each, column in zip(names, part.sums, strict=True)}
    return columns | {f"{name}.codes": np.diff(part.codes, prepend=0)}


class Reader:
    """Settings and arrays that were read from bytes, and checks of them."""

    def __init__(self, settings: Mapping[str, Any], arrays: Mapping[str, Array]) -> None:
        self.settings = settings
        self.arrays = arrays
        self.total: float | None = None  # of all weights, in their unit, as soon as it is known

    def check(self, holds: bool | np.bool_, what: str) -> None:
        """Raise an error about something unless it holds."""
        if not holds:
            raise SketchFormatError(f"The sketch is malformed: {what} cannot be right.")

    def text(self, name: str) -> str:
        """A setting that is a string."""
        value = self.settings[name]
        self.check(isinstance(value, str), f"`{name}`")
        return str(value)

    def texts(self, name: str) -> tuple[str, ...]:
        """A setting that is a list of strings."""
        values = self.settings[name]
        self.check(isinstance(values, list) and all(type(v) is str for v in values), f"`{name}`")
        return tuple(values)

    def truth(self, name: str) -> bool:
        """A setting that is true or false."""
        value = self.settings[name]
        self.check(isinstance(value, bool), f"`{name}`")
        return bool(value)

    def whole(self, name: str, most: int = 2**63, least: int = 0) -> int:
        """A setting that is a whole number within limits."""
        value = self.settings[name]
        self.check(type(value) is int and least <= value <= most, f"`{name}`")
        return int(value)

    def rows(
        self, empty: RowTable, n_labels: int, n: int, weighted: bool, exponent: int
    ) -> RowTable:
        """The table of rows, in place of an empty one."""
        width, limit = empty.width, empty.limit
        predictions = self._floats("rows.predictions")
        labels, counts = self._integers("rows.labels"), self._integers("rows.counts")
        m = len(counts)
        weights = self._floats("rows.weights") if weighted else np.ones(m)
        units = self._floats("rows.units") if weighted else weights
        self.check(predictions.shape == (m, width), "the shape of its rows")
        same_length = len(labels) == len(weights) == len(units) == m
        self.check(same_length, "the number of its rows")
        self.check((predictions <= 1 + SLACK).all(), "a prediction")
        sums = predictions.sum(axis=1)
        self.check(width == 1 or (np.abs(sums - 1) <= SLACK).all(), "the sum of a row")
        self.check((labels < n_labels).all() and (counts > 0).all(), "a label or count of its rows")
        rows = Rows(row_hashes(predictions, labels), predictions, labels, weights, units, counts)
        thresholds = self._thresholds(rows, limit)
        merged = self._merged(thresholds) if weighted else None
        order, starts, _ = in_order(rows, merged or (False, False))
        in_place = np.array_equal(order, np.arange(m)) and len(starts) == m
        self.check(in_place, "the order of its rows")
        held = sum(counts.tolist())
        complete = thresholds == (HALF, WHOLE)
        unknown = n - held  # were dropped, or have no weight
        self.check(
            unknown >= 0 if complete and weighted else (unknown == 0) == complete and unknown >= 0,
            "the sum of its rows' counts",
        )
        if merged is not None:
            self._check_weights(rows, merged)
            self.check(exponent_of(units) <= exponent, "a weight of its rows")
            if complete:
                total = (in_units(weights, exponent) * counts).sum(keepdims=True)
                self._check_total(total, n, "the weights of its rows")
        return RowTable.restored(rows, limit, thresholds, merged)

    def _merged(self, thresholds: tuple[int, int]) -> Kinds:
        """Which kinds of rows are merged; those of which some were dropped are."""
        found = self.settings["merged"]
        self.check(isinstance(found, list) and len(found) == 2, "`merged`")
        for one, threshold, most in zip(found, thresholds, (HALF, WHOLE), strict=True):
            self.check(type(one) is bool and (one or threshold == most), "`merged`")
        return found[0], found[1]

    def _check_weights(self, rows: Rows, merged: Kinds) -> None:
        """Refuse mean weights, and sum w^2 / sum w, that no positive weights have."""
        mean, units = rows.weights, rows.units
        self.check((mean > 0).all(), "a weight of its rows")
        together = are_of(merged, rows.hashes)
        self.check((together | (mean == units)).all(), "a weight of its rows")
        low, high = 1 - ROUNDING, 1 + ROUNDING
        self.check((units >= low * mean - UNDERFLOW).all(), "a weight of its rows")
        self.check((units / rows.counts <= high * mean + UNDERFLOW).all(), "a weight of its rows")

    def _thresholds(self, rows: Rows, limit: int) -> tuple[int, int]:
        """The thresholds, below which the kept rows of each kind must lie."""
        found = self.settings["thresholds"]
        self.check(isinstance(found, list) and len(found) == 2, "`thresholds`")
        for threshold, low, high in zip(found, (0, HALF), (HALF, WHOLE), strict=True):
            self.check(type(threshold) is int and low <= threshold <= high, "`thresholds`")
            own = rows.hashes[(rows.hashes >= low) & (rows.hashes <= high - 1)]
            self.check(len(own) <= limit, "the number of its rows")
            self.check(not len(own) or int(own[-1]) < threshold, "`thresholds`")
        return found[0], found[1]

    def fill_counts(
        self, counts: CellCounts, name: str, n: int, weighted: bool, exponent: int
    ) -> None:
        """Give an empty table its cells."""
        of_problem = 2 * counts.cells.n_slots
        steps = self._integers(f"{name}.codes")
        most = counts.n_problems * of_problem
        self.check((steps[1:] > 0).all() and sum(steps.tolist()) < most, f"a code of `{name}`")
        codes = np.cumsum(steps)
        number = self._integers(f"{name}.counts")
        rest = [
            self._floats(f"{name}.{each}") if weighted else self._integers(f"{name}.{each}")
            for each in (WEIGHTED if weighted else PLAIN)[1:]
        ]
        self.check(all(len(c) == len(codes) for c in (number, *rest)), f"the size of `{name}`")
        self.check((number > 0).all() and (number <= n).all(), f"a count of `{name}`")
        per_problem = np.bincount(codes // of_problem, number, counts.n_problems)
        self.check((per_problem == n).all() or n == 0, f"the sum of `{name}`")
        if weighted:
            self._check_weighted(name, number, *rest)
            totals = np.bincount(codes // of_problem, rest[0], counts.n_problems)
            self._check_total(totals, n, f"the weights of `{name}`")
        else:
            self.check((rest[0] >> OFFSET_BITS < number).all(), f"an offset of `{name}`")
        if counts.n_problems > 1:  # of every row, one class came true
            true = codes % of_problem >= counts.cells.n_slots
            self.check(int(number[true].sum()) == n, f"the labels of `{name}`")
        counts.restore(Part(codes, (number, *rest)), n, weighted, exponent)

    def _check_weighted(
        self, name: str, number: Array, totals: Array, squares: Array, moments: Array
    ) -> None:
        """Refuse sums per cell that no weights below 2 give, which those in their unit are."""
        high, low = 1 + ROUNDING, 1 - ROUNDING
        self.check((totals <= 2 * high * number).all(), f"a weight of `{name}`")
        largest = np.minimum(totals, 2.0) * totals  # every w is at most 2, and at most the sum
        self.check((squares <= high * largest + UNDERFLOW).all(), f"a square of `{name}`")
        smallest = totals * totals / number  # if all w were equal
        self.check((squares >= low * smallest - UNDERFLOW).all(), f"a square of `{name}`")
        most = high * totals * (1 << OFFSET_BITS) + UNDERFLOW
        self.check((moments <= most).all(), f"an offset of `{name}`")

    def _check_total(self, totals: Array, n: int, what: str) -> None:
        """Refuse weights of all rows that are not the same everywhere, or not in their unit.

        The largest weight lies between 1 and 2, unless all are 0.
        """
        first = self.total = float(totals[0]) if self.total is None else self.total
        self.check((np.abs(totals - first) <= ROUNDING * first).all(), what)
        self.check(first == 0 or 1 - ROUNDING <= first <= 2 * (1 + ROUNDING) * n, what)

    def fill_totals(self, totals: Totals, n: int, weighted: bool, exponent: int) -> None:
        """Give empty totals their sums."""
        losses = self.settings["losses"]
        self.check(isinstance(losses, list) and len(losses) == 2, "`losses`")
        self.check(all(type(x) is int and 0 <= x < 2**128 for x in losses), "`losses`")
        sums = self._floats("losses") if weighted else np.array([n, *(x / 2**UNIT for x in losses)])
        self.check(sums.shape == (3,), "`losses`")
        if weighted:
            self._check_total(sums[:1], n, "`losses`")
        worst = sums[0] * (1 + ROUNDING)
        within = sums[1] <= WORST_LOG_LOSS * worst and sums[2] <= WORST_BRIER * worst
        self.check(within, "`losses`")
        sums = sums if weighted else np.zeros(3)
        totals.restore((losses[0], losses[1]), sums, n, weighted, exponent)

    def _floats(self, name: str) -> Array:
        array = self.arrays[name]
        self.check(array.dtype.kind == "f", f"array `{name}`")
        array = array.astype(np.float64)
        self.check(np.isfinite(array).all() and (array >= 0).all(), f"a number in `{name}`")
        return array

    def _integers(self, name: str) -> Array:
        array = self.arrays[name]
        self.check(array.dtype.kind == "u" and array.ndim == 1, f"array `{name}`")
        self.check(int(array.max(initial=0)) < 2**63, f"a number in `{name}`")
        return array.astype(np.int64)
