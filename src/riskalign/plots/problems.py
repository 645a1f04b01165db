"""Which probability a diagram shows, and whose keywords are whose."""

from __future__ import annotations

from typing import Any

import numpy as np

from riskalign.data.notions import CLASSWISE, drawn_notion, named_notion
from riskalign.data.sample import Sample
from riskalign.data.validation import as_sample
from riskalign.equations.arrays import FloatArray, IntArray
from riskalign.equations.losses import L2
from riskalign.equations.problem import Problem

RARE = 0.05
"""A mean prediction of one of two classes below which its axes begin as logit axes."""

TOGETHER = 100
"""With up to so many classes, the curve of a class is that of the class-wise error; with more, each
class is estimated by itself."""

LONGEST = 24
"""Letters of a class's name that are written."""

BEHIND_THE_ERROR = {
    "estimator": "debiased",
    "bandwidth": "cross-validation",
    "start": "logistic",
}
"""Options of the curve that is the R behind the default calibration error."""

OF_DATA = ("sample_weight", "from_logits", "normalize", "ignore_index", "classes")
OF_CURVE = (
    "loss",
    "estimator",
    "bandwidth",
    "kernel",
    "candidates",
    "power",
    "start",
    "engine",
)


def split(
    y_true: object, y_prob: object, options: dict[str, Any]
) -> tuple[Sample, dict[str, Any], dict[str, Any]]:
    """The data, checked; the options of the curve; and the rest, which are matplotlib's."""
    of_data = {key: value for key, value in options.items() if key in OF_DATA}
    of_curve = {key: value for key, value in options.items() if key in OF_CURVE}
    rest = {key: value for key, value in options.items() if key not in OF_DATA + OF_CURVE}
    return as_sample(y_true, y_prob, **of_data), BEHIND_THE_ERROR | of_curve, rest


def problem_of(sample: Sample, notion: str | None, pos_label: object) -> tuple[Problem, str]:
    """The problem that a diagram shows, and what its probability is of, in words."""
    if pos_label is not None:
        column = column_of(sample, pos_label)
        subject = named(sample.classes[column])
        problem = CLASSWISE.problems(sample, L2)[column]
    else:
        n_classes = len(sample.classes)
        asked = named_notion(notion) or drawn_notion(n_classes)
        asked.check(n_classes)
        subject = "the predicted class" if asked.is_confidence else named(sample.classes[1])
        (problem,) = asked.problems(sample, L2)
    return problem, f"predicted probability of {subject}"


def first_scale(mean_prediction: float, *, one_of_two: bool) -> str:
    """The scale of a diagram where none is asked for, the same wherever it is drawn.

    Parameters
    ----------
    mean_prediction : the mean of the probability that is drawn
    one_of_two : whether it is that of one of two classes: the confidence, and the classes of a
        grid, which share their scale, have linear axes

    Examples
    --------
    >>> first_scale(0.004, one_of_two=True), first_scale(0.004, one_of_two=False)
    ('logit', 'linear')
    """
    return "logit" if one_of_two and mean_prediction < RARE else "linear"


def is_one_of_two(n_classes: int, notion: str | None) -> bool:
    """Whether a diagram shows the probability of one of two classes."""
    asked = named_notion(notion) or drawn_notion(n_classes)
    return n_classes == 2 and not asked.is_confidence


def is_classwise(n_classes: int, pos_label: object) -> bool:
    """Whether the curve of a class is taken from the class-wise error's."""
    return pos_label is not None and 2 < n_classes <= TOGETHER


def bin_numbers(p: FloatArray, n_bins: int) -> IntArray:
    """The bins (0, 1/b], ..., ((b - 1)/b, 1] of probabilities ``(n,)``; 0 is in the first.

    Examples
    --------
    >>> import numpy as np
    >>> bin_numbers(np.array([0.0, 0.2, 0.21, 1.0]), 5).tolist()
    [0, 0, 1, 4]
    """
    return np.clip(np.ceil(p * n_bins).astype(np.intp) - 1, 0, n_bins - 1)


def column_of(sample: Sample, label: object) -> int:
    """The column of a class, by its name."""
    if str(label) not in sample.classes:
        listed = ", ".join(sample.classes[:10]) + (", ..." if len(sample.classes) > 10 else "")
        raise ValueError(f"`pos_label` must be one of the classes, {listed}; found {label!r}.")
    return sample.classes.index(str(label))


def named(name: str) -> str:
    """A class's name, not too long; a mere number is said to be a class."""
    if name.lstrip("-").isdigit():
        return f"class {name}"
    return name if len(name) <= LONGEST else name[: LONGEST - 3] + "..."
