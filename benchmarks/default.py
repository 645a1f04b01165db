"""The default estimator with a 95% interval, and what stands on it, against peers.

    python -m benchmarks.run --only default_16_classes default_sketch_update

Each line alternates with its peer on the same data. The memory is that of the process after the
first run of this library's work, before the peer is loaded; the input is included. CPU seconds,
of this library and of the peer, are those of all threads: they feel other work on the machine less.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import riskalign as ra
from benchmarks.timing import Work, peak_mb, synthetic, timed
from riskalign.data.validation import as_sample
from riskalign.options import make_case
from riskalign.pipeline import error_of
from riskalign.report import summarize
from riskalign.report.page import to_html

PLUGIN = "plug-in of the first version"
BINNED = "uncertainty-calibration, debiased marginal"


def against(
    name: str,
    ours: Work,
    load_peer: Callable[[], Work],
    *,
    target: float,
    turns: int,
    most_mb: float = np.inf,
    note: str = "",
) -> dict[str, Any]:
    """One line: a work against its peer, which is loaded after the first run of the work."""
    before = peak_mb()
    times = [timed(ours)]
    peak = peak_mb()
    theirs = load_peer()
    peers = [timed(theirs)]
    for _ in range(turns - 1):
        times.append(timed(ours))
        peers.append(timed(theirs))
    first, reference = (min(wall for wall, _ in each) for each in (times, peers))
    cpu = " and ".join(f"{min(cpu for _, cpu in each):.2g}" for each in (times, peers))
    notes = [note] if note else []
    notes.append(f"CPU seconds {cpu}")
    notes.append(f"{peak - before:.0f} MB beyond the input")
    if np.isfinite(most_mb):
        notes.append(f"to stay under {most_mb:.0f} MB in all")
    return {
        "seconds": first,
        "against": name,
        "reference_seconds": reference,
        "ratio": first / reference,
        "unit": "times its time",
        "target": target,
        "reached": bool(first <= target * reference and peak < most_mb),
        "peak_mb": peak,
        "note": "; ".join(notes),
    }


def default(y: np.ndarray, f: np.ndarray, notion: str = "classwise") -> Work:
    """The default estimator with its interval."""
    return lambda: ra.calibration_error(y, f, notion=notion, confidence=0.95, progress=False)


def plugin(y: np.ndarray, f: np.ndarray, notion: str = "classwise") -> Work:
    """The plug-in as the first version computed it: a search, and all rows as they are."""
    method = ra.KernelSmoother(estimator="plugin")

    def work() -> Any:
        case = make_case(as_sample(y, f), notion, "l2")
        return error_of(case, method, progress=False).value

    return work


def binned(y: np.ndarray, f: np.ndarray) -> Callable[[], Work]:
    """The debiased marginal error of uncertainty-calibration."""

    def load() -> Work:
        import calibration

        return lambda: calibration.get_calibration_error(f, y, p=2, debias=True, mode="marginal")

    return load


def histogram(p: np.ndarray) -> None:
    """One histogram of 15 bins."""
    np.histogram(p, bins=15, range=(0, 1))


def default_16_classes() -> dict[str, Any]:
    """Default with interval, class-wise l2, n = 20,000, K = 16."""
    y, f = synthetic(20_000, 16)
    return against(BINNED, default(y, f), binned(y, f), target=2, turns=5, note="the goal is 1")


def default_100_classes() -> dict[str, Any]:
    """Default with interval, class-wise l2, n = 10,000, K = 100."""
    y, f = synthetic(10_000, 100)
    return against(BINNED, default(y, f), binned(y, f), target=3, turns=3, note="the goal is 1")


def default_1000_classes() -> dict[str, Any]:
    """Default with interval, class-wise l2, n = 5,000, K = 1,000."""
    y, f = synthetic(5_000, 1_000)
    return against(
        BINNED, default(y, f), binned(y, f), target=3, turns=1, most_mb=2048, note="the goal is 1"
    )


def default_imagenet() -> dict[str, Any]:
    """Default with interval, class-wise l2, n = 50,000, K = 1,000."""
    y, f = synthetic(50_000, 1_000)
    return against(PLUGIN, default(y, f), lambda: plugin(y, f), target=1, turns=1, most_mb=4096)


def default_small() -> dict[str, Any]:
    """Default with interval, class-wise l2, n = 1,000, K = 10."""
    y, f = synthetic(1_000, 10)
    return against(PLUGIN, default(y, f), lambda: plugin(y, f), target=0.5, turns=7)


def default_top_label() -> dict[str, Any]:
    """Default with interval, top-label l2, n = 1,000,000, K = 10."""
    y, f = synthetic(1_000_000, 10)

    def load() -> Work:
        import torch
        from torchmetrics.functional.classification import multiclass_calibration_error

        p, labels = torch.from_numpy(f), torch.from_numpy(y)
        return lambda: multiclass_calibration_error(p, labels, num_classes=10, n_bins=15, norm="l2")

    return against("torchmetrics, 15 bins", default(y, f, "top-label"), load, target=6, turns=5)


def default_million() -> dict[str, Any]:
    """Default with interval, class-wise l2, n = 1,000,000, K = 10."""
    y, f = synthetic(1_000_000, 10)
    before, size = peak_mb(), f.nbytes / 2**20
    row = against(
        "one np.histogram per class",
        default(y, f),
        lambda: lambda: [histogram(f[:, k]) for k in range(10)],
        target=15,
        turns=3,
    )
    memory = (row["peak_mb"] - before) / size
    row["reached"] = bool(row["reached"] and memory <= 4)
    row["note"] += f", {memory:.1f} times as much (to reach: 4)"
    return row


def default_test() -> dict[str, Any]:
    """Test of calibration, 999 draws, against the plug-in, class-wise l2, n = 10,000, K = 10."""
    y, f = synthetic(10_000, 10)
    return against(
        PLUGIN,
        lambda: ra.calibration_test(y, f, n_draws=999, seed=0, progress=False),
        lambda: plugin(y, f),
        target=25,
        turns=3,
    )


def default_sketch_update() -> dict[str, Any]:
    """`update` of a sketch, binary, n = 10,000,000."""
    p = np.random.default_rng(0).beta(0.5, 0.5, 10_000_000)
    y = (np.random.default_rng(1).random(len(p)) < p).astype(np.int8)
    return against(
        "one np.histogram",
        lambda: ra.CalibrationSketch().update(y, p),
        lambda: lambda: histogram(p),
        target=4,
        turns=3,
        note=f"{(p.nbytes + y.nbytes) / 2**20:.0f} MB of input",
    )


def default_canonical() -> dict[str, Any]:
    """Default with interval, canonical l2, n = 10,000, K = 10."""
    y, f = synthetic(10_000, 10)
    return against(
        "its plug-in, search included",
        default(y, f, "canonical"),
        lambda: plugin(y, f, "canonical"),
        target=4,
        turns=3,
    )


def default_report() -> dict[str, Any]:
    """Report of 10,000 x 100, HTML, test of 199 draws included."""
    y, f = synthetic(10_000, 100)
    return against(
        "its own calibration_error, with interval",
        lambda: to_html(summarize(y, f, n_draws=199, pictures=True)),
        lambda: default(y, f),
        target=3,
        turns=2,
    )


WORKS = (
    default_16_classes,
    default_100_classes,
    default_1000_classes,
    default_imagenet,
    default_small,
    default_top_label,
    default_million,
    default_test,
    default_sketch_update,
    default_canonical,
    default_report,
)
"""The lines, in the order of the table."""
