"""Whether labels could have been drawn from the predictions: an exact test.

Label sets are drawn from f, and every statistic is computed for them as for the observed labels.
The statistics come from several views of the residuals (`riskalign.inference.views`): smooth
statistics from coarse to fine and Kuiper's, of the top label, of all classes as one, and of each
class. Within each statistic the sets are ranked, which gives every set a p-value p_c. These are
combined so that one small p_c is enough,

    T = sum over statistics c of a_c cot(pi p_c / 2),

with a_c = 1, except for the frequencies of the classes, which count twice. Only one statistic looks
for them, while many look for wrong shapes, and each of these takes some power from it. The p-value
of the test is the rank of the observed set by T. All sets, the observed one among them, are treated
alike, so the size is exact for any number of samples and classes. The sum is that of half-Cauchy
variables; Liu and Xie combine p-values by Cauchy ones, where a p_c near 1 can hide a small one.

References
----------
Neyman: Smooth test for goodness of fit, Skandinavisk Aktuarietidskrift 20, 1937.
Liu, Xie: Cauchy combination test, Journal of the American Statistical Association 115, 2020.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from riskalign.data.case import Case
from riskalign.data.limits import announce_test
from riskalign.data.notions import BINARY, NOTIONS, TOP_LABEL, Notion
from riskalign.data.sample import Sample
from riskalign.display import help, numbers, svg
from riskalign.display.notebook import framed
from riskalign.display.table import Row, text_rows, wrapped
from riskalign.equations.arrays import BoolArray, FloatArray, IntArray
from riskalign.inference.null import draw_labels, one_per_row, ordering
from riskalign.inference.views import (
    FREQUENCY,
    GROUPS_PER_CLASS,
    MOST_CROSSED,
    ByClass,
    Crossed,
    OneProbability,
    Pooled,
    View,
)
from riskalign.progress import track
from riskalign.smoothing.threads import ordered_map

TOGETHER = 2_000_000
"""Labels that are drawn and groups that are counted at once, so that memory stays small."""

MOST = 200_000
"""Samples that are tested if rows stand for several: of more, a random part."""

NUMBERS = 20_000_000
"""Predictions of these samples: of many classes, fewer samples."""

ROUNDING = 1e-9
"""Below this part of a statistic differences are rounding: those of equal label sets are."""


DOUBT = 0.05
"""The p-value up to which a model is called miscalibrated."""

PARTS = 4
"""Single statistics that are shown in a notebook."""


@dataclass(frozen=True, repr=False)
class CalibrationTest:
    """The outcome of `calibration_test`.

    Attributes
    ----------
    p_value : the share of label sets drawn from the predictions, the observed one included,
        whose combined statistic is at least the observed
    parts : p-values of the single statistics; they show what kind of departure is visible, but
        are not adjusted for their number
    n_draws : number of label sets drawn
    notion : what must be calibrated
    n_samples : number of samples tested

    Examples
    --------
    >>> import riskalign as ra
    >>> data = ra.datasets.temperature(400, 3, t2=0.3, seed=0)
    >>> test = ra.calibration_test(data.y_true, data.y_prob, n_draws=99, seed=0)
    >>> test.p_value, test.n_samples, sorted(test.to_dict())[:2]
    (0.01, 400, ['n_draws', 'n_samples'])
    >>> test.strongest
    'top label: slope'
    """

    p_value: float
    parts: dict[str, float]
    n_draws: int
    notion: str
    n_samples: int

    @property
    def strongest(self) -> str:
        """The statistic with the smallest p-value of its own."""
        return min(self.parts, key=lambda name: self.parts[name])

    def to_dict(self) -> dict[str, Any]:
        """The numbers as JSON-ready types."""
        return asdict(self)

    @property
    def row(self) -> Row:
        """The p-value in words."""
        p = numbers.p_value(self.p_value, 1 / (1 + self.n_draws))
        note = f"by simulation, {self.n_draws} draws of {self.n_samples:,} rows"
        return Row("p-value", p, "", note, help.P_VALUE)

    def __repr__(self) -> str:
        """One line."""
        return f"<CalibrationTest: {self.notion}, p_value={self.p_value:.4g}, n={self.n_samples:,}>"

    def __str__(self) -> str:
        """A short table."""
        lines = [self._title, "", *wrapped(self._sentence, "  "), ""]
        return "\n".join([*lines, *text_rows([self.row])])

    def _repr_html_(self) -> str:
        """The table and a small diagram, for notebooks: the p-values of the single statistics."""
        shown = sorted(self.parts.values())[:PARTS]
        bars = svg.interval_bars(shown, [0.0] * len(shown), shown, at=DOUBT)
        return framed(self._title, self._sentence, [self.row, *self._part_rows], bars)

    @property
    def _part_rows(self) -> list[Row]:
        parts = sorted(self.parts.items(), key=lambda part: part[1])[:PARTS]
        return [Row(f"  {name}", numbers.p_value(p), "", "by itself") for name, p in parts]

    @property
    def _title(self) -> str:
        return f"Test of calibration ({NOTIONS[self.notion].title}): {self.n_samples:,} rows"

    @property
    def _sentence(self) -> str:
        if self.p_value <= DOUBT:
            return f"The model is miscalibrated; the strongest sign is {self.strongest}."
        return "We found no evidence of miscalibration."


def perform_test(
    case: Case, n_draws: int, seed: int, progress: bool | None, most: int | None = None
) -> CalibrationTest:
    """The test of a case: its statistics against those of drawn label sets.

    At most `most` samples (by default `MOST`) of the case are tested, a random part where there
    are more. A case of more than 20,000 distinct rows of several classes has a part of them only.
    """
    sample = one_per_sample(case.sample, seed, most)
    announce_test(len(sample.labels), n_draws)
    f = sample.probabilities
    sample = replace(sample, probabilities=f / f.sum(axis=1, keepdims=True))
    views = views_of(sample, case.notion)
    table = np.concatenate(
        list(track(_tables(sample, views, n_draws, seed), 1 + n_draws, "label sets", progress)),
        axis=1,
    )
    ranks = rank_p_values(table)
    names = [name for view in views for name in view.names]
    combined = half_cauchy(ranks, np.array([2.0 if name == FREQUENCY else 1.0 for name in names]))
    return CalibrationTest(
        p_value=float(rank_p_values(combined[None])[0, 0]),
        parts=dict(zip(names, ranks[:, 0].tolist(), strict=True)),
        n_draws=n_draws,
        notion=case.notion.name,
        n_samples=len(sample.labels),
    )


def views_of(sample: Sample, notion: Notion) -> list[View]:
    """What the test looks at: one probability, or the top label and the classes."""
    f, weights = sample.probabilities, sample.weights / sample.weights.max()
    if f.shape[1] == 2 or not notion.whole_rows:
        numbers = {2: "slope", 6: "curve", 12: "waves", 16: "fine structure"}
        hits = _hits(notion if not notion.whole_rows else BINARY, f)
        return [OneProbability(f, weights, hits, numbers, "probability")]
    top = OneProbability(f, weights, _hits(TOP_LABEL, f), {2: "slope", 8: "curve"}, "top label")
    views: list[View] = [top, Pooled(f, weights), ByClass(f, weights)]
    if notion.joint and f.shape[1] <= MOST_CROSSED:
        views.append(Crossed(f, weights))
    return views


def _hits(notion: Notion, f: FloatArray) -> BoolArray:
    """Which outcome the one probability of each row is of, ``(n, K)``."""
    outcomes = (notion.outcomes(f, np.full(len(f), k), 0) for k in range(f.shape[1]))
    return np.stack(list(outcomes), axis=1) == 1


def _tables(
    sample: Sample, views: Sequence[View], n_draws: int, seed: int
) -> Iterator[tuple[int, FloatArray]]:
    """Statistics of some sets at a time, ``(C, b)``, and how many; the first set is observed."""
    largest = max(len(sample.labels), GROUPS_PER_CLASS * sample.probabilities.shape[1])
    step = max(1, min(100, TOGETHER // largest))

    def some(first: int) -> tuple[int, FloatArray]:
        n_sets = min(step, 1 + n_draws - first)
        generator = np.random.default_rng([seed, first])
        labels = draw_labels(sample.probabilities, n_sets, generator)
        if first == 0:
            labels[:, 0] = sample.labels
        return n_sets, np.concatenate([view.statistics(labels) for view in views])

    return ordered_map(some, range(0, 1 + n_draws, step))


def rank_p_values(table: FloatArray) -> FloatArray:
    """The share of sets whose statistic is at least a set's own, ``(C, B)``."""
    n_sets = table.shape[1]
    found = np.empty(table.shape)
    for own, statistics in zip(found, table, strict=True):
        slack = ROUNDING * (1 + np.abs(statistics))
        own[:] = n_sets - np.searchsorted(np.sort(statistics), statistics - slack)
    return found / n_sets


def half_cauchy(p_values: FloatArray, counts: FloatArray) -> FloatArray:
    """The combination T of p-values ``(C, B)``, ``(B,)``; large ones speak against f."""
    return counts @ (1 / np.tan(np.pi / 2 * p_values))


def whole_samples(sample: Sample) -> tuple[Sample, IntArray]:
    """Rows that stand for whole numbers of samples of equal weight, and these numbers.

    A row of weights w that stands for a number between k and k + 1 becomes two: one of k samples
    and one of a single lighter sample, with the same sum of w and of w^2.
    """
    assert sample.sample_weights is not None
    counts = sample.multiplicities
    number = np.ceil(counts)
    some = np.flatnonzero(number > counts)
    if not len(some):
        return sample, counts.astype(np.int64)
    m, mean = number[some], sample.weights[some] / number[some]
    # Of m samples, one is lighter than the mean by (m - 1) d and the others are heavier by d.
    square = sample.sample_weights[some] * mean - mean**2
    d = np.sqrt(np.maximum(square, 0.0) / (m - 1))
    light = sample.take(some)
    last = np.maximum(mean - (m - 1) * d, 0.0)
    units = sample.sample_weights.copy()
    units[some] = mean + d
    number[some] -= 1
    heavy = replace(sample, weights=units * number, sample_weights=units)
    light = replace(light, weights=last, sample_weights=last)
    places = np.argsort(np.r_[np.arange(len(counts)), some], kind="stable")
    assert light.sample_weights is not None
    both = replace(
        heavy,
        probabilities=np.concatenate([heavy.probabilities, light.probabilities]),
        labels=np.concatenate([heavy.labels, light.labels]),
        weights=np.concatenate([heavy.weights, light.weights]),
        sample_weights=np.concatenate([units, light.sample_weights]),
    )
    counts = np.concatenate([number, np.ones(len(some))])
    return both.take(places), counts[places].astype(np.int64)


def one_per_sample(sample: Sample, seed: int, most: int | None = None) -> Sample:
    """The sample with a row for each of its samples, or for each of a random part of many.

    Labels are drawn for samples, so the observed ones must be those of samples too. The part is
    drawn blindly: evenly spaced samples would have labels in the proportions of the whole, with
    less noise than drawn labels have. Rows come in an order that does not depend on that of the
    classes, because labels are drawn row by row.
    """
    sample = sample.take(ordering([sample]))
    if sample.sample_weights is None:
        return sample
    sample, counts = whole_samples(sample)
    ends = np.cumsum(counts)
    most = min(MOST if most is None else most, NUMBERS // sample.probabilities.shape[1])
    if ends[-1] <= most:
        rows = np.repeat(np.arange(len(counts)), counts)
    else:
        generator = np.random.default_rng([seed, 0, 1])  # not one of `_tables`
        chosen = generator.choice(ends[-1], most, replace=False, shuffle=False)
        rows = np.searchsorted(ends, np.sort(chosen), side="right")
    return one_per_row(sample.take(rows))
