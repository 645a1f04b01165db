"""Some of the fuzzer's cases in every run; `make fuzz` runs many more."""

from collections import Counter

import blobs
import calls
import pytest

GROUPS = 20


@pytest.mark.parametrize("group", range(GROUPS))
def test_calls(group):
    said = Counter(calls.check(number) for number in range(100 * group, 100 * (group + 1)))
    assert said["answered"] > said["refused"]


@pytest.mark.parametrize("kind", blobs.KINDS)
def test_bytes(kind, tmp_path):
    said = Counter(blobs.check(kind, number, tmp_path) for number in range(100))
    assert said["refused"] > 0
