"""One model, many calibration errors: what each definition and each package says of it.

    python examples/definitions.py            prints the table of docs/definitions.md
    python examples/definitions.py --write    puts it there

Cross-validated predictions of a decision tree on scikit-learn's digits. Packages to compare
with are needed: `make test-peers` installs them into .venv.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import calibration as uncertainty_calibration
import numpy as np
import relplot
import torch
from calibration.utils import lower_bound_scaling_ce
from sklearn.datasets import load_digits
from sklearn.model_selection import cross_val_predict
from sklearn.tree import DecisionTreeClassifier
from torchmetrics.functional.classification import multiclass_calibration_error

import riskalign as ra

PAGE = Path(__file__).parent.parent / "docs" / "definitions.md"
START, END = "<!-- table: python examples/definitions.py --write -->", "<!-- end of table -->"

Row = tuple[str, str, float, str]


def tree() -> tuple[np.ndarray, np.ndarray]:
    """Labels and predictions: shares of leaves, with many ties, zeros and ones."""
    X, y = load_digits(return_X_y=True)
    model = DecisionTreeClassifier(min_samples_leaf=10, random_state=0)
    return y, cross_val_predict(model, X, y, cv=5, method="predict_proba")


def rows() -> Iterator[Row]:
    """(error, definition, value, what others say)."""
    y, f = tree()

    def ours(notion: str, method: object) -> ra.CalibrationResult:
        return ra.calibration_error(y, f, notion=notion, method=method)  # type: ignore[arg-type]

    def torchmetrics(n_bins: int, norm: str) -> str:
        value = multiclass_calibration_error(
            torch.tensor(f), torch.tensor(y), 10, n_bins=n_bins, norm=norm
        )
        return f"torchmetrics {float(value):.4f}"

    def row(notion: str, method: object, others: str = "") -> Row:
        result = ours(notion, method)
        return f"`{method!r}`", f"{notion}: {result.definition}", result.value, others

    for n_bins in (15, 10):
        ece = uncertainty_calibration.get_ece(f, y, num_bins=n_bins)
        others = f"{torchmetrics(n_bins, 'l1')}, uncertainty-calibration {ece:.4f}"
        yield row("top-label", ra.EqualWidthBins(n_bins, norm="l1"), others)
    yield row("top-label", ra.EqualWidthBins(15, norm="l2"), torchmetrics(15, "l2"))
    yield row("top-label", ra.EqualWidthBins(15, norm="max"), torchmetrics(15, "max"))
    by_mass = uncertainty_calibration.get_ece_em(f, y, num_bins=15)
    yield row(
        "top-label", ra.EqualMassBins(15, norm="l1"), f"uncertainty-calibration {by_mass:.4f}"
    )
    right = (f.argmax(axis=1) == y).astype(int)
    smooth = f"relplot {relplot.smECE(f.max(axis=1), right):.4f}"
    yield row("top-label", ra.SmoothECE(), smooth)
    yield row("top-label", ra.KernelSmoother(norm="l1", estimator="plugin"))
    yield row("top-label", ra.KernelSmoother(norm="l1"))
    yield row("top-label", ra.Kuiper())
    yield row("top-label", ra.Spiegelhalter())
    yield row("top-label", ra.EqualWidthBins(15))
    yield row("top-label", ra.EqualWidthBins(15, debias=True))
    yield row("top-label", ra.Isotonic())
    yield row("top-label", ra.KernelSmoother(estimator="plugin"))
    yield row("classwise", ra.EqualMassBins(15))
    marginal = lower_bound_scaling_ce(f, y, p=2, debias=True, num_bins=15)
    result = ours("classwise", ra.EqualMassBins(15, debias=True))
    assert result.per_class is not None
    mean_root = np.sqrt(np.maximum(result.per_class, 0).mean())
    yield row(
        "classwise",
        ra.EqualMassBins(15, debias=True),
        f"uncertainty-calibration {marginal:.4f}; root of the mean over classes, "
        f"here {mean_root:.4f}",
    )
    yield row("classwise", ra.KernelSmoother(estimator="plugin"))
    yield row("classwise", ra.KernelSmoother(norm="l1"))
    yield row("canonical", ra.SimplexBins(10))
    yield row("canonical", ra.KernelRidge())
    yield row("canonical", ra.KernelRidge("kronecker"))
    yield row("canonical", ra.KernelSmoother(estimator="plugin"))
    yield row("canonical", ra.KernelSmoother(norm="l1"))
    yield row("canonical", ra.KernelSmoother(norm="euclidean"))
    yield row("canonical", ra.AlwaysZero())


def table() -> str:
    """The rows as markdown."""
    lines = [
        "| method | error | value | elsewhere |",
        "| --- | --- | --- | --- |",
    ]
    for method, error, value, others in rows():
        error = error.replace("|", "\\|")
        lines.append(f"| {method} | {error} | {value:.4f} | {others} |")
    return "\n".join(lines)


def main() -> None:
    """Print the table, or put it into the page."""
    text = table()
    print(text)
    if "--write" in sys.argv:
        before, _, rest = PAGE.read_text().partition(START)
        PAGE.write_text(f"{before}{START}\n\n{text}\n\n{END}{rest.partition(END)[2]}")


if __name__ == "__main__":
    main()
