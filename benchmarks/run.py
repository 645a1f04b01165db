"""Speed and memory as ratios, each measured in one run.

    make bench            (python -m benchmarks.run [--only NAME ...] [--keep])

Prints a table, writes it as JSON to benchmarks/results.json, and with --keep as
benchmarks/RESULTS.md. With --only, the other lines of both stay as they are.
Every work runs in a process of its own; the memory is the most that the process held, data and
libraries included, and for the lines of `benchmarks.default` without the peer.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import gammaln, logsumexp, softmax
from threadpoolctl import threadpool_limits

import riskalign as ra
from benchmarks import clusters, default, training
from benchmarks.timing import REPEATS, best_of, in_turn, peak_mb, synthetic
from riskalign.bandwidth.search import paper_candidates

HERE = Path(__file__).parent
JSON = HERE / "results.json"


def dense_paper(f: np.ndarray, y: np.ndarray, h: float) -> float:
    """The paper's algorithm written densely: one n x n log-kernel, log-sum-exp per class."""
    n_classes = f.shape[1]
    alpha = f / h + 1
    log_kernel = np.log(f) @ (alpha - 1).T + gammaln(alpha.sum(1)) - gammaln(alpha).sum(1)
    np.fill_diagonal(log_kernel, -np.inf)
    total = logsumexp(log_kernel, axis=1)
    R = np.stack(
        [np.exp(logsumexp(log_kernel[:, y == k], axis=1) - total) for k in range(n_classes)], axis=1
    )
    one_hot = np.eye(n_classes)[y]
    if n_classes == 2:  # the one-term Brier loss of binary problems
        return float(np.sum(((1 - 2 * f[:, 1]) * (R - one_hot)[:, 1]) ** 2))
    return float(np.sum((-2 * np.sum(f * (R - one_hot), axis=1)) ** 2))


def classwise_paper_candidates() -> dict[str, Any]:
    """Class-wise l2, n = 5,000, K = 10, the paper's 70 candidates."""
    y, f = synthetic(5_000, 10)
    candidates = paper_candidates(2)
    ours, search = best_of(
        lambda: ra.select_bandwidth(y, f, notion="classwise", candidates="paper")
    )
    p, label = np.stack([1 - f[:, 0], f[:, 0]], 1), (y == 0).astype(int)
    tried = candidates[:: len(candidates) // 3][:3]
    each = np.mean([best_of(lambda h=h: dense_paper(p, label, h), 1)[0] for h in tried])
    full = each * len(candidates) * 10
    agree = [
        abs(dense_paper(p, label, h) / search.objective[0][list(candidates).index(h)] - 1)
        for h in tried
    ]
    return {
        "seconds": ours,
        "against": "dense paper algorithm",
        "reference_seconds": full,
        "ratio": full / ours,
        "unit": "times faster",
        "target": 1000,
        "reached": bool(full / ours >= 1000),
        "note": f"reference: 3 of {len(candidates) * 10} evaluations timed, scaled up; "
        f"objectives agree to {max(agree):.0e}",
    }


def classwise_against_bins() -> dict[str, Any]:
    """Class-wise l2, n = 20,000, K = 16, default search."""
    import calibration

    y, f = synthetic(20_000, 16)

    def estimate() -> Any:
        return ra.calibration_error(y, f, notion="classwise", estimator="plugin")

    def bins() -> Any:
        return calibration.get_calibration_error(f, y, p=2, debias=True, mode="marginal")

    ours, theirs = in_turn(estimate, bins)
    return {
        "seconds": ours,
        "against": "uncertainty-calibration, debiased marginal",
        "reference_seconds": theirs,
        "ratio": ours / theirs,
        "unit": "times its time",
        "target": 1,
        "reached": bool(ours <= theirs),
        "note": "same data",
    }


def top_label_against_bins() -> dict[str, Any]:
    """Top-label l2, n = 50,000, K = 16, default search."""
    import torch
    from torchmetrics.functional.classification import multiclass_calibration_error

    y, f = synthetic(50_000, 16)
    f_torch, y_torch = torch.from_numpy(f), torch.from_numpy(y)
    ours, _ = best_of(lambda: ra.calibration_error(y, f, notion="top-label", estimator="plugin"))
    theirs, _ = best_of(
        lambda: multiclass_calibration_error(f_torch, y_torch, num_classes=16, n_bins=15, norm="l2")
    )
    return {
        "seconds": ours,
        "against": "torchmetrics, 15 bins",
        "reference_seconds": theirs,
        "ratio": ours / theirs,
        "unit": "times its time",
        "target": None,
        "reached": None,
        "note": "for information: a search of 20 bandwidths against one pass of binning",
    }


def canonical_paper_candidates() -> dict[str, Any]:
    """Canonical l2, n = 3,000, K = 10, the paper's candidates."""
    y, f = synthetic(3_000, 10)
    candidates = paper_candidates(10)
    times, full, objective = [], 0.0, []
    for part in np.array_split(candidates, 2 * REPEATS):  # in turn: a busy time touches both
        once, search = best_of(
            lambda: ra.select_bandwidth(y, f, notion="canonical", candidates="paper"), 1
        )
        times.append(once)
        dense, terms = best_of(lambda part=part: [dense_paper(f, y, h) for h in part], 1)
        full += dense
        objective += terms
    ours = float(np.median(times))
    same = candidates[int(np.argmin(objective))] == search.value
    return {
        "seconds": ours,
        "against": "dense paper algorithm",
        "reference_seconds": full,
        "ratio": full / ours,
        "unit": "times faster",
        "target": 50,
        "reached": bool(full / ours >= 50 and same),
        "note": f"{len(candidates)} candidates; {'same' if same else 'NOT the same'} argmin",
    }


def canonical_against_hardware() -> dict[str, Any]:
    """Canonical l2, n = 10,000, K = 10, default search."""
    n = 10_000
    y, f = synthetic(n, 10)
    queries = np.log(f).astype(np.float32)
    keys = np.ascontiguousarray(f.T.astype(np.float32))
    threads = len(os.sched_getaffinity(0))
    buffers = threading.local()

    def tile(start: int) -> None:
        if not hasattr(buffers, "scores"):
            buffers.scores = np.empty((50, n), np.float32)
        np.matmul(queries[start : start + 50], keys, out=buffers.scores)
        np.exp(buffers.scores, out=buffers.scores)

    def product_and_exp() -> None:
        with threadpool_limits(1, "blas"), ThreadPoolExecutor(threads) as pool:
            list(pool.map(tile, range(0, n, 50)))

    def estimate() -> Any:
        return ra.calibration_error(y, f, notion="canonical", estimator="plugin")

    # The shorter work finds a quiet moment sooner: enough turns for both.
    reference, ours = in_turn(product_and_exp, estimate, 30)
    return {
        "seconds": ours,
        "against": "the n^2 product and exp alone, float32, same threads",
        "reference_seconds": reference,
        "ratio": ours / reference,
        "unit": "times its time",
        "target": 4,
        "reached": bool(ours <= 4 * reference),
        "note": "reference in tiles that stay in cache",
    }


def classwise_growth() -> dict[str, Any]:
    """Class-wise l2, K = 10, n from 100,000 to 1,000,000."""
    y, f = synthetic(1_000_000, 10)
    small_y, small_f = y[:100_000], f[:100_000]
    small, _ = best_of(lambda: ra.calibration_error(small_y, small_f, estimator="plugin"))
    before = peak_mb()
    large, _ = best_of(lambda: ra.calibration_error(y, f, estimator="plugin"), 2)
    memory = (peak_mb() - before) * 2**20 / f.nbytes
    return {
        "seconds": large,
        "against": "itself at n = 100,000",
        "reference_seconds": small,
        "ratio": large / small,
        "unit": "times its time",
        "target": 12,
        "reached": bool(large <= 12 * small and memory <= 4),
        "note": f"memory beyond the input: {memory:.1f} times the input (to reach: 4)",
    }


def classwise_imagenet() -> dict[str, Any]:
    """Class-wise l2, K = 1,000, n = 50,000."""
    y, f = synthetic(50_000, 1_000)
    seconds, _ = best_of(lambda: ra.calibration_error(y, f, estimator="plugin"), 1)
    peak = peak_mb() / 1024
    return {
        "seconds": seconds,
        "against": "two minutes",
        "reference_seconds": 120.0,
        "ratio": seconds / 120,
        "unit": "of the time",
        "target": 1,
        "reached": bool(seconds < 120 and peak < 4),
        "note": f"peak memory {peak:.1f} GB, input included (to stay under: 4)",
    }


def _added(alone: float, both: float, against: str, note: str) -> dict[str, Any]:
    """What a work adds to the time of another, which may at most double."""
    return {
        "seconds": both - alone,
        "against": against,
        "reference_seconds": alone,
        "ratio": both / alone - 1,
        "unit": "times its time",
        "target": 1,
        "reached": bool(both <= 2 * alone),
        "note": note,
    }


def _added_by_interval(n: int, notion: str) -> dict[str, Any]:
    y, f = synthetic(n, 10)

    def estimate(confidence: float | None = None) -> Any:
        return ra.calibration_error(
            y, f, notion=notion, estimator="debiased", confidence=confidence
        )

    alone, both = in_turn(estimate, lambda: estimate(0.95))
    return _added(alone, both, "the estimate alone", "what the interval adds")


def classwise_interval() -> dict[str, Any]:
    """Debiased class-wise l2 with an interval, n = 10,000, K = 10."""
    return _added_by_interval(10_000, "classwise")


def canonical_interval() -> dict[str, Any]:
    """Debiased canonical l2 with an interval, n = 2,000, K = 10."""
    return _added_by_interval(2_000, "canonical")


def comparison() -> dict[str, Any]:
    """Two models compared, class-wise l2, n = 10,000, K = 10."""
    y, f = synthetic(10_000, 10)
    softer = softmax(0.8 * np.log(f), axis=1)

    def estimates() -> Any:
        return [ra.calibration_error(y, each, estimator="debiased") for each in (f, softer)]

    alone, both = in_turn(estimates, lambda: ra.compare(y, f, softer, names=("A", "B")))
    return _added(alone, both, "the two estimates alone", "what the comparison adds")


def calibration_test() -> dict[str, Any]:
    """Test of calibration, 999 draws, class-wise l2, n = 10,000, K = 10."""
    y, f = synthetic(10_000, 10)
    seconds, _ = best_of(lambda: ra.calibration_test(y, f, n_draws=999, seed=0), 1)
    return {
        "seconds": seconds,
        "against": "a minute",
        "reference_seconds": 60.0,
        "ratio": seconds / 60,
        "unit": "of the time",
        "target": 1,
        "reached": bool(seconds < 60),
        "note": "",
    }


WORKS: dict[str, Callable[[], dict[str, Any]]] = {
    work.__name__: work
    for work in (
        classwise_paper_candidates,
        classwise_against_bins,
        top_label_against_bins,
        canonical_paper_candidates,
        canonical_against_hardware,
        classwise_growth,
        classwise_imagenet,
        classwise_interval,
        canonical_interval,
        comparison,
        calibration_test,
        *default.WORKS,
        *training.WORKS,
        *clusters.WORKS,
    )
}


def run_alone(name: str) -> dict[str, Any]:
    """One work in a process of its own, with the memory it needed."""
    command = [sys.executable, "-m", "benchmarks.run", "--inside", name]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=HERE.parent)
    if done.returncode:
        return {"work": WORKS[name].__doc__, "failed": done.stderr.strip().splitlines()[-1]}
    row: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return row


def machine() -> str:
    """What the numbers were measured on."""
    model = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [line for line in info.read_text().splitlines() if line.startswith("model name")]
        model = names[0].split(":")[1].strip() if names else model
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{model}, {cores} cores, Python {platform.python_version()}, numpy {np.__version__}"


def table(rows: list[dict[str, Any]]) -> list[str]:
    """The rows as markdown."""
    lines = [
        "| work | against | seconds | ratio | to reach | | peak MB | |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in rows:
        if "failed" in row:
            lines.append(f"| {row['work']} | | | | | not measured | | {row['failed']} |")
            continue
        word = {True: "reached", False: "**not reached**", None: ""}[row["reached"]]
        sign = "" if row["target"] is None else (">=" if "faster" in row["unit"] else "<=")
        target = "" if row["target"] is None else f"{sign} {row['target']}"
        lines.append(
            f"| {row['work']} | {row['against']} ({row['reference_seconds']:.3g} s) | "
            f"{row['seconds']:.3g} | {row['ratio']:.3g} {row['unit']} | {target} | {word} | "
            f"{row['peak_mb']:.0f} | {row['note']} |"
        )
    return lines


def _measured() -> dict[str, dict[str, Any]]:
    """What earlier runs on this machine measured, by work."""
    if not JSON.exists():
        return {}
    known = json.loads(JSON.read_text())
    return {row["work"]: row for row in known["rows"]} if known["machine"] == machine() else {}


def main() -> None:
    """Run the works and show the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", choices=list(WORKS), default=list(WORKS))
    parser.add_argument("--keep", action="store_true", help="write RESULTS.md")
    parser.add_argument("--inside", choices=list(WORKS), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inside:
        row = WORKS[options.inside]()
        print(json.dumps({"work": WORKS[options.inside].__doc__, "peak_mb": peak_mb(), **row}))
        return
    measured = _measured()
    for name in options.only:
        row = measured[str(WORKS[name].__doc__)] = run_alone(name)
        print(table([row])[-1], flush=True)
    rows = [measured[work] for each in WORKS.values() if (work := str(each.__doc__)) in measured]
    JSON.write_text(json.dumps({"machine": machine(), "rows": rows}, indent=1))
    if options.keep:
        keep(rows, [str(WORKS[name].__doc__) for name in options.only])


def keep(rows: list[dict[str, Any]], new: list[str]) -> None:
    """Write RESULTS.md, or replace in it the lines of the works that are new."""
    path = HERE / "RESULTS.md"
    if len(new) == len(WORKS) or not path.exists():
        head = [
            "# Benchmarks",
            "",
            f"`make bench` on: {machine()}. Every line is measured on its own; some may be from a",
            "later run of that line alone (`--only`).",
            "",
        ]
        path.write_text("\n".join(head + table(rows)) + "\n")
        return
    lines = [*path.read_text().splitlines(), ""]  # the first empty line after a table ends it
    for row in rows:
        if row["work"] in new:
            lines = [line for line in lines if not line.startswith(f"| {row['work']} |")]
            end = lines.index("", next(i for i, line in enumerate(lines) if line[:5] == "| ---"))
            lines.insert(end, table([row])[-1])
    path.write_text("\n".join(lines).rstrip() + "\n")


if __name__ == "__main__":
    main()
