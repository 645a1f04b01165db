"""The progress line: when it speaks, and what it says of the time left."""

import io
import time

from riskalign.cli import meter as module
from riskalign.cli.meter import Meter
from riskalign.progress import track

COSTS = {"reading": 1.0, "classes": 6.0, "p-value": 3.0}


def test_the_time_left_is_told_once_it_can_be_known():
    meter = Meter()
    meter.stage("reading", COSTS)
    assert meter.line(0.5, 1.0) == "reading ... 5%"
    meter.stage("classes", COSTS)
    assert meter.line(0.5, 4.0) == "classes ... 40%, about 6 s left"
    meter.stage("p-value", COSTS)
    assert meter.line(0.0, 700.0) == "p-value ... 70%, about 5 min left"


def test_it_never_goes_back():
    """A stage may report two pieces of work, each from 0 to all of it."""
    meter = Meter()
    meter.stage("classes", COSTS)
    assert meter.line(1.0, 7.0).startswith("classes ... 70%")
    assert meter.line(0.1, 7.0).startswith("classes ... 70%")


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_on_a_terminal_one_line_is_overwritten_and_wiped(monkeypatch):
    screen = Terminal()
    monkeypatch.setattr("sys.stderr", screen)
    monkeypatch.setattr(module, "QUIET", 0.0)
    monkeypatch.setattr(module, "PAUSE", 0.0)
    meter = Meter()
    time.sleep(0.001)
    with meter.listening():
        meter.stage("classes", COSTS)
        list(track(((1, k) for k in range(4)), 4, "classes", None))
    lines = screen.getvalue().split("\r")
    assert "\n" not in screen.getvalue()
    assert all(len(line) in (0, module.LINE) for line in lines)
    assert lines[-3].startswith("classes ... 70%, about ")
    assert lines[-2:] == [" " * module.LINE, ""]


def test_elsewhere_nothing_is_written(capsys, monkeypatch):
    monkeypatch.setattr(module, "QUIET", 0.0)
    meter = Meter()
    with meter.listening():
        meter.stage("classes", COSTS)
    assert capsys.readouterr() == ("", "")


def test_no_time_is_left_at_the_end():
    meter = Meter()
    meter.stage("p-value", COSTS)
    assert meter.line(0.5, 10.0) == "p-value ... 85%, about 2 s left"
    assert meter.line(1.0, 12.0) == "p-value ... 100%"


def test_a_stage_without_a_cost_is_not_the_end():
    meter = Meter()
    meter.stage("reading", COSTS)
    meter.stage("something else", COSTS)
    assert meter.line(0.5, 4.0) == "something else ... 0%"
    meter.stage("p-value", COSTS)
    assert meter.line(0.5, 10.0) == "p-value ... 85%, about 2 s left"
