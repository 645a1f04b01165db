"""The paper's synthetic data, and its true calibration errors."""

import math

import numpy as np
import oracle
import pytest
from scipy.integrate import quad

import riskalign as ra

N = 200_000


@pytest.fixture(scope="module")
def paper():
    return ra.datasets.temperature(N, 4, t1=1.0, t2=0.8, seed=0)


@pytest.mark.parametrize(
    ("loss", "given", "truth", "tolerance"),
    [
        # Reference values with four digits, from a pool as large as this one. The tolerance is
        # four standard errors of a mean over N rows, 0.0064e-4 for l2 and 0.026e-4 for kl: right
        # code fails once in 16,000 seeds. Joint and marginal differ by eight times as much.
        ("l2", "joint", 0.4327e-2, 2.6e-5),
        ("kl", "joint", 1.670e-2, 1.05e-4),
        ("l2", "marginal", 0.4121e-2, 2.6e-5),
        ("kl", "marginal", 1.616e-2, 1.05e-4),
    ],
)
def test_the_true_classwise_errors(paper, loss, given, truth, tolerance):
    found = paper.truth(notion="classwise", loss=loss, given=given)
    assert found == pytest.approx(truth, abs=tolerance)


@pytest.mark.parametrize("loss", ["l2", "kl", "ranked"])
@pytest.mark.parametrize("notion", ["top-label", "classwise", "canonical"])
def test_the_joint_truth_is_the_mean_divergence_from_the_conditional(notion, loss):
    data = ra.datasets.temperature(300, 3, t2=0.6, seed=1)
    total = 0.0
    for f, R in zip(data.y_prob.tolist(), data.conditional.tolist(), strict=True):
        if notion == "canonical":
            pairs = [(R, f)]
        else:
            columns = [oracle.top_class(f)] if notion == "top-label" else range(3)
            pairs = [((1 - R[k], R[k]), (1 - f[k], f[k])) for k in columns]
        for r, p in pairs:
            total += oracle.terms(oracle.loss_of(loss, notion), p, 0, r)["plugin"]
    assert data.truth(notion=notion, loss=loss) == pytest.approx(total / 300, abs=1e-12)


@pytest.mark.parametrize("given", ["joint", "marginal"])
@pytest.mark.parametrize(
    ("loss", "divergence"),
    [
        ("l2", lambda R, f: (R - f) ** 2),
        ("kl", lambda R, f: R * math.log(R / f) + (1 - R) * math.log((1 - R) / (1 - f))),
    ],
)
def test_with_two_classes_the_truth_is_an_integral(loss, divergence, given):
    """R is uniform on [0, 1], and one probability says as much as both."""

    def at(R):
        sharp = R**1.25
        return divergence(R, sharp / (sharp + (1 - R) ** 1.25))

    expected, _ = quad(at, 0, 1)
    spread, _ = quad(lambda R: at(R) ** 2, 0, 1)
    four_standard_errors = 4 * math.sqrt((spread - expected**2) / N)
    data = ra.datasets.temperature(N, 2, t1=1.0, t2=0.8, seed=3)
    found = data.truth(notion="binary", loss=loss, given=given)
    assert found == pytest.approx(expected, abs=four_standard_errors)
    assert four_standard_errors < 0.02 * expected


def test_the_data_follow_their_definition(paper):
    R, f = paper.conditional, paper.y_prob
    np.testing.assert_allclose(R.sum(axis=1), 1, atol=1e-12)
    np.testing.assert_allclose(f.sum(axis=1), 1, atol=1e-12)
    ratio = np.log(f[:, 1:] / f[:, :1]) / np.log(R[:, 1:] / R[:, :1])
    np.testing.assert_allclose(np.median(ratio, axis=0), 1 / 0.8, rtol=1e-9)
    # uniform on the simplex: R_k is Beta(1, 3), with mean 1/4 and variance 3/80
    se = math.sqrt(3 / 80 / N)
    np.testing.assert_allclose(R.mean(axis=0), 1 / 4, atol=5 * se)
    np.testing.assert_allclose(R.var(axis=0), 3 / 80, rtol=0.02)


def test_labels_are_drawn_from_the_conditional(paper):
    """Within five standard deviations in ten groups of R_0: fails once in 100,000 seeds."""
    R, y = paper.conditional[:, 0], paper.y_true == 0
    for group in np.array_split(np.argsort(R), 10):
        sd = math.sqrt(np.sum(R[group] * (1 - R[group])))
        assert abs(np.sum(y[group]) - np.sum(R[group])) < 5 * sd


def test_temperatures():
    sharp = ra.datasets.temperature(1000, 4, t1=0.5, seed=0).conditional
    flat = ra.datasets.temperature(1000, 4, t1=2.0, seed=0).conditional
    assert sharp.max(axis=1).mean() > flat.max(axis=1).mean() + 0.2
    right = ra.datasets.temperature(1000, 4, t2=1.0, seed=0)
    np.testing.assert_allclose(right.y_prob, right.conditional, atol=1e-12)
    assert right.truth() == pytest.approx(0, abs=1e-15)


def test_seeds():
    one, same, other = (ra.datasets.temperature(50, 3, seed=seed) for seed in (0, 0, 1))
    assert (one.y_prob == same.y_prob).all()
    assert (one.y_true == same.y_true).all()
    assert (one.y_prob != other.y_prob).any()


def test_canonical_truth_knows_the_whole_prediction():
    data = ra.datasets.temperature(200, 3, seed=0)
    joint, marginal = (data.truth(notion="canonical", given=g) for g in ("joint", "marginal"))
    assert joint == marginal


def test_a_loss_of_the_user():
    data = ra.datasets.temperature(200, 3, seed=0)
    half = ra.ProperLoss("half", lambda f: np.sum(f * f, axis=1, keepdims=True) / 2 - f + 0.5)
    expected = data.truth(notion="canonical", loss="l2") / 2
    assert data.truth(notion="canonical", loss=half) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("option", "known"),
    [("notion", "'canonical'"), ("loss", "'ranked'"), ("given", "'joint', 'marginal'")],
)
def test_unknown_options_list_the_known_ones(option, known):
    data = ra.datasets.temperature(20, 3, seed=0)
    with pytest.raises(ValueError, match=f"`{option}`.*{known}.*'nothing'"):
        data.truth(**{option: "nothing"})


def test_binary_truth_needs_two_classes():
    with pytest.raises(ValueError, match=r"`notion='binary'`.*two classes.*4"):
        ra.datasets.temperature(20, 4, seed=0).truth(notion="binary")


@pytest.mark.parametrize("family", ra.datasets.FAMILIES)
@pytest.mark.parametrize(("n", "n_classes"), [(10, 1), (0, 3)])
def test_too_few_samples_or_classes_are_an_error(family, n, n_classes):
    with pytest.raises(ValueError, match=f"found n = {n} and n_classes = {n_classes}"):
        ra.datasets.FAMILIES[family](n, n_classes, 0)
