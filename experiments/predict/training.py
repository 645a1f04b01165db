"""A small network trained here, stopped early and late: two prediction files of one model.

On Fashion-MNIST, from Debian's package dataset-fashion-mnist. Trained long on few pictures, a
network is sure of what it does not know.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from experiments.predict.chunks import predict
from experiments.predict.models import image_scores

FASHION = Path("/usr/share/datasets/fashion-mnist")
TRAINED_ON = 10_000
EPOCHS = {"early": 3, "late": 40}
BATCH = 100

Arrays = tuple[npt.NDArray[np.float32], npt.NDArray[np.int32]]


@dataclass(frozen=True)
class Rows:
    """Pictures as rows of numbers, with their labels."""

    inputs: npt.NDArray[np.float32]
    labels: npt.NDArray[np.int32]

    def batch(self, rows: range) -> Any:
        """Rows as one tensor."""
        import torch

        return torch.from_numpy(self.inputs[rows.start : rows.stop])


def data() -> tuple[Rows, Rows]:
    """The training part, cut short, and the test part."""
    if not FASHION.exists():
        raise FileNotFoundError(f"{FASHION}: apt install dataset-fashion-mnist, to train on it.")
    train, test = (_fashion(part) for part in ("train", "t10k"))
    return Rows(train[0][:TRAINED_ON], train[1][:TRAINED_ON]), Rows(*test)


def _fashion(part: str) -> Arrays:
    images = _idx(FASHION / f"{part}-images-idx3-ubyte.gz", 16)
    labels = _idx(FASHION / f"{part}-labels-idx1-ubyte.gz", 8)
    pixels = images.reshape(len(labels), -1).astype(np.float32) / 255
    return pixels, labels.astype(np.int32)


def _idx(path: Path, header: int) -> npt.NDArray[np.uint8]:
    with gzip.open(path) as file:
        return np.frombuffer(file.read(), dtype=np.uint8, offset=header)


def network(inputs: int, seed: int) -> Any:
    """Two hidden layers."""
    import torch
    from torch import nn

    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Linear(inputs, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 10)
    )


def train(model: Any, rows: Rows, epochs: int, seed: int) -> Iterator[int]:
    """Adam on the log loss; yields the number of each epoch that is done."""
    import torch

    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    x, y = torch.from_numpy(rows.inputs), torch.from_numpy(rows.labels.astype(np.int64))
    generator = torch.Generator().manual_seed(seed)
    for epoch in range(1, epochs + 1):
        for chosen in torch.randperm(len(y), generator=generator).split(BATCH):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(x[chosen]), y[chosen]).backward()
            optimizer.step()
        yield epoch


def run(folder: Path, seed: int = 0, progress: bool = True) -> dict[str, Path]:
    """Train once; write predictions of the test part at each stop."""
    training, test = data()
    model = network(training.inputs.shape[1], seed)
    stops = {epochs: stop for stop, epochs in EPOCHS.items()}
    written = {}
    for epoch in train(model, training, max(EPOCHS.values()), seed):
        if (stop := stops.get(epoch)) is not None:
            out = folder / f"fashion-mnist_mlp-{stop}-epoch{epoch}.npz"
            identity = {"data": str(FASHION), "epoch": epoch, "seed": seed}
            written[stop] = predict(test, image_scores(model), out, identity, progress=progress)
    return written
