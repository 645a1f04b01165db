"""What commands print and write, and where they refuse to."""

import csv
import os
import stat
from pathlib import Path

import numpy as np
import pytest
from command_line import one_line

from riskalign.cli import output as output_module
from riskalign.cli.output import check_outputs, printable, words_of_options
from riskalign.data.files.whole import write_whole

FAST = ("--fast",)


class TestOutputs:
    """Checked before the work: nothing is read, and no input is ever replaced."""

    @pytest.fixture(autouse=True)
    def no_work(self, monkeypatch):
        def work(*_, **__):
            raise AssertionError("the work has begun")

        for name in ("reading.open_predictions", "pictures.opened"):
            monkeypatch.setattr(f"riskalign.cli.{name}", work)

    def refused(self, run, *arguments):
        code, out, err = run(*arguments)
        assert (code, out) == (2, "")
        return one_line(err)

    @pytest.fixture
    def table(self, tmp_path):
        path = tmp_path / "io.csv"
        path.write_text("y,p\n0,0.2\n1,0.7\n")
        return path

    @pytest.mark.parametrize("kind", ["html", "json", "csv"])
    @pytest.mark.parametrize("way", ["same", "relative", "symbolic", "hard"])
    def test_the_input_is_not_replaced(self, run, table, monkeypatch, kind, way):
        monkeypatch.chdir(table.parent)
        out = {"same": table, "relative": Path("../") / table.parent.name / "io.csv"}.get(way)
        if out is None:
            out = table.parent / "link.csv"
            out.symlink_to(table) if way == "symbolic" else out.hardlink_to(table)
        before = table.read_text()
        said = self.refused(run, "report", table, f"--{kind}", out)
        assert f"--{kind} {out} would replace the input" in said
        assert table.read_text() == before

    def test_inputs_of_all_commands(self, run, table, tmp_path):
        labels, scores = tmp_path / "labels.npy", tmp_path / "scores.npy"
        np.save(labels, [0, 1])
        np.save(scores, [0.2, 0.7])
        picture = tmp_path / "io.png"
        picture.write_text(table.read_text())
        for arguments in (
            ("report", scores, "--labels", labels, "--json", labels),
            ("compare", table, scores, "--json", scores),
            ("compare", scores, table, "--json", scores),
            ("plot", picture, "-o", picture),
        ):
            assert "would replace the input" in self.refused(run, *arguments)

    def test_outputs_with_one_name(self, run, table, tmp_path):
        (tmp_path / "link").symlink_to(tmp_path / "out")
        for other in ("out", "link", "./out"):
            said = self.refused(
                run, "report", table, "--html", tmp_path / "out", "--csv", f"{tmp_path}/{other}"
            )
            assert "--html and --csv name the same file" in said
        check_outputs({"--html": Path(os.devnull), "--csv": Path(os.devnull)}, [])

    def test_missing_folders(self, run, table, tmp_path):
        out = tmp_path / "no" / "a.png"
        for arguments in (
            ("report", table, "--html", out),
            ("compare", table, table, "--json", out),
            ("plot", table, "-o", out),
            ("demo", "--directory", out.parent),
        ):
            assert "no such directory" in self.refused(run, *arguments)

    def test_folders_that_are_not_writable(self, run, table, tmp_path, monkeypatch):
        monkeypatch.setattr(output_module.os, "access", lambda *_: False)  # tests may run as root
        said = self.refused(run, "report", table, "--html", tmp_path / "a.html")
        assert f"{tmp_path} is not writable" in said


def test_no_file_is_named_by_a_dash(run, file, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, err = run("report", file, *FAST, "--json", "-")
    assert (code, out) == (2, "")
    assert "--json -: outputs are written to files" in one_line(err)
    assert not Path("-").exists()


class TestWriting:
    def test_whole_or_not_at_all(self, tmp_path, monkeypatch):
        path = tmp_path / "a.txt"
        write_whole(path, "old")

        def broken(*_):
            raise OSError("the disk is full")

        monkeypatch.setattr(output_module.os, "replace", broken)
        with pytest.raises(OSError, match="full"):
            write_whole(path, "new")
        assert path.read_text() == "old"
        assert [found.name for found in tmp_path.iterdir()] == ["a.txt"]

    def test_permissions_are_kept(self, tmp_path):
        path = tmp_path / "a.txt"
        write_whole(path, "new")
        mask = os.umask(0)
        os.umask(mask)
        assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~mask
        path.chmod(0o640)
        write_whole(path, "newer")
        assert stat.S_IMODE(path.stat().st_mode) == 0o640

    def test_links_stay_links(self, tmp_path):
        (tmp_path / "target.txt").write_text("old")
        (tmp_path / "link.txt").symlink_to("target.txt")
        write_whole(tmp_path / "link.txt", "new")
        assert (tmp_path / "link.txt").is_symlink()
        assert (tmp_path / "target.txt").read_text() == "new"

    def test_devices(self):
        write_whole(Path(os.devnull), "gone")
        assert not Path(os.devnull).is_file()
        reader, writer = os.pipe()
        write_whole(Path(f"/dev/fd/{writer}"), "through")  # as /dev/stdout before a pipe
        assert os.read(reader, 100) == b"through"
        os.close(reader)
        os.close(writer)


def test_formulas_in_class_names_stay_text(run, tmp_path):
    names = ["=cmd|' /C calc'!A0", "+SUM(1)", "@x", "-1+2", " =1", "plain"]
    f = np.random.default_rng(0).dirichlet(np.ones(6), 60)
    table = tmp_path / "a.csv"
    with table.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["y", *(f"p_{name}" for name in names)])
        writer.writerows([names[i % 6].strip(), *row] for i, row in enumerate(f.tolist()))
    code, _, err = run("report", table, *FAST, "--csv", tmp_path / "out.csv")
    assert (code, err) == (0, "")
    with (tmp_path / "out.csv").open(newline="") as file:
        found = [row["class"] for row in csv.DictReader(file)]
    assert [name.strip("'") for name in found] == [name.strip("'") for name in names]
    assert all(name.startswith("'") for name in found[:5])
    assert found[5] == "plain"


def test_words_of_options():
    said = words_of_options(
        "`y_prob` rows\nmust sum to 1. Pass `from_logits=True`, `normalize=True`, `classes=` or "
        "`notion='binary'`; `unknown=3` stays."
    )
    assert said == (
        "predictions rows must sum to 1. Pass --logits, --normalize, --classes or "
        "--notion binary; `unknown=3` stays."
    )


def test_printable():
    assert printable("a\x1b[2J\r\nb\u202e") == "a\ufffd[2J\ufffd\nb\ufffd"
