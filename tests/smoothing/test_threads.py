"""Limits of threads are those of the host, before and after calls of the library."""

import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

import riskalign as ra
from riskalign.smoothing import grid, threads, tiles
from riskalign.smoothing.threads import one_blas_thread


def limits():
    return {pool["filepath"]: pool["num_threads"] for pool in threadpool_info()}


def test_limits_are_restored_after_concurrent_calls():
    data = ra.datasets.temperature(600, 4, seed=0)

    def error(_):
        result = ra.calibration_error(
            data.y_true, data.y_prob, notion="canonical", estimator="plugin", bandwidth=0.1
        )
        return result.value

    with threadpool_limits(limits=2, user_api="blas"):
        before = limits()
        with ThreadPoolExecutor(8) as pool:
            values = list(pool.map(error, range(16)))
        assert limits() == before
    assert set(values) == {error(0)}


def test_the_last_to_leave_restores_the_limit_from_any_thread():
    entered, leave = threading.Event(), threading.Event()

    def first():
        with one_blas_thread:
            entered.set()
            leave.wait()

    thread = threading.Thread(target=first)
    before = limits()
    thread.start()
    entered.wait()
    with one_blas_thread:  # enters second, leaves last
        leave.set()
        thread.join()
        assert set(limits().values()) <= {1} | set(before.values())
    assert limits() == before


def test_limits_are_restored_after_an_error():
    before = limits()
    np.testing.assert_raises(ValueError, _broken)
    assert limits() == before


def _broken():
    with one_blas_thread:
        raise ValueError


@pytest.fixture
def many_threads(monkeypatch):
    """Short tasks in six threads that take turns all the time: what they share would be seen."""
    for name, value in (("TILE", 20_000), ("BLOCK", 50_000), ("BIAS_CHUNK", 200)):
        monkeypatch.setattr(tiles, name, value)
    monkeypatch.setattr(grid, "THREADED", 0)
    monkeypatch.setattr(grid, "CHUNK", 200)
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield lambda n: [monkeypatch.setattr(each, "n_threads", lambda: n) for each in (threads, tiles)]
    sys.setswitchinterval(before)


@pytest.mark.parametrize("notion", ["top-label", "classwise", "canonical"])
@pytest.mark.parametrize("estimator", ["debiased", "plugin"])
def test_threads_share_nothing_that_they_write(many_threads, notion, estimator):
    data = ra.datasets.temperature(600, 3, t2=0.6, seed=0)
    options = {"notion": notion, "estimator": estimator}

    def numbers():
        result = ra.calibration_error(data.y_true, data.y_prob, **options)
        test = ra.calibration_test(data.y_true, data.y_prob, notion=notion, n_draws=19)
        return [result.value, result.risk, test.p_value]

    many_threads(1)
    expected = numbers()
    many_threads(6)
    for _ in range(3):
        np.testing.assert_allclose(numbers(), expected, rtol=1e-6)


THREADS = 1e-7
"""Relative difference between results on one core and on two: sums are grouped differently."""

PROGRAM = """
import os, sys
os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:int(sys.argv[1])])
import riskalign as ra
data = ra.datasets.temperature(2500, 4, t2=0.6, seed=0)
for notion in ("top-label", "classwise", "canonical"):
    result = ra.calibration_error(data.y_true, data.y_prob, notion=notion, confidence=0.95)
    print(result.value, *result.interval, result.risk)
print(ra.calibration_test(data.y_true, data.y_prob, n_draws=19).p_value)
"""


@pytest.mark.skipif(
    not hasattr(os, "sched_getaffinity") or len(os.sched_getaffinity(0)) < 2,
    reason="one core alone",
)
def test_one_core_and_two_agree():
    found = []
    for cores in (1, 2):
        environment = os.environ | {"OMP_NUM_THREADS": str(cores)}
        command = [sys.executable, "-c", PROGRAM, str(cores)]
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
        found.append([float(word) for word in done.stdout.split()])
    np.testing.assert_allclose(found[1], found[0], rtol=THREADS, atol=1e-12)
