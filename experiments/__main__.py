"""The paper's evidence, part by part: python -m experiments PART; all of it: make reproduce."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from experiments import synthetic
from experiments.estimators import METHODS


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one part."""
    parser = argparse.ArgumentParser(prog="python -m experiments", description=__doc__)
    parts = parser.add_subparsers(dest="part", required=True)
    _add_synthetic(parts.add_parser("synthetic", help="the synthetic tables"))
    options = parser.parse_args(arguments)
    options.run(options)


def _add_synthetic(parser: argparse.ArgumentParser) -> None:
    names = sorted({method for own in METHODS.values() for method in own})
    parser.add_argument("--quick", action="store_true", help="n = 3,000, three subsets")
    parser.add_argument("--methods", nargs="+", choices=names, help="only these")
    parser.add_argument(
        "--again", nargs="+", choices=names, default=[], help="drop the rows of these first"
    )

    def run(options: argparse.Namespace) -> None:
        study = synthetic.QUICK if options.quick else synthetic.FULL
        synthetic.main(study, options.methods, options.again)

    parser.set_defaults(run=run)


if __name__ == "__main__":
    main()
