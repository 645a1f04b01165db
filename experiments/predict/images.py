"""Labelled images: folders of classes, CIFAR's binary files, and arrays."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

Transform = Callable[[Image.Image], Any]
"""From a picture to a tensor."""

ENDINGS = (".jpeg", ".jpg", ".png", ".webp", ".bmp")
THREADS = 4
"""Pictures that are opened at once."""

SIDE = 32
"""Width and height of CIFAR's pictures."""


def _stacked(open_one: Callable[[int], Image.Image], transform: Transform, rows: range) -> Any:
    import torch

    with ThreadPoolExecutor(THREADS) as pool:
        return torch.stack(list(pool.map(lambda row: transform(open_one(row)), rows)))


@dataclass(frozen=True)
class ImageFolder:
    """A folder with a folder a class, whose sorted names are the classes' numbers."""

    paths: tuple[Path, ...]
    labels: npt.NDArray[np.int32]
    transform: Transform

    @classmethod
    def of(cls, folder: Path, transform: Transform) -> ImageFolder:
        """The pictures of a folder."""
        names = sorted(path.name for path in folder.iterdir() if path.is_dir())
        found = [
            (path, number)
            for number, name in enumerate(names)
            for path in sorted((folder / name).rglob("*"))
            if path.suffix.lower() in ENDINGS
        ]
        if not found:
            raise FileNotFoundError(f"{folder}: no pictures in folders named by class.")
        paths, labels = zip(*found, strict=True)
        return cls(paths, np.array(labels, dtype=np.int32), transform)

    def batch(self, rows: range) -> Any:
        """Pictures as one tensor."""
        return _stacked(lambda row: self._opened(row), self.transform, rows)

    def _opened(self, row: int) -> Image.Image:
        with Image.open(self.paths[row]) as picture:
            return picture.convert("RGB")


@dataclass(frozen=True)
class ImageArrays:
    """Pictures in memory, ``(n, height, width, 3)`` of bytes."""

    images: npt.NDArray[np.uint8]
    labels: npt.NDArray[np.int32]
    transform: Transform

    @classmethod
    def of(cls, paths: list[Path], transform: Transform) -> ImageArrays:
        """Archives with `images` and `labels`, or CIFAR's binary files.

        CIFAR's "python version" is made of pickles, which can run code when they are read;
        its binary version holds the same pictures.
        """
        pairs = [_archive(path) if path.suffix == ".npz" else _binary(path) for path in paths]
        images, labels = (np.concatenate(each) for each in zip(*pairs, strict=True))
        return cls(images, labels.astype(np.int32), transform)

    def batch(self, rows: range) -> Any:
        """Pictures as one tensor."""
        return _stacked(lambda row: Image.fromarray(self.images[row]), self.transform, rows)


def _archive(path: Path) -> tuple[npt.NDArray[np.uint8], npt.NDArray[Any]]:
    with np.load(path, allow_pickle=False) as file:
        missing = {"images", "labels"} - set(file.files)
        if missing:
            raise ValueError(f"{path}: needs `images` and `labels`; found {sorted(file.files)}.")
        images, labels = file["images"], file["labels"]
    if images.dtype != np.uint8 or images.ndim not in (3, 4):
        raise ValueError(
            f"{path}: `images` must be bytes (n, height, width) or (n, height, width, 3); found "
            f"{images.dtype} {images.shape}."
        )
    if images.ndim == 3:
        images = np.repeat(images[..., None], 3, axis=-1)
    return images, labels


def _binary(path: Path) -> tuple[npt.NDArray[np.uint8], npt.NDArray[Any]]:
    """CIFAR's binary version: a label (CIFAR-100: coarse, then fine), then three colours."""
    if path.suffix != ".bin":
        raise ValueError(
            f"{path}: pictures come in .npz archives or CIFAR's binary version (.bin); pickled "
            "batches are not read, because a pickle may run code."
        )
    content = np.fromfile(path, dtype=np.uint8)
    pixels = 3 * SIDE * SIDE
    # CIFAR-100's files are called train.bin and test.bin, CIFAR-10's data_batch_*, test_batch
    labels = 1 if "batch" in path.name else 2
    if content.size == 0 or content.size % (labels + pixels):
        raise ValueError(
            f"{path}: {content.size:,} bytes are no multiple of {labels} + {pixels:,}, as the "
            f"records of CIFAR-{'10' if labels == 1 else '100'} have."
        )
    records = content.reshape(-1, labels + pixels)
    images = records[:, labels:].reshape(-1, 3, SIDE, SIDE).transpose(0, 2, 3, 1)
    return np.ascontiguousarray(images), records[:, labels - 1]
