"""`riskalign plot`."""

import re
import sys

import numpy as np
import pytest
from command_line import one_line
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

import riskalign as ra

FAST = ("--fast",)


MAGIC = {".png": b"\x89PNG", ".svg": b"<?xml", ".pdf": b"%PDF"}


class TestPlot:
    @pytest.fixture
    def pictures(self, monkeypatch):
        """Figures as they are when they are written."""
        kept, save = [], Figure.savefig

        def keep(figure, *args, **kwargs):
            kept.append(figure)
            save(figure, *args, **kwargs)

        monkeypatch.setattr(Figure, "savefig", keep)
        yield kept
        plt.close("all")

    @pytest.mark.parametrize("notion", ["top-label", "classwise"])
    def test_bands_and_bins(self, run, file, notion, tmp_path):
        """Bins add points, and without a band there is less to draw."""
        sizes = {}
        for options in ((), ("--band", "none"), ("--bins", "15"), ("--band", "simultaneous")):
            out = tmp_path / "a.svg"
            assert run("plot", file, "-o", out, "--notion", notion, *options)[0] == 0
            sizes[options[1:]] = out.read_text()
        assert len(set(sizes.values())) == 4
        assert len(sizes[("none",)]) < len(sizes[()]) < len(sizes[("15",)])
        assert run("plot", file, "-o", tmp_path / "b.svg", "--band", "thick")[0] == 2

    @pytest.mark.parametrize("kind", MAGIC)
    @pytest.mark.parametrize("notion", ["top-label", "classwise"])
    def test_formats(self, run, file, tmp_path, kind, notion):
        out = tmp_path / f"picture{kind}"
        code, text, err = run("plot", file, "-o", out, "--notion", notion)
        assert (code, err) == (0, "")
        assert text == f"wrote {out}\n"
        assert out.read_bytes().startswith(MAGIC[kind])

    def test_the_classes_of_a_part_are_named(self, run, tmp_path):
        data = ra.datasets.temperature(200, 14, seed=0)
        names = [f"name-{k}" for k in range(14)]
        np.savez(tmp_path / "a.npz", labels=data.y_true, probs=data.y_prob)
        options = ("--notion", "classwise", "--classes", ",".join(names))
        code, out, _ = run("plot", tmp_path / "a.npz", "-o", tmp_path / "a.svg", *options)
        assert code == 0
        assert out.startswith("drawn are the 12 most frequent of 14 classes: name-")
        rarest = np.argsort(np.bincount(data.y_true, minlength=14))[:1]
        listed = re.findall(r"name-\d+", out)
        assert len(listed) == 12
        assert f"name-{rarest[0]}" not in listed

    def test_what_is_drawn(self, run, three, file, tmp_path, pictures):
        for options, subject in (
            ((), "predicted probability of the predicted class"),
            (("--class", "2"), "predicted probability of class 2"),
            (("--class", "b", "--classes", "a,b,c"), "predicted probability of b"),
        ):
            assert run("plot", file, "-o", tmp_path / "a.svg", *options)[0] == 0
            assert pictures[-1].axes[0].get_xlabel() == subject
        expected = ra.plots.reliability_diagram(three.y_true, three.y_prob, pos_label=1)
        curves = [ax.lines[0].get_ydata() for ax in (pictures[-1].axes[0], expected)]
        np.testing.assert_array_equal(*curves)
        assert run("plot", file, "-o", tmp_path / "a.svg", "--notion", "classwise")[0] == 0
        titles = [ax.get_title() for ax in pictures[-1].axes]
        assert titles == ["class 0", "class 1", "class 2"]

    def test_two_classes(self, run, three, tmp_path, pictures):
        np.savez(tmp_path / "two.npz", labels=three.y_true == 1, probs=three.y_prob[:, 1])
        for notion, subject in ((), "class 1"), (("--notion", "top-label"), "the predicted class"):
            assert run("plot", tmp_path / "two.npz", "-o", tmp_path / "a.png", *notion)[0] == 0
            assert pictures[-1].axes[0].get_xlabel() == f"predicted probability of {subject}"

    def test_a_rare_class_has_logit_axes(self, run, tmp_path, pictures):
        rng = np.random.default_rng(0)
        p = rng.beta(0.5, 40, 2_000)
        path = tmp_path / "rare.npz"
        np.savez(path, labels=rng.random(2_000) < p, probs=p)
        for options, scale in (((), "logit"), (("--scale", "linear"), "linear")):
            assert run("plot", path, "-o", tmp_path / "a.png", *options)[0] == 0
            assert pictures[-1].axes[0].get_xscale() == scale
        assert run("report", path, *FAST, "--html", tmp_path / "a.html")[0] == 0
        assert '"logit_first":true' in (tmp_path / "a.html").read_text(encoding="utf-8")

    def test_confidence_and_prediction(self, run, three, tmp_path, pictures):
        top, confidence = three.y_prob.argmax(axis=1), three.y_prob.max(axis=1)
        path = tmp_path / "top.npz"
        np.savez(path, labels=three.y_true, pred=top, confidence=confidence)
        assert run("plot", path, "-o", tmp_path / "a.png")[0] == 0
        drawn = pictures[-1].axes[0]
        assert drawn.get_xlabel() == "predicted probability of the predicted class"
        expected = ra.plots.reliability_diagram(three.y_true, three.y_prob, notion="top-label")
        np.testing.assert_array_equal(drawn.lines[0].get_ydata(), expected.lines[0].get_ydata())
        err = one_line(run("plot", path, "-o", tmp_path / "b.png", "--notion", "classwise")[2])
        assert "--notion top-label" in err

    def test_a_thousand_classes(self, run, tmp_path, pictures):
        data = ra.datasets.peaked(2_000, 1_000, seed=0)
        path = tmp_path / "many.npz"
        np.savez(path, labels=data.y_true, probs=data.y_prob.astype(np.float32))
        assert run("plot", path, "-o", tmp_path / "a.png")[0] == 0
        assert run("plot", path, "-o", tmp_path / "b.png", "--notion", "classwise")[0] == 0
        assert len(pictures[-1].axes) == 12
        assert run("plot", path, "-o", tmp_path / "c.png", "--class", "999")[0] == 0

    def test_predictions_near_one(self, run, tmp_path, pictures):
        generator = np.random.default_rng(0)
        p = 1 - 0.01 * generator.random(5_000) ** 2
        p[:100] = generator.random(100)
        p[100:200] = 1
        assert (p > 0.99).mean() > 0.97
        y = generator.random(5_000) < p
        np.savez(tmp_path / "a.npz", labels=y, probs=p)
        code, _, err = run("plot", tmp_path / "a.npz", "-o", tmp_path / "a.png", "--scale", "logit")
        assert (code, err) == (0, "")
        (ax,) = pictures[-1].axes
        assert ax.get_xscale() == "logit"
        (band,) = ax.collections
        assert np.isfinite(band.get_paths()[0].vertices).all()

    def test_batches_are_one_picture(self, run, three, tmp_path, pictures, monkeypatch):
        file = tmp_path / "rows.csv"
        rows = zip(three.y_true.tolist(), three.y_prob.tolist(), strict=True)
        lines = [",".join(map(str, (y, *p))) for y, p in rows]
        file.write_text("\n".join(["label,p_0,p_1,p_2", *lines]) + "\n")
        assert run("plot", file, "-o", tmp_path / "whole.png")[0] == 0
        monkeypatch.setattr("riskalign.data.files.tables.BATCH", 30)
        assert run("plot", file, "-o", tmp_path / "parts.png")[0] == 0
        assert (tmp_path / "whole.png").read_bytes() == (tmp_path / "parts.png").read_bytes()

    @pytest.mark.parametrize(
        ("options", "expected"),
        [
            (("-o", "a.jpeg"), ".png, .svg or .pdf; found 'a.jpeg'"),
            (("-o", "a.png", "--notion", "canonical"), "Use --notion top-label or classwise"),
            (("-o", "a.png", "--notion", "binary"), "two classes"),
            (("-o", "a.png", "--class", "cat"), "--class must be one of the classes, 0, 1, 2"),
            (("-o", "nowhere/a.png"), "no such directory"),
        ],
    )
    def test_errors(self, run, file, options, expected, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        code, out, err = run("plot", file, *options)
        assert (code, out) == (2, "")
        assert expected in one_line(err)
        assert not (tmp_path / "a.png").exists()
        assert plt.get_fignums() == []

    def test_without_matplotlib(self, run, file, tmp_path, monkeypatch):
        monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
        code, _, err = run("plot", file, "-o", tmp_path / "a.png")
        assert code == 2
        assert "pip install 'riskalign[plots]'" in one_line(err)
