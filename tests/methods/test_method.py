"""The interface of methods: what combines, what does not, what is printed."""

import inspect
import json
from dataclasses import fields

import numpy as np
import pytest
from cases import LOSSES, NOTIONS, ordinary

import riskalign as ra

ONE_PROBABILITY = ("binary", "top-label", "classwise")


def close(a, b):
    np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)


def error(case, notion, method, loss="l2"):
    return ra.calibration_error(case.y, case.f, notion=notion, loss=loss, method=method)


# The null row, and the smoother spelled out.


@pytest.mark.parametrize("notion", NOTIONS)
@pytest.mark.parametrize("loss", LOSSES)
def test_always_zero(loss, notion):
    case = ordinary(20, 2)
    result = error(case, notion, ra.AlwaysZero(), loss=LOSSES[loss])
    assert result.value == 0.0
    expected = case.f[:, 1] if notion == "binary" else case.f
    if notion != "top-label":
        np.testing.assert_array_equal(result.conditional, expected)
    assert not np.shares_memory(result.conditional, case.f)
    close(result.overconfidence.per_class, 0.0)
    close(result.refinement, result.reconstructed_risk)


@pytest.mark.parametrize("notion", NOTIONS)
@pytest.mark.parametrize(
    "options",
    [
        {"bandwidth": 0.01, "estimator": "plugin"},
        {"bandwidth": "likelihood", "candidates": [0.01, 0.1], "estimator": "cross"},
        {"bandwidth": 0.1, "kernel": "rbf", "estimator": "variational"},
        {"bandwidth": "risk-alignment", "power": 1, "estimator": "plugin"},
    ],
)
def test_the_kernel_smoother_spelled_out_is_the_default_method(notion, options):
    case = ordinary(50, 2)
    plain = ra.calibration_error(case.y, case.f, notion=notion, loss="kl", **options)
    spelled_out = ra.calibration_error(
        case.y, case.f, notion=notion, loss="kl", method=ra.KernelSmoother(**options)
    )
    assert spelled_out.to_dict() == plain.to_dict()
    np.testing.assert_array_equal(spelled_out.conditional, plain.conditional)


@pytest.mark.parametrize("notion", ["binary", "top-label"])
def test_norms_of_the_smoother(notion):
    case = ordinary(60, 2)
    weights = np.random.default_rng(0).random(60)
    p = case.f[:, 1] if notion == "binary" else case.f.max(axis=1)
    for norm in ("l1", "l2", "max"):
        method = ra.KernelSmoother(bandwidth=0.05, norm=norm, estimator="plugin")
        result = ra.calibration_error(
            case.y, case.f, notion=notion, method=method, sample_weight=weights
        )
        gap = np.abs(result.conditional - p)
        expected = {
            "l1": np.average(gap, weights=weights),
            "l2": np.sqrt(np.average(gap**2, weights=weights)),
            "max": gap.max(),
        }[norm]
        close(result.value, expected)
        assert result.estimator == "plugin"


# Combinations, options and what is printed.


EVERY_METHOD = {
    "bins": ra.EqualWidthBins(15),
    "debiased": ra.EqualMassBins(15, debias=True),
    "norm": ra.EqualMassBins(15, norm="l1"),
    "simplex": ra.SimplexBins(2),
    "ridge": ra.KernelRidge(),
    "smooth": ra.SmoothECE(),
    "zero": ra.AlwaysZero(),
    "smoother": ra.KernelSmoother(bandwidth=0.1, estimator="plugin"),
    "smoother's norm": ra.KernelSmoother(bandwidth=0.1, norm="max"),
}
EXIST = {
    "bins": (ONE_PROBABILITY, ("l2", "kl", "ranked", "spherical")),
    "debiased": (ONE_PROBABILITY, ("l2",)),
    "norm": (("binary", "top-label"), ("l2",)),
    "simplex": (("canonical",), ("l2", "kl", "ranked", "spherical")),
    "ridge": (("binary", "top-label", "canonical"), ("l2",)),
    "smooth": (("binary", "top-label"), ("l2",)),
    "zero": (NOTIONS, ("l2", "kl", "ranked", "spherical")),
    "smoother": (NOTIONS, ("l2", "kl", "ranked", "spherical")),
    "smoother's norm": (("binary", "top-label"), ("l2",)),
}


@pytest.mark.parametrize("name", EVERY_METHOD)
def test_a_combination_works_or_says_which_do(name):
    case = ordinary(40, 2)
    method, (notions, losses) = EVERY_METHOD[name], EXIST[name]
    for notion in NOTIONS:
        for loss in LOSSES:
            if notion in notions and loss in losses:
                result = error(case, notion, method, loss=LOSSES[loss])
                assert np.isfinite(result.value)
                json.dumps(result.to_dict(), allow_nan=False)
                assert result.definition in str(result)
                assert "None" not in str(result)
                continue
            with pytest.raises(ValueError, match="has no meaning for") as caught:
                error(case, notion, method, loss=LOSSES[loss])
            message = str(caught.value)
            assert f"notion={notion!r} with loss={loss!r}" in message
            assert all(repr(n) in message for n in notions)
            assert "KernelSmoother" in message
            assert "AlwaysZero" in message


def test_the_methods_named_for_a_combination_serve_it():
    case = ordinary(40, 3)
    with pytest.raises(ValueError, match="has no meaning for") as caught:
        error(case, "classwise", ra.SimplexBins(2), loss="kl")
    named = str(caught.value).split(": ")[-1].rstrip(".").split(", ")
    bins = ["EqualWidthBins", "EqualMassBins"]
    assert named == ["KernelSmoother", *bins, "Isotonic", "AlwaysZero"]
    with pytest.raises(ValueError, match="KernelRidge"):
        error(case, "canonical", ra.EqualWidthBins(15))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("bandwidth", 0.01),
        ("bandwidth", np.array([0.1, 0.2, 0.3])),
        ("kernel", "rbf"),
        ("estimator", "cross"),
        ("candidates", [0.1, 0.2]),
        ("power", 1),
    ],
)
@pytest.mark.parametrize("method", [ra.EqualWidthBins(15), ra.KernelSmoother()])
def test_an_option_beside_a_method_is_an_error_that_says_where_it_goes(name, value, method):
    case = ordinary(20, 3)
    place = rf"KernelSmoother\({name}=\.\.\.\)"
    with pytest.raises(ValueError, match=place):
        ra.calibration_error(case.y, case.f, method=method, **{name: value})


def test_an_engine_is_for_the_smoother():
    case = ordinary(20, 3)
    with pytest.raises(ValueError, match="engine='exact'"):
        ra.calibration_error(case.y, case.f, method=ra.EqualWidthBins(15), engine="exact")
    method = ra.KernelSmoother(bandwidth=0.1, estimator="plugin")
    assert ra.calibration_error(case.y, case.f, method=method, engine="exact").value > 0


@pytest.mark.parametrize("method", ["bins", 15, ra.EqualWidthBins, ra.KernelSmoother])
def test_a_method_is_an_object(method):
    case = ordinary(20, 3)
    with pytest.raises(TypeError, match=r"ra\.EqualWidthBins"):
        ra.calibration_error(case.y, case.f, method=method)


@pytest.mark.parametrize("kind", [ra.EqualWidthBins, ra.EqualMassBins, ra.SimplexBins])
@pytest.mark.parametrize("n_bins", [0, -1, 2.5, "15", True, None])
def test_bins_are_counted(kind, n_bins):
    with pytest.raises(ValueError, match="`n_bins`"):
        kind(n_bins)


def test_options_that_exclude_each_other():
    with pytest.raises(ValueError, match="takes no `norm`"):
        ra.EqualWidthBins(15, debias=True, norm="l2")
    with pytest.raises(ValueError, match="`norm` must be one of 'l1', 'l2', 'max'"):
        ra.EqualMassBins(15, norm="l3")
    with pytest.raises(ValueError, match="`norm` must be one of"):
        ra.KernelSmoother(norm="brier")
    with pytest.raises(ValueError, match="needs estimator='debiased' or estimator='plugin'"):
        ra.KernelSmoother(norm="l1", estimator="cross")


def test_print_names_method_and_definition():
    case = ordinary(60, 3)
    text = str(error(case, "classwise", ra.EqualWidthBins(15)))
    assert "sum over classes of mean (R - f)^2" in text
    assert "EqualWidthBins(n_bins=15); R is the observed frequency of each bin" in text
    text = str(error(case, "top-label", ra.EqualMassBins(10, norm="l1")))
    assert "Top-label calibration (l1 norm)" in text
    assert "sum_b n_b/n |mean y - mean f|" in text
    assert "square root" not in text
    assert "refinement" not in text
    text = str(error(case, "canonical", ra.KernelRidge(folds=4)))
    assert "KernelRidge(folds=4); penalty" in text
    assert "f - R" not in text


def test_the_smoother_s_defaults_are_those_of_calibration_error():
    arguments = inspect.signature(ra.calibration_error).parameters
    shared = [option for option in fields(ra.KernelSmoother) if option.name in arguments]
    assert {"bandwidth", "kernel", "estimator", "candidates", "power"} <= {o.name for o in shared}
    for option in shared:
        assert arguments[option.name].default == option.default
