"""The commands `compare` and `demo`; others have files of their own."""

from __future__ import annotations

import argparse
import json
import shlex

from riskalign import datasets
from riskalign.cli.output import check_outputs, print_lines, write_output
from riskalign.cli.parser import make_parser
from riskalign.cli.reading import opened, same_rows
from riskalign.cli.report import report
from riskalign.testing import compare as compare_models

DEMO_ROWS = 5_000
DEMO_CLASSES = ("cat", "dog", "bird", "fish")


def compare(options: argparse.Namespace) -> int:
    """`riskalign compare`."""
    check_outputs({"--json": options.json}, [options.first, options.second, options.labels])
    files = [opened(options, path) for path in (options.first, options.second)]
    labels, *probabilities = same_rows(files, options.normalize)
    names = [path.name for path in (options.first, options.second)]
    if names[0] == names[1]:
        names = [str(options.first), str(options.second)]
    comparison = compare_models(
        labels, *probabilities, notion=options.notion, loss=options.loss, names=(names[0], names[1])
    )
    print_lines(str(comparison).splitlines())
    if options.json is not None:
        text = json.dumps(comparison.to_dict(), indent=2, ensure_ascii=False)
        write_output(options.json, text + "\n")
        print_lines([f"wrote {options.json}"])
    return 0


def demo(options: argparse.Namespace) -> int:
    """`riskalign demo`."""
    table = options.directory / "riskalign-demo.csv"
    check_outputs({"--directory": table}, [])
    data = datasets.temperature(DEMO_ROWS, len(DEMO_CLASSES), t2=0.6, seed=0)
    lines = [",".join(["label", *(f"p_{name}" for name in DEMO_CLASSES)])]
    lines += [
        ",".join([DEMO_CLASSES[y], *(f"{p:.6f}" for p in row)])
        for y, row in zip(data.y_true.tolist(), data.y_prob.tolist(), strict=True)
    ]
    write_output(table, "\n".join(lines) + "\n")
    page = table.with_suffix(".html")
    print_lines([f"wrote {table}: made-up predictions of an over-confident model", ""])
    command = ["report", str(table), "--html", str(page)]
    arguments = make_parser().parse_args(command)
    arguments.line = shlex.join(["riskalign", *command])
    print_lines([f"$ {arguments.line}", ""])
    return report(arguments)
