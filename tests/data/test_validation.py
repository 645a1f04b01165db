"""What users pass: every accepted form means the same, every bad input gets its own error."""

import pickle
import re

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.special import expit, softmax

import riskalign as ra
from riskalign.data.validation import RowError, as_sample

Y = np.array([0, 1, 2, 1, 0, 2])
F = np.array(
    [
        [0.7, 0.2, 0.1],
        [0.2, 0.5, 0.3],
        [0.1, 0.1, 0.8],
        [0.3, 0.4, 0.3],
        [0.6, 0.4, 0.0],
        [0.0, 0.0, 1.0],
    ]
)
P = F[:, 1]
B = (Y == 1).astype(int)


def value(y=Y, f=F, **options):
    return ra.calibration_error(y, f, bandwidth=0.05, estimator="plugin", **options).value


def words(*expected):
    """A pattern for words that must come in this order."""
    return re.compile(".*".join(re.escape(word) for word in expected), re.DOTALL)


class OnlyArray:
    """Something that knows nothing but how to become an array."""

    def __init__(self, values):
        self._values = values

    def __array__(self, dtype=None, copy=None):
        return np.array(self._values, dtype=dtype)


# Forms that mean the same.

SAME = {
    "lists": (Y.tolist(), F.tolist()),
    "tuples": (tuple(Y.tolist()), tuple(map(tuple, F.tolist()))),
    "pandas": (pd.Series(Y), pd.DataFrame(F, columns=["a", "b", "c"])),
    "pandas, odd index": (
        pd.Series(Y, index=range(9, 3, -1)),
        pd.DataFrame(F, index=list("abcdef")),
    ),
    "polars": (pl.Series(Y), pl.DataFrame(F)),
    "only __array__": (OnlyArray(Y), OnlyArray(F)),
    "one-hot": (np.eye(3)[Y], F),
    "one-hot integers": (np.eye(3, dtype=int)[Y], F),
    "one-hot booleans": (np.eye(3, dtype=bool)[Y], F),
    "one-hot data frame": (pd.DataFrame(np.eye(3)[Y]), F),
    "unsigned labels": (Y.astype(np.uint8), F),
    "labels as floats": (Y.astype(float), F),
    "labels as objects": (Y.astype(object), F),
    "labels as text": (Y.astype(str), F),
    "labels as floats in text": ([f"{y}.0" for y in Y], F),
    "one-hot objects": (np.eye(3)[Y].astype(object), F),
    "predictions as objects": (Y, F.astype(object)),
    "Fortran order": (Y, np.asfortranarray(F)),
    "a view": (np.repeat(Y, 2)[::2], np.repeat(F, 2, axis=0)[::2]),
    "read-only": (Y, np.frombuffer(F.tobytes()).reshape(F.shape)),
}


@pytest.mark.parametrize("form", SAME)
def test_forms_of_input_that_mean_the_same(form):
    y, f = SAME[form]
    assert value(y, f) == value()


ONE = {
    "list": (B.tolist(), P.tolist()),
    "booleans": (B.astype(bool), P),
    "pandas": (pd.Series(B), pd.Series(P)),
    "polars": (pl.Series(B), pl.Series(P)),
    "two columns": (B, np.stack([1 - P, P], axis=1)),
    "one-hot": (np.eye(2)[B], P),
    "only __array__": (OnlyArray(B), OnlyArray(P)),
}


@pytest.mark.parametrize("form", ONE)
def test_forms_of_one_probability_that_mean_the_same(form):
    y, p = ONE[form]
    assert value(y, p, notion="binary") == pytest.approx(value(B, P), abs=1e-15)


def test_nothing_is_changed_in_place():
    y, f, w = Y.copy(), F.copy(), np.ones(6)
    value(y, f, sample_weight=w)
    value(y, f * 3, normalize=True)
    assert (y == Y).all()
    assert (f == F).all()
    assert (w == 1).all()


def test_float32_is_used_as_given():
    f = F.astype(np.float32)
    assert as_sample(Y, f).probabilities.tolist() == f.astype(np.float64).tolist()


def test_rows_off_by_less_than_a_thousandth_are_used_as_given():
    f = F * 1.0005
    f[-1] = F[-1]  # no probability above one
    assert as_sample(Y, f).probabilities.tolist() == f.tolist()
    half = F.astype(np.float16)
    assert as_sample(Y, half).probabilities.tolist() == half.astype(float).tolist()


def test_a_probability_may_exceed_one_by_rounding():
    p = np.array([0.2, 1 + 1e-7, 1.0])
    assert as_sample([0, 1, 1], p).probabilities[:, 1].tolist() == p.tolist()


def test_logits():
    scores = np.random.default_rng(0).normal(size=(6, 3)) * 3
    assert value(Y, scores, from_logits=True) == pytest.approx(value(Y, softmax(scores, axis=1)))
    one = scores[:, 0]
    result = ra.calibration_error(B, one, from_logits=True, bandwidth=0.05, estimator="plugin")
    assert result.notion == "binary"
    assert result.value == pytest.approx(value(B, expit(one)))
    extreme = as_sample([0, 1], np.array([-800.0, 800.0]), from_logits=True).probabilities
    assert extreme.tolist() == [[1, 0], [0, 1]]
    assert np.isfinite(value([0, 1], [[1e4, -1e4], [-1e4, 1e4]], from_logits=True))


def test_normalize():
    votes = F * np.arange(1, 7)[:, None]
    np.testing.assert_allclose(as_sample(Y, votes, normalize=True).probabilities, F, atol=1e-15)
    counts = np.array([[3, 1], [0, 4]])
    found = as_sample([0, 1], counts, normalize=True).probabilities
    assert found.tolist() == [[0.75, 0.25], [0, 1]]


def test_names_of_classes():
    names = np.array(["cat", "dog", "owl"])
    for labels in (names[Y], names[Y].tolist(), pd.Series(names[Y]), names[Y].astype(object)):
        assert value(labels, F, classes=["cat", "dog", "owl"]) == value()
    assert value(pd.Categorical(names[Y]), F, classes=names) == value()
    assert value(pl.Series(names[Y].tolist()), F, classes=("cat", "dog", "owl")) == value()
    shuffled = value(names[Y], F[:, [2, 0, 1]], classes=["owl", "cat", "dog"])
    assert shuffled == pytest.approx(value(), abs=1e-15)
    assert value(Y * 10 + 5, F, classes=[5, 15, 25]) == value()
    assert as_sample(names[Y], F, classes=names).classes == ("cat", "dog", "owl")
    assert as_sample(Y, F).classes == ("0", "1", "2")


def test_names_of_two_classes_for_one_probability():
    assert value(np.array(["no", "yes"])[B], P, classes=["no", "yes"]) == value(B, P)
    assert value(np.where(B, 1, -1), P, classes=[-1, 1]) == value(B, P)


@pytest.mark.parametrize("padding", [-100, 255])
def test_ignored_rows_are_as_good_as_absent(padding):
    y = np.append(Y, [padding, padding])
    f = np.vstack([F, [[np.nan] * 3, [0.2, 0.2, 0.2]]])
    w = np.append(np.linspace(1, 2, 6), [np.nan, -1])
    assert value(y, f, ignore_index=padding) == value()
    found = value(y, f, ignore_index=padding, sample_weight=w)
    assert found == value(sample_weight=np.linspace(1, 2, 6))


def test_a_label_to_ignore_need_not_occur():
    assert value(ignore_index=-1) == value()


@pytest.mark.parametrize("weights", [[1, 2, 0, 1, 1, 1], pd.Series([1.0, 2, 0, 1, 1, 1])])
def test_forms_of_weights(weights):
    assert value(sample_weight=weights) == value(sample_weight=np.array([1.0, 2, 0, 1, 1, 1]))


# Bad input.

BAD_PREDICTIONS = {
    "NaN": (np.where(F == 0.5, np.nan, F), {}, words("`y_prob`", "NaN", "row 1", "Drop")),
    "inf": (np.where(F == 0.5, np.inf, F), {}, words("`y_prob`", "inf")),
    "-inf": (np.where(F == 0.5, -np.inf, F), {}, words("`y_prob`", "-inf", "from_logits=True")),
    "inf to normalise": (
        np.where(F == 0.5, np.inf, F),
        {"normalize": True},
        words("`y_prob`", "infinite", "Drop"),
    ),
    "negative": (F - 0.01, {}, words("`y_prob`", "[0, 1]", "-0.01", "from_logits=True")),
    "negative to normalise": (F - 0.01, {"normalize": True}, words("`y_prob`", "[0, 1]", "-0.01")),
    "logits": (
        np.log(F + 0.01),
        {},
        words("`y_prob`", "[0, 1]", "`from_logits=True` for logits; map other"),
    ),
    "positive logits": (
        F * 9,
        {},
        words("`y_prob`", "9", "`from_logits=True`", "`normalize=True` to rescale counts"),
    ),
    "percentages": (100 * F, {}, words("`y_prob`", "percentages", "divide them by 100")),
    "row sums": (
        F * np.array([1, 1, 0.9, 1, 1, 1])[:, None],
        {},
        words("`y_prob` rows must sum to 1", "0.001", "row 2 sums to 0.9. Pass `normalize=True`"),
    ),
    "row sums off by 2e-3": (F * 0.998, {}, words("rows must sum to 1", "row 0", "0.998")),
    "an empty row to normalise": (
        F * np.array([1, 0, 1, 1, 1, 1])[:, None],
        {"normalize": True},
        words("`y_prob`", "normalised", "row 1", "sums to 0"),
    ),
    "a single column": (F[:, :1], {}, words("`y_prob`", "(6, 1)", "y_prob[:, 0]")),
    "three dimensions": (F[None], {}, words("`y_prob`", "(n, K)", "(1, 6, 3)")),
    "wrong length": (F[:5], {}, words("`y_true` and `y_prob`", "length", "6 and 5")),
    "transposed": (F.T, {}, words("`y_prob`", "(3, 6)", "y_prob.T")),
    "NaN logits": (np.where(F == 0.5, np.nan, F), {"from_logits": True}, words("`y_prob`", "NaN")),
    "infinite logits": (
        np.where(F == 0.5, -np.inf, F),
        {"from_logits": True},
        words("`y_prob`", "infinite logit", "row 1"),
    ),
    "logits to normalise": (
        F,
        {"from_logits": True, "normalize": True},
        words("`normalize`", "probabilities"),
    ),
}


@pytest.mark.parametrize("name", BAD_PREDICTIONS)
def test_bad_predictions(name):
    f, options, message = BAD_PREDICTIONS[name]
    with pytest.raises(ValueError, match=message):
        ra.calibration_error(Y, f, **options)


BAD_LABELS = {
    "too large": (Y + 1, ValueError, words("`y_true`", "0 to 2", "row 2 has 3", "`classes=`")),
    "negative": (
        np.where(Y == 2, -100, Y),
        ValueError,
        words("`y_true`", "row 2 has -100", "`ignore_index=`"),
    ),
    "NaN": (np.where(Y == 2, np.nan, Y), ValueError, words("`y_true`", "nan", "row 2", "Drop")),
    "infinite": (np.where(Y == 2, np.inf, Y), ValueError, words("`y_true`", "inf", "row 2")),
    "fractions": (Y + 0.5, ValueError, words("`y_true`", "fractions", "swapped")),
    "fractions as objects": (
        (Y + 0.5).astype(object),
        ValueError,
        words("`y_true`", "fractions", "swapped"),
    ),
    "fractions as text": (
        ["1.5", "0", "1", "0", "1", "2"],
        ValueError,
        words("`y_true`", "fractions", "swapped"),
    ),
    "soft, as objects": (F.astype(object), ValueError, words("`y_true`", "swapped", "Soft")),
    "beyond float64": ([10**400, 0, 1, 0, 1, 2], ValueError, words("`y_true`", "too large")),
    "beyond 64 bits": ([10**30, 0, 1, 0, 1, 2], ValueError, words("`y_true`", "0 to 2", "row 0")),
    "dates": (Y.astype("datetime64[s]"), TypeError, words("`y_true`", "numbers", "datetime64")),
    "complex": (Y + 0j, TypeError, words("`y_true`", "numbers", "complex")),
    "names in rows": (np.full((6, 3), "a"), TypeError, words("`y_true`", "names", "`classes=`")),
    "soft": (F, ValueError, words("`y_true`", "(y_true, y_prob)", "swapped", "Soft labels")),
    "names": (list("abcabc"), TypeError, words("`y_true`", "names", "`classes=`", "order")),
    "names among numbers": ([0, 1, "a", 0, 1, 2], TypeError, words("`y_true`", "`classes=`")),
    "wrong length": (Y[:4], ValueError, words("`y_true` and `y_prob`", "length", "4 and 6")),
    "two ones per row": (np.ones((6, 3)), ValueError, words("`y_true`", "several", "row 0")),
    "none in a row": (
        np.eye(3)[Y] * np.array([1, 1, 1, 0, 1, 1])[:, None],
        ValueError,
        words("`y_true`", "one-hot", "row 3"),
    ),
    "too many columns": (np.eye(4)[Y], ValueError, words("`y_true`", "3 classes", "(6, 4)")),
    "a column": (Y[:, None], ValueError, words("`y_true`", "(6, 1)")),
    "three dimensions": (np.zeros((6, 3, 1)), ValueError, words("`y_true`", "(6, 3, 1)")),
    "a number": (1, TypeError, words("`y_true`", "array-like", "int")),
    "nothing": (None, TypeError, words("`y_true`", "NoneType")),
    "ragged": ([[0], [1, 2], [0], [1], [0], [1]], TypeError, words("`y_true`", "array")),
}


@pytest.mark.parametrize("name", BAD_LABELS)
def test_bad_labels(name):
    y, error, message = BAD_LABELS[name]
    with pytest.raises(error, match=message):
        ra.calibration_error(y, F)


def test_swapped_arguments():
    for y, p in ((P, B), (F, Y), (F.tolist(), Y.tolist())):
        with pytest.raises(ValueError, match=words("(y_true, y_prob)", "swapped")):
            ra.calibration_error(y, p)


BAD_ONE_PROBABILITY = {
    "negative": (P - 0.5, {}, ValueError, words("`y_prob`", "[0, 1]", "`from_logits=True`")),
    "logits": (6 * P - 2, {}, ValueError, words("`y_prob`", "[0, 1]", "`from_logits=True`")),
    "normalise": (P, {"normalize": True}, ValueError, words("`normalize`", "(n, K)")),
    "text": (list("abcdef"), {}, TypeError, words("`y_prob`", "numbers")),
    "beyond float64": ([10**400] * 6, {}, ValueError, words("`y_prob`", "too large")),
    "complex": (P + 1j, {}, TypeError, words("`y_prob`", "real", "complex")),
    "dates": (np.arange(6).astype("datetime64[s]"), {}, TypeError, words("`y_prob`", "real")),
    "a number": (0.5, {}, TypeError, words("`y_prob`", "array-like", "float")),
}


@pytest.mark.parametrize("name", BAD_ONE_PROBABILITY)
def test_bad_single_probabilities(name):
    p, options, error, message = BAD_ONE_PROBABILITY[name]
    with pytest.raises(error, match=message):
        ra.calibration_error(B, p, **options)


def test_labels_of_one_probability():
    with pytest.raises(ValueError, match=words("`y_true`", "3 different labels")):
        ra.calibration_error(Y, P)
    with pytest.raises(ValueError, match=words("`y_true`", "row 0 has -1", "`classes=`")):
        ra.calibration_error(np.where(B, 1, -1), P)


@pytest.mark.parametrize("n", [0, 1])
def test_too_few_samples(n):
    for f in (F, P):
        with pytest.raises(ValueError, match=words("two samples", f"found {n}")):
            ra.calibration_error(B[:n], f[:n])
    with pytest.raises(ValueError, match=words("two samples", "found 1")):
        ra.calibration_error([0] + [-100] * 5, F, ignore_index=-100)


def test_empty_lists():
    with pytest.raises(ValueError, match=words("two samples", "found 0")):
        ra.calibration_error([], [])


BAD_WEIGHTS = {
    "negative": ([1, 1, -2, 1, 1, 1], words("`sample_weight`", "not negative", "row 2", "-2")),
    "NaN": ([1, 1, 1, np.nan, 1, 1], words("`sample_weight`", "finite", "row 3", "nan")),
    "infinite": ([1, 1, 1, np.inf, 1, 1], words("`sample_weight`", "finite", "row 3", "inf")),
    "one beyond the others": (
        [1, 1e20, 1, 1, 1, 1],
        words("`sample_weight`", "row 1", "outweighs", "1e+20"),
    ),
    "all zero": ([0] * 6, words("`sample_weight`", "positive", "two samples", "found 0")),
    "one alone": ([0, 0, 1, 0, 0, 0], words("`sample_weight`", "two samples", "found 1")),
    "wrong length": ([1] * 5, words("`sample_weight`", "(6,)", "(5,)")),
    "a matrix": (np.ones((6, 3)), words("`sample_weight`", "(6,)", "(6, 3)")),
}


@pytest.mark.parametrize("name", BAD_WEIGHTS)
def test_bad_weights(name):
    weights, message = BAD_WEIGHTS[name]
    with pytest.raises(ValueError, match=message):
        ra.calibration_error(Y, F, sample_weight=weights)


def test_weights_that_are_no_numbers():
    with pytest.raises(TypeError, match=words("`sample_weight`", "numbers")):
        ra.calibration_error(Y, F, sample_weight=list("abcdef"))


BAD_CLASSES = {
    "too few": (["a", "b"], words("`classes`", "3 columns", "found 2")),
    "repeated": (["a", "b", "a"], words("`classes`", "once", "2 different")),
    "unknown label": (["a", "b", "x"], words("`y_true`", "'c'", "`classes`", "'a', 'b', 'x'")),
}


@pytest.mark.parametrize("name", BAD_CLASSES)
def test_bad_classes(name):
    classes, message = BAD_CLASSES[name]
    with pytest.raises(ValueError, match=message):
        ra.calibration_error(list("abcabc"), F, classes=classes)


def test_one_hot_rows_have_no_label_to_ignore():
    with pytest.raises(ValueError, match=words("`ignore_index`", "(n,)", "one-hot")):
        ra.calibration_error(np.eye(3)[Y], F, ignore_index=-100)


# Options.

SEARCHED = {"estimator": "plugin", "bandwidth": "risk-alignment"}
UNKNOWN = {
    "notion": ("'binary', 'top-label', 'classwise', 'canonical'", "toplabel"),
    "loss": ("'l2', 'kl', 'ranked' or a ProperLoss", "hinge"),
    "estimator": ("'plugin', 'variational', 'cross'", "plug-in"),
    "bandwidth": ("'risk-alignment', 'likelihood', 'cross-validation'", "ra"),
    "kernel": ("'dirichlet', 'rbf'", "beta"),
    "candidates": ("'paper'", "log"),
    "engine": ("'auto', 'exact', 'grid'", "gpu"),
}


@pytest.mark.parametrize("option", UNKNOWN)
def test_unknown_options_list_the_known_ones(option):
    known, wrong = UNKNOWN[option]
    with pytest.raises(ValueError, match=words(f"`{option}`", known, repr(wrong))):
        ra.calibration_error(Y, F, **SEARCHED | {option: wrong})


@pytest.mark.parametrize("option", ["notion", "loss", "estimator", "kernel", "engine"])
@pytest.mark.parametrize("wrong", [3, ["l2"], None])
def test_options_of_the_wrong_type(option, wrong):
    if option == "notion" and wrong is None:
        return  # the default
    with pytest.raises((ValueError, TypeError), match=words(f"`{option}`", "must be", repr(wrong))):
        ra.calibration_error(Y, F, **SEARCHED | {option: wrong})


def test_an_unknown_criterion():
    with pytest.raises(ValueError, match=words("`criterion`", "'risk-alignment'", "'mle'")):
        ra.select_bandwidth(Y, F, criterion="mle")


@pytest.mark.parametrize("wrong", [0, -0.1, np.nan, np.inf, [0.1, 0.0, 0.1], []])
def test_bandwidths_must_be_positive(wrong):
    with pytest.raises(ValueError, match=words("`bandwidth`", "positive", str(wrong)[:3])):
        ra.calibration_error(Y, F, bandwidth=wrong)


@pytest.mark.parametrize("wrong", [0, -0.1, [0.1, np.nan], []])
def test_candidates_must_be_positive(wrong):
    with pytest.raises(ValueError, match=words("`candidates`", "positive")):
        ra.calibration_error(Y, F, candidates=wrong, **SEARCHED)


def test_the_number_of_bandwidths():
    with pytest.raises(ValueError, match=words("`bandwidth`", "one number or 3", "found 2")):
        ra.calibration_error(Y, F, bandwidth=[0.1, 0.2])
    with pytest.raises(ValueError, match=words("`bandwidth`", "'canonical'", "found 3")):
        ra.calibration_error(Y, F, notion="canonical", bandwidth=[0.1, 0.2, 0.3])
    with pytest.raises(ValueError, match=words("`candidates`", "one-dimensional", "(1, 2)")):
        ra.calibration_error(Y, F, candidates=[[0.1, 0.2]], **SEARCHED)


def test_a_bandwidth_that_is_no_number():
    with pytest.raises(TypeError, match=words("`bandwidth`", "positive numbers")):
        ra.calibration_error(Y, F, bandwidth={"a": 1})


def test_a_search_belongs_to_its_notion():
    search = ra.select_bandwidth(Y, F, notion="classwise", candidates=[0.1, 0.2])
    with pytest.raises(ValueError, match=words("`bandwidth`", "3 problem", "'canonical'", "same")):
        ra.calibration_error(Y, F, notion="canonical", bandwidth=search)


@pytest.mark.parametrize("wrong", [0, -1, np.nan, "2", None])
def test_the_power_must_be_positive(wrong):
    with pytest.raises(ValueError, match=words("`power`", "positive", repr(wrong))):
        ra.calibration_error(Y, F, power=wrong, **SEARCHED)


def test_binary_errors_need_two_classes():
    with pytest.raises(ValueError, match=words("`notion='binary'`", "two classes", "found 3")):
        ra.calibration_error(Y, F, notion="binary")


def test_the_paper_has_no_candidates_for_the_rbf_kernel():
    with pytest.raises(ValueError, match=words("`candidates='paper'`", "'rbf'", "None")):
        ra.calibration_error(Y, F, kernel="rbf", candidates="paper", **SEARCHED)


BAD_GRIDS = {
    "too few": (1, "classwise", words("`grid`", "from 2 to", "found 1")),
    "outside": ([0.5, 1.5], "classwise", words("`grid`", "[0, 1]")),
    "NaN": ([0.5, np.nan], "classwise", words("`grid`", "[0, 1]")),
    "empty": ([], "classwise", words("`grid`", "[0, 1]")),
    "a matrix": (F, "classwise", words("`grid`", "(m,)", "(6, 3)")),
    "a number for a simplex": (11, "canonical", words("`grid`", "(m, 3)", "canonical")),
    "a line for a simplex": ([0.5, 0.6], "canonical", words("`grid`", "(m, 3)", "(2,)")),
    "too few columns": (F[:, :2], "canonical", words("`grid`", "(m, 3)", "(6, 2)")),
    "off the simplex": ([[0.9, 0.9, 0.9]], "canonical", words("`grid`", "sum to 1")),
}


@pytest.mark.parametrize("name", BAD_GRIDS)
def test_bad_grids(name):
    grid, notion, message = BAD_GRIDS[name]
    with pytest.raises(ValueError, match=message):
        ra.reliability_curve(Y, F, grid=grid, notion=notion, bandwidth=0.1)


def test_a_grid_may_be_counted_by_numpy():
    assert len(ra.reliability_curve(B, P, grid=np.int64(7), bandwidth=0.1).grid) == 7


def test_classes_of_any_kind():
    y, f = ["a", "b", "a", "b"], [[0.3, 0.7], [0.1, 0.9], [0.6, 0.4], [0.5, 0.5]]
    expected = as_sample(y, f, classes=["a", "b"])
    for classes in (("a", "b"), (c for c in "ab"), np.array(["a", "b"]), {"a": 0, "b": 1}):
        found = as_sample(y, f, classes=classes)
        assert found.classes == expected.classes
        np.testing.assert_array_equal(found.labels, expected.labels)
    for classes in ([["a"], ["b"]], "ab", 2):
        with pytest.raises(TypeError, match="`classes` must"):
            as_sample(y, f, classes=classes)
    odd = np.empty(4, dtype=object)
    odd[:] = [{"a"}] * 4
    with pytest.raises(TypeError, match="one name or number per sample"):
        as_sample(odd, f, classes=["a", "b"])


@pytest.mark.parametrize("hard", [[0, 1, 2, 1], [0.0, 5.0, 2.0, 1.0]])
def test_hard_labels_are_named(hard):
    with pytest.raises(ValueError, match="These look like class labels: pass probabilities"):
        ra.calibration_error([0, 1, 1, 0], hard)
    with pytest.raises(ValueError, match="from_logits=True"):
        ra.calibration_error([0, 1, 1, 0], [0.5, 5.5, 2.0, 1.0])


def test_one_class_only_is_noted():
    data = ra.datasets.calibrated(60, 3, seed=0)
    result = ra.calibration_error(np.ones(60, int), data.y_prob, bandwidth=0.1, estimator="plugin")
    assert result.note.startswith("All labels are of class 1,")
    result = ra.calibration_error(np.zeros(60, int), data.y_prob[:, 0])
    assert result.note.startswith("All labels are of class 0,")
    top = np.argmax(data.y_prob, axis=1)
    assert ra.calibration_error(top, data.y_prob, notion="top-label").note == ""
    assert ra.calibration_error(data.y_true, data.y_prob, bandwidth=0.1).note == ""


def test_errors_of_rows_travel_between_processes():
    error = RowError("row 3 is wrong", 3, 1, "found 1.7 there")
    same = pickle.loads(pickle.dumps(error.after(50)))
    assert str(same) == "In the rows from 50 on: row 3 is wrong"
    assert (same.row, same.column, same.found) == (53, 1, "found 1.7 there")


def test_labels_of_several_classes_per_row():
    """Multi-label data, whose rows of probabilities need not sum to one."""
    rng = np.random.default_rng(0)
    truth, p = rng.integers(0, 2, (40, 4)), rng.random((40, 4))
    first = int(np.argmax(truth.sum(axis=1) > 1))
    several = re.escape(f"`y_true` has several classes per row (first in row {first}): use one")
    for options in ({}, {"normalize": True}):
        with pytest.raises(ValueError, match=f"^{several}"):
            as_sample(truth, p, **options)
    with pytest.raises(ValueError, match=r"sums to [0-9.]+\. Pass `normalize=True`.*one call per"):
        as_sample(truth[:, 0], p)


def test_one_probability_beside_many_classes():
    labels = np.arange(40) % 10
    with pytest.raises(ValueError, match="probability of one class, but `y_true` has 10 different"):
        as_sample(labels, np.full(40, 0.5))
    with pytest.raises(ValueError, match="must hold labels 0 to 1"):
        as_sample(np.arange(40) % 2 + 1, np.full(40, 0.5))


def test_a_single_score_is_not_to_be_normalised():
    for scores in (np.linspace(-1, 1, 6), np.linspace(0, 3, 6)):
        with pytest.raises(ValueError, match="for logits; map other scores") as caught:
            as_sample([0, 1] * 3, scores)
        assert "normalize" not in str(caught.value)
