"""The command `riskalign calibrate`: recalibrated predictions in the format of their file."""

from __future__ import annotations

import argparse

from riskalign.cli.output import check_outputs, print_lines, write_output
from riskalign.cli.reading import naming, opened
from riskalign.data.files import PredictionFile
from riskalign.data.files.writing import check_rewritable, rewritten
from riskalign.data.sample import Sample
from riskalign.data.validation import as_sample
from riskalign.equations.arrays import FloatArray, floored_log
from riskalign.recalibration.calibrators import cross_fitted
from riskalign.recalibration.fitted import (
    FittedCalibrator,
    digest_of,
    fitted_to,
    load_calibrator,
)
from riskalign.recalibration.gains import log_loss

DEFAULT = "kernel"


def calibrate(options: argparse.Namespace) -> int:
    """`riskalign calibrate`."""
    _check(options)
    learnt_elsewhere = options.load is not None or options.fit is not None
    file = opened(options, options.file, unlabelled=learnt_elsewhere)
    if file.is_log and options.output is not None:
        raise ValueError(
            f"{file.path} is a log of lm-evaluation-harness, into which nothing is written. Store "
            "a calibrator of the confidence with --save."
        )
    if options.output is not None:
        check_rewritable(file.path)
    sample = _sample(options, file)
    print_lines([f"{file.path.name}: {file.description}"])
    calibrator, how = _calibrator(options, sample)
    if calibrator is None:
        R = cross_fitted(sample, options.method or DEFAULT)
    else:
        R = calibrator.recalibrated(sample.probabilities)
    print_lines([how])
    if file.has_labels:
        before, after = (log_loss(sample, f) for f in (sample.probabilities, R))
        change = f" ({after / before - 1:+.1%})" if before else ""
        print_lines([f"log loss {before:.6g} before, {after:.6g} after{change}"])
        if calibrator is not None and calibrator.rows == digest_of(sample):
            option = "--fit" if options.load is None else "--load"
            print_lines(
                [
                    "warning: the calibrator was fitted to these very rows, so its gain on other "
                    f"rows is smaller. Without {option}, each row is left out of its own fit."
                ]
            )
        if after > before:
            print_lines(
                [
                    "warning: recalibration did not lower the log loss. Keep the predictions as "
                    "they are, or fit the calibrator to more rows."
                ]
            )
    if options.output is not None:
        write_output(options.output, rewritten(file.path, file.score_columns, _scores(file, R)))
        print_lines([f"wrote {options.output}"])
    if options.save is not None:
        stored = calibrator or _fitted(options, sample)
        write_output(options.save, stored.to_bytes(options.save.suffix.lower()))
        print_lines([f"wrote {options.save}"])
    return 0


def _check(options: argparse.Namespace) -> None:
    """Refuse options that do not go together, before anything is read."""
    if options.output is None and options.save is None:
        raise ValueError("there is nothing to write. Name a file with -o OUT or --save FILE.")
    if options.fit is not None and options.load is not None:
        raise ValueError("--fit and --load both say where the calibrator comes from. Give one.")
    if options.load is not None and options.method is not None:
        raise ValueError("--method is that of the stored calibrator with --load. Leave it out.")
    kinds = options.file.suffix.lower(), options.output and options.output.suffix.lower()
    if kinds[1] is not None and kinds[0] != kinds[1]:
        raise ValueError(
            f"-o {options.output} must end in {kinds[0]}: predictions are written in the format "
            "of their file."
        )
    if options.save is not None and options.save.suffix.lower() not in (".json", ".npz"):
        raise ValueError(f"--save {options.save} must end in .json or .npz.")
    inputs = [options.file, options.fit, options.load, options.labels]
    check_outputs({"-o": options.output, "--save": options.save}, inputs)


def _calibrator(options: argparse.Namespace, sample: Sample) -> tuple[FittedCalibrator | None, str]:
    """The calibrator, None for cross-fitting, and what it is in words."""
    if options.load is not None:
        calibrator = load_calibrator(options.load)
        source = options.load
    elif options.fit is not None:
        calibrator = _fitted(options, _sample(options, opened(options, options.fit)))
        source = options.fit
    else:
        method = options.method or DEFAULT
        how = "each row is recalibrated by a map fitted on the other folds"
        return None, f"{method} calibrator: {how}"
    if tuple(map(str, calibrator.classes)) != sample.classes:
        raise ValueError(
            f"{source} is about {_listed(calibrator.classes)}, {options.file} about "
            f"{_listed(sample.classes)}. They must be the same, in the same order."
        )
    return calibrator, f"{calibrator.method} calibrator from {source}"


def _listed(classes: tuple[object, ...]) -> str:
    more = ", ..." if len(classes) > 8 else ""
    return f"{len(classes)} classes ({', '.join(map(str, classes[:8]))}{more})"


def _fitted(options: argparse.Namespace, sample: Sample) -> FittedCalibrator:
    return fitted_to(sample, options.method or DEFAULT)


def _sample(options: argparse.Namespace, file: PredictionFile) -> Sample:
    found = file.read()
    with naming(file):
        return as_sample(
            found.y_true,
            found.scores,
            from_logits=file.from_logits,
            normalize=options.normalize,
            classes=file.classes,
        )


def _scores(file: PredictionFile, R: FloatArray) -> FloatArray:
    """R in the form of the file: one probability or all, or logits."""
    one = file.read().scores.ndim == 1
    if not file.from_logits:
        return R[:, 1] if one else R
    logits = floored_log(R)
    return logits[:, 1] - logits[:, 0] if one else logits
