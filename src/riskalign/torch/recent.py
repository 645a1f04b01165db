"""Recent rows of a training run: keys beyond the batch, and what the bandwidth is chosen on."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

UNKNOWN = -1
"""The label of a place that holds no row, or a row that is left out."""


class RecentRows(nn.Module):
    """A ring of the last rows, with labels.

    Parameters
    ----------
    size : int
        Number of rows to hold.

    Examples
    --------
    >>> import torch
    >>> recent = RecentRows(3)
    >>> for k in range(4):
    ...     recent.add(torch.full((1, 2), -0.7), torch.tensor([k % 2]))
    >>> recent.labels.tolist(), recent.n_rows
    ([1, 1, 0], 3)
    """

    log_f: Tensor
    labels: Tensor

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size
        self.seen = 0
        self.register_buffer("log_f", torch.empty(0, 0))  # (size, K) when K is known
        self.register_buffer("labels", torch.empty(0, dtype=torch.int64))

    @property
    def n_rows(self) -> int:
        """Places that are filled."""
        return min(self.seen, self.size)

    def add(self, log_f: Tensor, labels: Tensor) -> None:
        """Put rows ``(n, K)`` in the place of the oldest ones."""
        if self.size == 0:
            return
        if self.log_f.shape[1:] != log_f.shape[1:]:
            with torch.inference_mode(False):  # the rows must serve in training, too
                self.log_f = log_f.new_zeros(self.size, log_f.shape[1])
                self.labels = labels.new_full((self.size,), UNKNOWN)
            self.seen = 0
        log_f, labels = log_f.detach()[-self.size :], labels[-self.size :]
        start = self.seen % self.size
        head = min(len(labels), self.size - start)
        for ring, new in ((self.log_f, log_f.to(self.log_f)), (self.labels, labels)):
            ring[start : start + head] = new[:head]
            ring[: len(labels) - head] = new[head:]
        self.seen += len(labels)

    def last(self, n: int) -> tuple[Tensor, Tensor]:
        """The last n rows or fewer, in no order."""
        n = min(n, self.n_rows)
        if n == self.n_rows:
            return self.log_f[:n], self.labels[:n]
        places = torch.arange(self.seen - n, self.seen, device=self.labels.device) % self.size
        return self.log_f[places], self.labels[places]

    def get_extra_state(self) -> Tensor:
        """The number of rows that were added, for `state_dict`."""
        return torch.tensor(self.seen)

    def set_extra_state(self, state: Any) -> None:
        """Take what `get_extra_state` gave."""
        self.seen = int(state)

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *others: Any) -> None:
        """Take the newest rows that fit; the number of classes may be unknown until now."""
        names = [prefix + name for name in ("log_f", "labels", "_extra_state")]
        if all(name in state_dict for name in names):
            log_f, labels, seen = (state_dict[name] for name in names)
            if len(labels) != self.size:
                resized = resized_ring(log_f, labels, int(seen), self.size)
                state_dict = dict(state_dict) | dict(zip(names, resized, strict=True))
        for name in ("log_f", "labels"):
            if (stored := state_dict.get(prefix + name)) is not None:
                setattr(self, name, torch.empty_like(stored, device=getattr(self, name).device))
        super()._load_from_state_dict(state_dict, prefix, *others)


def resized_ring(
    log_f: Tensor, labels: Tensor, seen: int, size: int
) -> tuple[Tensor, Tensor, Tensor]:
    """The newest rows of a ring in one of another size, and the number that was added to it.

    Parameters
    ----------
    log_f : (m, K)
    labels : (m,)
    seen : int
        Number of rows that were added to the ring of m places.
    size : int
        Number of places of the new ring.
    """
    n = min(seen, len(labels), size)
    if n == 0:
        return log_f.new_empty(0, 0), labels.new_empty(0), torch.tensor(0)
    places = torch.arange(seen - n, seen, device=labels.device) % len(labels)
    rows, known = log_f.new_zeros(size, log_f.shape[1]), labels.new_full((size,), UNKNOWN)
    rows[:n], known[:n] = log_f[places], labels[places]
    return rows, known, torch.tensor(n)
