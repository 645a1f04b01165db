"""The four notions of calibration, each a reduction of the data to problems.

A notion owns everything that depends on it: the problems it makes, the shape of R and of other
results, its words. No other file compares a notion's name: what needs to know asks the notion.
After the reduction the numerics see points on a simplex with labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass

import numpy as np

from riskalign.data.cells import Numbers
from riskalign.data.sample import Sample
from riskalign.data.validation import one_of
from riskalign.equations.arrays import FloatArray, IntArray, LabelArray
from riskalign.equations.losses import ProperLoss
from riskalign.equations.problem import Problem

TINIEST = 1e-290
"""Sums of probabilities below this one are 0."""


@dataclass(frozen=True)
class Notion:
    """What must be calibrated; the base of the four notions.

    Attributes
    ----------
    name : the name users pass
    title : the name in a sentence
    question : what the notion asks of the predictions, with a place for a class's name
    heading : the same in a few words
    subject : what is calibrated or not, in a sentence
    gap : what the root of a squared error is called
    """

    name: str
    title: str
    question: str
    heading: str
    subject: str
    gap: str

    per_class = False  # whether results hold one entry per class, and the value is their sum
    of_each = ""  # begins the words for a value, before those for the value of one problem
    joint = False  # whether the whole vector is one problem
    whole_rows = True  # whether a sketch keeps the whole vector of a row, or one probability
    is_one_class = False  # whether that probability is of one and the same class
    is_confidence = False  # whether it is that of the predicted class, whichever it is

    def check(self, n_classes: int) -> None:
        """Refuse a number of classes for which the notion has no meaning."""
        if self.is_one_class and n_classes != 2:
            raise ValueError(
                f"`notion='{self.name}'` needs two classes; found {n_classes}. Use 'top-label', "
                "'classwise' or 'canonical', or pass one column of `y_prob`."
            )

    def n_problems(self, n_classes: int) -> int:
        """Number of problems."""
        return n_classes if self.per_class else 1

    def columns(self, probabilities: FloatArray) -> FloatArray:
        """The one-dimensional predictions ``(n, P)`` of P problems; all of them if joint."""
        raise NotImplementedError

    def outcomes(self, probabilities: FloatArray, labels: IntArray, k: int) -> LabelArray:
        """Labels of problem k, ``(n,)``; labels may hold several sets, ``(n, B)``."""
        raise NotImplementedError

    def reduce(self, probabilities: Numbers, labels: LabelArray) -> tuple[Numbers, LabelArray]:
        """What a sketch keeps of rows: predictions ``(n,)`` or ``(n, K)``, and labels ``(n,)``."""
        return probabilities, labels

    @property
    def of_reduced(self) -> Notion:
        """The notion for rows that were reduced, as the pair (1 - p, p)."""
        return self

    def truth(self, R: FloatArray, f: FloatArray, k: int) -> FloatArray:
        """What problem k is about of probabilities R ``(n, K)`` of the classes at predictions f."""
        return self.columns(R)[:, k]

    def with_truth(self, R: FloatArray, f: FloatArray, k: int, points: FloatArray) -> FloatArray:
        """R ``(n, K)`` in which problem k, of predictions f, has the probabilities of `points`.

        These are pairs (1 - p, p), or whole rows of a joint problem. Rows need not add up to 1.
        """
        return points

    def names(self, classes: Sequence[str]) -> list[str]:
        """The names of the problems."""
        raise NotImplementedError

    def loss_of(self, loss: ProperLoss) -> ProperLoss:
        """The form of a loss that judges the problems."""
        return loss.binary

    def problems(self, sample: Sample, loss: ProperLoss) -> list[Problem]:
        """The problems that the notion makes of a sample."""
        columns = self.columns(np.minimum(sample.probabilities, 1.0))
        return [
            Problem(
                name,
                columns[:, k],
                self.outcomes(sample.probabilities, sample.labels, k),
                sample.weights,
                self.loss_of(loss),
                sample.sample_weights,
            )
            for k, name in enumerate(self.names(sample.classes))
        ]

    def with_top(self, sample: Sample, loss: ProperLoss) -> tuple[list[Problem], Problem]:
        """The problems of a sample, and that of its top label."""
        own = self.problems(sample, loss)
        return own, (own if self.is_confidence else TOP_LABEL.problems(sample, loss))[0]

    def gathered(self, each: Sequence[FloatArray]) -> FloatArray:
        """Arrays of all problems, ``(n,)`` or ``(n, K)`` each, in the shape of results."""
        return np.stack(each, axis=1) if self.per_class else each[0]

    def number(self, each: Sequence[float]) -> float | FloatArray:
        """Numbers of all problems in the shape of results: one, or one per class."""
        return np.array(each) if self.per_class else each[0]

    def whole(self, conditional: FloatArray) -> FloatArray | None:
        """R as one column per class ``(n, K)``, None where there is one for the top label only."""
        return conditional


def _at_most_one(p: Numbers) -> Numbers:
    """Probabilities without their row: above one by rounding they have no complement."""
    return np.minimum(p, 1) if p.max(initial=0) > 1 else p


class _Binary(Notion):
    whole_rows = False
    is_one_class = True

    def reduce(self, probabilities: Numbers, labels: LabelArray) -> tuple[Numbers, LabelArray]:
        one = probabilities if probabilities.ndim == 1 else probabilities[:, 1]
        return _at_most_one(one), labels

    def columns(self, probabilities: FloatArray) -> FloatArray:
        return probabilities[:, 1:]

    def outcomes(self, probabilities: FloatArray, labels: IntArray, k: int) -> LabelArray:
        return labels.astype(np.int8)

    def names(self, classes: Sequence[str]) -> list[str]:
        return [classes[1]]

    def whole(self, conditional: FloatArray) -> FloatArray | None:
        return np.stack([1.0 - conditional, conditional], axis=1)


class _TopLabel(Notion):
    whole_rows = False
    is_confidence = True

    def reduce(self, probabilities: Numbers, labels: LabelArray) -> tuple[Numbers, LabelArray]:
        top = probabilities.argmax(axis=1)
        p = probabilities[np.arange(len(top)), top]
        return _at_most_one(p), (top == labels).astype(np.int8)

    @property
    def of_reduced(self) -> Notion:
        return _ReducedTopLabel(*astuple(self))

    def columns(self, probabilities: FloatArray) -> FloatArray:
        return probabilities.max(axis=1, keepdims=True)

    def outcomes(self, probabilities: FloatArray, labels: IntArray, k: int) -> LabelArray:
        top = probabilities.argmax(axis=1)
        return (labels == (top if labels.ndim == 1 else top[:, None])).astype(np.int8)

    def truth(self, R: FloatArray, f: FloatArray, k: int) -> FloatArray:
        return np.take_along_axis(R, f.argmax(axis=1)[:, None], axis=1)[:, 0]

    def with_truth(self, R: FloatArray, f: FloatArray, k: int, points: FloatArray) -> FloatArray:
        top = np.arange(R.shape[1]) == f.argmax(axis=1)[:, None]
        others = np.where(top, 0.0, R)
        rest = np.maximum(others.sum(axis=1, keepdims=True), TINIEST)
        return np.where(top, points[:, 1:], points[:, :1] * others / rest)

    def names(self, classes: Sequence[str]) -> list[str]:
        return ["top label"]

    def whole(self, conditional: FloatArray) -> FloatArray | None:
        return None


class _ReducedTopLabel(Notion):
    """The top label of rows of which its probability and whether it is right are known."""

    whole_rows = False
    is_confidence = True

    def reduce(self, probabilities: Numbers, labels: LabelArray) -> tuple[Numbers, LabelArray]:
        return TOP_LABEL.reduce(probabilities, labels)

    def columns(self, probabilities: FloatArray) -> FloatArray:
        return probabilities[:, 1:]

    def outcomes(self, probabilities: FloatArray, labels: IntArray, k: int) -> LabelArray:
        return labels.astype(np.int8)

    def names(self, classes: Sequence[str]) -> list[str]:
        return ["top label"]

    def whole(self, conditional: FloatArray) -> FloatArray | None:
        return None


class _Classwise(Notion):
    per_class = True
    of_each = "sum over classes of "

    def columns(self, probabilities: FloatArray) -> FloatArray:
        return probabilities

    def outcomes(self, probabilities: FloatArray, labels: IntArray, k: int) -> LabelArray:
        return (labels == k).astype(np.int8)  # K arrays of n: a byte each

    def with_truth(self, R: FloatArray, f: FloatArray, k: int, points: FloatArray) -> FloatArray:
        found = R.copy()
        found[:, k] = points[:, 1]
        return found

    def names(self, classes: Sequence[str]) -> list[str]:
        return list(classes)


class _Canonical(Notion):
    joint = True

    def columns(self, probabilities: FloatArray) -> FloatArray:
        return probabilities

    def outcomes(self, probabilities: FloatArray, labels: IntArray, k: int) -> LabelArray:
        return labels

    def truth(self, R: FloatArray, f: FloatArray, k: int) -> FloatArray:
        return R

    def names(self, classes: Sequence[str]) -> list[str]:
        return ["all classes"]

    def loss_of(self, loss: ProperLoss) -> ProperLoss:
        return loss

    def problems(self, sample: Sample, loss: ProperLoss) -> list[Problem]:
        f, units = sample.probabilities, sample.sample_weights
        return [Problem("all classes", f, sample.labels, sample.weights, loss, units)]


BINARY: Notion = _Binary(
    "binary",
    "binary",
    "Among rows that are given the probability f of class {name}, is a share f of that class?",
    "Is the probability of class {name} right?",
    "probabilities of class {name}",
    "typical gap",
)
TOP_LABEL: Notion = _TopLabel(
    "top-label",
    "top-label",
    "Among rows whose predicted class has probability f, is a share f right?",
    "Is its confidence right?",
    "confidence",
    "typical gap, confidence",
)
CLASSWISE: Notion = _Classwise(
    "classwise",
    "class-wise",
    "For each class: among rows that are given its probability f, is a share f of that class? "
    "The errors of all classes are added up.",
    "Is each class's probability right?",
    "class probabilities",
    "typical gap, per class",
)
CANONICAL: Notion = _Canonical(
    "canonical",
    "canonical",
    "Among rows with the same whole vector f of probabilities, do the classes occur with those "
    "frequencies?",
    "Is the whole vector of probabilities right?",
    "probability vectors",
    "typical gap, whole vector",
)

NOTIONS: dict[str, Notion] = {
    notion.name: notion for notion in (BINARY, TOP_LABEL, CLASSWISE, CANONICAL)
}
"""The notions known by name."""

OF_ONE_PROBABILITY = tuple(name for name, notion in NOTIONS.items() if not notion.whole_rows)
"""Names of the notions that are about one probability per row."""

ONE_DIMENSIONAL = tuple(name for name, notion in NOTIONS.items() if not notion.joint)
"""Names of the notions whose problems are made from one probability each."""

OF_ONE_PROBLEM = tuple(name for name, notion in NOTIONS.items() if not notion.per_class)
"""Names of the notions that make a single problem."""

JOINT = tuple(name for name, notion in NOTIONS.items() if notion.joint)
"""Names of the notions whose problem is the whole vector."""


def named_notion(notion: str | None) -> Notion | None:
    """The notion of a name, None where none is named."""
    return None if notion is None else NOTIONS[one_of("notion", notion, NOTIONS)]


def notion_of(notion: str | None, n_classes: int) -> Notion:
    """The notion asked for, or the default for a number of classes."""
    found = named_notion(notion) or default_notion(n_classes)
    found.check(n_classes)
    return found


def default_notion(n_classes: int) -> Notion:
    """The notion where none is named: "binary" for two classes, otherwise "classwise".

    One probability per row is that of the second of two classes.
    """
    return BINARY if n_classes == 2 else CLASSWISE


def drawn_notion(n_classes: int) -> Notion:
    """The notion whose curve a picture shows where none is named.

    A diagram has a single curve, so it cannot show the class-wise default of more than two
    classes: it shows their top label. For two classes it is the notion of `default_notion`.
    """
    return BINARY if n_classes == 2 else TOP_LABEL
