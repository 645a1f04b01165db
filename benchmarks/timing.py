"""How works are timed, and the data they are timed on."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import softmax

REPEATS, TURNS = 3, 7

Work = Callable[[], Any]


def best_of(work: Work, repeats: int = REPEATS) -> tuple[float, Any]:
    """Shortest time of some runs, and the last result."""
    times, result = [], None
    for _ in range(repeats):
        result = None  # its memory is not the next run's
        start = time.perf_counter()
        result = work()
        times.append(time.perf_counter() - start)
    return min(times), result


def timed(work: Work) -> tuple[float, float]:
    """Seconds of one run, and CPU seconds of all its threads."""
    start, cpu = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - start, time.process_time() - cpu


def in_turn(first: Work, second: Work, turns: int = TURNS) -> tuple[float, float]:
    """Shortest times of two works that alternate: a busy moment touches both."""
    pairs = [(best_of(first, 1)[0], best_of(second, 1)[0]) for _ in range(turns)]
    return min(time for time, _ in pairs), min(time for _, time in pairs)


def peak_mb() -> float:
    """The most memory that this process has held so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def synthetic(n: int, n_classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Labels and over-confident predictions, made without large temporaries."""
    generator = np.random.default_rng(0)
    f, y = np.empty((n, n_classes)), np.empty(n, dtype=np.intp)
    for start in range(0, n, 10_000):
        rows = slice(start, min(start + 10_000, n))
        z = 2 * generator.standard_normal((rows.stop - start, n_classes))
        truth = softmax(z, axis=1)
        y[rows] = (truth.cumsum(1)[:, :-1] < generator.random((len(z), 1))).sum(1)
        f[rows] = softmax(z / 0.8, axis=1)
    return y, f
