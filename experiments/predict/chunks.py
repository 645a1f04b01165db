"""From samples and a model to a prediction file, chunk by chunk.

Finished chunks lie in a folder beside the file until the last one is there; a run that was
stopped goes on with the chunk it stood at. The file itself is written whole or not at all.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from tqdm import tqdm

Scores = npt.NDArray[np.float32]


class Source(Protocol):
    """Labelled samples, whose inputs are made batch by batch."""

    labels: npt.NDArray[np.int32]

    def batch(self, rows: range) -> Any:
        """What the model takes, for some samples."""
        ...


def predict(
    source: Source,
    score: Callable[[Any], Scores],
    out: Path,
    identity: dict[str, object],
    batch: int = 64,
    chunk: int = 2_048,
    progress: bool = True,
) -> Path:
    """Write labels and logits ``(n, K)`` to an .npz file, and return its path.

    Parameters
    ----------
    identity : what the logits come from, in words; chunks of another one are not mixed in
    batch, chunk : samples that go through the model, and that are written, at once
    """
    if out.suffix != ".npz":
        raise ValueError(f"`out` must end in .npz; found {out.name!r}.")
    if out.exists():
        raise FileExistsError(f"{out} is there already. Remove it, or choose another name.")
    n = len(source.labels)
    parts = _parts(out, {**identity, "samples": n, "chunk": chunk})
    with tqdm(total=n, desc=out.stem, unit="samples", disable=not progress) as bar:
        for start in range(0, n, chunk):
            stop = min(start + chunk, n)
            place = parts / f"{start:09d}.npy"
            if place.exists():
                bar.update(stop - start)
                continue
            found = []
            for first in range(start, stop, batch):
                rows = range(first, min(first + batch, stop))
                found.append(_checked(score(source.batch(rows)), source.labels))
                bar.update(len(rows))
            _write(place, lambda file, found=found: np.save(file, np.concatenate(found)))
    logits = np.concatenate([np.load(path) for path in sorted(parts.glob("*.npy"))])
    _write(out, lambda file: np.savez_compressed(file, labels=source.labels, logits=logits))
    shutil.rmtree(parts)
    return out


def _parts(out: Path, identity: dict[str, object]) -> Path:
    """The folder of chunks, if those in it come from the same model and data."""
    parts = out.with_suffix(".parts")
    parts.mkdir(parents=True, exist_ok=True)
    note, words = parts / "identity.json", json.dumps(identity, sort_keys=True, default=str)
    if note.exists() and note.read_text() != words:
        raise ValueError(
            f"{parts} holds chunks of another run: {note.read_text()}, and this one is {words}. "
            "Remove the folder to begin anew."
        )
    note.write_text(words)
    return parts


def _checked(logits: Scores, labels: npt.NDArray[np.int32]) -> Scores:
    if logits.ndim != 2 or not np.isfinite(logits).all():
        raise ValueError(f"the model must give finite logits (n, K); found shape {logits.shape}.")
    if labels.max() >= logits.shape[1]:
        raise ValueError(
            f"the model knows {logits.shape[1]} classes, but there are labels up to "
            f"{labels.max()}. Use a model that was trained on these classes."
        )
    return logits.astype(np.float32)


def _write(path: Path, fill: Callable[[Any], None]) -> None:
    """Write beside the place, then move there."""
    part = path.with_name(path.name + ".tmp")
    with part.open("wb") as file:
        fill(file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(part, path)
