"""Progress on a terminal: what is being worked on, how much of it is done, how long it may take."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from riskalign.progress import listening
from riskalign.report.screen import Screen

QUIET = 0.5
"""Seconds of silence first: short work needs no progress."""

PAUSE = 0.1
"""Seconds between two updates of the line."""

LINE = 60

ENOUGH = 0.1
"""Share of the work after which the time left is estimated."""


class Meter:
    """A line on the standard error that is overwritten as work goes on; nothing if no terminal.

    The time left is estimated from the time so far and rough costs of the stages.
    """

    def __init__(self) -> None:
        self._shown = sys.stderr is not None and sys.stderr.isatty()
        self._began = self._last = time.monotonic()
        self._costs: dict[str, float] = {}
        self._stage, self._done = "", 0.0

    def stage(self, name: str, costs: dict[str, float] | None = None) -> None:
        """Begin a stage."""
        self._stage, self._costs = name, costs or self._costs
        self._show(0.0)

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Hear what the library says of its progress, in place of its own bars."""
        try:
            with listening(self._show):
                yield
        finally:
            self.clear()

    def clear(self) -> None:
        """Wipe the line."""
        if self._shown and self._last > self._began:
            print("\r" + " " * LINE + "\r", end="", file=sys.stderr, flush=True)

    def _show(self, share: float) -> None:
        now = time.monotonic()
        if not self._shown or now - self._began < QUIET or now - self._last < PAUSE:
            return
        self._last = now
        line = f"\r{self.line(share, now - self._began):<{LINE}}"
        print(line[: LINE + 1], end="", file=sys.stderr, flush=True)

    def line(self, share: float, elapsed: float) -> str:
        """The line, if a share of the stage is done after so many seconds."""
        total = sum(self._costs.values())
        if not total:
            return f"{self._stage} ..."
        if self._stage in self._costs:  # a stage without a cost changes nothing
            stages = list(self._costs)
            before = sum(self._costs[name] for name in stages[: stages.index(self._stage)])
            # A stage may report several pieces of work, one after the other: never go back.
            self._done = max(self._done, (before + share * self._costs[self._stage]) / total)
        if self._done < ENOUGH or f"{self._done:.0%}" == "100%":  # nothing is known to be left
            return f"{self._stage} ... {self._done:.0%}"
        left = elapsed * (1 - self._done) / self._done
        return f"{self._stage} ... {self._done:.0%}, about {_duration(left)} left"


def metered(screens: Iterable[Screen]) -> Iterator[Screen]:
    """A screen as it grows, after its file is read, with a line that says what is being done."""
    meter = Meter()
    with meter.listening():
        meter.stage("reading")
        for screen in screens:
            meter.stage(screen.stage, screen.stages)
            yield screen


def _duration(seconds: float) -> str:
    """A time in the unit that suits it."""
    if seconds < 90:
        return f"{max(seconds, 1):.0f} s"
    return f"{seconds / 60:.0f} min"
