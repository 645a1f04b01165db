"""Sums over rows that come in batches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from riskalign.composition import Case, GapSums
from riskalign.data.sample import Sample, on_simplex
from riskalign.equations.arrays import FloatArray
from riskalign.inference.interval import variance_of_gain
from riskalign.methods.residuals import Debiased


@dataclass(frozen=True)
class RowTerms:
    """Terms of one problem, ``(b,)`` each."""

    value: FloatArray
    risk: FloatArray
    refinement: FloatArray
    reconstructed_risk: FloatArray
    conditional: FloatArray
    debiased: Debiased | None = None


class Totals:
    """Sums over rows."""

    def __init__(self, n_problems: int) -> None:
        self.per_problem = np.zeros((5, n_problems))
        self.plugin = 0.0
        self.put_back = 0.0
        self.variance = 0.0
        self.top_gap = 0.0
        self.observed = GapSums()

    def add(self, sample: Sample, case: Case, terms: Sequence[RowTerms]) -> None:
        """Add some rows."""
        self.observed.add(case, sample)
        f = sample.probabilities
        R = np.stack([each.conditional for each in terms], axis=1)
        top = f.argmax(axis=1)
        if case.notion == "top-label":
            f = f.max(axis=1, keepdims=True)
            gap = f - R
            self.top_gap += float(gap.sum())
        else:
            whole = on_simplex(R[:, 0]) if case.notion == "binary" else R
            own = top[:, None]
            self.top_gap += float(
                (np.take_along_axis(f, own, 1) - np.take_along_axis(whole, own, 1)).sum()
            )
            gap = (f[:, 1:] if case.notion == "binary" else f) - R
        for k, each in enumerate(terms):
            parts = (each.value, each.risk, each.refinement, each.reconstructed_risk, gap[:, k])
            self.per_problem[:, k] += [part.sum() for part in parts]
        found = [each.debiased for each in terms if each.debiased is not None]
        if found:
            self.plugin += float(sum(each.plugin.sum() for each in found))
            self.put_back += float(sum(each.put_back.sum() for each in found))
            self.variance += float(variance_of_gain(found).sum())
