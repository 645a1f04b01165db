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
from riskalign.data import state as states
from riskalign.display.numbers import MINUS, percent, points
from riskalign.equations.losses import L2
from riskalign.equations.problem import Problem
from riskalign.report import sections, summarize, surveying
from riskalign.report.diagrams import GRID, Bins, Counts
from riskalign.report.page import Provenance, to_html
from riskalign.report.text import text_lines
from riskalign.report.words import tell

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
def screen(three):
    labels = np.array(HOSTILE, dtype=object)[three.y_true]
    return summarize(labels, three.y_prob, classes=HOSTILE, n_draws=19)


ORIGIN = Provenance(
    "<file>&.csv",
    "riskalign report '<file>&.csv'",
    "2026-01-02T03:04:05",
    "1.2",
    file=("<file>&.csv",),
)


@pytest.fixture(scope="module")
def page(screen):
    return Page(to_html(screen, ORIGIN))


class TestPage:
    def test_names_are_inert(self, page, screen):
        assert len(page.attributes("script")) == 2
        assert page.attributes("img") == []
        assert page.attributes("b") == []
        assert not any(name.startswith("on") for _, found in page.tags for name in found)
        names = [d["name"] for d in page.data["diagrams"]]
        assert names == [
            "the predicted class",
            *(f"class {HOSTILE[line.number]}" for line in tell(screen).classes),
        ]
        assert all(name in page.text["class-table"] for name in HOSTILE)
        assert "<file>&.csv" in page.text["title"]
        assert "<file>&.csv" in page.text["command"]

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

    def test_main_numbers_need_no_script(self, page, screen):
        text = page.text["main"].replace(MINUS, "-")
        for answer in screen.answers:
            row = answer.gap_row()
            assert row.value in text
            assert row.interval in text
        for value in (percent(screen.scores.accuracy), points(screen.scores.ece_by_chance)):
            assert value in text
        assert tell(screen).headline in page.text["h1"]
        for sentence in tell(screen).sentences:
            assert " ".join(sentence.split()).replace("<=", "\u2264") in text
        for line in tell(screen).classes:
            assert line.cells(18)[3] in text

    def test_where_it_comes_from(self, page):
        footer = page.text["footer"]
        for part in ("riskalign 1.2", "2026-01-02 03:04:05", "riskalign report"):
            assert part in footer

    def test_data_are_the_screen_s(self, page, screen):
        data = page.data
        order = [line.number for line in tell(screen).classes]
        expected = [screen.top_diagram, *(screen.class_errors[k].diagram for k in order)]
        assert [d["tab"] for d in data["diagrams"]] == ["confidence", *["classes"] * 3]
        np.testing.assert_allclose(data["grid"], GRID, atol=1e-6)
        for drawn, diagram in zip(data["diagrams"], expected, strict=True):
            R = np.array([np.nan if r is None else r for r in drawn["R"]])
            np.testing.assert_allclose(R, diagram.conditional, rtol=1e-3)
            assert sum(drawn["linear"]) == sum(drawn["logit"]) == sum(drawn["bins"][2]) == 400
        assert data["report"]["value"] == screen.result.value

    def test_rows_are_ordered_by_evidence(self, page, screen):
        shown = [int(row["data-number"]) for row in page.attributes("tr") if "data-number" in row]
        assert shown == [line.number for line in tell(screen).classes]

    def test_the_same_input_makes_the_same_page(self, screen, page):
        assert to_html(screen, ORIGIN) == page.raw

    def test_braces_in_names_stay(self, three):
        names = ["{{script}}", "{{data}}", "}}"]
        labels = np.array(names, dtype=object)[three.y_true]
        made = summarize(labels, three.y_prob, classes=names, advice=False)
        found = Page(to_html(made, Provenance("{{style}}")))
        assert {d["name"] for d in found.data["diagrams"][1:]} == {f"class {n}" for n in names}
        assert "{{style}}" in found.text["title"]

    def test_what_to_do_is_there(self, page, screen):
        assert screen.advice.chosen.method == "temperature"
        assert screen.advice.sentence.replace("-", MINUS) in page.text["main"] or (
            screen.advice.sentence in page.text["main"]
        )
        assert "riskalign calibrate '<file>&.csv' -o '<file>&-calibrated.csv'" in page.text["main"]


class TestKinds:
    def test_binary(self, three):
        y, p = (three.y_true == 1).astype(int), three.y_prob[:, 1]
        page = Page(to_html(summarize(y, p, advice=False)))
        assert [d["tab"] for d in page.data["diagrams"]] == ["class"]
        assert "class-table" not in page.text
        assert not page.data["logit_first"]

    def test_a_rare_class_begins_with_logit_axes(self):
        rng = np.random.default_rng(0)
        f = rng.beta(0.5, 25, 500)
        page = Page(to_html(summarize((rng.random(500) < f).astype(int), f, advice=False)))
        assert page.data["logit_first"]

    def test_canonical(self, three):
        made = summarize(three.y_true, three.y_prob, notion="canonical", advice=False)
        page = Page(to_html(made))
        assert [d["tab"] for d in page.data["diagrams"]] == ["confidence"]
        assert "probability vectors" in page.text["h1"]

    def test_without_answers_of_an_interval(self, screen):
        result = replace(screen.result, interval=None, confidence=None, standard_error=None)
        page = Page(to_html(replace(screen, result=result, top=None, test=None)))
        assert "% CI" not in page.text["sentences"] if "sentences" in page.text else True
        assert "p-value" not in page.text["main"]

    def test_hard_inputs(self):
        """Zeros and ones, an empty class, two rows."""
        eye = np.eye(3)[[0, 1, 1, 0, 1, 0]]
        page = Page(to_html(summarize([0, 1, 0, 0, 1, 1], eye)))
        assert all(sum(d["linear"]) == 6 for d in page.data["diagrams"])
        Page(to_html(summarize([0, 1], [0.5, 0.5])))
        Page(to_html(summarize([1, 1], [1.0, 1.0], loss="kl")))

    def test_many_classes(self, monkeypatch):
        """Beyond MANY classes the page holds those with the most evidence, and lists all."""
        monkeypatch.setattr(surveying, "MANY", 5)
        monkeypatch.setattr(surveying, "WORST", 3)
        data = ra.datasets.temperature(300, 8, t2=0.5, seed=0)
        made = summarize(data.y_true, data.y_prob, n_draws=9, advice=False)
        page = Page(to_html(made))
        assert made.notion == "top-label"
        assert [d["tab"] for d in page.data["diagrams"]] == ["confidence", *["classes"] * 3]
        assert len([row for row in page.attributes("tr") if "data-number" in row]) == 8
        assert made.test.notion == "top-label"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("class covid-19 is off", "class covid-19 is off"),
        ("(-0.6 to -0.2), -3", f"({MINUS}0.6 to {MINUS}0.2), {MINUS}3"),
        ("1.2e-05 <= 2", f"1.2e{MINUS}05 \u2264 2"),
        ("-", "-"),
    ],
)
def test_minus_signs_are_those_of_numbers(text, shown):
    assert sections.minus(text) == shown


def test_bins_are_those_of_everyone():
    rng = np.random.default_rng(0)
    p, n = rng.random(2_000), 2_000
    y = (rng.random(n) < p**1.3).astype(np.int8)
    bins = Bins.of(Problem("", p, y, np.ones(n), L2.binary))
    which = np.minimum((p * 15).astype(int), 14)
    expected = sum(abs((p - y)[which == b].sum()) for b in range(15)) / n
    assert bins.ece == pytest.approx(expected)
    assert bins.counts.sum() == n
    assert summarize(y, p, pictures=False, advice=False).scores.ece == pytest.approx(expected)


@pytest.mark.parametrize("n", [40, 300, 5_000])
def test_ece_by_chance_is_that_of_drawn_labels(n):
    """The formula is within 5% of simulation, within 10% where bins hold a few rows."""
    rng = np.random.default_rng(n)
    p = rng.beta(5, 1.5, n)
    found = []
    for _ in range(400):
        y = (rng.random(n) < p).astype(np.int8)
        found.append(Bins.of(Problem("", p, y, np.ones(n), L2.binary)))
    mean = np.mean([bins.ece for bins in found])
    assert found[0].by_chance == pytest.approx(mean, rel=0.1 if n < 100 else 0.05)


def test_the_grid_holds_both_ends():
    assert GRID[0] == 0
    assert GRID[-1] == 1
    assert (np.diff(GRID) > 0).all()


def test_curves_break_off_where_no_predictions_lie():
    rng = np.random.default_rng(0)
    p = np.concatenate([rng.uniform(0.1, 0.2, 300), rng.uniform(0.7, 0.8, 300)])
    y = (rng.random(600) < p).astype(int)
    diagram = summarize(y, p, advice=False).diagram
    shown = ~np.isnan(diagram.conditional)
    assert shown[np.searchsorted(GRID, [0.15, 0.75])].all()
    assert not shown[np.searchsorted(GRID, [0.001, 0.5, 0.999])].any()
    assert np.isnan(diagram.low[~shown]).all()


def test_counts_add_up():
    rng = np.random.default_rng(0)
    p = np.concatenate([rng.beta(0.3, 0.3, 97), [0.0, 1.0, 1.0 + 1e-7]])
    problem = Problem("one", p, (rng.random(100) < 0.5).astype(int), np.ones(100), L2)
    whole = Counts.of(problem)
    parts = [Counts.of(problem.take(rows)) for rows in (slice(0, 30), slice(30, 100))]
    for name in ("linear", "logit"):
        np.testing.assert_allclose(sum(getattr(part, name) for part in parts), getattr(whole, name))
        assert getattr(whole, name).sum() == 100
    for name in ("mean_prediction", "frequency"):
        means = [getattr(part, name) for part in parts]
        assert 0.3 * means[0] + 0.7 * means[1] == pytest.approx(getattr(whole, name))


def test_rows_that_stand_for_several_samples_are_counted_as_such():
    p, labels = np.array([0.1, 0.1, 0.6]), np.array([0, 1, 1])
    totals, units = np.array([3.0, 1.0, 2.0]), np.array([1.0, 0.5, 2.0])
    found = Counts.of(Problem("one", p, labels, totals, L2, units))
    assert found.linear.sum() == found.logit.sum() == 6
    assert found.mean_prediction == pytest.approx(1.6 / 6)
    assert found.frequency == pytest.approx(0.5)


def test_many_rows_are_tested_by_some(monkeypatch):
    monkeypatch.setattr(states, "MOST_DISTINCT", 150)
    data = ra.datasets.temperature(400, 3, seed=0)
    found = summarize(data.y_true, data.y_prob, n_draws=19, advice=False)
    assert found.result.n_samples == 400
    assert 140 <= found.test.n_samples <= 150
    assert f"{found.test.n_samples} rows" in "\n".join(text_lines(found))
