"""A network that is trained here: the later it stops, the surer it is, and the less rightly."""

import pytest
from experiments.predict.training import FASHION, run

import riskalign as ra
from riskalign.data.files import open_predictions

CONFIDENCE = 0.99
pytestmark = pytest.mark.skipif(not FASHION.exists(), reason="needs dataset-fashion-mnist")


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    files = run(tmp_path_factory.mktemp("predictions"), seed=0, progress=False)
    found = {}
    for stop, path in files.items():
        read = open_predictions(path).read()
        found[stop] = ra.calibration_error(
            read.labels,
            read.scores,
            from_logits=True,
            notion="top-label",
            loss="l2",
            estimator="debiased",
            confidence=CONFIDENCE,
            progress=False,
        )
    return found


def test_the_late_network_is_overconfident(results):
    assert results["late"].overconfidence.top_label > 0.04
    assert results["late"].overconfidence.top_label > 2 * results["early"].overconfidence.top_label


def test_the_late_networks_error_is_larger_than_chance_explains(results):
    assert results["late"].interval[0] > 0
    assert results["late"].interval[0] > results["early"].interval[1]
