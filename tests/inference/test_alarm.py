"""The evidence of the alarm against plain loops, and its e-values against drawn noise."""

import numpy as np
import pytest

from riskalign.inference.alarm import BETS, evidence, log_e_values, raise_alarm
from riskalign.inference.interval import Chance


def test_evidence_against_plain_loops():
    logs = np.random.default_rng(0).normal(0, 1, (12, len(BETS)))
    total, starts = evidence(logs)
    for t in range(12):
        means = []
        for j in range(t + 1):
            products = [np.prod([np.exp(logs[s, b]) for s in range(j, t + 1)]) for b in range(3)]
            means.append(np.mean(products))
        weights = [1 / ((j + 1) * (j + 2)) for j in range(t + 1)]
        rest = 1 - sum(weights)
        assert total[t] == pytest.approx(np.dot(weights, means) + rest)
        assert starts[t] == np.argmax(means)


@pytest.mark.parametrize("nu", [2, 8, 50, np.inf])
@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_e_values_have_a_mean_of_at_most_one(nu, share):
    """Estimates at the limit: the smoother's noise of nu squares, and normal noise."""
    g, limit, n = np.random.default_rng(1), 0.01, 400_000
    deviation = 0.001
    noise, rest = share * deviation**2, (1 - share) * deviation**2
    squares = g.normal(size=n) if np.isinf(nu) else (g.chisquare(nu, n) - nu) / (2 * nu) ** 0.5
    values = limit + noise**0.5 * squares + rest**0.5 * g.normal(size=n)
    removed = (noise * nu / 2) ** 0.5 if np.isfinite(nu) else np.inf
    chance = Chance(noise, rest / limit, removed)
    found = np.exp([log_e_values(value, chance, limit) for value in values[:20_000]])
    error = found.std(axis=0) / len(found) ** 0.5
    assert (found.mean(axis=0) <= 1 + 4 * error).all()


def test_noise_too_skewed_for_a_bet_is_no_evidence():
    chance = Chance(noise=1e-6, rate=0.0, removed=1e-9)  # as one square
    logs = log_e_values(0.02, chance, 0.01)
    assert np.isfinite(logs[0])
    assert np.isneginf(logs[2])
    total, _ = evidence(np.array([logs, logs]))
    assert np.isfinite(total).all()


def test_false_alarms_over_many_windows():
    """Normal estimates, 500 histories of 300 windows: the rate is at most alpha.

    With at most 5% false alarms in truth, more than 8.5% are found with probability below 0.001.
    """
    g, theta, chance = np.random.default_rng(2), 0.01, Chance(0.0, 1e-4)
    large = Chance(0.0, 1e-5)
    raised = 0
    for _ in range(500):
        reference = theta + g.normal() * large.standard_error(theta)
        values = theta + g.normal(size=300) * chance.standard_error(theta)
        windows = [(str(t), float(value), chance) for t, value in enumerate(values)]
        raised += raise_alarm((reference, large), windows, alpha=0.05).raised
    assert raised <= 0.085 * 500


def test_growth_is_found_where_it_began():
    g, chance = np.random.default_rng(3), Chance(0.0, 1e-4)
    values = np.where(np.arange(60) < 40, 0.01, 0.02) + g.normal(size=60) * 0.001
    windows = [(f"day {t}", float(value), chance) for t, value in enumerate(values)]
    alarm = raise_alarm((0.01, Chance(0.0, 1e-5)), windows, alpha=0.01)
    assert alarm.raised
    assert alarm.since == "day 40"
    assert 40 <= int(alarm.at.split()[1]) <= 44
    assert str(alarm).startswith(f"ALARM at {alarm.at}: the calibration error has grown above")
    assert repr(alarm).startswith(f"<Alarm: raised at {alarm.at!r}, since 'day 40', 60 windows, ")
    assert "has grown above" in alarm._repr_html_()
    assert alarm.to_dict()["at"] == alarm.at
    patient = raise_alarm((0.01, Chance(0.0, 1e-5)), windows, alpha=0.01, tolerance=0.02)
    assert not patient.raised


def test_a_smaller_error_is_no_alarm():
    windows = [(str(t), 0.001, Chance(0.0, 1e-4)) for t in range(50)]
    alarm = raise_alarm((0.01, Chance(0.0, 1e-5)), windows, alpha=0.05)
    assert not alarm.raised
    assert alarm.evidence[-1] < 0.5


def test_no_windows_yet():
    alarm = raise_alarm((0.01, Chance(0.0, 1e-5)), [], alpha=0.05)
    assert not alarm.raised
    assert "no window" in str(alarm)


def test_what_may_be_chance_is_no_evidence():
    plain, doubted = (
        log_e_values(value, Chance(1e-6, 1e-4, doubts=doubts), 0.01)
        for value, doubts in ((0.02, (0.0, 0.0)), (0.025, (0.005, 0.003)))
    )
    np.testing.assert_allclose(doubted, plain, rtol=1e-9)
