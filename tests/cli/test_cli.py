"""The command line as a whole: errors, exit codes, interrupts, and processes of their own."""

import builtins
import json
import os
import re
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from command_line import one_line

import riskalign as ra
import riskalign_command

FAST = ("--fast",)


class TestErrors:
    def test_no_file(self, run, tmp_path):
        code, out, err = run("report", tmp_path / "nothing.csv")
        assert (code, out) == (2, "")
        assert "nothing.csv: no such file" in one_line(err)

    @pytest.mark.parametrize(
        ("probs", "expected"),
        [
            ([[0.5, 0.6]] * 3, "rows must sum to 1"),
            ([[1.5, -0.5]] * 3, "--logits for logits"),
            ([[np.nan, 0.5]] * 3, "NaN"),
            ([[0.5, 0.5]], "At least two samples"),
        ],
    )
    def test_bad_numbers(self, run, tmp_path, probs, expected):
        np.savez(tmp_path / "a.npz", labels=np.zeros(len(probs)), probs=np.array(probs))
        code, _, err = run("report", tmp_path / "a.npz")
        assert code == 2
        assert expected in one_line(err)
        assert "`" not in err

    @pytest.mark.parametrize(
        ("rows", "place"),
        [
            ("0,0.5,0.5\n1,0.1,1.7\n1,-1,2\n", "line 3, column 'p_b': found 1.7 there; pred"),
            ("0,0.5,0.5\n\n1,nan,0.3\n", "line 4, column 'p_a': found NaN there. Drop"),
            ("0,0.5,0.5\n1,0.9,0.3\n", "line 3: found the sum 1.2 there; rows must sum to 1"),
        ],
    )
    @pytest.mark.parametrize("command", ["report", "compare", "plot", "batches"])
    def test_bad_numbers_have_a_place(self, run, tmp_path, monkeypatch, rows, place, command):
        path = tmp_path / "a.csv"
        path.write_text(f"y,p_a,p_b\n{rows}")
        if command == "batches":
            monkeypatch.setattr("riskalign.data.files.predictions.LARGE", 0)
            monkeypatch.setattr("riskalign.data.files.tables.BATCH", 1)
        more = {"compare": [path], "plot": ["-o", tmp_path / "a.png"]}
        name = "report" if command == "batches" else command
        code, _, err = run(name, path, *more.get(command, ()))
        assert code == 2
        assert f"{path}: {place}" in one_line(err)

    def test_bad_numbers_of_parquet_files(self, run, tmp_path):
        p = np.full(50, 0.5)
        p[34] = 1.7
        pq.write_table(pa.table({"y": [0, 1] * 25, "p": p}), tmp_path / "a.parquet")
        code, _, err = run("report", tmp_path / "a.parquet")
        assert code == 2
        assert "a.parquet: row 34, column 'p': found 1.7 there; predictions must lie" in err

    def test_one_row(self, run, tmp_path):
        (tmp_path / "a.csv").write_text("y,p\n1,0.7\n")
        code, _, err = run("report", tmp_path / "a.csv")
        assert code == 2
        assert "found 1." in one_line(err)
        assert "sketch" not in err

    @pytest.mark.parametrize("text", ["3,1,10", "1,3", "1,2,x"])
    def test_thresholds_ascend(self, run, file, text):
        code, _, err = run("report", file, "--thresholds", text)
        assert code == 2
        assert f"{text!r} must be three percentage points that ascend" in one_line(err)

    def test_standard_input(self, run):
        code, _, err = run("report", "-")
        assert code == 2
        assert "reading from the standard input is not supported" in one_line(err)

    def test_binary_of_three_classes(self, run, file):
        code, _, err = run("report", file, "--notion", "binary")
        assert code == 2
        assert "In the rows" not in err
        assert "--notion binary needs two classes" in one_line(err)

    @pytest.mark.parametrize(
        "arguments",
        [
            (),
            ("report",),
            ("report", "a.csv", "--notion", "odd"),
            ("report", "a.csv", "--fail-above", "nan"),
            ("report", "a.csv", "--fail-above", "x"),
            ("report", "a.csv", "--fail-above", "1-2pts"),
            ("report", "a.csv", "--draws", "-1"),
            ("report", "a.csv", "--no-such-option"),
            ("plot", "a.csv"),
        ],
    )
    def test_usage(self, run, arguments):
        code, out, err = run(*arguments)
        assert (code, out) == (2, "")
        assert ". See riskalign" in one_line(err)
        assert err.endswith(" --help.\n")

    def test_nothing_is_written_into_missing_places(self, run, file, tmp_path):
        for path in (tmp_path / "no" / "a.html", tmp_path):
            code, _, err = run("report", file, *FAST, "--html", path)
            assert code == 2
            one_line(err)
        assert sorted(path.name for path in tmp_path.iterdir()) == ["three.npz"]

    def test_memory(self, run, file, monkeypatch):
        def too_much(*_, **__):
            raise MemoryError

        monkeypatch.setattr("riskalign.cli.report.survey", too_much)
        code, _, err = run("report", file)
        assert code == 2
        assert "memory" in one_line(err)

    def test_interrupt(self, run, file, monkeypatch):
        def stop(*_, **__):
            raise KeyboardInterrupt

        monkeypatch.setattr("riskalign.cli.report.survey", stop)
        code, out, err = run("report", file)
        assert (code, err) == (130, "riskalign: interrupted\n")
        assert out.startswith("three.npz: ")

    def test_interrupt_keeps_what_is_known(self, run, file, monkeypatch, tmp_path):
        """Ctrl-C during the test of calibration: the rest is printed and written."""

        def stop(*_, **__):
            raise KeyboardInterrupt

        monkeypatch.setattr("riskalign.sketches.sketch.perform_test", stop)
        gate = ("--fail-above", "0pts")
        code, out, err = run("report", file, "--json", tmp_path / "a.json", *gate)
        assert (code, err) == (130, "")
        assert "typical gap, per class" in out
        assert re.search(r"p-value +not finished", out)
        assert "Interrupted before the p-value" in out
        assert "--fail-above" not in out
        found = json.loads((tmp_path / "a.json").read_text())
        assert not found["complete"]
        assert found["p_value"] is None
        assert found["interval"][0] > 0

    @pytest.mark.parametrize("command", [("report",), ("plot", "-o", "a.png")])
    def test_too_many_bins(self, run, file, command):
        code, _, err = run(command[0], file, "--bins", "999999999999", *command[1:])
        assert code == 2
        assert "at most 1,000,000 bins; found 999,999,999,999" in one_line(err)

    def test_weights_count_in_the_comparison_too(self, run, three, tmp_path, monkeypatch):
        weights = np.arange(300) % 3
        np.savez(tmp_path / "a.npz", labels=three.y_true, probs=three.y_prob, w=weights)
        np.savez(tmp_path / "b.npz", labels=three.y_true, probs=three.conditional)
        seen = []
        compare = ra.compare
        monkeypatch.setattr(
            "riskalign.cli.report.compare",
            lambda *given, **options: seen.append(options) or compare(*given, **options),
        )
        options = ("--weight", "w", "--worse-than", tmp_path / "b.npz", *FAST)
        code, out, err = run("report", tmp_path / "a.npz", *options)
        assert (code, err) == (1, "")
        assert "weights from 'w'" in out
        assert seen[0]["sample_weight"].tolist() == weights.tolist()

    def test_the_baseline_is_opened_before_the_work(self, run, file, tmp_path, monkeypatch):
        monkeypatch.setattr("riskalign.cli.report.survey", None)
        code, out, err = run("report", file, "--worse-than", tmp_path / "nothing.csv")
        assert (code, out) == (2, "")
        assert "nothing.csv: no such file" in one_line(err)

    def test_names_of_files_that_are_no_text(self, run, file, tmp_path):
        odd = tmp_path / os.fsdecode(b"odd-\xff.npz")
        try:
            odd.write_bytes(file.read_bytes())
        except OSError:
            pytest.skip("names of files must be text here")
        outputs = [tmp_path / f"out.{kind}" for kind in ("html", "json", "csv", "md", "xml")]
        options = zip(("--html", "--json", "--csv", "--markdown", "--junit"), outputs, strict=True)
        code, _, err = run("report", odd, *FAST, *(part for pair in options for part in pair))
        assert (code, err) == (0, "")
        assert "odd-?.npz" in outputs[0].read_text(encoding="utf-8")


class TestExitCodes:
    """A crash is never 0 or 1, the codes of a verdict."""

    @pytest.mark.parametrize("debug", [(), ("--debug",)])
    def test_internal_errors(self, run, file, monkeypatch, debug):
        def crash(*_, **__):
            raise ZeroDivisionError("float division\nby zero")

        monkeypatch.setattr("riskalign.report.surveying.error_of", crash)
        code, out, err = run("report", file, "--fail-above", "0pts", *debug)
        assert (code, out.count("\n")) == (3, 1)  # what was read
        trace, line = err.splitlines()[:-1], err.splitlines()[-1]
        assert line.startswith("riskalign: internal error: ZeroDivisionError: float division by")
        assert f"riskalign {ra.__version__}" in line
        assert "--debug" in line
        assert ("Traceback (most recent call last):" in trace) == bool(debug)
        assert bool(trace) == bool(debug)

    def test_debug_may_come_first(self, run, tmp_path):
        code, _, err = run("--debug", "report", tmp_path / "nothing.csv")
        assert code == 2
        assert err.startswith("Traceback")
        assert err.splitlines()[-1].endswith("nothing.csv: no such file.")

    @pytest.mark.parametrize(
        ("crash", "expected"),
        [
            (lambda *_, **__: np.linalg.inv(np.zeros((2, 2))), "LinAlgError"),  # inside numpy
            (len, "TypeError"),  # compiled: the last Python line is riskalign's own
        ],
    )
    def test_errors_of_others_are_not_the_user_s(self, run, file, monkeypatch, crash, expected):
        """The same types as errors about input have, but no check of ours raised them."""
        monkeypatch.setattr("riskalign.report.surveying.error_of", crash)
        code, _, err = run("report", file, *FAST)
        assert (code, err.count("\n")) == (3, 1)
        assert err.startswith(f"riskalign: internal error: {expected}: ")

    def test_models_that_differ_in_every_row_alike(self, run, tmp_path):
        (tmp_path / "a.csv").write_text("y,p\n0,0\n1,1\n0,0\n1,1\n")
        (tmp_path / "b.csv").write_text("y,p\n0,1\n1,0\n0,1\n1,0\n")
        code, out, err = run("compare", tmp_path / "a.csv", tmp_path / "b.csv")
        assert (code, err) == (0, "")
        assert "p-value 0.125" in out
        assert "do not tell" in out

    def test_help_lists_them(self, run):
        for command in ((), ("report",), ("compare",), ("plot",), ("demo",)):
            out = run(*command, "--help")[1]
            codes = out.partition("exit codes:")[2]
            assert re.findall(r"^  (\d+) ", codes, re.MULTILINE) == ["0", "1", "2", "3", "130"]
            assert "--debug" in out


def test_help_has_examples(run):
    for command in ((), ("report",), ("compare",), ("plot",), ("demo",)):
        code, out, _ = run(*command, "--help")
        assert code == 0
        assert "example" in out
        assert f"riskalign {' '.join(command)}" in out
        assert max(map(len, out.splitlines())) <= 80


def test_interrupt_during_imports(monkeypatch, capsys):
    plain = builtins.__import__

    def interrupted(name, *arguments, **options):
        if name == "riskalign.cli":
            raise KeyboardInterrupt
        return plain(name, *arguments, **options)

    monkeypatch.setattr(builtins, "__import__", interrupted)
    assert riskalign_command.main() == 130
    assert capsys.readouterr().err == "riskalign: interrupted\n"


@pytest.mark.parametrize(
    "error", [ImportError("no symbol\nin libblas"), MemoryError(), OSError("gone"), ValueError()]
)
def test_errors_during_imports(monkeypatch, capsys, error):
    plain = builtins.__import__

    def failing(name, *arguments, **options):
        if name == "riskalign.cli":
            raise error
        return plain(name, *arguments, **options)

    monkeypatch.setattr(builtins, "__import__", failing)
    assert riskalign_command.main() == 3
    said = capsys.readouterr().err
    assert said.startswith(f"riskalign: internal error: {type(error).__name__}")
    assert said.count("\n") == 1


class TestProcess:
    """What only shows in a process of its own."""

    def command(self, *arguments, **options):
        return subprocess.run(
            [sys.executable, "-m", "riskalign.cli", *map(str, arguments)],
            capture_output=True,
            check=False,
            timeout=300,
            **options,
        )

    def test_a_closed_pipe_is_no_error(self, file):
        line = f"{sys.executable} -m riskalign.cli report {file} --draws 0 | true"
        found = subprocess.run(
            ["bash", "-c", f"set -o pipefail; {line}"],
            capture_output=True,
            check=False,
            timeout=300,
        )
        assert (found.returncode, found.stderr) == (0, b"")

    def test_a_closed_pipe_does_not_pass_the_gate(self, file, tmp_path):
        page = tmp_path / "a.json"
        options = f"--draws 0 --fail-above 0pts --json {page}"
        line = f"{sys.executable} -m riskalign.cli report {file} {options} | true"
        found = subprocess.run(
            ["bash", "-c", f"set -o pipefail; {line}"],
            capture_output=True,
            check=False,
            timeout=300,
        )
        assert (found.returncode, found.stderr) == (1, b"")
        assert page.exists()

    def test_an_interrupt_during_imports(self, file):
        code = (
            "import sys\n"
            "class Finder:\n"
            "    def find_spec(self, name, *_):\n"
            "        if name == 'riskalign.cli.commands':\n"
            "            raise KeyboardInterrupt\n"
            "sys.meta_path.insert(0, Finder())\n"
            "from riskalign_command import main\n"
            f"sys.argv = ['riskalign', 'report', {str(file)!r}]\n"
            "sys.exit(main())"
        )
        found = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, check=False, timeout=300
        )
        assert (found.returncode, found.stderr) == (130, b"riskalign: interrupted\n")

    @pytest.mark.parametrize(
        ("arguments", "code"),
        [
            (["report", "nothing.csv"], 2),
            (["report"], 2),
            (["--version"], 0),
            (["report", "{file}", "--fast", "--fail-above", "0pts"], 1),
        ],
    )
    @pytest.mark.parametrize("redirection", ["2>/dev/full", "2>&-"])
    def test_a_standard_error_that_cannot_be_written(self, file, arguments, code, redirection):
        line = " ".join(["-m riskalign", *arguments]).replace("{file}", str(file))
        found = subprocess.run(
            ["bash", "-c", f"{sys.executable} {line} {redirection}"],
            capture_output=True,
            check=False,
            timeout=300,
        )
        assert found.returncode == code

    def test_a_standard_output_that_cannot_be_written(self, file):
        with open("/dev/full", "wb") as full:
            found = subprocess.run(
                [sys.executable, "-m", "riskalign", "report", file, "--fast"],
                stdout=full,
                stderr=subprocess.PIPE,
                check=False,
                timeout=300,
            )
        assert found.returncode == 2
        assert one_line(found.stderr.decode()).endswith("(No space left on device).\n")

    @pytest.mark.parametrize("module", ["riskalign", "riskalign.cli"])
    def test_as_a_module(self, module):
        command = [sys.executable, "-m", module]
        found = subprocess.run([*command, "--version"], capture_output=True, check=False)
        assert (found.returncode, found.stdout.decode()) == (0, f"{ra.__version__}\n")
        found = subprocess.run([*command, "merge"], capture_output=True, check=False)
        assert found.returncode == 2
        assert one_line(found.stderr.decode()).startswith("riskalign: error: the following")

    def test_a_poor_terminal(self, three, tmp_path):
        header = "y,p_süd,p_b,p_c\n"
        rows = "".join(
            f"{y},{','.join(map(str, row))}\n"
            for y, row in zip(three.y_true, three.y_prob, strict=True)
        )
        (tmp_path / "a.csv").write_text(header + rows, encoding="utf-8")
        found = self.command(
            "report", tmp_path / "a.csv", "--draws", 0, env={"PYTHONIOENCODING": "ascii"}
        )
        assert found.returncode == 0
        assert b"s?d" in found.stdout
        assert found.stderr == b""  # no bar: no terminal

    def test_heavy_libraries_stay_out(self, file):
        code = (
            "import sys; from riskalign.cli import main; "
            f"main(['report', {str(file)!r}, '--draws', '0']); "
            "print([m for m in ('matplotlib', 'pandas', 'polars', 'pyarrow', 'sklearn', 'torch') "
            "if m in sys.modules])"
        )
        found = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, check=True, timeout=300
        )
        assert found.stdout.decode().splitlines()[-1] == "[]"
