"""Which columns of a table hold labels and predictions, told by their names."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

LABEL = re.compile(r"(y|y_true|labels?|targets?)", re.IGNORECASE)
PREDICTED = re.compile(r"(pred|predicted|prediction|y_pred)", re.IGNORECASE)
CONFIDENCE = re.compile(r"(confidences?|conf)", re.IGNORECASE)
CORRECT = re.compile(r"(is_)?correct", re.IGNORECASE)
PROBABILITY = re.compile(
    r"(?:y_)?(?:p|probs?|probas?|probability|probabilities)(?:(?:[_.: -]|(?=\d))(?P<name>.+))?",
    re.IGNORECASE,
)
SCORE = re.compile(r"(?:y_)?scores?(?:(?:[_.: -]|(?=\d))(?P<name>.+))?|risk", re.IGNORECASE)
NUMBERED = re.compile(r"(?P<name>\d+)")
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
    label : column of labels; empty where there are none
    right : whether these say if the predicted class was right
    scores : columns of probabilities, logits or confidences; one of them may hold lists
    predicted : column of predicted classes, where only the predicted class's probability is known
    names : the classes that the score columns name, None for a single column
    from_logits : whether scores are logits
    words : what is read, where names do not tell
    weight : column of sample weights
    """

    label: str
    scores: tuple[str, ...]
    names: tuple[str, ...] | None = None
    predicted: str | None = None
    from_logits: bool = False
    words: str = ""
    weight: str | None = None
    right: bool = False

    @property
    def top_label(self) -> bool:
        """Whether only the predicted class's probability is known."""
        return self.right or self.predicted is not None

    @property
    def needed(self) -> tuple[str, ...]:
        """All columns that are read."""
        extra = tuple(name for name in (self.predicted, self.weight) if name is not None)
        labels = (self.label,) if self.label else ()
        return (*labels, *self.scores, *extra)

    def __str__(self) -> str:
        """The columns in words."""
        if self.words:
            return self.words
        what = "logits" if self.from_logits else "probabilities"
        if self.predicted is not None:
            what = f"predicted classes from {self.predicted!r}, their probabilities"
        shown = ", ".join(repr(name[:LONGEST]) for name in self.scores[:3])
        if len(self.scores) > 3:
            shown += f", ... ({len(self.scores)} columns)"
        if self.weight is not None:
            shown += f", weights from {self.weight[:LONGEST]!r}"
        if not self.label:
            return f"no labels, {what} from {shown}"
        if self.right:
            return f"right or wrong from {self.label[:LONGEST]!r}, confidence from {shown}"
        return f"labels from {self.label[:LONGEST]!r}, {what} from {shown}"


def find_layout(
    columns: Sequence[str],
    *,
    label: str | None = None,
    probs: str | Sequence[str] | None = None,
    logits: bool = False,
    noun: str = "column",
    labels_from: str | None = None,
    nested: Mapping[str, Sequence[str]] | None = None,
    unlabelled: bool = False,
    weight: str | None = None,
) -> Layout:
    """The layout that the columns' names, or the user's own words, ask for.

    Parameters
    ----------
    columns : the names there are
    label : the label column, if its name does not say so
    probs : names with commas between them, a pattern such as ``model_*``, or a list of names
    logits : predictions are logits
    noun : what a name stands for: "column", or "key" of an archive
    labels_from : the name of another file that holds the labels
    nested : the classes of columns that hold a score per class, by the column's name
    unlabelled : whether there may be no labels
    weight : the column of sample weights, which is none of the others
    """
    if weight is not None:
        _Names(columns, noun).named(weight, "--weight")
        columns = [name for name in columns if name != weight]
    found = _Names(columns, noun)
    layout = _layout(found, label, probs, logits, noun, labels_from, nested or {}, unlabelled)
    return replace(layout, weight=weight)


def _layout(
    found: _Names,
    label: str | None,
    probs: str | Sequence[str] | None,
    logits: bool,
    noun: str,
    labels_from: str | None,
    nested: Mapping[str, Sequence[str]],
    unlabelled: bool,
) -> Layout:
    if not (label or labels_from or probs or nested or logits):
        outcome = _outcome(found)
        if outcome is not None:
            return outcome
    chosen_label = labels_from or found.label(label, unlabelled)
    if probs is None and len(nested) == 1:
        ((column, classes),) = nested.items()
        are_logits = _is_logit(column, logits)
        return Layout(chosen_label, (column,), tuple(classes), from_logits=are_logits)
    if probs is not None:
        scores, names = found.asked_for(probs)
        if len(scores) == 1 and scores[0] in nested:
            names = tuple(nested[scores[0]])
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
    for pattern in (SCORE, NUMBERED):
        scores, names = found.family(pattern, chosen_label)
        if pattern is SCORE and len(predicted) == 1 and len(scores) == 1 and scores != predicted:
            return Layout(chosen_label, scores, predicted=predicted[0])
        counted = pattern is SCORE or names == tuple(map(str, range(len(scores))))
        if scores and counted:
            return Layout(chosen_label, scores, names, from_logits=logits)
    raise ValueError(
        f"no {noun} of predictions was found (p, prob..., p_<class>, score, logit..., 0, 1, ..., "
        f"or confidence with pred or correct). Name them with --probs. {found.listed()}"
    )


def _outcome(found: _Names) -> Layout | None:
    """A confidence and whether it was right, where no other column may hold either."""
    correct, confidence = found.matching(CORRECT), found.matching(CONFIDENCE)
    others = (LABEL, PROBABILITY, LOGIT, SCORE)
    if len(correct) == len(confidence) == 1 and not any(map(found.matching, others)):
        return Layout(correct[0], confidence, right=True)
    return None


def _is_logit(column: str, logits: bool) -> bool:
    return logits or LOGIT.fullmatch(column.strip()) is not None


def find_label(columns: Sequence[str], label: str | None) -> str:
    """The column of labels, by its name or the user's word."""
    return _Names(columns, "column", elsewhere=False).label(label)


class _Names:
    """The names of a table's columns, and how users refer to them."""

    def __init__(self, columns: Sequence[str], noun: str, *, elsewhere: bool = True) -> None:
        self._columns = columns
        self._counts = Counter(columns)  # there may be 100,000 of them
        self._noun = noun
        self._elsewhere = elsewhere  # whether labels may be in another file

    def listed(self) -> str:
        """The names, for an error."""
        if not self._columns:
            return f"There are no {self._noun}s at all."
        shown = ", ".join(repr(name) for name in self._columns[:SHOWN])
        more = ", ..." if len(self._columns) > SHOWN else ""
        return f"The {self._noun}s are {shown}{more}."

    def matching(self, pattern: re.Pattern[str]) -> tuple[str, ...]:
        return tuple(name for name in self._columns if pattern.fullmatch(name.strip()))

    def label(self, given: str | None, optional: bool = False) -> str:
        if optional and (not self._counts[given] if given else not self.matching(LABEL)):
            return ""
        if given is not None:
            return self.named(given, "--label")
        found = self.matching(LABEL)
        if not found:
            other = ", or the file that holds them with --labels" if self._elsewhere else ""
            raise ValueError(
                f"no {self._noun} of labels was found (y, y_true, label, labels, target, targets, "
                f"or correct with confidence). Name it with --label{other}. {self.listed()}"
            )
        if len(found) > 1:
            raise ValueError(
                f"{' and '.join(map(repr, found))} may all hold the labels. Say which with --label."
            )
        return found[0]

    def named(self, name: str, option: str) -> str:
        """A name that the user gave, found exactly once."""
        count = self._counts[name]
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

    def asked_for(
        self, probs: str | Sequence[str]
    ) -> tuple[tuple[str, ...], tuple[str, ...] | None]:
        """Columns by names, with commas between them or in a list, or by a pattern with a star."""
        if isinstance(probs, str) and probs in self._columns:
            return (self.named(probs, "--probs"),), None
        if not isinstance(probs, str) or "*" not in probs:
            listed = probs.split(",") if isinstance(probs, str) else probs
            names = [self.named(name.strip(), "--probs") for name in listed]
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
