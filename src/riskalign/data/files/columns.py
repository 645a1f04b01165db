"""Which columns of a table hold labels and predictions, told by their names."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

LABEL = re.compile(r"(y|y_true|labels?|targets?)", re.IGNORECASE)
PREDICTED = re.compile(r"(pred|predicted|prediction|y_pred)", re.IGNORECASE)
CONFIDENCE = re.compile(r"(confidences?|conf)", re.IGNORECASE)
PROBABILITY = re.compile(
    r"(?:y_)?(?:p|probs?|probas?|probability|probabilities)(?:(?:[_.: -]|(?=\d))(?P<name>.+))?",
    re.IGNORECASE,
)
LOGIT = re.compile(r"logits?(?:(?:[_.: -]|(?=\d))(?P<name>.+))?", re.IGNORECASE)

LONGEST = 30
"""Letters of a column's name that are shown."""

SHOWN = 8
"""Column names listed in an error."""


@dataclass(frozen=True)
class Layout:
    """The columns of a table that are read, and what they mean.

    Attributes
    ----------
    label : column of labels
    scores : columns of probabilities, logits or confidences; one of them may hold lists
    predicted : column of predicted classes, where only the predicted class's probability is known
    names : the classes that the score columns name, None for a single column
    from_logits : whether scores are logits
    """

    label: str
    scores: tuple[str, ...]
    names: tuple[str, ...] | None = None
    predicted: str | None = None
    from_logits: bool = False

    @property
    def needed(self) -> tuple[str, ...]:
        """All columns that are read."""
        extra = () if self.predicted is None else (self.predicted,)
        return (self.label, *self.scores, *extra)

    def __str__(self) -> str:
        """The columns in words."""
        what = "logits" if self.from_logits else "probabilities"
        if self.predicted is not None:
            what = f"predicted classes from {self.predicted!r}, their probabilities"
        shown = ", ".join(repr(name[:LONGEST]) for name in self.scores[:3])
        if len(self.scores) > 3:
            shown += f", ... ({len(self.scores)} columns)"
        return f"labels from {self.label[:LONGEST]!r}, {what} from {shown}"


def find_layout(
    columns: Sequence[str],
    *,
    label: str | None = None,
    probs: str | None = None,
    logits: bool = False,
    noun: str = "column",
) -> Layout:
    """The layout that the columns' names, or the user's own words, ask for.

    Parameters
    ----------
    columns : the names there are
    label : the label column, if its name does not say so
    probs : names with commas between them, or a pattern such as ``model_*``
    logits : predictions are logits
    noun : what a name stands for: "column", or "key" of an archive
    """
    found = _Names(columns, noun)
    chosen_label = found.label(label)
    if probs is not None:
        scores, names = found.asked_for(probs)
        return Layout(chosen_label, scores, names, from_logits=logits)
    families = [(LOGIT, True), (PROBABILITY, logits)] if logits else [(PROBABILITY, False)]
    if not logits:
        families.append((LOGIT, True))
    for pattern, from_logits in families:
        scores, names = found.family(pattern, chosen_label)
        if scores:
            return Layout(chosen_label, scores, names, from_logits=from_logits)
    confidence, predicted = found.matching(CONFIDENCE), found.matching(PREDICTED)
    if len(confidence) == 1 and len(predicted) == 1:
        return Layout(chosen_label, confidence, predicted=predicted[0])
    raise ValueError(
        f"no {noun} of predictions was found (p, prob..., p_<class>, logit..., or confidence "
        f"with pred). Name them with --probs. {found.listed()}"
    )


def find_label(columns: Sequence[str], label: str | None) -> str:
    """The column of labels, by its name or the user's word."""
    return _Names(columns, "column").label(label)


class _Names:
    """The names of a table's columns, and how users refer to them."""

    def __init__(self, columns: Sequence[str], noun: str) -> None:
        self._columns = columns
        self._noun = noun

    def listed(self) -> str:
        """The names, for an error."""
        shown = ", ".join(repr(name) for name in self._columns[:SHOWN])
        more = ", ..." if len(self._columns) > SHOWN else ""
        return f"The {self._noun}s are {shown}{more}."

    def matching(self, pattern: re.Pattern[str]) -> tuple[str, ...]:
        return tuple(name for name in self._columns if pattern.fullmatch(name.strip()))

    def label(self, given: str | None) -> str:
        if given is not None:
            return self.named(given, "--label")
        found = self.matching(LABEL)
        if not found:
            raise ValueError(
                f"no {self._noun} of labels was found (y, label or target). Name it with "
                f"--label. {self.listed()}"
            )
        if len(found) > 1:
            raise ValueError(
                f"{' and '.join(map(repr, found))} may all hold the labels. Say which with --label."
            )
        return found[0]

    def named(self, name: str, option: str) -> str:
        """A name that the user gave, found exactly once."""
        count = list(self._columns).count(name)
        if count != 1:
            what = "is not there" if count == 0 else f"is there {count} times: rename one"
            raise ValueError(f"the {self._noun} {name!r} of {option} {what}. {self.listed()}")
        return name

    def family(
        self, pattern: re.Pattern[str], label: str
    ) -> tuple[tuple[str, ...], tuple[str, ...] | None]:
        """Columns that a pattern finds, and the classes they name."""
        matches = {
            name: match.group("name")
            for name in self._columns
            if name != label and (match := pattern.fullmatch(name.strip()))
        }
        plain = [name for name, of in matches.items() if of is None]
        classes = {name: of for name, of in matches.items() if of is not None}
        if (plain and classes) or len(plain) > 1:
            raise ValueError(
                f"{', '.join(map(repr, list(matches)[:SHOWN]))} may all hold predictions. Say "
                "which with --probs, by names with commas between them or a pattern such as 'p_*'."
            )
        for name in matches:
            self.named(name, "predictions")
        return _in_order(plain or classes, classes.get)

    def asked_for(self, probs: str) -> tuple[tuple[str, ...], tuple[str, ...] | None]:
        """Columns by names with commas between them, or by a pattern with one star."""
        if probs in self._columns:
            return (self.named(probs, "--probs"),), None
        if "*" not in probs:
            names = [self.named(name.strip(), "--probs") for name in probs.split(",")]
            return _in_order(names, lambda name: _class_of(name) or name, keep_order=True)
        before, _, after = probs.partition("*")
        found = [name for name in self._columns if fnmatchcase(name, probs)]
        if not found:
            raise ValueError(
                f"no {self._noun} matches the pattern {probs!r} of --probs. {self.listed()}"
            )
        for name in found:
            self.named(name, "--probs")
        return _in_order(found, lambda name: name[len(before) : len(name) - len(after)])


def _class_of(name: str) -> str | None:
    match = PROBABILITY.fullmatch(name.strip()) or LOGIT.fullmatch(name.strip())
    return match.group("name") if match else None


def _in_order(
    columns: Iterable[str], class_of: Callable[[str], str | None], *, keep_order: bool = False
) -> tuple[tuple[str, ...], tuple[str, ...] | None]:
    """Columns with the classes they name; numbered classes in the order of their numbers."""
    pairs = [(name, class_of(name) or name) for name in columns]
    if len(pairs) == 1:
        return (pairs[0][0],), None
    if not keep_order and all(of.isdecimal() for _, of in pairs):
        pairs.sort(key=lambda pair: int(pair[1]))
    return tuple(name for name, _ in pairs), tuple(of for _, of in pairs)
