"""A calibration error to train with, beside a proper loss."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from riskalign.bandwidth.search import positive
from riskalign.data.notions import NOTIONS, default_notion
from riskalign.data.validation import one_of
from riskalign.equations.kernels import DIRICHLET as KERNEL
from riskalign.equations.losses import loss_name
from riskalign.estimate import select_bandwidth
from riskalign.torch import nodes
from riskalign.torch.recent import UNKNOWN, RecentRows
from riskalign.torch.terms import calibration_terms, points

RISK_ALIGNMENT = "risk-alignment"
LOSSES = ("l2", "kl", "ranked")
ESTIMATORS = ("debiased", "plugin")
REDUCTIONS = ("mean", "sum", "none")
LEAST, TRIED = 0.05, 8
"""The narrowest kernel that is chosen, and the number of widths that are tried. A narrower one may
estimate the error of many rows better, but in a batch it sees a few neighbours, and its gradient is
noise: in trials with one seed, networks trained with what risk alignment alone prefers learned
worse, and some not at all."""
EARLY = (10, 100)
"""Steps after which a bandwidth is chosen while it changes fast, beside every so many steps."""


class CalibrationLoss(nn.Module):
    """The calibration error of a batch, differentiable, with the arguments of CrossEntropyLoss.

    Add it to a proper loss; alone it is smallest for any calibrated prediction, also for the
    class frequencies. R, the frequency of labels given the prediction, is estimated at each
    row from the *other* rows by kernel averages (softmax attention with the diagonal masked).

    Parameters
    ----------
    notion : {"binary", "top-label", "classwise", "canonical"}, optional
        What must be calibrated, as for `riskalign.calibration_error`. Default: "binary" for
        two classes, otherwise "classwise".
    loss : {"l2", "kl", "ranked"}
        Squared error, log loss, or ranked probability score (ordered classes).
    bandwidth : float, sequence of floats (one per class) or "risk-alignment"
        Width of the kernel. "risk-alignment" chooses it on recent rows in training mode, from
        0.05 up, at the first step, after 10, after 100 and after every `every` steps; each choice
        waits for the device. No gradient flows through it, and `state_dict` holds it.
    estimator : {"debiased", "plugin"}
        "debiased" smooths the residuals y - f: it is 0 on average if f is calibrated, and may
        be negative. "plugin" smooths labels, as in the paper: in small batches its minimum is
        not at calibration.
    weight : Tensor of shape (C,), optional
        A weight per class, in averages and in the mean.
    ignore_index : int
        Label of rows to leave out. Any other label outside 0 to C - 1 is an error: a ValueError
        on the CPU, a failed assertion of the device elsewhere.
    reduction : {"mean", "sum", "none"}
    queue : int
        Number of past rows that serve as keys beside the batch, without gradient.
    gather : bool
        Use the rows of all processes of the default group as keys, without the gradients of
        the others'. Batches may differ in size, so that sizes are exchanged in every step.
    recent : int
        Number of rows on which a bandwidth is chosen.
    every : int
        Steps between two choices.

    Examples
    --------
    >>> import torch
    >>> from riskalign.torch import CalibrationLoss
    >>> generator = torch.Generator().manual_seed(0)
    >>> logits = torch.randn(64, 3, generator=generator, requires_grad=True)
    >>> labels = torch.randint(3, (64,), generator=generator)
    >>> calibration = CalibrationLoss(bandwidth=0.05)
    >>> total = torch.nn.functional.cross_entropy(logits, labels) + calibration(logits, labels)
    >>> total.backward()
    >>> logits.grad.shape
    torch.Size([64, 3])
    """

    weight: Tensor | None
    bandwidth: Tensor

    def __init__(
        self,
        notion: str | None = None,
        loss: str = "l2",
        bandwidth: float | Sequence[float] | str = "risk-alignment",
        estimator: str = "debiased",
        *,
        weight: Tensor | None = None,
        ignore_index: int = -100,
        reduction: str = "mean",
        queue: int = 0,
        gather: bool = False,
        recent: int = 1024,
        every: int = 300,
    ) -> None:
        super().__init__()
        self.notion = None if notion is None else one_of("notion", notion, NOTIONS)
        self.loss = one_of("loss", loss_name(loss), LOSSES)
        self.estimator = one_of("estimator", estimator, ESTIMATORS)
        self.reduction = one_of("reduction", reduction, REDUCTIONS)
        for name, number, least in (
            ("queue", queue, 0),
            ("recent", recent, 2),
            ("every", every, 1),
        ):
            if not isinstance(number, int) or number < least:
                raise ValueError(f"`{name}` must be an integer from {least} up; found {number!r}.")
        self.ignore_index, self.queue, self.gather, self.every = ignore_index, queue, gather, every
        self.tuned = isinstance(bandwidth, str)
        if self.tuned:
            one_of("bandwidth", bandwidth, [RISK_ALIGNMENT])
        given = np.empty(0) if self.tuned else positive(bandwidth, "bandwidth")
        self._number = float(given) if given.ndim == 0 else None  # without a tensor in between
        self._narrowest = float(given.min()) if given.size else None  # known without the device
        self.steps = 0
        if weight is not None:
            _check_weight(weight)
        self.register_buffer("weight", weight)
        self.register_buffer("bandwidth", torch.tensor(given, dtype=torch.float32))
        self.recent = RecentRows(max(queue, recent if self.tuned else 0))

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """The calibration error.

        Parameters
        ----------
        input : (N, C), (N, C, d1, ...) or (C,)
            Logits. Also one logit per row as for BCEWithLogitsLoss, that of the second of two
            classes: (N,), and (N, 1) if the notion is "binary" or `target` has that shape too.
        target : (N,), (N, d1, ...) or ()
            Labels from 0 to C - 1, or `ignore_index`.
        """
        device = input.device.type
        known_to_autocast = torch.amp.is_autocast_available(device)
        with torch.autocast(device if known_to_autocast else "cpu", enabled=False):
            logits = self._rows(input, target)
            self._check(logits.shape[1])
            exact = logits.dtype if logits.dtype == torch.float64 else torch.float32
            labels = target.reshape(-1).long()
            known = labels != self.ignore_index
            _check_labels(labels, known, logits.shape[1], self.ignore_index)
            labels = torch.where(known, labels, UNKNOWN)
            log_f = torch.log_softmax(torch.where(known[:, None], logits, 0.0).to(exact), 1)
            terms, weights = self._terms(log_f, labels)
            if self.training:
                self._remember(log_f, labels)
        weighted = terms * weights
        if self.reduction == "mean":
            return weighted.sum() / weights.sum().clamp(min=torch.finfo(exact).tiny)
        return weighted.sum() if self.reduction == "sum" else weighted.reshape(target.shape)

    def extra_repr(self) -> str:
        """The options, for the print of a model."""
        width = RISK_ALIGNMENT if self.tuned else self._number or self.bandwidth.tolist()
        return f"{self.notion}, {self.loss}, bandwidth={width}, {self.estimator}"

    def _rows(self, input: Tensor, target: Tensor) -> Tensor:
        """Logits ``(n, C)``. One logit per row is the second class's, beside 0 for the first."""
        given, expected = tuple(input.shape), (*input.shape[:1], *input.shape[2:])
        one_column = input.dim() > 1 and given[1] == 1
        alike = (input.dim() == 1 or one_column) and tuple(target.shape) == given
        if input.dim() == 1:
            expected = ()
        if not alike and tuple(target.shape) != expected:
            one = f", or {given} for one logit per row" if input.dim() == 1 or one_column else ""
            raise ValueError(
                f"`target` must have shape {expected} for `input` of shape {given}{one}; "
                f"found {tuple(target.shape)}."
            )
        if target.is_floating_point():
            raise TypeError(
                "`target` must hold class numbers; soft labels are not supported. Pass "
                "`target.long()` if all of it are whole numbers."
            )
        of_one_class = self.notion is not None and NOTIONS[self.notion].is_one_class
        if alike or (one_column and of_one_class):
            one_logit = input.reshape(-1, 1)
            return torch.cat([torch.zeros_like(one_logit), one_logit], 1)
        return input[None] if input.dim() == 1 else input.movedim(1, -1).reshape(-1, given[1])

    def _check(self, n_classes: int) -> None:
        notion = NOTIONS[self._notion(n_classes)]
        if notion.is_one_class and n_classes != 2:
            raise ValueError(
                f"`notion='binary'` needs two classes; found {n_classes}. Use 'top-label', "
                "'classwise' or 'canonical', or pass one logit per row: `input` of shape (N,)."
            )
        if self.weight is not None and len(self.weight) != n_classes:
            raise ValueError(
                f"`weight` must have one weight per class; found {len(self.weight)} for "
                f"{n_classes} classes."
            )
        held, n_problems = self.recent.log_f.shape[1], notion.n_problems(n_classes)
        n_widths = self.bandwidth.numel()
        if held not in (0, n_classes) or (self.tuned and n_widths not in (0, n_problems)):
            before = f"{held} classes" if held else "another number of classes"
            raise ValueError(
                f"`input` has {n_classes} classes, but this loss holds rows or a bandwidth of "
                f"{before}. Use one CalibrationLoss for each number of classes."
            )
        if not self.tuned and n_widths not in (1, n_problems):
            raise ValueError(
                f"`bandwidth` must be a number, or one bandwidth per class for class-wise errors; "
                f"found {n_widths} for {n_problems}."
            )

    def _notion(self, n_classes: int) -> str:
        return default_notion(n_classes).name if self.notion is None else self.notion

    def _terms(self, log_f: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Terms and weights of the rows, ``(n,)`` each."""
        notion, n = self._notion(log_f.shape[1]), len(labels)
        if self.tuned and not self.bandwidth.numel():
            self._tune(log_f, labels)
        key_logs, key_labels, first = log_f, labels, 0
        if self.gather:
            key_logs, key_labels, first = gathered(log_f, labels)
        if self.queue and self.recent.n_rows:
            past_logs, past_labels = self.recent.last(self.queue)
            key_logs = torch.cat([key_logs, past_logs.to(log_f)])
            key_labels = torch.cat([key_labels, past_labels.to(labels.device)])
        known, weights = key_labels.clamp(min=0), (key_labels != UNKNOWN).to(log_f)
        if self.weight is not None:
            weights = weights * self.weight.to(log_f)[known]
        keys = points(notion, key_logs, known, weights)
        rows = keys.take(slice(first, first + n))
        h = self.bandwidth.to(log_f) if self._number is None else self._number
        n_nodes = self._n_nodes(n, len(key_labels)) if keys.f.shape[1] == 2 else 0
        terms = calibration_terms(rows, keys, first, h, self.loss, self.estimator, n_nodes)
        return terms, rows.weights

    def _n_nodes(self, n_rows: int, n_keys: int) -> int:
        """The number of nodes to sum at; 0 where all pairs are faster, or are needed.

        Sums at nodes are exact to a small part of what a row adds to its own sum. That is enough
        for squared residuals. The plug-in divides by sums that may be smaller, and the log loss
        sees differences between tiny probabilities.
        """
        assert self._narrowest is not None  # it is chosen, or given
        n_nodes = nodes.count(self._narrowest)
        enough = self.estimator == "debiased" and self.loss != "kl"
        return n_nodes if enough and nodes.worthwhile(n_rows, n_keys, n_nodes) else 0

    def _remember(self, log_f: Tensor, labels: Tensor) -> None:
        """Keep the rows for later steps, and choose the bandwidth if its time has come."""
        self.recent.add(log_f, labels)
        self.steps += 1
        early = self.steps < self.every and self.steps in EARLY
        if self.tuned and (early or self.steps % self.every == 0):
            self._tune(*self.recent.last(self.recent.size))

    @torch.compiler.disable
    @torch.inference_mode(False)  # what is stored must serve in training, too
    @torch.no_grad()
    def _tune(self, log_f: Tensor, labels: Tensor) -> None:
        """Choose the bandwidth by risk alignment on some rows; this waits for the device."""
        known = labels != UNKNOWN
        n_classes = log_f.shape[1]
        notion = self._notion(n_classes)
        _, high = KERNEL.bandwidth_range(n_classes if NOTIONS[notion].joint else 2)
        tried = np.geomspace(LEAST, high, TRIED)
        if n_classes > 1 and int(known.sum()) >= 2:
            # Not every device has float64: the host does the arithmetic.
            y, f = labels[known].cpu().numpy(), log_f[known].cpu().double().softmax(1).numpy()
            found = select_bandwidth(
                y, f, notion=notion, loss=self.loss, candidates=tried, progress=False
            ).values
        else:  # nothing to choose on: the middle of the range
            found = np.full(NOTIONS[notion].n_problems(n_classes), np.sqrt(LEAST * high))
        logs = torch.from_numpy(np.log(found)).float().to(log_f.device)
        if self.gather and _many():
            torch.distributed.all_reduce(logs)
            logs /= torch.distributed.get_world_size()
        self.bandwidth = logs.exp()
        self._narrowest = float(self.bandwidth.min())

    def get_extra_state(self) -> Tensor:
        """The number of steps, for `state_dict`."""
        return torch.tensor(self.steps)

    def set_extra_state(self, state: Any) -> None:
        """Take what `get_extra_state` gave."""
        self.steps = int(state)

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *others: Any) -> None:
        """Take the shape of the stored bandwidth: one, or one per class."""
        if (stored := state_dict.get(prefix + "bandwidth")) is not None:
            if self._number is not None and not torch.equal(stored.cpu(), self.bandwidth.cpu()):
                self._number = None
            self.bandwidth = torch.empty_like(stored, device=self.bandwidth.device)
            self._narrowest = float(stored.min()) if stored.numel() else None
        super()._load_from_state_dict(state_dict, prefix, *others)


def _check_weight(weight: Tensor) -> None:
    if weight.dim() != 1:
        raise ValueError(
            f"`weight` must have shape (C,), one weight per class; found {tuple(weight.shape)}."
        )
    if not weight.is_meta and not bool(((weight >= 0) & weight.isfinite()).all()):
        raise ValueError(
            f"`weight` must be finite and not negative; found {weight.tolist()}. Give classes that "
            "are to be left out the weight 0."
        )


def _check_labels(labels: Tensor, known: Tensor, n_classes: int, ignore_index: int) -> None:
    """Refuse labels that are no class numbers, without waiting for a device."""
    wrong = known & ((labels < 0) | (labels >= n_classes))
    message = (
        f"`target` must hold class numbers from 0 to {n_classes - 1}, or `ignore_index` "
        f"({ignore_index})"
    )
    if labels.device.type == "cpu" and not torch.compiler.is_compiling():
        if wrong.any():
            cure = " Use notion='binary' for one logit per row." if n_classes == 1 else ""
            raise ValueError(f"{message}; found {int(labels[wrong][0])}.{cure}")
        return
    with suppress(NotImplementedError):  # some devices have no assertions
        torch._assert_async(~wrong.any(), f"{message}.")


def gathered(log_f: Tensor, labels: Tensor) -> tuple[Tensor, Tensor, int]:
    """Rows of all processes, the own ones with gradient, and the place of the first own row."""
    if not _many():
        return log_f, labels, 0
    rank, size = torch.distributed.get_rank(), torch.distributed.get_world_size()
    own = torch.tensor([len(labels), log_f.shape[1]], device=labels.device)
    shapes = [torch.empty_like(own) for _ in range(size)]
    torch.distributed.all_gather(shapes, own)
    counts, classes = zip(*(each.tolist() for each in shapes), strict=True)
    if len(set(classes)) > 1:
        raise ValueError(
            f"`gather` needs the same number of classes in all processes; found {classes}."
        )
    most = max(counts)
    missing = most - len(labels)  # batches may differ in size: rows that weigh nothing fill up
    log_f = torch.nn.functional.pad(log_f, (0, 0, 0, missing))
    labels = torch.nn.functional.pad(labels, (0, missing), value=UNKNOWN)
    all_logs = [torch.empty_like(log_f) for _ in range(size)]
    all_labels = [torch.empty_like(labels) for _ in range(size)]
    torch.distributed.all_gather(all_logs, log_f.detach().contiguous())
    torch.distributed.all_gather(all_labels, labels.contiguous())
    all_logs[rank] = log_f
    return torch.cat(all_logs), torch.cat(all_labels), rank * most


def _many() -> bool:
    return torch.distributed.is_available() and torch.distributed.is_initialized()
