"""The machine's cores, shared out over tiles."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import lru_cache
from itertools import islice
from typing import Any, TypeVar

from threadpoolctl import ThreadpoolController

A = TypeVar("A")
B = TypeVar("B")


def n_threads() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class _OneBlasThread:
    """Limits BLAS to one thread while any call of the library is at work.

    The limit is process-wide, so calls that overlap in several threads share it: the first one
    sets it, and the last one restores what the process had before.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._limit: Any = None

    def __enter__(self) -> None:
        with self._lock:
            if self._users == 0:
                self._limit = _blas().limit(limits=1, user_api="blas")
                _let_others_set_limits()
            self._users += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._users -= 1
            if self._users == 0:
                limit, self._limit = self._limit, None
                limit.restore_original_limits()
                _let_others_set_limits()


@lru_cache(maxsize=1)
def _blas() -> ThreadpoolController:
    return ThreadpoolController()


def _let_others_set_limits() -> None:
    """Give up the right to set limits, which newer threadpoolctl reserves for one thread.

    The call that ends last restores the limit, whichever thread it runs in.
    """
    for library in _blas().lib_controllers:
        give_up = getattr(library, "clear_controlling_thread", None)
        if give_up is not None:
            give_up()


one_blas_thread = _OneBlasThread()
"""Used as ``with one_blas_thread:``; may be nested and used by several threads at once."""


def ordered_map(
    function: Callable[[A], B], tasks: Sequence[A], workers: int | None = None
) -> Iterator[B]:
    """Like `map`, over all cores, with few results waiting and one BLAS thread per core.

    A BLAS that spreads each small product over the cores again doubles the time of a tile.
    Leaving the iterator early (an error, Ctrl-C) drops the tasks not yet begun.
    """
    workers = min(workers or n_threads(), len(tasks))
    if workers <= 1:
        with one_blas_thread:
            yield from map(function, tasks)
        return
    with one_blas_thread, ThreadPoolExecutor(workers) as pool:
        waiting: list[Future[B]] = []
        remaining = iter(tasks)
        try:
            waiting.extend(pool.submit(function, task) for task in islice(remaining, 2 * workers))
            while waiting:
                yield waiting.pop(0).result()
                waiting.extend(pool.submit(function, task) for task in islice(remaining, 1))
        finally:
            for future in waiting:
                future.cancel()
