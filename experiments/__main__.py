"""The paper's evidence, part by part: python -m experiments PART; all of it: make reproduce.

Everything goes on where it stood when it is started again; delete a table in
experiments/results/ to compute it anew.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from experiments import synthetic
from experiments.cells import RESULTS, load
from experiments.estimators import METHODS
from experiments.parallel import cores
from experiments.report import synthetic_tables
from experiments.tables import published

NAMES = sorted({method for own in METHODS.values() for method in own})


def _synthetic(options: argparse.Namespace) -> None:
    study = synthetic.QUICK if options.quick else synthetic.FULL
    synthetic.main(study, options.methods, options.again, jobs=len(cores()))
    for table in synthetic_tables(load(study.table), published("synthetic")):
        print(table, end="\n\n")


def _finite(options: argparse.Namespace) -> None:
    from experiments import finite

    finite.main(methods=options.methods)


def _figure(name: str) -> Callable[[argparse.Namespace], None]:
    def run(options: argparse.Namespace) -> None:
        from importlib import import_module

        import_module(f"experiments.{name}").main()

    return run


def _real(options: argparse.Namespace) -> None:
    from experiments import real, real_figures

    if options.data is None:
        print("real: no folder of prediction files; name one with --data or in RISKALIGN_DATA.")
        return
    real.main(options.data, methods=options.methods)
    real_figures.main()


def _report(options: argparse.Namespace) -> None:
    """Tables and pictures of the rows there are, also of runs that were stopped."""
    from experiments import finite, real, real_figures, report

    synthetic.write_table(synthetic.FULL)
    finite.report(RESULTS, load(RESULTS / finite.RAW))
    real.write(RESULTS, load(RESULTS / "real_raw.csv"))
    real_figures.main()
    report.main()


PARTS: dict[str, tuple[Callable[[argparse.Namespace], None], str]] = {
    "theory": (_figure("theory"), "section 5.2 by Monte Carlo"),
    "bandwidth": (_figure("bandwidths"), "the bandwidth figure"),
    "kernels": (_figure("kernels"), "RBF against Dirichlet as K grows"),
    "cost": (_figure("cost"), "cost against n"),
    "real": (_real, "the real-world table and figures, from a folder of prediction files"),
    "synthetic": (_synthetic, "the synthetic tables"),
    "finite": (_finite, "the finite-sample figures, with the synthetic tables' estimates"),
    "report": (_report, "REPORT.md from the tables there are"),
}
"""Parts in the order of `all`."""


def _all(options: argparse.Namespace) -> None:
    for run, _ in PARTS.values():
        run(options)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one part, or all."""
    parser = argparse.ArgumentParser(prog="python -m experiments", description=__doc__)
    parts = parser.add_subparsers(dest="part", required=True)
    for name, (run, words) in {**PARTS, "all": (_all, "every part, then the report")}.items():
        part = parts.add_parser(name, help=words)
        part.set_defaults(run=run)
        part.add_argument("--quick", action="store_true", help="synthetic: n = 3,000, 3 subsets")
        part.add_argument("--methods", nargs="+", choices=NAMES, help="only these methods")
        part.add_argument(
            "--again", nargs="+", choices=NAMES, default=[], help="synthetic: forget these first"
        )
        folder = os.environ.get("RISKALIGN_DATA")
        part.add_argument(
            "--data", type=Path, default=Path(folder) if folder else None,
            help="real: the folder (default: RISKALIGN_DATA)",
        )  # fmt: skip
    options = parser.parse_args(arguments)
    options.run(options)


if __name__ == "__main__":
    main()
