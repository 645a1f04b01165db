"""One look for all pictures: a colour and a mark for each method, safe for the colour-blind."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

LOOK: dict[str, tuple[str, str, str]] = {
    "kde-risk-alignment": ("risk alignment", "#0072B2", "o"),
    "kde-likelihood": ("likelihood", "#D55E00", "s"),
    "debiased": ("debiased", "#009E73", "D"),
    "krr": ("kernel ridge", "#CC79A7", "^"),
    "equal-width-10": ("simplex bins, 10", "#999999", "x"),
    "equal-width-15": ("equal-width bins, 15", "#999999", "x"),
    "equal-mass-15": ("equal-mass bins, 15", "#E69F00", "v"),
}
"""Name in pictures, colour (Okabe and Ito's) and mark."""

LABELS = {
    ("classwise", "l2"): "class-wise, squared error",
    ("classwise", "kl"): "class-wise, KL",
    ("canonical", "l2"): "canonical, squared error",
    ("canonical", "kl"): "canonical, KL",
    ("top-label", "l2"): "top label, squared error",
    ("top-label", "kl"): "top label, KL",
}


def figure(rows: int, columns: int, width: float = 3.1, height: float = 2.6) -> tuple[Any, Any]:
    """A figure with a grid of Axes ``(rows, columns)``."""
    size = (width * columns, height * rows)
    return plt.subplots(rows, columns, figsize=size, squeeze=False, layout="constrained")


def save(drawn: Any, path: Path) -> None:
    """Write a picture and forget it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    drawn.savefig(path, dpi=110, metadata={"Software": None})
    plt.close(drawn)


def error_scale(ax: Any, values: Iterable[float]) -> None:
    """Logarithmic, with plain numbers; what is not above 0 lies below the axis."""
    positive = [value for value in values if value > 0]
    low, high = min(positive, default=0.1), max(positive, default=1.0)
    ax.set_yscale("log", nonpositive="clip")
    ax.set_ylim(low / 1.6, high * 1.6)
    ax.yaxis.set_major_locator(LogLocator(subs=(1.0,) if high > 300 * low else (1.0, 2.0, 5.0)))
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    ax.yaxis.set_minor_formatter(NullFormatter())
    ax.tick_params(axis="y", labelsize="small")


def legend_below(drawn: Any, axes: Any) -> None:
    """One legend for all Axes, under them."""
    found: dict[str, Any] = {}
    for ax in axes.flat:
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            found.setdefault(label, handle)
    drawn.legend(
        found.values(), found.keys(), loc="outside lower center", ncols=min(len(found), 6),
        frameon=False, fontsize="small",
    )  # fmt: skip
