"""A case of a sample in memory: that of a sketch of one batch."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from riskalign.data.case import Case
from riskalign.data.notions import NOTIONS, TOP_LABEL
from riskalign.data.sample import Sample
from riskalign.data.state import Settings, SketchState
from riskalign.equations.losses import L2

NAMES = ("a", "b", "c")


def rows(seed, n, n_classes):
    """Rows of a few predictions, with weights of which some are 0."""
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.ones(n_classes), 7)[rng.integers(0, 7, n)]
    names = NAMES[:n_classes]
    return Sample(p, rng.integers(0, n_classes, n), rng.choice([0.0, 0.5, 1.0], n), names)


def content(case):
    """What of a case must not depend on how it was made."""
    problems = [
        [each.tolist() for each in (x.predictions, x.labels, x.weights, x.units)]
        for x in (*case.problems, case.top)
    ]
    sample = [each.tolist() for each in list(vars(case.sample).values())[:3]]
    return problems, sample, case.n_samples, case.n_drawn, case.complete, case.notion.name


cases = st.tuples(st.sampled_from(sorted(NOTIONS)), st.integers(0, 99), st.integers(2, 60))


@given(cases, st.booleans(), st.sampled_from([3, 10, 1000]))
def test_a_sample_is_a_sketch_of_one_batch(case, weighted, limit):
    name, seed, n = case
    sample = rows(seed, n, 2 if name == "binary" else 3)
    weights = sample.weights if weighted else None
    state = SketchState(Settings.of(name, sample.classes, limit))
    state.update(sample.probabilities, sample.labels, weights)
    found = Case.of_sample(sample, NOTIONS[name], L2, limit=limit, weighted=weighted)
    expected = Case.of_state(state, L2)
    assert content(found) == content(expected)
    if found.complete:
        places = found.places(sample if weighted else with_weights(sample, np.ones(n)))
        one_by_one = zip(places.tolist(), sample.probabilities, sample.labels, strict=True)
        for i, (place, p, label) in enumerate(one_by_one):
            if weighted and sample.weights[i] == 0:
                assert place == -1
                continue
            point, outcome = NOTIONS[name].reduce(p[None], np.array([label]))
            shown = found.sample.probabilities[place]
            assert (shown == point).all() or shown[1] == point[0]
            assert found.sample.labels[place] == outcome[0]


def with_weights(sample, weights):
    return Sample(sample.probabilities, sample.labels, weights, sample.classes)


@pytest.mark.parametrize("name", ["classwise", "canonical"])
def test_the_top_label_of_whole_rows_is_that_of_a_top_label_sketch(name):
    sample = rows(1, 200, 3)
    whole = Case.of_sample(sample, NOTIONS[name], L2).of_top_label()
    assert content(whole) == content(Case.of_sample(sample, TOP_LABEL, L2))
