"""Examples that the documentation shows are those in the folder, and run."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import riskalign as ra

ROOT = Path(__file__).parents[1]


def test_sketches_in_processes(tmp_path):
    """Two processes print what one prints."""
    sketch = ra.CalibrationSketch()
    for part in range(3):
        g = np.random.default_rng(part)
        p = g.random(400)
        y = (g.random(400) < p).astype(int)
        pq.write_table(pa.table({"y": y, "p": p}), tmp_path / f"{part}.parquet")
        sketch.update(y, p)
    example = ROOT / "examples" / "processes.py"
    done = subprocess.run(
        [sys.executable, str(example), str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == str(sketch.calibration_error(confidence=0.95)).strip()


def test_the_page_shows_the_example():
    code = (ROOT / "examples" / "processes.py").read_text().split('"""\n\n', 1)[1].rstrip()
    assert code in (ROOT / "docs" / "clusters.md").read_text()


NOTEBOOKS = sorted(path.stem for path in (ROOT / "examples").glob("*.ipynb"))
ON_PAGES = {"ci-gate", "language-model", "rare-class"}  # run with the pages that show them


def test_every_notebook_is_run_somewhere():
    assert set(NOTEBOOKS) == ON_PAGES | {"scikit-learn", "pytorch"}  # the last in tests/torch
    for name in ON_PAGES:
        page = (ROOT / "docs" / f"{name}.md").read_text()
        assert f"<!-- notebook: {name}.ipynb -->" in page


def test_the_notebook_of_scikit_learn_runs(tmp_path):
    spec = importlib.util.spec_from_file_location("pages", ROOT / "docs" / "pages.py")
    pages = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(pages)
    found = pages.run("<!-- notebook: scikit-learn.ipynb -->", tmp_path)
    assert found.count("<svg") >= 2
    assert found.count("(generated/scikit-learn-") == 2


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_notebooks_hold_no_output(name):
    notebook = json.loads((ROOT / "examples" / f"{name}.ipynb").read_text(encoding="utf-8"))
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    for cell in notebook["cells"]:
        assert cell["id"]
        if cell["cell_type"] == "code":
            assert cell["outputs"] == []
            assert cell["execution_count"] is None
