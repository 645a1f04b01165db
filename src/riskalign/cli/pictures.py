"""`riskalign plot`: a file of predictions as a picture."""

from __future__ import annotations

import argparse
import io
from typing import Any

import numpy as np

from riskalign.cli.commands import opened
from riskalign.cli.output import check_outputs, print_lines, write_whole
from riskalign.data.files import PredictionFile
from riskalign.data.validation import as_sample
from riskalign.plots import reliability_diagram, reliability_grid
from riskalign.plots.canvas import pyplot
from riskalign.plots.reliability import problem_of

FORMATS = (".png", ".svg", ".pdf")
DOTS_PER_INCH = 150
FOR_TOP_LABEL = (None, "top-label")


def plot(options: argparse.Namespace) -> int:
    """`riskalign plot`."""
    kind = options.output.suffix.lower()
    if kind not in FORMATS:
        raise ValueError(f"pictures end in .png, .svg or .pdf; found {options.output.name!r}.")
    if options.notion == "canonical":
        raise ValueError(
            "the canonical notion has no curve to draw: it is about whole vectors. Use --notion "
            "top-label or classwise."
        )
    check_outputs({"--output": options.output}, [options.file, options.labels])
    plt = pyplot()
    plt.switch_backend("agg")  # no window, and no need of a display
    file = opened(options, options.file)
    figure = _figure(options, file)
    picture = io.BytesIO()
    figure.savefig(picture, format=kind[1:], dpi=DOTS_PER_INCH)
    plt.close(figure)
    write_whole(options.output, picture.getvalue())
    print_lines([f"wrote {options.output}"])
    return 0


def _figure(options: argparse.Namespace, file: PredictionFile) -> Any:
    if file.top_label and (options.pos_label is not None or options.notion not in FOR_TOP_LABEL):
        raise ValueError("there is only the predicted class's probability. Use --notion top-label.")
    if options.pos_label is None and options.notion == "classwise":
        predictions = file.read()
        axes = reliability_grid(
            predictions.y_true,
            predictions.scores,
            scale=options.scale,
            from_logits=file.from_logits,
            normalize=options.normalize,
            classes=file.classes,
        )
        return axes[0].figure
    y, p, subject = _one_probability(options, file)
    ax = reliability_diagram(y, p, notion="binary", scale=options.scale)
    ax.set_xlabel(subject)
    return ax.figure


def _one_probability(
    options: argparse.Namespace, file: PredictionFile
) -> tuple[np.ndarray, np.ndarray, str]:
    """The probability that is drawn ``(n,)`` and what came true; other columns are not kept."""
    notion = "binary" if file.top_label else options.notion
    problems, subject = [], ""
    for y_true, scores in file:
        sample = as_sample(
            y_true,
            scores,
            from_logits=file.from_logits,
            normalize=options.normalize,
            classes=file.classes,
            fewest=0,
        )
        problem, subject = problem_of(sample, notion, options.pos_label)
        problems.append(problem)
    if not problems:
        raise ValueError(f"{file.path}: there are no rows of predictions.")
    if file.top_label:
        subject = "predicted probability of the predicted class"
    y = np.concatenate([problem.labels for problem in problems])
    return y, np.concatenate([problem.predictions for problem in problems]), subject
