"""Scores by class inside one JSON value, and answers of language models to multiple choice.

A value may be an object of numbers by class, {"cat": 0.2, "dog": 0.8}, or the list that a pipeline
of Hugging Face returns, [{"label": "cat", "score": 0.2}, {"label": "dog", "score": 0.8}].
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, Protocol

import numpy as np

from riskalign.data.files.columns import LOGIT, PROBABILITY, SCORE

BATCH = 20_000
"""Questions read at once."""

SUM = 0.02
"""By how much an object of numbers may miss a sum of 1 to be taken for probabilities."""

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def scores_by_class(value: Any) -> dict[str, float] | None:
    """The scores of a JSON value by class, None if it is of another form."""
    if isinstance(value, list) and len(value) == 1 and isinstance(value[0], list):
        value = value[0]  # pipelines return a list per text
    if isinstance(value, list) and value and all(map(_is_pair, value)):
        found = {str(pair["label"]): pair["score"] for pair in value}
        return found if len(found) == len(value) else None
    if isinstance(value, dict) and value and all(map(_is_number, value.values())):
        return value
    return None


def lone_score(first: dict[str, Any]) -> str | None:
    """The key of an object that holds the score of one class alone, None if there is none."""
    for key, value in first.items():
        scores = scores_by_class(value) if isinstance(value, list) else None
        if scores is not None and len(scores) == 1:
            return key
    return None


def _is_pair(value: Any) -> bool:
    return isinstance(value, dict) and "label" in value and _is_number(value.get("score"))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def classes_of(first: dict[str, Any]) -> dict[str, list[str]]:
    """The keys of an object that hold scores by class, each with its classes in order.

    Lists of pairs are sorted by score, so that their classes are put in the order of their names.
    """
    found = {}
    for key, value in first.items():
        scores = scores_by_class(value)
        if scores is None or len(scores) < 2:
            continue
        named = any(pattern.fullmatch(key.strip()) for pattern in (PROBABILITY, LOGIT, SCORE))
        if isinstance(value, list):
            found[key] = sorted(scores, key=_by_number)
        elif named or abs(math.fsum(scores.values()) - 1) < SUM:
            numbered = all(name.isdecimal() for name in scores)
            found[key] = sorted(scores, key=int) if numbered else list(scores)
    return found


def _by_number(name: str) -> tuple[object, ...]:
    """Names in order, with the numbers in them as numbers: LABEL_2 before LABEL_10."""
    parts = re.split(r"(\d+)", name)
    return tuple((int(part), "") if part.isdecimal() else (-1, part) for part in parts)


def row_of(value: Any, classes: Sequence[str], where: str) -> list[float]:
    """The scores of a value in the order of the classes; `where` opens an error."""
    scores = scores_by_class(value)
    if scores is None:
        raise ValueError(
            f"{where} must hold a score per class, as the first line does; found "
            f"{json.dumps(value)[:60]}. Write {{class: score}} or a list of "
            '{"label", "score"} on every line.'
        )
    missing = [name for name in classes if name not in scores]
    if missing or len(scores) != len(classes):
        other = missing or [name for name in scores if name not in classes]
        what = "lacks" if missing else "has, other than the first line,"
        raise ValueError(
            f"{where} {what} the class {other[0]!r}. Write the scores of all classes on every line "
            "(top_k=None in a pipeline of Hugging Face)."
        )
    return [scores[name] for name in classes]


class Objects(Protocol):
    """A file of JSON objects, one per line."""

    def objects(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """Line numbers and objects."""

    def cells(self, numbers: Sequence[str]) -> int:
        """About how many numbers there are."""

    def place(self, row: int) -> str:
        """Where a row is found."""


class HarnessTable:
    """Samples that lm-evaluation-harness logs for multiple choice (`--log_samples`).

    Each line has under `filtered_resps` (or `resps`) a pair (log-probability, whether greedy) per
    choice, as numbers or as text, and under `target` the right choice. The softmax of the
    log-probabilities is the confidence in the choice that is predicted. Choices differ from
    question to question, so that there are no classes: the columns are those of the top label.
    """

    columns = ("target", "predicted", "confidence")
    words = (
        "right answers from 'target', log-probabilities of the choices from 'filtered_resps' "
        "(lm-evaluation-harness), made to sum to 1 over the choices"
    )

    def __init__(self, lines: Objects) -> None:
        self._lines = lines

    @staticmethod
    def fits(first: dict[str, Any]) -> bool:
        """Whether an object is such a sample."""
        return "target" in first and ("filtered_resps" in first or "resps" in first)

    def cells(self, numbers: Sequence[str]) -> int:
        """See `Table.cells`."""
        return self._lines.cells(numbers)

    def place(self, row: int) -> str:
        """See `Table.place`."""
        return self._lines.place(row)

    def batches(
        self, words: Sequence[str], numbers: Sequence[str]
    ) -> Iterator[tuple[list[list[object]], Any]]:
        """See `Table.batches`."""
        objects, wanted = self._lines.objects(), None
        while batch := list(islice(objects, BATCH)):
            rows = []
            for number, sample in batch:
                wanted = wanted or sample.get("filter")
                if sample.get("filter") == wanted:  # a line per filter: one of them is enough
                    rows.append(_answer(number, sample))
            columns = dict(zip(self.columns, zip(*rows, strict=True), strict=True))
            yield (
                [list(columns[name]) for name in words],
                np.column_stack([np.array(columns[name], dtype=np.float64) for name in numbers]),
            )


def _answer(number: int, sample: dict[str, Any]) -> tuple[int, int, float]:
    """The right choice of a question, the predicted one, and its probability."""
    logs = _log_probabilities(sample)
    if logs is None:
        raise ValueError(
            f"line {number}: 'filtered_resps' must hold a log-probability per choice; found "
            f"{json.dumps(sample.get('filtered_resps', sample.get('resps')))[:60]}. Only tasks of "
            "multiple choice log them (output_type: multiple_choice)."
        )
    target = _target(sample, len(logs))
    if target is None:
        raise ValueError(
            f"line {number}: 'target' is {json.dumps(sample.get('target'))[:60]}, which is none of "
            f"the {len(logs)} choices by its number, letter or text."
        )
    weights = np.exp(logs - logs.max())
    best = int(np.argmax(logs))
    return target, best, float(weights[best] / weights.sum())


def _log_probabilities(sample: dict[str, Any]) -> Any:
    """Log-probabilities of the choices ``(K,)``, None if there are none."""
    answers = sample.get("filtered_resps")
    if not isinstance(answers, list):
        answers = sample.get("resps")
    if not isinstance(answers, list) or len(answers) < 2:
        return None
    logs = []
    for answer in answers:
        while isinstance(answer, list) and answer and isinstance(answer[0], list):
            answer = answer[0]  # resps holds a list per repetition
        first = answer[0] if isinstance(answer, list) and len(answer) == 2 else answer
        try:
            logs.append(float(first) if isinstance(first, int | float | str) else math.nan)
        except ValueError:
            return None
    found = np.array(logs)
    return found if np.isfinite(found).any() and not np.isnan(found).any() else None


def _target(sample: dict[str, Any], n_choices: int) -> int | None:
    """The number of the right choice: given as a number, a letter or its text."""
    target = sample["target"]
    text = str(target).strip()
    texts = _choices(sample)
    if isinstance(target, str) and text in texts:
        return texts.index(text)
    if text.isdecimal() and int(text) < n_choices:
        return int(text)
    letter = LETTERS.find(text.strip("().").upper()) if len(text.strip("().")) == 1 else -1
    return letter if 0 <= letter < n_choices else None


def _choices(sample: dict[str, Any]) -> list[str]:
    """The texts of the choices, as the model was asked for them."""
    asked = sample.get("arguments")
    if isinstance(asked, dict):
        texts = [each.get("arg_1") if isinstance(each, dict) else None for each in asked.values()]
    elif isinstance(asked, list):
        texts = [each[1] if isinstance(each, list) and len(each) > 1 else None for each in asked]
    else:
        texts = []
    return [text.strip() for text in texts if isinstance(text, str)]
