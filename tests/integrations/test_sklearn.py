"""The calibrator against its formula, on hard inputs and inside scikit-learn; the scorer."""

import inspect
import pickle
import subprocess
import sys

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import beta
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.ensemble import StackingClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, Perceptron
from sklearn.metrics import log_loss
from sklearn.model_selection import (
    GridSearchCV,
    StratifiedKFold,
    cross_val_predict,
    cross_val_score,
    train_test_split,
)
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import riskalign as ra
from riskalign.data.sample import Sample
from riskalign.datasets import FAMILIES
from riskalign.recalibration import kernel as recalibration
from riskalign.recalibration.kernel import FORMS
from riskalign.recalibration.scaling import Fit


class Probabilities(TransformerMixin, BaseEstimator):
    """A classifier's probabilities as features, to put a calibrator behind it in a pipeline."""

    def fit(self, X, y):
        self.model_ = LogisticRegression().fit(X, y)
        return self

    def transform(self, X):
        return self.model_.predict_proba(X)


# scikit-learn's checks feed features. These need X of another kind than probabilities; behind
# a classifier that makes probabilities of features, every check is made.
NEEDS_FEATURES = [
    "check_classifier_data_not_an_array",
    "check_classifiers_classes",
    "check_classifiers_one_label",
    "check_classifiers_one_label_sample_weights",
    "check_classifiers_train",
    "check_dict_unchanged",
    "check_dont_overwrite_parameters",
    "check_dtype_object",
    "check_estimators_dtypes",
    "check_estimators_fit_returns_self",
    "check_estimators_nan_inf",
    "check_estimators_overwrite_params",
    "check_estimators_pickle",
    "check_f_contiguous_array_estimator",
    "check_fit2d_1feature",
    "check_fit2d_predict1d",
    "check_fit_check_is_fitted",
    "check_fit_idempotent",
    "check_fit_score_takes_y",
    "check_methods_sample_order_invariance",
    "check_methods_subset_invariance",
    "check_n_features_in",
    "check_n_features_in_after_fitting",
    "check_pipeline_consistency",
    "check_readonly_memmap_input",
    "check_sample_weight_equivalence_on_dense_data",
    "check_sample_weights_list",
    "check_sample_weights_not_an_array",
    "check_sample_weights_not_overwritten",
    "check_sample_weights_pandas_series",
    "check_sample_weights_shape",
    "check_supervised_y_2d",
]


WEIGHTS_AS_COPIES = [
    "check_sample_weight_equivalence_on_dense_data",
    "check_sample_weight_equivalence_on_sparse_data",
]

STRICT = (  # not known to scikit-learn 1.6
    {"xfail_strict": True}
    if "xfail_strict" in inspect.signature(parametrize_with_checks).parameters
    else {}
)


def expected_failures(estimator):
    if isinstance(estimator, ra.KernelCalibrator):
        return dict.fromkeys(NEEDS_FEATURES, "X must hold probabilities that sum to one")
    if isinstance(estimator, ra.KernelCalibratedClassifierCV):
        # scikit-learn's own list of expected failures says the same of CalibratedClassifierCV.
        return dict.fromkeys(WEIGHTS_AS_COPIES, "copies of a sample fall into several folds")
    if isinstance(estimator, StackingClassifier) and not STRICT:
        # Its folds do not know weights, and scikit-learn 1.6 checks them all the same.
        return dict.fromkeys(WEIGHTS_AS_COPIES, "copies of a sample fall into several folds")
    return {}


@pytest.mark.filterwarnings("ignore")  # of the checks' own degenerate data
@parametrize_with_checks(
    [
        ra.KernelCalibrator(),
        ra.KernelCalibratedClassifierCV(LogisticRegression(C=1.0), cv=3),
        StackingClassifier([("model", LogisticRegression())], ra.KernelCalibrator(), cv=3),
    ],
    expected_failed_checks=expected_failures,
    **STRICT,
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def halves(family, n, n_classes, seed=0):
    data = FAMILIES[family](2 * n, n_classes, seed)
    return (
        (data.y_prob[:n], data.y_true[:n]),
        (data.y_prob[n:], data.y_true[n:], data.conditional[n:]),
    )


@pytest.mark.parametrize("notion", ["classwise", "canonical"])
@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("family", ["temperature", "class bias", "label noise", "peaked", "wavy"])
def test_probabilities_come_closer_to_the_truth(family, n_classes, notion):
    (X, y), (f, _, truth) = halves(family, 4000, n_classes)
    calibrator = ra.KernelCalibrator(notion=notion).fit(X, y)
    R = calibrator.predict_proba(f)
    before, after = (np.mean(np.sum((p - truth) ** 2, axis=1)) for p in (f, R))
    # Waves of four probabilities are finer than a kernel on the whole simplex resolves.
    blurred = (family, n_classes, notion) == ("wavy", 4, "canonical")
    if blurred:
        assert calibrator.shrinkage_ == 0
        np.testing.assert_array_equal(R, calibrator.map_.scaling(f))
    else:
        assert after < 0.45 * before


def test_a_calibrated_model_is_left_alone():
    (X, y), (f, _, truth) = halves("calibrated", 4000, 4)
    calibrator = ra.KernelCalibrator().fit(X, y)
    R = calibrator.predict_proba(f)
    assert np.mean(np.sum((R - truth) ** 2, axis=1)) < 5e-4
    assert calibrator.shrinkage_ == 0


def test_the_formula_by_plain_loops(monkeypatch):
    monkeypatch.setattr(recalibration, "FEWEST_ERRORS", -1e9)  # smoothing in full
    monkeypatch.setattr(recalibration, "ENOUGH_ERRORS", -1e8)
    data = ra.datasets.class_bias(150, 2, seed=3)
    p, y, h = data.y_prob[:, 1], data.y_true, 0.03
    new = np.array([0.0, 0.2, 0.5, 0.999, 1.0])
    calibrator = ra.KernelCalibrator(bandwidth=h, start="identity").fit(p, y)
    assert calibrator.shrinkage_ == 1

    def kernel(x, c):  # log x is floored at 1e-9, as everywhere
        x = np.clip(x, 1e-9, 1 - 1e-9)
        return beta.pdf(x, c / h + 1, (1 - c) / h + 1)

    weights = np.array([[kernel(x, c) for c in p] for x in new])
    q = weights @ (y - p) / weights.sum(axis=1)
    R, rest = np.maximum(new + q, 0.1 * new), np.maximum(1 - new - q, 0.1 * (1 - new))
    np.testing.assert_allclose(calibrator.predict_proba(new)[:, 1], R / (R + rest), atol=1e-5)


def test_smoothing_is_used_where_it_pays_and_only_there():
    (X, y), _ = halves("wavy", 4000, 2)
    assert ra.KernelCalibrator().fit(X, y).shrinkage_ == 1
    (X, y), (f, _, _) = halves("temperature", 4000, 2)
    calibrator = ra.KernelCalibrator().fit(X, y)
    assert calibrator.shrinkage_ == 0
    np.testing.assert_array_equal(calibrator.predict_proba(f), calibrator.map_.scaling(f))


@pytest.mark.parametrize("start", ["matrix", "vector"])
def test_the_share_of_a_start_has_the_lowest_left_out_loss(start):
    (X, y), _ = halves("class bias", 300, 3)
    sample = Sample(X, y, np.ones(len(y)), ("a", "b", "c"))
    rich, simple = (
        Fit.of(sample, form).left_out_logits() for form in (FORMS[start], FORMS["temperature"])
    )
    found = recalibration.Start.of(sample, start)
    risks = [
        np.mean(logsumexp(eta, axis=1) - eta[np.arange(len(y)), y])
        for eta in (w * rich + (1 - w) * simple for w in np.linspace(0, 1, 101))
    ]
    assert found.share == pytest.approx(np.argmin(risks) / 100, abs=0.03)


@pytest.mark.parametrize("notion", ["classwise", "canonical"])
def test_hard_inputs_stay_on_the_simplex(notion):
    rng = np.random.default_rng(0)
    f = rng.dirichlet(np.full(5, 0.1), 60)
    f[:20] = np.eye(5)[rng.integers(0, 4, 20)]  # exact zeros and ones, ties
    f[20:30] = f[20]
    y = rng.integers(0, 3, 60)  # two classes are empty
    new = np.concatenate([np.eye(5), f[:3], np.full((1, 5), 0.2)])
    R = ra.KernelCalibrator(notion=notion).fit(f, y).predict_proba(new)
    assert R.shape == (9, 5)
    assert np.isfinite(R).all()
    assert (R >= 0).all()
    np.testing.assert_allclose(R.sum(axis=1), 1.0, atol=1e-12)


def test_two_samples():
    R = ra.KernelCalibrator().fit([[0.3, 0.7], [0.6, 0.4]], [1, 0]).predict_proba([[0.5, 0.5]])
    assert np.isfinite(R).all()
    assert R.sum() == pytest.approx(1.0)


def test_one_row_of_one_label():
    R = ra.KernelCalibrator().fit([[0.3, 0.7], [0.6, 0.4]], [1, 1]).predict_proba([[0.6, 0.4]])
    assert R[0, 1] > 0.4


def test_rare_classes_are_not_smoothed():
    (X, y), (f, labels, _) = halves("temperature", 500, 1000)
    calibrator = ra.KernelCalibrator().fit(X, y)
    assert np.isnan(calibrator.bandwidth_)
    assert log_loss(labels, calibrator.predict_proba(f), labels=range(1000)) < log_loss(
        labels, f, labels=range(1000)
    )


def test_many_classes_are_no_worse_than_by_temperature():
    (X, y), (f, labels, _) = halves("temperature", 2000, 40)
    default, simple = (
        ra.KernelCalibrator(start=start).fit(X, y).predict_proba(f)
        for start in ("matrix", "temperature")
    )
    assert log_loss(labels, default) < 1.002 * log_loss(labels, simple)


def test_float32_gives_nearly_the_same():
    (X, y), (f, _, _) = halves("peaked", 1500, 3)
    double = ra.KernelCalibrator(bandwidth=0.02).fit(X, y).predict_proba(f)
    single = ra.KernelCalibrator(bandwidth=0.02).fit(X.astype(np.float32), y)
    np.testing.assert_allclose(single.predict_proba(f.astype(np.float32)), double, atol=2e-5)


def test_forms_of_one_probability():
    (X, y), (f, _, _) = halves("wavy", 500, 2)
    expected = ra.KernelCalibrator().fit(X, y).predict_proba(f)
    assert expected.shape == f.shape
    for form in (lambda p: p[:, 1], lambda p: p[:, 1:], lambda p: p[:, 1].tolist()):
        own = ra.KernelCalibrator().fit(form(X), y).predict_proba(form(f))
        np.testing.assert_allclose(own, expected, atol=1e-9)


def test_two_classes_are_one_problem_for_both_notions():
    (X, y), (f, _, _) = halves("wavy", 500, 2)
    classwise, canonical = (
        ra.KernelCalibrator(notion=notion).fit(X, y).predict_proba(f)
        for notion in ("classwise", "canonical")
    )
    np.testing.assert_array_equal(classwise, canonical)


@pytest.mark.parametrize("notion", ["classwise", "canonical"])
def test_classes_in_another_order(notion):
    (X, y), (f, _, _) = halves("class bias", 600, 3)
    order = np.array([2, 0, 1])
    plain = ra.KernelCalibrator(notion=notion).fit(X, y).predict_proba(f)
    moved = ra.KernelCalibrator(notion=notion).fit(X[:, order], np.argsort(order)[y])
    np.testing.assert_allclose(moved.predict_proba(f[:, order]), plain[:, order], atol=1e-9)


def test_weight_zero_is_no_sample():
    (X, y), (f, _, _) = halves("class bias", 400, 3)
    weights = np.r_[np.full(300, 2.0), np.zeros(100)]
    weighted = ra.KernelCalibrator().fit(X, y, sample_weight=weights).predict_proba(f)
    plain = ra.KernelCalibrator().fit(X[:300], y[:300]).predict_proba(f)
    np.testing.assert_allclose(weighted, plain, atol=1e-9)


def test_names_of_classes():
    (X, y), (f, _, _) = halves("class bias", 300, 3)
    names = np.array(["ant", "bee", "cat"])
    calibrator = ra.KernelCalibrator().fit(X, names[y])
    assert calibrator.classes_.tolist() == ["ant", "bee", "cat"]
    assert set(calibrator.predict(f)) <= set(names)
    kept = y != 1
    with_two = ra.KernelCalibrator(classes=list(names)).fit(X[kept], names[y[kept]])
    assert with_two.predict_proba(f).shape == (300, 3)
    assert ra.KernelCalibrator().fit(X[kept], y[kept]).classes_.tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("options", "X", "y", "message"),
    [
        ({}, [[0.2, 0.7], [0.5, 0.5]], [0, 1], "row 0 sums to 0.9"),
        ({}, [[-1.0, 2.0], [0.5, 0.5]], [0, 1], "Negative values"),
        ({}, [[0.2, 0.8], [0.5, 0.5]], ["a", "a"], "Pass `classes=`"),
        ({}, [[0.2, 0.8], [0.5, 0.5], [0.1, 0.9]], [0, 1, 2], "holds 2"),
        ({"classes": ["a"]}, [[0.2, 0.8], [0.5, 0.5]], ["a", "a"], "each of the 2 columns"),
        ({"notion": "top-label"}, [[0.2, 0.8], [0.5, 0.5]], [0, 1], "`notion` must be one of"),
        ({"start": "warm"}, [[0.2, 0.8], [0.5, 0.5]], [0, 1], "`start` must be one of"),
        ({"bandwidth": -1}, [[0.2, 0.8], [0.5, 0.5]], [0, 1], "`bandwidth` must be a positive"),
        ({"bandwidth": [1, 1, 1]}, [[0.2, 0.8], [0.5, 0.5]], [0, 1], "must be a positive number"),
    ],
)
def test_errors_say_what_to_do(options, X, y, message):
    with pytest.raises(ValueError, match=message):
        ra.KernelCalibrator(**options).fit(X, y)


def test_clone_and_pickle():
    (X, y), (f, _, _) = halves("peaked", 1200, 3)
    calibrator = ra.KernelCalibrator(notion="classwise", start="identity", bandwidth=0.05)
    assert clone(calibrator).get_params() == {
        "notion": "classwise",
        "start": "identity",
        "bandwidth": 0.05,
        "classes": None,
    }
    calibrator.fit(X, y)
    copy = pickle.loads(pickle.dumps(calibrator))
    np.testing.assert_array_equal(copy.predict_proba(f), calibrator.predict_proba(f))


def test_save_and_load(tmp_path):
    (X, y), (f, _, _) = halves("wavy", 1500, 3)
    names = np.array(["ant", "bee", "cat"])
    for notion, ending in (("classwise", "json"), ("classwise", "npz"), ("canonical", "npz")):
        path = tmp_path / f"calibrator.{ending}"
        calibrator = ra.KernelCalibrator(notion=notion).fit(X, names[y])
        calibrator.save(path)
        same = ra.KernelCalibrator.load(path)
        np.testing.assert_array_equal(same.predict_proba(f), calibrator.predict_proba(f))
        np.testing.assert_array_equal(same.predict(f), calibrator.predict(f))


def digits():
    X, y = load_digits(return_X_y=True)
    return train_test_split(X, y, test_size=0.5, random_state=0)


@pytest.mark.parametrize("model", [GaussianNB(), CalibratedClassifierCV(GaussianNB(), cv=3)])
def test_behind_a_classifier(model):
    X, X_test, y, y_test = digits()
    stacked = StackingClassifier([("model", model)], ra.KernelCalibrator(), cv=5).fit(X, y)
    plain = clone(model).fit(X, y)
    ours, theirs = (log_loss(y_test, m.predict_proba(X_test)) for m in (stacked, plain))
    assert ours < theirs


def test_in_a_pipeline():
    X, X_test, y, y_test = digits()
    pipeline = make_pipeline(MinMaxScaler(), Probabilities(), ra.KernelCalibrator()).fit(X, y)
    probabilities = Probabilities().fit(MinMaxScaler().fit_transform(X), y)
    f = probabilities.transform(MinMaxScaler().fit(X).transform(X_test))
    alone = ra.KernelCalibrator().fit(probabilities.transform(MinMaxScaler().fit_transform(X)), y)
    np.testing.assert_allclose(pipeline.predict_proba(X_test), alone.predict_proba(f))
    assert pipeline.score(X_test, y_test) > 0.9


def test_behind_a_fitted_classifier():
    X, X_test, y, _ = digits()
    model = GaussianNB().fit(X[:400], y[:400])
    stacked = StackingClassifier([("model", model)], ra.KernelCalibrator(), cv="prefit")
    stacked.fit(X[400:], y[400:])
    alone = ra.KernelCalibrator().fit(model.predict_proba(X[400:]), y[400:])
    np.testing.assert_allclose(
        stacked.predict_proba(X_test), alone.predict_proba(model.predict_proba(X_test))
    )


def test_cross_validated_as_by_hand():
    X, X_test, y, y_test = digits()
    model = ra.KernelCalibratedClassifierCV(GaussianNB(), cv=4).fit(X, y)
    held = cross_val_predict(GaussianNB(), X, y, cv=4, method="predict_proba")
    calibrator = ra.KernelCalibrator().fit(held, y)
    plain = GaussianNB().fit(X, y).predict_proba(X_test)
    np.testing.assert_array_equal(model.predict_proba(X_test), calibrator.predict_proba(plain))
    assert log_loss(y_test, model.predict_proba(X_test)) < log_loss(y_test, plain)


@pytest.mark.parametrize("frozen", [True, False])
def test_fitted_classifiers_are_used_as_they_are(frozen):
    X, X_test, y, _ = digits()
    names = np.array([f"digit {k}" for k in range(10)])[y]
    fitted = GaussianNB().fit(X[:400], names[:400])
    if frozen:
        model = ra.KernelCalibratedClassifierCV(FrozenEstimator(fitted))
    else:
        model = ra.KernelCalibratedClassifierCV(fitted, cv="prefit")
    model.fit(X[400:], names[400:])
    alone = ra.KernelCalibrator().fit(fitted.predict_proba(X[400:]), names[400:])
    np.testing.assert_array_equal(
        model.predict_proba(X_test), alone.predict_proba(fitted.predict_proba(X_test))
    )
    assert set(model.predict(X_test)) <= set(names)


def test_a_classifier_without_probabilities_is_refused():
    X, _, y, _ = digits()
    with pytest.raises(TypeError, match="Perceptron has none"):
        ra.KernelCalibratedClassifierCV(Perceptron()).fit(X, y)


def test_scorer_is_minus_the_error_on_each_fold():
    X, _, y, _ = digits()
    options = {"loss": "l2", "estimator": "plugin", "bandwidth": 0.05}
    folds = StratifiedKFold(3)
    scores = cross_val_score(GaussianNB(), X, y, scoring=ra.calibration_scorer(**options), cv=folds)
    for score, (train, test) in zip(scores, folds.split(X, y), strict=True):
        f = GaussianNB().fit(X[train], y[train]).predict_proba(X[test])
        assert score == -ra.calibration_error(y[test], f, **options).value


def test_scorer_of_named_and_of_two_classes():
    X, y = load_breast_cancer(return_X_y=True)
    names = np.array(["malignant", "benign"])[y]
    model = GaussianNB().fit(X, names)
    options = {"estimator": "plugin", "bandwidth": 0.05}
    expected = ra.calibration_error(
        names == "malignant", model.predict_proba(X)[:, 1], notion="binary", **options
    )
    assert ra.calibration_scorer(**options)(model, X, names) == pytest.approx(-expected.value)
    weighted = ra.calibration_scorer(**options)(model, X, names, sample_weight=np.ones(len(y)))
    assert weighted == pytest.approx(-expected.value)
    canonical = ra.calibration_scorer(notion="canonical", **options)(model, X, names)
    assert canonical == pytest.approx(-2 * expected.value)


def test_scorer_in_a_grid_search():
    X, y = load_breast_cancer(return_X_y=True)
    scorer = ra.calibration_scorer(estimator="debiased", loss="kl")
    assert repr(scorer) == "calibration_scorer(estimator='debiased', loss='kl')"
    search = GridSearchCV(
        GaussianNB(),
        {"var_smoothing": [1e-9, 1e-1]},
        scoring={"risk": "neg_log_loss", "calibration": scorer},
        refit="risk",
        cv=3,
    ).fit(X, y)
    assert np.isfinite(search.cv_results_["mean_test_calibration"]).all()
    assert pickle.loads(pickle.dumps(scorer)).options == scorer.options


def test_scikit_learn_is_imported_when_it_is_used():
    code = (
        "import sys, riskalign\n"
        "assert 'sklearn' not in sys.modules\n"
        "assert {'KernelCalibrator', 'calibration_scorer'} <= set(dir(riskalign))\n"
        "riskalign.KernelCalibrator\n"
        "assert 'sklearn' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_without_scikit_learn_the_cure_is_named():
    code = (
        "import sys\n"
        "sys.modules['sklearn'] = None\n"
        "import riskalign\n"
        "from riskalign import *\n"
        "try:\n"
        "    riskalign.KernelCalibrator\n"
        "except ImportError as error:\n"
        "    assert 'riskalign[sklearn]' in str(error)\n"
        "else:\n"
        "    raise SystemExit(1)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    with pytest.raises(AttributeError, match="no attribute 'KernelCalibrater'"):
        ra.KernelCalibrater


@pytest.mark.parametrize("scale", [1e-300, 1e160, 1e307])
def test_the_scale_of_weights_does_not_matter(scale):
    data = ra.datasets.temperature(200, 3, seed=0)
    weights = np.random.default_rng(0).uniform(0.2, 1, 200)
    one, two = (
        ra.KernelCalibrator()
        .fit(data.y_prob, data.y_true, sample_weight=own)
        .predict_proba(data.y_prob)
        for own in (weights, scale * weights)
    )
    np.testing.assert_allclose(two, one, rtol=1e-9)


def test_many_rare_classes_are_no_regression():
    f = np.random.default_rng(0).dirichlet(np.ones(20), 25)
    y = np.arange(25) % 20
    assert ra.KernelCalibrator().fit(f, y).predict_proba(f).shape == (25, 20)  # and no warning
