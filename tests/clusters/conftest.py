"""Rows that all engines sketch."""

import numpy as np
import pandas as pd
import pytest

import riskalign as ra

N = 60_000


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
