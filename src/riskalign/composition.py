"""From what was estimated for each problem to the one result that a user reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from riskalign.data.sample import Problem, Sample, on_simplex
from riskalign.equations.arrays import FloatArray
from riskalign.equations.losses import ProperLoss
from riskalign.methods.method import CHUNK, Estimate, Method
from riskalign.results import CalibrationResult, Overconfidence


@dataclass(frozen=True)
class Case:
    """What is asked: the data, the notion with its problems, the loss."""

    sample: Sample
    notion: str
    loss: ProperLoss
    problems: list[Problem]

    @property
    def n_columns(self) -> int:
        """Columns of R: one a problem, or one a class of the only problem."""
        alone = self.notion == "canonical"
        return self.problems[0].n_classes if alone else len(self.problems)

    @property
    def single(self) -> bool:
        """Whether R is one column, shown as a vector."""
        return self.notion in ("binary", "top-label")

    @property
    def divergence(self) -> str:
        """The calibration error of one prediction, in words."""
        return (self.loss if self.notion == "canonical" else self.loss.binary).divergence

    def over_problems(self, each: str) -> str:
        """A definition for one problem, said of all."""
        return f"sum over classes of {each}" if self.notion == "classwise" else each


def overconfidence(case: Case, conditional: FloatArray) -> Overconfidence:
    """Mean of f - R for each column of R, and for the class each row ranks first.

    Samples for which a method has no R (NaN) are left out of the means.
    """
    f, weights = case.sample.probabilities, case.sample.weights
    columns = f if not case.single else case.problems[0].predictions[:, None]
    per_class, top_label, total = np.zeros(case.n_columns), 0.0, 0.0
    for start in range(0, len(weights), CHUNK):
        rows = np.arange(start, min(start + CHUNK, len(weights)))
        rows = rows[~np.isnan(conditional[rows]).any(axis=1)]
        R, w = conditional[rows], weights[rows]
        per_class += w @ (columns[rows] - R)
        total += w.sum()
        if case.notion != "top-label":
            R = on_simplex(R[:, 0]) if case.notion == "binary" else R
            top = np.argmax(f[rows], axis=1)
            own = np.arange(len(rows))
            top_label += float(w @ (f[rows, top] - R[own, top]))
    if case.notion == "top-label":
        top_label = float(per_class[0])
    return Overconfidence(per_class / total, top_label / total)


def by_method(case: Case, method: Method) -> CalibrationResult:
    """The result of a method that estimates problem by problem."""
    answers: list[Estimate] = []
    conditional = None
    for k, answer in enumerate(method.estimates(case.problems)):
        answers.append(replace(answer, conditional=None))  # R is kept once, in the result
        if answer.conditional is None:
            continue
        if answer.conditional.ndim == 2:
            conditional = answer.conditional
            continue
        if conditional is None:
            conditional = np.empty((len(case.sample.labels), case.n_columns), order="F")
        conditional[:, k] = answer.conditional
    values = np.array([answer.value for answer in answers])
    R = conditional
    if conditional is not None and case.single:
        R = conditional[:, 0]
    return CalibrationResult(
        value=float(values.sum()),
        risk=sum(answer.risk for answer in answers),
        refinement=_total([answer.refinement for answer in answers]),
        reconstructed_risk=_total([answer.reconstructed_risk for answer in answers]),
        bandwidth=None,
        per_class=values if case.notion == "classwise" else None,
        search=None,
        overconfidence=None if conditional is None else overconfidence(case, conditional),
        conditional=R,
        notion=case.notion,
        loss=case.loss.name,
        estimator=None,
        kernel=None,
        definition=case.over_problems(method.definition(case.divergence)),
        classes=case.sample.classes,
        n_samples=len(case.sample.labels),
        method=repr(method),
        norm=method.norm,
        note=answers[0].note,
    )


def _total(terms: Sequence[float | None]) -> float | None:
    known = [term for term in terms if term is not None]
    return sum(known) if len(known) == len(terms) else None
