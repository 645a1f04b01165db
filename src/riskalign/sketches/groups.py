"""Sketches by group, which are filled from batches and merged."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from threading import Event
from typing import Any

import numpy as np

from riskalign.data.arrow import Reading, Rows
from riskalign.data.notions import BINARY, notion_of
from riskalign.data.sources import Batches
from riskalign.sketches.sketch import CalibrationSketch

MOST_GROUPS = 10_000
"""Groups of `by`: each has a sketch of its own."""


class Groups:
    """Sketches by group, all with the same settings; one under None without groups.

    Parameters
    ----------
    reading : Reading
    settings : `notion`, `exact_limit` and `bits` of the sketches
    whole : Groups, optional
        Groups into which these will be merged. Rows that they have dropped are not looked at
        here again, which takes a third of the time away.
    """

    def __init__(
        self, reading: Reading, settings: dict[str, Any], whole: Groups | None = None
    ) -> None:
        self.reading = reading
        self.settings = settings
        self.whole = whole
        self.sketches: dict[Any, CalibrationSketch] = {}

    def add(self, batches: Batches, stop: Event | None = None) -> Groups:
        """Add the rows of batches, unless something stops it, and return the groups."""
        for batch, place, first in batches:
            for rows in self.reading.rows(batch, place, first):
                self._add(rows)
                if stop is not None and stop.is_set():
                    return self
        return self

    def merge(self, other: Groups) -> Groups:
        """Add the rows of other groups, and return these."""
        for key, sketch in other.sketches.items():
            if key in self.sketches:
                self.sketches[key].merge(sketch)
            else:
                self.sketches[key] = sketch
                self._check_number()
        return self

    def answer(self, *, grouped: bool) -> Any:
        """The sketch, or the dictionary of sketches."""
        names = self.reading.classes
        for sketch in self.sketches.values():
            sketch._labels = None if names is None else list(names)
        if grouped:
            return dict(sorted(self.sketches.items(), key=lambda item: _rank(item[0])))
        if not self.sketches:
            raise ValueError("`source` has no rows.")
        return self.sketches[None]

    def to_bytes(self) -> dict[Any, bytes]:
        """The sketches as bytes: values that no task of an engine can change."""
        return {key: sketch.to_bytes() for key, sketch in self.sketches.items()}

    def _add(self, rows: Rows) -> None:
        if rows.groups is None:
            self._update(None, rows, slice(None))
            return
        known = rows.groups.dictionary_encode()
        codes = known.indices.fill_null(len(known.dictionary)).to_numpy(zero_copy_only=False)
        found = known.dictionary.to_pylist()
        values = [*(value if value == value else None for value in found), None]  # NaN, too
        order = np.argsort(codes, kind="stable")
        edges = np.searchsorted(codes[order], np.arange(len(values) + 1))
        for value, start, end in zip(values, edges[:-1].tolist(), edges[1:].tolist(), strict=True):
            if end > start:
                self._update(value, rows, order[start:end])

    def _update(self, key: Any, rows: Rows, part: Any) -> None:
        reading, weights = self.reading, rows.weights
        try:
            if key not in self.sketches:
                self.sketches[key] = self._new(rows)
                self._check_number()
                known = None if self.whole is None else self.whole.sketches.get(key)
                if known is not None:
                    self.sketches[key]._state.rows.follow(known._state.rows)
            self.sketches[key].update(
                rows.labels[part],
                rows.scores[part],
                sample_weight=None if weights is None else weights[part],
                from_logits=reading.layout.from_logits,
                normalize=reading.normalize,
            )
        except (ValueError, TypeError) as error:
            reading.explain(rows, error)

    def _new(self, rows: Rows) -> CalibrationSketch:
        n_classes = 2 if rows.scores.ndim == 1 else rows.scores.shape[1]
        classes = n_classes if self.reading.classes is None else self.reading.classes
        notion = self.settings["notion"]
        if self.reading.layout.predicted is not None:
            if notion is not None and notion_of(notion, 2).whole_rows:
                raise ValueError(
                    f"`notion={notion!r}` needs the probabilities of all classes; there is only "
                    "that of the predicted class."
                )
            notion = BINARY.name
        sketch = CalibrationSketch(**(self.settings | {"notion": notion, "classes": classes}))
        sketch._labels = None  # rows come with class numbers
        return sketch

    def _check_number(self) -> None:
        if len(self.sketches) > MOST_GROUPS:
            raise ValueError(
                f"`by={self.reading.by!r}` has more than {MOST_GROUPS:,} values, and each needs a "
                "sketch. Choose a column of fewer values, or round it."
            )


def merged_bytes(parts: Iterable[dict[Any, bytes]]) -> dict[Any, bytes]:
    """Sketches by group, as bytes, of the rows of all parts.

    Examples
    --------
    >>> import riskalign as ra
    >>> blob = ra.CalibrationSketch().update([0, 1], [0.2, 0.7]).to_bytes()
    >>> both = merged_bytes([{"a": blob}, {}, {"a": blob, "b": blob}])
    >>> {key: ra.CalibrationSketch.from_bytes(each).n_samples for key, each in both.items()}
    {'a': 4, 'b': 2}
    """
    sketches: dict[Any, CalibrationSketch] = {}
    for part in parts:
        for key, blob in part.items():
            sketch = CalibrationSketch.from_bytes(blob)
            if key in sketches:
                sketches[key].merge(sketch)
            else:
                sketches[key] = sketch
    return {key: sketch.to_bytes() for key, sketch in sketches.items()}


def sketches_of(blobs: dict[Any, bytes], *, grouped: bool) -> Any:
    """The sketch of merged parts, or the dictionary of sketches."""
    ranked = sorted(blobs.items(), key=lambda item: _rank(item[0]))
    sketches = {key: CalibrationSketch.from_bytes(blob) for key, blob in ranked}
    if grouped:
        return sketches
    if not sketches:
        raise ValueError("there are no rows.")
    return sketches[None]


def _rank(key: Any) -> tuple[bool, str, Any]:
    """Order of groups: by type and value, missing values last."""
    comparable = isinstance(key, int | float | Decimal | str | bytes) or hasattr(key, "isoformat")
    return (
        key is None,
        "" if isinstance(key, int | float) else type(key).__name__,
        (key if comparable else str(key)),
    )
