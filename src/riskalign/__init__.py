"""Calibration errors of classifiers, from smooth estimates of E[y | f] without bins."""

from typing import TYPE_CHECKING, Any

from riskalign import datasets, plots
from riskalign.bandwidth.result import BandwidthSearch
from riskalign.data.limits import SlowWarning
from riskalign.equations.losses import ProperLoss
from riskalign.estimate import (
    calibration_error,
    isotonic_band,
    reliability_curve,
    select_bandwidth,
)
from riskalign.inference.alarm import Alarm
from riskalign.inference.calibration_test import CalibrationTest
from riskalign.inference.comparison import Comparison
from riskalign.methods import (
    AlwaysZero,
    EqualMassBins,
    EqualWidthBins,
    Isotonic,
    KernelRidge,
    KernelSmoother,
    Kuiper,
    SimplexBins,
    SmoothECE,
    Spiegelhalter,
)
from riskalign.methods.curve import ReliabilityCurve
from riskalign.methods.isotonic import IsotonicBand
from riskalign.recalibration.fitted import FittedCalibrator, fit_calibrator, load_calibrator
from riskalign.recalibration.gains import Gain, recalibration_gains
from riskalign.results import CalibrationResult
from riskalign.sketches.batches import calibration_error_of_batches, sketch_batches
from riskalign.sketches.history import CalibrationHistory
from riskalign.sketches.sketch import CalibrationSketch
from riskalign.testing import calibration_test, compare

if TYPE_CHECKING:
    from riskalign.sklearn import KernelCalibratedClassifierCV as KernelCalibratedClassifierCV
    from riskalign.sklearn import KernelCalibrator as KernelCalibrator
    from riskalign.sklearn import calibration_scorer as calibration_scorer

__all__ = [
    "Alarm",
    "AlwaysZero",
    "BandwidthSearch",
    "CalibrationHistory",
    "CalibrationResult",
    "CalibrationSketch",
    "CalibrationTest",
    "Comparison",
    "EqualMassBins",
    "EqualWidthBins",
    "FittedCalibrator",
    "Gain",
    "Isotonic",
    "IsotonicBand",
    "KernelRidge",
    "KernelSmoother",
    "Kuiper",
    "ProperLoss",
    "ReliabilityCurve",
    "SimplexBins",
    "SlowWarning",
    "SmoothECE",
    "Spiegelhalter",
    "calibration_error",
    "calibration_error_of_batches",
    "calibration_test",
    "compare",
    "datasets",
    "fit_calibrator",
    "isotonic_band",
    "load_calibrator",
    "plots",
    "recalibration_gains",
    "reliability_curve",
    "select_bandwidth",
    "sketch_batches",
]
__version__ = "0.2.0"

_FOR_SKLEARN = (  # beside __all__, which needs no extra
    "KernelCalibratedClassifierCV",
    "KernelCalibrator",
    "calibration_scorer",
)


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
