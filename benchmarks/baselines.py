"""Time and memory of the baselines on large data.

    python -m benchmarks.baselines [--keep]

Prints a table, and with --keep writes it to benchmarks/BASELINES.md. Every work runs in a
process of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

import riskalign as ra
from benchmarks.run import machine
from benchmarks.timing import synthetic

HERE = Path(__file__).parent

WORKS = {
    "equal-width": (1_000_000, 100, "classwise", "l2", ra.EqualWidthBins(15)),
    "equal-width-kl": (1_000_000, 100, "classwise", "kl", ra.EqualWidthBins(15)),
    "equal-mass": (1_000_000, 100, "classwise", "l2", ra.EqualMassBins(15)),
    "debiased": (1_000_000, 100, "classwise", "l2", ra.EqualMassBins(15, debias=True)),
    "simplex": (1_000_000, 100, "canonical", "l2", ra.SimplexBins(10)),
    "ece": (1_000_000, 100, "top-label", "l2", ra.EqualWidthBins(15, norm="l1")),
    "smooth-ece": (1_000_000, 100, "top-label", "l2", ra.SmoothECE()),
    "ridge-4": (5_000, 4, "canonical", "l2", ra.KernelRidge()),
    "ridge-10": (5_000, 10, "canonical", "l2", ra.KernelRidge()),
    "ridge-100": (5_000, 100, "canonical", "l2", ra.KernelRidge()),
    "ridge-kronecker-4": (5_000, 4, "canonical", "l2", ra.KernelRidge("kronecker")),
    "ridge-kronecker-10": (5_000, 10, "canonical", "l2", ra.KernelRidge("kronecker")),
    "ridge-kronecker-100": (5_000, 100, "canonical", "l2", ra.KernelRidge("kronecker")),
    "ridge-binary": (1_000_000, 2, "binary", "l2", ra.KernelRidge()),
}


def measure(name: str) -> dict[str, float]:
    """Seconds and bytes of one work, in this process."""
    n, n_classes, notion, loss, method = WORKS[name]
    y, f = synthetic(n, n_classes)
    before = resource.getrusage(resource.RUSAGE_SELF)
    start = time.perf_counter()
    ra.calibration_error(y, f, notion=notion, loss=loss, method=method)
    seconds = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_SELF)
    return {
        "seconds": seconds,
        "cpu": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
        "peak_gb": after.ru_maxrss / 2**20,
        "input_gb": f.nbytes / 2**30,
    }


def row(name: str) -> str:
    """One work, measured alone, as a line of the table."""
    n, n_classes, notion, loss, method = WORKS[name]
    command = [sys.executable, "-m", "benchmarks.baselines", "--inside", name]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=HERE.parent)
    m = json.loads(done.stdout.splitlines()[-1])
    return (
        f"| `{method!r}` | {notion}, {loss} | {n:,} | {n_classes} | {m['seconds']:.1f} | "
        f"{m['cpu']:.1f} | {m['peak_gb']:.2f} | {m['input_gb']:.2f} |"
    )


def main() -> None:
    """Run the works and show the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", choices=list(WORKS), default=list(WORKS))
    parser.add_argument("--keep", action="store_true", help="write BASELINES.md")
    parser.add_argument("--inside", choices=list(WORKS), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inside:
        print(json.dumps(measure(options.inside)))
        return
    lines = [
        "| method | error | n | K | seconds | CPU seconds | peak GB | of it input |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    print("\n".join(lines), flush=True)
    for name in options.only:
        lines.append(row(name))
        print(lines[-1], flush=True)
    if options.keep:
        load = max(os.getloadavg()[1:])
        head = [
            "# Baselines on large data",
            "",
            f"`python -m benchmarks.baselines --keep` on: {machine()}.",
            f"Load average {load:.1f}: above the number of cores, other work slowed the seconds",
            "down; CPU seconds are this work's own.",
            "",
        ]
        (HERE / "BASELINES.md").write_text("\n".join(head + lines) + "\n")


if __name__ == "__main__":
    np.seterr(all="raise", under="ignore")
    main()
