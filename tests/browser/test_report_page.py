"""The report in a real browser: it draws, it answers, it asks nothing of the network."""

import base64
import json
import os
from pathlib import Path

import numpy as np
import pytest
from devtools import Browser, find_chromium

import riskalign as ra
from riskalign.report import summarize, surveying
from riskalign.report.page import Provenance, to_html

pytestmark = pytest.mark.skipif(find_chromium() is None, reason="there is no Chromium")

HOSTILE = ["</script><script>window.broken=1</script>", "<img src=//x onerror=window.broken=1>"]
PICTURES = os.environ.get("RISKALIGN_SCREENSHOTS")
"""A folder to keep pictures of the pages in, to look at."""


def make(n_classes, n=1500, names=None, **options):
    data = ra.datasets.temperature(n, n_classes, t2=0.5, seed=0)
    names = names or [f"class-{k}" for k in range(n_classes)]
    labels = np.array(names, dtype=object)[data.y_true]
    screen = summarize(labels, data.y_prob, classes=names, **{"advice": False} | options)
    return to_html(screen, Provenance("made-up.csv", "riskalign report made-up.csv"))


def make_many(n_classes, worst):
    """More classes than are estimated."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(surveying, "MANY", n_classes - 1)
        patch.setattr(surveying, "WORST", worst)
        return make(n_classes, n=800)


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    texts = {
        "two": make(2),
        "three": make(3, n_draws=19, advice=True),
        "ten": make(10),
        "hundred": make(100, n=1000),
        "many": make_many(60, 3),
        "few": make(2, n=20),
        "few3": make(3, n=20),
        "canonical": make(3, notion="canonical", loss="kl"),
        "hostile": make(4, names=[*HOSTILE, "ünï → 日本", "a" * 300]),
    }
    for name, text in texts.items():
        (folder / f"{name}.html").write_text(text, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def browser():
    with Browser() as found:
        yield found


ALL = ["two", "three", "ten", "hundred", "many", "few", "canonical", "hostile"]


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("width", [1100, 700, 360])
@pytest.mark.parametrize("dark", [False, True])
def test_every_page_is_quiet(browser, pages, name, width, dark):
    """No complaint, no request but the page itself, nothing wider than the window."""
    path = pages / f"{name}.html"
    browser.open(path, width=width, dark=dark)
    assert browser.run("document.querySelectorAll('#reliability polyline.curve').length") > 0
    assert browser.complaints() == []
    assert browser.requests() == [path.as_uri()]
    assert browser.run("document.documentElement.scrollWidth") <= width
    assert browser.run("window.broken") is None
    if PICTURES:
        shade = "dark" if dark else "light"
        browser.screenshot(Path(PICTURES) / f"{name}-{width}-{shade}.png")


def test_dark_pages_are_dark(browser, pages):
    colour = "getComputedStyle(document.documentElement).backgroundColor"
    browser.open(pages / "three.html", dark=True)
    dark = browser.run(colour)
    browser.open(pages / "three.html", dark=False)
    assert (dark, browser.run(colour)) == ("rgb(20, 22, 27)", "rgb(255, 255, 255)")


def curve(browser):
    return browser.run(
        "document.querySelector('#reliability polyline.curve').getAttribute('points')"
    )


def test_choosing_a_class(browser, pages):
    browser.open(pages / "ten.html")
    shown = "document.querySelector('[role=tab][aria-selected=true]').textContent"
    browser.run("document.querySelector('[data-tab=confidence]').click()")
    assert browser.run(shown) == "Confidence"
    before = curve(browser)
    browser.run("document.querySelector('[data-tab=classes]').click()")
    assert browser.run(shown) == "Each class"
    assert curve(browser) != before
    first = browser.run("document.querySelector('tbody tr td').textContent")
    options = browser.run("[...document.getElementById('choose').options].map(o => o.text)")
    assert len(options) == 10
    assert options[0] == f"class {first}"  # the class with the most evidence
    browser.run("document.getElementById('choose').focus()")
    for _ in range(3):
        browser.key("ArrowDown")
    assert curve(browser) != before
    name = browser.run("document.getElementById('choose').selectedOptions[0].text")
    assert name == options[3]
    assert name in browser.run("document.querySelector('#reliability svg').textContent")
    current = "document.querySelector('tr[aria-current=true]').cells[0].textContent"
    assert f"class {browser.run(current)}" == name
    assert browser.complaints() == []


def test_a_name_in_the_table_chooses_its_class(browser, pages):
    browser.open(pages / "ten.html")
    first = browser.run("document.querySelector('tbody button').textContent")
    browser.run("document.querySelector('tbody button').focus()")
    browser.key("Enter")
    chosen = "document.getElementById('choose').selectedOptions[0].text"
    assert browser.run(chosen) == f"class {first}"


def test_many_classes_are_filtered(browser, pages):
    browser.open(pages / "many.html")
    rows = "[...document.querySelectorAll('#class-table tbody tr')].filter(r => !r.hidden).length"
    showing = "document.getElementById('showing').textContent"
    assert browser.run(rows) == 20
    assert browser.run(showing) == "20 of 60 classes"
    assert browser.run("document.getElementById('choose').options.length") == 3
    browser.run("document.getElementById('more').click()")
    assert browser.run(rows) == 60
    browser.run("document.getElementById('filter').value = 'class-5'")
    browser.run("document.getElementById('filter').oninput()")
    assert browser.run(rows) == 11  # 5, 50 to 59
    assert browser.run(showing) == "11 of 60 classes (11 match)"


@pytest.mark.parametrize("kind", ["svg", "png", "json"])
def test_saving(browser, pages, kind):
    """What would be downloaded: a picture that carries its colours, or the numbers."""
    browser.open(pages / "three.html", dark=True)
    said = browser.run(
        """new Promise(done => {
          URL.createObjectURL = blob => {
            const reader = new FileReader();
            reader.onload = () => done(reader.result);
            reader.readAsDataURL(blob);
            return "#";
          };
          document.querySelector('[data-save=KIND]').click();
        })""".replace("KIND", kind)
    )
    content = base64.b64decode(said.partition(",")[2])
    if kind == "png":
        assert content.startswith(b"\x89PNG")
        assert len(content) > 5_000
    elif kind == "svg":
        text = content.decode()
        assert "class=" not in text
        assert 'stroke="rgb(127, 176, 255)"' in text
        assert "var(" not in text
    else:
        assert json.loads(content)["schema"] == 2
    assert browser.complaints() == []


def test_verdict_diagram_and_cards_are_above_the_fold(browser, pages):
    for name in ("two", "three", "ten"):
        browser.open(pages / f"{name}.html", width=1280, height=720)
        for part in ("h1", "#reliability svg", ".cards"):
            box = f"document.querySelector('{part}').getBoundingClientRect().bottom"
            assert browser.run(box) < 720, (name, part)
        heights = browser.run(
            "[...document.querySelectorAll('.cards > div')].map(c => c.offsetHeight)"
        )
        assert len(heights) == 4
        assert len(set(heights)) == 1


def test_tips_explain_the_numbers(browser, pages):
    browser.open(pages / "three.html")
    tips = browser.run("[...document.querySelectorAll('.cards .tip')].map(t => t.dataset.tip)")
    assert len(tips) == 4
    assert all(len(tip) > 40 for tip in tips)
    browser.run("document.querySelector('.cards .tip').focus()")
    shown = "getComputedStyle(document.querySelector('.cards .tip'), '::after').content"
    assert tips[0][:20] in browser.run(shown)


def test_details_are_folded(browser, pages):
    browser.open(pages / "three.html")
    assert browser.run("document.getElementById('details').open") is False
    browser.run("document.querySelector('summary').click()")
    text = browser.run("document.getElementById('details').innerText")
    for part in ("calibration error", "refinement", "p-value", "smoothing", "good < 1"):
        assert part in text


def test_one_diagram_needs_no_chooser(browser, pages):
    browser.open(pages / "two.html")
    assert browser.run("document.getElementById('choose').offsetParent") is None
    assert browser.run("document.getElementById('logit').offsetParent !== null")


def test_logit_axes(browser, pages):
    browser.open(pages / "three.html")
    before = curve(browser)
    browser.run("document.getElementById('logit').focus()")
    browser.key("Space")
    assert curve(browser) != before
    assert "0.999" in browser.run("document.querySelector('#reliability svg').textContent")
    browser.key("Space")
    assert curve(browser) == before


def test_what_lies_beyond_a_logit_axis(browser, tmp_path):
    """Bins of 0 are triangles at the edge, and the curve does not run along it."""
    rng = np.random.default_rng(0)
    p = np.r_[rng.uniform(0, 0.002, 3_000), rng.uniform(0.05, 0.95, 1_000)]
    y = (rng.random(4_000) < np.where(p > 0.3, p, 0)).astype(int)
    path = tmp_path / "rare.html"
    path.write_text(to_html(summarize(y, p, advice=False)), encoding="utf-8")
    browser.open(path)
    beyond = "Array.from(document.querySelectorAll('#reliability polygon.beyond title'))"
    circles = "document.querySelectorAll('#reliability circle.bin').length"
    logit = browser.run("document.getElementById('logit').checked")
    for _ in range(2):
        found = browser.run(f"{beyond}.map((e) => e.textContent).join('; ')")
        said = "bin beyond the axis" in browser.run(
            "document.querySelector('#reliability svg').textContent"
        )
        assert said == logit == ("observed 0.0%" in found)
        assert (browser.run(circles) > 14) != logit
        if logit:
            bottom = "Number(document.querySelector('#inside rect').getAttribute('height'))"
            curve_ = "document.querySelector('#reliability g[clip-path] polyline.curve')"
            lowest = browser.run(f"{curve_}.getBBox().y + {curve_}.getBBox().height")
            assert lowest > browser.run(bottom) + 50  # it leaves the picture
        browser.run("document.getElementById('logit').click()")
        logit = not logit
    assert browser.complaints() == []


def test_few_rows_are_dotted_in_small_diagrams_too(browser, pages):
    browser.open(pages / "hundred.html")
    both = "document.querySelectorAll('{} polyline.curve.faint').length"
    assert browser.run(both.format("#reliability")) > 0
    assert browser.run(both.format("td.spark")) > 0


def test_legends_of_bars_are_not_shown_without_bars(browser, pages):
    for width, shown in ((1100, True), (360, False)):
        browser.open(pages / "three.html", width=width)
        for what in ("svg.gain", ".keys"):
            box = f"document.querySelector('{what}').getBoundingClientRect().width > 0"
            assert browser.run(box) == shown


READOUT = "document.getElementById('reliability-readout').innerText"


def test_hovering_reads_values(browser, pages):
    browser.open(pages / "three.html")
    assert browser.run(READOUT) == ""
    browser.run("document.getElementById('figure').scrollIntoView()")
    box = "document.querySelector('#reliability svg').getBoundingClientRect()"
    left, top, width = (browser.run(f"{box}.{side}") for side in ("left", "top", "width"))
    browser.hover(left + width * 0.75, top + 200)
    said = browser.run(READOUT)
    assert said.startswith("Predicted 7")
    assert "observed " in said
    assert "predictions from" in said
    browser.hover(5, 5)
    assert browser.run(READOUT) == ""


def test_arrow_keys_read_values(browser, pages):
    browser.open(pages / "three.html")
    browser.run("document.querySelector('#reliability svg').focus()")
    browser.key("End")
    assert browser.run(READOUT).startswith("Predicted 100.0%")
    browser.key("ArrowLeft")
    assert browser.run(READOUT).startswith("Predicted 100\u22120.01%")
    browser.key("Home")
    assert browser.run(READOUT).startswith("Predicted 0.0%: no predictions near")
    assert browser.complaints() == []


def column(browser, number):
    rows = "[...document.querySelectorAll('#class-table tbody tr')]"
    values = browser.run(f"{rows}.map(r => r.cells[{number}].dataset.value)")
    return [float(value) for value in values]


def test_sorting(browser, pages):
    browser.open(pages / "ten.html")
    heads = browser.run("[...document.querySelectorAll('#class-table th')].map(th => th.innerText)")
    for number, head in enumerate(heads):
        if head.startswith(("class", "diagram")):
            continue
        th = f"document.querySelectorAll('#class-table th')[{number}]"
        browser.run(f"{th}.querySelector('button').click()")
        order = browser.run(f"{th}.ariaSort")
        found = column(browser, number)
        assert found == sorted(found, reverse=order == "descending")
        browser.run(f"{th}.querySelector('button').click()")
        assert browser.run(f"{th}.ariaSort") != order
        assert len(browser.run("[...document.querySelectorAll('th[aria-sort]')].map(x => 1)")) == 1
    browser.run("document.querySelector('#class-table th button').click()")
    names = browser.run(
        "[...document.querySelectorAll('#class-table tbody tr')].map(r => r.cells[0].innerText)"
    )
    assert names == [f"class-{k}" for k in range(10)]


def test_everything_is_reached_by_keyboard(browser, pages):
    browser.open(pages / "three.html")
    seen = []
    for _ in range(40):
        browser.key("Tab")
        seen.append(
            browser.run(
                "(document.activeElement.id || document.activeElement.tagName) + ':' + "
                "(document.activeElement.closest('[id]') || {}).id"
            )
        )
    text = " ".join(seen)
    for part in ("BUTTON:controls", "logit", "svg:reliability", "BUTTON:class-table", "filter"):
        assert part in text


def test_without_scripts_the_numbers_are_there(browser, pages):
    browser.open(pages / "three.html", script=False)
    browser.call("Emulation.setScriptExecutionDisabled", value=False)
    text = browser.run("document.body.innerText")
    for words in ("Typical gap", "95% CI", "accuracy", "class-2", "need JavaScript", "What to do"):
        assert words in text
    assert browser.complaints() == []


def test_resizing_redraws(browser, pages):
    browser.open(pages / "three.html")
    width = "document.querySelector('#reliability svg').viewBox.baseVal.width"
    wide = browser.run(width)
    browser.call(
        "Emulation.setDeviceMetricsOverride",
        width=360,
        height=800,
        deviceScaleFactor=1,
        mobile=True,
    )
    browser.run("new Promise(done => requestAnimationFrame(() => setTimeout(done, 100)))")
    assert browser.run(width) < 360 < wide


def test_print(browser, pages, tmp_path):
    browser.open(pages / "ten.html")
    browser.pdf(tmp_path / "ten.pdf")
    assert (tmp_path / "ten.pdf").read_bytes().startswith(b"%PDF")
    browser.call("Emulation.setEmulatedMedia", media="print")
    assert browser.run("document.getElementById('controls').offsetParent") is None
    assert browser.run("document.querySelector('#classes .scroll').clientHeight") > 250
    # Chromium leaves buttons out of the heads that it repeats on later pages.
    button = "document.querySelector('#class-table th button')"
    assert browser.run(f"getComputedStyle({button}).display") == "contents"
    browser.call("Emulation.setEmulatedMedia", media="")


def test_paper_says_how_many_classes_it_shows(browser, pages):
    browser.open(pages / "many.html")
    browser.call("Emulation.setEmulatedMedia", media="print")
    assert browser.run("document.getElementById('class-controls').innerText") == "20 of 60 classes"
    browser.run("window.dispatchEvent(new Event('beforeprint'))")
    assert browser.run("document.getElementById('class-controls').innerText") == "60 of 60 classes"
    browser.call("Emulation.setEmulatedMedia", media="")


def test_small_diagrams_have_colours_only_for_findings(browser, pages):
    fills = "#class-table tr{} .spark polygon:is(.over, .under)"
    count = "document.querySelectorAll('{}').length"
    seen = []
    for name in ("ten", "few3"):
        browser.open(pages / f"{name}.html")
        assert browser.run(count.format(fills.format(":not([data-beyond])"))) == 0
        assert browser.run(count.format("#class-table .spark polygon")) > 0
        seen.append(browser.run(count.format(fills.format("[data-beyond]"))))
    assert seen[0] > 0 == seen[1]


def test_a_hundred_classes_are_small(pages):
    assert (pages / "hundred.html").stat().st_size < 2_000_000


def test_curves_are_dotted_where_few_rows_inform_them(browser, pages):
    """With 20 rows there is no band at all; with 1,500 it ends before the curve does."""
    count = "document.querySelectorAll('#reliability polyline.curve{}').length"
    legend = "document.querySelector('#reliability svg').textContent"
    browser.open(pages / "few.html")
    assert browser.run(count.format("")) == browser.run(count.format(".faint")) > 0
    assert "estimate, few rows" in browser.run(legend)
    browser.open(pages / "three.html")
    assert browser.run(count.format(":not(.faint)")) > 0
    assert "estimate, 95% band" in browser.run(legend)


@pytest.mark.parametrize("width", [1100, 360])
def test_tables_of_gains_and_numbers_fit(browser, pages, width):
    """Nothing is cut at the right side of a narrow screen."""
    browser.open(pages / "three.html", width=width)
    browser.run("document.getElementById('details').open = true")
    wide = (
        "[...document.querySelectorAll('.gains td, .gains th, .numbers td, .numbers th')]"
        ".filter((cell) => cell.getBoundingClientRect().right > innerWidth).length"
    )
    assert browser.run(wide) == 0


@pytest.mark.parametrize(("width", "media"), [(1100, ""), (718, "print")])
def test_the_table_of_classes_fits(browser, pages, width, media):
    """No column is cut on a usual screen, nor on a sheet of paper (A4 with Chromium's margins)."""
    browser.open(pages / "ten.html", width=width)
    browser.call("Emulation.setEmulatedMedia", media=media)
    right = "document.getElementById('class-table').getBoundingClientRect().right"
    assert browser.run(f"{right} <= innerWidth")
    browser.call("Emulation.setEmulatedMedia", media="")
