"""Intervals: seeded, with stated error rates."""

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import ndtri
from scipy.stats import binom, chi2

import riskalign as ra
from riskalign.bandwidth.tuning import WeightedTunings
from riskalign.data.notions import NOTIONS
from riskalign.data.sample import Sample
from riskalign.data.validation import as_sample
from riskalign.equations.kernels import DIRICHLET
from riskalign.equations.losses import KL, LOSSES
from riskalign.equations.problem import Problem
from riskalign.equations.starts import STARTS
from riskalign.inference import interval
from riskalign.inference.interval import Chance, bend_of, mean_variance_of_gain, paired_error
from riskalign.inference.null import Model, null_estimates, null_sample
from riskalign.methods import KernelSmoother
from riskalign.methods.residuals import Debiased
from riskalign.options import make_case
from riskalign.pipeline import model_of
from riskalign.smoothing import Tuning


@pytest.mark.parametrize("seed", [4, 5])
def test_no_variance_is_below_zero(seed):
    """Nodes may have weights below 0, and so may the mean of a variance over them."""
    g = np.random.default_rng(seed)
    p = g.dirichlet(np.full(3, 0.3), 1_200) ** 100
    p[p.sum(axis=1) == 0] = 1
    p /= p.sum(axis=1, keepdims=True)
    w = 10 ** g.uniform(-3, 3, 1_200)
    result = ra.calibration_error(p.argmax(axis=1), p, sample_weight=w, confidence=0.95)
    assert (result.per_class_standard_error >= 0).all()
    assert np.isfinite(result.per_class_interval).all()


@pytest.mark.parametrize(
    ("family", "least"), [("calibrated", 0.93), ("class bias", 0.90), ("imbalanced", 0.90)]
)
def test_intervals_cover(family, least):
    """Of 100 intervals, no fewer than a true coverage of `least` would give once in 1,000."""
    make = ra.datasets.FAMILIES[family]
    truth = make(100_000, 2, 10**6).truth("binary", "l2")
    covered, widths, values = 0, [], []
    for seed in range(100):
        data = make(300, 2, seed)
        result = ra.calibration_error(
            data.y_true,
            data.y_prob,
            notion="binary",
            loss="l2",
            estimator="debiased",
            confidence=0.95,
            engine="exact",
        )
        low, high = result.interval
        covered += low <= truth <= high
        widths.append(high - low)
        values.append(result.value)
    assert covered >= binom.ppf(0.001, 100, least)
    if truth > 0:  # not wide for safety; estimates of larger errors vary more than those of 0
        assert np.mean(widths) < 1.5 * 3.92 * np.std(values)


def null_moments(model, n_samples, seed=0):
    """Mean and variance of the sum of a model's estimates in the null world."""
    null = null_estimates(model, n_samples, seed).sum(axis=0)
    return float(null.mean()), float(np.var(null, ddof=1))


def test_canonical_errors_under_label_noise_are_neither_small_nor_missed():
    """Beside the mean gain of the true R, which has the chance of the same labels in it."""
    truth = ra.datasets.label_noise(100_000, 6, seed=10**6).truth("canonical", "kl")
    values, gains, covered = [], [], 0
    for seed in range(1_000, 1_010):
        data = ra.datasets.label_noise(500, 6, seed=seed)
        result = ra.calibration_error(
            data.y_true,
            data.y_prob,
            notion="canonical",
            loss="kl",
            estimator="debiased",
            start="logistic",
            confidence=0.95,
        )
        own = np.arange(500), data.y_true
        gains.append(np.mean(np.log(data.conditional[own]) - np.log(data.y_prob[own])))
        values.append(result.value)
        covered += result.interval[0] <= truth <= result.interval[1]
    assert np.mean(values) == pytest.approx(np.mean(gains), rel=0.15)
    assert covered >= binom.ppf(0.001, 10, 0.90)


def test_intervals_of_calibrated_models_end_where_errors_would_show():
    """They reach as far up as estimates of an error of that size vary, not wider for safety."""
    options = {"notion": "binary", "loss": "l2", "estimator": "debiased", "engine": "exact"}
    reaches, ends, values = [], [], []
    for seed in range(60):
        data = ra.datasets.calibrated(300, 2, seed=seed)
        result = ra.calibration_error(data.y_true, data.y_prob, confidence=0.95, **options)
        ends.append(result.interval[1])
        reaches.append(result.interval[1] - max(result.value, 0.0))
        data = ra.datasets.temperature(300, 2, t2=0.5, seed=seed)
        values.append(ra.calibration_error(data.y_true, data.y_prob, **options).value)
    truth = ra.datasets.temperature(100_000, 2, t2=0.5, seed=9).truth("binary", "l2")
    assert truth == pytest.approx(np.mean(ends), rel=0.1)  # an error at the upper end
    assert np.mean(reaches) == pytest.approx(1.96 * np.std(values), rel=0.25)


def test_ends_of_an_interval_are_compatible_with_the_estimate_and_no_more():
    chance = Chance(noise=1e-6, rate=2e-3)
    z = ndtri(0.975)
    for value in (0.0, 0.003, 0.02):
        low, high = chance.interval(value, 0.95)
        assert high - value == pytest.approx(z * np.sqrt(1e-6 + 2e-3 * high))
        assert value - low == pytest.approx(z * np.sqrt(1e-6 + 2e-3 * low)) or low == 0
        assert chance.standard_error(value) == pytest.approx(np.sqrt(1e-6 + 2e-3 * value))
    assert chance.interval(z * 1e-3 * 0.999, 0.95)[0] == 0  # where a calibrated model could be
    assert chance.interval(z * 1e-3 * 1.001, 0.95)[0] > 0
    assert chance.interval(-0.1, 0.95) == chance.interval(0.0, 0.95)
    assert Chance(0.0, 0.0).interval(0.01, 0.95) == (0.01, 0.01)


def test_lower_ends_allow_for_estimates_that_are_too_large_on_average():
    plain, biased = Chance(1e-6, 2e-3), Chance(1e-6, 2e-3, bias=0.004)
    for value in (0.003, 0.02):
        low, high = biased.interval(value, 0.95)
        assert low == plain.interval(value - 0.004, 0.95)[0]
        assert high == plain.interval(value, 0.95)[1]
    assert Chance(1e-6, 2e-3, bias=-0.004).interval(0.02, 0.95) == plain.interval(0.02, 0.95)


def test_lower_ends_use_the_variance_of_smaller_errors():
    """Of predictions twice as large as E[y | f], gains vary in proportion to R_t, about."""
    p = np.linspace(0.001, 0.004, 40)
    problem = Problem("p", p, np.zeros(40, int), np.ones(40), LOSSES["l2"].binary)
    R = np.stack([1 - p / 2, p / 2], axis=1)
    nothing, given = np.zeros(40), WeightedTunings.given(Tuning(0.1))
    one = Debiased(problem, *[nothing] * 5, R, R, variance=nothing, tunings=given)
    # c(t) = 4 mean(R_t (1 - R_t) (R - f)^2) / mean((R - f)^2)
    c = [np.sum(r * (1 - r) * p**2) for r in (p - p / 4, p - p / 2)]
    assert bend_of([one]) == pytest.approx(2 * (1 - c[0] / c[1]))
    chance = Chance(1e-6, 2e-3, bend=-1.0)
    low, high = chance.interval(0.02, 0.95)
    variance = 1e-6 + 2e-3 * (2 - (low / 0.02) ** 0.5) * low
    assert 0.02 - low == pytest.approx(ndtri(0.975) * variance**0.5)
    assert high == Chance(1e-6, 2e-3).interval(0.02, 0.95)[1]


def test_labels_from_the_start_show_the_bias_of_calibrated_models():
    """By the log loss with many classes, narrow kernels make canonical estimates too large."""
    chances, values = [], []
    for seed in range(8):
        data = ra.datasets.calibrated(300, 10, seed=seed)
        case = make_case(as_sample(data.y_true, data.y_prob), "canonical", "kl")
        method = KernelSmoother(0.05, estimator="debiased", start="logistic")
        outcome = method.outcome(case, "auto", False)
        model = model_of(case, method, outcome, "auto")
        chances.append(Chance.of(model, outcome.residuals, 300, 0))
        values.append(outcome.estimates[0].value)
    bias = np.mean([chance.bias for chance in chances])
    error = np.std(values) / 8**0.5
    assert bias > 2 * error
    assert np.mean(values) == pytest.approx(bias, abs=3 * error)


@pytest.mark.parametrize("squares", [2, 5, 40])
def test_lower_ends_allow_for_the_skewness_of_the_noise(squares):
    """A sum of squares less its mean exceeds the largest value that 0 allows as often as it may."""
    mu, noise = 0.003, 2 * 0.003**2 / squares
    chance = Chance(noise, rate=1e-3, removed=mu)
    largest = brentq(lambda value: chance.interval(value, 0.95)[0] - 1e-12, 1e-9, 0.1)
    exceeds = chi2.sf((largest + mu) * squares / mu, squares)
    assert exceeds == pytest.approx(0.025, abs=0.006)
    symmetric = Chance(noise, rate=1e-3)
    assert symmetric.interval(largest, 0.95)[0] > 0
    # an error far from 0 is as little touched as its upper end
    for ends in zip(chance.interval(0.1, 0.95), symmetric.interval(0.1, 0.95), strict=True):
        assert ends[0] == pytest.approx(ends[1], rel=0.01)


def test_an_interval_where_rounding_swallows_the_skewness():
    chance = Chance(noise=1e-41, rate=1e-3, removed=1e-21)
    assert chance.skewness > 1
    for value in np.linspace(1e-6, 0.1, 200):
        plain = Chance(1e-41, 1e-3).interval(value, 0.95)
        assert chance.interval(value, 0.95) == pytest.approx(plain, rel=1e-9)


@pytest.mark.parametrize("loss", ["l2", "kl"])
def test_small_samples_of_good_classifiers_have_an_interval(loss):
    samples = [([0, 0, 1, 1, 1, 0], [0.01, 0.01, 0.99, 0.99, 0.98, 0.0])]
    rng = np.random.default_rng(0)
    for n in range(5, 41):
        y = rng.integers(0, 2, n)
        gap = rng.choice([0.0, 0.01, 0.02], n)
        samples.append((y, np.where(y == 1, 1 - gap, gap)))
    for y, p in samples:
        result = ra.calibration_error(y, p, loss=loss, confidence=0.95)
        low, high = result.interval
        assert 0 <= low <= high < np.inf
        assert low <= max(result.value, 0.0) <= high


@pytest.mark.parametrize("notion", ["classwise", "canonical", "binary"])
def test_the_variance_of_gains_is_that_of_drawn_labels(notion):
    """The gains of labels drawn from R, class by class, against the closed form."""
    rng = np.random.default_rng(0)
    n_classes = 2 if notion == "binary" else 3
    R = rng.dirichlet(np.ones(n_classes), 1)[0]
    gains = rng.normal(size=n_classes)
    sample = Sample(R[None], np.zeros(1, int), np.ones(1), tuple("abc"[:n_classes]))
    problems = NOTIONS[notion].problems(sample, KL)
    given = WeightedTunings.given(Tuning(0.1))
    model = Model(sample, NOTIONS[notion], KL, DIRICHLET, "exact", STARTS["logistic"], [given])
    nothing = np.empty(1)

    def estimate(problem, conditional, gain):
        both = {"gains": np.array([gain]), "conditional": np.array([conditional])}
        return Debiased(problem, *[nothing] * 5, **both, variance=nothing, tunings=given)

    if notion == "classwise":  # class k adds its own gain where it is drawn, 0 elsewhere
        estimates = [
            estimate(problem, [1 - r, r], [0.0, gain])
            for problem, r, gain in zip(problems, R, gains, strict=True)
        ]
    else:
        estimates = [estimate(problems[0], R, gains)]
    drawn = gains[rng.choice(n_classes, 200_000, p=R)]
    assert mean_variance_of_gain(model, estimates) == pytest.approx(drawn.var(), rel=0.02)


@pytest.mark.parametrize(("classes", "rtol"), [(2, 1e-12), (3, 0.05)])
def test_few_large_predictions_have_their_part_in_the_variance(classes, rtol, monkeypatch):
    """A rare class: nearly all of the variance is that of a hundredth of the rows."""
    rng = np.random.default_rng(0)
    rare = np.where(np.arange(3000) < 30, rng.uniform(0.3, 0.9, 3000), rng.uniform(0, 1e-3, 3000))
    rest = (1 - rare)[:, None] * (rng.dirichlet([5, 5], 3000) if classes == 3 else 1.0)
    f = np.concatenate([rest, rare[:, None]], axis=1)
    y = np.where(rng.random(3000) < rare / 2, classes - 1, rng.integers(0, classes - 1, 3000))
    errors = []
    for rows in (3000, 60):
        monkeypatch.setattr(interval, "ROWS", rows)
        errors.append(ra.calibration_error(y, f, confidence=0.95).standard_error)
    assert errors[1] == pytest.approx(errors[0], rel=rtol)


def test_the_chance_of_an_estimate_is_made_of_its_terms():
    data = ra.datasets.temperature(300, 3, t2=0.6, seed=0)
    weights = np.random.default_rng(0).uniform(0.5, 2, 300)
    sample = as_sample(data.y_true, data.y_prob, sample_weight=weights)
    case = make_case(sample, "classwise", "l2")
    method = KernelSmoother()
    outcome = method.outcome(case, "exact", False)
    model = model_of(case, method, outcome, "exact")
    chance = Chance.of(model, outcome.residuals, case.n_samples, 5)
    effective = weights.sum() ** 2 / np.sum(weights**2)
    plugin = sum(each.mean(each.plugin) for each in outcome.residuals)
    removed = sum(each.mean(each.variance_removed) for each in outcome.residuals)
    variance = mean_variance_of_gain(model, outcome.residuals)
    assert chance.rate == pytest.approx(variance / effective / plugin)
    assert chance.removed == pytest.approx(removed)
    assert (chance.bias, chance.noise) == null_moments(model, 300, 5)
    assert 0 < chance.noise < chance.standard_error(0.01) ** 2


@pytest.mark.parametrize("spread", [1e-4, 0.1])
def test_the_error_of_a_difference_is_that_of_its_terms_and_of_the_noise(spread):
    """By plain loops over label sets; terms that vary less than noise does have no gains."""
    data = ra.datasets.temperature(200, 3, t2=0.6, seed=0)
    weights = np.random.default_rng(0).uniform(0.5, 2, 200)
    sample = as_sample(data.y_true, data.y_prob, sample_weight=weights)
    case = make_case(sample, "classwise", "l2")
    method = KernelSmoother()
    model = model_of(case, method, method.outcome(case, "exact", False), "exact")
    terms = np.random.default_rng(0).normal(0, spread, size=200)
    null, its_weights = null_sample([model], [1.0], 3)

    def mean_and_variance(each, weights):
        share = weights / weights.sum()
        mean = sum(share * each)
        return mean, sum((share * (each - mean)) ** 2) * 200 / 199

    means, variances = np.array([mean_and_variance(each, its_weights) for each in null.T]).T
    noise = np.var(means, ddof=1)
    assert noise == pytest.approx(null_moments(model, 200, 3)[1])
    own = [max(variance - variances.mean(), 0) + noise for variance in variances]
    inflated = sum((means - means.mean()) ** 2 / own) / (len(own) - 1)
    gains = max(mean_and_variance(terms, case.sample.weights)[1] - variances.mean(), 0)
    assert (gains > 0) == (spread > 0.01)
    expected = np.sqrt(gains + inflated * noise)
    assert paired_error([model], [1.0], terms, 3) == pytest.approx(expected)


def test_intervals_grow_with_confidence_and_shrink_with_samples():
    wide, narrow, many = (
        ra.calibration_error(
            data.y_true, data.y_prob, estimator="debiased", confidence=confidence, engine="grid"
        )
        for data, confidence in (
            (ra.datasets.class_bias(500, 3, seed=0), 0.99),
            (ra.datasets.class_bias(500, 3, seed=0), 0.8),
            (ra.datasets.class_bias(8000, 3, seed=0), 0.99),
        )
    )
    assert wide.interval[0] <= narrow.interval[0] < narrow.interval[1] < wide.interval[1]
    assert wide.standard_error == narrow.standard_error > 2 * many.standard_error
    assert "99% CI" in str(wide)
    assert wide.to_dict()["interval"] == list(wide.interval)


@pytest.mark.parametrize("loss", ["l2", "kl"])
@pytest.mark.parametrize("notion", ["binary", "top-label", "classwise", "canonical"])
def test_intervals_stay_within_the_range_of_the_loss(notion, loss):
    """Of predictions of 0 and 1 that are all wrong, and of others whose range is smaller."""
    sure = np.eye(2 if notion == "binary" else 3)
    y = np.roll(np.arange(len(sure)), 1)
    one = -np.log(1e-9) if loss == "kl" else 1.0
    most = {"binary": one, "top-label": one, "classwise": 2 * one, "canonical": 2.0}[notion]
    most = one if (notion, loss) == ("canonical", "kl") else most
    result = ra.calibration_error(y, sure, notion=notion, loss=loss, confidence=0.95)
    assert 0 <= result.interval[0] <= result.interval[1] <= most * (1 + 1e-9)
    assert result.upper_bound <= most * (1 + 1e-9)
    if notion == "classwise":
        assert result.per_class_interval.max() <= one * (1 + 1e-9)
    assert result.interval[1] == pytest.approx(most) or notion == "canonical"
    unsure = np.full_like(sure, 0.1 / (len(sure) - 1)) + (0.9 - 0.1 / (len(sure) - 1)) * sure
    result = ra.calibration_error(y, unsure, notion=notion, loss=loss, confidence=0.95)
    wrong = oracle_range(unsure, notion, loss)
    assert result.interval[1] <= wrong * (1 + 1e-9)


def oracle_range(f, notion, loss):
    """The mean over rows of the largest divergence from a label to the prediction."""

    def divergence(label, prediction):
        if loss == "l2":
            return sum((a - b) ** 2 for a, b in zip(label, prediction, strict=True))
        return -np.log(prediction[int(np.argmax(label))])

    def pair(p):
        return [1 - p, p]

    total = 0.0
    for row in f:
        found = []
        for y in range(len(row)):
            label = np.eye(len(row))[y]
            if notion == "canonical":
                found.append(divergence(label, row))
            elif notion == "classwise":
                parts = zip(label, row, strict=True)
                found.append(sum(divergence(pair(a), pair(b)) for a, b in parts))
            else:
                p = row[1] if notion == "binary" else row.max()
                found += [divergence(pair(a), pair(p)) for a in (0.0, 1.0)]
        total += max(found) / (2 if loss == "l2" and notion != "canonical" else 1)
    return total / len(f)


def test_tiny_predictions_have_an_interval():
    """Squares of slopes near 1e-316 have no inverse."""
    for exponent in (-100, -158, -160, -320):
        p = [1, 1, 10.0**exponent, 1, 1, 1, 1, 1]
        result = ra.calibration_error([1, 1, 0, 1, 1, 1, 1, 1], p, confidence=0.95)
        assert 0 <= result.interval[0] <= result.interval[1] < 1e-6
