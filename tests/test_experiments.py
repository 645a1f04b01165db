"""The reproduction: resumed, aggregated and judged rightly, on small runs and made-up tables."""

import csv
from dataclasses import replace

import numpy as np
import pytest
from experiments import (
    band,
    claims,
    comparing,
    figure_claims,
    finite,
    real,
    report,
    ridge,
    rounding,
    synthetic,
    theory,
    versions,
)
from experiments.__main__ import main
from experiments.cells import load
from experiments.estimators import METHODS, rows_of
from experiments.synthetic import COLUMNS, SETTINGS, Study, aggregate, cells
from experiments.tables import PUBLISHED, published, save

import riskalign as ra

PUBLISHED_COLUMNS = [
    *("table", "t1", "t2", "dataset", "model", "notion", "divergence", "n_classes", "method"),
    *("mae_x100", "sd_x100"),
]


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    folder = tmp_path_factory.mktemp("results")
    made = Study(n=300, subsets=2, folder=folder, settings=SETTINGS[:1], classes=(3,))
    synthetic.main(made)
    return made


def test_the_published_figures_are_all_there():
    with PUBLISHED.open() as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == PUBLISHED_COLUMNS
    assert len(rows) == 432
    assert len(published("synthetic")) == 336
    assert len(published("real")) == 96


def test_every_method_has_its_row(study):
    rows = load(study.table)
    assert list(rows[0]) == list(COLUMNS)
    assert list(COLUMNS)[: len(PUBLISHED_COLUMNS)] == PUBLISHED_COLUMNS
    found = {(r["notion"], r["divergence"], r["method"], r["truth"]) for r in rows}
    expected = {
        (notion, divergence, method, truth)
        for notion, methods in METHODS.items()
        for method in methods
        for divergence in (("l2",) if method == "krr" else ("l2", "kl"))
        for truth in (("joint", "marginal") if notion == "classwise" else ("joint",))
    }
    assert found == expected
    assert {r["subsets"] for r in rows if r["method"] == "always-zero"} == {2.0}


def test_a_cell_that_is_done_is_not_done_again(study, monkeypatch):
    before = study.raw.read_text()
    computed = []
    original = synthetic.estimate
    monkeypatch.setattr(
        synthetic, "estimate", lambda s, cell: computed.append(cell) or original(s, cell)
    )
    synthetic.main(study)
    assert not computed
    lines = before.splitlines(keepends=True)
    study.raw.write_text("".join(lines[:-2]))  # stopped before the last cell, which has two rows
    synthetic.main(study)
    assert len(computed) == 1
    assert _values(study.raw.read_text()) == _values(before)


def _values(text):
    return [line.split(",")[:9] for line in text.splitlines()]  # all but the seconds


def test_again_forgets_one_method_alone(study):
    rows = load(study.raw)
    synthetic.forget(study, "equal-mass-10")
    left = load(study.raw)
    assert len(left) == len(rows) - 4  # two subsets, two divergences
    assert not any(row["method"] == "equal-mass-10" for row in left)
    synthetic.main(study, again=["equal-mass-10"])
    assert len(load(study.raw)) == len(rows)


def test_errors_are_of_the_library_against_the_pools_truth(study):
    """One figure of the table, by hand."""
    t1, t2 = SETTINGS[0]
    blocks = [synthetic.block(300, 3, t1, t2, number) for number in range(10)]
    truth = np.mean([b.truth("classwise", "l2") for b in blocks])
    gaps = [
        200
        * abs(
            ra.calibration_error(
                b.y_true, b.y_prob, notion="classwise", method=ra.EqualWidthBins(15)
            ).value
            - truth
        )
        for b in blocks[:2]
    ]
    (row,) = (
        r
        for r in load(study.table)
        if (r["notion"], r["divergence"], r["method"], r["truth"])
        == ("classwise", "l2", "equal-width-15", "joint")
    )
    assert row["mae_x100"] == pytest.approx(np.mean(gaps), rel=1e-3)
    assert row["se_x100"] == pytest.approx(np.std(gaps, ddof=1) / 2**0.5, rel=1e-3)
    assert row["truth_x100"] == pytest.approx(200 * truth, rel=1e-3)
    assert row["factor"] == 2


def test_aggregation_of_made_up_rows():
    place = {"t1": 1.0, "t2": 0.8, "n_classes": 4.0, "notion": "canonical", "divergence": "kl"}
    raw = [
        {**place, "method": "krr", "n": 100.0, "value": value} for value in (0.3, 0.1, float("nan"))
    ]
    (row,) = aggregate(raw, [{**place, "truth": "joint", "value": 0.2}])
    assert row["mae_x100"] == pytest.approx(10)
    assert row["bias_x100"] == pytest.approx(0, abs=1e-9)
    assert (row["subsets"], row["factor"]) == (2, 1)  # what has no answer does not count
    (alone,) = aggregate(raw[:1], [{**place, "truth": "joint", "value": 0.2}])
    assert alone["se_x100"] == ""  # one subset says nothing about its error
    (none,) = aggregate(raw[2:], [{**place, "truth": "joint", "value": 0.2}])
    assert (none["mae_x100"], none["subsets"]) == ("", 0)


def test_subset_zero_of_everything_comes_before_the_last_of_anything():
    order = [(c["notion"], c["subset"]) for c in cells(Study())]
    assert order.index(("canonical", 0.0)) < order.index(("classwise", 9.0))
    assert len(order) == 16 * 10 * (len(METHODS["classwise"]) + len(METHODS["canonical"]))


def test_the_dear_estimate_has_fewer_samples_and_says_so(tmp_path):
    small = Study(n=200, subsets=2, folder=tmp_path, debiased_n=100, debiased_subsets=1)
    cell = {"t1": 1.0, "t2": 0.8, "n_classes": 3.0, "subset": 0.0, "method": "debiased"}
    assert {r["n"] for r in synthetic.estimate(small, cell | {"notion": "canonical"})} == {100}
    assert {r["n"] for r in synthetic.estimate(small, cell | {"notion": "classwise"})} == {200}
    assert {c["subset"] for c in cells(small, ["debiased"])} == {0.0}
    quick = [c for c in cells(synthetic.QUICK) if c["method"] == "debiased"]
    assert {(c["t1"], c["t2"], c["subset"]) for c in quick} == {(1.0, 0.8, 0.0)}


def test_ridge_at_low_rank_is_the_librarys():
    data = ra.datasets.temperature(1_200, 4, t2=0.5, seed=1)
    found = ridge.squared_error(data.y_true, data.y_prob)
    exact = ra.calibration_error(
        data.y_true, data.y_prob, notion="canonical", method=ra.KernelRidge()
    )
    assert exact.value > 0.005
    assert found.value == pytest.approx(exact.value, rel=0.02)
    assert found.residual <= ridge.SMALL
    assert found.rank < 200
    # what is left out is measured, not assumed
    few = ridge.features(data.y_prob, 0.0, most=2)
    more = ridge.features(data.y_prob, 0.0, most=20)
    measured = [ridge.largest_left_out(data.y_prob, phi) for phi in (few, more)]
    assert measured[0] > 10 * measured[1]


def test_methods_without_an_answer_say_so():
    data = ra.datasets.temperature(40, 30, seed=0)
    rows = rows_of("equal-width-15", "canonical", data.y_true, data.y_prob)
    assert all(np.isnan(row["value"]) for row in rows)
    assert rows[0]["note"] == "no two samples in one cell"


def test_student_interval():
    low, high = finite.interval(np.array([1.0, 2.0, 3.0]))
    assert (low, high) == pytest.approx((2 - 4.302653 / 3**0.5, 2 + 4.302653 / 3**0.5))


def test_theory_of_section_5_2():
    rows = theory.study("l2", draws=60, bandwidths=np.array([0.0003, 0.001]))
    for row in rows:  # bias = +- variance where smoothing bias is small
        assert row["calibration"] == pytest.approx(row["variance"], abs=4 * row["se_calibration"])
        assert abs(row["risk"]) < 4 * row["se_risk"]


@pytest.fixture
def folder(tmp_path):
    """Two prediction files: three classes, and logits of two."""
    data = ra.datasets.temperature(900, 3, t2=0.5, seed=2)
    np.savez(tmp_path / "made_three.npz", labels=data.y_true, probs=data.y_prob)
    two = ra.datasets.temperature(900, 2, t2=0.5, seed=3)
    np.savez(tmp_path / "made_two.npz", labels=two.y_true, logits=np.log(two.y_prob))
    return tmp_path


def test_real_protocol(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(real, "SUBSETS", 3)
    monkeypatch.setattr(real, "SHARES", (3, 9))
    results = tmp_path / "results"
    methods = ["always-zero", "equal-width-15", "kde-risk-alignment", "krr"]
    real.main(folder, results, methods)
    rows = load(results / "real.csv")
    assert list(rows[0])[: len(PUBLISHED_COLUMNS)] == PUBLISHED_COLUMNS
    assert {(r["dataset"], r["model"], r["notion"]) for r in rows} == {
        ("made", "three", "classwise"),
        ("made", "three", "canonical"),
        ("made", "two", "binary"),
    }
    assert {(r["n"], r["population"], r["subsets"]) for r in rows} == {(300.0, 900.0, 3.0)}
    whole = real.read(folder / "made_three.npz")
    proxy = ra.calibration_error(whole.y, whole.f, estimator="plugin", bandwidth="risk-alignment")
    zero = next(
        r
        for r in rows
        if (r["method"], r["notion"], r["divergence"]) == ("always-zero", "classwise", "l2")
    )
    assert zero["mae_x100"] == pytest.approx(200 * proxy.value, rel=1e-3)
    canonical = {
        r["divergence"]: str(r["truth"]).split()[0] for r in rows if r["notion"] == "canonical"
    }
    assert canonical == {"l2": "krr", "kl": "kde-risk-alignment"}
    before = (results / "real_raw.csv").read_text()
    real.main(folder, results, methods)
    assert (results / "real_raw.csv").read_text() == before


def test_subsets_are_drawn_without_replacement(folder):
    whole = real.read(folder / "made_three.npz")
    first, second = (whole.subset(300, number) for number in (0, 1))
    assert len(np.unique(first[1], axis=0)) == 300
    assert (first[1] != second[1]).any()


def _row(notion, divergence, classes, **errors):
    place = {"t1": 1.0, "t2": 0.8, "notion": notion, "divergence": divergence}
    return [
        {**place, "n_classes": classes, "method": method.replace("_", "-"), "mae_x100": value}
        for method, value in errors.items()
    ]


def test_verdicts_are_counted():
    assert [claims.verdict(held, 10) for held in (10, 9, 6, 5, 0)] == [
        "held",
        "mostly held",
        "partly held",
        "did not hold",
        "did not hold",
    ]
    assert claims.verdict(0, 0) == "not run"
    good = _row("classwise", "l2", 4.0, kde_risk_alignment=1.0, kde_likelihood=2.0, debiased=0.1)
    bad = _row("classwise", "l2", 8.0, kde_risk_alignment=3.0, kde_likelihood=2.0)
    claim = claims.synthetic_claims([*good, *bad], good)[0]
    assert claim.verdict == "did not hold"  # one of two; what the paper lacks does not count
    assert claim.evidence.startswith(
        "1 of 2 cells here; 1 of 1 as published; not in t = (1.0, 0.8)"
    )
    assert claims.synthetic_claims(good, good)[0].verdict == "held"
    assert claims.debiased_claim(good).verdict == "held"
    assert claims.debiased_claim(bad).verdict == "not run"
    published = [row for row in good if row["method"] != "debiased"]
    best = claims.best_published_claim(good, published)
    assert (best.verdict, best.evidence) == ("held", "classwise, the paper's truth: 1 of 1")
    worse = _row("classwise", "l2", 4.0, debiased=1.5)
    assert claims.best_published_claim(worse, published).verdict == "did not hold"
    assert claims.best_published_claim(bad, published).verdict == "not run"


def test_the_null_row_judges():
    rows = _row("canonical", "l2", 4.0, kde_risk_alignment=1.0, always_zero=0.5)
    assert claims.worse_than_nothing(rows).verdict == "did not hold"


def test_verdicts_of_figures_follow_their_numbers():
    def made(risk):
        return [
            {"loss": "l2", "variance": v, "calibration": v, "refinement": risk * v - v,
             "risk": risk * v}
            for v in (1.0, 2.0, 3.0, 4.0)
        ]  # fmt: skip

    assert figure_claims.theory_claim(made(0.0)).verdict == "held"
    assert figure_claims.theory_claim(made(0.9)).verdict == "did not hold"
    rows = [
        {"criterion": criterion, "n": n, "bandwidth": n**power}
        for criterion, power in (("likelihood", -0.8), ("risk-alignment", -0.2))
        for n in (100.0, 1000.0)
    ]
    assert figure_claims.bandwidth_claim(rows).verdict == "held"
    swapped = [
        {**r, "criterion": "likelihood" if r["criterion"] == "risk-alignment" else "risk-alignment"}
        for r in rows
    ]
    assert figure_claims.bandwidth_claim(swapped).verdict == "did not hold"


def test_report_of_a_small_study(study, tmp_path):
    for name in ("theory.csv", "bandwidth.csv", "kernels.csv", "real.csv"):
        save(study.folder / name, ["nothing"], [])
    report.main(study.folder, tmp_path / "REPORT.md")
    text = (tmp_path / "REPORT.md").read_text()
    assert "Synthetic tables at n = 300 (where not, the tables say so), 2 subsets a cell" in text
    assert "#### t = (1.0, 0.8), canonical, KL" in text
    assert "Models and splits are not the paper's" in text
    (row,) = (
        r
        for r in load(study.table)
        if (r["notion"], r["divergence"], r["method"]) == ("canonical", "l2", "krr")
    )
    assert report.number(row["mae_x100"]) in text


def test_report_of_nothing_says_so(tmp_path):
    report.main(tmp_path, tmp_path / "REPORT.md")
    text = (tmp_path / "REPORT.md").read_text()
    assert "The synthetic tables have not been run." in text
    assert "**not run**" in text
    assert "**held**" not in text


def test_several_processes_give_the_rows_of_one(study, tmp_path):
    again = replace(study, folder=tmp_path)
    synthetic.main(again, ["always-zero", "equal-width-15"], jobs=2)
    wanted = [r for r in load(study.raw) if r["method"] in ("always-zero", "equal-width-15")]
    both = [
        sorted((r["notion"], r["divergence"], r["method"], r["subset"], r["value"]) for r in rows)
        for rows in (wanted, load(again.raw))
    ]
    assert both[0] == both[1]


def test_pictures_with_errors_below_zero(tmp_path):
    rows = [
        {"notion": "canonical", "divergence": "kl", "n_classes": 4.0, "method": "debiased",
         "n": float(n), "mean_x100": m, "low_x100": m - 1, "high_x100": m + 1, "truth_x100": 1.0}
        for n, m in ((100, -0.5), (1000, 0.9))
    ]  # fmt: skip
    finite.draw(rows, "canonical", "kl", tmp_path / "a.png")  # below zero, on a logarithmic axis
    assert (tmp_path / "a.png").stat().st_size > 5_000


def test_discrete_scores_are_multiples_that_sum_to_one():
    f = ra.datasets.temperature(500, 4, seed=0).y_prob
    found = rounding.in_steps(f, 10)
    assert found.sum(axis=1) == pytest.approx(np.ones(500))
    assert 10 * found == pytest.approx(np.round(10 * found))
    assert np.abs(found - f).max() < 0.1


def test_rounding_of_a_small_sample():
    cell = {"data": "tenths", "classes": 3.0, "samples": 400.0, "notion": "classwise"}
    rows = rounding.compute(cell, rounding.read_family)
    assert [row["loss"] for row in rows] == ["l2", "kl"]
    assert max(abs(row["difference"]) for row in rows) < rounding.TO_REACH
    assert "0 beyond" in rounding.report([cell | row for row in rows])


def test_versions_are_compared_by_data_sets_and_not_by_losses():
    place = {"family": "wavy", "classes": 2.0, "samples": 500.0, "notion": "classwise"}
    rows = [
        {**place, "seed": seed, "loss": loss, "truth": 1.0,
         "first value": 1.2, "first low": 1.1, "first high": 1.6,
         "new value": 1.1 - 0.02 * seed, "new low": 0.9, "new high": 1.3}
        for seed in (0.0, 1.0, 2.0)
        for loss in ("l2", "kl")
    ]  # fmt: skip
    mean, error, width = versions.mean_and_error(rows, np.arange(6.0))
    assert (mean, error) == pytest.approx((2.5, 2 / 3**0.5))  # means 0.5, 2.5, 4.5
    assert width == pytest.approx(2.919986 * error)
    shown = versions.line(rows)
    assert shown[:2] == ["3", "0.400"]  # errors 0.1, 0.08, 0.06 over 0.2
    assert shown[4] == "new is better"
    assert versions.verdict(1.0, 0.5) == "new is worse"
    assert versions.verdict(0.1, float("nan")) == ""


def test_command_line(capsys, monkeypatch):
    monkeypatch.delenv("RISKALIGN_DATA", raising=False)
    main(["real"])
    assert "name one with --data or in RISKALIGN_DATA" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["synthetic", "--methods", "guessing"])


def test_models_to_compare_are_calibrated_and_alike():
    y, first, second = comparing.pair_of(200_000, 3, 0.6, (1.0, 1.0), 0)
    for f in (first, second):
        for k in range(3):
            near = np.abs(f[:, k] - 0.4) < 0.02
            assert np.mean(y[near] == k) == pytest.approx(f[near, k].mean(), abs=0.02)
    _, sharp, same = comparing.pair_of(50, 3, 0.6, (2.0, 1.0), 0)
    _, plain, other = comparing.pair_of(50, 3, 0.6, (1.0, 1.0), 0)
    np.testing.assert_array_equal(same, other)
    np.testing.assert_allclose(sharp, plain**2 / np.sum(plain**2, axis=1, keepdims=True))


def test_bands_of_a_small_study(tmp_path, monkeypatch):
    monkeypatch.setattr(band, "POOL", 20_000)
    monkeypatch.setattr(band, "SAMPLES", (300,))
    monkeypatch.setattr(band, "RESULTS", tmp_path)
    first = next(band.cells(1))
    rows = [first | row for row in band.compute(first)]
    assert [row["target"] for row in rows] == ["class 0", "class 3", "top-label"]
    for row in rows:
        assert 0 <= row["pointwise held"] <= row["simultaneous held"] <= row["points"]
        assert 0 < row["pointwise width"] < row["simultaneous width"]
    band.write(rows)
    assert "| temperature | top-label | 1 |" in (tmp_path / "band.md").read_text()


def test_coverage_is_weighted_by_points():
    rows = [
        {"points": 10.0, "pointwise held": 9.0, "simultaneous held": 10.0},
        {"points": 30.0, "pointwise held": 30.0, "simultaneous held": 29.0},
    ]
    for row in rows:
        row |= {"family": "a", "pointwise width": 0.1, "simultaneous width": 0.2}
    # residuals 9 - 9.75 and 30 - 29.25: a standard error of sqrt(2 x 0.75^2) / 40
    expected = "| a | 2 | 20 | 0.975 ± 0.027 | 10.0 | 0.500 ± 0.354 | 20.0 |"
    assert expected in band.report(rows, "family")
