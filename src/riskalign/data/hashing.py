r"""A stable 64-bit hash of rows of numbers.

The hash of a row depends on the values of its numbers alone: not on the machine, its byte
order, the order of rows, or whether the numbers came as float32 or float64. With u_j the bits
of prediction j as a float64 (and 0 for both zeros),

.. math::

    S = \sum_j a_j z(u_j), \qquad z(u) = u \oplus (u \gg 32),

in arithmetic modulo 2^64, and the hash is the finaliser of splitmix64 applied to S, with its last
16 bits replaced by those of the label. So rows that differ in their label alone share the first 48
bits, and a sample of rows by these bits does not look at labels. Nor does it look at weights: their
scale would decide which rows it takes. Folding the upper half of u onto its lower half matters
because round numbers, and all float32 numbers, end in zero bits, which a multiplication alone never
fills. The multipliers a_j are outputs of splitmix64 with their last bit set.

References
----------
Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, OOPSLA 2014.
Thorup: High Speed Hashing for Integers and Strings, 2015 (multiply-add hashing of vectors).
"""

from __future__ import annotations

import functools

import numpy as np
import numpy.typing as npt

from riskalign.data.cells import Numbers
from riskalign.equations.arrays import FloatArray, LabelArray

HashArray = npt.NDArray[np.uint64]

CHUNK = 1 << 17
"""Numbers that are hashed at a time: 1 MB per array, so that passes stay in cache, and long enough
for threads to share the interpreter. They write into arrays that are allocated once, because
fresh pages cost more than the arithmetic."""

_GOLDEN = 0x9E3779B97F4A7C15
_ROUNDS = (
    (np.uint64(30), np.uint64(0xBF58476D1CE4E5B9)),
    (np.uint64(27), np.uint64(0x94D049BB133111EB)),
)
_FOLD = np.uint64(32)
_ALL = (1 << 64) - 1


def mix(values: HashArray, spare: HashArray | None = None) -> HashArray:
    """Apply the finaliser of splitmix64, a bijection of the 64-bit integers, in place.

    Parameters
    ----------
    values : any shape
    spare : the shape of `values`, optional
        Memory for temporary values.

    Examples
    --------
    The first output of splitmix64 for the seed 0:

    >>> import numpy as np
    >>> hex(mix(np.array([0x9E3779B97F4A7C15], dtype=np.uint64))[0])
    '0xe220a8397b1dcdaf'
    """
    spare = np.empty_like(values) if spare is None else spare
    for shift, multiplier in _ROUNDS:
        values ^= np.right_shift(values, shift, out=spare)
        values *= multiplier
    values ^= np.right_shift(values, np.uint64(31), out=spare)
    return values


@functools.cache
def multipliers(length: int) -> HashArray:
    """Odd multipliers of the columns, ``(length,)``: splitmix64's outputs, made odd."""
    seeds = np.arange(1, length + 1, dtype=np.uint64) * np.uint64(_GOLDEN)
    odd = mix(seeds) | np.uint64(1)
    odd.flags.writeable = False  # it is shared
    return odd


LABEL_BITS = 16
OF_ROW = np.uint64(_ALL ^ ((1 << LABEL_BITS) - 1))
"""The bits of a hash that do not depend on the label."""

_OF_LABEL, _OF_WEIGHT = (np.uint64(((_GOLDEN * odd) & _ALL) | 1) for odd in (3, 5))


def _folded(values: Numbers, room: FloatArray, spare: HashArray) -> HashArray:
    """z(u) of each number, of both zeros alike, in the memory of `room`."""
    bits = np.add(values, 0.0, out=room, dtype=np.float64).view(np.uint64)  # -0.0 + 0.0 is 0.0
    bits ^= np.right_shift(bits, _FOLD, out=spare)
    return bits


def hash_rows(predictions: Numbers, labels: LabelArray) -> HashArray:
    """Hash rows of predictions and label.

    Parameters
    ----------
    predictions : (n, d), float32 or float64
    labels : (n,), integers

    Returns
    -------
    (n,) uint64

    Examples
    --------
    >>> import numpy as np
    >>> p = np.array([[0.25], [0.25], [0.75]])
    >>> h = hash_rows(p, np.array([0, 0, 0]))
    >>> bool(h[0] == h[1]), bool(h[0] == h[2])
    (True, False)
    """
    n, width = predictions.shape
    of_columns = multipliers(width)
    step = min(max(n, 1), max(1, CHUNK // max(width, 1)))
    matrix = np.empty((step, width))
    spare_matrix, spare = np.empty((step, width), np.uint64), np.empty(step, np.uint64)
    hashes = np.empty(n, dtype=np.uint64)
    for start in range(0, n, step):
        sums = hashes[start : start + step]  # a view: what is done to it is kept
        rows, m = slice(start, start + step), len(sums)
        z = _folded(predictions[rows], matrix[:m], spare_matrix[:m])
        if width == 1:
            np.multiply(z[:, 0], of_columns[0], out=sums)
        else:
            np.einsum("nk,k->n", z, of_columns, out=sums)
        mix(sums, spare[:m])
        sums &= OF_ROW
        of_label = np.multiply(
            labels[rows], _OF_LABEL, out=spare[:m], dtype=np.uint64, casting="unsafe"
        )
        sums |= np.right_shift(of_label, np.uint64(64 - LABEL_BITS), out=of_label)
    return hashes


def hash_weights(hashes: HashArray, weights: FloatArray) -> HashArray:
    """Hashes of rows and their weights, from those of the rows.

    Examples
    --------
    >>> import numpy as np
    >>> h = hash_weights(np.zeros(3, np.uint64), np.array([1.0, 1.0, 2.0]))
    >>> bool(h[0] == h[1]), bool(h[0] == h[2])
    (True, False)
    """
    n = len(weights)
    sums = _folded(weights, np.empty(n), np.empty(n, np.uint64))
    sums *= _OF_WEIGHT
    sums += hashes
    return mix(sums)
