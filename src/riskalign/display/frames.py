"""Columns as a data frame of whichever library is installed."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any


def data_frame(columns: Callable[[], dict[str, list[Any]]], library: str, caller: str) -> Any:
    """A data frame of columns, which are computed once the library is known to be there."""
    if library not in ("pandas", "polars"):
        raise ValueError(f"`library` must be 'pandas' or 'polars'; found {library!r}.")
    try:
        module = importlib.import_module(library)
    except ImportError:
        raise ImportError(f"`{caller}` needs {library}: pip install {library}.") from None
    return module.DataFrame(columns())
