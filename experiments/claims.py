"""Published claims, judged by the tables alone: held, or not, by how much, and why."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from experiments.cells import Row, geometric_mean
from experiments.estimators import DEBIASED, LIKELIHOOD, RIDGE, RISK_ALIGNMENT, ZERO

CELL = ("t1", "t2", "notion", "divergence", "n_classes")
OWN = (DEBIASED, ZERO)
"""Methods that the paper does not have."""


@dataclass(frozen=True)
class Claim:
    """What was claimed, whether it held here, what was counted, and a reason."""

    text: str
    verdict: str
    evidence: str
    why: str = ""


Errors = dict[str, float]
"""Mean absolute errors by method, in one cell."""


def by_cell(rows: Sequence[Row], truth: str = "joint") -> dict[tuple[object, ...], Errors]:
    """Errors of every cell; rows without a truth (the published) count as the paper's."""
    cells: dict[tuple[object, ...], Errors] = {}
    for row in rows:
        if row.get("truth", "joint") == truth and row["mae_x100"] != "":
            cell = tuple(row[key] for key in CELL)
            cells.setdefault(cell, {})[str(row["method"])] = float(row["mae_x100"])
    return cells


def verdict(held: int, cells: int) -> str:
    """In words: held everywhere, mostly, partly, or not."""
    if cells == 0:
        return "not run"
    if held == cells:
        return "held"
    share = held / cells
    return "mostly held" if share >= 0.8 else "partly held" if share > 0.5 else "did not hold"


def wins(
    cells: dict[tuple[object, ...], Errors],
    judge: Callable[[Errors], bool],
    needed: Sequence[str],
    **fixed: object,
) -> tuple[int, int, list[tuple[object, ...]]]:
    """Cells where a judgement is true, cells that have what it needs, and those where it fails."""
    chosen = {
        cell: errors
        for cell, errors in cells.items()
        if all(name in errors for name in needed)
        and all(cell[CELL.index(key)] == value for key, value in fixed.items())
    }
    failed = [cell for cell, errors in chosen.items() if not judge(errors)]
    return len(chosen) - len(failed), len(chosen), failed


def lowest(method: str) -> Callable[[Errors], bool]:
    """Whether a method has the least error among those of the paper."""
    return lambda e: e[method] <= min(value for name, value in e.items() if name not in OWN)


def _named(cells: Sequence[tuple[object, ...]], most: int = 4) -> str:
    words = [f"t = ({t1}, {t2}) {notion} {d} K = {float(k):.0f}" for t1, t2, notion, d, k in cells]
    more = f" and {len(words) - most} more" if len(words) > most else ""
    return "; ".join(words[:most]) + more


def counted(
    text: str,
    here: dict[tuple[object, ...], Errors],
    there: dict[tuple[object, ...], Errors],
    judge: Callable[[Errors], bool],
    needed: Sequence[str],
    why: str = "",
    **fixed: object,
) -> Claim:
    """A claim about every cell: here, and in the published table itself."""
    held, cells, failed = wins(here, judge, needed, **fixed)
    published, all_published, _ = wins(there, judge, needed, **fixed)
    evidence = f"{held} of {cells} cells here; {published} of {all_published} as published"
    if failed:
        evidence += f"; not in {_named(failed)}"
    return Claim(text, verdict(held, cells), evidence, why if failed or cells == 0 else "")


def ratio(cells: dict[tuple[object, ...], Errors], top: str, bottom: str, **fixed: object) -> float:
    """Geometric mean of one method's error over another's."""
    chosen = [
        errors[top] / errors[bottom]
        for cell, errors in cells.items()
        if top in errors
        and bottom in errors
        and min(errors[top], errors[bottom]) > 0
        and all(cell[CELL.index(key)] == value for key, value in fixed.items())
    ]
    return geometric_mean(chosen) if chosen else float("nan")


def synthetic_claims(rows: Sequence[Row], published: Sequence[Row]) -> list[Claim]:
    """The claims of the synthetic tables."""
    here, there = by_cell(rows), by_cell(published)
    classwise, canonical = {"notion": "classwise"}, {"notion": "canonical"}
    both = (RISK_ALIGNMENT, LIKELIHOOD)
    claims = [
        counted(
            "Class-wise, risk alignment has the lowest error in every scenario",
            here, there, lowest(RISK_ALIGNMENT), both,
            "Some binned errors come out small where the bias of bins happens to cancel.",
            **classwise,
        ),
        _factor(here, there),
        counted(
            "Risk alignment beats likelihood, class-wise and canonical",
            here, there, lambda e: e[RISK_ALIGNMENT] < e[LIKELIHOOD], both,
            "Where miscalibration is strong, the bias of wide smoothing grows, while the variance "
            "that narrow smoothing adds stays.",
        ),
        counted(
            "Canonical KL: risk alignment has the lowest error",
            here, there, lowest(RISK_ALIGNMENT), both, divergence="kl", **canonical,
        ),
        counted(
            "Canonical squared error: kernel ridge is better from K = 16 on",
            {cell: e for cell, e in here.items() if float(str(cell[4])) >= 16},
            {cell: e for cell, e in there.items() if float(str(cell[4])) >= 16},
            lambda e: e[RIDGE] < e[RISK_ALIGNMENT], (RIDGE, RISK_ALIGNMENT), **canonical,
        ),
        counted(
            "Canonical: bins are worse than either kernel method",
            here, there,
            lambda e: min(e["equal-width-10"], e["equal-width-15"])
            > max(e[RISK_ALIGNMENT], e[LIKELIHOOD]),
            (*both, "equal-width-10"),
            "Likelihood's bandwidth is small enough there to be no better than bins.",
            **canonical,
        ),
    ]  # fmt: skip
    return claims


def _rivals(errors: Errors) -> list[float]:
    """Errors of the paper's other methods, ascending."""
    return sorted(v for name, v in errors.items() if name not in (*OWN, RISK_ALIGNMENT))


def _factor(
    here: dict[tuple[object, ...], Errors], there: dict[tuple[object, ...], Errors]
) -> Claim:
    """Class-wise, errors fall "often by an order of magnitude": counted against each rival."""
    needed = (RISK_ALIGNMENT, LIKELIHOOD)

    def tenfold(cells: dict[tuple[object, ...], Errors], rival: int) -> tuple[int, int]:
        return wins(
            cells, lambda e: _rivals(e)[rival] >= 10 * e[RISK_ALIGNMENT], needed, notion="classwise"
        )[:2]

    (best, cells), (worst, _) = tenfold(here, 0), tenfold(here, -1)
    (best_there, cells_there), (worst_there, _) = tenfold(there, 0), tenfold(there, -1)
    found, published = (
        ratio(each, LIKELIHOOD, RISK_ALIGNMENT, notion="classwise") for each in (here, there)
    )
    return Claim(
        "Class-wise, risk alignment often reduces the error by an order of magnitude",
        verdict(best, cells),
        f"tenfold below the next best method in {best} of {cells} cells here and {best_there} of "
        f"{cells_there} as published, below the worst in {worst} and {worst_there}; likelihood's "
        f"error over risk alignment's, geometric mean: {found:.1f} here, {published:.1f} as "
        "published",
        "Several times smaller is the rule, in the published table too.",
    )


def agreement(rows: Sequence[Row], published: Sequence[Row]) -> list[tuple[str, str, float, float]]:
    """Notion and method with the median of here over published, and the share within 30%."""
    here, there = by_cell(rows), by_cell(published)
    found: dict[tuple[str, str], list[float]] = {}
    for cell, errors in there.items():
        for method, value in errors.items():
            if method in here.get(cell, {}):
                found.setdefault((str(cell[2]), method), []).append(here[cell][method] / value)
    return [
        (notion, method, float(np.median(r)), float(np.mean(np.abs(np.array(r) - 1) <= 0.3)))
        for (notion, method), r in sorted(found.items())
    ]


def worse_than_nothing(rows: Sequence[Row]) -> Claim:
    """How often risk alignment misses by more than the answer 0 does."""
    cells = by_cell(rows)
    held, total, _ = wins(cells, lambda e: e[RISK_ALIGNMENT] < e[ZERO], (RISK_ALIGNMENT, ZERO),
                          notion="canonical")  # fmt: skip
    return Claim(
        "Risk alignment estimates canonical errors (implied; the paper has no null row)",
        verdict(held, total),
        f"closer to the truth than the answer 0 in {held} of {total} canonical cells",
        "Smoothing labels pulls R to the centre of the simplex, and the plug-in counts that pull "
        "as error; with many classes it is all that is seen.",
    )


def debiased_claim(rows: Sequence[Row]) -> Claim:
    """What the debiased estimate gains over risk alignment's plug-in, and which way it errs."""
    both = (DEBIASED, RISK_ALIGNMENT)
    counts = {}
    for notion, truth in (
        ("classwise", "joint"),
        ("classwise", "marginal"),
        ("canonical", "joint"),
    ):
        cells = by_cell(rows, truth)
        held, total, _ = wins(cells, lambda e: e[DEBIASED] < e[RISK_ALIGNMENT], both, notion=notion)
        counts[notion, truth] = held, total, ratio(cells, *both, notion=notion)
    held, total = (
        sum(counts[notion, "joint"][i] for notion in ("classwise", "canonical")) for i in (0, 1)
    )
    words = {"joint": "the paper's truth", "marginal": "the truth given f_k"}
    parts = [
        f"{notion}, against {words[truth]}: smaller error in {won} of {cells}, {mean:.2f} times "
        "risk alignment's (geometric mean)"
        for (notion, truth), (won, cells, mean) in counts.items()
        if cells
    ]
    biases = [
        float(r["bias_x100"])
        for r in rows
        if (r["method"], r["notion"]) == (DEBIASED, "classwise") and r.get("bias_x100", "") != ""
    ]
    if biases:
        low = sum(bias < 0 for bias in biases)
        parts.append(f"below the truth in {low} of {len(biases)} class-wise rows")
    return Claim(
        "Beyond the paper: the debiased estimate is closer than risk alignment's plug-in",
        verdict(held, total),
        "; ".join(parts) if total else "no debiased estimates in the table",
        "Canonical plug-ins are mostly variance, which it takes out. Class-wise the plug-in's two "
        "biases, variance up and smoothing down, partly cancel, here and there to nothing. Other "
        "families: results/debiased.md.",
    )


def best_published_claim(rows: Sequence[Row], published: Sequence[Row]) -> Claim:
    """Where the debiased estimate's error is below the smallest that the paper has."""
    there = {cell: min(errors.values()) for cell, errors in by_cell(published).items()}
    parts, counts = [], {}
    for truth, words in (("joint", "the paper's truth"), ("marginal", "the truth given f_k")):
        own = by_cell(rows, truth)
        for notion in ("classwise", "canonical"):
            judged = [
                errors[DEBIASED] < there[cell]
                for cell, errors in own.items()
                if DEBIASED in errors and cell in there and cell[CELL.index("notion")] == notion
            ]
            if judged:
                counts[notion, truth] = sum(judged), len(judged)
                parts.append(f"{notion}, {words}: {sum(judged)} of {len(judged)}")
    joint = [count for (_, truth), count in counts.items() if truth == "joint"]
    return Claim(
        "Beyond the paper: the debiased estimate is below the best published figure of its cell",
        verdict(sum(held for held, _ in joint), sum(cells for _, cells in joint)),
        "; ".join(parts) if parts else "no debiased estimates in the table",
        "Published figures are means over ten subsets; the best of several methods is lucky too.",
    )
