"""Random calls of the public functions, and what must hold for each of them.

Every case is drawn from its number alone, so that ``check(number)`` repeats it. A call answers,
or raises an error of our own. An answer is finite and within the range of its loss, is the same
when it is asked again, and changes neither with the order of rows or classes, nor with the scale
of weights, nor with types, batches and merged sketches. No call leaves a trace in the process.
"""

import contextlib
import dis
import io
import os
import warnings
from functools import cache

import numpy as np
import pyarrow as pa
from samples import draw_sample
from threadpoolctl import ThreadpoolController

import riskalign as ra
from riskalign.sklearn import KernelCalibrator  # its library sets filters when it is imported

NOTIONS = ("binary", "top-label", "classwise", "canonical")
BINS = (ra.EqualWidthBins, ra.EqualMassBins, ra.SimplexBins)
METHODS = (
    ra.EqualWidthBins(5),
    ra.EqualMassBins(4),
    ra.EqualWidthBins(5, norm="l1"),
    ra.SimplexBins(4),
    ra.KernelRidge(),
    ra.SmoothECE(),
    ra.Isotonic(),
    ra.Kuiper(),
    ra.Spiegelhalter(),
    ra.AlwaysZero(),
    ra.KernelSmoother(0.05, estimator="plugin"),
)
CALIBRATORS = ("temperature", "platt", "vector", "matrix", "kernel")
CLOSE = {"rtol": 1e-6, "atol": 1e-8}
"""Sums in another order: in float64, of sums of up to 40 rows, divided by what is left of them."""

UNLIKE = {"rtol": 1e-4, "atol": 1e-6}
"""The same where weights differ by up to thirteen decades, which cost as many digits."""


def check(number):
    """Draw a case, call, and check; return what the library said: "answered" or "refused"."""
    rng = np.random.default_rng([20, number])
    sample = draw_sample(rng)
    question, options = QUESTIONS[rng.integers(len(QUESTIONS))](rng, sample)
    before = process_state()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        answer = asked(question, sample, options)
    context = f"case {number}: {question.__name__}({sample!r}, {options!r})"
    assert process_state() == before, f"the process is not as it was; {context}"
    if isinstance(answer, str):
        return "refused"
    assert_possible(answer, sample, options, context)
    variant = VARIANTS[rng.integers(len(VARIANTS))]
    other = variant(rng, question, sample, options)
    if other is not None:
        close = UNLIKE if _uneven(sample.weights) else CLOSE
        same(answer, other, close, f"{variant.__name__} changed the answer; {context}")
    return "answered"


def asked(question, sample, options):
    """The numbers of an answer by name, or the text of an error of our own."""
    try:
        return question(sample, **options)
    except (ValueError, TypeError) as error:
        if not is_ours(error):
            raise
        text = str(error)
        assert text.endswith((".", ").")), text
        return text


def is_ours(error):
    """Whether a `raise` statement of riskalign made it."""
    trace = error.__traceback__
    while trace.tb_next is not None:
        trace = trace.tb_next
    name = str(trace.tb_frame.f_globals.get("__name__"))
    instruction = trace.tb_frame.f_code.co_code[trace.tb_lasti]
    return name.startswith("riskalign.") and dis.opname[instruction] == "RAISE_VARARGS"


def process_state():
    """What calls share with their host."""
    _, keys, position, *_ = np.random.get_state()  # noqa: NPY002
    blas = [(library.filepath, library.num_threads) for library in blas_libraries()]
    return (
        (int(keys[0]), int(keys[-1]), position),
        str(np.geterr()),
        len(warnings.filters),
        blas,
        os.getcwd(),
        len(os.environ),
    )


@cache
def blas_libraries():
    """Found once: to look through all that is loaded takes as long as a call."""
    return ThreadpoolController().select(user_api="blas").lib_controllers


# Questions: each draws its options, and gives the numbers of its answer by name.


def error(sample, **options):
    result = ra.calibration_error(sample.y, sample.p, sample_weight=sample.weights, **options)
    numbers = {"value": result.value, "risk": result.risk}
    if result.interval is not None:
        numbers |= {"interval": result.interval, "standard_error": result.standard_error}
    if result.per_class is not None:
        numbers["per_class"] = result.per_class
    if result.conditional is not None:
        numbers["conditional"] = result.conditional
    return numbers


def test(sample, **options):
    result = ra.calibration_test(sample.y, sample.p, sample_weight=sample.weights, **options)
    return {"p_value": result.p_value, "parts": list(result.parts.values())}


def comparison(sample, **options):
    other = 0.7 * sample.p + 0.3 / sample.n_classes
    result = ra.compare(sample.y, sample.p, other, sample_weight=sample.weights, **options)
    return {"value": result.difference, "interval": result.interval, "p_value": result.p_value}


def curve(sample, **options):
    found = ra.reliability_curve(sample.y, sample.p, sample_weight=sample.weights, **options)
    return {"conditional": np.where(found.local_samples == 0, 0.0, found.conditional)}


def band(sample, **options):
    found = ra.isotonic_band(sample.y, sample.p, **options)
    assert (found.lower <= found.conditional).all()
    assert (found.conditional <= found.upper).all()
    return {"conditional": found.conditional, "ends": [found.lower, found.upper]}


def selection(sample, **options):
    found = ra.select_bandwidth(sample.y, sample.p, sample_weight=sample.weights, **options)
    # Its unit is that of the weights; bandwidths of equal objectives may change places.
    objective = np.asarray(found.objective)
    return {"objective": objective / max(np.abs(objective).max(), 1e-6)}


def calibrator(sample, **options):
    fitted = ra.fit_calibrator(sample.y, sample.p, sample_weight=sample.weights, **options)
    assert repr(fitted)
    return {"recalibrated": fitted(some_points(sample.n_classes))}


def learner(sample, **options):
    fitted = KernelCalibrator(**options).fit(sample.matrix, sample.y, sample.weights)
    return {"recalibrated": fitted.predict_proba(some_points(sample.n_classes))}


def gains(sample, **options):
    found = ra.recalibration_gains(sample.y, sample.p, sample_weight=sample.weights, **options)
    assert all(map(str, found))
    before = [[gain.error_before, gain.log_loss_before] for gain in found]
    after = [[gain.error_after, gain.log_loss_after, gain.log_loss_doubt] for gain in found]
    return {"before": before, "after": after}


def some_points(n_classes):
    """Predictions at which calibrators are read: corners, the middle, and others."""
    others = np.random.default_rng(0).dirichlet(np.ones(n_classes), 3)
    return np.concatenate([np.eye(n_classes), np.full((1, n_classes), 1 / n_classes), others])


def batches(sample, **options):
    cut = len(sample.y) // 3
    parts = [(sample.y[rows], sample.p[rows]) for rows in (slice(cut), slice(cut, None))]
    if sample.weights is not None:
        parts[0] += (sample.weights[:cut],)
        parts[1] += (sample.weights[cut:],)
    result = ra.calibration_error_of_batches(parts[not cut :], **options)
    return {"value": result.value, "risk": result.risk}


def table(sample, **options):
    columns = {f"p_{k}": column for k, column in enumerate(sample.matrix.T)}
    weights = {} if sample.weights is None else {"w": sample.weights}
    found = ra.sketch_batches(
        pa.table({"y": sample.y} | columns | weights),
        probs=list(columns),
        weight="w" if weights else None,
        classes=list(range(sample.n_classes)),
        **options,
    )
    result = found.calibration_error()
    return {"value": result.value, "risk": result.risk}


def sketched(sample, notion):
    return ra.CalibrationSketch(notion, sample.n_classes).update(
        sample.y, sample.p, sample_weight=sample.weights
    )


def sketch_test(sample, *, notion, **options):
    result = sketched(sample, notion).calibration_test(**options)
    return {"p_value": result.p_value, "parts": list(result.parts.values())}


def sketch_comparison(sample, *, notion, **options):
    softer = type(sample)(sample.y, 0.7 * sample.p + 0.3 / sample.n_classes, sample.weights)
    result = sketched(sample, notion).compare(sketched(softer, notion), **options)
    return {"value": result.difference, "interval": result.interval, "p_value": result.p_value}


def history(sample, *, notion, size, **options):
    periods = ra.CalibrationHistory()
    for first in range(0, len(sample.y), size):
        part = sample.take(slice(first, first + size))
        periods.append(f"day {first}", sketched(part, notion))
    alarm = periods.alarm(**options)
    assert str(alarm)
    assert alarm.to_dict()
    columns = periods.to_columns(loss=options["loss"])
    assert all(
        n < 2 for n, value in zip(columns["n"], columns["value"], strict=True) if value != value
    )
    known = [value for value in columns["value"] if value == value]
    return {"evidence": list(alarm.evidence), "limit": alarm.limit, "known": known}


def sketch(sample, **options):
    notion, limit = options.pop("notion"), options.pop("exact_limit")
    made = ra.CalibrationSketch(notion, sample.n_classes, exact_limit=limit)
    result = made.update(sample.y, sample.p, sample_weight=sample.weights).calibration_error(
        **options
    )
    return {"value": result.value, "risk": result.risk, "interval": result.interval}


def _notion(rng, sample):
    return str(rng.choice(NOTIONS if sample.n_classes == 2 else NOTIONS[1:]))


def _loss(rng):
    return str(rng.choice(["l2", "l2", "kl", "ranked"]))


def draw_default(rng, sample):
    options = {"notion": _notion(rng, sample), "loss": _loss(rng), "confidence": 0.95}
    return error, options | {"start": str(rng.choice(["logistic", "temperature", "identity"]))}


def draw_kernel(rng, sample):
    options = {
        "notion": _notion(rng, sample),
        "loss": _loss(rng),
        "estimator": str(rng.choice(["debiased", "plugin", "variational", "cross"])),
        "kernel": str(rng.choice(["dirichlet", "rbf"])),
        "bandwidth": float(rng.choice([1e-5, 3e-4, 0.004, 0.07, 0.5, 1.0])),
    }
    return error, options


def draw_search(rng, sample):
    criterion = str(rng.choice(["risk-alignment", "likelihood", "cross-validation"]))
    options = {
        "notion": _notion(rng, sample),
        "loss": _loss(rng),
        "estimator": "plugin",
        "bandwidth": criterion,
        "candidates": [0.003, 0.04, 0.3],
    }
    return error, options


def draw_method(rng, sample):
    method = METHODS[rng.integers(len(METHODS))]
    known = method.scope.notions if rng.random() < 0.9 else NOTIONS
    possible = [n for n in known if n != "binary" or sample.n_classes == 2]
    return error, {"notion": str(rng.choice(possible)), "method": method}


def draw_norm(rng, sample):
    notion = _notion(rng, sample)
    norms = ["l1", "l2"] + ["euclidean"] * (notion == "canonical")
    return error, {"notion": notion, "norm": str(rng.choice(norms)), "confidence": 0.95}


def draw_largest_gap(rng, sample):
    notion = "binary" if sample.n_classes == 2 and rng.random() < 0.5 else "top-label"
    return error, {"notion": notion, "norm": "max"}


def draw_band(rng, sample):
    return band, {"notion": "binary" if sample.n_classes == 2 else "top-label", "confidence": 0.9}


def draw_selection(rng, sample):
    criterion = str(rng.choice(["risk-alignment", "likelihood", "cross-validation"]))
    options = {"notion": _notion(rng, sample), "loss": _loss(rng), "criterion": criterion}
    return selection, options | {"candidates": [0.003, 0.04, 0.3]}


def draw_calibrator(rng, sample):
    return calibrator, {"method": str(rng.choice(CALIBRATORS))}


def draw_learner(rng, sample):
    options = {
        "notion": str(rng.choice(["classwise", "canonical"])),
        "start": str(rng.choice(["matrix", "vector", "temperature", "identity"])),
    }
    return learner, options | {"bandwidth": [None, 1e-4, 0.05][rng.integers(3)]}


def draw_gains(rng, sample):
    methods = [str(rng.choice(CALIBRATORS))]
    return gains, {"methods": methods, "notion": _notion(rng, sample), "loss": _loss(rng)}


def draw_batches(rng, sample):
    if rng.random() < 0.5:
        return table, {"notion": _notion(rng, sample)}
    return batches, {"notion": _notion(rng, sample), "loss": _loss(rng)}


def draw_stored(rng, sample):
    if rng.random() < 0.5:
        return sketch_test, {"notion": _notion(rng, sample), "n_draws": 19}
    return sketch_comparison, {"notion": _notion(rng, sample), "loss": _loss(rng)}


def draw_history(rng, sample):
    size = max(1, len(sample.y) // int(rng.integers(2, 4)))
    return history, {"notion": _notion(rng, sample), "loss": _loss(rng), "size": size}


def draw_test(rng, sample):
    return test, {"notion": _notion(rng, sample), "n_draws": 19}


def draw_comparison(rng, sample):
    return comparison, {"notion": _notion(rng, sample), "loss": _loss(rng)}


def draw_curve(rng, sample):
    notion = str(rng.choice([n for n in NOTIONS[:3] if n != "binary" or sample.n_classes == 2]))
    options = {"notion": notion, "grid": [0.0, 0.3, 1.0], "bandwidth": 0.1}
    return curve, options | {"estimator": str(rng.choice(["plugin", "debiased"]))}


def draw_sketch(rng, sample):
    options = {"notion": _notion(rng, sample), "loss": _loss(rng), "confidence": 0.9}
    return sketch, options | {"exact_limit": None if rng.random() < 0.5 else 5}


QUESTIONS = (
    draw_default,
    draw_default,
    draw_kernel,
    draw_kernel,
    draw_search,
    draw_method,
    draw_test,
    draw_comparison,
    draw_curve,
    draw_sketch,
    draw_method,
    draw_norm,
    draw_largest_gap,
    draw_band,
    draw_selection,
    draw_calibrator,
    draw_learner,
    draw_gains,
    draw_batches,
    draw_stored,
    draw_history,
)


# What must hold for an answer.


def assert_possible(answer, sample, options, context):
    """Finite, and within the range of the loss."""
    for name, numbers in answer.items():
        values = np.asarray(numbers, dtype=float)
        if name == "conditional":
            if isinstance(options.get("method"), BINS):
                values = values[~np.isnan(values)]  # a row has no neighbour in its bin
            assert not np.isnan(values).any(), f"{name} is not known; {context}"
            assert not (values < -1e-9).any(), f"{name} below 0; {context}"
            assert not (values > 1 + 2e-3).any(), f"{name} above 1; {context}"
            continue
        if isinstance(options.get("method"), ra.Spiegelhalter) and name == "value":
            assert not np.isnan(values), context  # infinite if a label was impossible
            continue
        assert np.isfinite(values).all(), f"{name} = {numbers}; {context}"
        if name == "p_value":
            assert 0 < values <= 1, f"{name} = {numbers}; {context}"
        if name == "recalibrated":
            assert (values >= 0).all(), f"{name} below 0; {context}"
            np.testing.assert_allclose(values.sum(axis=1), 1, rtol=0, atol=2e-3, err_msg=context)
        if name == "interval":
            assert values[0] <= values[1], f"{name} = {numbers}; {context}"
            limit = largest(sample.n_classes, options)
            assert np.abs(values).max() <= limit, f"{name} = {numbers}, beyond {limit}; {context}"
        if name in ("value", "risk"):
            limit = largest(sample.n_classes, options)
            assert abs(values) <= limit, f"{name} = {numbers}, beyond {limit}; {context}"


def largest(n_classes, options):
    """The largest loss there is, summed over classes where errors are."""
    if "norm" in options:
        return 1.01 * max(n_classes, 2)
    notion, loss = options["notion"], options.get("loss", "l2")
    n_problems = n_classes if notion == "classwise" else 1
    joint = notion == "canonical"
    of_one = {
        "l2": 2.0 if joint else 1.0,
        "kl": -np.log(1e-9),
        "ranked": n_classes - 1.0 if joint else 1.0,
    }[loss]
    return 1.01 * n_problems * of_one  # rows may sum to 1.001


def same(answer, other, close, context):
    assert isinstance(other, dict), f"{context}: {other}"
    for name, numbers in answer.items():
        np.testing.assert_allclose(
            np.asarray(other[name], float), np.asarray(numbers, float), **close, err_msg=context
        )


def _uneven(weights):
    if weights is None or not (weights > 0).any():
        return False
    positive = weights[weights > 0]
    return positive.max() > 1e4 * positive.min()


# The same question asked in another way; None where the way does not exist.


def asking_again(rng, question, sample, options):
    return asked(question, sample, dict(options))


def permuting_rows(rng, question, sample, options):
    if question is history:
        return None  # rows make periods by their place
    order = rng.permutation(len(sample.y))
    found = asked(question, sample.take(order), options)
    if isinstance(found, dict) and question is error and "conditional" in found:
        found["conditional"] = np.asarray(found["conditional"])[np.argsort(order)]
    return found


def permuting_classes(rng, question, sample, options):
    if options.get("loss") == "ranked" or sample.p.ndim == 1 or question is not error:
        return None
    if options["notion"] not in ("classwise", "canonical") or "method" in options:
        return None  # the positive class and the first of equal top labels have a place
    order = rng.permutation(sample.n_classes)
    moved = type(sample)(np.argsort(order)[sample.y], sample.p[:, order], sample.weights)
    found = asked(question, moved, options)
    if isinstance(found, dict):
        back = np.argsort(order)
        found["conditional"] = np.asarray(found["conditional"])[:, back]
        if "per_class" in found:
            found["per_class"] = found["per_class"][back]
        for drawn in ("interval", "standard_error"):  # labels are drawn class by class
            found.pop(drawn, None)
        return _only(found, asked(question, sample, options))
    return found


def _only(found, answer):
    """What was found, and the rest as it was answered."""
    return answer | found


def scaling_weights(rng, question, sample, options):
    if sample.weights is None:
        return None
    scale = float(rng.choice([1e-100, 3.0, 1e100]))
    if not 1e-200 < sample.weights.max() < 1e200:
        return None
    return asked(question, type(sample)(sample.y, sample.p, scale * sample.weights), options)


def changing_types(rng, question, sample, options):
    if (
        question in (comparison, sketch_comparison, learner)
        or (sample.p != sample.p.astype(np.float32)).any()
    ):
        return None  # a second model is computed in the type of the first; learners take numbers
    labels = sample.y.astype(rng.choice(["int8", "float32", "object", "uint64"]))
    return asked(question, type(sample)(labels, sample.p.astype("f4"), sample.weights), options)


def dividing_into_batches(rng, question, sample, options):
    if question not in (error, sketch) or "method" in options:
        return None
    cut = int(rng.integers(0, len(sample.y) + 1))
    parts = [sample.take(slice(None, cut)), sample.take(slice(cut, None))]
    if rng.random() < 0.5:
        parts = parts[::-1]
    limit = options.get("exact_limit")
    asked_of_sketch = {
        name: options[name] for name in options if name not in ("notion", "exact_limit")
    }
    try:
        sketches = [
            ra.CalibrationSketch(options["notion"], sample.n_classes, exact_limit=limit).update(
                part.y, part.p, sample_weight=part.weights
            )
            for part in parts
        ]
        whole = ra.CalibrationSketch(options["notion"], sample.n_classes, exact_limit=limit).update(
            sample.y, sample.p, sample_weight=sample.weights
        )
        merged = sketches[0] + sketches[1]
        if sample.weights is None:  # sums of weights differ by rounding
            assert merged.to_bytes() == whole.to_bytes()
        stored = ra.CalibrationSketch.from_bytes(merged.to_bytes())
        result = stored.calibration_error(**asked_of_sketch)
    except (ValueError, TypeError) as problem:
        if not is_ours(problem):
            raise
        return str(problem)
    answer = asked(question, sample, options)
    found = {"value": result.value, "risk": result.risk}
    if result.interval is not None:
        found["interval"] = result.interval
    return answer | found if isinstance(answer, dict) else answer


def printing(rng, question, sample, options):
    """Results print, and have JSON; nothing reaches the terminal."""
    if question is not error:
        return None
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        result = ra.calibration_error(sample.y, sample.p, sample_weight=sample.weights, **options)
        assert str(result)
        assert result.to_dict()
    assert out.getvalue() == ""
    return None


VARIANTS = (
    asking_again,
    permuting_rows,
    permuting_rows,
    permuting_classes,
    scaling_weights,
    changing_types,
    dividing_into_batches,
    printing,
)
