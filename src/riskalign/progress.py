"""A progress bar for long work, when a person is watching."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeAlias, TypeVar

T = TypeVar("T")
Listener: TypeAlias = Callable[[float], None]

_listener: ContextVar[Listener | None] = ContextVar("listener", default=None)


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Tell a listener which share of the work at hand is done, in place of any bar.

    Examples
    --------
    >>> heard = []
    >>> with listening(heard.append):
    ...     list(track([(1, "a"), (3, "b")], 4, "letters", None))
    ['a', 'b']
    >>> heard
    [0.25, 1.0]
    """
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


def track(
    steps: Iterable[tuple[int, T]], total: int, description: str, progress: bool | None
) -> Iterator[T]:
    """The results of steps as they come, with a bar if asked for (by default on a terminal).

    A step is (its part of the total, its result). The bar is tqdm's; without tqdm none is
    shown, unless `progress=True` asked for it.
    """
    listener = _listener.get()
    if listener is not None:
        done = 0
        for part, result in steps:
            yield result
            done += part
            listener(done / total if total else 1.0)
        return
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
