"""The documentation from files: no page asks for anything elsewhere, and the search finds pages."""

import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from devtools import Browser, find_chromium

pytest.importorskip("material", reason="the documentation is built by Material for MkDocs")

ROOT = Path(__file__).parents[2]

SETTINGS = """\
INHERIT: {root}/mkdocs.yml
docs_dir: docs
site_dir: site
hooks: []
plugins: [search, offline]
nav: [index.md, deep/other.md]
validation: {{nav: {{omitted_files: ignore}}}}
"""
"""The project's own settings for two pages, so that no code of pages runs."""

LOADED = re.compile(r"<(?:script|link|img|iframe)\b[^>]*?\b(?:src|href)=[\"']?([^\"'> ]+)")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    (folder / "docs" / "deep").mkdir(parents=True)
    for name in ("style.css", "iframe-worker.js"):
        (folder / "docs" / name).write_bytes((ROOT / "docs" / name).read_bytes())
    (folder / "docs" / "index.md").write_text("# Home\n\nNothing here.\n")
    (folder / "docs" / "deep" / "other.md").write_text("# Elsewhere\n\nAn aardvark is here.\n")
    (folder / "mkdocs.yml").write_text(SETTINGS.format(root=ROOT))
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    return folder / "site"


def test_no_page_loads_anything_from_elsewhere(site):
    pages = list(site.rglob("*.html"))
    assert len(pages) >= 2
    for page in pages:
        loaded = LOADED.findall(page.read_text(encoding="utf-8"))
        assert any("iframe-worker.js" in each for each in loaded)
        assert not [each for each in loaded if each.startswith(("http:", "https:", "//"))]


@pytest.mark.skipif(find_chromium() is None, reason="there is no Chromium")
@pytest.mark.parametrize("page", ["index.html", "deep/other.html"])
def test_the_search_works_from_files(site, page):
    with Browser() as browser:
        browser.open(site / page, width=1300)
        browser.run(
            "(() => { const box = document.querySelector('.md-search__input'); box.focus();"
            "box.value = 'aardvark'; box.dispatchEvent(new Event('input', {bubbles: true}));"
            "box.dispatchEvent(new KeyboardEvent('keyup', {bubbles: true})); })()"
        )
        found, end = "", time.monotonic() + 20
        while "Elsewhere" not in found and time.monotonic() < end:
            time.sleep(0.1)
            found = browser.run("document.querySelector('.md-search-result').textContent")
        assert "Elsewhere" in found
        asked = [
            event["params"]["request"]["url"]
            for event in browser.events
            if event.get("method") == "Network.requestWillBeSent"
        ]
        assert not [url for url in asked if url.startswith("http")]
