"""`riskalign plot`: a file of predictions as a picture."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

import numpy as np

from riskalign.cli.output import (
    check_outputs,
    check_picture,
    picture_of,
    print_lines,
    write_output,
)
from riskalign.cli.reading import naming, opened
from riskalign.data.files import PredictionFile
from riskalign.data.notions import BINARY, drawn_notion, named_notion
from riskalign.data.validation import RowError, as_sample
from riskalign.display.table import wrapped
from riskalign.plots import reliability_diagram, reliability_grid
from riskalign.plots.canvas import pyplot
from riskalign.plots.problems import is_classwise, problem_of


def plot(options: argparse.Namespace) -> int:
    """`riskalign plot`."""
    check_picture(options.output)
    asked = named_notion(options.notion)
    if asked is not None and asked.joint:
        raise ValueError(
            "the canonical notion has no curve to draw: it is about whole vectors. Use --notion "
            "top-label or classwise."
        )
    check_outputs({"--output": options.output}, [options.file, options.labels])
    plt = pyplot()
    plt.switch_backend("agg")  # no window, and no need of a display
    file = opened(options, options.file)
    with naming(file):
        figure = _figure(options, file)
    drawn = _drawn_classes(figure, _n_classes(file))
    write_output(options.output, picture_of(figure, options.output))
    print_lines([*drawn, f"wrote {options.output}"])
    return 0


def _drawn_classes(figure: Any, n_classes: int) -> Iterator[str]:
    """Which classes a grid shows, if it does not show all."""
    names = [ax.get_title().removeprefix("class ") for ax in figure.axes if ax.get_title()]
    if 1 < len(names) < n_classes:
        chosen = f"the {len(names)} most frequent of {n_classes:,} classes"
        yield from wrapped(f"drawn are {chosen}: {', '.join(names)}")


def _figure(options: argparse.Namespace, file: PredictionFile) -> Any:
    n_classes = _n_classes(file)
    asked = named_notion(options.notion) or drawn_notion(n_classes)
    of_others = options.notion is not None and not asked.is_confidence
    if file.top_label and (options.pos_label is not None or of_others):
        raise ValueError("there is only the predicted class's probability. Use --notion top-label.")
    band = None if options.band == "none" else options.band
    drawn: dict[str, Any] = {"band": band, "bins": options.bins}
    if is_classwise(n_classes, options.pos_label) or (
        options.pos_label is None and asked.per_class
    ):
        predictions = file.read()
        drawn |= {"scale": options.scale or "linear", "from_logits": file.from_logits}
        drawn |= {"normalize": options.normalize, "classes": file.classes}
        rows = predictions.y_true, predictions.scores
        if options.pos_label is None:
            return reliability_grid(*rows, **drawn)[0].figure
        return reliability_diagram(*rows, pos_label=options.pos_label, **drawn).figure
    y, p, subject = _one_probability(options, file)
    one_class = n_classes == 2 and not asked.is_confidence and not file.top_label
    scale = options.scale or (None if one_class else "linear")
    ax = reliability_diagram(y, p, notion=BINARY.name, scale=scale, **drawn)
    ax.set_xlabel(subject)
    return ax.figure


def _n_classes(file: PredictionFile) -> int:
    """The number of classes, told by the first rows."""
    _, scores = next(iter(file), (None, np.empty(0)))
    return scores.shape[1] if scores.ndim == 2 else 2


def _one_probability(
    options: argparse.Namespace, file: PredictionFile
) -> tuple[np.ndarray, np.ndarray, str]:
    """The probability that is drawn ``(n,)`` and what came true; other columns are not kept."""
    notion = BINARY.name if file.top_label else options.notion
    problems, subject, first = [], "", 0
    for y_true, scores in file:
        try:
            sample = as_sample(
                y_true,
                scores,
                from_logits=file.from_logits,
                normalize=options.normalize,
                classes=file.classes,
                fewest=0,
            )
        except RowError as error:
            raise error.after(first) from None
        first += len(scores)
        problem, subject = problem_of(sample, notion, options.pos_label)
        problems.append(problem)
    if not problems:
        raise ValueError(f"{file.path}: there are no rows of predictions.")
    if file.top_label:
        subject = "predicted probability of the predicted class"
    y = np.concatenate([problem.labels for problem in problems])
    return y, np.concatenate([problem.predictions for problem in problems]), subject
