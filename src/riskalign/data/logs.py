r"""The log loss of probabilities in plain arithmetic, the same to the bit on every machine.

Logarithms of numpy and of C libraries differ in their last bits, and sums of them would make
equal samples differ by machine. Here only additions and multiplications of IEEE 754 are used,
each of which is rounded in the same way everywhere. With c(x) the middle of the cell of x that
its exponent and first 8 bits make,

.. math:: -\log x = -\log c + (-\log(1 + r)), \qquad r = x / c - 1, \; |r| \le 2^{-9},

where the first term is read from a table and the second is four terms of its series, whose
rest is below 6e-15.
"""

from __future__ import annotations

import functools
from decimal import Context, Decimal

import numpy as np

from riskalign.equations.arrays import FLOOR, FloatArray

SHIFT = 52 - 8
"""Bits of a float64 below its exponent and the first 8 bits of its mantissa."""

FIRST = int(np.float64(FLOOR).view(np.int64)) >> SHIFT
LAST = int(np.float64(1.0).view(np.int64)) >> SHIFT


@functools.cache
def _table() -> tuple[FloatArray, FloatArray]:
    """1 / c, rounded, and the logarithm of that, per cell from the floor up to 1."""
    starts = np.arange(FIRST, LAST + 1, dtype=np.int64) << SHIFT
    middles = (starts + (1 << (SHIFT - 1))).view(np.float64)
    middles[-1] = 1.0  # the cell of 1 holds nothing else
    inverse = 1.0 / middles
    _, exponents = np.frexp(inverse)
    mantissas = np.ldexp(inverse, -exponents)  # in [1/2, 1)
    # The decimal module rounds correctly, so the table is the same everywhere.
    context = Context(prec=30)
    two = Decimal(2).ln(context)
    ln = {m: Decimal(m).ln(context) for m in set(mantissas.tolist())}
    pairs = zip(mantissas.tolist(), exponents.tolist(), strict=True)
    logarithm = np.array([float(ln[m] + e * two) for m, e in pairs])
    logarithm[-1] = 0.0  # not a rest of 1e-30
    return inverse, logarithm


def log_loss(p: FloatArray) -> FloatArray:
    """-log max(p, FLOOR) for p up to 1, to an absolute error of 1e-14.

    Parameters
    ----------
    p : (n,), float64

    Examples
    --------
    >>> import numpy as np
    >>> log_loss(np.array([1.0, 0.5, 0.0])).round(12).tolist()
    [0.0, 0.69314718056, 20.723265836946]
    """
    inverse, logarithm = _table()
    x = np.maximum(p, FLOOR)
    cell = x.view(np.int64) >> SHIFT
    cell -= FIRST
    x *= inverse[cell]
    x -= 1.0  # r
    series = x * -0.25
    series += 1 / 3
    series *= x
    series -= 0.5
    series *= x
    series += 1.0
    series *= x
    np.subtract(logarithm[cell], series, out=series)
    return series
