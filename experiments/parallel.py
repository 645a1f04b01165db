"""Cells on all cores, a process each; rows are still written one cell after the other."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from itertools import cycle
from multiprocessing import get_context
from multiprocessing.queues import Queue
from pathlib import Path

from threadpoolctl import threadpool_limits

from experiments.cells import Row, load, run


def cores() -> list[int]:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def run_on_cores(
    path: Path,
    keys: Sequence[str],
    cells: Iterable[Row],
    compute: Callable[[Row], list[Row]],
    jobs: int = 1,
) -> list[Row]:
    """Like `cells.run`, with several cells at once: `compute` goes to other processes."""
    if jobs <= 1:
        return run(path, keys, cells, compute)
    done = {tuple(row[key] for key in keys) for row in load(path)}
    missing = [cell for cell in cells if tuple(cell[key] for key in keys) not in done]
    context = get_context("spawn")
    free = context.Queue()
    for _, core in zip(range(jobs), cycle(cores()), strict=False):
        free.put(core)
    with context.Pool(jobs, _settle, (free,)) as pool:
        results = pool.imap(compute, missing)
        return run(path, keys, missing, lambda cell: next(results))


def _settle(free: Queue[int]) -> None:
    """A worker's own core, and one thread on it: two that share cores halve each other."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {free.get()})
    threadpool_limits(1)
