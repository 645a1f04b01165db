"""Golden values: what the public functions answer on small data sets, kept in golden.json.

    python -m tests.make_golden                  renew all values
    python -m tests.make_golden default report   renew some groups
    python -m tests.make_golden default/peaked   renew one data set of a group

The key of an entry is "group/data set/notion/loss/...", and its value holds the numbers of one
answer with all their digits: after a renewal `git diff` shows what has changed, even in the last
bit. A change that moves one group on purpose renews that group alone. Values come from public
functions only, and the notion is always given, so that default rules may change.
"""

import contextlib
import csv
import io
import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import riskalign as ra
from riskalign.cli import main as command_line

FILE = Path(__file__).with_name("golden.json")

LOSSES = ("l2", "kl", "ranked")
TWO_LOSSES = ("l2", "kl")
STARTS = ("identity", "temperature", "logistic")
CRITERIA = ("risk-alignment", "likelihood", "cross-validation")
BANDWIDTHS = {"narrow": 0.004, "wide": 0.15}
GIVEN = 0.05
LEVEL = 0.95

CLOSE = {"rtol": 1e-9, "atol": 1e-12}

TOLERANCES = {
    "float32": {"rtol": 1e-4, "atol": 1e-7},
    "calibrator": {"rtol": 1e-6, "atol": 1e-9},
}
"""Of groups that cannot be `CLOSE`: exponentials in float32 differ between processors, and the
penalties of calibrators are iterated until they move little."""


# Data sets.

Losses = tuple[str, ...]


@dataclass(frozen=True)
class Data:
    """Labels, predictions (n,) or (n, K), weights, and the losses to ask for."""

    y: np.ndarray
    p: np.ndarray
    weights: np.ndarray | None = None
    losses: Losses = LOSSES

    @property
    def unit(self) -> float:
        """The power of two in which weights are summed: the largest up to the heaviest."""
        return 1.0 if self.weights is None else 2.0 ** np.floor(np.log2(self.weights.max()))

    @property
    def notions(self) -> tuple[str, ...]:
        binary = self.p.ndim == 1 or self.p.shape[1] == 2
        return (("binary",) if binary else ()) + ("top-label", "classwise", "canonical")


def family(name: str, n: int, n_classes: int, seed: int, losses: Losses = LOSSES) -> Data:
    data = ra.datasets.FAMILIES[name](n, n_classes, seed)
    return Data(data.y_true, data.y_prob, losses=losses)


def zeros_and_ones() -> Data:
    """Every fourth prediction is certain, sometimes wrongly; some have a single zero."""
    data = family("label noise", 80, 3, 3)
    p = data.p.copy()
    p[::4] = np.eye(3)[data.y[::4]]
    p[::20] = np.eye(3)[(data.y[::20] + 1) % 3]
    p[1::20] = [0.5, 0.5, 0.0]
    return Data(data.y, p)


def tenths() -> Data:
    """Heavy ties: ten different predictions, in tenths."""
    random = np.random.default_rng(4)
    some = [[7, 2, 1], [1, 6, 3], [5, 5, 0], [0, 0, 10], [9, 1, 0]]
    more = [[0, 2, 8], [6, 0, 4], [5, 1, 4], [2, 5, 3], [8, 1, 1]]
    p = np.array([*some, *more])[random.integers(10, size=90)] / 10
    truth = 0.8 * p + 0.2 / 3
    y = (np.cumsum(truth, axis=1)[:, :2] < random.random((90, 1))).sum(axis=1)
    return Data(y, p, losses=TWO_LOSSES)


def empty_class() -> Data:
    """The last of four classes never comes true."""
    data = family("imbalanced", 70, 4, 5)
    return Data(np.where(data.y == 3, 0, data.y), data.p, losses=TWO_LOSSES)


def weighted(n_classes: int) -> Data:
    """Weights between 0.2 and 3, a few of them 0."""
    data = family("class bias", 75, n_classes, 6)
    weights = np.random.default_rng(6).uniform(0.2, 3, 75)
    weights[::15] = 0.0
    return Data(data.y, data.p, weights, LOSSES if n_classes > 2 else TWO_LOSSES)


def one_probability() -> Data:
    data = family("wavy", 90, 2, 2)
    return Data(data.y, data.p[:, 1])


def single_precision() -> Data:
    data = family("peaked", 60, 3, 7)
    return Data(data.y, data.p.astype(np.float32), losses=TWO_LOSSES)


MAKERS: dict[str, Callable[[], Data]] = {
    "eight rows": lambda: family("temperature", 8, 3, 0),
    "calibrated": lambda: family("calibrated", 100, 3, 1, TWO_LOSSES),
    "one probability": one_probability,
    "two columns": lambda: family("wavy", 90, 2, 2, TWO_LOSSES),
    "zeros and ones": zeros_and_ones,
    "tenths": tenths,
    "empty class": empty_class,
    "weights": lambda: weighted(3),
    "weights, two columns": lambda: weighted(2),
    "float32 rows": single_precision,
    "peaked": lambda: family("peaked", 100, 4, 8),
    "large": lambda: family("temperature", 1500, 3, 9),
}
"""Data sets by name; "large" has more rows than are summed exactly by default. The ranked loss is
asked for on half of them: of one probability it is nearly the squared error."""

SMALL = [name for name in MAKERS if name != "large"]
DIFFERENT = [name for name in SMALL if "columns" not in name]

DATA = cache(lambda name: MAKERS[name]())

BITS = 30
"""Significant bits of predictions in groups that draw label sets. The seed of a draw is made of all
bits of the data, and the last bits of an exponential differ between processors: without rounding,
every kind of machine would draw other label sets."""


def rounded(data: Data) -> Data:
    """The data with `BITS` significant bits of each prediction."""
    fraction, exponent = np.frexp(data.p)
    whole = np.round(np.ldexp(fraction, BITS))
    return replace(data, p=np.ldexp(whole, exponent - BITS).astype(data.p.dtype))


# Answers as JSON: numbers, lists, texts and None.


def plain(x: Any) -> Any:
    if isinstance(x, dict):
        return {key: plain(value) for key, value in x.items()}
    if isinstance(x, (list, tuple, np.ndarray)):
        return [plain(value) for value in x]
    return x.item() if isinstance(x, np.generic) else x


def probe(R: np.ndarray) -> list[float]:
    """Sums over rows of cos(row) R: they show a change of any row."""
    R = R.reshape(len(R), -1)
    return plain(np.cos(np.arange(len(R))) @ R)


def error_numbers(result: ra.CalibrationResult) -> dict[str, Any]:
    """The numbers of a result."""
    names = ("value", "risk", "refinement", "reconstructed_risk", "per_class")
    found = {name: getattr(result, name) for name in names}
    gaps = result.overconfidence
    found["overconfidence"] = [*gaps.per_class, gaps.top_label]
    if result.conditional is not None:
        found["conditional"] = probe(result.conditional)
    if result.search is not None:
        found |= {"bandwidth": result.bandwidth, "flattening": result.search.flattenings}
    if result.interval is not None:
        found |= {"standard_error": result.standard_error, "interval": result.interval}
    return plain({name: value for name, value in found.items() if value is not None})


def error_of(data: Data, notion: str, loss: str, **options: Any) -> ra.CalibrationResult:
    return ra.calibration_error(
        data.y, data.p, notion=notion, loss=loss, sample_weight=data.weights, **options
    )


# Groups: each yields (the rest of a key, an answer) for one data set.

Entries = Iterator[tuple[str, Any]]


def questions(data: Data, losses: Losses | None = None) -> Iterator[tuple[str, str]]:
    return ((notion, loss) for notion in data.notions for loss in losses or data.losses)


def data_group(data: Data) -> Entries:
    """The data themselves: where they change, everything else does."""
    yield "labels", probe(data.y)
    yield "predictions", probe(data.p.astype(np.float64))


def given(data: Data) -> Entries:
    """Smoothed labels at given bandwidths."""
    for notion, loss in questions(data):
        for width, h in BANDWIDTHS.items():
            options = {"bandwidth": h, "engine": "exact"}
            result = error_of(data, notion, loss, estimator="plugin", **options)
            yield f"{notion}/{loss}/{width}/plugin", error_numbers(result)
            for estimator in ("variational", "cross"):
                value = error_of(data, notion, loss, estimator=estimator, **options).value
                yield f"{notion}/{loss}/{width}/{estimator}", {"value": value}


def nodes(data: Data) -> Entries:
    """Smoothed labels and residuals by the engine that interpolates between nodes."""
    for notion, loss in questions(data):
        if notion == "canonical":
            continue
        for width, h in BANDWIDTHS.items():
            options = {"bandwidth": h, "engine": "grid"}
            for estimator in ("plugin", "debiased"):
                result = error_of(data, notion, loss, estimator=estimator, **options)
                yield f"{notion}/{loss}/{width}/{estimator}", error_numbers(result)


def simplex(data: Data) -> Entries:
    """Canonical errors of many rows, by exact sums."""
    yield from _canonical(data, "exact")


def float32(data: Data) -> Entries:
    """Canonical errors of many rows, by exponentials in float32."""
    yield from _canonical(data, "auto")


def _canonical(data: Data, engine: str) -> Entries:
    for loss in LOSSES:
        for width, h in BANDWIDTHS.items():
            for estimator in ("plugin", "debiased"):
                options = {"estimator": estimator, "bandwidth": h, "engine": engine}
                result = error_of(data, "canonical", loss, **options)
                yield f"canonical/{loss}/{width}/{estimator}", error_numbers(result)


def gaussian(data: Data) -> Entries:
    """The Gaussian kernel."""
    for notion, loss in questions(data):
        for estimator in ("plugin", "debiased"):
            options = {"estimator": estimator, "kernel": "rbf", "bandwidth": 0.2}
            yield (
                f"{notion}/{loss}/{estimator}",
                error_numbers(error_of(data, notion, loss, **options)),
            )


def search(data: Data) -> Entries:
    """Plug-in errors at the bandwidth that risk alignment finds."""
    for notion, loss in questions(data):
        result = error_of(data, notion, loss, estimator="plugin")
        yield f"{notion}/{loss}", error_numbers(result)


def criteria(data: Data) -> Entries:
    """Bandwidths by each criterion, continuous and from the paper's candidates."""
    for notion, loss in questions(data, ("l2",)):
        for criterion in CRITERIA:
            for name, candidates in (("continuous", None), ("paper", "paper")):
                found = ra.select_bandwidth(
                    data.y,
                    data.p,
                    notion=notion,
                    loss=loss,
                    criterion=criterion,
                    candidates=candidates,
                    sample_weight=data.weights,
                )
                least = [curve.objective.min() * data.unit for curve in found.curves]
                answer = {"value": found.value, "least": least, "at_edge": found.at_edge}
                yield f"{notion}/{loss}/{criterion}/{name}", plain(answer)


def debiased(data: Data) -> Entries:
    """Debiased errors at a given bandwidth, by each start."""
    for notion, loss in questions(data):
        for start in STARTS:
            options = {"start": start, "bandwidth": GIVEN, "engine": "exact"}
            result = error_of(data, notion, loss, estimator="debiased", **options)
            yield f"{notion}/{loss}/{start}", error_numbers(result)


def interval(data: Data) -> Entries:
    """Intervals at a given bandwidth: what the choice of bandwidths does not move."""
    for notion, loss in questions(data, TWO_LOSSES):
        for start in ("identity", "logistic"):
            options = {"start": start, "bandwidth": GIVEN, "confidence": LEVEL}
            result = error_of(data, notion, loss, estimator="debiased", **options)
            answer = {"standard_error": result.standard_error, "interval": result.interval}
            yield f"{notion}/{loss}/{start}", plain(answer)


def default(data: Data) -> Entries:
    """The default estimator with its interval: candidates are weighted by their risk."""
    for notion, loss in questions(data):
        result = error_of(data, notion, loss, confidence=LEVEL)
        yield f"{notion}/{loss}", error_numbers(result)


def significance(data: Data) -> Entries:
    """The test of calibration."""
    for notion, _ in questions(data, ("l2",)):
        test = ra.calibration_test(
            data.y, data.p, notion=notion, n_draws=99, seed=1, sample_weight=data.weights
        )
        yield notion, {"p_value": test.p_value, **test.parts}


def comparison(data: Data) -> Entries:
    """The data's model against one that is less sure of itself."""
    p = data.p.astype(np.float64)
    other = 0.8 * p + (0.1 if p.ndim == 1 else 0.2 / p.shape[1])
    for notion, loss in questions(data, TWO_LOSSES):
        found = ra.compare(data.y, p, other, notion=notion, loss=loss, sample_weight=data.weights)
        names = ("difference", "standard_error", "interval", "p_value", "values")
        yield f"{notion}/{loss}", plain({name: getattr(found, name) for name in names})


def curve(data: Data) -> Entries:
    """Reliability curves of smoothed labels and of residuals."""
    asked = {
        "labels/given": {"estimator": "plugin", "bandwidth": GIVEN},
        "labels/found": {"estimator": "plugin"},
        "debiased/found": {"estimator": "debiased"},
        "debiased/by risk": {"estimator": "debiased", "bandwidth": "cross-validation"},
    }
    asked |= {
        f"debiased/{start}": {"estimator": "debiased", "bandwidth": GIVEN, "start": start}
        for start in STARTS
    }
    whole = data.p if data.p.ndim == 2 else np.stack([1 - data.p, data.p], axis=1)
    sums = ("density", "effective_samples", "nearby_samples", "local_samples")
    for notion in data.notions:
        grid = whole[:5].astype(np.float64) if notion == "canonical" else np.linspace(0, 1, 6)
        for name, options in asked.items():
            found = ra.reliability_curve(
                data.y,
                data.p,
                notion=notion,
                loss="kl",
                grid=grid,
                sample_weight=data.weights,
                **options,
            )
            answer = {each: probe(getattr(found, each)) for each in sums}
            R, *ends = (np.nan_to_num(v, nan=-1.0) for v in (found.conditional, *found.band()))
            answer |= {"conditional": R, "band": list(map(probe, ends))}
            if "bandwidth" not in options or options["bandwidth"] != GIVEN:
                answer |= {"bandwidth": found.bandwidth, "flattening": found.flattening}
            yield f"{notion}/kl/{name}", plain(answer)


def calibrator(data: Data) -> Entries:
    """Probabilities that a calibrator answers with."""
    for notion in ("classwise", "canonical"):
        for start in ("matrix", "temperature"):
            for name, h in (("given", GIVEN), ("found", None)):
                found = ra.KernelCalibrator(notion=notion, start=start, bandwidth=h)
                found.fit(data.p, data.y, sample_weight=data.weights)
                calibrated = found.predict_proba(data.p)
                answer = {
                    "probabilities": calibrated[:3],
                    "all": probe(calibrated),
                    "bandwidth": None if np.isnan(found.bandwidth_) else found.bandwidth_,
                    "share": found.share_,
                    "shrinkage": found.shrinkage_,
                }
                yield f"{notion}/l2/{start}/{name}", plain(answer)


def batches(data: Data) -> Entries:
    """Errors of the same rows in three batches."""
    n = len(data.y)
    cuts = [slice(0, n // 2), slice(n // 2, n // 2 + n // 4), slice(n // 2 + n // 4, n)]
    asked = {
        "plugin": {"estimator": "plugin", "bandwidth": GIVEN},
        "debiased": {"estimator": "debiased", "bandwidth": GIVEN},
        "default": {"confidence": LEVEL},
    }
    for notion, loss in questions(data, TWO_LOSSES):
        if notion == "canonical":
            continue
        for name, options in asked.items():
            rows = [(data.y[cut], data.p[cut]) for cut in cuts]
            result = ra.calibration_error_of_batches(rows, notion=notion, loss=loss, **options)
            yield f"{notion}/{loss}/{name}", error_numbers(result)


def report(data: Data) -> Entries:
    """`riskalign report --json` of a CSV file."""
    columns = ["p"] if data.p.ndim == 1 else [f"p_{k}" for k in range(data.p.shape[1])]
    with tempfile.TemporaryDirectory() as directory:
        table, answer = Path(directory, "rows.csv"), Path(directory, "answer.json")
        with table.open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["label", *columns])
            for y, p in zip(data.y.tolist(), data.p.tolist(), strict=True):
                writer.writerow([y, *np.atleast_1d(p).tolist()])
        for notion, loss in questions(data, ("kl",)):
            command = ["report", table, "--notion", notion, "--loss", loss, "--draws", 49]
            command.append("--no-advice")
            with contextlib.redirect_stdout(io.StringIO()):
                code = command_line([str(word) for word in (*command, "--json", answer)])
            assert code == 0, code
            content = json.loads(answer.read_text())
            for words in ("source", "definition", "method", "note", "riskalign", "made", "command"):
                del content[words]
            del content["verdict"]["sentences"]
            yield f"{notion}/{loss}", content


GROUPS: dict[str, tuple[Callable[[Data], Entries], list[str]]] = {
    "data": (data_group, list(MAKERS)),
    "given": (given, SMALL),
    "nodes": (nodes, ["tenths", "peaked", "large"]),
    "simplex": (simplex, ["large"]),
    "float32": (float32, ["large"]),
    "gaussian": (gaussian, ["two columns", "zeros and ones", "weights"]),
    "search": (search, SMALL),
    "criteria": (criteria, ["one probability", "weights", "peaked"]),
    "debiased": (debiased, SMALL),
    "interval": (interval, DIFFERENT),
    "default": (default, SMALL),
    "test": (significance, DIFFERENT),
    "compare": (comparison, ["two columns", "weights"]),
    "curve": (curve, ["one probability", "zeros and ones", "tenths", "weights"]),
    "calibrator": (calibrator, ["one probability", "zeros and ones", "weights", "peaked"]),
    "batches": (batches, ["one probability", "tenths", "peaked"]),
    "report": (report, ["one probability", "calibrated"]),
}
"""Groups by name, and the data sets that each is computed for."""

DRAWN = ("interval", "default", "test", "compare", "batches", "report")
"""Groups with label sets that are drawn: their predictions are `rounded`."""

PAIRS = [(group, name) for group, (_, names) in GROUPS.items() for name in names]


def entries(group: str, name: str) -> dict[str, Any]:
    """The entries of a group for one data set, by their whole keys."""
    answers, _ = GROUPS[group]
    data = rounded(DATA(name)) if group in DRAWN else DATA(name)
    return {f"{group}/{name}/{rest}": answer for rest, answer in answers(data)}


def load() -> dict[str, Any]:
    return json.loads(FILE.read_text())


def main(chosen: list[str]) -> None:
    """Renew the entries of groups ("default") and of their data sets ("default/peaked")."""
    known = {*GROUPS, *(f"{group}/{name}" for group, name in PAIRS)}
    if unknown := [name for name in chosen if name not in known]:
        sys.exit(f"no such group or data set: {', '.join(unknown)}; groups: {', '.join(GROUPS)}")
    kept = load() if FILE.exists() else {}
    renewed: dict[str, Any] = {}
    for group, name in PAIRS:
        prefix = f"{group}/{name}/"
        if not chosen or group in chosen or f"{group}/{name}" in chosen:
            renewed |= entries(group, name)
        else:
            renewed |= {key: value for key, value in kept.items() if key.startswith(prefix)}
    lines = [
        f"{json.dumps(key)}: {json.dumps(value, allow_nan=False)}" for key, value in renewed.items()
    ]
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    changed = sum(kept.get(key) != value for key, value in renewed.items())
    print(f"{len(renewed)} entries, {changed} of them new or changed")


if __name__ == "__main__":
    main(sys.argv[1:])
