"""Strings become objects, and a sample and a question a case: arguments are checked here."""

from __future__ import annotations

from numbers import Real

import numpy as np

from riskalign.data.case import Case
from riskalign.data.notions import Notion, notion_of
from riskalign.data.sample import Sample
from riskalign.data.validation import one_of
from riskalign.equations.losses import LOSSES, ProperLoss, loss_name
from riskalign.methods import KernelSmoother, out_of_scope
from riskalign.methods.method import Method
from riskalign.smoothing import ENGINES

MOST_DRAWS = 1_000_000
"""Label sets that a test draws at most."""


def loss_of(loss: str | ProperLoss, notion: Notion, n_classes: int) -> ProperLoss:
    """The loss asked for; a user's own is tried at predictions of exactly 0 and 1."""
    if isinstance(loss, ProperLoss):
        _check_loss(notion.loss_of(loss), n_classes if notion.joint else 2)
        return loss
    name = loss_name(loss)
    if not isinstance(name, str) or name not in LOSSES:
        listed = ", ".join(repr(name) for name in LOSSES)
        raise ValueError(f"`loss` must be one of {listed} or a ProperLoss; found {loss!r}.")
    return LOSSES[name]


def _check_loss(loss: ProperLoss, n_classes: int) -> None:
    """A user's loss gives K finite numbers per row, for predictions of exactly 0 and 1 too."""
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


def make_case(sample: Sample, notion: str | None, loss: str | ProperLoss) -> Case:
    """What is asked of a sample, with strings turned into objects."""
    n_classes = len(sample.classes)
    asked = notion_of(notion, n_classes)
    return Case.of(sample, asked, loss_of(loss, asked, n_classes))


def sketched_case(
    sample: Sample, notion: str | None, loss: str | ProperLoss, engine: str, *, weighted: bool
) -> Case:
    """What is asked of the distinct rows of a sample; of many rows, of what a sketch keeps.

    Exact sums need all rows, so that all are kept for them.
    """
    asked = notion_of(notion, len(sample.classes))
    limit = len(sample.labels) if engine == "exact" else None
    chosen = loss_of(loss, asked, len(sample.classes))
    return Case.of_sample(sample, asked, chosen, limit=limit, weighted=weighted)


def engine_of(engine: str) -> str:
    """The engine asked for."""
    return one_of("engine", engine, ENGINES)


def choose_method(method: Method | None, options: KernelSmoother, engine: str) -> Method:
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


def check_question(
    case: Case, method: Method, confidence: float | None, engine: str, seed: object
) -> None:
    """Refuse what has no meaning for a case, before anything is computed."""
    if not method.scope.covers(case.notion.name, case.loss):
        raise out_of_scope(method, case.notion.name, case.loss)
    check_confidence(confidence, method)
    check_seed(seed)
    if isinstance(method, KernelSmoother):
        method.check(len(case.problems), case.notion.name)
    engine_of(engine)


def check_confidence(confidence: float | None, method: Method) -> None:
    """A level in (0, 1), for the one estimator that has an interval."""
    if confidence is None:
        return
    if not isinstance(confidence, Real) or not 0 < confidence < 1:
        raise ValueError(f"`confidence` must lie between 0 and 1; found {confidence!r}.")
    if not isinstance(method, KernelSmoother) or not method.smooths_residuals:
        raise ValueError(
            "`confidence` needs estimator='debiased': other estimators have a bias that no "
            "interval around them covers. Leave it out, or choose that estimator."
        )


def check_seed(seed: object) -> None:
    """A number that a random generator takes."""
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise ValueError(f"`seed` must be an integer from 0 up; found {seed!r}.")


def check_draws(n_draws: object, seed: object) -> None:
    """A number of label sets that can be drawn, and a seed."""
    if isinstance(n_draws, bool) or not isinstance(n_draws, int | np.integer) or n_draws < 1:
        raise ValueError(f"`n_draws` must be a positive integer; found {n_draws!r}.")
    if n_draws > MOST_DRAWS:
        raise ValueError(
            f"`n_draws` must be at most {MOST_DRAWS:,}; found {n_draws:,}. A p-value of 1e-6 needs "
            "no more."
        )
    check_seed(seed)


def refuse_exact(engine: str, holds_all_rows: bool) -> None:
    """Exact sums need all rows."""
    if engine_of(engine) == "exact" and not holds_all_rows:
        raise ValueError(
            "`engine='exact'` needs all rows, and this sketch holds a part of them. Make it with a "
            "larger `exact_limit`, or use engine='auto'."
        )
