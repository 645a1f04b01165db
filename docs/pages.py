"""Pages whose code runs: python blocks and commands, with what they print put behind them.

MkDocs calls this as a hook, and the tests run the same pages. A page's blocks run top to bottom
in one namespace and one empty directory; the pictures and reports that they write there become
`generated/` of the site.

A line ``<!-- notebook: NAME.ipynb -->`` stands for the cells of a notebook in `examples/`. As in
Jupyter, a cell shows the value of its last expression and the figures that it leaves open, and
lines that begin with an exclamation mark are commands.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
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

EXAMPLES = DOCS.parent / "examples"
NOTEBOOK = re.compile(r"^<!-- notebook: (\S+)\.ipynb -->$", re.MULTILINE)
FENCE = re.compile(r"^```(python|console)(?: cell=(\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
"""Blocks of code; those that are cells of a notebook are named after it."""

_texts: dict[str, str] = {}


def run(text: str, directory: Path) -> str:
    """Run the blocks of a page in a directory; the page with their output."""
    namespace: dict[str, Any] = {"__name__": "page"}

    def with_output(fence: re.Match[str]) -> str:
        kind, cell, code = fence.groups()
        if kind == "console":
            return "```console\n" + "".join(_commands(code)) + "```"
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            shown = _run_cell(code, namespace) if cell else exec(code, namespace)
        found = f"```python\n{code}```"
        if printed.getvalue():
            found += f"\n\n```text\n{printed.getvalue().rstrip()}\n```"
        if shown is not None:
            found += f"\n\n{shown}"
        return found + "".join(_figures(directory, cell) if cell else [])

    with _inside(directory):
        return FENCE.sub(with_output, NOTEBOOK.sub(lambda line: cells_of(line[1]), text))


def cells_of(name: str) -> str:
    """The cells of a notebook as blocks of a page."""
    notebook = json.loads((EXAMPLES / f"{name}.ipynb").read_text(encoding="utf-8"))
    blocks = []
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            blocks.append(source)
        elif source.startswith("!"):
            commands = "".join(f"$ {line.removeprefix('!')}\n" for line in source.splitlines())
            blocks.append(f"```console\n{commands}```")
        else:
            blocks.append(f"```python cell={name}\n{source}\n```")
    return "\n\n".join(blocks)


def _run_cell(code: str, namespace: dict[str, Any]) -> str | None:
    """Run a cell; how a notebook shows the value of its last expression, if that has HTML."""
    tree = ast.parse(code)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "cell", "exec"), namespace)
    if last is None:
        return None
    value = eval(compile(ast.Expression(last.value), "cell", "eval"), namespace)
    if hasattr(value, "_repr_html_"):
        return f"<div>{value._repr_html_()}</div>"
    if value is not None and "matplotlib" not in type(value).__module__:
        print(repr(value))
    return None


def _figures(directory: Path, name: str) -> Iterator[str]:
    """Save the open figures, and close them."""
    pyplot = sys.modules.get("matplotlib.pyplot")
    for number in pyplot.get_fignums() if pyplot else []:
        file = f"{name}-{len(list(directory.glob(f'{name}-*.png')))}.png"
        pyplot.figure(number).savefig(directory / file, transparent=True, dpi=110)
        pyplot.close(number)
        yield f"\n\n![Output of the cell above](generated/{file}){{ width=560 }}"


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
    return _texts.get(page.file.src_uri, markdown)  # pages of the reference have no blocks
