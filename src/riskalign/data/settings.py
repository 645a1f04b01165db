"""Settings of a sketch: the notion of calibration, the classes, and how much is kept."""

from __future__ import annotations

from dataclasses import dataclass, replace

from riskalign.data.notions import NOTIONS, Notion

MOST_DISTINCT = 20_000
MOST_NUMBERS = 4_000_000
"""The most distinct rows of a kind that are kept, and the most numbers in them: 32 MB."""

N_BINS = 15
"""Bins of equal width that the cells of a single problem respect."""

FINE, COARSE, FEW_PROBLEMS = 10, 8, 16
"""Significant bits of a cell for up to 16 problems, and for more: the counts of 1,000 problems
take 100 MB with 8 bits."""


@dataclass(frozen=True)
class Settings:
    """What two states must share to be merged.

    Attributes
    ----------
    notion : one of `NOTIONS`
    classes : names of the classes
    limit : the most distinct rows to keep of each kind, see `RowTable`
    bits : significant bits of a cell
    """

    notion: str
    classes: tuple[str, ...]
    limit: int
    bits: int

    @classmethod
    def of(
        cls,
        notion: str,
        classes: tuple[str, ...],
        limit: int | None = None,
        bits: int | None = None,
    ) -> Settings:
        """Settings with the defaults for this notion and number of classes.

        Examples
        --------
        >>> Settings.of("classwise", tuple("abc"))
        Settings(notion='classwise', classes=('a', 'b', 'c'), limit=20000, bits=10)
        """
        settings = cls(notion, classes, 0, 0)
        if limit is None:
            limit = min(MOST_DISTINCT, MOST_NUMBERS // settings.width)
        if bits is None:
            bits = FINE if settings.n_problems <= FEW_PROBLEMS else COARSE
        return replace(settings, limit=limit, bits=bits)

    @property
    def asked(self) -> Notion:
        """The notion itself."""
        return NOTIONS[self.notion]

    @property
    def width(self) -> int:
        """Numbers in a row: one probability, or those of all classes."""
        return len(self.classes) if self.asked.whole_rows else 1

    @property
    def n_labels(self) -> int:
        """Number of different labels of a row."""
        return len(self.classes) if self.asked.whole_rows else 2

    @property
    def n_problems(self) -> int:
        """Number of one-dimensional problems."""
        return 0 if self.asked.joint else self.asked.n_problems(len(self.classes))
