"""The report in a real browser: it draws, it answers, it asks nothing of the network."""

import os
from pathlib import Path

import numpy as np
import pytest
from devtools import Browser, find_chromium

import riskalign as ra
from riskalign.report import to_html
from riskalign.report.summary import summarize

pytestmark = pytest.mark.skipif(find_chromium() is None, reason="there is no Chromium")

HOSTILE = ["</script><script>window.broken=1</script>", "<img src=//x onerror=window.broken=1>"]
PICTURES = os.environ.get("RISKALIGN_SCREENSHOTS")
"""A folder to keep pictures of the pages in, to look at."""


def make(n_classes, n=1500, names=None, **options):
    data = ra.datasets.temperature(n, n_classes, t2=0.5, seed=0)
    names = names or [f"class-{k}" for k in range(n_classes)]
    labels = np.array(names, dtype=object)[data.y_true]
    return to_html(summarize(labels, data.y_prob, classes=names, **options), source="made-up.csv")


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    texts = {
        "two": make(2),
        "three": make(3, n_draws=19),
        "ten": make(10),
        "hundred": make(100, n=1000),
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


ALL = ["two", "three", "ten", "hundred", "canonical", "hostile"]


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("width", [1100, 700, 360])
@pytest.mark.parametrize("dark", [False, True])
def test_every_page_is_quiet(browser, pages, name, width, dark):
    """No complaint, no request but the page itself, nothing wider than the window."""
    path = pages / f"{name}.html"
    browser.open(path, width=width, dark=dark)
    assert browser.run("document.querySelectorAll('#reliability svg .curve').length") > 0
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
    return browser.run("document.querySelector('#reliability svg .curve').getAttribute('points')")


def test_choosing_a_class(browser, pages):
    browser.open(pages / "ten.html")
    options = browser.run("[...document.getElementById('choose').options].map(o => o.text)")
    assert options == ["the predicted class (top label)", *(f"class class-{k}" for k in range(10))]
    before = curve(browser)
    browser.run("document.getElementById('choose').focus()")
    for _ in range(4):
        browser.key("ArrowDown")
    assert browser.run("document.getElementById('choose').value") == "4"
    assert curve(browser) != before
    assert "class-3" in browser.run("document.querySelector('#reliability svg').textContent")
    current = "document.querySelector('tr[aria-current=true]').cells[0].textContent"
    assert browser.run(current) == "class-3"
    assert "class class-3" in browser.run("document.getElementById('bandwidth-readout').innerText")
    assert browser.complaints() == []


def test_a_name_in_the_table_chooses_its_class(browser, pages):
    browser.open(pages / "ten.html")
    first = browser.run("document.querySelector('tbody button').textContent")
    browser.run("document.querySelector('tbody button').focus()")
    browser.key("Enter")
    chosen = "document.getElementById('choose').selectedOptions[0].text"
    assert browser.run(chosen) == f"class {first}"


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


READOUT = "document.getElementById('reliability-readout').innerText"


def test_hovering_reads_values(browser, pages):
    browser.open(pages / "three.html")
    assert browser.run(READOUT).startswith("Hover over the diagram")
    browser.run("document.getElementById('figure').scrollIntoView()")
    box = "document.querySelector('#reliability svg').getBoundingClientRect()"
    left, top, width = (browser.run(f"{box}.{side}") for side in ("left", "top", "width"))
    browser.hover(left + width * 0.75, top + 200)
    said = browser.run(READOUT)
    assert said.startswith("Predicted 0.7")
    assert "comes true 0." in said
    assert "predictions from" in said
    browser.hover(5, 5)
    assert browser.run(READOUT).startswith("Hover over the diagram")


def test_arrow_keys_read_values(browser, pages):
    browser.open(pages / "three.html")
    browser.run("document.querySelector('#reliability svg').focus()")
    browser.key("End")
    assert browser.run(READOUT).startswith("Predicted 1.000")
    browser.key("ArrowLeft")
    assert browser.run(READOUT).startswith("Predicted 1 \u2212 1.2e-4")
    browser.key("Home")
    assert browser.run(READOUT).startswith("Predicted 0.000: no predictions near")
    browser.run("document.querySelector('#bandwidth svg').focus()")
    browser.key("ArrowRight")
    assert browser.run("document.getElementById('bandwidth-readout').innerText").startswith("h = ")
    assert browser.complaints() == []


def column(browser, number):
    cells = f"[...document.querySelectorAll('tbody tr')].map(r => r.cells[{number}].dataset.value)"
    return [float(value) for value in browser.run(cells)]


def test_sorting(browser, pages):
    browser.open(pages / "ten.html")
    heads = browser.run("[...document.querySelectorAll('th')].map(th => th.textContent)")
    error = heads.index("error")
    assert column(browser, error) == sorted(column(browser, error), reverse=True)
    for number, head in enumerate(heads):
        if head in ("class", "diagram"):
            continue
        button = f"document.querySelectorAll('th')[{number}].querySelector('button')"
        browser.run(f"{button}.click()")
        order = browser.run(f"document.querySelectorAll('th')[{number}].ariaSort")
        assert column(browser, number) == sorted(
            column(browser, number), reverse=order == "descending"
        )
        browser.run(f"{button}.click()")
        assert browser.run(f"document.querySelectorAll('th')[{number}].ariaSort") != order
        assert len(browser.run("[...document.querySelectorAll('th[aria-sort]')].map(x => 1)")) == 1
    browser.run("document.querySelector('th button').click()")
    names = browser.run("[...document.querySelectorAll('tbody tr')].map(r => r.cells[0].innerText)")
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
    for part in ("choose", "logit", "svg:reliability", "svg:bandwidth", "BUTTON:class-table"):
        assert part in text


def test_without_scripts_the_numbers_are_there(browser, pages):
    browser.open(pages / "three.html", script=False)
    browser.call("Emulation.setScriptExecutionDisabled", value=False)
    text = browser.run("document.body.innerText")
    for words in ("Calibration error", "95% interval", "Accuracy", "class-2", "need JavaScript"):
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
    assert browser.run("document.querySelector('.scroll').clientHeight") > 350
    browser.call("Emulation.setEmulatedMedia", media="")


def test_a_hundred_classes_are_small(pages):
    assert (pages / "hundred.html").stat().st_size < 2_000_000
