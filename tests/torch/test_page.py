"""The code of the page runs; without torch, as in the other tests, it would not."""

import importlib.util
import warnings
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def pages():
    spec = importlib.util.spec_from_file_location("pages", ROOT / "docs" / "pages.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_notebook_runs(pages, tmp_path):
    found = pages.run("<!-- notebook: pytorch.ipynb -->", tmp_path)
    assert "epoch 39: The confidence is miscalibrated" in found
    assert "(generated/pytorch-0.png)" in found


def test_the_code_of_the_page_runs(pages, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    text = (ROOT / "docs" / "pytorch.md").read_text(encoding="utf-8")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the other libraries
        found = pages.run(text.replace("```py\n", "```python\n"), tmp_path)
    printed = "".join(part.partition("\n```")[0] for part in found.split("```text\n")[1:])
    assert "tensor(0.0" in printed
    assert "epoch 1:" in printed
    assert "'eval_accuracy': " in printed
    assert "eval_top_label_error" in printed
