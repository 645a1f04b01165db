import numpy as np
import pytest
import torch
from experiments import training


def made_up(shift):
    """Rows of a study in which the debiased loss changes every score by `shift`."""
    rng = np.random.default_rng(0)
    columns = ("accuracy", "log_loss", "brier", "top-label", "classwise")
    ends = [f"{name} {end}" for name in columns[3:] for end in ("low", "high")]
    for seed in range(3):
        for method in training.METHODS:
            for scaled in (0.0, 1.0):
                moved = shift if "debiased" in method else 0.0
                yield {
                    "data": "digits", "seed": float(seed), "method": method, "steps": 1.0,
                    "seconds": 1.0, "temperature": 1.0, "scaled": scaled,
                    **{name: 0.5 + moved + 1e-3 * rng.random() for name in columns},
                    **dict.fromkeys(ends, 0.5),
                }  # fmt: skip


@pytest.mark.parametrize(
    ("shift", "words"),
    [
        (0.0, "does **not help**: it lowers no score"),
        (-0.1, "lowers log_loss on digits, brier on digits"),
        (0.1, "does **not help**: it lowers no score; it raises log_loss on digits"),
    ],
)
def test_the_report_says_whether_it_helps(shift, words):
    text = training.report({"steps": list(made_up(shift)), "seconds": list(made_up(0.0))})
    assert f'After temperature scaling, at equal steps, "debiased" {words}' in text
    assert 'at equal seconds, "debiased" does **not help**' in text
    assert "Of 210 networks of the plan (5 seeds), 42 ran: 21 of 105 at equal steps, 21 of" in text
    assert "digits, 1000 steps, 3 seeds" in text
    assert "settled after pilot" in text
    assert "not equally fast" not in text


def test_seeds_are_counted_by_comparison():
    rows = [row for row in made_up(-0.1) if row["seed"] < 2 or row["method"] == "cross-entropy"]
    for row in rows:  # the machine was slower at first
        row["steps"] = 10.0 if row["seed"] == 0 else 25.0
    text = training.report({"steps": list(made_up(0.0)), "seconds": rows})
    assert "36 ran: 21 of 105 at equal steps, 15 of 105 at equal seconds" in text
    assert "digits, 4 CPU seconds, 2 seeds" in text
    assert "| cross-entropy | 3 | 20 |" in text
    assert "| debiased | 2 | 18 |" in text
    assert "| digits | debiased | as trained | 2 | " in text
    assert "(of 4 comparisons with 2 seeds)" in text
    assert "in equal seconds, by seed, were 10 to 25 on digits." in text


def test_one_seed_is_called_so():
    rows = [row for row in made_up(0.0) if row["seed"] < 1]
    text = training.report({"steps": rows, "seconds": []})
    assert "digits, 1000 steps, 1 seed\n" in text
    assert training.ONE_SEED in text


@pytest.mark.parametrize("method", training.METHODS)
def test_every_objective_can_be_trained_with(method):
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(64, 4, generator=generator, requires_grad=True)
    labels = torch.randint(4, (64,), generator=generator)
    training.METHODS[method]()(logits, labels).backward()
    assert torch.isfinite(logits.grad).all()
    assert (logits.grad != 0).any()


@pytest.mark.parametrize(("budget", "size"), [("steps", 50), ("seconds", 0.5)])
def test_a_network_is_trained_and_scored(monkeypatch, budget, size):
    pytest.importorskip("sklearn")
    monkeypatch.setitem(training.BUDGETS[budget], "digits", size)
    cell = {"data": "digits", "seed": 0.0, "method": "cross-entropy"}
    plain, scaled = training.compute(cell, budget)
    assert plain["steps"] == 50 if budget == "steps" else plain["steps"] > 0
    assert plain["accuracy"] == scaled["accuracy"] > 0.2
    assert plain["temperature"] == 1
    assert scaled["top-label low"] <= max(0.0, scaled["top-label"]) <= scaled["top-label high"]
