"""`riskalign report`: what was read, the answer as it becomes known, files and gates."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timezone
from functools import partial
from pathlib import Path

import riskalign
from riskalign.cli.gates import check_baseline, check_gates, check_limit
from riskalign.cli.meter import metered
from riskalign.cli.output import check_outputs, print_lines, write_output
from riskalign.cli.reading import (
    SketchSource,
    inputs_of,
    opened,
    same_rows,
    sketch_of,
    source_of,
)
from riskalign.data.files import PredictionFile
from riskalign.data.files.writing import is_rewritable
from riskalign.data.notions import BINARY
from riskalign.display.table import wrapped
from riskalign.methods import EqualWidthBins, KernelSmoother
from riskalign.methods.method import Method
from riskalign.report.exchange import Check, to_csv, to_json, to_junit, to_markdown
from riskalign.report.page import Provenance, to_html
from riskalign.report.screen import Options, Screen
from riskalign.report.surveying import survey
from riskalign.report.text import text_lines
from riskalign.testing import compare

FILES = ("html", "json", "csv", "markdown", "junit")
ANSWERED, FAILED, INTERRUPTED = 0, 1, 130


def report(options: argparse.Namespace) -> int:
    """`riskalign report`."""
    outputs = {f"--{kind}": getattr(options, kind) for kind in FILES}
    check_outputs(outputs, [*inputs_of([options.file]), options.labels, options.worse_than])
    check_gates(options.fail_above, options.metric, options.upper)
    asked = _options(options)
    file = source_of(options, options.file)
    baseline = _baseline(options, file)
    heading = f"{file.path.name}: {file.description}"
    print_lines(wrapped(heading))
    screen, interrupted = _surveyed(options, asked, file)
    if screen is None or not screen.answers:
        raise KeyboardInterrupt
    source = _to_recalibrate(options, file)
    lines = list(
        text_lines(screen, source, all_classes=options.all_classes, verbose=options.verbose)
    )
    print_lines(lines)
    if interrupted:
        print_lines(["", f"Interrupted before the {screen.stage}: this is what is known so far."])
        checks = []
    else:
        checks = _checks(options, screen, file, baseline)
    _write(options, screen, file, source, checks, lines)
    print_lines(check.message for check in checks) if checks else None
    if interrupted:
        return INTERRUPTED
    return FAILED if any(check.failed for check in checks) else ANSWERED


def _to_recalibrate(
    options: argparse.Namespace, file: PredictionFile | SketchSource
) -> tuple[str, ...]:
    """The file and how it is read, for `riskalign calibrate`; empty if that cannot read it.

    A log of another tool is not rewritten: a calibrator is stored.
    """
    if isinstance(file, PredictionFile) and file.is_log:
        return (str(file.path), "--save", f"{file.path.stem}-calibrator.json")
    if not isinstance(file, PredictionFile) or not is_rewritable(file.path):
        return ()
    given = {
        "--label": options.label,
        "--probs": options.probs,
        "--labels": options.labels,
        "--classes": ",".join(options.classes or ()) or None,
    }
    found = [str(file.path)]
    for name, value in given.items():
        if value is not None:  # a value may begin as an option does
            found += [f"{name}={value}"] if str(value).startswith("-") else [name, str(value)]
    flags = {"--logits": options.logits, "--normalize": options.normalize}
    return (*found, *(name for name, given in flags.items() if given))


def _options(options: argparse.Namespace) -> Options:
    """How the command line asks for an estimate."""
    return Options(
        loss=options.loss,
        method=_method(options),
        n_draws=0 if options.fast else options.draws,
        pictures=options.html is not None,
        advice=not (options.fast or options.no_advice),
        thresholds=options.thresholds,
    )


def _method(options: argparse.Namespace) -> Method:
    kernel = {"estimator": options.estimator, "bandwidth": options.bandwidth}
    given = {name: value for name, value in kernel.items() if value is not None}
    if options.kernel is not None:
        given["kernel"] = options.kernel
    if options.bins is not None:
        if given:
            raise ValueError(f"--bins takes no --{next(iter(given))}: bins have no kernel.")
        return EqualWidthBins(options.bins, norm=options.norm)
    if options.norm is not None:
        given["norm"] = options.norm
    return KernelSmoother(**given)


def _surveyed(
    options: argparse.Namespace, asked: Options, file: PredictionFile | SketchSource
) -> tuple[Screen | None, bool]:
    """The screen as far as it became known, and whether Ctrl-C ended the work."""
    screen = None
    try:
        for screen in metered(_survey(options, asked, file)):  # noqa: B007
            pass  # the last one is wanted
    except KeyboardInterrupt:
        return screen, True
    return screen, False


def _survey(
    options: argparse.Namespace, asked: Options, file: PredictionFile | SketchSource
) -> Iterator[Screen]:
    sketch = sketch_of(options, file)
    yield from survey(sketch, asked, notion=options.notion, top_label=file.top_label)


def _baseline(
    options: argparse.Namespace, file: PredictionFile | SketchSource
) -> PredictionFile | None:
    """The file of --worse-than, opened before the work."""
    if options.worse_than is None:
        return None
    if isinstance(file, SketchSource):
        message = "--worse-than compares the same rows of two files; a sketch has none."
        raise ValueError(message)  # noqa: TRY004
    return opened(options, options.worse_than)


def _checks(
    options: argparse.Namespace,
    screen: Screen,
    file: PredictionFile | SketchSource,
    baseline: PredictionFile | None,
) -> list[Check]:
    """The gates that were asked for."""
    checks = []
    if options.fail_above is not None:
        checks += check_limit(screen, options.fail_above, options.metric, options.upper)
    if baseline is not None:
        assert isinstance(file, PredictionFile)
        labels, *probabilities = same_rows([file, baseline], options.normalize)
        names = (file.path.name, baseline.path.name)
        comparison = compare(
            labels,
            *probabilities,
            notion=BINARY.name if file.has_outcomes else options.notion,
            loss=options.loss,
            names=names,
            sample_weight=None if options.weight is None else file.read().weights,
        )
        checks.append(check_baseline(comparison, probabilities[0].shape[1]))
    return checks


def _write(
    options: argparse.Namespace,
    screen: Screen,
    file: PredictionFile | SketchSource,
    source: tuple[str, ...],
    checks: Sequence[Check],
    lines: Sequence[str],
) -> None:
    """The files that were asked for."""
    made = datetime.now(timezone.utc).isoformat(timespec="seconds")
    name, version = file.path.name, riskalign.__version__
    facts = {"riskalign": version, "made": made, "command": options.line, "source": str(file.path)}
    provenance = Provenance(name, options.line, made, version, file.description, source)
    writers: dict[str, Callable[[], str]] = {
        "html": partial(to_html, screen, provenance),
        "json": partial(to_json, screen, checks, **facts),
        "csv": partial(to_csv, screen),
        "markdown": partial(to_markdown, screen, name, checks),
        "junit": partial(to_junit, screen, name, checks, "\n".join(lines)),
    }
    for kind, content in writers.items():
        path: Path | None = getattr(options, kind)
        if path is not None:
            write_output(path, content())
            print_lines([f"wrote {path}"])
