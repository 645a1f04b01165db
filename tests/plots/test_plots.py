"""Pictures: where they are drawn, what they show, and what they leave empty."""

import io
import subprocess
import sys
from dataclasses import replace

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.colors import same_color
from matplotlib.figure import Figure
from scipy.special import ndtri

import riskalign as ra
from riskalign.data.notions import BINARY
from riskalign.data.validation import as_sample
from riskalign.equations.losses import L2
from riskalign.plots import bars
from riskalign.plots.canvas import GID, ORANGE, SERIES
from riskalign.plots.diagram import STRIP
from riskalign.report.diagrams import Bins


@pytest.fixture(autouse=True)
def close_figures():
    plt.close("all")
    yield
    plt.close("all")


def binary(n=600, seed=0):
    data = ra.datasets.temperature(n, 2, t2=0.5, seed=seed)
    return data.y_true, data.y_prob[:, 1]


def many(n=600, n_classes=4, seed=0):
    data = ra.datasets.class_bias(n, n_classes, seed=seed)
    return data.y_true, data.y_prob


def classwise_result(**options):
    return ra.calibration_error(
        *many(**options), notion="classwise", estimator="plugin", bandwidth=0.05
    )


PICTURES = {
    "binary": lambda **kw: ra.plots.reliability_diagram(*binary(), **kw),
    "top-label": lambda **kw: ra.plots.reliability_diagram(*many(), **kw),
    "one class": lambda **kw: ra.plots.reliability_diagram(*many(), pos_label=2, **kw),
    "logit": lambda **kw: ra.plots.reliability_diagram(*binary(), scale="logit", **kw),
    "bandwidth": lambda **kw: ra.plots.bandwidth_curve(
        ra.select_bandwidth(*binary(), criterion="risk-alignment"), **kw
    ),
    "bandwidths of 4": lambda **kw: ra.plots.bandwidth_curve(
        ra.select_bandwidth(*many(), criterion="likelihood"), **kw
    ),
    "bandwidths of 8": lambda **kw: ra.plots.bandwidth_curve(
        ra.select_bandwidth(*many(n_classes=8), candidates=[0.001, 0.01, 0.1]), **kw
    ),
    "classes": lambda **kw: ra.plots.class_bars(classwise_result(), **kw),
    "models": lambda **kw: ra.plots.model_comparison({"model": classwise_result()}, **kw),
}


@pytest.mark.parametrize("name", PICTURES)
def test_draws_on_the_axes_it_is_given(name):
    before = dict(mpl.rcParams)
    ax = Figure().subplots()  # unknown to pyplot
    assert PICTURES[name](ax=ax) is ax
    assert ax.has_data()
    assert ax.get_xlabel()
    assert plt.get_fignums() == []
    assert dict(mpl.rcParams) == before


@pytest.mark.parametrize("name", PICTURES)
def test_makes_one_figure_of_its_own(name):
    ax = PICTURES[name]()
    assert len(plt.get_fignums()) == 1
    assert ax.figure is plt.gcf()


@pytest.mark.parametrize("form", ["png", "svg", "pdf"])
@pytest.mark.parametrize("name", PICTURES)
def test_saves_without_a_warning(name, form):
    file = io.BytesIO()
    PICTURES[name]().figure.savefig(file, format=form)
    assert len(file.getvalue()) > 5_000


def curves(ax):
    return [line for line in ax.lines if line.get_gid() == GID]


def test_the_curve_is_the_one_behind_the_error():
    y, p = binary()
    (line,) = curves(ra.plots.reliability_diagram(y, p))
    x, R = line.get_data()
    curve = ra.calibration_error(y, p).reliability_curve(x)
    shown = np.isfinite(R)
    assert shown.mean() > 0.6
    np.testing.assert_allclose(R[shown], curve.conditional[shown])


def test_options_reach_the_curve():
    y, p = binary()
    (line,) = curves(ra.plots.reliability_diagram(y, p, bandwidth=0.1, estimator="plugin"))
    x, R = line.get_data()
    curve = ra.reliability_curve(y, p, grid=x, bandwidth=0.1, estimator="plugin")
    np.testing.assert_allclose(R[np.isfinite(R)], curve.conditional[np.isfinite(R)])


def test_options_reach_the_data():
    y, f = many()
    weights = np.random.default_rng(0).integers(0, 3, len(y))
    kept = np.repeat(np.arange(len(y)), weights > 0)
    pictures = [
        ra.plots.reliability_diagram(y, np.log(f), from_logits=True, sample_weight=weights > 0),
        ra.plots.reliability_diagram(y[kept], f[kept]),
    ]
    one, two = (curves(ax)[0].get_ydata() for ax in pictures)
    np.testing.assert_allclose(one, two, atol=1e-6)


def test_empty_regions_are_empty():
    rng = np.random.default_rng(0)
    p = np.concatenate([rng.uniform(0, 0.3, 500), rng.uniform(0.7, 1, 500)])
    ax = ra.plots.reliability_diagram(rng.random(1000) < p, p)
    x, R = curves(ax)[0].get_data()
    assert np.isnan(R[(x > 0.4) & (x < 0.6)]).all()
    assert np.isfinite(R[(x > 0.02) & (x < 0.28)]).all()
    band = ax.collections[0]
    reached = np.concatenate([path.vertices[:, 0] for path in band.get_paths()])
    assert not ((reached > 0.4) & (reached < 0.6)).any()


@pytest.mark.parametrize("band", ["pointwise", "simultaneous", None])
def test_few_distinct_scores_are_dots(band):
    p = np.repeat([0.1, 0.5, 0.9, 1.0], [200, 200, 200, 3])
    y = np.random.default_rng(0).random(603) < p
    display = ra.plots.ReliabilityDisplay.from_predictions(y, p, band=band)
    (dots,) = curves(display.ax_)
    values = np.unique(p)
    np.testing.assert_allclose(dots.get_xdata(), values)
    np.testing.assert_allclose(dots.get_ydata(), [y[p == v].mean() for v in values])
    assert dots.get_linestyle() == "None"
    assert np.isnan(display.conditional).all()
    z = ndtri(0.975 if band != "simultaneous" else (1 + 0.95 ** (1 / 4)) / 2)
    k, n = y[p == 0.1].sum(), 200
    centre = (k + z**2 / 2) / (n + z**2)
    reach = z / (n + z**2) * np.sqrt(k * (n - k) / n + z**2 / 4)
    assert display.atoms.low[0] == pytest.approx(centre - reach)
    assert display.atoms.high[0] == pytest.approx(centre + reach)
    assert len(display.ax_.collections) == (0 if band is None else 1)
    curve = ra.plots.ReliabilityDisplay.from_predictions(y, p, discrete=False)
    assert curve.atoms is None
    assert np.isfinite(curve.conditional).any()


@pytest.mark.parametrize("scale", ["linear", "logit"])
def test_bins_are_those_of_an_equal_width_error(scale):
    y, p = binary()
    display = ra.plots.ReliabilityDisplay.from_predictions(y, p, bins=15, scale=scale)
    found = display.bins
    ece = np.average(np.abs(found.predicted - found.observed), weights=found.samples)
    method = ra.EqualWidthBins(15, norm="l1")
    assert ece == pytest.approx(ra.calibration_error(y, p, method=method).value)
    assert ((found.low <= found.observed) & (found.observed <= found.high)).all()
    assert found.samples.sum() == len(y)
    texts = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert "15 bins of equal width" in texts


def test_keywords_of_matplotlib_reach_the_line():
    y, p = binary()
    ax = ra.plots.reliability_diagram(y, p, color="crimson", ls=":", label="mine", lw=3, alpha=0.5)
    (line,) = curves(ax)
    assert same_color(line.get_color(), "crimson")
    assert (line.get_linestyle(), line.get_linewidth(), line.get_alpha()) == (":", 3, 0.5)
    assert ax.get_legend().get_texts()[0].get_text() == "mine"
    with pytest.raises(AttributeError, match="colour"):
        ra.plots.reliability_diagram(y, p, colour="red")


def test_no_band_and_bands_of_two_kinds():
    y, p = binary()
    for none in (None, False, "none"):
        assert not ra.plots.reliability_diagram(y, p, band=none).collections
        assert ra.plots.ReliabilityDisplay.from_predictions(y, p, band=none).band is None
    for wrong in (True, "wide"):
        with pytest.raises(
            ValueError, match=f"'simultaneous', or None for no band; found .?{wrong}"
        ):
            ra.plots.reliability_diagram(y, p, band=wrong)
    one, all_ = (
        ra.plots.ReliabilityDisplay.from_predictions(y, p, band=band)
        for band in ("pointwise", "simultaneous")
    )
    shown = np.isfinite(one.low)
    assert (all_.low <= one.low)[shown].all()
    assert (all_.high - all_.low)[shown].sum() > 1.1 * (one.high - one.low)[shown].sum()
    texts = [text.get_text() for text in all_.ax_.get_legend().get_texts()]
    assert "95% band, simultaneous" in texts


def test_few_rows_are_dotted_and_have_no_band():
    rng = np.random.default_rng(0)
    p = np.r_[rng.uniform(0, 0.3, 500), rng.uniform(0.5, 0.9, 60)]
    ax = ra.plots.reliability_diagram(rng.random(560) < p, p)
    x, R = curves(ax)[0].get_data()
    (dotted,) = (line for line in ax.lines if line.get_label() == "fewer than 30 rows nearby")
    few = (x > 0.55) & (x < 0.85)
    assert np.isnan(R[few]).all()
    assert np.isfinite(dotted.get_ydata()[few]).all()
    reached = np.concatenate([path.vertices[:, 0] for path in ax.collections[0].get_paths()])
    assert reached.max() < 0.45


def test_a_display_keeps_numbers_and_draws_them_again():
    display = ra.plots.ReliabilityDisplay.from_predictions(*binary(), name="model")
    first = display.line_
    ax = Figure().subplots()
    assert display.plot(ax=ax, color="k", name="again") is display
    assert display.ax_ is ax
    assert display.figure_ is ax.figure
    np.testing.assert_array_equal(display.line_.get_ydata(), first.get_ydata())
    assert ax.get_legend().get_texts()[0].get_text() == "again"


def test_the_display_of_a_classifier():
    linear = pytest.importorskip("sklearn.linear_model")
    X = np.random.default_rng(0).normal(size=(400, 2))
    y = np.where(X[:, 0] + X[:, 1] ** 3 > 0, "spam", "mail")
    model = linear.LogisticRegression().fit(X, y)
    display = ra.plots.ReliabilityDisplay.from_estimator(model, X, y, bins=5, color="k")
    assert display.name == "LogisticRegression"
    assert display.ax_.get_xlabel() == "predicted probability of spam"
    other = ra.plots.ReliabilityDisplay.from_predictions(y == "spam", model.predict_proba(X)[:, 1])
    np.testing.assert_allclose(display.conditional, other.conditional)
    with pytest.raises(TypeError, match="LinearRegression has none"):
        ra.plots.ReliabilityDisplay.from_estimator(linear.LinearRegression(), X, y)


def test_a_dark_style_has_no_black():
    with plt.style.context("dark_background"):
        ax = ra.plots.reliability_diagram(*binary(), bandwidth=0.05)
        for _ in range(5):
            ra.plots.reliability_diagram(*binary(), bandwidth=0.05, ax=ax, band=None)
        other = ra.plots.class_bars(classwise_result(n_classes=30))
        drawn = [*ax.lines, *ax.texts, *other.lines, *other.texts, *other.patches]
        for artist in drawn:
            of_patch = getattr(artist, "get_edgecolor", None)
            color = of_patch() if of_patch else artist.get_color()
            assert not same_color(color, "black"), artist


@pytest.mark.parametrize("scale", ["linear", "logit"])
def test_bars_hold_every_prediction(scale):
    p = np.r_[np.zeros(10), np.ones(70), np.full(20, 0.5)]
    y = np.r_[np.zeros(10), np.ones(70), np.zeros(10), np.ones(10)]
    ax = ra.plots.reliability_diagram(y, p, scale=scale)
    heights = ax.patches[0].get_data().values
    np.testing.assert_allclose(np.sort(heights / heights.sum())[-3:], [0.1, 0.2, 0.7])
    assert "100 predictions, 70% in the tallest bar" in [t.get_text() for t in ax.texts]
    assert ax.transAxes.inverted().transform(ax.transData.transform([0.5, heights.max()]))[1] > 0
    assert heights.max() < STRIP  # in the picture's own units, below the curve


@pytest.mark.parametrize("y_prob", [[0.2, 0.8], [0.0, 1.0]])
@pytest.mark.parametrize("scale", ["linear", "logit"])
def test_two_samples_have_no_curve(y_prob, scale):
    ax = ra.plots.reliability_diagram([0, 1], y_prob, scale=scale)
    assert np.isnan(curves(ax)[0].get_ydata()).all()
    assert any("fewer than 5" in text.get_text() for text in ax.texts)
    ax.figure.canvas.draw()


def test_peaked_predictions_on_a_logit_axis():
    data = ra.datasets.peaked(20_000, 2, seed=0)
    p = np.clip(1 - (1 - data.y_prob.max(axis=1)) / 40, 0, 1)
    assert np.mean(p > 0.99) > 0.97
    y = np.random.default_rng(0).random(len(p)) < p
    linear = ra.plots.reliability_diagram(y, p)
    logit = ra.plots.reliability_diagram(y, p, scale="logit")
    filled = [np.count_nonzero(ax.patches[0].get_data().values > 1e-3) for ax in (linear, logit)]
    assert filled[0] <= 4
    assert filled[1] >= 15
    assert [t.get_text() for t in logit.get_xticklabels()][-2:] == ["0.9999", "0.99999"]
    x, R = curves(logit)[0].get_data()
    assert np.count_nonzero(np.isfinite(R) & (x > 0.99)) > 80


def test_float32_and_a_thousand_classes():
    data = ra.datasets.temperature(300, 1000, seed=0)
    f = data.y_prob.astype(np.float32)
    R = curves(ra.plots.reliability_diagram(data.y_true, f))[0].get_ydata()
    assert np.isfinite(R).any()
    assert len(ra.plots.reliability_grid(data.y_true, f, bandwidth=0.01)) == 12


def test_another_model_is_told_apart():
    y, p = binary()
    ax = ra.plots.reliability_diagram(y, p, name="sharp")
    limits = ax.get_xlim(), ax.get_ylim()
    ra.plots.reliability_diagram(y, np.sqrt(p), name="blunt", ax=ax)
    first, second = curves(ax)
    assert same_color(first.get_color(), SERIES[0][0])
    assert same_color(second.get_color(), SERIES[1][0])
    assert first.get_linestyle() != second.get_linestyle()
    assert (ax.get_xlim(), ax.get_ylim()) == limits
    texts = [text.get_text() for text in ax.get_legend().get_texts()]
    few, band, diagonal = "fewer than 30 rows nearby", "95% band, pointwise", "perfect calibration"
    assert texts == ["sharp", "blunt", few, band, diagonal]


def test_logit_limits_grow_with_another_model():
    y, p = binary()
    ax = ra.plots.reliability_diagram(y, 0.25 + p / 2, scale="logit")
    narrow = ax.get_xlim()
    ra.plots.reliability_diagram(y, p, scale="logit", ax=ax)
    wide = ax.get_xlim()
    assert wide[0] < narrow[0] < narrow[1] < wide[1]


class TestScale:
    """Where none is asked for: the rule of `riskalign plot` and of reports."""

    @staticmethod
    def rare():
        g = np.random.default_rng(0)
        p = g.beta(0.5, 40, 1_000)
        return (g.random(1_000) < p).astype(int), p

    def test_a_rare_class_has_logit_axes(self):
        y, p = self.rare()
        assert ra.plots.reliability_diagram(y, p).get_xscale() == "logit"
        display = ra.plots.ReliabilityDisplay.from_predictions(y, p)
        assert (display.scale, display.ax_.get_yscale()) == ("logit", "logit")
        assert ra.plots.reliability_diagram(y, p, scale="linear").get_xscale() == "linear"
        both = np.stack([1 - p, p], axis=1)
        assert ra.plots.reliability_diagram(y, both, pos_label=1).get_xscale() == "logit"
        assert ra.plots.reliability_diagram(y, both, pos_label=0).get_xscale() == "linear"
        assert ra.plots.reliability_diagram(y, p, notion="top-label").get_xscale() == "linear"

    def test_weights_count(self):
        y, p = self.rare()
        weights = np.where(p > 0.05, 100.0, 1.0)
        assert ra.plots.reliability_diagram(y, p, sample_weight=weights).get_xscale() == "linear"

    def test_another_model_has_the_scale_of_the_first(self):
        y, p = self.rare()
        ax = ra.plots.reliability_diagram(y, p**0.2)
        assert ra.plots.reliability_diagram(y, p, ax=ax).get_xscale() == "linear"
        ax = ra.plots.reliability_diagram(y, p)
        assert ra.plots.reliability_diagram(y, p**0.2, ax=ax).get_xscale() == "logit"


def test_the_legend_leaves_the_curve_alone():
    rng = np.random.default_rng(0)
    p = rng.uniform(0, 1, 2000)
    for y, corner in ((rng.random(2000) < p**3, 2), (rng.random(2000) < p**0.2, 4)):
        assert ra.plots.reliability_diagram(y, p).get_legend()._loc == corner
        plt.close("all")


def test_names_and_columns():
    y, f = many(n_classes=3)
    names = ["ant", "bee", "a very long name of some species"]
    labels = np.array(names)[y]
    ax = ra.plots.reliability_diagram(labels, f, classes=names, pos_label="bee")
    assert ax.get_xlabel() == "predicted probability of bee"
    assert (
        ra.plots.reliability_diagram(y, f, pos_label=1).get_xlabel()
        == "predicted probability of class 1"
    )
    axes = ra.plots.reliability_grid(labels, f, classes=names)
    assert axes[2].get_title() == "a very long name of s..."
    two = np.stack([1 - f[:, 0], f[:, 0]], axis=1)
    ax = ra.plots.reliability_diagram(y == 0, two)
    assert ax.get_xlabel() == "predicted probability of class 1"
    ax = ra.plots.reliability_diagram(y == 0, two, notion="top-label")
    assert ax.get_xlabel() == "predicted probability of the predicted class"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"scale": "log"}, "`scale` must be one of"),
        ({"notion": "canonical"}, "`notion` must be one of 'binary', 'top-label'"),
        ({"notion": "binary"}, "needs two classes"),
        ({"pos_label": 9}, "`pos_label` must be one of the classes, 0, 1, 2, 3; found 9"),
        ({"band": "both"}, "`band` must be one of 'pointwise', 'simultaneous'"),
        ({"bins": 0}, "`bins` must be a number of bins, 1 or more; found 0"),
        ({"confidence": 1.5}, "`confidence` must lie between 0 and 1"),
    ],
)
def test_errors_of_diagrams(options, message):
    with pytest.raises(ValueError, match=message):
        ra.plots.reliability_diagram(*many(), **options)
    assert plt.get_fignums() == []


def test_a_grid_takes_axes():
    axes = Figure().subplots(2, 2)
    drawn = ra.plots.reliability_grid(*many(), pos_labels=[3, 1], axes=axes)
    assert drawn.tolist() == axes.ravel()[:2].tolist()
    assert [ax.get_title() for ax in drawn] == ["class 3", "class 1"]
    with pytest.raises(ValueError, match="one Axes per class, 4; found 2"):
        ra.plots.reliability_grid(*many(), axes=axes[0])


def test_a_grid_has_one_legend():
    y, f = many(n_classes=3)
    axes = ra.plots.reliability_grid(y, f, bins=15)
    (legend,) = axes[0].figure.legends
    texts = [text.get_text() for text in legend.get_texts()]
    assert len(set(texts)) == len(texts)
    for kind in ("estimate", "95% band, pointwise", "perfect calibration"):
        assert kind in texts
    assert "15 bins of equal width" in texts
    own = axes[0].figure.subplots(1, 3)
    ra.plots.reliability_grid(y, f, axes=own)
    assert len(axes[0].figure.legends) == 1


def test_slivers_of_a_band_are_not_drawn():
    y, p = binary()
    display = ra.plots.ReliabilityDisplay.from_predictions(y, p)
    for run, drawn in ((2, 0), (3, 1)):
        low, high = (np.full(len(display.grid), np.nan) for _ in range(2))
        low[90 : 90 + run], high[90 : 90 + run] = 0.3, 0.6
        ax = replace(display, low=low, high=high).plot().ax_
        assert len(ax.collections) == drawn


@pytest.mark.parametrize("scale", ["linear", "logit"])
def test_a_grid_shows_the_curves_behind_the_class_wise_error(scale):
    y, f = many(n_classes=3)
    axes = ra.plots.reliability_grid(y, f, pos_labels=[2, 0], scale=scale)
    result = ra.calibration_error(y, f)
    for ax, k in zip(axes, (2, 0), strict=True):
        x, R = curves(ax)[0].get_data()
        expected = result.reliability_curve(x).conditional[:, k]
        assert np.isfinite(R).sum() > 30
        np.testing.assert_allclose(R[np.isfinite(R)], expected[np.isfinite(R)], atol=1e-9)


@pytest.mark.parametrize("scale", ["linear", "logit"])
def test_one_class_has_the_curve_behind_the_class_wise_error(scale):
    y, f = many(n_classes=3)
    x, R = curves(ra.plots.reliability_diagram(y, f, pos_label=2, scale=scale))[0].get_data()
    expected = ra.calibration_error(y, f).reliability_curve(x).of_class(2).conditional
    assert np.isfinite(R).sum() > 30
    np.testing.assert_allclose(R[np.isfinite(R)], expected[np.isfinite(R)], atol=1e-9)


def test_bins_are_those_of_the_ece():
    """A prediction at the edge of two bins is in the lower one, as in the report."""
    rng = np.random.default_rng(0)
    p = rng.integers(0, 16, 600) / 15
    y = (rng.random(600) < p).astype(int)
    display = ra.plots.ReliabilityDisplay.from_predictions(y, p, bins=15)
    (problem,) = BINARY.problems(as_sample(y, p), L2)
    expected = Bins.of(problem)
    np.testing.assert_allclose(display.bins.predicted, expected.predicted)
    np.testing.assert_allclose(display.bins.observed, expected.observed)


def test_the_most_frequent_classes_make_a_grid():
    data = ra.datasets.imbalanced(500, 20, seed=0)
    axes = ra.plots.reliability_grid(data.y_true, data.y_prob, bandwidth=0.01)
    counts = np.bincount(data.y_true, minlength=20)
    expected = sorted(np.argsort(-counts, kind="stable")[:12])
    assert [ax.get_title() for ax in axes] == [f"class {k}" for k in expected]


def test_the_chosen_bandwidth_is_marked():
    search = ra.select_bandwidth(*binary(), criterion="risk-alignment")
    ax = ra.plots.bandwidth_curve(search)
    marked = ax.lines[-1]
    assert marked.get_xdata() == [search.value]
    assert marked.get_ydata() == [search.objective.min()]
    np.testing.assert_array_equal(ax.lines[0].get_xdata(), search.candidates)
    assert f"h = {search.value:.3g}" in marked.get_label()
    at_edge = replace(search, curves=(replace(search.curves[0], at_edge=True),))
    assert "edge" in ra.plots.bandwidth_curve(at_edge).lines[-1].get_label()


def test_a_thousand_bandwidth_curves():
    y, f = many(n=100, n_classes=1000)
    search = ra.select_bandwidth(y, f, candidates=[0.001, 0.01, 0.1])
    ax = ra.plots.bandwidth_curve(search)
    median, choices, *_ = ax.lines
    assert len(choices.get_xdata()) == 1000
    assert 0 <= median.get_ydata().min() <= median.get_ydata().max() <= 1
    texts = [text.get_text() for text in ax.get_legend().get_texts()]
    assert "median of 1,000 classes" in texts


def test_bars_are_in_the_order_of_their_errors():
    result = classwise_result()
    ax = ra.plots.class_bars(result)
    worst = np.argsort(-result.per_class)
    assert [t.get_text() for t in ax.get_yticklabels()] == [str(k) for k in worst]
    drawn = {round(bar.get_y() + bar.get_height() / 2): bar for bar in ax.patches}
    np.testing.assert_allclose([drawn[i].get_width() for i in range(4)], result.per_class[worst])


def test_bars_have_a_colour_where_a_class_is_off_by_more_than_chance(monkeypatch):
    result = classwise_result()
    worst = np.argsort(-result.per_class)
    signs = np.empty(4, dtype=int)
    signs[worst] = [1, -1, 0, 0]
    monkeypatch.setattr(bars, "_signs", lambda result: signs)
    found = sorted(ra.plots.class_bars(result).patches, key=lambda bar: bar.get_y())
    assert [same_color(bar.get_facecolor(), ORANGE) for bar in found] == [True, False, False, False]
    assert [bar.get_hatch() is None for bar in found] == [True, False, True, True]
    monkeypatch.undo()
    slopes, p_values = np.array([0, 0, 1, 0]), np.array([1e-4, 1e-4, 1e-4, 0.06])
    means = {"mean_prediction": np.array([0.5, 0.1, 0.3, 0.3]), "frequency": np.full(4, 0.25)}
    found = replace(result.evidence, **means, p_values=p_values, slopes=slopes)
    assert bars._signs(replace(result, evidence=found)).tolist() == [1, -1, 0, 0]


def test_bars_of_a_thousand_classes():
    result = classwise_result(n=100, n_classes=1000)
    ax = ra.plots.class_bars(result, largest=10)
    names = [t.get_text() for t in ax.get_yticklabels()]
    assert len(names) == 11
    assert names[-1] == "990 others"
    ticks, median = ax.lines[0], ax.lines[1]
    rest = np.sort(result.per_class)[:990]
    np.testing.assert_allclose(np.sort(ticks.get_xdata()), rest)
    assert median.get_xdata() == [np.median(rest)]
    (note,) = [t.get_text() for t in ax.texts]
    assert note == f"sum {rest.sum():.3g}, {rest.sum() / result.per_class.sum():.0%} of all"


def test_bars_need_classes():
    result = ra.calibration_error(*binary(), estimator="plugin", bandwidth=0.05)
    with pytest.raises(ValueError, match="notion='binary', which has no errors of classes"):
        ra.plots.class_bars(result)


def test_bars_without_a_direction():
    result = replace(classwise_result(), evidence=None)
    ax = ra.plots.class_bars(result)
    assert all(bar.get_hatch() is None for bar in ax.patches)
    assert ax.get_legend() is None


def test_bars_of_a_biased_model():
    data = ra.datasets.class_bias(3_000, 3, bias=1.0, seed=0)
    result = ra.calibration_error(
        data.y_true, data.y_prob, notion="classwise", estimator="plugin", bandwidth=0.05
    )
    assert result.evidence.high[0] < 0
    assert result.evidence.low[2] > 0
    ax = ra.plots.class_bars(result)
    names = [label.get_text() for label in ax.get_yticklabels()]
    drawn = {names[round(bar.get_y() + bar.get_height() / 2)]: bar for bar in ax.patches}
    assert drawn["0"].get_hatch() is not None
    assert same_color(drawn["2"].get_facecolor(), ORANGE)


def test_models_are_compared_with_their_intervals():
    results = {
        name: ra.calibration_error(*binary(seed=seed), estimator="debiased", confidence=0.9)
        for seed, name in enumerate(["first", "second"])
    }
    ax = ra.plots.model_comparison(results)
    assert [t.get_text() for t in ax.get_yticklabels()] == ["first", "second"]
    assert ax.get_xlabel() == "binary calibration error (squared error), 90% intervals"
    shown = [note.get_text().splitlines()[1] for note in ax.texts]
    assert all(text.startswith("typical gap ") and " pts, risk " in text for text in shown)
    for row, result in enumerate(results.values()):
        interval, dot = ax.lines[2 * row : 2 * row + 2]
        np.testing.assert_array_equal(interval.get_xdata(), result.interval)
        assert (dot.get_xdata(), dot.get_ydata()) == ([result.value], [row])
    assert ax.yaxis_inverted()


def test_models_of_different_kinds_are_not_compared():
    results = {"a": classwise_result(), "b": replace(classwise_result(), loss="kl")}
    with pytest.raises(ValueError, match="classwise kl; classwise l2"):
        ra.plots.model_comparison(results)
    with pytest.raises(ValueError, match="found none"):
        ra.plots.model_comparison({})


def test_matplotlib_is_asked_for_by_name():
    code = (
        "import sys\n"
        "sys.modules['matplotlib'] = None\n"
        "import riskalign as ra\n"
        "data = ra.datasets.temperature(50, 2)\n"
        "try:\n"
        "    ra.plots.reliability_diagram(data.y_true, data.y_prob[:, 1], bandwidth=0.1)\n"
        "except ImportError as error:\n"
        "    assert 'riskalign[plots]' in str(error), error\n"
        "else:\n"
        "    raise SystemExit(1)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
