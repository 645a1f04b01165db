"""What a user may say: strings and numbers become objects here, once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from numbers import Real

import numpy as np

from riskalign.bandwidth.coordinates import Choice
from riskalign.bandwidth.search import CRITERIA, BandwidthSearch, Search, paper_candidates
from riskalign.composition import Case
from riskalign.data.sample import NOTIONS, Sample, reduce
from riskalign.data.validation import ROW_SUM_TOLERANCE, one_of
from riskalign.debiasing import DEBIASED
from riskalign.equations.arrays import FloatArray
from riskalign.equations.kernels import KERNELS, Kernel
from riskalign.equations.losses import LOSSES, ProperLoss
from riskalign.methods.method import Bandwidth, Candidates, KernelSmoother, Method
from riskalign.smoothing import ENGINES, Engine, Smoother, choose_smoother


@dataclass(frozen=True)
class Setup(Case):
    """A case with the kernel and the engine that smooth it."""

    kernel: Kernel
    engine: Engine
    progress: bool | None

    @cached_property
    def smoother(self) -> Smoother:
        """The engine, filled with the problems when it is first needed."""
        return choose_smoother(self.problems, self.kernel, self.engine)

    @property
    def exact(self) -> Smoother | None:
        """Sums in float64, where the engine's are not."""
        if self.engine == "exact" or callable(self.engine):
            return None
        return choose_smoother(self.problems, self.kernel, "exact")

    def shown_bandwidth(self, bandwidths: FloatArray) -> float | FloatArray:
        """One number a class for class-wise errors, else the number itself."""
        return bandwidths if self.notion == "classwise" else float(bandwidths[0])


def default_notion(notion: str | None, y_prob: object) -> str:
    """The notion asked for, or the one that the shape of the predictions suggests."""
    if notion is not None:
        return one_of("notion", notion, NOTIONS)
    return "binary" if np.ndim(np.asarray(y_prob)) == 1 else "classwise"


def choose_method(
    method: Method | KernelSmoother | None, options: KernelSmoother, engine: str
) -> Method | KernelSmoother:
    """The method asked for; options that belong to another place are an error."""
    if method is None:
        return options
    if isinstance(method, type) or not hasattr(method, "scope"):
        raise TypeError(
            "`method` must be an object such as ra.EqualWidthBins(15) or "
            f"ra.KernelSmoother(); found {method!r}."
        )
    if changed := options.changed():
        given = ", ".join(f"{name}=..." for name in changed)
        raise ValueError(
            f"`method` cannot be combined with {given}: the options of the kernel smoother go "
            f"into the method. Pass method=ra.KernelSmoother({given}), or leave out one of the two."
        )
    if engine != "auto" and not isinstance(method, KernelSmoother):
        raise ValueError(
            f"`engine={engine!r}` is for the kernel smoother; {method!r} has none. Leave it out."
        )
    return method


def make_case(sample: Sample, notion: str, loss: str | ProperLoss) -> Case:
    """What is asked, with strings turned into objects."""
    if notion == "binary" and len(sample.classes) != 2:
        raise ValueError(
            f"`notion='binary'` needs two classes; found {len(sample.classes)}. Use 'top-label', "
            "'classwise' or 'canonical', or pass one column of `y_prob`."
        )
    if not isinstance(loss, ProperLoss):
        if not isinstance(loss, str) or loss not in LOSSES:
            listed = ", ".join(repr(name) for name in LOSSES)
            raise ValueError(f"`loss` must be one of {listed} or a ProperLoss; found {loss!r}.")
        loss = LOSSES[loss]
    else:
        _check_loss(loss if notion == "canonical" else loss.binary, sample, notion)
    return Case(sample, notion, loss, reduce(sample, notion, loss))


def _check_loss(loss: ProperLoss, sample: Sample, notion: str) -> None:
    """A user's loss gives K finite numbers a row, at certain predictions too."""
    n_classes = len(sample.classes) if notion == "canonical" else 2
    given = np.asarray(loss(np.eye(n_classes)))
    if given.shape != (n_classes, n_classes):
        raise ValueError(
            f"`loss={loss.name!r}` must map predictions (n, K) to losses (n, K); it gave shape "
            f"{given.shape} for {(n_classes, n_classes)}."
        )
    if not np.isfinite(given).all():
        raise ValueError(
            f"`loss={loss.name!r}` must be finite; it gave {given[~np.isfinite(given)][0]} for a "
            "prediction of 0 or 1. Floor what a logarithm or a division sees."
        )


def make_setup(case: Case, kernel: str, engine: str, progress: bool | None) -> Setup:
    """The case with its kernel and engine, both known by name."""
    chosen = KERNELS[one_of("kernel", kernel, KERNELS)]
    one_of("engine", engine, ENGINES)
    return Setup(**vars(case), kernel=chosen, engine=engine, progress=progress)


def grid_points(grid: object, setup: Setup) -> FloatArray:
    """Points at which a curve is asked for: (m,) probabilities, or (m, K) on the simplex."""
    n_classes = setup.problems[0].n_classes
    if isinstance(grid, (int, np.integer)):
        if grid < 2:
            raise ValueError(f"`grid` must have at least two points; found {grid}.")
        if setup.notion != "canonical":
            return np.linspace(0.0, 1.0, int(grid))
        raise ValueError(
            f"`grid` must hold points (m, {n_classes}) of the simplex for a canonical curve; "
            "a number of points is for one probability."
        )
    points = np.asarray(grid, dtype=np.float64)
    expected = 2 if setup.notion == "canonical" else 1
    if points.ndim != expected or (expected == 2 and points.shape[1] != n_classes):
        shape = f"(m, {n_classes})" if expected == 2 else "(m,)"
        raise ValueError(f"`grid` must have shape {shape}; found {points.shape}.")
    if points.size == 0 or not ((points >= 0) & (points <= 1)).all():
        raise ValueError("`grid` must hold probabilities in [0, 1].")
    if expected == 2 and (np.abs(points.sum(axis=1) - 1) > ROW_SUM_TOLERANCE).any():
        raise ValueError("`grid` must hold points of the simplex: rows sum to 1. Rescale them.")
    return points


def check_confidence(confidence: float | None, method: Method | KernelSmoother) -> None:
    """A level in (0, 1), for the one estimator that has an interval."""
    if confidence is None:
        return
    if not isinstance(confidence, Real) or not 0 < confidence < 1:
        raise ValueError(f"`confidence` must lie between 0 and 1; found {confidence!r}.")
    if not isinstance(method, KernelSmoother) or method.estimator != DEBIASED:
        raise ValueError(
            "`confidence` needs estimator='debiased': other estimators have a bias that no "
            "interval around them covers. Leave it out, or choose that estimator."
        )


def resolve_bandwidth(
    setup: Setup, bandwidth: Bandwidth | None, candidates: Candidates, power: float
) -> tuple[FloatArray, BandwidthSearch | None]:
    """The bandwidth of each problem, and the search that found it."""
    n_problems = len(setup.problems)
    bandwidth = "risk-alignment" if bandwidth is None else bandwidth
    if isinstance(bandwidth, str):
        if bandwidth not in CRITERIA:
            listed = ", ".join(repr(name) for name in CRITERIA)
            raise ValueError(
                f"`bandwidth` must be one of {listed}, a number, one number a class or a "
                f"BandwidthSearch; found {bandwidth!r}."
            )
        search = search_bandwidth(setup, bandwidth, candidates, power)
        return search.values, search
    if isinstance(bandwidth, BandwidthSearch):
        if len(bandwidth.curves) != n_problems:
            raise ValueError(
                f"`bandwidth` is a search for {len(bandwidth.curves)} problem(s), but "
                f"notion={setup.notion!r} makes {n_problems}. Search with the same notion."
            )
        return bandwidth.values, bandwidth
    given = _positive(bandwidth, "bandwidth")
    if given.shape not in ((), (1,), (n_problems,)):
        raise ValueError(
            f"`bandwidth` must be one number or {n_problems} for notion={setup.notion!r}; found "
            f"{given.size}."
        )
    return np.broadcast_to(given, (n_problems,)).astype(np.float64), None


def _positive(values: object, name: str) -> FloatArray:
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"`{name}` must hold positive numbers; found {values!r}.") from None
    if array.size == 0 or not (np.isfinite(array).all() and (array > 0).all()):
        raise ValueError(f"`{name}` must be positive and finite; found {values!r}.")
    return array


def search_bandwidth(
    setup: Setup, criterion: str, candidates: Candidates, power: float
) -> BandwidthSearch:
    """The search by a criterion over the candidates asked for."""
    if not isinstance(power, Real) or not power > 0:
        raise ValueError(f"`power` must be a positive number; found {power!r}.")
    search = Search(
        setup.problems,
        setup.smoother,
        setup.kernel,
        CRITERIA[criterion](float(power)),
        setup.progress,
        setup.exact,
    )
    if candidates is None:
        curves = search.continuous()
    else:
        curves = search.over(candidate_set(candidates, setup))
    return BandwidthSearch(criterion, tuple(curves), setup.notion == "classwise")


def candidate_set(candidates: Candidates, setup: Setup) -> FloatArray:
    """Candidates that were asked for, ascending."""
    if isinstance(candidates, str):
        if one_of("candidates", candidates, ["paper"]) and setup.kernel.name != "dirichlet":
            raise ValueError(
                "`candidates='paper'` is for the Dirichlet kernel: the paper gives none for "
                f"{setup.kernel.name!r}. Pass None for its range, or numbers."
            )
        return paper_candidates(setup.problems[0].n_classes)
    given = np.atleast_1d(_positive(candidates, "candidates"))
    if given.ndim != 1:
        raise ValueError(f"`candidates` must be one-dimensional; found shape {given.shape}.")
    return np.unique(given)


def smoothing_choices(
    setup: Setup, method: KernelSmoother
) -> tuple[list[Choice] | None, FloatArray | None, BandwidthSearch | None]:
    """How residuals are to be smoothed, or None and the candidates to choose from."""
    if isinstance(method.bandwidth, str | None) and method.bandwidth in (None, "cross-validation"):
        candidates = method.candidates
        return None, None if candidates is None else candidate_set(candidates, setup), None
    bandwidths, search = resolve_bandwidth(setup, method.bandwidth, method.candidates, method.power)
    powers = [1.0] * len(bandwidths) if search is None else search.flattenings
    choices = [Choice(h, power) for h, power in zip(bandwidths.tolist(), powers, strict=True)]
    return choices, None, search
