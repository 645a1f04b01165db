"""The first screen: what it says, in text and to other programs."""

import csv
import io
import json
import math
import re
from dataclasses import replace
from functools import partial
from xml.etree import ElementTree

import numpy as np
import pytest
from scipy.special import expit

import riskalign as ra
from riskalign.cli.gates import Limit, check_gates, check_limit
from riskalign.cli.meter import Meter
from riskalign.display import svg
from riskalign.display.judgement import Thresholds, judge
from riskalign.methods import KernelSmoother
from riskalign.recalibration import gains
from riskalign.recalibration.gains import Gain
from riskalign.report import Options, screen_of, summarize, survey
from riskalign.report.advice import Advice
from riskalign.report.exchange import Check, to_csv, to_json, to_junit, to_markdown
from riskalign.report.page import to_html
from riskalign.report.sections import class_section
from riskalign.report.text import text_lines
from riskalign.report.words import tell
from riskalign.sketches.batches import sketch_of_batches

QUICK = {"pictures": False, "advice": False}


@pytest.fixture(scope="module")
def three():
    return ra.datasets.temperature(400, 3, t2=0.5, seed=0)


@pytest.fixture(scope="module")
def screen(three):
    return summarize(three.y_true, three.y_prob, n_draws=19, pictures=False)


def text_of(screen, **options):
    lines = list(text_lines(screen, **options))
    assert max(map(len, lines)) <= 80
    return "\n".join(lines)


def by_number(screen):
    """What is said of each class, in their own order."""
    return sorted(tell(screen).classes, key=lambda line: line.number)


def said(screen):
    """The sentences, on one line."""
    return " ".join(tell(screen).sentences)


class TestWords:
    def test_both_questions_are_answered(self, screen):
        """For more than two classes: is the confidence right, and is each class right?"""
        assert [answer.notion for answer in screen.answers] == ["top-label", "classwise"]
        text = text_of(screen)
        assert "typical gap, confidence" in text
        assert "typical gap, per class" in text
        assert tell(screen).headline.upper().split()[0] in text

    def test_units_are_points_and_squares_are_details(self, screen):
        plain, verbose = text_of(screen), text_of(screen, verbose=True)
        square = f"{screen.result.value:.6f}"
        assert square not in plain
        assert square in verbose
        assert f"{100 * screen.result.root:.1f} pts" in plain

    def test_the_widest_smoothing_is_said_in_plain_words(self):
        data = ra.datasets.calibrated(400, 2, seed=0)
        found = summarize(data.y_true, data.y_prob[:, 1], **QUICK)
        said = "as wide as allowed: narrower smoothing shows no further pattern"
        assert said in " ".join(text_of(found, verbose=True).split())

    def test_scores_everyone_knows(self, screen, three):
        text = text_of(screen)
        accuracy = np.mean(three.y_prob.argmax(axis=1) == three.y_true)
        assert re.search(rf"accuracy +{100 * accuracy:.1f}%", text)
        ece = screen.scores.ece
        assert re.search(rf"ECE \(15 bins\) +{100 * ece:.1f} pts +[0-9.]+ by chance", text)
        own = three.y_prob[np.arange(400), three.y_true]
        assert screen.scores.log_loss == pytest.approx(-np.log(own).mean())
        assert f"{screen.scores.brier:.4f}" in text

    def test_a_negative_error_is_shown_as_0(self, screen):
        result = replace(
            screen.result,
            value=-0.0166,
            per_class=-np.ones(3) / 100,
            interval=(0.0, 0.1422),
            refinement=screen.result.risk + 0.0166,
        )
        found = replace(screen, result=result)
        row = found.result.gap_row()
        assert (row.value, row.interval) == ("0 pts", "0 to 21.8 pts")
        details = [line for line in text_of(found, verbose=True).splitlines() if "0.142200" in line]
        assert re.search(r"^    calibration error +0\.000000  0\.000000 to", details[0])
        assert "-0.0166" not in text_of(found, verbose=True)
        shown = to_html(found).partition('<script type="application/json"')[0]
        assert "0.000000" in shown
        assert "0.0166" not in shown
        assert "value=0," in repr(found.result)
        assert f"refinement  {found.result.risk:.6f}" in re.sub(" +", "  ", str(found.result))
        assert json.loads(to_json(found))["value"] == -0.0166

    def test_the_p_value_is_worded_as_what_it_is(self, screen):
        assert "p-value" in text_of(screen)
        assert "by simulation, 19 draws of 400 rows" in " ".join(text_of(screen).split())
        assert screen.test.row.help.startswith("Probability of a discrepancy at least this large")

    @pytest.mark.parametrize(
        ("interval", "grade", "expected"),
        [
            ((0.0004, 0.001), "poor", "Class probabilities are miscalibrated"),
            ((0.0, 0.0004), "fair", "no evidence that class probabilities are miscalibrated: the"),
            ((0.0, 0.3), "unclear", "with 400 rows, typical gaps below 31.6 points per class"),
        ],
    )
    def test_size_and_significance(self, screen, interval, grade, expected):
        value = 0.004 if grade == "poor" else 0.0004
        result = replace(screen.result, value=value, per_class=np.full(3, value / 3),
                         interval=interval, evidence=None)  # fmt: skip
        found = replace(screen, result=result, top=None, evidence=None, test=None)
        assert found.verdict_of(result).grade == grade
        assert expected in said(found)
        assert (grade in text_of(found)) or grade == "unclear"

    def test_thresholds_are_printed_and_can_be_set(self, three):
        strict = Thresholds(0.1, 0.2, 0.3)
        found = summarize(three.y_true, three.y_prob, thresholds=strict, **QUICK)
        assert found.grade == "bad"
        text = " ".join(text_of(found).split())
        assert "good < 0.1, fair < 0.2, poor < 0.3 points, else bad" in text
        with pytest.raises(ValueError, match="rising order"):
            Thresholds(3, 1, 10)

    @pytest.mark.parametrize(
        ("gap", "expected"),
        [
            (0.05, "it is over-confident (+5.0 points, 95% CI +3.0 to +7.0)."),
            (-0.05, "it is under-confident (-5.0 points, 95% CI -7.0 to -3.0)."),
            (-0.0027, "no clear direction (-0.3 points, 95% CI -2.2 to +1.7)."),
        ],
    )
    def test_a_direction_needs_an_interval_that_excludes_0(self, screen, gap, expected):
        gaps = replace(screen.top.overconfidence, gap=gap, gap_error=0.01)
        found = replace(screen, top=replace(screen.top, overconfidence=gaps))
        assert expected in said(found)
        clear = "no clear" not in expected
        assert ("-confident" in text_of(found)) == clear
        assert ("no clear direction" in text_of(found)) != clear

    def test_the_test_may_find_what_the_interval_does_not(self, screen):
        none = {"interval": (0.0, 0.1), "evidence": None}
        calm = replace(screen, result=replace(screen.result, **none), top=None, evidence=None)
        assert screen.test.p_value <= 0.05
        assert "The test finds miscalibration all the same" in said(calm)
        assert "all the same" not in said(replace(calm, test=None))
        named = replace(calm, evidence=screen.evidence)  # classes are off, as has been said
        assert "off by more than chance" in said(named)
        assert "all the same" not in said(named)

    @pytest.mark.parametrize(
        ("high", "headline", "size"),
        [
            (0.1, "miscalibrated, by an unclear amount", "the data do not tell how large it is"),
            (0.0002, "good", "it is no larger than the interval allows"),
        ],
    )
    def test_nothing_denies_what_the_test_finds(self, screen, high, headline, size):
        wide = replace(screen.result, value=0.0, interval=(0.0, high), evidence=None)
        found = replace(screen, result=wide, top=None, evidence=None)
        assert tell(found).headline == f"Class probabilities are {headline}"
        assert "The interval of the typical gap reaches 0: the typical gap between" in said(found)
        assert "no evidence" not in said(found)
        assert size in said(found)

    def test_the_test_is_about_the_classes_whatever_the_confidence_is(self, screen):
        wide = replace(screen.result, value=0.0, interval=(0.0, 0.1), evidence=None)
        found = replace(screen, result=wide, evidence=None)
        assert found.verdict_of(screen.top).significant
        assert "class probabilities are miscalibrated, by an unclear" in tell(found).headline
        assert "no evidence" not in said(found)

    def test_a_loss_without_points(self, screen):
        wide = replace(screen.result, loss="kl", interval=(0.0, 0.1), evidence=None)
        found = replace(screen, result=wide, top=None, evidence=None)
        assert "are miscalibrated, by an unclear amount" in tell(found).headline
        assert "The interval of the calibration error reaches 0" in said(found)
        assert wide.gap_row().note == "the interval reaches 0"
        assert "are not shown to be off" in tell(replace(found, test=None)).headline

    def test_an_interval_that_reaches_0_does_not_deny_what_else_is_known(self, screen):
        """Classes that are off, or a slope: there are rows enough to tell that, not how much."""
        wide = replace(screen.result, interval=(0.0, 0.1))
        assert (
            "miscalibrated, by an unclear amount"
            in tell(replace(screen, result=wide, top=None, test=None)).headline
        )
        unknown = replace(wide, evidence=None)
        assert (
            "unclear: too few rows to tell"
            in tell(replace(screen, result=unknown, top=None, test=None)).headline
        )


class TestTwoClasses:
    def test_a_slope_that_is_off_is_evidence(self):
        data = ra.datasets.temperature(2000, 4, seed=0)
        y, p = data.y_true == 1, data.y_prob[:, 1]
        found = summarize(y, p, n_draws=0, **QUICK)
        assert found.result.interval[0] == 0
        assert found.result.binary.slope_interval[1] < 1
        assert "no evidence" not in said(found)
        assert "are too extreme (slope 0.80, 95% CI 0.71 to 0.89), but the data do not" in said(
            found
        )
        assert "miscalibrated, by an unclear amount" in tell(found).headline

    def test_a_factor_without_a_large_gap_is_named_as_the_reason(self):
        """The badge of the page has the words of the text."""
        data = ra.datasets.calibrated(20_000, 2, seed=0)
        p = data.y_prob[:, 1] / 100
        y = np.random.default_rng(0).random(len(p)) < p / 2
        found = summarize(y, p, n_draws=0, **QUICK)
        assert "poor by the factor" in text_of(found)
        assert '<span class="badge poor">poor by the factor</span>' in to_html(found)

    def test_a_rare_class_is_told_by_its_ratio(self):
        """A rare class whose probability is 1.7 times too high; nothing of the other class."""
        rng = np.random.default_rng(0)
        f = rng.beta(0.1, 25, 40_000)
        y = (rng.random(40_000) < f / 1.7).astype(int)
        found = summarize(y, f, classes=[0, 1], **QUICK)
        binary = found.result.binary
        low, high = binary.ratio_interval
        text = text_of(found)
        off = f"{binary.ratio:.1f} times too high"
        assert off.upper() in text.splitlines()[2]
        assert f"{off} (95% CI {low:.1f} to {high:.1f})" in said(found)
        assert f"{low:.2f} to {high:.2f}" in text
        assert "-confident" not in text
        assert "accuracy" not in text
        assert found.grade == "poor"  # although its gap is a fraction of a point
        for number in (binary.slope, binary.intercept):
            assert f"{number:.2f}" in text
        content = json.loads(to_json(found))
        assert content["binary"]["ratio_interval"] == [low, high]
        assert content["direction"] == "too high"

    def test_without_a_direction(self):
        for y, f in (([0] * 30, [0.01] * 30), ([0, 1] * 10, [0.45, 0.55] * 10)):
            text = text_of(summarize(y, f, **QUICK))
            assert "no clear direction" in " ".join(text.split())
            assert "times too" not in text
            assert "inf" not in text.split()

    def test_few_rows_are_unclear(self):
        rng = np.random.default_rng(1)
        f = rng.uniform(0.2, 0.8, 20)
        found = summarize((rng.random(20) < f).astype(int), f, **QUICK)
        assert found.grade == "unclear"
        assert "TOO FEW ROWS TO TELL" in text_of(found)
        assert "cannot be ruled out" in said(found)

    @pytest.mark.parametrize("f", [0.0, 0.001])
    def test_rows_without_an_event_show_little(self, f):
        """The rule of three: frequencies up to about 3/n are compatible with n rows without one."""
        few, many = (summarize([0] * n, [f] * n, **QUICK) for n in (4, 4_000))
        assert few.grade == "unclear"
        assert "UNCLEAR: TOO FEW ROWS TO TELL" in text_of(few)
        high = 100 * (1 - 0.05 ** (1 / 4) - f)
        assert f"with 4 rows, typical gaps below {high:.1f} points cannot be ruled out" in said(few)
        assert few.result.gap_interval == pytest.approx((0, high / 100))
        (check,) = check_limit(few, Limit.parse("3pts"), "gap", upper=True)
        assert check.failed
        if not f:
            assert many.grade == "good"
            assert many.result.gap_interval[1] == pytest.approx(3 / 4_000, rel=0.01)

    def test_sure_and_right_of_several_classes(self):
        y = np.array([0, 1, 2, 0])
        found = summarize(y, np.eye(3)[y], **QUICK)
        assert tell(found).headline.endswith("are unclear: too few rows to tell")
        q = 1 - 0.05 ** (1 / 4)
        assert found.top.gap_interval[1] == pytest.approx(q)
        assert found.result.gap_interval[1] == pytest.approx(q * (2 / 3) ** 0.5)
        assert (
            ra.calibration_error(y, np.eye(3)[y], notion="top-label").verdict().grade == "unclear"
        )

    @pytest.mark.parametrize("n", [20, 60])
    def test_ordinary_rows_keep_their_interval(self, n):
        data = ra.datasets.temperature(n, 2, t2=0.5, seed=0)
        found = ra.calibration_error(data.y_true, data.y_prob[:, 1], confidence=0.95)
        ends = [max(end, 0.0) ** 0.5 for end in found.interval]
        assert found.gap_interval == pytest.approx(ends)

    def test_long_names(self):
        names = ["no", "yes " * 40]
        labels = np.array(names, dtype=object)[[0, 1] * 10]
        text_of(summarize(labels, [0.45, 0.55] * 10, classes=names, **QUICK), verbose=True)


class TestClasses:
    def test_shares_are_errors_over_the_total(self, screen):
        total = screen.result.value
        for k, error in enumerate(screen.result.per_class.tolist()):
            assert by_number(screen)[k].share == pytest.approx(max(error, 0) / total)

    def test_a_share_of_a_negative_error_is_0(self, screen):
        per_class = np.array([0.03, -0.01, 0.01])
        result = replace(screen.result, per_class=per_class, value=0.03)
        errors = {k: replace(screen.class_errors[k], value=v) for k, v in enumerate(per_class)}
        found = replace(screen, result=result, class_errors=errors)
        assert [line.share for line in by_number(found)] == pytest.approx([1.0, 0.0, 1 / 3])

    def test_rare_classes_are_no_findings(self):
        """A calibrated model of 60 classes, most of them with a few rows."""
        rng = np.random.default_rng(0)
        base = np.array([0.4, 0.3, *np.full(58, 0.3 / 58)])
        p = rng.dirichlet(30 * base, 600)
        y = (p.cumsum(axis=1) > rng.random((600, 1))).argmax(axis=1)
        found = summarize(y, p, notion="classwise", **QUICK)
        assert not found.evidence.findings.any()
        assert "No single class is off by more than chance" in said(found)

    def test_findings_come_first(self):
        rng = np.random.default_rng(0)
        p = rng.dirichlet(np.ones(6), 3_000)
        q = p.copy()
        q[:, 4] *= 0.4  # class 4 occurs less often than it is predicted
        q /= q.sum(axis=1, keepdims=True)
        y = (q.cumsum(axis=1) > rng.random((3_000, 1))).argmax(axis=1)
        found = summarize(y, p, **QUICK)
        assert tell(found).classes[0].number == 4
        assert found.evidence.directions[4].startswith("too")
        assert found.evidence.gaps[4] > 0.05
        assert re.search(r"^  4 .*too \w+$", text_of(found), re.MULTILINE)

    def test_all_classes_can_be_listed(self):
        data = ra.datasets.temperature(200, 9, seed=0)
        found = summarize(data.y_true, data.y_prob, **QUICK)
        assert "(4 more: --all-classes)" in text_of(found)
        assert "more: --all" not in text_of(found, all_classes=True)

    def test_which_of_many_classes_are_estimated(self, three, monkeypatch):
        found = summarize(three.y_true, three.y_prob, **QUICK)
        assert "are estimated" not in text_of(found)
        monkeypatch.setattr("riskalign.report.surveying.MANY", 2)
        monkeypatch.setattr("riskalign.report.surveying.WORST", 2)
        found = summarize(three.y_true, three.y_prob, **QUICK)
        note = 'Of 3 classes, the 2 with the most evidence are estimated; the others show "-"'
        assert note in " ".join(text_of(found).split())
        assert note.replace('"', "&quot;") in class_section(found, tell(found))

    @pytest.mark.parametrize(
        ("off", "words"), [(1, "1 of 3 classes is"), (2, "2 of 3 classes are")]
    )
    def test_the_number_of_a_caption(self, screen, off, words):
        found = replace(screen.evidence, p_values=np.where(np.arange(3) < off, 0.0, 1.0))
        assert found.findings.sum() == off
        changed = replace(screen, evidence=found)
        assert f"{words} off" in class_section(changed, tell(changed))


class TestSurvey:
    def test_it_grows(self, three):
        sketch = sketch_of_batches([(three.y_true, three.y_prob)])
        options = Options(n_draws=9, pictures=False, advice=False)
        seen = list(survey(sketch, options))
        assert [each.stage for each in seen] == [
            "scores", "confidence", "classes", "classes", "classes", "p-value", ""]  # fmt: skip
        known = [sum(v is not None for v in vars(each).values()) for each in seen]
        assert known == sorted(known)
        assert set(seen[-1].stages) == {"scores", "confidence", "classes", "p-value"}
        for each in seen[2:]:  # every step can be shown
            text_of(each)

    @pytest.mark.parametrize("pictures", [False, True])
    @pytest.mark.parametrize("kind", ["binary", "classwise", "many", "few rows"])
    def test_progress_ends_with_the_last_stage(self, three, monkeypatch, kind, pictures):
        """Each stage has a cost, and before the last one some of the work is left."""
        y, p = three.y_true, three.y_prob
        if kind == "binary":
            y, p = y == 1, p[:, 1]
        if kind == "few rows":
            y, p = y[:50], p[:50]
        if kind == "many":
            monkeypatch.setattr("riskalign.report.surveying.MANY", 2)
            monkeypatch.setattr("riskalign.report.surveying.WORST", 2)
        meter, shares = Meter(), []
        options = Options(n_draws=9, pictures=pictures)
        for each in survey(sketch_of_batches([(y, p)]), options):
            costs = each.stages
            if each.stage:
                assert each.stage in costs
                assert each.stage in ("p-value", *list(costs)[:-1])
            meter.stage(each.stage, costs)
            said = meter.line(0.0, 1.0)
            shares.append(int(said.partition(" ... ")[2].partition("%")[0]))
        assert shares == sorted(shares)
        assert shares[-2] < 100
        assert ("diagrams" in costs) == pictures

    def test_a_merged_sketch_says_the_same(self, three):
        parts = [slice(0, 150), slice(150, 400)]
        sketches = [sketch_of_batches([(three.y_true[s], three.y_prob[s])]) for s in parts]
        merged = screen_of(sketches[0].merge(sketches[1]), **QUICK)
        whole = summarize(three.y_true, three.y_prob, **QUICK)
        assert text_of(merged, verbose=True) == text_of(whole, verbose=True)

    def test_confidence_alone(self):
        rng = np.random.default_rng(0)
        confidence = rng.uniform(0.1, 1, 300)
        right = (rng.random(300) < confidence).astype(int)
        found = summarize(right, confidence, top_label=True)
        assert found.scores.accuracy == pytest.approx(right.mean())
        assert found.scores.confidence == pytest.approx(confidence.mean())
        gap = found.scores.confidence - found.scores.accuracy
        assert found.result.overconfidence.gap == pytest.approx(gap)
        assert found.result.notion == "top-label"
        assert found.diagram.name == "top label"
        assert "classes" not in tell(found).subject
        text_of(found)
        with pytest.raises(ValueError, match="needs the probabilities of all classes"):
            summarize(right, confidence, top_label=True, notion="classwise")


class TestAdvice:
    def test_temperature_removes_it(self, screen):
        assert screen.advice.chosen.method == "temperature"
        text = text_of(screen, source=("dir/a b.csv", "--label", "truth"))
        assert "What to do" in text
        assert "$ riskalign calibrate 'dir/a b.csv' -o 'dir/a b-calibrated.csv'" in text
        assert " \\\n      --method temperature --label truth\n" in text
        stored = text_of(screen, source=("log.jsonl", "--save", "c.json"))  # no file is rewritten
        assert "$ riskalign calibrate log.jsonl --method temperature --save c.json" in stored
        assert "falls from" in screen.advice.sentence
        assert screen.advice.sentence.startswith("Recalibrate with temperature scaling (")
        kernel = replace(gain("kernel", 0.9, 0.0), description="kernel calibrator (smooth)")
        sentence = Advice("binary", 1, (kernel,), True, 500).sentence
        assert sentence.startswith("Recalibrate with the kernel calibrator (smooth): ")

    def test_the_rule_is_said_as_it_is(self):
        """A gap that is gone may not be worth it: it was less than a point."""
        gains = (replace(gain("temperature", 0.999, 0.0), error_before=0.006**2),)
        advice = Advice("binary", 1, gains, True, 500)
        assert advice.chosen is None
        assert advice.sentence.endswith(
            "no method lowers the log loss by 0.5%, and none lowers the typical gap by more than "
            "half and at least 1 point without raising the log loss."
        )
        assert replace(advice, in_points=False).sentence.endswith("lowers the log loss by 0.5%.")

    def test_a_gain_has_its_interval(self):
        known = replace(gain("temperature", 0.9, 0.0), change_error=0.01)
        advice = Advice("binary", 1, (known,), True, 500)
        assert "the log loss by 10.0% (95% CI 8.0% to 12.0%), cross-fitted on" in advice.sentence
        assert "chance" not in advice.sentence
        unsure = Advice("binary", 1, (replace(known, change_error=0.06),), True, 500)
        assert "(95% CI -1.8% to 21.8%)" in unsure.sentence
        assert unsure.sentence.endswith("rows. The gain may be chance.")

    def test_a_gap_after_recalibration_is_an_estimate(self):
        advice = Advice("binary", 1, (gain("temperature", 0.9, -0.001),), True, 500)
        assert "falls from 10.0 pts to about 0 pts," in advice.sentence

    def test_few_rows_are_not_recalibrated(self):
        data = ra.datasets.temperature(20, 3, t2=0.5, seed=0)
        found = summarize(data.y_true, data.y_prob, pictures=False)
        sentence = "Too few rows (20) to try recalibration, which takes at least 100."
        assert f"What to do\n  {sentence}" in text_of(found, source=("FILE",))
        assert sentence in to_html(found)
        assert sentence in to_markdown(found, "name")
        assert json.loads(to_json(found))["advice"]["gains"] == []
        none = summarize(data.y_true, data.y_prob, **QUICK)
        assert "What to do" not in text_of(none)

    def test_nothing_to_gain(self):
        data = ra.datasets.calibrated(1_500, 3, seed=0)
        found = summarize(data.y_true, data.y_prob, pictures=False)
        assert found.advice.chosen is None
        assert "next to nothing" in text_of(found)
        assert "riskalign calibrate" not in text_of(found)


class TestExchange:
    def test_json(self, screen):
        content = json.loads(to_json(screen, riskalign="1.2"))
        assert content["schema"] == 2
        assert content["riskalign"] == "1.2"
        assert content["complete"]
        assert content["verdict"]["grade"] == screen.grade
        assert content["ece"] == screen.scores.ece
        assert content["top_label"]["value"] == screen.top.value
        for row in content["class_table"]:
            low, high = row["gap_interval"]
            assert low <= row["gap"] <= high
            low, high = row["error_interval"]
            assert low <= row["error"] <= high
        assert {row["class"] for row in content["class_table"]} == {"0", "1", "2"}
        assert content["advice"]["chosen"] == "temperature"

    def test_csv(self, screen):
        rows = list(csv.DictReader(io.StringIO(to_csv(screen))))
        assert [row["class"] for row in rows] == ["0", "1", "2"]
        assert sum(float(row["error"]) for row in rows) == pytest.approx(screen.result.value)
        assert sum(float(row["count"]) for row in rows) == pytest.approx(400)
        assert all(float(row["gap_low"]) <= float(row["gap_high"]) for row in rows)

    def test_markdown_is_inert(self, three):
        names = ["a|b", "<script>x</script>", "[link](javascript:x)"]
        labels = np.array(names, dtype=object)[three.y_true]
        found = summarize(labels, three.y_prob, classes=names, **QUICK)
        text = to_markdown(found, "`rm`.csv", [Check("x", True, "too large")])
        assert text.startswith("## ")
        assert "**failed**: too large" in text
        assert "<script>" not in text
        assert "a\\|b" in text
        assert "[link]" not in text.replace("\\[link\\]", "")
        widths = {len(re.findall(r"(?<!\\)\|", line)) for line in text.splitlines() if "| " in line}
        assert widths == {5, 8}

    def test_junit(self, screen):
        checks = [Check('confidence "right"?', True, "7 > 3"), Check("classes", False, "fine")]
        suite = ElementTree.fromstring(to_junit(screen, "a\x00.csv", checks, "text <&"))
        assert suite.get("failures") == "1"
        assert suite.get("tests") == "2"
        assert [case.find("failure") is not None for case in suite.iter("testcase")] == [
            True,
            False,
        ]
        assert suite.find("system-out").text == "text <&"
        alone = ElementTree.fromstring(to_junit(screen, "a", [], ""))
        assert len(list(alone.iter("testcase"))) == 1


class TestGates:
    @pytest.mark.parametrize("upper", [False, True])
    def test_points_are_of_every_answer(self, screen, upper):
        ends = [answer.gap_interval[int(upper)] for answer in screen.answers]
        some = sorted(end > min(ends) for end in ends)
        for limit, expected in ((0.0, [True] * 2), (min(ends), some), (max(ends), [False] * 2)):
            checks = check_limit(screen, Limit(limit, True), "error", upper)
            assert sorted(check.failed for check in checks) == expected

    def test_units_of_the_loss(self, screen):
        low, _ = screen.result.interval
        (above,) = check_limit(screen, Limit(low * (1 - 1e-9), False), "error", False)
        (below,) = check_limit(screen, Limit(low, False), "error", False)
        assert above.failed
        assert not below.failed

    def test_ece(self, screen):
        ece = screen.scores.ece
        assert check_limit(screen, Limit(ece / 2, True), "ece", False)[0].failed
        assert not check_limit(screen, Limit(ece * 2, True), "ece", False)[0].failed

    def test_points_of_a_log_loss(self, three):
        found = summarize(three.y_true, three.y_prob, loss="kl", **QUICK)
        with pytest.raises(ValueError, match="in percentage points"):
            check_limit(found, Limit(0.03, True), "error", False)
        assert math.isfinite(found.result.value)
        text_of(found, verbose=True)

    @pytest.mark.parametrize(
        ("text", "expected"),
        [("3pts", (0.03, True)), ("3 pts", (0.03, True)), ("3%", (0.03, True)),
         ("1.25x", (1.25, False, True)),
         ("0.01raw", (0.01, False)), ("-1 raw", (-1, False)), ("1e9raw", (1e9, False))],
    )  # fmt: skip
    def test_limits(self, text, expected):
        assert Limit.parse(text) == Limit(*expected)

    @pytest.mark.parametrize("text", ["x", "3px", "nan", "inf", ""])
    def test_no_limits(self, text):
        with pytest.raises(ValueError):  # noqa: PT011
            Limit.parse(text)


class TestFactors:
    @pytest.mark.parametrize("factor", [0.5, 2.0])
    def test_a_rare_class_may_not_be_wrong_by_a_factor(self, factor):
        rng = np.random.default_rng(0)
        truth = rng.beta(0.2, 40, 30_000)
        y = (rng.random(30_000) < truth) * 1
        found = summarize(y, np.minimum(factor * truth, 1), **QUICK)
        low, high = found.answers[-1].binary.factor_interval
        assert 1 < low < 2 < high
        for upper, end in ((False, low), (True, high)):
            for limit in (end - 0.01, end + 0.01):
                (check,) = check_limit(found, Limit(limit, False, True), "error", upper)
                assert check.failed == (limit < end)
        assert f"limit of the factor {high:.3g}" in check.message
        right = summarize(y, truth, **QUICK)
        assert right.answers[-1].binary.factor_interval[0] == 1.0

    def test_several_classes_have_none(self):
        data = ra.datasets.calibrated(200, 3, seed=0)
        found = summarize(data.y_true, data.y_prob, **QUICK)
        with pytest.raises(ValueError, match="there are several here"):
            check_limit(found, Limit(1.25, False, True), "error", False)

    @pytest.mark.parametrize(("limit", "metric"), [("0.8x", "error"), ("1.2x", "ece")])
    def test_limits_that_make_no_sense(self, limit, metric):
        with pytest.raises(ValueError, match="a factor is at least 1"):
            check_gates(Limit.parse(limit), metric, False)


class TestSmallErrors:
    """What is said where the whole is hardly more than chance, or small but a large factor."""

    def test_parts_of_next_to_nothing_have_no_shares(self):
        fair = ra.datasets.calibrated(300, 4, seed=3)
        found = summarize(fair.y_true, fair.y_prob, **QUICK)
        assert found.result.interval[0] == 0
        assert [line.share for line in by_number(found)] == [None] * 4
        assert "% of the class-wise error" not in said(found)
        whole = ra.calibration_error(fair.y_true, fair.y_prob, confidence=0.95)
        assert [row[5] for row in whole.class_grid()[1:]] == ["-"] * 4

    def test_shares_add_up_where_there_is_an_error(self, screen):
        shares = [line.share for line in by_number(screen)]
        assert sum(shares) == pytest.approx(1)

    def test_a_small_gap_with_a_large_factor_is_not_called_good(self):
        rng = np.random.default_rng(0)
        p = rng.uniform(0, 0.01, 20_000)
        found = summarize((rng.random(20_000) < p / 2).astype(int), p, **QUICK)
        assert found.grade == "poor"
        assert "although by little in percentage points" in said(found)
        (row,) = (row for row in tell(found).rows if row.name == "typical gap")
        assert row.note == "poor by the factor"

    def test_labels_of_one_class_are_said_to_be(self):
        rng = np.random.default_rng(0)
        found = summarize(np.zeros(200, dtype=int), rng.uniform(0, 0.2, 200), **QUICK)
        assert "All labels are of class 0" in text_of(found)


class TestAdviceOfManyRows:
    def test_equal_rows_count_as_often_as_they_occur(self, monkeypatch):
        """A sketch of many rows holds cells with counts; advice is about samples, not cells."""
        monkeypatch.setattr(gains, "MOST_ROWS", 20_000)
        rng = np.random.default_rng(0)
        p = 1 / (1 + np.exp(-rng.normal(-5, 1.5, 30_000)))
        y = (rng.random(30_000) < p / 2).astype(int)
        sketch = sketch_of_batches([(y, p)], notion="binary")
        assert len(sketch.case("l2").sample.labels) < 15_000
        found = screen_of(sketch, pictures=False)
        (first, *_) = found.advice.gains
        assert first.n == 20_000
        # twenty standard errors of a mean log loss; counted by cells it is several times larger
        assert first.log_loss_before == pytest.approx(found.scores.log_loss, rel=0.1)
        assert "20,000 of the 30,000 rows" in found.advice.sentence

    def test_a_mere_confidence_has_advice(self):
        rng = np.random.default_rng(0)
        p = rng.uniform(0.5, 1, 2_000)
        right = (rng.random(2_000) < 0.5 + (p - 0.5) / 3).astype(int)
        found = summarize(right, p, top_label=True, pictures=False)
        assert found.advice.chosen is not None
        assert found.advice.notion == "top-label"
        assert "riskalign calibrate FILE" in text_of(found, source=("FILE",))
        assert "riskalign calibrate" not in text_of(found)


def gain(method, log_loss, error):
    """A gain; before it, the log loss is 1 and the typical gap 10 points."""
    return Gain(method, method, 1.0, log_loss, 0.01, error, "", "", 500)


class TestChoice:
    @pytest.mark.parametrize(
        ("simple", "rich", "chosen"),
        [
            ((0.901, 0.0005), (0.9, 0.0), "temperature"),  # as good
            ((0.901, 0.004), (0.9, 0.0), "platt"),  # as good by the loss, but an error remains
            ((0.95, 0.0), (0.9, 0.0), "platt"),
            ((0.999, 0.0), (0.998, 0.0), "temperature"),  # the gap of 10 points is gone
            ((0.999, 0.009), (0.998, 0.003), None),  # not worth it
            ((1.001, 0.0), (1.002, 0.0), None),
        ],
    )
    def test_the_simplest_of_the_best(self, simple, rich, chosen):
        gains = (gain("temperature", *simple), gain("platt", *rich))
        found = Advice("binary", 1, gains, True, 500).chosen
        assert (found and found.method) == chosen

    def test_a_temperature_cannot_correct_a_level(self):
        """Where the mean prediction is off, it yields to Platt scaling that does as well."""
        temperature, platt = gain("temperature", 0.9, 0.0), gain("platt", 0.901, 0.0)
        tried = partial(Advice, "binary", 1, in_points=True, n_samples=500, level_off=True)
        assert tried(gains=(temperature, platt)).chosen.method == "platt"
        assert (
            replace(tried(gains=(temperature, platt)), level_off=False).chosen.method
            == "temperature"
        )
        worse = replace(platt, log_loss_after=0.95)
        assert tried(gains=(temperature, worse)).chosen.method == "temperature"
        unsure = replace(worse, log_loss_doubt=0.06)
        assert tried(gains=(temperature, unsure)).chosen.method == "platt"

    def test_a_rare_class_is_advised_platt_scaling(self):
        g = np.random.default_rng(3)
        score = g.normal(-8, 2, 50_000)
        y = (g.random(50_000) < expit(score)).astype(int)
        found = summarize(y, expit(0.9 * score + 0.2), pictures=False)
        assert found.result.binary.sign == 1
        assert found.advice.level_off
        assert found.advice.chosen.method == "platt"
        assert found.advice.rows == "all 50,000 rows"
        assert "A temperature cannot correct predictions" in to_html(found)


class TestOneRule:
    """Sentences, tables and colours follow the findings, corrected for the number of classes."""

    def test_findings_beside_an_error_that_may_be_0(self, screen):
        assert screen.evidence.findings.any()
        result = replace(screen.result, value=-0.001, per_class=-np.ones(3) / 3000,
                         interval=(0.0, 0.0004))  # fmt: skip
        errors = {k: replace(error, value=-0.001) for k, error in screen.class_errors.items()}
        found = replace(screen, result=result, class_errors=errors)
        assert "no evidence that class probabilities" not in said(found)
        uncertain = "How far off class probabilities are as a whole is uncertain: "
        assert uncertain in said(found)
        for k, off in enumerate(screen.evidence.findings):
            assert by_number(found)[k].typical == ("-" if off else "0")
        grid = found.result.class_grid()
        assert {row[4] for row in grid[1:] if row[6]} == {"-"}

    def test_colours_are_those_of_findings(self, screen):
        """An interval of one class may exclude 0 by the number of classes alone."""
        doubtful = replace(screen.evidence, p_values=np.full(3, 0.03), low=np.full(3, 0.01),
                           high=np.full(3, 0.02))  # fmt: skip
        assert not doubtful.findings.any()
        result = replace(screen.result, evidence=doubtful)
        assert svg.ORANGE not in result._repr_html_()
        sure = replace(doubtful, p_values=np.full(3, 0.001))
        assert svg.ORANGE in replace(result, evidence=sure)._repr_html_()

    def test_an_interval_of_several_grades(self, screen):
        result = replace(screen.result, value=0.015, interval=(3 * 0.04**2, 3 * 0.2**2))
        found = replace(screen, result=result, top=None)
        assert tell(found).headline == "Class probabilities are poor to bad"
        assert result.gap_row().note == "poor to bad"
        (answer,) = json.loads(to_json(found))["verdict"]["answers"]
        assert (answer["grade"], answer["grades_of_interval"]) == ("poor", ["poor", "bad"])
        assert '<span class="badge bad">poor to bad</span>' in to_html(found)
        raised = judge(0.001, (0.0005, 0.04)).at_least("poor")
        assert raised.words == "poor"


class TestBins:
    """A report by the bins of everyone's ECE shows that number once, and no note on the method."""

    @pytest.mark.parametrize("top_label", [False, True])
    def test_the_ece_is_shown_once(self, three, top_label):
        y, p = three.y_true == 1, three.y_prob[:, 1]
        method = ra.EqualWidthBins(15, norm="l1")
        found = summarize(y, p, top_label=top_label, method=method, **QUICK)
        assert "observed frequency of each bin" not in text_of(found)
        assert "observed frequency of each bin" in text_of(found, verbose=True)
        names = [row.name for row in tell(found).rows]
        assert [name for name in names if "ECE" in name or "error" in name] == ["ECE (15 bins)"]
        assert found.result.value == pytest.approx(found.scores.ece)
        page = to_html(found)
        assert page.count("<dt>ECE") == 1
        assert "<dt>Calibration error" not in page
        assert f'<span class="badge {found.grade}">' in page
        ten = summarize(y, p, method=ra.EqualWidthBins(10, norm="l1"), **QUICK)
        assert "calibration error" in [row.name for row in tell(ten).rows]


class TestRows:
    def test_notes_do_not_stand_under_the_interval(self, screen):
        lines = text_of(screen).splitlines()
        head = next(line for line in lines if line.strip() == "95% CI")
        for name in ("ECE (15 bins)", "p-value", "Brier score"):
            line = next(line for line in lines if line.strip().startswith(name))
            assert not line[head.index("95%") :][:10].strip()

    @pytest.mark.parametrize("options", [{"loss": "kl"}, {"method": KernelSmoother(norm="l1")}])
    def test_rows_have_names_of_their_own(self, three, options):
        found = summarize(three.y_true, three.y_prob, **QUICK, **options)
        names = [row.name for row in tell(found).rows if "calibration error" in row.name]
        assert len(names) == len(set(names)) == 2

    def test_a_log_loss_has_no_typical_gap(self, three):
        result = ra.calibration_error(three.y_true, three.y_prob, loss="kl", confidence=0.95)
        assert {row[4] for row in result.class_grid()[1:]} == {"-"}


def test_bars_of_a_method_that_is_worse(screen):
    worse = replace(gain("kernel", 1.0, 4e-4), error_before=1e-4)
    advice = Advice("classwise", 1, (gain("temperature", 0.9, 0.0), worse), True, 400)
    page = to_html(replace(screen, advice=advice))
    assert page.count('<rect class="worse"') == 1
    assert page.count('<rect class="after"') == 1
    widths = re.findall(r'<rect class="(?:before|worse)" y="[19]" width="([0-9.]+)"', page)
    assert float(widths[-1]) == 2 * float(widths[-2])
    assert '<span class="key worse"></span>after, if worse' in page


class TestFaultOfOneProbability:
    def headline(self, slope, shift):
        """Of a model whose log-odds are `slope` times the truth's, and more by `shift`."""
        rng = np.random.default_rng(0)
        truth = rng.normal(0, 1.5, 6_000)
        y = (rng.random(6_000) < 1 / (1 + np.exp(-truth))) * 1
        p = 1 / (1 + np.exp(-slope * truth - shift))
        found = summarize(y, p, pictures=False)
        return tell(found).headline, " ".join(tell(found).sentences)

    def test_the_slope_if_the_mean_is_nearly_right(self):
        headline, text = self.headline(2.0, 0.15)
        assert headline.endswith("bad: too extreme")
        assert "times too high" in text
        assert "Predictions are too extreme." in text
        assert self.headline(0.4, 0.0)[0].endswith("too timid")

    def test_the_mean_if_it_is_most_of_the_error(self):
        headline, text = self.headline(1.0, 1.0)
        assert headline.endswith("times too high")
        assert "extreme" not in text

    def test_the_mean_if_it_is_wrong_by_a_factor(self):
        """A rare class may be off by much less in points than in its factor."""
        rng = np.random.default_rng(1)
        truth = 1 / (1 + np.exp(7 - rng.normal(0, 1.5, 40_000)))
        y = (rng.random(40_000) < truth) * 1
        found = summarize(y, truth**1.3, pictures=False)
        assert "times too low" in tell(found).headline


class TestImpossibleRows:
    def said(self, y, p):
        return " ".join(tell(summarize(y, p, **QUICK)).sentences)

    def test_a_probability_of_0_for_what_happened_is_told(self):
        rng = np.random.default_rng(0)
        p = rng.integers(0, 11, 1_000) / 10
        y = (rng.random(1_000) < 0.8 * p + 0.1) * 1
        wrong = int(((p == 0) & (y == 1)).sum() + ((p == 1) & (y == 0)).sum())
        assert wrong > 5
        text = self.said(y, p)
        assert f"had the predicted probability 0 in {wrong} rows" in text
        assert "1e-09 instead and depends on it, and so do slope and intercept." in text

    def test_one_row_of_several_classes(self):
        data = ra.datasets.calibrated(200, 3, seed=0)
        f = data.y_prob.copy()
        f[0] = np.roll(np.eye(3)[data.y_true[0]], 1)
        text = self.said(data.y_true, f)
        assert "had the predicted probability 0 in 1 row." in text
        found = summarize([1, 0] * 20, [1.0, 0.7] * 19 + [0.7, 1.0], top_label=True)
        said = " ".join(tell(found).sentences)
        assert "The model was 100% sure and wrong, or 0% sure and right, in 1 row. The" in said
        assert "slope" not in text
        assert "predicted probability 0" not in self.said(data.y_true, data.y_prob)
