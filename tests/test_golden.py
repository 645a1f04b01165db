"""What the public functions answer, against the values kept in golden.json.

Where a change of answers is meant, renew the entries: see `make_golden`.
"""

import math

import pytest
from make_golden import CLOSE, PAIRS, TOLERANCES, entries, load

GOLDEN = load()


def differences(found, kept, rtol, atol, path=""):
    """One line for each number that is not close, and for each difference in form."""
    if isinstance(found, dict) and isinstance(kept, dict):
        for name in sorted({*found, *kept}):
            here = f"{path}/{name}" if path else name
            if name not in found or name not in kept:
                yield f"{here}: only in what is {'kept' if name in kept else 'found'}"
            else:
                yield from differences(found[name], kept[name], rtol, atol, here)
    elif isinstance(found, list) and isinstance(kept, list) and len(found) == len(kept):
        for i, pair in enumerate(zip(found, kept, strict=True)):
            yield from differences(*pair, rtol, atol, f"{path}[{i}]")
    elif _number(found) and _number(kept):
        if not math.isclose(found, kept, rel_tol=rtol, abs_tol=atol):
            away = abs(found - kept) / abs(kept) if kept else math.inf
            yield f"{path}: found {found!r}, kept {kept!r}, relative difference {away:.1e}"
    elif type(found) is not type(kept) or found != kept:
        yield f"{path}: found {found!r}, kept {kept!r}"


def _number(x):
    return isinstance(x, (int, float)) and not isinstance(x, bool)


@pytest.mark.parametrize(("group", "name"), PAIRS, ids=["/".join(pair) for pair in PAIRS])
def test_answers_are_those_kept(group, name):
    kept = {key: value for key, value in GOLDEN.items() if key.startswith(f"{group}/{name}/")}
    tolerances = TOLERANCES.get(group, CLOSE)
    lines = list(differences(entries(group, name), kept, **tolerances))
    assert not lines, "\n" + "\n".join(lines)


def test_every_value_kept_is_compared():
    compared = {f"{group}/{name}" for group, name in PAIRS}
    assert {"/".join(key.split("/")[:2]) for key in GOLDEN} == compared


@pytest.mark.parametrize(
    ("found", "kept", "count"),
    [
        ({"a": [1.0, None, "x"]}, {"a": [1.0 + 1e-10, None, "x"]}, 0),
        ({"a": 0.0}, {"a": 1e-13}, 0),
        ({"a": 1.0}, {"a": 1.0 + 1e-8}, 1),
        ({"a": 0.0}, {"a": 1e-11}, 1),
        ({"a": 1.0}, {"b": 1.0}, 2),
        ({"a": [1.0, 2.0]}, {"a": [1.0]}, 1),
        ({"a": [1.0, 2.0]}, {"a": [2.0, 1.0]}, 2),
        ({"a": None}, {"a": 0.0}, 1),
        ({"a": True}, {"a": 1}, 1),
        ({"a": math.nan}, {"a": 1.0}, 1),
    ],
)
def test_differences_are_seen(found, kept, count):
    assert len(list(differences(found, kept, **CLOSE))) == count
