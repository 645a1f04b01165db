"""Calibration errors of classifiers, with the bandwidth found by risk alignment."""

from typing import TYPE_CHECKING, Any

from riskalign import datasets, plots
from riskalign.bandwidth.search import BandwidthSearch
from riskalign.equations.losses import ProperLoss
from riskalign.estimate import calibration_error, reliability_curve, select_bandwidth
from riskalign.inference.calibration_test import CalibrationTest
from riskalign.inference.comparison import Comparison
from riskalign.methods import (
    AlwaysZero,
    EqualMassBins,
    EqualWidthBins,
    KernelRidge,
    KernelSmoother,
    SimplexBins,
    SmoothECE,
)
from riskalign.methods.curve import ReliabilityCurve
from riskalign.results import CalibrationResult
from riskalign.sketch import CalibrationSketch, calibration_error_of_batches
from riskalign.testing import calibration_test, compare

if TYPE_CHECKING:
    from riskalign.sklearn import KernelCalibrator as KernelCalibrator
    from riskalign.sklearn import calibration_scorer as calibration_scorer

__all__ = [
    "AlwaysZero",
    "BandwidthSearch",
    "CalibrationResult",
    "CalibrationSketch",
    "CalibrationTest",
    "Comparison",
    "EqualMassBins",
    "EqualWidthBins",
    "KernelRidge",
    "KernelSmoother",
    "ProperLoss",
    "ReliabilityCurve",
    "SimplexBins",
    "SmoothECE",
    "calibration_error",
    "calibration_error_of_batches",
    "calibration_test",
    "compare",
    "datasets",
    "plots",
    "reliability_curve",
    "select_bandwidth",
]
__version__ = "0.1.0"

_FOR_SKLEARN = ("KernelCalibrator", "calibration_scorer")  # beside __all__, which needs no extra


def __dir__() -> list[str]:
    """All public names."""
    return [*__all__, *_FOR_SKLEARN, "__version__"]


def __getattr__(name: str) -> Any:
    """Names that need scikit-learn, imported when they are first used."""
    if name not in _FOR_SKLEARN:
        raise AttributeError(f"module 'riskalign' has no attribute {name!r}")
    try:
        from riskalign import sklearn
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] != "sklearn":
            raise
        raise ImportError(
            f"riskalign.{name} needs scikit-learn: pip install 'riskalign[sklearn]'."
        ) from None
    return getattr(sklearn, name)
