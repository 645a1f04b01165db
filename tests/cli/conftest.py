"""A file of predictions, and a command line that is run in this process."""

import numpy as np
import pytest

import riskalign as ra
from riskalign.cli import main


@pytest.fixture(scope="module")
def three():
    return ra.datasets.temperature(300, 3, t2=0.4, seed=0)


@pytest.fixture
def file(three, tmp_path):
    path = tmp_path / "three.npz"
    np.savez(path, labels=three.y_true, probs=three.y_prob)
    return path


@pytest.fixture
def run(capsys):
    def run_command(*arguments):
        try:
            code = main([str(argument) for argument in arguments])
        except SystemExit as leaving:  # argparse
            code = leaving.code
        found = capsys.readouterr()
        return code, found.out, found.err

    return run_command
