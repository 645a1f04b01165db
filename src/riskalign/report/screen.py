"""The first screen: everything that a report says of one model.

Text, HTML, Markdown, JUnit and JSON are rendered from the same `Screen`; `survey` fills it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from riskalign.display.judgement import DEFAULT, Thresholds, Verdict
from riskalign.equations.evidence import ClassEvidence
from riskalign.equations.losses import ProperLoss
from riskalign.inference.calibration_test import CalibrationTest
from riskalign.methods import KernelSmoother
from riskalign.methods.method import Method
from riskalign.report.advice import Advice
from riskalign.report.diagrams import Diagram
from riskalign.results import CalibrationResult


@dataclass(frozen=True)
class Options:
    """How a report estimates.

    Attributes
    ----------
    loss, confidence : as for `calibration_error`
    method : what estimates, by default the debiased kernel smoother
    n_draws : label sets drawn for the test of calibration, 0 for no test
    pictures : whether diagrams are wanted
    advice : whether recalibration is tried
    thresholds : what counts as good, fair and poor
    """

    loss: str | ProperLoss = "l2"
    confidence: float = 0.95
    method: Method = field(default_factory=KernelSmoother)
    n_draws: int = 0
    pictures: bool = True
    advice: bool = True
    thresholds: Thresholds = DEFAULT

    @property
    def level(self) -> float | None:
        """The confidence of intervals; None for methods that have none."""
        debiased = isinstance(self.method, KernelSmoother) and self.method.smooths_residuals
        return self.confidence if debiased else None


@dataclass(frozen=True)
class Scores:
    """Plain scores of all rows; see `CalibrationSketch.scores`.

    `ece_by_chance` is what a calibrated model with these predictions shows on average.
    """

    accuracy: float
    confidence: float
    log_loss: float
    brier: float
    ece: float
    ece_by_chance: float


@dataclass(frozen=True)
class ClassError:
    """The calibration error of one class.

    Attributes
    ----------
    value : the error, a part of the class-wise error
    interval : of the error, None where there is none
    diagram : its curve, None where it was not asked for
    """

    value: float
    interval: tuple[float, float] | None = None
    diagram: Diagram | None = None


@dataclass(frozen=True)
class Screen:
    """What is known of one model; None or empty for what is not known (yet).

    Attributes
    ----------
    notion : what was asked
    classes : names
    n_samples : rows
    scores : plain scores
    result : the answer to what was asked
    top : the answer for the confidence, where it is not what was asked
    evidence : predicted against observed for every class
    class_errors : errors of classes by number; of all, or of those with the most evidence
    diagram, top_diagram : the notion's own curve if it has a single one, and the confidence's
    test : the test of calibration
    advice : what recalibration would gain
    stage : what is being worked on; empty if nothing is left to do
    stages : all stages, with their rough costs in relation
    hard : whether all predictions are 0 or 1, as predicted classes are
    impossible : rows whose label had the predicted probability 0; 0 where a part of the rows is
        known
    """

    notion: str
    classes: tuple[str, ...]
    n_samples: int
    options: Options
    scores: Scores | None = None
    result: CalibrationResult | None = None
    top: CalibrationResult | None = None
    evidence: ClassEvidence | None = None
    class_errors: dict[int, ClassError] = field(default_factory=dict)
    diagram: Diagram | None = None
    top_diagram: Diagram | None = None
    test: CalibrationTest | None = None
    advice: Advice | None = None
    stage: str = ""
    stages: dict[str, float] = field(default_factory=dict)
    hard: bool = False
    impossible: int = 0

    @property
    def answers(self) -> list[CalibrationResult]:
        """The answers in the order in which they are given: the confidence first."""
        return [answer for answer in (self.top, self.result) if answer is not None]

    def verdict_of(self, answer: CalibrationResult) -> Verdict:
        """The verdict on one answer."""
        return answer.verdict(self.options.thresholds)

    @property
    def worst(self) -> CalibrationResult | None:
        """The answer with the worst verdict; of equals the confidence."""
        ranked = sorted(self.answers, key=lambda answer: -self.verdict_of(answer).rank)
        return ranked[0] if ranked else None

    @property
    def grade(self) -> str:
        """The worst grade of all answers."""
        return "unclear" if self.worst is None else self.verdict_of(self.worst).grade
