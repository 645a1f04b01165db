"""The documentation: its code runs, and it leaves no public name out."""

import importlib.util
import inspect
import json
import re
from pathlib import Path

import pytest

import riskalign as ra

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.glob("*.md"))]
REFERENCE = sorted((DOCS / "reference").glob("*.md"))


@pytest.fixture(scope="module")
def pages():
    spec = importlib.util.spec_from_file_location("pages", ROOT / "docs" / "pages.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_code_of_a_page_runs(pages, page, tmp_path):
    found = pages.run(page.read_text(encoding="utf-8"), tmp_path)
    made = {path.name for path in tmp_path.iterdir()}
    assert set(re.findall(r"\(generated/([^)]*)\)", found)) <= made


def test_a_command_that_fails_is_an_error(pages, tmp_path):
    found = pages.run("```console\n$ echo a b\n```\n", tmp_path)
    assert found == "```console\n$ echo a b\na b\n```\n"
    with pytest.raises(RuntimeError, match="ended with 2: riskalign: error: nothing"):
        pages.run("```console\n$ riskalign report nothing.csv\n```\n", tmp_path)


def test_the_cells_of_a_notebook_run(pages, tmp_path, monkeypatch):
    """As in Jupyter: the last value is shown, figures are drawn, `!` is a command."""
    monkeypatch.setattr(pages, "EXAMPLES", tmp_path)
    code = "import matplotlib.pyplot as plt\nx = plt.figure()\n'last'"
    sources = [("markdown", "# T"), ("code", code), ("code", "!echo a b"), ("code", "x = 1")]
    cells = [{"cell_type": kind, "source": [source]} for kind, source in sources]
    (tmp_path / "n.ipynb").write_text(json.dumps({"cells": cells}))
    found = pages.run("<!-- notebook: n.ipynb -->\n", tmp_path)
    expected = f"# T\n\n```python\n{code}\n```\n\n```text\n'last'\n```"
    assert found.startswith(expected)
    assert "(generated/n-0.png)" in found
    assert (tmp_path / "n-0.png").exists()
    assert found.endswith("```console\n$ echo a b\na b\n```\n\n```python\nx = 1\n```\n")


def test_python_prints_below_its_block(pages, tmp_path):
    found = pages.run("```python\nx = 2\n```\n\n```python\nprint(x + 1)\n```\n", tmp_path)
    assert found == "```python\nx = 2\n```\n\n```python\nprint(x + 1)\n```\n\n```text\n3\n```\n"


RESULTS = (
    ra.BandwidthSearch,
    ra.CalibrationResult,
    ra.CalibrationTest,
    ra.Comparison,
    ra.ReliabilityCurve,
    ra.datasets.SyntheticData,
)


def public_objects():
    """Every public function and class by its full name, and the methods of results."""
    for name in set(dir(ra)) - {"__version__"}:
        thing = getattr(ra, name)
        if not inspect.ismodule(thing):
            yield f"riskalign.{name}", thing
            continue
        for inner, part in vars(thing).items():
            ours = inspect.isfunction(part) or inspect.isclass(part)
            if ours and not inner.startswith("_") and part.__module__.startswith(thing.__name__):
                yield f"riskalign.{name}.{inner}", part


def methods():
    for result in RESULTS:
        for name, method in vars(result).items():
            if inspect.isfunction(method) and not name.startswith("_"):
                yield f"{result.__name__}.{name}", method


PUBLIC = dict(public_objects())
METHODS = dict(methods())


def test_there_are_names():
    assert {"riskalign.compare", "riskalign.plots.class_bars"} < set(PUBLIC)
    assert {"riskalign.KernelCalibrator", "riskalign.datasets.wavy"} < set(PUBLIC)
    assert {"CalibrationResult.to_frame", "ReliabilityCurve.band"} < set(METHODS)


@pytest.mark.parametrize("name", sorted(PUBLIC | METHODS))
def test_every_public_name_has_an_example(name):
    text = inspect.cleandoc((PUBLIC | METHODS)[name].__doc__ or "")
    if name.endswith(".to_dict") and name != "CalibrationResult.to_dict":
        text = inspect.cleandoc(vars(ra)[name.split(".")[0]].__doc__)  # shown with the class
        assert "to_dict()" in text
    _, _, examples = text.partition("Examples\n--------\n")
    assert ">>> " in examples


def test_the_reference_has_every_public_name():
    text = "".join(page.read_text() for page in REFERENCE)
    listed = re.findall(r"^::: (\S+)$", text, re.MULTILINE)
    assert len(listed) == len(set(listed))
    assert set(listed) == set(PUBLIC)


def test_the_list_of_all_names_is_that_of_the_reference_pages():
    pages = re.findall(r"\(reference/(\S+)\) \| (.*) \|", (DOCS / "api.md").read_text())
    assert sorted(name for name, _ in pages) == [page.name for page in REFERENCE]
    for name, listed in pages:
        there = re.findall(r"^::: riskalign\.(\S+)$", (DOCS / "reference" / name).read_text(), re.M)
        assert re.findall(r"`([^`]+)`", listed) == there


def test_every_page_is_in_the_navigation():
    navigation = (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")[2]
    listed = re.findall(r": (\S+\.md)$", navigation, re.MULTILINE)
    assert sorted(listed) == sorted(
        str(page.relative_to(DOCS)) for page in [*PAGES[1:], *REFERENCE]
    )


def lines_of_tables(text):
    """Lines of tables as lists of cells, without those below the headers."""
    lines = [line.strip().strip("|") for line in text.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.split("|")] for line in lines if "| --- |" not in line]


@pytest.mark.parametrize(
    ("page", "source", "headers"),
    [
        (
            "history.md",
            "experiments/results/alarm.md",
            ["scenario | rows per window | error | false", "scenario | rows per window | error |"],
        ),
        ("clusters.md", "benchmarks/PAPER.md", ["classes | notion | rows measured"]),
    ],
)
def test_tables_are_those_of_the_results(page, source, headers):
    """Every line of a table that a page copies is in the file that was measured, and no other."""
    text = (DOCS / page).read_text(encoding="utf-8")
    expected = lines_of_tables((ROOT / source).read_text(encoding="utf-8"))
    found = []
    for table in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
        if any(table.startswith(f"| {header}") for header in headers):
            found += lines_of_tables(table)
    assert len(found) > 2
    assert found == expected


def test_coverage_and_width_are_those_of_the_results():
    """The page leaves out the numbers of data sets and says which families were held out."""
    path = ROOT / "experiments" / "results" / "targets.md"
    _, _, rest = path.read_text(encoding="utf-8").partition("\n## Coverage and width by family\n")
    lines = lines_of_tables(rest.partition("\n## ")[0])[1:]
    text = (DOCS / "interval.md").read_text(encoding="utf-8")
    _, _, rest = text.partition("\n| family | class-wise: coverage |")
    found = lines_of_tables(rest.partition("\n\n")[0].partition("\n")[2])
    assert len(found) == 14
    families = [re.sub(r" \((held out|new)\)$", "", name) for name, *_ in found]
    numbers = [[family, *line[1:]] for family, line in zip(families, found, strict=True)]
    assert numbers == [[line[k] for k in (0, 2, 3, 5, 6)] for line in lines]
    assert {line[1] for line in lines} == {"210"}  # as the page says
    assert {line[4] for line in lines} == {"150"}


def test_the_tests_behind_every_promise_exist():
    """Links of "What you can rely on" lead to files, and to what they name in them."""
    text = (DOCS / "reliability.md").read_text(encoding="utf-8")
    promises = [line for line in text.splitlines() if line.startswith("| **")]
    assert len(promises) == 10
    for promise in promises:
        links = re.findall(r"\[`[\w/.]+(?:::(\w+))?`\]\([^)]*/blob/main/(tests/[^)]+)\)", promise)
        assert links, promise
        for name, path in links:
            content = (ROOT / path).read_text(encoding="utf-8")
            assert re.search(rf"^(def|class) {name}\b", content, re.MULTILINE), (name, path)
