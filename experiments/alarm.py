"""How often the alarm of `CalibrationHistory` is false, and how soon it is right.

Run: python -m experiments.alarm [--report]

The alarm promises that a false one is *ever* raised with probability alpha at most. The hardest
null is that every window has exactly the reference's error. For each scenario, estimates of
windows of n rows and of references of 5 n rows are drawn and stored (results/alarm_raw.csv;
resumable). Histories of 200 windows are then drawn from these pools, with replacement. The pool is
divided into ten parts, each with histories of its own; the standard error of a rate comes from the
ten. For comparison, the same histories are tested window by window, each at level alpha against
the reference, as a user without a sequential test would. Delays are numbers of windows until the
alarm after the error of the over-confident model grows at window 21. results/alarm.md is made from
both.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.special import expit, ndtri, softmax

import riskalign as ra
from experiments.cells import RESULTS, Row, group, load, markdown, run
from riskalign.inference.alarm import raise_alarm
from riskalign.inference.interval import Chance
from riskalign.sketches.history import estimate

PATH = RESULTS / "alarm_raw.csv"
KEYS = ("scenario", "samples", "part")
ALPHA = 0.05
HORIZON, HISTORIES, PARTS = 200, 100, 10
REFERENCE = 5
CHANGE = 20
SCENARIOS = {"calibrated": 1.0, "over-confident": 1.4, "larger": 1.58, "much larger": 1.85}
"""Factors of the logit: how far each scenario's predictions are too extreme. The last two have
about 1.8 and 3.2 times the squared error of the second."""
STEADY = ("calibrated", "over-confident")
"""Scenarios of histories whose error stays as it is."""
SETTINGS = {"": ("binary", "l2"), "log loss": ("binary", "kl"), "class-wise": ("classwise", "l2")}
"""Notion and loss by what a scenario's name ends in; class-wise errors are of three classes."""
POOLS = {("", 1_000): 600, ("", 200): 200, ("log loss", 1_000): 150, ("class-wise", 500): 150}
"""Windows in a pool, by setting and rows per window."""
NAMES = ("noise", "rate", "removed", "bias")
"""What of `Chance` is stored, beside its doubts."""


def rows(notion: str, factor: float, n: int, generator: np.random.Generator) -> tuple[Any, Any]:
    """Labels and predictions."""
    if notion == "classwise":
        logits = generator.normal(0, 1.2, (n, 3))
        drawn = generator.random((n, 1)) > softmax(logits, axis=1).cumsum(axis=1)[:, :-1]
        return drawn.sum(axis=1), softmax(factor * logits, axis=1)
    logit = generator.normal(-0.5, 1.2, n)
    labels = (generator.random(n) < expit(logit)).astype(np.int8)
    return labels, expit(factor * logit)


def name_of(scenario: str, setting: str) -> str:
    """The name of a scenario in a setting."""
    return f"{scenario}, {setting}" if setting else scenario


def parts_of(name: object) -> tuple[str, str]:
    """The scenario and the setting of a name."""
    scenario, _, setting = str(name).partition(", ")
    return scenario, setting


def estimates(cell: Row) -> list[Row]:
    """A part of the pool: windows and references of one scenario."""
    (scenario, setting), n = parts_of(cell["scenario"]), int(cell["samples"])
    factor, (notion, loss) = SCENARIOS[scenario], SETTINGS[setting]
    seed = [list(SCENARIOS).index(scenario), n, int(cell["part"])]
    if setting:
        seed.append(list(SETTINGS).index(setting))
    generator = np.random.default_rng(seed)
    found = []
    pool = POOLS[setting, n]
    kinds = [("window", n)] * (pool // PARTS)
    if scenario in STEADY:
        kinds += [("reference", REFERENCE * n)] * (pool // PARTS // 2)
    for kind, size in kinds:
        sketch = ra.CalibrationSketch(notion, 2 if notion == "binary" else 3)
        sketch.update(*rows(notion, factor, size, generator))
        result, chance = estimate(sketch, None, loss, 0.95)
        below, above = chance.doubts
        numbers = {name: getattr(chance, name) for name in NAMES} | {"below": below, "above": above}
        found.append(cell | {"kind": kind, "value": result.value} | numbers)
    return found


def chances(pool: Sequence[Row], kind: str) -> list[tuple[float, Chance]]:
    """The estimates of a pool."""
    return [
        (
            float(row["value"]),
            Chance(
                *(float(row[name]) for name in NAMES),
                doubts=(float(row["below"]), float(row["above"])),
            ),
        )
        for row in pool
        if row["kind"] == kind
    ]


def false_alarms(pool: Sequence[Row], generator: np.random.Generator) -> tuple[float, float]:
    """Shares of histories with a false alarm: of the sequential test, and of one per window."""
    windows, references = chances(pool, "window"), chances(pool, "reference")
    ever = naive = 0
    z = float(ndtri(1 - ALPHA))
    for _ in range(HISTORIES):
        reference = references[generator.integers(len(references))]
        chosen = [windows[i] for i in generator.integers(len(windows), size=HORIZON)]
        named = [(str(t), *each) for t, each in enumerate(chosen)]
        ever += raise_alarm(reference, named, alpha=ALPHA).raised
        value, chance = reference
        naive += any(
            own - value
            > z * (by.standard_error(value) ** 2 + chance.standard_error(value) ** 2) ** 0.5
            for own, by in chosen
        )
    return ever / HISTORIES, naive / HISTORIES


def delays(
    before: Sequence[Row], after: Sequence[Row], generator: np.random.Generator
) -> list[float]:
    """Windows from the change to the alarm, the horizon where there is none."""
    windows, references = chances(before, "window"), chances(before, "reference")
    changed = chances(after, "window")
    found = []
    for _ in range(50):
        reference = references[generator.integers(len(references))]
        chosen = [windows[i] for i in generator.integers(len(windows), size=CHANGE)]
        chosen += [changed[i] for i in generator.integers(len(changed), size=HORIZON - CHANGE)]
        named = [(str(t), *each) for t, each in enumerate(chosen)]
        alarm = raise_alarm(reference, named, alpha=ALPHA)
        if alarm.at is None or int(alarm.at) >= CHANGE:
            found.append(HORIZON - CHANGE if alarm.at is None else int(alarm.at) - CHANGE + 1)
    return found


def report() -> None:
    """Write results/alarm.md, of the scenarios whose pools are complete."""
    pools = group(load(PATH), "scenario", "samples")
    generator = np.random.default_rng(0)
    lines: list[list[str]] = []
    slow: list[list[str]] = []
    for (name, n), pool in pools.items():
        scenario, setting = parts_of(name)
        own = list(group(pool, "part").values())
        steady = pools.get((name_of("over-confident", setting), n), [])
        before = list(group(steady, "part").values())
        if len(own) < PARTS or len(before) < PARTS:
            continue
        error = f"{np.mean([value for value, _ in chances(pool, 'window')]):.5f}"
        line = [str(name), f"{n:,.0f}", error]
        if scenario in STEADY:
            rates = np.array([false_alarms(part, generator) for part in own])
            mean, spread = rates.mean(axis=0), rates.std(axis=0, ddof=1) / PARTS**0.5
            found = [f"{m:.3f} ± {e:.3f}" for m, e in zip(mean, spread, strict=True)]
            lines.append(line + found)
        else:
            waits = np.concatenate(
                [delays(b, a, generator) for b, a in zip(before, own, strict=True)]
            )
            ends = f"{np.quantile(waits, 0.1):.0f} to {np.quantile(waits, 0.9):.0f}"
            slow.append([*line, f"{np.median(waits):.0f} ({ends})"])
    head = [
        "# The alarm of a history",
        "",
        f"`python -m experiments.alarm`. Histories of {HORIZON} windows, alpha = {ALPHA:g}; the "
        f"reference has {REFERENCE}",
        f"times the rows of a window and the same error. Shares of {HISTORIES * PARTS:,} histories "
        "with a false alarm,",
        "± one standard error over ten parts of the pool. Binary and squared errors, where nothing "
        "else is said;",
        "class-wise ones are of three classes:",
        "",
    ]
    middle = [
        "",
        f"Delays after a change at window {CHANGE + 1}: median, and 10% to 90% of histories.",
        "",
    ]
    columns = ["scenario", "rows per window", "error"]
    tables = (
        markdown([*columns, "false alarms", "one test per window"], lines),
        markdown([*columns, "windows until the alarm"], slow),
    )
    text = [*head, tables[0], *middle, tables[1]]
    (RESULTS / "alarm.md").write_text("\n".join(text) + "\n")


def main() -> None:
    """Draw the pools and write the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--report", action="store_true", help="from what is stored, alone")
    options = parser.parse_args()
    if not options.report:
        cells: list[Row] = [
            {"scenario": name_of(scenario, setting), "samples": n, "part": k}
            for first in (True, False)  # false alarms before delays
            for setting, n in POOLS
            for k in range(PARTS)
            for scenario in SCENARIOS
            if (scenario in STEADY) == first
        ]
        run(PATH, KEYS, cells, estimates)
    report()


if __name__ == "__main__":
    main()
