"""Pages whose code runs: python blocks and commands, with what they print put behind them.

MkDocs calls this as a hook, and the tests run the same pages. A page's blocks run top to bottom
in one namespace and one empty directory; the pictures and reports that they write there become
`generated/` of the site.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
GENERATED = DOCS / "generated"
KEPT = (".png", ".svg", ".html")
"""Files that a page may show."""

FENCE = re.compile(r"^```(python|console)\n(.*?)^```$", re.MULTILINE | re.DOTALL)

_texts: dict[str, str] = {}


def run(text: str, directory: Path) -> str:
    """Run the blocks of a page in a directory; the page with their output."""
    namespace: dict[str, Any] = {"__name__": "page"}

    def with_output(fence: re.Match[str]) -> str:
        if fence[1] == "console":
            return "```console\n" + "".join(_commands(fence[2])) + "```"
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(fence[2], "page", "exec"), namespace)
        if not printed.getvalue():
            return fence[0]
        return f"{fence[0]}\n\n```text\n{printed.getvalue().rstrip()}\n```"

    with _inside(directory):
        return FENCE.sub(with_output, text)


def _commands(block: str) -> Iterator[str]:
    """Lines that begin with a dollar, and what they print; one that fails is an error."""
    for line in block.splitlines():
        command = line.removeprefix("$ ")
        if command == line:
            raise ValueError(f"Lines of console blocks begin with '$ '; found {line!r}.")
        bash = ["bash", "-o", "pipefail", "-c", command]
        done = subprocess.run(bash, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{command} ended with {done.returncode}: {done.stderr}")
        yield f"{line}\n{done.stdout}{done.stderr}"


@contextlib.contextmanager
def _inside(directory: Path) -> Iterator[None]:
    """Work in a directory, with this environment's commands and without windows."""
    before, environment = Path.cwd(), dict(os.environ)
    os.chdir(directory)
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    os.environ |= {"COLUMNS": "80", "MPLBACKEND": "agg"}
    try:
        yield
    finally:
        os.chdir(before)
        os.environ.clear()
        os.environ.update(environment)
        if "matplotlib.pyplot" in sys.modules:
            sys.modules["matplotlib.pyplot"].close("all")


def on_pre_build(config: Any) -> None:
    """Run all pages before MkDocs looks for files."""
    shutil.rmtree(GENERATED, ignore_errors=True)
    GENERATED.mkdir()
    for page in sorted(DOCS.glob("*.md")):
        with tempfile.TemporaryDirectory() as name:
            directory = Path(name)
            _texts[page.name] = run(page.read_text(encoding="utf-8"), directory)
            for made in directory.iterdir():
                if made.suffix in KEPT:
                    shutil.copy(made, GENERATED)


def on_config(config: Any) -> Any:
    """Formulas in docstrings stay as they are: <R, l(f)> is an inner product, not a tag."""
    from markdown import Markdown
    from markdown.extensions import Extension

    class PlainAngles(Extension):
        def extendMarkdown(self, md: Markdown) -> None:
            md.inlinePatterns.deregister("html")

    config.markdown_extensions.append(PlainAngles())
    return config


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """The page with its output."""
    return _texts[page.file.src_uri]
