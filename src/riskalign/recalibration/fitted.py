"""Recalibrate predictions: learn a map from one sample, apply it to others."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from riskalign.data.files.arrays import archive_arrays, archive_keys, archive_of
from riskalign.data.files.labels import is_text
from riskalign.data.files.whole import write_whole
from riskalign.data.hashing import hash_rows
from riskalign.data.sample import Sample
from riskalign.data.validation import (
    ROW_SUM_TOLERANCE,
    as_probabilities,
    as_sample,
    one_of,
)
from riskalign.display.notebook import framed
from riskalign.display.numbers import percent, shortened
from riskalign.display.table import Row
from riskalign.equations.arrays import FloatArray
from riskalign.recalibration.calibrators import CALIBRATORS
from riskalign.recalibration.kernel import Recalibration
from riskalign.recalibration.scaling import Scaling
from riskalign.recalibration.stored import ARRAYS, State, from_state, state_of

SHOWN, WIDEST = 8, 80
"""Classes that notebooks name, and letters of their names."""

FORMAT, VERSION = "riskalign calibrator", 1
LARGEST = 1_000_000_000
"""Bytes of a file that is read."""


@dataclass(frozen=True)
class FittedCalibrator:
    """A map from predictions to recalibrated predictions; made by `fit_calibrator`.

    Attributes
    ----------
    method : name of the method
    classes : labels of the classes, in the order of the columns
    map : the fitted map, from ``(m, K)`` to ``(m, K)``
    rows : a digest of the rows that it learnt from, in any order; None where it is not known

    Examples
    --------
    >>> import riskalign as ra
    >>> data = ra.datasets.temperature(500, 2, t2=0.5, seed=0)
    >>> calibrator = ra.fit_calibrator(data.y_true, data.y_prob[:, 1], method="temperature")
    >>> calibrator
    <temperature calibrator of 2 classes>
    >>> recalibrated = calibrator([0.01, 0.5, 0.99])
    >>> bool(recalibrated[0] > 0.01 and recalibrated[2] < 0.99)
    True
    """

    method: str
    classes: tuple[Any, ...]
    map: Scaling | Recalibration
    rows: str | None = field(default=None, compare=False)

    def __call__(
        self, y_prob: object, *, from_logits: bool = False, normalize: bool = False
    ) -> FloatArray:
        """Recalibrate predictions ``(m, K)``, or one probability per row ``(m,)``."""
        f = as_probabilities(y_prob, from_logits=from_logits, normalize=normalize)
        if f.shape[1] != len(self.classes):
            raise ValueError(
                f"`y_prob` must have {len(self.classes)} classes, as the sample that the "
                f"calibrator learnt from; found {f.shape[1]}."
            )
        R = self.recalibrated(f)
        return R[:, 1] if np.ndim(y_prob) == 1 else R  # type: ignore[arg-type]

    def recalibrated(self, f: FloatArray) -> FloatArray:
        """The map's values at probabilities ``(m, K)``, which must be probabilities, too."""
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            R = self.map(f)
            valid = (R >= 0).all() and (np.abs(R.sum(axis=1) - 1) <= ROW_SUM_TOLERANCE).all()
        if not valid:
            raise ValueError(
                "the calibrator gives values that are no probabilities: its numbers are too large. "
                "Fit it again."
            )
        return R

    def __repr__(self) -> str:
        """One line."""
        return f"<{self.method} calibrator of {len(self.classes)} classes>"

    def _repr_html_(self) -> str:
        """What it is, and for two classes what becomes of some probabilities, for notebooks."""
        names = ", ".join(map(str, self.classes[:SHOWN]))
        more = f" and {len(self.classes) - SHOWN:,} more" if len(self.classes) > SHOWN else ""
        rows = [Row("classes", f"{len(self.classes):,}", "", shortened(names, WIDEST) + more)]
        grid: list[tuple[str, ...]] = []
        if len(self.classes) == 2:
            p = np.array([0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99])
            R = self.recalibrated(np.stack([1 - p, p], axis=1))[:, 1]
            head = ("predicted", "recalibrated")
            grid = [head, *((percent(a), percent(b)) for a, b in zip(p, R, strict=True))]
        return framed(f"{self.method.capitalize()} calibrator", "", rows, grid=grid)

    def to_bytes(self, kind: str = ".json") -> bytes:
        """The calibrator as the content of a ".json" or an ".npz" file; no code is stored.

        Examples
        --------
        >>> import riskalign as ra
        >>> data = ra.datasets.temperature(500, 2, t2=0.5, seed=0)
        >>> calibrator = ra.fit_calibrator(data.y_true, data.y_prob, method="temperature")
        >>> calibrator.to_bytes()[:36]
        b'{"format": "riskalign calibrator", "'
        """
        _check_kind(kind)
        head = {"format": FORMAT, "version": VERSION, "method": self.method}
        learnt = {} if self.rows is None else {"rows": self.rows}
        state: State = head | {"classes": list(self.classes)} | learnt | state_of(self.map)
        if kind == ".json":
            listed = {
                key: value.tolist() if isinstance(value, np.ndarray) else value
                for key, value in state.items()
            }
            return (json.dumps(listed) + "\n").encode()
        arrays = {key: value for key, value in state.items() if isinstance(value, np.ndarray)}
        rest = {key: value for key, value in state.items() if key not in arrays}
        arrays["settings"] = np.array(json.dumps(rest))
        return archive_of(arrays)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the calibrator to a .json or .npz file, whole or not at all.

        Examples
        --------
        >>> import riskalign as ra
        >>> from pathlib import Path
        >>> from tempfile import TemporaryDirectory
        >>> data = ra.datasets.temperature(500, 2, t2=0.5, seed=0)
        >>> calibrator = ra.fit_calibrator(data.y_true, data.y_prob, method="temperature")
        >>> with TemporaryDirectory() as folder:
        ...     calibrator.save(Path(folder) / "calibrator.json")
        ...     same = ra.load_calibrator(Path(folder) / "calibrator.json")
        >>> bool((same(data.y_prob) == calibrator(data.y_prob)).all())
        True
        """
        write_whole(Path(path), self.to_bytes(Path(path).suffix.lower()))


def _check_kind(kind: str) -> None:
    if kind not in (".json", ".npz"):
        raise ValueError(f"calibrators are stored in .json or .npz files; found {kind!r}.")


def load_calibrator(path: str | os.PathLike[str]) -> FittedCalibrator:
    """Read a calibrator that `FittedCalibrator.save` has written.

    The file is data, not code: nothing in it is run, and what does not fit together is an error.

    Examples
    --------
    >>> import riskalign as ra
    >>> ra.load_calibrator("nothing.json")
    Traceback (most recent call last):
    FileNotFoundError: nothing.json: no such file.
    """
    path = Path(path)
    kind = path.suffix.lower()
    _check_kind(kind)
    if not path.exists():
        raise FileNotFoundError(f"{path}: no such file.")
    if path.stat().st_size > LARGEST:
        raise ValueError(f"{path} is larger than any calibrator: {path.stat().st_size:,} bytes.")
    try:
        return _of_state(
            _json_state(path.read_bytes()) if kind == ".json" else _archive_state(path)
        )
    except ValueError as error:
        raise ValueError(f"{path} cannot be read as a calibrator: {error}") from None


def _of_state(state: State) -> FittedCalibrator:
    method, classes = state.get("method"), state.get("classes")
    if (state.get("format"), state.get("version")) != (FORMAT, VERSION):
        raise ValueError(f"it is not a calibrator of format version {VERSION}.")
    if not isinstance(method, str) or method not in CALIBRATORS:
        raise ValueError("its method is not known.")
    if not isinstance(classes, list) or len(classes) < 2 or not all(map(_is_label, classes)):
        raise ValueError("its classes must be two or more names or numbers.")
    if len(set(classes)) < len(classes):
        raise ValueError("its classes are not all different.")
    found = from_state(state, len(classes))
    if isinstance(found, Recalibration) != (method == "kernel"):
        raise ValueError(f"it does not hold a {method} calibrator.")
    rows = state.get("rows")  # files of earlier versions have none
    if rows is not None and not isinstance(rows, str):
        raise ValueError("its digest of rows must be text.")
    return FittedCalibrator(method, tuple(classes), found, rows)


def _is_label(label: object) -> bool:
    """A name that can be written, or a finite number."""
    if isinstance(label, str):
        return is_text(label)
    return isinstance(label, int) or (isinstance(label, float) and math.isfinite(label))


def _json_state(content: bytes) -> State:
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise ValueError("it holds no JSON object.")  # noqa: TRY004
    return found


def _archive_state(path: Path) -> State:
    known = [key for key in archive_keys(path) if key in (*ARRAYS, "settings")]
    arrays: dict[str, Any] = archive_arrays(path, known)
    settings = arrays.pop("settings", None)
    if settings is None or settings.dtype.kind != "U" or settings.ndim != 0:
        raise ValueError("it has no settings.")
    return arrays | _json_state(str(settings).encode())


def fit_calibrator(
    y_true: object,
    y_prob: object,
    *,
    method: str = "kernel",
    sample_weight: object = None,
    from_logits: bool = False,
    normalize: bool = False,
    ignore_index: int | None = None,
    classes: Sequence[object] | None = None,
) -> FittedCalibrator:
    """Learn a map from predictions to recalibrated predictions.

    Parameters
    ----------
    method : {"kernel", "matrix", "vector", "platt", "temperature"}
        "temperature" divides the logits by one number. "platt" adds one shift per class, "vector"
        a shift and a slope per class, "matrix" a weight per pair of classes, each as far as the
        data support it. "kernel" smooths the residuals of "matrix" where that pays.
    others
        As for `calibration_error`.

    Returns
    -------
    FittedCalibrator
        Call it with predictions.

    Examples
    --------
    >>> import riskalign as ra
    >>> data = ra.datasets.temperature(4000, 3, t2=0.5, seed=0)
    >>> calibrator = ra.fit_calibrator(data.y_true[:2000], data.y_prob[:2000], method="vector")
    >>> recalibrated = calibrator(data.y_prob[2000:])
    >>> before, after = (
    ...     ra.calibration_error(data.y_true[2000:], f).value
    ...     for f in (data.y_prob[2000:], recalibrated)
    ... )
    >>> after < 0.1 * before
    True
    """
    one_of("method", method, CALIBRATORS)
    sample = as_sample(y_true, y_prob, sample_weight, from_logits, normalize, ignore_index, classes)
    return fitted_to(sample, method)


def fitted_to(sample: Sample, method: str) -> FittedCalibrator:
    """The calibrator of a checked sample."""
    return FittedCalibrator(method, sample.classes, CALIBRATORS[method](sample), digest_of(sample))


def digest_of(sample: Sample) -> str:
    """The number of rows, and a sum of their hashes: the same in any order."""
    total = int(hash_rows(sample.probabilities, sample.labels).sum(dtype=np.uint64))
    return f"{len(sample.labels)} rows, {total:016x}"
