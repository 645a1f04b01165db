"""One look for all pictures: a colour and a mark for each method, safe for the colour-blind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

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
