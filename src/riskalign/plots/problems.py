"""Which probability a diagram shows, and whose keywords are whose."""

from __future__ import annotations

from typing import Any

from riskalign.data.notions import BINARY, CLASSWISE, TOP_LABEL
from riskalign.data.sample import Sample
from riskalign.data.validation import as_sample
from riskalign.equations.losses import L2
from riskalign.equations.problem import Problem
from riskalign.options import make_case

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
    elif (notion is None and len(sample.classes) > 2) or notion == TOP_LABEL.name:
        subject = "the predicted class"
        (problem,) = TOP_LABEL.problems(sample, L2)
    else:
        subject = named(sample.classes[1])
        (problem,) = make_case(sample, BINARY.name, "l2").problems
    return problem, f"predicted probability of {subject}"


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
