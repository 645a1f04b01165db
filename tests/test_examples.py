"""Examples that the documentation shows are those in the folder, and run."""

import importlib.util
import json
import re
import subprocess
import sys
import types
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


class RemoteFunction:
    """What `ray.remote` makes of a function; a call of `remote` is a promise of its value."""

    def __init__(self, function):
        self.function = function

    def remote(self, *arguments):
        return [self.function(*arguments)]


@pytest.fixture
def engines(monkeypatch):
    """Stand-ins for Ray and Apache Beam, with what the page uses of them."""
    ray, beam = types.ModuleType("ray"), types.ModuleType("apache_beam")
    ray.remote, ray.get = RemoteFunction, lambda promises: [value for (value,) in promises]
    beam.CombineFn = type("CombineFn", (), {})
    for module in (ray, beam):
        monkeypatch.setitem(sys.modules, module.__name__, module)


@pytest.fixture
def parts():
    """Labels and predictions in three parts, and the sketch of all."""
    found, whole = [], ra.CalibrationSketch()
    for seed in range(3):
        g = np.random.default_rng(seed)
        p = g.random(400)
        found.append(((g.random(400) < p).astype(int), p))
        whole.update(*found[-1])
    return found, whole


def snippet(engine):
    """The code of clusters.md that imports an engine."""
    text = (ROOT / "docs" / "clusters.md").read_text(encoding="utf-8")
    (code,) = re.findall(rf"^```py\n(import {engine}\b.*?)^```$", text, re.M | re.S)
    return code


def test_the_code_for_ray(engines, parts, tmp_path):
    data, whole = parts
    for k, (y, p) in enumerate(data):
        pq.write_table(pa.table({"y": y, "p": p}), tmp_path / f"{k}.parquet")
    names = {"paths": sorted(tmp_path.iterdir())}
    exec(snippet("ray"), names)
    assert names["merged"].to_bytes() == whole.to_bytes()


def test_the_code_for_beam(engines, parts):
    data, whole = parts
    names = {}
    exec(snippet("apache_beam"), names)
    combiner = names["Sketch"]()
    blobs = []
    for y, p in data:
        blob = combiner.create_accumulator()
        rows = list(zip(y.tolist(), p.tolist(), strict=True))
        for batch in (rows[:150], rows[150:]):
            blob = combiner.add_input(blob, batch)
        blobs.append(blob)
    merged = combiner.merge_accumulators([combiner.create_accumulator(), *blobs])
    assert merged == whole.to_bytes()
    expected = whole.calibration_error(confidence=0.95)
    found = combiner.extract_output(merged)
    assert (found.value, found.interval) == (expected.value, expected.interval)


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
