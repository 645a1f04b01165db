"""A progress bar for long work, when a person is watching."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")


def track(
    steps: Iterable[tuple[int, T]], total: int, description: str, progress: bool | None
) -> Iterator[T]:
    """The results of steps as they come, with a bar if asked for (by default on a terminal).

    A step is (its part of the total, its result). The bar is tqdm's; without tqdm none is
    shown, unless `progress=True` asked for it.
    """
    wanted = sys.stderr.isatty() if progress is None else progress
    if not wanted:
        yield from (result for _, result in steps)
        return
    try:
        from tqdm import tqdm
    except ImportError:
        if progress:
            raise ImportError(
                "`progress=True` needs tqdm: pip install 'riskalign[progress]'."
            ) from None
        yield from (result for _, result in steps)
        return
    # A second of silence first: short work needs no bar.
    with tqdm(total=total, desc=description, delay=1.0, leave=False, file=sys.stderr) as bar:
        for part, result in steps:
            yield result
            bar.update(part)
