"""What is asked: the problems that a notion makes of the data, and the rows behind them."""

from __future__ import annotations

from dataclasses import dataclass

from riskalign.data.notions import TOP_LABEL, Notion
from riskalign.data.sample import Sample
from riskalign.equations.losses import ProperLoss
from riskalign.equations.problem import Problem


@dataclass(frozen=True)
class Case:
    """The problems of a notion, and the rows behind them.

    Attributes
    ----------
    sample : rows of the sample, all of them or a random part
    notion, loss : what is asked
    problems : from all samples: by the rows, or by cells if these are a part
    n_samples : number of all samples
    top_gap : mean of f - y for the class that each row ranks first
    complete : whether `sample` holds all rows
    """

    sample: Sample
    notion: Notion
    loss: ProperLoss
    problems: list[Problem]
    n_samples: int
    top_gap: float
    complete: bool = True

    @classmethod
    def of(cls, sample: Sample, notion: Notion, loss: ProperLoss) -> Case:
        """All rows of a sample."""
        top = TOP_LABEL.problems(sample, loss)[0]
        gap = float(top.weights @ (top.predictions - top.labels) / top.weights.sum())
        return cls(sample, notion, loss, notion.problems(sample, loss), len(sample.labels), gap)

    @property
    def divergence(self) -> str:
        """The calibration error of one prediction, in words."""
        return self.notion.loss_of(self.loss).divergence
