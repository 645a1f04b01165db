"""The machine's cores, shared out over tiles."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import lru_cache
from itertools import islice
from typing import TypeVar

from threadpoolctl import ThreadpoolController

A = TypeVar("A")
B = TypeVar("B")


def n_threads() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@lru_cache(maxsize=1)
def _blas() -> ThreadpoolController:
    return ThreadpoolController()


def ordered_map(
    function: Callable[[A], B], tasks: Sequence[A], workers: int | None = None
) -> Iterator[B]:
    """Like `map`, over all cores, with few results waiting and one BLAS thread a core.

    A BLAS that spreads each small product over the cores again doubles the time of a tile.
    Leaving the iterator early (an error, Ctrl-C) drops the tasks not yet begun.
    """
    workers = min(workers or n_threads(), len(tasks))
    if workers <= 1:
        with _blas().limit(limits=1, user_api="blas"):
            yield from map(function, tasks)
        return
    with _blas().limit(limits=1, user_api="blas"), ThreadPoolExecutor(workers) as pool:
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
