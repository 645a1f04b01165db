"""The HTML page as text: complete, inert, small."""

import base64
import hashlib
import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest

import riskalign as ra
from riskalign.cli.tables import report_json, report_lines
from riskalign.data import settings
from riskalign.equations.losses import L2
from riskalign.equations.problem import Problem
from riskalign.report import to_html, words
from riskalign.report.summary import GRID, LINEAR_EDGES, LOGIT_EDGES, Counts, Diagram, summarize

HOSTILE = ("</script><script>alert(1)</script>", "\"'><img src=x onerror=alert(1)>", "日本語 & <b>")


class Page(HTMLParser):
    """Elements, attributes and text of a page."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.text, self.raw = [], {}, text
        self._open = []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag not in ("meta", "link", "input"):
            self._open.append((tag, dict(attributes).get("id")))

    def handle_endtag(self, tag):
        assert self._open.pop()[0] == tag

    def handle_data(self, data):
        for tag, name in self._open:
            for key in {tag, name}:
                self.text[key] = self.text.get(key, "") + data

    def attributes(self, tag):
        return [attributes for name, attributes in self.tags if name == tag]

    @property
    def data(self):
        return json.loads(self.text["data"])


@pytest.fixture(scope="module")
def three():
    return ra.datasets.temperature(400, 3, t2=0.5, seed=0)


@pytest.fixture(scope="module")
def summary(three):
    labels = np.array(HOSTILE, dtype=object)[three.y_true]
    return summarize(labels, three.y_prob, classes=HOSTILE, n_draws=19)


@pytest.fixture(scope="module")
def page(summary):
    return Page(to_html(summary, source="<file>&.csv", version="1.2"))


class TestPage:
    def test_names_are_inert(self, page):
        assert len(page.attributes("script")) == 2
        assert page.attributes("img") == []
        assert page.attributes("b") == []
        assert not any(name.startswith("on") for _, found in page.tags for name in found)
        assert [d["name"] for d in page.data["diagrams"]][1:] == [f"class {n}" for n in HOSTILE]
        assert all(name in page.text["class-table"] for name in HOSTILE)
        assert "<file>&.csv" in page.text["title"]

    def test_nothing_comes_from_elsewhere(self, page):
        assert "http:" not in page.raw.replace("http://www.w3.org/2000/svg", "")
        assert "https:" not in page.raw
        assert "@import" not in page.raw
        sources = [v for _, found in page.tags for k, v in found.items() if k in ("src", "href")]
        assert sources == ["data:,", "#figure"]

    def test_policy_allows_its_own_script_and_style_alone(self, page):
        (policy,) = [m["content"] for m in page.attributes("meta") if "http-equiv" in m]
        script = page.raw.rpartition("<script>")[2].partition("</script>")[0]
        style = page.raw.partition("<style>")[2].partition("</style>")[0]
        for kind, text in (("script", script), ("style", style)):
            digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
            assert re.search(f"{kind}-src 'sha256-([^']+)'", policy).group(1) == digest
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy

    def test_main_numbers_need_no_script(self, page, summary):
        text = page.text["main"]
        result = summary.result
        for number in (result.value, *result.interval, result.risk, result.refinement):
            assert words.number(number) in text
        assert words.percent(summary.accuracy) in text
        assert words.percent(summary.mean_confidence) in text
        assert "\u2264 0.05" in text
        for error in result.per_class:
            assert f"{error:.6f}".replace("-", "\u2212") in text

    def test_data_are_the_summary_s(self, page, summary):
        data = page.data
        assert data["offset"] == 1
        assert len(data["diagrams"]) == 4
        np.testing.assert_allclose(data["grid"], GRID, atol=1e-6)
        for drawn, diagram in zip(data["diagrams"], [summary.top, *summary.diagrams], strict=True):
            R = np.array([np.nan if r is None else r for r in drawn["R"]])
            np.testing.assert_allclose(R, diagram.conditional, rtol=1e-3)
            assert sum(drawn["linear"]) == sum(drawn["logit"]) == 400
        assert [s["value"] for s in data["searches"]] == summary.result.bandwidth.tolist()
        assert data["worst"] == int(np.argmax(summary.result.per_class))

    def test_rows_are_sorted_by_error(self, page, summary):
        shown = [int(row["data-number"]) for row in page.attributes("tr") if "data-number" in row]
        assert shown == np.argsort(-summary.result.per_class, kind="stable").tolist()

    def test_the_same_input_makes_the_same_page(self, summary, page):
        assert to_html(summary, source="<file>&.csv", version="1.2") == page.raw

    def test_braces_in_names_stay(self, three):
        names = ["{{script}}", "{{data}}", "}}"]
        labels = np.array(names, dtype=object)[three.y_true]
        text = to_html(summarize(labels, three.y_prob, classes=names), source="{{style}}")
        found = Page(text)
        assert [d["name"] for d in found.data["diagrams"]][1:] == [f"class {n}" for n in names]
        assert "{{style}}" in found.text["title"]


class TestKinds:
    def test_binary(self, three):
        y, p = (three.y_true == 1).astype(int), three.y_prob[:, 1]
        page = Page(to_html(summarize(y, p)))
        assert len(page.data["diagrams"]) == 1
        assert "class-table" not in page.text
        assert page.data["offset"] == 0

    def test_binary_says_how_far_the_class_is_off(self):
        """A rare class whose probability is 1.7 times too high; nothing of the other class."""
        rng = np.random.default_rng(0)
        f = rng.beta(0.1, 25, 40_000)
        y = (rng.random(40_000) < f / 1.7).astype(int)
        summary = summarize(y, f, classes=[0, 1])
        binary = summary.result.binary
        text = "\n".join(report_lines(summary, "fraud.csv"))
        page = Page(to_html(summary)).text["main"].replace("\u2212", "-")
        low, high = binary.ratio_interval
        off = f"{binary.ratio:.1f} times too high"
        for said in (text, page, words.verdict(summary)):
            assert off in " ".join(said.split())
            assert "-confident" not in said
            assert "accuracy" not in said.lower()
            for number in (binary.mean_prediction, binary.frequency):
                assert f"{100 * number:.2f}%" in said
        for said in (text, page):
            assert f"{low:.2f} to {high:.2f} (95%)" in said
            for number in (binary.slope, binary.intercept):
                assert f"{number:.2f}" in said
        assert f"{off} ({low:.1f} to {high:.1f} with 95% confidence)." in words.verdict(summary)
        assert max(map(len, text.splitlines())) <= 80
        found = json.loads(report_json(summary, "fraud.csv"))
        assert found["binary"]["ratio_interval"] == list(binary.ratio_interval)
        assert found["binary"]["slope"] == binary.slope
        assert found["direction"] == "too high"

    def test_binary_without_a_direction(self):
        for y, f in (([0] * 30, [0.01] * 30), ([0, 1] * 10, [0.45, 0.55] * 10)):
            summary = summarize(y, f)
            text = "\n".join(report_lines(summary, "a.csv"))
            for said in (text, Page(to_html(summary)).text["main"]):
                assert "no clear direction" in " ".join(said.split())
                assert "times too" not in said
                assert "inf" not in said.replace("information", "").split()

    def test_long_names_of_two_classes(self):
        names = ["no", "yes " * 40]
        labels = np.array(names, dtype=object)[[0, 1] * 10]
        summary = summarize(labels, [0.45, 0.55] * 10, classes=names)
        assert max(map(len, report_lines(summary, "a.csv"))) <= 80

    def test_canonical(self, three):
        page = Page(to_html(summarize(three.y_true, three.y_prob, notion="canonical")))
        assert [d["label"] for d in page.data["diagrams"]] == ["the predicted class (top label)"]
        assert len(page.data["searches"]) == 1

    def test_top_label_alone(self):
        rng = np.random.default_rng(0)
        confidence = rng.uniform(0.1, 1, 300)
        right = (rng.random(300) < confidence).astype(int)
        summary = summarize(right, confidence, top_label=True)
        assert summary.accuracy == pytest.approx(right.mean())
        assert summary.mean_confidence == pytest.approx(confidence.mean())
        gap = summary.mean_confidence - summary.accuracy
        assert summary.result.overconfidence.gap == pytest.approx(gap)
        assert summary.result.notion == "top-label"
        assert summary.result.overconfidence.top_label == pytest.approx(
            summary.result.overconfidence.per_class[0]
        )
        page = Page(to_html(summary))
        assert "classes" not in page.text["header"]
        assert page.data["diagrams"][0]["name"] == "the predicted class"

    def test_without_interval_or_search_or_test(self, summary):
        result = replace(
            summary.result, interval=None, confidence=None, standard_error=None, search=None
        )
        page = Page(to_html(replace(summary, result=result, test=None)))
        assert "% interval" not in page.text["main"]
        assert "p-value" not in page.text["main"]
        assert page.data["searches"] == []
        (section,) = [s for s in page.attributes("section") if s.get("id") == "bandwidth-section"]
        assert "hidden" in section

    def test_hard_inputs(self):
        """Zeros and ones, an empty class, two rows."""
        eye = np.eye(3)[[0, 1, 1, 0, 1, 0]]
        page = Page(to_html(summarize([0, 1, 0, 0, 1, 1], eye)))
        assert all(sum(d["linear"]) == 6 for d in page.data["diagrams"])
        Page(to_html(summarize([0, 1], [0.5, 0.5])))
        Page(to_html(summarize([1, 1], [1.0, 1.0], loss="kl")))

    def test_a_hundred_classes_in_two_megabytes(self):
        """Curves without a gap, which take the most room."""
        n_classes, rng = 100, np.random.default_rng(0)
        data = ra.datasets.temperature(400, 3, seed=0)
        small = summarize(data.y_true, data.y_prob)
        m = len(GRID)
        diagrams = tuple(
            Diagram(
                f"class with a rather long name {k}",
                GRID,
                *rng.random((3, m)),
                rng.integers(0, 10**6, len(LINEAR_EDGES) - 1),
                rng.integers(0, 10**6, len(LOGIT_EDGES) - 1),
                0.01,
                0.01,
            )
            for k in range(n_classes)
        )
        curves = small.result.search.curves[:1] * n_classes
        result = replace(
            small.result,
            per_class=rng.random(n_classes),
            bandwidth=rng.random(n_classes),
            search=replace(small.result.search, curves=curves),
            overconfidence=replace(
                small.result.overconfidence, per_class=rng.normal(size=n_classes)
            ),
        )
        page = to_html(replace(small, result=result, diagrams=diagrams))
        assert len(page.encode()) < 700_000


class TestWords:
    def test_a_typical_gap_of_classwise_errors_is_per_class(self, summary, three):
        typical = f"{summary.result.root:.4f}"
        assert summary.result.root == pytest.approx((summary.result.value / 3) ** 0.5)
        (line,) = (line for line in report_lines(summary, "a.csv") if "typical |R - f|" in line)
        assert re.fullmatch(rf" +typical \|R - f\| +{typical} +root mean square per class", line)
        page = Page(to_html(summary)).text["main"]
        assert f"typical |R \u2212 f|: {typical} per class" in page
        alone = summarize(three.y_true, three.y_prob, notion="top-label")
        assert "per class" not in "\n".join(report_lines(alone, "a.csv"))
        assert "per class" not in Page(to_html(alone)).text["main"]

    @pytest.mark.parametrize(
        ("x", "expected"),
        [
            (0, "0"),
            (0.5, "0.5000"),
            (1.23456, "1.2346"),
            (0.0123456, "0.0123"),
            (0.00123456, "0.00123"),
            (-0.000123456, "-0.000123"),
            (1e-7, "1.00e-07"),
        ],
    )
    def test_numbers(self, x, expected):
        assert words.number(x) == expected

    @pytest.mark.parametrize(
        ("p", "smallest", "expected"),
        [(0.5, 0, "0.500"), (0.0001, 0, "< 0.001"), (0.005, 0.005, "<= 0.005"), (0, 0, "< 0.001")],
    )
    def test_p_values(self, p, smallest, expected):
        assert words.p_value(p, smallest) == expected

    def test_verdicts(self, summary):
        low = replace(summary, result=replace(summary.result, interval=(0.0, 0.1)))
        assert "The probabilities are off: " in words.verdict(summary)
        assert "how far is unsettled" in words.verdict(low)
        calm = replace(low, test=replace(summary.test, p_value=0.5))
        assert "No miscalibration is visible" in words.verdict(calm)
        assert "No miscalibration is visible" in words.verdict(replace(low, test=None))

    @pytest.mark.parametrize(
        ("gap", "expected"),
        [
            (0.05, "is +5.00 points, interval +3.04 to +6.96 (95%): the model is over-confident."),
            (-0.05, "is -5.00 points, interval -6.96 to -3.04 (95%): the model is under-confident"),
            (-0.0027, "-0.27 points, interval -2.23 to +1.69 (95%): no clear direction."),
        ],
    )
    def test_a_direction_needs_an_interval_that_excludes_0(self, summary, gap, expected):
        gaps = replace(summary.result.overconfidence, gap=gap, gap_error=0.01)
        found = replace(summary, result=replace(summary.result, overconfidence=gaps))
        assert expected in words.verdict(found)
        page = Page(to_html(found)).text["main"]
        named = "confident" in words.verdict(found)
        clear = "no clear direction" not in expected
        assert named == clear
        summary_part = page.partition("Reliability diagram")[0]
        assert ("-confident" in summary_part) == clear
        assert ("no clear direction" in summary_part) != clear
        lines = "\n".join(report_lines(found, "a.csv"))
        assert ("-confident" in lines) == clear
        assert ("no clear direction" in lines) != clear
        assert max(map(len, lines.splitlines())) <= 80


def test_curves_break_off_where_no_predictions_lie():
    rng = np.random.default_rng(0)
    p = np.concatenate([rng.uniform(0.1, 0.2, 300), rng.uniform(0.7, 0.8, 300)])
    y = (rng.random(600) < p).astype(int)
    (diagram,) = summarize(y, p).diagrams
    shown = ~np.isnan(diagram.conditional)
    assert shown[np.searchsorted(GRID, [0.15, 0.75])].all()
    assert not shown[np.searchsorted(GRID, [0.001, 0.5, 0.999])].any()
    assert (np.isnan(diagram.low) == ~shown).all()


def test_counts_add_up():
    rng = np.random.default_rng(0)
    p = np.concatenate([rng.beta(0.3, 0.3, 97), [0.0, 1.0, 1.0 + 1e-7]])
    problem = Problem("one", p, (rng.random(100) < 0.5).astype(int), np.ones(100), L2)
    whole = Counts.of(problem)
    parts = [Counts.of(problem.take(rows)) for rows in (slice(0, 30), slice(30, 100))]
    for name in ("linear", "logit", "arc"):
        np.testing.assert_allclose(sum(getattr(part, name) for part in parts), getattr(whole, name))
        assert getattr(whole, name).sum() == 100
    for name in ("mean_prediction", "frequency"):
        means = [getattr(part, name) for part in parts]
        assert 0.3 * means[0] + 0.7 * means[1] == pytest.approx(getattr(whole, name))
    assert whole.near(np.array([0.0, 1.0])).all()


def test_rows_that_stand_for_several_samples_are_counted_as_such():
    p, labels = np.array([0.1, 0.1, 0.6]), np.array([0, 1, 1])
    totals, units = np.array([3.0, 1.0, 2.0]), np.array([1.0, 0.5, 2.0])
    found = Counts.of(Problem("one", p, labels, totals, L2, units))
    assert found.linear.sum() == found.logit.sum() == found.arc.sum() == 6
    assert found.mean_prediction == pytest.approx(1.6 / 6)
    assert found.frequency == pytest.approx(0.5)


def test_many_rows_are_tested_by_some(monkeypatch):
    monkeypatch.setattr(settings, "MOST_DISTINCT", 150)
    data = ra.datasets.temperature(400, 3, seed=0)
    found = summarize(data.y_true, data.y_prob, n_draws=19)
    assert found.result.n_samples == 400
    assert 140 <= found.test.n_samples <= 150
    assert f"{found.test.n_samples} rows" in "\n".join(report_lines(found, "a.csv"))
