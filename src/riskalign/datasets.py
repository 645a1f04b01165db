"""Synthetic predictions whose true conditional probabilities are known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import softmax

from riskalign.data.notions import NOTIONS, Notion
from riskalign.data.sample import Sample
from riskalign.data.validation import one_of
from riskalign.equations.arrays import FloatArray, IntArray, floored_log
from riskalign.equations.losses import LOSSES, ProperLoss, loss_name
from riskalign.equations.norms import MEANS, norms_of
from riskalign.equations.problem import Problem
from riskalign.equations.simplex import on_simplex
from riskalign.equations.terms import decompose

POOL = 400_000
"""Draws from which E[y_k | f_k] is read; its error moves the truth by less than 1e-6."""

PER_BIN = 500
"""Draws averaged for one point of E[y_k | f_k]."""

Draw = Callable[[int, np.random.Generator], tuple[FloatArray, FloatArray]]
"""From a size and a generator to (true R, predictions f), each ``(n, K)``."""


@dataclass(frozen=True, repr=False)
class SyntheticData:
    """Labels, predictions, and the true R = E[y | f] behind them.

    Attributes
    ----------
    y_true : (n,)
    y_prob : (n, K)
    conditional : (n, K), the true R

    Examples
    --------
    >>> import riskalign as ra
    >>> data = ra.datasets.calibrated(500, 3, seed=0)
    >>> data.y_true.shape, data.y_prob.shape, data.truth(notion="canonical", loss="l2")
    ((500,), (500, 3), 0.0)
    """

    y_true: IntArray
    y_prob: FloatArray
    conditional: FloatArray
    draw: Draw

    def __repr__(self) -> str:
        """One line."""
        n, n_classes = self.y_prob.shape
        return f"<SyntheticData: n={n:,}, {n_classes:,} classes>"

    def truth(
        self,
        notion: str = "classwise",
        loss: str | ProperLoss = "l2",
        given: str = "joint",
        norm: str | None = None,
    ) -> float:
        """The true calibration error, averaged over the rows of this data.

        Parameters
        ----------
        notion, loss, norm
            As for `riskalign.calibration_error`. The norms are "l1", "l2" and "euclidean".
        given : {"joint", "marginal"}
            Condition on the whole prediction, as the paper does, or for notions made from
            one probability on that probability: E[y_k | f_k], read from a large pool.

        Examples
        --------
        >>> import riskalign as ra
        >>> data = ra.datasets.temperature(100_000, 4, t1=1.0, t2=0.8, seed=0)
        >>> joint = data.truth(notion="classwise", loss="l2")
        >>> bool(abs(joint - 0.00433) < 0.0001)
        True
        """
        asked = NOTIONS[one_of("notion", notion, NOTIONS)]
        asked.check(self.y_prob.shape[1])
        one_of("given", given, ("joint", "marginal"))
        loss = LOSSES[one_of("loss", loss_name(loss), LOSSES)] if isinstance(loss, str) else loss
        reference = None
        if given == "marginal" and not asked.joint:
            reference = self._pool
        if norm is not None:
            one_of("norm", norm, ("l2", *MEANS))
        total = 0.0
        problems = asked.problems(_as_sample(self.y_prob, self.y_true), loss)
        for k, problem in enumerate(problems):
            R = asked.truth(self.conditional, self.y_prob, k)
            if reference is not None:
                R = _given_own(reference, problem.predictions, asked, k)
            if norm in MEANS:
                gap = Problem.free(R) - Problem.free(problem.predictions)
                total += float(norms_of(norm, gap)[2].mean())
                continue
            terms = decompose(problem.loss, problem.points, problem.labels, on_simplex(R))
            total += float(terms.plugin.mean())
        return total if norm != "l2" else total**0.5

    @cached_property
    def _pool(self) -> tuple[FloatArray, FloatArray]:
        """R and f of many more draws."""
        return self.draw(POOL, np.random.default_rng(0))


def _as_sample(f: FloatArray, y: IntArray) -> Sample:
    return Sample(f, y, np.ones(len(f)), tuple(str(k) for k in range(f.shape[1])))


def _given_own(
    reference: tuple[FloatArray, FloatArray], p: FloatArray, notion: Notion, k: int
) -> FloatArray:
    """E[y | p] at p, from the pool: means of neighbours, joined by straight lines."""
    pool_R, pool_f = reference
    x = notion.truth(pool_f, pool_f, k)
    order = np.argsort(x)
    usable = len(order) // PER_BIN * PER_BIN
    means = [
        v[order][:usable].reshape(-1, PER_BIN).mean(axis=1)
        for v in (x, notion.truth(pool_R, pool_f, k))
    ]
    # interpolate the correction R - p, not R: it is the smaller and the flatter of the two
    correction = np.interp(p, means[0], means[1] - means[0])
    return np.clip(p + correction, 0.0, 1.0)


def _categorical(R: FloatArray, generator: np.random.Generator) -> IntArray:
    """One label per row, drawn from R."""
    below = np.cumsum(R, axis=1)[:, :-1] < generator.random((len(R), 1))
    return below.sum(axis=1).astype(np.intp)


def _generate(draw: Draw, n: int, n_classes: int, seed: int) -> SyntheticData:
    if n < 1 or n_classes < 2:
        raise ValueError(
            "`n` must be at least 1 and `n_classes` at least 2 (a binary problem has two classes); "
            f"found n = {n} and n_classes = {n_classes}."
        )
    generator = np.random.default_rng(seed)
    R, f = draw(n, generator)
    return SyntheticData(_categorical(R, generator), f, R, draw)


def temperature(
    n: int, n_classes: int, t1: float = 1.0, t2: float = 0.8, seed: int = 0
) -> SyntheticData:
    """The paper's synthetic data: a model whose temperature is wrong.

    u is uniform on the simplex, R = softmax(log u / t1), labels are drawn from R, and the
    model says f = softmax(log R / t2): over-confident for t2 < 1.

    Parameters
    ----------
    n, n_classes : int
        Samples and classes.
    t1, t2 : float
        Temperatures of the truth and of the model's error.
    seed : int
        Seed of the generator.

    Returns
    -------
    SyntheticData

    Examples
    --------
    >>> import riskalign as ra
    >>> data = ra.datasets.temperature(1000, 4, seed=0)
    >>> data.y_true.shape, data.y_prob.shape, data.conditional.shape
    ((1000,), (1000, 4), (1000, 4))
    """

    def draw(n: int, generator: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        u = generator.dirichlet(np.ones(n_classes), n)
        R = softmax(floored_log(u) / t1, axis=1)
        return R, softmax(floored_log(R) / t2, axis=1)

    return _generate(draw, n, n_classes, seed)


def calibrated(n: int, n_classes: int, seed: int = 0) -> SyntheticData:
    """A model that is right: f = R, uniform on the simplex. Every calibration error is 0.

    Examples
    --------
    >>> import riskalign as ra
    >>> ra.datasets.calibrated(100, 3).truth(notion="canonical")
    0.0
    """

    def draw(n: int, generator: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        f = generator.dirichlet(np.ones(n_classes), n)
        return f, f

    return _generate(draw, n, n_classes, seed)


def class_bias(n: int, n_classes: int, bias: float = 0.5, seed: int = 0) -> SyntheticData:
    """The probabilities of some classes are too high: f = softmax(log R + b), b from -bias to bias.

    R is uniform on the simplex. Temperature scaling cannot correct this.

    Examples
    --------
    >>> import riskalign as ra
    >>> data = ra.datasets.class_bias(20_000, 3, seed=0)
    >>> ((data.y_prob - data.conditional).mean(axis=0) > [0.05, -0.05, 0.05]).tolist()
    [False, True, True]
    """
    shift = np.linspace(-bias, bias, n_classes)

    def draw(n: int, generator: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        R = generator.dirichlet(np.ones(n_classes), n)
        return R, softmax(floored_log(R) + shift, axis=1)

    return _generate(draw, n, n_classes, seed)


def label_noise(n: int, n_classes: int, noise: float = 0.15, seed: int = 0) -> SyntheticData:
    """Labels replaced at random: R = (1 - noise) f + noise / K, with f from Dirichlet(0.7).

    The smaller a probability, the larger the factor by which it is wrong.

    Examples
    --------
    >>> import riskalign as ra
    >>> data = ra.datasets.label_noise(100, 4, noise=0.2)
    >>> bool(data.conditional.min() >= 0.05)
    True
    """

    def draw(n: int, generator: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        f = generator.dirichlet(np.full(n_classes, 0.7), n)
        return (1 - noise) * f + noise / n_classes, f

    return _generate(draw, n, n_classes, seed)


def peaked(n: int, n_classes: int, seed: int = 0) -> SyntheticData:
    """Predictions that crowd the corners of the simplex, as a trained network's do.

    Logits z are normal with a margin for one class; f = softmax(2 z), and the truth is a
    softer model with a little label noise, R = 0.98 softmax(1.2 z) + 0.02 / K.

    Examples
    --------
    >>> import numpy as np
    >>> import riskalign as ra
    >>> data = ra.datasets.peaked(1000, 10, seed=0)
    >>> bool(np.median(data.y_prob.max(axis=1)) > 0.99)
    True
    """

    def draw(n: int, generator: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        z = generator.normal(size=(n, n_classes))
        margin = generator.gamma(4.0, 1.0, size=n) + np.log(n_classes) / 2
        z[np.arange(n), generator.integers(n_classes, size=n)] += margin
        return 0.98 * softmax(1.2 * z, axis=1) + 0.02 / n_classes, softmax(2.0 * z, axis=1)

    return _generate(draw, n, n_classes, seed)


def imbalanced(n: int, n_classes: int, seed: int = 0) -> SyntheticData:
    """Frequent and rare classes, 30 to 1 (15 to 1 for two); the model favours the frequent.

    R comes from a Dirichlet with the class frequencies as its mean, and
    f = softmax(1.15 log R + 0.25 log frequency).

    Examples
    --------
    >>> import numpy as np
    >>> import riskalign as ra
    >>> data = ra.datasets.imbalanced(20_000, 4, seed=0)
    >>> bool(np.mean(data.y_true == 3) < 0.04)
    True
    """
    frequency = np.geomspace(1.0, 1 / 30 if n_classes > 2 else 1 / 15, n_classes)
    frequency /= frequency.sum()

    def draw(n: int, generator: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        u = generator.dirichlet(np.maximum(0.7 * n_classes * frequency, 0.02), n)
        R = 0.995 * u + 0.005 * frequency
        return R, softmax(1.15 * floored_log(R) + 0.25 * np.log(frequency), axis=1)

    return _generate(draw, n, n_classes, seed)


def wavy(n: int, n_classes: int, height: float = 0.5, seed: int = 0) -> SyntheticData:
    """A distortion that swings: R = softmax(log f + height sin(8 pi sqrt f)).

    f is uniform on the simplex. Neither a parametric map nor a wide kernel follows it.

    Examples
    --------
    >>> import riskalign as ra
    >>> data = ra.datasets.wavy(1000, 2, seed=0)
    >>> bool(data.truth(notion="binary") > 0.001)
    True
    """

    def draw(n: int, generator: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        f = generator.dirichlet(np.ones(n_classes), n)
        swing = height * np.sin(8 * np.pi * np.sqrt(f))
        return softmax(floored_log(f) + swing, axis=1), f

    return _generate(draw, n, n_classes, seed)


def class_waves(n: int, n_classes: int, height: float = 0.5, seed: int = 0) -> SyntheticData:
    """Distortions that swing, another one in each class.

    R = softmax(log f + height sin(2 pi c_k sqrt f_k + k)), with c_k = 2, 3 or 4 by turns and f
    uniform on the simplex.

    Examples
    --------
    >>> import riskalign as ra
    >>> data = ra.datasets.class_waves(1000, 3, seed=0)
    >>> bool(data.truth(notion="canonical") > 0.001)
    True
    """
    classes = np.arange(n_classes)
    frequency = 2 * np.pi * (2 + classes % 3)

    def draw(n: int, generator: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        f = generator.dirichlet(np.ones(n_classes), n)
        swing = height * np.sin(frequency * np.sqrt(f) + classes)
        return softmax(floored_log(f) + swing, axis=1), f

    return _generate(draw, n, n_classes, seed)


def step(n: int, n_classes: int, height: float = 0.25, seed: int = 0) -> SyntheticData:
    """A distortion that jumps: R = softmax(log f + height sign(f - 1/K)).

    f is uniform on the simplex: probabilities above 1/K are too small, those below it too large.

    Examples
    --------
    >>> import riskalign as ra
    >>> data = ra.datasets.step(1000, 2, seed=0)
    >>> bool(data.truth(notion="binary") > 0.001)
    True
    """

    def draw(n: int, generator: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        f = generator.dirichlet(np.ones(n_classes), n)
        return softmax(floored_log(f) + height * np.sign(f - 1 / n_classes), axis=1), f

    return _generate(draw, n, n_classes, seed)


def ties(
    n: int, n_classes: int, distinct: int = 30, height: float = 0.4, seed: int = 0
) -> SyntheticData:
    """Few distinct predictions, as a tree's leaves make them, each wrong in its own way.

    Of `distinct` vectors f, drawn once and for all from the uniform distribution on the simplex,
    each row has one; R = softmax(log f + height z), with z standard normal and drawn once too.

    Examples
    --------
    >>> import numpy as np
    >>> import riskalign as ra
    >>> data = ra.datasets.ties(1000, 3, seed=0)
    >>> len(np.unique(data.y_prob, axis=0))
    30
    """
    fixed = np.random.default_rng(0)
    vectors = fixed.dirichlet(np.ones(n_classes), distinct)
    truths = softmax(floored_log(vectors) + height * fixed.normal(size=vectors.shape), axis=1)

    def draw(n: int, generator: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        chosen = generator.integers(distinct, size=n)
        return truths[chosen], vectors[chosen]

    return _generate(draw, n, n_classes, seed)


def verbalised(n: int, n_classes: int, slope: float = 0.7, seed: int = 0) -> SyntheticData:
    """Confidences in tenths, as people and language models say them: mostly 0.8 and 0.9.

    One class, any with the same chance, is given a confidence c from 0.5 to 0.9 and the others
    share the rest evenly. It is right with probability 1/K + slope (c - 1/K).

    Examples
    --------
    >>> import numpy as np
    >>> import riskalign as ra
    >>> data = ra.datasets.verbalised(1000, 4, seed=0)
    >>> np.unique(data.y_prob.max(axis=1)).tolist()
    [0.5, 0.6, 0.7, 0.8, 0.9]
    """
    said, shares = np.array([0.5, 0.6, 0.7, 0.8, 0.9]), [0.05, 0.1, 0.15, 0.3, 0.4]

    def draw(n: int, generator: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        confidence = said[generator.choice(5, size=n, p=shares)]
        right = 1 / n_classes + slope * (confidence - 1 / n_classes)
        rows, top = np.arange(n), generator.integers(n_classes, size=n)
        tables = []
        for p in (right, confidence):
            table = np.repeat(((1 - p) / (n_classes - 1))[:, None], n_classes, axis=1)
            table[rows, top] = p
            tables.append(table)
        return tables[0], tables[1]

    return _generate(draw, n, n_classes, seed)


Family = Callable[[int, int, int], SyntheticData]
"""From samples, classes and a seed to data."""

FAMILIES: dict[str, Family] = {
    "temperature": lambda n, k, seed: temperature(n, k, seed=seed),
    "calibrated": lambda n, k, seed: calibrated(n, k, seed=seed),
    "class bias": lambda n, k, seed: class_bias(n, k, seed=seed),
    "label noise": lambda n, k, seed: label_noise(n, k, seed=seed),
    "peaked": lambda n, k, seed: peaked(n, k, seed=seed),
    "imbalanced": lambda n, k, seed: imbalanced(n, k, seed=seed),
    "wavy": lambda n, k, seed: wavy(n, k, seed=seed),
}
"""Every family at its default strength, on which estimators are judged."""

HELD_OUT: dict[str, Family] = {
    "class waves": lambda n, k, seed: class_waves(n, k, seed=seed),
    "step": lambda n, k, seed: step(n, k, seed=seed),
    "ties": lambda n, k, seed: ties(n, k, seed=seed),
    "verbalised": lambda n, k, seed: verbalised(n, k, seed=seed),
}
"""Families on which no rule of an estimator was chosen: they confirm what was."""
