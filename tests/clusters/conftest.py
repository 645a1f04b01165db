"""Rows that all engines sketch."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import riskalign as ra

N = 60_000
PAGE = Path(__file__).parents[2] / "docs" / "clusters.md"


@pytest.fixture(scope="session")
def frame():
    """Binary predictions, three classes and groups: more distinct rows than a sketch holds."""
    g = np.random.default_rng(0)
    p = g.beta(0.5, 0.5, N)
    three = g.dirichlet([1, 1, 1], N)
    names = np.array(["a", "b", "c"])
    return pd.DataFrame(
        {
            "y": (g.random(N) < p).astype(np.int64),
            "p": p,
            "kind": names[g.integers(0, 3, N)],
            "p_a": three[:, 0],
            "p_b": three[:, 1],
            "p_c": three[:, 2],
            "day": g.choice(["mon", "tue", "wed"], N, p=[0.98, 0.015, 0.005]),
        }
    )


@pytest.fixture(scope="session")
def binary(frame):
    """Bytes of the sketch of the binary predictions, by one process."""
    return ra.CalibrationSketch().update(frame["y"], frame["p"]).to_bytes()


@pytest.fixture(scope="session")
def classwise(frame):
    """Bytes of the sketch of the three classes, by one process."""
    sketch = ra.CalibrationSketch(notion="classwise", classes=["a", "b", "c"])
    sketch.update(frame["kind"].to_numpy(object), frame[["p_a", "p_b", "p_c"]].to_numpy())
    return sketch.to_bytes()


@pytest.fixture(scope="session")
def days(frame):
    """Bytes of the sketches of days, by one process."""
    return {
        day: ra.CalibrationSketch().update(rows["y"], rows["p"]).to_bytes()
        for day, rows in frame.groupby("day")
    }


@pytest.fixture
def run_page(frame, tmp_path):
    """Run the code of a section of the page on files of the rows; the names that it leaves."""

    def run(section, place, columns, **names):
        folder = tmp_path / "predictions"
        folder.mkdir()
        renamed = frame.rename(columns={"day": "country"} | columns)
        for number, part in enumerate(np.array_split(np.arange(N), 3)):
            renamed.iloc[part].to_parquet(folder / f"part-{number}.parquet", index=False)
        _, _, text = PAGE.read_text(encoding="utf-8").partition(f"\n## {section}\n")
        (code,) = re.findall(r"^```py\n(.*?)^```$", text.partition("\n## ")[0], re.M | re.S)
        assert place in code
        exec(code.replace(place, str(folder)), names)
        return names

    return run
