"""Labels as files spell them, turned into class numbers."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence

import numpy as np

from riskalign.equations.arrays import FloatArray, IntArray

SCIENTIFIC = re.compile(r"-?\d\.\d+e[+-]\d\d", re.IGNORECASE)
SHOWN = 60
"""Letters of an unknown label that an error shows."""

LARGEST = 2.0**53
"""Numbers below are told apart as floats."""


def spelled(label: object) -> str:
    """One spelling for a label: 2, 2.0, "2" and "2.0" are the same class."""
    if isinstance(label, bytes):
        label = label.decode("utf-8", "replace")
    if isinstance(label, str):
        text = label.strip()
        whole, point, zeros = text.partition(".")
        if point and _is_integer(whole) and not zeros.strip("0"):
            return whole
        return _scientific(text) if SCIENTIFIC.fullmatch(text) else text
    if isinstance(label, bool | np.bool_):
        return str(bool(label))
    if isinstance(label, float | np.floating) and math.isfinite(label) and label == int(label):
        return str(int(label))
    return "" if label is None or label != label else str(label)  # NaN differs from itself


def is_text(name: str) -> bool:
    """Whether a name can be written in UTF-8; JSON can spell halves of letters, which cannot.

    Examples
    --------
    >>> is_text("süd"), is_text(chr(0xD800))
    (True, False)
    """
    return not any("\ud800" <= letter <= "\udfff" for letter in name)


def _scientific(text: str) -> str:
    """3.000e+00, as numpy.savetxt writes the class 3."""
    value = float(text)
    return str(int(value)) if abs(value) < LARGEST and value == int(value) else text


def _is_integer(text: str) -> bool:
    return text.removeprefix("-").isdecimal()


class Spellings(dict[object, str]):
    """Labels to their one spelling; each is worked out once."""

    def __missing__(self, label: object) -> str:
        """Work out a label not seen before."""
        self[label] = spelled(label)
        return self[label]


class Coding(dict[object, int]):
    """Labels to class numbers; each label is looked up by name once.

    Parameters
    ----------
    n_classes : number of classes
    names : their names in the order of the predictions, if they have any

    A label is a class's name or, where names are not numbers themselves, its number from 0
    up. Of two classes, false is 0 and true is 1.

    Examples
    --------
    >>> Coding(2, ("cat", "dog")).numbers(["dog", "cat", "dog"]).tolist()
    [1, 0, 1]
    >>> Coding(2, None).numbers([True, 0, "1"]).tolist()
    [1, 0, 1]
    """

    def __init__(self, n_classes: int, names: Sequence[str] | None) -> None:
        super().__init__()
        self._n_classes = n_classes
        self._names = names
        self._numbers = {spelled(name): k for k, name in enumerate(names or ())}
        if len(self._numbers) != len(names or ()):
            raise ValueError(
                f"the classes {', '.join(map(repr, names or ()))} are not all different."
            )
        if names is None or not any(map(_is_integer, self._numbers)):
            for k in range(n_classes):
                self._numbers.setdefault(str(k), k)
        if n_classes == 2:
            for k, words in enumerate((("False", "false", "FALSE"), ("True", "true", "TRUE"))):
                for word in words:
                    self._numbers.setdefault(word, k)

    def __missing__(self, label: object) -> int:
        """Look up a label not seen before."""
        number = self._numbers.get(spelled(label))
        if number is None:
            raise UnknownLabelError(label, self._n_classes, self._names)
        self[label] = number
        return number

    def numbers(self, labels: Iterable[object]) -> IntArray:
        """Class numbers ``(n,)``."""
        return np.fromiter(map(self.__getitem__, labels), dtype=np.intp)


def reject_many(column: str, labels: Iterable[object], scores: FloatArray) -> None:
    """Refuse labels of more than two classes beside a column with the probability of one."""
    n = len({spelled(label) for label in labels} - {""})
    if n <= 2:
        return
    classes = bool((scores > 1).any() and (scores == np.floor(scores)).all())
    looks = " It looks like predicted classes." if classes else ""
    raise ValueError(
        f"there is one column of predictions, {column!r}, which would be the probability of one "
        f"class, but the labels have {n} values.{looks} Give a column of probabilities for each "
        "class, such as p_0, p_1, p_2, or the predicted class in a column 'pred' and its "
        "probability in 'confidence'."
    )


class UnknownLabelError(ValueError):
    """A label that is no class."""

    def __init__(self, label: object, n_classes: int, names: Sequence[str] | None) -> None:
        self.label = label
        shown = repr(label) if len(repr(label)) <= SHOWN else f"{repr(label)[:SHOWN]}..."
        if spelled(label) == "":
            super().__init__("the label is empty. Drop unlabelled rows.")
        elif names is None:
            super().__init__(
                f"the label {shown} is not one of 0 to {n_classes - 1}. Give the classes in the "
                "order of the predictions, such as --classes "
                f"{'no,yes' if n_classes == 2 else 'a,b,c'}."
            )
        else:
            known = ", ".join(map(repr, names[:8])) + (", ..." if len(names) > 8 else "")
            super().__init__(
                f"the label {shown} is not one of the classes {known}. Rename the columns of "
                "predictions, or give the classes in their order with --classes."
            )
