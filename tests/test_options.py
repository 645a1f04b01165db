"""What users may say: a loss of their own is checked, and defaults are the same everywhere."""

import json

import numpy as np
import pytest
from cases import ordinary

import riskalign as ra
from riskalign.cli import main
from riskalign.report import summarize

Y, F = [0, 1, 2, 0], np.full((4, 3), 1 / 3)


@pytest.mark.parametrize(
    ("outcomes", "message"),
    [
        (lambda f: f * np.nan, r"`loss='mine'` must be finite"),
        (lambda f: f.sum(axis=1), r"must map predictions \(n, K\) to losses \(n, K\)"),
    ],
)
@pytest.mark.parametrize("notion", ["classwise", "canonical"])
def test_a_loss_of_the_users_own_is_checked(outcomes, message, notion):
    with pytest.raises(ValueError, match=message):
        ra.calibration_error(Y, F, loss=ra.ProperLoss("mine", outcomes), notion=notion)


def test_a_logarithm_without_a_floor_is_told_what_to_do():
    def bare_log(f):
        with np.errstate(divide="ignore"):
            return -np.log(f)

    with pytest.raises(ValueError, match=r"Floor what a logarithm"):
        ra.calibration_error(Y, F, loss=ra.ProperLoss("bare", bare_log))


@pytest.mark.parametrize(
    ("alias", "name"),
    [("brier", "l2"), ("log", "kl"), ("logloss", "kl"), ("rps", "ranked"), ("KL", "kl")],
)
def test_a_loss_has_other_names_that_results_do_not_show(alias, name):
    data = ra.datasets.temperature(60, 3, seed=0)
    y, p = data.y_true, data.y_prob
    sketch = ra.CalibrationSketch(classes=3).update(y, p)
    for ask in (
        lambda loss: ra.calibration_error(y, p, loss=loss, bandwidth=0.1),
        lambda loss: ra.compare(y, p, p[:, ::-1], loss=loss),
        lambda loss: sketch.calibration_error(loss=loss, bandwidth=0.1),
        lambda loss: summarize(y, p, loss=loss, n_draws=0).result,
    ):
        found, expected = ask(alias), ask(name)
        assert found.loss == expected.loss == name
        assert repr(found) == repr(expected)


class Predicted:
    """A fitted classifier that answers with given probabilities."""

    def __init__(self, p):
        self.p, self.classes_ = p, np.arange(p.shape[1])

    def predict_proba(self, X):
        return self.p


def notions_by_door(y, p, directory):
    """The notion by default, or a sign of it, of every way in."""
    options = {"bandwidth": 0.1}
    yield "calibration_error", ra.calibration_error(y, p, **options).notion
    yield "calibration_test", ra.calibration_test(y, p, n_draws=9).notion
    yield "compare", ra.compare(y, p, p[::-1]).notion
    sketch = ra.CalibrationSketch(classes=None if p.ndim == 1 else p.shape[1])
    yield "CalibrationSketch", sketch.update(y, p).calibration_error(**options).notion
    yield (
        "calibration_error_of_batches",
        ra.calibration_error_of_batches([(y, p)], **options).notion,
    )
    yield "summarize", summarize(y, p).result.notion
    table, answer = directory / "rows.csv", directory / "answer.json"
    names = ["p"] if p.ndim == 1 else [f"p_{k}" for k in range(p.shape[1])]
    rows = zip(y.tolist(), p.reshape(len(y), -1).tolist(), strict=True)
    lines = [",".join(map(str, (label, *row))) for label, row in rows]
    table.write_text("\n".join([",".join(["label", *names]), *lines]) + "\n")
    assert main(["report", str(table), "--draws", "0", "--json", str(answer)]) == 0
    yield "riskalign report", json.loads(answer.read_text())["notion"]
    assert main(["compare", str(table), str(table), "--json", str(answer)]) == 0
    yield "riskalign compare", json.loads(answer.read_text())["notion"]


@pytest.mark.parametrize(
    ("n_classes", "form", "expected"),
    [(2, "one", "binary"), (2, "two", "binary"), (3, "all", "classwise")],
)
def test_all_doors_agree_on_the_notion(n_classes, form, expected, tmp_path):
    case = ordinary(40, n_classes)
    y, p = case.y, case.f[:, 1] if form == "one" else case.f
    found = dict(notions_by_door(y, p, tmp_path))
    assert found == dict.fromkeys(found, expected)


def test_results_of_two_columns_have_the_shapes_of_one_probability():
    case = ordinary(40, 2)
    y, f = case.y, case.f
    assert np.shape(ra.select_bandwidth(y, f).value) == ()
    assert ra.reliability_curve(y, f, bandwidth=0.1, grid=7).conditional.shape == (7,)
    sketch = ra.CalibrationSketch(classes=2).update(y, f)
    assert sketch.reliability_curve(grid=7).conditional.shape == (7,)
    assert np.shape(sketch.select_bandwidth().value) == ()
    whole = ra.calibration_error(y, f)
    assert whole.value == ra.calibration_error(y, f[:, 1]).value
    assert whole.conditional.shape == (40,)
    score = ra.calibration_scorer()(Predicted(f), np.zeros((40, 1)), y)
    assert score == -whole.value
    more = ordinary(40, 3)
    score = ra.calibration_scorer()(Predicted(more.f), np.zeros((40, 1)), more.y)
    assert score == -ra.calibration_error(more.y, more.f, notion="classwise").value


def test_pictures_of_two_columns_are_of_the_second():
    case = ordinary(60, 2)
    pictures = [ra.plots.reliability_diagram(case.y, p) for p in (case.f, case.f[:, 1])]
    one, two = (ax.lines[0].get_ydata() for ax in pictures)
    np.testing.assert_array_equal(one, two)
    assert pictures[0].get_xlabel() == "predicted probability of class 1"


@pytest.mark.parametrize("seed", [-1, 1.5, "0", True, None])
def test_seeds_are_integers_from_0_up(seed):
    case = ordinary(20, 3)
    calls = (
        lambda: ra.calibration_error(case.y, case.f, seed=seed),
        lambda: ra.calibration_test(case.y, case.f, seed=seed),
        lambda: ra.compare(case.y, case.f, case.f, seed=seed),
        lambda: ra.CalibrationSketch(classes=3).update(case.y, case.f).calibration_test(seed=seed),
    )
    for call in calls:
        with pytest.raises(ValueError, match="`seed` must be an integer from 0 up"):
            call()
