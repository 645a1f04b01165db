"""Numbers that independent implementations give for the same definitions.

Where a peer's definition differs, a test says how: the peer agrees once the difference is
taken out of the data. `docs/definitions.md` has the differences in words.
"""

import runpy
from pathlib import Path

import calibration as uncertainty_calibration
import numpy as np
import pytest
import relplot
import torch
from calibration.utils import get_equal_bins, get_equal_prob_bins, lower_bound_scaling_ce
from mapie.metrics.calibration import cumulative_differences, kuiper_statistic, length_scale
from model_diagnostics.scoring import LogLoss, SquaredError, decompose
from sklearn.calibration import calibration_curve
from sklearn.datasets import load_digits
from sklearn.model_selection import cross_val_predict
from sklearn.naive_bayes import GaussianNB
from torchmetrics.functional.classification import (
    binary_calibration_error,
    multiclass_calibration_error,
)

import riskalign as ra
from riskalign.equations.losses import L2
from riskalign.equations.problem import Problem
from riskalign.methods.binning import BinMeans
from riskalign.methods.smooth_ece import SmoothedResiduals


def spread_out(n, n_classes, seed=0):
    data = ra.datasets.temperature(n, n_classes, t1=1.0, t2=0.6, seed=seed)
    return data.y_true, data.y_prob


def binary(n, seed=0):
    y, f = spread_out(n, 2, seed)
    return y, f[:, 1]


def digits():
    """Predictions of naive Bayes: many of them are exactly 0 or 1."""
    X, y = load_digits(return_X_y=True)
    f = cross_val_predict(GaussianNB(var_smoothing=1e-3), X, y, method="predict_proba")
    assert (f.max(axis=1) == 1.0).mean() > 0.1
    return y, f


def value(y, p, method, **options):
    return ra.calibration_error(y, p, method=method, **options).value


# scikit-learn: the means in each bin.


@pytest.mark.parametrize("strategy", ["uniform", "quantile"])
@pytest.mark.parametrize("n_bins", [3, 10, 15])
@pytest.mark.parametrize("ties", [False, True])
def test_bin_means_are_those_of_scikit_learn(strategy, n_bins, ties):
    """n is a multiple of the number of bins: scikit-learn interpolates its quantiles."""
    y, p = binary(600)
    if ties and strategy == "uniform":
        p = np.round(p * 2 * n_bins) / (2 * n_bins)  # on edges and half way between
    kind = ra.EqualWidthBins if strategy == "uniform" else ra.EqualMassBins
    edges = kind(n_bins)._upper_edges(p, np.ones(600))
    bins = BinMeans.of(Problem("", p, y, np.ones(600), L2.binary), edges)
    mean_label, mean_prediction = calibration_curve(y, p, n_bins=n_bins, strategy=strategy)
    np.testing.assert_allclose(bins.label[bins.held], mean_label, rtol=1e-12)
    np.testing.assert_allclose(bins.prediction[bins.held], mean_prediction, rtol=1e-12)


# torchmetrics: the classical norms of top-label and binary errors.


SINGLE = 3e-5
"""Relative: torchmetrics adds thousands of multi-class confidences in float32."""


def torchmetrics_error(y, f, n_bins, norm):
    if f.ndim == 1:
        return float(
            binary_calibration_error(torch.tensor(f), torch.tensor(y), n_bins=n_bins, norm=norm)
        )
    return float(
        multiclass_calibration_error(
            torch.tensor(f), torch.tensor(y), f.shape[1], n_bins=n_bins, norm=norm
        )
    )


@pytest.mark.parametrize("norm", ["l1", "l2", "max"])
@pytest.mark.parametrize("n_bins", [1, 10, 15])
@pytest.mark.parametrize("n_classes", [2, 4, 10])
def test_top_label_norms_are_those_of_torchmetrics(n_classes, n_bins, norm):
    y, f = spread_out(2000, n_classes)
    method = ra.EqualWidthBins(n_bins, norm=norm)
    expected = torchmetrics_error(y, f, n_bins, norm)
    ours = value(y, f, method, notion="top-label")
    np.testing.assert_allclose(ours, expected, rtol=SINGLE)


@pytest.mark.parametrize("norm", ["l1", "l2", "max"])
def test_binary_norms_are_those_of_torchmetrics(norm):
    y, p = binary(2000)
    expected = torchmetrics_error(y, p, 15, norm)
    np.testing.assert_allclose(value(y, p, ra.EqualWidthBins(15, norm=norm)), expected, rtol=1e-12)


@pytest.mark.parametrize("norm", ["l1", "l2", "max"])
def test_torchmetrics_gives_certainty_a_bin_of_its_own(norm):
    """Predictions of exactly 1 share the last bin here; just below 1 they do so there too."""
    p = np.repeat([0.95, 1.0], 50)
    y = np.concatenate([np.ones(50, int), np.ones(40, int), np.zeros(10, int)])
    ours = value(y, p, ra.EqualWidthBins(15, norm=norm))
    assert abs(ours - torchmetrics_error(y, p, 15, norm)) > 0.01
    below = np.where(p == 1.0, np.nextafter(1.0, 0.0), p)
    np.testing.assert_allclose(ours, torchmetrics_error(y, below, 15, norm), rtol=1e-9)


def test_torchmetrics_puts_an_edge_into_the_bin_above():
    y, p = binary(2000)
    p = np.round(p * 8) / 8  # edges of four bins, exact in binary, and half way between
    ours = value(y, p, ra.EqualWidthBins(4, norm="l1"))
    assert abs(ours - torchmetrics_error(y, p, 4, "l1")) > 1e-3
    below = np.where(p > 0, np.nextafter(p, 0.0), p)
    np.testing.assert_allclose(ours, torchmetrics_error(y, below, 4, "l1"), rtol=1e-9)


# uncertainty-calibration: debiased errors, and the ECE.


@pytest.mark.parametrize("n_classes", [2, 5, 10])
@pytest.mark.parametrize("kind", ["mass", "width"])
def test_the_debiased_marginal_error_is_that_of_uncertainty_calibration(n_classes, kind):
    """Theirs is the root of the mean over classes, ours the sum; theirs cuts classes at 0."""
    y, f = spread_out(1500, n_classes)
    method, scheme = {
        "mass": (ra.EqualMassBins(15, debias=True), get_equal_bins),
        "width": (ra.EqualWidthBins(15, debias=True), get_equal_prob_bins),
    }[kind]
    result = ra.calibration_error(y, f, notion="classwise", method=method)
    ours = np.sqrt(np.maximum(result.per_class, 0.0).mean())
    theirs = lower_bound_scaling_ce(f, y, p=2, debias=True, num_bins=15, binning_scheme=scheme)
    np.testing.assert_allclose(ours, theirs, rtol=1e-9)
    if kind == "mass":
        np.testing.assert_allclose(
            ours, uncertainty_calibration.get_calibration_error(f, y), rtol=1e-9
        )


@pytest.mark.parametrize("debias", [True, False])
def test_top_label_errors_are_those_of_uncertainty_calibration(debias):
    y, f = spread_out(1500, 4)
    theirs = lower_bound_scaling_ce(f, y, p=2, debias=debias, num_bins=15, mode="top-label")
    if debias:
        result = ra.calibration_error(
            y, f, notion="top-label", method=ra.EqualMassBins(15, debias=True)
        )
        np.testing.assert_allclose(result.root, theirs, rtol=1e-9)
    else:
        ours = value(y, f, ra.EqualMassBins(15, norm="l2"), notion="top-label")
        np.testing.assert_allclose(ours, theirs, rtol=1e-9)


def test_bins_with_one_sample_stay_out_as_in_uncertainty_calibration():
    y, f = spread_out(45, 3)
    method = ra.EqualWidthBins(40, debias=True)
    bins = np.searchsorted(np.arange(1, 40) / 40, f[:, 0])
    assert (np.bincount(bins) == 1).any()
    result = ra.calibration_error(y, f, notion="classwise", method=method)
    theirs = lower_bound_scaling_ce(f, y, num_bins=40, binning_scheme=get_equal_prob_bins)
    ours = np.sqrt(np.maximum(result.per_class, 0.0).mean())
    np.testing.assert_allclose(ours, theirs, rtol=1e-9)


def test_the_ece_is_that_of_uncertainty_calibration():
    y, f = digits()
    ours = value(y, f, ra.EqualWidthBins(15, norm="l1"), notion="top-label")
    theirs = uncertainty_calibration.get_ece(f, y, num_bins=15)
    np.testing.assert_allclose(ours, theirs, rtol=1e-9)


# relplot: smooth ECE.


def inside(n, seed=0):
    """Predictions away from 0 and 1: relplot counts the mass at its end nodes half."""
    rng = np.random.default_rng(seed)
    p = 0.05 + 0.9 * rng.random(n)
    return (rng.random(n) < p**1.3).astype(int), p


@pytest.mark.parametrize("sigma", [0.01, 0.05, 0.1, 0.2])
def test_smooth_ece_at_a_bandwidth_is_that_of_relplot(sigma, monkeypatch):
    """Up to relplot's mesh: 200 points by default, here 20,000 to see the definition.

    It rounds predictions to nodes 1e-3 apart, a tenth of the smallest bandwidth here.
    """
    y, p = inside(1000)
    ours = SmoothedResiduals(Problem("", p, y, np.ones(1000), L2.binary)).error(sigma)
    monkeypatch.setattr(relplot.config, "smECE_mesh_pts", 20_000)
    np.testing.assert_allclose(ours, relplot.smECE_sigma(p, y, sigma), rtol=1e-3)


@pytest.mark.parametrize("n", [100, 1000, 20_000])
def test_smooth_ece_is_that_of_relplot(n):
    """relplot halves an interval for sigma ten times: it knows it to 2^-10."""
    y, p = inside(n, seed=n)
    assert abs(value(y, p, ra.SmoothECE()) - relplot.smECE(p, y)) < 2**-10
    y, f = spread_out(n, 6)
    right = (f.argmax(axis=1) == y).astype(int)
    ours = value(y, f, ra.SmoothECE(), notion="top-label")
    assert abs(ours - relplot.smECE(f.max(axis=1), right)) < 2**-10


def test_relplot_counts_certainty_half():
    """Moved inside by a few of its nodes, certain predictions count the same as here."""
    y, p = inside(1000)
    p[:300], y[:240] = 1.0, 1
    y[240:300] = 0
    ours = value(y, p, ra.SmoothECE())
    assert abs(ours - relplot.smECE(p, y)) > 0.005
    assert abs(ours - relplot.smECE(np.minimum(p, 0.997), y)) < 0.002


def test_the_page_of_definitions_shows_what_the_script_prints():
    path = Path(__file__).parents[2] / "examples" / "definitions.py"
    script = runpy.run_path(str(path))
    assert script["table"]() in script["PAGE"].read_text()


# model-diagnostics: the miscalibration of CORP.


@pytest.mark.parametrize(("loss", "score"), [("l2", SquaredError()), ("kl", LogLoss())])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_isotonic_error_is_that_of_model_diagnostics(loss, score, weighted):
    y, p = binary(500)
    w = np.random.default_rng(0).uniform(0.5, 2, 500) if weighted else None
    peer = decompose(y, p, weights=w, scoring_function=score)
    ours = value(y, p, ra.Isotonic(), loss=loss, sample_weight=w)
    assert ours == pytest.approx(peer["miscalibration"].item(), rel=1e-6, abs=1e-9)


# MAPIE: the range of cumulative differences, which begin with the first sample there, not with 0.


def test_the_kuiper_statistic_is_that_of_mapie():
    for seed in range(5):
        y, p = binary(400, seed)
        differences = cumulative_differences(y, p)
        assert kuiper_statistic(y, p) * length_scale(p) == pytest.approx(np.ptp(differences))
        with_zero = np.ptp(np.append(differences, 0.0))
        assert value(y, p, ra.Kuiper()) == pytest.approx(with_zero, rel=1e-6)
