"""What pyproject.toml declares is what `make test-lowest` installs and what the lock admits."""

import re
import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
ELSEWHERE = {
    "riskalign",
    "import-linter",
    "mypy",
    "ruff",
    "torch",
    "torchmetrics",
    "dask",
    "pyspark",
}
"""Tools that no test imports, and what `make test-torch` and `make test-clusters` install."""


@pytest.fixture(scope="module")
def declared():
    """What the package and its tests require; other extras have tests of their own."""
    if sys.version_info < (3, 11):
        pytest.skip("tomllib is there from Python 3.11 on")
    import tomllib

    content = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    lists = [
        content["project"]["dependencies"],
        *content["project"]["optional-dependencies"].values(),
        content["dependency-groups"]["test"],
    ]
    found = [Requirement(text) for each in lists for text in each if isinstance(text, str)]
    tested = {Requirement(text).name for each in (lists[0], lists[-1]) for text in each}
    return [each for each in found if each.name in tested - ELSEWHERE]


def pinned(name):
    text = (ROOT / "requirements" / name).read_text(encoding="utf-8")
    return dict(re.findall(r"^([\w.-]+)==(\S+)$", text.lower(), re.MULTILINE))


def test_the_lowest_versions_are_those_declared(declared):
    lowest = pinned("lowest.txt")
    for each in declared:
        (bound,) = (part.version for part in each.specifier if part.operator in (">=", "=="))
        found = lowest[each.name.lower()]
        assert found == bound or found.startswith(f"{bound}."), each


def test_the_lock_admits_what_is_declared(declared):
    locked = pinned("lock.txt")
    for each in declared:
        assert each.specifier.contains(locked[each.name.lower()]), each


@pytest.mark.parametrize("name", ["lowest.txt", "lock.txt"])
def test_requirements_are_versions_alone(name):
    """No addresses, no paths, no hashes of one platform's files."""
    lines = (ROOT / "requirements" / name).read_text(encoding="utf-8").splitlines()
    for line in lines:
        assert re.fullmatch(r"#.*|[\w.-]+==[\w.]+", line), line


def test_the_version_is_the_same_everywhere():
    version = re.search(r'^__version__ = "(.+)"$', _text("src/riskalign/__init__.py"), re.M)[1]
    assert re.search(r"^version: (.+)$", _text("CITATION.cff"), re.M)[1] == version
    heading = re.search(r"^## \[(\d.*?)\] - (\S+)$", _text("CHANGELOG.md"), re.M)
    assert heading[1] == version
    assert re.search(r"^date-released: (.+)$", _text("CITATION.cff"), re.M)[1] == heading[2]


def _text(name):
    return (ROOT / name).read_text(encoding="utf-8")
