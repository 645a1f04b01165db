"""Claims that the figures and the real-world table show, judged by their numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from experiments.cells import Row, group
from experiments.claims import Claim, Errors, verdict
from experiments.estimators import LIKELIHOOD, RISK_ALIGNMENT


def theory_claim(rows: Sequence[Row]) -> Claim:
    """Slopes of the three biases against Var(R), where smoothing bias is small."""
    own = sorted((r for r in rows if r["loss"] == "l2"), key=lambda r: -float(r["variance"]))
    own = own[: len(own) // 2]
    if len(own) < 2:
        return Claim("Section 5.2: variance cancels in the risk", "not run", "")
    variance = np.array([float(row["variance"]) for row in own])
    slopes = {
        part: float(np.polyfit(variance, [float(row[part]) for row in own], 1)[0])
        for part in ("calibration", "refinement", "risk")
    }
    cancels = abs(slopes["risk"]) < 0.25 and slopes["calibration"] > 0.75
    return Claim(
        "Section 5.2: Var(R) biases calibration up and refinement down, and cancels in the risk",
        "held" if cancels and slopes["refinement"] < -0.75 else "did not hold",
        "slopes of the biases against Var(R), squared error: "
        + ", ".join(f"{part} {slope:+.2f}" for part, slope in slopes.items()),
    )


def bandwidth_claim(rows: Sequence[Row]) -> Claim:
    """Likelihood's bandwidth falls away from risk alignment's as n grows."""
    means = {
        criterion: {
            float(n): float(np.exp(np.mean([np.log(float(r["bandwidth"])) for r in own])))
            for (n,), own in group([r for r in rows if r["criterion"] == criterion], "n").items()
        }
        for criterion in ("likelihood", "risk-alignment")
    }
    if not all(means.values()):
        return Claim("Likelihood's bandwidth collapses as n grows", "not run", "")
    slopes = {
        name: float(np.polyfit(np.log(list(m)), np.log(list(m.values())), 1)[0])
        for name, m in means.items()
    }
    ratios = [means["risk-alignment"][n] / means["likelihood"][n] for n in means["likelihood"]]
    held = slopes["likelihood"] < slopes["risk-alignment"] and ratios[-1] > ratios[0] > 1
    return Claim(
        "Likelihood's bandwidth collapses as n grows, risk alignment's does not",
        "held" if held else "did not hold",
        f"h ~ n^{slopes['likelihood']:.2f} under likelihood, n^{slopes['risk-alignment']:.2f} "
        f"under risk alignment, which is {ratios[0]:.0f} times wider at the smallest n and "
        f"{ratios[-1]:.0f} times at the largest",
    )


def kernel_claim(rows: Sequence[Row]) -> Claim:
    """RBF against Dirichlet with many classes."""
    cells = group(rows, "divergence", "n_classes")
    better = {
        cell: {str(r["kernel"]): float(r["mae_x100"]) for r in own} for cell, own in cells.items()
    }
    many = {cell: e for cell, e in better.items() if float(cell[1]) >= 16 and len(e) == 2}
    held = [cell for cell, e in many.items() if e["rbf"] < e["dirichlet"]]
    listed = ", ".join(f"{d} K = {float(k):.0f}" for d, k in held) or "none"
    return Claim(
        "With many classes the Dirichlet kernel may be less effective than the RBF kernel",
        verdict(len(held), len(many)),
        f"RBF has the smaller error in {len(held)} of {len(many)} cells with K >= 16 ({listed})",
        "Both pull R to the centre; neither comes near the truth there.",
    )


def real_claims(rows: Sequence[Row]) -> list[Claim]:
    """The claims of the real-world table, class-wise squared error."""
    own = [r for r in rows if (r["notion"], r["divergence"]) == ("classwise", "l2")]
    files = [
        {str(r["method"]): float(r["mae_x100"]) for r in each if r["mae_x100"] != ""}
        for each in group(own, "dataset", "model").values()
    ]
    files = [e for e in files if RISK_ALIGNMENT in e and LIKELIHOOD in e]
    width, mass = "equal-width-15", "equal-mass-15"
    judged: list[tuple[str, Callable[[Errors], bool], str]] = [
        (
            "Real data, class-wise: risk alignment beats likelihood",
            lambda e: e[RISK_ALIGNMENT] < e[LIKELIHOOD],
            "The proxy truth is risk alignment's own answer on the population.",
        ),
        (
            "Real data, class-wise: equal-mass bins are worse than equal-width bins",
            lambda e: e[mass] > e[width],
            "Models and data differ from the paper's.",
        ),
    ]
    return [
        Claim(
            text,
            verdict(sum(map(judge, files)), len(files)),
            f"{sum(map(judge, files))} of {len(files)} prediction files",
            why,
        )
        for text, judge, why in judged
    ]
