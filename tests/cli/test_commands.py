"""`riskalign compare` and `riskalign demo`."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from command_line import one_line

import riskalign as ra


class TestCompare:
    def save(self, path, labels, probs, names=("a", "b", "c")):
        with path.open("w", newline="") as text:
            writer = csv.writer(text)
            writer.writerow(["y", *(f"p_{name}" for name in names)])
            writer.writerows([y, *row] for y, row in zip(labels, probs.tolist(), strict=True))
        return path

    def test_two_models(self, run, three, tmp_path):
        labels = np.array(["a", "b", "c"])[three.y_true]
        one = self.save(tmp_path / "one.csv", labels, three.y_prob)
        other = self.save(tmp_path / "other.csv", labels, three.conditional)
        code, out, _ = run("compare", one, other, "--json", tmp_path / "c.json")
        assert code == 0
        assert "other.csv is calibrated better" in out
        assert max(map(len, out.splitlines()[:-1])) <= 80
        found = json.loads((tmp_path / "c.json").read_text())
        expected = ra.compare(three.y_true, three.y_prob, three.conditional)
        assert found["difference"] == pytest.approx(expected.difference, rel=1e-9)
        assert "do not tell" in run("compare", one, one)[1]

    def test_columns_in_another_order(self, run, three, tmp_path):
        labels = np.array(["a", "b", "c"])[three.y_true]
        one = self.save(tmp_path / "one.csv", labels, three.y_prob)
        turned = self.save(
            tmp_path / "other.csv", labels, three.y_prob[:, [2, 0, 1]], ("c", "a", "b")
        )
        assert run("compare", one, turned, "--json", tmp_path / "c.json")[0] == 0
        assert json.loads((tmp_path / "c.json").read_text())["difference"] == 0

    def test_logits_and_probabilities(self, run, three, file, tmp_path):
        np.savez(tmp_path / "z.npz", labels=three.y_true, logits=np.log(three.y_prob))
        assert run("compare", file, tmp_path / "z.npz", "--json", tmp_path / "c.json")[0] == 0
        found = json.loads((tmp_path / "c.json").read_text())
        assert found["difference"] == pytest.approx(0, abs=1e-12)

    def test_other_rows(self, run, three, file, tmp_path):
        np.savez(tmp_path / "b.npz", labels=three.y_true[::-1], probs=three.y_prob)
        assert "the labels of row" in one_line(run("compare", file, tmp_path / "b.npz")[2])
        np.savez(tmp_path / "b.npz", labels=three.y_true[1:], probs=three.y_prob[1:])
        assert "300 rows of 3 classes and 299" in run("compare", file, tmp_path / "b.npz")[2]

    def test_other_classes(self, run, three, tmp_path):
        one = self.save(tmp_path / "one.csv", three.y_true, three.y_prob)
        other = self.save(tmp_path / "other.csv", three.y_true, three.y_prob, ("a", "b", "d"))
        code, _, err = run("compare", one, other)
        assert code == 2
        assert "the files name different classes: a, b, c and a, b, d" in one_line(err)

    def test_errors_name_the_file(self, run, three, file, tmp_path):
        probs = np.where(three.y_prob == three.y_prob[3, 0], np.inf, three.y_prob)
        np.savez(tmp_path / "inf.npz", labels=three.y_true, probs=probs)
        for files in ((file, tmp_path / "inf.npz"), (tmp_path / "inf.npz", file)):
            code, _, err = run("compare", *files)
            assert code == 2
            assert one_line(err).startswith(f"riskalign: error: {tmp_path / 'inf.npz'}: ")
        code, _, err = run(
            "calibrate", file, "--fit", tmp_path / "inf.npz", "-o", tmp_path / "o.npz"
        )
        assert one_line(err).startswith(f"riskalign: error: {tmp_path / 'inf.npz'}: ")

    def test_top_label_alone(self, run, tmp_path):
        np.savez(tmp_path / "a.npz", labels=[0, 1], pred=[0, 1], confidence=[0.5, 0.6])
        code, _, err = run("compare", tmp_path / "a.npz", tmp_path / "a.npz")
        assert code == 2
        assert "probabilities of all classes" in one_line(err)


def test_the_readme_shows_the_demo(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    _, out, _ = run("demo")
    readme = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    shown = readme.split("$ riskalign demo\n```\n\n```text\n")[1].split("```")[0]
    for part in shown.split("...\n"):
        assert part.rstrip() in out


def test_demo(run, tmp_path):
    code, out, _ = run("demo", "--directory", tmp_path)
    assert code == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "riskalign-demo.csv",
        "riskalign-demo.html",
    ]
    assert "over-confident" in out
